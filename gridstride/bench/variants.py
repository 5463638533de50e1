"""Variants of a kernel with small changes, and comparisons among them.

    no_second = changed(tiled_k, '__syncthreads(); // all have used', '')     # CUDA C, as a string
    frozen = changed(matmul_tiled_k, {', out, tw)': ', out)'})                # a kernel in Python, defined again
    narrow = define(matmul_static_k, tw=8)                                    # the same kernel with tw = 8

The text to replace must occur exactly once; if it does not, the error shows the nearest line. `compare_variants` checks
variants and times them interleaved on a GPU; without a GPU it shows the recording.
"""

import ast
import difflib
import itertools
import json
import linecache
import re
import sys
from pathlib import Path
from textwrap import shorten

from . import compare
from .keys import unwrap_kernel, key, without_comments
from .recording import REFERENCE_GPU, Expectations, Unavailable, made_on, log_lookup, recorded, recorded_file, renew_key
from ..support.function_source import SourceMissing, source_of
from ..support.short_tracebacks import ShortTracebackError
from ..support.tables import Table
from ..utils import backend
from ..utils import check as check_equal

__all__ = [
    'ChangeError',
    'changed',
    'define',
    'from_lesson',
    'source_in',
    'code_of',
    'VariantComparison',
    'compare_variants',
]


class ChangeError(ShortTracebackError, ValueError):
    "Raised if the text to replace or to find is missing, or occurs more than once"


# Text is replaced only if it occurs exactly once: otherwise the variant would silently differ from the intended one.
def _abbreviate(text):
    "Return the first line of a string, or a shortened line, quoted for a message"
    return repr(shorten(text, 90, placeholder=' ...') if '\n' not in text.strip() else text.strip().split('\n')[0])


def _similarity(text, line):
    "Return the fraction of the characters of `text` that are in `line`, in the same order"
    blocks = difflib.SequenceMatcher(None, text, line, autojunk=False).get_matching_blocks()
    return sum(b.size for b in blocks if b.size > 1) / max(1, len(text))


def _find_similar_line(text, lines):
    "Return (number, text) of the line that is most similar to `text`; None if none is similar"
    score, number = max(((_similarity(text, line), -n) for n, line in enumerate(lines, 1)), default=(0, 0))
    return (-number, lines[-number - 1].strip()) if score > 0.5 else None


def _lines_of(src, old):
    "Return the lines in which `old` begins"
    return [src.count('\n', 0, m.start()) + 1 for m in re.finditer(re.escape(old), src)]


def _missing_message(owner, src, old):
    "Return the message for text `old` that is not in the source `src` of `owner`"
    old_lines = [line for line in old.strip().splitlines() if line.strip()]
    lines = src.splitlines()
    missing_line = next((line for line in old_lines if not any(line.strip() in l for l in lines)), None)
    if missing_line is None:
        return f'{owner} has all lines of {_abbreviate(old)}, but they are not consecutive'
    similar = _find_similar_line(missing_line.strip(), lines)
    hint = f'; the nearest is line {similar[0]}:\n    {similar[1]}' if similar else ', nor a line like it'
    return (
        f'{owner} has no {_abbreviate(missing_line.strip())}{hint}\n'
        'The text to replace must match exactly, including spaces and comments: copy it from the source'
    )


def _replace(src, replacements, owner):
    "Return `src` with each key of `replacements`, in order, replaced by its value"
    for old, new in replacements.items():
        if not old.strip():
            raise ChangeError(f'the text to replace in {owner} is empty')
        num_matches = src.count(old)
        if num_matches > 1:
            starts = _lines_of(src, old)
            lines = f'line {starts[0]}' if len(set(starts)) == 1 else f'lines {", ".join(map(str, starts))}'
            raise ChangeError(
                f'{owner} contains {_abbreviate(old)} {num_matches} times, in {lines}: '
                'pass a longer part of the line, which occurs only once'
            )
        if not num_matches:
            raise ChangeError(_missing_message(owner, src, old))
        src = src.replace(old, new)
    return src


def _source_of(fn):
    "Return the source of a Python function, including decorators, without its indentation"
    try:
        return source_of(unwrap_kernel(fn)).text
    except SourceMissing as e:
        problem = f'{fn!r} has no source to change: pass CUDA C as a string, a Python function, or a rung'
        raise ChangeError(str(e) if hasattr(unwrap_kernel(fn), '__code__') else problem) from None


def _name_of(src):
    "Return the name of a source in messages: the name of its kernel, or 'the text'"
    kernel = re.search(r'__global__[^(]*?(\w+)\s*\(', src)
    return kernel[1] if kernel else 'the text'


def changed(
    original,  # a string, such as CUDA C; a kernel in Python, or another function; a `kernels.Rung`
    replacements,  # {old: new}, where each `old` occurs once; or a single `old`
    new=None,  # its replacement, if `replacements` is a string
    /,
    **options,  # for a function: its global names; for a rung: arguments of `variant`, such as `name` and constants
):  # of the type of `original`
    "Return `original` with some text replaced; raises ChangeError, with the most similar line, if it does not occur"
    if isinstance(replacements, str) != (new is not None):
        raise TypeError('expected changed(original, old, new), or changed(original, {old: new, ...})')
    replacements = {replacements: new} if isinstance(replacements, str) else replacements
    if isinstance(original, str):
        return _replace(original, replacements, _name_of(original))
    if hasattr(original, 'variant'):
        return original.variant(src=_replace(original.src_without_constants, replacements, original.name), **options)
    text = _replace(_source_of(original), replacements, unwrap_kernel(original).__name__)
    return define(text, **{**_global_and_closure_names(original), **options})


# The source of a defined function is registered under the name of a file, so that errors, the simulator and Numba can
# show its lines.
_file_counter = itertools.count(1)


def _global_and_closure_names(fn):
    "Return {name: value} of the global and closure variables that a function can use"
    fn = unwrap_kernel(fn)
    closure = zip(fn.__code__.co_freevars, (c.cell_contents for c in fn.__closure__ or ()))
    return {**fn.__globals__, **dict(closure)}


def define(
    definition,  # source code that defines a function; or a function or kernel, which is defined again
    /,
    **names,  # global names of the function; a function that is defined again keeps its other names
):
    "Execute source code that defines a function or kernel; return the last function that it defines"
    if not isinstance(definition, str):
        return define(_source_of(definition), **{**_global_and_closure_names(definition), **names})
    tree, file = _parse(definition)
    functions = [node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    if not functions:
        raise ChangeError(f'{_abbreviate(definition)} defines no function: it needs a line `def name(...):`')
    namespace = dict(names)
    try:
        exec(compile(tree, file, 'exec'), namespace)
    except NameError as e:
        name = getattr(e, 'name', None)
        raise ChangeError(f'{functions[-1]} uses {name}: pass it, as in define(text, {name}={name})') from None
    return namespace[functions[-1]]


def _parse(text):
    "Return the syntax tree of source code, and the file name under which `inspect` finds it"
    file = f'<made {next(_file_counter)}>'
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    return ast.parse(text, file), file


def from_lesson(
    lesson: str,  # its name without the number, such as 'cuda_c'
    *names,  # of functions and kernels in its cells
):
    """Define functions of another lesson in the caller's module, as if its cells had run there.

    Names that they use are looked up in that module when they run. Raises ChangeError for a name that does not exist.

    Example: `from_lesson('norms', 'gelu', 'gelu_k')`"""
    namespace = sys._getframe(1).f_globals
    for name in names:
        tree, file = _parse(source_in(lesson, name) + '\n')
        exec(compile(tree, file, 'exec'), namespace)


def _find_notebook(lesson, folder):
    "Return a list with the notebook of a lesson, `08a_timing.ipynb` for `timing`; empty if it is not in the folder"
    return [p for p in Path(folder).glob(f'[0-9][0-9]*_{lesson}.ipynb') if p.stem.partition('_')[2] == lesson]


def _cells(lesson, folder):
    "Yield (name of the file, syntax tree, source) of each code cell of a lesson that contains only Python"
    notebooks = _find_notebook(lesson, folder)
    if not notebooks:
        raise ChangeError(f'there is no lesson {lesson} next to this one, in {Path(folder).resolve()}')
    for cell in json.loads(notebooks[0].read_text(encoding='utf-8'))['cells']:
        src = ''.join(cell['source'])
        if cell['cell_type'] == 'code' and not src.startswith('%%'):
            src = re.sub(r'(?m)^[%!].*$', '', src)
            try:
                yield notebooks[0].name, ast.parse(src), src
            except SyntaxError:
                continue


def _stored_source(lesson, name, folder):
    "Return the source from `recorded/sources.json` if the notebook of the lesson is not in the folder, else None"
    sources = recorded_file(Path(folder) / 'recorded/sources.json')
    if _find_notebook(lesson, folder) or not sources.is_file():
        return None
    return json.loads(sources.read_text(encoding='utf-8')).get(lesson, {}).get(name)


def _named_source(node, src):
    "Return (name, source) of a statement that assigns a string to a name or defines a function; else ('', '')"
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return getattr(node.targets[0], 'id', ''), node.value.value
    if isinstance(node, ast.FunctionDef):
        first_line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        return node.name, '\n'.join(src.splitlines()[first_line - 1 : node.end_lineno])
    return '', ''


def source_in(
    lesson: str,  # its name without the number, such as 'cuda_c'
    name: str,  # of a string, or of a function, in one of its cells
    folder='.',  # of the lessons
) -> str:  # the string, or the source of the function, including decorators
    """Return the current string or function `name` of a lesson. Raises ChangeError unless there is exactly one.

    If the lesson is not in the folder, the source is read from `recorded/sources.json`."""
    if (stored_source := _stored_source(lesson, name, folder)) is not None:
        return stored_source
    matches = []
    all_names = {}
    file = lesson
    for file, tree, src in _cells(lesson, folder):
        for node in tree.body:
            node_name, text = _named_source(node, src)
            all_names[node_name] = None
            if node_name == name:
                matches.append(text)
    if len(set(matches)) == 1:
        return matches[0]
    similar = difflib.get_close_matches(name, [other for other in all_names if other], 3, 0.3)
    reason = f'defines {name} {len(matches)} times' if matches else f'has no string or function {name}'
    raise ChangeError(f'{file} {reason}' + (f'; it has {", ".join(similar)}' if similar and not matches else ''))


if sys.version_info < (3, 11):

    class _Unparser(ast._Unparser):
        "Writes `a, b = c`, `for i, x in xs` and `lambda: 1` as Python 3.11 does, without parentheses and spaces"

        def visit_Tuple(self, node):
            if node.elts and self.get_precedence(node) <= ast._Precedence.TUPLE:
                self.items_view(self.traverse, node.elts)
            else:
                super().visit_Tuple(node)

        def visit_Assign(self, node):
            self.set_precedence(ast._Precedence.TUPLE, *node.targets)
            super().visit_Assign(node)

        def visit_For(self, node):
            self.set_precedence(ast._Precedence.TUPLE, node.target)
            super().visit_For(node)

        def visit_Lambda(self, node):
            if any(vars(node.args).values()):
                return super().visit_Lambda(node)
            with self.require_parens(ast._Precedence.TEST, node):
                self.write('lambda: ')
                self.set_precedence(ast._Precedence.TEST, node.body)
                self.traverse(node.body)

    def _unparse(tree):
        return _Unparser().visit(tree)
else:
    _unparse = ast.unparse


# The key of a row of a comparison is computed from its code without comments, so that comments may be changed.
def code_of(code):
    """Return `code` without comments, for `keys.key`.

    `code` is a kernel, a function or CUDA C, or a list or dict of these; any other value is returned unchanged."""
    if isinstance(code, str):
        return without_comments(code)
    if isinstance(code, dict):
        return {k: code_of(v) for k, v in code.items()}
    if isinstance(code, (tuple, list)):
        return [code_of(item) for item in code]
    if hasattr(unwrap_kernel(code), '__code__'):
        return _unparse(ast.parse(_source_of(code)))
    return code


def _keys(variants, sources):
    "Return {name of a variant: key of its source}"
    if unknown_names := [name for name in sources if name not in variants]:
        raise ValueError(
            f'sources= has entries for {", ".join(unknown_names)}, which are not variants; '
            f'the variants are {", ".join(variants)}'
        )
    if names_without_source := [k for k, fn in variants.items() if k not in sources and hasattr(fn, '__code__')]:
        raise ValueError(
            f'sources= has no entry for {", ".join(names_without_source)}: pass the kernel, its code or its parameters'
        )
    return {k: key(k, code_of(sources.get(k))) for k in variants}


_KEY_PREFIX = 'contest'  # of the keys of recordings; a new value would make all of them invalid
_CHANGED_SOURCE_NOTE = 'the source differs from the recorded one, so it is timed only on a GPU'


class VariantComparison(Expectations):
    "The result of `compare_variants`: `result[name]` in ms, `speedup`, `expect`, and a table that shows the GPU"

    def __init__(self, title, rows, baseline, flops=None, made='', warnings=(), bytes=None, where=REFERENCE_GPU):
        self.title = title
        self.rows = rows
        self.baseline = baseline
        self.flops = flops
        self.bytes = bytes
        self.where = where
        self.made, self.warnings = made, list(warnings)

    def __getitem__(self, name):  # None where it was not measured
        "Return the median of a variant, in milliseconds"
        if name not in self.rows:
            raise KeyError(f'no {name!r} in this comparison; available: {", ".join(self.rows)}')
        return self.rows[name] and self.rows[name]['ms']

    @property
    def names(self) -> list:
        "The variants, in the order of the rows"
        return [*self.rows]

    @property
    def provenance(self) -> str:
        "The GPU and date of the recording that is shown; empty if this was measured here"
        return self.made if self.made.startswith('recorded') else ''

    def speedup(self, name, over=None):  # None where one of the two was not measured
        "Return the speedup of `name` over another variant, by default the baseline: above 1, `name` is faster"
        ms = self[name]
        other_ms = self[self.baseline if over is None else over]
        return other_ms / ms if ms and other_ms else None

    def in_unit(self, name, unit, over=None):
        "Return the speedup, time, throughput, bandwidth or additional column of a variant, in this unit"
        quantities = {'ms': self.__getitem__, 'TFLOP/s': self.tflops, 'GB/s': self.gbs}
        if unit == 'x':
            return self.speedup(name, over)
        return quantities[unit](name) if unit in quantities else self.column_value(name, unit)

    def column_value(self, name, column):  # None where it was not measured
        "Return the value of an additional column for a variant"
        columns = self[name] and self.rows[name]['columns']
        if columns and column not in columns:
            raise KeyError(f'no column {column!r} in this comparison; available: {", ".join(columns)}')
        return columns and columns[column]

    def tflops(self, name):  # None where it was not measured
        "Return the throughput of a variant in TFLOP/s, if the comparison has `flops`"
        return self[name] and self.flops / self[name] / 1e9

    def gbs(self, name, of=1):  # None where it was not measured
        "Return the bandwidth of a variant in GB/s, or as a fraction of `of` GB/s, if the comparison has `bytes`"
        return self[name] and self.bytes / self[name] / 1e6 / of

    def _row(self, name, columns):
        row = self.rows[name]
        if not row:
            return [name, *[''] * (len(columns) + 1 + bool(self.flops) + bool(self.bytes)), _CHANGED_SOURCE_NOTE]
        rates = [f'{self.tflops(name):.3g}'] if self.flops else []
        rates += [f'{self.gbs(name):,.0f}'] if self.bytes else []
        speedup = self.speedup(name)
        versus = 'the baseline' if name == self.baseline else '' if speedup is None else f'{speedup:.3g}x'
        return [name, f'{row["ms"]:.3f}', *rates, *(str(row['columns'].get(column, '')) for column in columns), versus]

    def table(self) -> Table:
        "Return a table of one row per variant, in the given order"
        columns = list(dict.fromkeys(column for row in self.rows.values() if row for column in row['columns']))
        head = [
            '<',
            'ms',
            *(['TFLOP/s'] if self.flops else []),
            *(['GB/s'] if self.bytes else []),
            *columns,
            f'<speedup over {self.baseline}',
        ]
        rows = [self._row(name, columns) for name in self.rows]
        if self.expectations:
            head = [*head, self.expected_head]
            rows = [[*row, self.expectation(name)] for name, row in zip(self.rows, rows)]
        title = ', '.join(filter(None, [self.title, self.made]))
        return Table(head, rows, title, '\n'.join(_merge_warnings(self.warnings, self.rows)))

    def __repr__(self):
        return repr(self.table())

    def _repr_html_(self):
        return self.table()._repr_html_()


def _merge_warnings(warnings, names):
    "Merge equal warnings of several variants into one line: 'warning for a, b: noisy', or 'warning for all: noisy'"
    names_of_warning = {}
    for line in warnings:
        name, _, warning = line.removeprefix('warning for ').partition(': ')
        names_of_warning.setdefault(warning, []).append(name)
    return [
        f'warning for {"all" if len(names_with_it) == len(names) > 2 else ", ".join(names_with_it)}: {warning}'
        for warning, names_with_it in names_of_warning.items()
    ]


def _check_for(variants, args, check, writes):
    "Return the `check` for `compare`; if it is None, a function that compares with the result of the first variant"
    if check is not None:
        return check
    result = next(iter(variants.values()))(*args)
    expected = (args[-1] if writes else result).clone()
    return lambda result: check_equal(result, expected)


def _measure(variants, inputs, check, writes, baseline, seconds, columns, clock):
    "Return (rows, warnings) of the variants, timed interleaved. Raises Unavailable without a GPU"
    if backend() != 'gpu':
        raise Unavailable('Variants are compared on an NVIDIA GPU, and this machine has none')
    args = tuple(inputs())
    out = args[-1] if writes else None
    check = _check_for(variants, args, check, writes)
    comparison = compare(variants, *args, baseline=baseline, check=check, out=out, seconds=seconds, clock=clock)
    rows = {
        name: dict(ms=1e3 * t.median, columns={head: fn(name) for head, fn in columns.items()})
        for name, t in comparison.timings.items()
    }
    return rows, [f'warning for {name}: {warning}' for name, warning in comparison.warnings]


def compare_variants(
    record,  # the name of the recording, which begins with the name of the chapter
    variants,  # name of the variant -> function that is called with the inputs
    inputs,  # called without arguments, only on a GPU: returns the inputs as a tuple
    *,
    title,  # of the table: the task and its sizes
    sources,  # name -> what determines the variant, as for `keys.key`; optional for a variant not written in Python
    check=None,  # the expected result, as for `bench.compare`; None: that of the first variant
    writes=False,  # each variant writes the last of the inputs, instead of returning its result
    baseline=None,  # name of the variant that the others are compared with; None: the first
    flops=None,  # floating-point operations per call
    bytes=None,  # bytes that a call must read and write
    columns={},  # head -> function (name -> JSON data): additional columns
    seconds=0.5,  # time limit per variant
    clock=None,  # as for `bench.compare`
    folder='recorded',  # of recordings
    where=REFERENCE_GPU,  # the GPU on which the ranges of `expect` were measured
) -> VariantComparison:
    """Check variants, and time them interleaved. Without a GPU, show the recorded times of unchanged variants.

    Changes to comments are ignored. The row of a changed variant has no time: `result[name]` and its `speedup` are
    None, which `claim` accepts."""
    baseline = baseline or next(iter(variants))
    keys = _keys(variants, sources)

    def make():
        return _measure(variants, inputs, check, writes, baseline, seconds, columns, clock)

    def save(x):
        rows, warnings = x
        return dict(rows={name: dict(row, key=keys[name]) for name, row in rows.items()}, warnings=warnings)

    def load(data, _):
        stored_rows = data['rows']

        def is_unchanged(name):
            if name not in stored_rows:
                return False
            stored_key = stored_rows[name]['key']
            return stored_key == keys[name] or renew_key(record, stored_key, keys[name], folder)

        rows = {name: stored_rows[name] if is_unchanged(name) else None for name in variants}
        log_lookup(record, 'hit' if rows == stored_rows else 'stale')
        return rows, data['warnings']

    rows, warnings = recorded(record, make, _KEY_PREFIX, title, baseline, save=save, load=load, folder=folder)
    return VariantComparison(title, rows, baseline, flops, made_on(), warnings, bytes, where)
