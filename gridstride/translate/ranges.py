"""Computes the interval of values that each integer of a kernel can have, by abstract interpretation.

Python's integers in a kernel have 64 bits, and most need far fewer: `c_types` makes an `int` of those that fit one. The
kernel is run once on intervals instead of values: `threadIdx.x` is in [0, 1023], the size of an array in [0, 2**31 -
2**16], and a sum is between the sums of the bounds. A condition narrows the intervals in its branches; where branches
meet, their intervals are joined; a loop is iterated until its intervals stop growing (a fixed point).
"""

from .intervals import ALL, HIGH, INTERVAL_ARITHMETIC, LOW, clip, comparison_rounds, hull, of_dtype, widen, within
from .tree import Expr, ZERO, blocks, expressions, number, statements, walk
from .types import BOOL, INT, INT_LIMIT, INTEGERS, is_int


_BUILTIN = {
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


_SWAPPED_COMPARISON = {'<': '>', '<=': '>=', '>': '<', '>=': '<=', '==': '==', '!=': '!='}


_NEGATED_COMPARISON = {'<': '>=', '<=': '>', '>': '<=', '>=': '<', '==': '!=', '!=': '=='}


class _Values:
    "Evaluate expressions on intervals: one method `_range_...` per operation"

    def eval(self, e):
        "Return the interval of `e`, or None if it is not an integer; records the widest interval that it ever has"
        r = getattr(self, '_range_' + e.op)(e)
        if e.type == BOOL:
            r = hull(r, None) if r is not None and within(r, (0, 1)) else (0, 1)
        if is_int(e.type) and (r is None or not within(r, of_dtype(e.type))):
            r = of_dtype(e.type)
        if self.recording and e.type in INTEGERS:
            self.expr_intervals[id(e)] = hull(self.expr_intervals.get(id(e)), r)
        return r

    def operation(self, e):
        "Return the interval of an operation on integers: [0, 9] + [1, 1] is [1, 10]"
        parts = [self.eval(a) for a in e.args]
        if not is_int(e.type) or None in parts:
            return None
        if e.type == INT:
            parts = [r if within(r, ALL) else ALL for r in parts]
        return self.bound_grid(e, INTERVAL_ARITHMETIC[e.op](*parts))

    _range_add = _range_sub = _range_mul = _range_floordiv = _range_mod = _range_cmod = _range_pow = _range_min = (
        _range_max
    ) = operation
    _range_shl = _range_shr = _range_and = _range_or = _range_xor = operation

    def unknown(self, e):
        "Evaluate the operands of an operation whose result has no interval of its own"
        for a in e.args:
            self.eval(a)

    _range_truediv = _range_fmin = _range_fmax = _range_math = _range_test_real = _range_truth = _range_not = (
        _range_cmp
    ) = unknown
    _range_size_of = _range_address = _range_inside = _range_pointer_to = _range_tuple = _range_object = unknown

    def bound_grid(self, e, r):
        "Bound the product of blocks and threads along an axis, which the launcher keeps below 2**31"
        if e.op != 'mul' or self.unit.wide:
            return r
        names = {a.value for a in e.args if a.op == 'builtin'}
        small = all(
            a.op == 'builtin' and a.value.startswith(('gridDim', 'blockIdx')) or within(self.interval_of(a), (0, 2**16))
            for a in e.args
        )
        for k, low in (('blockIdx', 0), ('gridDim', 1)):
            if small and any(n.startswith(k) for n in names):
                return max(r[0], low), min(r[1], INT_LIMIT - 2048)
        return r

    def _range_const(self, e):
        return (int(e.value),) * 2 if e.type in INTEGERS else None

    def _range_global(self, e):
        return (int(e.value[1]),) * 2 if e.type in INTEGERS else None

    def _range_var(self, e):
        if e.type not in INTEGERS:
            return None
        v = e.value
        if v.bounds:
            return v.bounds
        r = self.state.get(v)
        return r if r is not None and r != () else (0, 0) if v.undefined else ALL

    def _range_builtin(self, e):
        return _BUILTIN[e.value]

    def _range_lane(self, e):
        return 0, 31

    def _range_size(self, e):
        return 0, self.most

    def _range_stride(self, e):
        return -self.most, self.most

    _range_start = _range_size

    def _range_load(self, e):
        for a in e.args:
            self.eval(a)
        m = e.value
        if e.type not in INTEGERS:
            return None
        if m.values is not None:
            return (int(m.values.min()), int(m.values.max())) if m.values.size else (0, 0)
        if hasattr(m, 'items'):
            return self.hull_of(m.items)
        return of_dtype(m.dtype)

    def hull_of(self, items):
        "Return the interval that contains all of the `items`"
        r = None
        for operand in items:
            r = hull(r, self.eval(operand))
        return r

    def _range_atomic(self, e):
        for a in e.args:
            self.eval(a)
        return of_dtype(e.value.memory.dtype) if e.type in INTEGERS else None

    def _range_call(self, e):
        for a in e.args:
            self.eval(a)
        return (e.value.low, e.value.high) if e.type in INTEGERS and e.value.low is not None else None

    def _range_flag(self, e):
        self.eval(e.args[0])
        return 0, 1

    def _range_shuffle(self, e):
        return [self.eval(a) for a in e.args][0]

    def _range_let(self, e):
        r = self.eval(e.args[0])
        self.set_interval(e.value, r)
        return r

    def _range_neg(self, e):
        r = self.eval(e.args[0])
        return clip(-r[1], -r[0]) if is_int(e.type) else None

    def _range_invert(self, e):
        r = self.eval(e.args[0])
        return (~r[1], ~r[0]) if e.type == INT else (2**64 - 1 - r[1], 2**64 - 1 - r[0])

    def _range_abs(self, e):
        low, high = self.eval(e.args[0])
        return clip(0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high)))

    def _range_cast(self, e):
        a = e.args[0]
        r = self.eval(a)
        if (
            e.type == INT
            and a.op == 'math'
            and a.value in ('floor', 'ceil', 'trunc', 'rint')
            and a.args[0].op == 'truediv'
            and all(operand.type in INTEGERS for operand in a.args[0].args)
        ):
            low, high = self.interval_of(a.args[0].args[0])  # a quotient of integers is not larger than the dividend
            if self.interval_of(a.args[0].args[1])[0] < 0:
                return min(low, 0, -high), max(high, 0, -low)
            return min(low, 0), max(high, 0)
        if e.type not in INTEGERS:
            return None
        full = of_dtype(e.value)
        return r if r is not None and within(r, full) else full

    def _range_bits(self, e):
        self.eval(e.args[0])
        return None if e.value == 'brev' else (0, 64)

    def _range_select(self, e):
        self.eval(e.args[0])
        state_before = dict(self.state)
        self.refine(e.args[0], True)
        a = self.eval(e.args[1])
        self.state = dict(state_before)
        self.refine(e.args[0], False)
        b = self.eval(e.args[2])
        self.state = state_before
        return hull(a, b) if a is not None and b is not None else None

    def _range_land(self, e):
        return self.short_circuit(e, True)

    def _range_lor(self, e):
        return self.short_circuit(e, False)

    def short_circuit(self, e, is_true):
        "Evaluate `a and b`, `a or b`: the second operand where the first one is true (`is_true`) or false"
        a = self.eval(e.args[0])
        state_before = dict(self.state)
        self.refine(e.args[0], is_true)
        b = self.eval(e.args[1])
        self.state = {**state_before, **{k: v for k, v in self.state.items() if k not in state_before}}
        return hull(a, b) if None not in (a, b) else None

    _range_value_land, _range_value_lor = _range_land, _range_lor

    def _range_device(self, e):
        return self.run(e.value, [self.argument(a) for a in e.args])

    def argument(self, a):
        "Return the interval of an argument of a device function; a tuple has several"
        if a.op == 'tuple':
            return tuple(map(self.argument, a.args))
        return self.view(a.value) if a.op == 'view' else self.eval(a)

    def view(self, v):
        "Evaluate the offset, sizes and strides of an array"
        for part in v.parts():
            self.eval(part)

    def _range_view(self, e):
        self.view(e.value)

    def _range_field(self, e):
        r = self.state.get(e.args[0].value)
        return r[e.value] if isinstance(r, tuple) and e.type in INTEGERS else None


# Where `i < n` is true, `i` is at most the upper bound of `n` minus one, and `n` is at least the lower bound of `i`
# plus one. With n in [0, 100] and i in [0, 2**31], the branch of `if i < n` has i in [0, 99] and n in [1, 100].
class _Conditions:
    "Narrow the intervals of variables by a condition that holds"

    def refine(self, c, is_true):
        "Narrow the intervals to those where the condition `c` is true, or false"
        if c.op == 'not':
            self.refine(c.args[0], not is_true)
        elif c.op == ('land' if is_true else 'lor'):
            for a in c.args:
                self.refine(a, is_true)
        elif c.op == 'truth' and c.args[0].type in INTEGERS:
            self.narrow_by_comparison(c.args[0], '!=' if is_true else '==', ZERO)
        elif (
            c.op == 'cmp'
            and all(a.type in INTEGERS for a in c.args)
            and not comparison_rounds(*c.args, self.interval_of)
        ):
            a, b = c.args
            op = c.value if is_true else _NEGATED_COMPARISON[c.value]
            self.narrow_by_comparison(a, op, b)
            self.narrow_by_comparison(b, _SWAPPED_COMPARISON[op], a)

    def interval_of(self, e):
        "Return the interval of `e` in the current state, without recording it"
        recording, self.recording = self.recording, False
        r = self.eval(e)
        self.recording = recording
        return r

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

    def narrow(self, e, low, high):
        "Narrow a variable, or the variable in `i + 1`, to `low` to `high`"
        if e.op == 'let':
            e = Expr('var', e.type, value=e.value)
        if e.op == 'var' and e.value in self.state:
            old = self.state[e.value]
            if max(low, old[0]) <= min(high, old[1]):
                self.state[e.value] = max(low, old[0]), min(high, old[1])
        elif e.op in ('add', 'sub') and number(e.args[1]) is not None:
            k = number(e.args[1]) * (1 if e.op == 'add' else -1)
            self.narrow(e.args[0], low - k, high - k)


# A loop is a fixed point: its body is run from the state at its head, the state after the body is joined with that at
# the head, until nothing changes. `i += 1` would grow in each iteration and never end. So from the third iteration on
# an interval that still grows is widened: to what a loop with a known number of iterations can add up to (`ahead`,
# `growth`), else to the next of a few bounds (`widen`). Widening goes too far, so two more iterations narrow the
# intervals again. A last iteration from the fixed point records the intervals of the body's expressions.
class _Blocks:
    "Run statements on intervals: one method `_run_...` per kind"

    def block(self, body):
        "Run statements, up to one after which code is unreachable"
        for s in body:
            if self.state is None:
                return
            getattr(self, '_run_' + s.kind)(s)

    def evaluate(self, s):
        "Run a statement that changes no variable"
        for e in expressions(s):
            self.eval(e)

    _run_pointer = _run_alloc = _run_store = _run_expr = _run_print = _run_assert = _run_nothing = evaluate

    def _run_assign(self, s):
        r = self.eval(s.expr)
        if s.var.type in INTEGERS:
            self.set_interval(s.var, r if r is not None else ALL)
        elif r is not None:
            self.state[s.var] = r

    def _run_return(self, s):
        parts = [self.eval(e) for e in s.args]
        if parts:
            self.returned = (
                tuple(hull(a, b) for a, b in zip(self.returned or (None,) * len(parts), parts))
                if len(parts) > 1
                else hull(self.returned, parts[0])
            )
        self.state = None

    def _run_break(self, s):
        self.leave(0)

    def _run_continue(self, s):
        self.leave(1)

    def leave(self, n):
        "Leave the loop (0) or the iteration (1): join the current state with that at its end"
        self.loops[-1][n], self.state = _join_states(self.loops[-1][n], self.state), None

    def _run_if(self, s):
        self.eval(s.test)
        state_before = self.state
        self.state = dict(state_before)
        self.refine(s.test, True)
        self.block(s.body)
        is_true, self.state = self.state, dict(state_before)
        self.refine(s.test, False)
        self.block(s.orelse)
        self.state = _join_states(is_true, self.state)

    def _run_while(self, s):
        def head():
            self.eval(s.test)
            self.exit_state = dict(self.state)
            before, self.state = self.state, self.exit_state
            self.refine(s.test, False)
            self.exit_state, self.state = self.state, before
            if s.test.op == 'const' and s.test.value:
                self.exit_state = None
            self.refine(s.test, True)

        self.loop(s, head, None)

    def _run_for(self, s):
        start = self.eval(s.start)
        stop = self.eval(s.stop)
        step = self.eval(s.step)
        if step[0] > 0:
            r, trips = (start[0], stop[1] - 1), -((start[0] - stop[1]) // step[0])
        elif step[1] < 0:
            r, trips = (stop[0] + 1, start[1]), -((stop[0] - start[1]) // -step[1])
        else:
            r, trips = (min(start[0], stop[0] + 1), max(start[1], stop[1] - 1)), None
        self.trip_counts[id(s)] = trips if trips is None else max(trips, 0)
        if r[0] > r[1]:
            r = start

        def head():
            self.exit_state = dict(self.state)
            self.set_interval(s.var, r)

        self.loop(s, head, self.trip_counts[id(s)])

    def _run_each(self, s):
        self.trip_counts[id(s)] = s.count
        values = [(c.var, self.hull_of(c.items)) for c in s.columns]

        def head():
            self.exit_state = dict(self.state)
            for v, r in values:
                if r is not None:
                    self.set_interval(v, r)

        self.loop(s, head, s.count)

    def loop(self, loop, run_head, trips):
        "Run the body until the state at its head is a fixed point, then once more to record the intervals"
        entry, recording = self.state, self.recording
        self.recording, head_state = False, dict(entry)
        for iteration in range(60):
            back_state = self.iteration(loop, run_head, head_state)
            new_state = head_state if back_state is None else _join_states(head_state, back_state)
            if new_state == head_state:
                break
            if iteration >= 2:
                new_state = {
                    k: self.widen_at_head(loop, k, entry.get(k), head_state.get(k), new_state[k], trips)
                    for k in new_state
                }
            head_state = new_state
        for _ in range(2):
            back_state = self.iteration(loop, run_head, head_state)
            if back_state is not None:
                head_state |= {
                    k: hull(entry[k], back_state[k])
                    for k in head_state
                    if _is_pair(entry.get(k)) and _is_pair(back_state.get(k))
                }
        self.recording = recording
        self.iteration(loop, run_head, head_state)
        self.state = _join_states(self.exit_state, self.break_state)

    def iteration(self, loop, run_head, head_state):
        "Run one iteration from the state `head_state`; return the state that comes back to the head"
        self.loops.append([None, None])
        self.state = dict(head_state)
        run_head()
        exit_state = self.exit_state
        self.block(loop.body)
        self.break_state, continue_state = self.loops.pop()
        back_state, self.exit_state = _join_states(self.state, continue_state), exit_state
        return back_state

    def widen_at_head(self, s, v, entry, old, new, trips):
        "Return the interval of `v` at the head of a loop in which it grows from `old` to `new`, widened"
        if new == old or not _is_pair(new):
            return new
        grows = self.growth(v, s.body, 1) if trips is not None and _is_pair(entry) else None
        if grows:
            return clip(entry[0] + trips * min(grows[0], 0), entry[1] + trips * max(grows[1], 0))
        return widen(old, new)

    def growth(self, v, body, times):
        "Return the interval of what an iteration adds to `v`; None if it does anything else to `v`"
        low = high = 0
        assigned = {stmt.var for stmt in statements(body) if hasattr(stmt, 'var')}
        for stmt in body:
            if stmt.kind == 'assign' and stmt.var is v:
                added = self.addend(v, stmt.expr, assigned)
                if added is None:
                    return
                low, high = low + times * min(added[0], 0), high + times * max(added[1], 0)
            elif getattr(stmt, 'var', None) is v or stmt.kind == 'each' and any(c.var is v for c in stmt.columns):
                return
            elif blocks(stmt):
                if v not in {p.var for p in statements([stmt]) if hasattr(p, 'var')}:
                    continue
                if stmt.kind == 'while' or stmt.kind in ('for', 'each') and self.trip_counts.get(id(stmt)) is None:
                    return
                for b in blocks(stmt):
                    added = self.growth(v, b, times * (self.trip_counts[id(stmt)] if stmt.kind != 'if' else 1))
                    if added is None:
                        return
                    low, high = low + added[0], high + added[1]
        return low, high

    def addend(self, v, e, assigned):
        "Return the interval of what `e` adds to `v`: that of `k` in `v + k`; None if it does something else"
        if e.op == 'var' and e.value is v:
            return 0, 0
        if e.op not in ('add', 'sub'):
            return
        a, b = e.args
        if b.op == 'var' and b.value is v and e.op == 'add':
            a, b = b, a
        if not (a.op == 'var' and a.value is v) or any(
            part.op == 'var' and (part.value is v or part.value in assigned and not part.value.type == BOOL)
            for part in walk(b)
        ):
            return
        state, self.state = self.state, dict(self.state or {})
        added = self.eval(b)
        self.state = state
        return added if e.op == 'add' else (-added[1], -added[0])


# `state` maps each variable to its interval here, and is None in unreachable code: after `return`, `break`, `continue`.
# `expr_intervals` has the widest interval that each expression ever has, `var` that of each variable; both are written
# while `recording`. `run` goes into device functions with the intervals of the arguments; recursion is refused earlier.
class Ranges(_Values, _Conditions, _Blocks):
    "Computes the intervals of a unit's expressions (`of(e)`) and variables (`var[v]`)"

    def __init__(self, unit, clamped=()):
        self.unit = unit
        self.clamped = clamped  # variables that fit an `int` by `c_types.index_like`
        self.expr_intervals, self.var = {}, {}
        self.recording = True
        self.most = HIGH if unit.wide else INT_LIMIT
        self.trip_counts = {}  # id of a loop -> its maximum number of iterations
        self.visited_functions = []  # the functions, callers first
        self.run(unit.main, None)

    def of(self, e):
        "Return the interval of an expression: `ranges.of(e)` is (0, 1023)"
        return self.expr_intervals.get(id(e), ALL)

    def run(self, f, args):
        "Run the function `f` on the intervals `args`; return the interval of what it returns"
        if f not in self.visited_functions:
            self.visited_functions.append(f)
        outer = getattr(self, 'state', None), getattr(self, 'loops', None), getattr(self, 'returned', None)
        self.state = {}
        self.loops = []
        self.returned = None
        for n, e in enumerate(f.parameter_exprs):
            self.set_parameter(e, args[n] if args else None)
        self.block(f.body)
        returned = self.returned
        self.state, self.loops, self.returned = outer
        return returned

    def set_parameter(self, e, r):
        "Give a parameter the interval `r`"
        if e.op == 'tuple':
            for n, part in enumerate(e.args):
                self.set_parameter(part, r[n] if r else None)
        if e.op == 'var' and e.type in INTEGERS:
            k = e.value.parameter
            self.set_interval(e.value, r if r is not None else self.of_parameter(e.value, k))

    def of_parameter(self, v, described):
        "Return the interval of a parameter of the kernel"
        if described is None or described.dtype != 'int':
            return of_dtype('int64' if described is None else described.dtype)
        low, high = (LOW, HIGH) if self.unit.wide else (-INT_LIMIT, INT_LIMIT)
        return self.unit.minimums.get(v, low), high

    def set_interval(self, v, r):
        "Assign a value in the interval `r` to the variable `v`"
        if v in self.clamped and r is not None:
            r = (
                (max(r[0], -INT_LIMIT), min(r[1], INT_LIMIT))
                if max(r[0], -INT_LIMIT) <= min(r[1], INT_LIMIT)
                else (-INT_LIMIT, INT_LIMIT)
            )
        self.state[v] = r
        if self.recording and isinstance(r, tuple) and r and not isinstance(r[0], (tuple, type(None))):
            self.var[v] = hull(self.var.get(v), r)


def _is_pair(r):
    return isinstance(r, tuple) and len(r) == 2 and isinstance(r[0], int)


def _join_states(a, b):
    "Join the states of two paths that meet: None is that of an unreachable path"
    if a is None or b is None:
        return b if a is None else a
    return {
        k: hull(a[k], b[k]) if k in a and k in b and _is_pair(a[k]) and _is_pair(b[k]) else a.get(k, b.get(k))
        for k in {**a, **b}
    }
