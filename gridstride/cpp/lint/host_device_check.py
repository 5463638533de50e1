"""Refuses launches of functions that are not kernels, and calls of device functions by the host.

nvcc refuses these, but to g++ kernels and device functions are ordinary functions. `callers` checks the calls in device
code. This module checks only unambiguous names: functions outside classes, called with their namespaces, that have no
host overload, and whose name has no other meaning in the caller.
"""

import math

from ..frontend.code import Code
from ..frontend.declarations import BUILTIN, KEYWORDS
from ..frontend.tokens import WrongSource
from ..frontend.reader import heads, namespace_of, parenthesis

# Names of functions that exist on the host and in device code
KNOWN = {*dir(math), *(f'{name}f' for name in dir(math)), 'min', 'max', 'abs'}


def refuse_wrong_side_calls(
    c: Code,
    functions: list,  # of `Function`: those of the source
):
    """Raise `WrongSource` for a call or launch on the wrong side.

    These are launches of functions that are not kernels, calls of device functions by host functions, host functions
    as arguments of device templates that call them, and exceptions in device code."""
    sides = {}
    for f in functions:
        sides.setdefault(_join_scope(f.scope, f.name), set()).add(_side(f))
    side_of_name = {k: v.pop() for k, v in sides.items() if len(v) == 1 and k not in KNOWN and k not in BUILTIN}
    _refuse_launches(c, side_of_name)
    if '__CUDACC__' in c.src or '__CUDA_ARCH__' in c.src:
        return  # the preprocessor decides which code is for the host and which for the device
    device_functions, uses_std = {k for k, v in side_of_name.items() if v == 'device'}, 'using namespace std' in c.src
    unqualified = frozenset(name.rpartition('::')[2] for name in device_functions)
    for head in heads(c):
        p = parenthesis(c, head)
        if p is None or not head.defines or c[p - 2] == '::':
            continue  # in a member of a class, a name may be that of another member
        words = c.words_of(head.start, p)
        body = range(head.end + 1, c.match.get(head.end, head.end))
        if words & {'__global__', '__device__'} and 'template' not in words:
            _refuse_exceptions(c, body)
            if '__host__' not in words:
                _refuse_host_library(c, body, uses_std)
        decided_by_preprocessor = {'__global__', '__device__', 'template', 'constexpr'}
        if not words & decided_by_preprocessor and not c.find_between('__device__', body.start, body.stop):
            _refuse_calls(c, body, device_functions, unqualified)
    _refuse_arguments(c, functions, {k for k, v in side_of_name.items() if v == 'host'})


HOST = '{what} is a host function, but this code runs on the GPU: write `__device__` before it'
_DEVICE = '{name} is a device function, which host code cannot call: write `__host__ __device__` before it'


def _join_scope(scope, name):
    return f'{scope}::{name}' if scope else name


def _qualified_name(c, i):
    "Return the name at token `i` with the namespaces before it"
    name = c[i]
    while c[i - 1] == '::' and c.is_word(i - 2):
        i -= 2
        name = f'{c[i]}::{name}'
    return f'::{name}' if c[i - 1] == '::' else name


_NOT_IN_DEVICE_CODE = {
    'dynamic_cast': 'it has no type information at run time; keep the type in a member',
    'typeid': 'it has no type information at run time; keep the type in a member',
    'thread_local': 'a local variable of device code already belongs to one thread',
}


_EXCEPTIONS = frozenset(('throw', 'try', *_NOT_IN_DEVICE_CODE))


def _refuse_exceptions(c, body):
    for i in c.find_any_between(_EXCEPTIONS, body.start, body.stop):
        if c[i] in ('throw', 'try') and c.is_word(i) and (c[i + 1], c[i + 2]) != ('(', ')'):
            raise c.error(WrongSource, f'device code has no exceptions: return an error value instead of `{c[i]}`', i)
        if c[i] in _NOT_IN_DEVICE_CODE and c.is_word(i):
            raise c.error(WrongSource, f'device code has no `{c[i]}`: {_NOT_IN_DEVICE_CODE[c[i]]}', i)


_USE_ARRAY = 'use an array whose size is a compile-time constant, or one that is passed to it'
_STREAM_NAMES = 'cout', 'cerr', 'clog', 'cin'
_INSTEAD_OF_LIBRARY = {  # host-only names of the C++ library -> what a kernel uses instead
    **dict.fromkeys(_STREAM_NAMES, 'use printf'),
    **dict.fromkeys(('string', 'vector', 'map', 'set', 'deque', 'list', 'unordered_map', 'unordered_set'), _USE_ARRAY),
}


_LIBRARY_NAMES = frozenset(_INSTEAD_OF_LIBRARY)


def _refuse_host_library(c, body, uses_std):
    "Raise `WrongSource` for `std::cout << x`, `std::vector<int> v`, ...; `uses_std`: whether `std::` may be omitted"
    for i in c.find_any_between(_LIBRARY_NAMES, body.start, body.stop):
        is_std_name = (c[i - 2], c[i - 1]) == ('std', '::') or uses_std and c[i - 1] not in ('::', '.', '->')
        if c.is_word(i) and is_std_name:
            end = c.angle(i + 1) if c[i + 1] == '<' else i if c[i] == 'string' else None
            if c[i] in _STREAM_NAMES and c[i + 1] in ('<<', '>>') or end is not None and c.is_word(end + 1):
                raise c.error(WrongSource, f'std::{c[i]} is host-only: {_INSTEAD_OF_LIBRARY[c[i]]}', i)


def _side(f):
    "Return 'kernel', 'host' or 'device', where a function runs; None if on both, or if that is unknown"
    if 'constexpr' in f.words or any(map(str.isupper, f.words)) and any(len(w) > 1 and w.isupper() for w in f.words):
        return None
    if '__global__' in f.words:
        return 'kernel'
    if '__device__' in f.words:
        return None if '__host__' in f.words or f.template else 'device'
    return 'host'


def _refuse_launches(c, names):
    for i in c.find('<<<'):
        if names.get(c[i - 1]) in ('host', 'device') and c[i - 2] not in ('::', '.', '->'):
            what = f'{c[i - 1]} is not a kernel, so it cannot be launched: write `__global__` before it'
            raise c.error(WrongSource, what, i - 1)


def _refuse_calls(c, body, names, unqualified):
    "Raise `WrongSource` for a call of one of `names`; `unqualified`: these names without namespaces"
    uses = c.find_any_between(unqualified, body.start, body.stop)
    local_names = uses and {c[i] for i in body if c.is_word(i) and c.is_word(i - 1) and c[i - 1] not in KEYWORDS}
    for i in uses:
        end = c.angle(i + 1) if c[i + 1] == '<' else None
        name = _qualified_name(c, i)
        if (
            c[end + 1 if end else i + 1] == '('
            and c[i - 1] not in ('.', '->')
            and name in names
            and name not in local_names
        ):
            raise c.error(WrongSource, _DEVICE.format(name=name), i)


def _refuse_arguments(c, functions, hosts):
    "Refuse host functions as template arguments: g++ 13, unlike g++ 12 and clang, does not warn of these, if marked"
    if not hosts:
        return
    if any((c[i + 1], c[i + 2]) == ('<', '>') for i in c.find('template')):
        return  # a specialization may not call its argument
    template = {}
    for f in functions:
        for_gpu = f.words & {'__global__', '__device__'} and '__host__' not in f.words
        template.setdefault(_join_scope(f.scope, f.name), []).append(f.template.count('<') and for_gpu)
    called = {}  # name of a template for the GPU -> indices of the arguments that it calls
    for head in heads(c):
        p = parenthesis(c, head) if head.defines and c[head.start] == 'template' else None
        name = p and _join_scope(namespace_of(c, p), c[p - 1])
        if name and all(template.get(name, [False])):
            body = range(head.end + 1, c.match.get(head.end, head.end))
            declared = (_declared_parameter(c, *span) for span in _template_arguments(c, head.start + 1))
            called[name] = {n for n, parameter in enumerate(declared) if parameter and _is_called(c, parameter, body)}
    for i in c.find('<'):
        indices = called.get(_qualified_name(c, i - 1)) if c[i - 2] != 'template' and c.angle(i) else ()
        for n, (a, b) in enumerate(_template_arguments(c, i)) if indices else ():
            name = ''.join(c[j] for j in range(a + (c[a] == '&'), b))
            if n in indices and name in hosts:
                raise c.error(WrongSource, HOST.format(what=name), a)


def _is_called(c, name, body):
    uses = c.find_between(name, body.start, body.stop)
    return any(c[i + 1] == '(' and c[i - 1] not in ('.', '->', '::') and c.is_evaluated(i) for i in uses)


def _template_arguments(c, i):
    "Return a list with (start, end) of each template argument after the `<` at `i`"
    spans, end = [], c.angle(i) or i
    while i < end:
        a, i = i + 1, min(c.until(i + 1, (',', '>')), end)
        spans.append((a, i))
    return spans


def _declared_parameter(c, a, b):
    "Return the name of the template parameter that the tokens `a:b` declare; None for a type parameter"
    if c[a] in ('class', 'typename', 'template'):
        return None
    b = min(c.until(a, ('=',)), b)
    return next((c[i] for i in range(a + 1, b) if c[i - 1] in ('*', '&') and c[i + 1] == ')'), c[b - 1])
