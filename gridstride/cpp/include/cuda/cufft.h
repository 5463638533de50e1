#pragma once
#error "the emulator has no cufft.h (the Fourier transform library): call torch.fft from Python, or run on a GPU"
