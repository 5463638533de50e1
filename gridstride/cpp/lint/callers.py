"""Rejects calls of host functions in device code, with the compiler's help.

Only a compiler can determine which overload, constructor, operator or destructor is called. So `mark_host_functions`
marks host functions as deprecated, the compiler warns about each use, and `find_wrong_calls` rejects those in device
code, as nvcc does.
"""

import os, re
from bisect import bisect
from functools import lru_cache
from typing import NamedTuple

from ...support.lazy_exports import paused_garbage_collection
from ..frontend.declarations import BUILTIN, KEYWORDS, CLASS_KEYWORDS, class_name
from ..frontend.edits import apply
from ..frontend.tokens import WrongSource
from .inlined import functions_to_inline
from .host_variables import host_variables
from ..frontend.reader import Head, declaration_heads, namespace_of, parameter, read
from .host_device_check import HOST_AND_DEVICE_FUNCTIONS, HOST_FUNCTION_IN_DEVICE_CODE

_AMBIGUOUS_NAMES = HOST_AND_DEVICE_FUNCTIONS | BUILTIN  # device code may also have a function of this name
# macros with which inline PTX is rewritten
_PTX_MACROS = tuple(f'GRIDSTRIDE_PTX_{suffix}' for suffix in ('IN', 'OUT', 'INOUT', 'STORE'))
_DEVICE_SPECIFIERS = {'__global__', '__device__', '__constant__', '__shared__', '__managed__'}
_UNMARKED_SPECIFIERS = _DEVICE_SPECIFIERS | {
    'typedef',
    'using',
    'static_assert',
    'namespace',
    'extern',
    'new',
    'delete',
}
_ACCESS_SPECIFIERS = {'public', 'private', 'protected'}


class _FunctionDeclaration(NamedTuple):
    "A declaration of a function, as indices of tokens"

    first: int  # after the template header
    paren: int  # the `(` of its parameters
    owner: str  # its class, '' for none
    specifiers: set  # all tokens before its name
    has_body: bool

    @property
    def is_for_gpu(self):
        return '__global__' in self.specifiers or '__device__' in self.specifiers and '__host__' not in self.specifiers


@lru_cache(16)  # for the files of a few programs
@paused_garbage_collection()
def mark_host_functions(
    text: str,  # C++ for the emulator
    ptx_specifiers='',  # for functions with PTX, if no other file uses them; '': other files may
    inline_specifiers='',  # for functions to inline, so that findings name the calls; '': inline none
    registers_kernels=False,  # whether the program launches kernels by addresses of type `void *`
) -> str:
    """Mark host functions and host variables as deprecated, so that the compiler warns about their uses.

    A function with PTX, which expands to long code, gets `ptx_specifiers`, so that it is compiled only if used."""
    try:
        code = read(text).main
    except ValueError:
        return text  # the compiler will report the error
    functions = _declared_functions(code)
    defined_names = {code[function.paren - 1] for function in functions if function.has_body}
    host_functions = [
        function
        for function in functions
        if _is_host(code, function) and (function.owner or code[function.paren - 1] in defined_names)
    ]
    host_functions = _drop_overloaded(
        code,
        host_functions,
        [function for function in functions if _may_have_macro(function) or function.specifiers & _DEVICE_SPECIFIERS],
    )
    marks = [
        (function.first, 'constexpr' if 'constexpr' in function.specifiers else 'host')
        for function in host_functions
        if code[function.paren - 2] != '::'
    ]
    marks += host_variables(code, _all_heads(code))
    insertions = [(i, _mark_attribute(kind)) for i, kind in sorted(marks)] + [
        (i, ptx_specifiers) for i in _ptx_functions_to_make_static(code, functions) if ptx_specifiers
    ]
    marked_tokens = {i for i, _ in insertions}
    tokens_to_inline = functions_to_inline(code, functions, _end_of_body) if inline_specifiers else ()
    insertions += [(i, inline_specifiers) for i in tokens_to_inline if i not in marked_tokens]
    edits = [(pos := code.start(i), pos, text) for i, text in sorted(insertions)]
    return apply(text, [*edits, *_entry_edits(code, functions, registers_kernels)])


def entry_of(kernel: str) -> str:
    "Return C++ code for the beginning of a kernel, which checks that the kernel was launched"
    return f' GRIDSTRIDE_ENTRY("{kernel}");'


def _template_arguments(code, first):
    "Return `<T, n>`, the parameters of the template whose header ends before token `first`, as arguments; '' for none"
    opening = code.opening_angle(first - 1) if code[first - 1] == '>' else None
    if opening is None or code[opening - 1] != 'template':
        return ''
    names, start, i = [], opening + 1, opening + 1
    while i < first:
        if code[i] in (',', '=') or i == first - 1:
            names += [code[i - 1] + '...' * (code[i - 2] == '...')] if i > start else []
            i = code.find_stop(i, (',',)) if code[i] == '=' else i
            start = i + 1
        i = (code.closing_angle(i) if code[i] == '<' else code.match.get(i) if code[i] == '(' else None or i) + 1
    return f"<{', '.join(names)}>"


def _entry_edits(code, functions, registers_kernels):
    "Yield edits that insert `entry_of` at the beginning of each kernel of `functions`"
    for function in functions:
        if not function.has_body or '__global__' not in function.specifiers:
            continue
        body = code.find_stop(code.match[function.paren] + 1, ('{', ';'))
        if code[body] == '{':
            name = code[function.paren - 1]
            kernel = f'&{name}{_template_arguments(code, function.first)}'
            registration = f' GRIDSTRIDE_REGISTER_KERNEL("{name}", {kernel});' if registers_kernels else ''
            yield (pos := code.end(body)), pos, entry_of(name) + registration


def _drop_overloaded(code, host_functions, other_functions):
    "Drop from `host_functions` the functions that overload one of `other_functions`"
    names = {code[function.paren - 1] for function in host_functions} & {
        code[function.paren - 1] for function in other_functions
    }
    keys = {_overload_key(code, function) for function in other_functions if code[function.paren - 1] in names}
    return [
        function
        for function in host_functions
        if code[function.paren - 1] not in names or _overload_key(code, function) not in keys
    ]


def _mark_attribute(kind):
    return f'__attribute__((deprecated("gridstride, {kind}"))) '


_KEEPS_LINKAGE = {'extern', 'static', 'inline', '__inline__', '__forceinline__', 'constexpr', 'operator', '__global__'}


def _ptx_functions_to_make_static(code, functions):
    "Yield the first token of each device function of `functions` that contains PTX and can get internal linkage"
    ptx_tokens = sorted(
        [i for i in code.find('ptx') if (code[i - 2], code[i - 1]) == ('gridstride', '::')]
        + [i for macro in _PTX_MACROS for i in code.find(macro)]
    )
    defined_name_tokens = {function.paren - 1 for function in functions if function.has_body}
    for function in functions:
        is_plain_device = '__device__' in map(code.__getitem__, range(function.first, function.paren))  # not in a macro
        if (
            not (function.has_body and is_plain_device)
            or function.owner
            or function.specifiers & _KEEPS_LINKAGE
            or _may_have_macro(function)
        ):
            continue
        first_ptx = bisect(ptx_tokens, function.paren)
        if (
            code[function.first - 1] not in ('', ';', '{', '}')
            or first_ptx == len(ptx_tokens)
            or ptx_tokens[first_ptx] >= _end_of_body(code, function.paren)
        ):
            continue
        name, namespace = code[function.paren - 1], namespace_of(code, function.paren)
        earlier_uses = [
            i
            for i in code.find(name)
            if i < function.paren - 1 and i not in defined_name_tokens and _may_declare(code, i)
        ]
        if name not in _AMBIGUOUS_NAMES and not any(namespace_of(code, i) == namespace for i in earlier_uses):
            yield function.first


def _may_declare(code, i):
    "Return whether the tokens before the name at token `i` may be a type"
    return code[i - 1] in ('*', '&', '&&', '>', ']', ')') or code.is_word(i - 1) and code[i - 1] not in KEYWORDS


@lru_cache(4)
def _declared_functions(code) -> tuple:
    "Return each function that is declared outside functions, including members of classes"
    return tuple(_functions_in_heads(code))


def _functions_in_heads(code):
    for owner, head in _all_heads(code):
        first = code.skip_template_header(head.start)
        if code[first] == 'extern' and code.is_string(first + 1):
            first += 2
        while code[first] == '[' and code[first + 1] == '[':
            first = code.match[first] + 1
        paren = _parameters_start(code, first, head.end)
        if paren is None or paren not in code.match or code[first] in ('template', 'using', 'typedef', 'return'):
            continue
        specifiers = code.expanded_texts(first, paren - 1)
        if owner or code[paren - 2] == '::' or paren - 1 > first or 'operator' in specifiers:
            yield _FunctionDeclaration(
                first, paren, owner or _class_of_definition(code, paren), specifiers, head.is_definition
            )


@lru_cache(4)
def _all_heads(code) -> tuple:
    "Return (the class or '', a `Head`) of each declaration outside functions"
    return tuple(_all_heads_of(code))


def _all_heads_of(code):
    yield from (('', head) for head in declaration_heads(code))
    for opening in code.find('{'):
        if (code.scope_kind(opening) == 'type' or _is_local_class(code, opening)) and (
            name := class_name(code, opening)
        ):
            yield from ((name, head) for head in _members(code, opening))


def _is_local_class(code, opening):
    "Return whether the brace at `opening` opens a named class in a function"
    return code.scope(opening) == 'code' and code.is_word(opening - 1) and code[opening - 2] in CLASS_KEYWORDS


def _members(code, opening):
    "Return the `Head`s of the declarations between the `{` at `opening` and its match"
    i = start = opening + 1
    while i < code.match[opening]:
        if code[i] == ':' and code[i - 1] in _ACCESS_SPECIFIERS:
            start = i + 1
        elif code[i] in ('{', ';'):
            yield Head(start, i, code[i] == '{')
            start = code.match.get(i, i) + 1
        i = code.match.get(i, i) + 1


def _parameters_start(code, first, end):
    "Return the index of the `(` of the function that `first:end` declares; None if it is not a function"
    opening = next((i for i in code.find_between('operator', first, end) if code.parent[i] == code.parent[first]), None)
    if opening is None:
        return code.find_parameter_list(first, end)
    i = opening + 3 if (code[opening + 1], code[opening + 2]) == ('(', ')') else opening + 1
    return next((j for j in range(i, end) if code[j] == '('), None)


def _class_of_definition(code, paren):
    "Return the class before the `::` of the name of the function with its `(` at `paren`; '' for none"
    i = paren - 2
    if code[i] != '::':
        return ''
    i = code.opening_angle(i - 1) or i if code[i - 1] == '>' else i
    return code[i - 1]


def _overload_key(code, function):
    "Return a key that all declarations of one function share, and no overload has"
    return (
        namespace_of(code, function.paren),
        function.owner,
        code[function.paren - 2] == '~',
        code[function.paren - 1],
        tuple(parameter(code, a, b).type for a, b in code.arguments(function.paren)),
    )


def _may_have_macro(function):
    "Return whether a token before the name may be a macro with an execution space specifier"
    return any(map(str.isupper, function.specifiers)) and any(
        len(w) > 1 and w.isupper() and w != function.owner for w in function.specifiers
    )


_NON_TYPE_TOKENS = frozenset(('~', 'inline', 'static'))


def _is_host(code, function):
    "Return whether `function` is certainly a host function; False if this depends on a macro or the compiler"
    name, next_token = code[function.paren - 1], code.match[function.paren] + 1
    if (
        not _UNMARKED_SPECIFIERS.isdisjoint(function.specifiers)
        or _may_have_macro(function)
        or name in _AMBIGUOUS_NAMES
        and not function.owner
    ):
        return False
    if (
        'friend' in function.specifiers
        and not function.has_body
        or code[next_token] != '{'
        and code[code.find_stop(next_token, ('=', ';', '{'))] == '='
    ):
        return False
    return not _NON_TYPE_TOKENS.issuperset(code.texts[function.first : function.paren - 1]) or name == function.owner


class Unit(NamedTuple):
    "A translation unit: its marked C++, the file of its first line, and the learner's text of that file"

    text: str
    file: str
    original: str


_USE_WARNING = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?P<column>\d+): warning: (?:'(?P<function>.*)' is deprecated: "
    r"gridstride, (?P<kind>host|constexpr)|'(?P<variable>.*)' is deprecated: gridstride, (?P<object>variable|array)|"
    r"variable length array '(?P<vla>.*)' is used|variable length arrays (?P<clang>are a C99|in C\+\+ are)) ",
    re.M,
)
# where an implicit function, such as a destructor, is used
_FIRST_USED_HERE = re.compile(r'^([^\s:][^:\n]*):(\d+):(\d+): note: .*first required here', re.M)
_DECLARED_HERE = re.compile(r'^([^\s:][^:\n]*):(\d+):(\d+): note: .*(?:declared|marked deprecated) here', re.M)
_DEFINES_DEVICE = re.compile(r'^[ \t]*#[ \t]*define[ \t]+(\w+)\b[^\n]*__(?:device|global)__', re.M)


def find_wrong_calls(
    log: str,  # of the compiler
    units: list,  # of `Unit`
    extensions: tuple,  # of nvcc, which options enable: 'constexpr' for --expt-relaxed-constexpr
    tab: int,  # the tab width of the log's columns
):
    "Yield a `WrongSource` per use of a marked function in device code"
    warnings = list(_USE_WARNING.finditer(log))
    if not warnings:
        return
    unit_lines = [(unit, _locations_in(unit)) for unit in units]
    macros = {m for unit in units for m in _DEFINES_DEVICE.findall(unit.text)}
    for m, next_warning in zip(warnings, [*warnings[1:], None]):
        context = log[m.end() : next_warning.start() if next_warning else len(log)]
        if m['kind'] in extensions or _is_declared_by_macro(macros, _DECLARED_HERE.search(context), unit_lines):
            continue
        for use_match in filter(None, (_FIRST_USED_HERE.search(context), m)):
            location = _find_location(unit_lines, use_match, tab)
            if location and _is_in_device_code(location[0].text, location[1], m):
                yield _wrong_call(m, use_match, location[0])
                break


_CONTEXT_LINE = re.compile(r': (?:In|At) |:\s+(?:recursively )?required |^In file included|^\s+from ')
_DIAGNOSTIC_LINE = re.compile(r': (?:warning|(?:fatal )?error): ')


_MARK_WARNINGS = '[-Wdeprecated-declarations]', '[-Wvla', 'might not be inlinable [-Wattributes]'


def drop_mark_warnings(
    log: str,  # of a compiler
) -> str:
    """Remove the warnings about marked functions, with their locations, from the log.

    Other warnings about deprecated functions are removed, too: with clang, `std::sort` of libstdc++ causes some."""
    kept_lines, is_skipping = [], False
    for line in log.splitlines(keepends=True):
        if _DIAGNOSTIC_LINE.search(line):
            is_skipping = any(warning in line for warning in _MARK_WARNINGS)
            while is_skipping and kept_lines and _CONTEXT_LINE.search(kept_lines[-1]):
                kept_lines.pop()
        if not is_skipping or _CONTEXT_LINE.search(line):
            kept_lines.append(line)
    return ''.join(kept_lines)


def _locations_in(unit):
    "Return {(file, line number): (position in the text, text of the line)} for the lines of a unit; applies `#line`"
    locations = {}
    file = unit.file
    line = 1
    position = 0
    for text in unit.text.splitlines(keepends=True):
        if m := re.match(r'\s*#line (\d+)(?: "(.*)")?', text):
            line, file = int(m[1]), m[2] or file
        else:
            locations[file, line] = position, text
            line += 1
        position += len(text)
    return locations


def _find_location(unit_lines, m, tab):
    "Return (`Unit`, position in its text, text of the line) of a warning; None if it is in no unit"
    location, column = (os.path.normpath(m[1]), int(m[2])), int(m[3])
    for unit, lines in unit_lines:
        if location in lines:
            start, text = lines[location]
            offset = next((i for i in range(len(text)) if len(text[:i].expandtabs(tab)) >= column - 1), len(text) - 1)
            return unit, start + offset, text


def _is_declared_by_macro(macros, m, unit_lines):
    "Return whether the line of the declaration at the location `m` contains one of these macros"
    location = m and _find_location(unit_lines, m, 1)
    return bool(location) and any(re.search(rf'\b{name}\b', location[2]) for name in macros)


@lru_cache(16)
def device_code(
    text: str,  # C++ for the emulator
):
    """Return the `Code` of a text, and (index of the `)` of its parameters, end of its body) per device function.

    Kernels are device functions, too. Default arguments are omitted, because the caller evaluates them."""
    code = read(text).main
    return code, _bodies_of(code, lambda function: function.is_for_gpu)


@lru_cache(16)
def host_device_code(
    text: str,  # C++ for the emulator
):
    "Return the `Code` of a text and the bodies, as `device_code` does, of its `__host__ __device__` functions"
    code = read(text).main
    return code, _bodies_of(code, lambda function: {'__host__', '__device__'} <= function.specifiers)


def _bodies_of(code, is_selected):
    functions = [
        (function.first, code.match[function.paren], _end_of_body(code, function.paren))
        for function in _declared_functions(code)
        if function.has_body and is_selected(function)
    ]
    return [(closing_paren, end) for first, closing_paren, end in functions if not _is_conditional(code, first, end)]


def _is_in_device_code(text, pos, warning):
    "Return whether the use at position `pos` is an error in device code; `warning`: the compiler's, as a `re.Match`"
    code, bodies = device_code(text)
    i = min(bisect(range(len(code)), pos, key=code.end), len(code) - 1)
    body = next(((a, b) for a, b in bodies if a <= i < b), None)
    if body is None or not code.is_evaluated(i) or warning['object'] and is_unused_template(code, code.match[body[0]]):
        return False
    return warning['object'] != 'array' or not _is_constant(code, i)


def is_unused_template(
    code,  # `Code`
    paren: int,  # index of a function's `(`
) -> bool:
    "Return whether the function is a template that is never used"
    first = paren
    while first > 0 and code[first - 1] not in (';', '}', '{'):
        first = code.match.get(first - 1, first - 1) if code[first - 1] in (')', ']') else first - 1
    return code[first] == 'template' and len(list(code.find(code[paren - 1]))) == 1


def _is_constant(code, i):
    "Return whether the element of the array may be a compile-time constant, which device code may use"
    if not any(code.is_word(j) for j in range(i + 1, code.match.get(i + 1, i + 1))):
        return True
    enclosing = i
    while (enclosing := code.parent[enclosing]) >= 0 and code[enclosing] != '{':
        if (
            code[enclosing] == '['
            and code.is_word(enclosing - 1)
            and code.is_word(enclosing - 2)
            and code[enclosing - 2] not in KEYWORDS
        ):
            return True
    start = i
    while code[start - 1] not in (';', '{', '}'):
        start = code.match.get(start - 1, start - 1) if code[start - 1] in (')', ']') else start - 1
    statement_tokens = range(start, i)
    if {'constexpr', 'static_assert', 'case'} & {code[j] for j in statement_tokens} or 'enum' in (
        code[enclosing - 1],
        code[enclosing - 2],
    ):
        return True
    return any(code[j] == '<' and (code.closing_angle(j) or 0) > i for j in statement_tokens)


def _end_of_body(code, paren):
    "Return the index after the body of the function with its `(` at `paren`, also after member initializers"
    i = code.find_stop(code.match[paren] + 1, (':', '{', ';'))
    while code[i] in (':', ','):
        i = next(j for j in range(i + 1, len(code)) if code[j] in ('(', '{'))
        i = code.match[i] + 1
    return code.match.get(i, i) + 1


def _is_conditional(code, start, end):
    "Return whether preprocessor directives in `start:end` distinguish host and device code"
    return code.has_directive(start + 1, end + 1, 'CUDA')


_CONSTEXPR_MESSAGE = (
    '`constexpr` does not make {name} a device function: declare it `__host__ __device__`, or compile with '
    '--expt-relaxed-constexpr'
)


_HOST_VARIABLE_MESSAGE = (
    '{name} is a host variable, but this code runs on the GPU: declare it `__device__`, or `__constant__` '
    'if kernels only read it, or pass its value to the kernel'
)
_VARIABLE_LENGTH_MESSAGE = (
    '{name} has a size that is known only at run time, but the size of a local array must be a compile-time '
    'constant: write a constant, or use shared memory, `extern __shared__`'
)


def _wrong_call(m, use_match, unit):
    "Return the `WrongSource` for the warning `m`; `use_match` is the match with the location of the use"
    template = (
        _VARIABLE_LENGTH_MESSAGE
        if m['vla'] or m['clang']
        else _HOST_VARIABLE_MESSAGE
        if m['object']
        else _CONSTEXPR_MESSAGE
        if m['kind'] == 'constexpr'
        else HOST_FUNCTION_IN_DEVICE_CODE
    )
    file, line = os.path.normpath(use_match[1]), int(use_match[2])
    name = m['function'] or m['variable'] or m['vla'] or 'this array'  # clang does not name it
    return wrong_source(template.format(name=re.sub(r' \[with .*\]', '', name)), file, line, unit)


def wrong_source(message: str, file: str, line: int, unit: Unit) -> WrongSource:
    "Return a `WrongSource` with this message and the learner's line"
    lines = unit.original.splitlines()
    text = lines[line - 1].strip() if file == unit.file and line <= len(lines) else ''
    return WrongSource(f'{message}\n  {file}, line {line}: {text}')
