// Unloading of compiled modules
#pragma once
#include <string>
#include <unordered_map>
#include <vector>
#include "detector.h"

namespace gridstride {

void pin_module(const void *inside);          // prevents the unload of the module with this code or variable
size_t num_unloaded_modules();             // so far
// Removes file scopes of unloaded modules; `seen` is the `num_unloaded_modules` of the last call.
void forget_unloaded(std::unordered_map<uintptr_t, FileScope> &scopes, size_t &seen);

struct Symbol {                        // a variable of the device
    char *device, *host;
    size_t bytes;
    void **slot;
    const void *init;
    char *peers[7] = {};               // the variable on the devices 1, 2, ...; null before it is needed
};
std::vector<Symbol> take_device_variables(const Image &module);
void restore_device_variables(const std::vector<Symbol> &);
void drop_device_variables(const std::vector<Symbol> &);            // and free their memory
void forget_dynamic(const std::string &library);           // the limits that were set for its kernels
}
