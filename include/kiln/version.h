// SPDX-License-Identifier: Apache-2.0
//
// The version of these headers, and KILN_ABI, the inline namespace of the public API: kiln::Service is
// kiln::v0_1::Service to the linker, so that a program does not link with a library of another minor version, and two of
// them can be in one process. Programs write kiln::Service, and include a header rather than declare a class.
// CMake reads the version from here.
#pragma once

/// Of semantic versioning; before 1.0 a minor version may change the API.
#define KILN_VERSION_MAJOR 0
/// Likewise.
#define KILN_VERSION_MINOR 1
/// Likewise.
#define KILN_VERSION_PATCH 0

/// Joins what KILN_VERSIONED expands.
#define KILN_VERSIONED_2(major, minor) v##major##_##minor
/// v0_1 of 0 and 1.
#define KILN_VERSIONED(major, minor) KILN_VERSIONED_2(major, minor)
/// Kiln is compiled with hidden visibility; what is declared in this namespace, a shared library exports.
#define KILN_ABI KILN_VERSIONED(KILN_VERSION_MAJOR, KILN_VERSION_MINOR) __attribute__((visibility("default")))
