// Host addresses that were passed to the device
#pragma once
#include <string>
#include "runtime.h"

namespace gridstride {

struct Image;
struct DeviceAddress {
    enum { nothing, function, table, variable } kind;
    std::string name;                  // of a function; empty if unknown
};
DeviceAddress classify_address(uintptr_t address);  // the meaning of an unmapped device address
// Records a module with kernels; `plain`: some of its device variables are ordinary variables.
void register_module(const void *inside, bool plain = false);
void forget_module(const Image &);     // at its unload
bool is_in_module(const void *code);    // also false if the lock is held, because a signal handler calls it
bool is_plain_variable(const void *p);  // whether it may be such a device variable
bool has_plain_variables(const void *code);                // whether that module has any
void restore_host_addresses(void *p, size_t bytes);   // translates addresses in data that was copied from the device
bool is_registered(uintptr_t address); // whether it is in page-locked memory of the host
}
