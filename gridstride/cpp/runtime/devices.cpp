// The emulated devices, 1 to 8. All share one address space, like the GPUs of a process (unified addressing); each
// allocation belongs to a device.
#include "devices.h"
#include "ranks.h"
#include <algorithm>
#include <vector>

namespace gridstride {

static thread_local int chosen_device = 0, launch_device = -1;
static bool has_peer_access[max_devices][max_devices] = {};        // [device][peer]

int device_count() { return std::max(1, options.devices); }
int current_device() {
    return launch_device >= 0 ? launch_device : chosen_device < device_count() ? chosen_device : 0;
}
bool is_device_index(int device) { return device >= 0 && device < device_count(); }
bool choose_device(int device) {
    if (!is_device_index(device)) return false;
    chosen_device = device;
    return true;
}
void set_launch_device(int device) { launch_device = device; }
bool set_peer_access(int peer, bool enabled) {
    bool &entry = has_peer_access[current_device()][peer];
    if (entry == enabled) return false;
    entry = enabled;
    return true;
}
bool can_access(int device, const Allocation &allocation) {
    return allocation.device == device || allocation.is_host || allocation.is_symmetric ||
           has_peer_access[device][allocation.device];
}
int device_of(const void *p) {
    DeviceLock device_lock;
    const Allocation *allocation = memory.at(reinterpret_cast<uintptr_t>(p));
    return allocation && allocation->is_live ? allocation->device : -1;
}
static void *alloc_accessible(size_t bytes, size_t itemsize, const char *name, int line) {
    void *const p = device_alloc(bytes, itemsize, true, false, line);
    if (!p) return nullptr;
    Allocation &allocation = *memory.at(reinterpret_cast<uintptr_t>(p));
    allocation.is_symmetric = true;
    if (name[0]) allocation.add_name(name, allocation.lo);
    return p;
}
// A symmetric allocation: an array of the same size on each device. Its multicast address is in an unmapped range.
namespace {
struct SymmetricArray {
    char *replicas[max_devices] = {};      // by device; null: freed
    size_t bytes = 0;
    char *multicast = nullptr;             // null until it is needed
};
}
static std::vector<SymmetricArray> symmetric_arrays;
static SymmetricArray *symmetric_array_at(const void *p) {
    const char *const a = static_cast<const char *>(p);
    for (SymmetricArray &array : symmetric_arrays) {
        if (array.multicast && size_t(a - array.multicast) < array.bytes) return &array;
        for (const char *replica : array.replicas)
            if (replica && size_t(a - replica) < array.bytes) return &array;
    }
    return nullptr;
}
static ptrdiff_t offset_in(const SymmetricArray &array, const void *p) {
    const char *const a = static_cast<const char *>(p);
    for (const char *replica : array.replicas)
        if (replica && size_t(a - replica) < array.bytes) return a - replica;
    return a - array.multicast;
}
// Frees what was allocated if a replica is missing.
static void *add_symmetric_array(const SymmetricArray &array, int count, int own) {
    const auto end = array.replicas + count;
    if (std::find(array.replicas, end, nullptr) == end) {
        symmetric_arrays.push_back(array);
        return array.replicas[own];
    }
    for (char *replica : array.replicas)
        if (replica) device_free(replica);
    return nullptr;
}
// In a world of processes, each allocates one replica and opens those of the others.
static void *symmetric_alloc_in_world(size_t bytes, size_t itemsize, const char *name, int line) {
    SymmetricArray array;
    array.bytes = bytes;
    MemoryHandle handles[max_ranks] = {};
    char *const own = static_cast<char *>(alloc_accessible(bytes, itemsize, name, line));
    if (own) share_memory(own, handles[my_element()]);
    exchange_in_world("nvshmem_malloc", bytes, line, handles, sizeof *handles);
    for (int i = 0; i < num_elements(); i++) {
        array.replicas[i] = i == my_element() ? own : static_cast<char *>(open_shared(handles[i]));
        if (!array.replicas[i]) continue;
        Allocation &allocation = *memory.at(reinterpret_cast<uintptr_t>(array.replicas[i]));
        allocation.is_symmetric = true;
        if (name[0] && i != my_element()) allocation.add_name(name, allocation.lo);
    }
    exchange_in_world("nvshmem_malloc", 0, line, nullptr, 0);    // none may end before all have opened its replica
    return add_symmetric_array(array, num_elements(), my_element());
}
void *symmetric_alloc(size_t bytes, size_t itemsize, const char *name, int line) {
    if (is_in_world()) return symmetric_alloc_in_world(bytes, itemsize, name, line);
    DeviceLock device_lock;
    SymmetricArray array;
    array.bytes = bytes;
    const int device = current_device();
    for (int i = 0; i < device_count(); i++) {
        choose_device(i);
        array.replicas[i] = static_cast<char *>(alloc_accessible(bytes, itemsize, name, line));
    }
    choose_device(device);
    return add_symmetric_array(array, device_count(), device);
}
void *symmetric_peer(const void *p, int device) {
    const bool exists = device >= 0 && device < num_elements();
    SymmetricArray *const array = exists ? symmetric_array_at(p) : nullptr;
    return array && array->replicas[device] ? array->replicas[device] + offset_in(*array, p) : nullptr;
}
bool symmetric_free(void *p) {
    DeviceLock device_lock;
    SymmetricArray *const array = symmetric_array_at(p);
    if (!array || !device_free(p)) return false;
    for (int i = 0; is_in_world() && i < num_elements(); i++)
        if (array->replicas[i] != p) device_free(array->replicas[i]), array->replicas[i] = nullptr;
    for (char *&replica : array->replicas)
        if (replica == p) replica = nullptr;
    const bool is_any_left = std::any_of(array->replicas, std::end(array->replicas), [](char *r) { return r; });
    if (!is_any_left) symmetric_arrays.erase(symmetric_arrays.begin() + (array - symmetric_arrays.data()));
    return true;
}
void *multicast_address(const void *p) {
    DeviceLock device_lock;
    SymmetricArray *const array = symmetric_array_at(p);
    if (!array) return nullptr;
    if (!array->multicast) array->multicast = memory.reserve_named_range(array->bytes, 1, "a multicast address", false);
    return array->multicast + offset_in(*array, p);
}
int multicast_replicas(const void *address, void *(&replicas)[8]) {
    const SymmetricArray *const array = symmetric_array_at(address);
    int count = 0;
    for (int i = 0; array && i < max_devices; i++)
        if (array->replicas[i]) replicas[count++] = array->replicas[i] + offset_in(*array, address);
    return count;
}
void discard_devices() {
    chosen_device = 0, launch_device = -1;
    for (auto &row : has_peer_access)
        for (bool &entry : row) entry = false;
}
}
