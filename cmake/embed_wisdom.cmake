# SPDX-License-Identifier: Apache-2.0
#
# Writes shipped_wisdom.cpp: each file of wisdom as raw string literals, a line each, since compilers bound the
# length of one literal.
set(delimiter KILN_EMBED)
set(entries "")
foreach(file ${FILES})
  file(READ ${FOLDER}/${file} text)
  string(REPLACE "\n" "\n)${delimiter}\"\nR\"${delimiter}(" text "${text}")
  string(APPEND entries "    {\"${file}\"sv, R\"${delimiter}(${text})${delimiter}\"sv},\n")
endforeach()
if(entries STREQUAL "")
  set(files "std::span<const ShippedWisdom> shipped_wisdom() { return {}; }")
else()
  set(files "namespace {
using namespace std::string_view_literals;
constexpr ShippedWisdom kFiles[] = {
${entries}};
}  // namespace
std::span<const ShippedWisdom> shipped_wisdom() { return kFiles; }")
endif()
file(WRITE ${OUTPUT} "// Made by cmake/embed_wisdom.cmake from cache/wisdom/.
#include \"tune/shipped_wisdom.h\"

namespace kiln {
${files}
}  // namespace kiln
")
