"""Chooses the type in C of each variable: which integers are an `int`, and the precision of Python floats."""

from .intervals import ALL, INT32, UINT32, comparison_rounds, of_dtype, within
from .ranges import Ranges
from .tree import Expr, function_expressions, expressions, functions, statements, walk
from .types import C_NAMES, DOUBLE, FLOAT, HALF, INT, UINT, WEAK, INTEGERS, Array, is_int, is_number, is_unsigned


# A variable whose interval does not fit may still be an `int` where that changes nothing. +, - and * of 32 bits
# have the low 32 bits of the exact result, and a valid index fits, because an array has fewer than 2**31 elements. So
# a variable is an `int` if it flows, through + - and *, only into indices, into comparisons with such variables and
# other narrow values, or into elements of at most 32 bits. `_Uses` collects the flows, and
# `variables_with_exact_low_bits` removes variables until none of those left flows into a removed one. For comparisons
# this relies on what the docstring of `to_cuda` promises.
_MODULAR_OPS = ('add', 'sub', 'mul', 'neg')


class _Uses:
    "Collect where the variables that do not fit an `int` are used"

    def __init__(self, unit, ranges):
        self.ranges = ranges
        self.needs_all_bits = set()  # variables that need more than their low 32 bits
        self.flows = []  # (variable, the variable that it is assigned to)
        self.compared = []  # pairs of expressions
        for f in ranges.visited_functions:
            for s in statements(f.body):
                self.statement(s, f)

    def fits_int(self, expr):
        "Return whether the interval of `expr` fits an `int`"
        return within(
            self.ranges.of(expr)
            if id(expr) in self.ranges.expr_intervals or expr.op != 'var'
            else self.ranges.variable_intervals.get(expr.value, ALL),
            INT32,
        )

    def statement(self, stmt, function):
        "Collect the uses in one statement"
        if stmt.kind == 'assign':
            return self.use(stmt.expr, stmt.var if is_int(stmt.var.type) else None)
        if stmt.kind == 'store':
            for i in stmt.index:
                self.use(i, 'low')
            return self.use(stmt.expr, 'low' if is_narrow_int(stmt.memory.dtype) else None)
        if stmt.kind == 'for':
            self.use(stmt.start, stmt.var)
            self.use(stmt.step, stmt.var)
            self.use(stmt.stop, 'compare')
            self.compared.append((Expr('var', INT, value=stmt.var), stmt.stop))
            return
        for e in expressions(stmt):
            self.use(e, 'low' if stmt.kind == 'pointer' else None)

    def use(self, expr, sink):
        "Record that `expr` flows into `sink`: 'low' for its low 32 bits, 'compare', a variable, None for other uses"
        if is_int(expr.type) and (expr.op in _MODULAR_OPS or expr.op == 'var') and self.fits_int(expr):
            sink = 'low'
        if expr.op == 'var':
            self.use_variable(expr, sink)
        elif expr.op == 'device':
            for a, p in zip(expr.args, expr.value.parameter_exprs):
                self.use_argument(a, p)
        else:
            if self.compares(expr):
                self.compared.append(expr.args)
            for a, where in zip(expr.args, self.sinks(expr, sink)):
                self.use(a, where)

    def compares(self, expr):
        "Return whether `expr` compares integers as integers; a comparison as float64 needs all of their bits"
        return (
            expr.op == 'cmp'
            and all(is_int(a.type) for a in expr.args)
            and not comparison_rounds(*expr.args, self.ranges.of)
        )

    def use_variable(self, expr, sink):
        "Record that a variable flows into `sink`"
        if not is_int(expr.type):
            return
        if sink is None:
            self.needs_all_bits.add(expr.value)
        elif not isinstance(sink, str):
            self.flows.append((expr.value, sink))

    def sinks(self, expr, sink):
        "Return the sinks of the arguments of `expr` if `expr` flows into `sink`"
        n = len(expr.args)
        if expr.op in _MODULAR_OPS or expr.op == 'let':
            return [sink] * n
        if expr.op == 'select':
            return [None] + [sink] * (n - 1)
        if self.compares(expr):
            return ['compare'] * n
        if expr.op == 'load':
            return ['low'] * n
        if expr.op == 'atomic':
            low = is_narrow_int(expr.value.memory.dtype) and expr.value.op in ('add', 'sub', 'exch', 'and', 'or', 'xor')
            return ['low' if k < expr.value.count or low else None for k in range(n)]
        low = expr.op == 'cast' and is_narrow_int(expr.value) and is_int(expr.type) and is_int(expr.args[0].type)
        return ['low' if low else None] * n

    def use_argument(self, a, p):
        "Record that `a` is an argument for the parameter `p` of a device function"
        if a.op == 'tuple':
            for x, y in zip(a.args, p.args):
                self.use_argument(x, y)
        elif a.op != 'view':
            self.use(a, p.value if p.op == 'var' and is_int(p.type) else None)
        else:
            for part in (*a.value.lead, a.value.offset):
                self.use(part, 'low')

    def low_bits_are_exact(self, expr, chosen):
        "Return whether the low 32 bits of `expr` are correct if those of the variables `chosen` are"
        return (
            self.fits_int(expr)
            or expr.op == 'var'
            and expr.value in chosen
            or expr.op in (*_MODULAR_OPS, 'let')
            and all(self.low_bits_are_exact(a, chosen) for a in expr.args)
        )


def is_narrow_int(dtype):
    "Return whether elements of `dtype` are integers of at most 32 bits"
    return dtype in ('bool', 'int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32')


def variables_with_exact_low_bits(unit, ranges):
    "Return the variables that may be an `int` although their interval does not fit"
    uses = _Uses(unit, ranges)
    fitting = {v for v, r in ranges.variable_intervals.items() if is_int(v.type) and within(r, INT32)}
    chosen = {
        v
        for v, r in ranges.variable_intervals.items()
        if is_int(v.type) and v not in fitting and v not in uses.needs_all_bits and v.parameter_info is None
    }
    while True:
        out = {a for a, b in uses.flows if a in chosen and b not in chosen and b not in fitting}
        out |= {
            part.value
            for a, b in uses.compared
            for x, y in ((a, b), (b, a))
            if not uses.low_bits_are_exact(y, chosen)
            for part in walk(x)
            if part.op == 'var' and part.value in chosen
        }
        if not out:
            return chosen
        chosen -= out


def choose_c_types(unit):
    """Resolve weakly typed floats, and choose the C type of every variable; returns the `Ranges` for these types."""
    weak = DOUBLE if unit.doubles or not _computes_in_float32(unit) else FLOAT
    for f in functions(unit):
        f.result = _resolve_weak(f.result, weak)
        for v in f.variables:
            v.type = _resolve_weak(v.type, weak)
        for v in f.temporaries.values():
            v.type = _resolve_weak(v.type, weak)
        for e in function_expressions(f):
            e.type = _resolve_weak(e.type, weak)
    for m in unit.constants.values():
        if m.dtype == WEAK:
            m.dtype = weak
    unit.weak = weak
    unit.minimums = _minimum_arguments(unit)
    ranges = Ranges(unit)
    if not unit.wide:
        ranges = Ranges(unit, variables_with_exact_low_bits(unit, ranges))
    for f in ranges.visited_functions:
        for v in {*f.variables, *f.temporaries.values()}:
            v.c_type = _c_type(unit, v, ranges)
    return ranges


def _minimum_arguments(unit):
    """Return {parameter: minimum, 0 or 1} of the Python ints that `//` or `%` uses and whose examples are not negative.

    The launcher refuses smaller arguments.
    """
    res = {}
    for f in functions(unit):
        for e in function_expressions(f):
            if e.op not in ('floordiv', 'mod') or e.type not in INTEGERS:
                continue
            for least, a in enumerate(e.args):
                for part in walk(a):
                    k = part.value.parameter_info if part.op == 'var' and part.value.num_defs == 1 else None
                    if k is not None and k.dtype == 'int' and k.least is not None and k.least >= least:
                        res[part.value] = max(least, res.get(part.value, 0))
    return res


def _resolve_weak(t, weak):
    if isinstance(t, tuple) and not isinstance(t, Array):
        return tuple(_resolve_weak(part, weak) for part in t)
    return weak if t == WEAK else t


def _c_type(unit, variable, ranges):
    if not is_number(variable.type):
        return None
    if not is_int(variable.type):
        return C_NAMES[variable.type]
    k, r = variable.parameter_info, ranges.variable_intervals.get(variable, variable.bounds or (0, 0))
    if k is not None and k.dtype != 'int' and within(r, of_dtype(k.dtype)):
        return C_NAMES[k.dtype]
    return c_int_type(variable.type, r, unit.wide)


def c_int_type(t, interval, wide):
    "Return C's type for integers of type `t` in the interval `interval`: `c_int_type('int64', (0, 9), False)` is 'int'"
    small = within(of_dtype(t), INT32) or within(interval, INT32) and not wide
    masked = within(interval, UINT32) and (is_unsigned(t) or interval[1] == UINT32[1]) and not wide
    return (
        'int'
        if small
        else 'unsigned int'
        if within(of_dtype(t), UINT32) or masked
        else 'unsigned long long'
        if t == UINT
        else 'long long'
    )


def _computes_in_float32(unit):
    "Return whether the kernel computes with float32 and not with float64"
    met = set()
    for f in functions(unit):
        met |= {s.memory.dtype for s in statements(f.body) if s.kind in ('store', 'alloc')}
        for e in function_expressions(f):
            if e.op in ('load', 'atomic'):
                met.add((e.value if e.op == 'load' else e.value.memory).dtype)
            elif e.op == 'cast':
                met.add(e.value)
            elif e.op in ('var', 'const', 'global') or e.type != DOUBLE:
                met.add(e.type)  # a division of integers is a double, but does not require double elsewhere
    return bool(met & {FLOAT, HALF, 'bfloat16'}) and DOUBLE not in met
