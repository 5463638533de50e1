// What this machine has to give to the emulated device.
#pragma once
#include <stddef.h>

namespace gridstride {
size_t free_memory();                   // bytes that can be had without swapping
size_t device_limit();                  // bytes of the emulated device, those in use among them
bool has_room(size_t bytes);            // for so many more?
}
