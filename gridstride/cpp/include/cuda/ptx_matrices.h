// Inline PTX on matrices: ldmatrix, stmatrix and movmatrix, and tensor-core MMA (mma.sync, mma.sp).
#pragma once
#include "ptx.h"

namespace gridstride {
namespace ptx {

// ldmatrix and stmatrix: lane i holds elements 2*(i%4) and 2*(i%4)+1 of row i/4 of each 8 x 8 matrix; if transposed, of
// column i/4. A row has 16 bytes, and lanes 8*n to 8*n+7 pass the addresses of the rows of matrix n.

template <int n> struct Rows { char *row; uint32_t fragment[n]; };

template <int n, bool transposed, bool stores> GRIDSTRIDE_NO_TSAN void exchange_rows(void *const *lanes) {
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < n; i++)
            for (int e = 0; e < 2; e++) {
                auto &registers = *static_cast<Rows<n> *>(lanes[lane]);
                const int row = transposed ? lane % 4 * 2 + e : lane / 4,
                          column = transposed ? lane / 4 : lane % 4 * 2 + e;
                char *in_memory = static_cast<Rows<n> *>(lanes[8 * i + row])->row + 2 * column,
                     *in_register = reinterpret_cast<char *>(&registers.fragment[i]) + 2 * e;
                stores ? __builtin_memcpy(in_memory, in_register, 2) : __builtin_memcpy(in_register, in_memory, 2);
            }
}
template <int n, bool transposed, bool stores>
GRIDSTRIDE_NO_TSAN void exchange_matrices(const char *instruction, Rows<n> &registers, uint32_t address, int line) {
    if (lane() < 8 * n) {
        registers.row = shared_pointer(address, 16, instruction, line);
        report_access(registers.row, 16, stores, line);
    }
    run_for_warp(instruction, &registers, exchange_rows<n, transposed, stores>, line);
}
template <int n, bool transposed, class A, class... D> GRIDSTRIDE_NO_TSAN void ldmatrix(int line, A address, D &...d) {
    static_assert(sizeof...(D) == n, "ldmatrix.x1, .x2 and .x4 have 1, 2 and 4 destinations");
    Rows<n> registers;
    exchange_matrices<n, transposed, false>("ldmatrix", registers, window_address(address), line);
    const uint32_t *fragment = registers.fragment;
    (set_register(d, *fragment++), ...);
}
template <int n, bool transposed, class A, class... S> GRIDSTRIDE_NO_TSAN void stmatrix(int line, A address, S... s) {
    static_assert(sizeof...(S) == n, "stmatrix.x1, .x2 and .x4 have 1, 2 and 4 sources");
    Rows<n> registers = {nullptr, {register_bits(s)...}};
    exchange_matrices<n, transposed, true>("stmatrix", registers, window_address(address), line);
}

// movmatrix: lane i holds two elements of row i/4 of an 8 x 8 matrix, and receives those of the transposed matrix.
struct TransposedPair { uint32_t source, result; };
GRIDSTRIDE_NO_TSAN inline void transpose_in_warp(void *const *lanes) {
    for (int lane = 0; lane < 32; lane++)
        for (int e = 0; e < 2; e++) {
            const int row = lane % 4 * 2 + e, column = lane / 4;
            const auto &holder = *static_cast<TransposedPair *>(lanes[4 * row + column / 2]);
            auto &registers = *static_cast<TransposedPair *>(lanes[lane]);
            __builtin_memcpy(reinterpret_cast<char *>(&registers.result) + 2 * e,
                reinterpret_cast<const char *>(&holder.source) + 2 * (column % 2), 2);
        }
}
template <class D, class S> GRIDSTRIDE_NO_TSAN void movmatrix(int line, D &d, S source) {
    TransposedPair registers = {register_bits(source), 0};
    run_for_warp("movmatrix", &registers, transpose_in_warp, line);
    set_register(d, registers.result);
}

// MMA: the products and their sum are computed in double and rounded once. A GPU accumulates in a different order, and
// truncates terms that are much smaller than the largest term; both results are accurate to a few ulp of the largest
// term.

struct f32 {
    static constexpr int per_word = 1;
    static float value(uint32_t w, int) { return bit_cast<float>(w); }
    static uint32_t bits(double x) { return bit_cast<uint32_t>(float(x)); }
};
struct s32 {
    static constexpr int per_word = 1;
    static double value(uint32_t w, int) { return int32_t(w); }
    static uint32_t bits(double x) { return uint32_t(int64_t(x)); }
};
struct s8 {
    static constexpr int per_word = 4;
    static float value(uint32_t w, int e) { return int8_t(w >> 8 * e); }
};
struct u8 {
    static constexpr int per_word = 4;
    static float value(uint32_t w, int e) { return uint8_t(w >> 8 * e); }
};
struct tf32 {
    static constexpr int per_word = 1;
    static float value(uint32_t w, int) { return bit_cast<float>(w & ~0x1fffu); }
};
struct f16 {
    static constexpr int per_word = 2;
    static float value(uint32_t w, int e) { return widen<10>((unsigned short)(w >> 16 * e)); }
};
struct bf16 {
    static constexpr int per_word = 2;
    static float value(uint32_t w, int e) { return bit_cast<float>(w >> 16 * e << 16); }
};

// The registers of one lane, with g = lane/4 and t = lane%4. A word of `a` has elements of row g or g+8, a word of `b`
// of column g; t determines their indices along k. Words of the result have row g or g+8, columns 2*t and 2*t+1.
template <int k, class T, class Accumulator> struct Mma {
    static constexpr int step = 4 * T::per_word, a_words = k / step * 2, b_words = k / step,
                         c_words = 4 / Accumulator::per_word;
    uint32_t a[a_words], b[b_words], c[c_words];

    static GRIDSTRIDE_NO_TSAN void multiply_all(void *const *lanes) {
        float a[16][k], b[k][8];
        double c[16][8];
        for (int lane = 0; lane < 32; lane++) {
            const auto &registers = *static_cast<const Mma *>(lanes[lane]);
            const int g = lane / 4, t = lane % 4;
            for (int e = 0; e < T::per_word; e++) {
                for (int i = 0; i < a_words; i++)
                    a[g + i % 2 * 8][i / 2 * step + t * T::per_word + e] = T::value(registers.a[i], e);
                for (int i = 0; i < b_words; i++) b[i * step + t * T::per_word + e][g] = T::value(registers.b[i], e);
            }
            for (int i = 0; i < 4; i++)
                c[g + i / 2 * 8][2 * t + i % 2] =
                    Accumulator::value(registers.c[i / Accumulator::per_word], i % Accumulator::per_word);
        }
        multiply_matrices(&a[0][0], &b[0][0], &c[0][0], 16, 8, k);
        for (int lane = 0; lane < 32; lane++) {
            auto &registers = *static_cast<Mma *>(lanes[lane]);
            const double *rows[2] = {&c[lane / 4][lane % 4 * 2], &c[lane / 4 + 8][lane % 4 * 2]};
            for (int i = 0; i < c_words; i++)
                if constexpr (Accumulator::per_word == 1) registers.c[i] = Accumulator::bits(rows[i / 2][i % 2]);
                else
                    registers.c[i] =
                        uint32_t(narrow<10>(round_to_odd(rows[i][1]))) << 16 | narrow<10>(round_to_odd(rows[i][0]));
        }
    }
};
template <int k, class T, class Accumulator, class... R>
GRIDSTRIDE_NO_TSAN void run_mma(int line, uint32_t *accumulators, R... r) {
    using M = Mma<k, T, Accumulator>;
    M registers;
    const uint32_t words[] = {register_bits(r)...};
    __builtin_memcpy(&registers, words, sizeof registers);
    run_for_warp("mma.sync", &registers, M::multiply_all, line);
    __builtin_memcpy(accumulators, registers.c, sizeof registers.c);
}
template <int k, class T, class Accumulator, class D, class... R>
GRIDSTRIDE_NO_TSAN void mma(int line, D &d0, D &d1, D &d2, D &d3, R... r) {
    static_assert(sizeof...(R) * 4 == sizeof(Mma<k, T, Accumulator>) && Accumulator::per_word == 1,
        "mma.sync: wrong number of registers for this shape");
    uint32_t accumulators[4];
    run_mma<k, T, Accumulator>(line, accumulators, r...);
    set_register(d0, accumulators[0]), set_register(d1, accumulators[1]);
    set_register(d2, accumulators[2]), set_register(d3, accumulators[3]);
}

// mma with a 2:4 sparse `a`, which stores k/2 elements per row: two of every four, whose indices are in the metadata.
// Of four lanes, the selector chooses the one, or two, that provide the metadata of two rows of 16 elements.
template <int k, class T, int selector> struct SparseMma {
    uint32_t a[k / 8], b[k / 8], c[4], metadata;

    static GRIDSTRIDE_NO_TSAN void multiply_all(void *const *lanes) {
        const auto registers_of = [&](int lane) -> SparseMma & { return *static_cast<SparseMma *>(lanes[lane]); };
        float b[k][8];
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < k / 4; i++)
                b[i / 2 * 8 + lane % 4 * 2 + i % 2][lane / 4] = T::value(registers_of(lane).b[i / 2], i % 2);
        double accumulators[16][8];
        for (int row = 0; row < 16; row++) {
            for (int c = 0; c < 8; c++)
                accumulators[row][c] = bit_cast<float>(registers_of(row % 8 * 4 + c / 2).c[row / 8 * 2 + c % 2]);
            for (int i = 0; i < k / 2; i++) {
                const float x = T::value(registers_of(row % 8 * 4 + i / 2 % 4).a[i / 8 * 2 + row / 8], i % 2);
                const int group = i / 2, lane = row % 8 * 4 + (k == 32 ? 2 * selector + group / 4 : selector);
                const int index = group * 4 + sparse_index(registers_of(lane).metadata, row / 8, group % 4, i % 2);
                for (int c = 0; c < 8; c++) accumulators[row][c] += double(x) * double(b[index][c]);
            }
        }
        for (int row = 0; row < 16; row++)
            for (int c = 0; c < 8; c++)
                registers_of(row % 8 * 4 + c / 2).c[row / 8 * 2 + c % 2] =
                    bit_cast<uint32_t>(float(accumulators[row][c]));
    }
};
template <int k, class T, bool ordered, int selector, class D, class... R>
GRIDSTRIDE_NO_TSAN void mma_sp(int line, D &d0, D &d1, D &d2, D &d3, R... r) {
    using M = SparseMma<k, T, selector>;
    static_assert(
        selector >= 0 && selector < (k == 32 ? 2 : 4), "mma.sp: the selector must be 0 or 1, for m16n8k16 0 to 3");
    static_assert(sizeof...(R) * 4 == sizeof(M), "mma.sp: wrong number of registers for this shape");
    M registers;
    const uint32_t words[] = {register_bits(r)...};
    __builtin_memcpy(&registers, words, sizeof registers);
    const int quarter = lane() % 4;
    if ((k == 32 ? quarter / 2 : quarter) == selector)
        check_metadata("mma.sp", registers.metadata, k == 32, ordered, line);
    run_for_warp("mma.sp", &registers, M::multiply_all, line);
    set_register(d0, registers.c[0]), set_register(d1, registers.c[1]);
    set_register(d2, registers.c[2]), set_register(d3, registers.c[3]);
}
template <int k, class T, class Accumulator, class... R>
GRIDSTRIDE_NO_TSAN void mma_f16(int line, uint32_t &d0, uint32_t &d1, R... r) {
    static_assert(sizeof...(R) * 4 == sizeof(Mma<k, T, Accumulator>) && Accumulator::per_word == 2,
        "mma.sync: wrong number of registers for this shape");
    uint32_t accumulators[2];
    run_mma<k, T, Accumulator>(line, accumulators, r...);
    d0 = accumulators[0], d1 = accumulators[1];
}

}
}
