#pragma once
#error "the emulator has no mma.h (tensor cores): multiply in ordinary code, or run on a GPU"
