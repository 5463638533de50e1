#include <cstdio>
#include <cuda_runtime.h>

template <typename T> struct Plus {
    __host__ __device__ T operator()(T a, T b) const { return a + b; }
    static constexpr T zero = 0;
};
template <typename T> struct Most {
    static constexpr T zero = T(-1000000);
    __host__ __device__ T operator()(T a, T b) const { return a > b ? a : b; }
};

template <typename T, typename Op, int N = 64> __global__ void folded(const T *x, T *out, int n, Op op) {
    __shared__ T s[N];
    T v = Op::zero;
    for (int i = threadIdx.x; i < n; i += N) v = op(v, x[i]);
    s[threadIdx.x] = v;
    __syncthreads();
    for (int half = N / 2; half; half >>= 1) {
        if (threadIdx.x < half) s[threadIdx.x] = op(s[threadIdx.x], s[threadIdx.x + half]);
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = s[0];
}

class Matrix {   // a view: copied by value, its data stay where they are
    double *data_;
    int rows_, cols_;
public:
    __host__ __device__ Matrix(double *d, int r, int c) : data_(d), rows_(r), cols_(c) {}
    __device__ double &operator()(int r, int c) { return data_[r * cols_ + c]; }
    __device__ const double &operator()(int r, int c) const { return data_[r * cols_ + c]; }
    __host__ __device__ int size() const { return rows_ * cols_; }
    __device__ Matrix rows_from(int r) const { return Matrix(data_ + r * cols_, rows_ - r, cols_); }
    friend __device__ double trace(const Matrix &m);
};
__device__ double trace(const Matrix &m) {
    double s = 0;
    for (int i = 0; i < m.rows_ && i < m.cols_; i++) s += m(i, i);
    return s;
}
__global__ void filled(Matrix m, double *traces) {
    int r = threadIdx.y, c = threadIdx.x;
    m(r, c) = r * 10 + c + 0.5;
    __syncthreads();
    if (r == 0) traces[c] = trace(m.rows_from(c));
}

struct Complex {
    float re = 0, im = 0;
    Complex() = default;
    __host__ __device__ Complex(float r, float i = 0) : re(r), im(i) {}
    __host__ __device__ Complex operator*(Complex o) const { return {re * o.re - im * o.im, re * o.im + im * o.re}; }
    __host__ __device__ Complex &operator+=(const Complex &o) { re += o.re; im += o.im; return *this; }
};
__global__ void powers(Complex *z, Complex by) {
    Complex p = 1, sum;
    for (int k = 0; k <= threadIdx.x; k++) { sum += p; p = p * by; }
    z[threadIdx.x] = sum;
}

int main() {
    int h[100], *d, r;
    double m[12], t[4], *dm;
    for (int i = 0; i < 100; i++) h[i] = (i * 71) % 100 - 20;
    cudaMalloc(&d, 2 * sizeof h);
    cudaMalloc(&dm, sizeof m + sizeof t);
    cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice);
    folded<<<1, 64>>>(d, d + 100, 100, Plus<int>());
    cudaMemcpy(&r, d + 100, sizeof r, cudaMemcpyDeviceToHost);
    folded<int, Most<int>, 32><<<1, 32>>>(d, d + 101, 100, Most<int>{});
    cudaMemcpy(h, d + 101, sizeof r, cudaMemcpyDeviceToHost);
    filled<<<1, dim3(4, 3)>>>(Matrix(dm, 3, 4), dm + 12);
    cudaMemcpy(t, dm + 12, sizeof t, cudaMemcpyDeviceToHost);
    printf("%d %d | %g %g %g %g\n", r, h[0], t[0], t[1], t[2], t[3]);
    Complex z[6], *dz;
    cudaMalloc(&dz, sizeof z);
    powers<<<1, 6>>>(dz, Complex(1, 2));
    cudaMemcpy(z, dz, sizeof z, cudaMemcpyDeviceToHost);
    for (Complex c : z) printf("%g%+gi ", c.re, c.im);
    printf("\n%s\n", cudaGetErrorName(cudaGetLastError()));
}
