#pragma once
#error "the emulator has no cublasLt.h (the linear algebra library): call torch.matmul from Python, or run on a GPU"
