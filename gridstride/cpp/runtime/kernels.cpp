// Launches kernels from Python. Reads the arguments as the kernel's `KernelDescription` specifies
// (`../include/torch/gridstride/kernel.h`).
#include "gridstride/kernel.h"
#include "queue.h"
#include <memory>
#include <vector>

namespace gridstride {
namespace bindings {

namespace {
struct ArgumentValue {                        // an argument from Python
    StringOrTensor string;
    torch::Tensor tensor;
    char *address;                    // where the kernel's threads read it
};
}

template <class T> static bool read_as(Reader &r, char *buffer) {
    T value{};
    if (!Type<T>::read(r, value)) return false;
    __builtin_memcpy(buffer, &value, sizeof value);
    return true;
}
static bool read_integer(Reader &r, const Parameter &p, char *buffer) {
    switch (p.bytes) {
        case 1: return p.is_signed ? read_as<int8_t>(r, buffer) : read_as<uint8_t>(r, buffer);
        case 2: return p.is_signed ? read_as<int16_t>(r, buffer) : read_as<uint16_t>(r, buffer);
        case 4: return p.is_signed ? read_as<int32_t>(r, buffer) : read_as<uint32_t>(r, buffer);
        default: return p.is_signed ? read_as<int64_t>(r, buffer) : read_as<uint64_t>(r, buffer);
    }
}
static bool read_float(Reader &r, const Parameter &p, char *buffer) {
    switch (p.type) {
        case torch::kHalf: return read_as<Half>(r, buffer);
        case torch::kBFloat16: return read_as<BFloat16>(r, buffer);
        case torch::kFloat: return read_as<float>(r, buffer);
        case torch::kDouble: return read_as<double>(r, buffer);
        default: return read_as<long double>(r, buffer);
    }
}
static bool read_argument_value(Reader &r, const Parameter &p, ArgumentValue &value) {
    switch (p.kind) {
        case ParameterKind::array: return read_pointer(r, value.tensor, p.type);
        case ParameterKind::string: return Argument<const char *>::read(r, value.string);
        case ParameterKind::boolean: return read_as<bool>(r, value.address);
        case ParameterKind::integer: return read_integer(r, p, value.address);
        case ParameterKind::floating_point: return read_float(r, p, value.address);
        default: return read_struct(r, value.address, p.bytes, value.tensor);
    }
}
// Returns whether the value of an argument cannot contain an address. An unsigned integer may be a texture object.
static bool cannot_contain_address(const Parameter &p, const char *bytes) {
    if (p.bytes < sizeof(void *) || p.kind == ParameterKind::floating_point) return true;
    int64_t value = 0;
    if (p.kind == ParameterKind::integer) __builtin_memcpy(&value, bytes, sizeof value);
    return p.kind == ParameterKind::integer && p.is_signed && value >= 0 && value < int64_t(1) << 32;
}
// Stores the address of an array argument. All arguments must have been read, because overlapping arrays share one
// allocation.
static Arg pass(const Parameter &p, ArgumentValue &value) {
    TensorMap map;
    if (p.kind == ParameterKind::bytes && p.bytes == sizeof map) {
        __builtin_memcpy(&map, value.address, sizeof map);
        if (value.tensor.defined()) {
            map.base = static_cast<char *>(pointer(value.tensor));
            __builtin_memcpy(value.address, &map, sizeof map);
        }
        return is_tensor_map(map) ? Arg{map.base, size_t(map.itemsize)} : Arg{};
    }
    if (p.kind != ParameterKind::array && p.kind != ParameterKind::string)
        return {nullptr, 0, cannot_contain_address(p, value.address)};
    const void *address = p.kind == ParameterKind::string ? Argument<const char *>::pass(value.string)
        : pointer(value.tensor);
    __builtin_memcpy(value.address, &address, sizeof address);
    const bool is_floating_point = p.type == torch::kDouble || p.type == torch::kFloat;
    return {address, p.itemsize, is_floating_point || (p.itemsize > 1 && p.itemsize < sizeof address)};
}

static Config requested_config(const KernelDescription &description) {
    const gs_call &c = *current();
    const auto to_dim3 = [](const int64_t *sizes) { return dim3(unsigned(sizes[0]), unsigned(sizes[1]),
        unsigned(sizes[2])); };
    // A launch from Python also raises the limit of dynamic shared memory. Below 48 KiB of static and dynamic shared
    // memory in total this is not needed, so the limit is raised only for more than 40 KiB of dynamic shared memory.
    if (c.shared > 40 << 10 && c.shared <= 227 << 10) {
        const size_t min_limit = (size_t(48) << 10) + 1;
        description.shared_limit = std::max({description.shared_limit, min_limit, size_t(c.shared)});
    }
    if (c.large_clusters) description.allows_large_clusters = true;
    return Config(to_dim3(c.grid), to_dim3(c.block), size_t(c.shared), static_cast<cudaStream_t>(c.stream),
        to_dim3(c.cluster),
        2);
}

static size_t align(size_t offset, size_t alignment) { return (offset + alignment - 1) / alignment * alignment; }
// Computes the offset of each argument in one buffer; returns the size of the buffer.
static size_t compute_offsets(const KernelDescription &description, std::vector<size_t> &offsets) {
    size_t end = 0;
    for (int i = 0; i < description.num_parameters; i++) {
        offsets.push_back(align(end, description.parameters[i].alignment));
        end = offsets.back() + description.parameters[i].bytes;
    }
    return end;
}

namespace {
struct Arguments {                            // the memory of the arguments of a launch
    std::unique_ptr<char[]> memory;
    std::vector<ArgumentValue> values;
    std::vector<Arg> args;
    std::vector<void *> addresses;
};
}

static void launch_kernel(gs_call *call, const void *kernel) {
    const KernelDescription &description = *static_cast<const KernelDescription *>(kernel);
    for (int i = 0; i < description.num_parameters; i++)
        if (description.parameters[i].kind == ParameterKind::unsupported) reject_function();
    if (call->n != description.num_parameters)
        reject_count(description.num_parameters, description.num_parameters, call->n);
    constexpr size_t max_alignment = 4096;   // of a type
    std::vector<size_t> offsets;
    const size_t bytes = compute_offsets(description, offsets);
    const auto arguments = std::make_shared<Arguments>();      // shared, because a queued launch keeps its arguments
    arguments->memory.reset(new char[bytes + max_alignment]());
    char *const aligned_buffer =
        reinterpret_cast<char *>(align(reinterpret_cast<uintptr_t>(arguments->memory.get()), max_alignment));
    std::vector<ArgumentValue> &values = arguments->values;
    values.resize(static_cast<size_t>(description.num_parameters));
    Reader reader{call->args, false};
    for (size_t i = 0; i < values.size(); i++) {
        values[i].address = aligned_buffer + offsets[i];
        if (!read_argument_value(reader, description.parameters[i], values[i]))
            reject_argument(int64_t(i) + 1, reader.reason);
    }
    std::vector<Arg> &args = arguments->args;
    std::vector<void *> &addresses = arguments->addresses;
    args.resize(values.size()), addresses.resize(values.size());
    for (size_t i = 0; i < values.size(); i++)
        args[i] = pass(description.parameters[i], values[i]), addresses[i] = values[i].address;
    const Config c = requested_config(description);
    const uintptr_t arguments_begin = reinterpret_cast<uintptr_t>(aligned_buffer);
    const Launch launch = {c.grid, c.block, c.shared, c.stream, c.cluster, description.name, 0, description.run_thread,
        addresses.data(), args.data(),
        description.num_parameters, c.cooperative, arguments_begin,
        arguments_begin + bytes};
    // because the queue must not release Python's objects
    for (ArgumentValue &value : values) value.tensor = {};
    if (is_queueing()) return queue_launch(launch, description.prepare, arguments);
    if (description.prepare()) run(launch);
}
int64_t launch_exported(gs_call *call, const KernelDescription &kernel) { return run_call(launch_kernel, call,
    &kernel); }
}
}

extern "C" {
// With several devices: while the queue is deferred, it collects the launches of several calls from Python.
GRIDSTRIDE_API void gridstride_defer_queue(bool on) { gridstride::is_queue_deferred = on; }
GRIDSTRIDE_API void gridstride_discard_queue() {
    gridstride::DeviceLock device_lock;
    gridstride::discard_queue();
    gridstride::copy_out_host_arrays();
    gridstride::bindings::memory_ranges.clear();
}
GRIDSTRIDE_API bool gridstride_choose_device(int device) { return gridstride::choose_device(device); }
GRIDSTRIDE_API int gridstride_chosen_device() { return gridstride::current_device(); }
GRIDSTRIDE_API void *gridstride_symmetric_alloc(size_t bytes, size_t itemsize, const char *name) {
    return gridstride::symmetric_alloc(bytes, itemsize, name, 0);
}
GRIDSTRIDE_API void *gridstride_symmetric_peer(void *p, int device) { return gridstride::symmetric_peer(p, device); }
GRIDSTRIDE_API void *gridstride_multicast_address(void *p) { return gridstride::multicast_address(p); }
GRIDSTRIDE_API void gridstride_symmetric_free(void *p) { gridstride::symmetric_free(p); }
// Runs the queue, and copies tensors back to Python; returns false if there is a finding.
GRIDSTRIDE_API bool gridstride_run_queue() {
    const bool was_deferred = gridstride::is_queue_deferred;
    gridstride::is_queue_deferred = false;
    const bool succeeded = gridstride::run_guarded([](void *) { gridstride::run_queue(nullptr); }, nullptr);
    gridstride::is_queue_deferred = was_deferred;
    gridstride::copy_out_host_arrays();
    gridstride::bindings::memory_ranges.clear();
    return succeeded;
}
}
