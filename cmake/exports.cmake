# SPDX-License-Identifier: Apache-2.0
#
# kiln_exports(TARGET NAME): a shared library that exports the symbols of cmake/exports/NAME.txt and no others, so that
# what a program can link with is the public API. Each symbol has the minor version as its ELF version, so that two of
# them in one process do not meet. The lines are demangled names; scripts/exports writes them.
function(kiln_exports target name)
  set(list ${PROJECT_SOURCE_DIR}/cmake/exports/${name}.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(READ ${list} names)
  # As linkers spell them; lld closes two brackets without a space.
  string(REPLACE "std::string_view" "std::basic_string_view<char, std::char_traits<char> >" names "${names}")
  string(REPLACE "std::string" "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >" names "${names}")
  string(REPLACE "> >" ">>" names_of_lld "${names}")
  string(REPLACE "> >" ">>" names_of_lld "${names_of_lld}")
  string(REGEX REPLACE "([^\n]+)\n" "    \"\\1\";\n" patterns "${names}${names_of_lld}")
  set(map ${PROJECT_BINARY_DIR}/generated/${name}.map)
  file(CONFIGURE OUTPUT ${map} CONTENT "KILN_${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} {\n  global: extern \"C++\" {\n@patterns@  };\n  local: *;\n};\n" @ONLY)
  target_link_options(${target} PRIVATE -Wl,--version-script=${map})
  if(NOT KILN_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${map})
endfunction()
