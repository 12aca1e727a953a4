/* SPDX-License-Identifier: Apache-2.0

   What programs of these tests begin with: a service on the host backend, with a cache of its own and no remote. */
#pragma once

#include <kiln/c/kiln.h>
#include <string.h>

/* All else is the default. directory: of the cache; NULL: the user's. */
static void set_host_options(kiln_service_options* options, kiln_cache_options* cache,
                             const char* directory) {
    memset(options, 0, sizeof *options);
    memset(cache, 0, sizeof *cache);
    options->size = sizeof *options;
    options->backend = "host";
    options->cache = cache;
    cache->size = sizeof *cache;
    cache->directory = directory;
    cache->remote_url = "";
}
