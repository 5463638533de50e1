// The memory of this machine that the emulated device may use.
#pragma once
#include <stddef.h>

namespace gridstride {
size_t free_memory();                   // bytes that can be had without swapping
size_t device_limit();                  // bytes of the emulated device, those in use among them
bool fits_in_memory(size_t bytes);            // do so many more fit?
}
