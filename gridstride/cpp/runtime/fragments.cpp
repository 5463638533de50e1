// Matrix multiply-accumulate instructions of a warp: mma.sync, and nvcuda::wmma with its fragments. The accumulators
// are doubles, in which products of two floats are exact; they are rounded at the end. Those of bytes are integers.
#include <string.h>
#include "runtime.h"
#include "sixteen_bits.h"

namespace gridstride {

constexpr int max_tile = 512;              // elements of an operand: 32 x 16

// c[m][n] += a[m][k] @ b[k][n]
template <int n> static void multiply_rows(const double *a, const double *b, double *c, int m, int k) {
    for (int row = 0; row < m; row++) {
        double accumulators[n];
        memcpy(accumulators, c + row * n, sizeof accumulators);
        for (int i = 0; i < k; i++) {
            const double x = a[row * k + i];
#ifndef __clang__
#pragma GCC unroll 32
#endif
            for (int column = 0; column < n; column++) accumulators[column] += x * b[i * n + column];
        }
        memcpy(c + row * n, accumulators, sizeof accumulators);
    }
}
static void multiply(const double *a, const double *b, double *c, int m, int n, int k) {
    if (n == 8) multiply_rows<8>(a, b, c, m, k);
    else if (n == 16) multiply_rows<16>(a, b, c, m, k);
    else multiply_rows<32>(a, b, c, m, k);
}
void multiply_matrices(const float *a, const float *b, double *c, int m, int n, int k) {
    double wide_a[max_tile], wide_b[max_tile];
    for (int i = 0; i < m * k; i++) wide_a[i] = a[i];
    for (int i = 0; i < k * n; i++) wide_b[i] = b[i];
    multiply(wide_a, wide_b, c, m, n, k);
}

// Converts like widen<10>, but without branches, so that the compiler vectorizes it.
static float widen_half(uint16_t half) {
    const uint32_t magnitude = (half & 0x7fffu) << 13, bias = 112u << 23,
                   subnormal = bit_cast<uint32_t>(bit_cast<float>(magnitude + bias + (1u << 23)) - 0x1p-14f),
                   normal = magnitude + bias + (magnitude >= 31u << 23 ? bias : 0);
    return bit_cast<float>((magnitude < 1u << 23 ? subnormal : normal) | (half & 0x8000u) << 16);
}

// Reads a matrix in the order of its fragment. If several lanes hold an element, the last lane's copy is used.
template <class T, int elements_per_lane, class F>
static void read_lanes(double *to, int size, void *const *lanes, int operand, F value) {
    for (int lane = 32 - size / elements_per_lane; lane < 32; lane++) {
        T elements[elements_per_lane];
        memcpy(elements, static_cast<const FragmentOperands *>(lanes[lane])->x[operand], sizeof elements);
        double *const row = to + lane * elements_per_lane % size;
        for (int i = 0; i < elements_per_lane; i++) row[i] = value(elements[i]);
    }
}
template <class T, class F> static void read_elements(double *to, int size, void *const *lanes, int operand, F value) {
    switch (size / 32) {
    case 1: return read_lanes<T, 1>(to, size, lanes, operand, value);
    case 2: return read_lanes<T, 2>(to, size, lanes, operand, value);
    case 4: return read_lanes<T, 4>(to, size, lanes, operand, value);
    case 8: return read_lanes<T, 8>(to, size, lanes, operand, value);
    default: return read_lanes<T, 16>(to, size, lanes, operand, value);
    }
}
static void read_matrix(Element type, double *to, int size, void *const *lanes, int operand) {
    const auto as_is = [](auto x) { return double(x); };
    const auto half = [](uint16_t x) { return double(widen_half(x)); };
    switch (type) {
    case Element::f16:
        if (operand < 2) return read_lanes<uint16_t, 16>(to, size, lanes, operand, half);
        return read_elements<uint16_t>(to, size, lanes, operand, half);
    case Element::bf16:
        return read_elements<uint16_t>(to, size, lanes, operand,
            [](uint16_t x) { return double(bit_cast<float>(uint32_t(x) << 16)); });
    case Element::tf32:
        return read_elements<uint32_t>(to, size, lanes, operand,
            [](uint32_t x) { return double(bit_cast<float>(x & ~0x1fffu)); });
    case Element::f32: return read_elements<float>(to, size, lanes, operand, as_is);
    case Element::f64: return read_elements<double>(to, size, lanes, operand, as_is);
    default: return;                       // bytes: multiply_bytes
    }
}
template <class F> static void write_lanes(const double *from, int size, void *const *lanes, F round) {
    const int elements_per_lane = size / 32;
    for (int lane = 0; lane < 32; lane++) {
        decltype(round(0.0)) elements[16];
        for (int i = 0; i < elements_per_lane; i++) elements[i] = round(from[lane * elements_per_lane + i]);
        memcpy(static_cast<const FragmentOperands *>(lanes[lane])->d, elements,
            size_t(elements_per_lane) * sizeof *elements);
    }
}
static void write_matrix(Element type, const double *from, int size, void *const *lanes) {
    switch (type) {
    case Element::f16:
        return write_lanes(from, size, lanes, [](double x) { return narrow<10>(round_to_odd(x)); });
    case Element::f32: return write_lanes(from, size, lanes, [](double x) { return float(x); });
    default: return write_lanes(from, size, lanes, [](double x) { return x; });
    }
}
// Stores the transpose of from[columns][rows] to to[rows][columns].
static void transpose(double *to, const double *from, int rows, int columns) {
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < columns; column++) to[row * columns + column] = from[column * rows + row];
}
// Products of bytes: m * n is 256, and k is 16. Unsigned accumulators wrap around at 2^32, as on a GPU.
constexpr int k_of_bytes = 16;
template <class T, int outer> static void read_bytes(
    uint32_t *to, void *const *lanes, int operand, bool transposed) {
    constexpr int size = outer * k_of_bytes, bytes = size / 32;
    T elements[size];
    for (int lane = 0; lane < 32; lane++)
        memcpy(elements + lane * bytes, static_cast<const FragmentOperands *>(lanes[lane])->x[operand], bytes);
    if (!transposed)
        for (int i = 0; i < size; i++) to[i] = uint32_t(int32_t(elements[i]));
    else if (operand == 0)
        for (int row = 0; row < outer; row++)
            for (int i = 0; i < k_of_bytes; i++)
                to[row * k_of_bytes + i] = uint32_t(int32_t(elements[i * outer + row]));
    else
        for (int i = 0; i < k_of_bytes; i++)
            for (int column = 0; column < outer; column++)
                to[i * outer + column] = uint32_t(int32_t(elements[column * k_of_bytes + i]));
}
template <class T, int m, int n> static void multiply_bytes(const FragmentMma &p, void *const *lanes) {
    alignas(64) uint32_t a[m * k_of_bytes], b[k_of_bytes * n], c[m * n];
    read_bytes<T, m>(a, lanes, 0, p.a_is_column_major), read_bytes<T, n>(b, lanes, 1, p.b_is_column_major);
    constexpr int per_lane = m * n / 32;
    for (int lane = 0; lane < 32; lane++)
        memcpy(c + lane * per_lane, static_cast<const FragmentOperands *>(lanes[lane])->x[2], per_lane * sizeof *c);
    typedef uint32_t Row __attribute__((vector_size(n * sizeof(uint32_t))));
    for (int row = 0; row < m; row++) {
        Row accumulators, row_of_b;
        memcpy(&accumulators, c + row * n, sizeof accumulators);
        for (int i = 0; i < k_of_bytes; i++) {
            memcpy(&row_of_b, b + i * n, sizeof row_of_b);
            accumulators += a[row * k_of_bytes + i] * row_of_b;
        }
        memcpy(c + row * n, &accumulators, sizeof accumulators);
    }
    for (int lane = 0; lane < 32; lane++)
        memcpy(static_cast<const FragmentOperands *>(lanes[lane])->d, c + lane * per_lane, per_lane * sizeof *c);
}
template <class T> static void multiply_bytes(const FragmentMma &p, void *const *lanes) {
    if (p.m == 8) multiply_bytes<T, 8, 32>(p, lanes);
    else if (p.m == 16) multiply_bytes<T, 16, 16>(p, lanes);
    else multiply_bytes<T, 32, 8>(p, lanes);
}
// A function of its own, because its arrays are on five pages of a fiber's stack, which those of bytes must not touch
static __attribute__((noinline)) void multiply_doubles(const FragmentMma &p, void *const *lanes) {
    alignas(64) double read_a[max_tile], read_b[max_tile], transposed_a[max_tile], transposed_b[max_tile], c[max_tile];
    read_matrix(p.operands, read_a, p.m * p.k, lanes, 0), read_matrix(p.operands, read_b, p.k * p.n, lanes, 1);
    read_matrix(p.addend, c, p.m * p.n, lanes, 2);
    if (p.a_is_column_major) transpose(transposed_a, read_a, p.m, p.k);
    if (p.b_is_column_major) transpose(transposed_b, read_b, p.k, p.n);
    multiply(p.a_is_column_major ? transposed_a : read_a, p.b_is_column_major ? transposed_b : read_b, c, p.m, p.n,
        p.k);
    write_matrix(p.result, c, p.m * p.n, lanes);
}
void multiply_fragments(const FragmentMma &p, void *const *lanes) {
    if (p.operands == Element::u8) multiply_bytes<uint8_t>(p, lanes);
    else if (p.operands == Element::s8) multiply_bytes<int8_t>(p, lanes);
    else multiply_doubles(p, lanes);
}
}
