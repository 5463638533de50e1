"""A unit of translation: a kernel, the device functions that it calls, and the constants that they share."""

import numpy as np

from ..flow import Variable
from ..source import Source
from ..tree import ONE, ZERO, Expr, Buffer, View, view_expr, const, constant_value, contiguous_strides, tuple_expr
from ..types import DOUBLE, INT64, WEAK, Array, ArrayArgument, ScalarArgument, join_types
from .arrays import Arrays
from .statements import Lowering


class Unit:
    """A kernel (`main`, after `lower`), the device functions that it calls, and the constants that they share.

    `numba_types`: compute with Numba's types; `all_int64`: use 64 bits for every integer. A device function is lowered
    once per set of argument types.
    """

    arrays_class = Arrays  # lowers indices; the checked engine has a subclass

    def __init__(self, numba_types=False, all_int64=False):
        self.numba_types, self.all_int64 = numba_types, all_int64
        self.kernel = None
        self.functions = {}
        self.constants = {}
        self.lowering_stack = []  # the device functions that are being lowered, each called by the one before it
        self.is_cooperative = False  # whether the kernel has a barrier of the whole grid

    def lower(self, source, argument_types):
        "Return the `Lowering` of the kernel `source` for arguments of the given types"
        params = [
            (arg.arg, lambda fn, v, type=type: self.parameter(fn, v, type))
            for arg, type in zip(source.tree.args.args, argument_types)
        ]
        self.main = Lowering(self, source, source.name, params).run()
        self.kernel = self.main
        return self.main

    def parameter(self, fn, variable, argument_type, name=None):
        "Return the expression of a parameter of the kernel"
        name = name or variable.name
        if isinstance(argument_type, ScalarArgument):
            return self.scalar_parameter(fn, variable, argument_type, name)
        if isinstance(argument_type, ArrayArgument):
            return self.array_parameter(argument_type, name)
        return tuple_expr([self.parameter(fn, variable, type, f'{name}_{n}') for n, type in enumerate(argument_type)])

    def scalar_parameter(self, fn, v, argument_type, name):
        "Return the expression of a scalar parameter"
        variable = v
        if name != v.name:  # an item of a tuple
            variable = fn.temporaries.setdefault(('parameter', name), Variable(name, v.node))
            variable.num_defs = 1
        variable.is_parameter, variable.argument_type = True, argument_type
        value_type = DOUBLE if argument_type.type == WEAK and self.numba_types else argument_type.type
        variable.type = join_types(variable.type, value_type, self.numba_types)
        return Expr('var', variable.type, value=variable)

    def array_parameter(self, argument_type, name):
        "Return the expression of an array parameter"
        ndim, takes_stride = argument_type.ndim, argument_type.takes_stride
        buffer = Buffer(name, argument_type.dtype, 'param', ndim)
        buffer.argument = argument_type
        sizes = [Expr('size', INT64, value=(buffer, d)) for d in range(ndim)]
        start = Expr('start', INT64, value=buffer) if argument_type.has_negative_stride else ZERO
        strides = contiguous_strides(sizes)
        if any(takes_stride):
            strides = [Expr('stride', INT64, value=(buffer, d)) if takes_stride[d] else ONE for d in range(ndim)]
        buffer.view = View(buffer, sizes, strides, start, is_contiguous=not any(takes_stride))
        return view_expr(buffer.view)

    def constant(self, captured_object, values, fn):
        "Return the buffer in constant memory that holds `values`, the elements of an array or tuple that `fn` captures"
        key = captured_object.name, id(captured_object.value)
        if key not in self.constants:
            is_typed = values.dtype != np.float64 or fn.numba_types or isinstance(captured_object.value, np.ndarray)
            buffer = Buffer(captured_object.name, str(values.dtype) if is_typed else WEAK, 'const', values.ndim)
            buffer.dims = [const(n) for n in values.shape]
            buffer.values = values
            buffer.captured_object = captured_object.value  # kept alive, because its id is part of the key
            self.constants[key] = buffer
        return self.constants[key]

    def call(self, fn, node, py_func, args, keywords):
        "Return a call of the device function `py_func`"
        if py_func in self.lowering_stack:
            message = f'{py_func.__name__} calls itself, directly or indirectly: recursion is not supported'
            raise fn.error(node, message, 'Write a loop.')
        source = Source(py_func)
        args = self.ordered_arguments(fn, node, py_func, source, args, keywords)
        callee = self.device_function(py_func, source, args)
        for argument, parameter in zip(args, callee.parameter_exprs):
            _propagate_writes(argument, parameter)
        call_expr = Expr('device_call', callee.result_type, args, callee)
        is_tuple = isinstance(callee.result_type, tuple) and not isinstance(callee.result_type, Array)
        return self.unpack_result(fn, node, call_expr, callee) if is_tuple else call_expr

    def device_function(self, py_func, source, args):
        "Return the `Lowering` of the device function `py_func` for arguments of these types"
        key = py_func, tuple(map(_specialization_key, args))
        if key not in self.functions:
            self.lowering_stack.append(py_func)
            names = [p.arg for p in source.tree.args.args]
            params = [
                (n, lambda callee, v, argument=argument: self.device_parameter(callee, v, argument, v.name))
                for n, argument in zip(names, args)
            ]
            callee = Lowering(self, source, py_func.__name__, params)
            callee.is_kernel = False
            callee.run()
            self.lowering_stack.pop()
            self.functions[key] = callee
        return self.functions[key]

    def ordered_arguments(self, fn, node, py_func, source, args, keywords):
        "Return the arguments of a call of `py_func` in the order of its parameters, defaults included"
        signature = source.tree.args
        if signature.vararg or signature.kwarg or signature.kwonlyargs:
            raise fn.error(
                node, f'{py_func.__name__} takes *args, **kwargs or keyword-only arguments, which CUDA C does not have'
            )
        names = [arg.arg for arg in signature.args]
        defaults = dict(zip(names[::-1], (py_func.__defaults__ or ())[::-1]))
        values = {**dict(zip(names, args)), **keywords}
        has_unknown_argument = len(args) > len(names) or set(keywords) - set(names[len(args) :])
        if has_unknown_argument or set(names) - set(values) - set(defaults):
            raise fn.error(node, f'wrong arguments for {py_func.__name__}; its parameters are ({", ".join(names)})')
        return [values[n] if n in values else fn.outer_value(node, defaults[n], None) for n in names]

    def device_parameter(self, callee, variable, argument, name):
        "Return the expression of a parameter of a device function that is called with `argument`"
        if argument.op == 'object':
            return argument
        if argument.op == 'tuple':
            return tuple_expr(
                [
                    self.device_parameter(callee, variable, operand, f'{name}_{n}')
                    for n, operand in enumerate(argument.args)
                ]
            )
        if argument.op == 'view':
            return view_expr(_parameter_view(argument.value, name))
        parameter = (
            variable
            if name == variable.name
            else callee.temporaries.setdefault(('parameter', name), Variable(name, variable.node))
        )
        parameter.is_parameter, parameter.num_defs = True, max(parameter.num_defs, 1)
        parameter.type = join_types(parameter.type, argument.type, self.numba_types)
        return Expr('var', parameter.type, value=parameter)

    def unpack_result(self, fn, node, call_expr, callee):
        "Assign the tuple that a device function returns to a variable; return the tuple of its fields"
        result = fn.new_variable(node, 'result', callee.result_type)
        result.result_of = callee
        fn.emit('assign', node, var=result, expr=call_expr)
        return tuple_expr(
            [
                Expr('field', item_type, (Expr('var', callee.result_type, value=result),), n)
                for n, item_type in enumerate(callee.result_type)
            ]
        )


def _parameter_view(view, name):
    "Return the view of the parameter `name` of a device function whose argument is `view`"
    if view.is_full_array:
        buffer = Buffer(name, view.buffer.dtype, 'argument', view.ndim, view.buffer.dims if view.ndim > 1 else None)
        return View(buffer, view.sizes, view.strides, is_contiguous=True)
    buffer = Buffer(name, view.buffer.dtype, 'argument', view.ndim)

    def constant_or_parameter(op, axis, size):
        return size if size is None or constant_value(size) is not None else Expr(op, INT64, value=(buffer, axis))

    sizes = [constant_or_parameter('size', axis, size) for axis, size in enumerate(view.sizes)]
    if view.is_contiguous and None not in sizes[1:]:
        return View(buffer, sizes, contiguous_strides(sizes), is_contiguous=True)
    strides = [constant_or_parameter('stride', axis, stride) for axis, stride in enumerate(view.strides)]
    return View(buffer, sizes, strides)


def _specialization_key(argument):
    "Return the properties of an argument for which device functions are specialized"
    if argument.op == 'tuple':
        return tuple(map(_specialization_key, argument.args))
    if argument.op != 'view':
        return ('object', id(argument.value)) if argument.op == 'object' else argument.type
    view = argument.value
    sizes = tuple(size is None or constant_value(size) for size in view.sizes)
    strides = None if view.is_contiguous else tuple(map(constant_value, view.strides))
    return (
        'view',
        view.type,
        view.is_full_array and view.ndim > 1 and tuple(map(constant_value, view.sizes)),
        view.is_contiguous,
        strides,
        sizes,
    )


def _propagate_writes(argument, parameter):
    "Mark the buffer of an argument as written if the device function writes to its parameter"
    if argument.op == 'tuple':
        for item, item_parameter in zip(argument.args, parameter.args):
            _propagate_writes(item, item_parameter)
    if argument.op == 'view':
        buffer = argument.value.buffer
        buffer.is_used = True
        if parameter.value.buffer.is_written:
            buffer.mark_written()
