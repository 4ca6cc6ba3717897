# Sets `prebuilt`: the build folder whose libraries `pip install .` bundles; empty: it compiles them.
# Only what the sources of now were compiled to will do: build/release says of which it is
# (python/CMakeLists.txt), and the version is among them.
include(cmake/source_digest.cmake)

# `why`: empty where the folder's libraries are those of these sources.
function(lssar_match_build folder why)
  set(${why} "" PARENT_SCOPE)
  if(NOT EXISTS ${folder}/bundled/sources.sha256)
    set(${why} "the target lssar_python was not built in ${folder}" PARENT_SCOPE)
    return()
  endif()
  file(STRINGS ${folder}/bundled/sources.sha256 built)
  lssar_source_digest(${CMAKE_CURRENT_SOURCE_DIR} now)
  if(NOT built STREQUAL now)
    set(${why} "${folder} was built of other sources" PARENT_SCOPE)
  endif()
endfunction()

set(prebuilt "")
if(LSSAR_PREBUILT STREQUAL "AUTO" OR LSSAR_PREBUILT STREQUAL "")
  if(SKBUILD)  # as pip runs CMake
    set(release ${CMAKE_CURRENT_SOURCE_DIR}/build/release)
    lssar_match_build(${release} why)
    if(why)
      message(NOTICE "lssar: compiles the library, for ${why}")
    else()
      set(prebuilt ${release})
    endif()
  endif()
elseif(LSSAR_PREBUILT)
  get_filename_component(prebuilt ${LSSAR_PREBUILT} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_SOURCE_DIR})
endif()
if(prebuilt)
  message(NOTICE "lssar: bundles what was built in ${prebuilt}")
endif()
