"""A unit of translation: a kernel, the device functions that it calls, and the constants that they share."""

import numpy as np

from ..flow import Variable
from ..source import Source
from ..tree import ONE, ZERO, Expr, Memory, View, array, const, number, row_strides, tuple_of
from ..types import DOUBLE, INT, WEAK, Array, ArrayOf, Number, join_types
from .arrays import Arrays
from .statements import Lowering


class Unit:
    """A kernel (`main`, once it is lowered), the device functions that it calls, and the constants that they share.

    `doubles`: compute with Numba's types; `wide`: use 64 bits for every integer. A device function is lowered
    once per set of types that it is called with.
    """

    arrays = Arrays  # lowers indices; the checked engine has a subclass

    def __init__(self, doubles=False, wide=False):
        self.doubles, self.wide = doubles, wide
        self.kernel = None
        self.functions = {}
        self.constants = {}
        self.being_lowered = []  # the device functions that are being lowered
        self.cooperative = False  # whether the kernel waits for its whole grid

    def lower(self, source, argument_types):
        "Return the kernel's `Lowering`, for arguments of which `argument_types` is known"
        params = [
            (arg.arg, lambda fn, v, described=described: self.parameter(fn, v, described))
            for arg, described in zip(source.tree.args.args, argument_types)
        ]
        self.main = Lowering(self, source, source.name, params).run()
        self.kernel = self.main
        return self.main

    def parameter(self, fn, v, described, name=None):
        "Return the expression of a parameter of the kernel"
        name = name or v.name
        if isinstance(described, Number):
            return self.number_parameter(fn, v, described, name)
        if isinstance(described, ArrayOf):
            return self.array_parameter(described, name)
        return tuple_of([self.parameter(fn, v, part, f'{name}_{n}') for n, part in enumerate(described)])

    def number_parameter(self, fn, v, described, name):
        "Return the variable of a parameter that is a scalar"
        variable = v
        if name != v.name:  # a part of a tuple
            variable = fn.temporaries.setdefault(('parameter', name), Variable(name, v.node))
            variable.num_defs = 1
        variable.is_parameter, variable.parameter_info = True, described
        variable.type = join_types(
            variable.type, DOUBLE if described.type == WEAK and self.doubles else described.type, self.doubles
        )
        return Expr('var', variable.type, value=variable)

    def array_parameter(self, described, name):
        "Return the array of a parameter of which `described`, an `ArrayOf`, is known"
        memory = Memory(name, described.dtype, 'param', described.ndim)
        memory.example = described
        sizes = [Expr('size', INT, value=(memory, d)) for d in range(described.ndim)]
        start, strides = Expr('start', INT, value=memory) if described.backwards else ZERO, row_strides(sizes)
        if any(described.strides):
            strides = [
                Expr('stride', INT, value=(memory, d)) if described.strides[d] else ONE for d in range(described.ndim)
            ]
        memory.view = View(memory, sizes, strides, start, plain=not any(described.strides))
        return array(memory.view)

    def constant(self, captured, values, fn):
        "Return the constant memory that holds `values`"
        key = captured.name, id(captured.value)
        if key not in self.constants:
            is_typed = values.dtype != np.float64 or fn.doubles or isinstance(captured.value, np.ndarray)
            memory = Memory(captured.name, str(values.dtype) if is_typed else WEAK, 'const', values.ndim)
            memory.dims = [const(n) for n in values.shape]
            memory.values, memory.keep = values, captured.value
            self.constants[key] = memory
        return self.constants[key]

    def call(self, fn, node, py_func, args, kw):
        "Return a call of the device function `py_func`"
        if py_func in self.being_lowered:
            what = f'{py_func.__name__} calls itself, directly or not: recursion is not supported'
            raise fn.error(node, what, 'Write a loop.')
        source = Source(py_func)
        args = self.arguments(fn, node, py_func, source, args, kw)
        callee = self.function(py_func, source, args)
        for argument, parameter in zip(args, callee.parameter_exprs):
            _propagate_writes(argument, parameter)
        call_expr = Expr('device', callee.result, args, callee)
        is_tuple = isinstance(callee.result, tuple) and not isinstance(callee.result, Array)
        return self.unpack_result(fn, node, call_expr, callee) if is_tuple else call_expr

    def function(self, py_func, source, args):
        "Return the `Lowering` of the device function `py_func` for such arguments"
        key = py_func, tuple(map(_key, args))
        if key not in self.functions:
            self.being_lowered.append(py_func)
            names = [p.arg for p in source.tree.args.args]
            params = [
                (n, lambda callee, v, argument=argument: self.device_parameter(callee, v, argument, v.name))
                for n, argument in zip(names, args)
            ]
            callee = Lowering(self, source, py_func.__name__, params)
            callee.is_kernel = False
            callee.run()
            self.being_lowered.pop()
            self.functions[key] = callee
        return self.functions[key]

    def arguments(self, fn, node, py_func, source, args, kw):
        "Return the arguments of a call of `py_func` in the order of its parameters, with the defaults"
        signature = source.tree.args
        if signature.vararg or signature.kwarg or signature.kwonlyargs:
            raise fn.error(
                node, f'{py_func.__name__} takes *args, **kwargs or keyword-only arguments, which CUDA C does not have'
            )
        names = [arg.arg for arg in signature.args]
        defaults = dict(zip(names[::-1], (py_func.__defaults__ or ())[::-1]))
        values = {**dict(zip(names, args)), **kw}
        if len(args) > len(names) or set(kw) - set(names[len(args) :]) or set(names) - set(values) - set(defaults):
            raise fn.error(node, f'{py_func.__name__} takes ({", ".join(names)})')
        return [values[n] if n in values else fn.outer_value(node, defaults[n], None) for n in names]

    def device_parameter(self, callee, variable, argument, name):
        "Return the expression of a parameter of a device function, for an argument `argument`"
        if argument.op == 'object':
            return argument
        if argument.op == 'tuple':
            return tuple_of(
                [
                    self.device_parameter(callee, variable, operand, f'{name}_{n}')
                    for n, operand in enumerate(argument.args)
                ]
            )
        if argument.op == 'view':
            return array(_inner_view(argument.value, name))
        parameter = (
            variable
            if name == variable.name
            else callee.temporaries.setdefault(('parameter', name), Variable(name, variable.node))
        )
        parameter.is_parameter, parameter.num_defs = True, max(parameter.num_defs, 1)
        parameter.type = join_types(parameter.type, argument.type, self.doubles)
        return Expr('var', parameter.type, value=parameter)

    def unpack_result(self, fn, node, call_expr, callee):
        "Return the parts of the tuple that a device function returns"
        result = fn.new_variable(node, 'result', callee.result)
        result.result_of = callee
        fn.emit('assign', node, var=result, expr=call_expr)
        return tuple_of(
            [
                Expr('field', item_type, (Expr('var', callee.result, value=result),), n)
                for n, item_type in enumerate(callee.result)
            ]
        )


def _inner_view(view, name):
    "Return the view that a device function has of an array that is its argument"
    if view.is_full_array:
        memory = Memory(name, view.memory.dtype, 'argument', view.ndim, view.memory.dims if view.ndim > 1 else None)
        return View(memory, view.sizes, view.strides, plain=True)
    memory = Memory(name, view.memory.dtype, 'argument', view.ndim)

    def own_size(what, axis, size):
        return size if size is None or number(size) is not None else Expr(what, INT, value=(memory, axis))

    sizes = [own_size('size', axis, size) for axis, size in enumerate(view.sizes)]
    if view.plain and None not in sizes[1:]:
        return View(memory, sizes, row_strides(sizes), plain=True)
    return View(memory, sizes, [own_size('stride', axis, size) for axis, size in enumerate(view.strides)])


def _key(argument):
    "Return a key of an argument for which device functions are specialized"
    if argument.op == 'tuple':
        return tuple(map(_key, argument.args))
    if argument.op != 'view':
        return ('object', id(argument.value)) if argument.op == 'object' else argument.type
    view = argument.value
    sizes = tuple(size is None or number(size) for size in view.sizes)
    strides = None if view.plain else tuple(map(number, view.strides))
    return (
        'view',
        view.type,
        view.is_full_array and view.ndim > 1 and tuple(map(number, view.sizes)),
        view.plain,
        strides,
        sizes,
    )


def _propagate_writes(argument, parameter):
    "Mark the argument as written if the device function writes to its parameter"
    if argument.op == 'tuple':
        for x, y in zip(argument.args, parameter.args):
            _propagate_writes(x, y)
    if argument.op == 'view':
        memory = argument.value.memory
        memory.used = True
        if parameter.value.memory.written:
            memory.write()
