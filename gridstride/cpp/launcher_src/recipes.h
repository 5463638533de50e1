// Recipes: the stored steps with which a `Table` computes a result, and the keys under which they are stored.
#pragma once

#include "launch.h"

namespace {
// A `Table` is a function of tensors and constants. It stores a recipe per shapes, strides, type, device and alignment
// of the tensors, and per values of the constants. Each step of a recipe launches a kernel whose arguments are
// addresses, or fills memory with zeros. An address consists of a base and an offset. The bases are the tensors among
// the arguments, the results, a workspace (which is freed after the call) and a null pointer, in this order.
struct Address { size_t base_index, offset; };
struct Step {
    std::shared_ptr<PyObject> launch;   // null: the step fills memory with zeros
    std::vector<Address> addresses;
    size_t num_zero_bytes = 0;

    const Plan &plan() const { return *((Launch *)launch.get())->plan; }
};

// When a torch function computes the result: always, only outside CUDA graphs, or only inside them, where its launch
// overhead does not matter
enum FunctionUse { kAlways, kEagerly, kInGraphs };

constexpr size_t kMaxCallArguments = 16;

// A call of a torch function with some of the arguments of the table's call, and constants between them. Python code
// that only reorders arguments would take longer than all else that happens before torch's code runs.
struct FunctionCall {
    PyObject *function = nullptr;       // null: none
    PyObject *constants = nullptr;      // a tuple with an item per argument; null: all arguments are passed
    PyObject *names = nullptr;          // the names of the last arguments, which are passed by keyword; or null
    std::vector<Py_ssize_t> positions;  // per argument: its position in the table's call, or -1: the constant
    FunctionCall() = default;
    FunctionCall(const FunctionCall &) = delete;
    ~FunctionCall() { Py_XDECREF(function), Py_XDECREF(constants), Py_XDECREF(names); }

    explicit operator bool() const { return function; }

    PyObject *operator()(PyObject *const *args, size_t n) const {
        if (!constants) return PyObject_Vectorcall(function, args, n, nullptr);
        PyObject *values[kMaxCallArguments];
        for (size_t i = 0; i < positions.size(); i++)
            values[i] = positions[i] < 0 ? PyTuple_GET_ITEM(constants, i) : args[positions[i]];
        size_t num_names = names ? PyTuple_GET_SIZE(names) : 0;
        return PyObject_Vectorcall(function, values, positions.size() - num_names, names);
    }
};

bool add_positions(FunctionCall &call, PyObject *positions, Py_ssize_t num_arguments) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(positions); i++) {
        Py_ssize_t position = PyLong_AsSsize_t(PyTuple_GET_ITEM(positions, i));
        if (position >= num_arguments) PyErr_Format(PyExc_IndexError, "there is no argument %zd", position);
        if (PyErr_Occurred()) return false;
        call.positions.push_back(position);
    }
    return true;
}

// Reads a function of `num_arguments` arguments, or a tuple (function, positions, constants, names), a `TorchCall`
bool read_function_call(FunctionCall &call, PyObject *o, Py_ssize_t num_arguments) {
    if (!PyTuple_Check(o)) { call.function = Py_NewRef(o); return true; }
    PyObject *function, *positions, *constants, *names;
    if (!PyArg_ParseTuple(o, "OO!O!O!", &function, &PyTuple_Type, &positions, &PyTuple_Type, &constants, &PyTuple_Type,
                          &names) || !add_positions(call, positions, num_arguments))
        return false;
    size_t size = call.positions.size();
    if (size > kMaxCallArguments || (size_t)PyTuple_GET_SIZE(constants) != size ||
        (size_t)PyTuple_GET_SIZE(names) > size)
        return PyErr_Format(PyExc_ValueError, "a call needs a constant per argument, at most %zu", kMaxCallArguments);
    call.function = Py_NewRef(function), call.constants = Py_NewRef(constants);
    call.names = PyTuple_GET_SIZE(names) ? Py_NewRef(names) : nullptr;
    return true;
}

struct Recipe {
    std::vector<Step> steps;
    std::vector<int64_t> shape;         // the shape of the first result
    FunctionCall function;              // computes the result instead of the steps
    FunctionUse function_use = kAlways;
    bool has_gradient = false;          // `function` computes the result even if its gradient is needed
    bool computed_by_python = false;    // whether Python must compute the result each time
    bool returns_tuple = false;
    std::vector<PyObject *> results;    // the arguments with which each result is allocated
    PyObject *workspace = nullptr;      // the arguments with which the workspace is allocated, or null
    Recipe() = default;
    Recipe(const Recipe &) = delete;
    ~Recipe() {
        for (auto result : results) Py_DECREF(result);
        Py_XDECREF(workspace);
    }
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

    uint64_t hash() const {
        uint64_t h = n, word;
        for (size_t i = 0; i < n; i += sizeof(word)) {
            word = 0;
            memcpy(&word, bytes + i, std::min(sizeof(word), n - i));
            h = (h ^ word) * 0x9E3779B97F4A7C15;
            h ^= h >> 32;
        }
        return h;
    }
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

bool add_integers(Key &key, PyObject *tuple) {
    const Py_ssize_t size = PyTuple_GET_SIZE(tuple);
    bool is_added = key.add_value('(', size);
    for (Py_ssize_t i = 0; is_added && i < size; i++) {
        PyObject *x = PyTuple_GET_ITEM(tuple, i);
        is_added = PyLong_CheckExact(x) && add_integer(key, x);
    }
    return is_added;
}

// Adds an argument to the key, and a tensor to `tensors`. Returns false for an unsupported argument.
bool add_argument(Key &key, Tensors &tensors, PyObject *x) {
    if (x == Py_None) return key.add("n", 1);
    if (PyBool_Check(x)) return key.add_value('b', x == Py_True);
    if (PyLong_CheckExact(x)) return add_integer(key, x);
    if (PyFloat_CheckExact(x)) return key.add_value('f', PyFloat_AS_DOUBLE(x));
    if (PyUnicode_CheckExact(x)) return add_text(key, x);
    if (PyTuple_CheckExact(x)) return add_integers(key, x);
    if (tensors.n == kMaxTensors || !read_tensor(x, tensors.items + tensors.n)) return false;
    return add_tensor(key, tensors.items[tensors.n++]);
}

bool make_key(Key &key, PyObject *const *args, size_t n, Tensors &tensors) {
    for (size_t i = 0; i < n; i++)
        if (!add_argument(key, tensors, args[i])) return false;
    return true;
}

using RecipePointer = std::shared_ptr<const Recipe>;    // a call keeps its recipe, because others may clear the table

// The recipes of a key: for a call whose gradient is needed (without steps), and for all others. One may be null.
struct Recipes { RecipePointer plain, with_gradient; };

class RecipeMap {
    struct Item {
        std::string key;
        Recipes recipes;
        bool has(const Key &other) const {
            return key.size() == other.n && !memcmp(key.data(), other.bytes, other.n);
        }
    };
    static constexpr size_t kNumRecent = 64;
    std::unordered_multimap<uint64_t, Item> items;
    Item *recent[kNumRecent] = {};      // by hash: items that were found last; finding them again takes less time

public:
    Recipes *find(const Key &key) {
        uint64_t hash = key.hash();
        Item *&found = recent[hash % kNumRecent];
        if (found && found->has(key)) return &found->recipes;
        auto [begin, end] = items.equal_range(hash);
        for (auto i = begin; i != end; ++i)
            if (i->second.has(key)) return found = &i->second, &i->second.recipes;
        return nullptr;
    }
    Recipes &find_or_add(const Key &key) {
        if (auto recipes = find(key)) return *recipes;
        return items.insert({key.hash(), {std::string(key.bytes, key.n), {}}})->second.recipes;
    }
    size_t size() const {
        size_t n = 0;
        for (auto &item : items) n += !!item.second.recipes.plain + !!item.second.recipes.with_gradient;
        return n;
    }
    void swap(RecipeMap &other) {
        items.swap(other.items);
        std::swap(recent, other.recent);        // nodes keep their addresses
    }
};

bool is_valid_output(const Recipe &r, const DLTensor &out, const Tensors &tensors) {
    auto &first = tensors.items[0];
    bool has_expected_type = (size_t)out.ndim == r.shape.size() &&
                    !memcmp(out.shape, r.shape.data(), out.ndim * sizeof(int64_t)) &&
                    !memcmp(&out.dtype, &first.dtype, sizeof(out.dtype)) &&
                    out.device.device_id == first.device.device_id;
    if (!has_expected_type || !is_contiguous(out) || (uintptr_t)address_of(out) & 15) return false;
    for (size_t i = 0; i < tensors.n; i++)
        if (address_of(out) == address_of(tensors.items[i])) return false;
    return true;
}

bool run_step(const Step &step, void *stream, char *const *bases) {
    auto address = [&](size_t i) { return bases[step.addresses[i].base_index] + step.addresses[i].offset; };
    if (!step.launch) return !driver.fill(address(0), 0, step.num_zero_bytes, stream);
    auto write = [&](auto &p, char *destination, size_t i) { return write_address(p, destination, address(i)); };
    return !launch(step.plan(), stream, write);
}

// Releases the tensors of a call, unless they are returned.
struct Allocations {
    PyObject *results[kMaxResults] = {}, *workspace = nullptr;
    size_t n = 0;
    ~Allocations() {
        for (size_t i = 0; i < n; i++) Py_XDECREF(results[i]);
        Py_XDECREF(workspace);       // torch's caching allocator reuses the memory in stream order
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
    Allocations allocations;
    for (auto arguments : r.results) {
        PyObject *result = out && !allocations.n ? Py_NewRef(out) : PyObject_Call(allocate, arguments, nullptr);
        if (!result) return nullptr;
        allocations.results[allocations.n++] = result;
        if (!add_base(bases, num_bases, result)) Py_RETURN_NONE;
    }
    if (r.workspace && !(allocations.workspace = PyObject_Call(allocate, r.workspace, nullptr))) return nullptr;
    if (r.workspace && !add_base(bases, num_bases, allocations.workspace)) Py_RETURN_NONE;
    bases[num_bases] = nullptr;
    for (auto &step : r.steps)
        if (!run_step(step, stream, bases)) Py_RETURN_NONE;
    return allocations.release(r.returns_tuple);
}

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

// Checks that each address has a valid base: a wrong index would access another array's memory.
bool check_bases(const Recipe &r, size_t num_tensors) {
    size_t num_bases = num_tensors + r.results.size() + (r.workspace ? 1 : 0) + 1;
    for (auto &step : r.steps)
        for (auto &a : step.addresses)
            if (a.base_index >= num_bases)
                return PyErr_Format(PyExc_IndexError, "base %zu is out of range for %zu bases", a.base_index,
                    num_bases);
    return true;
}
}  // namespace
