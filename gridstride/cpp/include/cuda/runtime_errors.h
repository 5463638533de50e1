// cudaError_t: its values, their names, and the last error.
#pragma once
#include "runtime.h"

#define GRIDSTRIDE_CUDA_ERRORS(X) \
    X(cudaSuccess, 0, "no error") \
    X(cudaErrorInvalidValue, 1, "invalid argument") \
    X(cudaErrorMemoryAllocation, 2, "out of memory") \
    X(cudaErrorInitializationError, 3, "initialization error") \
    X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument") \
    X(cudaErrorInvalidPitchValue, 12, "invalid pitch argument") \
    X(cudaErrorInvalidSymbol, 13, "invalid device symbol") \
    X(cudaErrorInvalidDevicePointer, 17, "invalid device pointer") \
    X(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy") \
    X(cudaErrorInvalidDeviceFunction, 98, "invalid device function") \
    X(cudaErrorInvalidFilterSetting, 26, "linear filtering not supported for non-float type") \
    X(cudaErrorInvalidNormSetting, 27, "read as normalized float not supported for 32-bit non float type") \
    X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected") \
    X(cudaErrorInvalidDevice, 101, "invalid device ordinal") \
    X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle") \
    X(cudaErrorNotReady, 600, "device not ready") \
    X(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered") \
    X(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch") \
    X(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated") \
    X(cudaErrorAssert, 710, "device-side assert triggered") \
    X(cudaErrorMisalignedAddress, 716, "misaligned address") \
    X(cudaErrorLaunchFailure, 719, "unspecified launch failure") \
    X(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch") \
    X(cudaErrorNotSupported, 801, "operation not supported") \
    X(cudaErrorIllegalState, 401, "the operation cannot be performed in the present state") \
    X(cudaErrorHostMemoryAlreadyRegistered, 712, "part or all of the requested memory range is already mapped") \
    X(cudaErrorHostMemoryNotRegistered, 713, "pointer does not correspond to a registered memory region") \
    X(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is is_any_stream_captured") \
    X(cudaErrorStreamCaptureUnmatched, 903, "the capture was not initiated in this stream") \
    X(cudaErrorGraphExecUpdateFailure, 910, "the graph update was not performed") \
    X(cudaErrorUnknown, 999, "unknown error")

#define X(name, code, text) name = code,
enum cudaError { GRIDSTRIDE_CUDA_ERRORS(X) };
#undef X
typedef cudaError cudaError_t;

inline const char *cudaGetErrorName(cudaError_t e) {
#define X(name, code, text) if (e == name) return #name;
    GRIDSTRIDE_CUDA_ERRORS(X)
#undef X
    return "unrecognized error code";
}
inline const char *cudaGetErrorString(cudaError_t e) {
#define X(name, code, text) if (e == name) return text;
    GRIDSTRIDE_CUDA_ERRORS(X)
#undef X
    return "unrecognized error code";
}
inline cudaError_t cudaGetLastError() { return cudaError_t(gridstride::last_error(true)); }
inline cudaError_t cudaPeekAtLastError() { return cudaError_t(gridstride::last_error(false)); }
namespace gridstride {
inline cudaError_t record_error(cudaError_t e) { return cudaError_t(set_error(e)); }
inline cudaError_t success_if(bool ok, cudaError_t e) { return ok ? cudaSuccess : record_error(e); }
}

#define CUDART_CB
