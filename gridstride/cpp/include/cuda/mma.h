// nvcuda::wmma. CUDA does not specify which elements of a fragment a lane holds, and they differ here from a GPU:
// element i of a lane is element lane*num_elements + i of the tile, in row-major order, or in column-major order if the
// fragment is declared col_major.
#pragma once
#include "cuda_bf16.h"
#include "ptx_matrices.h"

namespace nvcuda {
namespace wmma {
struct row_major;
struct col_major;
struct matrix_a;
struct matrix_b;
struct accumulator;
namespace precision { struct tf32; }
// Products of 4-bit integers and of single bits are declared, so that headers with these names compile, but they are
// not emulated.
namespace experimental {
namespace precision { struct u4; struct s4; struct b1; }
enum bmmaBitOp { bmmaBitOpXOR = 1, bmmaBitOpAND = 2 };
enum bmmaAccumulateOp { bmmaAccumulateOpPOPC = 1 };
}
enum layout_t { mem_row_major, mem_col_major };

inline float __float_to_tf32(float x) { return gridstride::bit_cast<float>(gridstride::ptx::round_to_tf32(x)); }

template <class T> constexpr bool is_byte = std::is_same_v<T, signed char> || std::is_same_v<T, unsigned char>;
template <class Use, int m, int n, int k, class T, class Layout>
constexpr bool is_emulated =
    m == 8 && n == 8 && k == 4 ? std::is_same_v<T, double> && std::is_same_v<Use, accumulator> == std::is_void_v<Layout>
    : std::is_same_v<Use, accumulator>
        ? std::is_void_v<Layout> &&
              (std::is_same_v<T, float> || ((std::is_same_v<T, __half> || std::is_same_v<T, int>) && k == 16)) &&
              m * n == 256 && (m == 8 || m == 16 || m == 32) && (k == 16 || (k == 8 && m == 16))
    : !(std::is_same_v<Layout, row_major> || std::is_same_v<Layout, col_major>) ? false
    : std::is_same_v<T, precision::tf32> ? m == 16 && n == 16 && k == 8
                                         : (is_byte<T> || std::is_same_v<T, __half> ||
                                               std::is_same_v<T, __nv_bfloat16>) &&
                                               m * n == 256 && (m == 8 || m == 16 || m == 32) && k == 16;

template <class Use, int m, int n, int k, class T, class Layout = void> struct alignas(8) fragment {
    static_assert(is_emulated<Use, m, n, k, T, Layout>,
        "the emulator supports fragments of 16x16x16, 32x8x16 and 8x32x16 (half, __nv_bfloat16, signed and unsigned "
        "char), 16x16x8 (precision::tf32) and 8x8x4 (double), with float, half, int or double accumulators");
    static constexpr bool is_a = std::is_same_v<Use, matrix_a>, is_b = std::is_same_v<Use, matrix_b>;
    static constexpr bool is_column_major = std::is_same_v<Layout, col_major>;
    static constexpr int rows = is_b ? k : m, columns = is_a ? k : n, size = rows * columns;
    // elements of a contiguous row, or column, in memory
    static constexpr int inner = is_column_major ? rows : columns;
    // two or four lanes hold the same elements of half fragments
    enum {
        num_elements = std::is_same_v<T, __half> && (is_a || is_b) ? 16 : size / 32,
        num_storage_elements = num_elements
    };
    using element_type = T;
    using storage_element_type = std::conditional_t<std::is_same_v<T, precision::tf32>, float, T>;
    storage_element_type x[num_elements];
};
template <class Use, int m, int n, int k, class T, class Layout = void> struct UnemulatedFragment {
    using element_type = int;
    using storage_element_type = int;
    enum { num_elements = 1, num_storage_elements = 1 };
    int x[1];
};
#define GRIDSTRIDE_UNEMULATED_FRAGMENT(T, m, n, k) \
    template <class Use, class Layout> \
    struct fragment<Use, m, n, k, experimental::precision::T, Layout> \
        : UnemulatedFragment<Use, m, n, k, experimental::precision::T, Layout> {};
GRIDSTRIDE_UNEMULATED_FRAGMENT(s4, 8, 8, 32)
GRIDSTRIDE_UNEMULATED_FRAGMENT(u4, 8, 8, 32)
GRIDSTRIDE_UNEMULATED_FRAGMENT(b1, 8, 8, 128)
#undef GRIDSTRIDE_UNEMULATED_FRAGMENT
template <> struct fragment<accumulator, 8, 8, 32, int> : UnemulatedFragment<accumulator, 8, 8, 32, int> {};
template <> struct fragment<accumulator, 8, 8, 128, int> : UnemulatedFragment<accumulator, 8, 8, 128, int> {};
template <class... A> void bmma_sync(A &&...) { ::gridstride::not_emulated("wmma::bmma_sync"); }

namespace emulator {
template <class T> constexpr gridstride::Element element() {
    using gridstride::Element;
    return std::is_same_v<T, __half> ? Element::f16
           : std::is_same_v<T, __nv_bfloat16>     ? Element::bf16
           : std::is_same_v<T, precision::tf32>   ? Element::tf32
           : std::is_same_v<T, float>             ? Element::f32
           : std::is_same_v<T, double>            ? Element::f64
           : std::is_same_v<T, signed char>       ? Element::s8
           : std::is_same_v<T, unsigned char>     ? Element::u8
                                                  : Element::s32;
}
// Loads or stores the lane's elements.
template <bool stores, class F, class P>
GRIDSTRIDE_NO_TSAN void load_or_store(const char *function, F &f, P *p, unsigned ldm, bool transposed, int line) {
    static constexpr gridstride::FragmentLayout layout = {
        sizeof(P), unsigned(F::num_elements), unsigned(F::size), unsigned(F::inner)};
    using X = std::remove_const_t<typename F::storage_element_type>;
    gridstride::move_fragment(function, layout, const_cast<X *>(f.x), const_cast<std::remove_const_t<P> *>(p), ldm,
        transposed, stores, line);
}
template <class T> GRIDSTRIDE_INLINE void check_stride(unsigned ldm) {
    if (ldm * sizeof(T) % 16)
        gridstride::trap(gridstride::Code::matrix_stride);
}

template <class D, class A, class B, class C> struct Mma {
    static GRIDSTRIDE_NO_TSAN void multiply_all(void *const *operands_of_lanes) {
        using gridstride::FragmentMma;
        constexpr FragmentMma product = {C::rows, C::columns, A::columns, element<typename A::element_type>(),
            element<typename C::element_type>(), element<typename D::element_type>(), A::is_column_major,
            B::is_column_major};
        gridstride::multiply_fragments(product, operands_of_lanes);
    }
    // The operands are not instrumented: they are elements of fragments, which other threads cannot access.
    static GRIDSTRIDE_NO_TSAN void run(void *d, const void *a, const void *b, const void *c, int line) {
        gridstride::FragmentOperands operands = {{a, b, c}, d};
        gridstride::run_for_warp("mma_sync", &operands, multiply_all, line);
    }
};
}

template <class Use, int m, int n, int k, class T, class Layout, class V>
void fill_fragment(fragment<Use, m, n, k, T, Layout> &f, const V &value) {
    for (auto &x : f.x) x = value;
}
template <class Use, int m, int n, int k, class T, class Layout, class P>
GRIDSTRIDE_INLINE void load_matrix_sync(
    fragment<Use, m, n, k, T, Layout> &f, const P *p, unsigned ldm, int line = __builtin_LINE()) {
    static_assert(!std::is_same_v<Use, accumulator>,
        "load_matrix_sync of an accumulator needs a layout: mem_row_major or mem_col_major");
    static_assert(std::is_same_v<P, typename fragment<Use, m, n, k, T, Layout>::storage_element_type>,
        "load_matrix_sync: the memory and the fragment must have the same type");
    emulator::check_stride<P>(ldm);
    emulator::load_or_store<false>("load_matrix_sync", f, p, ldm, false, line);
}
template <int m, int n, int k, class T>
GRIDSTRIDE_INLINE void load_matrix_sync(
    fragment<accumulator, m, n, k, T> &f, const T *p, unsigned ldm, layout_t layout, int line = __builtin_LINE()) {
    emulator::check_stride<T>(ldm);
    emulator::load_or_store<false>("load_matrix_sync", f, p, ldm, layout == mem_col_major, line);
}
template <int m, int n, int k, class T>
GRIDSTRIDE_INLINE void store_matrix_sync(
    T *p, const fragment<accumulator, m, n, k, T> &f, unsigned ldm, layout_t layout, int line = __builtin_LINE()) {
    emulator::check_stride<T>(ldm);
    emulator::load_or_store<true>("store_matrix_sync", f, p, ldm, layout == mem_col_major, line);
}
template <int m, int n, int k, class T, class LA, class LB, class D, class C>
GRIDSTRIDE_INLINE void mma_sync(fragment<accumulator, m, n, k, D> &d, const fragment<matrix_a, m, n, k, T, LA> &a,
    const fragment<matrix_b, m, n, k, T, LB> &b, const fragment<accumulator, m, n, k, C> &c,
    int line = __builtin_LINE()) {
    static_assert(!is_byte<T> || (std::is_same_v<C, int> && std::is_same_v<D, int>),
        "mma_sync: signed and unsigned char need int accumulators");
    static_assert(is_byte<T> || std::is_same_v<T, __half> || std::is_same_v<T, double> ||
            (std::is_same_v<C, float> && std::is_same_v<D, float>),
        "mma_sync: half accumulators need half operands");
    using Mma = emulator::Mma<fragment<accumulator, m, n, k, D>, fragment<matrix_a, m, n, k, T, LA>,
        fragment<matrix_b, m, n, k, T, LB>, fragment<accumulator, m, n, k, C>>;
    Mma::run(d.x, a.x, b.x, c.x, line);
}
}
}
