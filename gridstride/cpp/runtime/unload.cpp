// Unloads modules that Python no longer references, unless a pointer into them may exist elsewhere: in a graph with
// their launches, as page-locked memory or the address of a variable, or because the C or C++ library may have stored
// an argument (`is_safe_libc_function`, `may_store_argument`). So a module that starts threads, has static destructors
// or sets handlers stays loaded.
#include <string.h>
#include <algorithm>
#include <atomic>
#include <mutex>
#include <string_view>
#include <unordered_set>
#include "addresses.h"
#include "detector.h"
#include "loader.h"
#include "platform.h"
#include "unload.h"

namespace gridstride {

static uintptr_t base_of(const void *address) {
    Dl_info info;
    return address && find_symbol(address, info) ? reinterpret_cast<uintptr_t>(info.dli_fbase) : 0;
}
static std::unordered_set<uintptr_t> pinned;               // the base addresses of modules that stay loaded
void pin_module(const void *address) {
    DeviceLock device_lock;
    if (const uintptr_t base = base_of(address)) pinned.insert(base);
}

static std::mutex unloaded_lock;                               // the OS threads of a launch read the list
static std::vector<uintptr_t> unloaded_modules;                        // the base addresses of unloaded modules
static std::atomic<size_t> num_unloaded{0};
void fork_unload(Fork phase) { handle_fork(phase, unloaded_lock); }
size_t num_unloaded_modules() { return num_unloaded; }
void discard_unloaded(std::unordered_map<uintptr_t, FileScope> &scopes, size_t &num_seen) {
    if (num_seen == num_unloaded) return;
    std::lock_guard<std::mutex> lock(unloaded_lock);
    for (; num_seen < unloaded_modules.size(); num_seen++) scopes.erase(unloaded_modules[num_seen]);
}

#ifndef GRIDSTRIDE_ELF
static int unload(void *) { return 1; }
#else
static bool starts_with(std::string_view name,
    std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; }
static bool contains(std::string_view name, std::string_view substring) {
    return name.find(substring) != name.npos;
}

// Returns whether this function of the C library stores none of its arguments.
static bool is_safe_libc_function(std::string_view name) {
    static const std::unordered_set<std::string_view> safe_functions =
        {"abort", "abs", "aligned_alloc", "atof", "atoi", "atol",
        "atoll", "bsearch", "calloc", "clock", "clock_gettime", "close", "div", "exit", "_exit", "fclose", "feof",
        "ferror", "fflush", "fgetc", "fgets", "fopen", "fprintf", "fputc", "fputs", "fread", "free", "fscanf", "fseek",
        "ftell", "fwrite", "getc", "getchar", "getenv", "getline", "getpid", "gettimeofday", "gmtime", "isalnum",
        "isalpha", "isdigit", "isspace", "labs", "llabs", "localtime", "lrand48", "drand48", "malloc", "nanosleep",
        "open", "perror", "posix_memalign", "printf", "putc", "putchar", "puts", "qsort", "raise", "rand", "rand_r",
        "random", "read", "realloc", "remove", "rewind", "scanf", "sleep", "snprintf", "sprintf", "srand", "srand48",
        "srandom", "sscanf", "stderr", "stdin", "stdout", "time", "tolower", "toupper", "usleep", "vfprintf", "vprintf",
        "vsnprintf", "write", "__assert_fail", "__ctype_b_loc", "__ctype_tolower_loc", "__ctype_toupper_loc",
        "__cxa_finalize", "__errno_location", "__isoc99_fscanf", "__isoc99_scanf", "__isoc99_sscanf",
        "__isoc23_strtol", "__isoc23_strtoll", "__isoc23_strtoul", "__isoc23_strtoull", "__isoc23_sscanf",
        "__stack_chk_fail"};
    return safe_functions.count(name) || starts_with(name, "mem") || starts_with(name, "str") ||
        starts_with(name, "wcs");
}
// Returns whether a function, or a class, of the C++ library may store its arguments.
static bool may_store_argument(std::string_view name) {
    for (const char *substring : {"thread", "atexit", "set_", "locale6global", "5facet", "callback", "resource",
             "5rdbuf", "_ZTISt15basic_streambuf", "_ZTISt14error_category"})
        if (contains(name, substring)) return true;
    return false;
}
static bool is_harmless_import(const ElfW(Sym) &symbol, const char *name) {
    Dl_info info;
    LoaderLock lock;
    const void *const definition = ELF64_ST_TYPE(symbol.st_info) == STT_TLS ? nullptr : dlsym(RTLD_DEFAULT, name);
    if (!definition || !find_symbol(definition, info)) return true;       // a symbol that is missing or thread-local
    static const uintptr_t runtime_base = base_of(reinterpret_cast<const void *>(&base_of));
    if (reinterpret_cast<uintptr_t>(info.dli_fbase) == runtime_base) return true;
    const char *const slash = strrchr(info.dli_fname, '/');
    const std::string_view file = slash ? slash + 1 : info.dli_fname;
    for (const char *library : {"libm.", "libm-", "libgcc_s", "ld-"})
        if (starts_with(file, library)) return true;
    if (starts_with(file, "libstdc++") || starts_with(file, "libc++")) return !may_store_argument(name);
    return (starts_with(file, "libc.") || starts_with(file, "libc-")) && is_safe_libc_function(name);
}

namespace {
struct Symbols {                       // the symbols of a library, from its dynamic section
    const ElfW(Sym) *table = nullptr;
    const char *names = nullptr;
    const uint32_t *hashes = nullptr;
    bool must_stay = false;                // because of a flag or static destructors
    explicit Symbols(const link_map *library);
    size_t count() const;
};
}
Symbols::Symbols(const link_map *library) {
    for (const ElfW(Dyn) *entry = library->l_ld; entry->d_tag != DT_NULL; entry++) {
        const ElfW(Addr) address = entry->d_un.d_ptr + (entry->d_un.d_ptr < library->l_addr ? library->l_addr : 0);
        switch (entry->d_tag) {
            case DT_SYMTAB: table = reinterpret_cast<const ElfW(Sym) *>(address); break;
            case DT_STRTAB: names = reinterpret_cast<const char *>(address); break;
            case DT_GNU_HASH: hashes = reinterpret_cast<const uint32_t *>(address); break;
            case DT_FLAGS_1: must_stay = must_stay || entry->d_un.d_val & DF_1_NODELETE; break;
            // one destructor is the compiler's
            case DT_FINI_ARRAYSZ: must_stay = must_stay || entry->d_un.d_val > sizeof(void *); break;
        }
    }
    must_stay = must_stay || !table || !names || !hashes;
}
// Returns the number of symbols; only the hash table contains it.
size_t Symbols::count() const {
    const uint32_t buckets = hashes[0], first = hashes[1], words = hashes[2];
    const uint32_t *const bucket = hashes + 4 + words * (sizeof(ElfW(Addr)) / 4), *const chain = bucket + buckets;
    size_t last_symbol = *std::max_element(bucket, bucket + buckets);
    if (last_symbol < first) return first;
    while (!(chain[last_symbol - first] & 1)) last_symbol++;
    return last_symbol + 1;
}
static bool can_unload(const link_map *library) {
    const Symbols symbols(library);
    for (size_t i = 1, n = symbols.must_stay ? 0 : symbols.count(); i < n; i++) {
        const bool imported = symbols.table[i].st_shndx == SHN_UNDEF;
        if (imported && !is_harmless_import(symbols.table[i], symbols.names + symbols.table[i].st_name)) return false;
        if (ELF64_ST_BIND(symbols.table[i].st_info) == STB_GNU_UNIQUE) return false;
    }
    return !symbols.must_stay;
}

static std::vector<const ParameterNames *> remove_names(const LoadedImage &module) {
    const auto removed = std::stable_partition(all_names.begin(), all_names.end(),
        [&](const ParameterNames *n) {
            return reinterpret_cast<uintptr_t>(n) - module.base >= module.end - module.base;
        });
    std::vector<const ParameterNames *> removed_names(removed, all_names.end());
    all_names.erase(removed, all_names.end());
    return removed_names;
}
static int unload(void *handle) {
    link_map *library = nullptr;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &library)) return 1;
    DeviceLock device_lock;
    if (running_calls || is_any_stream_captured()) return 2;
    const LoadedImage module = image_of(library->l_ld);
    if (!module.base || pinned.count(module.base) || !can_unload(library)) return 1;
    const std::string file = library->l_name;
    const auto names = remove_names(module);
    const auto symbols = take_device_variables(module);
    discard_module(module);
    dlclose(handle);
    if (void *reopened = dlopen(file.c_str(), RTLD_NOLOAD | RTLD_LAZY)) {      // other code has opened it, too
        all_names.insert(all_names.end(), names.begin(), names.end());
        for (const ParameterNames *entry : names) register_module(entry);
        restore_device_variables(symbols);
        dlclose(reopened);
        return 1;
    }
    discard_device_variables(symbols);
    discard_kernel_attributes(file);
    std::lock_guard<std::mutex> lock(unloaded_lock);
    unloaded_modules.push_back(module.base), num_unloaded++;
    return 0;
}
#endif
}

extern "C" int gridstride_unload(void *handle) { return gridstride::unload(handle); }
