// SPDX-License-Identifier: Apache-2.0
//
// The version of these headers, and KILN_ABI, the inline namespace of the public API: kiln::Service is
// kiln::v0_1::Service to the linker, so that a program does not link with a library of another minor version, and two of
// them can be in one process. Programs write kiln::Service, and include a header rather than declare a class.
// CMake reads the version from here.
#pragma once

#define KILN_VERSION_MAJOR 0
#define KILN_VERSION_MINOR 1
#define KILN_VERSION_PATCH 0

#define KILN_VERSIONED_2(major, minor) v##major##_##minor
#define KILN_VERSIONED(major, minor) KILN_VERSIONED_2(major, minor)
/// Kiln is compiled with hidden visibility; what is declared in this namespace, a shared library exports.
#define KILN_ABI KILN_VERSIONED(KILN_VERSION_MAJOR, KILN_VERSION_MINOR) __attribute__((visibility("default")))
