// SPDX-License-Identifier: Apache-2.0
//
// The drivers in exported code. They are opened at run time by declarations of its own, neither linked nor included: the
// code compiles without CUDA or ROCm, one object serves both, and a program starts where neither is. Their ABI is
// stable; the library itself uses the same (device/cuda_api.h, device/hip_api.h).
#include "export/c_runtime.h"

namespace kiln {

const std::string_view kCDriver =
    R"(static int kiln_resolve(void* library, void* function, const char* name) {
    void* const symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

)";

const std::string_view kCCuda = R"(struct kiln_attribute {
    int id;
    char padding[4];
    union {
        char bytes[64];
        struct {
            unsigned x, y, z;
        } cluster;
        int number;
    } value;
};

struct kiln_launch_config {
    unsigned grid[3], block[3], shared_bytes;
    void* stream;
    struct kiln_attribute* attributes;
    unsigned attribute_count;
};

/* The CUDA driver; ex, load, context_id and encode are missing in old ones. */
static struct {
    int (*init)(unsigned);
    int (*error_name)(int, const char**);
    int (*context)(void**);
    int (*context_id)(void*, kiln_u64*);
    int (*device)(int*);
    int (*device_attribute)(int*, int, int);
    int (*module_load)(void**, const void*);
    int (*module_unload)(void*);
    int (*function)(void**, void*, const char*);
    int (*function_attribute)(int*, int, void*);
    int (*function_set)(void*, int, int);
    int (*function_load)(void*);
    int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
    int (*launch_ex)(const struct kiln_launch_config*, void*, void**, void**);
    int (*encode)(void*, int, unsigned, void*, const kiln_u64*, const kiln_u64*, const unsigned*, const unsigned*, int, int,
                  int, int);
} kiln_cuda;
static pthread_once_t kiln_cuda_once = PTHREAD_ONCE_INIT;
static const char* kiln_cuda_problem = NULL;

static void kiln_cuda_open(void) {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        kiln_cuda_problem = "libcuda.so.1, which comes with NVIDIA's driver, was not found";
        return;
    }
    if (!kiln_resolve(library, &kiln_cuda.init, "cuInit") ||
        !kiln_resolve(library, &kiln_cuda.error_name, "cuGetErrorName") ||
        !kiln_resolve(library, &kiln_cuda.context, "cuCtxGetCurrent") ||
        !kiln_resolve(library, &kiln_cuda.device, "cuCtxGetDevice") ||
        !kiln_resolve(library, &kiln_cuda.device_attribute, "cuDeviceGetAttribute") ||
        !kiln_resolve(library, &kiln_cuda.module_load, "cuModuleLoadData") ||
        !kiln_resolve(library, &kiln_cuda.module_unload, "cuModuleUnload") ||
        !kiln_resolve(library, &kiln_cuda.function, "cuModuleGetFunction") ||
        !kiln_resolve(library, &kiln_cuda.function_attribute, "cuFuncGetAttribute") ||
        !kiln_resolve(library, &kiln_cuda.function_set, "cuFuncSetAttribute") ||
        !kiln_resolve(library, &kiln_cuda.launch, "cuLaunchKernel")) {
        kiln_cuda_problem = "libcuda.so.1 is too old";
        return;
    }
    kiln_resolve(library, &kiln_cuda.context_id, "cuCtxGetId");
    kiln_resolve(library, &kiln_cuda.function_load, "cuFuncLoad");
    kiln_resolve(library, &kiln_cuda.launch_ex, "cuLaunchKernelEx");
    kiln_resolve(library, &kiln_cuda.encode, "cuTensorMapEncodeTiled");
    if (kiln_cuda.init(0) != 0) kiln_cuda_problem = "NVIDIA's driver does not start";
}

static int kiln_cuda_fail(int result, const char* call, const char* kernel) {
    const char* name = NULL;
    if (kiln_cuda.error_name(result, &name) != 0 || name == NULL) name = "an unknown error";
    return kiln_fail(result, "%s failed: %s (%d); %s", call, name, result, kernel);
}

/* 0: this thread has a context of CUDA. */
static int kiln_cuda_current(void** context, kiln_u64* id) {
    pthread_once(&kiln_cuda_once, kiln_cuda_open);
    *context = NULL;
    *id = 0;
    if (kiln_cuda_problem != NULL) return kiln_fail(KILN_NO_DEVICE, "%s", kiln_cuda_problem);
    if (kiln_cuda.context(context) != 0 || *context == NULL)
        return kiln_fail(KILN_NO_DEVICE, "no CUDA context is current in this thread");
    if (kiln_cuda.context_id != NULL) kiln_cuda.context_id(*context, id);
    return 0;
}

static int kiln_cuda_device(struct kiln_device* device) {
    int handle = 0, major = 0, minor = 0, multiprocessors = 0, l2_bytes = 0, result;
    if ((result = kiln_cuda.device(&handle)) != 0) return kiln_cuda_fail(result, "cuCtxGetDevice", "");
    if ((result = kiln_cuda.device_attribute(&major, 75, handle)) != 0 ||
        (result = kiln_cuda.device_attribute(&minor, 76, handle)) != 0 ||
        (result = kiln_cuda.device_attribute(&multiprocessors, 16, handle)) != 0 ||
        (result = kiln_cuda.device_attribute(&l2_bytes, 38, handle)) != 0)
        return kiln_cuda_fail(result, "cuDeviceGetAttribute", "");
    device->backend = KILN_CUDA;
    device->number = 10 * major + minor;
    snprintf(device->arch, sizeof device->arch, "sm_%d", device->number);
    device->multiprocessors = multiprocessors;
    device->l2_bytes = l2_bytes;
    return 0;
}

/* functions: of the entries. */
static int kiln_cuda_load(const struct kiln_kernel* kernel, void** module, void** functions) {
    const char* call = "";
    int i;
    int result = kiln_cuda.module_load(module, kernel->binary);
    if (result != 0) return kiln_cuda_fail(result, "cuModuleLoadData", kernel->text);
    for (i = 0; i < kernel->entry_count; ++i) {
        const struct kiln_entry* const entry = &kernel->entries[i];
        int shared_bytes = 0;
        call = "cuModuleGetFunction";
        if ((result = kiln_cuda.function(&functions[i], *module, entry->name)) != 0) break;
        /* Else the first launch would load the code, which can wait for the device. */
        if (kiln_cuda.function_load != NULL) kiln_cuda.function_load(functions[i]);
        if (entry->cluster[0] * entry->cluster[1] * entry->cluster[2] > 8) kiln_cuda.function_set(functions[i], 14, 1);
        call = "cuFuncSetAttribute";
        if ((result = kiln_cuda.function_attribute(&shared_bytes, 1, functions[i])) == 0 &&
            (unsigned)shared_bytes + entry->shared_bytes > 49152u)
            result = kiln_cuda.function_set(functions[i], 8, (int)entry->shared_bytes);
        if (result != 0) break;
    }
    if (result == 0) return 0;
    kiln_cuda.module_unload(*module);
    return kiln_cuda_fail(result, call, kernel->text);
}

#if KILN_MAPS
static int kiln_cuda_encode(const struct kiln_kernel* kernel, int index, const struct kiln_launch* launch,
                            const struct kiln_arguments* a, void* place) {
    static const unsigned every_element[5] = {1, 1, 1, 1, 1};
    const struct kiln_map* const map = &kernel->maps[index];
    void* base = (void*)(uintptr_t)a->pointer[map->pointer];
    int result;
    if (launch->is_empty[index]) base = (void*)(uintptr_t)4096;
    if (kiln_cuda.encode == NULL)
        return kiln_fail(KILN_NO_DEVICE, "%s needs a driver of CUDA 12.0 or newer", kernel->text);
    /* Rows of whole pieces of 256 bytes are fetched so into L2, others by 128. */
    result = kiln_cuda.encode(place, map->type, (unsigned)map->rank, base, launch->extents[index],
                              launch->strides[index] + 1, map->box, every_element, 0, map->swizzle,
                              launch->extents[index][0] * (kiln_u64)map->element_bytes % 256 == 0 ? 3 : 2, 0);
    return result == 0 ? 0 : kiln_cuda_fail(result, "cuTensorMapEncodeTiled", kernel->text);
}
#endif

static int kiln_cuda_launch(const struct kiln_kernel* kernel, const struct kiln_entry* entry, void* function,
                            const unsigned* grid, void** arguments, void* stream) {
    const unsigned* const cluster = entry->cluster;
    const int in_clusters = cluster[0] * cluster[1] * cluster[2] != 1;
    int result;
    if (in_clusters || (entry->overlaps && kiln_cuda.launch_ex != NULL)) {
        struct kiln_attribute attributes[2];
        struct kiln_launch_config config;
        if (kiln_cuda.launch_ex == NULL)
            return kiln_fail(KILN_NO_DEVICE, "%s is launched in clusters, which needs a driver of CUDA 11.8 or newer",
                             kernel->text);
        memset(attributes, 0, sizeof attributes);
        memset(&config, 0, sizeof config);
        if (in_clusters) {
            attributes[config.attribute_count].id = 4;
            attributes[config.attribute_count].value.cluster.x = cluster[0];
            attributes[config.attribute_count].value.cluster.y = cluster[1];
            attributes[config.attribute_count++].value.cluster.z = cluster[2];
        }
        if (entry->overlaps) {
            attributes[config.attribute_count].id = 6;
            attributes[config.attribute_count++].value.number = 1;
        }
        memcpy(config.grid, grid, sizeof config.grid);
        memcpy(config.block, entry->block, sizeof config.block);
        config.shared_bytes = entry->shared_bytes;
        config.stream = stream;
        config.attributes = attributes;
        result = kiln_cuda.launch_ex(&config, function, arguments, NULL);
        return result == 0 ? 0 : kiln_cuda_fail(result, "cuLaunchKernelEx", kernel->text);
    }
    result = kiln_cuda.launch(function, grid[0], grid[1], grid[2], entry->block[0], entry->block[1], entry->block[2],
                              entry->shared_bytes, stream, arguments, NULL);
    return result == 0 ? 0 : kiln_cuda_fail(result, "cuLaunchKernel", kernel->text);
}

)";

const std::string_view kCHip = R"(/* The HIP runtime. */
static struct {
    int (*init)(unsigned);
    const char* (*error_name)(int);
    int (*device)(int*);
    int (*device_attribute)(int*, int, int);
    int (*properties)(void*, int);
    int (*properties_r0600)(void*, int);
    int (*module_load)(void**, const void*);
    int (*module_unload)(void*);
    int (*function)(void**, void*, const char*);
    int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
} kiln_hip;
static pthread_once_t kiln_hip_once = PTHREAD_ONCE_INIT;
static const char* kiln_hip_problem = NULL;

static void kiln_hip_open(void) {
    static const char* const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
    void* library = NULL;
    int i;
    for (i = 0; i < 3 && library == NULL; ++i) library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        kiln_hip_problem = "libamdhip64.so.7, .6 or .5, which comes with ROCm, was not found";
        return;
    }
    if (!kiln_resolve(library, &kiln_hip.init, "hipInit") ||
        !kiln_resolve(library, &kiln_hip.error_name, "hipGetErrorName") ||
        !kiln_resolve(library, &kiln_hip.device, "hipGetDevice") ||
        !kiln_resolve(library, &kiln_hip.device_attribute, "hipDeviceGetAttribute") ||
        !kiln_resolve(library, &kiln_hip.properties, "hipGetDeviceProperties") ||
        !kiln_resolve(library, &kiln_hip.module_load, "hipModuleLoadData") ||
        !kiln_resolve(library, &kiln_hip.module_unload, "hipModuleUnload") ||
        !kiln_resolve(library, &kiln_hip.function, "hipModuleGetFunction") ||
        !kiln_resolve(library, &kiln_hip.launch, "hipModuleLaunchKernel")) {
        kiln_hip_problem = "libamdhip64 is too old";
        return;
    }
    kiln_resolve(library, &kiln_hip.properties_r0600, "hipGetDevicePropertiesR0600");
    if (kiln_hip.init(0) != 0) kiln_hip_problem = "the HIP runtime does not start";
}

static int kiln_hip_fail(int result, const char* call, const char* kernel) {
    return kiln_fail(result, "%s failed: %s (%d); %s", call, kiln_hip.error_name(result), result, kernel);
}

/* 0: there is a device, which is the id. */
static int kiln_hip_current(kiln_u64* id) {
    int device = 0;
    pthread_once(&kiln_hip_once, kiln_hip_open);
    if (kiln_hip_problem != NULL) return kiln_fail(KILN_NO_DEVICE, "%s", kiln_hip_problem);
    if (kiln_hip.device(&device) != 0) return kiln_fail(KILN_NO_DEVICE, "HIP has no device");
    *id = (kiln_u64)device;
    return 0;
}

/* The name of the architecture lies in a structure that changed with ROCm 6. */
static int kiln_hip_device(int ordinal, struct kiln_device* device) {
    static const size_t r0600_offset = 1160, older_offset = 396;
    KILN_ALIGNED(16) char properties[8192];
    int multiprocessors = 0, l2_bytes = 0;
    const int is_r0600 = kiln_hip.properties_r0600 != NULL;
    int result;
    memset(properties, 0, sizeof properties);
    result = (is_r0600 ? kiln_hip.properties_r0600 : kiln_hip.properties)(properties, ordinal);
    if (result != 0) return kiln_hip_fail(result, "hipGetDeviceProperties", "");
    kiln_hip.device_attribute(&multiprocessors, 63, ordinal);
    kiln_hip.device_attribute(&l2_bytes, 19, ordinal);
    device->backend = KILN_HIP;
    device->number = 0;
    memcpy(device->arch, properties + (is_r0600 ? r0600_offset : older_offset), sizeof device->arch - 1);
    device->arch[sizeof device->arch - 1] = '\0';
    device->arch[strcspn(device->arch, ":")] = '\0';
    device->multiprocessors = multiprocessors;
    device->l2_bytes = l2_bytes;
    return 0;
}

static int kiln_hip_load(const struct kiln_kernel* kernel, void** module, void** functions) {
    int i;
    int result = kiln_hip.module_load(module, kernel->binary);
    if (result != 0) return kiln_hip_fail(result, "hipModuleLoadData", kernel->text);
    for (i = 0; i < kernel->entry_count && result == 0; ++i)
        result = kiln_hip.function(&functions[i], *module, kernel->entries[i].name);
    if (result == 0) return 0;
    kiln_hip.module_unload(*module);
    return kiln_hip_fail(result, "hipModuleGetFunction", kernel->text);
}

static int kiln_hip_launch(const struct kiln_kernel* kernel, const struct kiln_entry* entry, void* function,
                           const unsigned* grid, void** arguments, void* stream) {
    const int result = kiln_hip.launch(function, grid[0], grid[1], grid[2], entry->block[0], entry->block[1],
                                       entry->block[2], entry->shared_bytes, stream, arguments, NULL);
    return result == 0 ? 0 : kiln_hip_fail(result, "hipModuleLaunchKernel", kernel->text);
}

)";

}  // namespace kiln
