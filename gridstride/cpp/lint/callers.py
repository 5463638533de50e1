"""Who calls what, as a compiler finds it: methods, constructors, operators, overloads, functions of templates.

Tokens do not tell which of two overloads is meant, nor where a destructor is called. A compiler knows. So functions of
the host alone are marked as deprecated: of each use it says the place, and a use in device code is refused, as by nvcc.
"""

import os, re
from bisect import bisect
from functools import lru_cache
from typing import NamedTuple

from ..frontend.code import collected_later
from ..frontend.declarations import BUILTIN, KEYWORDS, TYPES, class_of
from ..frontend.edits import apply
from ..frontend.tokens import WrongSource
from .inlined import inlined
from .host_variables import host_variables
from ..frontend.reader import Head, heads, namespace_of, parameter, read
from .host_device_check import HOST, KNOWN

_FOR_GPU = {'__global__', '__device__', '__constant__', '__shared__', '__managed__'}
_NO_MARK = _FOR_GPU | {'typedef', 'using', 'static_assert', 'namespace', 'extern', 'new', 'delete'}
_ACCESS = {'public', 'private', 'protected'}


class _Declared(NamedTuple):
    "A function that a source declares: its first token behind the template's header, its `(`, whose member it is"

    first: int
    p: int
    owner: str
    words: set
    defined: bool

    @property
    def for_gpu(self):
        return '__global__' in self.words or '__device__' in self.words and '__host__' not in self.words


@lru_cache(16)  # of a few files each
@collected_later()
def mark(
    text: str,  # C++ for the emulator
    own='',  # what makes a function this source's own, if it is all that is compiled but for headers of ours
    inline='',  # what makes a function part of its callers, if findings shall name the calls
) -> str:
    """`text`, in which functions and variables of the host alone are marked: the compiler tells where they are used.

    What is written in PTX becomes longest: where nobody else can call it, what nobody calls is not compiled."""
    try:
        c = read(text).main
    except ValueError:
        return text  # the compiler will say what is wrong
    found = _declared(c)
    defined = {c[f.p - 1] for f in found if f.defined}
    hosts = [f for f in found if _is_host(c, f) and (f.owner or c[f.p - 1] in defined)]
    hosts = _without_others(c, hosts, [f for f in found if _is_unclear(f) or f.words & _FOR_GPU])
    marks = [(f.first, 'constexpr' if 'constexpr' in f.words else 'host') for f in hosts if c[f.p - 2] != '::']
    marks += host_variables(c, _all_heads(c))
    texts = [(i, _mark(kind)) for i, kind in sorted(marks)] + [(i, own) for i in _own(c, found) if own]
    marked = {i for i, _ in texts}
    texts += [(i, inline) for i in (inlined(c, found, _end) if inline else ()) if i not in marked]
    edits = [(at := c.start(i), at, text) for i, text in sorted(texts)]
    return apply(text, [*edits, *_entries(c, found)])


def entry_of(kernel: str) -> str:
    "C++ by which a kernel begins: it may only run by a launch"
    return f' GRIDSTRIDE_ENTRY("{kernel}");'


def _entries(c, found):
    "Edits by which each kernel of `found` begins with `entry_of` its name"
    for f in found:
        body = c.until(c.mate[f.p] + 1, ('{', ';'))
        if f.defined and '__global__' in f.words and c[body] == '{':
            yield (at := c.end(body)), at, entry_of(c[f.p - 1])


def _without_others(c, hosts, others):
    "Of the functions `hosts` those that are none of `others`, as overloads are not"
    names = {c[f.p - 1] for f in hosts} & {c[f.p - 1] for f in others}
    keys = {_key(c, f) for f in others if c[f.p - 1] in names}
    return [f for f in hosts if c[f.p - 1] not in names or _key(c, f) not in keys]


def _mark(kind):
    return f'__attribute__((deprecated("gridstride, {kind}"))) '


_SAYS_WHOSE = {'extern', 'static', 'inline', '__inline__', '__forceinline__', 'constexpr', 'operator', '__global__'}


def _own(c, found):
    "The first tokens of plain functions of the device, of `found`, that are written in PTX and declared only once"
    in_ptx = [i for i in c.find('ptx') if (c[i - 2], c[i - 1]) == ('gridstride', '::')]
    defined = {f.p - 1 for f in found if f.defined}
    for f in found:
        plainly = '__device__' in map(c.__getitem__, range(f.first, f.p))  # not as a macro
        if not (f.defined and plainly) or f.owner or f.words & _SAYS_WHOSE or _is_unclear(f):
            continue
        first = bisect(in_ptx, f.p)
        if c[f.first - 1] not in ('', ';', '{', '}') or first == len(in_ptx) or in_ptx[first] >= _end(c, f.p):
            continue
        name, space = c[f.p - 1], namespace_of(c, f.p)
        before = [i for i in c.find(name) if i < f.p - 1 and i not in defined and _may_declare(c, i)]
        if name not in KNOWN | BUILTIN and not any(namespace_of(c, i) == space for i in before):
            yield f.first


def _may_declare(c, i):
    "Stands before the name at token `i` what may be a type?"
    return c[i - 1] in ('*', '&', '&&', '>', ']', ')') or c.is_word(i - 1) and c[i - 1] not in KEYWORDS


@lru_cache(4)
def _declared(c) -> tuple:
    "Each function that is declared outside of functions, members of classes, too"
    return tuple(_declared_in(c))


def _declared_in(c):
    for owner, head in _all_heads(c):
        first = c.after_template(head.start)
        if c[first] == 'extern' and c.is_string(first + 1):
            first += 2
        while c[first] == '[' and c[first + 1] == '[':
            first = c.mate[first] + 1
        p = _parameters(c, first, head.end)
        if p is None or p not in c.mate or c[first] in ('template', 'using', 'typedef', 'return'):
            continue
        words = c.words_of(first, p - 1)
        if owner or c[p - 2] == '::' or p - 1 > first or 'operator' in words:
            yield _Declared(first, p, owner or _owner(c, p), words, head.defines)


@lru_cache(4)
def _all_heads(c) -> tuple:
    "(the class or '', a `Head`) of what is in no function"
    return tuple(_all_heads_of(c))


def _all_heads_of(c):
    yield from (('', head) for head in heads(c))
    for o in c.find('{'):
        if (c.kind(o) == 'type' or _is_local_class(c, o)) and (name := class_of(c, o)):
            yield from ((name, head) for head in _members(c, o))


def _is_local_class(c, o):
    "Is what opens at `o`, in a function, a class with a name?"
    return c.scope(o) == 'code' and c.is_word(o - 1) and c[o - 2] in TYPES


def _members(c, o):
    "The `Head`s of what is declared between the `{` at `o` and its mate"
    i = start = o + 1
    while i < c.mate[o]:
        if c[i] == ':' and c[i - 1] in _ACCESS:
            start = i + 1
        elif c[i] in ('{', ';'):
            yield Head(start, i, c[i] == '{')
            start = c.mate.get(i, i) + 1
        i = c.mate.get(i, i) + 1


def _parameters(c, first, end):
    "Index of the `(` of the parameters of the function that is declared in `first:end`; None for something else"
    o = next((i for i in c.find_between('operator', first, end) if c.outer[i] == c.outer[first]), None)
    if o is None:
        return c.call(first, end)
    i = o + 3 if (c[o + 1], c[o + 2]) == ('(', ')') else o + 1
    return next((j for j in range(i, end) if c[j] == '('), None)


def _owner(c, p):
    "The class in front of `::f(`, '' for none"
    i = p - 2
    if c[i] != '::':
        return ''
    i = c.angle_back(i - 1) or i if c[i - 1] == '>' else i
    return c[i - 1]


def _key(c, f):
    "What one function's declarations have in common"
    return (
        namespace_of(c, f.p),
        f.owner,
        c[f.p - 2] == '~',
        c[f.p - 1],
        tuple(parameter(c, a, b).type for a, b in c.arguments(f.p)),
    )


def _is_unclear(f):
    "Stands before it what may be a macro?"
    return any(len(w) > 1 and w.isupper() and w != f.owner for w in f.words)


def _is_host(c, f):
    "Is it a function of the host alone? Not where a macro or the compiler decides"
    name, after = c[f.p - 1], c.mate[f.p] + 1
    stated = {*c.texts[f.first : f.p - 1]}
    if _is_unclear(f) or f.words & _NO_MARK or name in KNOWN | BUILTIN and not f.owner:
        return False
    if 'friend' in f.words and not f.defined or c[c.until(after, ('=', ';', '{'))] == '=':
        return False
    return bool(stated - {'~', 'inline', 'static'}) or name == f.owner


# From here on: what is said of marked functions, and of the standard library's


class Unit(NamedTuple):
    "A text that is compiled: C++, marked, the file that its first line is of, and that file as the learner wrote it"

    text: str
    file: str
    original: str


_SAID = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?P<column>\d+): warning: (?:'(?P<what>.*)' is deprecated: "
    r"gridstride, (?P<kind>host|constexpr)|'(?P<variable>.*)' is deprecated: gridstride, (?P<is>variable|array)|"
    r"variable length array '(?P<vla>.*)' is used|variable length arrays (?P<clang>are a C99|in C\+\+ are)) ",
    re.M,
)
_FIRST = re.compile(r'^([^\s:][^:\n]*):(\d+):(\d+): note: .*first required here', re.M)  # of what a compiler makes
_DECLARED = re.compile(r'^([^\s:][^:\n]*):(\d+):(\d+): note: .*(?:declared|marked deprecated) here', re.M)
_DEFINES_DEVICE = re.compile(r'^[ \t]*#[ \t]*define[ \t]+(\w+)\b[^\n]*__(?:device|global)__', re.M)


def wrong_callers(
    log: str,  # of the compiler
    units: list,  # of `Unit`
    takes: tuple,  # more than nvcc without options: 'constexpr', as with --expt-relaxed-constexpr
    tab: int,  # columns of the log between two stops of a tab
):
    "Generator of a `WrongSource` for each use of a marked function in device code"
    found = list(_SAID.finditer(log))
    if not found:
        return
    known = [(unit, _lines_of(unit)) for unit in units]
    macros = {m for unit in units for m in _DEFINES_DEVICE.findall(unit.text)}
    for m, after in zip(found, [*found[1:], None]):
        rest = log[m.end() : after.start() if after else len(log)]
        if m['kind'] in takes or _names_one(macros, _DECLARED.search(rest), known):
            continue
        for at in filter(None, (_FIRST.search(rest), m)):
            place = _locate(known, at, tab)
            if place and _is_in_device_code(place[0].text, place[1], m):
                yield _tell(m, at, place[0])
                break


_CONTEXT = re.compile(r': (?:In|At) |:\s+(?:recursively )?required |^In file included|^\s+from ')
_DIAGNOSTIC = re.compile(r': (?:warning|(?:fatal )?error): ')


_OF_MARKED = '[-Wdeprecated-declarations]', '[-Wvla', 'might not be inlinable [-Wattributes]'


def without_marked(
    log: str,  # of a compiler
) -> str:
    """The log without what it says of marked functions, and of where it says that.

    Of what else is deprecated it says nothing either: clang tells that of libstdc++'s own code, which sorts with it."""
    kept, skipping = [], False
    for line in log.splitlines(keepends=True):
        if _DIAGNOSTIC.search(line):
            skipping = any(o in line for o in _OF_MARKED)
            while skipping and kept and _CONTEXT.search(kept[-1]):
                kept.pop()
        if not skipping or _CONTEXT.search(line):
            kept.append(line)
    return ''.join(kept)


def _lines_of(unit):
    "Where the lines of a text are, after its `#line`s: (file, line) -> (place in the text, what stands there)"
    res, file, line, at = {}, unit.file, 1, 0
    for text in unit.text.splitlines(keepends=True):
        if m := re.match(r'\s*#line (\d+)(?: "(.*)")?', text):
            line, file = int(m[1]), m[2] or file
        else:
            res[file, line] = at, text
            line += 1
        at += len(text)
    return res


def _locate(known, m, tab):
    "(the `Unit`, the place in it, its line there) of what was said; None if it is of no unit"
    where, column = (os.path.normpath(m[1]), int(m[2])), int(m[3])
    for unit, lines in known:
        if where in lines:
            at, text = lines[where]
            n = next((i for i in range(len(text)) if len(text[:i].expandtabs(tab)) >= column - 1), len(text) - 1)
            return unit, at + n, text


def _names_one(macros, m, known):
    "Stands one of these macros where a function is declared? `m`: the match that says where"
    place = m and _locate(known, m, 1)
    return bool(place) and any(re.search(rf'\b{o}\b', place[2]) for o in macros)


@lru_cache(16)
def device_code(
    text: str,  # C++ for the emulator
):
    """The `Code` of a text, and for each function's definition that only a GPU runs (its parameters' `)`, its end)

    What stands in the parameters is evaluated where they are left out, if at all."""
    c = read(text).main
    return c, _bodies(c, lambda f: f.for_gpu)


@lru_cache(16)
def code_of_both(
    text: str,  # C++ for the emulator
):
    "`device_code` for functions that are `__host__ __device__`"
    c = read(text).main
    return c, _bodies(c, lambda f: {'__host__', '__device__'} <= f.words)


def _bodies(c, wanted):
    found = [(f.first, c.mate[f.p], _end(c, f.p)) for f in _declared(c) if f.defined and wanted(f)]
    return [(p, b) for a, p, b in found if not _is_conditional(c, a, b)]


def _is_in_device_code(text, at, said):
    "Is the token at this place in a function that only a GPU runs, where what was `said` is wrong?"
    c, found = device_code(text)
    i = min(bisect(range(len(c)), at, key=c.end), len(c) - 1)
    within = next(((a, b) for a, b in found if a <= i < b), None)
    if within is None or not c.is_evaluated(i) or said['is'] and is_idle_template(c, c.mate[within[0]]):
        return False
    return said['is'] != 'array' or not _is_constant(c, i)


def is_idle_template(
    c,  # `Code`
    p: int,  # index of a function's `(`
) -> bool:
    "Is the function a template that nothing names?"
    first = p
    while first > 0 and c[first - 1] not in (';', '}', '{'):
        first = c.mate.get(first - 1, first - 1) if c[first - 1] in (')', ']') else first - 1
    return c[first] == 'template' and len(list(c.find(c[p - 1]))) == 1


def _is_constant(c, i):
    "May the value of the array's element be one that the compiler knows? Then it may not ask who runs this"
    if not any(c.is_word(j) for j in range(i + 1, c.mate.get(i + 1, i + 1))):
        return True
    around = i
    while (around := c.outer[around]) >= 0 and c[around] != '{':
        if c[around] == '[' and c.is_word(around - 1) and c.is_word(around - 2) and c[around - 2] not in KEYWORDS:
            return True
    start = i
    while c[start - 1] not in (';', '{', '}'):
        start = c.mate.get(start - 1, start - 1) if c[start - 1] in (')', ']') else start - 1
    before = range(start, i)
    if {'constexpr', 'static_assert', 'case'} & {c[j] for j in before} or 'enum' in (c[around - 1], c[around - 2]):
        return True
    return any(c[j] == '<' and (c.angle(j) or 0) > i for j in before)


def _end(c, p):
    "Index behind the body of the function with its parameters at `p`, and behind what initialises its members"
    i = c.until(c.mate[p] + 1, (':', '{', ';'))
    while c[i] in (':', ','):
        i = next(j for j in range(i + 1, len(c)) if c[j] in ('(', '{'))
        i = c.mate[i] + 1
    return c.mate.get(i, i) + 1


def _is_conditional(c, a, b):
    "Does the preprocessor choose in `a:b` what is compiled for whom?"
    return c.has_directive(a + 1, b + 1, 'CUDA')


_CONSTEXPR = (
    '{what} alone is not a device function: write `__host__ __device__` before it, '
    'or compile with --expt-relaxed-constexpr'
)


_VARIABLE = (
    '{what} is a host variable, but this code runs on the GPU: write `__device__` before it, or `__constant__` '
    'if kernels only read it, or pass its value to the kernel'
)
_LENGTH = (
    '{what} has a size that is known only at run time, but the size of a local array must be a compile-time '
    'constant: write a constant, or use shared memory, `extern __shared__`'
)


def _tell(m, at, unit):
    "The `WrongSource`; `at`: the match that says where"
    words = (
        _LENGTH
        if m['vla'] or m['clang']
        else _VARIABLE
        if m['is']
        else _CONSTEXPR
        if m['kind'] == 'constexpr'
        else HOST
    )
    file, line = os.path.normpath(at[1]), int(at[2])
    what = m['what'] or m['variable'] or m['vla'] or 'this array'  # clang does not name it
    return wrong(words.format(what=re.sub(r' \[with .*\]', '', what)), file, line, unit)


def wrong(what: str, file: str, line: int, unit: Unit) -> WrongSource:
    "The `WrongSource` that says `what`, with the learner's line"
    known = unit.original.splitlines()
    text = known[line - 1].strip() if file == unit.file and line <= len(known) else ''
    return WrongSource(f'{what}\n  {file}, line {line}: {text}')
