// cuFFT: plans that specify element types. Multi-GPU transforms, half precision and callbacks are not supported.
#pragma once
#include "cufft.h"
#include "library_types.h"

namespace gridstride {
namespace fft {
// Stores the type of the transform between elements of these types; returns false if there is none.
inline bool find_type(cudaDataType in, cudaDataType out, cufftType &type) {
    const struct { cudaDataType in, out; cufftType type; } known[] = {
        {CUDA_C_32F, CUDA_C_32F, CUFFT_C2C}, {CUDA_R_32F, CUDA_C_32F, CUFFT_R2C}, {CUDA_C_32F, CUDA_R_32F, CUFFT_C2R},
        {CUDA_C_64F, CUDA_C_64F, CUFFT_Z2Z}, {CUDA_R_64F, CUDA_C_64F, CUFFT_D2Z}, {CUDA_C_64F, CUDA_R_64F, CUFFT_Z2D}};
    for (const auto &row : known)
        if (row.in == in && row.out == out) return type = row.type, true;
    return false;
}
}
}
inline cufftResult cufftXtMakePlanMany(cufftHandle plan, int rank, long long *n, long long *inembed, long long istride,
    long long idist, cudaDataType in, long long *onembed, long long ostride, long long odist, cudaDataType out,
    long long batch, size_t *bytes, cudaDataType) {
    cufftType type;
    if (rank < 1 || rank > 3) return CUFFT_INVALID_VALUE;
    if (!gridstride::fft::find_type(in, out, type)) return CUFFT_NOT_SUPPORTED;
    int sizes[3], in_sizes[3], out_sizes[3];
    for (int axis = 0; axis < rank; axis++) {
        sizes[axis] = int(n[axis]);
        if (inembed && onembed) in_sizes[axis] = int(inembed[axis]), out_sizes[axis] = int(onembed[axis]);
    }
    return cufftMakePlanMany(plan, rank, sizes, inembed ? in_sizes : nullptr, int(istride), int(idist),
        onembed ? out_sizes : nullptr, int(ostride), int(odist), type, int(batch), bytes);
}
// Executes a plan of any type; for a real transform the type determines the direction.
inline cufftResult cufftXtExec(cufftHandle handle, void *in, void *out, int direction, int line = __builtin_LINE()) {
    const gridstride::fft::Plan *const plan = gridstride::fft::plan_of(handle);
    if (!plan || !plan->is_made) return CUFFT_INVALID_PLAN;
    const gridstride::Transform &t = plan->transform;
    const bool is_complex = t.is_complex_in && t.is_complex_out;
    return gridstride::fft::execute(handle, t.is_double, t.is_complex_in, t.is_complex_out, in, out,
        is_complex ? direction : t.is_complex_out ? CUFFT_FORWARD : CUFFT_INVERSE, line);
}
