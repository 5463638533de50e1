"""Rewrites kernels so that one call runs all threads of a block, as loops over the threads.

Without this rewrite, each thread is a fiber, and each barrier switches fibers. A kernel is split at its barriers: each
segment between two of them becomes a loop, which g++ vectorizes. A kernel is rewritten only without checks, if it
synchronizes by `__syncthreads()` alone, at the top level of its body or of `for` loops whose iterations are the same
for all threads, and calls only functions that are known not to need a fiber. A local variable that lives across a
barrier becomes an array with an element per thread, unless its value depends only on the indices and the parameters:
then it is recomputed after the barrier.
"""

import re
from typing import NamedTuple

from ..frontend.code import Code
from ..frontend.edits import apply
from ..frontend.reader import declaration_heads, parameter, parameters_start, read

_BARRIER = '__syncthreads'
INDICES = frozenset(('threadIdx', 'blockIdx', 'blockDim', 'gridDim'))
_ASSIGNMENTS = frozenset(('=', '+=', '-=', '*=', '/=', '%=', '<<=', '>>=', '&=', '|=', '^=', '++', '--'))
_CONTROL_KEYWORDS = frozenset(('if', 'for', 'while', 'switch'))
_CASTS = frozenset(('static_cast', 'reinterpret_cast', 'const_cast'))
_UNSUPPORTED_KEYWORDS = frozenset(
    'asm __asm__ goto try throw static thread_local new delete volatile extern operator this typeid co_await do '
    'typedef using struct class union enum template namespace __shared__'.split()
)
TYPES = frozenset(
    'unsigned signed int float double long short char bool size_t ptrdiff_t uint8_t uint16_t uint32_t uint64_t int8_t '
    'int16_t int32_t int64_t uint uchar'.split()
    + [f'{t}{n}' for t in 'char uchar short ushort int uint float double'.split() for n in (2, 3, 4)]
)
_MATH = (
    'sqrt rsqrt exp exp2 exp10 expm1 log log2 log10 log1p sin cos tan sinpi cospi asin acos atan atan2 sinh cosh tanh '
    'asinh acosh atanh pow cbrt rcbrt hypot erf erfc fma fmin fmax fmod fabs floor ceil round rint trunc nearbyint '
    'copysign fdim remainder tgamma lgamma ldexp'.split()
)
_TEXTURE_FUNCTIONS = frozenset(
    'tex1Dfetch tex1D tex2D tex3D tex1DLayered tex2DLayered texCubemap texCubemapLayered surf2Dread surf2Dwrite'.split()
)
# atomic functions with which no thread can wait for another if their result is unused
_ATOMICS = frozenset(
    f'atomic{operation}{scope}'
    for operation in 'Add Sub Min Max And Or Xor Inc Dec'.split()
    for scope in ('', '_block', '_system')
)
FUNCTIONS = frozenset(
    [f'{name}{suffix}' for name in _MATH for suffix in ('', 'f')]
    + 'min max umin umax abs labs llabs sincos sincosf __sincosf isnan isinf isfinite signbit __expf __logf __log2f '
    '__log10f __sinf __cosf __tanf __powf '
    '__exp10f __fdividef __saturatef __mul24 __umul24 __mulhi __umulhi __fmaf_rn __fadd_rn __fmul_rn __fsqrt_rn '
    '__frcp_rn __frsqrt_rn __fdiv_rn __popc __clz __ffs __brev __float2int_rn __float2int_rd __int2float_rn '
    '__float_as_int __int_as_float __float_as_uint __uint_as_float __ldg'.split()
    + [f'make_{t}' for t in TYPES]
)


class _NotSplit(Exception):
    "The kernel cannot be split, and remains unchanged"


class _Variable(NamedTuple):
    "A local variable at the top level, with token indices and ranges"

    name: int
    dims: str  # its array bounds, as text
    init: range  # empty if it has no initializer
    type: str
    statement: range


def loop_blocks(text: str) -> str:  # C++ for the emulator
    "Rewrite the kernels of `text` that can be split at their barriers; every token stays on its line"
    if '__global__' not in text:
        return text
    try:
        code = read(text).main
    except ValueError:
        return text  # the compiler will report the error
    source = _Source(code, text)
    edits = []
    for head, paren in source.kernels:
        try:
            edits += _Kernel(source, head, paren).split()
        except _NotSplit:
            pass
    return apply(text, edits)


class _Source:
    "The functions and macros of a source, which its kernels may use"

    def __init__(self, code: Code, text: str):
        self.code = code
        self.macros = dict(re.findall(r'^[ \t]*#[ \t]*define[ \t]+(\w+(?:\()?)[ \t]*(.*)', text, re.M))
        heads = [(head, parameters_start(code, head)) for head in declaration_heads(code) if head.is_definition]
        heads = [(head, paren) for head, paren in heads if paren is not None]
        self.kernels = [(head, paren) for head, paren in heads if '__global__' in code.texts[head.start : paren]]
        self.bodies = {}  # name -> the bodies of the functions of that name
        for head, paren in heads:
            self.bodies.setdefault(code[paren - 1], []).append((paren, range(head.end, code.match[head.end])))
        self._runs_in_loop = {}

    def can_function_run_in_loop(self, name):
        "Return whether a function needs neither a fiber nor an index"
        if name not in self._runs_in_loop:
            self._runs_in_loop[name] = False  # also if it is recursive
            self._runs_in_loop[name] = name in self.bodies and all(
                not {_BARRIER, *INDICES} & {*self.code.texts[body.start : body.stop]} and self.can_run_in_loop(body)
                for paren, body in self.bodies[name]
            )
        return self._runs_in_loop[name]

    def takes_references(self, name):
        "Return whether a function may change the variables that it is called with"
        return any('&' in self.code.texts[paren : body.start] for paren, body in self.bodies.get(name, ()))

    def can_macro_run_in_loop(self, name, depth=4):
        "Return whether a macro with parameters is an expression that calls only functions that need no fiber"
        value = self.macros.get(f'{name}(')
        if not value or not depth or re.search(r'[\\;{}=]|::|\+\+|--', value):
            return False
        called = re.findall(r'\b([A-Za-z_]\w*)\s*\(', value[value.find(')') :])
        return all(word in FUNCTIONS | TYPES or self.can_macro_run_in_loop(word, depth - 1) for word in called)

    def can_run_in_loop(self, tokens):
        "Return whether these tokens use nothing that needs a fiber, except barriers"
        code = self.code
        texts = code.texts[tokens.start : tokens.stop]
        if not _UNSUPPORTED_KEYWORDS.isdisjoint(texts) or _BARRIER in self.macros:
            return False
        if self._has_conditional_lines(tokens):
            return False
        return all(
            self._can_call_run_in_loop(i)
            if code[i] == '('
            else self._can_name_run_in_loop(i)
            if code.is_word(i)
            else _is_index(code, i)
            for i in tokens
        )

    def _has_conditional_lines(self, tokens):
        "Return whether a preprocessor directive other than `#pragma` is between these tokens"
        lines = [line.text for i in tokens for line in (self.code.directives or {}).get(i, ())]
        return not all(re.match(r'#\s*pragma\b', line) for line in lines)

    def _can_name_run_in_loop(self, i):
        name = self.code[i]
        is_statement = self.code[i - 1] in (';', '{', '}') and self.code[i + 1] == ';'
        if is_statement and name not in ('return', 'break', 'continue'):
            return False  # it may be a macro of a header
        if f'{name}(' in self.macros:
            return self.code[i + 1] == '(' and self.can_macro_run_in_loop(name)
        return name not in self.macros or self.is_constant_macro(name)

    def is_constant_macro(self, name, depth=4):
        "Return whether the value of a macro consists of literals and other such macros"
        value = self.macros.get(name)
        if not value or not depth or not re.fullmatch(r'[\w\s.+\-*/%()<>]+', value):
            return False
        words = re.findall(r'\b[A-Za-z_]\w*', value)
        return all(self.is_constant_macro(word, depth - 1) for word in words)

    def _can_call_run_in_loop(self, i):
        code = self.code
        before = code[i - 1]
        if before == '>':
            opening = code.opening_angle(i - 1)
            is_call = opening is not None and code.is_word(opening - 1)
            return not is_call or code[opening - 1] in _CASTS | _TEXTURE_FUNCTIONS
        if before in (')', ']'):
            opening = code.match[i - 1]
            is_cast = before == ')' and {*code.texts[opening + 1 : i - 1]} <= TYPES | {'*', 'const'}
            return code[opening - 1] in _CONTROL_KEYWORDS or is_cast
        if not code.is_word(i - 1) or before in _CONTROL_KEYWORDS or before in ('return', 'sizeof', 'else', 'case'):
            return True
        if code[i - 2] in ('.', '->', '::'):
            return before == 'record_return'
        if before in _ATOMICS:
            return code[i - 2] in (';', '{', '}', ')') and code[code.match[i] + 1] == ';'
        is_known = before in TYPES | FUNCTIONS | _TEXTURE_FUNCTIONS or before == _BARRIER
        return is_known or self.can_macro_run_in_loop(before) or self.can_function_run_in_loop(before)


def _is_index(code, i):
    "Return whether token `i` is not the beginning of a lambda or an attribute"
    return code[i] != '[' or code.is_word(i - 1) or code[i - 1] in (')', ']')


class _Kernel:
    "A kernel, with an analysis of its local variables"

    def __init__(self, source: _Source, head, paren):
        self.source, self.code = source, (code := source.code)
        self.body = range(head.end + 1, code.match[head.end])
        self.constants = {*code.texts[head.start : code.skip_template_header(head.start)]}
        self.params = {parameter(code, a, b).name for a, b in code.arguments(paren)}
        self.uses = {}  # name -> its tokens
        for i in self.body:
            if code.is_word(i) and code[i - 1] not in ('.', '->', '::'):
                self.uses.setdefault(code[i], []).append(i)
        self.edits = []
        self.variables = {}  # those of the top level and of loops with barriers
        self.derived = {}  # name -> whether its value is the same for all threads
        self.copied = []  # parameters that the kernel changes, so that each thread has a copy
        self.groups = set()  # names of variables for the group of the block's threads
        self.arrays = []  # names of variables with an element per thread
        self.segment_of = {}  # token of a statement -> index of its segment
        self.loop_variables = set()
        self.num_segments = 0

    def split(self):
        "Return the edits; raises `_NotSplit`"
        self.copied = sorted(filter(self._is_assigned, self.params))
        plan = list(self._plan(self.body))
        if not any(kind == 'segment' for kind, *_ in plan):
            raise _NotSplit
        if len(plan) > 1:
            self._classify(plan)
        self._emit(plan)
        for i in self.uses.get('return', ()):
            if 'record_return' in self.code.texts[i : i + 5]:  # needed only by checks
                self._replace(range(i + 1, self.code.find_stop(i, (';',))), '')
        first = next(a for _, a, *_ in plan).start
        arrays = ''.join(
            f' auto *const gs_of_{v.name} = gs_loops.array<{v.type}{v.dims}>();'
            for v in map(self.variables.__getitem__, self.arrays)
        )
        copies = ''.join(map(self._copies_of, self.copied))
        return [(pos := self.code.start(first), pos, f'GRIDSTRIDE_BLOCK{arrays}{copies} '), *self.edits]

    def _copies_of(self, param):
        "Return C++ code for the copies of a parameter, one per thread"
        array = f' auto *const gs_of_{param} = gs_loops.array<std::decay_t<decltype({param})>>();'
        return f'{array} GRIDSTRIDE_THREADS gs_of_{param}[gs_thread] = {param}; GRIDSTRIDE_THREADS_END'

    def _plan(self, tokens):
        "Yield ('segment', statements), ('shared' or 'barrier', statement), or ('loop', statement, plan of its body)"
        code, pending = self.code, []
        for statement in _statements(code, tokens):
            kind = self._kind(statement)
            if kind == 'plain':
                pending.append(statement)
            if kind == 'group':
                self._replace(statement, ';')
            if kind in ('plain', 'group', 'entry'):
                continue
            if pending:
                yield 'segment', pending[0], pending
            pending = []
            if kind == 'loop':
                brace = code.match[statement.start + 1] + 1
                self._check_loop(statement, brace)
                yield kind, statement, list(self._plan(range(brace + 1, statement.stop - 1)))
            else:
                yield kind, statement
        if pending:
            yield 'segment', pending[0], pending

    def _kind(self, statement):
        code, i = self.code, statement.start
        texts = code.texts[i : statement.stop]
        if texts[0] == 'GRIDSTRIDE_ENTRY' or texts[:5] == ['::', 'gridstride', '::', 'check_launch_bounds', '(']:
            return 'entry'
        is_reference = texts[:2] == ['auto', '&'] and texts[3:7] == ['=', '::', 'gridstride', '::']
        text = ' '.join(texts)
        if m := re.fullmatch(r'(?:(?:\w+ :: )*thread_block|auto) (\w+) = (?:\w+ :: )*this_thread_block \( \) ;', text):
            self.groups.add(m[1])
            return 'group'
        m = re.fullmatch(r'(?:(?:\w+ :: )*sync \( (\w+) \)|(\w+) \. sync \( \)) ;', text)
        if m and {*m.groups()} & self.groups:
            return 'barrier'
        if is_reference and texts[7] in ('shared', 'dynamic_shared'):
            return 'shared'
        if texts[0] == 'extern' or texts[0] == 'struct' and texts[1].startswith('gs_align_'):
            return 'shared'
        if {_BARRIER, 'sync'}.isdisjoint(texts):
            if self.groups & {*texts} or not self.source.can_run_in_loop(statement):
                raise _NotSplit
            return 'plain'
        if texts == [_BARRIER, '(', ')', ';']:
            return 'barrier'
        if texts[0] == 'for' and code[code.match[i + 1] + 1] == '{':
            return 'loop'
        raise _NotSplit

    def _check_loop(self, statement, brace):
        "Raise `_NotSplit` unless the loop declares its variables, and changes them in its header only"
        code = self.code
        header = range(statement.start + 2, brace - 1)
        variables = _declared_variables(code, range(header.start, code.find_stop(header.start, (';',)) + 1))
        if not variables or not self.source.can_run_in_loop(header):
            raise _NotSplit
        for v in variables:
            name = code[v.name]
            if self._is_assigned(name, [i for i in self.uses[name] if i in statement and i not in header]):
                raise _NotSplit
            self.loop_variables.add(name)

    def _is_assigned(self, name, tokens=None):
        "Return whether one of these uses of a variable may change it"
        code = self.code
        return any(
            code[i + 1] in _ASSIGNMENTS
            or code[i - 1] in ('++', '--')
            or self._is_address_taken(i)
            or (code[i + 1] == '.' and code[i + 3] in _ASSIGNMENTS)
            or (code[i + 1] in (',', ')') and self.source.takes_references(code[code.parent[i] - 1]))
            for i in (self.uses.get(name, ()) if tokens is None else tokens)
        )

    def _is_address_taken(self, i):
        code = self.code
        is_binary = code.is_word(i - 2) or code[i - 2] in (')', ']')
        return code[i - 1] == '&' and code[i + 1] not in ('[', '->') and not is_binary

    def _classify(self, plan):
        "Find the variables that live across a barrier: those that are recomputed, and those that become arrays"
        self._assign_segments(plan)
        declared = {*self.variables}
        for name, v in self.variables.items():
            segments = {self.segment_of.get(i) for i in self.uses[name]}
            others = [i for i in self.uses[name] if i != v.name]
            if self._is_derivable(v) and not self._is_assigned(name, others):
                indices = {*self.code.texts[v.init.start : v.init.stop]}
                self.derived[name] = 'threadIdx' not in indices and all(
                    self.derived.get(other, True) for other in indices & declared
                )
            elif len(segments) > 1:
                if 'auto' in v.type or v.dims and v.init or None in segments:
                    raise _NotSplit
                self.arrays.append(name)
        self._check_uniform(plan)

    def _assign_segments(self, plan):
        code = self.code
        for kind, statement, *parts in plan:
            if kind == 'loop':
                self._assign_segments(parts[0])
            if kind != 'segment':
                continue
            self.num_segments += 1
            for simple_statement in parts[0]:
                self._reject_jumps(simple_statement)
                if not _is_expression(code, simple_statement) and not _declared_variables(code, simple_statement):
                    raise _NotSplit
                self.segment_of.update(dict.fromkeys(simple_statement, self.num_segments))
                for v in _declared_variables(code, simple_statement):
                    if code[v.name] in self.variables or code[v.name] in self.params | self.loop_variables:
                        raise _NotSplit
                    self.variables[code[v.name]] = v

    def _reject_jumps(self, statement):
        "Raise `_NotSplit` for a `return`, and a `break` or `continue` of a loop around the statement"
        code = self.code
        for i in statement:
            if code[i] == 'return':
                raise _NotSplit
            if code[i] in ('break', 'continue'):
                outer = code.parent[i]
                while outer >= statement.start and not self._opens_loop_body(outer):
                    outer = code.parent[outer]
                if outer < statement.start:
                    raise _NotSplit

    def _opens_loop_body(self, opening):
        code = self.code
        if code[opening] != '{' or code[opening - 1] != ')':
            return False
        return code[code.match[opening - 1] - 1] in _CONTROL_KEYWORDS - {'if'}

    def _is_derivable(self, v):
        "Return whether the value of a variable depends only on indices, parameters and constants"
        return bool(v.init) and not v.dims and all(self._is_fixed(i) for i in v.init)

    def _is_fixed(self, i):
        "Return whether a token of an expression has the same value whenever a thread evaluates it"
        code, text = self.code, self.code[i]
        if text in ('[', '->', '{') or text in _ASSIGNMENTS:
            return False
        if text in ('*', '&') and not (code.is_word(i - 1) or code[i - 1] in (')', ']') or code[i - 1][0].isdigit()):
            return False
        if not code.is_word(i) or code[i - 1] == '.':
            return True
        return (
            text
            in INDICES
            | TYPES
            | FUNCTIONS
            | self.constants
            | self.params.difference(self.copied)
            | self.loop_variables
            | _CASTS
            or text in self.derived
            or self.source.is_constant_macro(text)
            or text in ('sizeof', 'true', 'false')
            or self._is_constant(text)
        )

    def _is_constant(self, name):
        "Return whether `name` is a constant of the source, or a function of its arguments alone"
        code = self.code
        if name in self.variables:
            return False
        if self.source.can_function_run_in_loop(name):
            return all('[' not in code.texts[body.start : body.stop] for _, body in self.source.bodies[name])
        return bool(re.search(rf'\b(?:const|constexpr)\b[^;(){{}}&*]*\b{re.escape(name)}\s*=', code.src))

    def _check_uniform(self, plan):
        "Raise `_NotSplit` if the number of iterations of a loop with barriers may differ between threads"
        code = self.code
        for kind, statement, *parts in plan:
            if kind != 'loop':
                continue
            for i in range(statement.start + 2, code.match[statement.start + 1]):
                text = code[i]
                is_fixed = text in (*_ASSIGNMENTS, ';') or self._is_fixed(i)
                if not is_fixed or text == 'threadIdx' or not self.derived.get(text, True):
                    raise _NotSplit
            self._check_uniform(parts[0])

    def _emit(self, plan):
        code = self.code
        for kind, statement, *parts in plan:
            if kind == 'barrier':
                self._replace(statement, ';')
            elif kind == 'loop':
                header = range(statement.start, code.match[statement.start + 1])
                self._insert(statement.start, f'{{ {self._redeclared(self._used_names(header), header)}')
                self._emit(parts[0])
                self._insert_after(statement.stop - 1, ' }')
            elif kind == 'segment':
                self._emit_segment(parts[0])

    def _emit_segment(self, statements):
        tokens = range(statements[0].start, statements[-1].stop)
        used = self._used_names(tokens)
        names = ''.join(
            f'auto &{name} = gs_of_{self.variables[name].name}[gs_thread]; ' for name in self.arrays if name in used
        )
        names += ''.join(f'auto &{name} = gs_of_{name}[gs_thread]; ' for name in self.copied if name in used)
        self._insert(tokens.start, f'GRIDSTRIDE_THREADS {self._redeclared(used, tokens)}{names}')
        for statement in statements:
            self._rewrite_declaration(statement)
        self._insert_after(tokens.stop - 1, ' GRIDSTRIDE_THREADS_END')

    def _used_names(self, tokens):
        return {self.code[i] for i in tokens if self.code.is_word(i)}

    def _redeclared(self, used, tokens):
        "Return C++ code that recomputes the derived variables in `used` that are declared before `tokens`"
        code = self.code
        needed = []
        for name in reversed(self.derived):  # a variable follows those from which it is computed
            v = self.variables[name]
            if name in used and v.name not in tokens and v.name < tokens.start:
                used = used | self._used_names(v.init)
                needed.insert(0, f'[[maybe_unused]] {v.type} {name} = {code.text(v.init)}; ')
        return ''.join(needed)

    def _rewrite_declaration(self, statement):
        "Replace the declaration of variables with an element per thread by assignments"
        code = self.code
        variables = _declared_variables(code, statement)
        if not any(code[v.name] in self.arrays for v in variables):
            return
        parts = []
        for v in variables:
            init = f' = {code.text(v.init)}' if v.init else ''
            is_array = code[v.name] in self.arrays
            declaration = code[v.name] if is_array else f'[[maybe_unused]] {v.type} {code[v.name]}{v.dims}'
            parts.append(f'{declaration}{init};' if init or not is_array else '')
        self._replace(statement, ' '.join(filter(None, parts)) or ';')

    def _replace(self, tokens, text):
        start, end = self.code.start(tokens.start), self.code.end(tokens.stop - 1)
        self.edits.append((start, end, text + '\n' * self.code.src.count('\n', start, end)))

    def _insert(self, i, text):
        self.edits.append((pos := self.code.start(i), pos, text))

    def _insert_after(self, i, text):
        self.edits.append((pos := self.code.end(i), pos, text))


def _statements(code, tokens):
    "Yield the range of tokens of each statement in `tokens`"
    i = tokens.start
    while i < tokens.stop:
        stop = _statement_end(code, i)
        yield range(i, stop)
        i = stop


def _statement_end(code, i):
    if code[i] == '{':
        return code.match[i] + 1
    if code[i] not in _CONTROL_KEYWORDS:
        return code.find_stop(i, (';',)) + 1
    paren = i + 1 + (code[i + 1] == 'constexpr')
    stop = _statement_end(code, code.match[paren] + 1)
    return _statement_end(code, stop + 1) if code[i] == 'if' and code[stop] == 'else' else stop


def _is_expression(code, statement):
    "Return whether a statement declares nothing that the next statements could use"
    first, second = code[statement.start], code[statement.start + 1]
    is_simple = first in _CONTROL_KEYWORDS or first in ('{', '*', '(', ';', '++', '--', 'break', 'continue')
    return is_simple or first not in TYPES and (second in ('(', '[', '.', '->') or second in _ASSIGNMENTS)


def _declared_variables(code, statement):
    "Return the `_Variable`s that a statement declares; [] for an expression, and for variables of an unknown type"
    i = statement.start
    while code[i] in ('const', 'constexpr'):
        i += 1
    first = i
    while code[i] in TYPES or code[i] == 'auto' or i > first and code[i] == 'const':
        i += 1
    if i == first or not statement.start <= i < statement.stop or code[i] in ('(', ';'):
        return []
    type_tokens = code.texts[statement.start : i]
    return [_variable(code, type_tokens, a, b, statement) for a, b in _declarators(code, i, statement.stop - 1)]


def _declarators(code, i, end):
    "Yield (start, end) of each declarator in `i:end`, which commas separate"
    while i < end:
        stop = min(code.find_stop(i, (',',)), end)
        yield i, stop
        i = stop + 1


def _variable(code, type_tokens, i, end, statement):
    stars = ''
    while code[i] in ('*', 'const', '__restrict__', '__restrict', '&'):
        if code[i] == '&':
            raise _NotSplit
        stars += '*' if code[i] == '*' else ''
        i += 1
    name, dims_end = i, i + 1
    while code[dims_end] == '[' and dims_end < end:
        dims_end = code.match[dims_end] + 1
    if dims_end < end and code[dims_end] != '=' or not code.is_word(name):
        raise _NotSplit
    dims = code.text(range(name + 1, dims_end)) if dims_end > name + 1 else ''
    # A `const` before a `*` belongs to the type; without a `*`, the variable itself is constant.
    type_ = ' '.join(text for text in type_tokens if text != 'constexpr' and (stars or text != 'const')) + stars
    return _Variable(name, dims, range(min(dims_end + 1, end), end), type_, statement)
