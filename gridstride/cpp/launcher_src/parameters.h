// Writes arguments from Python to the kernel parameter buffer that the driver reads. Tensors are read through torch's
// DLPackExchangeAPI, without calling Python.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <ATen/dlpack.h>
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace {
// The declarations for `cuLaunchKernelEx`, as in cuda.h
struct Attribute { int id, pad; unsigned values[16]; };
struct Config { unsigned grid[3], block[3], shared_bytes; void *stream; Attribute *attributes; unsigned count; };

constexpr size_t kMaxParameterBytes = 4096, kMaxParameters = 128, kMaxAxes = 8;

// Functions whose addresses Python passes: those of the driver, or replacements in a test
struct Driver {
    int (*launch)(const Config *, void *kernel, void **parameters, void **extra);
    int (*get_device)(int *device);                         // cuCtxGetDevice
    int (*replace_address)(void *map, void *address);       // cuTensorMapReplaceAddress
    int (*fill)(void *address, unsigned char value, size_t bytes, void *stream);    // cuMemsetD8Async
    int (*is_capturing)(void *stream, int *status);         // cuStreamIsCapturing
    int (*get_stream)(DLDeviceType, int32_t device, void **stream);
};
Driver driver;
DLPackDLTensorFromPyObjectNoSync read_dlpack;
DLDeviceType tensor_device;                                 // the device type of all tensors
PyObject *tensor_type, *parameter_type;

// torch's modes: is_grad_enabled, the number of active dispatch modes, the innermost transform of torch.func, and the
// namespace of the module forward_ad. `requires_grad` and `_current_level` are names of attributes, as is
// `_entry_point`, under which a function has its `EntryPoint`.
PyObject *is_grad_enabled, *num_dispatch_modes, *innermost_transform, *forward_ad, *requires_grad, *current_level;
PyObject *entry_point_name;
getter read_requires_grad;           // the getter of `Tensor.requires_grad`, which takes less time than the attribute

bool read_tensor(PyObject *x, DLTensor *t) {
    auto type = (PyObject *)Py_TYPE(x);
    if (type != tensor_type && type != parameter_type) return false;
    if (read_dlpack(x, t)) { PyErr_Clear(); return false; }
    return t->device.device_type == tensor_device;
}

char *address_of(const DLTensor &t) { return (char *)t.data + t.byte_offset; }

bool is_contiguous(const DLTensor &t) {
    int64_t n = 1;
    for (int i = t.ndim - 1; i >= 0; i--) {
        if (t.shape[i] == 0) return true;
        if (t.shape[i] != 1 && t.strides[i] != n) return false;
        n *= t.shape[i];
    }
    return true;
}

// A parameter of a kernel: its offset in the buffer of parameters, and its type
struct Parameter {
    char kind;          // '=': a constant, '&': an address, 'T': a tensor map of that address, '*': an array,
                        // 'V': a struct by value; otherwise a scalar with this format of Python's module `struct`
    unsigned char code, bits;   // the type of an array's elements, as in DLPack; 0 bits: any
    size_t offset, size;
};

struct Plan {
    void *kernel = nullptr;
    Config config{};
    std::vector<Attribute> attributes;
    std::vector<Parameter> parameters;
    std::vector<char> buffer;           // the initial bytes of all parameters
    size_t num_arguments = 0;           // per launch

    size_t reserve(size_t size, size_t alignment) {
        size_t offset = (buffer.size() + alignment - 1) / alignment * alignment;
        buffer.resize(offset + size);
        return offset;
    }
};

template <class T> bool write_value(char *destination, T value) { memcpy(destination, &value, sizeof(T)); return true; }

template <class T> bool write_integer(char *destination, PyObject *x) {
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(x, &overflow);
    bool is_in_range = !overflow && (long long)(T)value == value && ((T)-1 < (T)0 || value >= 0);
    return is_in_range && write_value(destination, (T)value);
}

bool write_scalar(char kind, char *destination, PyObject *x) {
    if (kind == 'f' || kind == 'd') {
        if (!PyFloat_Check(x) && !PyLong_Check(x)) return false;
        double value = PyFloat_AsDouble(x);
        if (value == -1 && PyErr_Occurred()) { PyErr_Clear(); return false; }
        return kind == 'f' ? write_value(destination, (float)value) : write_value(destination, value);
    }
    if (kind == '?') return PyBool_Check(x) && write_value(destination, x == Py_True);
    if (!PyLong_Check(x)) return false;
    switch (kind) {
        case 'b': return write_integer<signed char>(destination, x);
        case 'B': return write_integer<unsigned char>(destination, x);
        case 'h': return write_integer<short>(destination, x);
        case 'H': return write_integer<unsigned short>(destination, x);
        case 'i': return write_integer<int>(destination, x);
        case 'I': return write_integer<unsigned>(destination, x);
        case 'q': return write_integer<long long>(destination, x);
        case 'Q': return write_integer<unsigned long long>(destination, x);  // above 2^63 - 1: left to the fallback
    }
    return false;
}

// Writes an address, or stores it in a tensor map; returns the driver's result. The driver cannot change a
// tensor map, and returns an error, if the calling thread has no current CUDA context.
int write_address(const Parameter &p, char *destination, void *address) {
    return p.kind == 'T' ? driver.replace_address(destination, address) : !write_value(destination, address);
}

bool write_array(const Parameter &p, char *destination, PyObject *x) {
    DLTensor t;
    if (x == Py_None) return write_value(destination, (void *)nullptr);
    if (!read_tensor(x, &t) || !is_contiguous(t)) return false;
    if (p.bits && (t.dtype.code != p.code || t.dtype.bits != p.bits)) return false;
    return write_value(destination, address_of(t));
}

// Writes an object with `__bytes__`, such as a tensor map.
bool write_struct(const Parameter &p, char *destination, PyObject *x) {
    if (!PyBytes_Check(x) && !PyObject_HasAttrString((PyObject *)Py_TYPE(x), "__bytes__")) return false;
    PyObject *bytes = PyObject_Bytes(x);
    bool has_expected_size = bytes && (size_t)PyBytes_GET_SIZE(bytes) == p.size;
    if (has_expected_size) memcpy(destination, PyBytes_AS_STRING(bytes), p.size);
    PyErr_Clear();
    Py_XDECREF(bytes);
    return has_expected_size;
}

constexpr int kNotHandled = -1;

// Returns 0, the driver's error, or `kNotHandled` for an argument that is left to the fallback in Python.
int write_argument(const Parameter &p, char *destination, PyObject *x) {
    if (p.kind == '*') return write_array(p, destination, x) ? 0 : kNotHandled;
    if (p.kind == 'V') return write_struct(p, destination, x) ? 0 : kNotHandled;
    if (p.kind != '&' && p.kind != 'T') return write_scalar(p.kind, destination, x) ? 0 : kNotHandled;
    void *address = PyLong_CheckExact(x) ? PyLong_AsVoidPtr(x) : nullptr;
    if (PyErr_Occurred()) { PyErr_Clear(); return kNotHandled; }
    return PyLong_CheckExact(x) ? write_address(p, destination, address) : kNotHandled;
}

// Launches a kernel; `write(p, destination, i)` writes argument `i`. Both return 0, `kNotHandled` or the driver's
// error. All data is on the stack, so that threads do not interfere when the GIL is released.
template <class Write> int launch(const Plan &plan, void *stream, Write write) {
    alignas(64) char buffer[kMaxParameterBytes];
    void *addresses[kMaxParameters];
    memcpy(buffer, plan.buffer.data(), plan.buffer.size());
    size_t n = 0, i = 0;
    for (auto &p : plan.parameters) {
        char *destination = buffer + p.offset;
        addresses[n++] = destination;
        if (int code = p.kind == '=' ? 0 : write(p, destination, i++)) return code;
    }
    Config config = plan.config;
    config.stream = stream;
    int code;
    Py_BEGIN_ALLOW_THREADS
    code = driver.launch(&config, plan.kernel, addresses, nullptr);
    Py_END_ALLOW_THREADS
    return code;
}

bool get_device_and_stream(int *device, void **stream) {
    return !driver.get_device(device) && !driver.get_stream(tensor_device, *device, stream);
}
}  // namespace
