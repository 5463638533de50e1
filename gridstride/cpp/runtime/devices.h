// The emulated devices: their number, the current one, and peer access
#pragma once
#include "memory.h"
#include "state.h"

namespace gridstride {

constexpr int max_devices = 8;
void set_launch_device(int device);    // sets the device of the launch whose block runs; < 0: none
bool can_access(int device, const Allocation &);
void point_symbols_to(int device);     // makes symbols refer to the variables of the device
void discard_devices();                 // resets to device 0 without peer access
}
