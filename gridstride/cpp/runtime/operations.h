// Happens-before between the operations of a program. A launch or a copy runs in the background; the emulator runs it
// at once and remembers here which earlier operations it is ordered after, and which of them the host has waited for.
#pragma once
#include <algorithm>
#include <deque>
#include <unordered_map>
#include <vector>
#include "shadow.h"
#include "state.h"

namespace gridstride {

struct Clock {                         // per stream: how many of its operations happen before
    std::vector<uint32_t> counts;
    uint32_t of(uint32_t stream) const { return stream < counts.size() ? counts[stream] : 0; }
    void raise(uint32_t stream, uint32_t count) {
        if (counts.size() <= stream) counts.resize(stream + 1);
        counts[stream] = std::max(counts[stream], count);
    }
    void join(const Clock &o) {
        for (uint32_t s = 0; s < o.counts.size(); s++) raise(s, o.counts[s]);
    }
};

struct Region {                        // rows of a copy: `width` bytes each, `pitch` bytes apart
    uintptr_t lo;
    size_t width, pitch, height;
    bool writes;
    uintptr_t end() const { return lo + (height - 1) * pitch + width; }
    bool meets(uintptr_t a, size_t bytes) const;
    bool meets(const Region &) const;
    bool extend(const Region &next);
};

struct Operation {
    uint32_t stream, number;           // the number-th operation of its stream, from 1
    uint32_t begin, end;               // the detectors' time; an end of 0: it is at work
    const char *name;                  // a kernel, or a function of CUDA's
    int line;
    Clock clock;                       // what happens before, itself included
    bool launches;
    dim3 grid, block;
    uintptr_t image;
    std::vector<Region> regions;
    void add(const Region &);
    bool after(const Operation &o) const { return clock.of(o.stream) >= o.number; }
};

struct Conflict {                      // of an operation that is not ordered before the access, and where
    const Operation *operation;
    uintptr_t a;
    bool wrote;
};

class Operations {
    struct Stream {
        Clock clock;                   // what happens before its next operation
        uint32_t count = 0;            // of its operations so far
        bool blocking = true;          // ordered with the legacy default stream
        int line = 0;                  // of the call that created it
        uint32_t label = 0;            // its number in messages
        std::vector<uint32_t> chains;  // streams of their own, for nodes of a graph that run at the same time
    };
    struct Foreign {                   // rows of an operation that is not ordered before the launch at work
        uintptr_t lo, most;            // most: the greatest end of these and of those before, sorted by `lo`
        const Region *region;
        const Operation *operation;
    };
    std::vector<Stream> streams = std::vector<Stream>(1);  // the first is the legacy default stream
    std::vector<uint32_t> unused;      // of destroyed streams
    std::unordered_map<const void *, uint32_t> stream_indices;
    std::unordered_map<const void *, Clock> events;
    friend class InnerOrder;
    std::deque<Operation> list;        // those that the host has not waited for
    std::vector<Foreign> foreign;
    uint32_t created = 0;
    Clock host;

    uint32_t add_stream();
    Clock &before_next(uint32_t stream);
    uint32_t chain(uint32_t stream, size_t i);
    const Operation *at(uint32_t when) const;
    Conflict conflict_in_regions(const Region &, const Clock &known) const;
    Conflict conflict_in_cells(const Region &, const Clock &known) const;
    Conflict conflict(const Region &, const Clock &known) const;
    void drop_ordered();
    void add_foreign(const Operation &);

public:
    uint32_t number_of(const void *stream);
    Operation &begin(const char *name, uint32_t stream, int line);
    void end(Operation &, bool waits);
    void create_stream(const void *stream, bool blocking, int line);
    void destroy_stream(const void *stream);
    void record(const void *event, uint32_t stream) { events[event] = before_next(stream); }
    void forget_event(const void *event) { events.erase(event); }
    void wait(uint32_t stream, const void *event);
    void host_waits_for_event(const void *event);
    void host_waits_for(const void *stream);
    void host_waits();
    void end_call();
    // Is any earlier operation not ordered before the launch at work? `floor`: since when there are such launches
    bool begin_launch(const Launch *, uintptr_t image, uint32_t &floor);
    bool acquire(uint32_t when, uint32_t &floor);          // a flag that a launch has set then: it is ordered now
    const Operation *unordered(uint32_t when) const;       // null: the launch of that time is ordered before this one
    Conflict conflict_of_kernel(uintptr_t a, size_t bytes, bool writes) const;
    void touch(const void *p, size_t bytes, const char *now);
    void host_access(uintptr_t a, size_t bytes, bool writes, bool strong, void *pc);
    void forget(uintptr_t lo, uintptr_t hi);
    Code phrase_of(const Operation &) const;
    Code stream_code(const Operation &) const;
    uint32_t label(const Operation &o) const { return streams[o.stream].label; }
    int created_at(const Operation &o) const { return streams[o.stream].line; }
};
extern Operations operations;
const Operation *operation_at_work();      // of this OS thread

// The nodes of a graph that a stream launches: each comes after those that its edges name, and the stream goes on after
// all. The first chain of nodes belongs to the stream itself, others to streams next to it.
class InnerOrder {
    struct Done {
        uint32_t stream;
        Clock clock;
        bool continued;                // by a node of the same stream
    };
    int64_t outer;                     // the stream, or less than 0: no order is kept
    size_t chains = 0;
    Clock start;
    std::unordered_map<const void *, Done> nodes;

public:
    InnerOrder();
    ~InnerOrder();
    void begin(const void *node, const std::vector<const void *> &before);
    void end(const void *node);
};

// The fields of a phrase for an operation
#define GRIDSTRIDE_OPERATION(name_of_field, o) \
    {name_of_field, operations.phrase_of(o), 5}, {"name", base_name((o).name).c_str()}, \
        {"line", (o).line}, {"stream", operations.stream_code(o), 2}, {"number", operations.label(o)}, \
        {"created", operations.created_at(o)}
}
