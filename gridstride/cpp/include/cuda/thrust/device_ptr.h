#pragma once
#error "the emulator has no thrust/device_ptr.h (the Thrust library): write a kernel, call torch from Python, or run on a GPU"
