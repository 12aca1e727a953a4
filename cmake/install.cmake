# SPDX-License-Identifier: Apache-2.0
#
# cmake --install: the libraries that were built with their headers and package files (find_package(kiln) gives
# kiln::kiln, its component tools kiln::tools; pkg-config knows kiln), the programs, and a copy of the templates to read. All of it may be moved as a whole afterwards.
if(NOT KILN_INSTALL)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kiln)
set(worker_dir ${CMAKE_INSTALL_LIBEXECDIR}/kiln)

# What a user of the static library links with it is found again on the user's machine: kiln-config.cmake
# makes kiln::dependencies of it. The shared library has linked it already.
get_target_property(library_type kiln TYPE)
if(library_type STREQUAL STATIC_LIBRARY)
  set(library_is_static ON)
  target_link_libraries(kiln PRIVATE $<INSTALL_INTERFACE:kiln::dependencies>)
else()
  set(library_is_static OFF)
endif()

# kiln_install_program(TARGET DIRECTORY): it finds the shared library wherever the prefix is moved to.
function(kiln_install_program program directory)
  file(RELATIVE_PATH to_library /${directory} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(${program} PROPERTIES INSTALL_RPATH $ORIGIN/${to_library})
  install(TARGETS ${program} ${ARGN} RUNTIME DESTINATION ${directory})
endfunction()

install(TARGETS kiln EXPORT kiln-targets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kiln DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} PATTERN tools EXCLUDE)
if(KILN_BUILD_TOOLS)
  set_target_properties(kiln-tools PROPERTIES INSTALL_RPATH $ORIGIN)
  install(TARGETS kiln-tools EXPORT kiln-tools-targets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kiln/tools DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kiln)
  install(EXPORT kiln-tools-targets NAMESPACE kiln:: DESTINATION ${package_dir})
endif()
set_target_properties(kiln-compile-worker PROPERTIES EXPORT_NAME compile-worker)
kiln_install_program(kiln-compile-worker ${worker_dir} EXPORT kiln-targets)
if(KILN_BUILD_CLI)
  kiln_install_program(jit-gemm ${CMAKE_INSTALL_BINDIR})
  kiln_install_program(kiln-program ${CMAKE_INSTALL_BINDIR})
  install(FILES ${PROJECT_SOURCE_DIR}/src/cli/kiln/completion.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME kiln)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/kernels_src/ DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln/kernels
  FILES_MATCHING PATTERN *.cu PATTERN *.h)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR} USE_SOURCE_PERMISSIONS)
# The API reference, where scripts/docs has made it.
install(DIRECTORY ${PROJECT_BINARY_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/html OPTIONAL)

install(EXPORT kiln-targets NAMESPACE kiln:: DESTINATION ${package_dir})
# The packages that a static library needs besides.
set(kiln_pkgconfig_packages "libsodium libxxhash")
set(kiln_with_tls OFF)
if(KILN_WITH_REDIS)
  string(APPEND kiln_pkgconfig_packages " hiredis")
  set(kiln_with_tls ${KILN_TLS})
endif()
string(REPLACE " " ", " kiln_named_packages ${kiln_pkgconfig_packages})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/kiln-config.cmake.in
  ${PROJECT_BINARY_DIR}/generated/kiln-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/kiln-config-version.cmake
  COMPATIBILITY SameMinorVersion)  # before 1.0 a minor version may change the API
install(FILES ${PROJECT_BINARY_DIR}/generated/kiln-config.cmake
  ${PROJECT_BINARY_DIR}/generated/kiln-config-version.cmake DESTINATION ${package_dir})

# The same for pkg-config. A static library brings what it was linked with.
file(RELATIVE_PATH kiln_prefix_of_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
set(kiln_pc_requires "")
set(kiln_pc_libs "-pthread")
if(library_is_static)
  set(kiln_pc_requires ${kiln_pkgconfig_packages})
  if(kiln_with_tls)
    string(APPEND kiln_pc_requires " libssl libcrypto")
  endif()
  string(PREPEND kiln_pc_libs "-lboost_context ")
  string(APPEND kiln_pc_libs " -ldl")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/kiln.pc.in ${PROJECT_BINARY_DIR}/generated/kiln.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/generated/kiln.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
