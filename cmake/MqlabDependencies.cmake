# What the project takes from the system, each as one imported target. All are linked statically, so that a
# wheel and the agent carry what they need.

set(MQLAB_SETUP_HINT "run `make setup`, which installs it (or names it, where it cannot)")

find_package(nlohmann_json 3.10 QUIET)
if(NOT nlohmann_json_FOUND)
  message(FATAL_ERROR "nlohmann/json was not found: ${MQLAB_SETUP_HINT}")
endif()

# CMake's own FindBoost knows no release newer than itself; the config files that Boost ships always match.
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.74 QUIET CONFIG COMPONENTS context)
if(NOT Boost_FOUND)
  message(FATAL_ERROR "Boost.Context 1.74 or newer was not found: ${MQLAB_SETUP_HINT}")
endif()

if(MQLAB_TESTS)
  find_path(MQLAB_DOCTEST_INCLUDE doctest/doctest.h)
  find_path(MQLAB_RAPIDCHECK_INCLUDE rapidcheck.h)
  find_library(MQLAB_RAPIDCHECK_LIBRARY NAMES librapidcheck.a rapidcheck)
  if(NOT MQLAB_DOCTEST_INCLUDE OR NOT MQLAB_RAPIDCHECK_INCLUDE OR NOT MQLAB_RAPIDCHECK_LIBRARY)
    message(FATAL_ERROR "doctest or rapidcheck was not found: ${MQLAB_SETUP_HINT}")
  endif()
  add_library(mqlab_test_tools INTERFACE)
  target_include_directories(
    mqlab_test_tools SYSTEM INTERFACE "${MQLAB_DOCTEST_INCLUDE}" "${MQLAB_RAPIDCHECK_INCLUDE}")
  target_link_libraries(mqlab_test_tools INTERFACE "${MQLAB_RAPIDCHECK_LIBRARY}")
endif()

if(MQLAB_BENCH)
  find_package(benchmark QUIET)
  if(NOT benchmark_FOUND)
    message(FATAL_ERROR "Google Benchmark was not found: ${MQLAB_SETUP_HINT}")
  endif()
endif()
