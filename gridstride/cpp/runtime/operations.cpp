#include "operations.h"
#include <tuple>
#include "detector.h"
#include "devices.h"
#include "findings.h"
#include "queue.h"
#include "ranks.h"

namespace gridstride {

Operations operations;
constexpr size_t max_operations = 4096;    // that are stored; older ones count as ordered
static thread_local Operation *running_operation = nullptr;
// a stream index that replaces the caller's stream (graph replay, child launches, CUB); -1: none
static thread_local int64_t stream_override = -1;
static thread_local bool queues_graph = false;    // whether this OS thread adds the nodes of a graph to the queue
bool is_graph_queued() { return queues_graph; }
Operation *current_operation() { return running_operation; }
void set_current_operation(Operation *operation) { running_operation = operation; }
bool has_enclosing_operation() { return stream_override >= 0 || running_operation; }
// With several devices, the order also determines which operation runs first.
static bool tracks_order() { return (checks(racecheck) || device_count() > 1) && !on_device(); }

// Regions

bool Region::overlaps(uintptr_t a, size_t bytes) const {
    if (a + bytes <= lo || a >= end()) return false;
    const size_t row = a < lo + width ? 0 : (a - lo - width) / pitch + 1;      // the first row that ends after `a`
    return row < height && lo + row * pitch < a + bytes;
}
bool Region::overlaps(const Region &other) const {
    if (other.height > height) return other.overlaps(*this);
    for (size_t row = 0; row < other.height; row++)
        if (overlaps(other.lo + row * other.pitch, other.width)) return true;
    return false;
}
bool Region::extend(const Region &next) {
    if (next.is_write != is_write || next.width != width || next.height > 1 || next.lo < lo + width) return false;
    if (height == 1) pitch = next.lo - lo;
    return next.lo == lo + height * pitch && ++height;
}

// Adds an accessed region. Row-by-row copies alternate between reads and writes, so either of the last two regions is
// extended if possible.
void Operation::add(const Region &r) {
    for (size_t i = regions.size(); i-- && i + 2 >= regions.size();)
        if (regions[i].extend(r)) return;
    regions.push_back(r);
}

// Streams and events

uint32_t Operations::add_stream() {
    const auto finished = std::find_if(
        free_streams.begin(), free_streams.end(), [this](uint32_t s) { return host_clock.of(s) >= streams[s].count; });
    if (finished != free_streams.end()) {
        const uint32_t s = *finished;
        free_streams.erase(finished);
        return s;
    }
    streams.emplace_back();
    return uint32_t(streams.size() - 1);
}
uint32_t Operations::stream_index(const void *stream) {
    if (!stream) return default_stream(current_device());
    const auto known = stream_indices.find(stream);
    if (known != stream_indices.end()) return known->second;
    create_stream(stream, true, 0);
    return stream_indices[stream];
}
void Operations::create_stream(const void *stream, bool blocking, int line) {
    const uint32_t s = stream_indices[stream] = add_stream();
    streams[s].is_blocking = blocking, streams[s].line = line, streams[s].label = ++num_created;
    streams[s].device = current_device();
}
void Operations::destroy_stream(const void *stream) {
    const auto known = stream_indices.find(stream);
    if (known == stream_indices.end()) return;
    std::vector<uint32_t> &branches = streams[known->second].branches;
    free_streams.insert(free_streams.end(), branches.begin(), branches.end());
    branches.clear();
    free_streams.push_back(known->second);
    stream_indices.erase(known);
}
uint32_t Operations::default_stream(int device) {
    while (default_streams.size() <= size_t(device)) {
        streams.emplace_back();
        streams.back().is_default = true, streams.back().device = int(default_streams.size());
        default_streams.push_back(uint32_t(streams.size() - 1));
    }
    return default_streams[size_t(device)];
}
StreamClock &Operations::join_into_next_clock(uint32_t stream) {
    default_stream(streams[stream].device);              // which may have to be created
    StreamClock &clock = streams[stream].clock;
    clock.join(host_clock);
    const int device = streams[stream].device;
    if (streams[stream].is_default) {
        for (const Stream &other : streams)
            if (other.is_blocking && other.device == device) clock.join(other.clock);
    } else if (streams[stream].is_blocking) clock.join(streams[default_stream(device)].clock);
    return clock;
}
uint32_t Operations::branch_stream(uint32_t stream, size_t i) {
    if (i == streams[stream].branches.size()) {
        const uint32_t s = add_stream();
        streams[s].line = streams[stream].line, streams[s].label = streams[stream].label;
        streams[s].is_blocking = false, streams[s].device = streams[stream].device;
        streams[stream].branches.push_back(s);
    }
    return streams[stream].branches[i];
}
void Operations::wait(uint32_t stream, const void *event) {
    const auto recorded = events.find(event);
    if (recorded != events.end()) join_into_next_clock(stream).join(recorded->second);
}
void Operations::host_waits_for_event(const void *event) {
    const auto recorded = events.find(event);
    if (recorded != events.end()) host_clock.join(recorded->second);
    discard_synchronized();
}
void Operations::host_waits_for(const void *stream) {
    host_clock.join(join_into_next_clock(stream_index(stream)));
    discard_synchronized();
}
StreamClock Operations::clock_of_event(const void *event) const {
    const auto recorded = events.find(event);
    return recorded == events.end() ? StreamClock() : recorded->second;
}
StreamClock Operations::clock_of_device(int device) const {
    StreamClock clock;
    for (uint32_t s = 0; s < streams.size(); s++)
        if (streams[s].device == device) clock.join(streams[s].clock), clock.raise(s, streams[s].count);
    return clock;
}
void Operations::host_waits_for_device(int device) {
    host_clock.join(clock_of_device(device));
    discard_synchronized();
}
void Operations::host_waits() {
    if (pending.empty()) return;
    for (uint32_t s = 0; s < streams.size(); s++) host_clock.raise(s, streams[s].count);
    discard_synchronized();
}
void Operations::signal_host_threads() {
    if (!running_operation) return;
    const auto is_own = [](const HostSignal &s) { return pthread_equal(s.enqueued_by, pthread_self()); };
    auto own = std::find_if(host_signals.begin(), host_signals.end(), is_own);
    if (own == host_signals.end()) own = host_signals.insert(own, {pthread_self(), {}});
    own->clock.join(running_operation->clock);
}
void Operations::acquire_host_signals() {
    for (const HostSignal &s : host_signals)
        if (!pthread_equal(s.enqueued_by, pthread_self())) host_clock.join(s.clock);
}
// Resets the state of a call from Python, which a finding may have ended in the middle of an operation.
void Operations::end_call() {
    if (running_operation) running_operation->end = ++detector.now;
    running_operation = nullptr, stream_override = -1, queues_graph = false, num_created = 0;
    host_signals.clear();
    host_waits();
}

// Operations

Operations::Reservation Operations::reserve(const void *stream) {
    const uint32_t s = stream_override < 0 ? stream_index(stream) : uint32_t(stream_override);
    StreamClock &clock = join_into_next_clock(s);
    clock.raise(s, ++streams[s].count);
    return {s, streams[s].count, clock};
}
Operation &Operations::start(const char *name, uint32_t s, uint32_t sequence_number, int line,
    const StreamClock &clock) {
    if (pending.size() >= max_operations && pending.front().end) pending.pop_front();
    pending.push_back({s, sequence_number, ++detector.now, 0, name, line, clock, false, {}, {}, 0, {}});
    return pending.back();
}
Operation &Operations::begin(const char *name, uint32_t s, int line) {
    StreamClock &clock = join_into_next_clock(s);
    clock.raise(s, ++streams[s].count);
    return start(name, s, streams[s].count, line, clock);
}
void Operations::end(Operation &op, bool waits) {
    op.end = ++detector.now;
    if (!waits) return;
    host_clock.join(op.clock);
    discard_synchronized();
}
void Operations::order_after(Operation &op, const StreamClock &clock) {
    op.clock.join(clock), streams[op.stream].clock.join(clock);
}
uint32_t Operations::host_waited_until() const {
    uint32_t time = detector.now + 1;
    for (const Operation &op : pending)
        if (host_clock.of(op.stream) < op.sequence_number) time = std::min(time, op.begin);
    return time;
}
void Operations::discard_synchronized() {
    if (has_shared_memory) record_host_wait(host_waited_until());
    if (!is_queue_empty()) return;                       // a queued operation may be unordered with them
    while (!pending.empty() && pending.front().end &&
        host_clock.of(pending.front().stream) >= pending.front().sequence_number)
        pending.pop_front();
}
const Operation *Operations::at(const Access &access) const {
    const uint32_t time = access.time;
    auto match = std::upper_bound(
        pending.begin(), pending.end(), time, [](uint32_t t, const Operation &later) { return t < later.begin; });
    while (match != pending.begin()) {
        --match;
        if ((!match->end || time < match->end) && (!match->runs_jointly || match->contains(access))) return &*match;
        if (!match->runs_jointly) break;
    }
    return nullptr;
}
const Operation *Operations::unordered(const Access &access) const {
    const Operation *match = at(access);
    return match && running_operation && !running_operation->is_after(*match) ? match : nullptr;
}

// A launch

void Operations::add_unordered_regions(const Operation &op) {
    for (const Region &r : op.regions) unordered_regions.push_back({r.lo, r.end(), &r, &op});
}
bool Operations::begin_launch(const Launch *l, uintptr_t image, uint32_t &unordered_since) {
    unordered_regions.clear();
    if (!running_operation) return false;
    Operation &operation = *running_operation;
    if (l) operation.is_launch = true, operation.grid = l->grid, operation.block = l->block, operation.image = image;
    bool is_any_unordered = false;
    for (uint32_t s = 0; s < streams.size(); s++)
        is_any_unordered |= running_operation->clock.of(s) < streams[s].count;
    if (!is_any_unordered) return false;
    is_any_unordered = false;
    for (const Operation &op : pending)
        if (!running_operation->is_after(op) && !(op.is_launch && op.begin >= detector.launch_start)) {
            is_any_unordered = true, add_unordered_regions(op);
            if (op.is_launch) unordered_since = std::min(unordered_since, op.begin);
        }
    auto &regions = unordered_regions;
    std::sort(regions.begin(), regions.end(),
        [](const UnorderedRegion &a, const UnorderedRegion &b) { return a.lo < b.lo; });
    for (size_t i = 1; i < regions.size(); i++)
        regions[i].max_end = std::max(regions[i].max_end, regions[i - 1].max_end);
    return is_any_unordered;
}
bool Operations::acquire(const Access &flag_write, uint32_t &unordered_since) {
    const Operation *match = unordered(flag_write);
    if (match) running_operation->clock.join(match->clock), streams[running_operation->stream].clock.join(match->clock);
    return begin_launch(nullptr, 0, unordered_since);
}
// Returns whether the current thread has acquired the accesses of a copy, while launches run together.
static bool is_copy_acquired(const Operation &copy) {
    return copy.runs_jointly && copy.begin >= detector.launch_start &&
           detector.is_acquired({(copy.first_block + 1) * max_threads, copy.begin, 0});
}
Conflict Operations::find_launch_conflict(uintptr_t a, size_t bytes, bool writes) const {
    auto match = std::upper_bound(unordered_regions.begin(), unordered_regions.end(), a + bytes - 1,
        [](uintptr_t last, const UnorderedRegion &r) { return last < r.lo; });
    while (match != unordered_regions.begin() && (--match)->max_end > a)
        if (const Region &r = *match->region; (writes || r.is_write) && r.overlaps(a, bytes) &&
            !is_copy_acquired(*match->operation))
            return {match->operation, a, r.is_write};
    return {};
}
std::pair<uintptr_t, uintptr_t> Operations::clear_range(uintptr_t a) const {
    const auto next = std::upper_bound(unordered_regions.begin(), unordered_regions.end(), a,
        [](uintptr_t address, const UnorderedRegion &r) { return address < r.lo; });
    const uintptr_t from = next == unordered_regions.begin() ? 0 : std::prev(next)->max_end,
                    end = next == unordered_regions.end() ? ~uintptr_t(0) : next->lo;
    return from <= a ? std::make_pair(from, end) : std::make_pair(a, a);
}

// Copies, and the host

Conflict Operations::conflict_in_regions(const Region &region, const StreamClock &clock) const {
    for (const Operation &op : pending)
        if (clock.of(op.stream) < op.sequence_number)
            for (const Region &earlier : op.regions)
                if ((region.is_write || earlier.is_write) && earlier.overlaps(region))
                    return {&op, std::max(earlier.lo, region.lo), earlier.is_write};
    return {};
}
// Searches shadow memory, which records the accesses of launches; a large region is searched only if an unordered
// launch is pending.
Conflict Operations::conflict_in_cells(const Region &region, const StreamClock &clock) const {
    if (pending.empty() || !detector.cells.word_cells || !memory.holds(region.lo)) return {};
    const auto unordered = [&](const Operation &op) { return op.is_launch &&
        clock.of(op.stream) < op.sequence_number; };
    const bool should_search =
        region.width * region.height < 256 || std::any_of(pending.begin(), pending.end(), unordered);
    if (!should_search) return {};
    const uint32_t since = pending.front().begin;
    const uintptr_t base = reinterpret_cast<uintptr_t>(memory.base);
    const auto unordered_operation = [&](const Access &access) -> const Operation * {
        const Operation *match = access.time < since ? nullptr : at(access);
        return match && unordered(*match) ? match : nullptr;
    };
    for (size_t row = 0; row < region.height; row++)
        for (uintptr_t a = region.lo + row * region.pitch, end = a + region.width; a < end;) {
            if (detector.cells.line_at(a - base).is_before(since)) {
                a = a / line_bytes * line_bytes + line_bytes;
                continue;
            }
            detector.cells.expand(a - base, 1);
            const Cell &word = detector.cells.word_cells[(a - base) / 4];
            const Cell &c = word.has_byte_cells ? detector.cells.byte_cells[a - base] : word;
            if (const Operation *match = unordered_operation(c.write)) return {match, a, true};
            if (region.is_write)
                for (const Access *r : {&c.read, &c.second_read})
                    if (const Operation *match = unordered_operation(*r)) return {match, a, false};
            a = word.has_byte_cells ? a + 1 : a / 4 * 4 + 4;
        }
    return {};
}
static ElementName element_at(uintptr_t a) {
    ElementName element = detector.element_name(a, 0, memory.at(a));
    if (!element.name[0]) Field::copy(element.name, "registered memory");
    return element;
}
Conflict Operations::conflict(const Region &region, const StreamClock &clock) const {
    const Conflict c = conflict_in_regions(region, clock);
    return c.operation ? c : conflict_in_cells(region, clock);
}
void Operations::access(const void *p, size_t bytes, const char *verb) {
    const uintptr_t a = reinterpret_cast<uintptr_t>(p);
    if (!running_operation || !checks(racecheck) || !bytes || (!memory.holds(a) && is_pageable(p))) return;
    const Region region = {a, bytes, bytes, 1, verb[0] != 'r'};
    if (const Conflict c = conflict(region, running_operation->clock); c.operation) {
        const ElementName element = element_at(c.address);
        fail_at(Code::unordered_operations,
            {element.array(), element.index(), {"now", verb}, {"before", c.is_write ? "writes" : "reads"},
                GRIDSTRIDE_OPERATION("second", *running_operation), GRIDSTRIDE_OPERATION("first", *c.operation)},
            nullptr, running_operation->line);
    }
    running_operation->add(region);
}
void Operations::host_access(uintptr_t a, size_t bytes, bool writes, bool is_atomic, void *pc) {
    if (!running_operation && device_count() > 1) run_queue(nullptr);
    if (pending.empty() || !tracks_order() || !checks(racecheck)) return;
    if (!running_operation) acquire_host_signals();
    const Region region = {a, bytes, bytes, 1, writes};
    const StreamClock &clock = running_operation ? running_operation->clock : host_clock;
    if (const Conflict c = conflict(region, clock); c.operation && is_atomic)
        // the host has acquired a flag: the operation that wrote it, and those before that operation, happen before the
        // host's next accesses
        host_clock.join(c.operation->clock);
    else if (c.operation) {
        const ElementName element = element_at(c.address);
        fail_at(Code::host_race,
            {element.array(), element.index(), {"now", writes ? "writes" : "reads"},
                {"before", c.is_write ? "write" : "read"}, GRIDSTRIDE_OPERATION("first", *c.operation)},
            static_cast<char *>(pc) - 1, 0);
    }
    if (running_operation) running_operation->add(region);
}
Code Operations::phrase_code(const Operation &op) const {
    if (op.is_launch) return op.line ? Code::kernel_on : Code::kernel_in;
    return op.line ? Code::call_on : Code::call_in;
}
void Operations::discard(uintptr_t lo, uintptr_t hi) {
    const auto within = [=](const Region &r) { return r.lo >= lo && r.lo < hi; };
    for (Operation &op : pending) {
        auto &all = op.regions;
        all.erase(std::remove_if(all.begin(), all.end(), within), all.end());
    }
}
Code Operations::stream_code(const Operation &op) const {
    const Stream &s = streams[op.stream];
    return !s.label ? Code::default_stream : s.line ? Code::created_stream : Code::given_stream;
}

// A graph

GraphOrder::GraphOrder() : outer(tracks_order() ? stream_override : -1) {
    if (outer < 0) return;
    DeviceLock device_lock;
    start = operations.join_into_next_clock(uint32_t(outer));
}
GraphOrder::~GraphOrder() {
    if (outer < 0) return;
    DeviceLock device_lock;
    for (auto &node : nodes) operations.streams[size_t(outer)].clock.join(node.second.clock);
    stream_override = outer;
}
void GraphOrder::begin(const void *node, const std::vector<const void *> &dependencies) {
    if (outer < 0) return;
    DeviceLock device_lock;
    StreamClock clock = start;
    int64_t s = -1;
    for (const void *dependency : dependencies) {
        NodeState &done = nodes[dependency];
        clock.join(done.clock);
        if (s < 0 && !done.is_continued) s = done.stream, done.is_continued = true;
    }
    if (s < 0) {
        s = num_branches ? operations.branch_stream(uint32_t(outer), num_branches - 1) : uint32_t(outer);
        num_branches++;
    }
    operations.streams[size_t(s)].clock.join(clock);
    nodes[node] = {uint32_t(s), {}, false};
    stream_override = s;
}
void GraphOrder::end(const void *node) {
    if (outer < 0) return;
    DeviceLock device_lock;
    NodeState &done = nodes[node];
    done.clock = operations.streams[done.stream].clock;
}

// The functions that the headers call

static uint32_t effective_stream(const void *stream) {
    return stream_override < 0 ? operations.stream_index(stream) : uint32_t(stream_override);
}
StreamOperation::StreamOperation(const char *name, const void *stream, int line, bool waits)
    : is_outermost(false), waits(waits) {
    if (running_operation && !running_operation->name) running_operation->name = name, running_operation->line = line;
    if (!tracks_order() || running_operation) return;
    DeviceLock device_lock;
    if (stream_override < 0 && device_count() > 1) {
        const StreamClock before = operations.clock_of_stream(operations.stream_index(stream));
        run_queue(&before);
    }
    running_operation = &operations.begin(name, effective_stream(stream), line);
    is_outermost = true;
}
StreamOperation::~StreamOperation() {
    if (!is_outermost || !running_operation) return;
    DeviceLock device_lock;
    operations.end(*running_operation, waits && stream_override < 0);
    running_operation = nullptr;
}
StreamScope::StreamScope(const void *stream) : is_outermost(stream_override < 0 && tracks_order()) {
    if (!is_outermost) return;
    DeviceLock device_lock;
    const uint32_t index = operations.stream_index(stream);
    if (device_count() > 1 && !queues_graph && !running_operation) {
        const StreamClock before = operations.clock_of_stream(index);
        run_queue(&before);
    }
    stream_override = index;
}
StreamScope::~StreamScope() {
    if (is_outermost) stream_override = -1;
}
GraphQueueing::GraphQueueing() : is_outermost(is_queueing() && !queues_graph) {
    if (is_outermost) queues_graph = true;
}
GraphQueueing::~GraphQueueing() {
    if (is_outermost) queues_graph = false;
}
void run_queued_operations() {
    DeviceLock device_lock;
    const auto outer = std::make_pair(stream_override, queues_graph);
    stream_override = -1, queues_graph = false;
    run_queue(nullptr);
    std::tie(stream_override, queues_graph) = outer;
}
template <class F> static void run_if_tracking_order(F f) {
    if (!tracks_order()) return;
    DeviceLock device_lock;
    f();
}
// Calls `f` unless the call comes from a graph or a kernel, whose waits are not waits of the host.
template <class F> static void run_if_host_call(F f) {
    if (stream_override < 0 && !running_operation) run_if_tracking_order(f);
}
int device_of_stream(const void *stream) {
    DeviceLock device_lock;
    return operations.device_of_stream(stream);
}
void register_stream(const void *stream, bool blocking, int line) {
    run_if_tracking_order([=] { operations.create_stream(stream, blocking, line); });
}
void unregister_stream(const void *stream) {
    run_if_tracking_order([=] { operations.destroy_stream(stream); });
}
void record_event(const void *event, const void *stream) {
    run_if_tracking_order([=] { operations.record(event, effective_stream(stream)); });
}
void discard_event(const void *event) {
    run_if_tracking_order([=] { operations.discard_event(event); });
}
void stream_waits_for_event(const void *stream, const void *event) {
    run_if_tracking_order([=] { operations.wait(effective_stream(stream), event); });
}
void signal_host_threads() {
    run_if_tracking_order([] { operations.signal_host_threads(); });
}
void host_waits_for_event(const void *event) {
    run_if_host_call([=] {
        const StreamClock clock = operations.clock_of_event(event);
        run_queue(&clock);
        operations.host_waits_for_event(event);
    });
}
void host_waits_for(const void *stream) {
    run_if_host_call([=] {
        const StreamClock clock = operations.clock_of_stream(operations.stream_index(stream));
        run_queue(&clock);
        operations.host_waits_for(stream);
    });
}
void host_waits_for_device(int device) {
    if (device_count() == 1) return host_waits();
    run_if_host_call([=] {
        const StreamClock clock = operations.clock_of_device(device);
        run_queue(&clock);
        operations.host_waits_for_device(device);
    });
}
void host_waits() {
    run_if_host_call([] {
        run_queue(nullptr);
        operations.host_waits();
    });
}
}
