# cmake -DNM=... -DREADELF=... -DLIBRARY=... -DEXPECTED=symbols.txt -DSONAME=... -P check_symbols.cmake
# Fails unless the library defines exactly the dynamic symbols listed, under its soname, and needs
# no compiler library.
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY}
  OUTPUT_VARIABLE nm_output RESULT_VARIABLE nm_result)
if(NOT nm_result EQUAL 0)
  message(FATAL_ERROR "${NM} ${LIBRARY} failed: ${nm_result}")
endif()

# Lines are "address kind name@@version"; the version node itself is absolute ("A").
string(REPLACE "\n" ";" lines "${nm_output}")
set(found "")
foreach(line IN LISTS lines)
  if(line MATCHES "^[0-9a-f]+ ([A-Za-z]) ([^@ ]+)" AND NOT CMAKE_MATCH_1 STREQUAL "A")
    list(APPEND found ${CMAKE_MATCH_2})
  endif()
endforeach()
file(STRINGS ${EXPECTED} expected)
list(SORT found)
list(SORT expected)
if(NOT found STREQUAL expected)
  message(FATAL_ERROR "exported symbols differ\nfound:    ${found}\nexpected: ${expected}")
endif()

execute_process(COMMAND ${READELF} -d ${LIBRARY}
  OUTPUT_VARIABLE dynamic RESULT_VARIABLE readelf_result)
if(NOT readelf_result EQUAL 0)
  message(FATAL_ERROR "${READELF} ${LIBRARY} failed: ${readelf_result}")
endif()
if(NOT dynamic MATCHES "SONAME[^\n]*\\[${SONAME}\\]")
  message(FATAL_ERROR "soname is not ${SONAME}:\n${dynamic}")
endif()
foreach(forbidden LLVM clang nvrtc libcuda)
  if(dynamic MATCHES "NEEDED[^\n]*${forbidden}")
    message(FATAL_ERROR "links ${forbidden}, which must be opened at run time:\n${dynamic}")
  endif()
endforeach()
