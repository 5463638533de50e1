// cuSPARSE: products of CSR, CSC and COO matrices with dense vectors and matrices; accumulation is in double.
#pragma once
#include "library_elements.h"

// Other headers test this macro.
#define CUSPARSEAPI

enum cusparseStatus_t {
    CUSPARSE_STATUS_SUCCESS = 0,
    CUSPARSE_STATUS_NOT_INITIALIZED = 1,
    CUSPARSE_STATUS_ALLOC_FAILED = 2,
    CUSPARSE_STATUS_INVALID_VALUE = 3,
    CUSPARSE_STATUS_ARCH_MISMATCH = 4,
    CUSPARSE_STATUS_MAPPING_ERROR = 5,
    CUSPARSE_STATUS_EXECUTION_FAILED = 6,
    CUSPARSE_STATUS_INTERNAL_ERROR = 7,
    CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED = 8,
    CUSPARSE_STATUS_ZERO_PIVOT = 9,
    CUSPARSE_STATUS_NOT_SUPPORTED = 10,
    CUSPARSE_STATUS_INSUFFICIENT_RESOURCES = 11
};
enum cusparsePointerMode_t { CUSPARSE_POINTER_MODE_HOST, CUSPARSE_POINTER_MODE_DEVICE };
enum cusparseOperation_t {
    CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_TRANSPOSE, CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE
};
enum cusparseIndexBase_t { CUSPARSE_INDEX_BASE_ZERO, CUSPARSE_INDEX_BASE_ONE };
enum cusparseIndexType_t { CUSPARSE_INDEX_16U = 1, CUSPARSE_INDEX_32I = 2, CUSPARSE_INDEX_64I = 3 };
enum cusparseOrder_t { CUSPARSE_ORDER_COL = 1, CUSPARSE_ORDER_ROW = 2 };
enum cusparseFormat_t { CUSPARSE_FORMAT_CSR = 1, CUSPARSE_FORMAT_CSC = 2, CUSPARSE_FORMAT_COO = 3 };
enum cusparseSpMVAlg_t {
    CUSPARSE_SPMV_ALG_DEFAULT = 0,
    CUSPARSE_SPMV_COO_ALG1 = 1,
    CUSPARSE_SPMV_CSR_ALG1 = 2,
    CUSPARSE_SPMV_CSR_ALG2 = 3,
    CUSPARSE_SPMV_COO_ALG2 = 4,
    CUSPARSE_MV_ALG_DEFAULT = 0
};
enum cusparseSpMMAlg_t {
    CUSPARSE_SPMM_ALG_DEFAULT = 0,
    CUSPARSE_SPMM_COO_ALG1 = 1,
    CUSPARSE_SPMM_COO_ALG2 = 2,
    CUSPARSE_SPMM_COO_ALG3 = 3,
    CUSPARSE_SPMM_CSR_ALG1 = 4,
    CUSPARSE_SPMM_COO_ALG4 = 5,
    CUSPARSE_SPMM_CSR_ALG2 = 6,
    CUSPARSE_SPMM_CSR_ALG3 = 12
};
enum cusparseMatrixType_t {
    CUSPARSE_MATRIX_TYPE_GENERAL, CUSPARSE_MATRIX_TYPE_SYMMETRIC, CUSPARSE_MATRIX_TYPE_HERMITIAN,
    CUSPARSE_MATRIX_TYPE_TRIANGULAR
};
struct cusparseContext { cudaStream_t stream; cusparsePointerMode_t mode; };
typedef cusparseContext *cusparseHandle_t;
struct cusparseMatDescr { cusparseMatrixType_t type; cusparseIndexBase_t base; };
typedef cusparseMatDescr *cusparseMatDescr_t;

struct cusparseSpMatDescr {
    int64_t rows, columns, nonzeros;
    void *row_indices, *column_indices, *values;          // for CSR (CSC), row_indices (column_indices) has the offsets
    cusparseIndexType_t row_type, column_type;
    cusparseIndexBase_t base;
    cudaDataType type;
    cusparseFormat_t format;
};
struct cusparseDnMatDescr {                                // a vector has one column
    int64_t rows, columns, ld;
    void *values;
    cudaDataType type;
    cusparseOrder_t order;
};
typedef cusparseSpMatDescr *cusparseSpMatDescr_t;
typedef const cusparseSpMatDescr *cusparseConstSpMatDescr_t;
typedef cusparseDnMatDescr *cusparseDnMatDescr_t;
typedef const cusparseDnMatDescr *cusparseConstDnMatDescr_t;
struct cusparseDnVecDescr : cusparseDnMatDescr {};
typedef cusparseDnVecDescr *cusparseDnVecDescr_t;
typedef const cusparseDnVecDescr *cusparseConstDnVecDescr_t;

inline cusparseStatus_t cusparseCreate(cusparseHandle_t *h) {
    *h = new cusparseContext{nullptr, CUSPARSE_POINTER_MODE_HOST};
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseDestroy(cusparseHandle_t h) { delete h; return CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseSetStream(cusparseHandle_t h, cudaStream_t s) {
    h->stream = s;
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseGetStream(cusparseHandle_t h, cudaStream_t *s) {
    *s = h->stream;
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseSetPointerMode(cusparseHandle_t h, cusparsePointerMode_t mode) {
    h->mode = mode;
    return CUSPARSE_STATUS_SUCCESS;
}
inline const char *cusparseGetErrorName(cusparseStatus_t s) {
    return s == CUSPARSE_STATUS_SUCCESS ? "CUSPARSE_STATUS_SUCCESS" : "CUSPARSE_STATUS_INVALID_VALUE";
}
inline const char *cusparseGetErrorString(cusparseStatus_t s) {
    return s == CUSPARSE_STATUS_SUCCESS ? "success" : "an argument is not valid";
}
inline cusparseStatus_t cusparseCreateMatDescr(cusparseMatDescr_t *d) {
    *d = new cusparseMatDescr{CUSPARSE_MATRIX_TYPE_GENERAL, CUSPARSE_INDEX_BASE_ZERO};
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseDestroyMatDescr(cusparseMatDescr_t d) { delete d; return CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseSetMatType(cusparseMatDescr_t d, cusparseMatrixType_t type) {
    d->type = type;
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseSetMatIndexBase(cusparseMatDescr_t d, cusparseIndexBase_t base) {
    d->base = base;
    return CUSPARSE_STATUS_SUCCESS;
}

inline cusparseStatus_t cusparseCreateCsr(cusparseSpMatDescr_t *m, int64_t rows, int64_t columns, int64_t nonzeros,
    void *offsets, void *indices, void *values, cusparseIndexType_t offset_type, cusparseIndexType_t index_type,
    cusparseIndexBase_t base, cudaDataType type) {
    *m = new cusparseSpMatDescr{rows, columns, nonzeros, offsets, indices, values, offset_type, index_type, base, type,
        CUSPARSE_FORMAT_CSR};
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseCreateCsc(cusparseSpMatDescr_t *m, int64_t rows, int64_t columns, int64_t nonzeros,
    void *offsets, void *indices, void *values, cusparseIndexType_t offset_type, cusparseIndexType_t index_type,
    cusparseIndexBase_t base, cudaDataType type) {
    *m = new cusparseSpMatDescr{rows, columns, nonzeros, indices, offsets, values, index_type, offset_type, base, type,
        CUSPARSE_FORMAT_CSC};
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseCreateCoo(cusparseSpMatDescr_t *m, int64_t rows, int64_t columns, int64_t nonzeros,
    void *row_indices, void *column_indices, void *values, cusparseIndexType_t index_type, cusparseIndexBase_t base,
    cudaDataType type) {
    *m = new cusparseSpMatDescr{rows, columns, nonzeros, row_indices, column_indices, values, index_type, index_type,
        base, type, CUSPARSE_FORMAT_COO};
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseDestroySpMat(cusparseConstSpMatDescr_t m) { delete m; return CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseCsrSetPointers(
    cusparseSpMatDescr_t m, void *offsets, void *indices, void *values) {
    m->row_indices = offsets, m->column_indices = indices, m->values = values;
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseSpMatSetValues(cusparseSpMatDescr_t m, void *values) {
    m->values = values;
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseSpMatGetSize(
    cusparseConstSpMatDescr_t m, int64_t *rows, int64_t *columns, int64_t *nonzeros) {
    *rows = m->rows, *columns = m->columns, *nonzeros = m->nonzeros;
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseCreateDnVec(cusparseDnVecDescr_t *v, int64_t n, void *values, cudaDataType type) {
    *v = new cusparseDnVecDescr{{n, 1, n, values, type, CUSPARSE_ORDER_COL}};
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseDestroyDnVec(cusparseConstDnVecDescr_t v) { delete v; return CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseDnVecSetValues(cusparseDnVecDescr_t v, void *values) {
    v->values = values;
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseDnVecGetValues(cusparseDnVecDescr_t v, void **values) {
    *values = v->values;
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseCreateDnMat(cusparseDnMatDescr_t *m, int64_t rows, int64_t columns, int64_t ld,
    void *values, cudaDataType type, cusparseOrder_t order) {
    if (ld < (order == CUSPARSE_ORDER_COL ? rows : columns)) return CUSPARSE_STATUS_INVALID_VALUE;
    *m = new cusparseDnMatDescr{rows, columns, ld, values, type, order};
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseDestroyDnMat(cusparseConstDnMatDescr_t m) { delete m; return CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseDnMatSetValues(cusparseDnMatDescr_t m, void *values) {
    m->values = values;
    return CUSPARSE_STATUS_SUCCESS;
}

namespace gridstride {
namespace sparse {
GRIDSTRIDE_NO_TSAN inline int64_t read_index(cusparseIndexType_t type, const void *p, int64_t i) {
    return type == CUSPARSE_INDEX_64I ? static_cast<const int64_t *>(p)[i]
         : type == CUSPARSE_INDEX_32I ? static_cast<const int *>(p)[i] : static_cast<const unsigned short *>(p)[i];
}
inline size_t bytes_of_index(cusparseIndexType_t type) { return type == CUSPARSE_INDEX_64I ? 8 : 2 * type; }
GRIDSTRIDE_NO_TSAN inline size_t index_of(const cusparseDnMatDescr &m, int64_t row, int64_t column) {
    return size_t(m.order == CUSPARSE_ORDER_COL ? column * m.ld + row : row * m.ld + column);
}
// Calls `f(row, column, value)` per nonzero; returns false if an index is out of bounds.
template <class F> GRIDSTRIDE_NO_TSAN bool visit_nonzeros(const cusparseSpMatDescr &m, F f) {
    const bool is_csc = m.format == CUSPARSE_FORMAT_CSC, is_coo = m.format == CUSPARSE_FORMAT_COO;
    const void *const offsets = is_csc ? m.column_indices : m.row_indices;
    const void *const indices = is_csc ? m.row_indices : m.column_indices;
    const cusparseIndexType_t offset_type = is_csc ? m.column_type : m.row_type,
                              index_type = is_csc ? m.row_type : m.column_type;
    const int64_t num_slices = is_coo ? m.nonzeros : is_csc ? m.columns : m.rows;  // a slice: a row, column or element
    for (int64_t slice = 0; slice < num_slices; slice++) {
        const int64_t first = is_coo ? slice : read_index(offset_type, offsets, slice) - m.base;
        const int64_t end = is_coo ? slice + 1 : read_index(offset_type, offsets, slice + 1) - m.base;
        if (first < 0 || end > m.nonzeros) return false;
        for (int64_t i = first; i < end; i++) {
            const int64_t major = is_coo ? read_index(offset_type, offsets, i) - m.base : slice,
                          minor = read_index(index_type, indices, i) - m.base;
            const int64_t row = is_csc ? minor : major, column = is_csc ? major : minor;
            if (row < 0 || row >= m.rows || column < 0 || column >= m.columns) return false;
            f(row, column, library::read_element(m.type, m.values, size_t(i)));
        }
    }
    return true;
}
inline size_t entries(int64_t num_slices, const cusparseSpMatDescr &m, bool is_compressed) {
    return size_t(is_compressed ? num_slices + 1 : m.nonzeros);
}
inline std::vector<library::Array> arrays_of(const cusparseSpMatDescr &m) {
    const size_t rows = entries(m.rows, m, m.format == CUSPARSE_FORMAT_CSR),
                 columns = entries(m.columns, m, m.format == CUSPARSE_FORMAT_CSC);
    return {{m.row_indices, rows * bytes_of_index(m.row_type), false},
        {m.column_indices, columns * bytes_of_index(m.column_type), false},
        {m.values, size_t(m.nonzeros) * size_t(library::bytes_of(m.type)), false}};
}
inline library::Array array_of(const cusparseDnMatDescr &m, bool is_written) {
    const size_t elements = m.rows && m.columns ? index_of(m, m.rows - 1, m.columns - 1) + 1 : 0;
    return {m.values, elements * size_t(library::bytes_of(m.type)), is_written};
}
struct SpMM {                                 // c = alpha * op(a) @ op(b) + beta * c
    cusparseSpMatDescr a;
    cusparseDnMatDescr b, c;
    bool transpose_a, transpose_b;
    double alpha, beta;

    GRIDSTRIDE_NO_TSAN bool add_products(std::vector<double> &accumulators) const {
        return visit_nonzeros(a, [this, &accumulators](int64_t row, int64_t column, double value) {
            const int64_t to = transpose_a ? column : row, from = transpose_a ? row : column;
            for (int64_t i = 0; i < c.columns; i++)
                accumulators[size_t(to * c.columns + i)] += value *
                    library::read_element(b.type, b.values, transpose_b ? index_of(b, i, from) : index_of(b, from, i));
        });
    }
    GRIDSTRIDE_NO_TSAN void run() const {
        std::vector<double> accumulators(size_t(c.rows * c.columns));
        if (!add_products(accumulators)) {
            set_error(cudaErrorIllegalAddress);
            return;
        }
        for (int64_t row = 0; row < c.rows; row++)
            for (int64_t column = 0; column < c.columns; column++) {
                const size_t at = index_of(c, row, column);
                const double beta_c = beta == 0 ? 0 : beta * library::read_element(c.type, c.values, at);
                library::write_element(
                    c.type, c.values, at, alpha * accumulators[size_t(row * c.columns + column)] + beta_c);
            }
    }
};
inline cusparseStatus_t multiply(const char *name, cusparseHandle_t h, cusparseOperation_t op_a,
    cusparseOperation_t op_b, const void *alpha, const cusparseSpMatDescr &a, const cusparseDnMatDescr &b,
    const void *beta, const cusparseDnMatDescr &c, cudaDataType compute, int line) {
    const bool ta = op_a != CUSPARSE_OPERATION_NON_TRANSPOSE, tb = op_b != CUSPARSE_OPERATION_NON_TRANSPOSE;
    using library::bytes_of;
    if (!bytes_of(a.type) || !bytes_of(b.type) || !bytes_of(c.type) || !bytes_of(compute))
        return CUSPARSE_STATUS_NOT_SUPPORTED;
    if ((ta ? a.columns : a.rows) != c.rows || (ta ? a.rows : a.columns) != (tb ? b.columns : b.rows) ||
        (tb ? b.rows : b.columns) != c.columns)
        return CUSPARSE_STATUS_INVALID_VALUE;
    std::vector<library::Array> arrays = arrays_of(a);
    arrays.push_back(array_of(b, false)), arrays.push_back(array_of(c, true));
    const bool on_device = h->mode == CUSPARSE_POINTER_MODE_DEVICE;
    if (!library::are_on_device(arrays) || !library::is_scalar_in(on_device, alpha) ||
        !library::is_scalar_in(on_device, beta))
        return CUSPARSE_STATUS_INVALID_VALUE;
    const auto work = [=] {                                // reads alpha and beta in device memory when it runs
        SpMM{a, b, c, ta, tb, library::load_scalar(compute, alpha), library::load_scalar(compute, beta)}.run();
    };
    if (on_device) return library::run(name, h->stream, arrays, work, line), CUSPARSE_STATUS_SUCCESS;
    const SpMM product{a, b, c, ta, tb, library::load_scalar(compute, alpha), library::load_scalar(compute, beta)};
    library::run(name, h->stream, arrays, [=] { product.run(); }, line);
    return CUSPARSE_STATUS_SUCCESS;
}
}
}
// No workspace is needed.
inline cusparseStatus_t cusparseSpMV_bufferSize(cusparseHandle_t, cusparseOperation_t, const void *,
    cusparseConstSpMatDescr_t, cusparseConstDnVecDescr_t, const void *, cusparseDnVecDescr_t, cudaDataType,
    cusparseSpMVAlg_t, size_t *bytes) {
    *bytes = 0;
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseSpMV_preprocess(cusparseHandle_t, cusparseOperation_t, const void *,
    cusparseConstSpMatDescr_t, cusparseConstDnVecDescr_t, const void *, cusparseDnVecDescr_t, cudaDataType,
    cusparseSpMVAlg_t, void *) {
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseSpMV(cusparseHandle_t h, cusparseOperation_t op, const void *alpha,
    cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, const void *beta, cusparseDnVecDescr_t y,
    cudaDataType compute, cusparseSpMVAlg_t, void *, int line = __builtin_LINE()) {
    return gridstride::sparse::multiply(
        "cusparseSpMV", h, op, CUSPARSE_OPERATION_NON_TRANSPOSE, alpha, *a, *x, beta, *y, compute, line);
}
inline cusparseStatus_t cusparseSpMM_bufferSize(cusparseHandle_t, cusparseOperation_t, cusparseOperation_t,
    const void *, cusparseConstSpMatDescr_t, cusparseConstDnMatDescr_t, const void *, cusparseDnMatDescr_t,
    cudaDataType, cusparseSpMMAlg_t, size_t *bytes) {
    *bytes = 0;
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseSpMM_preprocess(cusparseHandle_t, cusparseOperation_t, cusparseOperation_t,
    const void *, cusparseConstSpMatDescr_t, cusparseConstDnMatDescr_t, const void *, cusparseDnMatDescr_t,
    cudaDataType, cusparseSpMMAlg_t, void *) {
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseSpMM(cusparseHandle_t h, cusparseOperation_t op_a, cusparseOperation_t op_b,
    const void *alpha, cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b, const void *beta,
    cusparseDnMatDescr_t c, cudaDataType compute, cusparseSpMMAlg_t, void *, int line = __builtin_LINE()) {
    return gridstride::sparse::multiply("cusparseSpMM", h, op_a, op_b, alpha, *a, *b, beta, *c, compute, line);
}
