// cuFFT on one GPU: plans of 1 to 3 axes, batches and strides. NumPy computes the transforms.
#pragma once
#include "cuComplex.h"
#include "library_calls.h"

// Other headers test this macro.
#define _CUFFT_H_

typedef int cufftHandle;
typedef float cufftReal;
typedef double cufftDoubleReal;
typedef cuComplex cufftComplex;
typedef cuDoubleComplex cufftDoubleComplex;
enum cufftResult {
    CUFFT_SUCCESS = 0,
    CUFFT_INVALID_PLAN = 1,
    CUFFT_ALLOC_FAILED = 2,
    CUFFT_INVALID_TYPE = 3,
    CUFFT_INVALID_VALUE = 4,
    CUFFT_INTERNAL_ERROR = 5,
    CUFFT_EXEC_FAILED = 6,
    CUFFT_SETUP_FAILED = 7,
    CUFFT_INVALID_SIZE = 8,
    CUFFT_UNALIGNED_DATA = 9,
    CUFFT_INVALID_DEVICE = 11,
    CUFFT_NO_WORKSPACE = 13,
    CUFFT_NOT_IMPLEMENTED = 14,
    CUFFT_NOT_SUPPORTED = 16,
    CUFFT_MISSING_DEPENDENCY = 17,
    CUFFT_NVRTC_FAILURE = 18,
    CUFFT_NVJITLINK_FAILURE = 19,
    CUFFT_NVSHMEM_FAILURE = 20
};
typedef cufftResult cufftResult_t;
enum cufftType {
    CUFFT_R2C = 0x2a,
    CUFFT_C2R = 0x2c,
    CUFFT_C2C = 0x29,
    CUFFT_D2Z = 0x6a,
    CUFFT_Z2D = 0x6c,
    CUFFT_Z2Z = 0x69
};
typedef cufftType cufftType_t;
#define CUFFT_FORWARD -1
#define CUFFT_INVERSE 1

namespace gridstride {
namespace fft {
struct Plan { Transform transform; cudaStream_t stream = nullptr; bool is_made = false; };
inline std::vector<Plan> plans;

inline Plan *plan_of(cufftHandle handle) {
    return handle >= 0 && size_t(handle) < plans.size() ? &plans[size_t(handle)] : nullptr;
}
inline cufftResult create(cufftHandle *handle) {
    *handle = int(plans.size());
    plans.emplace_back();
    return CUFFT_SUCCESS;
}
inline bool is_complex_input(cufftType type) { return type != CUFFT_R2C && type != CUFFT_D2Z; }
inline bool is_complex_output(cufftType type) { return type != CUFFT_C2R && type != CUFFT_Z2D; }
// Returns the layout of a contiguous array. The complex array of a real transform contains only the first half of the
// last axis.
inline ArrayLayout contiguous_layout(const int *sizes, int rank, bool is_half) {
    ArrayLayout layout{{}, 1, 1};
    for (int axis = 0; axis < rank; axis++) {
        layout.embed[axis] = is_half && axis == rank - 1 ? sizes[axis] / 2 + 1 : sizes[axis];
        layout.distance *= layout.embed[axis];
    }
    return layout;
}
inline cufftResult make(cufftHandle handle, int rank, const int *sizes, cufftType type, int batch,
    const ArrayLayout *in = nullptr, const ArrayLayout *out = nullptr) {
    Plan *const plan = plan_of(handle);
    if (!plan || plan->is_made) return CUFFT_INVALID_PLAN;
    if (rank < 1 || rank > 3 || batch < 1) return CUFFT_INVALID_VALUE;
    Transform &t = plan->transform;
    t.rank = rank, t.batch = batch, t.is_double = type == CUFFT_D2Z || type == CUFFT_Z2D || type == CUFFT_Z2Z;
    t.is_complex_in = is_complex_input(type), t.is_complex_out = is_complex_output(type);
    for (int axis = 0; axis < rank; axis++)
        if ((t.sizes[axis] = sizes[axis]) < 1) return CUFFT_INVALID_SIZE;
    t.in = in ? *in : contiguous_layout(sizes, rank, !t.is_complex_out);
    t.out = out ? *out : contiguous_layout(sizes, rank, !t.is_complex_in);
    plan->is_made = true;
    return CUFFT_SUCCESS;
}
inline cufftResult plan_many(cufftHandle handle, int rank, const int *sizes, const int *in_embed, int in_stride,
    int in_distance, const int *out_embed, int out_stride, int out_distance, cufftType type, int batch) {
    if (rank < 1 || rank > 3) return CUFFT_INVALID_VALUE;
    if (!in_embed || !out_embed) return make(handle, rank, sizes, type, batch);
    ArrayLayout in{{}, in_stride, in_distance}, out{{}, out_stride, out_distance};
    for (int axis = 0; axis < rank; axis++) in.embed[axis] = in_embed[axis], out.embed[axis] = out_embed[axis];
    return make(handle, rank, sizes, type, batch, &in, &out);
}
// Pads the rows of the real array of an in-place transform to the size of the rows of the complex array.
inline Transform pad_for_in_place(Transform t) {
    const bool is_real = !t.is_complex_in || !t.is_complex_out;
    if (!is_real) return t;
    ArrayLayout &real = t.is_complex_in ? t.out : t.in;
    const ArrayLayout &half = t.is_complex_in ? t.in : t.out;
    if (half.stride != 1 || real.stride != 1) return t;
    const int last = t.rank - 1;
    if (real.embed[last] == t.sizes[last] && half.embed[last] == t.sizes[last] / 2 + 1)
        real.embed[last] = 2 * half.embed[last], real.distance = 2 * half.distance;
    return t;
}
inline cufftResult execute(cufftHandle handle, bool is_double, bool is_complex_in, bool is_complex_out, const void *in,
    void *out, int direction, int line) {
    const Plan *const plan = plan_of(handle);
    if (!plan || !plan->is_made) return CUFFT_INVALID_PLAN;
    const Transform &planned = plan->transform;
    if (planned.is_double != is_double || planned.is_complex_in != is_complex_in ||
        planned.is_complex_out != is_complex_out)
        return CUFFT_INVALID_TYPE;
    if (direction != CUFFT_FORWARD && direction != CUFFT_INVERSE) return CUFFT_INVALID_VALUE;
    const Transform t = in == out ? pad_for_in_place(planned) : planned;
    const std::vector<library::Array> arrays = {{in, t.bytes_in(), false}, {out, t.bytes_out(), true}};
    if (!library::are_on_device(arrays)) return CUFFT_INVALID_VALUE;
    library::run("cufftExec", plan->stream, arrays, [=] { run(t, in, out, direction); }, line);
    return CUFFT_SUCCESS;
}
}
}

inline cufftResult cufftCreate(cufftHandle *plan) { return gridstride::fft::create(plan); }
inline cufftResult cufftDestroy(cufftHandle plan) {
    gridstride::fft::Plan *const known = gridstride::fft::plan_of(plan);
    if (!known) return CUFFT_INVALID_PLAN;
    *known = {};
    return CUFFT_SUCCESS;
}
inline cufftResult cufftSetStream(cufftHandle plan, cudaStream_t s) {
    gridstride::fft::Plan *const known = gridstride::fft::plan_of(plan);
    if (!known) return CUFFT_INVALID_PLAN;
    known->stream = s;
    return CUFFT_SUCCESS;
}
inline cufftResult cufftMakePlan1d(cufftHandle plan, int x, cufftType type, int batch, size_t *bytes) {
    if (bytes) *bytes = 0;
    return gridstride::fft::make(plan, 1, &x, type, batch);
}
inline cufftResult cufftMakePlan2d(cufftHandle plan, int x, int y, cufftType type, size_t *bytes) {
    const int sizes[] = {x, y};
    if (bytes) *bytes = 0;
    return gridstride::fft::make(plan, 2, sizes, type, 1);
}
inline cufftResult cufftMakePlan3d(cufftHandle plan, int x, int y, int z, cufftType type, size_t *bytes) {
    const int sizes[] = {x, y, z};
    if (bytes) *bytes = 0;
    return gridstride::fft::make(plan, 3, sizes, type, 1);
}
inline cufftResult cufftMakePlanMany(cufftHandle plan, int rank, int *n, int *inembed, int istride, int idist,
    int *onembed, int ostride, int odist, cufftType type, int batch, size_t *bytes) {
    if (bytes) *bytes = 0;
    return gridstride::fft::plan_many(
        plan, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch);
}
inline cufftResult cufftPlan1d(cufftHandle *plan, int x, cufftType type, int batch) {
    cufftCreate(plan);
    return cufftMakePlan1d(*plan, x, type, batch, nullptr);
}
inline cufftResult cufftPlan2d(cufftHandle *plan, int x, int y, cufftType type) {
    cufftCreate(plan);
    return cufftMakePlan2d(*plan, x, y, type, nullptr);
}
inline cufftResult cufftPlan3d(cufftHandle *plan, int x, int y, int z, cufftType type) {
    cufftCreate(plan);
    return cufftMakePlan3d(*plan, x, y, z, type, nullptr);
}
inline cufftResult cufftPlanMany(cufftHandle *plan, int rank, int *n, int *inembed, int istride, int idist,
    int *onembed, int ostride, int odist, cufftType type, int batch) {
    cufftCreate(plan);
    return cufftMakePlanMany(
        *plan, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch, nullptr);
}
// NumPy allocates its own workspace.
inline cufftResult cufftGetSize(cufftHandle plan, size_t *bytes) {
    *bytes = 0;
    return gridstride::fft::plan_of(plan) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}
inline cufftResult cufftSetAutoAllocation(cufftHandle plan, int) {
    return gridstride::fft::plan_of(plan) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}
inline cufftResult cufftSetWorkArea(cufftHandle plan, void *) {
    return gridstride::fft::plan_of(plan) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}
inline cufftResult cufftGetVersion(int *version) { *version = 12000; return CUFFT_SUCCESS; }

inline cufftResult cufftExecC2C(
    cufftHandle plan, cufftComplex *in, cufftComplex *out, int direction, int line = __builtin_LINE()) {
    return gridstride::fft::execute(plan, false, true, true, in, out, direction, line);
}
inline cufftResult cufftExecR2C(cufftHandle plan, cufftReal *in, cufftComplex *out, int line = __builtin_LINE()) {
    return gridstride::fft::execute(plan, false, false, true, in, out, CUFFT_FORWARD, line);
}
inline cufftResult cufftExecC2R(cufftHandle plan, cufftComplex *in, cufftReal *out, int line = __builtin_LINE()) {
    return gridstride::fft::execute(plan, false, true, false, in, out, CUFFT_INVERSE, line);
}
inline cufftResult cufftExecZ2Z(
    cufftHandle plan, cufftDoubleComplex *in, cufftDoubleComplex *out, int direction, int line = __builtin_LINE()) {
    return gridstride::fft::execute(plan, true, true, true, in, out, direction, line);
}
inline cufftResult cufftExecD2Z(
    cufftHandle plan, cufftDoubleReal *in, cufftDoubleComplex *out, int line = __builtin_LINE()) {
    return gridstride::fft::execute(plan, true, false, true, in, out, CUFFT_FORWARD, line);
}
inline cufftResult cufftExecZ2D(
    cufftHandle plan, cufftDoubleComplex *in, cufftDoubleReal *out, int line = __builtin_LINE()) {
    return gridstride::fft::execute(plan, true, true, false, in, out, CUFFT_INVERSE, line);
}
