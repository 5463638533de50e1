// Entry points: Python functions whose calls look their arguments up in a table before any Python code runs; and the
// methods of the type `Table`.
//
// An entry point remains a Python function, so that its signature, its documentation, `torch.compile` and pickling are
// those of its definition; only its vectorcall function is replaced (PEP 590). CPython 3.11 runs the calls of Python
// code without it, so there only calls by C code (`functools.partial`, `map`) find the table at once.
#pragma once

#include "table.h"

namespace {
constexpr size_t kMaxFunctionParameters = 16;

// An argument of the table's call: the parameter of the function at `position`, which `mapping`, unless it is null,
// converts to the argument; or a constant, if `position` is -1
struct EntryArgument { Py_ssize_t position; PyObject *mapping, *constant; };

struct EntryPoint {
    PyObject *table, *names, *defaults;         // the names of the parameters, the defaults of the last ones: tuples
    std::vector<EntryArgument> arguments;
    std::vector<Py_ssize_t> others;             // the parameters that the table does not have: they must be the default

    EntryPoint(PyObject *table, PyObject *names, PyObject *defaults)
        : table(Py_NewRef(table)), names(Py_NewRef(names)), defaults(Py_NewRef(defaults)) {}
    EntryPoint(const EntryPoint &) = delete;
    ~EntryPoint() {
        Py_DECREF(table), Py_DECREF(names), Py_DECREF(defaults);
        for (auto &argument : arguments) Py_XDECREF(argument.mapping), Py_XDECREF(argument.constant);
    }
    Py_ssize_t num_parameters() const { return PyTuple_GET_SIZE(names); }
    PyObject *default_of(Py_ssize_t i) const {  // null: the parameter is required
        Py_ssize_t first = num_parameters() - PyTuple_GET_SIZE(defaults);
        return i < first ? nullptr : PyTuple_GET_ITEM(defaults, i - first);
    }
    // Returns the position of a parameter, or -1; the names of a call are almost always the same objects.
    Py_ssize_t position_of(PyObject *name) const {
        for (Py_ssize_t i = 0; i < num_parameters(); i++)
            if (PyTuple_GET_ITEM(names, i) == name) return i;
        for (Py_ssize_t i = 0; i < num_parameters(); i++)
            if (PyUnicode_Compare(PyTuple_GET_ITEM(names, i), name) == 0) return i;
        return -1;
    }
};

// Stores the values of all parameters. Returns false if the call lacks one, or has one twice or an unknown one.
bool bind(const EntryPoint &e, PyObject *const *args, Py_ssize_t n, PyObject *names, PyObject **values) {
    if (n > e.num_parameters()) return false;
    for (Py_ssize_t i = 0; i < e.num_parameters(); i++) values[i] = i < n ? args[i] : nullptr;
    for (Py_ssize_t k = 0; names && k < PyTuple_GET_SIZE(names); k++) {
        Py_ssize_t i = e.position_of(PyTuple_GET_ITEM(names, k));
        if (i < 0 || values[i]) return false;
        values[i] = args[n + k];
    }
    for (Py_ssize_t i = n; i < e.num_parameters(); i++)
        if (!values[i] && !(values[i] = e.default_of(i))) return false;
    return true;
}

// Stores the arguments of the table's call. Returns false if the table cannot have it.
bool convert(const EntryPoint &e, PyObject *const *values, PyObject **arguments) {
    for (auto i : e.others)
        if (values[i] != e.default_of(i)) return false;
    for (auto &[position, mapping, constant] : e.arguments) {
        PyObject *value = position < 0 ? constant : values[position];
        if (mapping) value = PyUnicode_CheckExact(value) ? PyDict_GetItemWithError(mapping, value) : nullptr;
        if (!value) return false;
        *arguments++ = value;
    }
    return true;
}

// Returns whether another function than CPython's runs frames: that of `torch.compile`, which must see them
bool are_frames_intercepted() {
    return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) != _PyEval_EvalFrameDefault;
}

const EntryPoint *entry_point_of(PyObject *function) {
    PyObject *attributes = ((PyFunctionObject *)function)->func_dict;
    PyObject *capsule = attributes ? PyDict_GetItemWithError(attributes, entry_point_name) : nullptr;
    return capsule ? (EntryPoint *)PyCapsule_GetPointer(capsule, nullptr) : nullptr;
}

vectorcallfunc run_python;      // CPython's vectorcall function of all Python functions

// The vectorcall function of an entry point
PyObject *call_entry_point(PyObject *function, PyObject *const *args, size_t flags, PyObject *names) {
    PyObject *values[kMaxFunctionParameters], *arguments[kMaxFunctionParameters];
    auto entry_point = are_frames_intercepted() ? nullptr : entry_point_of(function);
    if (entry_point && bind(*entry_point, args, PyVectorcall_NARGS(flags), names, values) &&
        convert(*entry_point, values, arguments)) {
        PyObject *result = table_fast(entry_point->table, arguments, entry_point->arguments.size());
        if (result != Py_None) return result;
        Py_DECREF(result);
    }
    PyErr_Clear();      // of a failed lookup; Python's code reports invalid arguments
    return run_python(function, args, flags, names);
}

bool add_entry_argument(EntryPoint &e, PyObject *item) {
    EntryArgument a;
    if (!PyArg_ParseTuple(item, "nOO", &a.position, &a.mapping, &a.constant)) return false;
    if (a.position >= e.num_parameters() || e.arguments.size() == kMaxFunctionParameters)
        return PyErr_Format(PyExc_IndexError, "there is no parameter %zd", a.position);
    a.mapping = PyDict_Check(a.mapping) ? Py_NewRef(a.mapping) : nullptr;
    Py_INCREF(a.constant);
    e.arguments.push_back(a);
    return true;
}

bool add_entry_arguments(EntryPoint &e, PyObject *items) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items); i++)
        if (!add_entry_argument(e, PyTuple_GET_ITEM(items, i))) return false;
    for (Py_ssize_t i = 0; i < e.num_parameters(); i++) {
        auto is_parameter = [=](auto &argument) { return argument.position == i; };
        if (std::none_of(e.arguments.begin(), e.arguments.end(), is_parameter)) e.others.push_back(i);
    }
    for (auto i : e.others)
        if (!e.default_of(i)) return PyErr_Format(PyExc_ValueError, "the table needs parameter %zd", i);
    return true;
}

void delete_entry_point(PyObject *capsule) { delete (EntryPoint *)PyCapsule_GetPointer(capsule, nullptr); }

void set_vectorcall(PyFunctionObject *function, vectorcallfunc call) {
#if PY_VERSION_HEX >= 0x030C0000
    PyFunction_SetVectorcall(function, call);
#else
    function->vectorcall = call;
#endif
}

// table.add_entry_point(function, names, defaults, arguments): makes `table.fast` compute the calls of a Python
// function for which it has a recipe. `names`: the function's parameters; `defaults`: those of the last ones;
// `arguments`: a tuple (position, mapping or None, constant) per argument of the table, see `EntryArgument`
PyObject *table_add_entry_point(PyObject *table, PyObject *args) {
    PyObject *function, *names, *defaults, *arguments;
    if (!PyArg_ParseTuple(args, "O!O!O!O!", &PyFunction_Type, &function, &PyTuple_Type, &names, &PyTuple_Type,
                          &defaults, &PyTuple_Type, &arguments))
        return nullptr;
    if (PyTuple_GET_SIZE(names) > (Py_ssize_t)kMaxFunctionParameters)
        return PyErr_Format(PyExc_ValueError, "an entry point has at most %zu parameters", kMaxFunctionParameters);
    auto entry_point = std::make_unique<EntryPoint>(table, names, defaults);
    if (!add_entry_arguments(*entry_point, arguments)) return nullptr;
    PyObject *capsule = PyCapsule_New(entry_point.get(), nullptr, delete_entry_point);
    if (!capsule) return nullptr;
    entry_point.release();
    int error = PyObject_SetAttr(function, entry_point_name, capsule);
    Py_DECREF(capsule);
    if (error) return nullptr;
    auto &call = ((PyFunctionObject *)function)->vectorcall;
    if (call != call_entry_point) run_python = call;
    set_vectorcall((PyFunctionObject *)function, call_entry_point);
    Py_RETURN_NONE;
}

PyMethodDef table_methods[] = {
    {"into", (PyCFunction)(void (*)())table_into, METH_FASTCALL, "into(out, *arguments): store the result in out"},
    {"store_recipe", table_store_recipe, METH_VARARGS,
     "store_recipe(arguments, steps, results, workspace, in_graphs=None): launch these steps for such arguments"},
    {"fast", (PyCFunction)(void (*)())table_fast, METH_FASTCALL,
     "fast(*arguments): the result if a recipe computes it in the current modes, else None"},
    {"use_function", table_use_function, METH_VARARGS,
     "use_function(function, arguments, with_gradient=None, only_eagerly=False): let a function compute the result"},
    {"use_python", (PyCFunction)(void (*)())table_use_python, METH_FASTCALL,
     "use_python(*arguments): let Python compute the result for such arguments each time"},
    {"has_recipe", (PyCFunction)(void (*)())table_has_recipe, METH_FASTCALL,
     "has_recipe(*arguments): whether a recipe is stored for such arguments"},
    {"add_entry_point", table_add_entry_point, METH_VARARGS,
     "add_entry_point(function, names, defaults, arguments): compute a Python function's calls that have a recipe"},
    {"clear", table_clear, METH_NOARGS, "Remove all recipes"},
    {}};
PySequenceMethods table_sequence = {table_size};
PyTypeObject TableType = {PyVarObject_HEAD_INIT(nullptr, 0)};
}  // namespace
