# SPDX-License-Identifier: Apache-2.0
#
# Debian packages, by CPack: libkiln0 (the shared library; the number is that of its SONAME), libkiln-tools0.1, libkiln-dev and
# kiln (the programs). scripts/package configures a build for them, makes them and checks them. Only for shared libraries.
if(NOT (BUILD_SHARED_LIBS AND KILN_BUILD_CLI))
  return()
endif()
get_target_property(c_abi kiln SOVERSION)
get_target_property(tools_abi kiln-tools SOVERSION)
set(package_of_runtime libkiln${c_abi})
set(package_of_tools libkiln-tools${tools_abi})
set(package_of_development libkiln-dev)
set(package_of_programs kiln)

# What Debian asks of each package: a copyright file and a changelog.
set(debian_changelog ${PROJECT_BINARY_DIR}/generated/changelog.Debian)
file(WRITE ${debian_changelog}.new "kiln (${PROJECT_VERSION}-1) unstable; urgency=medium\n\n  * Packages of this release; CHANGELOG.md of libkiln-dev says what changed.\n\n -- Kiln maintainers <maintainers@kiln.example>  Sun, 22 Nov 2026 00:00:00 +0000\n")
configure_file(${debian_changelog}.new ${debian_changelog} COPYONLY)
find_program(GZIP gzip REQUIRED)
execute_process(COMMAND ${GZIP} -9nkf ${debian_changelog})
set(components runtime tools development programs)
foreach(component ${components})
  install(FILES ${debian_changelog}.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package_of_${component}} COMPONENT ${component})
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/debian/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package_of_${component}}
    COMPONENT ${component})
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/debian/lintian-overrides.${component} DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides
    RENAME ${package_of_${component}} COMPONENT ${component})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME kiln)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "Kiln maintainers <maintainers@kiln.example>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "GPU kernels, specialised and compiled at run time")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY =)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# kiln_package(COMPONENT SECTION SUMMARY DETAILS [FIELD VALUE]...)
function(kiln_package component section summary details)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package_of_${component}} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_FILE_NAME DEB-DEFAULT PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${details}" PARENT_SCOPE)
  while(ARGN)
    list(POP_FRONT ARGN field value)
    set(CPACK_DEBIAN_${upper}_PACKAGE_${field} "${value}" PARENT_SCOPE)
  endwhile()
endfunction()
set(same "(= ${PROJECT_VERSION}-1)")
kiln_package(runtime libs "GPU kernels, specialised and compiled at run time - library"
  "Kiln takes GPU kernels as CUDA C++ templates, specialises and compiles them\nfor the device that is there, and keeps them in a cache.\nThis package has the shared library."
  RECOMMENDS "kiln ${same}" SUGGESTS "g++, libssl3 | libssl3t64")
kiln_package(tools libs "GPU kernels, specialised and compiled at run time - library of tools"
  "Analysis, reports, profiling, regression and benchmarks of Kiln's kernels,\nwhich the programs use.\nThis package has the shared library.")
kiln_package(development libdevel "GPU kernels, specialised and compiled at run time - development files"
  "Headers for C++ and C, files for CMake and pkg-config, the kernel templates to\nread, documents and examples."
  DEPENDS "${package_of_runtime} ${same}, ${package_of_tools} ${same}, kiln ${same}")
kiln_package(programs devel "GPU kernels, specialised and compiled at run time - programs"
  "The programs kiln and jit-gemm, which build, run, check, analyse, tune and\npack kernels, and the process in which the library compiles in the background."
  RECOMMENDS "g++")
include(CPack)
