// SPDX-License-Identifier: Apache-2.0
//
// Kiln bakes GPU kernels at run time. Include this one header; start reading at service.h.
#pragma once

#include <kiln/build.h>
#include <kiln/device.h>
#include <kiln/error.h>
#include <kiln/kernel.h>
#include <kiln/service.h>
#include <kiln/template.h>
#include <kiln/types.h>
