"""Variants of a kernel with small changes, and contests among them.

    no_second = changed(tiled_k, '__syncthreads(); // all have used', '')     # CUDA C, as text
    frozen = changed(matmul_tiled_k, {', out, tw)': ', out)'})                # a kernel in Python, defined again
    narrow = define(matmul_static_k, tw=8)                                    # the same kernel with tw = 8

The text to replace must occur exactly once; if it does not, the error shows the nearest line. `contest` checks variants
and times them interleaved on a GPU; without a GPU it shows the recording.
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
from .keys import function_within, key, without_comments
from .recording import EXPECTED, Expectations, Unavailable, made_on, note_lookup, recorded, recorded_file, renew_key
from ..support.function_source import SourceMissing, source_of
from ..support.short_tracebacks import ShownBriefly
from ..support.tables import Table
from ..utils import backend
from ..utils import check as same

__all__ = ['ChangeError', 'changed', 'define', 'source_in', 'code_of', 'Contest', 'contest']


class ChangeError(ShownBriefly, ValueError):
    "The text to replace or to find is missing, or occurs more than once; the message says which"


# A text is replaced only if it occurs once: a change that matches nothing, or two positions, would silently make
# another variant than the intended one.
def _brief(text):
    return repr(shorten(text, 90, placeholder=' ...') if '\n' not in text.strip() else text.strip().split('\n')[0])


def _likeness(wanted, line):
    "Return the fraction of `wanted` that is in `line`, in the same order"
    blocks = difflib.SequenceMatcher(None, wanted, line, autojunk=False).get_matching_blocks()
    return sum(b.size for b in blocks if b.size > 1) / max(1, len(wanted))


def _nearest(wanted, lines):
    "Return (number, text) of the line that is most similar to `wanted`; None if none is similar"
    score, number = max(((_likeness(wanted, line), -n) for n, line in enumerate(lines, 1)), default=(0, 0))
    return (-number, lines[-number - 1].strip()) if score > 0.5 else None


def _where(src, old):
    "Return the line numbers where `old` begins"
    return [src.count('\n', 0, m.start()) + 1 for m in re.finditer(re.escape(old), src)]


def _not_there(whose, src, old):
    "Return the message for an `old` that is not in `src`"
    wanted = [line for line in old.strip().splitlines() if line.strip()]
    lines = src.splitlines()
    missing = next((line for line in wanted if not any(line.strip() in l for l in lines)), None)
    if missing is None:
        return f'{whose} has the lines of {_brief(old)}, but not directly below each other'
    near = _nearest(missing.strip(), lines)
    hint = f'; the nearest is line {near[0]}:\n    {near[1]}' if near else ', nor a line like it'
    return (
        f'{whose} has no {_brief(missing.strip())}{hint}\n'
        'The text to replace must match exactly, including spaces and comments: copy it from the source'
    )


def _replace(src, words, whose):
    "Return `src` with each key of `words`, in their order, replaced by its value"
    for old, new in words.items():
        if not old.strip():
            raise ChangeError(f'an empty string matches everywhere in {whose}: pass the text to replace')
        n = src.count(old)
        if n > 1:
            at = _where(src, old)
            lines = f'line {at[0]}' if len(set(at)) == 1 else f'lines {", ".join(map(str, at))}'
            raise ChangeError(
                f'{whose} has {_brief(old)} {n} times, in {lines}: pass more of the line, so that it matches once'
            )
        if not n:
            raise ChangeError(_not_there(whose, src, old))
        src = src.replace(old, new)
    return src


def _text_of(f):
    "Return the source of a Python function, decorators and all, from the first column on"
    try:
        return source_of(function_within(f)).text
    except SourceMissing as e:
        missing = f'{f!r} has no source to change: pass CUDA C as a string, a Python function, or a rung'
        raise ChangeError(str(e) if hasattr(function_within(f), '__code__') else missing) from None


def _name_of(src):
    "Return the name of a text in messages: that of its kernel, if it has one"
    found = re.search(r'__global__[^(]*?(\w+)\s*\(', src)
    return found[1] if found else 'the text'


def changed(
    what,  # CUDA C or another text; a kernel in Python, or another function; a `kernels.Rung`
    words,  # {old: new}, where each `old` occurs once; or one such text
    new=None,  # the replacement, if `words` is a string
    /,
    **more,  # for a function: its global names; for a rung: arguments of `variant`, such as `name` and constants
):  # of the type of `what`
    "Return `what` with some text replaced; raises `ChangeError`, which shows the nearest line, for a missing text"
    if isinstance(words, str) != (new is not None):
        raise TypeError('call changed(what, old, new), or changed(what, {old: new, ...})')
    words = {words: new} if isinstance(words, str) else words
    if isinstance(what, str):
        return _replace(what, words, _name_of(what))
    if hasattr(what, 'variant'):
        return what.variant(src=_replace(what.src_without_constants, words, what.name), **more)
    text = _replace(_text_of(what), words, function_within(what).__name__)
    return define(text, **{**_names_outside(what), **more})


# A text can also be defined as a Python function. It gets the name of a file, so that errors, the simulator and Numba
# can show its lines.
_file_counter = itertools.count(1)


def _names_outside(f):
    "Return the global and enclosing names that a function can use"
    f = function_within(f)
    closed = zip(f.__code__.co_freevars, (c.cell_contents for c in f.__closure__ or ()))
    return {**f.__globals__, **dict(closed)}


def define(
    what,  # a text that defines a function; or a function or kernel, which is defined again
    /,
    **names,  # global names of the function; a function that is defined again keeps its other names
):
    "Define the function or kernel of a text; returns the last one, if the text defines several"
    if not isinstance(what, str):
        return define(_text_of(what), **{**_names_outside(what), **names})
    file = f'<made {next(_file_counter)}>'
    linecache.cache[file] = (len(what), None, what.splitlines(True), file)
    tree = ast.parse(what, file)
    made = [node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    if not made:
        raise ChangeError(f'{_brief(what)} defines no function: it needs a line `def name(...):`')
    space = dict(names)
    try:
        exec(compile(tree, file, 'exec'), space)
    except NameError as e:
        name = getattr(e, 'name', None)
        raise ChangeError(f'{made[-1]} uses {name}: pass that, too, as in define(text, {name}={name})') from None
    return space[made[-1]]


def _files(lesson, folder):
    "Return the notebook of a lesson, `08a_timing.ipynb` for `timing`; an empty list if it is not in the folder"
    return [p for p in Path(folder).glob(f'[0-9][0-9]*_{lesson}.ipynb') if p.stem.partition('_')[2] == lesson]


def _cells(lesson, folder):
    "Yield (name of the file, syntax tree, source) of each code cell of a lesson that contains only Python"
    found = _files(lesson, folder)
    if not found:
        raise ChangeError(f'there is no lesson {lesson} next to this one, in {Path(folder).resolve()}')
    for cell in json.loads(found[0].read_text(encoding='utf-8'))['cells']:
        src = ''.join(cell['source'])
        if cell['cell_type'] == 'code' and not src.startswith('%%'):
            src = re.sub(r'(?m)^[%!].*$', '', src)
            try:
                yield found[0].name, ast.parse(src), src
            except SyntaxError:
                continue


def _kept_source(lesson, name, folder):
    "Return the text from `recorded/sources.json` if the other lesson is not in the folder; None if it is"
    kept = recorded_file(Path(folder) / 'recorded/sources.json')
    if _files(lesson, folder) or not kept.is_file():
        return None
    return json.loads(kept.read_text(encoding='utf-8')).get(lesson, {}).get(name)


def _named_text(node, src):
    "Return (name, text) of a statement that assigns a text to a name or defines a function; else empty strings"
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return getattr(node.targets[0], 'id', ''), node.value.value
    if isinstance(node, ast.FunctionDef):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        return node.name, '\n'.join(src.splitlines()[first - 1 : node.end_lineno])
    return '', ''


def source_in(
    lesson: str,  # its name without the number, such as 'cuda_c'
    name: str,  # of a text, or of a function, in one of its cells
    folder='.',  # where the lessons are
) -> str:  # the text; or the function's source, decorators and all
    """Return the current text or function `name` of a lesson; raises `ChangeError` unless there is exactly one.

    If that lesson is not in the folder of this one, the text is that of `recorded/sources.json`."""
    if (kept := _kept_source(lesson, name, folder)) is not None:
        return kept
    found = []
    others = {}
    file = lesson
    for file, tree, src in _cells(lesson, folder):
        for node in tree.body:
            n, text = _named_text(node, src)
            others[n] = None
            if n == name:
                found.append(text)
    if len(set(found)) == 1:
        return found[0]
    near = difflib.get_close_matches(name, [line for line in others if line], 3, 0.3)
    why = f'defines {name} {len(found)} times' if found else f'has no text or function {name}'
    raise ChangeError(f'{file} {why}' + (f'; it has {", ".join(near)}' if near and not found else ''))


if sys.version_info < (3, 11):

    class _Unparser(ast._Unparser):
        "Writes what later Pythons write: `a, b = c`, `for i, x in xs` and `lambda: 1`, without parentheses and spaces"

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

    def _unparsed(tree):
        return _Unparser().visit(tree)
else:
    _unparsed = ast.unparse


# The key of a row of a contest is its code without comments, so that comments may be changed.
def code_of(x):
    """Return what decides a result, for `keys.key`: the source without comments of a kernel, function or CUDA C,
    also in lists and dicts; anything else unchanged"""
    if isinstance(x, str):
        return without_comments(x)
    if isinstance(x, dict):
        return {k: code_of(v) for k, v in x.items()}
    if isinstance(x, (tuple, list)):
        return [code_of(item) for item in x]
    if hasattr(function_within(x), '__code__'):
        return _unparsed(ast.parse(_text_of(x)))
    return x


def _keys(ways, sources):
    "name -> key of what decides it"
    if unknown := [name for name in sources if name not in ways]:
        raise ValueError(f'sources= names {", ".join(unknown)}, but the ways are: {", ".join(ways)}')
    if left := [k for k, f in ways.items() if k not in sources and hasattr(f, '__code__')]:
        raise ValueError(f'name the source of {", ".join(left)} in sources=: its kernel, its code or its numbers')
    return {k: key(k, code_of(sources.get(k))) for k in ways}


_CHANGED = 'another source than the recorded one: timed on a GPU alone'


class Contest(Expectations):
    "The result of a contest: `contest[name]` in milliseconds, `speedup`, `expect`, and a table with the GPU and date"

    def __init__(self, title, rows, baseline, flops=None, made='', warnings=(), bytes=None):
        self.title = title
        self.rows = rows
        self.baseline = baseline
        self.flops = flops
        self.bytes = bytes
        self.made, self.warnings = made, list(warnings)

    def __getitem__(self, name):  # None where it was not measured
        "Return the median of a variant, in milliseconds"
        if name not in self.rows:
            raise KeyError(f'no {name!r} in this contest; there are {", ".join(self.rows)}')
        return self.rows[name] and self.rows[name]['ms']

    @property
    def names(self) -> list:
        "The variants, in the order of the rows"
        return [*self.rows]

    @property
    def mark(self) -> str:
        "The GPU and date of the recording that is shown; empty if this was measured here"
        return self.made if self.made.startswith('recorded') else ''

    def speedup(self, name, over=None):  # None where one of the two was not measured
        "Return the speedup of `name` over another variant, by default the baseline: above 1, `name` is faster"
        mine = self[name]
        other = self[self.baseline if over is None else over]
        return other / mine if mine and other else None

    def in_unit(self, name, unit, over=None):
        "Return what `expect` compares: the speedup, the time, the speed or an additional column of a variant"
        ways = {'ms': self.__getitem__, 'TFLOP/s': self.tflops, 'GB/s': self.gbs}
        if unit == 'x':
            return self.speedup(name, over)
        return ways[unit](name) if unit in ways else self.noted(name, unit)

    def noted(self, name, column):  # None where it was not measured
        "Return the value of an additional column for a variant"
        columns = self[name] and self.rows[name]['columns']
        if columns and column not in columns:
            raise KeyError(f'no column {column!r} in this contest; there are {", ".join(columns)}')
        return columns and columns[column]

    def tflops(self, name):  # None where it was not measured
        "Return the speed of a variant in TFLOP/s, if the contest has `flops`"
        return self[name] and self.flops / self[name] / 1e9

    def gbs(self, name, of=1):  # None where it was not measured
        "Return the speed of a variant in GB/s, if the contest has `bytes`; or as a fraction of `of` GB/s"
        return self[name] and self.bytes / self[name] / 1e6 / of

    def _row(self, name, columns):
        row = self.rows[name]
        if not row:
            return [name, *[''] * (len(columns) + 1 + bool(self.flops) + bool(self.bytes)), _CHANGED]
        speed = [f'{self.tflops(name):.3g}'] if self.flops else []
        speed += [f'{self.gbs(name):,.0f}'] if self.bytes else []
        times = self.speedup(name)
        versus = 'the baseline' if name == self.baseline else '' if times is None else f'{times:.3g}x'
        return [name, f'{row["ms"]:.3f}', *speed, *(str(row['columns'].get(column, '')) for column in columns), versus]

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
            head = [*head, EXPECTED]
            rows = [[*row, self.expectation(name)] for name, row in zip(self.rows, rows)]
        title = ', '.join(filter(None, [self.title, self.made]))
        return Table(head, rows, title, '\n'.join([*self.comparisons, *_gather(self.warnings, self.rows)]))

    def __repr__(self):
        return repr(self.table())

    def _repr_html_(self):
        return self.table()._repr_html_()


def _gather(warnings, names):
    "Merge equal warnings of several variants into one line: 'in doubt, a, b: noisy', or 'in doubt, all: noisy'"
    about = {}
    for line in warnings:
        who, _, why = line.removeprefix('in doubt, ').partition(': ')
        about.setdefault(why, []).append(who)
    return [f'in doubt, {"all" if len(who) == len(names) > 2 else ", ".join(who)}: {why}' for why, who in about.items()]


def _judge(ways, args, check, writes):
    "Return the `check` of `compare`: the given one, or one that compares with the result of the first variant"
    if check is not None:
        return check
    got = next(iter(ways.values()))(*args)
    want = (args[-1] if writes else got).clone()
    return lambda got: same(got, want)


def _measure(ways, inputs, check, writes, baseline, seconds, columns, clock):
    "Return (rows, warnings) of the variants, timed interleaved; raises `Unavailable` without a GPU"
    if backend() != 'gpu':
        raise Unavailable('A contest is timed on an NVIDIA GPU, and none is here')
    args = tuple(inputs())
    out = args[-1] if writes else None
    judge = _judge(ways, args, check, writes)
    c = compare(ways, *args, baseline=baseline, check=judge, out=out, seconds=seconds, clock=clock)
    rows = {
        k: dict(ms=1e3 * t.median, columns={title: f(k) for title, f in columns.items()}) for k, t in c.timings.items()
    }
    return rows, [f'in doubt, {k}: {d}' for k, d in c.warnings]


def contest(
    record,  # the name of the recording, which begins with that of the chapter
    ways,  # name of the variant -> function that is called with the inputs
    inputs,  # called without arguments, only on a GPU: returns the inputs as a tuple
    *,
    title,  # of the table: the task and its sizes
    sources,  # name -> what decides the variant, as for `keys.key`; optional for variants not written in Python
    check=None,  # the expected result, as for `bench.compare`; None: that of the first variant
    writes=False,  # each variant writes the last of the inputs, instead of returning its result
    baseline=None,  # name of the variant that the others are compared with; None: the first
    flops=None,  # floating-point operations per call
    bytes=None,  # bytes that a call must move
    columns={},  # head -> function of a name: additional columns, as plain values
    seconds=0.5,  # time limit per variant
    clock=None,  # as for `bench.compare`
    folder='recorded',  # of recordings
) -> Contest:
    """Check variants and time them interleaved; without a GPU, show the recording of those that have not changed since.

    Comments may be changed. A changed kernel has a row without a time, and the other rows keep theirs. A variant that
    was not measured is None in `contest[name]` and `speedup`, which a `claim` accepts."""
    baseline = baseline or next(iter(ways))
    keys = _keys(ways, sources)

    def make():
        return _measure(ways, inputs, check, writes, baseline, seconds, columns, clock)

    def save(x):
        return dict(rows={k: dict(row, key=keys[k]) for k, row in x[0].items()}, warnings=x[1])

    def load(data, _):
        kept = data['rows']

        def fits(k):
            return k in kept and (kept[k]['key'] == keys[k] or renew_key(record, kept[k]['key'], keys[k], folder))

        rows = {k: kept[k] if fits(k) else None for k in ways}
        note_lookup(record, 'fits' if rows == kept else 'refused')
        return rows, data['warnings']

    rows, warnings = recorded(record, make, 'contest', title, baseline, save=save, load=load, folder=folder)
    return Contest(title, rows, baseline, flops, made_on(), warnings, bytes)
