// wgmma: matrix products of the tensor cores, by a warpgroup. The last lane of a warp that arrives computes the 16 rows
// of the warp (`multiply_rows`). Until a thread waits for its group, its accumulators are placeholders, so that the use
// of a result that has not been awaited is detected.
#include <math.h>
#include <string.h>
#include "engines.h"
#include "findings.h"
#include "operand.h"
#include "sixteen_bits.h"

namespace gridstride {

// Returns the placeholder of accumulator `i` until the thread waits: a NaN that no computation returns.
static float placeholder(size_t i) {
    const uint32_t bits = 0x7fbad000u | uint32_t(i);
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
static bool is_placeholder(const float *p, size_t i) {
    const float x = placeholder(i);
    return !memcmp(p, &x, 4);
}

static float half_value(uint16_t bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const float magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                                   : ldexpf(float(exponent ? mantissa + 1024 : mantissa), std::max(exponent, 1) - 25);
    return bits >> 15 ? -magnitude : magnitude;
}
static int bytes_of(WgmmaType type) { return type == WgmmaType::tf32 ? 4 : type >= WgmmaType::e4m3 ? 1 : 2; }

// The accumulators of s8 operands are 32-bit integers, stored in place of floats.
static double accumulator_value(WgmmaType type, const float &accumulator) {
    int32_t integer;
    memcpy(&integer, &accumulator, 4);
    return type == WgmmaType::s8 ? double(integer) : double(accumulator);
}
static void set_accumulator(WgmmaType type, float &accumulator, double value) {
    const int32_t integer = type == WgmmaType::s8 ? int32_t(uint32_t(int64_t(value))) : 0;
    if (type == WgmmaType::s8) memcpy(&accumulator, &integer, 4);
    else accumulator = float(value);
}
// Converts registers with two halves each, in place, to one float per half; `pack_halves` converts them back.
static void unpack_halves(float *accumulators, size_t num_registers) {
    for (size_t i = num_registers; i-- > 0;) {
        uint16_t halves[2];
        memcpy(halves, &accumulators[i], sizeof halves);
        accumulators[2 * i] = half_value(halves[0]), accumulators[2 * i + 1] = half_value(halves[1]);
    }
}
static void pack_halves(float *accumulators, size_t num_registers) {
    for (size_t i = 0; i < num_registers; i++) {
        const uint16_t halves[] = {narrow<10>(accumulators[2 * i]), narrow<10>(accumulators[2 * i + 1])};
        memcpy(&accumulators[i], halves, sizeof halves);
    }
}
static float e4m3_value(uint8_t bits) {
    const int exponent = bits >> 3 & 15, mantissa = bits & 7;
    const float magnitude = (bits & 0x7f) == 0x7f
                        ? NAN : ldexpf(float(exponent ? mantissa + 8 : mantissa), std::max(exponent, 1) - 10);
    return bits >> 7 ? -magnitude : magnitude;
}
static float element_value(WgmmaType type, const char *bytes) {
    if (type == WgmmaType::e4m3) return e4m3_value(uint8_t(*bytes));
    if (type == WgmmaType::s8) return float(int8_t(*bytes));
    uint16_t half;
    uint32_t word = 0;
    float value;
    if (type == WgmmaType::tf32) memcpy(&word, bytes, 4), word &= ~0x1fffu;
    else memcpy(&half, bytes, 2), word = uint32_t(half) << 16;
    if (type == WgmmaType::f16) return half_value(half);
    memcpy(&value, &word, 4);
    return value;
}

struct Lane {
    const Wgmma *call;
    int warp, line;
    float accumulators[128];
};

static const char *operand_at(const Operand &operand, int row, int i, int line) {
    const uint32_t offset = operand.address(row, i) - shared_window;
    if (offset >= shared_cap) fail(Code::descriptor, {}, line);
    return worker->shared + offset;
}
static void record_operand_reads(const Operand &operand, int first_row, int rows, int k, uint32_t group, int line) {
    const int step = 16 / operand.size;                        // in elements: 16 contiguous bytes
    Access checked_write = {0, not_completed, 0};                 // matches no write
    for (int row = 0; row < rows; row += operand.transposed ? step : 1)
        for (int i = 0; i < k; i += operand.transposed ? 1 : step)
            detector.record_mma_read(reinterpret_cast<uintptr_t>(operand_at(operand, first_row + row, i, line)),
                async_proxy_location(line), group, checked_write);
}

void check_metadata(const char *operation, uint32_t word, bool has_two_halves, bool is_ordered, int line) {
    const int rank = current_rank(), lane = rank % 32, first_row = *operation == 'w' ? rank / 32 % 4 * 16 : 0;
    for (int i = 0; i < 8 && detector.is_enabled && checks(memcheck); i++) {
        const int first = sparse_index(word, i / 4, i % 4, 0), second = sparse_index(word, i / 4, i % 4, 1);
        if (is_ordered ? first < second : first != second) continue;
        const int column = (has_two_halves ? lane % 2 * 16 : 0) + i % 4 * 4, row = first_row + lane / 4 + i / 4 * 8;
        fail(Code::metadata,
            {{"operation", operation}, {"lane", lane}, {"word", word}, {"group", i}, {"first", first},
                {"second", second}, {"row", row}, {"column", column}, {"last", column + 3}},
            line);
    }
}

// Computes the 16 of 64 rows that belong to one warp.
static void multiply_rows(void *const *lanes) {
    const Wgmma &w = *static_cast<Lane *>(lanes[0])->call;
    const int line = static_cast<Lane *>(lanes[0])->line, size = bytes_of(w.type), k = 32 / size,
              warp = static_cast<Lane *>(lanes[0])->warp, first_row = warp % 4 * 16;
    for (int lane = 1; lane < 32; lane++) {
        const Wgmma &other = *static_cast<Lane *>(lanes[lane])->call;
        if (other.a != w.a || other.b != w.b || other.accumulates != w.accumulates)
            fail(Code::different_descriptors, {}, line);
    }
    const Operand a(w.a, size, w.a_transposed), b(w.b, size, w.b_transposed);
    const int rows_of_b = w.metadata ? 2 * k : k;
    if (detector.is_enabled) {
        // The reads are recorded as reads by the first thread of the warpgroup, with the state that the current thread
        // has acquired.
        const uint32_t self = detector.self, first_thread = uint32_t(warp / 4 * 128),
                       first_thread_fence = detector.proxy_fenced[first_thread];
        const ThreadView own_view = detector.view();
        detector.self = (uint32_t(worker->block) + 1) * max_threads + first_thread;
        const ThreadView before = detector.view();
        detector.acquire(own_view);
        detector.proxy_fenced[first_thread] = std::max(first_thread_fence, detector.proxy_fenced[self % max_threads]);
        const uint32_t group = uint32_t(engines_of(*worker).requests[size_t(warp * 32)].mmas_of_groups.size());
        if (!w.a_registers) record_operand_reads(a, first_row, 16, k, group, line);
        if (warp % 4 == 0) record_operand_reads(b, 0, w.n, rows_of_b, group, line);
        detector.view() = before, detector.proxy_fenced[first_thread] = first_thread_fence, detector.self = self;
        if (w.a_registers) detector.issue_with_registers(warp, group);
    }
    float a_values[16][32], b_values[32][256];
    for (int i = 0; i < k; i++) {
        for (int row = 0; row < 16; row++) {
            if (!w.a_registers) {
                a_values[row][i] = float(w.a_sign) * element_value(w.type, operand_at(a, first_row + row, i, line));
                continue;
            }
            const int elements_per_word = 4 / size, lane_in_group = i / elements_per_word % 4,
                      word = i / elements_per_word / 4 * 2 + row / 8;
            const Wgmma &call_of_lane = *static_cast<Lane *>(lanes[row % 8 * 4 + lane_in_group])->call;
            const char *const bytes = reinterpret_cast<const char *>(&call_of_lane.a_registers[word]);
            a_values[row][i] = float(w.a_sign) * element_value(w.type, bytes + i % elements_per_word * size);
        }
    }
    for (int i = 0; i < rows_of_b; i++)
        for (int column = 0; column < w.n; column++)
            b_values[i][column] = float(w.b_sign) * element_value(w.type, operand_at(b, column, i, line));
    // Returns the row of b by which element `i` of `row` of a is multiplied; for sparse a, the metadata selects it.
    const auto row_of_b = [&](int row, int i) {
        if (!w.metadata) return i;
        const int group = i / 2;
        const auto *metadata_call = static_cast<Lane *>(lanes[row % 8 * 4 + 2 * w.selector + group / 4])->call;
        return group * 4 + sparse_index(*metadata_call->metadata, row / 8, group % 4, i % 2);
    };
    for (int row = 0; row < 16; row++) {
        double accumulators[256];
        const auto accumulator = [&](int column) -> float & {
            Lane &lane = *static_cast<Lane *>(lanes[row % 8 * 4 + column % 8 / 2]);
            return lane.accumulators[column / 8 * 4 + row / 8 * 2 + column % 2];
        };
        for (int column = 0; column < w.n; column++)
            accumulators[column] = w.accumulates ? accumulator_value(w.type, accumulator(column)) : 0;
        for (int i = 0; i < k; i++) {
            const float *b_row = b_values[row_of_b(row, i)];
            for (int column = 0; column < w.n; column++) accumulators[column] += double(a_values[row][i])
                * double(b_row[column]);
        }
        for (int column = 0; column < w.n; column++)
            if (w.has_half_accumulators) accumulator(column) = round_to_odd(accumulators[column]);
            else set_accumulator(w.type, accumulator(column), accumulators[column]);
    }
}
static PendingResult *pending_result_at(Requests &requests, const float *target) {
    for (auto &result : requests.pending_results)
        if (result.targets[0] == target) return &result;
    return nullptr;
}
void wgmma_fence() { current_requests().is_fenced = true; }
void wgmma(const Wgmma &w, int line) {
    Requests &requests = current_requests();
    const size_t num_accumulators = size_t(w.has_half_accumulators ? w.n / 4 : w.n / 2); // registers
    PendingResult *result = pending_result_at(requests, w.results[0]);
    Lane lane{&w, current_rank() / 32, line, {}};
    // whether the thread has written to the accumulators since the last wgmma
    bool has_changed = !result;
    for (size_t i = 0; i < num_accumulators; i++) {
        const bool is_pending = result && !result->is_awaited;
        lane.accumulators[i] = is_pending ? result->values[i] : *w.accumulators[i];
        has_changed |= result && (is_pending ? !is_placeholder(w.accumulators[i], i)
                                    : memcmp(w.accumulators[i], &result->values[i], 4) != 0);
    }
    if (w.metadata && current_rank() % 4 / 2 == w.selector)
        check_metadata("wgmma.mma_async.sp", *w.metadata, true, true, line);
    if (has_changed && !requests.is_fenced && detector.is_enabled && checks(racecheck))
        fail(Code::registers_written, {}, line);
    if (w.has_half_accumulators) unpack_halves(lane.accumulators, num_accumulators);
    run_for_warp("wgmma.mma_async", &lane, multiply_rows, line);
    if (w.has_half_accumulators) pack_halves(lane.accumulators, num_accumulators);
    if (!result) requests.pending_results.emplace_back(), result = &requests.pending_results.back();
    result->targets.assign(w.results, w.results + num_accumulators),
        result->values.assign(lane.accumulators, lane.accumulators + num_accumulators);
    result->group = uint32_t(requests.mmas_of_groups.size()), result->line = line, result->is_awaited = false;
    requests.num_mmas++;
    for (size_t i = 0; i < num_accumulators; i++) *w.accumulators[i] = placeholder(i);
}
void wgmma_commit() { current_requests().mmas_of_groups.push_back(current_requests().num_mmas); }
// A wgmma completes when all four warps of the warpgroup have issued it.
void wgmma_wait(uint32_t groups, int line) {
    Requests &requests = current_requests();
    const uint32_t num_groups = uint32_t(requests.mmas_of_groups.size()), num_awaited = num_groups > groups
        ? num_groups - groups : 0;
    struct Wait {
        Requests *first;
        uint32_t num_awaited, num_mmas;
    } wait{&engines_of(*worker).requests[size_t(current_rank() / 128 * 128)], num_awaited,
        num_awaited ? requests.mmas_of_groups[num_awaited - 1] : 0};
    wait_until(
        [](void *p) {
            const auto &state = *static_cast<Wait *>(p);
            for (int i = 0; i < 128; i += 32)
                if (state.first[i].mmas_of_groups.size() < state.num_awaited ||
                    state.first[i].num_mmas < state.num_mmas) return false;
            return true;
        },
        &wait, line, [](void *, Finding &f, const char *name) { f.add({{name, Code::for_wgmma}}); });
    for (auto &result : requests.pending_results) {
        if (result.is_awaited || result.group >= num_awaited) continue;
        result.is_awaited = true, requests.is_fenced = false;
        for (size_t i = 0; i < result.targets.size(); i++)
            if (is_placeholder(result.targets[i], i)) *result.targets[i] = result.values[i];
    }
    if (detector.is_enabled && num_awaited) detector.complete_mma_groups(num_awaited);
}
}
