#pragma once
#error "the emulator has no cusolverDn.h (the solver library): call torch.linalg from Python, or run on a GPU"
