// The type `Table`: a function of tensors that allocates its results, and runs the recipe stored for their shapes.
#pragma once

#include "recipes.h"

namespace {
struct Table {
    PyObject_HEAD
    vectorcallfunc call;
    RecipeMap recipes;
    PyObject *allocate;                 // allocates the results and the workspace
    PyObject *modes, *float32_modes;    // if one of these functions returns true, `fast` does not launch (for float32)
};

bool is_capturing(void *stream) {
    int status = 0;
    return !driver.is_capturing(stream, &status) && status;
}

// Runs a recipe; `args` are those of the call.
PyObject *run(Table *table, const Recipe &recipe, PyObject *out, PyObject *const *args, size_t n,
              const Tensors &tensors) {
    DLTensor out_tensor;
    int device;
    void *stream;
    if (recipe.computed_by_python) return Py_NewRef(Py_Ellipsis);
    bool is_always_by_function = recipe.function && recipe.function_use == kAlways;
    if (!is_always_by_function && !get_device_and_stream(&device, &stream)) Py_RETURN_NONE;
    if (is_always_by_function || (recipe.function && is_capturing(stream) == (recipe.function_use == kInGraphs)))
        return out ? Py_NewRef(Py_NotImplemented) : recipe.function(args, n);
    if (recipe.steps.empty() || device != tensors.items[0].device.device_id ||
        (out && (!read_tensor(out, &out_tensor) || !is_valid_output(recipe, out_tensor, tensors))))
        Py_RETURN_NONE;
    return run_recipe(recipe, table->allocate, out, stream, tensors);
}

PyObject *run_table(Table *table, PyObject *out, PyObject *const *args, size_t n) {
    Tensors tensors;
    Key key;
    auto recipes = make_key(key, args, n, tensors) ? table->recipes.find(key) : nullptr;
    if (!recipes || !recipes->plain) Py_RETURN_NONE;
    RecipePointer recipe = recipes->plain;
    return run(table, *recipe, out, args, n, tensors);
}

// table(*arguments): returns the result; Ellipsis if Python must compute it each time; None if there is no recipe, or
// it could not be run. The caller has checked torch's modes.
PyObject *call_table(PyObject *self, PyObject *const *args, size_t flags, PyObject *names) {
    if (names) return PyErr_Format(PyExc_TypeError, "a table accepts no keyword arguments");
    return run_table((Table *)self, nullptr, args, PyVectorcall_NARGS(flags));
}

// Returns whether a Python function returns False, None or 0; false if it raises an exception.
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

// Returns whether no mode or transform changes the result of our kernels.
bool are_modes_default(Table *table, const Tensors &tensors) {
    auto &dtype = tensors.items[0].dtype;
    bool is_float32 = dtype.code == kDLFloat && dtype.bits == 32;
    return returns_false(num_dispatch_modes) && returns_false(innermost_transform) && has_no_forward_gradient() &&
           all_return_false(table->modes) && (!is_float32 || all_return_false(table->float32_modes));
}

bool needs_gradient(PyObject *const *args, size_t n) {
    for (size_t i = 0; i < n; i++) {
        auto type = (PyObject *)Py_TYPE(args[i]);
        if (type != tensor_type && type != parameter_type) continue;
        PyObject *value = read_requires_grad ? read_requires_grad(args[i], nullptr)
                                             : PyObject_GetAttr(args[i], requires_grad);
        bool is_required = value != Py_False;
        Py_XDECREF(value);
        PyErr_Clear();
        if (is_required) return !returns_false(is_grad_enabled);
    }
    return false;
}

// table.fast(*arguments): returns the result if a recipe is stored, and no mode of torch changes it; else None. A
// function of torch respects all modes, transforms and gradients; our launches do not. Autocast, which is among the
// table's modes, would change the type of torch's result, but not of ours.
PyObject *table_fast(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    auto table = (Table *)self;
    Tensors tensors;
    Key key;
    auto recipes = make_key(key, args, n, tensors) ? table->recipes.find(key) : nullptr;
    if (!recipes) Py_RETURN_NONE;
    bool is_plain = (recipes->plain && recipes->plain->has_gradient) || !needs_gradient(args, n);
    RecipePointer recipe = is_plain ? recipes->plain : recipes->with_gradient;
    if (!recipe) Py_RETURN_NONE;
    if (recipe->function && recipe->function_use == kAlways) return recipe->function(args, n);
    bool is_torch_autograd = recipe->function && recipe->function_use == kEagerly;
    if (is_torch_autograd ? !all_return_false(table->modes)
                          : recipe->computed_by_python || !are_modes_default(table, tensors))
        Py_RETURN_NONE;
    return run(table, *recipe, nullptr, args, n, tensors);
}

// table.into(out, *arguments): stores the result in `out`; otherwise like table(*arguments)
PyObject *table_into(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    if (!n) return PyErr_Format(PyExc_TypeError, "into(out, *arguments) needs a tensor for the result");
    return run_table((Table *)self, args[0], args + 1, n - 1);
}

PyObject *store_recipe(Table *table, PyObject *const *args, size_t n, RecipePointer r, bool with_gradient = false) {
    Tensors tensors;
    Key key;
    if (!make_key(key, args, n, tensors) || !tensors.n)
        return PyErr_Format(PyExc_TypeError, "a table does not support these arguments");
    if (!check_bases(*r, tensors.n)) return nullptr;
    auto &recipes = table->recipes.find_or_add(key);
    std::swap(with_gradient ? recipes.with_gradient : recipes.plain, r);    // released last, because it may run code
    Py_RETURN_NONE;
}

bool add_result(Recipe &r, PyObject *arguments) {
    if (r.results.size() == kMaxResults || !PyTuple_Check(arguments) || !PyTuple_GET_SIZE(arguments) ||
        !PyTuple_Check(PyTuple_GET_ITEM(arguments, 0)))
        return PyErr_Format(PyExc_TypeError, "results must be tuples (shape, strides, dtype), at most 8");
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
    auto r = std::make_shared<Recipe>();
    if (in_graphs != Py_None && !read_function_call(r->function, in_graphs, PyTuple_GET_SIZE(arguments)))
        return nullptr;
    r->function_use = kInGraphs;
    r->workspace = workspace == Py_None ? nullptr : Py_NewRef(workspace);
    r->returns_tuple = PyList_Check(results);
    if (!r->returns_tuple && !add_result(*r, results)) return nullptr;
    for (Py_ssize_t i = 0; r->returns_tuple && i < PyList_GET_SIZE(results); i++)
        if (!add_result(*r, PyList_GET_ITEM(results, i))) return nullptr;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); i++)
        if (!add_step(*r, PyTuple_GET_ITEM(steps, i))) return nullptr;
    return store_recipe((Table *)self, &PyTuple_GET_ITEM(arguments, 0), PyTuple_GET_SIZE(arguments), std::move(r));
}

// table.use_function(function, arguments, with_gradient=None, only_eagerly=False): stores that a function of torch, or
// a `TorchCall`, computes the result for such arguments; `with_gradient`: True: if their gradient is needed, False: if
// it is not, None: in both cases; `only_eagerly`: not in CUDA graphs
PyObject *table_use_function(PyObject *self, PyObject *args) {
    PyObject *function, *arguments, *with_gradient = Py_None;
    int only_eagerly = 0;
    if (!PyArg_ParseTuple(args, "OO!|Op", &function, &PyTuple_Type, &arguments, &with_gradient, &only_eagerly))
        return nullptr;
    auto r = std::make_shared<Recipe>();
    if (!read_function_call(r->function, function, PyTuple_GET_SIZE(arguments))) return nullptr;
    r->function_use = only_eagerly ? kEagerly : kAlways;
    r->has_gradient = with_gradient == Py_None;
    return store_recipe((Table *)self, &PyTuple_GET_ITEM(arguments, 0), PyTuple_GET_SIZE(arguments), std::move(r),
                        with_gradient == Py_True);
}

// table.use_python(*arguments): marks the call as one that Python must compute each time
PyObject *table_use_python(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    auto r = std::make_shared<Recipe>();
    r->computed_by_python = true;
    return store_recipe((Table *)self, args, n, std::move(r));
}

// table.has_recipe(*arguments): returns whether a recipe is stored for such arguments
PyObject *table_has_recipe(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    Tensors tensors;
    Key key;
    auto recipes = make_key(key, args, n, tensors) ? ((Table *)self)->recipes.find(key) : nullptr;
    return PyBool_FromLong(recipes && recipes->plain && !recipes->plain->steps.empty());
}

// Removes all recipes; releasing them may run code that uses the table.
void remove_recipes(Table *table) {
    RecipeMap removed;
    table->recipes.swap(removed);
}

PyObject *table_clear(PyObject *self, PyObject *) {
    remove_recipes((Table *)self);
    Py_RETURN_NONE;
}

Py_ssize_t table_size(PyObject *self) { return ((Table *)self)->recipes.size(); }

int table_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((Table *)self)->allocate);
    Py_VISIT(((Table *)self)->modes);
    Py_VISIT(((Table *)self)->float32_modes);
    return 0;
}

int table_clear_references(PyObject *self) {
    remove_recipes((Table *)self);
    Py_CLEAR(((Table *)self)->allocate);
    Py_CLEAR(((Table *)self)->modes);
    Py_CLEAR(((Table *)self)->float32_modes);
    return 0;
}

void table_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    table_clear_references(self);
    ((Table *)self)->recipes.~RecipeMap();
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
    new (&table->recipes) RecipeMap;
    PyObject_GC_Track(table);
    return (PyObject *)table;
}

}  // namespace
