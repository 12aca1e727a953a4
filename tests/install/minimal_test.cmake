# SPDX-License-Identifier: Apache-2.0
#
# libkiln alone: without programs, tools and Redis it needs neither Boost.Program_options nor nlohmann-json, hiredis or
# OpenSSL, which this test hides from CMake. With BUILD, it is also built and installed, and a user's project is built
# with it. WORK_DIR is emptied first; CONFIGURE holds options for every configuring.
cmake_minimum_required(VERSION 3.22)
get_filename_component(kiln_source ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
foreach(name KILN_REMOTE CMAKE_PREFIX_PATH)
  unset(ENV{${name}})
endforeach()
set(ENV{KILN_CACHE_DIR} ${WORK_DIR}/cache)
file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR}/packages)

# pkg-config finds what libkiln needs, and no more.
foreach(package libsodium libxxhash)
  execute_process(COMMAND pkg-config --variable=pcfiledir ${package} OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(COPY ${folder}/${package}.pc DESTINATION ${WORK_DIR}/packages)
endforeach()
set(ENV{PKG_CONFIG_LIBDIR} ${WORK_DIR}/packages)
set(ENV{PKG_CONFIG_PATH} "")
list(APPEND CONFIGURE -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON -DCMAKE_DISABLE_FIND_PACKAGE_OpenSSL=ON
  -DCMAKE_DISABLE_FIND_PACKAGE_boost_program_options=ON)

function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${WORK_DIR} RESULT_VARIABLE status OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  string(REPLACE ";" " " command "${ARGN}")
  message("$ ${command}\n${output}")
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "ended with ${status}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(parts -DKILN_BUILD_CLI=OFF -DKILN_BUILD_TOOLS=OFF -DKILN_WITH_REDIS=OFF -DKILN_BUILD_TESTS=OFF -DKILN_BUILD_BENCH=OFF
  -DKILN_BUILD_EXAMPLES=OFF)
run(${CMAKE_COMMAND} -S ${kiln_source} -B ${WORK_DIR}/build ${parts} ${CONFIGURE})

# Nor does its package ask a user for them, or for fmt, which only the build needs.
file(READ ${WORK_DIR}/build/generated/kiln-config.cmake text)
string(REGEX REPLACE "#[^\n]*" "" text "${text}")
foreach(package fmt hiredis program_options nlohmann "if\\(ON\\)[^)]*openssl")
  if(text MATCHES "${package}")
    message(FATAL_ERROR "kiln-config.cmake asks for ${package}")
  endif()
endforeach()

# What a part needs is asked for where it is on.
execute_process(COMMAND ${CMAKE_COMMAND} -S ${kiln_source} -B ${WORK_DIR}/with-redis ${parts} -DKILN_WITH_REDIS=ON ${CONFIGURE}
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(status EQUAL 0 OR NOT output MATCHES "hiredis")
  message(FATAL_ERROR "hiredis is hidden, and KILN_WITH_REDIS=ON did not ask for it:\n${output}")
endif()

if(BUILD)
  run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
  run(${CMAKE_COMMAND} --install ${WORK_DIR}/build --prefix ${WORK_DIR}/prefix)
  if(EXISTS ${WORK_DIR}/prefix/include/kiln/tools OR EXISTS ${WORK_DIR}/prefix/bin)
    message(FATAL_ERROR "tools or programs were installed")
  endif()
  run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK_DIR}/user -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix
    -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON ${CONFIGURE})
  run(${CMAKE_COMMAND} --build ${WORK_DIR}/user)
  run(${WORK_DIR}/user/user_gemm)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK_DIR}/wants-tools -DKILN_COMPONENTS=tools
    -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix ${CONFIGURE} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(status EQUAL 0 OR NOT output MATCHES "component[ \n]+tools")
    message(FATAL_ERROR "kiln::tools was not built, and find_package did not say so:\n${output}")
  endif()
  set(ENV{KILN_REMOTE} redis://someone:secret@cache.example)
  execute_process(COMMAND ${WORK_DIR}/user/user_gemm RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(status EQUAL 0 OR NOT output MATCHES "redis://cache.example:6379/0.*built without Redis" OR output MATCHES "secret")
    message(FATAL_ERROR "KILN_REMOTE without Redis: ended with ${status}\n${output}")
  endif()
endif()
file(REMOVE_RECURSE ${WORK_DIR})
