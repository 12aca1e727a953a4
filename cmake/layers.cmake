# SPDX-License-Identifier: Apache-2.0
#
# kiln_layer(FOLDER DEPENDENCY...): an object library kiln_NAME from src/FOLDER/*.cpp; NAME is the last part of
# FOLDER. Each layer has an include root of its own that holds nothing but a link to its folder, so
# "cache/disk.h" resolves only in targets that name cache as a dependency.

function(kiln_layer folder)
  get_filename_component(name ${folder} NAME)
  set(target kiln_${name})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp)
  set(root ${PROJECT_BINARY_DIR}/layers/${name})
  file(MAKE_DIRECTORY ${root})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${folder} ${root}/${name} SYMBOLIC)
  add_library(${target} OBJECT ${sources})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${root}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_link_libraries(${target} PRIVATE kiln_flags)
  foreach(dependency ${ARGN})
    target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/layers/${dependency})
  endforeach()
endfunction()

# kiln_embed(TARGET FOLDER): every .cu and .h below FOLDER becomes part of TARGET (embedded_files()).
function(kiln_embed target folder)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/${folder}
    ${PROJECT_SOURCE_DIR}/${folder}/*.cu ${PROJECT_SOURCE_DIR}/${folder}/*.h)
  list(SORT files)
  list(TRANSFORM files PREPEND ${PROJECT_SOURCE_DIR}/${folder}/ OUTPUT_VARIABLE paths)
  set(output ${PROJECT_BINARY_DIR}/generated/embedded_files.cpp)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${PROJECT_SOURCE_DIR}/${folder} "-DFILES=${files}" -DOUTPUT=${output}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${paths} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    COMMENT "Embedding ${folder}" VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()

# kiln_embed_wisdom(TARGET FOLDER): every .txt in FOLDER becomes part of TARGET (shipped_wisdom()).
function(kiln_embed_wisdom target folder)
  file(GLOB files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/${folder} ${PROJECT_SOURCE_DIR}/${folder}/*.txt)
  list(SORT files)
  list(TRANSFORM files PREPEND ${PROJECT_SOURCE_DIR}/${folder}/ OUTPUT_VARIABLE paths)
  set(output ${PROJECT_BINARY_DIR}/generated/shipped_wisdom.cpp)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${PROJECT_SOURCE_DIR}/${folder} "-DFILES=${files}" -DOUTPUT=${output}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_wisdom.cmake
    DEPENDS ${paths} ${PROJECT_SOURCE_DIR}/cmake/embed_wisdom.cmake
    COMMENT "Embedding ${folder}" VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()

# kiln_library(LAYER...): the library kiln, of all layers; static unless BUILD_SHARED_LIBS.
# kiln_internals gives tests the headers of all layers.
function(kiln_library)
  add_library(kiln)
  add_library(kiln::kiln ALIAS kiln)
  add_library(kiln_internals INTERFACE)
  foreach(layer ${ARGN})
    target_sources(kiln PRIVATE $<TARGET_OBJECTS:kiln_${layer}>)
    target_include_directories(kiln_internals INTERFACE ${PROJECT_BINARY_DIR}/layers/${layer})
  endforeach()
  target_include_directories(kiln PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_compile_features(kiln PUBLIC cxx_std_20)
  target_link_libraries(kiln PRIVATE
    $<BUILD_INTERFACE:kiln_flags>
    $<BUILD_INTERFACE:kiln_sodium> $<BUILD_INTERFACE:kiln_xxhash> $<BUILD_INTERFACE:kiln_boost_context>
    $<BUILD_INTERFACE:kiln_hiredis> $<BUILD_INTERFACE:kiln_openssl>
    PUBLIC Threads::Threads PRIVATE ${CMAKE_DL_LIBS})
  set_target_properties(kiln PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  target_link_libraries(kiln_internals INTERFACE kiln kiln_flags)
endfunction()
