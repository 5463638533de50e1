"""Chooses the C type of each variable: which integers are an `int`, and the precision of Python floats."""

from .intervals import INT64_RANGE, INT32_RANGE, UINT32_RANGE, comparison_rounds, dtype_interval, is_within
from .ranges import RangeAnalysis
from .tree import Expr, function_expressions, expressions, functions, statements, walk
from .types import C_NAMES, DOUBLE, FLOAT, HALF, INT64, UINT64, WEAK, INTEGERS, Array, is_int, is_number, is_unsigned


# A variable may be an `int` although its interval does not fit, if only its low 32 bits matter. In +, - and *, the low
# 32 bits of the result depend only on the low 32 bits of the operands, and a valid index fits an `int`, because an
# array has fewer than 2**31 elements. So a variable is an `int` if it flows, through +, - and *, only into indices,
# into elements of at most 32 bits, into other such variables, and into comparisons with values whose low 32 bits are
# exact. `_IntegerFlows` collects the flows, and `variables_with_exact_low_bits` removes variables until no remaining
# one flows into a removed one. Comparisons rely on the limits that the docstring of `to_cuda` states.
_MODULAR_OPS = ('add', 'sub', 'mul', 'neg')


class _IntegerFlows:
    "Collects where integer variables flow, to find those that may be an `int` although their interval does not fit"

    def __init__(self, unit, ranges):
        self.ranges = ranges
        self.wide_variables = set()  # variables that need more than their low 32 bits
        self.flows = []  # (variable, the variable that it is assigned to)
        self.comparisons = []  # pairs of expressions
        for function in ranges.visited_functions:
            for stmt in statements(function.body):
                self.collect(stmt)

    def fits_int(self, expr):
        "Return whether the interval of `expr` fits an `int`"
        return is_within(
            self.ranges.recorded_interval(expr)
            if id(expr) in self.ranges.expr_intervals or expr.op != 'var'
            else self.ranges.variable_intervals.get(expr.value, INT64_RANGE),
            INT32_RANGE,
        )

    def collect(self, stmt):
        "Collect the flows in one statement"
        if stmt.kind == 'assign':
            return self.record_flow(stmt.expr, stmt.var if is_int(stmt.var.type) else None)
        if stmt.kind == 'store':
            for index in stmt.index:
                self.record_flow(index, 'low')
            return self.record_flow(stmt.expr, 'low' if is_narrow_int(stmt.buffer.dtype) else None)
        if stmt.kind == 'for':
            self.record_flow(stmt.start, stmt.var)
            self.record_flow(stmt.step, stmt.var)
            self.record_flow(stmt.stop, 'compare')
            self.comparisons.append((Expr('var', INT64, value=stmt.var), stmt.stop))
            return
        for expr in expressions(stmt):
            self.record_flow(expr, 'low' if stmt.kind == 'pointer' else None)

    def record_flow(self, expr, sink):
        """Record that `expr` flows into `sink`.

        The sink is 'low' if only the low 32 bits matter, 'compare' for a comparison, a variable for an assignment, and
        None for a use that needs all bits.
        """
        if is_int(expr.type) and (expr.op in _MODULAR_OPS or expr.op == 'var') and self.fits_int(expr):
            sink = 'low'
        if expr.op == 'var':
            self.record_variable_flow(expr, sink)
        elif expr.op == 'device_call':
            for argument, parameter in zip(expr.args, expr.value.parameter_exprs):
                self.record_argument_flow(argument, parameter)
        else:
            if self.is_integer_comparison(expr):
                self.comparisons.append(expr.args)
            for operand, operand_sink in zip(expr.args, self.operand_sinks(expr, sink)):
                self.record_flow(operand, operand_sink)

    def is_integer_comparison(self, expr):
        "Return whether `expr` compares integers as integers; a comparison as float64 needs all of their bits"
        return (
            expr.op == 'cmp'
            and all(is_int(a.type) for a in expr.args)
            and not comparison_rounds(*expr.args, self.ranges.recorded_interval)
        )

    def record_variable_flow(self, expr, sink):
        "Record that a variable flows into `sink`"
        if not is_int(expr.type):
            return
        if sink is None:
            self.wide_variables.add(expr.value)
        elif not isinstance(sink, str):
            self.flows.append((expr.value, sink))

    def operand_sinks(self, expr, sink):
        "Return the sink of each operand of `expr` if `expr` flows into `sink`"
        n = len(expr.args)
        if expr.op in _MODULAR_OPS or expr.op == 'let':
            return [sink] * n
        if expr.op == 'select':
            return [None] + [sink] * (n - 1)
        if self.is_integer_comparison(expr):
            return ['compare'] * n
        if expr.op == 'load':
            return ['low'] * n
        if expr.op == 'atomic':
            low_bits_suffice = is_narrow_int(expr.value.buffer.dtype) and expr.value.op in (
                'add',
                'sub',
                'exch',
                'and',
                'or',
                'xor',
            )
            return ['low' if i < expr.value.num_indices or low_bits_suffice else None for i in range(n)]
        low_bits_suffice = (
            expr.op == 'cast' and is_narrow_int(expr.value) and is_int(expr.type) and is_int(expr.args[0].type)
        )
        return ['low' if low_bits_suffice else None] * n

    def record_argument_flow(self, argument, parameter):
        "Record that `argument` is passed to a device function as `parameter`"
        if argument.op == 'tuple':
            for item, item_parameter in zip(argument.args, parameter.args):
                self.record_argument_flow(item, item_parameter)
        elif argument.op != 'view':
            self.record_flow(argument, parameter.value if parameter.op == 'var' and is_int(parameter.type) else None)
        else:
            for index in (*argument.value.leading_indices, argument.value.offset):
                self.record_flow(index, 'low')

    def low_bits_are_exact(self, expr, int_variables):
        "Return whether an `int` holds the low 32 bits of `expr` if the variables in `int_variables` are an `int`"
        return (
            self.fits_int(expr)
            or expr.op == 'var'
            and expr.value in int_variables
            or expr.op in (*_MODULAR_OPS, 'let')
            and all(self.low_bits_are_exact(a, int_variables) for a in expr.args)
        )


def is_narrow_int(dtype):
    "Return whether elements of `dtype` are integers of at most 32 bits"
    return dtype in ('bool', 'int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32')


def variables_with_exact_low_bits(unit, ranges):
    "Return the variables that may be an `int` although their interval does not fit"
    flows = _IntegerFlows(unit, ranges)
    fitting_variables = {
        v for v, r in ranges.variable_intervals.items() if is_int(v.type) and is_within(r, INT32_RANGE)
    }
    int_variables = {
        v
        for v, r in ranges.variable_intervals.items()
        if is_int(v.type) and v not in fitting_variables and v not in flows.wide_variables and v.argument_type is None
    }
    while True:
        removed_variables = {
            a for a, b in flows.flows if a in int_variables and b not in int_variables and b not in fitting_variables
        }
        removed_variables |= {
            subexpr.value
            for a, b in flows.comparisons
            for x, y in ((a, b), (b, a))
            if not flows.low_bits_are_exact(y, int_variables)
            for subexpr in walk(x)
            if subexpr.op == 'var' and subexpr.value in int_variables
        }
        if not removed_variables:
            return int_variables
        int_variables -= removed_variables


def choose_c_types(unit):
    "Resolve weakly typed floats, and choose the C type of every variable; return the `RangeAnalysis` for these types"
    weak_type = DOUBLE if unit.numba_types or not _computes_in_float32(unit) else FLOAT
    for function in functions(unit):
        function.result_type = _resolve_weak(function.result_type, weak_type)
        for variable in (*function.variables, *function.temporaries.values()):
            variable.type = _resolve_weak(variable.type, weak_type)
        for expr in function_expressions(function):
            expr.type = _resolve_weak(expr.type, weak_type)
    for buffer in unit.constants.values():
        if buffer.dtype == WEAK:
            buffer.dtype = weak_type
    unit.weak_type = weak_type
    unit.minimums = _minimum_arguments(unit)
    ranges = RangeAnalysis(unit)
    if not unit.all_int64:
        ranges = RangeAnalysis(unit, variables_with_exact_low_bits(unit, ranges))
    for function in ranges.visited_functions:
        for variable in {*function.variables, *function.temporaries.values()}:
            variable.c_type = _c_type(unit, variable, ranges)
    return ranges


def _minimum_arguments(unit):
    """Return {parameter: minimum} for Python ints that occur in an operand of `//` or `%`.

    The minimum is 0 for a dividend and 1 for a divisor, unless the example is smaller. The launcher rejects smaller
    arguments, so C's `/` and `%` have Python's results.
    """
    minimums = {}
    for function in functions(unit):
        for expr in function_expressions(function):
            if expr.op not in ('floordiv', 'mod') or expr.type not in INTEGERS:
                continue
            for minimum, operand in enumerate(expr.args):
                for subexpr in walk(operand):
                    is_assigned_once = subexpr.op == 'var' and subexpr.value.num_defs == 1
                    argument_type = subexpr.value.argument_type if is_assigned_once else None
                    if (
                        argument_type is not None
                        and argument_type.dtype == 'int'
                        and argument_type.minimum is not None
                        and argument_type.minimum >= minimum
                    ):
                        minimums[subexpr.value] = max(minimum, minimums.get(subexpr.value, 0))
    return minimums


def _resolve_weak(t, weak_type):
    "Return the type `t` with the type of a Python float replaced by `weak_type`, also in a tuple"
    if isinstance(t, tuple) and not isinstance(t, Array):
        return tuple(_resolve_weak(item, weak_type) for item in t)
    return weak_type if t == WEAK else t


def _c_type(unit, variable, ranges):
    "Return the C type of a variable; None for an array, a tuple or a function"
    if not is_number(variable.type):
        return None
    if not is_int(variable.type):
        return C_NAMES[variable.type]
    argument_type = variable.argument_type
    interval = ranges.variable_intervals.get(variable, variable.bounds or (0, 0))
    if (
        argument_type is not None
        and argument_type.dtype != 'int'
        and is_within(interval, dtype_interval(argument_type.dtype))
    ):
        return C_NAMES[argument_type.dtype]
    return c_int_type(variable.type, interval, unit.all_int64)


def c_int_type(t, interval, all_int64):
    "Return the C type for integers of type `t` in `interval`: `c_int_type('int64', (0, 9), False)` is 'int'"
    fits_int = is_within(dtype_interval(t), INT32_RANGE) or is_within(interval, INT32_RANGE) and not all_int64
    fits_unsigned = (
        is_within(interval, UINT32_RANGE) and (is_unsigned(t) or interval[1] == UINT32_RANGE[1]) and not all_int64
    )
    return (
        'int'
        if fits_int
        else 'unsigned int'
        if is_within(dtype_interval(t), UINT32_RANGE) or fits_unsigned
        else 'unsigned long long'
        if t == UINT64
        else 'long long'
    )


def _computes_in_float32(unit):
    "Return whether the kernel computes with float32 and not with float64"
    dtypes = set()
    for function in functions(unit):
        dtypes |= {stmt.buffer.dtype for stmt in statements(function.body) if stmt.kind in ('store', 'alloc')}
        for expr in function_expressions(function):
            if expr.op in ('load', 'atomic'):
                dtypes.add((expr.value if expr.op == 'load' else expr.value.buffer).dtype)
            elif expr.op == 'cast':
                dtypes.add(expr.value)
            elif expr.op in ('var', 'const', 'global') or expr.type != DOUBLE:
                dtypes.add(expr.type)  # a division of integers is a double, but does not require double elsewhere
    return bool(dtypes & {FLOAT, HALF, 'bfloat16'}) and DOUBLE not in dtypes
