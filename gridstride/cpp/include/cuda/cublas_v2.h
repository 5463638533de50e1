// cuBLAS for vectors and column-major matrices, computed by loops on the host.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>
#include "library_elements.h"

// Other headers test this macro.
#define CUBLAS_API_H_

enum cublasStatus_t {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_ARCH_MISMATCH = 8,
    CUBLAS_STATUS_MAPPING_ERROR = 11,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_INTERNAL_ERROR = 14,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
    CUBLAS_STATUS_LICENSE_ERROR = 16
};
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C };
enum cublasFillMode_t { CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER, CUBLAS_FILL_MODE_FULL };
enum cublasDiagType_t { CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT };
enum cublasSideMode_t { CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT };
enum cublasPointerMode_t { CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE };
enum cublasMath_t { CUBLAS_DEFAULT_MATH, CUBLAS_TENSOR_OP_MATH, CUBLAS_PEDANTIC_MATH, CUBLAS_TF32_TENSOR_OP_MATH };
enum cublasComputeType_t {
    CUBLAS_COMPUTE_16F = 64,
    CUBLAS_COMPUTE_16F_PEDANTIC = 65,
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_32F_PEDANTIC = 69,
    CUBLAS_COMPUTE_64F = 70,
    CUBLAS_COMPUTE_64F_PEDANTIC = 71,
    CUBLAS_COMPUTE_32I = 72,
    CUBLAS_COMPUTE_32I_PEDANTIC = 73,
    CUBLAS_COMPUTE_32F_FAST_16F = 74,
    CUBLAS_COMPUTE_32F_FAST_16BF = 75,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77
};
enum cublasGemmAlgo_t {
    CUBLAS_GEMM_DFALT = -1,
    CUBLAS_GEMM_DEFAULT = -1,
    CUBLAS_GEMM_DFALT_TENSOR_OP = 99,
    CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99
};
struct cublasContext { cublasPointerMode_t mode; cudaStream_t stream; };
typedef cublasContext *cublasHandle_t;

inline cublasStatus_t cublasCreate(cublasHandle_t *h) {
    *h = new cublasContext{CUBLAS_POINTER_MODE_HOST, nullptr};
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasDestroy(cublasHandle_t h) { delete h; return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasSetStream(cublasHandle_t h, cudaStream_t s) {
    h->stream = s;
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasGetStream(cublasHandle_t h, cudaStream_t *s) {
    *s = h->stream;
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasGetVersion(cublasHandle_t, int *version) {
    *version = 130000;
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasSetWorkspace(cublasHandle_t, void *, size_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasSetPointerMode(cublasHandle_t h, cublasPointerMode_t mode) {
    h->mode = mode;
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
inline const char *cublasGetStatusName(cublasStatus_t s) {
    return s == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_INVALID_VALUE";
}
inline const char *cublasGetStatusString(cublasStatus_t s) {
    return s == CUBLAS_STATUS_SUCCESS ? "success" : "an argument is not valid";
}

namespace gridstride {
namespace blas {
using namespace library;
template <class F> cublasStatus_t apply_to_indices(int n, F f) {
    DeviceAccessScope access;
    for (int i = 0; i < n; i++) f(i);
    return CUBLAS_STATUS_SUCCESS;
}
template <class T> struct Matrix {                       // op(a)
    const T *a;
    int ld;
    bool transposed;
    T operator()(int row, int column) const {
        return transposed ? a[size_t(row) * size_t(ld) + size_t(column)] : a[size_t(column) * size_t(ld) + size_t(row)];
    }
};
template <class T, class F> T sum(int n, F f) {
    double res = 0;
    for (int i = 0; i < n; i++) res += double(f(i));
    return T(res);
}
template <class T> cublasStatus_t gemv(
    bool transposed, int m, int n, T alpha, const T *a, int lda, const T *x, int incx, T beta, T *y, int incy) {
    const Matrix<T> op{a, lda, transposed};
    const int rows = transposed ? n : m, columns = transposed ? m : n;
    return apply_to_indices(rows, [&](int r) {
        const T product = alpha * sum<T>(columns, [&](int c) { return double(op(r, c)) * double(x[c * incx]); });
        y[r * incy] = beta == T(0) ? product : product + beta * y[r * incy];
    });
}
// Returns the index, counted from 1, of the element with the largest or smallest absolute value.
template <class T> int extreme_index(int n, const T *x, int incx, bool smallest) {
    int best = 0;
    apply_to_indices(n, [&](int i) {
        const T value = std::abs(x[i * incx]), best_value = std::abs(x[best * incx]);
        if (smallest ? value < best_value : value > best_value) best = i;
    });
    return n > 0 ? best + 1 : 0;
}
template <class T> cublasStatus_t store_result(T *to, T value) {
    DeviceAccessScope access;
    *to = value;
    return CUBLAS_STATUS_SUCCESS;
}
// A scalar in host memory is read when the function is called, one in device memory when the operation runs.
template <class T> struct Scalar {
    const T *p;
    T value;
    explicit Scalar(const T *at) : p(is_device(at) ? at : nullptr), value(p ? T() : *at) {}
    T get() const { return p ? load_scalar(p) : value; }
};
template <class T> Scalar<T> scalar_at(const T *at) { return Scalar<T>(at); }
// Returns the first element of a vector, which must be in device memory; later ones are checked when they are accessed.
template <class T> Array vector_at(int n, const T *x) { return {x, n > 0 ? sizeof(T) : 0, false}; }
inline bool are_scalars(cublasHandle_t h, std::initializer_list<const void *> scalars) {
    return std::all_of(scalars.begin(), scalars.end(),
        [h](const void *p) { return is_scalar_in(h->mode == CUBLAS_POINTER_MODE_DEVICE, p); });
}
// Runs `f`; on a captured stream, adds it to the graph. `scalars`: the addresses of factors and results.
template <class F> cublasStatus_t run_in_stream(cublasHandle_t h, std::initializer_list<Array> arrays,
    std::initializer_list<const void *> scalars, F f) {
    if (!are_on_device(arrays) || !are_scalars(h, scalars)) return CUBLAS_STATUS_INVALID_VALUE;
    if (is_any_stream_captured() && defer(h->stream, NodeKind::kernel, [f] { return f(), 0; }))
        return CUBLAS_STATUS_SUCCESS;
    return f();
}
template <class T> cublasStatus_t find_extreme(
    cublasHandle_t h, int n, const T *x, int incx, int *result, bool smallest) {
    if (!are_on_device({vector_at(n, x)}) || !are_scalars(h, {result})) return CUBLAS_STATUS_INVALID_VALUE;
    return store_result(result, extreme_index(n, x, incx, smallest));
}
template <class T> cublasStatus_t copy(
    int n, size_t item_bytes, const void *from, int stride, void *to, int to_stride, T kind, int line) {
    const StreamOperation operation("cudaMemcpy", nullptr, line, true);
    for (int i = 0; i < n; i++)
        cudaMemcpy(static_cast<char *>(to) + size_t(i) * size_t(to_stride) * item_bytes,
            static_cast<const char *>(from) + size_t(i) * size_t(stride) * item_bytes, item_bytes, kind);
    return CUBLAS_STATUS_SUCCESS;
}
}
}

#define GRIDSTRIDE_BLAS(S, T, I) \
    inline cublasStatus_t cublas##S##axpy( \
        cublasHandle_t h, int n, const T *alpha, const T *x, int incx, T *y, int incy) { \
        using namespace gridstride::blas; \
        return run_in_stream(h, {vector_at(n, x), vector_at(n, y)}, {alpha}, [=, alpha_scalar = scalar_at(alpha)] { \
            const T a = alpha_scalar.get(); \
            return apply_to_indices(n, [&](int i) { y[i * incy] += a * x[i * incx]; }); \
        }); \
    } \
    inline cublasStatus_t cublas##S##copy(cublasHandle_t h, int n, const T *x, int incx, T *y, int incy) { \
        using namespace gridstride::blas; \
        return run_in_stream(h, {vector_at(n, x), vector_at(n, y)}, {}, [=] { \
            return apply_to_indices(n, [&](int i) { y[i * incy] = x[i * incx]; }); \
        }); \
    } \
    inline cublasStatus_t cublas##S##swap(cublasHandle_t h, int n, T *x, int incx, T *y, int incy) { \
        using namespace gridstride::blas; \
        return run_in_stream(h, {vector_at(n, x), vector_at(n, y)}, {}, [=] { \
            return apply_to_indices(n, [&](int i) { std::swap(x[i * incx], y[i * incy]); }); \
        }); \
    } \
    inline cublasStatus_t cublas##S##scal(cublasHandle_t h, int n, const T *alpha, T *x, int incx) { \
        using namespace gridstride::blas; \
        return run_in_stream(h, {vector_at(n, x)}, {alpha}, [=, alpha_scalar = scalar_at(alpha)] { \
            const T a = alpha_scalar.get(); \
            return apply_to_indices(n, [&](int i) { x[i * incx] *= a; }); \
        }); \
    } \
    inline cublasStatus_t cublas##S##dot( \
        cublasHandle_t h, int n, const T *x, int incx, const T *y, int incy, T *result) { \
        using namespace gridstride::blas; \
        return run_in_stream(h, {vector_at(n, x), vector_at(n, y)}, {result}, [=] { \
            DeviceAccessScope access; \
            return store_result(result, \
                gridstride::blas::sum<T>(n, [&](int i) { return double(x[i * incx]) * double(y[i * incy]); })); \
        }); \
    } \
    inline cublasStatus_t cublas##S##nrm2(cublasHandle_t h, int n, const T *x, int incx, T *result) { \
        using namespace gridstride::blas; \
        return run_in_stream(h, {vector_at(n, x)}, {result}, [=] { \
            DeviceAccessScope access; \
            return store_result(result, T(std::sqrt(gridstride::blas::sum<double>(n, [&](int i) { \
                return double(x[i * incx]) * double(x[i * incx]); \
            })))); \
        }); \
    } \
    inline cublasStatus_t cublas##S##asum(cublasHandle_t h, int n, const T *x, int incx, T *result) { \
        using namespace gridstride::blas; \
        return run_in_stream(h, {vector_at(n, x)}, {result}, [=] { \
            DeviceAccessScope access; \
            return store_result( \
                result, gridstride::blas::sum<T>(n, [&](int i) { return std::abs(x[i * incx]); })); \
        }); \
    } \
    inline cublasStatus_t cublasI##I##amax(cublasHandle_t h, int n, const T *x, int incx, int *result) { \
        return gridstride::blas::find_extreme(h, n, x, incx, result, false); \
    } \
    inline cublasStatus_t cublasI##I##amin(cublasHandle_t h, int n, const T *x, int incx, int *result) { \
        return gridstride::blas::find_extreme(h, n, x, incx, result, true); \
    } \
    inline cublasStatus_t cublas##S##gemv(cublasHandle_t h, cublasOperation_t op, int m, int n, const T *alpha, \
        const T *a, int lda, const T *x, int incx, const T *beta, T *y, int incy) { \
        using namespace gridstride::blas; \
        const bool transposed = op != CUBLAS_OP_N; \
        const auto arrays = {vector_at(std::min(m, n), a), vector_at(transposed ? m : n, x), \
            vector_at(transposed ? n : m, y)}; \
        const auto alpha_scalar = scalar_at(alpha), beta_scalar = scalar_at(beta); \
        return run_in_stream(h, arrays, {alpha, beta}, [=] { \
            const T alpha_value = alpha_scalar.get(), beta_value = beta_scalar.get(); \
            return gridstride::blas::gemv(transposed, m, n, alpha_value, a, lda, x, incx, beta_value, y, incy); \
        }); \
    }
GRIDSTRIDE_BLAS(S, float, s)
GRIDSTRIDE_BLAS(D, double, d)
#undef GRIDSTRIDE_BLAS

namespace gridstride {
namespace blas {
template <class T> double to_double(T x) {
    if constexpr (std::is_same_v<T, double>) return x;
    else return double(float(x));
}
template <class T> cublasStatus_t dot(
    cublasHandle_t h, int n, const void *x, int incx, const void *y, int incy, void *result) {
    const auto arrays = {vector_at(n, static_cast<const T *>(x)), vector_at(n, static_cast<const T *>(y))};
    if (!are_on_device(arrays) || !are_scalars(h, {result})) return CUBLAS_STATUS_INVALID_VALUE;
    DeviceAccessScope access;
    double res = 0;
    for (int i = 0; i < n; i++)
        res += to_double(static_cast<const T *>(x)[i * incx]) * to_double(static_cast<const T *>(y)[i * incy]);
    if constexpr (std::is_same_v<T, double>) return store_result(static_cast<T *>(result), res);
    else return store_result(static_cast<T *>(result), T(float(res)));
}
}
}
inline cublasStatus_t cublasDotEx(cublasHandle_t h, int n, const void *x, cudaDataType type, int incx, const void *y,
    cudaDataType type_y, int incy, void *result, cudaDataType result_type, cudaDataType) {
    if (type != type_y || type != result_type) return CUBLAS_STATUS_NOT_SUPPORTED;
    switch (type) {
        case CUDA_R_32F: return gridstride::blas::dot<float>(h, n, x, incx, y, incy, result);
        case CUDA_R_64F: return gridstride::blas::dot<double>(h, n, x, incx, y, incy, result);
        case CUDA_R_16F: return gridstride::blas::dot<__half>(h, n, x, incx, y, incy, result);
        case CUDA_R_16BF: return gridstride::blas::dot<__nv_bfloat16>(h, n, x, incx, y, incy, result);
        default: return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

inline cublasStatus_t cublasSetVector(
    int n, int bytes, const void *x, int incx, void *y, int incy, int line = __builtin_LINE()) {
    return gridstride::blas::copy(n, size_t(bytes), x, incx, y, incy, cudaMemcpyHostToDevice, line);
}
inline cublasStatus_t cublasGetVector(
    int n, int bytes, const void *x, int incx, void *y, int incy, int line = __builtin_LINE()) {
    return gridstride::blas::copy(n, size_t(bytes), x, incx, y, incy, cudaMemcpyDeviceToHost, line);
}
inline cublasStatus_t cublasSetMatrix(int rows, int columns, int bytes, const void *a, int lda, void *b, int ldb,
    int line = __builtin_LINE()) {
    cudaMemcpy2D(b, size_t(ldb) * size_t(bytes), a, size_t(lda) * size_t(bytes), size_t(rows) * size_t(bytes),
        size_t(columns), cudaMemcpyHostToDevice, line);
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasGetMatrix(int rows, int columns, int bytes, const void *a, int lda, void *b, int ldb,
    int line = __builtin_LINE()) {
    cudaMemcpy2D(b, size_t(ldb) * size_t(bytes), a, size_t(lda) * size_t(bytes), size_t(rows) * size_t(bytes),
        size_t(columns), cudaMemcpyDeviceToHost, line);
    return CUBLAS_STATUS_SUCCESS;
}

// GEMM for matrices of any type. The compute type is that of alpha and beta; accumulation is in double.
namespace gridstride {
namespace blas {
inline cudaDataType scalar_type(cublasComputeType_t compute) {
    switch (compute) {
        case CUBLAS_COMPUTE_16F: case CUBLAS_COMPUTE_16F_PEDANTIC: return CUDA_R_16F;
        case CUBLAS_COMPUTE_64F: case CUBLAS_COMPUTE_64F_PEDANTIC: return CUDA_R_64F;
        case CUBLAS_COMPUTE_32I: case CUBLAS_COMPUTE_32I_PEDANTIC: return CUDA_R_32I;
        default: return CUDA_R_32F;
    }
}
struct Gemm {                                 // c = alpha * op(a) @ op(b) + beta * c, column-major
    cublasOperation_t op_a, op_b;
    int m, n, k;
    cudaDataType type_a, type_b, type_c, type_scalar;
    int lda, ldb, ldc;

    GRIDSTRIDE_NO_TSAN static std::vector<double> columns(
        bool transposed, cudaDataType type, const void *p, int ld, int rows, int num_columns) {
        std::vector<double> res(size_t(rows) * size_t(num_columns));
        double *to = res.data();
        for (int column = 0; column < num_columns; column++)
            for (int row = 0; row < rows; row++)
                *to++ = read_element(type, p,
                    transposed ? size_t(row) * size_t(ld) + size_t(column)
                               : size_t(column) * size_t(ld) + size_t(row));
        return res;
    }
    // Accumulates one column of the result in `accumulators`.
    GRIDSTRIDE_NO_TSAN static void add_column(
        double *accumulators, const double *left, const double *factors, int rows, int inner) {
        for (int i = 0; i < inner; i++)
            for (int row = 0; row < rows; row++)
                accumulators[row] += left[size_t(i) * size_t(rows) + size_t(row)] * factors[i];
    }
    bool is_supported() const { return bytes_of(type_a) && bytes_of(type_b) && bytes_of(type_c); }
    // Calls `store(row, column, accumulator)` per element of the product.
    template <class F> void visit(bool transpose_a, bool transpose_b, const void *a, const void *b, F store) const {
        const auto left = columns(transpose_a, type_a, a, lda, m, k);
        const auto right = columns(transpose_b, type_b, b, ldb, k, n);
        std::vector<double> accumulators(static_cast<size_t>(m));
        for (int column = 0; column < n; column++) {
            std::fill(accumulators.begin(), accumulators.end(), 0.0);
            add_column(accumulators.data(), left.data(), right.data() + size_t(column) * size_t(k), m, k);
            for (int row = 0; row < m; row++) store(row, column, accumulators[size_t(row)]);
        }
    }
    static Array matrix(const void *p, cudaDataType type, int ld, int rows, int num_columns, bool is_written = false) {
        const size_t elements = rows && num_columns ? size_t(num_columns - 1) * size_t(ld) + size_t(rows) : 0;
        return {p, elements * size_t(bytes_of(type)), is_written};
    }
    cublasStatus_t validate(const void *a, const void *b, const void *c) const {
        if (!is_supported()) return CUBLAS_STATUS_NOT_SUPPORTED;
        const bool plain_a = op_a == CUBLAS_OP_N, plain_b = op_b == CUBLAS_OP_N;
        if (m < 0 || n < 0 || k < 0 || lda < (plain_a ? m : k) || ldb < (plain_b ? k : n) || ldc < m)
            return CUBLAS_STATUS_INVALID_VALUE;
        const bool is_valid = are_on_device({matrix(a, type_a, lda, plain_a ? m : k, plain_a ? k : m),
            matrix(b, type_b, ldb, plain_b ? k : n, plain_b ? n : k), matrix(c, type_c, ldc, m, n, true)});
        return is_valid ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
    }
    cublasStatus_t run(const void *alpha, const void *a, const void *b, const void *beta, void *c) const {
        if (const cublasStatus_t status = validate(a, b, c)) return status;
        DeviceAccessScope access;
        const double alpha_value = read_element(type_scalar, alpha, 0), beta_value = read_element(type_scalar, beta, 0);
        visit(op_a != CUBLAS_OP_N, op_b != CUBLAS_OP_N, a, b, [&](int row, int column, double accumulator) {
            const size_t index = size_t(column) * size_t(ldc) + size_t(row);
            const double beta_c = beta_value == 0 ? 0 : beta_value * read_element(type_c, c, index);
            write_element(type_c, c, index, alpha_value * accumulator + beta_c);
        });
        mark_initialized(c, matrix(c, type_c, ldc, m, n).bytes);
        return CUBLAS_STATUS_SUCCESS;
    }
    // `a`, `b` and `c` are functions that return the address of matrix `i`.
    template <class F> cublasStatus_t run_batch(
        cublasHandle_t h, const void *alpha, F a, F b, const void *beta, F c, int count) const {
        if (!are_scalars(h, {alpha, beta})) return CUBLAS_STATUS_INVALID_VALUE;
        for (int i = 0; i < count; i++)
            if (const cublasStatus_t status = run(alpha, a(i), b(i), beta, const_cast<void *>(c(i)))) return status;
        return CUBLAS_STATUS_SUCCESS;
    }
};
inline cublasStatus_t run_product(cublasHandle_t h, const Gemm &gemm, const void *alpha, const void *a, const void *b,
    const void *beta, void *c) {
    return are_scalars(h, {alpha, beta}) ? gemm.run(alpha, a, b, beta, c) : CUBLAS_STATUS_INVALID_VALUE;
}
inline auto strided_batch(const void *p, long long stride, cudaDataType type) {
    return std::function<const void *(int)>(
        [=](int i) { return static_cast<const char *>(p) + i * stride * bytes_of(type); });
}
inline bool are_pointers_on_device(std::initializer_list<const void *> arrays_of_pointers, int count) {
    return std::all_of(arrays_of_pointers.begin(), arrays_of_pointers.end(), [count](const void *pointers) {
        return are_on_device({{pointers, size_t(std::max(count, 0)) * sizeof(void *), false}});
    });
}
inline auto pointer_array(const void *const *pointers) {  // an array of pointers in device memory
    return std::function<const void *(int)>([=](int i) { return load_scalar(pointers + i); });
}
}
}
inline cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
    int k, const void *alpha, const void *a, cudaDataType type_a, int lda, const void *b, cudaDataType type_b, int ldb,
    const void *beta, void *c, cudaDataType type_c, int ldc, cublasComputeType_t compute, cublasGemmAlgo_t) {
    using namespace gridstride::blas;
    return run_product(
        h, {op_a, op_b, m, n, k, type_a, type_b, type_c, scalar_type(compute), lda, ldb, ldc}, alpha, a, b, beta, c);
}
inline cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
    int k, const void *alpha, const void *a, cudaDataType type_a, int lda, const void *b, cudaDataType type_b, int ldb,
    const void *beta, void *c, cudaDataType type_c, int ldc, cudaDataType compute, cublasGemmAlgo_t) {
    using namespace gridstride::blas;
    return run_product(h, {op_a, op_b, m, n, k, type_a, type_b, type_c, compute, lda, ldb, ldc}, alpha, a, b, beta, c);
}
inline cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b,
    int m, int n, int k, const void *alpha, const void *a, cudaDataType type_a, int lda, long long stride_a,
    const void *b, cudaDataType type_b, int ldb, long long stride_b, const void *beta, void *c, cudaDataType type_c,
    int ldc, long long stride_c, int count, cublasComputeType_t compute, cublasGemmAlgo_t) {
    using namespace gridstride::blas;
    return Gemm{op_a, op_b, m, n, k, type_a, type_b, type_c, scalar_type(compute), lda, ldb, ldc}.run_batch(h, alpha,
        strided_batch(a, stride_a, type_a), strided_batch(b, stride_b, type_b), beta,
        strided_batch(c, stride_c, type_c), count);
}
inline cublasStatus_t cublasGemmBatchedEx(cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m,
    int n, int k, const void *alpha, const void *const a[], cudaDataType type_a, int lda, const void *const b[],
    cudaDataType type_b, int ldb, const void *beta, void *const c[], cudaDataType type_c, int ldc, int count,
    cublasComputeType_t compute, cublasGemmAlgo_t) {
    using namespace gridstride::blas;
    if (!are_pointers_on_device({a, b, c}, count)) return CUBLAS_STATUS_INVALID_VALUE;
    return Gemm{op_a, op_b, m, n, k, type_a, type_b, type_c, scalar_type(compute), lda, ldb, ldc}.run_batch(
        h, alpha, pointer_array(a), pointer_array(b), beta, pointer_array(c), count);
}
#define GRIDSTRIDE_BLAS_BATCHED(S, T, kind) \
    inline cublasStatus_t cublas##S##gemm(cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m, \
        int n, int k, const T *alpha, const T *a, int lda, const T *b, int ldb, const T *beta, T *c, int ldc) { \
        using namespace gridstride::blas; \
        const Gemm gemm{op_a, op_b, m, n, k, kind, kind, kind, kind, lda, ldb, ldc}; \
        if (const cublasStatus_t status = gemm.validate(a, b, c)) return status; \
        const auto alpha_scalar = scalar_at(alpha), beta_scalar = scalar_at(beta); \
        return run_in_stream(h, {}, {alpha, beta}, [=] { \
            const T alpha_value = alpha_scalar.get(), beta_value = beta_scalar.get(); \
            return gemm.run(&alpha_value, a, b, &beta_value, c); \
        }); \
    } \
    inline cublasStatus_t cublas##S##gemmStridedBatched(cublasHandle_t h, cublasOperation_t op_a, \
        cublasOperation_t op_b, int m, int n, int k, const T *alpha, const T *a, int lda, long long stride_a, \
        const T *b, int ldb, long long stride_b, const T *beta, T *c, int ldc, long long stride_c, int count) { \
        for (int i = 0; i < count; i++) \
            if (const cublasStatus_t status = cublas##S##gemm(h, op_a, op_b, m, n, k, alpha, a + i * stride_a, lda, \
                    b + i * stride_b, ldb, beta, c + i * stride_c, ldc)) \
                return status; \
        return CUBLAS_STATUS_SUCCESS; \
    } \
    inline cublasStatus_t cublas##S##gemmBatched(cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, \
        int m, int n, int k, const T *alpha, const T *const a[], int lda, const T *const b[], int ldb, \
        const T *beta, T *const c[], int ldc, int count) { \
        using namespace gridstride::blas; \
        const auto matrices = [](auto p) { return pointer_array(reinterpret_cast<const void *const *>(p)); }; \
        if (!are_pointers_on_device({a, b, c}, count)) return CUBLAS_STATUS_INVALID_VALUE; \
        return Gemm{op_a, op_b, m, n, k, kind, kind, kind, kind, lda, ldb, ldc}.run_batch( \
            h, alpha, matrices(a), matrices(b), beta, matrices(c), count); \
    }
GRIDSTRIDE_BLAS_BATCHED(S, float, CUDA_R_32F)
GRIDSTRIDE_BLAS_BATCHED(D, double, CUDA_R_64F)
GRIDSTRIDE_BLAS_BATCHED(H, __half, CUDA_R_16F)
#undef GRIDSTRIDE_BLAS_BATCHED
inline cublasStatus_t cublasSgemmEx(cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
    int k, const float *alpha, const void *a, cudaDataType type_a, int lda, const void *b, cudaDataType type_b, int ldb,
    const float *beta, void *c, cudaDataType type_c, int ldc) {
    return cublasGemmEx(h, op_a, op_b, m, n, k, alpha, a, type_a, lda, b, type_b, ldb, beta, c, type_c, ldc,
        CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}
