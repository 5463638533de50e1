"""Statements as C writes them: where variables are declared, what they are called, and where the comments go."""

import re

from .expressions import CHOICE, HELPERS, LESS, Text
from .ranges import ALL, INT32, c_whole, within
from .tree import E, S, blocks, expressions, number, statements, walk, walk_used
from .types import BOOL, C_NAMES, DOUBLE, HALF, INT, REAL, WEAK, Array, is_int

# A name keeps its spelling unless C or CUDA has another use for it.
_RESERVED = set(
    '''alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr
continue decltype default delete do double dynamic_cast else enum explicit export extern false float for friend
goto half if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
protected public register reinterpret_cast return short signed sizeof static static_assert static_cast struct
switch template this throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t
while xor xor_eq main min max abs fabs sqrt exp log sin cos tan pow floor ceil fmod printf assert threadIdx
blockIdx blockDim gridDim warpSize NULL INFINITY NAN llabs rint trunc round erf std torch at c10 signbit isnan
isinf isfinite stdin stdout stderr restrict concept requires char8_t char16_t char32_t dim3 int2 int4 float2
float4 near far linux unix'''.split()
) | set(HELPERS)
_GLOBAL = set(
    '''y0 y1 yn j0 j1 jn gamma lgamma index rindex div time clock remove rename random srandom signal read write open
close link select dup pipe wait sleep abort exit atexit free malloc rand'''.split()
)


class Names:
    "Which names are taken"

    def __init__(self):
        self.taken, self.constants, self.kernel = set(), {}, set()  # kernel: its name, which a variable may have, too

    def fresh(self, name, taken=(), outside=False):
        "A name like `name` that C allows and that is not used; `outside`: at file scope"
        name = base = re.sub(r'[^\w]|[^\x00-\x7f]', lambda m: f'u{ord(m[0]):x}', name) or 'x'
        if name in _RESERVED or outside and name in _GLOBAL or re.match(r'__', name):
            name = base = name.strip('_') + '_'
        n = 2
        while name in self.taken or name in taken or outside and name in self.kernel:
            name, n = f"{base}{'_' if base[-1].isdigit() else ''}{n}", n + 1
        return name

    def outside(self, name):
        "A name at file scope"
        res = self.fresh(name, outside=True)
        self.taken.add(res)
        return res

    def constant(self, name):
        "The name in C of a constant at file scope"
        if name not in self.constants:
            self.constants[name] = self.outside(name)
        return self.constants[name]


class Line:
    "A line of C: its text without indentation, its depth, and the line of Python that it comes from"

    def __init__(self, text, depth, line):
        self.text, self.depth, self.line = text, depth, line

    def __str__(self):
        return '    ' * self.depth + self.text if self.text else ''


_WIDTH = 110


# What is never read is left out: C warns of it. A size that the kernel itself gives a name becomes a parameter
# of that name.
class _Preparing:
    "What is settled before anything is written: what is left out, and the names of sizes"

    def prepare(self):
        "Leave out what is never read, name the sizes, and give every variable its name"
        self.drop()
        self.local = set()
        self.name_parameters()
        self.join_names()
        self.where = {}
        self.place(self.f.body, set(), 0)
        if self.f is not self.ex.unit.main:
            for e in self.parameters:
                (e.value if e.op == 'var' else e.value.memory).dropped = not self.is_used(e)
            self.parameters = [e for e in self.parameters if not (e.value if e.op == 'var' else e.value.memory).dropped]

    def is_used(self, e):
        "Does the body mention the parameter `e`?"
        if e.op == 'var':
            return any(
                e.value is v.slot
                for s in statements(self.f.body)
                for v in [*self.read(s), *([s.var] if getattr(s, 'var', None) is not None else [])]
            )
        return any(m is e.value.memory for s in statements(self.f.body) for m in self.memories(s))

    def drop(self):
        "Take out assignments to variables that are never read"
        while True:
            live = {v for s in statements(self.f.body) for v in self.read(s)}
            dead = [s for s in statements(self.f.body) if s.kind in ('assign', 'pointer') and s.var not in live]
            if not dead:
                break
            for s in dead:
                if s.kind == 'assign' and s.expr.op == 'size':
                    s.stands_for = s.var, s.expr.value
                if s.kind == 'assign' and any(e.op in ('device', 'atomic', 'call', 'shuffle') for e in walk(s.expr)):
                    s.kind = 'expr'
                else:
                    s.kind, s.expr, s.address = 'nothing', None, None
                s.var = None
        used = {id(m) for s in statements(self.f.body) for m in self.memories(s)}
        for s in statements(self.f.body):
            if s.kind == 'alloc' and id(s.memory) not in used:
                s.kind = 'nothing'
        self.live = live

    def read(self, s):
        "The variables that `s` reads, itself aside"
        for e in expressions(s):
            yield from (v for v in self.variables_in(e) if not (s.kind == 'assign' and v is s.var))
        if s.kind == 'store' and s.memory.variable is not None:
            yield s.memory.variable
        if s.kind == 'pointer' and s.memory.variable is not None:
            yield s.memory.variable

    def variables_in(self, e):
        for o in walk_used(e):
            if o.op in ('var', 'let') or o.op in ('value_land', 'value_lor') and o.value is not None:
                yield o.value
            m = o.value if o.op in ('load', 'address') else o.value.memory if o.op in ('atomic', 'view') else None
            if m is not None and m.variable is not None:
                yield m.variable
            if o.op == 'load' and hasattr(m, 'items'):
                for i in m.items:
                    yield from self.variables_in(i)
            if o.op == 'view':
                for p in o.value.parts():
                    yield from self.variables_in(p)

    def memories(self, s):
        if s.kind == 'store' or s.kind == 'pointer':
            yield s.memory
        for e in expressions(s):
            for o in walk_used(e):
                if o.op in ('load', 'address'):
                    yield o.value
                if o.op in ('atomic', 'view'):
                    yield o.value.memory

    def name_parameters(self):
        "Names of the parameters and of the sizes that the function needs"
        self.parameters, self.arrays = [], []
        for (name, _), e in zip(self.f.params, self.f.given):
            self.parameter(e, name)
        sizes = self.list_sizes()
        for m in self.arrays:
            m.size_names, m.stride_names, m.start_name = {}, {}, None
        self.adopt(sizes)
        for m in self.arrays:
            for d in sorted(d for w, a, d in sizes if a is m and w == 'size'):
                if d not in m.size_names:
                    m.size_names[d] = self.take(self.size_name(m, d, sizes))
            for d in sorted(d for w, a, d in sizes if a is m and w == 'stride'):
                m.stride_names[d] = self.take(f'{m.c_name}_stride{d if m.ndim > 1 else ""}')
            if any(w == 'start' and a is m for w, a, d in sizes):
                m.start_name = self.take(f'{m.c_name}_start')
        self.f.extra = [
            (m, w, d)
            for m in self.arrays
            for w, names in (('size', m.size_names), ('stride', m.stride_names))
            for d in sorted(names)
        ]
        self.f.extra += [(m, 'start', 0) for m in self.arrays if m.start_name]

    def take(self, name, more=()):
        res = self.names.fresh(name, self.local.union(more))
        self.local.add(res)
        return res

    def parameter(self, e, name):
        if e.op == 'tuple':
            for n, o in enumerate(e.args):
                self.parameter(o, f'{name}_{n}')
        elif e.op == 'view':
            m = e.value.memory
            m.c_name = self.take(m.name, self.names.kernel)
            self.arrays.append(m)
            self.parameters.append(e)
        elif e.op == 'var':
            e.value.c_name = self.take(e.value.name, self.names.kernel)
            e.value.slot = e.value
            e.value.dropped = False
            self.parameters.append(e)

    def list_sizes(self):
        "{(what, memory, dimension)} of the sizes and strides that the function's expressions name"
        res = set()
        for s in statements(self.f.body):
            for e in expressions(s):
                for o in self.deep(e):
                    if o.op in ('size', 'stride'):
                        res.add((o.op, o.value[0], o.value[1]))
                    if o.op == 'start':
                        res.add((o.op, o.value, 0))
        return res

    def deep(self, e):
        "All expressions in `e`, with the sizes that a device function asks of an array"
        yield from walk(e)
        for o in walk(e):
            if o.op == 'device':
                for m, what, d in o.value.extra:
                    for a, p in zip(o.args, o.value.given):
                        for view in _views_of(a, p, m):
                            yield from walk(view.sizes[d] if what == 'size' else view.strides[d])
                for a in o.args:
                    for view in _all_views(a):
                        for p in (*view.lead, view.offset):
                            yield from walk(p)
            if o.op == 'load' and hasattr(o.value, 'items'):
                for i in o.value.items:
                    yield from self.deep(i)

    def adopt(self, sizes):
        "A size that the kernel itself gives a name becomes a parameter of that name"
        names = [v.name for v in self.f.variables if v.type is not None]
        for s in statements(self.f.body):
            v, size = getattr(s, 'stands_for', (None, None))
            if s.kind == 'assign' and s.expr.op == 'size':
                v, size = s.var, s.expr.value
            if (
                v is None
                or ('size', *size) not in sizes
                or size[1] in size[0].size_names
                or v.defs != 1
                or names.count(v.name) != 1
                or v.temporary
            ):
                continue
            size[0].size_names[size[1]] = v.c_name = self.take(v.name)
            v.slot, v.adopted = v, True
            s.kind, s.var, s.expr = 'nothing', None, None

    def size_name(self, m, d, sizes):
        mine = [(a, k) for w, a, k in sizes if w == 'size' and k not in a.size_names]
        used = {v.name for v in self.f.variables}
        if m.ndim == 1:
            return 'n' if len(mine) == 1 and 'n' not in used and 'n' not in self.local else f'{m.c_name}_size'
        if m.ndim == 2:
            return f"{m.c_name}_{('rows', 'cols')[d]}"
        return f'{m.c_name}_{d}'


# `i` in two loops is two variables, each in its own loop, and they do not conflict. But where one of them is seen by
# the other, they become one, if their types agree, or get different names.
_NAME_OF = {'shared': 'tile', 'dynamic': 'shared', 'local': 'values'}  # of an array that has none


class _Sharing:
    "Variables that share a name"

    def join_names(self):
        "One name of Python: one variable of C where the types agree, and another name where they do not"
        scopes, by_name = {}, {}
        self.paths(self.f.body, (), scopes)
        for v in scopes:
            by_name.setdefault(v.name, []).append(v)
        for name, group in sorted(by_name.items()):
            kept = []  # (variable, path of the block that holds all of its occurrences)
            for v in sorted(group, key=lambda v: [n for _, n in scopes[v][0]]):
                self.give_slot(name, v, kept, scopes)
        self.name_memories(scopes)

    def give_slot(self, name, v, kept, scopes):
        "The variable of C that `v` is: that of one of the `kept`, or another one"
        if v.slot is v and v.c_name in self.local:
            kept.append((v, ()))
            return
        sees = (k for k, path in kept if not path or _meet(scopes[k.slot], scopes[v]) or v.undefined or k.undefined)
        mate = next(sees, None)
        if mate is not None and not v.alone and self.agree(mate, v):
            v.slot, v.c_name = mate.slot, mate.slot.c_name
            scopes.setdefault(v.slot, []).extend(scopes[v])
        else:
            free = {k.c_name for k, path in kept if path} if mate is None else ()
            v.slot, v.c_name = v, self.names.fresh(name, self.local - free) if mate is None else self.take(name)
        self.local.add(v.c_name)
        kept.append((v, _common(scopes[v])))

    def name_memories(self, scopes):
        "Each array that the kernel makes has the name of its variable, or of its kind"
        for m in (s.memory for s in statements(self.f.body) if s.kind == 'alloc'):
            named = m.variable is not None and m.variable.slot is not None
            m.c_name = m.variable.c_name if named else self.take(m.name or _NAME_OF[m.space])
        for v in scopes:
            if v.memory is not None and v.memory.variable is v:
                v.memory.c_name = v.c_name

    def agree(self, a, b):
        if isinstance(a.type, Array) or isinstance(b.type, Array):
            return False
        if a.type != b.type and not (is_int(a.type) and is_int(b.type)) or a.struct is not b.struct:
            return False
        if a.c_type != b.c_type:
            if a.c_name in self.local and a.is_parameter or a.adopted:
                return False
            if not {a.c_type, b.c_type} <= {'int', 'unsigned int', 'long long'}:
                return False
            for o in [o for o in self.f.variables if o.slot is a.slot] + [b]:
                o.c_type = 'long long'
        return not a.slot.adopted

    def paths(self, block, path, found):
        """Note where each variable occurs: ((block, number), ...) from the outside in.

        The variable of a loop belongs to the loop's body.
        """
        for n, s in enumerate(block):
            at = (*path, (id(block), n))
            own = [v for e in expressions(s) for v in self.variables_in(e)]
            if s.kind in ('assign', 'pointer') and s.var is not None:
                own.append(s.var)
            if s.kind in ('alloc', 'store') and s.memory.variable is not None:
                own.append(s.memory.variable)
            for v in dict.fromkeys(own):
                found.setdefault(v, []).append(at)
            for v in [c.var for c in self.counters(s)]:
                found.setdefault(v, []).append((*at, (id(s.body), -1)))
            for b in blocks(s):
                self.paths(b, at, found)


# In the innermost block that holds all of its occurrences, and there with its first value, if that is where the
# block first mentions it.
_LOOPS = 'for', 'while', 'each'


class _Declaring:
    "Where variables are declared"

    def slots(self, s):
        "The variables in the statement itself"
        own = {v.slot for e in expressions(s) for v in self.variables_in(e)}
        if s.kind in ('assign', 'pointer') and s.var is not None:
            own.add(s.var.slot)
        own.update(c.var.slot for c in self.counters(s))
        if s.kind == 'store' and s.memory.variable is not None:
            own.add(s.memory.variable.slot)
        return own

    def all_slots(self, s):
        return self.slots(s).union(*(self.all_slots(o) for b in blocks(s) for o in b))

    def place(self, block, declared, loops):
        """Decide before which statement each variable is declared.

        `where[id(block), n]` has those that are declared without a value of their own.
        """
        for n, v in self.born_in(block, declared, loops):
            declared = declared | {v}
            if self.gives_first(block[n], v):
                block[n].declares = True
            else:
                self.where.setdefault((id(block), n), []).append(v)
        for s in block:
            own = [c.var.slot for c in self.counters(s)]
            for b in blocks(s):
                self.place(b, declared.union(own), loops + (s.kind in _LOOPS))
            for c in self.counters(s):
                c.outside = c.var.slot in declared

    def born_in(self, block, declared, loops):
        "(number of the first statement, variable) of those that this block is the innermost to hold"
        own, deep = [self.slots(s) for s in block], [self.all_slots(s) for s in block]
        for v in sorted(set().union(*deep), key=lambda v: v.c_name):
            if v in declared or self.needs_none(v):
                continue
            at = [n for n, d in enumerate(deep) if v in d]
            first = block[at[0]]
            alone = len(at) == 1 and (v not in own[at[0]] or first.kind in ('for', 'each') and self.in_header(first, v))
            carried = self.is_undefined(v) and loops == 0 and any(o.kind in _LOOPS for o in statements([first]))
            if not alone or carried:
                yield at[0], v

    def gives_first(self, s, v):
        "Does the statement give `v` a value that does not need `v`?"
        if s.kind not in ('assign', 'pointer') or s.var.slot is not v or s.aug:
            return False
        return v not in {o.slot for e in expressions(s) for o in self.variables_in(e)}

    def counters(self, s):
        "What a loop counts by: itself, or its columns"
        return [s] if s.kind == 'for' else s.columns if s.kind == 'each' else []

    def needs_none(self, v):
        "Is `v` declared elsewhere: as a parameter, or with its memory?"
        parameter = v.c_name in {e.value.c_name for e in self.parameters if e.op == 'var'}
        return parameter or v.adopted or isinstance(v.type, Array) and v.memory.space != 'pointer'

    def is_undefined(self, v):
        return any(o.undefined for o in self.f.variables if o.slot is v)

    def in_header(self, s, v):
        "Does `v` occur in the loop `s` only as its variable?"
        return v not in {o.slot for e in expressions(s) for o in self.variables_in(e)}


# Comments and blank lines come along: each statement is preceded by what precedes it in Python.
class _Lines:
    "Lines, with the comments and blank lines that come along"

    writing = None  # the statement at hand, where nothing of it was written yet

    def put(self, text, line, depth=None):
        self.lines.append(Line(text, self.depth if depth is None else depth, line))

    def comments_until(self, line, column=None):
        "Write the comments and the blank lines that come before the source's `line`"
        for n in range(self.cursor + 1, line):
            if n in self.source.comments and self.source.comments[n][2]:
                if column is not None and self.source.comments[n][0] < column:
                    return
                self.gap()
                self.put(f'// {self.source.comments[n][1]}', n)
            elif n in self.source.blank:
                self.pending = True
            else:
                continue
            self.cursor = n

    def gap(self):
        if self.pending and self.lines and self.lines[-1].text and not self.lines[-1].text.endswith('{'):
            self.put('', None)
        self.pending = False

    def trailing(self, first, last):
        "The comments at the end of the source's lines"
        return ' '.join(
            self.source.comments[n][1]
            for n in range(first, last + 1)
            if n in self.source.comments and not self.source.comments[n][2]
        )

    def block(self, body, column):
        groups = []
        for n, s in enumerate(body):
            if (
                groups
                and s.node is groups[-1][0][1].node
                and s.kind in ('assign', 'alloc', 'pointer', 'store', 'nothing')
            ):
                groups[-1].append((n, s))
            else:
                groups.append([(n, s)])
        for g in groups:
            self.group(body, g)
        end = self.cursor + 1
        while end <= len(self.source.lines) and self.remarks(end, column):
            end += 1
        self.comments_until(end, column)

    def remarks(self, n, column):
        "Is the source's line `n` empty, or a comment that belongs to a block at `column`?"
        at, _, alone = self.source.comments.get(n, (0, '', False))
        return n in self.source.blank or alone and at >= column

    def group(self, body, group):
        "Write the statements that come from one statement of Python"
        first = self.writing = group[0][1]
        self.comments_until(first.line)
        start = len(self.lines)
        compound = first.kind in ('if', 'while', 'for', 'each')
        comment = self.trailing(max(first.line, self.cursor + 1), self.header_end(first) if compound else first.last)
        if any(s.kind != 'nothing' for _, s in group) or any((id(body), n) in self.where for n, _ in group):
            self.gap()
        start = len(self.lines)
        texts = []
        for n, s in group:
            for t in self.combine([self.declaration(v) for v in self.where.get((id(body), n), ())]):
                self.put(t, s.line)
        for n, s in group:
            if compound:
                self.cursor = max(self.cursor, self.header_end(s))
                getattr(self, f'w_{s.kind}')(s)
            else:
                texts += getattr(self, f'w_{s.kind}')(s)
        for t in self.combine(texts):
            self.put(t, first.line)
        self.writing = None
        if not compound:
            self.cursor = max(self.cursor, first.last)
        if comment:
            if len(self.lines) > start:
                self.lines[start].text += f'  // {comment}'
            else:
                self.gap()
                self.put(f'// {comment}', first.line)

    def header_end(self, s):
        return (s.node.iter if s.kind in ('for', 'each') else s.node.test).end_lineno

    def combine(self, texts):
        "Declarations of one type on one line, if it is not too long"
        res = []
        for t in texts:
            t = t if isinstance(t, tuple) else (None, t)
            if res and t[0] and res[-1][0] == t[0] and len(res[-1][1]) + len(t[1]) < _WIDTH - 10:
                res[-1] = t[0], f'{res[-1][1]}, {t[1]}'
            else:
                res.append(t)
        return [f'{k} {t};' if k else t for k, t in res]

    def declaration(self, v):
        if isinstance(v.type, Array):
            return self.pointer_type(v), f'*{v.c_name}'
        zero = self.is_undefined(v) and v.type != HALF and v.struct is None
        value = '' if not zero else ' = false' if v.type == BOOL else ' = 0'
        return self.type_of(v), v.c_name + value

    def type_of(self, v):
        return v.struct.struct_name if v.struct else v.c_type

    def pointer_type(self, v):
        return ('const ' if v.memory.readonly else '') + self.ex.element(v.memory.dtype)


# `x += 1` stays what it is, where C computes it in the same type.
_INTS = 'int', 'unsigned int', 'long long', 'unsigned long long'
_FORMATS = dict(zip((*_INTS, 'text'), ('%d', '%u', '%lld', '%llu', '%s')))
_ESCAPES = str.maketrans({'\\': '\\\\', '"': '\\"', '\n': '\\n', '\t': '\\t'})


class _Simple:
    "Statements that hold no others: one method `w_...` per kind"

    def w_nothing(self, s):
        return []

    def w_break(self, s):
        return ['break;']

    def w_continue(self, s):
        return ['continue;']

    def w_expr(self, s):
        if not any(o.op in ('device', 'atomic', 'call', 'shuffle') for o in walk(s.expr)):
            return []
        self.ex.quiet = self.bare(s.expr).op == 'atomic'  # what was there before is of no interest
        text = self.ex.text(self.bare(s.expr))
        self.ex.quiet = False
        return [text + ';']

    def bare(self, e):
        return self.bare(e.args[0]) if e.op in ('flag', 'cast', 'truth') else e

    def w_assign(self, s):
        v, e = s.var, s.expr
        text = self.value(v, e)
        if getattr(s, 'declares', False):
            return [(self.type_of(v.slot), f'{v.c_name} = {text}')]
        mine = s.aug and e.args and e.args[0].op == 'var' and e.args[0].value.slot is v.slot
        if mine and (t := self.in_place(v.c_name, v.slot.c_type, e)):
            return [t]
        return [f'{v.c_name} = {text};']

    def value(self, v, e):
        if v.struct:
            return self.ex.text(e)
        return self.ex.fit(e, v.slot.c_type, low=v.slot.c_type in ('int', 'unsigned int') and is_int(v.type)).text

    def in_place(self, place, type, e):
        "`place += ...` for the expression `place + ...`; None where C would compute in another type"
        if e.op not in _IN_PLACE:
            return
        if type == 'float' and e.type == DOUBLE and (s := self.ex.single(e)) is not None and s.op in _IN_PLACE:
            e = s
        if e.type in REAL:
            return self.in_place_real(place, type, e)
        if self.keeps_whole(type, e):
            return self.in_place_whole(place, type, e)

    def in_place_real(self, place, type, e):
        "`in_place` of a floating-point number"
        if type not in ('float', 'double') or e.op not in ('add', 'sub', 'mul', 'truediv'):
            return
        b = e.args[1]
        t = self.ex.x(b)
        if C_NAMES[e.type] != type:
            return
        if b.op == 'const' or t.type == '__half' or t.type == 'double' and type == 'float':
            t = self.ex.fit(b, type)
        return f'{place} {_IN_PLACE[e.op]}= {t.text};'

    def keeps_whole(self, type, e):
        "Does C's operator give Python's result, for an integer in a variable of this type?"
        if type in ('float', 'double', '__half', '__nv_bfloat16', 'bool'):
            return type == 'bool' and e.type == BOOL
        divides, shifts = e.op in ('floordiv', 'mod'), e.op in ('shl', 'shr')
        if divides and not self.ex.positive(e):
            return False
        if (divides or shifts) and type not in _INTS:
            return False
        return not ((divides or shifts) and type == 'unsigned int' and self.ex.r(e.args[1])[0] < 0)

    def in_place_whole(self, place, type, e):
        "`in_place` of an integer"
        b, adds = e.args[1], e.op in ('add', 'sub', 'mul')
        if number(b) == 1 and e.op in ('add', 'sub'):
            return f'{place}{_IN_PLACE[e.op] * 2};'
        unsigned = type == 'unsigned long long' and e.op not in ('shl', 'shr')
        t = self.ex.as_type(b, type) if unsigned else self.ex.x(b, adds and 'long long' not in type)
        narrow = e.op in ('floordiv', 'mod') and type in ('int', 'unsigned int')
        return None if narrow and t.type == 'long long' else f'{place} {_IN_PLACE[e.op]}= {t.text};'

    def w_store(self, s):
        m = s.memory
        place, type = self.ex.place(m, s.index), C_NAMES[m.dtype]
        if s.aug and (t := self.in_place(place, type, s.expr)):
            return [t]
        return [f'{place} = {self.ex.fit(s.expr, type, low=type not in ("long long", "unsigned long long")).text};']

    def w_pointer(self, s):
        v = s.var
        text = self.ex.text(s.address)
        if getattr(s, 'declares', False):
            return [(self.pointer_type(v), f'*{v.c_name} = {text}')]
        return [f'{v.c_name} = {text};']

    def w_alloc(self, s):
        m = s.memory
        if m.space == 'dynamic':
            return [f'extern __shared__ {self.ex.element(m.dtype)} {m.c_name}[];']
        if hasattr(m, 'items'):
            type = self.ex_type(m)
            items = ', '.join(self.ex.fit(i, type).text for i in m.items)
            return [f'const {type} {m.c_name}[] = {{{items}}};']
        dims = ''.join(f'[{self.ex.text(d)}]' for d in m.dims)
        return [('__shared__ ' * (m.space == 'shared') + self.ex.element(m.dtype), m.c_name + dims)]

    def ex_type(self, m):
        if m.dtype == WEAK:
            m.dtype = self.ex.unit.weak
        return C_NAMES[m.dtype]

    def w_return(self, s):
        if not s.args:
            return ['return;']
        f = self.f
        if f.is_struct:
            return [f"return {{{', '.join(self.coerce(e, t) for e, t in zip(s.args, f.c_results))}}};"]
        low = f.c_result in ('int', 'unsigned int') and is_int(s.args[0].type)
        return [f'return {self.ex.fit(s.args[0], f.c_result, low=low).text};']

    def coerce(self, e, type):
        "`e` for a value in braces, where C converts nothing that could lose something"
        t = self.ex.fit(e, type)
        return t.text if t.type == type or e.op == 'const' else self.ex.cast(t, type).text

    def w_print(self, s):
        fmt, args = [], []
        for a in s.items:
            if isinstance(a, str):
                fmt.append(a.replace('%', '%%'))
                continue
            t = self.ex.x(a)
            if t.type == 'bool':
                t = Text(f'{t.text} ? "True" : "False"', CHOICE, 'text')
            if t.type == '__half':
                t = self.ex.cast(t, 'float')
            fmt.append(_FORMATS.get(t.type, '%f'))
            args.append(t.text)
        text = (s.sep.join(fmt) + s.end).translate(_ESCAPES)
        self.ex.headers.add('stdio.h')
        return [f"printf({', '.join([chr(34) + text + chr(34), *args])});"]

    def w_assert(self, s):
        self.ex.headers.add('assert.h')
        return [f'assert({self.ex.condition(s.test).text});']


# What Python has on one line stays on one line. A loop over `range` evaluates its bounds once, counts by
# itself if the body changes the loop variable, or if that is read after the loop.
def _fit_one_line(head, text, depth):
    "May a statement be on the line of its `head`? A branch or a loop may not, except for an `if` in a loop"
    if len(head) + len(text) + 4 * depth >= _WIDTH:
        return False
    if re.match(r'for\b', head) and re.match(r'if\b', text):
        return not text.endswith('{')
    return not re.match(r'(if|for|while|//)\b', text) and ' // ' not in text


class _Compound:
    "Branches and loops"

    def inner(self, s, head, body, column, prefix=()):
        "`head`, then `body` in braces, or on the same line where Python has it there"
        start, depth = len(self.lines), self.depth
        short = body and body[0].line == s.line and not prefix
        self.put(head + ' {', s.line)
        self.depth += 1
        for p in prefix:
            self.put(p, s.line)
        self.block(body, column)
        self.depth = depth
        new = self.lines[start + 1 :]
        if short and len(new) == 1 and _fit_one_line(head, new[0].text, depth):
            self.lines[start:] = [Line(f'{head} {new[0].text}', depth, s.line)]
            return True
        if not new:
            self.lines[start].text = head + ' {}'
            return True
        self.put('}', None)
        return False

    def w_if(self, s, prefix=''):
        column = s.node.body[0].col_offset
        shut = self.inner(s, f'{prefix}if ({self.ex.condition(s.test).text})', s.body, column)
        if not s.orelse or all(o.kind == 'nothing' for o in s.orelse):
            return
        word = 'else'
        if not shut:
            self.lines.pop()
            word = '} else'
        if s.chained and (id(s.orelse), 0) not in self.where and len(s.orelse) == 1:
            o = s.orelse[0]
            comment = self.trailing(o.line, self.header_end(o))
            at = len(self.lines)
            self.cursor = max(self.cursor, self.header_end(o))
            self.w_if(o, word + ' ')
            if comment:
                self.lines[at].text += f'  // {comment}'
            return
        line = s.node.orelse[0].lineno
        o = S('else', line if line > s.line else s.line, node=s.node)
        if s.orelse[0].line - 1 > self.cursor and self.source.text(s.orelse[0].line).startswith('else'):
            o.line = s.orelse[0].line
        elif not self.source.text(s.orelse[0].line).startswith('else'):
            o.line = -1
        self.inner(o, word, s.orelse, s.node.orelse[0].col_offset if o.line < 0 else column)
        for l in self.lines:
            if l.line == -1:
                l.line = s.orelse[0].line

    def w_while(self, s):
        self.inner(s, f'while ({self.ex.condition(s.test).text})', s.body, s.node.body[0].col_offset)

    def w_for(self, s):
        v = s.var.slot
        assigned = {o.var.slot for o in statements(s.body) if getattr(o, 'var', None) is not None} | {
            c.var.slot for o in statements(s.body) if o.kind == 'each' for c in o.columns
        }
        counted = v in assigned or self.read_after(s)
        type = self.loop_type(v) if not counted else c_whole(INT, self.ex.ranges.var.get(s.var, ALL), self.ex.unit.wide)
        stop = self.hoist(s, s.stop, 'end', assigned | {v}, type)
        step = self.hoist(s, s.step, 'step', assigned | {v}, type)
        start = self.ex.fit(s.start, type, low=type == 'int').text
        k = self.take(f'next_{v.c_name}') if counted else v.c_name
        new = counted or not s.outside
        init = f'{type} {k} = {start}' if new else '' if start == k else f'{k} = {start}'
        if k == v.c_name and v.c_name == '_':
            k = v.c_name
        self.counter(k, v, type)
        head = f'for ({init}; {self.loop_test(k, stop, step, s)}; {self.loop_step(k, step)})'
        first = [] if not counted else [f"{'' if s.outside else self.type_of(v) + ' '}{v.c_name} = {k};"]
        self.inner(s, head, s.body, s.node.body[0].col_offset, first)

    def loop_type(self, v):
        return 'long long' if v.c_type == 'unsigned int' else v.c_type

    def counter(self, k, v, type):
        self.k = E('var', INT, value=_Own(k, type))

    def loop_test(self, k, stop, step, s):
        lo, hi = self.ex.r(s.step)
        self.ex.ranges.nodes[id(self.k)] = self.ex.ranges.var.get(s.var, ALL)

        def compare(op):
            return self.ex.compare(op, LESS, self.k, stop).text

        if lo > 0:
            return compare('<')
        if hi < 0:
            return compare('>')
        return f"{self.ex.text(step)} > 0 ? {compare('<')} : {compare('>')}"

    def loop_step(self, k, step):
        n = number(step)
        if n == 1:
            return f'{k}++'
        if n == -1:
            return f'{k}--'
        return f'{k} -= {-n}' if n is not None and n < 0 else f'{k} += {self.ex.text(step, low=True)}'

    def hoist(self, s, e, name, changing, type):
        "`e` if it stays the same during the loop, else a variable that has its value"
        if (
            all(o.op in _STEADY or o.op == 'var' and o.value.slot not in changing for o in walk(e))
            and sum(o.op in ('floordiv', 'mod', 'min', 'max') for o in walk(e)) < 2
        ):
            return e
        t = (
            'long long'
            if type == 'long long' or not within(self.ex.r(e), INT32) and self.ex.x(e).type != 'int'
            else 'int'
        )
        n = self.take(name if name not in self.local else f'{s.var.name}_{name}')
        self.put(f'{t} {n} = {self.ex.fit(e, t, low=t == "int").text};', s.line)
        v = E('var', INT, value=_Own(n, t))
        return self.ex.note(v, self.ex.r(e))

    def read_after(self, s):
        "Is the loop's variable read when the loop is over?"
        inside = {id(o) for o in statements([s])}
        return any(s.var is v for o in statements(self.f.body) if id(o) not in inside for v in self.read(o))

    def w_each(self, s):
        if not s.count:
            return
        if len(s.columns) == 1:
            return self.each_value(s, s.columns[0])
        counts = [
            c
            for c in s.columns
            if all(number(i) == n for n, i in enumerate(c.items)) and not c.outside and c.var.c_type == 'int'
        ]
        k = counts[0].var.c_name if counts else self.take('k')
        first = []
        for c in s.columns:
            if counts and c is counts[0]:
                continue
            table = self.table(s, c)
            first.append(f"{'' if c.outside else c.var.slot.c_type + ' '}{c.var.c_name} = {table}[{k}];")
        self.inner(s, f'for (int {k} = 0; {k} < {s.count}; {k}++)', s.body, s.node.body[0].col_offset, first)

    def each_value(self, s, c):
        table, v = self.table(s, c), c.var
        if not c.outside:
            return self.inner(s, f'for ({v.slot.c_type} {v.c_name} : {table})', s.body, s.node.body[0].col_offset)
        k = self.take(f'next_{v.c_name}')
        self.inner(s, f'for ({v.slot.c_type} {k} : {table})', s.body, s.node.body[0].col_offset, [f'{v.c_name} = {k};'])

    def table(self, s, c):
        "The array that holds the items of a loop over a tuple"
        name = getattr(c.name, 'name', None)
        n = self.take(f'{name.lower()}' if name else f'{c.var.name}_values')
        type = c.var.slot.c_type
        self.put(f"const {type} {n}[] = {{{', '.join(self.coerce(i, type) for i in c.items)}}};", s.line)
        return n


# The lines of one function, with the depth of each and the line of Python that it comes from.
class Body(_Preparing, _Sharing, _Declaring, _Lines, _Simple, _Compound):
    "Writes the body of one function"

    def __init__(self, f, names, ex):
        self.f, self.names, self.ex, self.source, self.lines = f, names, ex, f.source, []


_STEADY = {
    'const',
    'global',
    'size',
    'stride',
    'builtin',
    'lane',
    'add',
    'sub',
    'mul',
    'floordiv',
    'mod',
    'min',
    'max',
    'shl',
    'shr',
    'neg',
    'cast',
    'abs',
}  # gives the same as long as its operands do
_IN_PLACE = {
    'add': '+',
    'sub': '-',
    'mul': '*',
    'truediv': '/',
    'floordiv': '/',
    'mod': '%',
    'shl': '<<',
    'shr': '>>',
    'and': '&',
    'or': '|',
    'xor': '^',
}


class _Own:
    "A variable that only C has"

    undefined, defs = False, 1

    def __init__(self, c_name, c_type):
        self.c_name, self.c_type, self.slot, self.memory, self.type = c_name, c_type, self, None, INT


def _common(paths):
    "The innermost block that holds all of `paths`, as the blocks around it and itself"
    first, n = paths[0], 1
    while all(len(p) > n and p[n - 1] == first[n - 1] and p[n][0] == first[n][0] for p in paths):
        n += 1
    return tuple(b for b, _ in first[:n])


def _meet(a, b):
    "Would two variables, with their occurrences, conflict if they had one name?"
    if len(_common(a)) > len(_common(b)):
        a, b = b, a
    outer, inner = _common(a), _common(b)
    if inner[: len(outer)] != outer:
        return False
    level = len(outer) - 1
    return len(outer) == len(inner) or max(p[level][1] for p in b) >= min(p[level][1] for p in a)


def _views_of(a, p, m):
    if a.op == 'tuple':
        for x, y in zip(a.args, p.args):
            yield from _views_of(x, y, m)
    elif a.op == 'view' and p.value.memory is m:
        yield a.value


def _all_views(a):
    if a.op == 'tuple':
        for x in a.args:
            yield from _all_views(x)
    elif a.op == 'view':
        yield a.value
