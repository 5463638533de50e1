#pragma once
#error "the emulator has no cublas_v2.h (the linear algebra library): call torch.matmul from Python, or run on a GPU"
