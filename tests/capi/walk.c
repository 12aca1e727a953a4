/* SPDX-License-Identifier: Apache-2.0

   A C program that goes through the C API on the host backend, as C11 and as C++17, with the library linked and, with
   KILN_TEST_DLOPEN, opened at run time. Usage: walk DIRECTORY [LIBRARY]; the directory is empty. */
#include <kiln/c/kiln.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#ifdef KILN_TEST_DLOPEN
#include "functions.h"
#endif

static const char* const scale_text =
    "// scale: y = FACTOR * x\n"
    "//@ kernel scale\n"
    "//@ param  FACTOR int in 1..100 = 2  \"the factor\"\n"
    "//@ param  T type in float, double = float\n"
    "//@ block  32\n"
    "//@ grid   ceil_div(n, 32)\n"
    "#include \"kiln/device.h\"\n"
    "#include \"factor.h\"\n"
    "extern \"C\" __global__ void scale(int n, const T* x, T* y) {\n"
    "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) y[i] = multiplied(T(FACTOR), x[i]);\n"
    "}\n";
static const kiln_header headers[] = {
    {"factor.h", "#pragma once\ntemplate <class T> __device__ T multiplied(T a, T b) { return a * b; }\n"}};

static int failures = 0;

static void fail(int line, const char* what) {
    fprintf(stderr, "walk.c:%d: %s\n    %s\n", line, what, kiln_last_message());
    ++failures;
}

#define CHECK(condition) \
    if (!(condition)) fail(__LINE__, #condition)
#define OK(call) CHECK((call) == KILN_OK)

/* What callbacks saw. */
typedef struct seen {
    int calls;
    char text[4096];
    int hits, compiles;
    kiln_status status;
    kiln_kernel* volatile kernel;
    volatile int is_done;
} seen;

static void see(void* user, const char* text) {
    seen* all = (seen*)user;
    ++all->calls;
    strncat(all->text, text, sizeof all->text - strlen(all->text) - 2);
    strcat(all->text, "\n");
}
static void see_event(void* user, const kiln_trace_event* event) {
    seen* all = (seen*)user;
    if (strcmp(event->kind, "hit") == 0) ++all->hits;
    if (strcmp(event->kind, "compile") == 0) ++all->compiles;
}
static void see_parameter(void* user, const kiln_parameter* parameter) {
    char line[256];
    snprintf(line, sizeof line, "%s %s %s [%s] %s", parameter->name, parameter->kind,
             parameter->default_value, parameter->allowed, parameter->text);
    see(user, line);
}
static void see_value(void* user, const char* name, const char* text) {
    char line[256];
    snprintf(line, sizeof line, "%s=%s", name, text);
    see(user, line);
}
static void see_argument(void* user, const char* name, const char* type, const char* role) {
    char line[256];
    snprintf(line, sizeof line, "%s %s %s", role, type, name);
    see(user, line);
}
static void see_binary(void* user, const kiln_binary* binary) {
    seen* all = (seen*)user;
    CHECK(binary->byte_count > 0 && memcmp(binary->bytes, "\177ELF", 4) == 0);
    CHECK(strlen(binary->key) == 64);
    see(all, binary->origin);
}
static void see_entry(void* user, const kiln_cache_entry* entry) {
    see(user, entry->variant);
    see(user, entry->backend);
}
static void see_damage(void* user, const char* file, const char* reason) {
    see(user, file);
    see(user, reason);
}
static void see_built(void* user, kiln_status status, kiln_kernel* kernel) {
    seen* all = (seen*)user;
    if (status != KILN_OK) see(user, kiln_last_message());
    all->status = status;
    all->kernel = kernel;
    __atomic_store_n(&all->is_done, 1, __ATOMIC_RELEASE);
}

/* Launches y = factor * x on 77 numbers and looks at every one, by position and by name. */
static void check_scales(kiln_service* service, const kiln_kernel* kernel, float factor) {
    enum { count = 77 };
    float x[count], y[count];
    int i, named, n = count;
    kiln_buffer *x_buffer = NULL, *y_buffer = NULL;
    void *x_there = NULL, *y_there = NULL, *stream = NULL;
    OK(kiln_service_stream(service, &stream));
    OK(kiln_buffer_create(service, sizeof x, &x_buffer));
    OK(kiln_buffer_create(service, sizeof y, &y_buffer));
    OK(kiln_buffer_data(x_buffer, &x_there));
    OK(kiln_buffer_data(y_buffer, &y_there));
    for (i = 0; i < count; ++i) x[i] = (float)(i - 30);
    OK(kiln_buffer_write(x_buffer, 0, x, sizeof x));
    for (named = 0; named < 2; ++named) {
        for (i = 0; i < count; ++i) y[i] = -1;
        OK(kiln_buffer_write(y_buffer, 0, y, sizeof y));
        if (named) {
            const kiln_argument arguments[] = {
                {"y", &y_there, sizeof y_there}, {"n", &n, sizeof n}, {"x", &x_there, sizeof x_there}};
            OK(kiln_kernel_launch_named(kernel, stream, NULL, arguments, 3));
        } else {
            kiln_launch_options options;
            void* arguments[3];
            arguments[0] = &n;
            arguments[1] = &x_there;
            arguments[2] = &y_there;
            memset(&options, 0, sizeof options);
            options.size = sizeof options;
            options.dependent = KILN_NO;
            OK(kiln_kernel_launch(kernel, stream, &options, arguments, 3));
        }
        OK(kiln_service_synchronize(service));
        OK(kiln_buffer_read(y_buffer, 0, y, sizeof y));
        for (i = 0; i < count; ++i)
            if (y[i] != factor * x[i]) {
                fail(__LINE__, "a number is wrong");
                break;
            }
    }
    CHECK(kiln_buffer_read(y_buffer, 1, y, sizeof y) == KILN_ERROR_USAGE);
    OK(kiln_buffer_destroy(x_buffer));
    OK(kiln_buffer_destroy(y_buffer));
}

static void walk_operation(kiln_service* service) {
    enum { rows = 3, columns = 50 };
    const kiln_value values[] = {{"T", "float"}};
    const kiln_size sizes[] = {{"rows", rows}, {"cols", columns}};
    const kiln_shape shape = {sizes, 2};
    kiln_operation_options options;
    kiln_operation* sums = NULL;
    kiln_operation_usage_info usage;
    kiln_error error;
    kiln_plan plan;
    seen all;
    float x[rows * columns], y[columns], expected;
    kiln_buffer *x_buffer = NULL, *y_buffer = NULL;
    void *x_there = NULL, *y_there = NULL;
    size_t bytes = 0;
    int i, j;
    memset(&options, 0, sizeof options);
    memset(&usage, 0, sizeof usage);
    memset(&error, 0, sizeof error);
    memset(&plan, 0, sizeof plan);
    memset(&all, 0, sizeof all);
    options.size = sizeof options;
    options.when_missing = KILN_WHEN_MISSING_FAIL;
    usage.size = sizeof usage;
    error.size = sizeof error;
    plan.size = sizeof plan;
    OK(kiln_operation_create(service, "column_sum", values, 1, &options, &sums));
    OK(kiln_operation_arguments(sums, see_argument, &all));
    CHECK(strcmp(all.text,
                 "size long long rows\nsize long long cols\ninput const float* x\noutput float* sums\n") ==
          0);
    OK(kiln_buffer_create(service, sizeof x, &x_buffer));
    OK(kiln_buffer_create(service, sizeof y, &y_buffer));
    OK(kiln_buffer_data(x_buffer, &x_there));
    OK(kiln_buffer_data(y_buffer, &y_there));
    for (i = 0; i < rows * columns; ++i) x[i] = (float)(i % 7);
    OK(kiln_buffer_write(x_buffer, 0, x, sizeof x));
    {
        const kiln_tensor tensors[] = {{"x", x_there}, {"sums", y_there}};
        CHECK(kiln_operation_launch_named(sums, NULL, NULL, sizes, 2, tensors, 2) == KILN_ERROR_NOT_READY);
        OK(kiln_last_error(&error));
        CHECK(error.status == KILN_ERROR_NOT_READY && error.size_count == 2);
        CHECK(strcmp(error.sizes[0].name, "cols") == 0 && error.sizes[0].value == columns);
        OK(kiln_operation_explain(sums, sizes, 2, &plan));
        CHECK(!plan.is_built && strncmp(plan.variant, "column_sum", 10) == 0 && strlen(plan.text) > 10);
        OK(kiln_operation_prepare(sums, &shape, 1));
        OK(kiln_operation_prepare_on(sums, &shape, 1, NULL));
        OK(kiln_operation_explain(sums, sizes, 2, &plan));
        CHECK(plan.is_built);
        OK(kiln_operation_workspace(sums, sizes, 2, &bytes));
        CHECK(bytes == plan.workspace_bytes);
        OK(kiln_operation_launch_named(sums, NULL, NULL, sizes, 2, tensors, 2));
    }
    OK(kiln_operation_wait(sums));
    OK(kiln_buffer_read(y_buffer, 0, y, sizeof y));
    for (j = 0; j < columns; ++j) {
        for (expected = 0, i = 0; i < rows; ++i) expected += x[i * columns + j];
        CHECK(y[j] == expected);
    }
    {
        int64_t m = rows, n = columns;
        void* arguments[4];
        arguments[0] = &m;
        arguments[1] = &n;
        arguments[2] = &x_there;
        arguments[3] = &y_there;
        OK(kiln_operation_launch(sums, NULL, NULL, arguments, 4));
        CHECK(kiln_operation_launch(sums, NULL, NULL, arguments, 3) == KILN_ERROR_USAGE);
    }
    OK(kiln_operation_usage(sums, &usage));
    CHECK(usage.shapes == 1);
    OK(kiln_operation_release(sums));
    OK(kiln_operation_usage(sums, &usage));
    CHECK(usage.shapes == 0);
    OK(kiln_operation_destroy(sums));
    OK(kiln_buffer_destroy(x_buffer));
    OK(kiln_buffer_destroy(y_buffer));
}

static void walk_cache(const char* directory, const char* pack) {
    kiln_cache_options options;
    kiln_cache_usage_info usage;
    kiln_cache_transfer transfer;
    kiln_counters counters;
    kiln_cache* cache = NULL;
    uint64_t entries, sound = 0;
    seen all;
    memset(&options, 0, sizeof options);
    memset(&usage, 0, sizeof usage);
    memset(&transfer, 0, sizeof transfer);
    memset(&counters, 0, sizeof counters);
    memset(&all, 0, sizeof all);
    options.size = sizeof options;
    options.directory = directory;
    options.remote_url = "";
    usage.size = sizeof usage;
    transfer.size = sizeof transfer;
    counters.size = sizeof counters;
    OK(kiln_cache_open(&options, &cache));
    OK(kiln_cache_usage(cache, &usage, &counters));
    entries = usage.entries;
    CHECK(entries >= 2 && usage.bytes > 0 && counters.compiles >= 2);
    OK(kiln_cache_entries(cache, see_entry, &all));
    CHECK(all.calls == 2 * (int)entries && strstr(all.text, "scale FACTOR=3 T=float\nhost\n") != NULL);
    OK(kiln_cache_verify(cache, 0, &sound, see_damage, &all));
    CHECK(sound == entries);
    OK(kiln_cache_pack(cache, pack, NULL, 0, &transfer));
    CHECK(transfer.entries == entries);
    memset(&all, 0, sizeof all);
    OK(kiln_pack_entries(pack, see_entry, &all));
    CHECK(all.calls == 2 * (int)entries);
    OK(kiln_cache_unpack(cache, pack, &transfer));
    CHECK(transfer.entries == 0 && transfer.already_there == entries);
    CHECK(kiln_cache_push(cache, &transfer) == KILN_ERROR_CACHE);
    CHECK(kiln_cache_pull(cache, NULL) == KILN_ERROR_CACHE);
    OK(kiln_cache_prune(cache, 0, &transfer));
    OK(kiln_cache_clear(cache, NULL));
    OK(kiln_cache_usage(cache, &usage, NULL));
    CHECK(usage.entries == 0);
    OK(kiln_cache_destroy(cache));
}

/* A service on a pack alone. */
static void walk_pack(const char* pack) {
    kiln_service_options options;
    kiln_cache_options cache;
    kiln_service* service = NULL;
    kiln_template* scale = NULL;
    kiln_variant* variant = NULL;
    kiln_kernel* kernel = NULL;
    kiln_kernel_info info;
    const kiln_value three = {"FACTOR", "3"}, four = {"FACTOR", "4"};
    memset(&info, 0, sizeof info);
    set_host_options(&options, &cache, NULL);
    options.cached_only = 1;
    cache.seed_packs = &pack;
    cache.seed_pack_count = 1;
    info.size = sizeof info;
    OK(kiln_service_create(&options, &service));
    OK(kiln_service_parse(service, scale_text, "scale.cu", headers, 1, &scale));
    OK(kiln_template_variant(scale, &three, 1, &variant));
    OK(kiln_service_build(service, variant, &kernel));
    OK(kiln_kernel_describe(kernel, &info));
    CHECK(strcmp(info.origin, "seed") == 0);
    check_scales(service, kernel, 3);
    OK(kiln_kernel_destroy(kernel));
    OK(kiln_variant_destroy(variant));
    OK(kiln_template_variant(scale, &four, 1, &variant));
    CHECK(kiln_service_build(service, variant, &kernel) == KILN_ERROR_BUILD && kernel == NULL);
    OK(kiln_variant_destroy(variant));
    OK(kiln_template_destroy(scale));
    OK(kiln_service_destroy(service));
}

/* What kiln_graph_capture() captures: y = 3 x of each of the two halves. */
typedef struct captured {
    const kiln_kernel* kernel;
    float *x, *y;
    int n;
} captured;
static kiln_status record_halves(void* user, void* stream) {
    const captured* of = (const captured*)user;
    int half;
    for (half = 0; half < 2; ++half) {
        int n = of->n / 2;
        float *x = of->x + half * n, *y = of->y + half * n;
        void* arguments[3];
        kiln_status status;
        arguments[0] = &n;
        arguments[1] = &x;
        arguments[2] = &y;
        status = kiln_kernel_launch(of->kernel, stream, NULL, arguments, 3);
        if (status != KILN_OK) return status;
    }
    return KILN_OK;
}

static void walk_graph(kiln_service* service, const kiln_kernel* kernel) {
    enum { count = 64 };
    float numbers[count];
    int i, round;
    captured what;
    kiln_graph* graph = NULL;
    kiln_buffer* buffer = NULL;
    void *there = NULL, *stream = NULL;
    OK(kiln_service_stream(service, &stream));
    OK(kiln_buffer_create(service, 2 * sizeof numbers, &buffer));
    OK(kiln_buffer_data(buffer, &there));
    for (i = 0; i < count; ++i) numbers[i] = -1;
    OK(kiln_buffer_write(buffer, sizeof numbers, numbers, sizeof numbers));
    what.kernel = kernel;
    what.x = (float*)there;
    what.y = what.x + count;
    what.n = count;
    OK(kiln_graph_capture(service, record_halves, &what, &graph));
    OK(kiln_service_synchronize(service));
    OK(kiln_buffer_read(buffer, sizeof numbers, numbers, sizeof numbers));
    for (i = 0; i < count; ++i) CHECK(numbers[i] == -1); /* captured, and not run */
    for (round = 1; round < 3; ++round) {
        for (i = 0; i < count; ++i) numbers[i] = (float)(round * i);
        OK(kiln_buffer_write(buffer, 0, numbers, sizeof numbers));
        OK(kiln_graph_launch(graph, stream));
        OK(kiln_service_synchronize(service));
        OK(kiln_buffer_read(buffer, sizeof numbers, numbers, sizeof numbers));
        for (i = 0; i < count; ++i) CHECK(numbers[i] == (float)(3 * round * i));
    }
    OK(kiln_graph_destroy(graph));
    OK(kiln_buffer_destroy(buffer));
}

/* Of a variant that is in the cache, and of one that differs from it. */
static void walk_explain(const kiln_service* service, const kiln_variant* known, const kiln_variant* other) {
    kiln_explanation why;
    size_t i;
    int is_named = 0;
    memset(&why, 0, sizeof why);
    why.size = sizeof why;
    OK(kiln_service_explain(service, known, &why));
    CHECK(strlen(why.key) == 64 && strcmp(why.tier, "disk") == 0 && why.place[0] != '\0');
    CHECK(why.compiler[0] != '\0' && why.no_compiler[0] == '\0' && why.rejected_count == 0);
    OK(kiln_service_explain(service, other, &why));
    CHECK(why.tier[0] == '\0' && strstr(why.nearest_variant, "scale FACTOR=") != NULL);
    CHECK(strlen(why.nearest_key) == 64 && why.difference_count > 0);
    for (i = 0; i < why.difference_count; ++i)
        if (strstr(why.differences[i].wanted, "99") != NULL) is_named = 1;
    CHECK(is_named);
}

/* A variable of the module is written and read, at once and as work of a stream. */
static void walk_symbols(kiln_service* service) {
    static const char* const text =
        "//@ kernel weighted\n//@ block 32\n//@ grid 1\n#include \"kiln/device.h\"\n"
        "__constant__ float weights[3];\n"
        "extern \"C\" __global__ void weighted(float* y) { if (threadIdx.x < 3) y[threadIdx.x] = "
        "weights[threadIdx.x]; }\n";
    static const float weights[3] = {1.5f, 2.5f, 3.5f}, last = 9.0f;
    float y[3] = {0, 0, 0}, back[2] = {0, 0};
    kiln_template* of = NULL;
    kiln_variant* variant = NULL;
    kiln_kernel* kernel = NULL;
    kiln_buffer* buffer = NULL;
    void *there = NULL, *address = NULL, *stream = NULL, *arguments[1];
    size_t bytes = 0;
    OK(kiln_service_parse(service, text, "weighted.cu", NULL, 0, &of));
    OK(kiln_template_variant(of, NULL, 0, &variant));
    OK(kiln_service_build(service, variant, &kernel));
    OK(kiln_service_stream(service, &stream));
    OK(kiln_kernel_symbol(kernel, "weights", &address, &bytes));
    CHECK(address != NULL && bytes == sizeof weights);
    OK(kiln_kernel_symbol_write(kernel, "weights", 0, weights, sizeof weights));
    OK(kiln_kernel_symbol_write_async(kernel, "weights", stream, 2 * sizeof last, &last, sizeof last));
    OK(kiln_buffer_create(service, sizeof y, &buffer));
    OK(kiln_buffer_data(buffer, &there));
    arguments[0] = &there;
    OK(kiln_kernel_launch(kernel, stream, NULL, arguments, 1));
    OK(kiln_service_synchronize(service));
    OK(kiln_buffer_read(buffer, 0, y, sizeof y));
    CHECK(y[0] == 1.5f && y[1] == 2.5f && y[2] == 9.0f);
    OK(kiln_kernel_symbol_read(kernel, "weights", sizeof last, back, sizeof last));
    OK(kiln_kernel_symbol_read_async(kernel, "weights", stream, 2 * sizeof last, back + 1, sizeof last));
    OK(kiln_service_synchronize(service));
    CHECK(back[0] == 2.5f && back[1] == 9.0f);
    CHECK(kiln_kernel_symbol(kernel, "weight", &address, NULL) == KILN_ERROR_USAGE && address == NULL);
    CHECK(strstr(kiln_last_message(), "weights") != NULL);
    CHECK(kiln_kernel_symbol_write(kernel, "weights", 1, weights, sizeof weights) == KILN_ERROR_USAGE);
    OK(kiln_buffer_destroy(buffer));
    OK(kiln_kernel_destroy(kernel));
    OK(kiln_variant_destroy(variant));
    OK(kiln_template_destroy(of));
}

/* Options of the compiler reach it, and a program of the first version, which has none, is served too. */
static void walk_compile_options(const char* directory) {
    static const char* const text =
        "//@ kernel defined\n//@ block 32\n//@ grid 1\n#include \"kiln/device.h\"\n"
        "extern \"C\" __global__ void defined(int* y) { *y = WHAT; }\n";
    static const char* const defined[] = {"-DWHAT=42"};
    int version;
    for (version = 0; version < 2; ++version) {
        kiln_service_options options;
        kiln_cache_options cache;
        kiln_service* service = NULL;
        kiln_template* of = NULL;
        kiln_variant* variant = NULL;
        kiln_kernel* kernel = NULL;
        kiln_buffer* buffer = NULL;
        void *there = NULL, *arguments[1];
        int y = 0;
        set_host_options(&options, &cache, directory);
        if (version == 0) options.size = offsetof(kiln_service_options, compile_options);
        options.compile_options = defined;
        options.compile_option_count = 1;
        OK(kiln_service_create(&options, &service));
        OK(kiln_service_parse(service, text, "defined.cu", NULL, 0, &of));
        OK(kiln_template_variant(of, NULL, 0, &variant));
        if (version == 0) {
            CHECK(kiln_service_build(service, variant, &kernel) == KILN_ERROR_BUILD);
        } else {
            OK(kiln_service_build(service, variant, &kernel));
            OK(kiln_buffer_create(service, sizeof y, &buffer));
            OK(kiln_buffer_data(buffer, &there));
            arguments[0] = &there;
            OK(kiln_kernel_launch(kernel, NULL, NULL, arguments, 1));
            OK(kiln_buffer_read(buffer, 0, &y, sizeof y));
            CHECK(y == 42);
        }
        OK(kiln_buffer_destroy(buffer));
        OK(kiln_kernel_destroy(kernel));
        OK(kiln_variant_destroy(variant));
        OK(kiln_template_destroy(of));
        OK(kiln_service_destroy(service));
    }
}

static void walk_errors(kiln_service* service, kiln_template* scale) {
    kiln_template* wrong = NULL;
    kiln_variant* variant = NULL;
    kiln_kernel* kernel = NULL;
    kiln_error error;
    const kiln_value outside = {"FACTOR", "101"}, unknown = {"FACTRO", "3"};
    memset(&error, 0, sizeof error);
    error.size = sizeof error;
    CHECK(kiln_service_parse(service, "//@ kernel a\n//@ blokc 3\n", "wrong.cu", NULL, 0, &wrong) ==
          KILN_ERROR_TEMPLATE);
    OK(kiln_last_error(&error));
    CHECK(wrong == NULL && strcmp(error.file, "wrong.cu") == 0 && error.line == 2 && error.column > 0);
    CHECK(kiln_service_find(service, "sotfmax", &wrong) == KILN_ERROR_USAGE);
    CHECK(strstr(kiln_last_message(), "softmax") != NULL);
    CHECK(kiln_template_variant(scale, &outside, 1, &variant) == KILN_ERROR_VARIANT && variant == NULL);
    CHECK(kiln_template_variant(scale, &unknown, 1, &variant) == KILN_ERROR_VARIANT);
    CHECK(strstr(kiln_last_message(), "FACTOR") != NULL);
    OK(kiln_service_find(service, "gemm_tiled", &wrong));
    {
        const kiln_value values[] = {{"TN", "1"}, {"VEC", "2"}};
        CHECK(kiln_template_variant(wrong, values, 2, &variant) == KILN_ERROR_VARIANT);
        OK(kiln_last_error(&error));
        CHECK(strcmp(error.rule, "TN % VEC == 0") == 0 && error.log[0] == '\0');
    }
    OK(kiln_template_destroy(wrong));
    OK(kiln_service_parse(
        service,
        "// bad: does not compile\n//@ kernel bad\n//@ block 32\n//@ grid 1\n"
        "#include \"kiln/device.h\"\nextern \"C\" __global__ void bad(int n) { nonsense; }\n",
        "bad.cu", NULL, 0, &wrong));
    OK(kiln_template_variant(wrong, NULL, 0, &variant));
    CHECK(kiln_service_build(service, variant, &kernel) == KILN_ERROR_BUILD && kernel == NULL);
    OK(kiln_last_error(&error));
    CHECK(strstr(error.log, "nonsense") != NULL && strstr(error.log, "bad.cu") != NULL);
    OK(kiln_variant_destroy(variant));
    OK(kiln_template_destroy(wrong));
}

int main(int argc, char** argv) {
    char cache_directory[1024], template_directory[1024], template_file[1100], pack[1024];
    const char* directories[1];
    kiln_version_info version;
    kiln_service_options options;
    kiln_cache_options cache;
    kiln_service_info about;
    kiln_template_info template_info;
    kiln_variant_info variant_info;
    kiln_kernel_info kernel_info;
    kiln_counters counters;
    kiln_service *service = NULL, *second = NULL;
    kiln_template *scale = NULL, *from_directory = NULL, *from_file = NULL;
    kiln_variant *variant = NULL, *changed = NULL;
    kiln_kernel* kernel = NULL;
    const kiln_value three = {"FACTOR", "3"}, five = {"FACTOR", "5"}, six = {"FACTOR", "6"},
                     other = {"FACTOR", "99"};
    const char* text = NULL;
    seen log, events, all, built;
    FILE* file;
    if (argc < 2) return 2;
#ifdef KILN_TEST_DLOPEN
    if (argc < 3 || !load_functions(argv[2])) return 3;
#endif
    memset(&version, 0, sizeof version);
    memset(&about, 0, sizeof about);
    memset(&template_info, 0, sizeof template_info);
    memset(&variant_info, 0, sizeof variant_info);
    memset(&kernel_info, 0, sizeof kernel_info);
    memset(&counters, 0, sizeof counters);
    memset(&log, 0, sizeof log);
    memset(&events, 0, sizeof events);
    memset(&all, 0, sizeof all);
    memset(&built, 0, sizeof built);
    version.size = sizeof version;
    about.size = sizeof about;
    template_info.size = sizeof template_info;
    variant_info.size = sizeof variant_info;
    kernel_info.size = sizeof kernel_info;
    counters.size = sizeof counters;

    OK(kiln_version(&version));
    CHECK(version.abi == KILN_C_ABI && version.level >= KILN_C_LEVEL && strchr(version.text, '.') != NULL);
    OK(kiln_status_name(KILN_ERROR_NOT_READY, &text));
    CHECK(strcmp(text, "not_ready") == 0);
    CHECK(kiln_status_name(99, &text) == KILN_ERROR_USAGE);

    /* A service with a cache, and with templates of its own. */
    snprintf(cache_directory, sizeof cache_directory, "%s/cache", argv[1]);
    snprintf(template_directory, sizeof template_directory, "%s", argv[1]);
    snprintf(template_file, sizeof template_file, "%s/mine.cu", argv[1]);
    snprintf(pack, sizeof pack, "%s/all.pack", argv[1]);
    file = fopen(template_file, "w");
    if (file == NULL) return 4;
    fputs(
        "// mine: y = 1\n//@ kernel mine\n//@ block 32\n//@ grid 1\n#include \"kiln/device.h\"\n"
        "extern \"C\" __global__ void mine(float* y) { if (threadIdx.x == 0) *y = 1; }\n",
        file);
    fclose(file);
    directories[0] = template_directory;
    set_host_options(&options, &cache, cache_directory);
    options.workers = 1;
    options.template_directories = directories;
    options.template_directory_count = 1;
    options.on_log = see;
    options.on_log_user = &log;
    options.on_trace = see_event;
    options.on_trace_user = &events;
    OK(kiln_service_create(&options, &service));
    if (service == NULL) return 1;
    OK(kiln_service_describe(service, &about));
    CHECK(strcmp(about.backend, "host") == 0 && about.has_device && about.device[0] != '\0');
    CHECK(strcmp(about.cache_directory, cache_directory) == 0 && about.cache_problem[0] == '\0');
    OK(kiln_service_templates(service, see, &all));
    CHECK(strstr(all.text, "gemm_tiled\n") != NULL && strstr(all.text, "mine\n") != NULL);

    /* Templates: of a directory, of a file, of a text. */
    OK(kiln_service_find(service, "mine", &from_directory));
    OK(kiln_service_load(service, template_file, &from_file));
    OK(kiln_service_parse(service, scale_text, "scale.cu", headers, 1, &scale));
    OK(kiln_template_describe(scale, &template_info));
    CHECK(strcmp(template_info.name, "scale") == 0 && strcmp(template_info.file, "scale.cu") == 0);
    CHECK(!template_info.is_runnable);
    memset(&all, 0, sizeof all);
    OK(kiln_template_parameters(scale, see_parameter, &all));
    CHECK(strcmp(all.text, "FACTOR int 2 [1..100] the factor\nT type float [float, double] \n") ==
          0);

    /* Variants. */
    OK(kiln_template_variant(scale, &three, 1, &variant));
    OK(kiln_variant_get(variant, "FACTOR", &text));
    CHECK(strcmp(text, "3") == 0);
    CHECK(kiln_variant_get(variant, "FACTORS", &text) == KILN_ERROR_USAGE && text == NULL);
    OK(kiln_variant_with(variant, &five, 1, &changed));
    memset(&all, 0, sizeof all);
    OK(kiln_variant_values(changed, see_value, &all));
    CHECK(strcmp(all.text, "FACTOR=5\nT=float\n") == 0);
    OK(kiln_variant_destroy(changed));
    OK(kiln_variant_describe(variant, &variant_info));
    CHECK(strcmp(variant_info.text, "scale FACTOR=3 T=float") == 0);
    CHECK(variant_info.block[0] == 32 && variant_info.block[1] == 1 && variant_info.cluster[0] == 1);

    /* Kernels: built here, in the background, and compiled only. */
    OK(kiln_service_build(service, variant, &kernel));
    OK(kiln_kernel_describe(kernel, &kernel_info));
    CHECK(strcmp(kernel_info.origin, "compiled") == 0 && kernel_info.argument_count == 3);
    CHECK(kernel_info.function != NULL && strlen(kernel_info.key) == 64);
    memset(&all, 0, sizeof all);
    OK(kiln_kernel_arguments(kernel, see_argument, &all));
    CHECK(strcmp(all.text, " int n\n const float* x\n float* y\n") == 0);
    check_scales(service, kernel, 3);
    walk_graph(service, kernel);
    walk_symbols(service);
    OK(kiln_variant_with(variant, &other, 1, &changed));
    walk_explain(service, variant, changed);
    OK(kiln_variant_destroy(changed));
    OK(kiln_variant_with(variant, &five, 1, &changed));
    OK(kiln_service_build_async(service, changed, see_built, &built));
    while (!__atomic_load_n(&built.is_done, __ATOMIC_ACQUIRE)) {
    }
    CHECK(built.status == KILN_OK);
    check_scales(service, built.kernel, 5);
    OK(kiln_kernel_destroy(built.kernel));
    OK(kiln_variant_destroy(changed));
    OK(kiln_variant_with(variant, &six, 1, &changed));
    memset(&all, 0, sizeof all);
    OK(kiln_service_compile(service, changed, see_binary, &all));
    CHECK(strcmp(all.text, "compiled\n") == 0);
    OK(kiln_service_compile(service, changed, NULL, NULL));

    walk_errors(service, scale);
    walk_operation(service);

    /* Counters: those of a second service that shares the builds are the same. */
    OK(kiln_service_share(service, 0, &second));
    OK(kiln_service_counters(service, &counters));
    CHECK(counters.compiles >= 4 && counters.stored_entries >= 3 && counters.build_failures == 1);
    CHECK(events.compiles >= 3 && events.hits >= 1);
    OK(kiln_service_prometheus(service, "service=\"walk\"", &text));
    CHECK(strstr(text, "kiln_compiles_total{service=\"walk\"} ") != NULL);
    CHECK(log.calls == 0);

    /* Kernels outlive what they were made of. */
    OK(kiln_template_destroy(scale));
    OK(kiln_template_destroy(from_directory));
    OK(kiln_template_destroy(from_file));
    OK(kiln_variant_destroy(variant));
    OK(kiln_variant_destroy(changed));
    OK(kiln_service_destroy(service));
    check_scales(second, kernel, 3);
    OK(kiln_service_stop(second));
    OK(kiln_service_destroy(second));
    OK(kiln_kernel_destroy(kernel));

    walk_cache(cache_directory, pack);
    walk_pack(pack);
    walk_compile_options(cache_directory);
    if (failures == 0) puts("walked");
    return failures == 0 ? 0 : 1;
}
