// wgmma: matrix products of the tensor cores, by a warpgroup. The last lane of a warp that arrives computes the 16 rows
// of the warp (`multiply_rows`). Until a thread waits for its group, its accumulators are placeholders, so that a use
// of a result that has not been awaited is found.
#include <math.h>
#include <string.h>
#include "engines.h"
#include "findings.h"

namespace gridstride {

// The placeholder of accumulator `i` until the thread waits: a NaN that is not the result of any computation.
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

static float half_value(uint16_t h) {
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    const float x = exponent == 31 ? (mantissa ? NAN : INFINITY)
                                   : ldexpf(float(exponent ? mantissa + 1024 : mantissa), std::max(exponent, 1) - 25);
    return h >> 15 ? -x : x;
}
static int size_of(Number type) { return type == Number::tf32 ? 4 : type >= Number::e4m3 ? 1 : 2; }

// The accumulators of s8 operands are 32-bit integers, stored in place of floats.
static double sum_at(Number type, const float &at) {
    int32_t whole;
    memcpy(&whole, &at, 4);
    return type == Number::s8 ? double(whole) : double(at);
}
static void put_sum(Number type, float &at, double sum) {
    const int32_t whole = type == Number::s8 ? int32_t(uint32_t(int64_t(sum))) : 0;
    if (type == Number::s8) memcpy(&at, &whole, 4);
    else at = float(sum);
}
static float e4m3_value(uint8_t b) {
    const int exponent = b >> 3 & 15, mantissa = b & 7;
    const float x = (b & 0x7f) == 0x7f
                        ? NAN : ldexpf(float(exponent ? mantissa + 8 : mantissa), std::max(exponent, 1) - 10);
    return b >> 7 ? -x : x;
}
static float as_number(Number type, const char *p) {
    if (type == Number::e4m3) return e4m3_value(uint8_t(*p));
    if (type == Number::s8) return float(int8_t(*p));
    uint16_t half;
    uint32_t word = 0;
    float x;
    if (type == Number::tf32) memcpy(&word, p, 4), word &= ~0x1fffu;
    else memcpy(&half, p, 2), word = uint32_t(half) << 16;
    if (type == Number::f16) return half_value(half);
    memcpy(&x, &word, 4);
    return x;
}

// The layout of an operand in shared memory, from PTX's matrix descriptor. `row` is the index along M or N, `i` along
// K.
struct Operand {
    uint32_t start, lead, stride;
    int swizzle, size;
    bool transposed;
    Operand(uint64_t d, int size, bool transposed)
        : start(uint32_t(d & 0x3fff) << 4), lead(uint32_t(d >> 16 & 0x3fff) << 4),
          stride(uint32_t(d >> 32 & 0x3fff) << 4), swizzle(d >> 62 == 0 ? 0 : 256 >> (d >> 62)), size(size),
          transposed(transposed) {}
    uint32_t at(int row, int i) const {
        const int wide = std::max(swizzle, 16), along = (transposed ? row : i) * size; // contiguous bytes
        if (transposed) {
            const uint32_t right = swizzle ? lead : stride, down = swizzle ? stride : lead;
            return swizzle_offset(
                start + uint32_t(along / wide) * right + uint32_t(i / 8) * down + uint32_t(i % 8 * wide + along % wide),
                swizzle);
        }
        return swizzle_offset(start + uint32_t(row / 8) * stride + uint32_t(along / wide) * lead +
                            uint32_t(row % 8 * wide + along % wide),
            swizzle);
    }
};

struct Lane {
    const Wgmma *call;
    int warp, line;
    float mine[128];
};

static const char *operand_at(const Operand &operand, int row, int i, int line) {
    const uint32_t offset = operand.at(row, i) - shared_window;
    if (offset >= shared_cap) fail(Code::descriptor, {}, line);
    return worker->shared + offset;
}
static void note_operand(const Operand &operand, int first, int rows, int k, uint32_t group, int line) {
    const int step = 16 / operand.size;                        // in elements: 16 contiguous bytes
    Access fine = {0, not_completed, 0};                 // matches no write
    for (int r = 0; r < rows; r += operand.transposed ? step : 1)
        for (int i = 0; i < k; i += operand.transposed ? 1 : step)
            detector.read_by_product(reinterpret_cast<uintptr_t>(operand_at(operand, first + r, i, line)),
                engine_location(line), group, fine);
}

void check_metadata(const char *operation, uint32_t word, bool halves, bool ordered, int line) {
    const int rank = current_rank(), lane = rank % 32, first_row = *operation == 'w' ? rank / 32 % 4 * 16 : 0;
    for (int i = 0; i < 8 && detector.on && checks(memcheck); i++) {
        const int first = sparse_index(word, i / 4, i % 4, 0), second = sparse_index(word, i / 4, i % 4, 1);
        if (ordered ? first < second : first != second) continue;
        const int column = (halves ? lane % 2 * 16 : 0) + i % 4 * 4, row = first_row + lane / 4 + i / 4 * 8;
        fail(Code::metadata,
            {{"operation", operation}, {"lane", lane}, {"word", word}, {"group", i}, {"first", first},
                {"second", second}, {"row", row}, {"column", column}, {"last", column + 3}},
            line);
    }
}

// Multiplies the 16 of 64 rows that belong to one warp.
static void multiply_rows(void *const *all) {
    const Wgmma &w = *static_cast<Lane *>(all[0])->call;
    const int line = static_cast<Lane *>(all[0])->line, size = size_of(w.type), k = 32 / size,
              warp = static_cast<Lane *>(all[0])->warp, first = warp % 4 * 16;
    for (int l = 1; l < 32; l++) {
        const Wgmma &other = *static_cast<Lane *>(all[l])->call;
        if (other.a != w.a || other.b != w.b || other.accumulates != w.accumulates)
            fail(Code::different_descriptors, {}, line);
    }
    const Operand a(w.a, size, w.a_transposed), b(w.b, size, w.b_transposed);
    const int b_k = w.metadata ? 2 * k : k;
    if (detector.on) {
        // The reads are recorded for the first thread of the warpgroup, with the state that the current thread has
        // acquired.
        const uint32_t me = detector.me, first_thread = uint32_t(warp / 4 * 128),
                       sees = detector.proxy_fenced[first_thread];
        const ThreadView mine = detector.view();
        detector.me = (uint32_t(worker->block) + 1) * max_threads + first_thread;
        const ThreadView before = detector.view();
        detector.acquire(mine);
        detector.proxy_fenced[first_thread] = std::max(sees, detector.proxy_fenced[me % max_threads]);
        const uint32_t group = uint32_t(engines_of(*worker).requests[size_t(warp * 32)].products_of_groups.size());
        if (!w.a_registers) note_operand(a, first, 16, k, group, line);
        if (warp % 4 == 0) note_operand(b, 0, w.n, b_k, group, line);
        detector.view() = before, detector.proxy_fenced[first_thread] = sees, detector.me = me;
    }
    float as[16][32], bs[32][256];
    for (int i = 0; i < k; i++) {
        for (int r = 0; r < 16; r++) {
            if (!w.a_registers) {
                as[r][i] = float(w.a_sign) * as_number(w.type, operand_at(a, first + r, i, line));
                continue;
            }
            const int in_word = 4 / size, t = i / in_word % 4, word = i / in_word / 4 * 2 + r / 8;
            as[r][i] = float(w.a_sign) *
                       as_number(w.type, reinterpret_cast<const char *>(
                                             &static_cast<Lane *>(all[r % 8 * 4 + t])->call->a_registers[word]) +
                                             i % in_word * size);
        }
    }
    for (int i = 0; i < b_k; i++)
        for (int c = 0; c < w.n; c++) bs[i][c] = float(w.b_sign) * as_number(w.type, operand_at(b, c, i, line));
    // Returns the row of b with which element `i` of row r of a is multiplied; for sparse a, the metadata selects it.
    const auto along = [&](int r, int i) {
        if (!w.metadata) return i;
        const int group = i / 2;
        const auto *of = static_cast<Lane *>(all[r % 8 * 4 + 2 * w.selector + group / 4])->call;
        return group * 4 + sparse_index(*of->metadata, r / 8, group % 4, i % 2);
    };
    for (int r = 0; r < 16; r++) {
        double sum[256];
        const auto mine = [&](int c) -> float & {
            return static_cast<Lane *>(all[r % 8 * 4 + c % 8 / 2])->mine[c / 8 * 4 + r / 8 * 2 + c % 2];
        };
        for (int c = 0; c < w.n; c++) sum[c] = w.accumulates ? sum_at(w.type, mine(c)) : 0;
        for (int i = 0; i < k; i++) {
            const float *b_row = bs[along(r, i)];
            for (int c = 0; c < w.n; c++) sum[c] += double(as[r][i]) * double(b_row[c]);
        }
        for (int c = 0; c < w.n; c++) put_sum(w.type, mine(c), sum[c]);
    }
}
static PendingResult *pending_result_at(Requests &mine, const float *at) {
    for (auto &h : mine.pending_results)
        if (h.targets[0] == at) return &h;
    return nullptr;
}
void wgmma_fence() { current_requests().is_fenced = true; }
void wgmma(const Wgmma &w, int line) {
    Requests &mine = current_requests();
    const size_t n = size_t(w.n / 2);
    PendingResult *h = pending_result_at(mine, w.results[0]);
    Lane lane{&w, current_rank() / 32, line, {}};
    // Has the thread written to the accumulators since the last wgmma?
    bool changed = !h;
    for (size_t i = 0; i < n; i++) {
        const bool is_pending = h && !h->is_awaited;
        lane.mine[i] = is_pending ? h->values[i] : *w.accumulators[i];
        changed |= h && (is_pending ? !is_placeholder(w.accumulators[i], i)
                                    : memcmp(w.accumulators[i], &h->values[i], 4) != 0);
    }
    if (w.metadata && current_rank() % 4 / 2 == w.selector)
        check_metadata("wgmma.mma_async.sp", *w.metadata, true, true, line);
    if (changed && !mine.is_fenced && detector.on && checks(racecheck)) fail(Code::registers_written, {}, line);
    run_for_warp("wgmma.mma_async", &lane, multiply_rows, line);
    if (!h) mine.pending_results.emplace_back(), h = &mine.pending_results.back();
    h->targets.assign(w.results, w.results + n), h->values.assign(lane.mine, lane.mine + n);
    h->group = uint32_t(mine.products_of_groups.size()), h->line = line, h->is_awaited = false;
    mine.num_products++;
    for (size_t i = 0; i < n; i++) *w.accumulators[i] = placeholder(i);
}
void wgmma_commit() { current_requests().products_of_groups.push_back(current_requests().num_products); }
// The product of a warpgroup is complete when all of its four warps have issued it.
void wgmma_wait(uint32_t groups, int line) {
    Requests &mine = current_requests();
    const uint32_t all = uint32_t(mine.products_of_groups.size()), due = all > groups ? all - groups : 0;
    struct Wait {
        Requests *first;
        uint32_t due, products;
    } wait{&engines_of(*worker).requests[size_t(current_rank() / 128 * 128)], due,
        due ? mine.products_of_groups[due - 1] : 0};
    wait_until(
        [](void *p) {
            const auto &x = *static_cast<Wait *>(p);
            for (int i = 0; i < 128; i += 32)
                if (x.first[i].products_of_groups.size() < x.due || x.first[i].num_products < x.products) return false;
            return true;
        },
        &wait, line, [](void *, Finding &f, const char *name) { f.add({{name, Code::for_wgmma}}); });
    for (auto &h : mine.pending_results) {
        if (h.is_awaited || h.group >= due) continue;
        h.is_awaited = true, mine.is_fenced = false;
        for (size_t i = 0; i < h.targets.size(); i++)
            if (is_placeholder(h.targets[i], i)) *h.targets[i] = h.values[i];
    }
    if (detector.on && due) detector.complete_products(due);
}
}
