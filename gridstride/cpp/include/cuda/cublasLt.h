// cublasLt: types and handles, so that a program that includes it compiles. Its computations are not emulated: a call
// is a finding.
#pragma once
#include "cublas_v2.h"

typedef struct cublasLtContext *cublasLtHandle_t;
struct cublasLtMatrixLayoutOpaque_t { uint64_t data[8]; };
struct cublasLtMatmulDescOpaque_t { uint64_t data[32]; };
struct cublasLtMatmulPreferenceOpaque_t { uint64_t data[8]; };
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

struct cublasLtContext {};
inline cublasStatus_t cublasLtCreate(cublasLtHandle_t *h) {
    *h = new cublasLtContext();
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) { delete h; return CUBLAS_STATUS_SUCCESS; }
inline size_t cublasLtGetVersion() { return 130000; }

#define GRIDSTRIDE_NOT_EMULATED(name) \
    template <class... A> cublasStatus_t name(const A &...) { ::gridstride::not_emulated(#name); }
GRIDSTRIDE_NOT_EMULATED(cublasLtMatmul)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatmulDescCreate)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatmulDescInit)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatmulDescDestroy)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatmulDescSetAttribute)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatmulDescGetAttribute)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatrixLayoutCreate)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatrixLayoutInit)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatrixLayoutDestroy)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatrixLayoutSetAttribute)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatrixLayoutGetAttribute)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatmulPreferenceCreate)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatmulPreferenceInit)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatmulPreferenceDestroy)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatmulPreferenceSetAttribute)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatmulAlgoGetHeuristic)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatmulAlgoInit)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatmulAlgoCheck)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatmulAlgoGetIds)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatrixTransform)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatrixTransformDescCreate)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatrixTransformDescDestroy)
GRIDSTRIDE_NOT_EMULATED(cublasLtMatrixTransformDescSetAttribute)
#undef GRIDSTRIDE_NOT_EMULATED
