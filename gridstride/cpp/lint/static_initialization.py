"""Determines whether a source may run code when its module is loaded: initializers and constructors at file scope.

A false positive is harmless: the module only loads more slowly.
"""

import re

from ..frontend.code import Code
from ..frontend.declarations import BUILTIN, QUALIFIERS, STORAGE
from ..frontend.reader import declaration_heads, parameters_start, read_compiled

_CUDA_TYPE = re.compile(r'dim3|cuda[A-Z]\w*|__\w+|(u?(char|short|int|long|longlong)|float|double|half)[1-4]?')
# keywords of declarations that define no variable
_NO_VARIABLES = {'typedef', 'using', 'template', 'namespace', 'static_assert', 'friend', 'asm', '__asm__', 'enum'}
_NO_HOST_INITIALIZER = {'__device__', '__constant__', '__shared__', '__managed__', '__global__', 'constexpr'}
_TYPES = {'struct', 'class', 'union'}
_ARITHMETIC = {'.', '->', '+', '-', '/', '%', '?', '!', '~', '|'}  # tokens of values that no parameter has
_PLAIN_TOKENS = STORAGE | QUALIFIERS | BUILTIN | {'unsigned', '*', '&', ',', '[', ']'}


def runs_when_loaded(
    src: str,  # CUDA C, as it was written
) -> bool:
    "Return whether the source may have an initializer or constructor that runs when its module is loaded"
    try:
        code = read_compiled(src)
    except ValueError:
        return False  # it will not compile
    classes = {code[i + 1] for word in _TYPES for i in code.find(word)}
    aliases = {code[i + 1] for i in code.find('using')} | {
        code[h.end - 1] for h in declaration_heads(code) if code[h.start] == 'typedef'
    }
    return bool(code.find('constructor')) or any(
        _may_run(code, head, classes, aliases) for head in declaration_heads(code)
    )


def _may_run(code: Code, head, classes, aliases):
    first, end = head.start, head.end
    texts = code.texts[first:end]
    if not texts or texts[0] in _NO_VARIABLES or not _NO_HOST_INITIALIZER.isdisjoint(texts) or code[first] == 'extern':
        return False
    call = parameters_start(code, head)
    if call is not None:
        passes_names = bool(_unknown_types(code, first, call, classes | aliases)) and _passes_names(
            code, call, classes | aliases
        )
        return not head.is_definition and (_passes_values(code, call) or passes_names)
    last = code.match.get(end, end) if head.is_definition else end
    if head.is_definition and '=' not in texts and not _TYPES.isdisjoint(texts):
        return False  # the definition of a type; variables that follow it have a separate head
    initializer = code.texts[first + (texts.index('=') if '=' in texts else 0) : last]
    return '(' in initializer or _may_trap(initializer, texts) or bool(_unknown_types(code, first, end, classes))


def _may_trap(initializer, declaration):
    "Return whether an initializer reads through a pointer, or divides by a variable"
    pairs = [*zip(initializer, initializer[1:])]
    divides = 'const' not in declaration and any(a in ('/', '%') and not b[0].isdigit() for a, b in pairs)
    return divides or '->' in initializer or ('=', '*') in pairs


def _passes_values(code, call):
    "Return whether an apparent function declaration is a variable with values for its constructor"
    argument_tokens = code.texts[call + 1 : code.match.get(call, call)]
    return any(text[0] in '"\'' or text[0].isdigit() or text in ('(', '{') for text in argument_tokens)


def _passes_names(code, call, types):
    "Return whether an apparent function declaration is a variable, as `A a(b);` is unless `b` is a type"
    argument_tokens = code.texts[call + 1 : code.match.get(call, call)]
    starts = [i for i, text in enumerate(argument_tokens) if not i or argument_tokens[i - 1] == ',']
    single_names = [argument_tokens[i] for i in starts if argument_tokens[i + 1 : i + 2] in ([], [','])]
    return (
        not _ARITHMETIC.isdisjoint(argument_tokens)
        or any(argument_tokens[i] in ('*', '&') for i in starts)
        or any(text.isidentifier() and not _is_type(text, types) for text in single_names)
    )


def _is_type(name, types):
    "Return whether the name looks like that of a type"
    return name in types or name in BUILTIN or name.endswith('_t') or bool(_CUDA_TYPE.fullmatch(name))


def _unknown_types(code, first, end, classes):
    "Return the tokens of a declaration that name a class of the source, or a namespace"
    texts = code.texts[first:end]
    declarator = texts[: texts.index('=')] if '=' in texts else texts
    follows_type = len(declarator) == 1 and code[first - 1] == '}'  # a variable after the definition of its type
    return [
        text for text in declarator if text not in _PLAIN_TOKENS and (text in classes or text == '::' or follows_type)
    ]
