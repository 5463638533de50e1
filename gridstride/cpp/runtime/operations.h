// The happens-before relation of a program's launches and copies in streams. On a GPU these operations are
// asynchronous. The emulator executes each operation immediately, and records which earlier operations happen before
// it, and for which operations the host has waited.
#pragma once
#include <algorithm>
#include <deque>
#include <pthread.h>
#include <unordered_map>
#include <utility>
#include <vector>
#include "shadow.h"
#include "state.h"

namespace gridstride {

// A vector clock: per stream, the number of its operations that happen before
struct StreamClock {
    std::vector<uint32_t> counts;
    uint32_t of(uint32_t stream) const { return stream < counts.size() ? counts[stream] : 0; }
    void raise(uint32_t stream, uint32_t count) {
        if (counts.size() <= stream) counts.resize(stream + 1);
        counts[stream] = std::max(counts[stream], count);
    }
    void join(const StreamClock &other) {
        for (uint32_t stream = 0; stream < other.counts.size(); stream++) raise(stream, other.counts[stream]);
    }
};

struct Region {                        // the bytes of an access: rows of `width` bytes, `pitch` bytes apart
    uintptr_t lo;
    size_t width, pitch, height;
    bool is_write;
    uintptr_t end() const { return lo + (height - 1) * pitch + width; }
    bool overlaps(uintptr_t a, size_t bytes) const;
    bool overlaps(const Region &) const;
    bool extend(const Region &next);
};

struct Operation {
    uint32_t stream, sequence_number;           // counted from 1 in its stream
    uint32_t begin, end;               // times of the detectors; `end` is 0 while it runs
    const char *name;                  // a kernel, or a function of CUDA
    int line;
    StreamClock clock;                       // the operations that happen before it, including itself
    bool is_launch;
    dim3 grid, block;
    uintptr_t image;
    std::vector<Region> regions;
    // With several devices: its block IDs in the joint run are first_block + 1 to last_block.
    int device = 0;
    uint32_t first_block = 0, last_block = ~0u;
    bool runs_jointly = false;
    bool contains(const Access &a) const { return a.thread / 1024 - 1 - first_block < last_block - first_block; }
    void add(const Region &);
    bool is_after(const Operation &other) const { return clock.of(other.stream) >= other.sequence_number; }
};

// An operation that is not ordered before an access, and the address of the conflict
struct Conflict {
    const Operation *operation;
    uintptr_t address;
    bool is_write;
};

class Operations {
    struct Stream {
        StreamClock clock;                   // the operations that happen before its next one
        uint32_t count = 0;            // the number of its operations so far
        bool is_blocking = true;       // whether it is ordered with the legacy default stream
        int line = 0;                  // the line of the call that created it
        uint32_t label = 0;            // its number in messages
        std::vector<uint32_t> branches; // internal streams, for graph nodes that run concurrently
        int device = 0;
        bool is_default = false;
    };
    struct UnorderedRegion {                   // a region of an operation that is not ordered before the current launch
        uintptr_t lo, max_end;         // max_end: of this region and those before it, sorted by `lo`
        const Region *region;
        const Operation *operation;
    };
    std::vector<Stream> streams = std::vector<Stream>(1);  // the first is the legacy default stream of device 0
    std::vector<uint32_t> default_streams = {0};           // by device
    std::vector<uint32_t> free_streams; // indices of destroyed streams
    std::unordered_map<const void *, uint32_t> stream_indices;
    std::unordered_map<const void *, StreamClock> events;
    friend class GraphOrder;
    std::deque<Operation> pending;     // operations that the host has not waited for
    std::vector<UnorderedRegion> unordered_regions;
    uint32_t num_created = 0;
    StreamClock host_clock;
    struct HostSignal {
        pthread_t enqueued_by;
        StreamClock clock;
    };
    std::vector<HostSignal> host_signals;   // of host functions in streams, one per thread that has enqueued any

    void acquire_host_signals();
    uint32_t add_stream();
    StreamClock &join_into_next_clock(uint32_t stream);
    uint32_t branch_stream(uint32_t stream, size_t i);
    const Operation *at(const Access &) const;
    uint32_t default_stream(int device);
    Conflict conflict_in_regions(const Region &, const StreamClock &) const;
    Conflict conflict_in_cells(const Region &, const StreamClock &) const;
    Conflict conflict(const Region &, const StreamClock &) const;
    void discard_synchronized();
    uint32_t host_waited_until() const;
    void add_unordered_regions(const Operation &);

public:
    struct Reservation {
        uint32_t stream, sequence_number;
        StreamClock clock;                   // the operations that happen before it, including itself
    };
    Operations() { streams[0].is_default = true; }
    uint32_t stream_index(const void *stream);
    int device_of_stream(const void *stream) { return streams[stream_index(stream)].device; }
    Reservation reserve(const void *stream);
    Operation &start(const char *name, uint32_t stream, uint32_t sequence_number, int line, const StreamClock &);
    StreamClock clock_of_stream(uint32_t stream) { return join_into_next_clock(stream); }
    StreamClock clock_of_event(const void *event) const;
    StreamClock clock_of_device(int device) const;
    Operation &begin(const char *name, uint32_t stream, int line);
    void end(Operation &, bool waits);
    void order_after(Operation &, const StreamClock &);      // orders it, and the later ones of its stream
    void create_stream(const void *stream, bool blocking, int line);
    void destroy_stream(const void *stream);
    void record(const void *event, uint32_t stream) { events[event] = join_into_next_clock(stream); }
    void discard_event(const void *event) { events.erase(event); }
    void wait(uint32_t stream, const void *event);
    void host_waits_for_event(const void *event);
    void host_waits_for(const void *stream);
    void host_waits();
    void host_waits_for_device(int device);
    // Orders the operations before the current one, a host function, before later accesses of other threads, because
    // the function may signal them or create them.
    void signal_host_threads();
    void end_call();
    // Returns whether any earlier operation is not ordered before this launch. `unordered_since` receives the time of
    // the first such launch.
    bool begin_launch(const Launch *, uintptr_t image, uint32_t &unordered_since);
    // Orders the launch that has set a flag before the current one.
    bool acquire(const Access &, uint32_t &unordered_since);
    // Returns the operation that made an access; null if it is ordered before the current one.
    const Operation *unordered(const Access &) const;
    Conflict find_launch_conflict(uintptr_t a, size_t bytes, bool writes) const;
    // Returns a range around `a` that no unordered operation accesses; it is empty if one accesses `a`.
    std::pair<uintptr_t, uintptr_t> clear_range(uintptr_t a) const;
    // Checks and records an access by the current operation; verb: reads, writes or frees
    void access(const void *p, size_t bytes, const char *verb);
    void host_access(uintptr_t a, size_t bytes, bool writes, bool is_atomic, void *pc);
    void discard(uintptr_t lo, uintptr_t hi);
    Code phrase_code(const Operation &) const;
    Code stream_code(const Operation &) const;
    uint32_t label(const Operation &operation) const { return streams[operation.stream].label; }
    int creation_line(const Operation &operation) const { return streams[operation.stream].line; }
};
extern Operations operations;
Operation *current_operation();            // in this OS thread
void set_current_operation(Operation *);
bool has_enclosing_operation();        // whether the next operation is part of a graph launch or another operation

// While this object exists, this OS thread adds the nodes of a graph to the queue, if there are several devices.
class GraphQueueing {
    bool is_outermost;

public:
    GraphQueueing();
    ~GraphQueueing();
    GraphQueueing(const GraphQueueing &) = delete;
};
bool is_graph_queued();

// Orders the nodes of a graph launch: each after its dependencies, and the stream's next operation after all of them.
// The first branch of nodes uses the stream itself; concurrent branches use internal streams.
class GraphOrder {
    struct NodeState {
        uint32_t stream;
        StreamClock clock;
        bool is_continued;             // whether a later node uses its stream
    };
    int64_t outer;                     // the index of the stream; < 0: order is not checked
    size_t num_branches = 0;
    StreamClock start;
    std::unordered_map<const void *, NodeState> nodes;

public:
    GraphOrder();
    ~GraphOrder();
    void begin(const void *node, const std::vector<const void *> &dependencies);
    void end(const void *node);
};

// The fields of a phrase that names an operation
#define GRIDSTRIDE_OPERATION(field_name, operation) \
    {field_name, operations.phrase_code(operation), 5}, {"name", base_name((operation).name).c_str()}, \
        {"line", (operation).line}, {"stream", operations.stream_code(operation), 2}, \
        {"number", operations.label(operation)}, {"created", operations.creation_line(operation)}
}
