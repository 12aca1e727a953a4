/* SPDX-License-Identifier: Apache-2.0

   Misuse of the C API gives a status and a message, and nothing worse: handles that are NULL, destroyed, of another type or
   no handles at all; results without a place; structures with sizes that there are not; launches with wrong arguments.
   Usage: misuse DIRECTORY. */
#include <kiln/c/kiln.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

/* A call that must be KILN_ERROR_USAGE, and must say this. */
#define REJECTED(call, words)                                                                       \
    do {                                                                                            \
        const kiln_status rejected_status = (call);                                                 \
        if (rejected_status != KILN_ERROR_USAGE || strstr(kiln_last_message(), words) == NULL) {    \
            fprintf(stderr, "misuse.c:%d: %s gave %d: %s\n", __LINE__, #call, (int)rejected_status, \
                    kiln_last_message());                                                           \
            ++failures;                                                                             \
        }                                                                                           \
    } while (0)
#define OK(call)                                                                            \
    do {                                                                                    \
        if ((call) != KILN_OK) {                                                            \
            fprintf(stderr, "misuse.c:%d: %s: %s\n", __LINE__, #call, kiln_last_message()); \
            ++failures;                                                                     \
        }                                                                                   \
    } while (0)

static void ignore_text(void* user, const char* text) { (void)user, (void)text; }
static void ignore_parameter(void* user, const kiln_parameter* parameter) { (void)user, (void)parameter; }
static void ignore_value(void* user, const char* name, const char* text) {
    (void)user, (void)name, (void)text;
}
static void ignore_argument(void* user, const char* name, const char* type, const char* role) {
    (void)user, (void)name, (void)type, (void)role;
}
static void ignore_entry(void* user, const kiln_cache_entry* entry) { (void)user, (void)entry; }
static kiln_status record_nothing(void* user, void* stream) { return (void)user, (void)stream, KILN_OK; }
static kiln_status record_wrongly(void* user, void* stream) {
    return kiln_kernel_launch((const kiln_kernel*)user, stream, NULL, NULL, 0);
}
static void ignore_built(void* user, kiln_status status, kiln_kernel* kernel) {
    (void)user, (void)status, (void)kernel;
}

/* Every function that takes a handle, with one that is NULL or was destroyed. */
static void with_handles(kiln_service* service, kiln_template* of, kiln_variant* variant, kiln_kernel* kernel,
                         kiln_operation* operation, kiln_buffer* buffer, kiln_cache* cache, kiln_graph* graph,
                         kiln_stop* stop, const char* words) {
    kiln_service_info service_info;
    kiln_template_info template_info;
    kiln_variant_info variant_info;
    kiln_kernel_info kernel_info;
    kiln_counters counters;
    kiln_plan plan;
    kiln_operation_usage_info usage;
    kiln_cache_usage_info cache_usage;
    kiln_service* made_service = NULL;
    kiln_template* made_template = NULL;
    kiln_variant* made_variant = NULL;
    kiln_kernel* made_kernel = NULL;
    kiln_operation* made_operation = NULL;
    kiln_graph* made_graph = NULL;
    kiln_explanation explanation;
    kiln_buffer* made_buffer = NULL;
    const char* text = NULL;
    void* address = NULL;
    size_t bytes = 0;
    uint64_t sound = 0;
    memset(&service_info, 0, sizeof service_info);
    memset(&template_info, 0, sizeof template_info);
    memset(&variant_info, 0, sizeof variant_info);
    memset(&kernel_info, 0, sizeof kernel_info);
    memset(&counters, 0, sizeof counters);
    memset(&plan, 0, sizeof plan);
    memset(&usage, 0, sizeof usage);
    memset(&explanation, 0, sizeof explanation);
    memset(&cache_usage, 0, sizeof cache_usage);
    service_info.size = sizeof service_info;
    template_info.size = sizeof template_info;
    variant_info.size = sizeof variant_info;
    kernel_info.size = sizeof kernel_info;
    counters.size = sizeof counters;
    plan.size = sizeof plan;
    usage.size = sizeof usage;
    explanation.size = sizeof explanation;
    cache_usage.size = sizeof cache_usage;

    REJECTED(kiln_service_share(service, 0, &made_service), words);
    REJECTED(kiln_service_stop(service), words);
    REJECTED(kiln_service_describe(service, &service_info), words);
    REJECTED(kiln_service_stream(service, &address), words);
    REJECTED(kiln_service_synchronize(service), words);
    REJECTED(kiln_service_counters(service, &counters), words);
    REJECTED(kiln_service_prometheus(service, NULL, &text), words);
    REJECTED(kiln_service_templates(service, ignore_text, NULL), words);
    REJECTED(kiln_service_find(service, "softmax", &made_template), words);
    REJECTED(kiln_service_parse(service, "", "a.cu", NULL, 0, &made_template), words);
    REJECTED(kiln_service_load(service, "a.cu", &made_template), words);
    REJECTED(kiln_service_build(service, variant, &made_kernel), words);
    REJECTED(kiln_service_build_async(service, variant, ignore_built, NULL), words);
    REJECTED(kiln_service_build_async_until(service, variant, stop, ignore_built, NULL), words);
    REJECTED(kiln_stop_request(stop), words);
    REJECTED(kiln_service_compile(service, variant, NULL, NULL), words);
    REJECTED(kiln_service_explain(service, variant, &explanation), words);
    REJECTED(kiln_graph_capture(service, record_nothing, NULL, &made_graph), words);
    REJECTED(kiln_graph_launch(graph, NULL), words);
    REJECTED(kiln_buffer_create(service, 4, &made_buffer), words);
    REJECTED(kiln_operation_create(service, "gemm", NULL, 0, NULL, &made_operation), words);
    REJECTED(kiln_operation_create_of(service, of, NULL, 0, NULL, &made_operation), words);
    REJECTED(kiln_template_describe(of, &template_info), words);
    REJECTED(kiln_template_parameters(of, ignore_parameter, NULL), words);
    REJECTED(kiln_template_variant(of, NULL, 0, &made_variant), words);
    REJECTED(kiln_variant_with(variant, NULL, 0, &made_variant), words);
    REJECTED(kiln_variant_get(variant, "T", &text), words);
    REJECTED(kiln_variant_values(variant, ignore_value, NULL), words);
    REJECTED(kiln_variant_describe(variant, &variant_info), words);
    REJECTED(kiln_kernel_describe(kernel, &kernel_info), words);
    REJECTED(kiln_kernel_arguments(kernel, ignore_argument, NULL), words);
    REJECTED(kiln_kernel_launch(kernel, NULL, NULL, NULL, 0), words);
    REJECTED(kiln_kernel_launch_named(kernel, NULL, NULL, NULL, 0), words);
    REJECTED(kiln_kernel_symbol(kernel, "weights", &address, &bytes), words);
    REJECTED(kiln_kernel_symbol_write(kernel, "weights", 0, NULL, 0), words);
    REJECTED(kiln_kernel_symbol_read(kernel, "weights", 0, NULL, 0), words);
    REJECTED(kiln_kernel_symbol_write_async(kernel, "weights", NULL, 0, NULL, 0), words);
    REJECTED(kiln_kernel_symbol_read_async(kernel, "weights", NULL, 0, NULL, 0), words);
    REJECTED(kiln_operation_arguments(operation, ignore_argument, NULL), words);
    REJECTED(kiln_operation_prepare(operation, NULL, 0), words);
    REJECTED(kiln_operation_prepare_on(operation, NULL, 0, NULL), words);
    REJECTED(kiln_operation_workspace(operation, NULL, 0, &bytes), words);
    REJECTED(kiln_operation_launch(operation, NULL, NULL, NULL, 0), words);
    REJECTED(kiln_operation_launch_named(operation, NULL, NULL, NULL, 0, NULL, 0), words);
    REJECTED(kiln_operation_explain(operation, NULL, 0, &plan), words);
    REJECTED(kiln_operation_usage(operation, &usage), words);
    REJECTED(kiln_operation_wait(operation), words);
    REJECTED(kiln_operation_tune(operation, 1, NULL), words);
    REJECTED(kiln_operation_release(operation), words);
    REJECTED(kiln_buffer_data(buffer, &address), words);
    REJECTED(kiln_buffer_write(buffer, 0, NULL, 0), words);
    REJECTED(kiln_buffer_read(buffer, 0, NULL, 0), words);
    REJECTED(kiln_cache_entries(cache, ignore_entry, NULL), words);
    REJECTED(kiln_cache_usage(cache, &cache_usage, NULL), words);
    REJECTED(kiln_cache_verify(cache, 0, &sound, NULL, NULL), words);
    REJECTED(kiln_cache_prune(cache, 0, NULL), words);
    REJECTED(kiln_cache_clear(cache, NULL), words);
    REJECTED(kiln_cache_pack(cache, "a.pack", NULL, 0, NULL), words);
    REJECTED(kiln_cache_unpack(cache, "a.pack", NULL), words);
    REJECTED(kiln_cache_push(cache, NULL), words);
    REJECTED(kiln_cache_pull(cache, NULL), words);
}

int main(int argc, char** argv) {
    struct {
        kiln_service_options known;
        char unknown[64];
    } later;
    kiln_cache_options cache_options;
    kiln_operation_options operation_options;
    kiln_launch_options launch_options;
    kiln_kernel_info info;
    kiln_counters counters;
    kiln_error error;
    kiln_service* service = NULL;
    kiln_template* of = NULL;
    kiln_variant *variant = NULL, *none = NULL;
    kiln_kernel* kernel = NULL;
    kiln_operation* operation = NULL;
    kiln_buffer* buffer = NULL;
    kiln_cache* cache = NULL;
    kiln_graph* graph = NULL;
    kiln_stop* stop = NULL;
    char directory[1024];
    int n = 4, i;
    void *data = NULL, *nothing = NULL, *two[2], *three[3];
    const kiln_value twice[] = {{"T", "half"}, {"T", "float"}}, unnamed = {NULL, "half"};
    if (argc < 2) return 2;
    snprintf(directory, sizeof directory, "%s/cache", argv[1]);
    memset(&later, 0, sizeof later);
    memset(&cache_options, 0, sizeof cache_options);
    memset(&operation_options, 0, sizeof operation_options);
    memset(&launch_options, 0, sizeof launch_options);
    memset(&info, 0, sizeof info);
    memset(&counters, 0xff, sizeof counters);
    memset(&error, 0, sizeof error);

    /* Nothing has failed yet. */
    error.size = sizeof error;
    OK(kiln_last_error(&error));
    if (error.status != KILN_OK || error.message[0] != '\0' || error.size_count != 0) ++failures;
    REJECTED(kiln_last_error(NULL), "kiln_error is NULL");

    /* Options with sizes that there are not. */
    later.known.backend = "host";
    later.known.cache = &cache_options;
    cache_options.directory = directory;
    cache_options.remote_url = "";
    REJECTED(kiln_service_create(&later.known, &service), "the size of a kiln_service_options is 0");
    later.known.size = sizeof later.known - 1;
    REJECTED(kiln_service_create(&later.known, &service), "set its member `size`");
    later.known.size = 100000;
    REJECTED(kiln_service_create(&later.known, &service), "100000");
    later.known.size = sizeof later.known;
    REJECTED(kiln_service_create(&later.known, &service), "the size of a kiln_cache_options is 0");
    cache_options.size = sizeof cache_options;
    later.known.validate = 7;
    REJECTED(kiln_service_create(&later.known, &service), "validate is 7");
    later.known.validate = KILN_DEFAULT;
    later.known.backend = "hots";
    REJECTED(kiln_service_create(&later.known, &service), "host");
    later.known.backend = "host";
    REJECTED(kiln_service_create(&later.known, NULL), "service is NULL");
    later.known.template_directory_count = 1;
    REJECTED(kiln_service_create(&later.known, &service), "template_directories is NULL");
    later.known.template_directory_count = 0;
    later.known.compile_option_count = 1;
    REJECTED(kiln_service_create(&later.known, &service), "compile_options is NULL");
    later.known.compile_option_count = 0;
    if (service != NULL) ++failures;
    /* A later version of the structure is fine as long as its new members are not set. */
    later.known.size = sizeof later;
    later.unknown[5] = 1;
    REJECTED(kiln_service_create(&later.known, &service), "a later version of Kiln");
    later.unknown[5] = 0;
    OK(kiln_service_create(&later.known, &service));

    OK(kiln_service_find(service, "softmax", &of));
    OK(kiln_template_destroy(of));
    REJECTED(kiln_service_find(service, NULL, &of), "kiln_service_find: name is NULL");
    if (of != NULL) ++failures; /* the place of a result is NULL where there is none */
    OK(kiln_service_parse(
        service,
        "// one: y = n\n//@ kernel one\n//@ size n = 4\n//@ output y [n]\n//@ block 32\n//@ grid 1\n"
        "#include \"kiln/device.h\"\n"
        "extern \"C\" __global__ void one(int n, float* y) { if (threadIdx.x == 0) *y = n; }\n",
        "one.cu", NULL, 0, &of));
    REJECTED(kiln_template_variant(of, NULL, 1, &variant), "values is NULL");
    REJECTED(kiln_template_variant(of, twice, 2, &variant), "given twice");
    REJECTED(kiln_template_variant(of, &unnamed, 1, &variant), "the name of a value is NULL");
    OK(kiln_template_variant(of, NULL, 0, &variant));
    OK(kiln_service_build(service, variant, &kernel));

    /* Results with sizes that there are not; a smaller or larger one is filled as far as both know it. */
    REJECTED(kiln_kernel_describe(kernel, &info), "the size of a kiln_kernel_info is 0");
    REJECTED(kiln_kernel_describe(kernel, NULL), "kiln_kernel_info is NULL");
    REJECTED(kiln_service_counters(service, &counters), "the size of a kiln_counters is");

    /* Launches. */
    OK(kiln_buffer_create(service, 16, &buffer));
    OK(kiln_buffer_data(buffer, &data));
    two[0] = &n;
    two[1] = &data;
    three[0] = &n;
    three[1] = &data;
    three[2] = &data;
    OK(kiln_kernel_launch(kernel, NULL, NULL, two, 2));
    REJECTED(kiln_kernel_symbol(kernel, NULL, &data, NULL), "name");
    REJECTED(kiln_kernel_symbol(kernel, "weights", NULL, NULL), "weights");
    REJECTED(kiln_kernel_launch(kernel, NULL, NULL, three, 3), "3 arguments are given, and the kernel has 2");
    REJECTED(kiln_kernel_launch(kernel, NULL, NULL, NULL, 2), "arguments is NULL");
    two[1] = NULL;
    REJECTED(kiln_kernel_launch(kernel, NULL, NULL, two, 2), "kiln_kernel_launch: arguments[1] is NULL");
    two[1] = &data;
    n = -4;
    if (kiln_kernel_launch(kernel, NULL, NULL, two, 2) != KILN_ERROR_VARIANT ||
        strstr(kiln_last_message(), "the size n = -4 can't be negative") == NULL) {
        fprintf(stderr, "misuse.c:%d: %s\n", __LINE__, kiln_last_message());
        ++failures;
    }
    n = 4;
    REJECTED(kiln_kernel_launch(kernel, NULL, &launch_options, two, 2),
             "the size of a kiln_launch_options is 0");
    launch_options.size = sizeof launch_options;
    launch_options.dependent = 3;
    REJECTED(kiln_kernel_launch(kernel, NULL, &launch_options, two, 2), "dependent is 3");
    launch_options.dependent = KILN_DEFAULT;
    launch_options.policy_bytes = 4;
    launch_options.policy_hit = 9;
    REJECTED(kiln_kernel_launch(kernel, NULL, &launch_options, two, 2), "policy_hit is 9");
    two[1] = &nothing;
    REJECTED(kiln_kernel_launch(kernel, NULL, NULL, two, 2), "y");
    {
        const kiln_argument missing[] = {{"n", &n, sizeof n}};
        const kiln_argument unknown[] = {{"n", &n, sizeof n}, {"z", &data, sizeof data}};
        const kiln_argument doubled[] = {{"n", &n, sizeof n}, {"n", &n, sizeof n}};
        const kiln_argument narrow[] = {{"n", &n, 2}, {"y", &data, sizeof data}};
        const kiln_argument empty[] = {{"n", NULL, sizeof n}, {"y", &data, sizeof data}};
        REJECTED(kiln_kernel_launch_named(kernel, NULL, NULL, missing, 1),
                 "the argument y (float*) of one is missing");
        REJECTED(kiln_kernel_launch_named(kernel, NULL, NULL, unknown, 2), "its arguments are n, y");
        REJECTED(kiln_kernel_launch_named(kernel, NULL, NULL, doubled, 2), "given twice");
        REJECTED(kiln_kernel_launch_named(kernel, NULL, NULL, narrow, 2), "2 bytes, and a int has 4");
        REJECTED(kiln_kernel_launch_named(kernel, NULL, NULL, empty, 2), "the value of an argument is NULL");
    }

    /* Operations. */
    REJECTED(kiln_operation_create(service, "gmem", NULL, 0, NULL, &operation), "gemm");
    REJECTED(kiln_operation_create(service, "gemm", NULL, 0, &operation_options, &operation), "is 0");
    operation_options.size = sizeof operation_options;
    operation_options.when_missing = 5;
    REJECTED(kiln_operation_create(service, "gemm", NULL, 0, &operation_options, &operation),
             "when_missing is 5");
    OK(kiln_operation_create_of(service, of, NULL, 0, NULL, &operation));
    two[1] = NULL;
    REJECTED(kiln_operation_launch(operation, NULL, NULL, two, 2), "kiln_operation_launch: arguments[1] is NULL");
    REJECTED(kiln_operation_prepare(operation, NULL, 2), "shapes is NULL");
    REJECTED(kiln_operation_tune(operation, -1, NULL), "may not be negative");

    cache_options.seed_pack_count = 1;
    REJECTED(kiln_cache_open(&cache_options, &cache), "seed_packs is NULL");
    cache_options.seed_pack_count = 0;
    OK(kiln_cache_open(&cache_options, &cache));
    if (kiln_pack_entries("no-such-file.pack", ignore_entry, NULL) != KILN_ERROR_CACHE) ++failures;

    /* Graphs. */
    REJECTED(kiln_graph_capture(service, NULL, NULL, &graph), "record is NULL");
    REJECTED(kiln_graph_capture(service, record_wrongly, kernel, &graph), "0 arguments are given");
    if (graph != NULL) ++failures;
    OK(kiln_graph_capture(service, record_nothing, NULL, &graph)); /* after a capture that failed */
    REJECTED(kiln_service_explain(service, variant, NULL), "kiln_explanation is NULL");

    REJECTED(kiln_stop_create(NULL), "stop is NULL");
    OK(kiln_stop_create(&stop));
    REJECTED(kiln_service_build_async_until(service, variant, stop, NULL, NULL), "finished is NULL");
    REJECTED(kiln_service_build_async_until(service, variant, NULL, ignore_built, NULL), "NULL was given");

    /* Handles: NULL, of another type, destroyed, destroyed twice. */
    with_handles(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, "NULL was given");
    with_handles((kiln_service*)of, (kiln_template*)variant, (kiln_variant*)kernel, (kiln_kernel*)operation,
                 (kiln_operation*)buffer, (kiln_buffer*)cache, (kiln_cache*)graph, (kiln_graph*)stop,
                 (kiln_stop*)service, " is a kiln_");
    REJECTED(kiln_kernel_launch((kiln_kernel*)three, NULL, NULL, NULL, 0), "is no handle of Kiln");
    REJECTED(kiln_kernel_launch((kiln_kernel*)((char*)kernel + 1), NULL, NULL, NULL, 0),
             "is no handle of Kiln");
    REJECTED(kiln_kernel_destroy((kiln_kernel*)variant), "is a kiln_variant");
    /* The service goes before what was made of it. */
    OK(kiln_service_destroy(service));
    OK(kiln_operation_destroy(operation));
    OK(kiln_template_destroy(of));
    OK(kiln_variant_destroy(variant));
    OK(kiln_kernel_destroy(kernel));
    OK(kiln_buffer_destroy(buffer));
    OK(kiln_cache_destroy(cache));
    REJECTED(kiln_graph_launch(graph, NULL), "This graph has no launches");
    OK(kiln_graph_destroy(graph));
    OK(kiln_stop_destroy(stop));
    with_handles(service, of, variant, kernel, operation, buffer, cache, graph, stop, "a destroyed handle");
    REJECTED(kiln_service_destroy(service), "a destroyed handle");
    REJECTED(kiln_template_destroy(of), "a destroyed handle");
    REJECTED(kiln_variant_destroy(variant), "a destroyed handle");
    REJECTED(kiln_kernel_destroy(kernel), "a destroyed handle");
    REJECTED(kiln_operation_destroy(operation), "a destroyed handle");
    REJECTED(kiln_buffer_destroy(buffer), "a destroyed handle");
    REJECTED(kiln_cache_destroy(cache), "a destroyed handle");
    REJECTED(kiln_graph_destroy(graph), "a destroyed handle");
    REJECTED(kiln_stop_destroy(stop), "a destroyed handle");
    OK(kiln_stop_destroy(NULL));
    OK(kiln_graph_destroy(NULL));
    OK(kiln_service_destroy(NULL));
    OK(kiln_template_destroy(NULL));
    OK(kiln_variant_destroy(NULL));
    OK(kiln_kernel_destroy(NULL));
    OK(kiln_operation_destroy(NULL));
    OK(kiln_buffer_destroy(NULL));
    OK(kiln_cache_destroy(NULL));

    /* A destroyed handle is known as one while thousands of others come and go. */
    later.known.compile_only = 1;
    OK(kiln_service_create(&later.known, &service));
    OK(kiln_service_find(service, "softmax", &of));
    OK(kiln_template_variant(of, NULL, 0, &variant));
    OK(kiln_variant_destroy(variant));
    for (i = 0; i < 4000; ++i) {
        OK(kiln_template_variant(of, NULL, 0, &none));
        OK(kiln_variant_destroy(none));
    }
    REJECTED(kiln_variant_destroy(variant), "a destroyed handle");
    for (i = 0; i < 4000; ++i) {
        OK(kiln_template_variant(of, NULL, 0, &none));
        OK(kiln_variant_destroy(none));
    }
    OK(kiln_template_destroy(of));
    OK(kiln_service_destroy(service));
    if (failures == 0) puts("rejected");
    return failures == 0 ? 0 : 1;
}
