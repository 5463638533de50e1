#pragma once
#error "the emulator has no cuda_fp4.h (floats of 8 bits and fewer): use cuda_fp16.h or cuda_bf16.h, or run on a GPU"
