# cmake -DBUILD=... -DPROJECT=... -DFOLDER=... -DCC=... -DGENERATOR=... -DLIBDIR=... -DVERSION=...
#       -DCOMPILER=auto|llvm -DPKG_CONFIG=... -P outside.cmake
# Installs the build, moves what was installed, and builds and runs PROJECT against it.
set(ENV{LD_LIBRARY_PATH} "")
unset(ENV{LSSAR_LLVM_PATH})
unset(ENV{LSSAR_TUNE_WORKER})

# The command's output in `output`; anything but exit code 0 ends the script.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT result EQUAL 0)
    string(JOIN " " command ${ARGN})
    message(FATAL_ERROR "${command}\n${result}: ${text}")
  endif()
  set(output "${text}" PARENT_SCOPE)
endfunction()

function(expect_output wanted)
  if(NOT output MATCHES "${wanted}")
    message(FATAL_ERROR "output is not '${wanted}' but:\n${output}")
  endif()
endfunction()

set(prefix ${FOLDER}/moved/lssar)
file(REMOVE_RECURSE ${FOLDER})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${FOLDER}/installed)
file(MAKE_DIRECTORY ${FOLDER}/moved)
file(RENAME ${FOLDER}/installed ${prefix})
# An installed library that still looked into the build would not be found out by running it.
file(GLOB_RECURSE programs ${prefix}/bin/* ${prefix}/libexec/* ${prefix}/${LIBDIR}/*.so*)
foreach(program IN LISTS programs)
  file(STRINGS ${program} paths LIMIT_COUNT 1 REGEX "${BUILD}/(lib|bin)")
  if(paths)
    message(FATAL_ERROR "${program} names the build folder: ${paths}")
  endif()
endforeach()

run(${prefix}/bin/lssar --version)
expect_output("^${VERSION}\n$")

run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${PROJECT} -B ${FOLDER}/build -DCMAKE_C_COMPILER=${CC}
  -DCMAKE_PREFIX_PATH=${prefix})
run(${CMAKE_COMMAND} --build ${FOLDER}/build)
run(${FOLDER}/build/outside ${COMPILER})
expect_output("lssar ${VERSION}, header ${VERSION}\n$")

if(NOT PKG_CONFIG)
  message("no pkg-config here: not tried")
  return()
endif()
set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
run(${PKG_CONFIG} --modversion lssar)
expect_output("^${VERSION}\n$")
run(${PKG_CONFIG} --cflags --libs lssar)
separate_arguments(flags UNIX_COMMAND "${output}")
run(${CC} ${PROJECT}/program.c -o ${FOLDER}/by_pkg_config ${flags})
set(ENV{LD_LIBRARY_PATH} ${prefix}/${LIBDIR})
run(${FOLDER}/by_pkg_config ${COMPILER})
expect_output("lssar ${VERSION}, header ${VERSION}\n$")
