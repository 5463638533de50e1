#include <cstdio>
#include <type_traits>

template <int N> struct Log2 { static constexpr int value = 1 + Log2<N / 2>::value; };
template <> struct Log2<1> { static constexpr int value = 0; };

template <typename T> struct Accumulator { using type = T; };
template <> struct Accumulator<char> { using type = int; };
template <> struct Accumulator<float> { using type = double; };

template <typename T, int TPB, typename A = typename Accumulator<T>::type>
__global__ void sum(const T *x, A *out, int n) {
    static_assert((TPB & (TPB - 1)) == 0, "a power of two");
    __shared__ A s[1 << Log2<TPB>::value];
    A a{};
    for (int i = threadIdx.x; i < n; i += TPB) a += x[i];
    s[threadIdx.x] = a;
#pragma unroll
    for (int k = 0; k < Log2<TPB>::value; k++) {
        __syncthreads();
        if ((threadIdx.x & ((2 << k) - 1)) == 0) s[threadIdx.x] += s[threadIdx.x + (1 << k)];
    }
    if (threadIdx.x == 0) *out = s[0];
}

template <typename T> __device__ int kind() {
    if constexpr (std::is_same<T, int>::value) return 1;
    else if constexpr (std::is_floating_point_v<T>) return sizeof(T);
    else return -1;
}
template <int... I> __device__ int digits() { int v = 0; ((v = v * 10 + I), ...); return v; }
template <auto V> __device__ constexpr auto constant = V;
template <int (*f)(int)> __device__ int applied(int v) { return f(f(v)); }
__device__ int next(int v) { return v + 1; }
__device__ constexpr int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
enum class Op : unsigned char { add, sub };
template <Op op> __device__ int done(int a, int b) { return op == Op::add ? a + b : a - b; }
template <typename T, size_t N> __device__ constexpr int length(T (&)[N]) { return N; }

template <char C, bool B, unsigned U> __global__ void facts(int *o) {
    int a[fib(7)] = {}, k = 0;
    auto put = [&](auto v) { o[k++] = int(v); };
    put(kind<int>()), put(kind<float>()), put(kind<double>()), put(kind<char *>()), put(digits<4, 2, 7>()),
        put(constant<99>);
    put(applied<next>(5)), put(fib(12)), put(done<Op::add>(7, 2)), put(done<Op::sub>(7, 2)), put(length(a)), put(C),
        put(B), put(U >> 28);
    auto [lo, hi] = make_int2(3, 8);
    put(lo * hi);
    o[15] = k;
}

int main() {
    char c[300], *dc;
    float f[300], *df;
    int i, h[16], *di;
    double d, *dd;
    for (int k = 0; k < 300; k++) c[k] = k % 120, f[k] = k * 0.25f;
    cudaMalloc(&dc, sizeof c);
    cudaMalloc(&df, sizeof f);
    cudaMalloc(&di, sizeof h);
    cudaMalloc(&dd, sizeof d);
    cudaMemcpy(dc, c, sizeof c, cudaMemcpyHostToDevice);
    cudaMemcpy(df, f, sizeof f, cudaMemcpyHostToDevice);
    sum<char, 64><<<1, 64>>>(dc, di, 300);
    sum<float, 32><<<1, 32>>>(df, dd, 300);
    cudaMemcpy(&i, di, sizeof i, cudaMemcpyDeviceToHost);
    cudaMemcpy(&d, dd, sizeof d, cudaMemcpyDeviceToHost);
    printf("%d %g\n", i, d);
    facts<'x', (2 > 1), 0xffffffffu><<<1, 1>>>(di);
    cudaMemcpy(h, di, sizeof h, cudaMemcpyDeviceToHost);
    for (int v : h) printf("%d ", v);
    printf("\n%s\n", cudaGetErrorName(cudaGetLastError()));
}
