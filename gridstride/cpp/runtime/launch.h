// A launch: its blocks, over OS threads and in clusters.
#pragma once
#include "worker.h"

namespace gridstride {

Worker &this_worker();                 // of this OS thread
size_t max_dynamic_of(const Launch &); // bytes of dynamic shared memory that its kernel may have
int refuse(const Launch &, Code, Fields);  // a launch that no GPU would accept; returns CUDA's error
}
