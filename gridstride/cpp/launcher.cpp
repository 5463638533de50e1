// The fast path of a launch: compiled code reads the arguments, stores them in a buffer and calls the driver.
//
// A `Launch` is a kernel with a grid and a block size, and is called with arrays and scalars. A `Table` is a function
// of tensors that allocates its results, and runs the recipe that was stored for their shapes. An entry point is a
// Python function that calls a table first. Unsupported arguments are passed to Python code, which checks them, raises
// an exception, or launches another kernel.
#include "entry_points.h"

namespace {
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
// sets torch's types, its functions that report modes, the DLPack device type, and addresses of functions;
// `get_stream`: 0 for torch's function
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
    entry_point_name = PyUnicode_InternFromString("_entry_point");
    PyObject *descriptor = PyObject_GetAttr(tensor_type, requires_grad);
    auto definition = descriptor && Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)
                          ? ((PyGetSetDescrObject *)descriptor)->d_getset : nullptr;
    read_requires_grad = definition && !definition->closure ? definition->get : nullptr;
    Py_XDECREF(descriptor);
    PyErr_Clear();
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

// are_integers(brackets): returns whether these are integers, None, or tuples of integers; a dict lookup does not
// distinguish 2.0 from 2.
bool is_integer(PyObject *o) {
    if (!PyTuple_Check(o)) return PyLong_CheckExact(o) || o == Py_None;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); i++)
        if (!is_integer(PyTuple_GET_ITEM(o, i))) return false;
    return true;
}

PyObject *are_integers(PyObject *, PyObject *o) { return PyBool_FromLong(is_integer(o)); }

PyMethodDef functions[] = {{"setup", setup, METH_VARARGS, "Set torch's types, and the addresses of functions"},
                           {"are_integers", are_integers, METH_O,
                           "Return whether these are integers, or tuples of integers"},
                           {}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "launcher", "Launches kernels with little overhead", -1, functions};

}  // namespace

PyMODINIT_FUNC PyInit_launcher() {
    fill_type(LaunchType, "launcher.Launch", sizeof(Launch), launch_new, launch_methods);
    LaunchType.tp_traverse = launch_traverse, LaunchType.tp_clear = launch_clear;
    LaunchType.tp_dealloc = launch_dealloc;
    fill_type(TableType, "launcher.Table", sizeof(Table), table_new, table_methods);
    TableType.tp_traverse = table_traverse, TableType.tp_clear = table_clear_references;
    TableType.tp_dealloc = table_dealloc;
    TableType.tp_as_sequence = &table_sequence;
    if (PyType_Ready(&LaunchType) || PyType_Ready(&TableType)) return nullptr;
    PyObject *m = PyModule_Create(&definition);
    if (!m || PyModule_AddObjectRef(m, "Launch", (PyObject *)&LaunchType) ||
        PyModule_AddObjectRef(m, "Table", (PyObject *)&TableType))
        return nullptr;
    return m;
}
