// Modules that the driver API loads. `gridstride nvcc -fatbin` (../nvcc.py) writes their images: a line with the
// checksum of the ABI, the sizes of a shared library and of its source, and the source's name, followed by the
// contents of the library and of the source. An image that -ptx writes is text, with the contents in hexadecimal,
// because programs handle PTX as a string.
#include <cxxabi.h>
#include <dlfcn.h>
#include "unload.h"

namespace gridstride {

struct LoadedModule {
    const ModuleKernel *kernels;
    LoadedImage image;
};
// The temporary folder of the program that runs; '' until `run_compiled` (../program.py) sets it
static std::string module_folder;
static bool write_file(const std::string &path, const char *bytes, size_t size, const char *mode) {
    FILE *file = fopen(path.c_str(), mode);
    if (!file) return false;
    const bool is_complete = fwrite(bytes, 1, size, file) == size;
    return !fclose(file) && is_complete;
}
// Writes the library and its source, because findings quote source lines. Returns the library's path, or '' after an
// error.
static std::string write_library(const char *library, size_t size, const char *source, size_t source_size,
    const std::string &source_name) {
    static int num_libraries = 0;
    const std::string path = module_folder + "/module" + std::to_string(++num_libraries) + ".so";
    write_file(module_folder + "/" + source_name, source, source_size, "wx");      // keeps the program's own file
    return write_file(path, library, size, "w") ? path : "";
}
struct ModuleHeader {
    std::string source_name;
    size_t library_bytes = 0, source_bytes = 0;
    const char *contents = nullptr;                // null: not a module
    bool is_text = false;
    size_t encoded_bytes() const { return (library_bytes + source_bytes) * (is_text ? 2 : 1); }
};
static ModuleHeader read_header(const void *image) {
    const char *const text = static_cast<const char *>(image);
    ModuleHeader header;
    unsigned abi_checksum;
    int name_offset = 0;
    if (!image || strncmp(text, "gridstride ", 11)) return header;
    header.is_text = !strncmp(text, "gridstride ptx ", 15);
    const char *const format = header.is_text ? "gridstride ptx %u %zu %zu %n" : "gridstride module %u %zu %zu %n";
    if (sscanf(text, format, &abi_checksum, &header.library_bytes, &header.source_bytes, &name_offset) != 3 ||
        abi_checksum != unsigned(GRIDSTRIDE_ABI_CHECKSUM))
        return header;
    const char *const name_end = strchr(text + name_offset, '\n');
    header.source_name.assign(text + name_offset, name_end);
    header.contents = name_end + 1;
    return header;
}
static std::string decoded(const char *digits, size_t bytes) {
    const auto value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    std::string result(bytes, 0);
    for (size_t i = 0; i < bytes; i++) result[i] = char(value(digits[2 * i]) << 4 | value(digits[2 * i + 1]));
    return result;
}
size_t size_of_module(const void *image) {
    const ModuleHeader header = read_header(image);
    if (!header.contents) return 0;
    return size_t(header.contents - static_cast<const char *>(image)) + header.encoded_bytes();
}
LoadedModule *load_module(const void *image) {
    const ModuleHeader header = read_header(image);
    if (module_folder.empty() || !header.contents) return nullptr;
    const size_t bytes = header.library_bytes + header.source_bytes;
    const std::string decoded_text = header.is_text ? decoded(header.contents, bytes) : "";
    const char *const library = header.is_text ? decoded_text.data() : header.contents;
    const std::string path = write_library(
        library, header.library_bytes, library + header.library_bytes, header.source_bytes, header.source_name);
    void *const handle = path.empty() ? nullptr : dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    void *const kernels = handle ? dlsym(handle, "gs_module_kernels") : nullptr;
    if (!kernels) return nullptr;
    return new LoadedModule{static_cast<const ModuleKernel *>(kernels), image_of(kernels)};
}
// Demangles the name of a function and removes its parameters: `_Z1kPf` becomes `k`, and `k` is returned unchanged.
static std::string demangled(const char *name) {
    int status;
    char *const signature = abi::__cxa_demangle(name, nullptr, nullptr, &status);
    const std::string result = signature ? signature : name;
    free(signature);
    return result.substr(0, result.find('('));
}
const ModuleKernel *find_kernel(const LoadedModule *module, const char *name) {
    const ModuleKernel *kernel = module->kernels;
    for (const std::string demangled_name = demangled(name); kernel->name && demangled_name != kernel->name;) kernel++;
    return kernel->name ? kernel : nullptr;
}
void *find_variable(const LoadedModule *module, const char *name, size_t *bytes) {
    return device_variable(module->image, name, *bytes);
}
}

extern "C" GRIDSTRIDE_API void gridstride_set_module_folder(const char *folder) { gridstride::module_folder = folder; }
