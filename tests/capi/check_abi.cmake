# cmake -DCC=... -DHEADER=lssar.h -DMAP=lssar.map -DSONAME=... -DBASELINE=abi_baseline.xml
#       -DFOLDER=... [-DRENEW=ON] [-DREPLACE=TEXT -DBY=TEXT] -P check_abi.cmake
# Compares the ABI that the header and the version script describe (functions, structs, enumerators)
# with the baseline by libabigail's abidiff. It looks at a library of empty functions made from the
# header: with debug information, which the real one has not; that the real one exports the same is
# what check_symbols.cmake checks. REPLACE, BY: a change of the header, to see that it is found.
find_program(ABIDIFF abidiff)
find_program(ABIDW abidw)
if(NOT ABIDIFF OR NOT ABIDW)
  message("skipped: no abidiff and abidw here (Debian: abigail-tools)")
  return()
endif()

file(MAKE_DIRECTORY ${FOLDER}/lssar)
file(READ ${HEADER} header)
if(DEFINED REPLACE)
  string(REPLACE "${REPLACE}" "${BY}" changed "${header}")
  if(changed STREQUAL header)
    message(FATAL_ERROR "the header has no '${REPLACE}' to replace")
  endif()
  set(header "${changed}")
endif()
file(WRITE ${FOLDER}/lssar/lssar.h "${header}")

string(REGEX MATCHALL "\nLSSAR_API [^;]*LSSAR_NOEXCEPT;" declarations "${header}")
set(source "#include \"lssar/lssar.h\"\n")
foreach(declaration IN LISTS declarations)
  string(REPLACE "LSSAR_NOEXCEPT" "{ __builtin_trap(); }\n" definition "${declaration}")
  string(APPEND source "${definition}")
endforeach()
file(WRITE ${FOLDER}/functions.c "${source}")

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
  set(result ${result} PARENT_SCOPE)
  set(text "${text}" PARENT_SCOPE)
endfunction()

set(library ${FOLDER}/${SONAME})
run(${CC} -std=c99 -g -fPIC -shared -fvisibility=hidden -I${FOLDER} ${FOLDER}/functions.c
  -Wl,-soname,${SONAME} -Wl,--version-script=${MAP} -o ${library})
if(NOT result EQUAL 0)
  message(FATAL_ERROR "a library from the header: ${text}")
endif()

if(RENEW)
  run(${ABIDW} --no-corpus-path --no-comp-dir-path --no-show-locs --out-file ${BASELINE} ${library})
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "abidw: ${text}")
  endif()
  # No path of the machine it was made on.
  file(READ ${BASELINE} baseline)
  string(REPLACE "${FOLDER}/" "" baseline "${baseline}")
  file(WRITE ${BASELINE} "${baseline}")
  message("wrote ${BASELINE}")
  return()
endif()

run(${ABIDIFF} --no-show-locs ${BASELINE} ${library})
if(result EQUAL 0)
  message("the ABI is the baseline's")
  return()
endif()
message(FATAL_ERROR "the ABI is not that of tests/capi/abi_baseline.xml (abidiff: ${result}):
${text}
Functions, enumerators and, at the end of structs that begin with their struct_size, fields may be
appended: then renew the baseline with
  cmake --build BUILD --target lssar_renew_abi_baseline
and commit it. Anything else breaks programs that were built before: undo it, or raise
LSSAR_ABI_VERSION, the major version and the soname with it.")
