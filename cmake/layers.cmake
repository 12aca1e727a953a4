# SPDX-License-Identifier: Apache-2.0
#
# kiln_layer(FOLDER DEPENDENCY...): an object library kiln_NAME from src/FOLDER/*.cpp; NAME is the last part of
# FOLDER. Each layer has an include root of its own that holds nothing but a link to its folder, so
# "cache/disk_cache.h" resolves only in targets that name cache as a dependency.

function(kiln_layer folder)
  get_filename_component(name ${folder} NAME)
  set(target kiln_${name})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp)
  set(root ${PROJECT_BINARY_DIR}/layers/${name})
  file(MAKE_DIRECTORY ${root})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${folder} ${root}/${name} SYMBOLIC)
  add_library(${target} OBJECT ${sources})
  kiln_hide(${target})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${root}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_link_libraries(${target} PRIVATE kiln_flags)
  foreach(dependency ${ARGN})
    target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/layers/${dependency})
  endforeach()
endfunction()

# kiln_hide(TARGET): of what it compiles, only the namespace KILN_ABI is seen outside the library or program that it is
# linked into, be that an application's.
function(kiln_hide target)
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# kiln_leave_out(TARGET NAME...): these of its files, NAME.cpp, are not compiled.
function(kiln_leave_out target)
  get_target_property(sources ${target} SOURCES)
  foreach(name ${ARGN})
    list(FILTER sources EXCLUDE REGEX "/${name}\\.cpp$")
  endforeach()
  set_property(TARGET ${target} PROPERTY SOURCES ${sources})
endfunction()

# kiln_copies(LAYER NAME...): these files, src/LAYER/NAME.cpp, once more in the archive kiln_copies, for a shared library
# that hides them.
function(kiln_copies layer)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/src/${layer}/)
  list(TRANSFORM ARGN APPEND .cpp)
  set(objects kiln_copies_of_${layer})
  add_library(${objects} OBJECT EXCLUDE_FROM_ALL ${ARGN})
  kiln_hide(${objects})
  target_include_directories(${objects} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/kernels_src
    ${PROJECT_BINARY_DIR}/layers/${layer} ${PROJECT_BINARY_DIR}/layers/base)
  target_link_libraries(${objects} PRIVATE kiln_flags)
  target_sources(kiln_copies PRIVATE $<TARGET_OBJECTS:${objects}>)
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

# kiln_embed_texts(TARGET FOLDER FUNCTION): every .txt in FOLDER becomes part of TARGET, and FUNCTION() returns them.
function(kiln_embed_texts target folder function)
  file(GLOB files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/${folder} ${PROJECT_SOURCE_DIR}/${folder}/*.txt)
  list(SORT files)
  list(TRANSFORM files PREPEND ${PROJECT_SOURCE_DIR}/${folder}/ OUTPUT_VARIABLE paths)
  set(output ${PROJECT_BINARY_DIR}/generated/${function}.cpp)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${PROJECT_SOURCE_DIR}/${folder} "-DFILES=${files}" -DFUNCTION=${function} -DOUTPUT=${output}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_texts.cmake
    DEPENDS ${paths} ${PROJECT_SOURCE_DIR}/cmake/embed_texts.cmake
    COMMENT "Embedding ${folder}" VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()

# kiln_library(NAME LAYER...): the library NAME of these layers, static unless BUILD_SHARED_LIBS; a shared one exports the
# public API only. kiln_internals gives tests and the compile worker the headers of all layers, and what lies in them.
add_library(kiln_internals INTERFACE)
target_link_libraries(kiln_internals INTERFACE kiln_flags)

function(kiln_library name)
  add_library(${name})
  kiln_link_layers(${name} ${ARGN})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_compile_features(${name} PUBLIC cxx_std_20)
  foreach(layer ${ARGN})
    target_include_directories(kiln_internals INTERFACE ${PROJECT_BINARY_DIR}/layers/${layer})
  endforeach()
  if(BUILD_SHARED_LIBS)
    kiln_exports(${name} ${ARGN})
    add_library(${name}_archive STATIC)
    kiln_link_layers(${name}_archive ${ARGN})
    target_include_directories(kiln_internals INTERFACE ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(kiln_internals INTERFACE ${name}_archive)
  else()
    target_link_options(${name} INTERFACE LINKER:--gc-sections)  # a sixth of what an application takes in
    target_link_libraries(kiln_internals INTERFACE ${name})
  endif()
endfunction()

# kiln_shared_twin(NAME LAYER...): the library NAME once more, shared, for tests of a build whose libraries are static.
function(kiln_shared_twin name)
  add_library(${name}_shared SHARED)
  kiln_link_layers(${name}_shared ${ARGN})
  target_include_directories(${name}_shared PUBLIC ${PROJECT_SOURCE_DIR}/include)
  target_compile_features(${name}_shared PUBLIC cxx_std_20)
  set_target_properties(${name}_shared PROPERTIES OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/shared)
  kiln_exports(${name}_shared ${ARGN})
endfunction()

function(kiln_link_layers target)
  foreach(layer ${ARGN})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:kiln_${layer}>)
  endforeach()
  target_link_libraries(${target} PRIVATE
    $<BUILD_INTERFACE:kiln_flags>
    $<BUILD_INTERFACE:kiln_sodium> $<BUILD_INTERFACE:kiln_xxhash> $<BUILD_INTERFACE:kiln_boost_context>
    $<BUILD_INTERFACE:kiln_hiredis> $<BUILD_INTERFACE:kiln_openssl>
    PUBLIC Threads::Threads PRIVATE ${CMAKE_DL_LIBS})
endfunction()
