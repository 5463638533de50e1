// Unloads modules that Python no longer references, unless something else may hold a pointer into them: a graph that
// holds its launches, memory of its own that is page-locked, the address of a variable, or an argument that the C and
// C++ libraries may have stored, which `is_safe_libc_function` and `may_store_argument` decide. So a module that starts
// threads, has static destructors or sets handlers stays.
#include <dlfcn.h>
#include <string.h>
#include <algorithm>
#include <atomic>
#include <mutex>
#include <string_view>
#include <unordered_set>
#include "addresses.h"
#include "detector.h"
#include "unload.h"
#ifndef __APPLE__
#include <link.h>
#endif

namespace gridstride {

static uintptr_t base_of(const void *inside) {
    Dl_info info;
    return inside && dladdr(inside, &info) ? reinterpret_cast<uintptr_t>(info.dli_fbase) : 0;
}
static std::unordered_set<uintptr_t> pinned;               // the base addresses of modules that stay loaded
void pin_module(const void *inside) {
    DeviceLock device_lock;
    if (const uintptr_t base = base_of(inside)) pinned.insert(base);
}

static std::mutex gone_lock;                               // because a launch may run on several OS threads
static std::vector<uintptr_t> gone;                        // the base addresses of unloaded modules
static std::atomic<size_t> count_gone{0};
void fork_unload(Fork now) { pass_fork(now, gone_lock); }
size_t modules_unloaded() { return count_gone; }
void forget_unloaded(std::unordered_map<uintptr_t, FileScope> &scopes, size_t &seen) {
    if (seen == count_gone) return;
    std::lock_guard<std::mutex> one(gone_lock);
    for (; seen < gone.size(); seen++) scopes.erase(gone[seen]);
}

#ifdef __APPLE__
static int unload(void *) { return 1; }
#else
static bool begins_with(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }
static bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// Is it a function of C's library that stores none of its arguments?
static bool is_safe_libc_function(std::string_view name) {
    static const std::unordered_set<std::string_view> known = {"abort", "abs", "aligned_alloc", "atof", "atoi", "atol",
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
    return known.count(name) || begins_with(name, "mem") || begins_with(name, "str") || begins_with(name, "wcs");
}
// May a function, or a class, of C++'s library store its arguments?
static bool may_store_argument(std::string_view name) {
    for (const char *part : {"thread", "atexit", "set_", "locale6global", "5facet", "callback", "resource", "5rdbuf",
             "_ZTISt15basic_streambuf", "_ZTISt14error_category"})
        if (has(name, part)) return true;
    return false;
}
static bool is_harmless(const ElfW(Sym) &symbol, const char *name) {
    Dl_info info;
    const void *const there = ELF64_ST_TYPE(symbol.st_info) == STT_TLS ? nullptr : dlsym(RTLD_DEFAULT, name);
    if (!there || !dladdr(there, &info)) return true;       // a symbol that is missing or thread-local
    static const uintptr_t mine = base_of(reinterpret_cast<const void *>(&base_of));
    if (reinterpret_cast<uintptr_t>(info.dli_fbase) == mine) return true;
    const char *const slash = strrchr(info.dli_fname, '/');
    const std::string_view file = slash ? slash + 1 : info.dli_fname;
    for (const char *library : {"libm.", "libm-", "libgcc_s", "ld-"})
        if (begins_with(file, library)) return true;
    if (begins_with(file, "libstdc++") || begins_with(file, "libc++")) return !may_store_argument(name);
    return (begins_with(file, "libc.") || begins_with(file, "libc-")) && is_safe_libc_function(name);
}

namespace {
struct Symbols {                       // the symbols of a library, from its dynamic section
    const ElfW(Sym) *all = nullptr;
    const char *names = nullptr;
    const uint32_t *hashes = nullptr;
    bool stays = false;                // must it stay, because of a flag or static destructors?
    explicit Symbols(const link_map *m);
    size_t count() const;
};
}
Symbols::Symbols(const link_map *m) {
    for (const ElfW(Dyn) *d = m->l_ld; d->d_tag != DT_NULL; d++) {
        const ElfW(Addr) at = d->d_un.d_ptr + (d->d_un.d_ptr < m->l_addr ? m->l_addr : 0);
        switch (d->d_tag) {
            case DT_SYMTAB: all = reinterpret_cast<const ElfW(Sym) *>(at); break;
            case DT_STRTAB: names = reinterpret_cast<const char *>(at); break;
            case DT_GNU_HASH: hashes = reinterpret_cast<const uint32_t *>(at); break;
            case DT_FLAGS_1: stays = stays || d->d_un.d_val & DF_1_NODELETE; break;
            // one destructor is the compiler's
            case DT_FINI_ARRAYSZ: stays = stays || d->d_un.d_val > sizeof(void *); break;
        }
    }
    stays = stays || !all || !names || !hashes;
}
// Returns the number of symbols, which is known only from the hash table.
size_t Symbols::count() const {
    const uint32_t buckets = hashes[0], first = hashes[1], words = hashes[2];
    const uint32_t *const bucket = hashes + 4 + words * (sizeof(ElfW(Addr)) / 4), *const chain = bucket + buckets;
    size_t last = *std::max_element(bucket, bucket + buckets);
    if (last < first) return first;
    while (!(chain[last - first] & 1)) last++;
    return last + 1;
}
static bool may_go(const link_map *m) {
    const Symbols s(m);
    for (size_t i = 1, n = s.stays ? 0 : s.count(); i < n; i++) {
        const bool imported = s.all[i].st_shndx == SHN_UNDEF;
        if (imported && !is_harmless(s.all[i], s.names + s.all[i].st_name)) return false;
        if (ELF64_ST_BIND(s.all[i].st_info) == STB_GNU_UNIQUE) return false;
    }
    return !s.stays;
}

static std::vector<const Names *> take_names(const Image &module) {
    const auto removed = std::stable_partition(all_names.begin(), all_names.end(),
        [&](const Names *n) { return reinterpret_cast<uintptr_t>(n) - module.base >= module.end - module.base; });
    std::vector<const Names *> taken(removed, all_names.end());
    all_names.erase(removed, all_names.end());
    return taken;
}
static int unload(void *handle) {
    link_map *m = nullptr;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &m)) return 1;
    DeviceLock device_lock;
    if (running_calls || is_any_stream_captured()) return 2;
    const Image module = image_of(m->l_ld);
    if (!module.base || pinned.count(module.base) || !may_go(m)) return 1;
    const std::string file = m->l_name;
    const auto names = take_names(module);
    const auto symbols = take_device_variables(module);
    forget_module(module);
    dlclose(handle);
    if (void *still = dlopen(file.c_str(), RTLD_NOLOAD | RTLD_LAZY)) {      // other code has opened it, too
        all_names.insert(all_names.end(), names.begin(), names.end());
        for (const Names *entry : names) register_module(entry);
        restore_device_variables(symbols);
        dlclose(still);
        return 1;
    }
    drop_device_variables(symbols);
    forget_dynamic(file);
    std::lock_guard<std::mutex> one(gone_lock);
    gone.push_back(module.base), count_gone++;
    return 0;
}
#endif
}

extern "C" int gridstride_unload(void *handle) { return gridstride::unload(handle); }
