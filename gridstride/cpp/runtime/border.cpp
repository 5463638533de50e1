// The border to Python: what the headers of tensors and exported functions only declare for a kernel's source.
#include "emulator.h"
#define GRIDSTRIDE_BODIES
#include "gridstride/tensor.h"
#include "kernels.cpp"
