/* SPDX-License-Identifier: Apache-2.0
 *
 * A C program without Kiln: it calls the softmax that `kiln export` wrote, kiln_softmax.h and .c, and compares the result
 * with its own. ../exported.sh shows how both are made and compiled. An application has <cuda_runtime.h>; this program
 * opens the driver at run time, as the exported code does, so that it compiles without CUDA.
 * Exit status: 0 right; 1 wrong, or an error; 3 there is no GPU. */
#include "kiln_softmax.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 100
#define COLS 333

/* What the application calls of the driver. */
static struct {
    int (*init)(unsigned);
    int (*device)(int*, int);
    int (*retain_primary_context)(void**, int);
    int (*set_current)(void*);
    int (*create_stream)(void**, unsigned);
    int (*synchronize)(void*);
    int (*allocate)(unsigned long long*, size_t);
    int (*to_device)(unsigned long long, const void*, size_t);
    int (*to_host)(void*, unsigned long long, size_t);
} cuda;

static int resolve(void* library, void* function, const char* name) {
    void* const symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol); /* ISO C has no cast from an object to a function */
    return symbol != NULL;
}

/* The primary context of device 0 becomes current, as after cudaSetDevice(0). 0: there is no driver, or no GPU. */
static int open_cuda(void) {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    void* context = NULL;
    int device = 0;
    return library != NULL && resolve(library, &cuda.init, "cuInit") &&
           resolve(library, &cuda.device, "cuDeviceGet") &&
           resolve(library, &cuda.retain_primary_context, "cuDevicePrimaryCtxRetain") &&
           resolve(library, &cuda.set_current, "cuCtxSetCurrent") &&
           resolve(library, &cuda.create_stream, "cuStreamCreate") &&
           resolve(library, &cuda.synchronize, "cuStreamSynchronize") &&
           resolve(library, &cuda.allocate, "cuMemAlloc_v2") &&
           resolve(library, &cuda.to_device, "cuMemcpyHtoD_v2") &&
           resolve(library, &cuda.to_host, "cuMemcpyDtoH_v2") && cuda.init(0) == 0 &&
           cuda.device(&device, 0) == 0 && cuda.retain_primary_context(&context, device) == 0 &&
           cuda.set_current(context) == 0;
}

static int failed(const char* what, int status) {
    fprintf(stderr, "%s failed with %d\n", what, status);
    return 1;
}

/* The largest |error| of y, by its own softmax of x in double. */
static double largest_error(const float* x, const float* y) {
    double largest = 0;
    int row, col;
    for (row = 0; row < ROWS; ++row) {
        double highest = -INFINITY, sum = 0;
        for (col = 0; col < COLS; ++col) highest = fmax(highest, x[row * COLS + col]);
        for (col = 0; col < COLS; ++col) sum += exp(x[row * COLS + col] - highest);
        for (col = 0; col < COLS; ++col) {
            const double error = fabs(exp(x[row * COLS + col] - highest) / sum - y[row * COLS + col]);
            if (!(error <= largest)) largest = error; /* so that a NaN counts as largest */
        }
    }
    return largest;
}

int main(void) {
    static float x[ROWS * COLS], y[ROWS * COLS];
    const size_t bytes = sizeof x;
    unsigned long long device_x = 0, device_y = 0;
    void* stream = NULL;
    const char* variant;
    double error;
    int i, status;

    /* Loads all kernels in the current context, before a stream is captured or a launch is to be fast. Where there is no
     * driver or no GPU this is the call that says so. */
    if (!open_cuda()) fprintf(stderr, "no GPU could be opened\n");
    status = kiln_softmax_load();
    if (status != 0) {
        fprintf(stderr, "kiln_softmax_load: status %d: %s\n", status, kiln_softmax_error());
        return status == -2 ? 3 : 1;
    }

    for (i = 0; i < ROWS * COLS; ++i) x[i] = (float)(i * 7919 % 1009) / 100 - 5;
    memset(y, 0xff, bytes); /* NaN */
    if ((status = cuda.create_stream(&stream, 0)) != 0) return failed("cuStreamCreate", status);
    if ((status = cuda.allocate(&device_x, bytes)) != 0 || (status = cuda.allocate(&device_y, bytes)) != 0)
        return failed("cuMemAlloc", status);
    if ((status = cuda.to_device(device_x, x, bytes)) != 0 || (status = cuda.to_device(device_y, y, bytes)) != 0)
        return failed("cuMemcpyHtoD", status);

    status = kiln_softmax(stream, ROWS, COLS, (const void*)device_x, (void*)device_y);
    if (status != 0) {
        fprintf(stderr, "kiln_softmax: status %d: %s\n", status, kiln_softmax_error());
        return 1;
    }
    if ((status = cuda.synchronize(stream)) != 0) return failed("cuStreamSynchronize", status);
    if ((status = cuda.to_host(y, device_y, bytes)) != 0) return failed("cuMemcpyDtoH", status);

    variant = kiln_softmax_variant(ROWS, COLS);
    error = largest_error(x, y);
    printf("%s\nlargest error: %.2g\n", variant == NULL ? "no variant" : variant, error);
    kiln_softmax_unload(); /* before the context is destroyed */
    return error <= 1e-6 ? 0 : 1;
}
