// torch::ScalarType, Device, TensorOptions, Scalar, IntArrayRef
#pragma once
#include "bindings.h"
#include "dtypes.h"

namespace torch {

GRIDSTRIDE_BINDING const char *toString(ScalarType t);

template <ScalarType> struct ScalarTypeToCPPType;
#define X(name, code, size, T) template <> struct ScalarTypeToCPPType<ScalarType::name> { using type = T; };
GRIDSTRIDE_DTYPES(X)
#undef X
template <ScalarType t> using ScalarTypeToCPPTypeT = typename ScalarTypeToCPPType<t>::type;

struct TypeMeta {    // the result of x.dtype()
    ScalarType type;
    operator ScalarType() const { return type; }
    ScalarType toScalarType() const { return type; }
    size_t itemsize() const { return elementSize(type); }
    const char *name() const { return toString(type); }
    friend bool operator==(TypeMeta a, TypeMeta b) { return a.type == b.type; }
    friend bool operator!=(TypeMeta a, TypeMeta b) { return a.type != b.type; }
    friend bool operator==(TypeMeta a, ScalarType b) { return a.type == b; }
    friend bool operator!=(TypeMeta a, ScalarType b) { return a.type != b; }
    friend bool operator==(ScalarType a, TypeMeta b) { return a == b.type; }
    friend bool operator!=(ScalarType a, TypeMeta b) { return a != b.type; }
};
using Dtype = ScalarType;

template <class T> struct CppTypeToScalarType { static constexpr ScalarType value = dtype_of<T>; };

template <class T> struct OpMathType { using type = T; };
template <> struct OpMathType<Half> { using type = float; };
template <> struct OpMathType<BFloat16> { using type = float; };
template <class T> using opmath_type = typename OpMathType<T>::type;
template <class T, bool cuda>
using acc_type = std::conditional_t<std::is_integral_v<T>, int64_t,
    std::conditional_t<cuda || !std::is_same_v<T, float>, opmath_type<T>, double>>;

enum class DeviceType : int8_t { CPU = 0, CUDA = 1 };
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA;
using DeviceIndex = int8_t;

struct Device {
    DeviceType kind = kCPU;
    DeviceIndex device_index = -1;
    Device() = default;
    Device(DeviceType kind, DeviceIndex device_index = -1) : kind(kind), device_index(device_index) {}
    GRIDSTRIDE_BINDING Device(const std::string &name);
    Device(const char *name) : Device(std::string(name)) {}
    DeviceType type() const { return kind; }
    DeviceIndex index() const { return device_index; }
    bool has_index() const { return device_index >= 0; }
    bool is_cuda() const { return kind == kCUDA; }
    bool is_cpu() const { return kind == kCPU; }
    GRIDSTRIDE_BINDING std::string str() const;
    friend bool operator==(Device a, Device b) { return a.kind == b.kind && a.device_index == b.device_index; }
    friend bool operator!=(Device a, Device b) { return !(a == b); }
};

GRIDSTRIDE_BINDING void append(std::string &s, ScalarType t);
GRIDSTRIDE_BINDING void append(std::string &s, TypeMeta t);
GRIDSTRIDE_BINDING void append(std::string &s, DeviceType d);
GRIDSTRIDE_BINDING void append(std::string &s, const Device &d);

template <class T> class ArrayRef {
    const T *items = nullptr;
    size_t count = 0;
public:
    ArrayRef() = default;
    ArrayRef(const T &item) : items(&item), count(1) {}
    ArrayRef(const T *items, size_t count) : items(items), count(count) {}
    ArrayRef(const T *begin, const T *end) : items(begin), count(size_t(end - begin)) {}
    ArrayRef(const std::vector<T> &v) : items(v.data()), count(v.size()) {}
    template <size_t n> ArrayRef(const T (&v)[n]) : items(v), count(n) {}
    // valid until the end of the full expression
    ArrayRef(const std::initializer_list<T> &v) { items = v.begin(); count = v.size(); }
    const T *begin() const { return items; }
    const T *end() const { return items + count; }
    const T *data() const { return items; }
    size_t size() const { return count; }
    bool empty() const { return !count; }
    const T &operator[](size_t i) const { return items[i]; }
    const T &at(size_t i) const {
        TORCH_CHECK(i < count, "index ", i, " is out of range for ", count, " items");
        return items[i];
    }
    const T &front() const { return at(0); }
    const T &back() const { return at(count - 1); }
    std::vector<T> vec() const { return {begin(), end()}; }
    ArrayRef slice(size_t from, size_t n) const { return {items + from, n}; }
    ArrayRef slice(size_t from) const { return {items + from, count - from}; }
    friend bool operator==(ArrayRef a, ArrayRef b) {
        bool are_equal = a.count == b.count;
        for (size_t i = 0; are_equal && i < a.count; i++) are_equal = a[i] == b[i];
        return are_equal;
    }
    friend bool operator!=(ArrayRef a, ArrayRef b) { return !(a == b); }
};
using IntArrayRef = ArrayRef<int64_t>;

class Scalar {
    enum { is_bool, is_int, is_float } kind;
    union { int64_t i; double f; };
public:
    Scalar() : kind(is_int), i(0) {}
    Scalar(bool x) : kind(is_bool), i(x) {}
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> Scalar(T x) {
        if constexpr (std::is_integral_v<T>) { kind = is_int; i = int64_t(x); }
        else { kind = is_float; f = x; }
    }
    Scalar(Half x) : Scalar(float(x)) {}
    Scalar(BFloat16 x) : Scalar(float(x)) {}
    bool isBoolean() const { return kind == is_bool; }
    bool isFloatingPoint() const { return kind == is_float; }
    bool isIntegral(bool with_bool = false) const { return kind == is_int || (with_bool && kind == is_bool); }
    template <class T> T to() const { return kind == is_float ? T(f) : T(i); }
    float toFloat() const { return to<float>(); }
    double toDouble() const { return to<double>(); }
    int toInt() const { return to<int>(); }
    int64_t toLong() const { return to<int64_t>(); }
    bool toBool() const { return to<bool>(); }
};

enum class Layout : int8_t { Strided };
enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast };
constexpr Layout kStrided = Layout::Strided;
using std::optional;
using std::nullopt;

class TensorOptions {
    ScalarType type = ScalarType::Undefined;    // Undefined: torch's default
    Device target;
    bool has_target = false, grad = false;
    template <class F> TensorOptions with(F set) const { TensorOptions o = *this; set(o); return o; }
public:
    TensorOptions() = default;
    TensorOptions(ScalarType type) : type(type) {}
    TensorOptions(TypeMeta type) : type(type) {}
    TensorOptions(Device target) : target(target), has_target(true) {}
    TensorOptions(DeviceType target) : target(target), has_target(true) {}
    TensorOptions(Layout) {}
    TensorOptions(MemoryFormat) {}
    TensorOptions dtype(ScalarType t) const { return with([&](TensorOptions &o) { o.type = t; }); }
    TensorOptions dtype(TypeMeta t) const { return dtype(t.type); }
    template <class T> TensorOptions dtype() const { return dtype(dtype_of<T>); }
    TensorOptions device(Device d) const { return with([&](TensorOptions &o) { o.target = d; o.has_target = true; }); }
    TensorOptions device(DeviceType d, DeviceIndex i = -1) const { return device(Device(d, i)); }
    TensorOptions requires_grad(bool value = true) const { return with([&](TensorOptions &o) { o.grad = value; }); }
    TensorOptions layout(Layout) const { return *this; }
    TensorOptions memory_format(MemoryFormat) const { return *this; }
    TensorOptions pinned_memory(bool) const { return *this; }
    TypeMeta dtype() const { return {type}; }
    Device device() const { return target; }
    bool has_dtype() const { return type != ScalarType::Undefined; }
    bool has_device() const { return has_target; }
    bool requires_grad_() const { return grad; }
};
inline TensorOptions dtype(ScalarType t) { return TensorOptions(t); }
inline TensorOptions dtype(TypeMeta t) { return TensorOptions(t); }
inline TensorOptions device(Device d) { return TensorOptions(d); }
inline TensorOptions device(DeviceType d, DeviceIndex i = -1) { return TensorOptions(Device(d, i)); }
inline TensorOptions requires_grad(bool value = true) { return TensorOptions().requires_grad(value); }
inline TensorOptions layout(Layout) { return {}; }
}

namespace gridstride {
namespace bindings {
template <> struct Type<torch::ScalarType> : Plain<torch::ScalarType> {
    GRIDSTRIDE_BINDING static bool read(Reader &r, torch::ScalarType &x);
    GRIDSTRIDE_BINDING static void write(Writer &w, torch::ScalarType x);
};
template <> struct Type<torch::TypeMeta> : Type<torch::ScalarType> {};
// On the emulator, all of Python's tensors are on the CPU; only C++ knows which of them count as being on the GPU.
template <> struct Type<torch::Device> : Plain<torch::Device> {
    GRIDSTRIDE_BINDING static bool read(Reader &r, torch::Device &x);
    GRIDSTRIDE_BINDING static void write(Writer &w, torch::Device x);
};
template <> struct Type<torch::Scalar> : Plain<torch::Scalar> {
    GRIDSTRIDE_BINDING static bool read(Reader &r, torch::Scalar &x);
    GRIDSTRIDE_BINDING static void write(Writer &w, const torch::Scalar &x);
};
template <class T> struct Type<torch::ArrayRef<T>, std::enable_if_t<is_plain<T>>> {
    static constexpr bool is_known = true;
    using Stored = std::vector<T>;
    static bool read(Reader &r, Stored &x) { return Type<Stored>::read(r, x); }
    static torch::ArrayRef<T> pass(Stored &x) { return x; }
    static void write(Writer &w, torch::ArrayRef<T> x) {
        w.put(list);
        w.put(int64_t(x.size()));
        for (const T &item : x) Type<T>::write(w, item);
    }
};
template <class Bits> struct Type<SixteenBits<Bits>> : Plain<SixteenBits<Bits>> {
    static bool read(Reader &r, SixteenBits<Bits> &x) { float f; return Type<float>::read(r, f) && (x = f, true); }
    static void write(Writer &w, SixteenBits<Bits> x) { Type<float>::write(w, float(x)); }
};
}
}

#ifdef GRIDSTRIDE_DEFINITIONS
namespace torch {
const char *toString(ScalarType t) {
#define X(name, code, size, T) if (t == ScalarType::name) return #name;
    GRIDSTRIDE_DTYPES(X) GRIDSTRIDE_DTYPES_WITHOUT_A_CLASS(X)
#undef X
    return "Undefined";
}
Device::Device(const std::string &name) : kind(name.compare(0, 4, "cuda") ? kCPU : kCUDA) {
    const size_t colon = name.find(':');
    TORCH_CHECK(kind == kCUDA || !name.compare(0, 3, "cpu"), "Expected cpu or cuda at start of device string: ", name);
    if (colon != std::string::npos) device_index = DeviceIndex(std::stoi(name.substr(colon + 1)));
}
std::string Device::str() const {
    return std::string(is_cuda() ? "cuda" : "cpu") + (has_index() ? ":" + std::to_string(device_index) : "");
}
void append(std::string &s, ScalarType t) { s += toString(t); }
void append(std::string &s, TypeMeta t) { s += toString(t); }
void append(std::string &s, DeviceType d) { s += Device(d).str(); }
void append(std::string &s, const Device &d) { s += d.str(); }
}

namespace gridstride {
namespace bindings {
bool Type<torch::ScalarType>::read(Reader &r, torch::ScalarType &x) {
    return r.is(dtype) && (x = torch::ScalarType(r.next()), true);
}
void Type<torch::ScalarType>::write(Writer &w, torch::ScalarType x) {
    if (x == torch::ScalarType::Undefined) return w.put(none);
    w.put(dtype);
    w.put(int64_t(x));
}
bool Type<torch::Device>::read(Reader &r, torch::Device &x) {
    if (!r.is(device)) return false;
    const auto type = torch::DeviceType(r.next());
    x = torch::Device(type, torch::DeviceIndex(r.next()));
    return true;
}
void Type<torch::Device>::write(Writer &w, torch::Device x) {
    w.put(device);
#ifdef GRIDSTRIDE_EMULATOR
    w.put(int64_t(torch::kCPU));
    w.put(x.is_cuda() ? -2 : -1);  // -2: the emulated GPU, whose tensors are in the CPU's memory
#else
    w.put(int64_t(x.type()));
    w.put(x.index());
#endif
}
bool Type<torch::Scalar>::read(Reader &r, torch::Scalar &x) {
    bool b;
    int64_t i;
    double f;
    if (*r.at == boolean) return Type<bool>::read(r, b) && (x = b, true);
    if (*r.at == integer) return Type<int64_t>::read(r, i) && (x = i, true);
    return Type<double>::read(r, f) && (x = f, true);
}
void Type<torch::Scalar>::write(Writer &w, const torch::Scalar &x) {
    if (x.isBoolean()) Type<bool>::write(w, x.toBool());
    else if (x.isFloatingPoint()) Type<double>::write(w, x.toDouble());
    else Type<int64_t>::write(w, x.toLong());
}
}
}
#endif
