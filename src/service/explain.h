// SPDX-License-Identifier: Apache-2.0
//
// Why a key is a hit or a miss.
#pragma once

#include <kiln/service.h>

#include <string>

#include "service/cache_setup.h"

namespace kiln {

/// Looks where a build would look, without marking anything as used. On a miss: the nearest entry of the same
/// kernel, on disk and in packs. The same variant made otherwise (compiler, header, option, line of the
/// template) is nearer than another variant, and what is for the same backend is nearer than either. Throws
/// nothing for what lies there. open: what else may serve. An empty key: there is no compiler, for that reason.
Explanation explain_key(const BuildKey& key, const CacheSetup& setup, const OpenLookup* open = nullptr,
                        const std::string& no_compiler = {});

}  // namespace kiln
