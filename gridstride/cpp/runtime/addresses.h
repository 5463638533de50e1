// Addresses of the host that were given to the device.
#pragma once
#include <string>
#include "runtime.h"

namespace gridstride {

struct Image;
struct Away {
    enum { nothing, function, table, variable } kind;
    std::string name;                  // of a function, if it is known
};
Away what_is_away(uintptr_t address);  // what is it the device's address of?
// a library with kernels; plain: some of its variables are the device's, and at the host's address
void note_module(const void *inside, bool plain = false);
void forget_module(const Image &);     // it is unloaded
bool is_in_module(const void *code);    // false, too, while this is unknown: a signal's handler asks
bool is_plain_variable(const void *p);  // may it be such a one?
bool has_plain_variables(const void *code);                // has that library any?
void from_device(void *p, size_t bytes);   // what was copied from the device, and is the host's now
bool is_registered(uintptr_t address); // is it of the host's memory that kernels may use?
}
