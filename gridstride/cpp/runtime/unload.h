// Unloading of compiled modules
#pragma once
#include <string>
#include <unordered_map>
#include <vector>
#include "detector.h"

namespace gridstride {

void pin_module(const void *address);  // prevents the unloading of the module with this code or variable
size_t num_unloaded_modules();         // the number of modules that have been unloaded
// Removes the file scopes of modules that were unloaded since the last call, when `num_seen` modules were.
void discard_unloaded(std::unordered_map<uintptr_t, FileScope> &scopes, size_t &num_seen);

struct Symbol {                        // a device variable
    char *device, *host;
    size_t bytes;
    void **slot;
    const void *init;
    char *peers[7] = {};               // its instances on devices 1, 2, ...; null until they are needed
};
char *device_variable(const LoadedImage &module, const char *name, size_t &bytes); // null if it has none of this name
std::vector<Symbol> take_device_variables(const LoadedImage &module);
void restore_device_variables(const std::vector<Symbol> &);
void discard_device_variables(const std::vector<Symbol> &);            // frees their memory
void discard_kernel_attributes(const std::string &library);  // of its kernels
}
