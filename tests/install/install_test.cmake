# SPDX-License-Identifier: Apache-2.0
#
# Installs KILN_BUILD_DIR into a fresh prefix, builds and runs a user's project against it, moves the prefix
# elsewhere, and does it all again. WORK_DIR is emptied first; CONFIGURE holds options for every configuring.
cmake_minimum_required(VERSION 3.22)
set(user_project ${CMAKE_CURRENT_LIST_DIR})
get_filename_component(kiln_source ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)

# Nothing of this environment may stand in for what was installed.
foreach(name KILN_COMPILE_WORKER KILN_TEMPLATE_PATH LD_LIBRARY_PATH CMAKE_PREFIX_PATH)
  unset(ENV{${name}})
endforeach()
set(ENV{KILN_CACHE_DIR} ${WORK_DIR}/cache)

# run(COMMAND...): it must succeed; what it printed is left in `output`.
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

function(expect pattern)
  if(NOT output MATCHES "${pattern}")
    message(FATAL_ERROR "the output above does not match '${pattern}'")
  endif()
endfunction()

# check(NAME): the prefix WORK_DIR/NAME serves its programs and a user's project.
function(check name)
  set(prefix ${WORK_DIR}/${name})
  run(${prefix}/bin/jit-gemm --version)
  expect("${KILN_VERSION}")
  run(${prefix}/bin/jit-gemm --list-kernels)
  expect("gemm_tiled")
  run(${prefix}/bin/kiln --version)
  expect("${KILN_VERSION}")
  run(${prefix}/bin/kiln completion bash)
  expect("complete .*-F _kiln kiln")
  foreach(program kiln jit-gemm)
    run(sh -c "gzip -cd ${prefix}/share/man/man1/${program}.1.gz")
    string(REPLACE "\\-" "-" output "${output}")
    expect("--backend NAME")
    foreach(file bash-completion/completions/${program} fish/vendor_completions.d/${program}.fish zsh/site-functions/_kiln)
      if(NOT EXISTS ${prefix}/share/${file})
        message(FATAL_ERROR "share/${file} was not installed")
      endif()
    endforeach()
  endforeach()

  # Whether hipRTC is here or not: the worker program must be found, and start.
  execute_process(COMMAND ${prefix}/bin/jit-gemm --arch gfx90a --compile-only --no-cache
    WORKING_DIRECTORY ${WORK_DIR} OUTPUT_VARIABLE output ERROR_VARIABLE output)
  message("$ jit-gemm --arch gfx90a --compile-only --no-cache\n${output}")
  if(output MATCHES "kiln-compile-worker")
    message(FATAL_ERROR "the worker program was not found, or did not start")
  endif()
  execute_process(COMMAND ${prefix}/libexec/kiln/kiln-compile-worker INPUT_FILE /dev/null ERROR_VARIABLE output)
  expect("^kiln-compile-worker: ")

  run(${CMAKE_COMMAND} -S ${user_project} -B ${WORK_DIR}/user-of-${name} -DCMAKE_PREFIX_PATH=${prefix}
    -DKILN_COMPONENTS=tools ${CONFIGURE})
  run(${CMAKE_COMMAND} --build ${WORK_DIR}/user-of-${name})
  run(${WORK_DIR}/user-of-${name}/user_gemm)
  expect("of the bound")
  run(${WORK_DIR}/user-of-${name}/user_tools)
  expect("^1 wavefronts")
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR})
run(${CMAKE_COMMAND} --install ${KILN_BUILD_DIR} --prefix ${WORK_DIR}/prefix)

# The package names no folder of the machine it was built on.
file(GLOB package_files ${WORK_DIR}/prefix/lib*/cmake/kiln/*.cmake ${WORK_DIR}/prefix/lib/*/cmake/kiln/*.cmake)
if(NOT package_files)
  message(FATAL_ERROR "no package files were installed")
endif()
foreach(file ${package_files})
  file(READ ${file} text)
  foreach(leak ${kiln_source} ${KILN_BUILD_DIR} kiln_flags -ffile-prefix-map)
    # Where it begins a path: a folder like /kiln is a part of others.
    string(REGEX REPLACE "([][+.*()^$?|\\\\])" "\\\\\\1" pattern "${leak}")
    if(text MATCHES "(^|[^A-Za-z0-9_.}/-])${pattern}")
      message(FATAL_ERROR "${file} names ${leak}")
    endif()
  endforeach()
endforeach()

check(prefix)
file(RENAME ${WORK_DIR}/prefix ${WORK_DIR}/moved)
if(NOT KILN_SHARED)
  run(${WORK_DIR}/user-of-prefix/user_gemm)
endif()
check(moved)

# A program that is built by hand.
find_program(PKG_CONFIG pkg-config)
if(PKG_CONFIG AND NOT CONFIGURE MATCHES "fsanitize")
  string(REGEX REPLACE ".*-DCMAKE_CXX_COMPILER=([^;]*);.*" "\\1" compiler "${CONFIGURE};")
  file(GLOB_RECURSE description ${WORK_DIR}/moved/kiln.pc)
  get_filename_component(directory ${description} DIRECTORY)
  set(ENV{PKG_CONFIG_PATH} ${directory})
  set(ENV{LD_LIBRARY_PATH} ${directory}/..)
  run(sh -c "${compiler} -std=c++20 ${kiln_source}/examples/embed_scale.cpp $(${PKG_CONFIG} --cflags --libs kiln) -o by_hand")
  run(./by_hand)
  expect("scaled 1000 numbers")
  unset(ENV{LD_LIBRARY_PATH})
endif()

# The examples that were installed are a project of their own.
file(GLOB examples ${WORK_DIR}/moved/share/doc/*/examples)
run(${CMAKE_COMMAND} -S ${examples} -B ${WORK_DIR}/examples -DCMAKE_PREFIX_PATH=${WORK_DIR}/moved ${CONFIGURE})
run(${CMAKE_COMMAND} --build ${WORK_DIR}/examples --target example_shipped_kernels)
run(${CMAKE_CTEST_COMMAND} --test-dir ${WORK_DIR}/examples -R examples.shipped_kernels --output-on-failure)
expect("1/1 Test +#[0-9]+: examples.shipped_kernels [.]+ +Passed")

# Before 1.0 a minor version may change the API.
execute_process(COMMAND ${CMAKE_COMMAND} -S ${user_project} -B ${WORK_DIR}/older -DCMAKE_PREFIX_PATH=${WORK_DIR}/moved
  -DKILN_WANTED=0.0 ${CONFIGURE} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
expect("compatible[ \n]+with[ \n]+requested[ \n]+version[ \n]+\"0.0\"")

# And as a part of the user's project: only configured, since building all of it again takes minutes.
run(${CMAKE_COMMAND} -S ${user_project} -B ${WORK_DIR}/with-source -DKILN_SOURCE_DIR=${kiln_source} ${CONFIGURE})
file(REMOVE_RECURSE ${WORK_DIR})
