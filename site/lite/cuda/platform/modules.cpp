// A browser loads no modules of the driver API.
#include "findings.h"

namespace gridstride {
LoadedModule *load_module(const void *) { return nullptr; }
const ModuleKernel *find_kernel(const LoadedModule *, const char *) { return nullptr; }
void *find_variable(const LoadedModule *, const char *, size_t *) { return nullptr; }
}

extern "C" GRIDSTRIDE_API void gridstride_set_module_folder(const char *) {}
