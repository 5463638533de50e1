// Launches of kernels from Python: reads the arguments, by the parameters of ../include/torch/gridstride/kernel.h.
#include "gridstride/kernel.h"
#include <memory>
#include <vector>

namespace gridstride {
namespace border {

namespace {
struct PassedArgument {                        // an argument, as Python passed it
    Text text;
    torch::Tensor tensor;
    char *at;                         // where the kernel's threads find it
};
}

template <class T> static bool read_as(Reader &r, char *at) {
    T x{};
    if (!Type<T>::read(r, x)) return false;
    __builtin_memcpy(at, &x, sizeof x);
    return true;
}
static bool read_whole(Reader &r, const Parameter &p, char *at) {
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
static bool read_passed(Reader &r, const Parameter &p, PassedArgument &x) {
    switch (p.takes) {
        case Takes::array: return read_pointer(r, x.tensor, p.type);
        case Takes::text: return Argument<const char *>::read(r, x.text);
        case Takes::truth: return read_as<bool>(r, x.at);
        case Takes::whole: return read_whole(r, p, x.at);
        case Takes::real: return read_real(r, p, x.at);
        default: return read_struct(r, x.at, p.bytes, x.tensor);
    }
}
// Can the value of an argument contain no address? A texture object is an unsigned integer.
static bool is_without_address(const Parameter &p, const char *at) {
    if (p.bytes < sizeof(void *) || p.takes == Takes::real) return true;
    int64_t x = 0;
    if (p.takes == Takes::whole) __builtin_memcpy(&x, at, sizeof x);
    return p.takes == Takes::whole && p.is_signed && x >= 0 && x < int64_t(1) << 32;
}
// Stores the address of an array, after all arguments are read: overlapping arrays share one allocation.
static Arg pass(const Parameter &p, PassedArgument &x) {
    TensorMap map;
    if (p.takes == Takes::bytes && p.bytes == sizeof map) {
        __builtin_memcpy(&map, x.at, sizeof map);
        if (x.tensor.defined()) {
            map.base = static_cast<char *>(pointer(x.tensor));
            __builtin_memcpy(x.at, &map, sizeof map);
        }
        return is_tensor_map(map) ? Arg{map.base, size_t(map.itemsize)} : Arg{};
    }
    if (p.takes != Takes::array && p.takes != Takes::text) return {nullptr, 0, is_without_address(p, x.at)};
    const void *address = p.takes == Takes::text ? Argument<const char *>::pass(x.text) : pointer(x.tensor);
    __builtin_memcpy(x.at, &address, sizeof address);
    const bool real = p.type == torch::kDouble || p.type == torch::kFloat;
    return {address, p.itemsize, real || (p.itemsize > 1 && p.itemsize < sizeof address)};
}

static Config requested_config(size_t &allowed) {
    const gs_call &c = *current();
    const auto xyz = [](const int64_t *n) { return dim3(unsigned(n[0]), unsigned(n[1]), unsigned(n[2])); };
    // A launch from Python also sets the limit of dynamic shared memory. Static memory may use the rest of 48 KiB, so
    // that is done from 40 KiB on.
    if (c.shared > 40 << 10 && c.shared <= 227 << 10) {
        const size_t least = (size_t(48) << 10) + 1;
        allowed = std::max({allowed, least, size_t(c.shared)});
    }
    return Config(xyz(c.grid), xyz(c.block), size_t(c.shared), static_cast<cudaStream_t>(c.stream), xyz(c.cluster),
        2);
}

static size_t aligned(size_t at, size_t alignment) { return (at + alignment - 1) / alignment * alignment; }
// Computes the offset of each argument in one buffer; returns the size of the buffer.
static size_t lay_out(const KernelDescription &k, std::vector<size_t> &at) {
    size_t end = 0;
    for (int i = 0; i < k.n; i++) {
        at.push_back(aligned(end, k.parameters[i].alignment));
        end = at.back() + k.parameters[i].bytes;
    }
    return end;
}

static void launch_with(gs_call *call, const void *kernel) {
    const KernelDescription &k = *static_cast<const KernelDescription *>(kernel);
    for (int i = 0; i < k.n; i++) if (k.parameters[i].takes == Takes::nothing) refuse_function();
    if (call->n != k.n) refuse_count(k.n, k.n, call->n);
    constexpr size_t most = 4096;     // the maximum alignment of a type
    std::vector<size_t> at;
    const size_t bytes = lay_out(k, at);
    const std::unique_ptr<char[]> memory(new char[bytes + most]());
    char *const aligned_buffer = reinterpret_cast<char *>(aligned(reinterpret_cast<uintptr_t>(memory.get()), most));
    std::vector<PassedArgument> given(static_cast<size_t>(k.n));
    Reader r{call->args, false};
    for (size_t i = 0; i < given.size(); i++) {
        given[i].at = aligned_buffer + at[i];
        if (!read_passed(r, k.parameters[i], given[i])) refuse_argument(int64_t(i) + 1, r.problem);
    }
    std::vector<Arg> args(given.size());
    std::vector<void *> addresses(given.size());
    for (size_t i = 0; i < given.size(); i++) args[i] = pass(k.parameters[i], given[i]), addresses[i] = given[i].at;
    const Config c = requested_config(k.allowed);
    if (!k.begin()) return;
    const uintptr_t from = reinterpret_cast<uintptr_t>(aligned_buffer);
    run({c.grid, c.block, c.shared, c.stream, c.cluster, k.name, 0, k.thread, addresses.data(), args.data(), k.n,
        c.cooperative, from, from + bytes});
}
int64_t launch_exported(gs_call *call, const KernelDescription &kernel) { return run_call(launch_with, call, &kernel); }
}
}
