#pragma once
#error "the emulator has no cuda_awbarrier.h (barriers of C): use cuda::barrier from <cuda/barrier>"
