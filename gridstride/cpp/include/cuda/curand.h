#pragma once
#error "the emulator has no curand.h (random numbers): pass random numbers in as a tensor, or write a generator of a few lines"
