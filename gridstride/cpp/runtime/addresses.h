// Host addresses that were passed to the device
#pragma once
#include <string>
#include "runtime.h"

namespace gridstride {

struct LoadedImage;
struct DeviceAddress {
    enum { nothing, function, vtable, variable } kind;
    std::string name;                  // of a function; empty if unknown
};
DeviceAddress classify_address(uintptr_t address);  // finds what an unmapped device address stands for
// Records the module that contains the address; `has_plain_symbols`: some of its device variables are ordinary C++
// variables.
void register_module(const void *address, bool has_plain_symbols = false);
void discard_module(const LoadedImage &); // when it is unloaded
// returns false if the lock is held, because a signal handler calls this function
bool is_in_module(const void *code);
bool is_plain_variable(const void *p); // whether `p` may be a device variable that is an ordinary variable
bool has_plain_variables(const void *code);                // whether the module with this code has such variables
void restore_host_addresses(void *p, size_t bytes);   // translates addresses in data that was copied from the device
bool is_registered(uintptr_t address); // whether the address is in page-locked host memory
}
