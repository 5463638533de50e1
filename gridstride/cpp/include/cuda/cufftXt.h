// cuFFT: of its extensions for several GPUs, nothing.
#pragma once
#include "cufft.h"
