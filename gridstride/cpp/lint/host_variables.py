"""Finds host variables, which device code must not use, except for the values of constants."""

from ..frontend.code import Code
from ..frontend.declarations import read_declaration

_OTHER_DECLARATION_KEYWORDS = {
    '__global__', '__device__', '__constant__', '__shared__', '__managed__', 'typedef', 'using', 'friend', 'extern',
    'namespace', 'template', 'static_assert', 'thread_local', 'operator', 'asm', '__asm__',
}  # fmt: skip


def host_variables(
    code: Code,  # C++ for the emulator
    all_heads,  # (the class or '', a `Head`) of each declaration outside functions
):
    "Yield (first token, 'variable' or 'array') per host variable; 'array' if its elements are compile-time constants"
    constant_types = _const_type_names(code)
    for class_name, head in all_heads:
        kinds = {
            _kind(code, declaration, declarator, constant_types)
            for declaration, declarator in _declarators(code, class_name, head)
        }
        if len(kinds) == 1 and (kind := kinds.pop()):
            yield head.start, kind


def _declarators(code, class_name, head):
    "Yield (`Declaration`, `Declarator`) per declared variable; nothing if the declaration may contain a macro"
    first = head.start
    if (
        code[first] in _OTHER_DECLARATION_KEYWORDS
        or not code.is_word(first)
        or not code.is_word(first + 1)
        and code[first + 1] in (';', ',', '=')
    ):
        return
    if code.find_parameter_list(first, head.end) is not None:
        return
    if '\0gs_' in '\0'.join(code.texts[first - 1 : head.end] if first else ['', *code.texts[: head.end]]):
        return  # a name of the rewritten source
    declaration = read_declaration(code, first)
    may_have_macro = any(len(w) > 1 and w.isupper() for w in declaration.specifiers)
    if (
        declaration.start != first
        or may_have_macro
        or declaration.specifiers & _OTHER_DECLARATION_KEYWORDS
        or class_name
        and 'static' not in declaration.specifiers
    ):
        return
    if '{' not in code.texts[first : declaration.first]:
        yield from ((declaration, declarator) for declarator in declaration.declarators)


def _const_type_names(code):
    "Return the names of const types that `typedef` and `using` define; for a pointer, the pointer itself must be const"
    constant_types = set()
    for i in sorted([*code.find('typedef'), *code.find('using')]):
        end = next((j for j in range(i, len(code)) if code[j] == ';'), i)
        texts = code.texts[i:end]
        if texts[:1] == ['using'] and texts[2:3] != ['='] or len(texts) < 3 or {'(', '[', '{', '&'} & {*texts}:
            continue
        name, type_ = (texts[1], texts[3:]) if texts[0] == 'using' else (texts[-1], texts[1:-1])
        qualifiers = type_[len(type_) - type_[::-1].index('*') :] if '*' in type_ else type_
        if 'const' in qualifiers or '*' not in type_ and constant_types & {*type_}:
            constant_types.add(name)
    return constant_types


def _kind(code, declaration, declarator, constant_types):
    "Return 'variable' or 'array' for a variable that device code must not use, None for others"
    declarator_prefix = code.texts[declarator.first : declarator.name]
    if (
        'gridstride' in ' '.join(code.texts[declaration.start : declarator.name_end])
        or 'gridstride' in code[declarator.init + 2]
        or {'&', '&&', '('} & {*declarator_prefix}
        or code[declarator.name_end] not in ('[', '=', '{', ',', ';')
        or code[declarator.init + 1] == '['
    ):
        return None
    is_constexpr = 'constexpr' in declaration.specifiers
    if not (
        is_constexpr
        or {'const', *constant_types} & {*(declarator_prefix if '*' in declarator_prefix else declaration.specifiers)}
    ):
        return 'variable'
    return None if code[declarator.name_end] != '[' else 'array' if is_constexpr else 'variable'
