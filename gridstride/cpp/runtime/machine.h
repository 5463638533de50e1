// The memory of this machine that the emulated device may use.
#pragma once
#include <stddef.h>

namespace gridstride {
size_t free_memory();                   // bytes that can be allocated without swapping
size_t device_limit();                  // bytes of the emulated device's memory, including those in use
bool fits_in_memory(size_t bytes);      // whether `bytes` more can be allocated
}
