"""Finds the functions that CUDA C source defines, for `load_cuda`, `cuda_kernel` and `get_signature`.

It parses brackets and the heads of functions (see `code` and `declarations`), not their bodies. It reads the branch of
an `#if` that is compiled, if that is known.
"""

import re
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from .code import ALIGNMENTS, NON_FUNCTION_KEYWORDS, OPENING_BRACKETS, Code, MacroCode, is_balanced
from .declarations import BUILTIN, CLASS_KEYWORDS, QUALIFIERS, STORAGE
from .declarations import declared_name, skip_specifiers, format_type, tokens_of_type
from .preprocessor import DEFINE, has_conditions, live_lines
from .tokens import Tokens, WrongSource, directives, string_value, tokens, tokens_of
from ...support.lazy_exports import paused_garbage_collection


class Param(NamedTuple):
    "A parameter of a function, as strings; `name` and `default` are '' if there is none"

    type: str
    name: str
    default: str
    is_grid_constant: bool = False


class Function(NamedTuple):
    "The declaration of a function; `template` is its template header, `scope` its namespace, both '' if there is none"

    name: str
    result_type: str
    params: list  # of `Param`
    line: int
    template: str
    scope: str
    specifiers: frozenset  # all tokens before its name
    signature: str  # the whole head on one line, without comments
    has_body: bool

    @property
    def is_host(self):
        "Whether host code can call the function"
        return '__global__' not in self.specifiers and (
            '__device__' not in self.specifiers or '__host__' in self.specifiers
        )


class Head(NamedTuple):
    "The head of a declaration, as token indices: its first token, and the `{` or `;` after it"

    start: int
    end: int
    is_definition: bool  # whether token `end` is a `{`


@lru_cache(4)
def declaration_heads(code: Code) -> tuple:
    "Return the `Head`s of declarations outside functions and types"
    return tuple(_heads_of(code))


_HEAD_DELIMITERS = frozenset((';', '}', *OPENING_BRACKETS))  # the tokens that `_heads_of` inspects


_SCOPE_KEYWORDS = {'namespace', 'extern', *CLASS_KEYWORDS, 'enum'}


def _heads_of(code):
    start = skip_end = 0  # the first token of a head, and the first one after a skipped bracket
    texts, match, parent, scope_kinds = code.texts, code.match, code.parent, code.scope_kinds
    for i in code.find_any(_HEAD_DELIMITERS):
        if i < skip_end:
            continue
        is_opening = (text := texts[i]) == '{'
        if is_opening and _SCOPE_KEYWORDS.isdisjoint(texts[start:i]):
            scope_kinds.setdefault(i, 'code')  # `scope_kind` gives the same result, more slowly
        elif text == '}' or is_opening and code.scope_kind(i) == 'namespace':
            start = i + 1
            continue
        if (is_opening or text == ';') and (scope_kinds.get(parent[i]) or code.scope(i)) == 'namespace':
            yield Head(start, i, is_opening)
            start = skip_end = (match.get(i, i) if is_opening else i) + 1
        elif text != ';':
            skip_end = match.get(i, i) + 1


def parameters_start(code: Code, head: Head):
    "Return the index of the `(` of the function with this head; None if it is not a function"
    declaration_start = code.skip_template_header(head.start)
    return (
        None
        if code[declaration_start] in ('template', 'using', 'typedef')
        else code.find_parameter_list(declaration_start, head.end)
    )


@lru_cache(4)  # because several modules read the functions of one `Code`
@paused_garbage_collection()
def read_functions(code: Code) -> tuple:
    "Return each `Function` that `code` defines or declares, without members of classes"
    return tuple(_functions_of(code))


def _functions_of(code):
    for head in declaration_heads(code):
        opening = parameters_start(code, head)
        if opening is None or opening not in code.match or code[opening - 2] in ('::', '~'):
            continue
        declaration_start = code.skip_template_header(head.start)
        specifiers = frozenset(code.expanded_texts(declaration_start, opening - 1))
        template = code.text(range(head.start, declaration_start)) if declaration_start > head.start else ''
        result_type = _result_type(code, declaration_start, opening, head.end)
        signature = code.text(range(head.start, head.end - (code[head.end - 1] == 'try')))
        location = code.line(opening - 1), template, namespace_of(code, opening)
        yield Function(
            code[opening - 1], result_type, _params(code, opening), *location, specifiers, signature, head.is_definition
        )


def _result_type(code, type_start, opening, end):
    "Return the type of the result of the function with its `(` at `opening`"
    arrow = code.match[opening] + 1
    if code[arrow] not in ('{', ';'):
        arrow = code.find_stop(arrow, ('->', '{', ';'))
    if code[arrow] == '->':
        return format_type([code[i] for i in range(arrow + 1, min(end, code.find_stop(arrow, ('requires', 'try'))))])
    while code.is_word(type_start) and code[type_start + 1] == '(' and code[type_start] not in NON_FUNCTION_KEYWORDS:
        type_start = code.match[type_start + 1] + 1  # a macro before it
    texts = tuple(code.texts[type_start : opening - 1])
    if texts not in code.result_types:  # many functions have the same type
        code.result_types[texts] = format_type(
            [code[i] for i in tokens_of_type(code, type_start, opening - 1) if code[i] != 'constexpr']
        )
    return code.result_types[texts]


def _params(code, opening):
    "Return the `Param`s between the `(` at `opening` and its match"
    params = [parameter(code, start, end) for start, end in code.arguments(opening)]
    return [] if len(params) == 1 and params[0][:2] == ('void', '') else params


def parameter(code: Code, i: int, end: int) -> Param:
    "Return the parameter that the tokens `i:end` declare"
    text = code.src[code.start(i) : code.end(end - 1)] if i < end else '\n'
    if '\n' in text:  # a preprocessor directive in between may drop a part
        return _parameter(code, i, end)
    if text not in code.parameters:  # many functions have the same parameter
        code.parameters[text] = _parameter(code, i, end)
    return code.parameters[text]


def _parameter(code, i, end):
    init = min(code.find_stop(i, ('=',)), end)
    declarator = skip_specifiers(code, i, init)
    bracket = next((j for j in range(declarator, init) if code[j] == '['), init)
    name, name_end = declared_name(code, declarator, init) or (bracket, bracket)
    array_suffix = _decay_to_pointer([code[j] for j in tokens_of_type(code, name_end, init)])
    type_tokens = [
        text
        for text in [code[j] for j in tokens_of_type(code, i, name)] + array_suffix
        if text not in ('__restrict__', '__restrict')
    ]
    is_grid_constant = any(code[j] == '__grid_constant__' for j in range(i, name))
    return Param(
        format_type(type_tokens), code.text(range(name, name_end)), code.text(range(init + 1, end)), is_grid_constant
    )


def _decay_to_pointer(array_suffix):
    "Convert the array part of a parameter's type to a pointer: `[3]` to `*`, `[][4]` to `(*)[4]`"
    if array_suffix[:1] != ['[']:
        return array_suffix
    bounds = array_suffix[array_suffix.index(']') + 1 :]
    return ['(', '*', ')', *bounds] if ']' in bounds else ['*', *bounds]


def namespace_of(code: Code, i: int) -> str:
    "Return the namespaces around token `i`, as `a::b`"
    names = []
    while (i := code.parent[i]) >= 0:
        j = i
        while code.is_word(j - 1) and code[j - 1] != 'namespace' or code[j - 1] == '::':
            j -= 1
        if code[j - 1] == 'namespace':
            names.insert(0, code.text(range(j, i)))
    return '::'.join(name for name in names if name)


# The body of a macro is parsed like code. If it consists of specifiers alone, as in `#define HD __host__ __device__`,
# the macro is an alias for them.
class Source(NamedTuple):
    "A parsed source: its `Code`, and the macros that it defines"

    main: Code
    macros: list  # the `Code` of each macro's body
    literals: dict  # name -> value of each macro that is a string literal
    launchers: frozenset  # the names of macros whose body has a `<<<`


@lru_cache(4)  # callers do not modify it
@paused_garbage_collection()
def read(
    src: str,  # CUDA C
    assume_likely=False,  # whether to drop branches that are probably not compiled, too
) -> Source:
    "Read a source; raises `WrongSource` with the line of a bracket without a match"
    tokens_read, lines = compiled_tokens(src, assume_likely)
    aliases, macros = {}, []
    for directive in chain(*lines.values()):
        if m := DEFINE.match(directive.text):
            macros.append(_read_macro(src, directive, m, aliases))
    are_macros_balanced = all(map(is_balanced, macros))
    launchers = frozenset(macro.name for macro in macros if '<<<' in macro.texts)
    return Source(
        Code(src, tokens_read, aliases, directives=lines, strict=are_macros_balanced),
        macros,
        _literals(macros),
        launchers,
    )


def compiled_tokens(
    src: str,  # CUDA C
    assume_likely: bool,  # whether branches that are probably not compiled are dropped
) -> tuple:  # (`Tokens`, dict: index of a token -> the preprocessor directives before it)
    "Return the tokens that may be compiled, and the preprocessor directives among them"
    all_tokens = tokens_of(src)
    live_tokens = Tokens()
    lines = {}
    start = 0
    is_compiled = True
    positions = all_tokens.directives()
    if not positions:
        return all_tokens, lines
    for i, (line, is_compiled_after) in zip(positions, live_lines(directives(src), assume_likely)):
        if is_compiled:
            live_tokens.extend(all_tokens, start, i)
        if line:
            lines.setdefault(len(live_tokens), []).append(line)
        start, is_compiled = i + 1, is_compiled_after
    if is_compiled:
        live_tokens.extend(all_tokens, start, len(all_tokens))
    return live_tokens, lines


def _read_macro(src, line, m, aliases):
    "Read the body of a macro; if it consists of specifiers alone, add it to `aliases`"
    params = {param.strip().replace('...', '__VA_ARGS__') for param in (m[2] or '').split(',')}
    body = MacroCode(src, tokens(src, line.start + m.end(), line.end, macro=True), aliases, m[1], params, strict=False)
    if specifiers := _specifiers_of(body):
        aliases.setdefault(m[1], specifiers)
    return body


_SPECIFIERS_OF_MACRO = STORAGE | ALIGNMENTS  # an alias has one of them, and only `_SPECIFIERS_OF_ALIAS`
_SPECIFIERS_OF_ALIAS = _SPECIFIERS_OF_MACRO | QUALIFIERS | BUILTIN


def _specifiers_of(code):
    "Return the tokens of a macro's body if all are specifiers, as in `__host__ __device__`; None otherwise"
    if _SPECIFIERS_OF_MACRO.isdisjoint(code.texts) and code.aliases.keys().isdisjoint(code.texts):
        return None
    specifiers = tuple(
        text for i in range(len(code)) for text in code.expand_alias(i) if code.parent[i] == -1 and code.is_word(i)
    )
    has_only_names = all(
        code.is_word(i) or code.is_string(i) or code.parent[i] >= 0 or code[i] in '()' for i in range(len(code))
    )
    if has_only_names and set(specifiers) & _SPECIFIERS_OF_MACRO and set(specifiers) <= _SPECIFIERS_OF_ALIAS:
        return specifiers


def _literals(macros):
    "Return {name: value} of the macros that are string literals, with the same value in all branches of an `#if`"
    values = {}
    for code in macros:
        is_literal = 'string' in code.tokens.kinds and {*code.tokens.kinds} == {'string'}
        values.setdefault(code.name, set()).add(''.join(map(string_value, code.texts)) if is_literal else None)
    return {k: value for k, (value, *other_values) in values.items() if value is not None and not other_values}


def read_compiled(src: str) -> Code:
    "Return the `Code` of the branches that are probably compiled; of all branches if these do not parse"
    try:
        # without `assume_likely`, so that all callers share a cached result
        return (read(src, assume_likely=True) if has_conditions(directives(src)) else read(src)).main
    except ValueError:
        return read(src).main


def kernels_in(code: Code) -> list:
    "Return a list with a `Function` per kernel of `code`: its definition if there is one, otherwise its declaration"
    kernel_of = {}
    for function in read_functions(code):
        if '__global__' in function.specifiers and (
            function.has_body or (function.scope, function.name, len(function.params)) not in kernel_of
        ):
            kernel_of[function.scope, function.name, len(function.params)] = function
    return list(kernel_of.values())


def kernels(
    src: str,  # CUDA C
) -> list:  # a `Function` per `__global__` function, in order
    "List the kernels that `src` declares or defines outside macros"
    return kernels_in(read_compiled(src))


@paused_garbage_collection()
def functions(
    src: str,  # CUDA C
) -> list:  # of `Function`, including kernels and device functions
    "List the functions that `src` defines, without members of classes"
    return [function for function in read_functions(read_compiled(src)) if function.has_body and function.result_type]


def host_functions(
    src: str,  # CUDA C
) -> list:  # of `Function`
    "List the functions that `src` defines for the host, without members of classes"
    return [function for function in functions(src) if function.is_host]


def signature(
    name: str,  # of a host function defined in `src`
    src: str,  # CUDA C
) -> str:  # its declaration, ending in `;` (one line per overload)
    "Return the declaration of a function, from its definition; raises `WrongSource` with the names in `src`"
    defined_functions = functions(src)
    if signatures := [
        function.signature for function in defined_functions if function.name == name and function.is_host
    ]:
        return '\n'.join(f'{line};' for line in signatures)
    raise not_on_host_error(name, defined_functions)


def not_on_host_error(name: str, defined_functions: list) -> WrongSource:
    "Return the error for a request of the function `name`, which is not a host function of `defined_functions`"
    problem = 'is not defined in this source'
    if any(function.name == name for function in defined_functions):
        problem = 'is a kernel or device function, which the host cannot call'
    host_names = ', '.join(dict.fromkeys(function.name for function in defined_functions if function.is_host)) or 'none'
    return WrongSource(f'{name!r} {problem}. Host functions in this source: {host_names}')


# NVRTC compiles only device code, so host functions become empty lines, and every other function stays on its lines.
_DEVICE_SPECIFIERS, _TORCH_NAMESPACES = {'__global__', '__device__', 'constexpr'}, {'torch', 'at', 'c10', 'pybind11'}


def device_only(
    src: str,  # CUDA C, as load_cuda takes it
) -> str:
    "Replace host code in `src` with spaces; each line keeps its number"
    code = read(src).main
    for head in declaration_heads(code):
        texts = {text for i in range(head.start, head.end) for text in code.expand_alias(i)}
        if texts & _TORCH_NAMESPACES if parameters_start(code, head) is None else not texts & _DEVICE_SPECIFIERS:
            start, end = code.start(head.start), code.end(code.match.get(head.end, head.end))
            src = src[:start] + re.sub(r'[^\n]', ' ', src[start:end]) + src[end:]
    return src
