// Addresses of the host's functions, tables of virtual functions and variables, of which the emulator's device has no
// others. So what host code gives to the device, by a launch or a copy, becomes an address where nothing is: a kernel
// that uses it faults, as on a GPU. What comes back is the host's again.
#include <dlfcn.h>
#include <algorithm>
#include <mutex>
#include <unordered_set>
#include <vector>
#include <sys/mman.h>
#include "addresses.h"
#include "detector.h"
#include "findings.h"
#ifndef __APPLE__
#include <link.h>
#endif

namespace gridstride {

namespace {
struct Range {
    uintptr_t from, bytes;
    bool has(uintptr_t a) const { return a - from < bytes; }
};
struct Module {                          // a library with kernels
    Range all, code, tables;
    uintptr_t away;                      // where its addresses are on the device
    bool plain = false;
};
}
static std::vector<Module> modules;      // by address
static std::unordered_set<uintptr_t> of_device;    // addresses that host code has from the device
static std::mutex modules_lock;
void fork_addresses(Fork now) { pass_fork(now, modules_lock); }
static uintptr_t lowest = ~uintptr_t(0), highest = 0;

void note_module(const void *inside, bool plain) {
#ifndef __APPLE__
    const Image image = image_of(const_cast<void *>(inside));
    std::lock_guard<std::mutex> one(modules_lock);
    for (auto &m : modules)
        if (m.all.from == image.base) return void(m.plain = m.plain || plain);
    Module m{{image.base, image.end - image.base}, {image.code, image.code_bytes}, {image.base, 0}, 0, plain};
    dl_iterate_phdr(
        [](dl_phdr_info *o, size_t, void *p) {
            auto &m = *static_cast<Module *>(p);
            for (int i = 0; i < o->dlpi_phnum && o->dlpi_addr == m.all.from; i++)
                if (const auto &part = o->dlpi_phdr[i]; part.p_type == PT_GNU_RELRO)
                    m.tables = {uintptr_t(o->dlpi_addr + part.p_vaddr), part.p_memsz};
            return 0;
        },
        &m);
    void *p = mmap(nullptr, m.all.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return;
    m.away = reinterpret_cast<uintptr_t>(p);
    modules.insert(std::upper_bound(modules.begin(), modules.end(), m,
        [](const Module &a, const Module &b) { return a.all.from < b.all.from; }), m);
    lowest = std::min({lowest, m.all.from, m.away});
    highest = std::max({highest, m.all.from + m.all.bytes, m.away + m.all.bytes});
#else
    (void)inside, (void)plain;
#endif
}
static const Module *module_at(uintptr_t a) {
    const auto next = std::upper_bound(modules.begin(), modules.end(), a,
        [](uintptr_t a, const Module &m) { return a < m.all.from; });
    return next != modules.begin() && (next - 1)->all.has(a) ? &*(next - 1) : nullptr;
}
bool is_plain_variable(const void *p) {
    std::lock_guard<std::mutex> one(modules_lock);
    const uintptr_t a = reinterpret_cast<uintptr_t>(p);
    const Module *m = module_at(a);
    return m && m->plain && !m->code.has(a);
}
static const Module *module_away(uintptr_t a) {
    for (auto &m : modules)
        if (a - m.away < m.all.bytes) return &m;
    return nullptr;
}
template <class F> static void each_word(void *p, size_t bytes, F f) {
    const uintptr_t first = (reinterpret_cast<uintptr_t>(p) + 7) / 8 * 8, end = reinterpret_cast<uintptr_t>(p) + bytes;
    for (uintptr_t at = first; at + 8 <= end; at += 8)
        if (uintptr_t &w = *reinterpret_cast<uintptr_t *>(at); __builtin_expect(w - lowest < highest - lowest, 0)) f(w);
}
// Does memory that both sides reach hold this address? Then a kernel may have put it there.
static bool is_in_shared_memory(uintptr_t address) {
    for (const Piece &p : memory.pieces) {
        bool found = false;
        if (p.live && p.host)
            each_word(reinterpret_cast<void *>(p.lo), p.hi - p.lo, [&](uintptr_t w) { found = found || w == address; });
        if (found) return true;
    }
    return false;
}
void to_device(void *p, size_t bytes, bool is_pointer) {
    if (on_device()) return;
    std::lock_guard<std::mutex> one(modules_lock);
    each_word(p, bytes, [&](uintptr_t &w) {
        const Module *m = module_at(w);
        const bool given = m && ((is_pointer && !m->plain) || m->code.has(w) || m->tables.has(w));
        if (given && !of_device.count(w) && !is_registered(w) && !is_in_shared_memory(w))
            w += m->away - m->all.from;
    });
}
void from_device(void *p, size_t bytes) {
    std::lock_guard<std::mutex> one(modules_lock);
    each_word(p, bytes, [&](uintptr_t &w) {
        if (const Module *m = module_away(w)) w += m->all.from - m->away;
        else if (module_at(w)) of_device.insert(w);
    });
}
static std::string function_at(uintptr_t a) {
    Dl_info info;
    char command[1400], text[1024] = "";
    if (!dladdr(reinterpret_cast<void *>(a), &info)) return text;
    snprintf(command, sizeof command, "addr2line -f -C -e '%s' %#zx 2>/dev/null", info.dli_fname,
        size_t(a - reinterpret_cast<uintptr_t>(info.dli_fbase)));
    if (FILE *pipe = popen(command, "r")) {
        if (!fgets(text, sizeof text, pipe) || text[0] == '?') text[0] = 0;
        pclose(pipe);
    }
    return std::string(text, strcspn(text, "(\n"));
}
Away what_is_away(uintptr_t a) {
    const Module *m = module_away(a);
    if (!m) return {Away::nothing, ""};
    const uintptr_t there = a + m->all.from - m->away;
    if (m->code.has(there)) return {Away::function, function_at(there)};
    return {m->tables.has(there) ? Away::table : Away::variable, ""};
}
}
