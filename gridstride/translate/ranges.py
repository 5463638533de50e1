"""Computes the interval of values that each integer of a kernel can have, by abstract interpretation.

Python's integers in a kernel have 64 bits, but most values fit in 32 bits: `c_types` declares those as `int`. The
kernel is interpreted once, with intervals in place of values: `threadIdx.x` is in [0, 1023], the size of an array in
[0, 2**31 - 2**16], and a sum is between the sums of the bounds. A condition narrows the intervals in its branches;
where branches meet, their intervals are joined; a loop is iterated until its intervals stop growing (a fixed point).
"""

from .intervals import (
    INT64_RANGE,
    INT64_MAX,
    INTERVAL_ARITHMETIC,
    INT64_MIN,
    clip,
    comparison_rounds,
    hull,
    dtype_interval,
    widen,
    is_within,
)
from .operations import NEGATED_COMPARISON, SWAPPED_COMPARISON
from .tree import Expr, ZERO, blocks, expressions, constant_value, statements, walk
from .types import BOOL, INT64, INT_LIMIT, INTEGERS, is_int


_BUILTIN_INTERVALS = {
    'threadIdx.x': (0, 1023),
    'threadIdx.y': (0, 1023),
    'threadIdx.z': (0, 63),
    'blockDim.x': (1, 1024),
    'blockDim.y': (1, 1024),
    'blockDim.z': (1, 64),
    'blockIdx.x': (0, 2**31 - 2),
    'blockIdx.y': (0, 65534),
    'blockIdx.z': (0, 65534),
    'gridDim.x': (1, 2**31 - 1),
    'gridDim.y': (1, 65535),
    'gridDim.z': (1, 65535),
}


class _Values:
    "Evaluates expressions on intervals: one method `_range_...` per operation"

    def eval(self, expr):
        "Return the interval of `expr`, None if it is not an integer; and record it if `is_recording`"
        interval = getattr(self, '_range_' + expr.op)(expr)
        if expr.type == BOOL:
            interval = hull(interval, None) if interval is not None and is_within(interval, (0, 1)) else (0, 1)
        if is_int(expr.type) and (interval is None or not is_within(interval, dtype_interval(expr.type))):
            interval = dtype_interval(expr.type)
        if self.is_recording and expr.type in INTEGERS:
            self.expr_intervals[id(expr)] = hull(self.expr_intervals.get(id(expr)), interval)
        return interval

    def eval_integer_operation(self, expr):
        "Return the interval of an operation on integers: [0, 9] + [1, 1] is [1, 10]"
        intervals = [self.eval(operand) for operand in expr.args]
        if not is_int(expr.type) or None in intervals:
            return None
        if expr.type == INT64:
            intervals = [interval if is_within(interval, INT64_RANGE) else INT64_RANGE for interval in intervals]
        return self.bound_grid(expr, INTERVAL_ARITHMETIC[expr.op](*intervals))

    _range_add = _range_sub = _range_mul = _range_floordiv = _range_mod = _range_cmod = _range_pow = _range_min = (
        _range_max
    ) = eval_integer_operation
    _range_shl = _range_shr = _range_and = _range_or = _range_xor = eval_integer_operation

    def eval_operands(self, expr):
        "Evaluate the operands of an operation whose result has no interval"
        for operand in expr.args:
            self.eval(operand)

    _range_truediv = _range_fmin = _range_fmax = _range_math = _range_test_float = _range_truth = _range_not = (
        _range_cmp
    ) = eval_operands
    _range_size_of = _range_address = _range_checked_offset = _range_pointer_to = _range_tuple = _range_object = (
        eval_operands
    )

    def bound_grid(self, expr, interval):
        "Bound products such as `blockIdx.x * blockDim.x`: an axis of the grid has at most `INT_LIMIT` threads"
        if expr.op != 'mul' or self.unit.all_int64:
            return interval
        names = {operand.value for operand in expr.args if operand.op == 'builtin'}
        has_small_factors = all(
            operand.op == 'builtin'
            and operand.value.startswith(('gridDim', 'blockIdx'))
            or is_within(self.interval_of(operand), (0, 2**16))
            for operand in expr.args
        )
        for builtin, low in (('blockIdx', 0), ('gridDim', 1)):
            if has_small_factors and any(name.startswith(builtin) for name in names):
                return max(interval[0], low), min(interval[1], INT_LIMIT - 2048)
        return interval

    def _range_const(self, expr):
        return (int(expr.value),) * 2 if expr.type in INTEGERS else None

    def _range_global(self, expr):
        return (int(expr.value[1]),) * 2 if expr.type in INTEGERS else None

    def _range_var(self, expr):
        if expr.type not in INTEGERS:
            return None
        variable = expr.value
        if variable.bounds:
            return variable.bounds
        interval = self.state.get(variable)
        return (
            interval
            if interval is not None and interval != ()
            else (0, 0)
            if variable.is_maybe_uninitialized
            else INT64_RANGE
        )

    def _range_builtin(self, expr):
        return _BUILTIN_INTERVALS[expr.value]

    def _range_lane(self, expr):
        return 0, 31

    def _range_size(self, expr):
        return 0, self.max_size

    def _range_stride(self, expr):
        return -self.max_size, self.max_size

    _range_start = _range_size

    def _range_load(self, expr):
        for operand in expr.args:
            self.eval(operand)
        buffer = expr.value
        if expr.type not in INTEGERS:
            return None
        if buffer.values is not None:
            return (int(buffer.values.min()), int(buffer.values.max())) if buffer.values.size else (0, 0)
        if hasattr(buffer, 'items'):
            return self.hull_of(buffer.items)
        return dtype_interval(buffer.dtype)

    def hull_of(self, items):
        "Return the interval that contains all of the `items`"
        interval = None
        for operand in items:
            interval = hull(interval, self.eval(operand))
        return interval

    def _range_atomic(self, expr):
        for operand in expr.args:
            self.eval(operand)
        return dtype_interval(expr.value.buffer.dtype) if expr.type in INTEGERS else None

    def _range_call(self, expr):
        for operand in expr.args:
            self.eval(operand)
        return (expr.value.low, expr.value.high) if expr.type in INTEGERS and expr.value.low is not None else None

    def _range_flag(self, expr):
        self.eval(expr.args[0])
        return 0, 1

    def _range_shuffle(self, expr):
        return [self.eval(operand) for operand in expr.args][0]

    def _range_let(self, expr):
        interval = self.eval(expr.args[0])
        self.set_interval(expr.value, interval)
        return interval

    def _range_neg(self, expr):
        interval = self.eval(expr.args[0])
        return clip(-interval[1], -interval[0]) if is_int(expr.type) else None

    def _range_invert(self, expr):
        interval = self.eval(expr.args[0])
        return (
            (~interval[1], ~interval[0]) if expr.type == INT64 else (2**64 - 1 - interval[1], 2**64 - 1 - interval[0])
        )

    def _range_abs(self, expr):
        low, high = self.eval(expr.args[0])
        return clip(0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high)))

    def _range_cast(self, expr):
        a = expr.args[0]
        interval = self.eval(a)
        if (
            expr.type == INT64
            and a.op == 'math'
            and a.value in ('floor', 'ceil', 'trunc', 'rint')
            and a.args[0].op == 'truediv'
            and all(operand.type in INTEGERS for operand in a.args[0].args)
        ):
            low, high = self.interval_of(a.args[0].args[0])  # a quotient of integers is not larger than the dividend
            if self.interval_of(a.args[0].args[1])[0] < 0:
                return min(low, 0, -high), max(high, 0, -low)
            return min(low, 0), max(high, 0)
        if expr.type not in INTEGERS:
            return None
        dtype_range = dtype_interval(expr.value)
        return interval if interval is not None and is_within(interval, dtype_range) else dtype_range

    def _range_bits(self, expr):
        self.eval(expr.args[0])
        return None if expr.value == 'brev' else (0, 64)

    def _range_select(self, expr):
        self.eval(expr.args[0])
        state_before = dict(self.state)
        self.refine(expr.args[0], True)
        a = self.eval(expr.args[1])
        self.state = dict(state_before)
        self.refine(expr.args[0], False)
        b = self.eval(expr.args[2])
        self.state = state_before
        return hull(a, b) if a is not None and b is not None else None

    def _range_land(self, expr):
        return self.short_circuit(expr, True)

    def _range_lor(self, expr):
        return self.short_circuit(expr, False)

    def short_circuit(self, expr, is_true):
        "Evaluate `a and b` (`is_true`) or `a or b`: `b` is evaluated only if `a` is true, or false"
        a = self.eval(expr.args[0])
        state_before = dict(self.state)
        self.refine(expr.args[0], is_true)
        b = self.eval(expr.args[1])
        self.state = {**state_before, **{k: v for k, v in self.state.items() if k not in state_before}}
        return hull(a, b) if None not in (a, b) else None

    _range_value_land, _range_value_lor = _range_land, _range_lor

    def _range_device_call(self, expr):
        return self.run_function(expr.value, [self.argument_interval(a) for a in expr.args])

    def argument_interval(self, expr):
        "Return the interval of an argument of a device function; for a tuple, a tuple of intervals"
        if expr.op == 'tuple':
            return tuple(map(self.argument_interval, expr.args))
        return self.eval_view(expr.value) if expr.op == 'view' else self.eval(expr)

    def eval_view(self, view):
        "Evaluate the offset, sizes and strides of an array"
        for subexpr in view.expressions():
            self.eval(subexpr)

    def _range_view(self, expr):
        self.eval_view(expr.value)

    def _range_field(self, expr):
        interval = self.state.get(expr.args[0].value)
        return interval[expr.value] if isinstance(interval, tuple) and expr.type in INTEGERS else None


# Where `i < n` is true, `i` is at most the upper bound of `n` minus one, and `n` is at least the lower bound of `i`
# plus one. With n in [0, 100] and i in [0, 2**31], the branch of `if i < n` has i in [0, 99] and n in [1, 100].
class _Conditions:
    "Narrows the intervals of variables by a condition"

    def refine(self, condition, is_true):
        "Narrow the intervals of variables to the values for which `condition` is true (`is_true`) or false"
        if condition.op == 'not':
            self.refine(condition.args[0], not is_true)
        elif condition.op == ('land' if is_true else 'lor'):
            for a in condition.args:
                self.refine(a, is_true)
        elif condition.op == 'truth' and condition.args[0].type in INTEGERS:
            self.narrow_by_comparison(condition.args[0], '!=' if is_true else '==', ZERO)
        elif (
            condition.op == 'cmp'
            and all(a.type in INTEGERS for a in condition.args)
            and not comparison_rounds(*condition.args, self.interval_of)
        ):
            a, b = condition.args
            op = condition.value if is_true else NEGATED_COMPARISON[condition.value]
            self.narrow_by_comparison(a, op, b)
            self.narrow_by_comparison(b, SWAPPED_COMPARISON[op], a)

    def interval_of(self, expr):
        "Return the interval of `expr` in the current state, without recording it"
        is_recording, self.is_recording = self.is_recording, False
        interval = self.eval(expr)
        self.is_recording = is_recording
        return interval

    def narrow_by_comparison(self, a, op, b):
        "Narrow `a`, given that `a op b`"
        (low, high), (b_low, b_high) = self.interval_of(a), self.interval_of(b)
        if op == '<':
            high = min(high, b_high - 1)
        if op == '<=':
            high = min(high, b_high)
        if op == '>':
            low = max(low, b_low + 1)
        if op == '>=':
            low = max(low, b_low)
        if op == '==':
            low, high = max(low, b_low), min(high, b_high)
        if op == '!=' and b_low == b_high:
            low, high = low + (low == b_low), high - (high == b_low)
        if low <= high:
            self.narrow(a, low, high)

    def narrow(self, expr, low, high):
        "Narrow a variable, or the variable in `i + 1`, such that `expr` is in [low, high]"
        if expr.op == 'let':
            expr = Expr('var', expr.type, value=expr.value)
        if expr.op == 'var' and expr.value in self.state:
            old = self.state[expr.value]
            if max(low, old[0]) <= min(high, old[1]):
                self.state[expr.value] = max(low, old[0]), min(high, old[1])
        elif expr.op in ('add', 'sub') and constant_value(expr.args[1]) is not None:
            k = constant_value(expr.args[1]) * (1 if expr.op == 'add' else -1)
            self.narrow(expr.args[0], low - k, high - k)


# The state at the head of a loop is a fixed point: the body is interpreted from that state, and the state after the
# body is joined with it, until nothing changes. The interval of `i` in `i += 1` would grow in every iteration.
# So from the third iteration on, an interval that still grows is widened (`widen_at_head`): by the increment per
# iteration times the trip count if both are bounded (`growth`), else to the next of a few bounds (`widen`). Widening
# may go too far, so two more iterations narrow the intervals again. A last iteration from the fixed point records the
# intervals of the expressions in the body.
class _Blocks:
    "Interprets statements on intervals: one method `_run_...` per kind of statement"

    def run_block(self, body):
        "Interpret the statements of a block, up to one after which code is unreachable"
        for stmt in body:
            if self.state is None:
                return
            getattr(self, '_run_' + stmt.kind)(stmt)

    def run_expressions(self, stmt):
        "Evaluate the expressions of a statement that changes no variable"
        for expr in expressions(stmt):
            self.eval(expr)

    _run_pointer = _run_alloc = _run_store = _run_expr = _run_print = _run_assert = _run_pass = run_expressions

    def _run_assign(self, stmt):
        interval = self.eval(stmt.expr)
        if stmt.var.type in INTEGERS:
            self.set_interval(stmt.var, interval if interval is not None else INT64_RANGE)
        elif interval is not None:
            self.state[stmt.var] = interval

    def _run_return(self, stmt):
        intervals = [self.eval(e) for e in stmt.args]
        if len(intervals) == 1:
            self.result_interval = hull(self.result_interval, intervals[0])
        elif intervals:
            previous_intervals = self.result_interval or (None,) * len(intervals)
            self.result_interval = tuple(map(hull, previous_intervals, intervals))
        self.state = None

    def _run_break(self, stmt):
        self.leave_loop(0)

    def _run_continue(self, stmt):
        self.leave_loop(1)

    def leave_loop(self, index):
        "Leave the loop (index 0) or the iteration (1): join the current state with that at its end"
        self.loops[-1][index], self.state = _join_states(self.loops[-1][index], self.state), None

    def _run_if(self, stmt):
        self.eval(stmt.test)
        state_before = self.state
        self.state = dict(state_before)
        self.refine(stmt.test, True)
        self.run_block(stmt.body)
        state_after_body, self.state = self.state, dict(state_before)
        self.refine(stmt.test, False)
        self.run_block(stmt.orelse)
        self.state = _join_states(state_after_body, self.state)

    def _run_while(self, stmt):
        def run_head():
            self.eval(stmt.test)
            self.exit_state = dict(self.state)
            state_before, self.state = self.state, self.exit_state
            self.refine(stmt.test, False)
            self.exit_state, self.state = self.state, state_before
            if stmt.test.op == 'const' and stmt.test.value:
                self.exit_state = None
            self.refine(stmt.test, True)

        self.run_loop(stmt, run_head, None)

    def _run_for(self, stmt):
        start = self.eval(stmt.start)
        stop = self.eval(stmt.stop)
        step = self.eval(stmt.step)
        if step[0] > 0:
            interval, trip_count = (start[0], stop[1] - 1), -((start[0] - stop[1]) // step[0])
        elif step[1] < 0:
            interval, trip_count = (stop[0] + 1, start[1]), -((stop[0] - start[1]) // -step[1])
        else:
            interval, trip_count = (min(start[0], stop[0] + 1), max(start[1], stop[1] - 1)), None
        self.trip_counts[id(stmt)] = trip_count if trip_count is None else max(trip_count, 0)
        if interval[0] > interval[1]:
            interval = start

        def run_head():
            self.exit_state = dict(self.state)
            self.set_interval(stmt.var, interval)

        self.run_loop(stmt, run_head, self.trip_counts[id(stmt)])

    def _run_for_tuple(self, stmt):
        self.trip_counts[id(stmt)] = stmt.num_iterations
        intervals = [(target.var, self.hull_of(target.items)) for target in stmt.targets]

        def run_head():
            self.exit_state = dict(self.state)
            for variable, interval in intervals:
                if interval is not None:
                    self.set_interval(variable, interval)

        self.run_loop(stmt, run_head, stmt.num_iterations)

    def run_loop(self, loop, run_head, trip_count):
        "Interpret the body until the state at its head is a fixed point, then once more to record the intervals"
        entry, is_recording = self.state, self.is_recording
        self.is_recording, head_state = False, dict(entry)
        for iteration in range(60):
            back_state = self.run_iteration(loop, run_head, head_state)
            new_state = head_state if back_state is None else _join_states(head_state, back_state)
            if new_state == head_state:
                break
            if iteration >= 2:
                new_state = {
                    k: self.widen_at_head(loop, k, entry.get(k), head_state.get(k), new_state[k], trip_count)
                    for k in new_state
                }
            head_state = new_state
        for _ in range(2):
            back_state = self.run_iteration(loop, run_head, head_state)
            if back_state is not None:
                head_state |= {
                    k: hull(entry[k], back_state[k])
                    for k in head_state
                    if _is_pair(entry.get(k)) and _is_pair(back_state.get(k))
                }
        self.is_recording = is_recording
        self.run_iteration(loop, run_head, head_state)
        self.state = _join_states(self.exit_state, self.break_state)

    def run_iteration(self, loop, run_head, head_state):
        "Interpret one iteration from the state `head_state`; return the state at its end"
        self.loops.append([None, None])
        self.state = dict(head_state)
        run_head()
        exit_state = self.exit_state
        self.run_block(loop.body)
        self.break_state, continue_state = self.loops.pop()
        back_state, self.exit_state = _join_states(self.state, continue_state), exit_state
        return back_state

    def widen_at_head(self, stmt, variable, entry, old, new, trip_count):
        "Widen the interval of `variable` at the head of a loop; `old`, `new`: before and after the last iteration"
        if new == old or not _is_pair(new):
            return new
        increment = self.growth(variable, stmt.body, 1) if trip_count is not None and _is_pair(entry) else None
        if increment:
            return clip(entry[0] + trip_count * min(increment[0], 0), entry[1] + trip_count * max(increment[1], 0))
        return widen(old, new)

    def growth(self, variable, body, times):
        "Return the interval of the total that `times` runs of `body` add to `variable`; None if they do not only add"
        low = high = 0
        assigned_variables = {stmt.var for stmt in statements(body) if hasattr(stmt, 'var')}
        for stmt in body:
            if stmt.kind == 'assign' and stmt.var is variable:
                increment = self.addend(variable, stmt.expr, assigned_variables)
                if increment is None:
                    return
                low, high = low + times * min(increment[0], 0), high + times * max(increment[1], 0)
            elif (
                getattr(stmt, 'var', None) is variable
                or stmt.kind == 'for_tuple'
                and any(c.var is variable for c in stmt.targets)
            ):
                return
            elif blocks(stmt):
                if variable not in {p.var for p in statements([stmt]) if hasattr(p, 'var')}:
                    continue
                if stmt.kind == 'while' or stmt.kind in ('for', 'for_tuple') and self.trip_counts.get(id(stmt)) is None:
                    return
                for block in blocks(stmt):
                    increment = self.growth(
                        variable, block, times * (self.trip_counts[id(stmt)] if stmt.kind != 'if' else 1)
                    )
                    if increment is None:
                        return
                    low, high = low + increment[0], high + increment[1]
        return low, high

    def addend(self, variable, expr, assigned_variables):
        "Return the interval of `k` if `expr` is `variable + k` or `variable - -k` and `k` is loop-invariant; else None"
        if expr.op == 'var' and expr.value is variable:
            return 0, 0
        if expr.op not in ('add', 'sub'):
            return
        a, b = expr.args
        if b.op == 'var' and b.value is variable and expr.op == 'add':
            a, b = b, a
        if not (a.op == 'var' and a.value is variable) or any(
            subexpr.op == 'var'
            and (subexpr.value is variable or subexpr.value in assigned_variables and not subexpr.value.type == BOOL)
            for subexpr in walk(b)
        ):
            return
        state, self.state = self.state, dict(self.state or {})
        increment = self.eval(b)
        self.state = state
        return increment if expr.op == 'add' else (-increment[1], -increment[0])


# `state` maps each variable to its interval at the current statement, and is None in unreachable code: after `return`,
# `break`, `continue`. `expr_intervals` maps each expression to the hull of all its intervals, `variable_intervals` each
# variable; both are updated while `is_recording`. `run_function` interprets a device function on the intervals of its
# arguments; lowering has rejected recursion.
class RangeAnalysis(_Values, _Conditions, _Blocks):
    "Computes the intervals of a unit's expressions (`recorded_interval(e)`) and variables (`variable_intervals[v]`)"

    def __init__(self, unit, int_variables=()):
        self.unit = unit
        self.int_variables = int_variables  # variables that `c_types.variables_with_exact_low_bits` makes an `int`
        self.expr_intervals, self.variable_intervals = {}, {}
        self.is_recording = True
        self.max_size = INT64_MAX if unit.all_int64 else INT_LIMIT  # of an array
        self.trip_counts = {}  # id of a loop -> its maximum number of iterations
        self.visited_functions = []  # the functions, callers first
        self.run_function(unit.main, None)

    def recorded_interval(self, expr):
        "Return the interval of all values of an expression: (0, 1023) for `threadIdx.x`"
        return self.expr_intervals.get(id(expr), INT64_RANGE)

    def run_function(self, function, args):
        "Interpret a function on the intervals `args`; return the interval of its result"
        if function not in self.visited_functions:
            self.visited_functions.append(function)
        caller_state = (
            getattr(self, 'state', None),
            getattr(self, 'loops', None),
            getattr(self, 'result_interval', None),
        )
        self.state = {}
        self.loops = []
        self.result_interval = None
        for n, expr in enumerate(function.parameter_exprs):
            self.set_parameter(expr, args[n] if args else None)
        self.run_block(function.body)
        result_interval = self.result_interval
        self.state, self.loops, self.result_interval = caller_state
        return result_interval

    def set_parameter(self, expr, interval):
        "Assign an interval to the parameter `expr`; a tuple of intervals to a tuple"
        if expr.op == 'tuple':
            for n, item in enumerate(expr.args):
                self.set_parameter(item, interval[n] if interval else None)
        if expr.op == 'var' and expr.type in INTEGERS:
            self.set_interval(expr.value, interval if interval is not None else self.parameter_interval(expr.value))

    def parameter_interval(self, variable):
        "Return the interval of a parameter of the kernel"
        type = variable.argument_type
        if type is None or type.dtype != 'int':
            return dtype_interval('int64' if type is None else type.dtype)
        low, high = (INT64_MIN, INT64_MAX) if self.unit.all_int64 else (-INT_LIMIT, INT_LIMIT)
        return self.unit.minimums.get(variable, low), high

    def set_interval(self, variable, interval):
        "Assign a value in this interval to a variable"
        if variable in self.int_variables and interval is not None:
            low, high = max(interval[0], -INT_LIMIT), min(interval[1], INT_LIMIT)
            interval = (low, high) if low <= high else (-INT_LIMIT, INT_LIMIT)
        self.state[variable] = interval
        if (
            self.is_recording
            and isinstance(interval, tuple)
            and interval
            and not isinstance(interval[0], (tuple, type(None)))
        ):
            self.variable_intervals[variable] = hull(self.variable_intervals.get(variable), interval)


def _is_pair(interval):
    return isinstance(interval, tuple) and len(interval) == 2 and isinstance(interval[0], int)


def _join_states(a, b):
    "Join the states of two paths that meet; None is the state of an unreachable path"
    if a is None or b is None:
        return b if a is None else a
    return {
        k: hull(a[k], b[k]) if k in a and k in b and _is_pair(a[k]) and _is_pair(b[k]) else a.get(k, b.get(k))
        for k in {**a, **b}
    }
