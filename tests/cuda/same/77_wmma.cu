#include <cstdio>
#include <mma.h>
using namespace nvcuda;

// Small whole numbers: all products and sums are exact, in whatever order.
__device__ float element(int i, int j) { return (i * 7 + j * 3) % 11 - 5; }

template <int m, int n, int k, class T, class Stored, class LA, class LB, class Sum>
__global__ void product(Sum *out, wmma::layout_t layout) {
    __shared__ alignas(32) Stored a[m * k], b[k * n];
    __shared__ alignas(32) Sum c[m * n];
    constexpr bool rows_a = std::is_same<LA, wmma::row_major>::value, rows_b = std::is_same<LB, wmma::row_major>::value;
    for (int i = threadIdx.x; i < m * k; i += 32) a[rows_a ? i : i % k * m + i / k] = Stored(element(i / k, i % k));
    for (int i = threadIdx.x; i < k * n; i += 32)
        b[rows_b ? i : i % n * k + i / n] = Stored(element(i / n, i % n + 20));
    for (int i = threadIdx.x; i < m * n; i += 32) c[i] = Sum(float(i / n - i % n));
    __syncwarp();
    wmma::fragment<wmma::matrix_a, m, n, k, T, LA> fa;
    wmma::fragment<wmma::matrix_b, m, n, k, T, LB> fb;
    wmma::fragment<wmma::accumulator, m, n, k, Sum> fc, fd;
    wmma::fill_fragment(fd, Sum(1.f));
    wmma::load_matrix_sync(fa, a, rows_a ? k : m);
    wmma::load_matrix_sync(fb, b, rows_b ? n : k);
    wmma::load_matrix_sync(fc, c, n, wmma::mem_row_major);
    for (int i = 0; i < fc.num_elements; i++) fc.x[i] = fc.x[i] * Sum(2.f) + fd.x[i];
    wmma::mma_sync(fd, fa, fb, fc);
    wmma::mma_sync(fd, fa, fb, fd);
    wmma::store_matrix_sync(out, fd, layout == wmma::mem_row_major ? n : m, layout);
    if (threadIdx.x == 0) printf("%d %d %d\n", int(fa.num_elements), int(fb.num_elements), int(fd.num_elements));
}

template <class Sum> void show(const Sum *out) {
    Sum h[256];
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 256; i++) printf("%g%s", float(h[i]), i % 16 == 15 ? "\n" : " ");
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}

int main() {
    using R = wmma::row_major;
    using C = wmma::col_major;
    using B = __nv_bfloat16;
    float *out;
    cudaMalloc(&out, 256 * sizeof(float));
    product<16, 16, 16, B, B, R, R, float><<<1, 32>>>(out, wmma::mem_row_major), show(out);
    product<16, 16, 16, B, B, C, R, float><<<1, 32>>>(out, wmma::mem_col_major), show(out);
    product<32, 8, 16, B, B, R, C, float><<<1, 32>>>(out, wmma::mem_row_major), show(out);
    product<16, 16, 16, half, half, R, C, float><<<1, 32>>>(out, wmma::mem_row_major), show(out);
    product<8, 32, 16, half, half, C, C, float><<<1, 32>>>(out, wmma::mem_row_major), show(out);
    product<16, 16, 8, wmma::precision::tf32, float, R, C, float><<<1, 32>>>(out, wmma::mem_row_major), show(out);
    product<16, 16, 16, half, half, R, R, half><<<1, 32>>>((half *)out, wmma::mem_row_major), show((half *)out);
    product<32, 8, 16, half, half, C, R, half><<<1, 32>>>((half *)out, wmma::mem_col_major), show((half *)out);
}
