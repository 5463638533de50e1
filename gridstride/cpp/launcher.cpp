// The fast path of a launch: compiled code reads the arguments, stores them in a buffer and calls the driver.
//
// A `Launch` is one kernel with a grid and a block, and is called with arrays and scalars. A `Table` is a function of
// two tensors that allocates its result, and launches the plan that was stored for their shapes. Arguments that they
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

constexpr size_t kMost = 4096, kMostParameters = 128, kMostAxes = 8;

// Functions that Python passes by address: those of the driver, or replacements in a test
struct Driver {
    int (*launch)(const Config *, void *kernel, void **parameters, void **extra);
    int (*device)(int *number);                             // cuCtxGetDevice
    int (*move)(void *map, void *address);                  // cuTensorMapReplaceAddress
    int (*stream)(DLDeviceType, int32_t number, void **stream);
};
Driver driver;
DLPackDLTensorFromPyObjectNoSync read_dlpack;
DLDeviceType where;                                         // of the tensors
PyObject *tensor_type, *parameter_type;

bool read_tensor(PyObject *x, DLTensor *t) {
    auto type = (PyObject *)Py_TYPE(x);
    if (type != tensor_type && type != parameter_type) return false;
    if (read_dlpack(x, t)) { PyErr_Clear(); return false; }
    return t->device.device_type == where;
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
    size_t at, size;
};

struct Plan {
    void *kernel = nullptr;
    Config config{};
    std::vector<Attribute> attributes;
    std::vector<Parameter> parameters;
    std::vector<char> block;
    size_t takes = 0;   // the number of arguments that each launch passes

    size_t reserve(size_t size, size_t alignment) {
        size_t at = (block.size() + alignment - 1) / alignment * alignment;
        block.resize(at + size);
        return at;
    }
};

template <class T> bool put(char *to, T value) { memcpy(to, &value, sizeof(T)); return true; }

template <class T> bool put_integer(char *to, PyObject *x) {
    int over = 0;
    long long value = PyLong_AsLongLongAndOverflow(x, &over);
    return !over && (long long)(T)value == value && ((T)-1 < (T)0 || value >= 0) && put(to, (T)value);
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
    return p.kind == 'T' ? driver.move(to, address) : !put(to, address);
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

// Launches a kernel; returns 0, `kUnknown`, or the driver's error, as does `given(p, to, i)`, which writes argument `i`
// to its address. All data is on the stack, so that threads do not interfere when the GIL is released.
template <class Given> int launch(const Plan &plan, void *stream, Given given) {
    alignas(64) char block[kMost];
    void *addresses[kMostParameters];
    memcpy(block, plan.block.data(), plan.block.size());
    size_t n = 0, i = 0;
    for (auto &p : plan.parameters) {
        char *to = block + p.at;
        addresses[n++] = to;
        if (int code = p.kind == '=' ? 0 : given(p, to, i++)) return code;
    }
    Config config = plan.config;
    config.stream = stream;
    int code;
    Py_BEGIN_ALLOW_THREADS
    code = driver.launch(&config, plan.kernel, addresses, nullptr);
    Py_END_ALLOW_THREADS
    return code;
}

bool current(int *device, void **stream) { return !driver.device(device) && !driver.stream(where, *device, stream); }

// Python's objects

struct Launch {
    PyObject_HEAD
    vectorcallfunc call;
    std::shared_ptr<const Plan> plan;
    PyObject *otherwise;
    void *stream;
    bool chosen;        // was the stream passed by the caller?
};
extern PyTypeObject LaunchType;

PyObject *launch_called(PyObject *self, PyObject *const *args, size_t flags, PyObject *names) {
    auto l = (Launch *)self;
    size_t n = PyVectorcall_NARGS(flags);
    void *stream = l->stream;
    int device;
    if (!names && n == l->plan->takes && (l->chosen || current(&device, &stream)) &&
        !launch(*l->plan, stream, [&](auto &p, char *to, size_t i) { return put_argument(p, to, args[i]); }))
        Py_RETURN_NONE;
    return PyObject_Vectorcall(l->otherwise, args, n, names);
}

PyObject *make_launch(std::shared_ptr<const Plan> plan, PyObject *otherwise) {
    auto l = PyObject_GC_New(Launch, &LaunchType);
    if (!l) return nullptr;
    l->call = launch_called;
    new (&l->plan) std::shared_ptr<const Plan>(std::move(plan));
    Py_INCREF(l->otherwise = otherwise);
    l->stream = nullptr;
    l->chosen = false;
    PyObject_GC_Track(l);
    return (PyObject *)l;
}

bool add_parameter(Plan &plan, PyObject *o) {
    Parameter p{};
    char *given = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_Check(o)) {
        p.kind = '=';
        PyBytes_AsStringAndSize(o, &given, &size);
    } else {
        const char *kind;
        if (!PyArg_ParseTuple(o, "s|bby#", &kind, &p.code, &p.bits, &given, &size)) return false;
        p.kind = *kind;
        plan.takes++;
    }
    p.size = given ? size : strchr("bB?", p.kind) ? 1 : strchr("hH", p.kind) ? 2 : strchr("iIf", p.kind) ? 4 : 8;
    p.at = plan.reserve(p.size, p.size > 8 ? 64 : 8);
    if (given) memcpy(plan.block.data() + p.at, given, p.size);
    plan.parameters.push_back(p);
    return true;
}

bool add_attribute(Plan &plan, PyObject *o) {
    Attribute a{};
    if (!PyArg_ParseTuple(o, "i(III)", &a.id, a.values, a.values + 1, a.values + 2)) return false;
    plan.attributes.push_back(a);
    return true;
}

bool each(PyObject *items, Plan &plan, bool (*add)(Plan &, PyObject *)) {
    PyObject *fast = PySequence_Fast(items, "a list is needed");
    if (!fast) return false;
    bool good = true;
    for (Py_ssize_t i = 0; good && i < PySequence_Fast_GET_SIZE(fast); i++)
        good = add(plan, PySequence_Fast_GET_ITEM(fast, i));
    Py_DECREF(fast);
    return good;
}

// Launch(kernel, grid, block, shared, attributes, parameters, otherwise): `otherwise` is called for arguments that are
// not handled here, and for a launch that the driver refuses. It must reference the kernel, to keep it alive.
PyObject *launch_new(PyTypeObject *, PyObject *args, PyObject *) {
    auto plan = std::make_shared<Plan>();
    auto &c = plan->config;
    PyObject *attributes, *parameters, *otherwise;
    unsigned long long kernel;
    if (!PyArg_ParseTuple(args, "K(III)(III)IOOO", &kernel, c.grid, c.grid + 1, c.grid + 2, c.block, c.block + 1,
                          c.block + 2, &c.shared, &attributes, &parameters, &otherwise) ||
        !each(attributes, *plan, add_attribute) || !each(parameters, *plan, add_parameter))
        return nullptr;
    size_t size = plan->block.size(), count = plan->parameters.size();
    if (size > kMost || count > kMostParameters)
        return PyErr_Format(PyExc_ValueError, "%zu parameters of %zu bytes are too many", count, size);
    plan->kernel = (void *)kernel;
    c.attributes = plan->attributes.data();
    c.count = plan->attributes.size();
    return make_launch(plan, otherwise);
}

int launch_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((Launch *)self)->otherwise);
    return 0;
}

int launch_clear(PyObject *self) {
    Py_CLEAR(((Launch *)self)->otherwise);
    return 0;
}

void launch_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    launch_clear(self);
    ((Launch *)self)->plan.~shared_ptr();
    PyObject_GC_Del(self);
}

// launch.on(stream, otherwise): returns the same launch on a stream, given by its handle
PyObject *launch_on(PyObject *self, PyObject *args) {
    unsigned long long stream;
    PyObject *otherwise;
    if (!PyArg_ParseTuple(args, "KO", &stream, &otherwise)) return nullptr;
    auto l = (Launch *)make_launch(((Launch *)self)->plan, otherwise);
    if (l) l->stream = (void *)stream, l->chosen = true;
    return (PyObject *)l;
}

// launch.run(stream, *arguments): launches; returns 0, `kUnknown`, or the driver's error
PyObject *launch_run(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    auto &plan = *((Launch *)self)->plan;
    void *stream = n ? PyLong_AsVoidPtr(args[0]) : nullptr;
    if (PyErr_Occurred()) return nullptr;
    if (n != (Py_ssize_t)plan.takes + 1)
        return PyErr_Format(PyExc_TypeError, "%zd arguments of %zu", n - 1, plan.takes);
    int code = launch(plan, stream, [&](auto &p, char *to, size_t i) { return put_argument(p, to, args[i + 1]); });
    return PyLong_FromLong(code);
}

PyMethodDef launch_methods[] = {
    {"on", launch_on, METH_VARARGS, "on(stream, otherwise): the same launch on a stream, given by its number"},
    {"run", (PyCFunction)(void (*)())launch_run, METH_FASTCALL, "run(stream, *arguments): the driver's code, or -1"},
    {}};

PyTypeObject LaunchType = {PyVarObject_HEAD_INIT(nullptr, 0)};

// A function of two tensors: a recipe is stored per shapes, strides, type, device and alignment of them. Each step of a
// recipe launches a kernel with some of these addresses: 0 and 1 of the operands, 2 of the result, 3 of a workspace,
// which is freed after the call.
struct Address { size_t of, offset; };
struct Step {
    std::shared_ptr<PyObject> launch;
    std::vector<Address> addresses;

    const Plan &plan() const { return *((Launch *)launch.get())->plan; }
};

struct Recipe {
    std::vector<Step> steps;
    std::vector<int64_t> shape;         // of the result
    bool left = false;                  // does torch compute it?
    PyObject *out = nullptr, *workspace = nullptr;   // the arguments with which they are allocated
    Recipe() = default;
    Recipe(const Recipe &) = delete;
    ~Recipe() { Py_XDECREF(out), Py_XDECREF(workspace); }
};

struct Table {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *known, *allocate;         // key -> capsule of a `Recipe`
};

struct Key { int64_t words[2 + 2 * (2 + 2 * kMostAxes)]; size_t n = 0; };

bool add_to_key(Key &key, const DLTensor &t) {
    if ((size_t)t.ndim > kMostAxes) return false;
    key.words[key.n++] = t.ndim | t.dtype.code << 8 | t.dtype.bits << 16 | int64_t(t.device.device_id) << 32;
    key.words[key.n++] = (uintptr_t)address_of(t) & 15;
    for (int i = 0; i < t.ndim; i++) key.words[key.n++] = t.shape[i], key.words[key.n++] = t.strides[i];
    return true;
}

PyObject *key_of(PyObject *a, PyObject *b, DLTensor *t) {
    Key key;
    if (!read_tensor(a, t) || !read_tensor(b, t + 1)) return nullptr;
    if (!add_to_key(key, t[0]) || !add_to_key(key, t[1])) return nullptr;
    return PyBytes_FromStringAndSize((char *)key.words, key.n * sizeof(int64_t));
}

Recipe &recipe_of(PyObject *capsule) { return *(Recipe *)PyCapsule_GetPointer(capsule, nullptr); }

// Returns the capsule of the recipe. The caller must hold a reference, because other threads may clear the table.
PyObject *look_up(Table *table, PyObject *a, PyObject *b, DLTensor *t) {
    PyObject *key = key_of(a, b, t);
    PyObject *found = key ? PyDict_GetItemWithError(table->known, key) : nullptr;
    Py_XINCREF(found);
    Py_XDECREF(key);
    return found;
}

bool fits(const Recipe &r, const DLTensor &out, const DLTensor *t) {
    char *at = address_of(out);
    return (size_t)out.ndim == r.shape.size() && !memcmp(out.shape, r.shape.data(), out.ndim * sizeof(int64_t)) &&
           !memcmp(&out.dtype, &t->dtype, sizeof(out.dtype)) && out.device.device_id == t->device.device_id &&
           is_contiguous(out) && !((uintptr_t)at & 15) && at != address_of(t[0]) && at != address_of(t[1]);
}

bool launch_steps(const Recipe &r, void *stream, char *const *at) {
    for (auto &step : r.steps) {
        auto given = [&](auto &p, char *to, size_t i) {
            return put_address(p, to, at[step.addresses[i].of] + step.addresses[i].offset);
        };
        if (launch(step.plan(), stream, given)) return false;
    }
    return true;
}

char *address_of(PyObject *x) {
    DLTensor t;
    return read_tensor(x, &t) ? address_of(t) : nullptr;
}

// Runs a recipe; returns the result, `given` if it is not null; None if Python must compute it.
PyObject *follow(const Recipe &r, PyObject *allocate, PyObject *given, void *stream, DLTensor *t) {
    if (given && (!read_tensor(given, t + 2) || !fits(r, t[2], t))) Py_RETURN_NONE;
    PyObject *out = given ? Py_NewRef(given) : PyObject_Call(allocate, r.out, nullptr);
    PyObject *workspace = out && r.workspace ? PyObject_Call(allocate, r.workspace, nullptr) : nullptr;
    if (!out || (r.workspace && !workspace)) {
        Py_XDECREF(out);
        return nullptr;
    }
    char *at[] = {address_of(t[0]), address_of(t[1]), address_of(out), workspace ? address_of(workspace) : nullptr};
    bool done = at[2] && (at[3] || !workspace) && launch_steps(r, stream, at);
    Py_XDECREF(workspace);       // torch's allocator reuses the memory in the order of the stream
    if (done) return out;
    Py_DECREF(out);
    Py_RETURN_NONE;
}

// table(a, b, out=None): returns the result; NotImplemented if torch is faster, None if Python must compute it
PyObject *table_called(PyObject *self, PyObject *const *args, size_t flags, PyObject *names) {
    auto table = (Table *)self;
    size_t n = PyVectorcall_NARGS(flags);
    if (names || n < 2 || n > 3) return PyErr_Format(PyExc_TypeError, "a table takes (a, b, out=None)");
    DLTensor t[3];
    int device;
    void *stream;
    PyObject *recipe = look_up(table, args[0], args[1], t);
    if (!recipe && PyErr_Occurred()) return nullptr;
    if (recipe && recipe_of(recipe).left) {
        Py_DECREF(recipe);
        return Py_NewRef(Py_NotImplemented);
    }
    if (!recipe || !current(&device, &stream) || device != t->device.device_id) {
        Py_XDECREF(recipe);
        Py_RETURN_NONE;
    }
    PyObject *given = n == 3 && args[2] != Py_None ? args[2] : nullptr;
    PyObject *out = follow(recipe_of(recipe), table->allocate, given, stream, t);
    Py_DECREF(recipe);
    return out;
}

void recipe_dropped(PyObject *capsule) { delete &recipe_of(capsule); }

bool add_steps(Recipe &r, PyObject *steps) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); i++) {
        PyObject *launch, *addresses;
        PyObject *item = PyTuple_GET_ITEM(steps, i);
        if (!PyArg_ParseTuple(item, "O!O!", &LaunchType, &launch, &PyTuple_Type, &addresses)) return false;
        Step step{{Py_NewRef(launch), [](PyObject *o) { Py_DECREF(o); }}, {}};
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(addresses); k++) {
            Address a;
            if (!PyArg_ParseTuple(PyTuple_GET_ITEM(addresses, k), "nn", &a.of, &a.offset)) return false;
            step.addresses.push_back(a);
        }
        if (step.addresses.size() != step.plan().takes)
            return PyErr_Format(PyExc_TypeError, "a step has other arguments");
        r.steps.push_back(step);
    }
    return true;
}

// Stores a recipe under the key of these tensors.
PyObject *put_down(PyObject *self, PyObject *a, PyObject *b, std::unique_ptr<Recipe> r) {
    DLTensor t[2];
    PyObject *key = key_of(a, b, t);
    if (!key) return PyErr_Occurred() ? nullptr : PyErr_Format(PyExc_TypeError, "these tensors have no key");
    PyObject *capsule = PyCapsule_New(r.release(), nullptr, recipe_dropped);
    int bad = capsule ? PyDict_SetItem(((Table *)self)->known, key, capsule) : -1;
    Py_XDECREF(capsule);
    Py_DECREF(key);
    if (bad) return nullptr;
    Py_RETURN_NONE;
}

// table.keep(a, b, steps, shape, out, workspace): stores a recipe for such tensors
PyObject *table_keep(PyObject *self, PyObject *args) {
    PyObject *a, *b, *steps, *shape, *out, *workspace;
    if (!PyArg_ParseTuple(args, "OOO!O!O!O", &a, &b, &PyTuple_Type, &steps, &PyTuple_Type, &shape, &PyTuple_Type,
                          &out, &workspace))
        return nullptr;
    auto r = std::make_unique<Recipe>();
    r->out = Py_NewRef(out);
    r->workspace = workspace == Py_None ? nullptr : Py_NewRef(workspace);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); i++)
        r->shape.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i)));
    return PyErr_Occurred() || !add_steps(*r, steps) ? nullptr : put_down(self, a, b, std::move(r));
}

// table.leave(a, b): stores that torch multiplies such tensors
PyObject *table_leave(PyObject *self, PyObject *args) {
    PyObject *a, *b;
    if (!PyArg_ParseTuple(args, "OO", &a, &b)) return nullptr;
    auto r = std::make_unique<Recipe>();
    r->left = true;
    return put_down(self, a, b, std::move(r));
}

// table.knows(a, b): is a recipe stored for such tensors?
PyObject *table_knows(PyObject *self, PyObject *args) {
    PyObject *a, *b;
    DLTensor t[2];
    if (!PyArg_ParseTuple(args, "OO", &a, &b)) return nullptr;
    PyObject *recipe = look_up((Table *)self, a, b, t);
    if (!recipe && PyErr_Occurred()) return nullptr;
    bool knows = recipe && !recipe_of(recipe).left;
    Py_XDECREF(recipe);
    return PyBool_FromLong(knows);
}

PyObject *table_clear(PyObject *self, PyObject *) {
    PyDict_Clear(((Table *)self)->known);
    Py_RETURN_NONE;
}

Py_ssize_t table_size(PyObject *self) { return PyDict_Size(((Table *)self)->known); }

int table_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((Table *)self)->known);
    Py_VISIT(((Table *)self)->allocate);
    return 0;
}

int table_unlink(PyObject *self) {
    Py_CLEAR(((Table *)self)->known);
    Py_CLEAR(((Table *)self)->allocate);
    return 0;
}

void table_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    table_unlink(self);
    PyObject_GC_Del(self);
}

// Table(allocate)
PyObject *table_new(PyTypeObject *type, PyObject *args, PyObject *) {
    PyObject *allocate;
    if (!PyArg_ParseTuple(args, "O", &allocate)) return nullptr;
    auto table = PyObject_GC_New(Table, type);
    if (!table) return nullptr;
    table->call = table_called;
    table->allocate = Py_NewRef(allocate);
    table->known = PyDict_New();
    PyObject_GC_Track(table);
    return (PyObject *)table;
}

PyMethodDef table_methods[] = {
    {"keep", table_keep, METH_VARARGS, 
                                  "keep(a, b, steps, shape, out, workspace): what to do from now on for such tensors"},
    {"leave", table_leave, METH_VARARGS, "leave(a, b): torch multiplies such tensors from now on"},
    {"knows", table_knows, METH_VARARGS, "knows(a, b): is there something to launch for such tensors?"},
    {"clear", table_clear, METH_NOARGS, "Forget all that was kept"},
    {}};
PySequenceMethods table_sequence = {table_size};
PyTypeObject TableType = {PyVarObject_HEAD_INIT(nullptr, 0)};

static_assert(offsetof(Launch, call) == offsetof(Table, call), "both are called by what is there");

void describe(PyTypeObject &type, const char *name, size_t size, newfunc make, PyMethodDef *methods) {
    type.tp_name = name;
    type.tp_basicsize = size;
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
    type.tp_vectorcall_offset = offsetof(Launch, call);
    type.tp_call = PyVectorcall_Call;
    type.tp_new = make;
    type.tp_methods = methods;
}

// setup(Tensor, Parameter, where, launch, device, move, stream): sets torch's types, DLPack's code of the device type,
// and addresses of functions; `stream`: 0 for torch's own
PyObject *setup(PyObject *, PyObject *args) {
    unsigned long long at[4];
    int kind;
    if (!PyArg_ParseTuple(args, "OOiKKKK", &tensor_type, &parameter_type, &kind, at, at + 1, at + 2, at + 3))
        return nullptr;
    Py_INCREF(tensor_type), Py_INCREF(parameter_type);      // never released
    PyObject *capsule = PyObject_GetAttrString(tensor_type, "__dlpack_c_exchange_api__");
    auto api = capsule ? (DLPackExchangeAPI *)PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : nullptr;
    Py_XDECREF(capsule);
    if (!api) return nullptr;
    read_dlpack = api->dltensor_from_py_object_no_sync;
    // DLPack allows null
    if (!read_dlpack) return PyErr_Format(PyExc_ValueError, "torch does not lend its tensors to C");
    where = (DLDeviceType)kind;
    driver = {(decltype(Driver::launch))at[0], (decltype(Driver::device))at[1], (decltype(Driver::move))at[2],
              at[3] ? (decltype(Driver::stream))at[3] : (decltype(Driver::stream))api->current_work_stream};
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

PyMethodDef functions[] = {{"setup", setup, METH_VARARGS, "Where the driver's functions are, and torch's types"},
                           {"are_integers", are_integers, METH_O, "Are these integers, or tuples of them?"},
                           {}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "launcher", "Launches with little of Python", -1, functions};

}  // namespace

PyMODINIT_FUNC PyInit_launcher() {
    describe(LaunchType, "launcher.Launch", sizeof(Launch), launch_new, launch_methods);
    LaunchType.tp_traverse = launch_traverse, LaunchType.tp_clear = launch_clear;
    LaunchType.tp_dealloc = launch_dealloc;
    describe(TableType, "launcher.Table", sizeof(Table), table_new, table_methods);
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
