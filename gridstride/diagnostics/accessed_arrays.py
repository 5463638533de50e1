"""Finds, from the learner's lines, the arrays that an access may belong to if its address is not in any array.

After an overflow, a 32-bit index may be gigabytes past its array, so the address does not identify the array. But the
line names the pointers that it uses, the lines before it assign these pointers, and a call shows which array is passed
for a parameter. For a read, elements that the line only writes are excluded. Elements with an index that is always
small are excluded, too. The result is one array, several that fit equally well, or none if another pointer may be the
cause.
"""

import re
from typing import NamedTuple

from .source_lines import strip_comment, end_of_bracket, split_indices

__all__ = ['ExecutedLine', 'accessed_arrays']


class ExecutedLine(NamedTuple):
    "An executed line, and the lines of its function before it"

    function: str
    line: str
    preceding_lines: str = ''

    @property
    def code(self):
        "All these lines, without comments"
        return '\n'.join(map(_code_of, [*self.preceding_lines.split('\n'), self.line]))


class _Use(NamedTuple):
    "An element that a line uses, or an address that it passes"

    pointer: str  # its name; '' for an expression: `a.b`, `f(x)`
    index: str  # added to the pointer
    kind: str  # 'read', 'write', 'update', 'address' or 'atomic'


_USE_KINDS = dict(
    read=('read', 'update', 'address'), write=('write', 'update', 'address'), atomic=('atomic', 'address')
)


def accessed_arrays(
    access,  # 'read', 'write' or 'atomic'
    calls,  # `ExecutedLine` from the access to the kernel, the innermost first
    arrays,  # the names of the kernel's arrays
):  # (names of arrays, whether the origin of every pointer in the line is known)
    "Return the arrays that an access may belong to, in their order in the line"
    innermost = calls[0]
    uses = [
        use
        for use in _uses(_code_of(innermost.line), innermost.code, arrays)
        if not _is_declared_array(use.pointer, innermost.code)
    ]
    matching_uses = [use for use in uses if use.kind in _USE_KINDS[access]]
    uses = matching_uses or (
        uses if access != 'read' else []
    )  # a function may write through a reference that is passed to it
    arrays_of_uses = [(use, _arrays_of(use.pointer, calls, arrays)) for use in uses]
    if any(not names and use.kind != 'address' for use, names in arrays_of_uses):
        return _array_names(arrays_of_uses, lambda use: _is_product(use, innermost.code)), False
    return _array_names(arrays_of_uses, lambda use: _may_be_large(use, innermost.code, arrays)) or _array_names(
        arrays_of_uses
    ), True


def _array_names(arrays_of_uses, predicate=lambda use: True):
    "Return the arrays of the uses for which `predicate` is true, each once"
    return list(dict.fromkeys(name for use, names in arrays_of_uses if predicate(use) for name in names))


# The pointers that a line uses

_KEYWORDS = 'return|else|case|in|and|or|not|do|goto|throw'
_ELEMENT = re.compile(r'(->|\.)?\s*([A-Za-z_]\w*|\))\s*(?=\[)')
_DEREFERENCE = re.compile(r'(?:^|[-=(,+/%<>&|!?:;{}\[]|\breturn\b)\s*\*\s*(?=[A-Za-z_(])')
_BARE_NAME = re.compile(r'(?<![\w.>])([A-Za-z_]\w*)\b(?!\s*(?:\[|\(|->|\.|\w|=(?!=)))([^,;)]*)')
_ASSIGNMENT = re.compile(r'\s*(?:\.\s*\w+\s*)*(\+\+|--|[-+*/%&|^]=|<<=|>>=|=(?!=))')
_TYPES = 'float|double|int|char|short|long|unsigned|bool|void|auto|half|__half|T|const|\\w+_t|(?:int|float|double)[1-4]'


def _code_of(line):
    return re.sub(r'/\*.*?\*/', '', strip_comment(line))


def _uses(line, code, arrays):
    "Yield the uses of pointers in a line"
    for m in _ELEMENT.finditer(line):
        end = _end_of_indices(line, m.end())
        indices = line[m.end() : end]
        name = _cast_pointer(line, m.start(2)) if m[2] == ')' else m[2]
        is_loaded_pointer = re.search(r'\]\s*\[', indices) and re.search(rf'\*\s*\*[^,;)=]*\b{name}\b', code)
        yield _Use('' if m[1] or is_loaded_pointer else name, indices, _access_kind(line, m.start(2), end))
    for m in _DEREFERENCE.finditer(line):
        yield _parse_dereference(line, m.end())
    for m in re.finditer(r'(?<![\w.>])(\w+)\s*->', line):
        yield _Use(m[1], '0', 'read')
    for m in _BARE_NAME.finditer(line):
        if (call := _enclosing_call(line, m.start())) and (m[1] in arrays or _is_pointer_variable(m[1], code)):
            yield _Use(m[1], m[2], 'atomic' if call.startswith('atomic') else 'address')


def _cast_pointer(line, end):
    "Return `x` of `((float4 *)x)[i]` and `reinterpret_cast<float4 *>(x)[i]`, whose last bracket is at `end`; else ''"
    m = re.search(r'(?:(?:^|[^\w>\s])\s*\(\s*\([^()]*\*\s*\)|_cast\s*<[^<>]*>\s*\()\s*(\w+)\s*$', line[:end])
    return m[1] if m else ''


def _end_of_indices(line, end):
    "Return the end of the brackets that follow `end`"
    while m := re.compile(r'\s*\[').match(line, end):
        end = end_of_bracket(line, m.end() - 1)
    return end


def _access_kind(line, start, end):
    "Return the kind of the line's access to the element in columns `start:end`: 'read', 'write', ..."
    if re.search(r'(?:^|[^\w)\]&\s])\s*&\s*$', line[:start]):
        return 'atomic' if _enclosing_call(line, start).startswith('atomic') else 'address'
    if re.search(r'(\+\+|--)\s*$', line[:start]):
        return 'update'
    m = _ASSIGNMENT.match(line, end)
    return 'read' if not m else 'write' if m[1] == '=' else 'update'


def _parse_dereference(line, start):
    "Return the use that the `*` before `start` dereferences"
    if line[start] != '(':
        name = re.match(r'\w+', line[start:])[0]
        return _Use(name, '0', _access_kind(line, start - 1, start + len(name)))
    end = end_of_bracket(line, start)
    m = re.fullmatch(r'\(\s*(\w+)\s*([-+].*)?\)', line[start:end])
    return _Use(m[1] if m else '', (m and m[2]) or '', _access_kind(line, start - 1, end))


def _enclosing_call(line, position):
    "Return the name of the function whose call contains that position, or ''"
    depth = 0
    for i in reversed(range(position)):
        depth += (line[i] == ')') - (line[i] == '(')
        if depth < 0:
            m = re.search(r'\b(?!(?:if|for|while|switch|sizeof)\b)(\w+)\s*(?:<[\w\s,*]*>)?\s*$', line[:i])
            return m[1] if m else ''
    return ''


def _is_pointer_variable(name, code):
    return bool(re.search(rf'\b(?:{_TYPES})\s*\*\s*(?:(?:const|__restrict__|__restrict)\s+)*{name}\b', code))


def _is_declared_array(name, code):
    "Return whether `name` is a local or shared array of the function, not a parameter `float x[]`"
    declaration = rf'\b(?!(?:{_KEYWORDS})\b)\w[\w>]*\s+{name}\s*\[(?!\s*\]\s*[,)])'
    return bool(name and re.search(declaration, code))


# Where a pointer comes from


def _arrays_of(pointer, calls, arrays, visited=()):
    "Return the kernel's arrays that a pointer of the innermost function may point into"
    if not pointer or (pointer, len(calls)) in visited:
        return []
    if len(calls) == 1 and pointer in arrays:
        return [pointer]
    values = _values_of(pointer, calls[0].code)
    if not values and len(calls) > 1:
        values = _arguments_of(pointer, *calls[:2])
        calls = calls[1:]
    visited = {*visited, (pointer, len(calls))}
    names = dict.fromkeys(name for value in values for name in _pointers_in(value))
    return list(dict.fromkeys(array for name in names for array in _arrays_of(name, calls, arrays, visited)))


def _values_of(name, code):
    "Return the expressions that a function assigns or adds to a variable"
    return re.findall(rf'(?<![\w.>]){name}\s*(?:[-+*]|<<)?=(?!=)\s*([^;]*)', code)


def _pointers_in(value):
    "Return the pointers in an expression: `x` in `x + 3`, `&x[3]` and `(float4 *)x`"
    if m := re.match(r'\s*&\s*(\w+)\s*\[', value):
        return [m[1]]
    value = re.sub(r'\[[^\]]*\]', '[]', value)
    return [m[1] for m in re.finditer(r'(?<![\w.>])([A-Za-z_]\w*)\b(?!\s*(?:\[|\(|->|\.))', value)]


def _arguments_of(parameter, callee, caller):
    "Return the arguments that a call passes for a parameter: one, or none if the call or the parameter is not found"
    definition = re.search(rf'\b{callee.function}\s*\(', callee.code)
    call = re.search(rf'\b{callee.function}\s*(?:<[^;()]*>)?\s*\(', _code_of(caller.line))
    if not definition or not call:
        return []
    names = [
        re.search(r'(\w*)\s*(?:\[\s*\])?\s*$', text)[1] for text in _split_brackets(callee.code, definition.end() - 1)
    ]
    values = _split_brackets(_code_of(caller.line), call.end() - 1)
    return [value for name, value in zip(names, values) if name == parameter]


def _split_brackets(text, opening):
    "Split the contents of the brackets that open at `opening` at commas"
    return split_indices(text[opening + 1 : end_of_bracket(text, opening) - 1])


# How large an index may be

_GRID_OFFSET = re.compile(r'(block|grid)(Idx|Dim)\.\w\s*\*\s*(block|grid)(Idx|Dim)\.\w')
_SMALL_TERM = re.compile(r'\b(?:thread|block|grid)(?:Idx|Dim)\.\w\b|\b(?:int|unsigned|const|size_t|long)\b')
_WIDE_TYPES = 'size_t', 'long', 'int64_t', 'uint64_t', 'ptrdiff_t'


def _expand_index(use, code):
    "Return the index of a use, followed by the values of all variables in it and in these values"
    pointer_offsets = [value for value in _values_of(use.pointer, code) if use.pointer]
    text = ' '.join([use.index, *pointer_offsets])
    names = set()
    while new_names := {*re.findall(r'(?<![\w.])[A-Za-z_]\w*', text)} - names:
        names |= new_names
        text = ' '.join([text, *(value for name in sorted(new_names) for value in _values_of(name, code))])
    return _GRID_OFFSET.sub('', text)


def _may_be_large(use, code, arrays):
    "Return whether the index may be large; thread indices, block indices and constants count as small"
    text = _SMALL_TERM.sub('', _expand_index(use, code))
    unassigned_names = {name for name in re.findall(r'(?<![\w.])[A-Za-z_]\w*', text) if not _values_of(name, code)}
    return bool(unassigned_names - {*arrays} or re.search(r'[\w)]\s*\*|<<|\w\s*\[', text))


def _is_product(use, code):
    "Return whether the index is a 32-bit product"
    text = _expand_index(use, code)
    return bool(re.search(r'\*|<<', text)) and not any(wide_type in text for wide_type in _WIDE_TYPES)
