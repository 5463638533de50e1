// The emulated devices: how many there are, which one an OS thread uses, and which ones may access each other's memory
#pragma once
#include "memory.h"
#include "state.h"

namespace gridstride {

constexpr int max_devices = 8;
void set_launch_device(int device);    // of the launch whose block runs now; < 0: none
bool can_access(int device, const Allocation &);
void point_symbols_to(int device);     // the variables of the device, for its launch
void forget_devices();                 // at the start of a call: device 0, and no peer access
}
