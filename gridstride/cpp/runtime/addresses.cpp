// Addresses of host functions, vtables and variables, which a kernel could use in the emulator, but not on a GPU. A
// launch or a copy to the device therefore translates them to unmapped addresses, which fault when a kernel uses them;
// a copy to the host translates them back. Copied bytes may be integers that look like an address of the module, so a
// word is translated only if it is the start of a function or a vtable.
#include <algorithm>
#include <mutex>
#include <unordered_set>
#include <vector>
#include <sys/mman.h>
#include "addresses.h"
#include "detector.h"
#include "findings.h"
#include "loader.h"
#include "platform.h"

namespace gridstride {

namespace {
struct Range {
    uintptr_t begin, bytes;
    bool contains(uintptr_t a) const { return a - begin < bytes; }
};
// An entry of .eh_frame_hdr, and its header (Linux Standard Base, "DWARF Extensions")
struct FunctionStart {
    int32_t offset, frame_description;
};
struct FunctionIndex {
    uint8_t version, frame_encoding, count_encoding, table_encoding;
    int32_t eh_frame;
    uint32_t count;
};
struct Module {                          // a library with kernels
    Range range, code, vtables;
    uintptr_t device_base = 0;                   // start of its unmapped device addresses
    bool has_plain_symbols = false;              // whether some of its device variables are ordinary variables
    bool passed_to_device = false;       // whether an address in this module was passed to the device
    const FunctionStart *functions = nullptr;
    size_t function_count = 0;
    uintptr_t index_address = 0;                 // the address to which `functions` are relative
};
}
static std::vector<Module> modules;      // sorted by address
// addresses that came back from the device untranslated
static std::unordered_set<uintptr_t> addresses_from_device;
static std::mutex modules_lock;
void fork_addresses(Fork phase) { handle_fork(phase, modules_lock); }
static uintptr_t lowest_address = ~uintptr_t(0), highest_address = 0;

#ifdef GRIDSTRIDE_ELF
// Stores the module's function index if it has the format that linkers usually write: sorted by address, with offsets
// from the section.
static void store_function_index(Module &module, uintptr_t index_address) {
    const auto *index = reinterpret_cast<const FunctionIndex *>(index_address);
    const bool is_sorted = index->version == 1 && index->frame_encoding == 0x1b && index->count_encoding == 0x03 &&
                        index->table_encoding == 0x3b;
    if (!is_sorted) return;
    module.functions = reinterpret_cast<const FunctionStart *>(index + 1), module.function_count = index->count,
        module.index_address = index_address;
}
#endif
void register_module(const void *address, bool has_plain_symbols) {
#ifdef GRIDSTRIDE_ELF
    const LoadedImage image = image_of(const_cast<void *>(address));
    std::lock_guard<std::mutex> lock(modules_lock);
    for (auto &m : modules)
        if (m.range.begin == image.base) return void(m.has_plain_symbols = m.has_plain_symbols || has_plain_symbols);
    Module m;
    m.range = {image.base, image.end - image.base}, m.code = {image.code, image.code_bytes};
    m.vtables = {image.base, 0}, m.has_plain_symbols = has_plain_symbols;
    visit_modules([&m](const dl_phdr_info &library) {
        for (int i = 0; i < library.dlpi_phnum && library.dlpi_addr == m.range.begin; i++) {
            const auto &segment = library.dlpi_phdr[i];
            if (segment.p_type == PT_GNU_RELRO)
                m.vtables = {uintptr_t(library.dlpi_addr + segment.p_vaddr), segment.p_memsz};
            if (segment.p_type == PT_GNU_EH_FRAME) store_function_index(m, library.dlpi_addr + segment.p_vaddr);
        }
    });
    void *unmapped = mmap(nullptr, m.range.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (unmapped == MAP_FAILED) return;
    m.device_base = reinterpret_cast<uintptr_t>(unmapped);
    modules.insert(std::upper_bound(modules.begin(), modules.end(), m,
        [](const Module &a, const Module &b) { return a.range.begin < b.range.begin; }), m);
    lowest_address = std::min({lowest_address, m.range.begin, m.device_base});
    highest_address = std::max({highest_address, m.range.begin + m.range.bytes, m.device_base + m.range.bytes});
#else
    (void)address, (void)has_plain_symbols;
#endif
}
void discard_module(const LoadedImage &module) {
    std::lock_guard<std::mutex> lock(modules_lock);
    const auto m = std::find_if(
        modules.begin(), modules.end(), [&](const Module &candidate) { return candidate.range.contains(module.base); });
    if (m == modules.end()) return;
    for (auto a = addresses_from_device.begin(); a != addresses_from_device.end();)
        a = m->range.contains(*a) ? addresses_from_device.erase(a) : std::next(a);
    munmap(reinterpret_cast<void *>(m->device_base), m->range.bytes);
    modules.erase(m);
}
static Module *module_at(uintptr_t a) {
    const auto following = std::upper_bound(modules.begin(), modules.end(), a,
        [](uintptr_t a, const Module &module) { return a < module.range.begin; });
    return following != modules.begin() && (following - 1)->range.contains(a) ? &*(following - 1) : nullptr;
}
static bool is_function_start(const Module &module, uintptr_t a) {
    if (!module.code.contains(a)) return false;
    const auto *end = module.functions + module.function_count;
    const int64_t offset = int64_t(a - module.index_address);
    const auto *entry = std::lower_bound(
        module.functions, end, offset, [](const FunctionStart &entry, int64_t offset) { return entry.offset < offset;
            });
    return entry != end && entry->offset == offset;
}
// Returns whether a vtable starts at the address. The two words before it are the offset to the top of the object and
// the address of the type_info, whose second word is the address of its name (Itanium C++ ABI, 2.5.2 and 2.9.5).
static bool is_vtable_start(const Module &module, uintptr_t a) {
    if (a % sizeof a || !module.vtables.contains(a) || a - module.vtables.begin < 2 * sizeof a) return false;
    const auto *table = reinterpret_cast<const uintptr_t *>(a);
    const uintptr_t type = table[-1];
    const auto offset_to_top = static_cast<intptr_t>(table[-2]);
    return offset_to_top <= 0 && offset_to_top > -(1 << 30) && type % sizeof a == 0 && module.vtables.contains(type) &&
           module.vtables.contains(type + 2 * sizeof a - 1) &&
               module.range.contains(reinterpret_cast<const uintptr_t *>(type)[1]);
}
bool is_in_module(const void *code) {
    const std::unique_lock<std::mutex> lock(modules_lock, std::try_to_lock);
    const Module *m = lock ? module_at(reinterpret_cast<uintptr_t>(code)) : nullptr;
    return m && m->code.contains(reinterpret_cast<uintptr_t>(code));
}
bool is_plain_variable(const void *p) {
    std::lock_guard<std::mutex> lock(modules_lock);
    const uintptr_t a = reinterpret_cast<uintptr_t>(p);
    const Module *m = module_at(a);
    return m && m->has_plain_symbols && !m->code.contains(a);
}
bool has_plain_variables(const void *code) {
    std::lock_guard<std::mutex> lock(modules_lock);
    const Module *m = module_at(reinterpret_cast<uintptr_t>(code));
    return !m || m->has_plain_symbols;
}
static const Module *module_of_device_address(uintptr_t a) {
    for (auto &m : modules)
        if (a - m.device_base < m.range.bytes) return &m;
    return nullptr;
}
template <class F> static void visit_words(void *p, size_t bytes, F visit) {
    const uintptr_t first = (reinterpret_cast<uintptr_t>(p) + 7) / 8 * 8, end = reinterpret_cast<uintptr_t>(p) + bytes;
    for (uintptr_t address = first; address + 8 <= end; address += 8)
        if (uintptr_t &word = *reinterpret_cast<uintptr_t *>(address);
            __builtin_expect(word - lowest_address < highest_address - lowest_address, 0)) visit(word);
}
// Returns whether managed memory contains this address as a value, which a kernel may have stored there.
static bool is_in_managed_memory(uintptr_t address) {
    for (const Allocation &allocation : memory.allocations) {
        bool found = false;
        if (allocation.is_live && allocation.is_host)
            visit_words(reinterpret_cast<void *>(allocation.lo), allocation.hi - allocation.lo,
                [&](uintptr_t word) { found = found || word == address; });
        if (found) return true;
    }
    return false;
}
void hide_host_addresses(void *p, size_t bytes, bool is_pointer) {
    if (on_device()) return;
    std::lock_guard<std::mutex> lock(modules_lock);
    visit_words(p, bytes, [&](uintptr_t &word) {
        Module *module = module_at(word);
        const bool is_address = module && ((is_pointer && !module->has_plain_symbols) ||
            is_function_start(*module, word) || is_vtable_start(*module, word));
        if (is_address && !addresses_from_device.count(word) && !is_registered(word) && !is_in_managed_memory(word))
            word += module->device_base - module->range.begin, module->passed_to_device = true;
    });
}
void restore_host_addresses(void *p, size_t bytes) {
    std::lock_guard<std::mutex> lock(modules_lock);
    visit_words(p, bytes, [&](uintptr_t &word) {
        if (const Module *module = module_of_device_address(word); module && module->passed_to_device)
            word += module->range.begin - module->device_base;
        else if (module_at(word)) addresses_from_device.insert(word);
    });
}
static std::string function_at(uintptr_t a) {
    Dl_info info;
    if (!find_symbol(reinterpret_cast<void *>(a), info)) return "";
    char offset[24];
    snprintf(offset, sizeof offset, "%#zx", size_t(a - reinterpret_cast<uintptr_t>(info.dli_fbase)));
    ProgramOutput output({"addr2line", "-f", "-C", "-e", info.dli_fname, offset});
    const char *const function = output.next();
    return function && *function != '?' ? std::string(function, strcspn(function, "(")) : "";
}
DeviceAddress classify_address(uintptr_t a) {
    const Module *m = module_of_device_address(a);
    if (!m) return {DeviceAddress::nothing, ""};
    const uintptr_t host_address = a + m->range.begin - m->device_base;
    if (m->code.contains(host_address)) return {DeviceAddress::function, function_at(host_address)};
    return {m->vtables.contains(host_address) ? DeviceAddress::vtable : DeviceAddress::variable, ""};
}
}
