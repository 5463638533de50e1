"""Rejects launches of functions that are not kernels, and calls of device functions from host code.

nvcc rejects these, but g++ compiles kernels and device functions as ordinary functions. `callers` checks the calls in
device code. This module checks only unambiguous names: functions outside classes, called with their namespaces, that
have no host overload, and whose name is not redeclared in the caller.
"""

import math

from ..frontend.code import Code
from ..frontend.declarations import BUILTIN, KEYWORDS
from ..frontend.tokens import WrongSource
from ..frontend.reader import declaration_heads, namespace_of, parameters_start

# Names of library functions that host code and device code can call
HOST_AND_DEVICE_FUNCTIONS = {*dir(math), *(f'{name}f' for name in dir(math)), 'min', 'max', 'abs'}


def reject_wrong_execution_space(
    code: Code,
    functions: list,  # of `Function`: those of the source
):
    """Raise `WrongSource` for a call, a launch or a keyword in the wrong execution space, host or device.

    It rejects launches of functions that are not kernels, calls of device functions by host functions, host functions
    as arguments of device templates that call them, and features that device code lacks, such as exceptions."""
    spaces = {}
    for function in functions:
        spaces.setdefault(_join_scope(function.scope, function.name), set()).add(_execution_space(function))
    ambiguous = HOST_AND_DEVICE_FUNCTIONS | BUILTIN
    space_of_name = {k: v.pop() for k, v in spaces.items() if len(v) == 1 and k not in ambiguous}
    _reject_launches(code, space_of_name)
    if '__CUDACC__' in code.src or '__CUDA_ARCH__' in code.src:
        return  # preprocessor directives distinguish host and device code
    device_functions, uses_std = (
        {k for k, v in space_of_name.items() if v == 'device'},
        'using namespace std' in code.src,
    )
    unqualified_names = frozenset(name.rpartition('::')[2] for name in device_functions)
    for head in declaration_heads(code):
        paren = parameters_start(code, head)
        if paren is None or not head.is_definition or code[paren - 2] == '::':
            continue  # a name in a member function may refer to another member of its class
        specifiers = code.expanded_texts(head.start, paren)
        body = range(head.end + 1, code.match.get(head.end, head.end))
        if specifiers & {'__global__', '__device__'} and 'template' not in specifiers:
            _reject_host_keywords(code, body)
            if '__host__' not in specifiers:
                _reject_host_library(code, body, uses_std)
        may_run_on_gpu = specifiers & {'__global__', '__device__', 'template', 'constexpr'}
        if not may_run_on_gpu and not code.find_between('__device__', body.start, body.stop):
            _reject_calls(code, body, device_functions, unqualified_names)
    _reject_arguments(code, functions, {k for k, v in space_of_name.items() if v == 'host'})


HOST_FUNCTION_IN_DEVICE_CODE = '{name} is a host function, but this code runs on the GPU: declare it `__device__`'
_DEVICE_FUNCTION_IN_HOST_CODE = (
    '{name} is a device function, which host code cannot call: declare it `__host__ __device__`'
)


def _join_scope(scope, name):
    return f'{scope}::{name}' if scope else name


def _qualified_name(code, i):
    "Return the name at token `i` with the namespaces before it"
    name = code[i]
    while code[i - 1] == '::' and code.is_word(i - 2):
        i -= 2
        name = f'{code[i]}::{name}'
    return f'::{name}' if code[i - 1] == '::' else name


_REJECTION_REASONS = {
    **dict.fromkeys(('dynamic_cast', 'typeid'), 'a GPU has no run-time type information; store the type in a member'),
    'thread_local': 'a local variable of device code already belongs to one thread',
}


_HOST_ONLY_KEYWORDS = frozenset(('throw', 'try', *_REJECTION_REASONS))


def _reject_host_keywords(code, body):
    for i in code.find_any_between(_HOST_ONLY_KEYWORDS, body.start, body.stop):
        if code[i] in ('throw', 'try') and code.is_word(i) and (code[i + 1], code[i + 2]) != ('(', ')'):
            raise code.error(
                WrongSource, f'device code does not support exceptions: return an error value, without `{code[i]}`', i
            )
        if code[i] in _REJECTION_REASONS and code.is_word(i):
            raise code.error(WrongSource, f'device code does not support `{code[i]}`: {_REJECTION_REASONS[code[i]]}', i)


_USE_ARRAY = 'use an array whose size is a compile-time constant, or pass an array to the kernel'
_STREAM_NAMES = 'cout', 'cerr', 'clog', 'cin'
_ADVICE = {  # host-only name of the C++ library -> its substitute in a kernel
    **dict.fromkeys(_STREAM_NAMES, 'use printf'),
    **dict.fromkeys(('string', 'vector', 'map', 'set', 'deque', 'list', 'unordered_map', 'unordered_set'), _USE_ARRAY),
}


_LIBRARY_NAMES = frozenset(_ADVICE)


def _reject_host_library(code, body, uses_std):
    "Raise `WrongSource` for `std::cout << x`, `std::vector<int> v`, ...; `uses_std`: whether `std::` may be omitted"
    for i in code.find_any_between(_LIBRARY_NAMES, body.start, body.stop):
        is_std_name = (code[i - 2], code[i - 1]) == ('std', '::') or uses_std and code[i - 1] not in ('::', '.', '->')
        if code.is_word(i) and is_std_name:
            end = code.closing_angle(i + 1) if code[i + 1] == '<' else i if code[i] == 'string' else None
            if code[i] in _STREAM_NAMES and code[i + 1] in ('<<', '>>') or end is not None and code.is_word(end + 1):
                raise code.error(WrongSource, f'std::{code[i]} is host-only: {_ADVICE[code[i]]}', i)


def _execution_space(function):
    "Return 'kernel', 'host' or 'device'; None for a function of both execution spaces, or if it is unknown"
    if (
        'constexpr' in function.specifiers
        or any(map(str.isupper, function.specifiers))
        and any(len(w) > 1 and w.isupper() for w in function.specifiers)
    ):
        return None
    if '__global__' in function.specifiers:
        return 'kernel'
    if '__device__' in function.specifiers:
        return None if '__host__' in function.specifiers or function.template else 'device'
    return 'host'


def _reject_launches(code, space_of_name):
    for i in code.find('<<<'):
        if space_of_name.get(code[i - 1]) in ('host', 'device') and code[i - 2] not in ('::', '.', '->'):
            message = f'{code[i - 1]} is not a kernel, so it cannot be launched: declare it `__global__`'
            raise code.error(WrongSource, message, i - 1)


def _reject_calls(code, body, device_functions, unqualified_names):
    "Raise `WrongSource` for a call of a device function; `unqualified_names` are those without namespaces"
    uses = code.find_any_between(unqualified_names, body.start, body.stop)
    local_names = uses and {
        code[i] for i in body if code.is_word(i) and code.is_word(i - 1) and code[i - 1] not in KEYWORDS
    }
    for i in uses:
        end = code.closing_angle(i + 1) if code[i + 1] == '<' else None
        name = _qualified_name(code, i)
        if (
            code[end + 1 if end else i + 1] == '('
            and code[i - 1] not in ('.', '->')
            and name in device_functions
            and name not in local_names
        ):
            raise code.error(WrongSource, _DEVICE_FUNCTION_IN_HOST_CODE.format(name=name), i)


def _reject_arguments(code, functions, host_functions):
    """Raise `WrongSource` for a host function that is an argument of a device template which calls it.

    `callers` finds these too if the compiler is g++ 12 or clang; g++ 13 does not warn of them."""
    if not host_functions:
        return
    if any((code[i + 1], code[i + 2]) == ('<', '>') for i in code.find('template')):
        return  # the source has a specialization, which perhaps does not call the argument
    is_device_template = {}  # name -> per overload, whether it is a template of device code
    for function in functions:
        is_device_code = function.specifiers & {'__global__', '__device__'} and '__host__' not in function.specifiers
        is_device_template.setdefault(_join_scope(function.scope, function.name), []).append(
            '<' in function.template and is_device_code
        )
    called_arguments = {}  # name of a template of device code -> indices of the template arguments that it calls
    for head in declaration_heads(code):
        paren = parameters_start(code, head) if head.is_definition and code[head.start] == 'template' else None
        name = paren and _join_scope(namespace_of(code, paren), code[paren - 1])
        if name and all(is_device_template.get(name, [False])):
            body = range(head.end + 1, code.match.get(head.end, head.end))
            parameters = (_declared_parameter(code, *span) for span in _template_arguments(code, head.start + 1))
            called_arguments[name] = {
                n for n, parameter in enumerate(parameters) if parameter and _is_called(code, parameter, body)
            }
    for i in code.find('<'):
        is_use = code[i - 2] != 'template' and code.closing_angle(i)
        called_indices = called_arguments.get(_qualified_name(code, i - 1)) if is_use else ()
        for n, (start, end) in enumerate(_template_arguments(code, i)) if called_indices else ():
            name = ''.join(code[j] for j in range(start + (code[start] == '&'), end))
            if n in called_indices and name in host_functions:
                raise code.error(WrongSource, HOST_FUNCTION_IN_DEVICE_CODE.format(name=name), start)


def _is_called(code, name, body):
    uses = code.find_between(name, body.start, body.stop)
    return any(code[i + 1] == '(' and code[i - 1] not in ('.', '->', '::') and code.is_evaluated(i) for i in uses)


def _template_arguments(code, i):
    "Return a list with (start, end) of each template argument after the `<` at `i`"
    spans, closing = [], code.closing_angle(i) or i
    while i < closing:
        start, i = i + 1, min(code.find_stop(i + 1, (',', '>')), closing)
        spans.append((start, i))
    return spans


def _declared_parameter(code, start, end):
    "Return the name of the template parameter that the tokens `start:end` declare; None for a type parameter"
    if code[start] in ('class', 'typename', 'template'):
        return None
    end = min(code.find_stop(start, ('=',)), end)
    return next(
        (code[i] for i in range(start + 1, end) if code[i - 1] in ('*', '&') and code[i + 1] == ')'), code[end - 1]
    )
