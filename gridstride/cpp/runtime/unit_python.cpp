// The interface to Python: definitions of functions that the headers for tensors and exported functions only declare.
#include "emulator.h"
#define GRIDSTRIDE_BODIES
#include "gridstride/tensor.h"
#include "kernels.cpp"
