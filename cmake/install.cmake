# SPDX-License-Identifier: Apache-2.0
#
# cmake --install: the libraries that were built with their headers and package files (find_package(kiln) gives
# kiln::kiln, its component tools kiln::tools; pkg-config knows kiln), the programs, and a copy of the templates to read. All of it may be moved as a whole afterwards.
if(NOT KILN_INSTALL)
  return()
endif()
include(GNUInstallDirs)
set(KILN_ZSH_COMPLETIONS site-functions CACHE STRING "Where in share/zsh completion is installed; Debian's packages have vendor-completions")
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
  install(TARGETS ${program} ${ARGN} RUNTIME DESTINATION ${directory} COMPONENT programs)
endfunction()

# Components are the packages of cmake/package.cmake: runtime (libkiln), tools (libkiln-tools), development, programs.
install(TARGETS kiln EXPORT kiln-targets LIBRARY COMPONENT runtime NAMELINK_COMPONENT development ARCHIVE COMPONENT development
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kiln DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} PATTERN tools EXCLUDE)
if(KILN_BUILD_TOOLS)
  set_target_properties(kiln-tools PROPERTIES INSTALL_RPATH $ORIGIN)
  install(TARGETS kiln-tools EXPORT kiln-tools-targets LIBRARY COMPONENT tools NAMELINK_COMPONENT development
    ARCHIVE COMPONENT development INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kiln/tools DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kiln)
  install(EXPORT kiln-tools-targets NAMESPACE kiln:: DESTINATION ${package_dir})
endif()
set_target_properties(kiln-compile-worker PROPERTIES EXPORT_NAME compile-worker)
kiln_install_program(kiln-compile-worker ${worker_dir} EXPORT kiln-targets)
if(KILN_BUILD_CLI)
  kiln_install_program(jit-gemm ${CMAKE_INSTALL_BINDIR})
  kiln_install_program(kiln-program ${CMAKE_INSTALL_BINDIR})
  foreach(program kiln jit-gemm)
    install(FILES ${PROJECT_SOURCE_DIR}/src/cli/kiln/completion.bash
      DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ${program} COMPONENT programs)
    install(FILES ${PROJECT_SOURCE_DIR}/src/cli/kiln/completion.fish
      DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME ${program}.fish COMPONENT programs)
  endforeach()
  install(FILES ${PROJECT_SOURCE_DIR}/src/cli/kiln/completion.zsh
    DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${KILN_ZSH_COMPLETIONS} RENAME _kiln COMPONENT programs)
  # What the programs print with --help, as man pages.
  if(NOT CMAKE_CROSSCOMPILING)
    set(pages "")
    foreach(program kiln-program jit-gemm)
      string(REPLACE -program "" name ${program})
      set(page ${PROJECT_BINARY_DIR}/generated/${name}.1.gz)
      add_custom_command(OUTPUT ${page}
        COMMAND sh -c "\"$0\" \"$1\" $2 | gzip -9n" ${PROJECT_SOURCE_DIR}/scripts/man $<TARGET_FILE:${program}> ${name} > ${page}
        DEPENDS ${program} ${PROJECT_SOURCE_DIR}/scripts/man COMMENT "Making the man page of ${name}" VERBATIM)
      list(APPEND pages ${page})
    endforeach()
    add_custom_target(man ALL DEPENDS ${pages})
    install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT programs)
  endif()
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/kernels_src/ DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln/kernels
  FILES_MATCHING PATTERN *.cu PATTERN *.h)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/THIRD_PARTY.txt DESTINATION ${CMAKE_INSTALL_DOCDIR})
# The documents as they lie in the tree, so that their links lead somewhere.
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/ARCHITECTURE.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md ${PROJECT_SOURCE_DIR}/SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN *.md PATTERN *.svg)
install(FILES ${PROJECT_SOURCE_DIR}/cache/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/cache)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR} USE_SOURCE_PERMISSIONS)
# The API reference, where scripts/docs has made it.
install(DIRECTORY ${PROJECT_BINARY_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/html OPTIONAL)

install(EXPORT kiln-targets NAMESPACE kiln:: DESTINATION ${package_dir})
# The packages that a static library needs besides.
set(kiln_pkgconfig_packages "libsodium libxxhash")
set(kiln_links_openssl OFF)
if(KILN_WITH_REDIS)
  string(APPEND kiln_pkgconfig_packages " hiredis")
  if(KILN_TLS AND KILN_STATIC_DEPS)
    set(kiln_links_openssl ON)
  endif()
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
  if(kiln_links_openssl)
    string(APPEND kiln_pc_requires " libssl libcrypto")
  endif()
  string(PREPEND kiln_pc_libs "-lboost_context ")
  string(APPEND kiln_pc_libs " -ldl")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/kiln.pc.in ${PROJECT_BINARY_DIR}/generated/kiln.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/generated/kiln.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

include(cmake/package.cmake)
