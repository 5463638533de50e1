// torch::Tensor, its factory functions, and the conversion of tensors from and to Python
#pragma once
#include "object.h"
#if defined(GRIDSTRIDE_EMULATOR) && defined(GRIDSTRIDE_DEFINITIONS)
#include "emulated.h"
#endif

namespace torch {

class Tensor;
template <class T, size_t N> class TensorAccessor;
template <class T> struct DefaultPtrTraits { using PtrType = T *; };
template <class T> struct RestrictPtrTraits { using PtrType = T *__restrict__; };
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
class GenericPackedTensorAccessor;

class Tensor {
    ::gridstride::bindings::Handle h;
    friend struct ::gridstride::bindings::Type<Tensor>;
    GRIDSTRIDE_BINDING const ::gridstride::bindings::Object &get() const;
    GRIDSTRIDE_BINDING int64_t wrap_dim(int64_t d) const;
    GRIDSTRIDE_BINDING void *address() const;
    GRIDSTRIDE_BINDING void *address_of(ScalarType expected) const;   // expected: the dtype, Undefined for any
    GRIDSTRIDE_BINDING Tensor call_python(const char *operation,
        std::initializer_list<::gridstride::bindings::Item> args) const;

public:
    Tensor() = default;
    explicit Tensor(::gridstride::bindings::Handle h) : h(static_cast<::gridstride::bindings::Handle &&>(h)) {}
    const ::gridstride::bindings::Handle &handle() const { return h; }

    bool defined() const { return bool(h); }
    int64_t dim() const { return int64_t(get().sizes.size()); }
    int64_t ndimension() const { return dim(); }
    int64_t numel() const { return get().numel; }
    IntArrayRef sizes() const { return get().sizes; }
    IntArrayRef strides() const { return get().strides; }
    int64_t size(int64_t d) const { return get().sizes[size_t(wrap_dim(d))]; }
    int64_t stride(int64_t d) const { return get().strides[size_t(wrap_dim(d))]; }
    ScalarType scalar_type() const { return get().type; }
    TypeMeta dtype() const { return {get().type}; }
    size_t element_size() const { return get().itemsize(); }
    size_t itemsize() const { return get().itemsize(); }
    size_t nbytes() const { return size_t(numel()) * itemsize(); }
    Device device() const { return get().device; }
    DeviceIndex get_device() const { return device().index(); }
    int32_t get_device_index() const { return device().index(); }
    bool is_cuda() const { return device().is_cuda(); }
    bool is_cpu() const { return device().is_cpu(); }
    bool is_contiguous(MemoryFormat = MemoryFormat::Contiguous) const { return get().is_contiguous(); }
    bool is_floating_point() const { return isFloatingType(scalar_type()); }
    bool is_same(const Tensor &t) const { return h && t.h ? h->python == t.h->python : !h == !t.h; }
    Layout layout() const { return kStrided; }
    GRIDSTRIDE_BINDING TensorOptions options() const;

    struct Properties {               // the result of the deprecated x.type()
        const Tensor &t;
        operator ScalarType() const { return t.scalar_type(); }
        ScalarType scalarType() const { return t.scalar_type(); }
        bool is_cuda() const { return t.is_cuda(); }
    };
    Properties type() const { return {*this}; }

    void *data_ptr() const { return address(); }
    void *mutable_data_ptr() const { return address(); }
    const void *const_data_ptr() const { return address(); }
    template <class T> T *data_ptr() const {
        constexpr ScalarType expected = dtype_of<std::remove_const_t<T>>;
        static_assert(
            !std::is_arithmetic_v<T> || expected != ScalarType::Undefined,
            "a tensor cannot have elements of this type");
        return static_cast<T *>(address_of(expected));
    }
    template <class T> T *mutable_data_ptr() const { return data_ptr<T>(); }
    template <class T> const T *const_data_ptr() const { return data_ptr<T>(); }
    template <class T> T *data() const { return data_ptr<T>(); }
    template <class T, size_t N> TensorAccessor<T, N> accessor() const;
    template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
    GenericPackedTensorAccessor<T, N, Traits, Index> packed_accessor() const;
    template <class T, size_t N, template <class> class Traits = DefaultPtrTraits> auto packed_accessor32() const {
        return packed_accessor<T, N, Traits, int32_t>();
    }
    template <class T, size_t N, template <class> class Traits = DefaultPtrTraits> auto packed_accessor64() const {
        return packed_accessor<T, N, Traits, int64_t>();
    }

    // Operations, which Python computes
    GRIDSTRIDE_BINDING Tensor to(Device d, ScalarType t, bool = false, bool copy = false) const;
    Tensor to(ScalarType t, bool = false, bool copy = false) const { return to(device(), t, false, copy); }
    Tensor to(TypeMeta t) const { return to(t.type); }
    Tensor to(Device d, bool = false, bool copy = false) const { return to(d, scalar_type(), false, copy); }
    Tensor to(DeviceType d) const { return to(Device(d)); }
    Tensor to(const TensorOptions &o) const {
        return to(o.has_device() ? o.device() : device(), o.has_dtype() ? o.dtype().type : scalar_type());
    }
    Tensor to(const Tensor &like) const { return to(like.device(), like.scalar_type()); }
    Tensor toType(ScalarType t) const { return to(t); }
    Tensor type_as(const Tensor &like) const { return to(like); }
    Tensor cpu() const { return is_cpu() ? *this : to(kCPU); }
    Tensor cuda() const { return is_cuda() ? *this : to(kCUDA); }
    GRIDSTRIDE_BINDING Tensor contiguous(MemoryFormat = MemoryFormat::Contiguous) const;
#define GRIDSTRIDE_METHOD(name) \
    template <class... A> Tensor name(const A &...a) const { return call_python(#name, {*this, a...}); }
#define GRIDSTRIDE_METHOD_OF_SIZES(name) \
    Tensor name(IntArrayRef sizes) const { return call_python(#name, {*this, sizes}); }
#define GRIDSTRIDE_IN_PLACE(name) \
    template <class... A> const Tensor &name(const A &...a) const { \
        call_python(#name, {*this, a...}); \
        return *this; \
    }
    GRIDSTRIDE_METHOD_OF_SIZES(view) GRIDSTRIDE_METHOD_OF_SIZES(reshape) GRIDSTRIDE_METHOD_OF_SIZES(permute)
    GRIDSTRIDE_METHOD_OF_SIZES(expand) GRIDSTRIDE_METHOD_OF_SIZES(repeat) GRIDSTRIDE_METHOD(clone)
    GRIDSTRIDE_METHOD(detach) GRIDSTRIDE_METHOD(t) GRIDSTRIDE_METHOD(transpose) GRIDSTRIDE_METHOD(flatten)
    GRIDSTRIDE_METHOD(squeeze) GRIDSTRIDE_METHOD(unsqueeze) GRIDSTRIDE_METHOD(select) GRIDSTRIDE_METHOD(narrow)
    GRIDSTRIDE_METHOD(expand_as) GRIDSTRIDE_METHOD(view_as) GRIDSTRIDE_METHOD(flip) GRIDSTRIDE_METHOD(diagonal)
    GRIDSTRIDE_METHOD(index_select) GRIDSTRIDE_METHOD(gather) GRIDSTRIDE_METHOD(sum) GRIDSTRIDE_METHOD(mean)
    GRIDSTRIDE_METHOD(std) GRIDSTRIDE_METHOD(var) GRIDSTRIDE_METHOD(prod) GRIDSTRIDE_METHOD(amax)
    GRIDSTRIDE_METHOD(amin) GRIDSTRIDE_METHOD(max) GRIDSTRIDE_METHOD(min) GRIDSTRIDE_METHOD(argmax)
    GRIDSTRIDE_METHOD(argmin) GRIDSTRIDE_METHOD(cumsum) GRIDSTRIDE_METHOD(norm) GRIDSTRIDE_METHOD(any)
    GRIDSTRIDE_METHOD(all) GRIDSTRIDE_METHOD(softmax) GRIDSTRIDE_METHOD(abs) GRIDSTRIDE_METHOD(neg)
    GRIDSTRIDE_METHOD(exp) GRIDSTRIDE_METHOD(log) GRIDSTRIDE_METHOD(sqrt) GRIDSTRIDE_METHOD(rsqrt)
    GRIDSTRIDE_METHOD(sin) GRIDSTRIDE_METHOD(cos) GRIDSTRIDE_METHOD(tanh) GRIDSTRIDE_METHOD(sigmoid)
    GRIDSTRIDE_METHOD(relu) GRIDSTRIDE_METHOD(square) GRIDSTRIDE_METHOD(floor) GRIDSTRIDE_METHOD(ceil)
    GRIDSTRIDE_METHOD(round) GRIDSTRIDE_METHOD(clamp) GRIDSTRIDE_METHOD(pow) GRIDSTRIDE_METHOD(add)
    GRIDSTRIDE_METHOD(sub) GRIDSTRIDE_METHOD(mul) GRIDSTRIDE_METHOD(div) GRIDSTRIDE_METHOD(matmul) GRIDSTRIDE_METHOD(mm)
    GRIDSTRIDE_METHOD(bmm) GRIDSTRIDE_METHOD(dot) GRIDSTRIDE_METHOD(eq) GRIDSTRIDE_METHOD(ne) GRIDSTRIDE_METHOD(lt)
    GRIDSTRIDE_METHOD(le) GRIDSTRIDE_METHOD(gt) GRIDSTRIDE_METHOD(ge) GRIDSTRIDE_METHOD(masked_fill)
    GRIDSTRIDE_IN_PLACE(zero_) GRIDSTRIDE_IN_PLACE(copy_) GRIDSTRIDE_IN_PLACE(add_) GRIDSTRIDE_IN_PLACE(sub_)
    GRIDSTRIDE_IN_PLACE(mul_) GRIDSTRIDE_IN_PLACE(div_) GRIDSTRIDE_IN_PLACE(clamp_) GRIDSTRIDE_IN_PLACE(relu_)
    GRIDSTRIDE_IN_PLACE(exp_) GRIDSTRIDE_IN_PLACE(uniform_) GRIDSTRIDE_IN_PLACE(normal_)
#undef GRIDSTRIDE_METHOD
#undef GRIDSTRIDE_METHOD_OF_SIZES
#undef GRIDSTRIDE_IN_PLACE
    GRIDSTRIDE_BINDING const Tensor &fill_(Scalar value) const;
    GRIDSTRIDE_BINDING bool equal(const Tensor &t) const;
    GRIDSTRIDE_BINDING bool requires_grad() const;
    GRIDSTRIDE_BINDING Scalar item() const;
    template <class T> T item() const { return item().to<T>(); }
    GRIDSTRIDE_BINDING Tensor operator[](int64_t i) const;
    GRIDSTRIDE_BINDING Tensor operator-() const;
    GRIDSTRIDE_BINDING void print() const;
};
using TensorList = ArrayRef<Tensor>;
}

namespace gridstride {
namespace bindings {
template <> struct Type<torch::Tensor> : Plain<torch::Tensor> {
    GRIDSTRIDE_BINDING static bool read(Reader &r, torch::Tensor &x);
    GRIDSTRIDE_BINDING static void write(Writer &w, const torch::Tensor &x);
};

// Runs an operation in Python that returns a tensor on `result_device`.
GRIDSTRIDE_BINDING torch::Tensor compute(
    torch::Device result_device, const char *operation, std::initializer_list<Item> args);
template <class... A> torch::Tensor make_tensor(const torch::TensorOptions &o, const char *operation, const A &...a) {
    return compute(o.device(), operation, {a..., o.dtype(), o.device(), o.requires_grad_()});
}
}
}

namespace torch {

GRIDSTRIDE_BINDING Tensor empty(IntArrayRef sizes, const TensorOptions &o = {});
GRIDSTRIDE_BINDING Tensor zeros(IntArrayRef sizes, const TensorOptions &o = {});
GRIDSTRIDE_BINDING Tensor ones(IntArrayRef sizes, const TensorOptions &o = {});
GRIDSTRIDE_BINDING Tensor rand(IntArrayRef sizes, const TensorOptions &o = {});
GRIDSTRIDE_BINDING Tensor randn(IntArrayRef sizes, const TensorOptions &o = {});
GRIDSTRIDE_BINDING Tensor full(IntArrayRef sizes, Scalar value, const TensorOptions &o = {});
GRIDSTRIDE_BINDING Tensor randint(int64_t high, IntArrayRef sizes, const TensorOptions &o = {});
GRIDSTRIDE_BINDING Tensor randint(int64_t low, int64_t high, IntArrayRef sizes, const TensorOptions &o = {});
GRIDSTRIDE_BINDING Tensor arange(Scalar end, const TensorOptions &o = {});
GRIDSTRIDE_BINDING Tensor arange(Scalar start, Scalar end, const TensorOptions &o = {});
GRIDSTRIDE_BINDING Tensor arange(Scalar start, Scalar end, Scalar step, const TensorOptions &o = {});
GRIDSTRIDE_BINDING Tensor linspace(Scalar start, Scalar end, int64_t steps, const TensorOptions &o = {});
GRIDSTRIDE_BINDING Tensor eye(int64_t n, const TensorOptions &o = {});
template <class T> Tensor tensor(const std::vector<T> &values, TensorOptions o = {}) {
    return ::gridstride::bindings::make_tensor(o.has_dtype() ? o : o.dtype(dtype_of<T>), "tensor", values);
}
template <class T> Tensor tensor(std::initializer_list<T> values, TensorOptions o = {}) {
    return tensor(std::vector<T>(values), o);
}
GRIDSTRIDE_BINDING Tensor tensor(Scalar value, const TensorOptions &o = {});
GRIDSTRIDE_BINDING Tensor empty_like(const Tensor &x);
GRIDSTRIDE_BINDING Tensor zeros_like(const Tensor &x);
GRIDSTRIDE_BINDING Tensor ones_like(const Tensor &x);
GRIDSTRIDE_BINDING Tensor rand_like(const Tensor &x);
GRIDSTRIDE_BINDING Tensor randn_like(const Tensor &x);
GRIDSTRIDE_BINDING Tensor full_like(const Tensor &x, Scalar value);
GRIDSTRIDE_BINDING Tensor empty_like(const Tensor &x, const TensorOptions &o);
GRIDSTRIDE_BINDING Tensor zeros_like(const Tensor &x, const TensorOptions &o);
GRIDSTRIDE_BINDING Tensor ones_like(const Tensor &x, const TensorOptions &o);

GRIDSTRIDE_BINDING Tensor cat(TensorList list, int64_t dim = 0);
GRIDSTRIDE_BINDING Tensor stack(TensorList list, int64_t dim = 0);
GRIDSTRIDE_BINDING Tensor where(const Tensor &c, const Tensor &a, const Tensor &b);
inline bool equal(const Tensor &a, const Tensor &b) { return a.equal(b); }
GRIDSTRIDE_BINDING bool allclose(const Tensor &a, const Tensor &b, double rtol = 1e-5, double atol = 1e-8);
#define GRIDSTRIDE_FUNCTION(name) \
    template <class... A> Tensor name(const Tensor &x, const A &...a) { return x.name(a...); }
GRIDSTRIDE_FUNCTION(sum) GRIDSTRIDE_FUNCTION(mean) GRIDSTRIDE_FUNCTION(max) GRIDSTRIDE_FUNCTION(min)
GRIDSTRIDE_FUNCTION(abs) GRIDSTRIDE_FUNCTION(exp) GRIDSTRIDE_FUNCTION(log) GRIDSTRIDE_FUNCTION(sqrt)
GRIDSTRIDE_FUNCTION(rsqrt) GRIDSTRIDE_FUNCTION(sin) GRIDSTRIDE_FUNCTION(cos) GRIDSTRIDE_FUNCTION(tanh)
GRIDSTRIDE_FUNCTION(sigmoid) GRIDSTRIDE_FUNCTION(relu) GRIDSTRIDE_FUNCTION(softmax) GRIDSTRIDE_FUNCTION(clamp)
GRIDSTRIDE_FUNCTION(pow) GRIDSTRIDE_FUNCTION(matmul) GRIDSTRIDE_FUNCTION(mm) GRIDSTRIDE_FUNCTION(bmm)
GRIDSTRIDE_FUNCTION(dot) GRIDSTRIDE_FUNCTION(add) GRIDSTRIDE_FUNCTION(sub) GRIDSTRIDE_FUNCTION(mul)
GRIDSTRIDE_FUNCTION(div) GRIDSTRIDE_FUNCTION(amax) GRIDSTRIDE_FUNCTION(amin) GRIDSTRIDE_FUNCTION(argmax)
GRIDSTRIDE_FUNCTION(cumsum) GRIDSTRIDE_FUNCTION(transpose) GRIDSTRIDE_FUNCTION(flatten) GRIDSTRIDE_FUNCTION(clone)
#undef GRIDSTRIDE_FUNCTION

#define GRIDSTRIDE_OPERATOR(op, name) \
    inline Tensor operator op(const Tensor &a, const Tensor &b) { return a.name(b); } \
    inline Tensor operator op(const Tensor &a, Scalar b) { return a.name(b); } \
    inline Tensor operator op(Scalar a, const Tensor &b) { \
        return ::gridstride::bindings::compute(b.device(), #op, {a, b}); \
    }
GRIDSTRIDE_OPERATOR(+, add) GRIDSTRIDE_OPERATOR(-, sub) GRIDSTRIDE_OPERATOR(*, mul) GRIDSTRIDE_OPERATOR(/, div)
GRIDSTRIDE_OPERATOR(<, lt) GRIDSTRIDE_OPERATOR(<=, le) GRIDSTRIDE_OPERATOR(>, gt) GRIDSTRIDE_OPERATOR(>=, ge)
GRIDSTRIDE_OPERATOR(==, eq) GRIDSTRIDE_OPERATOR(!=, ne)
#undef GRIDSTRIDE_OPERATOR
#define GRIDSTRIDE_ASSIGNMENT(op, name) \
    inline const Tensor &operator op(const Tensor &a, const Tensor &b) { return a.name(b); } \
    inline const Tensor &operator op(const Tensor &a, Scalar b) { return a.name(b); }
GRIDSTRIDE_ASSIGNMENT(+=, add_) GRIDSTRIDE_ASSIGNMENT(-=, sub_) GRIDSTRIDE_ASSIGNMENT(*=, mul_)
GRIDSTRIDE_ASSIGNMENT(/=, div_)
#undef GRIDSTRIDE_ASSIGNMENT

GRIDSTRIDE_BINDING void append(std::string &s, const Tensor &t);
}

#ifdef GRIDSTRIDE_DEFINITIONS
namespace gridstride {
namespace bindings {
bool Type<torch::Tensor>::read(Reader &r, torch::Tensor &x) {
    if (r.is(none)) { x = torch::Tensor(); return true; }
    if (!r.is(tensor)) return false;
    Handle h(new Object);
    h->python = reinterpret_cast<void *>(r.next());
    h->owned = r.owns_references;
    h->data = reinterpret_cast<char *>(r.next());
    h->type = torch::ScalarType(r.next());
    const auto device = torch::DeviceType(r.next());
    h->device = torch::Device(device, torch::DeviceIndex(r.next()));
    const int64_t dim = r.next();
    h->sizes.assign(r.at, r.at + dim);
    h->strides.assign(r.at + dim, r.at + 2 * dim);
    r.at += 2 * dim;
    for (int64_t n : h->sizes) h->numel *= n;
    if (!r.owns_references) {
        argument_handles.push_back(h);
#ifdef GRIDSTRIDE_EMULATOR
        if (device != torch::kCPU) return r.reject("the emulator accepts only tensors on the CPU; pass x.cpu()");
        h->device = torch::Device(torch::kCUDA, 0);
        if (h->numel) add_range(h);
#endif
    }
    x = torch::Tensor(h);
    return true;
}
void Type<torch::Tensor>::write(Writer &w, const torch::Tensor &x) {
    if (!x.defined()) return w.put(none);
    if (w.gives_references) x.handle()->retain();
#ifdef GRIDSTRIDE_EMULATOR
    else PythonComputation::copy_to_host(x.handle());
#endif
    w.put(tensor);
    w.put(reinterpret_cast<int64_t>(x.handle()->python));
}

// On the emulator, device memory is copied to the host before an operation in Python, and back after it.
template <class R> R compute_value(const char *operation, std::initializer_list<Item> args) {
#ifdef GRIDSTRIDE_EMULATOR
    const PythonComputation computation(operation);
#endif
    return call_python_for<R>(operation, args);
}
torch::Tensor compute(
    [[maybe_unused]] torch::Device result_device, const char *operation, std::initializer_list<Item> args) {
    torch::Tensor result = compute_value<torch::Tensor>(operation, args);
#ifdef GRIDSTRIDE_EMULATOR
    if (result.defined())
        result.handle()->device = result_device.is_cuda() ? torch::Device(torch::kCUDA, 0) : result_device;
#endif
    return result;
}
inline torch::Tensor mark_uninitialized(torch::Tensor t) { t.handle()->is_uninitialized = t.is_cuda(); return t; }
inline torch::TensorOptions options_like(const torch::Tensor &x, torch::TensorOptions o) {
    if (!o.has_dtype()) o = o.dtype(x.dtype());
    return o.has_device() ? o : o.device(x.device());
}
}
}

namespace torch {
const ::gridstride::bindings::Object &Tensor::get() const {
    TORCH_CHECK(h, "this tensor is undefined: None in Python, torch::Tensor() in C++");
    return *h.get();
}
int64_t Tensor::wrap_dim(int64_t d) const {
    TORCH_CHECK_INDEX(d >= -dim() && d < dim(), "Dimension out of range (expected to be in range of [", -dim(), ", ",
        dim() - 1, "], but got ", d, ")");
    return d < 0 ? d + dim() : d;
}
void *Tensor::address() const {
#ifdef GRIDSTRIDE_EMULATOR
    return ::gridstride::bindings::device_address(h, get());
#else
    return get().data;
#endif
}
void *Tensor::address_of(ScalarType expected) const {
    TORCH_CHECK(expected == ScalarType::Undefined || scalar_type() == expected, "expected scalar type ", expected,
        " but found ", scalar_type());
    return address();
}
TensorOptions Tensor::options() const { return TensorOptions(dtype()).device(device()); }
Tensor Tensor::call_python(const char *operation, std::initializer_list<::gridstride::bindings::Item> args) const {
    return ::gridstride::bindings::compute(device(), operation, args);
}
Tensor Tensor::to(Device d, ScalarType t, bool, bool copy) const {
    return ::gridstride::bindings::compute(d, "to", {*this, d, t, copy || d.type() != device().type()});
}
Tensor Tensor::contiguous(MemoryFormat) const { return is_contiguous() ? *this : call_python("contiguous", {*this}); }
const Tensor &Tensor::fill_(Scalar value) const {
    call_python("fill_", {*this, value});
    return *this;
}
bool Tensor::equal(const Tensor &t) const { return ::gridstride::bindings::compute_value<bool>("equal", {*this, t}); }
bool Tensor::requires_grad() const { return ::gridstride::bindings::compute_value<bool>("requires_grad", {*this}); }
Scalar Tensor::item() const { return ::gridstride::bindings::compute_value<Scalar>("item", {*this}); }
Tensor Tensor::operator[](int64_t i) const { return select(0, i); }
Tensor Tensor::operator-() const { return neg(); }
void Tensor::print() const { call_python("print", {*this}); }

Tensor empty(IntArrayRef sizes, const TensorOptions &o) {
    return ::gridstride::bindings::mark_uninitialized(::gridstride::bindings::make_tensor(o, "empty", sizes));
}
Tensor zeros(IntArrayRef sizes, const TensorOptions &o) {
    return ::gridstride::bindings::make_tensor(o, "zeros", sizes);
}
Tensor ones(IntArrayRef sizes, const TensorOptions &o) { return ::gridstride::bindings::make_tensor(o, "ones", sizes); }
Tensor rand(IntArrayRef sizes, const TensorOptions &o) { return ::gridstride::bindings::make_tensor(o, "rand", sizes); }
Tensor randn(IntArrayRef sizes, const TensorOptions &o) {
    return ::gridstride::bindings::make_tensor(o, "randn", sizes);
}
Tensor full(IntArrayRef sizes, Scalar value, const TensorOptions &o) {
    return ::gridstride::bindings::make_tensor(o, "full", sizes, value);
}
Tensor randint(int64_t high, IntArrayRef sizes, const TensorOptions &o) {
    return ::gridstride::bindings::make_tensor(o, "randint", int64_t(0), high, sizes);
}
Tensor randint(int64_t low, int64_t high, IntArrayRef sizes, const TensorOptions &o) {
    return ::gridstride::bindings::make_tensor(o, "randint", low, high, sizes);
}
Tensor arange(Scalar end, const TensorOptions &o) { return ::gridstride::bindings::make_tensor(o, "arange", end); }
Tensor arange(Scalar start, Scalar end, const TensorOptions &o) {
    return ::gridstride::bindings::make_tensor(o, "arange", start, end);
}
Tensor arange(Scalar start, Scalar end, Scalar step, const TensorOptions &o) {
    return ::gridstride::bindings::make_tensor(o, "arange", start, end, step);
}
Tensor linspace(Scalar start, Scalar end, int64_t steps, const TensorOptions &o) {
    return ::gridstride::bindings::make_tensor(o, "linspace", start, end, steps);
}
Tensor eye(int64_t n, const TensorOptions &o) { return ::gridstride::bindings::make_tensor(o, "eye", n); }
Tensor tensor(Scalar value, const TensorOptions &o) { return ::gridstride::bindings::make_tensor(o, "tensor", value); }
Tensor empty_like(const Tensor &x) {
    return ::gridstride::bindings::mark_uninitialized(::gridstride::bindings::compute(x.device(), "empty_like", {x}));
}
Tensor zeros_like(const Tensor &x) { return ::gridstride::bindings::compute(x.device(), "zeros_like", {x}); }
Tensor ones_like(const Tensor &x) { return ::gridstride::bindings::compute(x.device(), "ones_like", {x}); }
Tensor rand_like(const Tensor &x) { return ::gridstride::bindings::compute(x.device(), "rand_like", {x}); }
Tensor randn_like(const Tensor &x) { return ::gridstride::bindings::compute(x.device(), "randn_like", {x}); }
Tensor full_like(const Tensor &x, Scalar value) {
    return ::gridstride::bindings::compute(x.device(), "full_like", {x, value});
}
Tensor empty_like(const Tensor &x, const TensorOptions &o) {
    return empty(x.sizes(), ::gridstride::bindings::options_like(x, o));
}
Tensor zeros_like(const Tensor &x, const TensorOptions &o) {
    return zeros(x.sizes(), ::gridstride::bindings::options_like(x, o));
}
Tensor ones_like(const Tensor &x, const TensorOptions &o) {
    return ones(x.sizes(), ::gridstride::bindings::options_like(x, o));
}
Tensor cat(TensorList list, int64_t dim) {
    return ::gridstride::bindings::compute(list.at(0).device(), "cat", {list, dim});
}
Tensor stack(TensorList list, int64_t dim) {
    return ::gridstride::bindings::compute(list.at(0).device(), "stack", {list, dim});
}
Tensor where(const Tensor &c, const Tensor &a, const Tensor &b) {
    return ::gridstride::bindings::compute(c.device(), "where", {c, a, b});
}
bool allclose(const Tensor &a, const Tensor &b, double rtol, double atol) {
    return ::gridstride::bindings::compute_value<bool>("allclose", {a, b, rtol, atol});
}
void append(std::string &s, const Tensor &t) {
    if (!t.defined()) { s += "[an undefined tensor]"; return; }
    s += str("[", t.device(), " ", t.scalar_type(), " tensor of sizes ", t.sizes(), "]");
}
}
#endif
