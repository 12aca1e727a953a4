// SPDX-License-Identifier: Apache-2.0
//
// Kiln compiles GPU kernels at run time from templates. Include this one header; start reading at service.h. It
// has all of libkiln; what analyses, reports, profiles, benchmarks and compares with baselines is in kiln/tools/, a library
// of its own.
#pragma once

#include <kiln/build.h>
#include <kiln/cache.h>
#include <kiln/calibration.h>
#include <kiln/device.h>
#include <kiln/device_services.h>
#include <kiln/doctor.h>
#include <kiln/error.h>
#include <kiln/extents.h>
#include <kiln/files.h>
#include <kiln/kernel.h>
#include <kiln/manifest.h>
#include <kiln/model.h>
#include <kiln/observe.h>
#include <kiln/occupancy.h>
#include <kiln/operation.h>
#include <kiln/record.h>
#include <kiln/run.h>
#include <kiln/service.h>
#include <kiln/template.h>
#include <kiln/template_set.h>
#include <kiln/timing.h>
#include <kiln/trace.h>
#include <kiln/tune.h>
#include <kiln/types.h>
#include <kiln/version.h>
#include <kiln/wisdom.h>

/// The public API of libkiln, and of the tools (kiln/tools).
namespace kiln {}
