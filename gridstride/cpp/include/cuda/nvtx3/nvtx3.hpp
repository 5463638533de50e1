// NVTX for C++: annotations for a profiler, without effect
#pragma once
#include "nvToolsExt.h"

namespace nvtx3 {
struct scoped_range {
    template <class... A> explicit scoped_range(const A &...) {}
};
template <class... A> void mark(const A &...) {}
}
#define NVTX3_FUNC_RANGE()
