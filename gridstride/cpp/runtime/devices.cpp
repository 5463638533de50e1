// The emulated devices, 1 to 8. All share one range of addresses, as the devices of a process do on a host with GPUs
// (unified addressing); each allocation belongs to a device.
#include "devices.h"

namespace gridstride {

static thread_local int chosen_device = 0, launch_device = -1;
static bool has_peer_access[max_devices][max_devices] = {};        // [device][peer]

int device_count() { return std::max(1, options.devices); }
int current_device() {
    return launch_device >= 0 ? launch_device : chosen_device < device_count() ? chosen_device : 0;
}
bool is_device_number(int device) { return device >= 0 && device < device_count(); }
bool choose_device(int device) {
    if (!is_device_number(device)) return false;
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
    return allocation.device == device || allocation.host || allocation.is_symmetric ||
           has_peer_access[device][allocation.device];
}
int device_of(const void *p) {
    DeviceLock device_lock;
    const Allocation *allocation = memory.at(reinterpret_cast<uintptr_t>(p));
    return allocation && allocation->live ? allocation->device : -1;
}
void *symmetric_alloc(size_t bytes, size_t itemsize, const char *name, int line) {
    DeviceLock device_lock;
    void *const p = device_alloc(bytes, itemsize, true, false, line);
    if (!p) return nullptr;
    Allocation &allocation = *memory.at(reinterpret_cast<uintptr_t>(p));
    allocation.is_symmetric = true;
    if (name[0]) allocation.add_name(name, allocation.lo);
    return p;
}
void forget_devices() {
    chosen_device = 0, launch_device = -1;
    for (auto &row : has_peer_access)
        for (bool &entry : row) entry = false;
}
}
