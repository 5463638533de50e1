// Functions that the headers of CUDA's libraries share. A library call is a stream operation; the host computes its
// result.
#pragma once
#include <vector>
#include "capture.h"
#include "runtime_memory.h"

namespace gridstride {
namespace library {
// While this object exists, the host may access the arrays in device memory.
struct DeviceAccessScope {
    const bool was_allowed = allow_device_access(true);
    DeviceAccessScope() = default;
    DeviceAccessScope(const DeviceAccessScope &) = delete;
    ~DeviceAccessScope() { allow_device_access(was_allowed); }
};
struct Array { const void *p; size_t bytes; bool is_written; };       // an array that a call reads or writes

// Returns whether each array is inside an allocation of device memory. Reports an address that is not in device memory.
inline bool are_on_device(const std::vector<Array> &arrays) {
    for (const Array &array : arrays)
        if (array.bytes && !is_in_allocation(array.p, array.bytes)) {
            if (!is_device(array.p)) report_library_memory();
            return false;
        }
    return true;
}
// Returns whether the address of a scalar is in the memory that the pointer mode of its call names.
inline bool is_scalar_in(bool in_device_memory, const void *p) {
    return in_device_memory ? is_device(p) : !is_device_only(p);
}
// Runs `f()` as an operation of the stream, which waits for an exchange that it awaits, or adds it to the graph of a
// captured stream.
template <class F> void run(const char *name, cudaStream_t s, const std::vector<Array> &arrays, F f, int line,
    const RankExchange &exchange = {}) {
    const auto work = [=] {
        const StreamOperation operation(name, s, line);
        if (exchange.is_awaited) order_after_published(exchange);
        for (const Array &array : arrays)
            if (array.bytes) record_device_use(array.p, array.bytes, array.is_written ? "writes" : "reads");
        const DeviceAccessScope access;
        f();
        for (const Array &array : arrays)
            if (array.bytes && array.is_written) mark_initialized(const_cast<void *>(array.p), array.bytes);
        return 0;
    };
    if (defer(s, NodeKind::kernel, work, exchange)) return;
    if (exchange.is_awaited) wait_for_exchange(exchange);
    work();
}
}
}
