# SPDX-License-Identifier: Apache-2.0
#
# What the library links. No CUDA or ROCm header or library is needed: those are opened at run time.
find_package(Threads REQUIRED)
set(Boost_USE_STATIC_LIBS ${KILN_STATIC_DEPS})
find_package(Boost 1.74 REQUIRED COMPONENTS context program_options)
find_package(PkgConfig REQUIRED)
pkg_check_modules(sodium REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)

# Our own names, so that a static and a dynamic link read alike.
add_library(kiln_boost_context INTERFACE)
target_link_libraries(kiln_boost_context INTERFACE Boost::context)
add_library(kiln_sodium INTERFACE)
add_library(kiln_xxhash INTERFACE)
if(KILN_STATIC_DEPS)
  find_library(KILN_SODIUM_ARCHIVE libsodium.a REQUIRED)
  find_library(KILN_XXHASH_ARCHIVE libxxhash.a REQUIRED)
  target_link_libraries(kiln_sodium INTERFACE ${KILN_SODIUM_ARCHIVE})
  target_link_libraries(kiln_xxhash INTERFACE ${KILN_XXHASH_ARCHIVE})
  add_link_options(-static-libstdc++ -static-libgcc)
else()
  target_link_libraries(kiln_sodium INTERFACE PkgConfig::sodium)
  target_link_libraries(kiln_xxhash INTERFACE PkgConfig::xxhash)
endif()

add_library(kiln_flags INTERFACE)
target_compile_options(kiln_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
  -ffile-prefix-map=${PROJECT_SOURCE_DIR}=. -ffile-prefix-map=${PROJECT_BINARY_DIR}=build)
# g++ 12 sees overlapping copies in std::string's operator+ where there are none (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(kiln_flags INTERFACE -Wno-restrict)
endif()
if(KILN_SANITIZE)
  add_compile_options(-fsanitize=${KILN_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${KILN_SANITIZE})
  if(KILN_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
