// Compiled modules that are unloaded.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>
#include "detector.h"

namespace gridstride {

void pin(const void *inside);          // the module with this code or variable stays loaded
size_t modules_unloaded();             // so far
// Forget those of a worker's that were of modules which are gone; `seen` counts as `modules_unloaded`
void forget_unloaded(std::unordered_map<uintptr_t, FileScope> &scopes, size_t &seen);

struct Symbol {                        // a variable of the device
    char *device, *host;
    size_t bytes;
    void **slot;
};
std::vector<Symbol> take_symbols(const Image &module);
void put_symbols_back(const std::vector<Symbol> &);
void drop_symbols(const std::vector<Symbol> &);            // and their memory
void forget_dynamic(const std::string &library);           // what its kernels may have of dynamic shared memory
}
