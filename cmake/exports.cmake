# SPDX-License-Identifier: Apache-2.0
#
# kiln_exports(TARGET): a shared library that exports what public headers declare, which is the inline namespace KILN_ABI
# (include/kiln/version.h), and nothing else. Hidden visibility alone would let the standard library's templates through,
# those of its archives too. Each symbol also has the minor version as its ELF version.
function(kiln_exports target)
  set(abi ${PROJECT_VERSION_MAJOR}_${PROJECT_VERSION_MINOR})
  set(map ${PROJECT_BINARY_DIR}/generated/exports.map)
  set(names "kiln::v${abi}::*; vtable?for?kiln::v${abi}::*; typeinfo?for?kiln::v${abi}::*;")
  file(CONFIGURE OUTPUT ${map} CONTENT "KILN_${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} {\n  global: extern \"C++\" { ${names} };\n  local: *;\n};\n" @ONLY)
  target_link_options(${target} PRIVATE -Wl,--version-script=${map} -Wl,--exclude-libs,libkiln_copies.a)
  if(NOT KILN_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${map})
endfunction()
