// cublasLt: batched GEMM of column-major and row-major matrices, with a bias, ReLU or GELU epilogue. Other calls are
// reported as not emulated.
#pragma once
#include "cublas_v2.h"

typedef struct cublasLtContext *cublasLtHandle_t;
struct cublasLtMatrixLayoutOpaque_t;
struct cublasLtMatmulDescOpaque_t;
struct cublasLtMatmulPreferenceOpaque_t { uint64_t max_workspace; };
struct cublasLtMatrixTransformDescOpaque_t { uint64_t data[8]; };
typedef cublasLtMatrixLayoutOpaque_t *cublasLtMatrixLayout_t;
typedef cublasLtMatmulDescOpaque_t *cublasLtMatmulDesc_t;
typedef cublasLtMatmulPreferenceOpaque_t *cublasLtMatmulPreference_t;
typedef cublasLtMatrixTransformDescOpaque_t *cublasLtMatrixTransformDesc_t;
struct cublasLtMatmulAlgo_t { uint64_t data[8]; };
struct cublasLtMatmulHeuristicResult_t {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
};
enum cublasLtOrder_t {
    CUBLASLT_ORDER_COL = 0,
    CUBLASLT_ORDER_ROW = 1,
    CUBLASLT_ORDER_COL32 = 2,
    CUBLASLT_ORDER_COL4_4R2_8C = 3,
    CUBLASLT_ORDER_COL32_2R_4R4 = 4
};
enum cublasLtPointerMode_t {
    CUBLASLT_POINTER_MODE_HOST = CUBLAS_POINTER_MODE_HOST,
    CUBLASLT_POINTER_MODE_DEVICE = CUBLAS_POINTER_MODE_DEVICE,
    CUBLASLT_POINTER_MODE_DEVICE_VECTOR = 2
};
enum cublasLtMatrixLayoutAttribute_t {
    CUBLASLT_MATRIX_LAYOUT_TYPE = 0,
    CUBLASLT_MATRIX_LAYOUT_ORDER = 1,
    CUBLASLT_MATRIX_LAYOUT_ROWS = 2,
    CUBLASLT_MATRIX_LAYOUT_COLS = 3,
    CUBLASLT_MATRIX_LAYOUT_LD = 4,
    CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
    CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6,
    CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET = 7
};
enum cublasLtMatmulDescAttributes_t {
    CUBLASLT_MATMUL_DESC_COMPUTE_TYPE = 0,
    CUBLASLT_MATMUL_DESC_SCALE_TYPE = 1,
    CUBLASLT_MATMUL_DESC_POINTER_MODE = 2,
    CUBLASLT_MATMUL_DESC_TRANSA = 3,
    CUBLASLT_MATMUL_DESC_TRANSB = 4,
    CUBLASLT_MATMUL_DESC_TRANSC = 5,
    CUBLASLT_MATMUL_DESC_FILL_MODE = 6,
    CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
    CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
    CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE = 10,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE = 13,
    CUBLASLT_MATMUL_DESC_A_SCALE_POINTER = 17,
    CUBLASLT_MATMUL_DESC_B_SCALE_POINTER = 18,
    CUBLASLT_MATMUL_DESC_C_SCALE_POINTER = 19,
    CUBLASLT_MATMUL_DESC_D_SCALE_POINTER = 20,
    CUBLASLT_MATMUL_DESC_AMAX_D_POINTER = 21,
    CUBLASLT_MATMUL_DESC_FAST_ACCUM = 25,
    CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26
};
enum cublasLtEpilogue_t {
    CUBLASLT_EPILOGUE_DEFAULT = 1,
    CUBLASLT_EPILOGUE_RELU = 2,
    CUBLASLT_EPILOGUE_BIAS = 4,
    CUBLASLT_EPILOGUE_RELU_BIAS = 6,
    CUBLASLT_EPILOGUE_GELU = 32,
    CUBLASLT_EPILOGUE_GELU_BIAS = 36,
    CUBLASLT_EPILOGUE_RELU_AUX = 130,
    CUBLASLT_EPILOGUE_RELU_AUX_BIAS = 134,
    CUBLASLT_EPILOGUE_DRELU = 136,
    CUBLASLT_EPILOGUE_DRELU_BGRAD = 152,
    CUBLASLT_EPILOGUE_GELU_AUX = 160,
    CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 164,
    CUBLASLT_EPILOGUE_DGELU = 192,
    CUBLASLT_EPILOGUE_DGELU_BGRAD = 208,
    CUBLASLT_EPILOGUE_BGRADA = 256,
    CUBLASLT_EPILOGUE_BGRADB = 512
};
enum cublasLtMatmulPreferenceAttributes_t {
    CUBLASLT_MATMUL_PREF_SEARCH_MODE = 0,
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,
    CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT = 9
};

struct cublasLtMatrixLayoutOpaque_t {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t ld, batch_stride = 0;
    int32_t order = CUBLASLT_ORDER_COL, batch_count = 1;
};
struct cublasLtMatmulDescOpaque_t {
    int32_t compute_type, scale_type, op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N, op_c = CUBLAS_OP_N;
    int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
    uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    const void *bias = nullptr, *aux = nullptr;
    int64_t bias_stride = 0, aux_ld = 0, aux_stride = 0;
    int32_t bias_type = -1;                               // -1: same as the type of D
};

struct cublasLtContext {};
inline cublasStatus_t cublasLtCreate(cublasLtHandle_t *h) {
    *h = new cublasLtContext();
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) { delete h; return CUBLAS_STATUS_SUCCESS; }
inline size_t cublasLtGetVersion() { return 130000; }

inline cublasStatus_t cublasLtMatmulDescInit(
    cublasLtMatmulDesc_t desc, cublasComputeType_t compute_type, cudaDataType_t scale_type) {
    *desc = {compute_type, scale_type};
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescCreate(
    cublasLtMatmulDesc_t *desc, cublasComputeType_t compute_type, cudaDataType_t scale_type) {
    *desc = new cublasLtMatmulDescOpaque_t{compute_type, scale_type};
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
    delete desc;
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutInit(
    cublasLtMatrixLayout_t l, cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld) {
    *l = {type, rows, columns, ld};
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutCreate(
    cublasLtMatrixLayout_t *l, cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld) {
    *l = new cublasLtMatrixLayoutOpaque_t{type, rows, columns, ld};
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
    delete l;
    return CUBLAS_STATUS_SUCCESS;
}

namespace gridstride {
namespace blas {
struct Attribute { void *p; size_t bytes; };
inline Attribute attribute_of(cublasLtMatmulDescOpaque_t &desc, cublasLtMatmulDescAttributes_t name) {
    switch (name) {
        case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return {&desc.compute_type, 4};
        case CUBLASLT_MATMUL_DESC_SCALE_TYPE: return {&desc.scale_type, 4};
        case CUBLASLT_MATMUL_DESC_POINTER_MODE: return {&desc.pointer_mode, 4};
        case CUBLASLT_MATMUL_DESC_TRANSA: return {&desc.op_a, 4};
        case CUBLASLT_MATMUL_DESC_TRANSB: return {&desc.op_b, 4};
        case CUBLASLT_MATMUL_DESC_TRANSC: return {&desc.op_c, 4};
        case CUBLASLT_MATMUL_DESC_EPILOGUE: return {&desc.epilogue, 4};
        case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return {&desc.bias, sizeof desc.bias};
        case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE: return {&desc.bias_stride, 8};
        case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return {&desc.bias_type, 4};
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return {&desc.aux, sizeof desc.aux};
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return {&desc.aux_ld, 8};
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE: return {&desc.aux_stride, 8};
        default: return {nullptr, 0};
    }
}
inline Attribute attribute_of(cublasLtMatrixLayoutOpaque_t &l, cublasLtMatrixLayoutAttribute_t name) {
    switch (name) {
        case CUBLASLT_MATRIX_LAYOUT_TYPE: return {&l.type, 4};
        case CUBLASLT_MATRIX_LAYOUT_ORDER: return {&l.order, 4};
        case CUBLASLT_MATRIX_LAYOUT_ROWS: return {&l.rows, 8};
        case CUBLASLT_MATRIX_LAYOUT_COLS: return {&l.columns, 8};
        case CUBLASLT_MATRIX_LAYOUT_LD: return {&l.ld, 8};
        case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return {&l.batch_count, 4};
        case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return {&l.batch_stride, 8};
        default: return {nullptr, 0};
    }
}
inline cublasStatus_t set_attribute(Attribute attribute, const void *value, size_t bytes) {
    if (!attribute.p) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!value || bytes < attribute.bytes) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(attribute.p, value, attribute.bytes);
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t get_attribute(Attribute attribute, void *value, size_t bytes, size_t *written) {
    if (written) *written = attribute.bytes;
    if (!attribute.p) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!value || bytes < attribute.bytes) return bytes ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
    memcpy(value, attribute.p, attribute.bytes);
    return CUBLAS_STATUS_SUCCESS;
}
inline bool is_row_major(const cublasLtMatrixLayoutOpaque_t &l) { return l.order == CUBLASLT_ORDER_ROW; }
inline size_t index_in(const cublasLtMatrixLayoutOpaque_t &l, int row, int column) {
    return is_row_major(l) ? size_t(row) * size_t(l.ld) + size_t(column) : size_t(column) * size_t(l.ld) + size_t(row);
}
inline const char *matrix_at(const void *p, const cublasLtMatrixLayoutOpaque_t &l, int batch) {
    return static_cast<const char *>(p) + batch * l.batch_stride * bytes_of(l.type);
}
inline double gelu(double x) { return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

struct LtGemm {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t a_layout, b_layout, c_layout, d_layout;
    const void *alpha, *a, *b, *beta, *c;
    void *d;

    bool transposes_a() const { return desc.op_a != CUBLAS_OP_N; }
    bool transposes_b() const { return desc.op_b != CUBLAS_OP_N; }
    Gemm gemm() const {
        return {cublasOperation_t(desc.op_a), cublasOperation_t(desc.op_b), int(d_layout.rows), int(d_layout.columns),
            int(num_columns_of_op_a()), a_layout.type, b_layout.type, d_layout.type, cudaDataType(desc.scale_type),
            int(a_layout.ld), int(b_layout.ld), int(d_layout.ld)};
    }
    uint64_t num_columns_of_op_a() const { return transposes_a() ? a_layout.rows : a_layout.columns; }
    static constexpr unsigned epilogue_aux = 128;
    bool has_epilogue(unsigned bit) const { return desc.epilogue & bit; }
    cudaDataType bias_type() const { return desc.bias_type < 0 ? d_layout.type : cudaDataType(desc.bias_type); }
    cublasStatus_t validate() const {
        const unsigned supported = CUBLASLT_EPILOGUE_DEFAULT | CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_RELU |
                               CUBLASLT_EPILOGUE_GELU;
        const bool has_aux = desc.epilogue == CUBLASLT_EPILOGUE_GELU_AUX ||
                             desc.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
        for (const auto *l : {&a_layout, &b_layout, &c_layout, &d_layout})
            if (l->order > CUBLASLT_ORDER_ROW) return CUBLAS_STATUS_NOT_SUPPORTED;
        if (((desc.epilogue & ~supported) && !has_aux) || desc.op_c != CUBLAS_OP_N ||
            !bytes_of(cudaDataType(desc.scale_type)) || desc.pointer_mode > CUBLASLT_POINTER_MODE_DEVICE ||
            !gemm().is_supported())
            return CUBLAS_STATUS_NOT_SUPPORTED;
        const uint64_t rows = transposes_a() ? a_layout.columns : a_layout.rows;
        const uint64_t columns = transposes_b() ? b_layout.rows : b_layout.columns;
        if (rows != d_layout.rows || columns != d_layout.columns || rows != c_layout.rows ||
            columns != c_layout.columns ||
            num_columns_of_op_a() != (transposes_b() ? b_layout.columns : b_layout.rows) ||
            (has_epilogue(CUBLASLT_EPILOGUE_BIAS) && !desc.bias) || (has_aux && !desc.aux))
            return CUBLAS_STATUS_INVALID_VALUE;
        return CUBLAS_STATUS_SUCCESS;
    }
    // Applies the epilogue (bias and activation) to the scaled accumulator of an element.
    double apply_epilogue(double x, int row, int column, int batch) const {
        if (has_epilogue(CUBLASLT_EPILOGUE_BIAS))
            x += read_element(bias_type(), desc.bias, size_t(row) + size_t(batch) * size_t(desc.bias_stride));
        if (has_epilogue(epilogue_aux))                    // stores the input of the activation
            write_element(d_layout.type, const_cast<void *>(desc.aux),
                size_t(column) * size_t(desc.aux_ld) + size_t(row) + size_t(batch) * size_t(desc.aux_stride), x);
        if (has_epilogue(CUBLASLT_EPILOGUE_RELU)) return x > 0 ? x : 0;
        return has_epilogue(CUBLASLT_EPILOGUE_GELU) ? gelu(x) : x;
    }
    void run(double alpha_value, double beta_value) const {
        const Gemm p = gemm();
        for (int batch = 0; batch < d_layout.batch_count; batch++) {
            const void *const c_matrix = matrix_at(c, c_layout, batch);
            void *const d_matrix = const_cast<char *>(matrix_at(d, d_layout, batch));
            p.visit(transposes_a() != is_row_major(a_layout), transposes_b() != is_row_major(b_layout),
                matrix_at(a, a_layout, batch), matrix_at(b, b_layout, batch),
                [&](int row, int column, double accumulator) {
                    const double beta_c = beta_value == 0
                        ? 0 : beta_value * read_element(c_layout.type, c_matrix, index_in(c_layout, row, column));
                    write_element(d_layout.type, d_matrix, index_in(d_layout, row, column),
                        apply_epilogue(alpha_value * accumulator + beta_c, row, column, batch));
                });
        }
    }
    // Returns the arrays of a call. C is read unless beta is 0, and may be null then.
    std::vector<Array> arrays(bool reads_c) const {
        const auto vectors = [this](const void *p, size_t n, int64_t stride, cudaDataType type, bool is_written) {
            const bool is_empty = !d_layout.rows || !d_layout.columns;
            const size_t num_elements = is_empty ? 0 : n + size_t(d_layout.batch_count - 1) * size_t(stride);
            return Array{p, num_elements * size_t(bytes_of(type)), is_written};
        };
        std::vector<Array> arrays = {array(a, a_layout, false), array(b, b_layout, false), array(d, d_layout, true)};
        if (reads_c) arrays.push_back(array(c, c_layout, false));
        if (has_epilogue(CUBLASLT_EPILOGUE_BIAS))
            arrays.push_back(vectors(desc.bias, d_layout.rows, desc.bias_stride, bias_type(), false));
        if (has_epilogue(epilogue_aux))
            arrays.push_back(vectors(desc.aux, size_t(d_layout.columns - 1) * size_t(desc.aux_ld) + d_layout.rows,
                desc.aux_stride, d_layout.type, true));
        return arrays;
    }
    Array array(const void *p, const cublasLtMatrixLayoutOpaque_t &l, bool is_written) const {
        if (!l.rows || !l.columns) return {p, 0, is_written};
        const size_t last = index_in(l, int(l.rows) - 1, int(l.columns) - 1) +
                            size_t(l.batch_count - 1) * size_t(l.batch_stride);
        return {p, (last + 1) * size_t(bytes_of(l.type)), is_written};
    }
};
}
}
inline cublasStatus_t cublasLtMatmulDescSetAttribute(
    cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name, const void *value, size_t bytes) {
    if (name == CUBLASLT_MATMUL_DESC_FAST_ACCUM) return CUBLAS_STATUS_SUCCESS;      // ignored: accumulators are double
    return gridstride::blas::set_attribute(gridstride::blas::attribute_of(*desc, name), value, bytes);
}
inline cublasStatus_t cublasLtMatmulDescGetAttribute(
    cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name, void *value, size_t bytes, size_t *written) {
    return gridstride::blas::get_attribute(gridstride::blas::attribute_of(*desc, name), value, bytes, written);
}
inline cublasStatus_t cublasLtMatrixLayoutSetAttribute(
    cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t name, const void *value, size_t bytes) {
    return gridstride::blas::set_attribute(gridstride::blas::attribute_of(*l, name), value, bytes);
}
inline cublasStatus_t cublasLtMatrixLayoutGetAttribute(
    cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t name, void *value, size_t bytes, size_t *written) {
    return gridstride::blas::get_attribute(gridstride::blas::attribute_of(*l, name), value, bytes, written);
}
// There is only one algorithm, and it needs no workspace.
inline cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t p) {
    *p = {};
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p) {
    *p = new cublasLtMatmulPreferenceOpaque_t();
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
    delete p;
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void *, size_t) {
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
    cublasLtMatrixLayout_t a_layout, cublasLtMatrixLayout_t b_layout, cublasLtMatrixLayout_t c_layout,
    cublasLtMatrixLayout_t d_layout,
    cublasLtMatmulPreference_t, int num_requested, cublasLtMatmulHeuristicResult_t *results, int *num_results) {
    const gridstride::blas::LtGemm gemm{*desc, *a_layout, *b_layout, *c_layout, *d_layout, {}, {}, {}, {}, {}, {}};
    *num_results = 0;
    if (num_requested < 1) return CUBLAS_STATUS_INVALID_VALUE;
    if (const cublasStatus_t status = gemm.validate()) return status;
    results[0] = {{}, 0, CUBLAS_STATUS_SUCCESS, 1, {}};
    *num_results = 1;
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
    cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
    cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *, void *,
    size_t, cudaStream_t s, int line = __builtin_LINE()) {
    using namespace gridstride::blas;
    const LtGemm gemm{*desc, *a_layout, *b_layout, *c_layout, *d_layout, alpha, a, b, beta, c, d};
    if (const cublasStatus_t status = gemm.validate()) return status;
    const bool on_device = gemm.desc.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE;
    if (!is_scalar_in(on_device, alpha) || !is_scalar_in(on_device, beta)) return CUBLAS_STATUS_INVALID_VALUE;
    const auto scalar = [gemm](const void *p) { return load_scalar(cudaDataType(gemm.desc.scale_type), p); };
    const double alpha_value = on_device ? 0 : scalar(alpha), beta_value = on_device ? 0 : scalar(beta);
    const std::vector<Array> arrays = gemm.arrays(on_device ? c != nullptr : beta_value != 0);
    if (!are_on_device(arrays)) return CUBLAS_STATUS_INVALID_VALUE;
    gridstride::library::run("cublasLtMatmul", s, arrays, [=] {
        gemm.run(on_device ? scalar(alpha) : alpha_value, on_device ? scalar(beta) : beta_value);
    }, line);
    return CUBLAS_STATUS_SUCCESS;
}

#define GRIDSTRIDE_NOT_EMULATED(name) \
    template <class... A> cublasStatus_t name(const A &...) { ::gridstride::not_emulated(#name); }
GRIDSTRIDE_NOT_EMULATED(cublasLtMatmulAlgoInit)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatmulAlgoCheck)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatmulAlgoGetIds)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatrixTransform)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatrixTransformDescCreate)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatrixTransformDescDestroy)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatrixTransformDescSetAttribute)
#undef GRIDSTRIDE_NOT_EMULATED
