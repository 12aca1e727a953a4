# SPDX-License-Identifier: Apache-2.0
#
# KILN_FUZZ: one fuzzer per parser of what others may have written (tests/fuzz/NAME_fuzzer.cpp; libFuzzer with
# AddressSanitizer and UndefinedBehaviorSanitizer), and fuzz-seeds, which writes inputs to start from; the
# target `fuzzers` builds them and nothing else. scripts/fuzz runs them. Only the files that hold the parsers
# are compiled, into an archive, so that each fuzzer links what it uses.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  message(FATAL_ERROR "KILN_FUZZ needs Clang, which brings libFuzzer: -DCMAKE_CXX_COMPILER=clang++")
endif()

file(GLOB fuzzed CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/format/*.cpp ${PROJECT_SOURCE_DIR}/src/base/*.cpp ${PROJECT_SOURCE_DIR}/src/template/*.cpp
  ${PROJECT_SOURCE_DIR}/src/tools/analysis/*.cpp)
foreach(file compile/compile_protocol cache/build_key cache/disk_files cache/disk_state cache/disk_temporary
    cache/entry cache/key_compare cache/key_source cache/key_text cache/line_diff cache/pack_format
    cache/pack_writer cache/redis_reply cache/redis_url cache/remote_value cache/seed_pack
    cache/trust)
  list(APPEND fuzzed ${PROJECT_SOURCE_DIR}/src/${file}.cpp)
endforeach()

add_library(kiln_fuzzed STATIC EXCLUDE_FROM_ALL ${fuzzed} ${PROJECT_BINARY_DIR}/generated/embedded_files.cpp)
# Files of several layers, whose names need not be apart.
set_target_properties(kiln_fuzzed PROPERTIES UNITY_BUILD OFF)
target_include_directories(kiln_fuzzed PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/tools ${PROJECT_SOURCE_DIR}/include)
target_compile_options(kiln_fuzzed PUBLIC -fsanitize=fuzzer-no-link,address,undefined
  -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1)
target_link_options(kiln_fuzzed PUBLIC -fsanitize=address,undefined)
target_link_libraries(kiln_fuzzed PUBLIC kiln_flags kiln_sodium kiln_xxhash kiln_hiredis Threads::Threads
  ${CMAKE_DL_LIBS})

add_executable(fuzz-seeds EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/fuzz/seeds.cpp)
target_link_libraries(fuzz-seeds PRIVATE kiln_fuzzed)
add_custom_target(fuzzers DEPENDS fuzz-seeds)
file(GLOB fuzzers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzzer.cpp)
foreach(source ${fuzzers})
  get_filename_component(fuzzer ${source} NAME_WE)
  add_executable(${fuzzer} EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${fuzzer} PRIVATE kiln_fuzzed)
  target_link_options(${fuzzer} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzzers ${fuzzer})
endforeach()
