// SPDX-License-Identifier: Apache-2.0
//
// Handlers run on a separate stack, since a kernel may have overflowed its own. They record the facts first and
// then the call stack, since walking a corrupted stack may fault.
#include "base/kernel_watch.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

namespace kiln {

const int kWatchSignal = SIGUSR1;

namespace {

constexpr std::size_t kHandlerStackBytes = 64 * 1024;
constexpr int kFatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
constexpr std::uint64_t kPageBytes = 4096;

KernelWatch* watch = nullptr;  // of the process, once it is watched
thread_local constinit const KernelRunner* runner = nullptr;
thread_local constinit bool prepared = false;
thread_local constinit int slot = -1;  // among the watched threads; -1: there are too many

_Unwind_Reason_Code add_call(_Unwind_Context* frame, void* to) {
    KernelReport& report = *static_cast<KernelReport*>(to);
    int is_before = 0;  // the instruction itself, rather than a place to return to
    const auto address = static_cast<std::uint64_t>(_Unwind_GetIPInfo(frame, &is_before));
    if (address == 0 || report.calls == KernelReport::kMostCalls) return _URC_END_OF_STACK;
    report.call[report.calls++] = address + (is_before != 0 ? 1 : 0);
    return _URC_NO_REASON;
}

/// Of the calls from number `from` on.
void add_objects(KernelReport& report, int from) {
    constexpr char kFromMemory[] = "/proc/self/fd/";
    for (int i = from; i < report.calls; ++i) {
        Dl_info info{};
        if (::dladdr(reinterpret_cast<void*>(report.call[i] - 1), &info) == 0 || info.dli_fname == nullptr ||
            std::strncmp(info.dli_fname, kFromMemory, sizeof kFromMemory - 1) != 0)
            continue;
        const auto begin = reinterpret_cast<std::uint64_t>(info.dli_fbase);
        for (int k = 0; k < KernelReport::kMostObjects; ++k) {
            KernelReport::Object& object = report.object[k];
            if (object.begin == 0) {
                object.begin = begin;
                std::strncpy(object.name, info.dli_fname, sizeof object.name - 1);
            }
            if (object.begin != begin) continue;
            report.object_of[i] = static_cast<unsigned char>(k + 1);
            break;
        }
    }
}

/// Appends further calls. With a corrupted stack this may fault.
void add_calls(KernelReport& report) {
    const int before = report.calls;
    _Unwind_Backtrace(add_call, &report);
    add_objects(report, before);
}

void add_address(KernelReport& report, const siginfo_t& info, const ucontext_t& context,
                 const KernelFacts* facts) {
    // si_addr and what the registers say of the access are those of an instruction.
    report.address = report.was_sent ? 0 : reinterpret_cast<std::uint64_t>(info.si_addr);
    std::uint64_t code = 0, stack = 0;
#if defined(__x86_64__)
    code = static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RIP]);
    stack = static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RSP]);
    constexpr long long kWrites = 2;
    report.is_access_known = report.signal == SIGSEGV && !report.was_sent;
    report.is_write = (context.uc_mcontext.gregs[REG_ERR] & kWrites) != 0;
#elif defined(__aarch64__)
    code = context.uc_mcontext.pc;
    stack = context.uc_mcontext.sp;
#endif
    report.call[report.calls++] = code + 1;
    if (facts == nullptr || code != report.address) return;
    // It jumped to an address without code; the return address is on the stack.
    const auto bottom = reinterpret_cast<std::uint64_t>(facts->stack);
    if (stack < bottom || stack + sizeof stack > bottom + facts->stack_bytes) return;
    std::memcpy(&report.call[report.calls++], reinterpret_cast<const void*>(stack), sizeof stack);
}

// nullptr: this thread runs no kernel.
const KernelFacts* facts_of_thread(KernelFacts& facts) {
    return runner != nullptr && runner->where(facts) ? &facts : nullptr;
}

void add_facts(KernelReport& report, const KernelFacts* facts) {
    if (facts == nullptr) return;
    report.in_kernel = true;
    report.is_loading = facts->is_loading;
    std::strncpy(report.kernel, facts->kernel, sizeof report.kernel - 1);
    std::copy_n(facts->block, 3, report.block);
    std::copy_n(facts->thread, 3, report.thread);
    const auto bottom = reinterpret_cast<std::uint64_t>(facts->stack);
    report.stack_bytes = facts->stack_bytes;
    const bool is_fault = report.signal == SIGSEGV && !report.was_sent;
    report.on_guard_of_stack = is_fault && report.address < bottom && report.address >= bottom - kPageBytes;
    const auto shared = reinterpret_cast<std::uint64_t>(facts->shared);
    report.shared_bytes = facts->shared_bytes;
    report.shared_offset = static_cast<std::int64_t>(report.address - shared);
    report.near_shared = facts->shared_guard != 0 && is_fault &&
                         report.address + facts->shared_guard >= shared &&
                         report.address < shared + facts->shared_bytes + facts->shared_guard;
}

bool claim(KernelReport& report) {
    int empty = 0;
    return report.state.compare_exchange_strong(empty, 1);
}

void on_fatal(int number, siginfo_t* info, void* context) {
    if (claim(watch->end)) {
        KernelReport& report = watch->end;
        report.what = KernelReport::What::signal;
        report.signal = number;
        report.code = info->si_code;
        report.was_sent = info->si_code <= 0;  // SI_USER, SI_TKILL, SI_QUEUE; those of faults are positive
        report.by_itself = report.was_sent && info->si_pid == ::getpid();
        KernelFacts room;
        const KernelFacts* const facts = facts_of_thread(room);
        add_address(report, *info, *static_cast<const ucontext_t*>(context), facts);
        add_facts(report, facts);
        add_objects(report, 0);
        report.state = 2;
        add_calls(report);
    } else {
        ::usleep(200'000);  // another thread writes, and ends the process
    }
    ::signal(number, SIG_DFL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    ::raise(number);
}

void on_exit_call() {
    KernelFacts room;
    const KernelFacts* const facts = facts_of_thread(room);
    if (facts == nullptr) return;
    if (claim(watch->end)) {
        watch->end.what = KernelReport::What::exit;
        add_facts(watch->end, facts);
        watch->end.state = 2;
        add_calls(watch->end);
    }
    // Exit handlers of the program must not run in this process.
    ::_exit(EXIT_FAILURE);
}

void on_asked(int, siginfo_t* info, void* context) {
    // The parent signals the process, and the thread that receives the signal signals the others.
    if (info->si_code != SI_TKILL) {
        const int count = std::min(watch->thread_count.load(), KernelWatch::kMostThreads);
        for (int i = 0; i < count; ++i)
            if (i != slot) ::syscall(SYS_tgkill, ::getpid(), watch->threads[i].load(), kWatchSignal);
    }
    KernelFacts room;
    const KernelFacts* const facts = facts_of_thread(room);
    if (slot < 0 || facts == nullptr || !claim(watch->seen[slot])) return;
    KernelReport& report = watch->seen[slot];
    report.what = KernelReport::What::asked;
    report.calls = 0;
    std::fill(std::begin(report.object_of), std::end(report.object_of), 0);
    add_address(report, *info, *static_cast<const ucontext_t*>(context), facts);
    add_facts(report, facts);
    add_objects(report, 0);
    add_calls(report);
    report.state = 2;
}

void handle(int number, void (*handler)(int, siginfo_t*, void*)) {
    struct sigaction action {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&action.sa_mask);
    ::sigaction(number, &action, nullptr);
}

// A stack for its handlers, and none of their signals blocked. For the life of the thread, which is the process's.
void prepare_thread() {
    if (prepared) return;
    prepared = true;
    if (const int number = watch->thread_count.fetch_add(1); number < KernelWatch::kMostThreads) {
        watch->threads[number] = static_cast<int>(::syscall(SYS_gettid));
        slot = number;
    }
    void* const memory =
        ::mmap(nullptr, kHandlerStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) {
        stack_t stack{};
        stack.ss_sp = memory;
        stack.ss_size = kHandlerStackBytes;
        ::sigaltstack(&stack, nullptr);
    }
    sigset_t set;
    sigemptyset(&set);
    for (const int number : kFatal) sigaddset(&set, number);
    sigaddset(&set, kWatchSignal);
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void note_begin() {
    if (watch->begin_ns.load() != 0) return;
    const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
    std::int64_t none = 0;
    watch->begin_ns.compare_exchange_strong(none, std::max<std::int64_t>(now.count(), 1));
}

}  // namespace

KernelThread::KernelThread(const KernelRunner& with) : before_(runner) {
    if (watch != nullptr) {
        prepare_thread();
        note_begin();
    }
    runner = &with;
}

KernelThread::~KernelThread() { runner = before_; }

void watch_kernels(KernelWatch& into) {
    // The unwinder's initialisation at its first use is not possible in a handler.
    KernelReport unused;
    add_calls(unused);
    watch = &into;
    for (const int number : kFatal) handle(number, on_fatal);
    handle(kWatchSignal, on_asked);
    std::atexit(on_exit_call);
    std::at_quick_exit(on_exit_call);
    prepare_thread();
}

void forget_watched_memories() {
    if (watch != nullptr) watch->memory_count = 0;
}

void watch_memory(const char* name, const void* begin, std::size_t bytes, std::size_t element_bytes) {
    if (watch == nullptr) return;
    const int index = watch->memory_count.load();
    if (index == KernelWatch::kMostMemories) return;
    WatchedMemory& memory = watch->memories[index];
    std::strncpy(memory.name, name, sizeof memory.name - 1);
    memory.begin = reinterpret_cast<std::uint64_t>(begin);
    memory.bytes = bytes;
    memory.element_bytes = element_bytes;
    watch->memory_count = index + 1;
}

}  // namespace kiln
