"""Rewrites loops that add up products so that one call checks all reads of a loop.

With checks, each read calls the runtime, which takes most of the time of a tiled matrix product. A loop is rewritten if
its body only updates a local variable from elements of arrays, at indices that are affine functions of the loop's
variable: `for (int k = 0; k < n; k++) sum += a[i][k]*b[k][j];`. In its first iteration, `record_reads` (`loop_reads.h`)
records the reads, and a copy of the loop without checks computes the result. If there is anything to report,
`record_reads` returns false, and the original loop runs.
"""

import re

from .block_loops import FUNCTIONS, INDICES, TYPES
from ..frontend.code import Code
from ..frontend.edits import apply
from ..frontend.reader import declaration_heads, parameters_start, read

_DEVICE_SPECIFIERS = frozenset(('__global__', '__device__'))
_UPDATES = frozenset(('=', '+=', '-='))
_OPERATORS = frozenset(('+', '-', '*', ',', '(', ')'))
_MAX_READS, _MAX_AXES, _MIN_COUNT = 8, 4, 8  # as in loop_reads.h
# The beginning of such a loop. Most sources have none, and are not parsed.
_CANDIDATE = re.compile(r'\bfor\s*\([^;]*;[^;]*;[^)]*\)\s*(?:\{[^;\[]*?)?\w+\s*[+-]?=[^=;][^;]*\[')


class _NotRewritten(Exception):
    "The loop must check each access"


def record_loop_reads(text: str) -> str:  # C++ for the emulator, which may have more lines and `#line` directives
    "Rewrite the loops of device code that only read arrays and update one local variable"
    if not _CANDIDATE.search(text):
        return text
    try:
        code = read(text).main
    except ValueError:
        return text  # the compiler will report the error
    macros = dict(re.findall(r'^[ \t]*#[ \t]*define[ \t]+(\w+\(?)[ \t]*(.*)', text, re.M))
    edits = []
    for head in declaration_heads(code):
        end = code.match.get(head.end, head.end)
        if head.is_definition and not _DEVICE_SPECIFIERS.isdisjoint(code.expanded_texts(head.start, end)):
            for i in code.find_any_between(frozenset(('for',)), head.end, end):
                try:
                    edits += _Loop(code, macros, head, i).rewrite()
                except _NotRewritten:
                    pass
    return apply(text, edits)


class _Loop:
    "The `for` at token `i` in the function with this head"

    def __init__(self, code: Code, macros, head, i):
        self.code, self.macros, self.i = code, macros, i
        self.function = range(head.start, code.match[head.end])
        self.constants = {*code.texts[head.start : code.skip_template_header(head.start)]}
        self.reads = []  # (name of the array, the ranges of its indices)
        self.scalars = {}  # names of the other variables, in order
        is_function = parameters_start(code, head) is not None
        self._require('constexpr' not in code.texts[head.start : head.end if is_function else self.function.stop])
        self._require(self._is_in_code(i))
        self._read_header()
        self._read_body()

    def _require(self, condition):
        if not condition:
            raise _NotRewritten

    def _is_in_code(self, i):
        "Return whether only braces are around a token, which is then not an argument of a macro"
        while (i := self.code.parent[i]) in self.function:
            if self.code[i] != '{':
                return False
        return True

    def _read_header(self):
        code, opening = self.code, self.i + 1
        first = opening + 1
        while code[first] in TYPES:
            first += 1
        self.type, self.name = code.text(range(opening + 1, first)), code[first]
        stops = [code.find_stop(first, (';',))]
        stops.append(code.find_stop(stops[0] + 1, (';',)))
        self._require(first > opening + 1 and code.is_word(first) and code[first + 1] == '=')
        self._require(code[stops[0] + 1] == self.name and code[stops[0] + 2] in ('<', '<='))
        step = code.texts[stops[1] + 1 : code.match[opening]]
        self._require(step in ([self.name, '+', '+'], ['+', '+', self.name]))
        self.begin, self.end = range(first + 2, stops[0]), range(stops[0] + 3, stops[1])
        self.is_inclusive = code[stops[0] + 2] == '<='
        self._require(all(map(self._is_bound, (*self.begin, *self.end))) and self.begin and self.end)
        bounds = code.text(self.begin), code.text(self.end)
        is_short = all(map(str.isdecimal, bounds)) and int(bounds[1]) - int(bounds[0]) + self.is_inclusive < _MIN_COUNT
        self._require(not is_short)
        self.body = code.match[opening] + 1

    def _is_bound(self, i):
        code = self.code
        is_call = code[i] == '(' and code.is_word(i - 1)
        is_operand = code.is_word(i) and code[i] != self.name or code[i][0].isdigit()
        return not is_call and (is_operand or code[i] in (*_OPERATORS - {','}, '/', '%', '.'))

    def _read_body(self):
        code = self.code
        has_braces = code[self.body] == '{'
        self.start = self.body + has_braces
        self.stop = code.match[self.body] if has_braces else code.find_stop(self.body, (';',)) + 1
        self.result = code[self.start]
        i = self.start
        while i < self.stop:
            end = code.find_stop(i, (';',))
            self._require(code[i] == self.result and code[i + 1] in _UPDATES and code[end] == ';')
            self._read_expression(i + 2, end)
            i = end + 1
        bound = code.texts[self.begin.start : self.end.stop]
        # A finding names the line of the read, and all are recorded at the first line.
        self._require('\n' not in code.src[code.start(self.start) : code.end(self.stop - 1)])
        self._require(1 <= len(self.reads) <= _MAX_READS and not code.has_directive(self.i + 1, self.stop))
        self._require(self.result not in {*bound, *self.scalars, self.name} and self._is_scalar(self.result))

    def _read_expression(self, i, end):
        code = self.code
        while i < end:
            if code.is_word(i) and code[i + 1] == '[':
                i = self._read_access(i)
                continue
            self._read_operand(i, {self.result, self.name})
            i += 1

    def _read_access(self, i):
        "Read the element of an array at token `i`, and return the index after it"
        code, array, indices = self.code, self.code[i], []
        self._require(self._is_array(array) and code[i - 1] not in ('.', '->', '::'))
        i += 1
        while code[i] == '[':
            indices.append(range(i + 1, code.match[i]))
            for j in indices[-1]:
                self._read_operand(j, {self.name})
            self._require(
                code.texts[i : code.match[i]].count(self.name) <= 1 and ',' not in code.texts[i : code.match[i]]
            )
            i = code.match[i] + 1
        self._require(len(indices) <= _MAX_AXES)
        self.reads.append((array, indices))
        return i

    def _read_operand(self, i, known):
        "Read a token of an expression that accesses no array"
        code, text = self.code, self.code[i]
        if text in ('+', '-'):  # not `++` or `--`, which are two tokens
            self._require(code[i + 1] != text)
        if text == '*':  # not a pointer's target
            self._require(code.is_word(i - 1) or code[i - 1] in (')', ']') or code[i - 1][0].isdigit())
        if not code.is_word(i):
            return self._require(text in _OPERATORS or text[0].isdigit() or text == '.' and code[i - 1] in INDICES)
        if code[i - 1] == '.' or text in known | TYPES | INDICES:
            return None
        if text in FUNCTIONS:
            return self._require(code[i + 1] == '(')
        self._require(code[i + 1] != '(')
        if text in self.macros or text in self.constants:
            return self._require(text not in self.macros or self._is_constant(text))
        self._require(self._is_scalar(text))
        self.scalars[text] = None
        return None

    def _is_constant(self, macro):
        return re.fullmatch(r'\(?\s*\d+\s*\)?\s*', self.macros[macro])

    def _uses(self, name):
        return self.code.find_between(name, self.function.start, self.function.stop)

    def _is_scalar(self, name):
        "Return whether `name` is a local variable or a parameter of an arithmetic type"
        return any(self._declares_scalar(i) for i in self._uses(name))

    def _declares_scalar(self, i):
        code, first = self.code, i
        if code[i + 1] not in ('=', ';', ',', ')', '{', ':'):
            return False
        while code[i - 1] == ',' and code[first - 1] not in (';', '{', '}', '('):  # one of several declarators
            first = code.match.get(first - 1, first - 1)
        type_end = i if first == i else first + (code[first] == 'const') + 1
        is_type = code[type_end - 1] in TYPES or code[type_end - 1] in self.constants and code.is_word(type_end - 1)
        return is_type and code[type_end - 2] not in ('volatile', '__shared__', 'static', '::', '.', '->')

    def _is_array(self, name):
        "Return whether `name` is a local array, a pointer, or an array in shared memory"
        code = self.code
        return name not in self.macros and any(
            code[i - 1] in ('*', '&', '__restrict__', '__restrict')
            and code[i + 1] in ('=', ',', ')', ';')
            or code[i - 1] in TYPES
            and code[i + 1] == '['
            for i in self._uses(name)
        )

    def rewrite(self):
        "Return the edits"
        code = self.code
        start, end = code.start(self.start), code.end(self.stop - 1)
        line_start = code.src.rfind('\n', 0, start) + 1
        indentation = re.sub(r'[^\t]', ' ', code.src[line_start:start])
        prefix = f'{{{self._bulk_code()}\n#line {code.line(self.start)}\n{indentation}'
        return [(start, start, prefix), (end, end, '}')]

    def _bulk_code(self):
        "Return C++ code that checks the reads and computes the result, in the first iteration"
        code, name, end = self.code, self.name, self.code.text(self.end)
        arrays = dict.fromkeys(array for array, _ in self.reads)
        count = f'(long long)({end}) - (long long)({name}){" + 1" * self.is_inclusive}'
        variables = [*arrays, *self.scalars]
        params = ''.join(f'::gridstride::LoopParameter<decltype({v})> {v}, ' for v in variables)
        args = ''.join(f'{v}, ' for v in variables)
        reads = ' '.join(map(self._read_code, self.reads))
        check = (
            f'[]({params}const {self.type} {name}, const long long gs_count) GRIDSTRIDE_READS_CHECKED '
            f'{{ [[maybe_unused]] const {self.type} gs_next = {name} + 1; ::gridstride::LoopReads gs_reads(gs_count); '
            f'{reads} return gs_reads; }}({args}{name}, {count})'
        )
        result = self.result
        body = code.text(range(self.start, self.stop))
        compute = (
            f'[]({params}std::decay_t<decltype({result})> {result}, {self.type} {name}, const long long gs_count) '
            f'GRIDSTRIDE_READS_CHECKED {{ for (long long gs_i = 0; gs_i < gs_count; gs_i++, {name}++) {{ {body} }} '
            f'return {result}; }}({args}{result}, {name}, {count})'
        )
        last = f'{self.type}({end})' if self.is_inclusive else f'{self.type}(({end}) - 1)'
        last = last if ' ' not in self.type else f'({self.type}){last.removeprefix(self.type)}'
        return (
            f'if constexpr (::gridstride::is_plain_number<decltype({result})>) '
            f'if ({name} == ({code.text(self.begin)}) && ::gridstride::record_reads({check})) '
            f'{{ {result} = {compute}; {name} = {last}; continue; }}'
        )

    def _read_code(self, read):
        array, indices = read
        first = ''.join(f'[{self._index(tokens, self.name)}]' for tokens in indices)
        second = ''.join(f'[{self._index(tokens, "gs_next")}]' for tokens in indices)
        checks = ''.join(
            f'gs_reads.check_index<decltype({array}), {axis}>({self._index_values(tokens)}); '
            for axis, tokens in enumerate(indices)
        )
        return f'{checks}gs_reads.add<decltype({array})>(&{array}{first}, &{array}{second});'

    def _index_values(self, tokens):
        "Return C++ code for the values of an index in the first two iterations, or for its only value"
        is_fixed = all(self.code[i] != self.name for i in tokens)
        names = [self.name] if is_fixed else [self.name, 'gs_next']
        return ', '.join(self._index(tokens, name) for name in names)

    def _index(self, tokens, name):
        "Return C++ code for an index at the iteration that `name` denotes"
        return ' '.join(name if self.code[i] == self.name else self.code[i] for i in tokens)
