// SPDX-License-Identifier: Apache-2.0
//
// C11 that is C++17 too, and POSIX. The drivers are in c_drivers.cpp.
#include "export/c_runtime.h"

namespace kiln {

const std::string_view kCTypes = R"(#ifdef __cplusplus
#define KILN_THREAD_LOCAL thread_local
#define KILN_ALIGNED(bytes) alignas(bytes)
#else
#define KILN_THREAD_LOCAL _Thread_local
#define KILN_ALIGNED(bytes) _Alignas(bytes)
#endif

typedef long long kiln_i64;
typedef unsigned long long kiln_u64;

enum { KILN_BAD_ARGUMENT = -1, KILN_NO_DEVICE = -2, KILN_NO_BINARY = -3, KILN_CUDA = 0, KILN_HIP = 1 };

/* The device of a context. */
struct kiln_device {
    int backend;
    int number;    /* CUDA: 90 for compute capability 9.0 */
    char arch[64]; /* HIP: "gfx90a" */
    kiln_i64 multiprocessors, l2_bytes;
};

/* Of one call, by the position of the kernel's arguments. */
struct kiln_arguments {
    kiln_i64 value[KILN_ARGUMENTS];
    const void* pointer[KILN_ARGUMENTS];
};

/* What a variant needs for one call. */
struct kiln_launch {
    unsigned grid[KILN_ENTRIES][3];
    kiln_i64 bytes[KILN_ARGUMENTS]; /* of each tensor */
    unsigned align[KILN_ARGUMENTS]; /* what its address must be a multiple of */
#if KILN_MAPS
    kiln_u64 extents[KILN_MAPS][5]; /* innermost first */
    kiln_u64 strides[KILN_MAPS][5]; /* bytes */
    int is_empty[KILN_MAPS];
#endif
};

/* A tensor map but for its extents. */
struct kiln_map {
    const char* tensor;
    int pointer, type, rank, element_bytes, swizzle;
    unsigned box[5]; /* innermost first */
};

struct kiln_arch {
    const char* name;
    int backend, number;
    char suffix;
    int is_ptx;
};

/* A kernel of a variant. */
struct kiln_entry {
    const char* name;
    unsigned block[3], cluster[3], shared_bytes;
    int overlaps; /* a launch may begin before the one before it has ended */
    const int* order; /* of its arguments: their places among those of the variant, where tensor maps come last */
    int argument_count;
};

/* A variant for one architecture: its kernels are launched one after the other. plan returns 0, or a status when the
   variant can't do this. */
struct kiln_kernel {
    const char* text;
    const kiln_u64* binary;
    const struct kiln_entry* entries;
    int entry_count;
    int (*plan)(const struct kiln_arguments*, const struct kiln_device*, struct kiln_launch*);
    const struct kiln_map* maps;
    int map_count;
};

/* What was measured to be the fastest for these sizes. */
struct kiln_known {
    kiln_i64 sizes[KILN_SIZES];
    int kernel;
};

/* The kernels of a problem for one architecture. */
struct kiln_group {
    int arch, first, count;
    const struct kiln_known* known;
    int known_count;
};

struct kiln_problem {
    const char* name;
    int argument_count;
    const char* const* names; /* of arguments */
    int size_count;
    const int* sizes; /* which arguments are sizes */
    const struct kiln_group* groups;
    int group_count;
};

static KILN_THREAD_LOCAL char kiln_message[512];

static int kiln_is_empty(const unsigned* grid) { return grid[0] == 0 || grid[1] == 0 || grid[2] == 0; }

__attribute__((format(printf, 2, 3))) static int kiln_fail(int status, const char* format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(kiln_message, sizeof kiln_message, format, list);
    va_end(list);
    return status;
}

)";

const std::string_view kCPlanHelpers =
    R"(static int kiln_extent(struct kiln_launch* launch, int entry, const char* name, int axis, kiln_i64 value, int bad,
                       kiln_i64 most) {
    if (bad)
        return kiln_fail(KILN_BAD_ARGUMENT, "%s: the grid's %c can't be computed: 64 bits overflow", name, "xyz"[axis]);
    if (value < 0 || value > most)
        return kiln_fail(KILN_BAD_ARGUMENT, "%s: the grid's %c is %lld; it can be 0 to %lld", name, "xyz"[axis], value,
                         most);
    launch->grid[entry][axis] = (unsigned)value;
    return 0;
}

static int kiln_tensor(struct kiln_launch* launch, int argument, const char* name, const kiln_i64* extents, int rank,
                       int element_bytes, unsigned align, int bad) {
    kiln_i64 bytes = element_bytes;
    int i, is_empty = 0;
    if (bad) return kiln_fail(KILN_BAD_ARGUMENT, "an extent of %s can't be computed: 64 bits overflow", name);
    for (i = 0; i < rank; ++i) {
        if (extents[i] < 0) return kiln_fail(KILN_BAD_ARGUMENT, "an extent of %s is %lld", name, extents[i]);
        if (extents[i] == 0) is_empty = 1;
    }
    for (i = 0; i < rank && !is_empty; ++i)
        if (__builtin_mul_overflow(bytes, extents[i], &bytes))
            return kiln_fail(KILN_BAD_ARGUMENT, "%s has a size that does not fit 64 bits", name);
    launch->bytes[argument] = is_empty ? 0 : bytes;
    launch->align[argument] = align;
    return 0;
}

static int kiln_multiple(const char* name, kiln_i64 value, kiln_i64 of, int bad) {
    if (bad || of < 1) return kiln_fail(KILN_BAD_ARGUMENT, "what the size %s must be a multiple of can't be computed", name);
    if (value % of != 0)
        return kiln_fail(KILN_BAD_ARGUMENT, "the size %s is %lld; it must be a multiple of %lld", name, value, of);
    return 0;
}

static int kiln_most(const char* name, kiln_i64 value, kiln_i64 most, int bad) {
    if (bad) return kiln_fail(KILN_BAD_ARGUMENT, "what the size %s must not exceed can't be computed", name);
    if (value > most) return kiln_fail(KILN_BAD_ARGUMENT, "the size %s is %lld; it must be at most %lld", name, value, most);
    return 0;
}

static int kiln_cluster(const struct kiln_launch* launch, int entry, int axis, unsigned cluster) {
    if (launch->grid[entry][axis] % cluster == 0) return 0;
    return kiln_fail(KILN_BAD_ARGUMENT, "the grid's %c, %u blocks, is no multiple of the cluster's, %u", "xyz"[axis],
                     launch->grid[entry][axis], cluster);
}

)";

const std::string_view kCMapHelpers =
    R"(/* extents: outermost first. Of an empty tensor, which no kernel reads, the map is that of one box. */
static int kiln_map_extents(struct kiln_launch* launch, int index, const struct kiln_map* map, const kiln_i64* extents,
                            int bad) {
    kiln_u64 stride = (kiln_u64)map->element_bytes;
    int i;
    if (bad) return kiln_fail(KILN_BAD_ARGUMENT, "an extent of the tensor map of %s can't be computed", map->tensor);
    launch->is_empty[index] = 0;
    for (i = 0; i < map->rank; ++i) {
        if (extents[i] < 0) return kiln_fail(KILN_BAD_ARGUMENT, "an extent of %s is %lld", map->tensor, extents[i]);
        if (extents[i] == 0) launch->is_empty[index] = 1;
    }
    for (i = 0; i < map->rank; ++i) {
        const kiln_u64 extent = launch->is_empty[index] ? map->box[i] : (kiln_u64)extents[map->rank - 1 - i];
        if (extent > 4294967296ULL || stride >= 1099511627776ULL)
            return kiln_fail(KILN_BAD_ARGUMENT, "%s is too large for TMA: an extent of %llu elements, %llu bytes apart",
                             map->tensor, extent, stride);
        if (i > 0 && stride % 16 != 0)
            return kiln_fail(KILN_BAD_ARGUMENT, "a row of %s has %llu bytes, and TMA needs a multiple of 16", map->tensor,
                             stride);
        launch->extents[index][i] = extent;
        launch->strides[index][i] = stride;
        stride *= extent;
    }
    return 0;
}

)";

const std::string_view kCContexts = R"(/* A context of CUDA, or a device of HIP, with what is loaded there. */
struct kiln_context {
    struct kiln_context* next;
    int backend;
    void* handle;
    kiln_u64 id;
    struct kiln_device device;
    void* modules[KILN_KERNELS];
    void* functions[KILN_KERNELS][KILN_ENTRIES];
};
static pthread_mutex_t kiln_lock = PTHREAD_MUTEX_INITIALIZER; /* of all contexts */
static struct kiln_context* kiln_contexts = NULL;

static int kiln_identify(int* backend, void** handle, kiln_u64* id) {
    int status = KILN_NO_DEVICE;
    *handle = NULL;
#if KILN_HAS_CUDA
    *backend = KILN_CUDA;
    status = kiln_cuda_current(handle, id);
#endif
#if KILN_HAS_HIP
    if (status != 0) {
        *backend = KILN_HIP;
        status = kiln_hip_current(id);
    }
#endif
    return status;
}

/* The context that is current in this thread. The lock is held. */
static int kiln_find_context(struct kiln_context** found) {
    int backend = 0, status;
    void* handle;
    kiln_u64 id = 0;
    struct kiln_context* context;
    if ((status = kiln_identify(&backend, &handle, &id)) != 0) return status;
    for (context = kiln_contexts; context != NULL; context = context->next)
        if (context->backend == backend && context->handle == handle && context->id == id) break;
    if (context == NULL) {
        context = (struct kiln_context*)calloc(1, sizeof *context);
        if (context == NULL) return kiln_fail(KILN_NO_DEVICE, "there is no memory");
        context->backend = backend;
        context->handle = handle;
        context->id = id;
        status = KILN_NO_DEVICE;
#if KILN_HAS_CUDA
        if (backend == KILN_CUDA) status = kiln_cuda_device(&context->device);
#endif
#if KILN_HAS_HIP
        if (backend == KILN_HIP) status = kiln_hip_device((int)id, &context->device);
#endif
        if (status != 0) {
            free(context);
            return status;
        }
        context->next = kiln_contexts;
        kiln_contexts = context;
    }
    *found = context;
    return 0;
}

static int kiln_current_device(struct kiln_device* device) {
    struct kiln_context* context = NULL;
    int status;
    pthread_mutex_lock(&kiln_lock);
    status = kiln_find_context(&context);
    if (status == 0) *device = context->device;
    pthread_mutex_unlock(&kiln_lock);
    return status;
}

/* The functions of a variant in the current context, loaded when they are first asked for. */
static int kiln_functions(int index, const struct kiln_kernel* kernel, void** functions) {
    struct kiln_context* context = NULL;
    int status;
    pthread_mutex_lock(&kiln_lock);
    status = kiln_find_context(&context);
    if (status == 0 && context->modules[index] == NULL) {
        void* module = NULL;
        void** const loaded = context->functions[index];
        status = KILN_NO_DEVICE;
#if KILN_HAS_CUDA
        if (context->backend == KILN_CUDA) status = kiln_cuda_load(kernel, &module, loaded);
#endif
#if KILN_HAS_HIP
        if (context->backend == KILN_HIP) status = kiln_hip_load(kernel, &module, loaded);
#endif
        if (status == 0) context->modules[index] = module;
    }
    if (status == 0) memcpy(functions, context->functions[index], sizeof context->functions[index]);
    pthread_mutex_unlock(&kiln_lock);
    return status;
}

static void kiln_unload_current(void) {
    int backend = 0, i;
    void* handle;
    kiln_u64 id = 0;
    struct kiln_context** place;
    pthread_mutex_lock(&kiln_lock);
    if (kiln_identify(&backend, &handle, &id) == 0) {
        for (place = &kiln_contexts; *place != NULL; place = &(*place)->next) {
            struct kiln_context* const context = *place;
            if (context->backend != backend || context->handle != handle || context->id != id) continue;
            for (i = 0; i < KILN_KERNELS; ++i) {
                if (context->modules[i] == NULL) continue;
#if KILN_HAS_CUDA
                if (backend == KILN_CUDA) kiln_cuda.module_unload(context->modules[i]);
#endif
#if KILN_HAS_HIP
                if (backend == KILN_HIP) kiln_hip.module_unload(context->modules[i]);
#endif
            }
            *place = context->next;
            free(context);
            break;
        }
    }
    pthread_mutex_unlock(&kiln_lock);
}

)";

const std::string_view kCRun =
    R"(static int kiln_serves(const struct kiln_arch* arch, const struct kiln_device* device) {
    if (arch->backend != device->backend) return 0;
    if (arch->backend == KILN_HIP) return strcmp(arch->name, device->arch) == 0;
    if (arch->is_ptx) return device->number >= arch->number;
    if (arch->suffix == 'a') return device->number == arch->number;
    return device->number / 10 == arch->number / 10 && device->number >= arch->number;
}

static int kiln_plan(int kernel, const struct kiln_arguments* a, const struct kiln_device* device,
                     struct kiln_launch* launch) {
    int i;
    memset(launch, 0, sizeof *launch);
    for (i = 0; i < KILN_ENTRIES; ++i) launch->grid[i][0] = launch->grid[i][1] = launch->grid[i][2] = 1;
    return kiln_kernels[kernel].plan(a, device, launch);
}

/* How many times as large, over all sizes; a size that is less aligned counts like twice as large. */
static double kiln_distance(const struct kiln_problem* problem, const struct kiln_known* known,
                            const struct kiln_arguments* a) {
    double distance = 1;
    int i;
    for (i = 0; i < problem->size_count; ++i) {
        const kiln_i64 size = a->value[problem->sizes[i]], other = known->sizes[i];
        const double x = (double)size + 1, y = (double)other + 1;
        const kiln_i64 alignment = (size | 16) & -(size | 16), other_alignment = (other | 16) & -(other | 16);
        distance *= x > y ? x / y : y / x;
        if (alignment != other_alignment) distance *= 2;
    }
    return distance;
}

static int kiln_is_exact(const struct kiln_problem* problem, const struct kiln_known* known,
                         const struct kiln_arguments* a) {
    int i;
    for (i = 0; i < problem->size_count; ++i)
        if (known->sizes[i] != a->value[problem->sizes[i]]) return 0;
    return 1;
}

/* The kernel for these sizes and its launch: what was measured for them, else for the nearest sizes, else the first that
   can do it. A negative result is a status. */
static int kiln_choose(const struct kiln_problem* problem, const struct kiln_arguments* a,
                       const struct kiln_device* device, struct kiln_launch* launch) {
    int g, i, best = -1;
    for (i = 0; i < problem->size_count; ++i)
        if (a->value[problem->sizes[i]] < 0)
            return kiln_fail(KILN_BAD_ARGUMENT, "%s: the size %s is %lld; it can't be negative", problem->name,
                             problem->names[problem->sizes[i]], a->value[problem->sizes[i]]);
    for (g = 0; g < problem->group_count; ++g) {
        const struct kiln_group* const group = &problem->groups[g];
        double nearest = 0;
        if (!kiln_serves(&kiln_archs[group->arch], device)) continue;
        for (i = 0; i < group->known_count; ++i)
            if (kiln_is_exact(problem, &group->known[i], a) && kiln_plan(group->known[i].kernel, a, device, launch) == 0)
                return group->known[i].kernel;
        for (i = 0; i < group->known_count; ++i) {
            const double distance = kiln_distance(problem, &group->known[i], a);
            if (best >= 0 && distance >= nearest) continue;
            if (kiln_plan(group->known[i].kernel, a, device, launch) != 0) continue;
            best = group->known[i].kernel;
            nearest = distance;
        }
        if (best >= 0) return kiln_plan(best, a, device, launch) == 0 ? best : KILN_BAD_ARGUMENT;
        for (i = group->first; i < group->first + group->count; ++i)
            if (kiln_plan(i, a, device, launch) == 0) return i;
        return KILN_BAD_ARGUMENT;
    }
    return kiln_fail(KILN_NO_BINARY, "%s: there is no binary for %s", problem->name, device->arch);
}

static int kiln_run(const struct kiln_problem* problem, const struct kiln_arguments* a, void** passed, void* stream) {
    struct kiln_device device;
    struct kiln_launch launch;
    const struct kiln_kernel* kernel;
    void* functions[KILN_ENTRIES];
    void* arguments[KILN_ARGUMENTS + KILN_MAPS]; /* of all kernels */
    void* own[KILN_ARGUMENTS + KILN_MAPS];       /* of one */
    int i, e, chosen, status, is_empty = 1;
#if KILN_MAPS
    KILN_ALIGNED(128) unsigned char maps[KILN_MAPS][128];
#endif
    if ((status = kiln_current_device(&device)) != 0) return status;
    if ((chosen = kiln_choose(problem, a, &device, &launch)) < 0) return chosen;
    kernel = &kiln_kernels[chosen];
    for (i = 0; i < problem->argument_count; ++i)
        if (launch.bytes[i] > 0 && a->pointer[i] == NULL)
            return kiln_fail(KILN_BAD_ARGUMENT, "%s: the argument %s is a null pointer, and it has %lld bytes",
                             problem->name, problem->names[i], launch.bytes[i]);
    for (i = 0; i < problem->argument_count; ++i)
        if (launch.bytes[i] > 0 && (uintptr_t)a->pointer[i] % launch.align[i] != 0)
            return kiln_fail(KILN_BAD_ARGUMENT, "%s: the argument %s is at %p, and has to be at a multiple of %u bytes",
                             problem->name, problem->names[i], a->pointer[i], launch.align[i]);
    for (e = 0; e < kernel->entry_count; ++e)
        if (!kiln_is_empty(launch.grid[e])) is_empty = 0;
    if (is_empty) return 0;
    if ((status = kiln_functions(chosen, kernel, functions)) != 0) return status;
    for (i = 0; i < problem->argument_count; ++i) arguments[i] = passed[i];
#if KILN_MAPS
    for (i = 0; i < kernel->map_count; ++i) {
        if (kernel->maps[i].rank == 0) /* of no tensor: the kernel does not read it */
            memset(maps[i], 0, sizeof maps[i]);
        else if ((status = kiln_cuda_encode(kernel, i, &launch, a, maps[i])) != 0)
            return status;
        arguments[problem->argument_count + i] = maps[i];
    }
#endif
    for (e = 0; e < kernel->entry_count; ++e) {
        const struct kiln_entry* const entry = &kernel->entries[e];
        if (kiln_is_empty(launch.grid[e])) continue;
        for (i = 0; i < entry->argument_count; ++i) own[i] = arguments[entry->order[i]];
        status = KILN_NO_DEVICE;
#if KILN_HAS_CUDA
        if (device.backend == KILN_CUDA)
            status = kiln_cuda_launch(kernel, entry, functions[e], launch.grid[e], own, stream);
#endif
#if KILN_HAS_HIP
        if (device.backend == KILN_HIP)
            status = kiln_hip_launch(kernel, entry, functions[e], launch.grid[e], own, stream);
#endif
        if (status != 0) return status;
    }
    return 0;
}

/* Loads all kernels of this problem that the current device runs. */
static int kiln_load_problem(const struct kiln_problem* problem) {
    struct kiln_device device;
    void* functions[KILN_ENTRIES];
    int g, i, status;
    if ((status = kiln_current_device(&device)) != 0) return status;
    for (g = 0; g < problem->group_count; ++g) {
        const struct kiln_group* const group = &problem->groups[g];
        if (!kiln_serves(&kiln_archs[group->arch], &device)) continue;
        for (i = group->first; i < group->first + group->count; ++i)
            if ((status = kiln_functions(i, &kiln_kernels[i], functions)) != 0) return status;
        return 0;
    }
    return kiln_fail(KILN_NO_BINARY, "%s: there is no binary for %s", problem->name, device.arch);
}

)";

}  // namespace kiln
