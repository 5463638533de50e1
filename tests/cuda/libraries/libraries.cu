// What cuFFT, cuSPARSE, cuRAND's host functions and cublasLt compute, compared with its definition. The exit status has
// a bit per library whose results differ. With an argument n, the n-th of the calls with an array in host memory is
// made, too; with -1, all of them.
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <cublasLt.h>
#include <cufftXt.h>
#include <curand.h>
#include <cusparse.h>
#include <vector>

#define EXPECT(condition) \
    do { \
        if (!(condition)) return printf("line %d: %s\n", __LINE__, #condition), false; \
    } while (0)
#define CALL(x) EXPECT(int(x) == 0)

constexpr int no_call = -2, all_calls = -1;
static int selected_call = no_call, num_calls = 0;
// Returns whether a call with an array in host memory is rejected, if it is selected.
template <class F> bool is_rejected(F f) {
    const int call = num_calls++;
    return (selected_call != all_calls && selected_call != call) || f() != 0;
}

template <class T> T *to_device(const std::vector<T> &v) {
    T *p;
    cudaMalloc(&p, v.size() * sizeof(T));
    cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice);
    return p;
}
template <class T> std::vector<T> to_host(const T *p, size_t n) {
    std::vector<T> v(n);
    cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost);
    return v;
}

using Complex = std::complex<double>;
Complex transform_of(const cufftDoubleComplex *x, int nx, int ny, int u, int v) {
    Complex sum = 0;
    for (int i = 0; i < nx; i++)
        for (int j = 0; j < ny; j++)
            sum += Complex(x[i * ny + j].x, x[i * ny + j].y) *
                   std::polar(1.0, -2 * M_PI * (double(u * i) / nx + double(v * j) / ny));
    return sum;
}
bool transforms_in_two_axes() {
    const int nx = 3, ny = 4, batch = 2, stride = 2;
    int sizes[] = {nx, ny};
    std::vector<cufftDoubleComplex> x(nx * ny * batch);
    for (size_t i = 0; i < x.size(); i++) x[i] = {double(i % 7), double(i % 5) - 2};
    auto *in = to_device(x), *out = to_device(std::vector<cufftDoubleComplex>(stride * x.size()));
    cufftHandle plan, back;
    CALL(cufftPlanMany(&plan, 2, sizes, sizes, 1, nx * ny, sizes, stride, stride * nx * ny, CUFFT_Z2Z, batch));
    CALL(cufftExecZ2Z(plan, in, out, CUFFT_FORWARD));
    const auto y = to_host(out, stride * x.size());
    for (int b = 0; b < batch; b++)
        for (int u = 0; u < nx; u++)
            for (int v = 0; v < ny; v++) {
                const auto &got = y[stride * (b * nx * ny + u * ny + v)];
                EXPECT(std::abs(transform_of(&x[b * nx * ny], nx, ny, u, v) - Complex(got.x, got.y)) < 1e-12);
            }
    CALL(cufftPlanMany(&back, 2, sizes, sizes, stride, stride * nx * ny, sizes, 1, nx * ny, CUFFT_Z2Z, batch));
    CALL(cufftExecZ2Z(back, out, in, CUFFT_INVERSE));
    const auto again = to_host(in, x.size());
    for (size_t i = 0; i < x.size(); i++) EXPECT(std::abs(again[i].x - nx * ny * x[i].x) < 1e-11);
    return true;
}
bool transforms_of_real_values() {
    const int n = 8;                                       // in place: n + 2 values have room for n/2 + 1 complex ones
    std::vector<float> x(n + 2);
    for (int i = 0; i < n; i++) x[i] = float(i * i % 5);
    auto *data = to_device(x);
    auto *halves = reinterpret_cast<cufftComplex *>(data);
    cufftHandle forward, inverse, by_types;
    long long length = n;
    size_t bytes;
    CALL(cufftPlan1d(&forward, n, CUFFT_R2C, 1));
    CALL(cufftPlan1d(&inverse, n, CUFFT_C2R, 1));
    CALL(cufftExecR2C(forward, data, halves));
    const auto first = to_host(data, 2);
    EXPECT(first[0] == 15 && first[1] == 0);               // the sum of the values
    CALL(cufftExecC2R(inverse, halves, data));
    const auto again = to_host(data, n);
    for (int i = 0; i < n; i++) EXPECT(std::abs(again[i] - n * x[i]) < 1e-4);
    CALL(cufftCreate(&by_types));
    CALL(cufftXtMakePlanMany(
        by_types, 1, &length, nullptr, 1, n, CUDA_R_32F, nullptr, 1, n, CUDA_C_32F, 1, &bytes, CUDA_C_32F));
    CALL(cufftXtExec(by_types, data, halves, CUFFT_FORWARD));
    EXPECT(std::abs(to_host(data, 1)[0] - n * first[0]) < 1e-3);
    EXPECT(is_rejected([&] { return cufftExecR2C(forward, const_cast<float *>(x.data()), halves); }));
    EXPECT(cufftExecC2C(forward, halves, halves, CUFFT_FORWARD) == CUFFT_INVALID_TYPE);
    return true;
}

bool multiplies_sparse_matrices() {                        // [1 0 2; 0 0 3; 4 5 0]
    using Floats = std::vector<float>;
    using Ints = std::vector<int>;
    auto *offsets = to_device(Ints{0, 2, 3, 5}), *columns = to_device(Ints{0, 2, 2, 0, 1});
    auto *values = to_device(Floats{1, 2, 3, 4, 5});
    auto *x = to_device(Floats{1, 10, 100}), *y = to_device(Floats{1, 1, 1});
    auto *b = to_device(Floats{1, 2, 3, 4, 5, 6}), *c = to_device(Floats(6));
    cusparseHandle_t h;
    cusparseSpMatDescr_t a;
    cusparseDnVecDescr_t dx, dy;
    cusparseDnMatDescr_t db, dc;
    CALL(cusparseCreate(&h));
    CALL(cusparseCreateCsr(&a, 3, 3, 5, offsets, columns, values, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
        CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
    CALL(cusparseCreateDnVec(&dx, 3, x, CUDA_R_32F));
    CALL(cusparseCreateDnVec(&dy, 3, y, CUDA_R_32F));
    CALL(cusparseCreateDnMat(&db, 3, 2, 2, b, CUDA_R_32F, CUSPARSE_ORDER_ROW));
    CALL(cusparseCreateDnMat(&dc, 3, 2, 3, c, CUDA_R_32F, CUSPARSE_ORDER_COL));
    const auto plain = CUSPARSE_OPERATION_NON_TRANSPOSE, transposed = CUSPARSE_OPERATION_TRANSPOSE;
    float alpha = 2, beta = 3;
    size_t bytes;
    CALL(cusparseSpMV_bufferSize(h, plain, &alpha, a, dx, &beta, dy, CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, &bytes));
    CALL(cusparseSpMV(h, plain, &alpha, a, dx, &beta, dy, CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, nullptr));
    EXPECT((to_host(y, 3) == Floats{405, 603, 111}));
    alpha = 1, beta = 0;
    CALL(cusparseSpMV(h, transposed, &alpha, a, dx, &beta, dy, CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, nullptr));
    EXPECT((to_host(y, 3) == Floats{401, 500, 32}));
    CALL(cusparseSpMM(h, plain, plain, &alpha, a, db, &beta, dc, CUDA_R_32F, CUSPARSE_SPMM_ALG_DEFAULT, nullptr));
    EXPECT((to_host(c, 6) == Floats{11, 15, 19, 14, 18, 28}));
    return true;
}

__global__ void draw_first(unsigned *out) {
    curandState s;
    curand_init(1234, threadIdx.x, 0, &s);
    out[threadIdx.x] = curand(&s);
}
bool has_moments(const std::vector<float> &v, double mean, double variance, double tolerance) {
    double sum = 0, squares = 0;
    for (const float x : v) sum += x, squares += double(x) * x;
    sum /= double(v.size()), squares = squares / double(v.size()) - sum * sum;
    return std::abs(sum - mean) < tolerance && std::abs(squares - variance) < 2 * tolerance;
}
bool draws_random_values() {
    const int n = 1 << 16;                                 // the mean varies by 1/256 of what a value varies by
    curandGenerator_t g;
    float *x;
    unsigned *bits;
    cudaMalloc(&x, n * sizeof *x), cudaMalloc(&bits, n * sizeof *bits);
    CALL(curandCreateGenerator(&g, CURAND_RNG_PSEUDO_DEFAULT));
    CALL(curandSetPseudoRandomGeneratorSeed(g, 1234));
    CALL(curandGenerate(g, bits, n));
    const auto values = to_host(bits, 32);
    draw_first<<<1, 32>>>(bits);
    EXPECT(values == to_host(bits, 32));                   // value i is the first one of subsequence i
    CALL(curandGenerateUniform(g, x, n));
    const auto uniform = to_host(x, n);
    for (const float value : uniform) EXPECT(value > 0 && value <= 1);
    EXPECT(has_moments(uniform, 0.5, 1 / 12.0, 5 * 0.29 / 256));
    CALL(curandGenerateNormal(g, x, n, 3, 2));
    EXPECT(has_moments(to_host(x, n), 3, 4, 5 * 2.0 / 256));
    EXPECT(curandGenerateNormal(g, x, 3, 0, 1) == CURAND_STATUS_LENGTH_NOT_MULTIPLE);
    return true;
}

double activate(cublasLtEpilogue_t epilogue, double x) {
    if (epilogue == CUBLASLT_EPILOGUE_RELU_BIAS) return x > 0 ? x : 0;
    return epilogue == CUBLASLT_EPILOGUE_BIAS ? x : 0.5 * x * (1 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
}
bool multiplies_with_epilogues() {                         // a is transposed, b row-major, the result column-major
    const int m = 3, n = 2, k = 4;
    std::vector<float> a(m * k), b(k * n), bias{1, -2, 3};
    for (int i = 0; i < m * k; i++) a[i] = float(i % 5 - 2);
    for (int i = 0; i < k * n; i++) b[i] = float(i % 3 - 1);
    auto *da = to_device(a), *db = to_device(b), *dc = to_device(std::vector<float>(m * n)), *dbias = to_device(bias);
    cublasLtHandle_t h;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t la, lb, lc;
    CALL(cublasLtCreate(&h));
    CALL(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    CALL(cublasLtMatrixLayoutCreate(&la, CUDA_R_32F, k, m, k));
    CALL(cublasLtMatrixLayoutCreate(&lb, CUDA_R_32F, k, n, n));
    CALL(cublasLtMatrixLayoutCreate(&lc, CUDA_R_32F, m, n, m));
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const cublasLtOrder_t row_major = CUBLASLT_ORDER_ROW;
    CALL(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
    CALL(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &dbias, sizeof dbias));
    CALL(cublasLtMatrixLayoutSetAttribute(lb, CUBLASLT_MATRIX_LAYOUT_ORDER, &row_major, sizeof row_major));
    const float one = 1, zero = 0;
    for (auto epilogue : {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS}) {
        CALL(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
        CALL(cublasLtMatmul(h, product, &one, da, la, db, lb, &zero, dc, lc, dc, lc, nullptr, nullptr, 0, nullptr));
        const auto got = to_host(dc, m * n);
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                double sum = bias[i];
                for (int l = 0; l < k; l++) sum += a[i * k + l] * b[l * n + j];
                EXPECT(std::abs(activate(epilogue, sum) - got[j * m + i]) < 1e-5);
            }
    }
    return true;
}

// A call on a captured stream becomes a node of the graph: nothing runs until the graph is launched.
bool is_captured() {
    auto *x = to_device(std::vector<float>{1, 2}), *y = to_device(std::vector<float>{10, 20});
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cublasHandle_t h;
    CALL(cudaStreamCreate(&s) || cublasCreate(&h) || cublasSetStream(h, s));
    CALL(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    float alpha = 3;
    CALL(cublasSaxpy(h, 2, &alpha, x, 1, y, 1));
    alpha = 100;                                           // was read by the call
    CALL(cudaStreamEndCapture(s, &graph) || cudaGraphInstantiate(&executable, graph, 0));
    EXPECT((to_host(y, 2) == std::vector<float>{10, 20}));
    CALL(cudaGraphLaunch(executable, s) || cudaGraphLaunch(executable, s) || cudaStreamSynchronize(s));
    EXPECT((to_host(y, 2) == std::vector<float>{16, 32}));
    return true;
}

// Calls `f` with the addresses of these arrays, whose first `num_in_device` must be in device memory and the others in
// host memory; returns whether it succeeds with them, and with none of them in the other memory.
template <class F>
bool requires_memory(int num_in_device, std::vector<float *> device, std::vector<float *> host, F f) {
    std::vector<float *> right(device);
    for (size_t i = size_t(num_in_device); i < right.size(); i++) right[i] = host[i];
    EXPECT(f(right) == 0);
    for (size_t i = 0; i < right.size(); i++) {
        std::vector<float *> wrong(right);
        wrong[i] = int(i) < num_in_device ? host[i] : device[i];
        const bool ok = int(i) < num_in_device ? is_rejected([&] { return f(wrong); }) : f(wrong) != 0;
        if (!ok) return printf("argument %d\n", int(i)), false;
    }
    return true;
}
bool rejects_memory_of_the_other_processor() {
    using P = std::vector<float *>;
    std::vector<std::vector<float>> arrays(6, std::vector<float>(16, 1));
    P host, device;
    for (auto &array : arrays) host.push_back(array.data()), device.push_back(to_device(array));
    const auto check = [&](int in_device, int in_host, auto f) {
        const auto first = [&](const P &all) { return P(all.begin(), all.begin() + in_device + in_host); };
        return requires_memory(in_device, first(device), first(host), f);
    };
    cublasHandle_t h;
    CALL(cublasCreate(&h));
    EXPECT(check(2, 1, [=](P p) { return cublasSaxpy(h, 4, p[2], p[0], 1, p[1], 1); }));
    EXPECT(check(2, 0, [=](P p) { return cublasScopy(h, 4, p[0], 1, p[1], 1); }));
    EXPECT(check(2, 0, [=](P p) { return cublasSswap(h, 4, p[0], 1, p[1], 1); }));
    EXPECT(check(1, 1, [=](P p) { return cublasSscal(h, 4, p[1], p[0], 1); }));
    EXPECT(check(2, 1, [=](P p) { return cublasSdot(h, 4, p[0], 1, p[1], 1, p[2]); }));
    EXPECT(check(1, 1, [=](P p) { return cublasSnrm2(h, 4, p[0], 1, p[1]); }));
    EXPECT(check(1, 1, [=](P p) { return cublasSasum(h, 4, p[0], 1, p[1]); }));
    EXPECT(check(1, 1, [=](P p) { return cublasIsamax(h, 4, p[0], 1, reinterpret_cast<int *>(p[1])); }));
    EXPECT(check(2, 1, [=](P p) {
        return cublasDotEx(h, 4, p[0], CUDA_R_32F, 1, p[1], CUDA_R_32F, 1, p[2], CUDA_R_32F, CUDA_R_32F);
    }));
    const auto n = CUBLAS_OP_N;
    EXPECT(check(3, 2, [=](P p) { return cublasSgemv(h, n, 2, 2, p[3], p[0], 2, p[1], 1, p[4], p[2], 1); }));
    EXPECT(check(3, 2, [=](P p) { return cublasSgemm(h, n, n, 2, 2, 2, p[3], p[0], 2, p[1], 2, p[4], p[2], 2); }));
    EXPECT(check(3, 2, [=](P p) {
        return cublasSgemmStridedBatched(h, n, n, 2, 2, 2, p[3], p[0], 2, 4, p[1], 2, 4, p[4], p[2], 2, 4, 2);
    }));
    EXPECT(check(3, 2, [=](P p) {
        return cublasGemmEx(h, n, n, 2, 2, 2, p[3], p[0], CUDA_R_32F, 2, p[1], CUDA_R_32F, 2, p[4], p[2], CUDA_R_32F,
            2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    }));
    EXPECT(check(3, 2, [=](P p) {                          // the matrices, then the arrays of their addresses
        float **a = to_device(P{p[0]}), **b = to_device(P{p[1]}), **c = to_device(P{p[2]});
        return cublasSgemmBatched(h, n, n, 2, 2, 2, p[3], a, 2, b, 2, p[4], c, 2, 1);
    }));
    float *a = device[0], *b = device[1], *c = device[2];
    EXPECT(is_rejected(
        [&] { return cublasSgemmBatched(h, n, n, 2, 2, 2, host[3], &a, 2, &b, 2, host[4], &c, 2, 1); }));
    CALL(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_DEVICE));
    CALL(cublasSaxpy(h, 4, c, a, 1, b, 1));
    EXPECT(cublasSaxpy(h, 4, host[2], a, 1, b, 1) != CUBLAS_STATUS_SUCCESS);

    cublasLtHandle_t lt;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t l;
    CALL(cublasLtCreate(&lt));
    CALL(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    CALL(cublasLtMatrixLayoutCreate(&l, CUDA_R_32F, 2, 2, 2));
    const auto epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    const int64_t aux_ld = 2;
    CALL(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    CALL(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &aux_ld, sizeof aux_ld));
    EXPECT(check(6, 0, [=](P p) {
        const float one = 1;
        cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p[4], sizeof p[4]);
        cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &p[5], sizeof p[5]);
        return cublasLtMatmul(
            lt, product, &one, p[0], l, p[1], l, &one, p[2], l, p[3], l, nullptr, nullptr, 0, nullptr);
    }));
    const float one = 1, zero = 0;                         // C is not read
    const auto no_epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    CALL(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &no_epilogue, sizeof no_epilogue));
    CALL(cublasLtMatmul(lt, product, &one, a, l, b, l, &zero, nullptr, l, c, l, nullptr, nullptr, 0, nullptr));
    EXPECT(cublasLtMatmul(lt, product, device[3], a, l, b, l, &zero, c, l, c, l, nullptr, nullptr, 0, nullptr) != 0);

    auto *offsets = reinterpret_cast<float *>(to_device(std::vector<int>{0, 1, 2}));
    auto *columns = reinterpret_cast<float *>(to_device(std::vector<int>{0, 1}));
    cusparseHandle_t sparse;
    CALL(cusparseCreate(&sparse));
    EXPECT(requires_memory(5, {offsets, columns, device[2], device[3], device[4], device[5], device[0]},
        {host[0], host[1], host[2], host[3], host[4], host[5], host[0]}, [=](P p) {
            cusparseSpMatDescr_t m;
            cusparseDnVecDescr_t x, y;
            cusparseCreateCsr(&m, 2, 2, 2, p[0], p[1], p[2], CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F);
            cusparseCreateDnVec(&x, 2, p[3], CUDA_R_32F), cusparseCreateDnVec(&y, 2, p[4], CUDA_R_32F);
            return cusparseSpMV(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, p[5], m, x, p[6], y, CUDA_R_32F,
                CUSPARSE_SPMV_ALG_DEFAULT, nullptr);
        }));
    curandGenerator_t g;
    CALL(curandCreateGenerator(&g, CURAND_RNG_PSEUDO_DEFAULT));
    EXPECT(check(1, 0, [=](P p) { return curandGenerateUniform(g, p[0], 4); }));
    curandGenerator_t of_host;
    CALL(curandCreateGeneratorHost(&of_host, CURAND_RNG_PSEUDO_DEFAULT));
    EXPECT(check(0, 1, [=](P p) { return curandGenerateUniform(of_host, p[0], 4); }));
    cufftHandle plan;
    CALL(cufftPlan1d(&plan, 4, CUFFT_C2C, 1));
    EXPECT(check(2, 0, [=](P p) {
        return cufftExecC2C(plan, reinterpret_cast<cufftComplex *>(p[0]), reinterpret_cast<cufftComplex *>(p[1]),
            CUFFT_FORWARD);
    }));
    return true;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        selected_call = atoi(argv[1]);
        return transforms_of_real_values() && rejects_memory_of_the_other_processor() ? 0 : 1;
    }
    const bool passed[] = {transforms_in_two_axes(), transforms_of_real_values(), multiplies_sparse_matrices(),
        draws_random_values(), multiplies_with_epilogues(), is_captured(), rejects_memory_of_the_other_processor()};
    int status = 0, bit = 1;
    for (const bool ok : passed) status |= ok ? 0 : bit, bit *= 2;
    return status;
}
