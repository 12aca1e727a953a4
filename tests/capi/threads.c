/* SPDX-License-Identifier: Apache-2.0

   Sixteen threads with one service: all ask for the same four kernels, launch them, and make mistakes, of which each thread
   sees its own. Each kernel is compiled once. A thread that is cancelled ends behind its call. Usage: threads DIRECTORY. */
#include <kiln/c/kiln.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "support.h"

enum { thread_count = 16, kernel_count = 4, rounds = 20, count = 50 };

static const char* const text =
    "// scale: y = FACTOR * x\n"
    "//@ kernel scale\n"
    "//@ param  FACTOR int in 1..100 = 2\n"
    "//@ block  32\n"
    "//@ grid   ceil_div(n, 32)\n"
    "#include \"kiln/device.h\"\n"
    "extern \"C\" __global__ void scale(int n, const float* x, float* y) {\n"
    "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) y[i] = FACTOR * x[i];\n"
    "}\n";

static kiln_service* service = NULL;
static kiln_template* scale = NULL;

typedef struct worker {
    pthread_t thread;
    int number;
    int failures;
} worker;

static void check(worker* self, int holds, const char* what) {
    if (holds) return;
    ++self->failures;
    fprintf(stderr, "thread %d: %s: %s\n", self->number, what, kiln_last_message());
}

static void* work(void* argument) {
    worker* self = (worker*)argument;
    int round, i;
    kiln_buffer *x_buffer = NULL, *y_buffer = NULL;
    void *x = NULL, *y = NULL;
    float numbers[count], results[count];
    for (i = 0; i < count; ++i) numbers[i] = (float)(i + self->number);
    check(self, kiln_buffer_create(service, sizeof numbers, &x_buffer) == KILN_OK, "x");
    check(self, kiln_buffer_create(service, sizeof results, &y_buffer) == KILN_OK, "y");
    check(self, kiln_buffer_data(x_buffer, &x) == KILN_OK, "x");
    check(self, kiln_buffer_data(y_buffer, &y) == KILN_OK, "y");
    check(self, kiln_buffer_write(x_buffer, 0, numbers, sizeof numbers) == KILN_OK, "write");
    for (round = 0; round < rounds; ++round) {
        const int factor = 2 + (round + self->number) % kernel_count;
        int n = count;
        char factor_text[16], wrong_text[16];
        kiln_value value;
        kiln_variant *variant = NULL, *wrong = NULL;
        kiln_kernel* kernel = NULL;
        void* arguments[3];
        arguments[0] = &n;
        arguments[1] = &x;
        arguments[2] = &y;
        snprintf(factor_text, sizeof factor_text, "%d", factor);
        snprintf(wrong_text, sizeof wrong_text, "%d", 1000 + self->number);
        value.name = "FACTOR";
        value.text = wrong_text;
        check(self, kiln_template_variant(scale, &value, 1, &wrong) == KILN_ERROR_VARIANT, "a wrong value");
        value.text = factor_text;
        check(self, kiln_template_variant(scale, &value, 1, &variant) == KILN_OK, "a variant");
        check(self, strstr(kiln_last_message(), wrong_text) != NULL, "another thread's error");
        check(self, kiln_service_build(service, variant, &kernel) == KILN_OK, "a build");
        check(self, kiln_kernel_launch(kernel, NULL, NULL, arguments, 3) == KILN_OK, "a launch");
        check(self, kiln_buffer_read(y_buffer, 0, results, sizeof results) == KILN_OK, "read");
        for (i = 0; i < count; ++i)
            check(self, results[i] == (float)factor * numbers[i], "a number is wrong");
        check(self, kiln_kernel_destroy(kernel) == KILN_OK, "destroy");
        check(self, kiln_variant_destroy(variant) == KILN_OK, "destroy");
        check(self, kiln_variant_destroy(variant) == KILN_ERROR_USAGE, "destroyed twice");
    }
    kiln_buffer_destroy(x_buffer);
    kiln_buffer_destroy(y_buffer);
    return NULL;
}

static void note_binary(void* is_there, const kiln_binary* binary) {
    pthread_testcancel();
    *(int*)is_there = binary->byte_count > 0;
}

/* AddressSanitizer leaves the stack of a thread that is cancelled poisoned, so there none is. */
#if defined(__SANITIZE_ADDRESS__)
#define CAN_CANCEL 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CAN_CANCEL 0
#endif
#endif
#if !defined(CAN_CANCEL)
#define CAN_CANCEL 1
#endif

/* Its cancellation is requested before the call, which opens files, and waits for its end. */
static void* work_cancelled(void* argument) {
    int* is_done = (int*)argument;
    kiln_variant* variant = NULL;
    int is_there = 0;
    if (CAN_CANCEL) pthread_cancel(pthread_self());
    if (kiln_template_variant(scale, NULL, 0, &variant) == KILN_OK &&
        kiln_service_compile(service, variant, note_binary, &is_there) == KILN_OK &&
        kiln_variant_destroy(variant) == KILN_OK)
        *is_done = is_there;
    pthread_testcancel();
    return NULL;
}

static int ends_behind_its_call(void) {
    pthread_t cancelled;
    void* result = NULL;
    int is_done = 0;
    if (pthread_create(&cancelled, NULL, work_cancelled, &is_done) != 0) return 0;
    pthread_join(cancelled, &result);
    return result == (CAN_CANCEL ? PTHREAD_CANCELED : NULL) && is_done;
}

int main(int argc, char** argv) {
    worker workers[thread_count];
    char directory[1024];
    kiln_service_options options;
    kiln_cache_options cache;
    kiln_counters counters;
    int i, failures = 0;
    if (argc < 2) return 2;
    snprintf(directory, sizeof directory, "%s/cache", argv[1]);
    memset(&counters, 0, sizeof counters);
    set_host_options(&options, &cache, directory);
    counters.size = sizeof counters;
    if (kiln_service_create(&options, &service) != KILN_OK ||
        kiln_service_parse(service, text, "scale.cu", NULL, 0, &scale) != KILN_OK) {
        fprintf(stderr, "%s\n", kiln_last_message());
        return 1;
    }
    for (i = 0; i < thread_count; ++i) {
        workers[i].number = i;
        workers[i].failures = 0;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) return 3;
    }
    for (i = 0; i < thread_count; ++i) {
        pthread_join(workers[i].thread, NULL);
        failures += workers[i].failures;
    }
    if (!ends_behind_its_call()) {
        fputs("a thread that is cancelled did not end behind its call\n", stderr);
        ++failures;
    }
    kiln_service_counters(service, &counters);
    if (counters.compiles != kernel_count) {
        fprintf(stderr, "%d compiles of %d kernels\n", (int)counters.compiles, kernel_count);
        ++failures;
    }
    kiln_template_destroy(scale);
    kiln_service_destroy(service);
    if (failures == 0) puts("threads are right");
    return failures == 0 ? 0 : 1;
}
