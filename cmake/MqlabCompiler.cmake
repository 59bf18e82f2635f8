# Flags that every target of the project shares, as the INTERFACE target mqlab_flags.

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(MQLAB_CCACHE ccache)
  if(MQLAB_CCACHE)
    # Paths below the checkout are hashed relative to it, so that the trees below build/ share what they compile.
    set(CMAKE_CXX_COMPILER_LAUNCHER
        "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${MQLAB_CCACHE}")
  endif()
endif()

find_package(Threads REQUIRED)

add_library(mqlab_flags INTERFACE)
target_compile_options(mqlab_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
target_link_libraries(mqlab_flags INTERFACE Threads::Threads)
# Only for the compilers that the code is known to be clean with: another one's opinion must stop nobody from using it.
if(MQLAB_WERROR
   AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
   AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12
   AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15)
  target_compile_options(mqlab_flags INTERFACE -Werror)
endif()
if(MQLAB_SANITIZE)
  # What a sanitizer adds makes GCC see uninitialized values in the standard library's own code.
  target_compile_options(mqlab_flags INTERFACE -Wno-maybe-uninitialized)
  target_compile_options(
    mqlab_flags INTERFACE "-fsanitize=${MQLAB_SANITIZE}" -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(mqlab_flags INTERFACE "-fsanitize=${MQLAB_SANITIZE}")
endif()
