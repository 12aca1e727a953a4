/* SPDX-License-Identifier: Apache-2.0
 *
 * A CUDA driver that launches nothing and writes down what it is asked for, one line a call, to the file FAKE_LOG.
 * FAKE_ARCH: the compute capability of its device, 90. FAKE_BYTES: the bytes of each argument of the kernel, "4,8,128", and
 * behind a semicolon those of the next one that is asked for.
 * Argument bytes are written as hexadecimal; a tensor map is its number, from 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int maps = 0, modules = 0, functions = 0;
static char handles[16]; /* of functions */

static int is_function(const void* function) {
    return (const char*)function >= handles && (const char*)function < handles + functions;
}

static FILE* begin(const char* call) {
    FILE* const file = fopen(getenv("FAKE_LOG"), "a");
    fprintf(file, "%s", call);
    return file;
}
static int end(FILE* file) {
    fprintf(file, "\n");
    fclose(file);
    return 0;
}

static void print_arguments(FILE* file, const void* function, void** arguments) {
    const char* at = getenv("FAKE_BYTES");
    for (long before = (const char*)function - handles; at != NULL && before > 0 && strchr(at, ';') != NULL; --before)
        at = strchr(at, ';') + 1;
    for (int i = 0; at != NULL && *at != '\0' && *at != ';'; ++i) {
        char* next;
        const long bytes = strtol(at, &next, 10);
        unsigned long long value = 0;
        memcpy(&value, arguments[i], bytes < 8 ? (size_t)bytes : 8);
        fprintf(file, " %llx", value);
        at = *next == ',' ? next + 1 : next;
    }
}

int cuInit(unsigned flags) { return flags != 0; }
int cuGetErrorName(int result, const char** name) {
    *name = result == 1 ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR_UNKNOWN";
    return 0;
}
int cuCtxGetCurrent(void** context) {
    *context = getenv("FAKE_NO_CONTEXT") != NULL ? NULL : (void*)&maps;
    return 0;
}
int cuCtxGetId(void* context, unsigned long long* id) {
    *id = context == (void*)&maps ? 7 : 0;
    return 0;
}
int cuCtxGetDevice(int* device) {
    *device = 3;
    return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
    const char* const arch = getenv("FAKE_ARCH");
    const int number = arch != NULL ? atoi(arch) : 90;
    if (device != 3) return 101;
    *value = attribute == 75 ? number / 10 : attribute == 76 ? number % 10 : attribute == 16 ? 132 : attribute == 38 ? 50 << 20 : -1;
    return *value < 0;
}
int cuModuleLoadData(void** module, const void* image) {
    const unsigned char* const bytes = (const unsigned char*)image;
    FILE* const file = begin("load");
    fprintf(file, " %s", bytes[0] == 0x7f && bytes[1] == 'E' && bytes[2] == 'L' && bytes[3] == 'F' ? "cubin" : "ptx");
    if ((size_t)image % 8 != 0) fprintf(file, " misaligned");
    ++modules;
    *module = (void*)&modules;
    return end(file);
}
int cuModuleUnload(void* module) {
    --modules;
    return end(begin(module == (void*)&modules ? "unload" : "unload what was not loaded"));
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
    FILE* const file = begin("function ");
    fprintf(file, "%s", name);
    if (functions == 16) return 1;
    *function = (void*)&handles[functions++];
    return module == (void*)&modules ? end(file) : 1 + end(file);
}
int cuFuncGetAttribute(int* value, int attribute, void* function) {
    *value = 16;
    return attribute != 1 || !is_function(function);
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
    FILE* const file = begin("set");
    fprintf(file, " %d %d", attribute, value);
    return is_function(function) ? end(file) : 1;
}
int cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* base, const unsigned long long* extents,
                           const unsigned long long* strides, const unsigned* box, const unsigned* steps, int interleave,
                           int swizzle, int promotion, int fill) {
    FILE* const file = begin("map");
    if ((size_t)map % 64 != 0) return 1;
    fprintf(file, " type %d base %llx extents", type, (unsigned long long)(size_t)base);
    for (unsigned i = 0; i < rank; ++i) fprintf(file, " %llu", extents[i]);
    fprintf(file, " strides");
    for (unsigned i = 0; i + 1 < rank; ++i) fprintf(file, " %llu", strides[i]);
    fprintf(file, " box");
    for (unsigned i = 0; i < rank; ++i) fprintf(file, " %u", box[i]);
    fprintf(file, " steps");
    for (unsigned i = 0; i < rank; ++i) fprintf(file, " %u", steps[i]);
    fprintf(file, " interleave %d swizzle %d promotion %d fill %d", interleave, swizzle, promotion, fill);
    memset(map, 0, 128);
    ++maps;
    memcpy(map, &maps, sizeof maps);
    return end(file);
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void* stream, void** arguments, void** extra) {
    FILE* const file = begin("launch");
    if (!is_function(function) || extra != NULL) return 1;
    fprintf(file, " grid %u %u %u block %u %u %u shared %u stream %llx arguments", gx, gy, gz, bx, by, bz, shared,
            (unsigned long long)(size_t)stream);
    print_arguments(file, function, arguments);
    return end(file);
}

struct attribute {
    int id;
    char padding[4];
    unsigned value[16];
};
struct config {
    unsigned grid[3], block[3], shared;
    void* stream;
    struct attribute* attributes;
    unsigned count;
};
int cuLaunchKernelEx(const struct config* config, void* function, void** arguments, void** extra) {
    FILE* const file = begin("launch");
    if (!is_function(function) || extra != NULL) return 1;
    fprintf(file, " grid %u %u %u block %u %u %u shared %u stream %llx", config->grid[0], config->grid[1], config->grid[2],
            config->block[0], config->block[1], config->block[2], config->shared,
            (unsigned long long)(size_t)config->stream);
    for (unsigned i = 0; i < config->count; ++i) {
        const struct attribute* const one = &config->attributes[i];
        if (one->id == 4) fprintf(file, " cluster %u %u %u", one->value[0], one->value[1], one->value[2]);
        if (one->id == 6) fprintf(file, " overlap %u", one->value[0]);
    }
    fprintf(file, " arguments");
    print_arguments(file, function, arguments);
    return end(file);
}
