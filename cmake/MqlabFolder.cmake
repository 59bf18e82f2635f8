# mqlab_folder(NAME [LINKS folder...] [LIBRARIES target...])
#
# Makes core/NAME the target mqlab_NAME: a static library of its .cc files, or an INTERFACE library while it has
# none. LINKS names the folders that it may include; scripts/check_arrows.py reads them here too.
#
# A folder's headers are reached through an include root of its own, <build>/include/NAME, which holds nothing but
# the link NAME -> core/NAME. So `#include "blk/tags.h"` compiles only in targets that link mqlab_blk, directly or
# through the arrows, and an include against an arrow fails to compile.
function(mqlab_folder name)
  cmake_parse_arguments(arg "" "" "LINKS;LIBRARIES" ${ARGN})
  set(target "mqlab_${name}")
  set(root "${PROJECT_BINARY_DIR}/include/${name}")
  file(MAKE_DIRECTORY "${root}")
  file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}" "${root}/${name}" SYMBOLIC)

  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$")
  list(TRANSFORM arg_LINKS PREPEND "mqlab_")
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE mqlab_flags)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} "${root}")
  target_link_libraries(${target} ${scope} ${arg_LINKS} ${arg_LIBRARIES})
endfunction()
