"""Rewrites accesses to whole structs through pointers, so that Clang checks their alignment.

With `-fsanitize=alignment`, g++ checks the address of a struct that is copied; Clang before version 23 checks only that
of a member. It also checks what a reference is bound to, so `float4 v = wide[i];` becomes
`float4 v = ::gridstride::aligned(wide[i]);`, whose result is its argument. Only the common forms are rewritten: an
element of a pointer or a cast, `p[i]` and `((float4 *)p)[i]`, and their targets, `*p`, `*(p + i)` and `*(float4 *)p`.
"""

import re
from itertools import chain

from ..frontend.code import Code
from ..frontend.edits import apply
from ..frontend.reader import read
from .block_loops import TYPES

_FIXED_IN_VERSION = 23
_LINE = re.compile(r'^#line (\d+)\n', re.M)
_SCALARS = frozenset(('void', *(name for name in TYPES if name[-1] not in '234')))
_CASTS = frozenset(('reinterpret_cast', 'static_cast', 'const_cast'))
_QUALIFIERS = frozenset(('const', 'volatile', '__restrict__', '__restrict'))
_AFTER_POINTER = frozenset((',', ';', '=', ')', '{'))
_STATEMENTS = frozenset(('return', 'else', 'do', 'case'))
# Before an element, or before the `*` of a target: no member, no declaration, no address
_BEFORE_ELEMENT = frozenset('( [ { } ; = + - / % < ? : ! | ^ && || == != <= >= << += -= )'.split()) | _STATEMENTS
_BEFORE_TARGET = _BEFORE_ELEMENT - {')', '}'}
_AFTER_ACCESS = frozenset((*'])},;=?:', *'+-*/%<>!|^&', '==', '!=', '&&', '||', '+=', '-=', '*=', '/='))


def lacks_alignment_of_copies(compiler) -> bool:
    "Return whether a compiler does not check the alignment of structs that are copied"
    return compiler.kind == 'clang' and compiler.version < _FIXED_IN_VERSION


def check_struct_copies(text: str) -> str:  # C++ for the emulator, with more lines and `#line` directives
    "Let Clang check the alignment of structs that are accessed as a whole"
    try:
        source = read(text)
    except ValueError:
        return text  # the compiler will report the error
    codes = [source.main, *source.macros]
    pointers = {name for code in codes for name in _pointers(code)}
    edits = []
    for code in codes:
        restart = _restart_line if code.macro is None else lambda *_: ''
        for start, end in _Accesses(code, pointers).find():
            edits.append((start, start, f'::gridstride::aligned({restart(text, start)}'))
            edits.append((end, end, f'){restart(text, end)}'))
    return apply(text, edits)


def _restart_line(text, position):
    "Return a directive after which a token has its line and column again, by which findings name an array"
    *_, last = chain([None], _LINE.finditer(text, 0, position))
    line = text.count('\n', last.end() if last else 0, position) + (int(last[1]) if last else 1)
    indentation = re.sub(r'[^\t]', ' ', text[text.rfind('\n', 0, position) + 1 : position])
    return f'\n#line {line}\n{indentation}'


def _pointers(code: Code):
    "Yield the names that are declared as pointers to structs; of `a * b`, `b` may be one, too, which does no harm"
    for i in code.find('*'):
        name, pointee = i + 1, i - 1
        while code[name] in _QUALIFIERS:
            name += 1
        while code[pointee] in _QUALIFIERS:
            pointee -= 1
        is_struct = code.is_word(pointee) and code[pointee] not in _SCALARS or code[pointee] == '>'
        if is_struct and code.is_word(name) and code[name + 1] in _AFTER_POINTER:
            yield code[name]
    for i in code.find('auto'):
        if code[i + 2] == '=' and code[i + 3] in ('(', *_CASTS):
            yield code[i + 1]


class _Accesses:
    "The accesses to structs in `code`, through `pointers` and through casts"

    def __init__(self, code: Code, pointers):
        self.code, self.pointers = code, pointers

    def find(self):
        "Yield (start, end), positions in the source"
        code = self.code
        elements = ((self._element_start(i), code.match.get(i), _BEFORE_ELEMENT) for i in code.find('['))
        targets = ((i, self._target_end(i + 1), _BEFORE_TARGET) for i in code.find('*'))
        for first, last, before in (*elements, *targets):
            if first is None or last is None or code.contains_directive(code.start(first), code.end(last)):
                continue
            if self._ends_access(last) and self._is_expression(first, before):
                yield code.start(first), code.end(last)

    def _ends_access(self, last):
        "Return whether an access ends at a token: not `*p++`, and not the declarator `(*p)[8]`"
        code, after = self.code, last + 1
        is_increment = code[after] in ('+', '-') and code[after + 1] == code[after]
        is_declarator = code[after] == ')' and code[after + 1] in ('[', '(')
        return code[after] in _AFTER_ACCESS and not (is_increment or is_declarator)

    def _is_expression(self, first, before):
        "Return whether an expression may begin at a token: in a list of declarators, `, *p` may also be a declaration"
        code, previous = self.code, self.code[first - 1]
        parent = code.parent[first]
        if parent == -1 and code.macro is None:
            return False
        return previous in before or previous == ',' and code[parent] == '(' and code[parent - 1] != 'for'

    def _element_start(self, bracket):
        "Return the first token of the pointer before a `[`, None if that is not a pointer to a struct"
        code, i = self.code, bracket - 1
        if code[i] in self.pointers:
            return i
        if code[i] != ')' or i not in code.match:
            return None
        opening = code.match[i]
        if code[opening - 1] == '>':
            return self._cast_start(opening - 1)
        return opening if self._casts(opening + 1) and not code.is_word(opening - 1) else None

    def _cast_start(self, angle):
        first = self.code.opening_angle(angle)
        return first - 1 if first is not None and self.code[first - 1] in _CASTS else None

    def _casts(self, i):
        "Return whether a cast to a pointer to a struct begins at token `i`"
        code = self.code
        if code[i] in _CASTS:
            return True
        end = code.match.get(i)
        if code[i] != '(' or end is None or code[end - 1] != '*':
            return False
        return not _SCALARS.issuperset({*code.texts[i + 1 : end - 1]} - _QUALIFIERS)

    def _target_end(self, i):
        "Return the last token of the operand of a unary `*` at `i`, None if it does not point to a struct"
        code = self.code
        if code[i] in self.pointers:
            return i
        if code[i] in _CASTS:
            angle = code.closing_angle(i + 1)
            return angle and code.match.get(angle + 1)
        if code[i] != '(' or i not in code.match:
            return None
        if self._casts(i):
            return self._operand_end(code.match[i] + 1)
        is_pointer = code[i + 1] in self.pointers or self._casts(i + 1)
        return code.match[i] if is_pointer else None

    def _operand_end(self, i):
        "Return the last token of what is cast: a name or an expression in parentheses, and its elements and members"
        code = self.code
        if code[i] == '&':
            i += 1
        if not (code.is_word(i) or code[i] == '('):
            return None
        i = code.match.get(i, i)
        while code[i + 1] in ('[', '(', '.', '->'):
            i = code.match.get(i + 1, i + 2)
        return i
