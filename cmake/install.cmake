# What other projects find an installed lssar by, and the Debian package (cpack -G DEB). The programs
# and libraries themselves are installed where they are built. Everything finds its parts from where
# it lies: an installed tree may be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# find_package(lssar): target lssar::lssar.
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/lssar)
install(EXPORT lssar NAMESPACE lssar:: FILE lssarTargets.cmake DESTINATION ${package_folder})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/lssarConfig.cmake.in
  ${CMAKE_BINARY_DIR}/cmake/lssarConfig.cmake
  INSTALL_DESTINATION ${package_folder}
)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/cmake/lssarConfigVersion.cmake
  COMPATIBILITY SameMajorVersion
)
install(FILES
  ${CMAKE_BINARY_DIR}/cmake/lssarConfig.cmake
  ${CMAKE_BINARY_DIR}/cmake/lssarConfigVersion.cmake
  DESTINATION ${package_folder}
)

# pkg-config lssar. The prefix is given from the file's own folder.
file(RELATIVE_PATH pkgconfig_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${CMAKE_CURRENT_LIST_DIR}/lssar.pc.in ${CMAKE_BINARY_DIR}/cmake/lssar.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/cmake/lssar.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/README.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME lssar)
set(CPACK_PACKAGE_VENDOR "The lssar authors")
set(CPACK_PACKAGE_CONTACT "The lssar authors <lssar@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
# As dpkg-shlibdeps finds them on Debian 12, but for LLVM's: its library is opened when it is asked
# for, and not where there is NVRTC.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.36), libgcc-s1, libstdc++6 (>= 12)")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libllvm19, libclang-cpp19")
# Brings the scripts that run ldconfig.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
include(CPack)
