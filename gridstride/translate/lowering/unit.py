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

    `doubles`: compute with Numba's types; `wide`: 64 bits for every integer. A device function is lowered
    once per set of types that it is called with.
    """

    arrays = Arrays  # what becomes of indices; another executor may have its own

    def __init__(self, doubles=False, wide=False):
        self.doubles, self.wide = doubles, wide
        self.kernel = None
        self.functions = {}
        self.constants = {}
        self.active = []  # the device functions that are being lowered
        self.cooperative = False  # does the kernel wait for its whole grid?

    def lower(self, source, known):
        "Return the kernel's `Lowering`, for arguments of which `known` is known"
        params = [(a.arg, lambda fn, v, k=k: self.parameter(fn, v, k)) for a, k in zip(source.tree.args.args, known)]
        self.main = Lowering(self, source, source.name, params).run()
        self.kernel = self.main
        return self.main

    def parameter(self, fn, v, k, name=None):
        "Return the expression of a parameter of the kernel"
        name = name or v.name
        if isinstance(k, Number):
            return self.number_parameter(fn, v, k, name)
        if isinstance(k, ArrayOf):
            return self.array_parameter(k, name)
        return tuple_of([self.parameter(fn, v, part, f'{name}_{n}') for n, part in enumerate(k)])

    def number_parameter(self, fn, v, k, name):
        "Return the variable of a parameter that is a scalar"
        p = v
        if name != v.name:  # a part of a tuple
            p = fn.temporaries.setdefault(('parameter', name), Variable(name, v.node))
            p.defs = 1
        p.is_parameter, p.parameter = True, k
        p.type = join_types(p.type, DOUBLE if k.type == WEAK and self.doubles else k.type, self.doubles)
        return Expr('var', p.type, value=p)

    def array_parameter(self, k, name):
        "Return the array of a parameter of which `k`, an `ArrayOf`, is known"
        m = Memory(name, k.dtype, 'param', k.ndim)
        m.example = k
        sizes = [Expr('size', INT, value=(m, d)) for d in range(k.ndim)]
        start, strides = Expr('start', INT, value=m) if k.backwards else ZERO, row_strides(sizes)
        if any(k.strides):
            strides = [Expr('stride', INT, value=(m, d)) if k.strides[d] else ONE for d in range(k.ndim)]
        m.view = View(m, sizes, strides, start, plain=not any(k.strides))
        return array(m.view)

    def constant(self, what, values, fn):
        "Return the constant memory that holds `values`"
        key = what.name, id(what.value)
        if key not in self.constants:
            is_typed = values.dtype != np.float64 or fn.doubles or isinstance(what.value, np.ndarray)
            m = Memory(what.name, str(values.dtype) if is_typed else WEAK, 'const', values.ndim)
            m.dims = [const(n) for n in values.shape]
            m.values, m.keep = values, what.value
            self.constants[key] = m
        return self.constants[key]

    def call(self, fn, node, g, args, kw):
        "Return a call of the device function `g`"
        if g in self.active:
            what = f'{g.__name__} calls itself, directly or not: recursion is not translated'
            raise fn.error(node, what, 'Write a loop.')
        source = Source(g)
        args = self.arguments(fn, node, g, source, args, kw)
        f = self.function(g, source, args)
        for a, p in zip(args, f.given):
            _note_writes(a, p)
        e = Expr('device', f.result, args, f)
        is_tuple = isinstance(f.result, tuple) and not isinstance(f.result, Array)
        return self.take_apart(fn, node, e, f) if is_tuple else e

    def function(self, g, source, args):
        "Return the `Lowering` of the device function `g` for such arguments"
        key = g, tuple(map(_key, args))
        if key not in self.functions:
            self.active.append(g)
            names = [p.arg for p in source.tree.args.args]
            params = [(n, lambda f, v, a=a: self.inner(f, v, a, v.name)) for n, a in zip(names, args)]
            f = Lowering(self, source, g.__name__, params)
            f.is_kernel = False
            f.run()
            self.active.pop()
            self.functions[key] = f
        return self.functions[key]

    def arguments(self, fn, node, g, source, args, kw):
        "Return the arguments of a call of `g` in the order of its parameters, with the defaults"
        a = source.tree.args
        if a.vararg or a.kwarg or a.kwonlyargs:
            raise fn.error(node, f'{g.__name__} takes *args, **kwargs or keyword-only arguments, which CUDA C has not')
        names = [arg.arg for arg in a.args]
        defaults = dict(zip(names[::-1], (g.__defaults__ or ())[::-1]))
        given = {**dict(zip(names, args)), **kw}
        if len(args) > len(names) or set(kw) - set(names[len(args) :]) or set(names) - set(given) - set(defaults):
            raise fn.error(node, f'{g.__name__} takes ({", ".join(names)})')
        return [given[n] if n in given else fn.thing(node, defaults[n], None) for n in names]

    def inner(self, f, v, a, name):
        "Return the expression of a parameter of a device function, for an argument `a`"
        if a.op == 'object':
            return a
        if a.op == 'tuple':
            return tuple_of([self.inner(f, v, operand, f'{name}_{n}') for n, operand in enumerate(a.args)])
        if a.op == 'view':
            return array(_inner_view(a.value, name))
        p = v if name == v.name else f.temporaries.setdefault(('parameter', name), Variable(name, v.node))
        p.is_parameter, p.defs = True, max(p.defs, 1)
        p.type = join_types(p.type, a.type, self.doubles)
        return Expr('var', p.type, value=p)

    def take_apart(self, fn, node, e, f):
        "Return the parts of the tuple that a device function returns"
        v = fn.new_variable(node, 'result', f.result)
        v.struct = f
        fn.emit('assign', node, var=v, expr=e)
        return tuple_of([Expr('field', t, (Expr('var', f.result, value=v),), n) for n, t in enumerate(f.result)])


def _inner_view(view, name):
    "Return the view that a device function has of an array that is its argument"
    if view.is_full_array:
        m = Memory(name, view.memory.dtype, 'argument', view.ndim, view.memory.dims if view.ndim > 1 else None)
        return View(m, view.sizes, view.strides, plain=True)
    m = Memory(name, view.memory.dtype, 'argument', view.ndim)

    def own(what, d, s):
        return s if s is None or number(s) is not None else Expr(what, INT, value=(m, d))

    sizes = [own('size', d, s) for d, s in enumerate(view.sizes)]
    if view.plain and None not in sizes[1:]:
        return View(m, sizes, row_strides(sizes), plain=True)
    return View(m, sizes, [own('stride', d, s) for d, s in enumerate(view.strides)])


def _key(a):
    "Return what a device function is specialized for"
    if a.op == 'tuple':
        return tuple(map(_key, a.args))
    if a.op != 'view':
        return ('object', id(a.value)) if a.op == 'object' else a.type
    v = a.value
    sizes = tuple(s is None or number(s) for s in v.sizes)
    strides = None if v.plain else tuple(map(number, v.strides))
    return 'view', v.type, v.is_full_array and v.ndim > 1 and tuple(map(number, v.sizes)), v.plain, strides, sizes


def _note_writes(a, p):
    "Note that what the device function writes to its parameter `p` is written to the argument `a`"
    if a.op == 'tuple':
        for x, y in zip(a.args, p.args):
            _note_writes(x, y)
    if a.op == 'view':
        m = a.value.memory
        m.used = True
        if p.value.memory.written:
            m.write()
