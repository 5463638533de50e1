// Launches of kernels from Python: reads the arguments, by the parameters of ../include/torch/gridstride/kernel.h.
#include "gridstride/kernel.h"
#include <memory>
#include <vector>

namespace gridstride {
namespace border {

namespace {
struct ArgumentValue {                        // an argument, as Python passed it
    Text text;
    torch::Tensor tensor;
    char *address;                    // where the kernel's threads find it
};
}

template <class T> static bool read_as(Reader &r, char *at) {
    T x{};
    if (!Type<T>::read(r, x)) return false;
    __builtin_memcpy(at, &x, sizeof x);
    return true;
}
static bool read_integer(Reader &r, const Parameter &p, char *at) {
    switch (p.bytes) {
        case 1: return p.is_signed ? read_as<int8_t>(r, at) : read_as<uint8_t>(r, at);
        case 2: return p.is_signed ? read_as<int16_t>(r, at) : read_as<uint16_t>(r, at);
        case 4: return p.is_signed ? read_as<int32_t>(r, at) : read_as<uint32_t>(r, at);
        default: return p.is_signed ? read_as<int64_t>(r, at) : read_as<uint64_t>(r, at);
    }
}
static bool read_real(Reader &r, const Parameter &p, char *at) {
    switch (p.type) {
        case torch::kHalf: return read_as<Half>(r, at);
        case torch::kBFloat16: return read_as<BFloat16>(r, at);
        case torch::kFloat: return read_as<float>(r, at);
        case torch::kDouble: return read_as<double>(r, at);
        default: return read_as<long double>(r, at);
    }
}
static bool read_argument_value(Reader &r, const Parameter &p, ArgumentValue &x) {
    switch (p.kind) {
        case ParameterKind::array: return read_pointer(r, x.tensor, p.type);
        case ParameterKind::text: return Argument<const char *>::read(r, x.text);
        case ParameterKind::boolean: return read_as<bool>(r, x.address);
        case ParameterKind::integer: return read_integer(r, p, x.address);
        case ParameterKind::real: return read_real(r, p, x.address);
        default: return read_struct(r, x.address, p.bytes, x.tensor);
    }
}
// Can the value of an argument contain no address? A texture object is an unsigned integer.
static bool is_without_address(const Parameter &p, const char *at) {
    if (p.bytes < sizeof(void *) || p.kind == ParameterKind::real) return true;
    int64_t x = 0;
    if (p.kind == ParameterKind::integer) __builtin_memcpy(&x, at, sizeof x);
    return p.kind == ParameterKind::integer && p.is_signed && x >= 0 && x < int64_t(1) << 32;
}
// Stores the address of an array, after all arguments are read: overlapping arrays share one allocation.
static Arg pass(const Parameter &p, ArgumentValue &x) {
    TensorMap map;
    if (p.kind == ParameterKind::bytes && p.bytes == sizeof map) {
        __builtin_memcpy(&map, x.address, sizeof map);
        if (x.tensor.defined()) {
            map.base = static_cast<char *>(pointer(x.tensor));
            __builtin_memcpy(x.address, &map, sizeof map);
        }
        return is_tensor_map(map) ? Arg{map.base, size_t(map.itemsize)} : Arg{};
    }
    if (p.kind != ParameterKind::array && p.kind != ParameterKind::text)
        return {nullptr, 0, is_without_address(p, x.address)};
    const void *address = p.kind == ParameterKind::text ? Argument<const char *>::pass(x.text) : pointer(x.tensor);
    __builtin_memcpy(x.address, &address, sizeof address);
    const bool is_real = p.type == torch::kDouble || p.type == torch::kFloat;
    return {address, p.itemsize, is_real || (p.itemsize > 1 && p.itemsize < sizeof address)};
}

static Config requested_config(size_t &shared_limit) {
    const gs_call &c = *current();
    const auto xyz = [](const int64_t *n) { return dim3(unsigned(n[0]), unsigned(n[1]), unsigned(n[2])); };
    // A launch from Python also sets the limit of dynamic shared memory. Static memory may use the rest of 48 KiB, so
    // that is done from 40 KiB on.
    if (c.shared > 40 << 10 && c.shared <= 227 << 10) {
        const size_t min_limit = (size_t(48) << 10) + 1;
        shared_limit = std::max({shared_limit, min_limit, size_t(c.shared)});
    }
    return Config(xyz(c.grid), xyz(c.block), size_t(c.shared), static_cast<cudaStream_t>(c.stream), xyz(c.cluster),
        2);
}

static size_t align(size_t offset, size_t alignment) { return (offset + alignment - 1) / alignment * alignment; }
// Computes the offset of each argument in one buffer; returns the size of the buffer.
static size_t lay_out(const KernelDescription &k, std::vector<size_t> &offsets) {
    size_t end = 0;
    for (int i = 0; i < k.num_parameters; i++) {
        offsets.push_back(align(end, k.parameters[i].alignment));
        end = offsets.back() + k.parameters[i].bytes;
    }
    return end;
}

static void launch_with(gs_call *call, const void *kernel) {
    const KernelDescription &k = *static_cast<const KernelDescription *>(kernel);
    for (int i = 0; i < k.num_parameters; i++)
        if (k.parameters[i].kind == ParameterKind::unsupported) refuse_function();
    if (call->n != k.num_parameters) refuse_count(k.num_parameters, k.num_parameters, call->n);
    constexpr size_t max_alignment = 4096;   // of a type
    std::vector<size_t> offsets;
    const size_t bytes = lay_out(k, offsets);
    const std::unique_ptr<char[]> memory(new char[bytes + max_alignment]());
    char *const aligned_buffer =
        reinterpret_cast<char *>(align(reinterpret_cast<uintptr_t>(memory.get()), max_alignment));
    std::vector<ArgumentValue> values(static_cast<size_t>(k.num_parameters));
    Reader r{call->args, false};
    for (size_t i = 0; i < values.size(); i++) {
        values[i].address = aligned_buffer + offsets[i];
        if (!read_argument_value(r, k.parameters[i], values[i])) refuse_argument(int64_t(i) + 1, r.reason);
    }
    std::vector<Arg> args(values.size());
    std::vector<void *> addresses(values.size());
    for (size_t i = 0; i < values.size(); i++)
        args[i] = pass(k.parameters[i], values[i]), addresses[i] = values[i].address;
    const Config c = requested_config(k.shared_limit);
    if (!k.prepare()) return;
    const uintptr_t from = reinterpret_cast<uintptr_t>(aligned_buffer);
    run({c.grid, c.block, c.shared, c.stream, c.cluster, k.name, 0, k.run_thread, addresses.data(), args.data(),
        k.num_parameters, c.cooperative, from, from + bytes});
}
int64_t launch_exported(gs_call *call, const KernelDescription &kernel) { return run_call(launch_with, call, &kernel); }
}
}
