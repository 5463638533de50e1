"""How large the integers of a kernel can get, and so which of them are an `int` in C.

Python's integers in a kernel have 64 bits, and most need far fewer. The kernel is run once on intervals
instead of values: `threadIdx.x` is 0 to 1023, the size of an array 0 to a bit less than 2**31, a sum is
between the sums of the bounds. Conditions narrow the intervals in their branches, and loops run until
nothing grows any more.
"""

from functools import lru_cache

import numpy as np

from .tree import ZERO, E, blocks, every, expressions, functions, number, statements, walk
from .types import BOOL, C_NAMES, DOUBLE, FLOAT, HALF, INT, MOST, UINT, WEAK, WHOLE, Array, is_int, is_number, unsigned

LOW, HIGH = -(2**63), 2**63 - 1
ALL = LOW, HIGH
U64 = 0, 2**64 - 1
INT32, UINT32 = (-(2**31), 2**31 - 1), (0, 2**32 - 1)


def within(a, b):
    "Is the interval `a` a part of `b`?"
    return b[0] <= a[0] and a[1] <= b[1]


def hull(a, b):
    "The least interval that holds both; None is the empty one"
    return b if a is None else a if b is None else (min(a[0], b[0]), max(a[1], b[1]))


def clip(lo, hi):
    "The interval, or all of 64 bits if it does not fit into them"
    return (lo, hi) if LOW <= lo and hi <= HIGH else ALL


_EXACT = -(2**53) + 1, 2**53 - 1  # which float64 has exactly


def rounds(a, b, interval):
    "Does comparing `a` and `b` as float64, as Numba does with a uint64 and a signed integer, round them?"
    if not (is_int(a.type) and is_int(b.type) and UINT in (a.type, b.type)):
        return False
    return not all(unsigned(o.type) for o in (a, b)) and not any(within(interval(o), _EXACT) for o in (a, b))


@lru_cache
def of_dtype(dtype):
    "All values of an integer of type `dtype`"
    if dtype == 'bool':
        return 0, 1
    i = np.iinfo(dtype)
    return int(i.min), int(i.max)


def _corners(f, a, b):
    v = [f(x, y) for x in a for y in b]
    return clip(min(v), max(v))


def _floordiv(a, b):
    if b[0] <= 0 <= b[1]:  # leave out the division by 0, which has no meaning
        parts = [o for o in ((b[0], -1), (1, b[1])) if o[0] <= o[1]]
        if not parts:
            return 0, 0
        res = None
        for o in parts:
            res = hull(res, _floordiv(a, o))
        return hull(res, (0, 0)) if b[0] < 0 else res
    return _corners(lambda x, y: x // y, a, b)


def _mod(a, b):
    if b[0] > 0 and a[0] >= 0:
        return (0, min(a[1], b[1] - 1)) if a[1] >= b[0] or a[0] != a[1] else a
    return min(b[0] + 1, 0), max(b[1] - 1, 0)


def _bits(n):
    return (1 << n.bit_length()) - 1


def _and(a, b):
    if a[0] >= 0 and b[0] >= 0:
        return 0, min(a[1], b[1])
    if a[0] >= 0 or b[0] >= 0:
        return 0, (a if a[0] >= 0 else b)[1]
    return -_bits(-min(a[0], b[0])) - 1, max(a[1], b[1], 0)


def _or(a, b):
    if a[0] >= 0 and b[0] >= 0:
        return max(a[0], b[0]), _bits(max(a[1], b[1]))
    m = max(_bits(abs(o)) for o in (*a, *b))
    return -m - 1, m


def _shl(a, b):
    return _corners(lambda x, y: x << y, a, (max(b[0], 0), min(max(b[1], 0), 64))) if b[1] >= 0 else ALL


def _shr(a, b):
    return _corners(lambda x, y: x >> y, a, (max(b[0], 0), min(max(b[1], 0), 64)))


def _pow(a, b):
    if b[0] < 0 or b[1] > 64:
        return ALL
    if a[0] >= 0:
        return _corners(lambda x, y: x**y, a, b)
    most = max(abs(a[0]), abs(a[1])) ** b[1]
    return clip(-most, most)


_OPS = dict(
    add=lambda a, b: clip(a[0] + b[0], a[1] + b[1]),
    sub=lambda a, b: clip(a[0] - b[1], a[1] - b[0]),
    mul=lambda a, b: _corners(lambda x, y: x * y, a, b),
    floordiv=_floordiv,
    mod=_mod,
    shl=_shl,
    shr=_shr,
    **{'and': _and, 'or': _or, 'xor': lambda a, b: (0, _or(a, b)[1]) if a[0] >= 0 and b[0] >= 0 else _or(a, b)},
    pow=_pow,
    min=lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    max=lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    cmod=lambda a, b: (-max(abs(a[0]), abs(a[1])), max(abs(a[0]), abs(a[1]))),
)


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
_STEPS = sorted(
    {0, 1, 2, 31, 32, 63, 127, 255, 511, 1023, 2047, 65535, MOST, 2**31 - 1, 2**32 - 1, HIGH}
    | {-1, -2, -32, -1024, -65536, -MOST, -(2**31), LOW}
)
_FLIP = {'<': '>', '<=': '>=', '>': '<', '>=': '<=', '==': '==', '!=': '!='}
_NOT = {'<': '>=', '<=': '>', '>': '<=', '>=': '<', '==': '!=', '!=': '=='}


def _widen(a, b):
    "An interval that holds `a` and `b`, whose bounds are of few kinds, so that loops come to an end"
    if a is None:
        return b
    return a[0] if b[0] >= a[0] else max(o for o in _STEPS if o <= b[0]), a[1] if b[1] <= a[1] else min(
        o for o in _STEPS if o >= b[1]
    )


# The interval of an expression, noted as the widest that it ever has.
class _Values:
    "The intervals of expressions: one method `e_...` per operation"

    def eval(self, e):
        "The interval of `e`; None for what is not an integer"
        r = getattr(self, 'e_' + e.op)(e)
        if e.type == BOOL:
            r = hull(r, None) if r is not None and within(r, (0, 1)) else (0, 1)
        if is_int(e.type) and (r is None or not within(r, of_dtype(e.type))):
            r = of_dtype(e.type)
        if self.recording and e.type in WHOLE:
            self.nodes[id(e)] = hull(self.nodes.get(id(e)), r)
        return r

    def operation(self, e):
        "Arithmetic of integers"
        parts = [self.eval(a) for a in e.args]
        if not is_int(e.type) or None in parts:
            return None
        if e.type == INT:
            parts = [r if within(r, ALL) else ALL for r in parts]
        return self.contract(e, _OPS[e.op](*parts))

    e_add = e_sub = e_mul = e_floordiv = e_mod = e_cmod = e_pow = e_min = e_max = operation
    e_shl = e_shr = e_and = e_or = e_xor = operation

    def unknown(self, e):
        "What is not an integer, or may be any"
        for a in e.args:
            self.eval(a)

    e_truediv = e_fmin = e_fmax = e_math = e_test_real = e_truth = e_not = e_cmp = unknown
    e_size_of = e_address = e_inside = e_pointer_to = e_tuple = e_object = unknown

    def contract(self, e, r):
        "Blocks times threads of an axis stay below 2**31"
        if e.op != 'mul' or self.unit.wide:
            return r
        names = {a.value for a in e.args if a.op == 'builtin'}
        small = all(
            a.op == 'builtin' and a.value.startswith(('gridDim', 'blockIdx')) or within(self.of_quick(a), (0, 2**16))
            for a in e.args
        )
        for k, low in (('blockIdx', 0), ('gridDim', 1)):
            if small and any(n.startswith(k) for n in names):
                return max(r[0], low), min(r[1], MOST - 2048)
        return r

    def e_const(self, e):
        return (int(e.value),) * 2 if e.type in WHOLE else None

    def e_global(self, e):
        return (int(e.value[1]),) * 2 if e.type in WHOLE else None

    def e_var(self, e):
        if e.type not in WHOLE:
            return None
        v = e.value
        if v.bounds:
            return v.bounds
        r = self.state.get(v)
        return r if r is not None and r != () else (0, 0) if v.undefined else ALL

    def e_builtin(self, e):
        return _BUILTIN[e.value]

    def e_lane(self, e):
        return 0, 31

    def e_size(self, e):
        return 0, self.most

    def e_stride(self, e):
        return -self.most, self.most

    e_start = e_size

    def e_load(self, e):
        for a in e.args:
            self.eval(a)
        m = e.value
        if e.type not in WHOLE:
            return None
        if m.values is not None:
            return (int(m.values.min()), int(m.values.max())) if m.values.size else (0, 0)
        if hasattr(m, 'items'):
            return self.hull_of(m.items)
        return of_dtype(m.dtype)

    def hull_of(self, items):
        r = None
        for o in items:
            r = hull(r, self.eval(o))
        return r

    def e_atomic(self, e):
        for a in e.args:
            self.eval(a)
        return of_dtype(e.value.memory.dtype) if e.type in WHOLE else None

    def e_call(self, e):
        for a in e.args:
            self.eval(a)
        return (e.value.low, e.value.high) if e.type in WHOLE and e.value.low is not None else None

    def e_flag(self, e):
        self.eval(e.args[0])
        return 0, 1

    def e_shuffle(self, e):
        return [self.eval(a) for a in e.args][0]

    def e_let(self, e):
        r = self.eval(e.args[0])
        self.put(e.value, r)
        return r

    def e_neg(self, e):
        r = self.eval(e.args[0])
        return clip(-r[1], -r[0]) if is_int(e.type) else None

    def e_invert(self, e):
        r = self.eval(e.args[0])
        return (~r[1], ~r[0]) if e.type == INT else (2**64 - 1 - r[1], 2**64 - 1 - r[0])

    def e_abs(self, e):
        lo, hi = self.eval(e.args[0])
        return clip(0 if lo <= 0 <= hi else min(abs(lo), abs(hi)), max(abs(lo), abs(hi)))

    def e_cast(self, e):
        a = e.args[0]
        r = self.eval(a)
        if (
            e.type == INT
            and a.op == 'math'
            and a.value in ('floor', 'ceil', 'trunc', 'rint')
            and a.args[0].op == 'truediv'
            and all(o.type in WHOLE for o in a.args[0].args)
        ):
            lo, hi = self.of_quick(a.args[0].args[0])  # a quotient of integers is not larger than the dividend
            return (
                (min(lo, 0, -hi), max(hi, 0, -lo))
                if self.of_quick(a.args[0].args[1])[0] < 0
                else (min(lo, 0), max(hi, 0))
            )
        if e.type not in WHOLE:
            return None
        full = of_dtype(e.value)
        return r if r is not None and within(r, full) else full

    def e_bits(self, e):
        self.eval(e.args[0])
        return None if e.value == 'brev' else (0, 64)

    def e_select(self, e):
        self.eval(e.args[0])
        before = dict(self.state)
        self.refine(e.args[0], True)
        a = self.eval(e.args[1])
        self.state = dict(before)
        self.refine(e.args[0], False)
        b = self.eval(e.args[2])
        self.state = before
        return hull(a, b) if a is not None and b is not None else None

    def e_land(self, e):
        return self.second(e, True)

    def e_lor(self, e):
        return self.second(e, False)

    def second(self, e, yes):
        "The first part, then the second one where it matters"
        a = self.eval(e.args[0])
        before = dict(self.state)
        self.refine(e.args[0], yes)
        b = self.eval(e.args[1])
        self.state = {**before, **{k: v for k, v in self.state.items() if k not in before}}
        return hull(a, b) if None not in (a, b) else None

    e_value_land, e_value_lor = e_land, e_lor

    def e_device(self, e):
        return self.run(e.value, [self.argument(a) for a in e.args])

    def argument(self, a):
        return (
            tuple(map(self.argument, a.args))
            if a.op == 'tuple'
            else self.view(a.value)
            if a.op == 'view'
            else self.eval(a)
        )

    def view(self, v):
        for o in v.parts():
            self.eval(o)

    def e_view(self, e):
        self.view(e.value)

    def e_field(self, e):
        r = self.state.get(e.args[0].value)
        return r[e.value] if isinstance(r, tuple) and e.type in WHOLE else None

    def of_quick(self, e):
        recording, self.recording = self.recording, False
        r = self.eval(e)
        self.recording = recording
        return r


# Where `i < n` is true, `i` is at most as large as the largest `n`, less one, and `n` is at least one more
# than the least `i`.
class _Conditions:
    "What a condition that holds says of the variables in it"

    def refine(self, c, yes):
        "Narrow the intervals to where the condition `c` is true, or where it is not"
        if c.op == 'not':
            self.refine(c.args[0], not yes)
        elif c.op == ('land' if yes else 'lor'):
            for a in c.args:
                self.refine(a, yes)
        elif c.op == 'truth' and c.args[0].type in WHOLE:
            self.order(c.args[0], '!=' if yes else '==', ZERO)
        elif c.op == 'cmp' and all(a.type in WHOLE for a in c.args) and not rounds(*c.args, self.known):
            a, b = c.args
            op = c.value if yes else _NOT[c.value]
            self.order(a, op, b)
            self.order(b, _FLIP[op], a)

    def known(self, e):
        "The interval of `e` by what is known now; nothing is recorded"
        recording, self.recording = self.recording, False
        r = self.eval(e)
        self.recording = recording
        return r

    def order(self, a, op, b):
        "Narrow `a`, of which `a op b` is known"
        (lo, hi), (blo, bhi) = self.known(a), self.known(b)
        if op == '<':
            hi = min(hi, bhi - 1)
        if op == '<=':
            hi = min(hi, bhi)
        if op == '>':
            lo = max(lo, blo + 1)
        if op == '>=':
            lo = max(lo, blo)
        if op == '==':
            lo, hi = max(lo, blo), min(hi, bhi)
        if op == '!=' and blo == bhi:
            lo, hi = lo + (lo == blo), hi - (hi == blo)
        if lo <= hi:
            self.narrow(a, lo, hi)

    def narrow(self, e, lo, hi):
        if e.op == 'let':
            e = E('var', e.type, value=e.value)
        if e.op == 'var' and e.value in self.state:
            old = self.state[e.value]
            if max(lo, old[0]) <= min(hi, old[1]):
                self.state[e.value] = max(lo, old[0]), min(hi, old[1])
        elif e.op in ('add', 'sub') and number(e.args[1]) is not None:
            k = number(e.args[1]) * (1 if e.op == 'add' else -1)
            self.narrow(e.args[0], lo - k, hi - k)


# A loop is run until the state at its head stays; what keeps growing is widened to one of a few bounds, or,
# where a loop with a known number of iterations does nothing but add, to what it can add up to. Then the bounds
# are tightened again, and a last iteration is noted.
class _Blocks:
    "What statements do to the intervals of variables: one method `s_...` per kind"

    def block(self, body):
        for s in body:
            if self.state is None:
                return
            getattr(self, 's_' + s.kind)(s)

    def evaluate(self, s):
        "A statement that changes no variable"
        for e in expressions(s):
            self.eval(e)

    s_pointer = s_alloc = s_store = s_expr = s_print = s_assert = s_nothing = evaluate

    def s_assign(self, s):
        r = self.eval(s.expr)
        if s.var.type in WHOLE:
            self.put(s.var, r if r is not None else ALL)
        elif r is not None:
            self.state[s.var] = r

    def s_return(self, s):
        parts = [self.eval(e) for e in s.args]
        if parts:
            self.returned = (
                tuple(hull(a, b) for a, b in zip(self.returned or (None,) * len(parts), parts))
                if len(parts) > 1
                else hull(self.returned, parts[0])
            )
        self.state = None

    def s_break(self, s):
        self.leave(0)

    def s_continue(self, s):
        self.leave(1)

    def leave(self, n):
        self.loops[-1][n], self.state = _meet(self.loops[-1][n], self.state), None

    def s_if(self, s):
        self.eval(s.test)
        before = self.state
        self.state = dict(before)
        self.refine(s.test, True)
        self.block(s.body)
        yes, self.state = self.state, dict(before)
        self.refine(s.test, False)
        self.block(s.orelse)
        self.state = _meet(yes, self.state)

    def s_while(self, s):
        def head():
            self.eval(s.test)
            self.after = dict(self.state)
            before, self.state = self.state, self.after
            self.refine(s.test, False)
            self.after, self.state = self.state, before
            if s.test.op == 'const' and s.test.value:
                self.after = None
            self.refine(s.test, True)

        self.loop(s, head, None)

    def s_for(self, s):
        start, stop, step = self.eval(s.start), self.eval(s.stop), self.eval(s.step)
        if step[0] > 0:
            r, trips = (start[0], stop[1] - 1), -((start[0] - stop[1]) // step[0])
        elif step[1] < 0:
            r, trips = (stop[0] + 1, start[1]), -((stop[0] - start[1]) // -step[1])
        else:
            r, trips = (min(start[0], stop[0] + 1), max(start[1], stop[1] - 1)), None
        self.trips[id(s)] = trips if trips is None else max(trips, 0)
        if r[0] > r[1]:
            r = start

        def head():
            self.after = dict(self.state)
            self.put(s.var, r)

        self.loop(s, head, self.trips[id(s)])

    def s_each(self, s):
        self.trips[id(s)] = s.count
        values = [(c.var, self.hull_of(c.items)) for c in s.columns]

        def head():
            self.after = dict(self.state)
            for v, r in values:
                if r is not None:
                    self.put(v, r)

        self.loop(s, head, s.count)

    def loop(self, s, head, trips):
        "Run the body until the state at its head stays, then once more to note what is found"
        entry, recording = self.state, self.recording
        self.recording, at = False, dict(entry)
        for n in range(60):
            back = self.turn(s, head, at)
            new = at if back is None else _meet(at, back)
            if new == at:
                break
            if n >= 2:
                new = {k: self.ahead(s, k, entry.get(k), at.get(k), new[k], trips) for k in new}
            at = new
        for _ in range(2):
            back = self.turn(s, head, at)
            if back is not None:
                at |= {k: hull(entry[k], back[k]) for k in at if _is_pair(entry.get(k)) and _is_pair(back.get(k))}
        self.recording = recording
        self.turn(s, head, at)
        self.state = _meet(self.after, self.broken)

    def turn(self, s, head, at):
        "One iteration from the state `at`; the state that comes back to the head"
        self.loops.append([None, None])
        self.state = dict(at)
        head()
        after = self.after
        self.block(s.body)
        self.broken, again = self.loops.pop()
        back, self.after = _meet(self.state, again), after
        return back

    def ahead(self, s, v, entry, old, new, trips):
        "The interval of `v` at the head of a loop in which it grows from `old` to `new`"
        if new == old or not _is_pair(new):
            return new
        grows = self.growth(v, s.body, 1) if trips is not None and _is_pair(entry) else None
        if grows:
            return clip(entry[0] + trips * min(grows[0], 0), entry[1] + trips * max(grows[1], 0))
        return _widen(old, new)

    def growth(self, v, body, times):
        "By how much an iteration changes `v`, if all it does is to add; else None"
        lo = hi = 0
        assigned = {o.var for o in statements(body) if hasattr(o, 'var')}
        for o in body:
            if o.kind == 'assign' and o.var is v:
                d = self.addend(v, o.expr, assigned)
                if d is None:
                    return
                lo, hi = lo + times * min(d[0], 0), hi + times * max(d[1], 0)
            elif getattr(o, 'var', None) is v or o.kind == 'each' and any(c.var is v for c in o.columns):
                return
            elif blocks(o):
                if v not in {p.var for p in statements([o]) if hasattr(p, 'var')}:
                    continue
                if o.kind == 'while' or o.kind in ('for', 'each') and self.trips.get(id(o)) is None:
                    return
                for b in blocks(o):
                    d = self.growth(v, b, times * (self.trips[id(o)] if o.kind != 'if' else 1))
                    if d is None:
                        return
                    lo, hi = lo + d[0], hi + d[1]
        return lo, hi

    def addend(self, v, e, assigned):
        "The interval of what `e` adds to `v`"
        if e.op == 'var' and e.value is v:
            return 0, 0
        if e.op not in ('add', 'sub'):
            return
        a, b = e.args
        if b.op == 'var' and b.value is v and e.op == 'add':
            a, b = b, a
        if not (a.op == 'var' and a.value is v) or any(
            o.op == 'var' and (o.value is v or o.value in assigned and not o.value.type == BOOL) for o in walk(b)
        ):
            return
        state, self.state = self.state, dict(self.state or {})
        d = self.eval(b)
        self.state = state
        return d if e.op == 'add' else (-d[1], -d[0])


# The state maps each variable to its interval, and is None in unreachable code. `run` goes into device
# functions with the intervals of the arguments; recursion is refused earlier.
class Ranges(_Values, _Conditions, _Blocks):
    "The intervals of a unit's expressions (`of`) and variables (`var`)"

    def __init__(self, unit, clamped=()):
        self.unit, self.clamped, self.nodes, self.var, self.recording = unit, clamped, {}, {}, True
        self.most = HIGH if unit.wide else MOST
        self.trips = {}  # by the identity of a loop: how often it goes round at most
        self.reached = []  # the functions, callers first
        self.run(unit.main, None)

    def of(self, e):
        "The interval of an expression"
        return self.nodes.get(id(e), ALL)

    def run(self, f, args):
        "The function `f` with the intervals `args`; the interval of what it returns"
        if f not in self.reached:
            self.reached.append(f)
        outer = getattr(self, 'state', None), getattr(self, 'loops', None), getattr(self, 'returned', None)
        self.state, self.loops, self.returned = {}, [], None
        for n, e in enumerate(f.given):
            self.give(e, args[n] if args else None)
        self.block(f.body)
        res = self.returned
        self.state, self.loops, self.returned = outer
        return res

    def give(self, e, r):
        "The interval of a parameter"
        if e.op == 'tuple':
            for n, o in enumerate(e.args):
                self.give(o, r[n] if r else None)
        if e.op == 'var' and e.type in WHOLE:
            k = e.value.parameter
            self.put(e.value, r if r is not None else self.of_parameter(e.value, k))

    def of_parameter(self, v, k):
        "The interval of a parameter of the kernel"
        if k is None or k.dtype != 'int':
            return of_dtype('int64' if k is None else k.dtype)
        low, high = (LOW, HIGH) if self.unit.wide else (-MOST, MOST)
        return self.unit.least.get(v, low), high

    def put(self, v, r):
        "Note that the variable `v` has a value in the interval `r`"
        if v in self.clamped and r is not None:
            r = (max(r[0], -MOST), min(r[1], MOST)) if max(r[0], -MOST) <= min(r[1], MOST) else (-MOST, MOST)
        self.state[v] = r
        if self.recording and isinstance(r, tuple) and r and not isinstance(r[0], (tuple, type(None))):
            self.var[v] = hull(self.var.get(v), r)


def _is_pair(r):
    return isinstance(r, tuple) and len(r) == 2 and isinstance(r[0], int)


def _meet(a, b):
    "The state where two ways come together"
    if a is None or b is None:
        return b if a is None else a
    return {
        k: hull(a[k], b[k]) if k in a and k in b and _is_pair(a[k]) and _is_pair(b[k]) else a.get(k, b.get(k))
        for k in {**a, **b}
    }


# A variable whose interval does not fit may be an `int` all the same where that changes nothing: its low 32
# bits are right whatever happens above, and an index that is valid fits, because an array has fewer than
# 2**31 elements. So a variable that only ends, by way of + - and *, in indices, in comparisons with such
# variables and other narrow values, or in elements of at most 32 bits, is an `int`. For comparisons this is
# the contract that the docstring of `to_cuda` states.
_RING = ('add', 'sub', 'mul', 'neg')


class _Uses:
    "Where the variables that do not fit are used"

    def __init__(self, unit, ranges):
        self.ranges, self.bad, self.flows, self.compared = (
            ranges,
            set(),
            [],
            [],
        )  # flows: (variable, the variable that gets it); compared: pairs of expressions
        for f in ranges.reached:
            for s in statements(f.body):
                self.statement(s, f)

    def fits(self, e):
        return within(
            self.ranges.of(e) if id(e) in self.ranges.nodes or e.op != 'var' else self.ranges.var.get(e.value, ALL),
            INT32,
        )

    def statement(self, s, f):
        if s.kind == 'assign':
            return self.use(s.expr, s.var if is_int(s.var.type) else None)
        if s.kind == 'store':
            for i in s.index:
                self.use(i, 'low')
            return self.use(s.expr, 'low' if narrow_whole(s.memory.dtype) else None)
        if s.kind == 'for':
            self.use(s.start, s.var)
            self.use(s.step, s.var)
            self.use(s.stop, 'compare')
            self.compared.append((E('var', INT, value=s.var), s.stop))
            return
        for e in expressions(s):
            self.use(e, 'low' if s.kind == 'pointer' else None)

    def use(self, e, sink):
        "`e` goes to `sink`: 'low' if its low 32 bits are enough, 'compare', a variable, or None for anything else"
        if is_int(e.type) and (e.op in _RING or e.op == 'var') and self.fits(e):
            sink = 'low'
        if e.op == 'var':
            self.use_variable(e, sink)
        elif e.op == 'device':
            for a, p in zip(e.args, e.value.given):
                self.pass_on(a, p)
        else:
            if self.compares(e):
                self.compared.append(e.args)
            for a, where in zip(e.args, self.sinks(e, sink)):
                self.use(a, where)

    def compares(self, e):
        "Does `e` compare integers as such? As float64 it needs all of their bits"
        return e.op == 'cmp' and all(is_int(a.type) for a in e.args) and not rounds(*e.args, self.ranges.of)

    def use_variable(self, e, sink):
        if not is_int(e.type):
            return
        if sink is None:
            self.bad.add(e.value)
        elif not isinstance(sink, str):
            self.flows.append((e.value, sink))

    def sinks(self, e, sink):
        "Where the arguments of `e` go to, if `e` goes to `sink`"
        n = len(e.args)
        if e.op in _RING or e.op == 'let':
            return [sink] * n
        if e.op == 'select':
            return [None] + [sink] * (n - 1)
        if self.compares(e):
            return ['compare'] * n
        if e.op == 'load':
            return ['low'] * n
        if e.op == 'atomic':
            low = narrow_whole(e.value.memory.dtype) and e.value.op in ('add', 'sub', 'exch', 'and', 'or', 'xor')
            return ['low' if k < e.value.count or low else None for k in range(n)]
        low = e.op == 'cast' and narrow_whole(e.value) and is_int(e.type) and is_int(e.args[0].type)
        return ['low' if low else None] * n

    def pass_on(self, a, p):
        if a.op == 'tuple':
            for x, y in zip(a.args, p.args):
                self.pass_on(x, y)
        elif a.op != 'view':
            self.use(a, p.value if p.op == 'var' and is_int(p.type) else None)
        else:
            for o in (*a.value.lead, a.value.offset):
                self.use(o, 'low')

    def narrow(self, e, chosen):
        "Is `e` right in 32 bits if the variables `chosen` are?"
        return (
            self.fits(e)
            or e.op == 'var'
            and e.value in chosen
            or e.op in (*_RING, 'let')
            and all(self.narrow(a, chosen) for a in e.args)
        )


def narrow_whole(dtype):
    "Are elements of `dtype` integers of at most 32 bits?"
    return dtype in ('bool', 'int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32')


def index_like(unit, ranges):
    "The variables that may be an `int` though their interval does not fit"
    uses = _Uses(unit, ranges)
    fitting = {v for v, r in ranges.var.items() if is_int(v.type) and within(r, INT32)}
    chosen = {
        v
        for v, r in ranges.var.items()
        if is_int(v.type) and v not in fitting and v not in uses.bad and v.parameter is None
    }
    while True:
        out = {a for a, b in uses.flows if a in chosen and b not in chosen and b not in fitting}
        out |= {
            o.value
            for a, b in uses.compared
            for x, y in ((a, b), (b, a))
            if not uses.narrow(y, chosen)
            for o in walk(x)
            if o.op == 'var' and o.value in chosen
        }
        if not out:
            return chosen
        chosen -= out


def settle(unit):
    """Give the Python floats that have met nothing else their precision, and every variable its type in C.

    What comes back are the `Ranges` that hold then.
    """
    weak = DOUBLE if unit.doubles or not _single(unit) else FLOAT
    for f in functions(unit):
        f.result = _settle(f.result, weak)
        for v in f.variables:
            v.type = _settle(v.type, weak)
        for v in f.temporaries.values():
            v.type = _settle(v.type, weak)
        for e in every(f):
            e.type = _settle(e.type, weak)
    for m in unit.constants.values():
        if m.dtype == WEAK:
            m.dtype = weak
    unit.weak = weak
    unit.least = _least(unit)
    ranges = Ranges(unit)
    if not unit.wide:
        ranges = Ranges(unit, index_like(unit, ranges))
    for f in ranges.reached:
        for v in {*f.variables, *f.temporaries.values()}:
            v.c_type = _c_type(unit, v, ranges)
    return ranges


def _least(unit):
    """{parameter: 0 or 1} of the Python ints that are divided, or divided by, and were not negative as examples.

    The launcher makes sure of it.
    """
    res = {}
    for f in functions(unit):
        for e in every(f):
            if e.op not in ('floordiv', 'mod') or e.type not in WHOLE:
                continue
            for least, a in enumerate(e.args):
                for o in walk(a):
                    k = o.value.parameter if o.op == 'var' and o.value.defs == 1 else None
                    if k is not None and k.dtype == 'int' and k.least is not None and k.least >= least:
                        res[o.value] = max(least, res.get(o.value, 0))
    return res


def _settle(t, weak):
    if isinstance(t, tuple) and not isinstance(t, Array):
        return tuple(_settle(o, weak) for o in t)
    return weak if t == WEAK else t


def _c_type(unit, v, ranges):
    if not is_number(v.type):
        return None
    if not is_int(v.type):
        return C_NAMES[v.type]
    k, r = v.parameter, ranges.var.get(v, v.bounds or (0, 0))
    if k is not None and k.dtype != 'int' and within(r, of_dtype(k.dtype)):
        return C_NAMES[k.dtype]
    return c_whole(v.type, r, unit.wide)


def c_whole(t, r, wide):
    "C's type for integers of type `t` in the interval `r`"
    small = within(of_dtype(t), INT32) or within(r, INT32) and not wide
    masked = within(r, UINT32) and (unsigned(t) or r[1] == UINT32[1]) and not wide
    return (
        'int'
        if small
        else 'unsigned int'
        if within(of_dtype(t), UINT32) or masked
        else 'unsigned long long'
        if t == UINT
        else 'long long'
    )


def _single(unit):
    "Does the kernel compute with float32 and not with float64?"
    met = set()
    for f in functions(unit):
        met |= {s.memory.dtype for s in statements(f.body) if s.kind in ('store', 'alloc')}
        for e in every(f):
            if e.op in ('load', 'atomic'):
                met.add((e.value if e.op == 'load' else e.value.memory).dtype)
            elif e.op == 'cast':
                met.add(e.value)
            elif e.op in ('var', 'const', 'global') or e.type != DOUBLE:
                met.add(e.type)  # a division of integers is a double, and requires none elsewhere
    return bool(met & {FLOAT, HALF, 'bfloat16'}) and DOUBLE not in met
