// SPDX-License-Identifier: Apache-2.0
//
// AccessRecorder: passes the events of a launch to the classes that group, count and check accesses, and joins
// their results. Accesses are grouped and buffered until the block's threads synchronise, or until the buffer
// is full.
#include <kiln/error.h>
#include <kiln/tools/accesses.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "analysis/access_problems.h"
#include "analysis/access_regions.h"
#include "analysis/access_requests.h"
#include "analysis/access_totals.h"
#include "analysis/problem_places.h"
#include "analysis/race_detector.h"
#include "base/source_lines.h"
#include "base/stopwatch.h"
#include "format/format.h"

namespace kiln {
namespace {

// Limits of the buffered accesses: of all warps, and of the warp whose threads run now. The latter is flushed
// only when necessary, since the accesses of its other lanes have not been recorded yet.
constexpr std::size_t kMostPendingBytes = std::size_t{48} << 20, kMostOfAWarp = std::size_t{256} << 20;

// The middle of one of `parts` equal parts of an extent, alternately an odd and an even place where a part has three or more.
std::uint64_t middle_of(std::uint64_t part, std::uint64_t extent, std::uint64_t parts) {
    const auto middle =
        static_cast<std::uint64_t>(static_cast<unsigned __int128>(2 * part + 1) * extent / (2 * parts));
    return extent / parts >= 3 && middle % 2 == part % 2 ? middle + 1 : middle;
}

// Of the blocks of a grid at most `most`, fewer than there are: the first, the last, and some that stand for the others. Of
// several rows these lie in as many parts of the columns as of the rows, each part with one of them, as in a Latin square: so
// that neither a ragged last column nor a triangle of blocks gets more than its share.
std::set<std::uint64_t> chosen_blocks(Dim3 grid, std::uint64_t most) {
    std::set<std::uint64_t> chosen;
    const std::uint64_t count = grid.count(), rows = count / grid.x;
    if (most > 0) chosen.insert(0);
    if (most > 1) chosen.insert(count - 1);
    const std::uint64_t parts = most > 2 ? most - 2 : 0;
    std::uint64_t step = (parts + 1) * 3 / 7;  // of the columns' parts, from row to row
    while (step > 1 && std::gcd(step, parts + 1) > 1) --step;
    for (std::uint64_t part = 0; part < parts; ++part) {
        if (rows == 1 || grid.x == 1) {
            chosen.insert(1 + middle_of(part, count - 2, parts));
        } else {
            const std::uint64_t column = (part + 1) * std::max<std::uint64_t>(step, 1) % (parts + 1) - 1;
            chosen.insert(middle_of(column, grid.x, parts) + grid.x * middle_of(part, rows, parts));
        }
    }
    return chosen;
}

}  // namespace

struct __attribute__((visibility("hidden"))) AccessRecorder::State final : AccessSink {
    explicit State(RecorderOptions chosen)
        : options(std::move(chosen)),
          warp_size(static_cast<unsigned>(options.warp_size)),
          totals(options.banks, warp_size),
          first_totals(options.banks, warp_size),
          last_totals(options.banks, warp_size),
          requests(warp_size, *this) {}

    const RecorderOptions options;
    const unsigned warp_size;

    // Of all launches.
    AccessTotals totals;
    AccessTotals first_totals, last_totals;  // of these blocks; their sites have the same numbers
    AccessProblems problems;
    std::function<void(const AccessProblem&)> report;
    std::uint64_t launches = 0, blocks = 0, blocks_recorded = 0;
    std::vector<std::uint64_t> block_bytes;
    double elapsed_ms = 0;

    // Of the launch.
    bool launched = false;
    Stopwatch watch;
    ObservedLaunch launch;
    std::optional<std::set<std::uint64_t>> chosen;  // blocks; nullopt: the grid's first are recorded
    std::uint64_t recorded_here = 0;
    bool is_first = false, is_last = false, has_last = false;
    unsigned threads = 0;
    std::optional<SourceLines> lines;
    Regions regions;
    bool vector_reported = false;       // one that is not aligned
    std::optional<RaceDetector> races;  // where there is shared memory
    AccessRequests requests;
    // Of its instructions, by number.
    std::vector<AccessCode> codes;
    std::vector<SourcePlace> places;
    std::vector<std::uint32_t> sites;                                // in totals
    std::map<std::pair<std::uint32_t, int>, std::uint32_t> sources;  // by site and variable, counted
    std::uint32_t source_count = 0;
    Dim3 block;
    bool in_block = false;

    void begin_launch(const ObservedLaunch& what);
    bool begin_block(Dim3 index);
    void end_block();
    void end_launch();
    void accesses(unsigned thread, std::span<const ObservedAccess> list);
    void meeting(std::span<const unsigned> who, bool whole_block);
    void order_one_by_one();
    void count(const std::vector<RequestList*>& lists);
    void make_room(unsigned thread);

    std::uint32_t new_instruction(const AccessCode& code) override;
    void out_of_bounds(unsigned thread, const ObservedAccess& access, const Region& region) override;
    void read_only(unsigned thread, const ObservedAccess& access) override;
    void idle_lane(unsigned thread, const ObservedAccess& access) override;
    void each_access(unsigned thread, std::uint64_t address, std::uint32_t instruction) override {
        races->access(thread, address, instruction, codes[instruction]);
    }
    void found(const RaceFinding& finding);
    void misaligned(std::uint32_t instruction, unsigned thread, std::uint64_t address);
    void check_declaration(const AccessCode& code, const SourcePlace& place);
    void report_vector(unsigned thread, const ObservedAccess& access);
    ProblemPlaces where() { return {*lines, regions, block}; }
    void add(AccessProblem problem) {
        if (const AccessProblem* const first = problems.add(std::move(problem)); first != nullptr && report)
            report(*first);
    }
};

void AccessRecorder::State::begin_launch(const ObservedLaunch& what) {
    if (launched) end_launch();  // the last one failed
    const bool same_code = lines && launch.binary.bytes == what.binary.bytes;
    launch = what;
    if (!options.problems) {
        for (MemoryRange& tensor : launch.global) tensor.read_only = false;
        std::erase_if(launch.own, [](const MemoryRange& range) { return range.read_only; });
    }
    if (!same_code) lines.emplace(launch.binary.bytes);
    launched = true;
    watch = Stopwatch();
    recorded_here = 0;
    ++launches;
    vector_reported = false;
    threads = static_cast<unsigned>(launch.block.count());
    regions = Regions(launch);
    sites.clear();
    sources.clear();
    source_count = 0;
    codes.clear();
    places.clear();
    requests.begin_launch(regions);
    totals.begin_launch();
    first_totals.begin_launch();
    last_totals.begin_launch();
    races.reset();
    if (options.problems && regions.shared_bytes() != 0)
        races.emplace(regions, threads, warp_size, [this](const RaceFinding& finding) { found(finding); });
    blocks += launch.grid.count();
    chosen.reset();
    if (!options.first_blocks && options.most_blocks < launch.grid.count())
        chosen = chosen_blocks(launch.grid, options.most_blocks);
}

bool AccessRecorder::State::begin_block(Dim3 index) {
    const std::uint64_t number =
        index.x + std::uint64_t{launch.grid.x} * (index.y + std::uint64_t{launch.grid.y} * index.z);
    const bool late = recorded_here != 0 && watch.elapsed_ms() > options.most_ms;
    const bool is_chosen = chosen ? chosen->contains(number) : number < options.most_blocks;
    if (late || !is_chosen) return false;
    ++recorded_here;
    is_first = number == 0;
    is_last = number + 1 == launch.grid.count();
    has_last |= is_last;
    block = index;
    in_block = true;
    block_bytes.push_back(0);
    requests.begin_block(threads);
    requests.tell_each(false);
    totals.begin_block();
    if (is_first) first_totals.begin_block();
    if (is_last) last_totals.begin_block();
    if (races) races->begin_block();
    return true;
}

void AccessRecorder::State::accesses(unsigned thread, std::span<const ObservedAccess> list) {
    if (thread >= threads || !in_block) return;
    requests.add(thread, list);
    for (const ObservedAccess& access : list) block_bytes.back() += access.bytes;
    if (!list.empty()) report_vector(thread, list.back());
    if (requests.pending_bytes() > kMostPendingBytes) make_room(thread);
}

void AccessRecorder::State::make_room(unsigned thread) {
    order_one_by_one();
    std::vector<RequestList*> lists = requests.pending();
    std::erase(lists, requests.list_of(thread));
    count(lists);
    requests.clear(lists);
    if (requests.pending_bytes() < kMostOfAWarp) return;
    lists = requests.pending();
    count(lists);
    requests.clear(lists);
}

void AccessRecorder::State::count(const std::vector<RequestList*>& lists) {
    for (const RequestList* const list : lists) {
        if (is_first) first_totals.add(*list, codes, sites, regions, [](auto...) {});
        if (is_last) last_totals.add(*list, codes, sites, regions, [](auto...) {});
        totals.add(*list, codes, sites, regions,
                   [this](std::uint32_t instruction, unsigned thread, std::uint64_t address) {
                       misaligned(instruction, thread, address);
                   });
    }
}

// Until the block's next synchronisation, order matters for races.
void AccessRecorder::State::order_one_by_one() {
    if (!races || races->one_by_one()) return;
    races->begin_one_by_one(requests.pending(), codes);
    requests.tell_each(true);
}

void AccessRecorder::State::meeting(std::span<const unsigned> who, bool whole_block) {
    if (whole_block) {
        const std::vector<RequestList*> lists = requests.pending();
        totals.recall(lists);
        if (races) races->meet_all(lists, codes);
        count(lists);
        requests.clear();
        requests.tell_each(false);
        return;
    }
    order_one_by_one();
    if (races) races->clocks().meet(who);
    for (const unsigned thread : who) requests.meet(thread);
}

void AccessRecorder::State::end_block() {
    if (!in_block) return;
    meeting({}, true);
    in_block = false;
}

void AccessRecorder::State::end_launch() {
    if (!launched) return;
    end_block();
    launched = false;
    blocks_recorded += recorded_here;
    elapsed_ms += watch.elapsed_ms();
}

std::uint32_t AccessRecorder::State::new_instruction(const AccessCode& code) {
    AccessSite site;
    site.place = lines->place(code.code, code.caller);
    site.kind = code.kind;
    site.bytes = code.bytes;
    if (code.variable != kNoVariable)
        site.variable = regions.variables()[static_cast<std::size_t>(code.variable)].name;
    sites.push_back(totals.site(site));
    first_totals.site(site);
    last_totals.site(site);
    // Without a line, each instruction counts as a separate access. Variables may share a name, but not a
    // place.
    const bool known = !site.place.file.empty();
    const std::pair key(sites.back(), code.variable);
    const auto source = known ? sources.try_emplace(key, source_count).first->second : source_count;
    if (source == source_count) ++source_count;
    codes.push_back(code);
    if (options.problems) check_declaration(code, site.place);
    places.push_back(std::move(site.place));
    return source;
}

// Variables lie at multiples of a large power of two here, so what they need not do on a GPU is read from the declaration.
void AccessRecorder::State::check_declaration(const AccessCode& code, const SourcePlace& place) {
    if (code.variable == kNoVariable || code.unaligned_type || code.copied || !has_cost(code.kind)) return;
    const SharedRange& range = regions.variables()[static_cast<std::size_t>(code.variable)];
    const auto width = static_cast<std::uint64_t>(part_bytes(code.bytes));
    constexpr std::uint64_t kAlways = 8;  // host_record.h
    if (range.dynamic || width <= kAlways) return;
    const std::uint64_t declared = lines->alignment_of_variable(range.storage_offset);
    if (declared == 0 || declared >= width) return;
    AccessProblem problem;
    problem.kind = ProblemKind::misaligned;
    problem.place = place;
    problem.access = code.kind;
    problem.bytes = code.bytes;
    problem.block = block;
    where().name_variable(problem, code.variable);
    add(std::move(problem));
}

// A vector that is not aligned may end the process right after it was told, before it is counted.
void AccessRecorder::State::report_vector(unsigned thread, const ObservedAccess& access) {
    constexpr std::uint64_t kVector = 16;
    if (access.bytes != kVector || access.unaligned_type || access.address % kVector == 0 ||
        access.kind == AccessKind::idle_lane || vector_reported || !report || !options.problems)
        return;
    vector_reported = true;
    AccessProblem problem = where().problem(ProblemKind::misaligned, thread, access);
    where().name_memory(problem, access.address);
    problem.count = 1;
    report(problem);
}

void AccessRecorder::State::out_of_bounds(unsigned thread, const ObservedAccess& access, const Region&) {
    if (!options.problems) return;
    AccessProblem problem = where().problem(ProblemKind::out_of_bounds, thread, access);
    where().name_memory(problem, access.address);
    add(std::move(problem));
}

void AccessRecorder::State::read_only(unsigned thread, const ObservedAccess& access) {
    AccessProblem problem = where().problem(ProblemKind::read_only, thread, access);
    if (const MemoryRange* const constant = regions.constant(access.address, access.bytes);
        constant != nullptr) {
        problem.variable = constant->name;
        problem.variable_bytes = constant->size_bytes;
        problem.offset = static_cast<std::int64_t>(access.address - constant->address);
    } else {
        where().name_tensor(problem, access.address);
    }
    add(std::move(problem));
}

void AccessRecorder::State::idle_lane(unsigned thread, const ObservedAccess& access) {
    if (!options.problems) return;
    AccessProblem problem = where().problem(ProblemKind::uninitialised, thread, access);
    problem.offset = static_cast<std::int64_t>(access.address);
    add(std::move(problem));
}

void AccessRecorder::State::found(const RaceFinding& finding) {
    AccessProblem problem;
    problem.kind = finding.uninitialised ? ProblemKind::uninitialised : ProblemKind::race;
    const AccessCode& code = codes[finding.instruction];
    problem.place = places[finding.instruction];
    problem.access = code.kind;
    problem.thread = finding.thread;
    if (!finding.uninitialised) {
        problem.other = places[finding.other.instruction];
        problem.other_access = codes[finding.other.instruction].kind;
        problem.other_thread = finding.other.thread;
    }
    problem.bytes = static_cast<int>(finding.bytes);
    problem.block = block;
    where().name_variable(problem, code.variable);
    problem.offset = static_cast<std::int64_t>(
        finding.offset - regions.variables()[static_cast<std::size_t>(code.variable)].offset);
    add(std::move(problem));
}

void AccessRecorder::State::misaligned(std::uint32_t instruction, unsigned thread, std::uint64_t address) {
    if (!options.problems) return;
    const AccessCode& code = codes[instruction];
    AccessProblem problem;
    problem.kind = ProblemKind::misaligned;
    problem.place = places[instruction];
    problem.access = code.kind;
    problem.thread = thread;
    problem.bytes = code.bytes;
    problem.block = block;
    where().name_memory(problem, address);
    add(std::move(problem));
}

AccessRecorder::AccessRecorder(RecorderOptions options) {
    if (options.warp_size != options.banks.lanes || (options.warp_size != 32 && options.warp_size != 64))
        throw UsageError(formatted(
            "a warp has 32 or 64 lanes, and the bank model must agree: warp_size is {}, banks.lanes {}",
            options.warp_size, options.banks.lanes));
    state_ = std::make_unique<State>(std::move(options));
}
AccessRecorder::~AccessRecorder() = default;

Recording AccessRecorder::recording() const {
    Recording recording;
    recording.shared = state_->totals.shared();
    recording.global = state_->totals.global();
    recording.problems = state_->problems.all();
    recording.blocks = state_->blocks;
    recording.blocks_recorded = state_->blocks_recorded;
    recording.first_blocks = state_->options.first_blocks;
    recording.block_bytes = state_->block_bytes;
    recording.elapsed_ms = state_->elapsed_ms;
    recording.has_last_block = state_->has_last && state_->launches == 1;
    if (recording.has_last_block) {
        recording.first_shared = state_->first_totals.shared();
        recording.first_global = state_->first_totals.global();
        recording.last_shared = state_->last_totals.shared();
        recording.last_global = state_->last_totals.global();
    }
    return recording;
}

void AccessRecorder::report_problems(std::function<void(const AccessProblem&)> report) {
    state_->report = std::move(report);
}

void AccessRecorder::begin_launch(const ObservedLaunch& launch) { state_->begin_launch(launch); }
bool AccessRecorder::begin_block(Dim3 index) { return state_->begin_block(index); }
void AccessRecorder::accesses(unsigned thread, std::span<const ObservedAccess> accesses) {
    state_->accesses(thread, accesses);
}
void AccessRecorder::bad_index(unsigned thread, const ObservedBadIndex& what) {
    if (!state_->options.problems) return;
    AccessProblem problem;
    problem.kind = ProblemKind::out_of_bounds;
    problem.place = {what.file, what.line, {}};
    problem.thread = thread;
    problem.index = what.index;
    problem.array_type = what.array_type;
    problem.block = state_->block;
    state_->add(std::move(problem));
}
void AccessRecorder::meeting(std::span<const unsigned> threads, bool whole_block) {
    state_->meeting(threads, whole_block);
}
// Lanes that were apart go on together, so that what they access next is one request.
void AccessRecorder::exchange(std::span<const unsigned> threads) {
    for (const unsigned thread : threads) state_->requests.meet(thread);
}
void AccessRecorder::release(unsigned thread, std::uint64_t object) {
    state_->order_one_by_one();
    if (state_->races) state_->races->clocks().release(thread, object);
}
void AccessRecorder::acquire(unsigned thread, std::uint64_t object) {
    state_->order_one_by_one();
    if (state_->races) state_->races->clocks().acquire(thread, object);
}
void AccessRecorder::end_block() { state_->end_block(); }
void AccessRecorder::end_launch() { state_->end_launch(); }

}  // namespace kiln
