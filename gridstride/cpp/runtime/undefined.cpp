// Bit patterns for undefined values, and warnings for stores of values that are computed from them
#include "undefined.h"
#include <string.h>
#include <utility>
#include "detector.h"
#include "findings.h"
#include "synccheck.h"
#include "threads.h"

namespace gridstride {

// Was it computed from the byte pattern 0x76 or 0xf6? As floats, values of these bytes have magnitude 1e33, and so
// have their sums, products and maxima. As integers, they are multiples of 0x01010101, and so are their sums, up to an
// added number.
// Other floats are rarely in this range.
template <class T> static bool has_such_bytes(T value) {
    const int top = int(value >> (8 * sizeof(T) - 8)), exponent = top & 0x7f;
    if (exponent >= 0x74 && exponent < 0x7c) return true;
    if (sizeof(T) == 2 || top == 0 || top == 0xff) return false;
    const T equal_bytes = T(~T(0) / 0xff), most = exponent > 0x20 && exponent < 0x60 ? 1 << 12 : 1 << 15;
    return T(value - T(top) * equal_bytes + most) < 2 * most || T(value - T(top + 1) * equal_bytes + most) < 2 * most;
}
// Is it the NaN of an undefined float? Arithmetic preserves its lower bits, and so does a conversion from double.
static bool is_such_nan(uint32_t bits) { return (bits & 0x7fffffff) == undefined_nan; }
static bool is_such_nan(uint64_t bits) { return (bits & ~uint64_t(0) >> 1) == undefined_nan_of_double; }
static bool is_such_nan(uint16_t) { return false; }
template <class T> static bool has_one(const char *value, int bytes) {
    for (T part; bytes >= int(sizeof part); value += sizeof part, bytes -= int(sizeof part)) {
        memcpy(&part, value, sizeof part);
        if (has_such_bytes(part) || is_such_nan(part)) return true;
    }
    return false;
}
// One byte is too short to recognize a pattern.
bool shows_undefined(const void *value, int bytes) {
    const auto *v = static_cast<const char *>(value);
    return bytes % 8 == 0   ? has_one<uint64_t>(v, bytes)
           : bytes % 4 == 0 ? has_one<uint32_t>(v, bytes)
                            : has_one<uint16_t>(v, bytes);
}

void Worker::set_undefined(int r, const UndefinedValue &value) {
    if (!has_undefined_values) memset(undefined, 0, sizeof undefined);
    origin[r] = value;
    undefined[r / 32] |= 1u << r % 32;
    has_undefined_values = detector.pending.active = true;
}
// After a barrier of the block, undefined values are no longer tracked.
void forget_undefined(Worker &w) { w.has_undefined_values = false; }

static Code why_absent(const Warp &p, int from, int reader) {
    return !(p.exists >> from & 1)         ? Code::apart_absent
           : !(p.mask[reader] >> from & 1) ? Code::not_in_mask
           : p.finished >> from & 1        ? Code::apart_returned
                                           : Code::apart_elsewhere;
}
// Returns the byte of the pattern for a read of lane `from`, -1 if the value is defined. The sign alternates, so that
// neither a maximum nor a minimum hides all undefined values.
int undefined_byte(int from, int line) {
    Worker &w = *worker;
    if (!detector.on || !checks(synccheck)) return -1;
    const int r = current_rank(), l = r % 32;
    const Warp &p = w.warps[r / 32];
    const bool present = p.group[l] >> from & 1;
    if (from == l || (present && w.is_undefined(r))) return -1;
    w.set_undefined(
        r, present ? w.origin[r - l + from] : UndefinedValue{line, r - l + from, from, why_absent(p, from, l)});
    return !present && w.undefined_reads++ % 2 ? 0xf6 : 0x76;
}
void undefined_result(Code who_gets_it, int line) {
    if (!on_device() || !detector.on || !checks(synccheck)) return;
    const int r = current_rank();
    worker->set_undefined(r, {line, r, -1, who_gets_it});
}

void Detector::check_stored_value() {
    const auto at = std::exchange(pending.stored, {});
    const int r = int(me % max_threads);
    if (!has_undefined(*w) || !shows_undefined(reinterpret_cast<const void *>(at.a), int(at.n))) return;
    const UndefinedValue &v = w->origin[r];
    w->undefined[r / 32] &= ~(1u << r % 32);
    if (!begin_warning(v.lane < 0 ? Code::undefined_result : Code::undefined_lane, v.line,
            {{"lane", v.lane}, {"state", v.cause}, thread_field(*w, v.rank)}))
        return;
    Location stored = {};
    put_line({me, now, at.location}, stored);
    pending_warnings.back().add({{"stored", stored.line}});
}
}
