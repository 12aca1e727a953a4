// SPDX-License-Identifier: Apache-2.0
//
// Kiln as a C library (C11; C++ programs may include it too, and kiln/c/kiln.hpp is a C++17 layer over it). It is part of
// libkiln, whose SONAME is that of this interface: programs run with every later libkiln of the same KILN_C_ABI.
//
//     kiln_service* service = NULL;
//     if (kiln_service_create(NULL, &service) != KILN_OK) puts(kiln_last_message());
//
// Rules that hold for all of it:
// - Every function returns a kiln_status, and no C++ exception leaves it. Of the calling thread's last call that failed,
//   kiln_last_error() has message, file, line, rule and log.
// - What kiln_X_create and similar functions give through their last parameter belongs to the caller, who gives it to
//   kiln_X_destroy; on failure it is NULL. Handles may be destroyed in any order, each once; destroying NULL does nothing.
// - A handle that is NULL, destroyed, or of another type is KILN_ERROR_USAGE. (Destroyed ones are recognised until 4096
//   later ones were destroyed; a handle must not be destroyed while another thread uses it.)
// - All functions may be called from any thread, those of one kiln_buffer from one thread at a time.
// - A thread is not cancelled (pthread_cancel) in a function, but at its next cancellation point after that.
// - Parameters are read during the call only. Text is null-terminated UTF-8.
// - Results with text are given in two ways: to a function of the caller, for the time of its call; or as pointers, which
//   are valid until the calling thread calls the same function again, or, where it says so, as long as the handle.
// - Structures begin with their size, which the caller sets to sizeof; everything else may be zero, which is the default.
//   Later versions append members. Structures without a size never change.
// - Functions of the caller must not throw. They are called with the `user` that was given with them.
#pragma once

// NOLINTBEGIN(modernize-*): it is C.
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The number of this ABI, which is that of the SONAME: libkiln.so.0.
#define KILN_C_ABI 0
/// Counts the additions to the ABI. kiln_version() says which the library has.
#define KILN_C_LEVEL 4
/// Marks what the library exports.
#define KILN_C_API __attribute__((visibility("default")))

/// What a call came to. Each error is described in docs/embedding.md.
typedef enum kiln_status {
    KILN_OK = 0,           ///< it did what it says
    KILN_ERROR_USAGE = 1,  ///< wrong use: a handle, a size of a structure, a name, an argument list
    KILN_ERROR_TEMPLATE =
        2,  ///< a template that can't be read, or whose `//@` lines are wrong: file, line, column
    KILN_ERROR_VARIANT = 3,  ///< values that are not allowed, break a rule, or exceed the device
    KILN_ERROR_BUILD =
        4,  ///< the compiler rejects the source, died, ran out of time, is not there (log), or was cancelled
    KILN_ERROR_CACHE = 5,      ///< a cache or pack that was asked for by name can't be used
    KILN_ERROR_DEVICE = 6,     ///< a driver call failed, or there is no device: call, code
    KILN_ERROR_NOT_READY = 7,  ///< an operation would have to compile, load or allocate, and may not: sizes
    KILN_ERROR_MEMORY = 8,     ///< main memory is exhausted
    KILN_ERROR_INTERNAL = 9    ///< none of these
} kiln_status;

/// A choice that may be left to the library.
typedef int32_t kiln_choice;
/// Values of a kiln_choice.
enum {
    KILN_DEFAULT = 0,  ///< as the documentation of the member says
    KILN_YES = 1,      ///< it is so
    KILN_NO = 2        ///< it is not
};

/// A service: has a device, a stream, templates and a cache. Lives until it and all of its operations are destroyed.
typedef struct kiln_service kiln_service;
/// A parsed template, bound to the target of its service. Immutable.
typedef struct kiln_template kiln_template;
/// A template with a value for each parameter. Immutable.
typedef struct kiln_variant kiln_variant;
/// A variant that is built and loaded. Immutable. Outlives its service.
typedef struct kiln_kernel kiln_kernel;
/// A problem: the best variant for each shape that it is called with. Keeps its service.
typedef struct kiln_operation kiln_operation;
/// Memory of a device. Outlives its service.
typedef struct kiln_buffer kiln_buffer;
/// A cache directory, as an operator sees it.
typedef struct kiln_cache kiln_cache;
/// Launches that were captured. Outlives its service, and keeps its kernels.
typedef struct kiln_graph kiln_graph;
/// Cancels builds in the background.
typedef struct kiln_stop kiln_stop;

/// The value of a parameter: {"BM", "64"}, {"T", "half"}, {"TRANS_A", "true"}.
typedef struct kiln_value {
    const char* name;  ///< of the parameter
    const char* text;  ///< read as the parameter's kind
} kiln_value;

/// A size of a problem: {"m", 1000}.
typedef struct kiln_size {
    const char* name;  ///< of the kernel's argument
    int64_t value;     ///< not negative
} kiln_size;

/// The sizes of one problem.
typedef struct kiln_shape {
    const kiln_size* sizes;  ///< in any order, all that the operation has
    size_t count;            ///< of sizes
} kiln_shape;

/// A tensor of an operation.
typedef struct kiln_tensor {
    const char* name;  ///< of the argument
    const void* data;  ///< an address of the device
} kiln_tensor;

/// An argument of a kernel by its name: {"n", &n, sizeof n}, {"x", &x, sizeof x} with a pointer x.
typedef struct kiln_argument {
    const char* name;   ///< as the kernel's declaration has it
    const void* value;  ///< where the value is; of a tensor where its address is
    size_t bytes;       ///< of the value; compared with the declared type
} kiln_argument;

/// A header that a template in a string includes.
typedef struct kiln_header {
    const char* name;  ///< as in `#include "name"`
    const char* text;  ///< its content
} kiln_header;

// ---- The library ----

/// What library this is.
typedef struct kiln_version_info {
    size_t size;       ///< sizeof(kiln_version_info)
    int abi;           ///< KILN_C_ABI of the library
    int level;         ///< its KILN_C_LEVEL
    int major;         ///< of Kiln's version
    int minor;         ///< likewise
    int patch;         ///< likewise
    const char* text;  ///< "0.1.0"; static
} kiln_version_info;

/// Which version of Kiln this is, and what of this header it has.
KILN_C_API kiln_status kiln_version(kiln_version_info* version);

/// "ok", "usage", "template", ... of a status; static. KILN_ERROR_USAGE for a number that is none.
KILN_C_API kiln_status kiln_status_name(int32_t status, const char** name);

/// What the last call of this thread that failed had to say. Calls that succeed do not change it. Its pointers are valid
/// until the thread's next call that fails; text is never NULL.
typedef struct kiln_error {
    size_t size;             ///< sizeof(kiln_error)
    kiln_status status;      ///< that the call returned; KILN_OK: none has failed
    const char* message;     ///< what was wrong, the value, and the nearest right thing
    const char* file;        ///< KILN_ERROR_TEMPLATE: as the template was named; else ""
    int line;                ///< in it, from 1; 0: none
    int column;              ///< likewise
    const char* rule;        ///< KILN_ERROR_VARIANT: that does not hold ("BM % TM == 0"); else ""
    const char* log;         ///< KILN_ERROR_BUILD: the compiler's; else ""
    const char* call;        ///< KILN_ERROR_DEVICE: of the driver ("cuLaunchKernel"); else ""
    int code;                ///< what that returned
    const kiln_size* sizes;  ///< KILN_ERROR_NOT_READY: the shape to prepare
    size_t size_count;       ///< of sizes
} kiln_error;

/// Fills `error`. In a function of the caller that is given a status, it is the error of that status.
KILN_C_API kiln_status kiln_last_error(kiln_error* error);

/// The message of kiln_last_error(); never NULL.
static inline const char* kiln_last_message(void) {
    kiln_error error = {sizeof(kiln_error), KILN_OK, "", "", 0, 0, "", "", "", 0, NULL, 0};
    kiln_last_error(&error);
    return error.message;
}

/// Receives one text.
typedef void (*kiln_text_function)(void* user, const char* text);

// ---- Cache: options, counters, events ----

/// Where entries are looked up and stored.
typedef struct kiln_cache_options {
    size_t size;                    ///< sizeof(kiln_cache_options)
    const char* directory;          ///< NULL: KILN_CACHE_DIR, else $XDG_CACHE_HOME/kiln, else ~/.cache/kiln
    int disabled;                   ///< not 0: no tier but memory
    uint64_t limit_bytes;           ///< of all entries on disk; 0: KILN_CACHE_LIMIT, else 1 GiB
    kiln_choice share_with_group;   ///< default: KILN_CACHE_SHARE=group
    const char* const* seed_packs;  ///< files of `kiln cache pack`, looked into in this order
    size_t seed_pack_count;         ///< of seed_packs
    const char* remote_url;         ///< redis:// or rediss://; NULL: KILN_REMOTE and others; "": none
    const char* remote_password_file;       ///< may be NULL; these are used with remote_url only
    const char* remote_ca_file;             ///< may be NULL
    const char* remote_signature_key_file;  ///< may be NULL
    int remote_read_only;                   ///< not 0: entries are fetched and never stored
    uint32_t remote_timeout_ms;             ///< of one exchange; 0: 500
    uint32_t wait_limit_ms;                 ///< for another process that compiles the same; 0: 120000
} kiln_cache_options;

/// What has happened; kiln/trace.h explains each.
typedef struct kiln_counters {
    size_t size;                ///< sizeof(kiln_counters)
    uint64_t memory_hits;       ///< kernels that were loaded already
    uint64_t disk_hits;         ///< entries of the cache directory
    uint64_t seed_hits;         ///< entries of seed packs
    uint64_t remote_hits;       ///< entries of the remote
    uint64_t misses;            ///< neither found nor served by another process or machine
    uint64_t compiles;          ///< that were started
    uint64_t build_failures;    ///< of those
    uint64_t waits;             ///< for another process or machine that compiled the same
    uint64_t take_overs;        ///< from one that died or stalled
    uint64_t rejected_entries;  ///< damaged, foreign, not trusted, or rejected by the driver
    uint64_t stored_entries;    ///< on disk
    uint64_t remote_stores;     ///< entries sent to the remote
    uint64_t remote_failures;   ///< calls that failed or ran out of time
    uint64_t pruned_entries;    ///< removed to stay below the limit
    uint64_t bytes_read;        ///< entries of hits beyond memory
    uint64_t bytes_written;     ///< entries stored, on disk and remotely
    uint64_t compile_ms;        ///< spent compiling
    uint64_t saved_ms;          ///< what those hits would have taken to compile
} kiln_counters;

/// An event of a service's cache.
typedef struct kiln_trace_event {
    size_t size;  ///< of what the library filled
    const char*
        kind;  ///< "hit", "miss", "wait", "take_over", "compile", "failure", "store", "reject", "prune", ...
    const char* tier;     ///< "memory", "disk", "seed", "remote", "compiled" or "off"
    const char* key;      ///< the digest; may be ""
    const char* variant;  ///< "gemm_tiled BM=64 ..."; may be ""
    double elapsed_ms;    ///< of what happened
    uint64_t bytes;       ///< likewise
    const char* detail;   ///< for people; may be ""
} kiln_trace_event;
/// Receives an event. Called from any thread in the middle of a build: it must be quick and not call the service.
typedef void (*kiln_trace_function)(void* user, const kiln_trace_event* event);

// ---- Service ----

/// How a service is set up. What is zero is taken from the environment (docs/environment.md), else it has a default.
typedef struct kiln_service_options {
    size_t size;           ///< sizeof(kiln_service_options)
    const char* backend;   ///< "cuda", "hip" or "host"; NULL: the first of them that there is
    int device;            ///< its number in the backend, from 0
    void* context;         ///< CUDA: a CUcontext to work in; NULL: the primary one
    const char* arch;      ///< "sm_90a"; NULL: the device's own
    int compile_only;      ///< not 0: no device is opened
    int cached_only;       ///< not 0: no compiler is started; what is in no tier is an error
    kiln_choice validate;  ///< ask the driver about the pointers of launches; default: KILN_VALIDATE
    const char* const*
        template_directories;         ///< of *.cu files, searched in this order before the built-in templates
    size_t template_directory_count;  ///< of template_directories
    const char* const* include_directories;  ///< for headers that templates include
    size_t include_directory_count;          ///< of include_directories
    const kiln_cache_options* cache;         ///< NULL: defaults
    const char* record;  ///< a file for what is asked for, for `kiln cache pack --for`; may be NULL
    int workers;  ///< processes that compile in the background, up to 1024; 0: KILN_WORKERS, else one per core
    uint32_t compile_timeout_ms;   ///< of a compile in such a process; 0: 120000
    uint64_t worker_memory_bytes;  ///< that such a process may use; 0: 16 GiB
    kiln_text_function on_log;  ///< receives a line when something degraded; NULL: it goes to standard error
    void* on_log_user;          ///< for on_log
    kiln_trace_function on_trace;  ///< receives the events of the cache; may be NULL
    void* on_trace_user;           ///< for on_trace
    const char* const*
        compile_options;          ///< for every template, after its own: "-DNAME=1" (docs/templates.md)
    size_t compile_option_count;  ///< of compile_options
    int debug;  ///< not 0: debuggers and profilers see templates' files by their real paths, which binaries then hold
} kiln_service_options;

/// Opens the device. options: NULL for defaults. on_log and on_trace may be called until the service has ended.
KILN_C_API kiln_status kiln_service_create(const kiln_service_options* options, kiln_service** service);
/// A service of another device that shares compiler, cache and builds with this one. Neither needs to outlive the other.
KILN_C_API kiln_status kiln_service_share(const kiln_service* service, int device, kiln_service** shared);
/// Waits for builds in the background. Not to be called in a function that a build calls.
KILN_C_API kiln_status kiln_service_destroy(kiln_service* service);
/// Ends compilers that run in processes of their own; their builds fail with KILN_ERROR_BUILD, later ones as well.
KILN_C_API kiln_status kiln_service_stop(kiln_service* service);

/// What a service found.
typedef struct kiln_service_info {
    size_t size;                  ///< sizeof(kiln_service_info)
    const char* backend;          ///< "cuda", "hip" or "host"
    const char* arch;             ///< that it builds for: "sm_90a"
    int has_device;               ///< 0: it compiles and can't launch
    const char* device;           ///< its name: "NVIDIA H200"; "" without one
    const char* driver;           ///< the driver's version, for people
    const char* cache_directory;  ///< "" without a disk cache
    const char* cache_problem;    ///< why it is not in use though it was asked for; "": all is well
} kiln_service_info;

/// Fills `info`.
KILN_C_API kiln_status kiln_service_describe(const kiln_service* service, kiln_service_info* info);
/// The CUstream or hipStream_t of the service's own stream, which it keeps; NULL on the host.
KILN_C_API kiln_status kiln_service_stream(const kiln_service* service, void** stream);
/// Waits for the service's own stream, and reports what its kernels did wrong.
KILN_C_API kiln_status kiln_service_synchronize(const kiln_service* service);
/// Of this service and those that share its builds, since the first was made.
KILN_C_API kiln_status kiln_service_counters(const kiln_service* service, kiln_counters* counters);
/// The counters in Prometheus' text format. labels: `service="a"` for every line; may be NULL.
KILN_C_API kiln_status kiln_service_prometheus(const kiln_service* service, const char* labels,
                                               const char** text);

// ---- Templates and variants ----

/// Gives each template's name to `each`, ordered by name.
KILN_C_API kiln_status kiln_service_templates(const kiln_service* service, kiln_text_function each,
                                              void* user);
/// The template of this name, of the directories or built in.
KILN_C_API kiln_status kiln_service_find(const kiln_service* service, const char* name,
                                         kiln_template** found);
/// A template from text; file: its name in messages. headers: count of them that it may include; may be NULL.
KILN_C_API kiln_status kiln_service_parse(const kiln_service* service, const char* text, const char* file,
                                          const kiln_header* headers, size_t header_count,
                                          kiln_template** parsed);
/// A template from a file; its headers are looked for in its directory, then among the built-in ones.
KILN_C_API kiln_status kiln_service_load(const kiln_service* service, const char* path,
                                         kiln_template** loaded);
/// Variants and kernels that were made of it stay.
KILN_C_API kiln_status kiln_template_destroy(kiln_template* handle);

/// What a template is. Its pointers are valid as long as the handle.
typedef struct kiln_template_info {
    size_t size;          ///< sizeof(kiln_template_info)
    const char* name;     ///< of the kernel
    const char* summary;  ///< one line
    const char* file;     ///< as it was named when it was parsed
    int is_runnable;      ///< it declares sizes and tensors: an operation can be made of it
} kiln_template_info;
/// Fills `info`.
KILN_C_API kiln_status kiln_template_describe(const kiln_template* handle, kiln_template_info* info);

/// A parameter of a template.
typedef struct kiln_parameter {
    size_t size;                ///< of what the library filled
    const char* name;           ///< "BM"
    const char* kind;           ///< "int", "bool", "type", "float" or "code"
    const char* default_value;  ///< "64", or an expression of other parameters
    const char* allowed;        ///< "16, 32, 64" or "1..8"
    const char* text;           ///< the author's words; may be ""
} kiln_parameter;
/// Receives a parameter.
typedef void (*kiln_parameter_function)(void* user, const kiln_parameter* parameter);
/// Gives each parameter to `each`, in the template's order.
KILN_C_API kiln_status kiln_template_parameters(const kiln_template* handle, kiln_parameter_function each,
                                                void* user);

/// A variant with these values, defaults for the rest. values may be NULL with a count of 0.
KILN_C_API kiln_status kiln_template_variant(const kiln_template* handle, const kiln_value* values,
                                             size_t count, kiln_variant** variant);
/// The same variant with these values instead; the other values stay.
KILN_C_API kiln_status kiln_variant_with(const kiln_variant* variant, const kiln_value* values, size_t count,
                                         kiln_variant** changed);
/// Kernels that were built of it stay.
KILN_C_API kiln_status kiln_variant_destroy(kiln_variant* variant);
/// The value of one parameter; `text` is valid as long as the handle.
KILN_C_API kiln_status kiln_variant_get(const kiln_variant* variant, const char* name, const char** text);
/// Receives a parameter's value.
typedef void (*kiln_value_function)(void* user, const char* name, const char* text);
/// Gives each value to `each`, ordered by name.
KILN_C_API kiln_status kiln_variant_values(const kiln_variant* variant, kiln_value_function each, void* user);

/// What is known of a variant before it is built. Its pointer is valid as long as the handle.
typedef struct kiln_variant_info {
    size_t size;                    ///< sizeof(kiln_variant_info)
    const char* text;               ///< "gemm_tiled BM=64 BN=64 ..."
    unsigned block[3];              ///< threads of a block
    unsigned cluster[3];            ///< blocks of a cluster; {1, 1, 1}: none
    uint64_t dynamic_shared_bytes;  ///< given at launch
} kiln_variant_info;
/// Fills `info`.
KILN_C_API kiln_status kiln_variant_describe(const kiln_variant* variant, kiln_variant_info* info);

// ---- Building ----

/// A callable kernel: from memory, from the cache, or compiled. Threads that ask for the same wait for one compile.
KILN_C_API kiln_status kiln_service_build(kiln_service* service, const kiln_variant* variant,
                                          kiln_kernel** kernel);
/// Receives what was built in the background. kernel: the receiver's to destroy; NULL where status is an error.
typedef void (*kiln_build_function)(void* user, kiln_status status, kiln_kernel* kernel);
/// The same in the background, compiling in a process of its own. `finished` is called once, from a thread of the service
/// or, where no thread can be started, from this call. It must not destroy the service or an operation, and must not wait for another such build.
KILN_C_API kiln_status kiln_service_build_async(kiln_service* service, const kiln_variant* variant,
                                                kiln_build_function finished, void* user);
/// One for any number of builds.
KILN_C_API kiln_status kiln_stop_create(kiln_stop** stop);
/// Cancels all builds that were begun with it, and those that will be. A build that waits for its turn is not begun; the
/// process of a compile is ended, unless others want the same kernel, and nothing of it is stored. Their functions are
/// called with KILN_ERROR_BUILD, or with the kernel if it was built all the same. May be called from any thread.
KILN_C_API kiln_status kiln_stop_request(kiln_stop* stop);
/// Cancels nothing.
KILN_C_API kiln_status kiln_stop_destroy(kiln_stop* stop);
/// kiln_service_build_async, until `stop` is requested.
KILN_C_API kiln_status kiln_service_build_async_until(kiln_service* service, const kiln_variant* variant,
                                                      const kiln_stop* stop, kiln_build_function finished,
                                                      void* user);

/// A binary that was compiled or found in the cache.
typedef struct kiln_binary {
    size_t size;           ///< of what the library filled
    const char* kind;      ///< "cubin", "ptx", "code_object" or "shared_object"
    const char* entry;     ///< the kernel's name in it
    const void* bytes;     ///< of the binary
    size_t byte_count;     ///< how many
    const char* origin;    ///< "disk", "seed", "remote", "compiled" or "off"
    const char* key;       ///< the digest
    const char* compiler;  ///< for people
    const char* log;       ///< the compiler's
    double elapsed_ms;     ///< look-up and, on a miss, compiling
} kiln_binary;
/// Receives a binary.
typedef void (*kiln_binary_function)(void* user, const kiln_binary* binary);
/// The binary alone, which is in the cache afterwards; needs no device. `each` is called once; may be NULL.
KILN_C_API kiln_status kiln_service_compile(kiln_service* service, const kiln_variant* variant,
                                            kiln_binary_function each, void* user);

/// An ingredient of a key in which the nearest entry of the cache differs.
typedef struct kiln_difference {
    const char* ingredient;  ///< "arch", "compiler", "option", "header kiln/device.h", "source line 3", ...
    const char* wanted;      ///< "": it is not there
    const char* found;       ///< in that entry; "": it is not there
} kiln_difference;

/// Why a variant is found in the cache, or would be compiled. Its pointers are valid until the thread's next call of
/// kiln_service_explain().
typedef struct kiln_explanation {
    size_t size;                         ///< sizeof(kiln_explanation)
    const char* key;                     ///< the digest that is looked up; "" where there is no compiler
    const char* tier;                    ///< that a new process would find it in; "": it would be compiled
    const char* place;                   ///< the file or server that has it; else ""
    const char* compiler;                ///< that made what is found; else ""
    const char* no_compiler;             ///< why there is none here; else ""
    const char* nearest_key;             ///< of the entry that is nearest; "": none is of this kernel
    const char* nearest_variant;         ///< what that entry holds
    const kiln_difference* differences;  ///< from that entry
    size_t difference_count;             ///< of differences
    const char* const* rejected;         ///< entries of this key, and tiers, that can't be used, and why
    size_t rejected_count;               ///< of rejected
} kiln_explanation;
/// Fills `explanation`; nothing is built or loaded.
KILN_C_API kiln_status kiln_service_explain(const kiln_service* service, const kiln_variant* variant,
                                            kiln_explanation* explanation);

/// What is known of a built kernel. Its pointers are valid as long as the handle.
typedef struct kiln_kernel_info {
    size_t size;           ///< sizeof(kiln_kernel_info)
    const char* variant;   ///< "gemm_tiled BM=64 BN=64 ..."
    const char* origin;    ///< what served the call that gave this handle: "memory", "disk", "compiled", ...
    const char* key;       ///< the digest
    const char* compiler;  ///< for people
    const char* log;       ///< the compiler's
    double build_ms;       ///< look-up and, on a miss, compiling, when it was loaded
    double load_ms;        ///< handing the binary to the driver
    int registers;         ///< per thread; -1: not known
    int blocks_per_multiprocessor;  ///< at once; -1: not known
    int64_t local_bytes;            ///< per thread: spills and stack; -1: not known
    uint64_t static_shared_bytes;   ///< per block, declared by the kernel
    uint64_t dynamic_shared_bytes;  ///< per block, given at launch
    size_t argument_count;          ///< what kiln_kernel_launch() takes
    void* function;                 ///< CUfunction, hipFunction_t; on the host the entry's address
} kiln_kernel_info;
/// Fills `info`.
KILN_C_API kiln_status kiln_kernel_describe(const kiln_kernel* kernel, kiln_kernel_info* info);
/// Receives an argument of a kernel or an operation: "m", "int"; "a", "const half*". role: "size", "input", "output",
/// "inout"; "" for arguments of kernels.
typedef void (*kiln_argument_function)(void* user, const char* name, const char* type, const char* role);
/// Gives each argument to `each`, in the order of kiln_kernel_launch().
KILN_C_API kiln_status kiln_kernel_arguments(const kiln_kernel* kernel, kiln_argument_function each,
                                             void* user);
/// The kernel is unloaded when its last handle and its service are gone; unloading waits for launches.
KILN_C_API kiln_status kiln_kernel_destroy(kiln_kernel* kernel);

// ---- Launching ----

/// How L2 keeps lines of memory.
typedef int32_t kiln_access;
/// Values of a kiln_access.
enum {
    KILN_ACCESS_NORMAL = 0,     ///< as usual
    KILN_ACCESS_STREAMING = 1,  ///< they are the first to go
    KILN_ACCESS_PERSISTING = 2  ///< they are the last to go
};

/// What a caller wants of a launch; results never depend on it.
typedef struct kiln_launch_options {
    size_t size;              ///< sizeof(kiln_launch_options)
    int has_priority;         ///< not 0: `priority` counts; CUDA only
    int priority;             ///< within the device of the stream; the lower, the more urgent
    kiln_choice dependent;    ///< programmatic dependent launch; default: as the template says
    int multiprocessors;      ///< that a persistent kernel fills; 0: all
    void* workspace;          ///< operations: scratch memory, aligned to 256 bytes; NULL: the operation's own
    size_t workspace_bytes;   ///< of workspace
    const void* policy_base;  ///< CUDA: where an access policy window begins
    size_t policy_bytes;      ///< of the window; 0: none
    float policy_hit_ratio;   ///< of its lines, 0 to 1: those that get policy_hit; the others get policy_miss
    kiln_access policy_hit;   ///< of the lines that the ratio selects
    kiln_access policy_miss;  ///< normal or streaming
} kiln_launch_options;

/// Launches by position: one pointer per argument, to its value. stream: a CUstream, cudaStream_t or hipStream_t; NULL is
/// the legacy default stream; on the host NULL. options may be NULL. Returns when the launch is queued. Grid, block and
/// shared memory follow from the template.
KILN_C_API kiln_status kiln_kernel_launch(const kiln_kernel* kernel, void* stream,
                                          const kiln_launch_options* options, void* const* arguments,
                                          size_t count);
/// Launches by name, in any order; all arguments must be given, with the sizes of their types.
KILN_C_API kiln_status kiln_kernel_launch_named(const kiln_kernel* kernel, void* stream,
                                                const kiln_launch_options* options,
                                                const kiln_argument* arguments, size_t count);

// ---- Operations ----

/// What a call does for a shape whose variant is not built yet.
typedef int32_t kiln_when_missing;
/// Values of a kiln_when_missing.
enum {
    KILN_WHEN_MISSING_BUILD = 0,  ///< builds it, and the call takes as long
    KILN_WHEN_MISSING_SUBSTITUTE =
        1,                      ///< launches one that is built, and builds the best one in the background
    KILN_WHEN_MISSING_FAIL = 2  ///< KILN_ERROR_NOT_READY
};

/// How an operation chooses, and what it may hold.
typedef struct kiln_operation_options {
    size_t size;                     ///< sizeof(kiln_operation_options)
    kiln_when_missing when_missing;  ///< what a call does for a shape that is not built
    int reproducible;                ///< not 0: equal programs give equal bits at every run
    size_t max_shapes;               ///< that are remembered; 0: 4096
    size_t max_streams;              ///< whose workspace is kept; 0: 64
    const char* wisdom_file;         ///< of `kiln tune`; NULL: what was shipped, and the user's
    /// Memory aligned to 256 bytes, for work that is queued on `stream` from now on; NULL: there is none. Both
    /// functions or neither; without them it is memory of the device.
    void* (*allocate)(void* user, size_t bytes, void* stream);
    /// Work that was queued on `stream` before may still use it.
    void (*release)(void* user, void* memory, size_t bytes, void* stream);
    void* allocator_user;  ///< for both
} kiln_operation_options;

/// Of all templates that compute what `name` computes with these values: "gemm", {"T", "half"}. options may be NULL.
KILN_C_API kiln_status kiln_operation_create(kiln_service* service, const char* name,
                                             const kiln_value* values, size_t count,
                                             const kiln_operation_options* options,
                                             kiln_operation** operation);
/// The same for a template that the service need not know.
KILN_C_API kiln_status kiln_operation_create_of(kiln_service* service, const kiln_template* handle,
                                                const kiln_value* values, size_t count,
                                                const kiln_operation_options* options,
                                                kiln_operation** operation);
/// Waits for what is being built. What it launched must have ended where it gave workspace.
KILN_C_API kiln_status kiln_operation_destroy(kiln_operation* operation);
/// Gives each argument to `each`, in the order of kiln_operation_launch().
KILN_C_API kiln_status kiln_operation_arguments(const kiln_operation* operation, kiln_argument_function each,
                                                void* user);
/// Chooses and builds for these shapes, in parallel.
KILN_C_API kiln_status kiln_operation_prepare(const kiln_operation* operation, const kiln_shape* shapes,
                                              size_t count);
/// The same, and gets the workspace that they need on this stream, so that a capture finds all that it needs.
KILN_C_API kiln_status kiln_operation_prepare_on(const kiln_operation* operation, const kiln_shape* shapes,
                                                 size_t count, void* stream);
/// How much kiln_launch_options::workspace needs for these sizes: the scratch memory of the variant that is best for them, or
/// of the one that a call launched instead, if that is more. A call that launches a variant instead of the best one, and finds
/// too little for it, uses the operation's own memory.
KILN_C_API kiln_status kiln_operation_workspace(const kiln_operation* operation, const kiln_size* sizes,
                                                size_t count, size_t* bytes);
/// Launches by position; see kiln_kernel_launch().
KILN_C_API kiln_status kiln_operation_launch(const kiln_operation* operation, void* stream,
                                             const kiln_launch_options* options, void* const* arguments,
                                             size_t count);
/// Launches by name, in any order.
KILN_C_API kiln_status kiln_operation_launch_named(const kiln_operation* operation, void* stream,
                                                   const kiln_launch_options* options, const kiln_size* sizes,
                                                   size_t size_count, const kiln_tensor* tensors,
                                                   size_t tensor_count);

/// What an operation does for a shape.
typedef struct kiln_plan {
    size_t size;             ///< sizeof(kiln_plan)
    const char* variant;     ///< the best one: "gemm_wgmma BM=128 ..."
    const char* origin;      ///< how that is known: "wisdom", "nearest" or "model"
    double best_ms;          ///< what wisdom measured for this very shape, with cold L2; -1: nothing
    int is_built;            ///< a call launches it
    const char* launched;    ///< what a call launches meanwhile, with SUBSTITUTE; else ""
    size_t workspace_bytes;  ///< of `variant`, or of `launched` where that needs more
    const char* failure;     ///< why it could not be built in the background; else ""
    const char* text;        ///< some lines for people
} kiln_plan;
/// Fills `plan`; nothing is built.
KILN_C_API kiln_status kiln_operation_explain(const kiln_operation* operation, const kiln_size* sizes,
                                              size_t count, kiln_plan* plan);

/// What an operation holds.
typedef struct kiln_operation_usage_info {
    size_t size;             ///< sizeof(kiln_operation_usage_info)
    size_t shapes;           ///< remembered
    size_t substituted;      ///< of them, those that launch another variant than the best
    size_t pending;          ///< to be built in the background
    size_t streams;          ///< with workspace
    size_t workspace_bytes;  ///< of all of them
} kiln_operation_usage_info;
/// Fills `usage`.
KILN_C_API kiln_status kiln_operation_usage(const kiln_operation* operation,
                                            kiln_operation_usage_info* usage);
/// Waits until nothing is left to be built in the background.
KILN_C_API kiln_status kiln_operation_wait(const kiln_operation* operation);
/// Tunes shapes that it was called with and that wisdom does not know, for about this long; what is found is used from
/// then on, and merged into wisdom_file, which may be NULL.
KILN_C_API kiln_status kiln_operation_tune(const kiln_operation* operation, double seconds,
                                           const char* wisdom_file);
/// Forgets all shapes and frees all workspace; the device must be done with it, and no graph that captured a launch of it
/// be launched again.
KILN_C_API kiln_status kiln_operation_release(const kiln_operation* operation);

// ---- Graphs ----

/// Launches, on `stream` and in this thread, what is to be captured; nothing else may be done with the device. A status that is
/// an error ends the capture. stream: the service's own; on the host a handle for the time of this call. Operations must have
/// been prepared on the service's own stream (kiln_operation_prepare_on()).
typedef kiln_status (*kiln_record_function)(void* user, void* stream);
/// Captures what `record` launches, on the service's own stream; nothing of it runs. What `record` returns is returned where it
/// is an error. Buffers whose addresses are captured must live as long as the graph is launched.
KILN_C_API kiln_status kiln_graph_capture(const kiln_service* service, kiln_record_function record,
                                          void* user, kiln_graph** graph);
/// Queues all of it on any stream of the device, with one call of the driver. One thread at a time.
KILN_C_API kiln_status kiln_graph_launch(const kiln_graph* graph, void* stream);
/// The device must be done with it.
KILN_C_API kiln_status kiln_graph_destroy(kiln_graph* graph);

// ---- Memory ----

/// Memory of the service's device, not initialised, aligned to 256 bytes at least.
KILN_C_API kiln_status kiln_buffer_create(const kiln_service* service, size_t bytes, kiln_buffer** buffer);
/// Frees it; the device must be done with it.
KILN_C_API kiln_status kiln_buffer_destroy(kiln_buffer* buffer);
/// Its address on the device.
KILN_C_API kiln_status kiln_buffer_data(const kiln_buffer* buffer, void** data);
/// Copies `bytes` bytes of main memory to `offset` behind its start. Blocking.
KILN_C_API kiln_status kiln_buffer_write(kiln_buffer* buffer, size_t offset, const void* source,
                                         size_t bytes);
/// Copies `bytes` bytes from `offset` behind its start to main memory. Blocking.
KILN_C_API kiln_status kiln_buffer_read(const kiln_buffer* buffer, size_t offset, void* destination,
                                        size_t bytes);

// ---- Variables of a kernel's module ----

// `__constant__` and `__device__` variables by the names that C++ has for them, "weights" or "filter::weights"; one that no
// kernel uses may have been left out. Their content stays until it is written again, and belongs to the loaded kernel, which all
// handles to the same variant in a service share. A name that is not there, or bytes behind the end, are KILN_ERROR_USAGE.

/// Its address on the device, valid as long as the kernel's handle, and its size. data, bytes: may be NULL.
KILN_C_API kiln_status kiln_kernel_symbol(const kiln_kernel* kernel, const char* name, void** data,
                                          size_t* bytes);
/// Copies `bytes` bytes of main memory to `offset` behind its start. Blocking.
KILN_C_API kiln_status kiln_kernel_symbol_write(const kiln_kernel* kernel, const char* name, size_t offset,
                                                const void* source, size_t bytes);
/// Copies `bytes` bytes from `offset` behind its start to main memory. Blocking.
KILN_C_API kiln_status kiln_kernel_symbol_read(const kiln_kernel* kernel, const char* name, size_t offset,
                                               void* destination, size_t bytes);
/// The same as work of `stream`: the source must live until the stream has got there. A capture records it.
KILN_C_API kiln_status kiln_kernel_symbol_write_async(const kiln_kernel* kernel, const char* name,
                                                      void* stream, size_t offset, const void* source,
                                                      size_t bytes);
/// The same as work of `stream`: the destination must live, and not be read, until the stream has got there.
KILN_C_API kiln_status kiln_kernel_symbol_read_async(const kiln_kernel* kernel, const char* name,
                                                     void* stream, size_t offset, void* destination,
                                                     size_t bytes);

// ---- The cache as an operator sees it ----

/// One entry.
typedef struct kiln_cache_entry {
    size_t size;           ///< of what the library filled
    const char* key;       ///< the digest
    const char* variant;   ///< "gemm_tiled BM=64 BN=64 ..."
    const char* kernel;    ///< the kernel's name
    const char* backend;   ///< that can load it
    const char* arch;      ///< that it was compiled for
    const char* kind;      ///< "cubin", "ptx", "code_object", "shared_object" or "ltoir"
    const char* compiler;  ///< that made it, for people
    double compile_ms;     ///< what compiling it took
    uint64_t bytes;        ///< of the entry
    int64_t last_used;     ///< seconds since 1970; -1: not known, as in a pack
} kiln_cache_entry;
/// Receives an entry.
typedef void (*kiln_cache_entry_function)(void* user, const kiln_cache_entry* entry);

/// How full a cache is.
typedef struct kiln_cache_usage_info {
    size_t size;           ///< sizeof(kiln_cache_usage_info)
    uint64_t entries;      ///< on disk
    uint64_t bytes;        ///< of all of them
    uint64_t limit_bytes;  ///< beyond which the least recently used go
} kiln_cache_usage_info;

/// How many entries went, came, or were there already.
typedef struct kiln_cache_transfer {
    size_t size;                 ///< sizeof(kiln_cache_transfer)
    uint64_t entries;            ///< that were moved
    uint64_t bytes;              ///< of them
    uint64_t already_there;      ///< that were not moved, since they were there
    const char* const* reasons;  ///< why some were not taken, a sentence each
    size_t reason_count;         ///< of reasons
} kiln_cache_transfer;

/// Opens the disk tier. options: NULL for defaults.
KILN_C_API kiln_status kiln_cache_open(const kiln_cache_options* options, kiln_cache** cache);
/// Services that use the directory are not concerned.
KILN_C_API kiln_status kiln_cache_destroy(kiln_cache* cache);
/// Gives each entry to `each`, the most recently used first. Damaged ones are left out.
KILN_C_API kiln_status kiln_cache_entries(const kiln_cache* cache, kiln_cache_entry_function each,
                                          void* user);
/// Fills `usage`; and the counters of all processes, where `counters` is not NULL.
KILN_C_API kiln_status kiln_cache_usage(const kiln_cache* cache, kiln_cache_usage_info* usage,
                                        kiln_counters* counters);
/// Receives a damaged file, and what is wrong with it.
typedef void (*kiln_damage_function)(void* user, const char* file, const char* reason);
/// Reads everything. remove: not 0: damaged files go. sound: how many are not damaged. each: may be NULL.
KILN_C_API kiln_status kiln_cache_verify(kiln_cache* cache, int remove, uint64_t* sound,
                                         kiln_damage_function each, void* user);
/// Down to limit_bytes. transfer: what went; may be NULL, here and below.
KILN_C_API kiln_status kiln_cache_prune(kiln_cache* cache, uint64_t limit_bytes,
                                        kiln_cache_transfer* transfer);
/// All entries and counters go.
KILN_C_API kiln_status kiln_cache_clear(kiln_cache* cache, kiln_cache_transfer* transfer);
/// Writes a seed pack of these entries: digests or their first digits; with a count of 0 all.
KILN_C_API kiln_status kiln_cache_pack(const kiln_cache* cache, const char* file, const char* const* keys,
                                       size_t count, kiln_cache_transfer* transfer);
/// Stores a pack's entries, each after a check.
KILN_C_API kiln_status kiln_cache_unpack(kiln_cache* cache, const char* file, kiln_cache_transfer* transfer);
/// Sends entries to the remote.
KILN_C_API kiln_status kiln_cache_push(kiln_cache* cache, kiln_cache_transfer* transfer);
/// Fetches entries from the remote.
KILN_C_API kiln_status kiln_cache_pull(kiln_cache* cache, kiln_cache_transfer* transfer);
/// Gives each entry of a seed pack to `each`.
KILN_C_API kiln_status kiln_pack_entries(const char* file, kiln_cache_entry_function each, void* user);

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-*)
