// Returns bit patterns for undefined values, and warns if a value that is computed from one is stored.
#include "undefined.h"
#include <string.h>
#include <utility>
#include "detector.h"
#include "findings.h"
#include "synccheck.h"
#include "threads.h"

namespace gridstride {

// Returns whether a value was probably computed from the byte pattern 0x76 or 0xf6. Read as floats, these bytes have
// magnitude 1e33, as have their sums and maxima; other floats are rarely in this range. Read as integers, they are
// multiples of 0x01010101, as are their sums, except for a small addend.
template <class T> static bool has_pattern_bytes(T value) {
    const int top_byte = int(value >> (8 * sizeof(T) - 8)), exponent = top_byte & 0x7f;
    if (exponent >= 0x74 && exponent < 0x7c) return true;
    if (sizeof(T) == 2 || top_byte == 0 || top_byte == 0xff) return false;
    const T equal_bytes = T(~T(0) / 0xff), tolerance = exponent > 0x20 && exponent < 0x60 ? 1 << 12 : 1 << 15;
    return T(value - T(top_byte) * equal_bytes + tolerance) < 2 * tolerance ||
        T(value - T(top_byte + 1) * equal_bytes + tolerance) < 2 * tolerance;
}
// Returns whether a value is the NaN that represents an undefined float. Arithmetic preserves its lower bits, and so
// does a conversion from double.
static bool is_pattern_nan(uint32_t bits) { return (bits & 0x7fffffff) == undefined_nan; }
static bool is_pattern_nan(uint64_t bits) { return (bits & ~uint64_t(0) >> 1) == undefined_nan_of_double; }
static bool is_pattern_nan(uint16_t) { return false; }
template <class T> static bool contains_pattern(const char *value, int bytes) {
    for (T element; bytes >= int(sizeof element); value += sizeof element, bytes -= int(sizeof element)) {
        memcpy(&element, value, sizeof element);
        if (has_pattern_bytes(element) || is_pattern_nan(element)) return true;
    }
    return false;
}
// One byte is too short to recognize a pattern.
bool shows_undefined(const void *value, int bytes) {
    const auto *data = static_cast<const char *>(value);
    return bytes % 8 == 0   ? contains_pattern<uint64_t>(data, bytes)
           : bytes % 4 == 0 ? contains_pattern<uint32_t>(data, bytes)
                            : contains_pattern<uint16_t>(data, bytes);
}

void Worker::set_undefined(int thread_rank, const UndefinedValue &value) {
    if (!has_undefined_values) memset(undefined, 0, sizeof undefined);
    origin[thread_rank] = value;
    undefined[thread_rank / 32] |= 1u << thread_rank % 32;
    has_undefined_values = detector.pending.active = true;
}
// After a block-wide barrier, undefined values are no longer tracked.
void discard_undefined(Worker &w) { w.has_undefined_values = false; }

static Code state_of_inactive_lane(const Warp &warp, int from, int reader) {
    return !(warp.launched >> from & 1)         ? Code::lane_nonexistent
           : !(warp.mask[reader] >> from & 1) ? Code::not_in_mask
           : warp.finished >> from & 1        ? Code::lane_returned
                                           : Code::lane_at_other_call;
}
// Returns the pattern's byte for a read of lane `from`, or -1 if the value is defined. The sign alternates, so that
// neither a maximum nor a minimum hides all undefined values.
int undefined_byte(int from, int line) {
    Worker &w = *worker;
    if (!detector.is_enabled || !checks(synccheck)) return -1;
    const int rank = current_rank(), lane = rank % 32;
    const Warp &warp = w.warps[rank / 32];
    const bool is_present = warp.group[lane] >> from & 1;
    if (from == lane || (is_present && w.is_undefined(rank))) return -1;
    w.set_undefined(
        rank, is_present ? w.origin[rank - lane + from]
            : UndefinedValue{line, rank - lane + from, from, state_of_inactive_lane(warp, from, lane)});
    return !is_present && w.undefined_reads++ % 2 ? 0xf6 : 0x76;
}
void undefined_result(Code result_code, int line) {
    if (!on_device() || !detector.is_enabled || !checks(synccheck)) return;
    const int rank = current_rank();
    worker->set_undefined(rank, {line, rank, -1, result_code});
}

void Detector::check_stored_value() {
    const auto store = std::exchange(pending.store, {});
    const int rank = int(self % max_threads);
    if (!has_undefined(*w) || !shows_undefined(reinterpret_cast<const void *>(store.address), int(store.bytes))) return;
    const UndefinedValue &origin = w->origin[rank];
    w->undefined[rank / 32] &= ~(1u << rank % 32);
    if (!begin_warning(origin.lane < 0 ? Code::undefined_result : Code::undefined_lane, origin.line,
            {{"lane", origin.lane}, {"state", origin.cause}, thread_field(*w, origin.rank)}))
        return;
    Location store_location = {};
    set_line({self, now, store.location}, store_location);
    pending_warnings.back().add({{"stored", store_location.line}});
}
}
