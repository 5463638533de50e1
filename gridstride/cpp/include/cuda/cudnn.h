#pragma once
#error "the emulator has no cudnn.h (the neural network library): call torch.nn from Python, or run on a GPU"
