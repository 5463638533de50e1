// The type `Launch`: one kernel with a grid and a block, called with arrays and scalars.
#pragma once

#include "parameters.h"

namespace {
struct Launch {
    PyObject_HEAD
    vectorcallfunc call;
    std::shared_ptr<const Plan> plan;
    PyObject *fallback;
    void *stream;
    bool has_stream;    // whether the caller has passed the stream
};
extern PyTypeObject LaunchType;

PyObject *call_launch(PyObject *self, PyObject *const *args, size_t flags, PyObject *names) {
    auto l = (Launch *)self;
    size_t n = PyVectorcall_NARGS(flags);
    void *stream = l->stream;
    int device;
    if (!names && n == l->plan->num_arguments && (l->has_stream || get_device_and_stream(&device, &stream)) &&
        !launch(*l->plan, stream,
                [&](auto &p, char *destination, size_t i) { return write_argument(p, destination, args[i]); }))
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

// Launch(kernel, grid, block, shared_bytes, attributes, parameters, fallback): `fallback` is called if an argument is
// not supported here, or if the launch fails. It must reference the kernel, to keep it alive.
PyObject *launch_new(PyTypeObject *, PyObject *args, PyObject *) {
    auto plan = std::make_shared<Plan>();
    auto &c = plan->config;
    PyObject *attributes, *parameters, *fallback;
    unsigned long long kernel;
    if (!PyArg_ParseTuple(args, "K(III)(III)IOOO", &kernel, c.grid, c.grid + 1, c.grid + 2, c.block, c.block + 1,
                          c.block + 2, &c.shared_bytes, &attributes, &parameters, &fallback) ||
        !add_items(attributes, *plan, add_attribute) || !add_items(parameters, *plan, add_parameter))
        return nullptr;
    size_t size = plan->buffer.size(), count = plan->parameters.size();
    if (size > kMaxParameterBytes || count > kMaxParameters)
        return PyErr_Format(PyExc_ValueError, "too many kernel parameters: %zu with %zu bytes", count, size);
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

// launch.run(stream, *arguments): launches; returns 0, `kNotHandled`, or the driver's error
PyObject *launch_run(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    auto &plan = *((Launch *)self)->plan;
    void *stream = n ? PyLong_AsVoidPtr(args[0]) : nullptr;
    if (PyErr_Occurred()) return nullptr;
    if (n != (Py_ssize_t)plan.num_arguments + 1)
        return PyErr_Format(PyExc_TypeError, "got %zd arguments, expected %zu", n - 1, plan.num_arguments);
    int code = launch(plan, stream, [&](auto &p, char *destination, size_t i) {
        return write_argument(p, destination, args[i + 1]);
    });
    return PyLong_FromLong(code);
}

PyMethodDef launch_methods[] = {
    {"on", launch_on, METH_VARARGS, "on(stream, fallback): the same launch on a stream, given by its handle"},
    {"run", (PyCFunction)(void (*)())launch_run, METH_FASTCALL,
    "run(stream, *arguments): launch; returns the driver's result, or -1"},
    {}};

PyTypeObject LaunchType = {PyVarObject_HEAD_INIT(nullptr, 0)};
}  // namespace
