# SPDX-License-Identifier: Apache-2.0
#
# kiln_exports(TARGET LAYER...): a shared library that exports what public headers declare, which is the inline namespace
# KILN_ABI (include/kiln/version.h), and nothing else. Hidden visibility alone would let the standard library's templates
# through, those of its archives too. Each symbol also has the minor version as its ELF version. With the layer c, the
# functions of include/kiln/c/kiln.h are exported as well, each with the version of src/c/exports.map, and the SONAME is
# that of this C ABI: programs in C++ that need another minor version are held back by the versions of their symbols.
function(kiln_exports target)
  set(abi ${PROJECT_VERSION_MAJOR}_${PROJECT_VERSION_MINOR})
  set(map ${PROJECT_BINARY_DIR}/generated/exports-${target}.map)
  set(c_map "")
  set(soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})  # before 1.0 a minor version may change the C++ ABI
  if(c IN_LIST ARGN)
    set(c_header ${PROJECT_SOURCE_DIR}/include/kiln/c/kiln.h)
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/c/exports.map ${c_header})
    file(READ ${PROJECT_SOURCE_DIR}/src/c/exports.map c_map)
    file(STRINGS ${c_header} soversion REGEX "^#define KILN_C_ABI [0-9]+$")
    string(REGEX REPLACE ".* " "" soversion "${soversion}")
  endif()
  set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${soversion})
  set(names "kiln::v${abi}::*; vtable?for?kiln::v${abi}::*; typeinfo?for?kiln::v${abi}::*;")
  file(CONFIGURE OUTPUT ${map} CONTENT "KILN_${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} {\n  global: extern \"C++\" { ${names} };\n  local: *;\n};\n${c_map}" @ONLY)
  target_link_options(${target} PRIVATE LINKER:--gc-sections -Wl,--version-script=${map} -Wl,--exclude-libs,libkiln_copies.a)
  if(NOT KILN_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${map})
endfunction()
