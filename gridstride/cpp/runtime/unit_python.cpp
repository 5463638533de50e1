// The interface to Python: definitions of functions that the headers for tensors and exported functions only declare.
#include "emulator.h"
#define GRIDSTRIDE_DEFINITIONS
#include "gridstride/tensor.h"
#include "kernels.cpp"
