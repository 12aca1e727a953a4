# SPDX-License-Identifier: Apache-2.0
#
# Writes embedded_files.cpp: each file as raw string literals, cut into pieces, since compilers bound
# the length of one literal.
set(delimiter KILN_EMBED)
set(entries "")
foreach(file ${FILES})
  file(READ ${FOLDER}/${file} text)
  string(FIND "${text}" ")${delimiter}\"" clash)
  if(NOT clash EQUAL -1)
    message(FATAL_ERROR "${file} holds the embedding delimiter )${delimiter}\"")
  endif()
  string(LENGTH "${text}" length)
  set(literal "")
  set(position 0)
  while(position LESS length)
    string(SUBSTRING "${text}" ${position} 8000 piece)
    string(APPEND literal "R\"${delimiter}(${piece})${delimiter}\"\n")
    math(EXPR position "${position} + 8000")
  endwhile()
  if(literal STREQUAL "")
    set(literal "\"\"")
  endif()
  string(APPEND entries "    {\"${file}\"sv, ${literal}sv},\n")
endforeach()
string(REPLACE "\"\nsv" "\"sv" entries "${entries}")
file(WRITE ${OUTPUT} "// Made by cmake/embed.cmake from kernels_src/.
#include \"template/embedded.h\"

namespace kiln {
namespace {
using namespace std::string_view_literals;
constexpr EmbeddedFile kFiles[] = {
${entries}};
}  // namespace
std::span<const EmbeddedFile> embedded_files() { return kFiles; }
}  // namespace kiln
")
