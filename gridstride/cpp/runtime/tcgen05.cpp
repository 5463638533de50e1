// tcgen05.mma, tcgen05.cp, tcgen05.shift and tcgen05.commit: the tensor cores of a Blackwell GPU. One thread issues an
// instruction, which is computed immediately; tensor_memory.h defines when it counts as complete.
#include <algorithm>
#include <math.h>
#include <string.h>
#include "clusters.h"
#include "findings.h"
#include "operand.h"
#include "sixteen_bits.h"
#include "tensor_memory.h"

namespace gridstride {

// An element format: a float has a sign bit, exponent bits and mantissa bits; an integer has no exponent bits.
struct Format {
    int bits, exponent_bits, mantissa_bits, bias;
    bool has_infinity, has_nan, is_signed;
};
enum FormatName { f16_format, bf16_format, tf32_format, e4m3_format, e5m2_format, e2m3_format, e3m2_format, e2m1_format,
    u8_format, s8_format, ue4m3_format, ue8m0_format };
static constexpr Format formats[] = {{16, 5, 10, 15, true, true, true}, {16, 8, 7, 127, true, true, true},
    {32, 8, 23, 127, true, true, true}, {8, 4, 3, 7, false, true, true}, {8, 5, 2, 15, true, true, true},
    {6, 2, 3, 1, false, false, true}, {6, 3, 2, 3, false, false, true}, {4, 2, 1, 1, false, false, true},
    {8, 0, 8, 0, false, false, false}, {8, 0, 8, 0, false, false, true}, {8, 4, 3, 7, false, true, false},
    {8, 8, 0, 127, false, true, false}};

static double decode(FormatName name, uint32_t bits) {
    const Format &f = formats[name];
    if (name == u8_format) return double(bits & 0xff);
    if (name == s8_format) return double(int8_t(bits));
    if (name == ue8m0_format) return (bits & 0xff) == 0xff ? double(NAN) : ldexp(1.0, int(bits & 0xff) - 127);
    if (name == tf32_format) bits &= ~0x1fffu;
    const int top = (1 << f.exponent_bits) - 1, exponent = int(bits >> f.mantissa_bits) & top,
              mantissa = int(bits & ((1u << f.mantissa_bits) - 1)), full = (1 << f.mantissa_bits) - 1;
    const bool is_negative = f.is_signed && (bits >> (f.exponent_bits + f.mantissa_bits) & 1);
    double magnitude = ldexp(double(exponent ? mantissa + full + 1 : mantissa),
        std::max(exponent, 1) - f.bias - f.mantissa_bits);
    if (f.has_infinity && exponent == top) magnitude = mantissa ? double(NAN) : double(INFINITY);
    else if (f.has_nan && exponent == top && mantissa == full) magnitude = double(NAN);
    return is_negative ? -magnitude : magnitude;
}
// Decodes formats of at most 8 bits by table lookup, others by decode().
static double decode_fast(FormatName name, uint32_t bits) {
    struct Tables {
        double value[12][256];
        Tables() {
            for (int format = 0; format < 12; format++)
                for (uint32_t i = 0; i < 256; i++)
                    value[format][i] = formats[format].bits > 8 ? 0 : decode(FormatName(format), i);
        }
    };
    static const Tables tables;
    return formats[name].bits > 8 ? decode(name, bits) : tables.value[name][bits & 0xff];
}

// The instruction descriptor

namespace {
struct Mma {
    const TensorMma *call;
    FormatName a, b, scale;
    int m, n, k, dtype;                    // dtype: 0 f16, 1 f32, 2 s32
    bool a_transposed, b_transposed, saturates, is_scaled;
    double a_sign, b_sign;
    int a_scale_byte, b_scale_byte;        // the byte of a word that has the first scale
    int block;                             // elements along k per scale
    bool is_packed;                        // whether two 4-bit elements are stored per byte
    int stored_k, selector;                // of A: the stored elements along k; the column with the sparse indices
    int rows_per_block() const { return m / call->cta_group; }
    bool has_half_lanes() const { return m == 64 && !call->is_weight_stationary; }
    bool has_column_parts() const { return !has_half_lanes() && rows_per_block() < 128; }
};
}
[[noreturn]] static void report_invalid_bits(const char *part, long long value, const char *allowed, int line) {
    fail(Code::instruction_descriptor, {{"part", part}, {"value", value}, {"allowed", allowed}}, line);
}
static void require_bits(bool holds, const char *part, long long value, const char *allowed, int line) {
    if (!holds) report_invalid_bits(part, value, allowed, line);
}
static FormatName element_format(TensorKind kind, uint32_t value, const char *part, int line) {
    static constexpr FormatName f8f6f4_formats[] = {e4m3_format, e5m2_format, e4m3_format, e2m3_format, e3m2_format,
        e2m1_format};
    switch (kind) {
        case TensorKind::f16:
            require_bits(value < 2, part, value, "0 (f16), 1 (bf16)", line);
            return value ? bf16_format : f16_format;
        case TensorKind::tf32: require_bits(value == 2, part, value, "2 (tf32)", line); return tf32_format;
        case TensorKind::i8:
            require_bits(value < 2, part, value, "0 (u8), 1 (s8)", line);
            return value ? s8_format : u8_format;
        case TensorKind::f8f6f4:
        case TensorKind::mxf8f6f4:
            require_bits(
                value < 6 && value != 2, part, value, "0 (e4m3), 1 (e5m2), 3 (e2m3), 4 (e3m2), 5 (e2m1)", line);
            return f8f6f4_formats[value];
        default: require_bits(value == 1, part, value, "1 (e2m1)", line); return e2m1_format;
    }
}
static Mma decode_mma(const TensorMma &call, int line) {
    const uint32_t d = call.descriptor;
    const auto bits = [d](int first, int count) { return int(d >> first & ((1u << count) - 1)); };
    const TensorKind kind = call.kind;
    const bool scaled = kind >= TensorKind::mxf8f6f4, is_fp4 = kind >= TensorKind::mxf4;
    Mma p = {};
    p.call = &call, p.is_scaled = scaled, p.is_packed = is_fp4;
    require_bits(bits(2, 1) == call.is_sparse, "2 (sparsity)", bits(2, 1), call.is_sparse ? "1" : "0", line);
    const bool has_selector = call.is_sparse && kind == TensorKind::f16;
    p.selector = bits(0, 2);
    require_bits(p.selector <= has_selector, "0-1 (sparsity selector)", p.selector, has_selector ? "0, 1" : "0", line);
    p.dtype = scaled ? 1 : bits(4, 2);
    if (!scaled) {
        const bool fits = kind == TensorKind::f16 ? p.dtype < 2 : p.dtype == (kind == TensorKind::i8 ? 2 : 1);
        require_bits(fits, "4-5 (type of D)", p.dtype,
            kind == TensorKind::f16 ? "0 (f16), 1 (f32)" : kind == TensorKind::i8 ? "2 (s32)" : "1 (f32)", line);
        require_bits(kind == TensorKind::i8 || !bits(3, 1), "3 (saturate)", 1, "0", line);
        require_bits(!bits(23, 1), "23", 1, "0", line), require_bits(!bits(29, 1), "29", 1, "0", line);
        if (call.is_weight_stationary && bits(30, 2)) not_emulated("tcgen05.mma.ws with a maximum shift");
        require_bits(!bits(30, 2), "30-31 (maximum shift)", bits(30, 2), "0", line);
    }
    require_bits(!bits(6, 1), "6", 1, "0", line);
    p.saturates = !scaled && bits(3, 1);
    p.a = element_format(kind, uint32_t(bits(7, 3)), "7-9 (type of A)", line);
    p.b = element_format(kind, uint32_t(bits(10, is_fp4 ? 2 : 3)), "10-12 (type of B)", line);
    if (p.dtype == 0) {
        require_bits(p.a == f16_format, "7-9 (type of A)", bits(7, 3), "0 (f16), because D is f16", line);
        require_bits(p.b == f16_format, "10-12 (type of B)", bits(10, 3), "0 (f16), because D is f16", line);
    }
    if (kind == TensorKind::i8) require_bits(!bits(13, 2), "13-14 (negate)", bits(13, 2), "0", line);
    p.a_sign = bits(13, 1) ? -1 : 1, p.b_sign = bits(14, 1) ? -1 : 1;
    p.a_transposed = bits(15, 1), p.b_transposed = bits(16, 1);
    if (p.a_transposed)
        require_bits(formats[p.a].bits >= 8, "15 (transpose A)", 1, "0, because elements of A have fewer than 8 bits",
            line);
    if (p.b_transposed)
        require_bits(formats[p.b].bits >= 8, "16 (transpose B)", 1, "0, because elements of B have fewer than 8 bits",
            line);
    p.n = bits(17, 6) * 8, p.m = bits(24, 5) * 16;
    const bool pair = call.cta_group == 2, stationary = call.is_weight_stationary;
    if (stationary) require_bits(p.m == 32 || p.m == 64 || p.m == 128, "24-28 (M)", p.m, "32, 64, 128", line);
    else if (pair)
        require_bits(p.m == 256 || (p.m == 128 && !is_fp4), "24-28 (M)", p.m, is_fp4 ? "256" : "128, 256", line);
    else require_bits(p.m == 128 || (p.m == 64 && !scaled), "24-28 (M)", p.m, scaled ? "128" : "64, 128", line);
    const int step = pair ? 16 : 8;
    if (stationary)
        require_bits(p.n == 64 || p.n == 128 || p.n == 256, "17-22 (N)", p.n, "64, 128, 256", line);
    else if (kind == TensorKind::i8 && !pair)
        require_bits(p.n == 8 || p.n == 24 || (p.n >= 16 && p.n <= 256 && p.n % 16 == 0), "17-22 (N)", p.n,
            "8, 16, 24, 32, 48, ..., 256", line);
    else if (kind == TensorKind::i8)
        require_bits(p.n >= 32 && p.n <= 256 && p.n % 32 == 0, "17-22 (N)", p.n, "32, 64, ..., 256", line);
    else require_bits(p.n >= step && p.n <= 256 && p.n % step == 0, "17-22 (N)", p.n,
            pair ? "16, 32, ..., 256" : "8, 16, ..., 256", line);
    p.stored_k = kind == TensorKind::f16 ? 16 : kind == TensorKind::tf32 ? 8 : is_fp4 ? 64 : 32;
    p.k = call.is_sparse ? 2 * p.stored_k : p.stored_k;
    if (call.is_sparse && (kind == TensorKind::tf32 || p.m / call.cta_group != 128))
        not_emulated("tcgen05.mma.sp of kind::tf32, or with fewer than 128 rows per block");
    if (!scaled) return p;
    p.b_scale_byte = bits(4, 2), p.a_scale_byte = bits(29, 2);
    const bool is_ue8m0 = bits(23, 1);
    if (kind != TensorKind::mxf4nvf4 || call.block == 32)
        require_bits(is_ue8m0, "23 (type of scales)", 0, "1 (ue8m0)", line);
    p.scale = is_ue8m0 ? ue8m0_format : ue4m3_format, p.block = call.block;
    if (is_fp4) require_bits(!bits(31, 1), "31 (K)", 1, "0 (K = 64)", line);
    const char *const first_bytes = p.k / p.block == 4 ? "0" : "0, 2";
    const int scales = p.k / p.block;
    require_bits(p.a_scale_byte % scales == 0, "29-30 (first scale of A)", p.a_scale_byte, first_bytes, line);
    require_bits(p.b_scale_byte % scales == 0, "4-5 (first scale of B)", p.b_scale_byte, first_bytes, line);
    return p;
}

// Operands

static Operand operand_of(uint64_t descriptor, int bytes, bool transposed, const char *name, int line) {
    const auto require = [&](bool holds, const char *part, long long value, const char *allowed) {
        if (!holds)
            fail(Code::matrix_descriptor, {{"operand", name}, {"part", part}, {"value", value}, {"allowed", allowed}},
                line);
    };
    const uint32_t swizzle = uint32_t(descriptor >> 61), version = uint32_t(descriptor >> 46 & 7);
    require(version == 1, "46-48 (version)", version, "1");
    require(swizzle <= 2 || swizzle == 4 || swizzle == 6, "61-63 (swizzle)", swizzle,
        "0 (none), 1 (128 bytes, 32-byte atoms), 2 (128 bytes), 4 (64 bytes), 6 (32 bytes)");
    require(!(descriptor >> 52 & 1), "52 (leading dimension mode)", 1, "0");
    require(!(descriptor >> 53 & 0xff), "53-60", (long long)(descriptor >> 53 & 0xff), "0");
    const int swizzle_bytes = swizzle == 0 ? 0 : swizzle <= 2 ? 128 : swizzle == 4 ? 64 : 32;
    Operand operand(descriptor, bytes, transposed);
    operand.swizzle = swizzle_bytes, operand.has_32_byte_atoms = swizzle == 1;
    if (swizzle == 1) require(transposed && bytes == 4, "61-63 (swizzle)", 1,
        "0, 2, 4, 6: 1 requires a transposed tf32 operand");
    return operand;
}
static const char *pointer_at(const Worker &block, uint32_t address, const char *name, int line) {
    const uint32_t offset = address - shared_window;
    if (offset >= shared_cap)
        fail(Code::matrix_descriptor, {{"operand", name}, {"part", "0-13 (address)"}, {"value", address},
            {"allowed", "shared memory"}}, line);
    return block.shared + offset;
}
static uint32_t load_bits(const char *p, int bits) {
    uint32_t word = 0;
    memcpy(&word, p, size_t(bits + 7) / 8);
    return word;
}
// Returns the bits of element `i` of an operand whose elements have fewer than 8 bits and begin at `p`.
static uint32_t narrow_bits(const char *p, int i, int bits) {
    uint32_t word = 0;
    memcpy(&word, p + i * bits / 8, size_t(i * bits % 8 + bits > 8 ? 2 : 1));
    return word >> i * bits % 8 & ((1u << bits) - 1);
}
// Checks and records the reads of an operand's rows.
static void record_operand(Worker &block, const Operand &o, int rows, int row_elements, const char *name, int line) {
    if (!detector.is_enabled) return;
    TensorPipe &pipe = current_pipe();
    const OperandRead read = {&pipe, pipe.commits(), detector.now, async_proxy_location(line)};
    const int step = 16 / o.size;
    Access checked = {0, not_completed, 0};
    if (&block != worker) block.detector_state->last_cluster_access = {detector.self, detector.now, read.location};
    for (int row = 0; row < rows; row += o.transposed ? step : 1)
        for (int i = 0; i < row_elements; i += o.transposed ? 1 : step)
            detector.read_by_tensor_cores(
                block, reinterpret_cast<uintptr_t>(pointer_at(block, o.address(row, i), name, line)), read, checked);
}
static double element_at(const Worker &block, const Operand &o, FormatName format, bool is_packed, int row, int i,
    const char *name, int line) {
    const int bits = formats[format].bits;
    if (bits >= 8) return decode_fast(format, load_bits(pointer_at(block, o.address(row, i), name, line), bits));
    // Unpacked elements are stored in groups of 16, in the first bytes of 16; packed elements two per byte.
    const int in_row = is_packed ? i / 2 : i, unit = in_row / 16 * 16;
    const char *const p = pointer_at(block, o.address(row, unit), name, line);
    return decode_fast(format, narrow_bits(p, is_packed ? i % 32 : i % 16, bits));
}

// The decoded operands of one MMA: `a` has the rows of one block, `b` all columns, transposed. The scales of B are
// replicated: each group of 32 lanes has a copy.
struct OperandValues {
    double a[128][64], b[64][256], b_scales[4][4][256];
};
static OperandValues &operand_values() {
    static thread_local std::unique_ptr<OperandValues> values(new OperandValues());
    return *values;
}

// Returns the lane and the column of element (row, column) of one block's part of D, relative to its address.
static void position_in_d(const Mma &p, int row, int column, uint32_t &lane, uint32_t &d_column) {
    // with 64 or 32 rows, the columns are split into 2 or 4 parts
    const int parts = 128 / p.rows_per_block();
    if (p.has_column_parts()) {
        const int width = p.n / parts;
        lane = uint32_t(row + column / width * (128 / parts)), d_column = uint32_t(column % width);
    } else if (p.m == 64) lane = uint32_t(row / 16 * 32 + row % 16), d_column = uint32_t(column);
    else lane = uint32_t(row), d_column = uint32_t(column);
}
static uint32_t lanes_of_d(const Mma &p, uint32_t base_lane) {
    return p.has_half_lanes() ? 0x55u << base_lane / lanes_of_cell : 0xffu;
}
static uint32_t columns_of_d(const Mma &p) {
    return uint32_t(p.has_column_parts() ? p.n * p.rows_per_block() / 128 : p.n);
}
static double load_d(const Mma &p, uint32_t word) {
    float value;
    memcpy(&value, &word, 4);
    return p.dtype == 0 ? decode(f16_format, word & 0xffff) : p.dtype == 2 ? double(int32_t(word)) : double(value);
}
static uint32_t store_d(const Mma &p, double accumulator) {
    if (p.dtype == 0) return narrow<10>(round_to_odd(accumulator));
    if (p.dtype == 2) {
        if (p.saturates) accumulator = std::clamp(accumulator, -2147483648.0, 2147483647.0);
        return uint32_t(int64_t(accumulator));
    }
    const float value = float(accumulator);
    uint32_t word;
    memcpy(&word, &value, 4);
    return word;
}
// Returns the scale of row or column `index` for element `i` along k, from the copy in lanes 32 * quarter and up.
static double scale_at(Worker &block, const Mma &p, uint32_t address, int index, int i, int first_byte, int quarter,
    int line) {
    const uint32_t lane = uint32_t(quarter * 32 + index % 32), column = (address & 0xffff) + uint32_t(index / 32);
    if (detector.is_enabled && i == 0) check_tensor_written(block, lane, column, line, true);
    const uint32_t word = tensor_memory_of(block).words[column][lane];
    return decode_fast(p.scale, word >> (first_byte + i / p.block) * 8 & 0xff);
}
// Returns the number of columns that the indices of a sparse A occupy. With kind::f16, one word has the indices of two
// rows.
static uint32_t metadata_columns(const Mma &p) { return p.call->kind == TensorKind::f16 ? 1 : 2; }
static uint32_t first_metadata_column(const Mma &p) { return (p.call->metadata & 0xffff) + uint32_t(p.selector); }
// Returns the indices of the two stored elements of the four in group `group` of a row.
static uint32_t metadata_of(Worker &block, const Mma &p, int row, int group, int line) {
    const bool is_f16 = p.call->kind == TensorKind::f16;
    const int lane = is_f16 ? row / 16 * 16 + group / 4 * 8 + row % 8 : row,
              bit = is_f16 ? row / 8 % 2 * 16 + group % 4 * 4 : group % 8 * 4;
    const uint32_t column = first_metadata_column(p) + uint32_t(is_f16 ? 0 : group / 8);
    if (detector.is_enabled && group % 4 == 0) check_tensor_written(block, uint32_t(lane), column, line, true);
    const uint32_t word = tensor_memory_of(block).words[column][lane], indices = word >> bit & 15,
                   first = indices & 3, second = indices >> 2;
    if (detector.is_enabled && checks(memcheck) && first >= second && indices != 6) // the specification allows 0b0110
        fail(Code::metadata,
            {{"operation", "tcgen05.mma.sp"}, {"lane", lane}, {"word", word}, {"group", bit / 4}, {"first", first},
                {"second", second}, {"row", row}, {"column", group * 4}, {"last", group * 4 + 3}},
            line);
    return indices;
}
// Moves the stored elements of A (two of every four) to their columns; the other elements become 0.
static void expand_a(Worker &block, const Mma &p, int rows, int line) {
    for (int row = 0; row < rows; row++) {
        double stored[64], *const values = operand_values().a[row];
        std::copy_n(values, p.stored_k, stored);
        std::fill_n(values, p.k, 0.0);
        for (int group = 0; group < p.k / 4; group++) {
            const uint32_t indices = metadata_of(block, p, row, group, line);
            values[group * 4 + int(indices & 3)] += stored[group * 2];
            values[group * 4 + int(indices >> 2)] += stored[group * 2 + 1];
        }
    }
}
static void load_a(Worker &block, const Mma &p, int rows, int line) {
    const TensorMma &call = *p.call;
    auto &a_values = operand_values().a;
    if (call.a_in_tensor_memory) {
        const int per_word = 32 / std::max(formats[p.a].bits, 8);
        const uint32_t column = call.a_address & 0xffff;
        for (int row = 0; row < rows; row++)
            for (int i = 0; i < p.stored_k; i++) {
                const uint32_t at = column + uint32_t(i / per_word);
                if (detector.is_enabled && i % per_word == 0)
                    check_tensor_written(block, uint32_t(row), at, line, true);
                const uint32_t word = tensor_memory_of(block).words[at][row];
                a_values[row][i] = p.a_sign * decode_fast(p.a, word >> i % per_word * (32 / per_word));
            }
    } else {
        const int bytes = std::max(formats[p.a].bits / 8, 1);
        const Operand a = operand_of(call.a, bytes, p.a_transposed, "A", line);
        record_operand(block, a, rows, p.is_packed ? p.k / 2 : p.stored_k, "A", line);
        for (int row = 0; row < rows; row++)
            for (int i = 0; i < p.stored_k; i++)
                a_values[row][i] = p.a_sign * element_at(block, a, p.a, p.is_packed, row, i, "A", line);
    }
    if (call.is_sparse) expand_a(block, p, rows, line);
    for (int row = 0; row < rows && p.is_scaled; row++)
        for (int i = 0; i < p.k; i++)
            a_values[row][i] *= scale_at(block, p, call.a_scales, row, i, p.a_scale_byte, row / 32, line);
}
static void load_b(Worker &block, const Mma &p, int first, int columns, int line) {
    const int bytes = std::max(formats[p.b].bits / 8, 1);
    const Operand b = operand_of(p.call->b, bytes, p.b_transposed, "B", line);
    record_operand(block, b, columns, p.is_packed ? p.k / 2 : p.k, "B", line);
    for (int column = 0; column < columns; column++)
        for (int i = 0; i < p.k; i++)
            operand_values().b[i][first + column] =
                p.b_sign * element_at(block, b, p.b, p.is_packed, column, i, "B", line);
}
// Multiplies the rows of one block.
static void multiply_block(Worker &block, const Mma &p, int rows, int line) {
    const TensorMma &call = *p.call;
    TensorMemory &tensor = tensor_memory_of(block);
    const uint32_t base_lane = call.d >> 16, base_column = call.d & 0xffff;
    const int mask_first = &block == worker || call.cta_group == 1 ? 0 : 4;
    const uint32_t *const masks = call.masks ? call.masks + (call.cta_group == 2 ? mask_first : 0) : nullptr;
    OperandValues &values = operand_values();
    // Rows use the copy of the scales of B in their own 32 lanes.
    for (int quarter = 0; p.is_scaled && quarter < 4; quarter++)
        for (int column = 0; column < p.n; column++)
            for (int i = 0; i < p.k; i += p.block)
                values.b_scales[quarter][i / p.block][column] =
                    scale_at(block, p, call.b_scales, column, i, p.b_scale_byte, quarter, line);
    for (int row = 0; row < rows; row++) {
        double accumulators[256];
        uint32_t lane, column;
        for (int c = 0; c < p.n; c++) {
            position_in_d(p, row, c, lane, column);
            accumulators[c] = 0;
            if (!call.accumulates) continue;
            if (detector.is_enabled) check_tensor_written(block, base_lane + lane, base_column + column, line, true);
            accumulators[c] = ldexp(load_d(p, tensor.words[base_column + column][base_lane + lane]), -call.d_scale);
        }
        for (int i = 0; i < p.k; i++) {
            const double a = values.a[row][i], *const b = values.b[i];
            if (!p.is_scaled)
                for (int c = 0; c < p.n; c++) accumulators[c] += a * b[c];
            else
                for (int c = 0; c < p.n; c++) accumulators[c] += a * b[c] * values.b_scales[row / 32][i / p.block][c];
        }
        for (int c = 0; c < p.n; c++) {
            position_in_d(p, row, c, lane, column);
            lane += base_lane, column += base_column;
            if (masks && masks[lane / 32] >> lane % 32 & 1) continue;
            tensor.words[column][lane] = store_d(p, accumulators[c]);
            tensor.written[column][lane / 64] |= uint64_t(1) << lane % 64;
        }
    }
}
// Checks and records the accesses of an MMA to the tensor memory of one block.
static void check_tensor_use(Worker &block, const Mma &p, int rows, int line) {
    const TensorMma &call = *p.call;
    const uint32_t lane = call.d >> 16, column = call.d & 0xffff, columns = columns_of_d(p);
    const bool half = p.has_half_lanes();
    if (half ? lane % 32 && lane != 16 : lane)
        fail(Code::tensor_outside, {{"operation", "tcgen05.mma"}, {"lane", lane + 127}, {"column", column}}, line);
    check_tensor_range(block, lane, half ? 112 : 128, column, columns, "tcgen05.mma", line);
    const int a_bytes = std::max(formats[p.a].bits, 8) / 8;
    const uint32_t a_columns = uint32_t(p.stored_k * a_bytes / 4 / (p.is_packed ? 2 : 1)),
                   sfa_columns = uint32_t((rows + 31) / 32), sfb_columns = uint32_t((p.n + 31) / 32);
    if (call.a_in_tensor_memory)
        check_tensor_range(block, call.a_address >> 16, 128, call.a_address & 0xffff, a_columns, "tcgen05.mma", line);
    if (call.is_sparse)
        check_tensor_range(block, 0, 128, first_metadata_column(p), metadata_columns(p), "tcgen05.mma", line);
    if (p.is_scaled) {
        check_tensor_range(block, 0, 128, call.a_scales & 0xffff, sfa_columns, "tcgen05.mma", line);
        check_tensor_range(block, 0, 128, call.b_scales & 0xffff, sfb_columns, "tcgen05.mma", line);
    }
    if (!detector.is_enabled) return;
    TensorMemory &tensor = tensor_memory_of(block);
    const uint32_t shape = uint32_t(call.is_weight_stationary) << 30 | uint32_t(call.is_sparse) << 29 |
                           uint32_t(p.m) << 16 | uint32_t(p.n) << 4 | uint32_t(call.kind);
    const size_t index = add_tensor_access(tensor, TensorAccess::mma, call.cta_group, shape, line);
    const TensorAccess access = tensor.accesses[index];
    TensorAccess as_operand = access;      // shape 0, because operand reads are not pipelined after an earlier product
    as_operand.shape = 0;
    const auto record_use = [&](const TensorRange &range) {
        check_tensor_order(block, range.writes ? access : as_operand, range);
        record_tensor_access(tensor, index, range);
    };
    if (call.a_in_tensor_memory) record_use({call.a_address & 0xffff, a_columns, 0xff, true, false});
    if (call.is_sparse) record_use({first_metadata_column(p), metadata_columns(p), 0xff, true, false});
    if (p.is_scaled) {
        record_use({call.a_scales & 0xffff, sfa_columns, 0xff, true, false});
        record_use({call.b_scales & 0xffff, sfb_columns, 0xff, true, false});
    }
    record_use({column, columns, lanes_of_d(p, lane), call.accumulates, true});
}
void tmem_multiply(const TensorMma &call, int line) {
    set_tensor_group(*worker, call.cta_group, "tcgen05.mma", line);
    const Mma p = decode_mma(call, line);
    if (call.a_in_tensor_memory && p.rows_per_block() < 128)
        not_emulated("tcgen05.mma with A in tensor memory and fewer than 128 rows per block");
    if (call.a_in_tensor_memory) require_bits(!p.a_transposed, "15 (transpose A)", 1,
        "0, because A is in tensor memory",
        line);
    const int rows = p.rows_per_block();
    Worker *blocks[2] = {worker, worker};
    if (call.cta_group == 2) {
        blocks[1] = &pair_of(*worker, "tcgen05.mma", line);
        if (cluster_rank() % 2) std::swap(blocks[0], blocks[1]);
    }
    const int columns = p.n / call.cta_group;
    for (int i = 0; i < call.cta_group; i++) {
        check_tensor_use(*blocks[i], p, rows, line);
        load_b(*blocks[i], p, i * columns, columns, line);
    }
    for (int i = 0; i < call.cta_group; i++) {
        load_a(*blocks[i], p, rows, line);
        multiply_block(*blocks[i], p, rows, line);
    }
}

// tcgen05.cp: copies rows of shared memory, of 16 or 32 bytes each, to lanes of tensor memory.
void tmem_copy(int cta_group, TensorCopyShape shape, uint32_t address, uint64_t descriptor, int line) {
    set_tensor_group(*worker, cta_group, "tcgen05.cp", line);
    struct Layout {
        int rows, columns;
        uint32_t lanes[4];                 // the first lanes of the copies of the rows
        int copies, rows_per_copy;
    };
    static constexpr Layout layouts[] = {{128, 8, {0}, 1, 128}, {4, 8, {0}, 1, 4}, {128, 4, {0}, 1, 128},
        {64, 4, {0, 64}, 2, 64}, {64, 4, {0, 32}, 2, 32}, {32, 4, {0, 32, 64, 96}, 4, 32}};
    const Layout &l = layouts[int(shape)];
    Worker *blocks[2] = {worker, worker};
    if (cta_group == 2) blocks[1] = &pair_of(*worker, "tcgen05.cp", line);
    const Operand source = operand_of(descriptor, 1, false, "tcgen05.cp", line);
    const uint32_t base_column = address & 0xffff;
    for (int b = 0; b < cta_group; b++) {
        Worker &block = *blocks[b];
        check_tensor_range(block, 0, 128, base_column, uint32_t(l.columns), "tcgen05.cp", line);
        record_operand(block, source, l.rows, l.columns * 4, "tcgen05.cp", line);
        TensorMemory &tensor = tensor_memory_of(block);
        const auto copy_row = [&](int row, uint32_t lane) {
            for (int column = 0; column < l.columns; column++) {
                const char *const p = pointer_at(block, source.address(row, column * 4), "tcgen05.cp", line);
                memcpy(&tensor.words[base_column + uint32_t(column)][lane], p, 4);
                tensor.written[base_column + uint32_t(column)][lane / 64] |= uint64_t(1) << lane % 64;
            }
        };
        if (detector.is_enabled) {
            const size_t index = add_tensor_access(tensor, TensorAccess::copy, cta_group, 0, line);
            const TensorRange range = {base_column, uint32_t(l.columns), shape == TensorCopyShape::c4x256b ? 0x55u
                : 0xffu, false, true};
            check_tensor_order(block, TensorAccess(tensor.accesses[index]), range);
            record_tensor_access(tensor, index, range);
        }
        for (int row = 0; row < l.rows; row++)
            switch (shape) {
                case TensorCopyShape::c4x256b: copy_row(row, uint32_t(row) * 32); break;
                case TensorCopyShape::c64x128b_02_13: // rows 0 to 31 to lanes 0 and 64, others to lanes 32 and 96
                    copy_row(row, uint32_t(row)), copy_row(row, uint32_t(row) + 64);
                    break;
                case TensorCopyShape::c64x128b_01_23: // rows 0 to 31 to lanes 0 and 32, others to lanes 64 and 96
                    copy_row(row, uint32_t(row / 32 * 64 + row % 32));
                    copy_row(row, uint32_t(row / 32 * 64 + 32 + row % 32));
                    break;
                default:
                    for (int copy = 0; copy < l.copies; copy++) copy_row(row, l.lanes[copy] + uint32_t(row));
            }
    }
}
// tcgen05.shift: in each group of 32 lanes, moves 8 columns of lanes 1 to 31 to the next lower lane.
void tmem_shift(int cta_group, uint32_t address, int line) {
    set_tensor_group(*worker, cta_group, "tcgen05.shift", line);
    Worker *blocks[2] = {worker, worker};
    if (cta_group == 2) blocks[1] = &pair_of(*worker, "tcgen05.shift", line);
    const uint32_t lane = address >> 16, column = address & 0xffff;
    for (int b = 0; b < cta_group; b++) {
        Worker &block = *blocks[b];
        if (lane % 32)
            fail(Code::tensor_outside, {{"operation", "tcgen05.shift"}, {"lane", lane}, {"column", column}}, line);
        check_tensor_range(block, lane, 32, column, 8, "tcgen05.shift", line);
        TensorMemory &tensor = tensor_memory_of(block);
        if (detector.is_enabled) {
            const size_t index = add_tensor_access(tensor, TensorAccess::shift, cta_group, 0, line);
            const TensorRange range = {column, 8, 3u << lane / lanes_of_cell, true, true};
            check_tensor_order(block, TensorAccess(tensor.accesses[index]), range);
            record_tensor_access(tensor, index, range);
        }
        for (uint32_t c = column; c < column + 8; c++)
            memmove(&tensor.words[c][lane], &tensor.words[c][lane + 1], 31 * 4);
    }
}

// tcgen05.commit: arrives at the mbarrier when all earlier instructions of the thread have completed. `blocks`: a mask
// of blocks of the cluster, each with an mbarrier at the same offset; 0: only the mbarrier at the address
void tmem_commit(int cta_group, uint32_t address, uint32_t blocks, int line) {
    set_tensor_group(*worker, cta_group, "tcgen05.commit", line);
    TensorPipe &pipe = current_pipe();
    const Commit commit = {&pipe, pipe.commits()};
    pipe.lines.push_back(0);
    const auto arrive = [&](uint32_t at) {
        Barrier &b = barrier_at(at, "tcgen05.commit", line);
        if (detector.is_enabled && checks(fencecheck) && !b.is_fenced) fail(Code::barrier_not_visible, {}, line);
        b.commits.push_back(commit);
        mbarrier_arrive(at, 1, line);
    };
    if (!blocks) return arrive(address);
    for (uint32_t rank = 0; rank < 16; rank++) {
        if (!(blocks >> rank & 1)) continue;
        if (rank >= cluster_blocks()) fail(Code::copy_to_no_block, {}, line);
        arrive(map_shared(address, rank, line));
    }
}
}
