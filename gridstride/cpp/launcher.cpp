// The fast path of a launch: compiled code reads the arguments, stores them in a buffer and calls the driver.
//
// A `Launch` is one kernel with a grid and a block, and is called with arrays and scalars. A `Table` is a function of
// tensors that allocates its results, and launches the plan that was stored for their shapes. Arguments that they
// cannot handle are passed to Python code, which checks them, raises an error, or launches another kernel.
//
// Tensors are read through torch's DLPackExchangeAPI, without a call of Python.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <ATen/dlpack.h>
#include <cstring>
#include <memory>
#include <vector>

namespace {

// The declarations for `cuLaunchKernelEx`, as in the driver's header
struct Attribute { int id, pad; unsigned values[16]; };
struct Config { unsigned grid[3], block[3], shared; void *stream; Attribute *attributes; unsigned count; };

constexpr size_t kMaxParameterBytes = 4096, kMaxParameters = 128, kMaxAxes = 8;

// Functions that Python passes by address: those of the driver, or replacements in a test
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
DLDeviceType tensor_device;                                 // the type of the device that all tensors are on
PyObject *tensor_type, *parameter_type;

// torch's modes: is_grad_enabled, the number of active dispatch modes, the innermost transform of torch.func, and the
// namespace of the module forward_ad. `requires_grad` and `_current_level` are names of attributes.
PyObject *is_grad_enabled, *num_dispatch_modes, *innermost_transform, *forward_ad, *requires_grad, *current_level;

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
                        // 'V': a struct by value; otherwise a scalar, by its code in Python's `struct`
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

template <class T> bool put(char *to, T value) { memcpy(to, &value, sizeof(T)); return true; }

template <class T> bool put_integer(char *to, PyObject *x) {
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(x, &overflow);
    return !overflow && (long long)(T)value == value && ((T)-1 < (T)0 || value >= 0) && put(to, (T)value);
}

bool put_number(char kind, char *to, PyObject *x) {
    if (kind == 'f' || kind == 'd') {
        if (!PyFloat_Check(x) && !PyLong_Check(x)) return false;
        double value = PyFloat_AsDouble(x);
        if (value == -1 && PyErr_Occurred()) { PyErr_Clear(); return false; }
        return kind == 'f' ? put(to, (float)value) : put(to, value);
    }
    if (kind == '?') return PyBool_Check(x) && put(to, x == Py_True);
    if (!PyLong_Check(x)) return false;
    switch (kind) {
        case 'b': return put_integer<signed char>(to, x);
        case 'B': return put_integer<unsigned char>(to, x);
        case 'h': return put_integer<short>(to, x);
        case 'H': return put_integer<unsigned short>(to, x);
        case 'i': return put_integer<int>(to, x);
        case 'I': return put_integer<unsigned>(to, x);
        case 'q': return put_integer<long long>(to, x);
        case 'Q': return put_integer<unsigned long long>(to, x);  // for values above 2^63 - 1, Python code is called
    }
    return false;
}

// Returns the driver's result; in a thread without a context, no map is changed.
int put_address(const Parameter &p, char *to, void *address) {
    return p.kind == 'T' ? driver.replace_address(to, address) : !put(to, address);
}

bool put_array(const Parameter &p, char *to, PyObject *x) {
    DLTensor t;
    if (x == Py_None) return put(to, (void *)nullptr);
    if (!read_tensor(x, &t) || !is_contiguous(t)) return false;
    if (p.bits && (t.dtype.code != p.code || t.dtype.bits != p.bits)) return false;
    return put(to, address_of(t));
}

// An object with `__bytes__`, such as a tensor map
bool put_struct(const Parameter &p, char *to, PyObject *x) {
    if (!PyBytes_Check(x) && !PyObject_HasAttrString((PyObject *)Py_TYPE(x), "__bytes__")) return false;
    PyObject *bytes = PyObject_Bytes(x);
    bool fits = bytes && (size_t)PyBytes_GET_SIZE(bytes) == p.size;
    if (fits) memcpy(to, PyBytes_AS_STRING(bytes), p.size);
    PyErr_Clear();
    Py_XDECREF(bytes);
    return fits;
}

constexpr int kUnknown = -1;

// Returns 0, `kUnknown` for an argument that is not handled here, or the driver's error.
int put_argument(const Parameter &p, char *to, PyObject *x) {
    if (p.kind == '*') return put_array(p, to, x) ? 0 : kUnknown;
    if (p.kind == 'V') return put_struct(p, to, x) ? 0 : kUnknown;
    if (p.kind != '&' && p.kind != 'T') return put_number(p.kind, to, x) ? 0 : kUnknown;
    void *address = PyLong_CheckExact(x) ? PyLong_AsVoidPtr(x) : nullptr;
    if (PyErr_Occurred()) { PyErr_Clear(); return kUnknown; }
    return PyLong_CheckExact(x) ? put_address(p, to, address) : kUnknown;
}

// Launches a kernel; `write(p, to, i)` writes argument `i` to its address. Both return 0, `kUnknown` or the driver's
// error. All data is on the stack, so that threads do not interfere when the GIL is released.
template <class Write> int launch(const Plan &plan, void *stream, Write write) {
    alignas(64) char buffer[kMaxParameterBytes];
    void *addresses[kMaxParameters];
    memcpy(buffer, plan.buffer.data(), plan.buffer.size());
    size_t n = 0, i = 0;
    for (auto &p : plan.parameters) {
        char *to = buffer + p.offset;
        addresses[n++] = to;
        if (int code = p.kind == '=' ? 0 : write(p, to, i++)) return code;
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

// Python's objects

struct Launch {
    PyObject_HEAD
    vectorcallfunc call;
    std::shared_ptr<const Plan> plan;
    PyObject *fallback;
    void *stream;
    bool has_stream;    // did the caller pass the stream?
};
extern PyTypeObject LaunchType;

PyObject *call_launch(PyObject *self, PyObject *const *args, size_t flags, PyObject *names) {
    auto l = (Launch *)self;
    size_t n = PyVectorcall_NARGS(flags);
    void *stream = l->stream;
    int device;
    if (!names && n == l->plan->num_arguments && (l->has_stream || get_device_and_stream(&device, &stream)) &&
        !launch(*l->plan, stream, [&](auto &p, char *to, size_t i) { return put_argument(p, to, args[i]); }))
        Py_RETURN_NONE;
    return PyObject_Vectorcall(l->fallback, args, n, names);
}

PyObject *make_launch(std::shared_ptr<const Plan> plan, PyObject *fallback) {
    auto l = PyObject_GC_New(Launch, &LaunchType);
    if (!l) return nullptr;
    l->call = call_launch;
    new (&l->plan) std::shared_ptr<const Plan>(std::move(plan));
    Py_INCREF(l->fallback = fallback);
    l->stream = nullptr;
    l->has_stream = false;
    PyObject_GC_Track(l);
    return (PyObject *)l;
}

bool add_parameter(Plan &plan, PyObject *o) {
    Parameter p{};
    char *bytes = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_Check(o)) {
        p.kind = '=';
        PyBytes_AsStringAndSize(o, &bytes, &size);
    } else {
        const char *kind;
        if (!PyArg_ParseTuple(o, "s|bby#", &kind, &p.code, &p.bits, &bytes, &size)) return false;
        p.kind = *kind;
        plan.num_arguments++;
    }
    p.size = bytes ? size : strchr("bB?", p.kind) ? 1 : strchr("hH", p.kind) ? 2 : strchr("iIf", p.kind) ? 4 : 8;
    p.offset = plan.reserve(p.size, p.size > 8 ? 64 : 8);
    if (bytes) memcpy(plan.buffer.data() + p.offset, bytes, p.size);
    plan.parameters.push_back(p);
    return true;
}

bool add_attribute(Plan &plan, PyObject *o) {
    Attribute a{};
    if (!PyArg_ParseTuple(o, "i(III)", &a.id, a.values, a.values + 1, a.values + 2)) return false;
    plan.attributes.push_back(a);
    return true;
}

bool add_items(PyObject *items, Plan &plan, bool (*add)(Plan &, PyObject *)) {
    PyObject *sequence = PySequence_Fast(items, "expected a list");
    if (!sequence) return false;
    bool success = true;
    for (Py_ssize_t i = 0; success && i < PySequence_Fast_GET_SIZE(sequence); i++)
        success = add(plan, PySequence_Fast_GET_ITEM(sequence, i));
    Py_DECREF(sequence);
    return success;
}

// Launch(kernel, grid, block, shared, attributes, parameters, fallback): `fallback` is called for arguments that are
// not handled here, and for a launch that the driver refuses. It must reference the kernel, to keep it alive.
PyObject *launch_new(PyTypeObject *, PyObject *args, PyObject *) {
    auto plan = std::make_shared<Plan>();
    auto &c = plan->config;
    PyObject *attributes, *parameters, *fallback;
    unsigned long long kernel;
    if (!PyArg_ParseTuple(args, "K(III)(III)IOOO", &kernel, c.grid, c.grid + 1, c.grid + 2, c.block, c.block + 1,
                          c.block + 2, &c.shared, &attributes, &parameters, &fallback) ||
        !add_items(attributes, *plan, add_attribute) || !add_items(parameters, *plan, add_parameter))
        return nullptr;
    size_t size = plan->buffer.size(), count = plan->parameters.size();
    if (size > kMaxParameterBytes || count > kMaxParameters)
        return PyErr_Format(PyExc_ValueError, "%zu parameters of %zu bytes are too many", count, size);
    plan->kernel = (void *)kernel;
    c.attributes = plan->attributes.data();
    c.count = plan->attributes.size();
    return make_launch(plan, fallback);
}

int launch_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((Launch *)self)->fallback);
    return 0;
}

int launch_clear(PyObject *self) {
    Py_CLEAR(((Launch *)self)->fallback);
    return 0;
}

void launch_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    launch_clear(self);
    ((Launch *)self)->plan.~shared_ptr();
    PyObject_GC_Del(self);
}

// launch.on(stream, fallback): returns the same launch on a stream, given by its handle
PyObject *launch_on(PyObject *self, PyObject *args) {
    unsigned long long stream;
    PyObject *fallback;
    if (!PyArg_ParseTuple(args, "KO", &stream, &fallback)) return nullptr;
    auto l = (Launch *)make_launch(((Launch *)self)->plan, fallback);
    if (l) l->stream = (void *)stream, l->has_stream = true;
    return (PyObject *)l;
}

// launch.run(stream, *arguments): launches; returns 0, `kUnknown`, or the driver's error
PyObject *launch_run(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    auto &plan = *((Launch *)self)->plan;
    void *stream = n ? PyLong_AsVoidPtr(args[0]) : nullptr;
    if (PyErr_Occurred()) return nullptr;
    if (n != (Py_ssize_t)plan.num_arguments + 1)
        return PyErr_Format(PyExc_TypeError, "%zd arguments of %zu", n - 1, plan.num_arguments);
    int code = launch(plan, stream, [&](auto &p, char *to, size_t i) { return put_argument(p, to, args[i + 1]); });
    return PyLong_FromLong(code);
}

PyMethodDef launch_methods[] = {
    {"on", launch_on, METH_VARARGS, "on(stream, fallback): the same launch on a stream, given by its handle"},
    {"run", (PyCFunction)(void (*)())launch_run, METH_FASTCALL, "run(stream, *arguments): the driver's code, or -1"},
    {}};

PyTypeObject LaunchType = {PyVarObject_HEAD_INIT(nullptr, 0)};

// A `Table` is a function of tensors and constants. It stores a recipe per shapes, strides, type, device and alignment
// of the tensors, and per values of the constants. Each step of a recipe launches a kernel whose arguments are
// addresses, or fills memory with zeros. An address is a base and an offset. Bases have indices: first the tensors
// among the arguments, then the results, a workspace, which is freed after the call, and a null pointer.
struct Address { size_t base_index, offset; };
struct Step {
    std::shared_ptr<PyObject> launch;   // null: fill with zeros
    std::vector<Address> addresses;
    size_t num_zero_bytes = 0;

    const Plan &plan() const { return *((Launch *)launch.get())->plan; }
};

// When a function of torch computes the result: always, only outside CUDA graphs, where its launch overhead matters,
// or only inside, where it does not
enum When { kAlways, kEagerly, kInGraphs };

struct Recipe {
    std::vector<Step> steps;
    std::vector<int64_t> shape;         // of the first result
    PyObject *function = nullptr;       // computes the result instead of the steps, or null
    When when = kAlways;                // is `function` called?
    bool has_gradient = false;          // does `function` compute the result even if its gradient is needed?
    bool by_python = false;             // Python must compute the result each time
    bool returns_tuple = false;
    std::vector<PyObject *> results;    // the arguments with which each result is allocated
    PyObject *workspace = nullptr;      // likewise, or null
    Recipe() = default;
    Recipe(const Recipe &) = delete;
    ~Recipe() {
        for (auto result : results) Py_DECREF(result);
        Py_XDECREF(workspace);
        Py_XDECREF(function);
    }
};

struct Table {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *recipe_of_key;            // key -> capsule of a `Recipe`
    PyObject *gradient_recipe_of_key;   // the same for calls whose gradient is needed; such recipes have no steps
    PyObject *allocate;                 // makes the results and the workspace
    PyObject *modes, *float32_modes;    // functions: if one is true, `fast` does not launch (the second: of float32)
};

constexpr size_t kMaxTensors = 16, kMaxResults = 8;

struct Tensors { DLTensor items[kMaxTensors]; size_t n = 0; };

struct Key {
    char bytes[2048];
    size_t n = 0;

    bool add(const void *data, size_t size) {
        if (n + size > sizeof(bytes)) return false;
        memcpy(bytes + n, data, size);
        n += size;
        return true;
    }
    template <class T> bool add_value(char tag, T value) { return add(&tag, 1) && add(&value, sizeof(T)); }
};

bool add_tensor(Key &key, const DLTensor &t) {
    if ((size_t)t.ndim > kMaxAxes) return false;
    int64_t layout = t.ndim | t.dtype.code << 8 | t.dtype.bits << 16 | int64_t(t.device.device_id) << 32;
    if (!key.add_value('t', layout) || !key.add_value('a', char((uintptr_t)address_of(t) & 15))) return false;
    return key.add(t.shape, t.ndim * sizeof(int64_t)) && key.add(t.strides, t.ndim * sizeof(int64_t));
}

bool add_text(Key &key, PyObject *x) {
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(x, &size);
    if (!text) PyErr_Clear();
    return text && key.add_value('s', size) && key.add(text, size);
}

bool add_integer(Key &key, PyObject *x) {
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(x, &overflow);
    return !overflow && key.add_value('i', value);
}

// Adds an argument to the key, and a tensor to `tensors`. Returns false for an argument that no key can have.
bool add_argument(Key &key, Tensors &tensors, PyObject *x) {
    if (x == Py_None) return key.add("n", 1);
    if (PyBool_Check(x)) return key.add_value('b', x == Py_True);
    if (PyLong_CheckExact(x)) return add_integer(key, x);
    if (PyFloat_CheckExact(x)) return key.add_value('f', PyFloat_AS_DOUBLE(x));
    if (PyUnicode_CheckExact(x)) return add_text(key, x);
    if (tensors.n == kMaxTensors || !read_tensor(x, tensors.items + tensors.n)) return false;
    return add_tensor(key, tensors.items[tensors.n++]);
}

PyObject *key_of(PyObject *const *args, size_t n, Tensors &tensors) {
    Key key;
    for (size_t i = 0; i < n; i++)
        if (!add_argument(key, tensors, args[i])) return nullptr;
    return PyBytes_FromStringAndSize(key.bytes, key.n);
}

Recipe &recipe_of(PyObject *capsule) { return *(Recipe *)PyCapsule_GetPointer(capsule, nullptr); }

// Returns the capsule of the recipe. The caller must hold a reference, because other threads may clear the table.
PyObject *look_up_key(PyObject *recipe_of_key, PyObject *key) {
    PyObject *capsule = key ? PyDict_GetItemWithError(recipe_of_key, key) : nullptr;
    Py_XINCREF(capsule);
    return capsule;
}

PyObject *look_up(PyObject *recipe_of_key, PyObject *const *args, size_t n, Tensors &tensors) {
    PyObject *key = key_of(args, n, tensors), *capsule = look_up_key(recipe_of_key, key);
    Py_XDECREF(key);
    return capsule;
}

bool fits(const Recipe &r, const DLTensor &out, const Tensors &tensors) {
    auto &first = tensors.items[0];
    bool is_alike = (size_t)out.ndim == r.shape.size() &&
                    !memcmp(out.shape, r.shape.data(), out.ndim * sizeof(int64_t)) &&
                    !memcmp(&out.dtype, &first.dtype, sizeof(out.dtype)) &&
                    out.device.device_id == first.device.device_id;
    if (!is_alike || !is_contiguous(out) || (uintptr_t)address_of(out) & 15) return false;
    for (size_t i = 0; i < tensors.n; i++)
        if (address_of(out) == address_of(tensors.items[i])) return false;
    return true;
}

bool run_step(const Step &step, void *stream, char *const *bases) {
    auto address = [&](size_t i) { return bases[step.addresses[i].base_index] + step.addresses[i].offset; };
    if (!step.launch) return !driver.fill(address(0), 0, step.num_zero_bytes, stream);
    auto write = [&](auto &p, char *to, size_t i) { return put_address(p, to, address(i)); };
    return !launch(step.plan(), stream, write);
}

// Releases the tensors of a call, unless they are returned.
struct Allocations {
    PyObject *results[kMaxResults] = {}, *workspace = nullptr;
    size_t n = 0;
    ~Allocations() {
        for (size_t i = 0; i < n; i++) Py_XDECREF(results[i]);
        Py_XDECREF(workspace);       // torch's allocator reuses the memory in the order of the stream
    }
    PyObject *release(bool as_tuple) {
        if (!as_tuple) return Py_NewRef(results[0]);
        PyObject *tuple = PyTuple_New(n);
        for (size_t i = 0; tuple && i < n; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(results[i]));
        return tuple;
    }
};

bool add_base(char **bases, size_t &n, PyObject *x) {
    DLTensor t;
    if (!read_tensor(x, &t)) return false;
    bases[n++] = address_of(t);
    return true;
}

// Runs a recipe, with the first result in `out` unless that is null. Returns the result, or None if Python must compute
// it.
PyObject *run_recipe(const Recipe &r, PyObject *allocate, PyObject *out, void *stream, const Tensors &tensors) {
    char *bases[kMaxTensors + kMaxResults + 2];
    size_t num_bases = 0;
    for (; num_bases < tensors.n; num_bases++) bases[num_bases] = address_of(tensors.items[num_bases]);
    Allocations made;
    for (auto arguments : r.results) {
        PyObject *result = out && !made.n ? Py_NewRef(out) : PyObject_Call(allocate, arguments, nullptr);
        if (!result) return nullptr;
        made.results[made.n++] = result;
        if (!add_base(bases, num_bases, result)) Py_RETURN_NONE;
    }
    if (r.workspace && !(made.workspace = PyObject_Call(allocate, r.workspace, nullptr))) return nullptr;
    if (r.workspace && !add_base(bases, num_bases, made.workspace)) Py_RETURN_NONE;
    bases[num_bases] = nullptr;
    for (auto &step : r.steps)
        if (!run_step(step, stream, bases)) Py_RETURN_NONE;
    return made.release(r.returns_tuple);
}

bool is_capturing(void *stream) {
    int status = 0;
    return !driver.is_capturing(stream, &status) && status;
}

// Runs the recipe of a capsule; `args` are those of the call.
PyObject *run_capsule(Table *table, PyObject *capsule, PyObject *out, PyObject *const *args, size_t n,
                      const Tensors &tensors) {
    auto &recipe = recipe_of(capsule);
    DLTensor out_tensor;
    int device;
    void *stream;
    if (recipe.by_python) return Py_NewRef(Py_Ellipsis);
    bool is_always_by_function = recipe.function && recipe.when == kAlways;
    if (!is_always_by_function && !get_device_and_stream(&device, &stream)) Py_RETURN_NONE;
    if (is_always_by_function || (recipe.function && is_capturing(stream) == (recipe.when == kInGraphs)))
        return out ? Py_NewRef(Py_NotImplemented) : PyObject_Vectorcall(recipe.function, args, n, nullptr);
    if (recipe.steps.empty() || device != tensors.items[0].device.device_id ||
        (out && (!read_tensor(out, &out_tensor) || !fits(recipe, out_tensor, tensors))))
        Py_RETURN_NONE;
    return run_recipe(recipe, table->allocate, out, stream, tensors);
}

PyObject *run_table(Table *table, PyObject *out, PyObject *const *args, size_t n) {
    Tensors tensors;
    PyObject *capsule = look_up(table->recipe_of_key, args, n, tensors);
    if (!capsule && PyErr_Occurred()) return nullptr;
    if (!capsule) Py_RETURN_NONE;
    PyObject *result = run_capsule(table, capsule, out, args, n, tensors);
    Py_DECREF(capsule);
    return result;
}

// table(*arguments): returns the result; Ellipsis if Python must compute it each time; None if no recipe is known, or
// it could not be run. The caller has checked torch's modes.
PyObject *call_table(PyObject *self, PyObject *const *args, size_t flags, PyObject *names) {
    if (names) return PyErr_Format(PyExc_TypeError, "a table takes no keyword arguments");
    return run_table((Table *)self, nullptr, args, PyVectorcall_NARGS(flags));
}

// Is the value that this function returns false, None or 0? Errors count as no.
bool returns_false(PyObject *function) {
    PyObject *value = PyObject_CallNoArgs(function);
    int is_true = value ? PyObject_IsTrue(value) : 1;
    Py_XDECREF(value);
    PyErr_Clear();
    return !is_true;
}

bool all_return_false(PyObject *functions) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(functions); i++)
        if (!returns_false(PyTuple_GET_ITEM(functions, i))) return false;
    return true;
}

bool has_no_forward_gradient() {
    PyObject *level = PyDict_GetItem(forward_ad, current_level);
    return level && PyLong_CheckExact(level) && PyLong_AsLong(level) < 0;
}

// Does no mode or transform change what a call of our kernels computes?
bool is_ordinary(Table *table, const Tensors &tensors) {
    auto &dtype = tensors.items[0].dtype;
    bool is_float32 = dtype.code == kDLFloat && dtype.bits == 32;
    return returns_false(num_dispatch_modes) && returns_false(innermost_transform) && has_no_forward_gradient() &&
           all_return_false(table->modes) && (!is_float32 || all_return_false(table->float32_modes));
}

bool needs_gradient(PyObject *const *args, size_t n) {
    if (returns_false(is_grad_enabled)) return false;
    for (size_t i = 0; i < n; i++) {
        auto type = (PyObject *)Py_TYPE(args[i]);
        if (type != tensor_type && type != parameter_type) continue;
        PyObject *value = PyObject_GetAttr(args[i], requires_grad);
        bool is_required = value != Py_False;
        Py_XDECREF(value);
        PyErr_Clear();
        if (is_required) return true;
    }
    return false;
}

// table.fast(*arguments): returns the result if it is known how to compute it, and no mode of torch changes that; else
// None. A function of torch heeds all modes, transforms and gradients; our launches do not. Autocast, which is among
// the table's modes, would change the type of torch's result, but not that of ours.
PyObject *table_fast(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    auto table = (Table *)self;
    Tensors tensors;
    PyObject *key = key_of(args, n, tensors), *capsule = look_up_key(table->recipe_of_key, key), *result = nullptr;
    if (!(capsule && recipe_of(capsule).has_gradient) && needs_gradient(args, n)) {
        Py_XDECREF(capsule);
        capsule = look_up_key(table->gradient_recipe_of_key, key);
    }
    Py_XDECREF(key);
    if (!capsule && PyErr_Occurred()) return nullptr;
    if (!capsule) Py_RETURN_NONE;
    auto &recipe = recipe_of(capsule);
    bool is_torchs_gradient = recipe.function && recipe.when == kEagerly;
    if (recipe.function && recipe.when == kAlways) result = PyObject_Vectorcall(recipe.function, args, n, nullptr);
    else if (is_torchs_gradient ? !all_return_false(table->modes) : recipe.by_python || !is_ordinary(table, tensors))
        result = Py_NewRef(Py_None);
    else result = run_capsule(table, capsule, nullptr, args, n, tensors);
    Py_DECREF(capsule);
    return result;
}

// table.into(out, *arguments): the same, with the result in `out`
PyObject *table_into(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    if (!n) return PyErr_Format(PyExc_TypeError, "into(out, *arguments) takes a tensor for the result");
    return run_table((Table *)self, args[0], args + 1, n - 1);
}

void delete_recipe(PyObject *capsule) { delete &recipe_of(capsule); }

bool add_address(Step &step, PyObject *item) {
    Address a;
    if (!PyArg_ParseTuple(item, "nn", &a.base_index, &a.offset)) return false;
    step.addresses.push_back(a);
    return true;
}

// A step is (launch, addresses), or (None, address, bytes) to fill with zeros.
bool add_step(Recipe &r, PyObject *item) {
    PyObject *launch, *addresses;
    Step step;
    if (PyTuple_Check(item) && PyTuple_GET_SIZE(item) == 3) {
        if (!PyArg_ParseTuple(item, "OO!n", &launch, &PyTuple_Type, &addresses, &step.num_zero_bytes) ||
            !add_address(step, addresses))
            return false;
        r.steps.push_back(step);
        return true;
    }
    if (!PyArg_ParseTuple(item, "O!O!", &LaunchType, &launch, &PyTuple_Type, &addresses)) return false;
    step.launch = {Py_NewRef(launch), [](PyObject *o) { Py_DECREF(o); }};
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(addresses); k++)
        if (!add_address(step, PyTuple_GET_ITEM(addresses, k))) return false;
    if (step.addresses.size() != step.plan().num_arguments)
        return PyErr_Format(PyExc_TypeError, "a step must have one address per argument of its launch");
    r.steps.push_back(step);
    return true;
}

// Each address must have a base: a wrong index would read another array's memory.
bool check_bases(const Recipe &r, size_t num_tensors) {
    size_t num_bases = num_tensors + r.results.size() + (r.workspace ? 1 : 0) + 1;
    for (auto &step : r.steps)
        for (auto &a : step.addresses)
            if (a.base_index >= num_bases)
                return PyErr_Format(PyExc_IndexError, "base %zu of %zu", a.base_index, num_bases);
    return true;
}

PyObject *keep_recipe(PyObject *recipes, PyObject *const *args, size_t n, std::unique_ptr<Recipe> r) {
    Tensors tensors;
    PyObject *key = key_of(args, n, tensors);
    if (!key || !tensors.n || !check_bases(*r, tensors.n)) {
        Py_XDECREF(key);
        return PyErr_Occurred() ? nullptr : PyErr_Format(PyExc_TypeError, "these arguments have no key");
    }
    PyObject *capsule = PyCapsule_New(r.release(), nullptr, delete_recipe);
    int error = capsule ? PyDict_SetItem(recipes, key, capsule) : -1;
    Py_XDECREF(capsule);
    Py_DECREF(key);
    if (error) return nullptr;
    Py_RETURN_NONE;
}

bool add_result(Recipe &r, PyObject *arguments) {
    if (r.results.size() == kMaxResults || !PyTuple_Check(arguments) || !PyTuple_GET_SIZE(arguments) ||
        !PyTuple_Check(PyTuple_GET_ITEM(arguments, 0)))
        return PyErr_Format(PyExc_TypeError, "a result is (shape, strides, dtype), and a recipe has at most 8");
    PyObject *shape = PyTuple_GET_ITEM(arguments, 0);
    for (Py_ssize_t i = 0; r.results.empty() && i < PyTuple_GET_SIZE(shape); i++)
        r.shape.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i)));
    r.results.push_back(Py_NewRef(arguments));
    return !PyErr_Occurred();
}

// table.store_recipe(arguments, steps, results, workspace, in_graphs=None): stores a recipe for such arguments;
// `results`: how to allocate the result, or a list of these if the function returns a tuple; `in_graphs`: a function of
// the arguments that computes the result in CUDA graphs
PyObject *table_store_recipe(PyObject *self, PyObject *args) {
    PyObject *arguments, *steps, *results, *workspace, *in_graphs = Py_None;
    if (!PyArg_ParseTuple(args, "O!O!OO|O", &PyTuple_Type, &arguments, &PyTuple_Type, &steps, &results, &workspace,
                          &in_graphs))
        return nullptr;
    auto r = std::make_unique<Recipe>();
    r->function = in_graphs == Py_None ? nullptr : Py_NewRef(in_graphs);
    r->when = kInGraphs;
    r->workspace = workspace == Py_None ? nullptr : Py_NewRef(workspace);
    r->returns_tuple = PyList_Check(results);
    if (!r->returns_tuple && !add_result(*r, results)) return nullptr;
    for (Py_ssize_t i = 0; r->returns_tuple && i < PyList_GET_SIZE(results); i++)
        if (!add_result(*r, PyList_GET_ITEM(results, i))) return nullptr;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); i++)
        if (!add_step(*r, PyTuple_GET_ITEM(steps, i))) return nullptr;
    return keep_recipe(((Table *)self)->recipe_of_key, &PyTuple_GET_ITEM(arguments, 0), PyTuple_GET_SIZE(arguments),
                       std::move(r));
}

// table.use_function(function, arguments, with_gradient=None, only_eagerly=False): stores that a function of torch
// computes the result for such arguments; `with_gradient`: True: if their gradient is needed, False: if it is not,
// None: in both cases; `only_eagerly`: not in CUDA graphs
PyObject *table_use_function(PyObject *self, PyObject *args) {
    PyObject *function, *arguments, *with_gradient = Py_None;
    int only_eagerly = 0;
    if (!PyArg_ParseTuple(args, "OO!|Op", &function, &PyTuple_Type, &arguments, &with_gradient, &only_eagerly))
        return nullptr;
    auto table = (Table *)self;
    auto r = std::make_unique<Recipe>();
    r->function = Py_NewRef(function);
    r->when = only_eagerly ? kEagerly : kAlways;
    r->has_gradient = with_gradient == Py_None;
    return keep_recipe(with_gradient == Py_True ? table->gradient_recipe_of_key : table->recipe_of_key,
                       &PyTuple_GET_ITEM(arguments, 0), PyTuple_GET_SIZE(arguments), std::move(r));
}

// table.use_python(*arguments): stores that no recipe can repeat the call
PyObject *table_use_python(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    auto r = std::make_unique<Recipe>();
    r->by_python = true;
    return keep_recipe(((Table *)self)->recipe_of_key, args, n, std::move(r));
}

// table.has_recipe(*arguments): is a recipe stored for such arguments?
PyObject *table_has_recipe(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    Tensors tensors;
    PyObject *recipe = look_up(((Table *)self)->recipe_of_key, args, n, tensors);
    if (!recipe && PyErr_Occurred()) return nullptr;
    bool has_steps = recipe && !recipe_of(recipe).steps.empty();
    Py_XDECREF(recipe);
    return PyBool_FromLong(has_steps);
}

PyObject *table_clear(PyObject *self, PyObject *) {
    PyDict_Clear(((Table *)self)->recipe_of_key);
    PyDict_Clear(((Table *)self)->gradient_recipe_of_key);
    Py_RETURN_NONE;
}

Py_ssize_t table_size(PyObject *self) {
    return PyDict_Size(((Table *)self)->recipe_of_key) + PyDict_Size(((Table *)self)->gradient_recipe_of_key);
}

int table_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((Table *)self)->recipe_of_key);
    Py_VISIT(((Table *)self)->gradient_recipe_of_key);
    Py_VISIT(((Table *)self)->allocate);
    Py_VISIT(((Table *)self)->modes);
    Py_VISIT(((Table *)self)->float32_modes);
    return 0;
}

int table_unlink(PyObject *self) {
    Py_CLEAR(((Table *)self)->recipe_of_key);
    Py_CLEAR(((Table *)self)->gradient_recipe_of_key);
    Py_CLEAR(((Table *)self)->allocate);
    Py_CLEAR(((Table *)self)->modes);
    Py_CLEAR(((Table *)self)->float32_modes);
    return 0;
}

void table_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    table_unlink(self);
    PyObject_GC_Del(self);
}

// Table(allocate, modes=(), float32_modes=())
PyObject *table_new(PyTypeObject *type, PyObject *args, PyObject *) {
    PyObject *allocate, *modes = nullptr, *float32_modes = nullptr;
    if (!PyArg_ParseTuple(args, "O|O!O!", &allocate, &PyTuple_Type, &modes, &PyTuple_Type, &float32_modes))
        return nullptr;
    auto table = PyObject_GC_New(Table, type);
    if (!table) return nullptr;
    table->call = call_table;
    table->allocate = Py_NewRef(allocate);
    table->modes = modes ? Py_NewRef(modes) : PyTuple_New(0);
    table->float32_modes = float32_modes ? Py_NewRef(float32_modes) : PyTuple_New(0);
    table->recipe_of_key = PyDict_New();
    table->gradient_recipe_of_key = PyDict_New();
    PyObject_GC_Track(table);
    return (PyObject *)table;
}

PyMethodDef table_methods[] = {
    {"into", (PyCFunction)(void (*)())table_into, METH_FASTCALL, "into(out, *arguments): call it, with a given result"},
    {"store_recipe", table_store_recipe, METH_VARARGS,
     "store_recipe(arguments, steps, results, workspace, in_graphs=None): launch these steps for such arguments"},
    {"fast", (PyCFunction)(void (*)())table_fast, METH_FASTCALL,
     "fast(*arguments): the result if a recipe computes it in the current modes, else None"},
    {"use_function", table_use_function, METH_VARARGS,
     "use_function(function, arguments, with_gradient=None, only_eagerly=False): let a function compute the result"},
    {"use_python", (PyCFunction)(void (*)())table_use_python, METH_FASTCALL,
     "use_python(*arguments): let Python compute the result for such arguments each time"},
    {"has_recipe", (PyCFunction)(void (*)())table_has_recipe, METH_FASTCALL,
     "has_recipe(*arguments): is a recipe stored for such arguments?"},
    {"clear", table_clear, METH_NOARGS, "Remove all recipes"},
    {}};
PySequenceMethods table_sequence = {table_size};
PyTypeObject TableType = {PyVarObject_HEAD_INIT(nullptr, 0)};

static_assert(offsetof(Launch, call) == offsetof(Table, call), "both types have the vectorcall function at one offset");

void fill_type(PyTypeObject &type, const char *name, size_t size, newfunc new_object, PyMethodDef *methods) {
    type.tp_name = name;
    type.tp_basicsize = size;
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
    type.tp_vectorcall_offset = offsetof(Launch, call);
    type.tp_call = PyVectorcall_Call;
    type.tp_new = new_object;
    type.tp_methods = methods;
}

// setup(Tensor, Parameter, modes, device_type, launch, get_device, replace_address, fill, is_capturing, get_stream):
// sets torch's types, its functions that report modes, DLPack's code of the device type, and the addresses of
// functions; `get_stream`: 0 for torch's own
PyObject *setup(PyObject *, PyObject *args) {
    unsigned long long addresses[6];
    int kind;
    if (!PyArg_ParseTuple(args, "OO(OOOO!)iKKKKKK", &tensor_type, &parameter_type, &is_grad_enabled,
                          &num_dispatch_modes, &innermost_transform, &PyDict_Type, &forward_ad, &kind, addresses,
                          addresses + 1, addresses + 2, addresses + 3, addresses + 4, addresses + 5))
        return nullptr;
    for (auto o : {tensor_type, parameter_type, is_grad_enabled, num_dispatch_modes, innermost_transform, forward_ad})
        Py_INCREF(o);                                       // never released
    requires_grad = PyUnicode_InternFromString("requires_grad");
    current_level = PyUnicode_InternFromString("_current_level");
    PyObject *capsule = PyObject_GetAttrString(tensor_type, "__dlpack_c_exchange_api__");
    auto api = capsule ? (DLPackExchangeAPI *)PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : nullptr;
    Py_XDECREF(capsule);
    if (!api) return nullptr;
    read_dlpack = api->dltensor_from_py_object_no_sync;
    // DLPack allows null
    if (!read_dlpack) return PyErr_Format(PyExc_ValueError, "torch does not export its tensors to C");
    tensor_device = (DLDeviceType)kind;
    driver.launch = (decltype(Driver::launch))addresses[0];
    driver.get_device = (decltype(Driver::get_device))addresses[1];
    driver.replace_address = (decltype(Driver::replace_address))addresses[2];
    driver.fill = (decltype(Driver::fill))addresses[3];
    driver.is_capturing = (decltype(Driver::is_capturing))addresses[4];
    driver.get_stream = addresses[5] ? (decltype(Driver::get_stream))addresses[5]
                                     : (decltype(Driver::get_stream))api->current_work_stream;
    Py_RETURN_NONE;
}

// are_integers(brackets): are these integers, None, or tuples of them? A dict would find 2.0 under the key 2, too.
bool is_integer(PyObject *o) {
    if (!PyTuple_Check(o)) return PyLong_CheckExact(o) || o == Py_None;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); i++)
        if (!is_integer(PyTuple_GET_ITEM(o, i))) return false;
    return true;
}

PyObject *are_integers(PyObject *, PyObject *o) { return PyBool_FromLong(is_integer(o)); }

PyMethodDef functions[] = {{"setup", setup, METH_VARARGS, "Set torch's types, and the addresses of functions"},
                           {"are_integers", are_integers, METH_O, "Are these integers, or tuples of them?"},
                           {}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "launcher", "Launches kernels with little overhead", -1, functions};

}  // namespace

PyMODINIT_FUNC PyInit_launcher() {
    fill_type(LaunchType, "launcher.Launch", sizeof(Launch), launch_new, launch_methods);
    LaunchType.tp_traverse = launch_traverse, LaunchType.tp_clear = launch_clear;
    LaunchType.tp_dealloc = launch_dealloc;
    fill_type(TableType, "launcher.Table", sizeof(Table), table_new, table_methods);
    TableType.tp_traverse = table_traverse, TableType.tp_clear = table_unlink;
    TableType.tp_dealloc = table_dealloc;
    TableType.tp_as_sequence = &table_sequence;
    if (PyType_Ready(&LaunchType) || PyType_Ready(&TableType)) return nullptr;
    PyObject *m = PyModule_Create(&definition);
    if (!m || PyModule_AddObjectRef(m, "Launch", (PyObject *)&LaunchType) ||
        PyModule_AddObjectRef(m, "Table", (PyObject *)&TableType))
        return nullptr;
    return m;
}
