# SPDX-License-Identifier: Apache-2.0
#
# Writes ${FUNCTION}.cpp: each file of FOLDER as raw string literals, a line each, since compilers bound the
# length of one literal.
set(delimiter KILN_EMBED)
set(entries "")
foreach(file ${FILES})
  file(READ ${FOLDER}/${file} text)
  string(REPLACE "\n" "\n)${delimiter}\"\nR\"${delimiter}(" text "${text}")
  string(APPEND entries "    {\"${file}\"sv, R\"${delimiter}(${text})${delimiter}\"sv},\n")
endforeach()
if(entries STREQUAL "")
  set(files "std::span<const ShippedText> ${FUNCTION}() { return {}; }")
else()
  set(files "namespace {
using namespace std::string_view_literals;
constexpr ShippedText ${FUNCTION}_files[] = {
${entries}};
}  // namespace
std::span<const ShippedText> ${FUNCTION}() { return ${FUNCTION}_files; }")
endif()
file(WRITE ${OUTPUT} "// Made by cmake/embed_texts.cmake.
#include \"tune/shipped_texts.h\"

namespace kiln {
${files}
}  // namespace kiln
")
