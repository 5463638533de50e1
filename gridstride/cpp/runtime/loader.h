// Look-ups in the modules that the dynamic loader has loaded. glibc does not release its own lock in a child that is
// forked while another thread looks something up, so a fork waits until none of these look-ups runs.
#pragma once
#include <dlfcn.h>
#include <mutex>
#include "platform.h"
#include "state.h"
#ifdef GRIDSTRIDE_ELF
#include <link.h>
#endif

namespace gridstride {

inline std::recursive_mutex loader_mutex;
class LoaderLock {
    SignalDeferral deferral;
    std::lock_guard<std::recursive_mutex> lock{loader_mutex};
};

// Stores the module and the symbol at this address in `info`. Returns false if no module contains it.
inline bool find_symbol(const void *address, Dl_info &info) {
    LoaderLock lock;
    return dladdr(address, &info);
}
#ifdef GRIDSTRIDE_ELF
// Calls `f` with each module's `dl_phdr_info`.
template <class F> void visit_modules(F f) {
    LoaderLock lock;
    dl_iterate_phdr([](dl_phdr_info *module, size_t, void *f) { return (*static_cast<F *>(f))(*module), 0; }, &f);
}
#endif
}
