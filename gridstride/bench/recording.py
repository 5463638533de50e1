"""Recordings: results that need a GPU, stored in a file and shown on machines without one.

A lesson runs from top to bottom on a laptop. A cell that needs a GPU shows a result that was recorded on a machine with
one. Three rules keep this honest: a recorded result is marked as such; a recording belongs to one source and one set of
arguments, and is refused for any other; one command records everything again.

    def copy_rate():
        if not gpu_count():
            raise Unavailable('A copy rate needs an NVIDIA GPU, and none is here')
        return {'GB/s': bench(copy, x, bytes=2 * x.nbytes).gbs}

    recorded('profiling_copy', copy_rate, copy, x)

On a machine with a GPU the value is computed; with `GRIDSTRIDE_RECORD=1` it is also stored, in
`recorded/profiling_copy.json`.
On any other machine the recording is shown instead, after a line with the reason, the GPU and the date. If the parts
(here the function `copy` and the shape of `x`) have changed since, the recording is refused. `python3 course.py record
08` records a lesson, and prints which recordings were written and which were not.
"""

import base64
import json
import os
import re
import subprocess
from contextlib import redirect_stdout, suppress
from datetime import date
from html import escape
from importlib import metadata
from io import BytesIO, StringIO
from pathlib import Path

from ..support.atomic_write import write_whole
from .keys import key, source_text

__all__ = [
    'PACKAGES',
    'Unavailable',
    'no_gpu',
    'machine',
    'mark',
    'brief_mark',
    'forms',
    'Recording',
    'recorded_file',
    'is_recording',
    'write',
    'read',
    'renew_key',
    'recorded',
    'on_gpu',
    'print_on_gpu',
    'made_on',
    'measured_in_part',
    'EXPECTED',
    'claim',
    'expected',
    'Expectations',
]


# A function that cannot compute a value on this machine raises `Unavailable` with the reason. A notebook shows this
# error as one line.
class Unavailable(RuntimeError):
    "This machine cannot compute a value; the message has the reason, and how to fix it"

    def _render_traceback_(self):
        return [f'{type(self).__name__}: {self}']


PACKAGES = ['torch', 'triton', 'numba', 'gridstride']  # a recording has their versions, if they are installed


def _gpu():
    "Return (name, driver) of the first GPU, or (None, None)"
    cmd = ['nvidia-smi', '--query-gpu=name,driver_version', '--format=csv,noheader']
    try:
        out = subprocess.run(cmd, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None, None
    first = out.strip().partition('\n')[0]
    return tuple(part.strip() for part in first.rsplit(',', 1)) if first else (None, None)


def _versions():
    res = {}
    for p in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            res[p] = metadata.version(p)
    return res


def machine(
    tools=None,  # versions of other programs that were used, such as {'ncu': '2025.3.1'}
) -> dict:  # gpu, date, versions
    "Return the GPU, the date and the versions for a recording"
    gpu, driver = _gpu()
    versions = {**_versions(), **({'driver': driver} if driver else {}), **(tools or {})}
    return dict(gpu=gpu, date=date.today().isoformat(), versions=versions)


def brief_mark(made: dict) -> str:  # made: as `machine` returns it
    "Return GPU and date of a recording, for the title of a table or plot"
    on = f"on an {made['gpu']}, " if made['gpu'] else ''
    return f"recorded {on}{made['date']}"


def mark(made: dict) -> str:  # made: as `machine` returns it
    "Return the line that marks a recording"
    versions = ', '.join(f'{k} {v}' for k, v in made['versions'].items())
    return f'{brief_mark(made)} ({versions})' if versions else brief_mark(made)


# A value is stored twice: as a notebook shows it, in each form that it has (text, HTML, SVG, PNG), and as data, if it
# can be written as JSON.
_FORMS = {
    'text/html': '_repr_html_',
    'image/svg+xml': '_repr_svg_',
    'image/png': '_repr_png_',
    'text/markdown': '_repr_markdown_',
}


def _png(fig):
    "Return a matplotlib figure as PNG"
    f = BytesIO()
    fig.savefig(f, format='png', bbox_inches='tight')
    return f.getvalue()


def _text(v):
    return base64.b64encode(v).decode() if isinstance(v, bytes) else v


def forms(x) -> dict:  # MIME type -> text, base64 if it is binary
    "Return the forms in which a notebook can show `x`"
    if hasattr(x, '_repr_mimebundle_'):
        res = dict(x._repr_mimebundle_())
    else:
        res = {m: getattr(x, f)() for m, f in _FORMS.items() if hasattr(x, f)}
    if hasattr(x, 'savefig'):
        res['image/png'] = _png(x)
    res.setdefault('text/plain', x if isinstance(x, str) else repr(x))
    return {m: _text(v) for m, v in res.items() if isinstance(v, (str, bytes))}


def _plain(x):
    "Return `x` if a round trip through JSON preserves it, else None"
    try:
        return x if json.loads(json.dumps(x)) == x else None
    except (TypeError, ValueError):
        return None


# Each recording is one file, `recorded/NAME.json` in the folder of the lesson. It is written atomically, so that no
# process reads half of it.
class Recording:
    """A value that was recorded on another machine: a notebook shows it as it did there. `data` is the plain value,
    `mark` the line with GPU, date and versions"""

    def __init__(self, key, made, forms, data=None):
        self.key = key
        self.made = made
        self.forms = forms
        self.data = data

    @property
    def mark(self) -> str:
        "The line with the GPU, the date and the versions"
        return mark(self.made)

    def __repr__(self):
        return f"{self.forms['text/plain']}\n[{self.mark}]"

    def _html(self):
        "Return the HTML that a notebook shows, with the mark below it; None if there is only text"
        shown = self.forms.get('text/html') or self.forms.get('image/svg+xml')
        if not shown and 'image/png' in self.forms:
            shown = f'<img src="data:image/png;base64,{self.forms["image/png"]}">'
        return shown and f'{shown}<p style="margin:.2em 0 .8em">[{escape(self.mark)}]</p>'

    def _repr_mimebundle_(self, include=None, exclude=None):
        html = self._html()
        return {**self.forms, **({'text/html': html} if html else {}), 'text/plain': repr(self)}


def _append(variable, line):
    "Append a line to the file that an environment variable names, if it is set"
    if to := os.environ.get(variable):
        with open(to, 'a', encoding='utf-8') as f:
            f.write(line + '\n')


def note_lookup(name, how):
    "Log for the tests whether a value was computed here, or its recording fits, or was refused"
    _append('GRIDSTRIDE_LOOKUPS', f'{name} {how}')


def _file(name, folder):
    if not re.fullmatch(r'\w[\w.-]*', name):
        raise ValueError(f'{name!r} cannot name a recording: use letters, digits, _, - and . only')
    return Path(folder) / f'{name}.json'


# A reader's own recordings are next to the lesson, and come first. A lesson that is opened alone, as on Colab, finds
# the course's recordings in the package: the wheel carries them, and in a copy of the repository they are in `nbs`.
_PACKAGE = Path(__file__).resolve().parents[1]
_SHIPPED = _PACKAGE / 'recorded', _PACKAGE.parent / 'nbs/recorded'


def recorded_file(
    path,  # relative to the lesson's folder, such as 'recorded/quantization_prose.txt'
) -> Path:
    """Return the path of a recorded file or folder: in the lesson's folder, or else in the package.

    `recorded_file('recorded/sources.json')`; a path that exists in neither is returned as it is."""
    path = Path(path)
    if path.exists() or path.parts[:1] != ('recorded',):
        return path
    shipped = [folder.joinpath(*path.parts[1:]) for folder in _SHIPPED]
    return next((p for p in shipped if p.exists()), path)


def write(
    name,  # of the recording
    key,  # from `keys.key`
    x,  # the value; stored in the forms that `forms` returns
    data=None,  # the same as plain values, which JSON can store
    tools=None,  # versions of other programs that were used
    folder='recorded',  # of the file
) -> Path:
    "Store `x` in `folder/name.json`; returns its path"
    path = _file(name, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    made = machine(tools)
    made['versions'] = dict(sorted(made['versions'].items()))
    kept = dict(data=data, forms=forms(x), key=key, made=made)  # dicts of the reader keep their order
    write_whole(path, json.dumps(kept, indent=1, ensure_ascii=False) + '\n')
    return path


def read(
    name,  # of the recording
    key,  # from `keys.key`; it must be that of the recording
    folder='recorded',  # of the file
) -> Recording:
    "Return the recording `name`; raises `Unavailable` if there is none, or if its key is another one"
    path = recorded_file(_file(name, folder))
    try:
        rec = Recording(**json.loads(path.read_text(encoding='utf-8')))
    except FileNotFoundError:
        raise Unavailable(f'there is no recording {path}') from None
    except (ValueError, TypeError) as e:
        raise Unavailable(f'the recording {path} cannot be read ({e})') from None
    fits = rec.key == key or renew_key(name, rec.key, key, folder)
    note_lookup(name, 'fits' if fits else 'refused')
    if fits:
        return rec
    raise Unavailable(
        f'the recording {path} was made from another source or other arguments, so it is not shown: '
        'undo your changes, comments included, or record it again on a GPU'
    )


def renew_key(
    name,  # of the recording
    old,  # the key in its file
    new,  # the key that replaces it
    folder='recorded',  # of the file
) -> bool:  # whether the key was replaced
    """Replace the key in the file of a recording that GRIDSTRIDE_REKEY names, and nothing else.

    `benchmarks/rekey.py` sets that variable after a change of code that changes no result."""
    if name not in os.environ.get('GRIDSTRIDE_REKEY', '').split(','):
        return False
    path, was = _file(name, folder), f'"key": "{old}"'
    write_whole(path, path.read_text(encoding='utf-8').replace(was, f'"key": "{new}"'))
    print(f'New key: {name}')
    return True


# `recorded` computes a value if this machine can, and otherwise shows its recording after a line with the reason. With
# `GRIDSTRIDE_RECORD=1` it stores what it computes; `python3 course.py record 08` sets this for a lesson, and prints
# which recordings were written and which were not (from the file that `GRIDSTRIDE_MISSED` names).
def is_recording() -> bool:
    "Return whether values are stored as recordings: the environment variable GRIDSTRIDE_RECORD is 1"
    return os.environ.get('GRIDSTRIDE_RECORD') == '1'


def _note_missed(name, why):
    "Append what could not be recorded to the file that GRIDSTRIDE_MISSED names, if it is set"
    _append('GRIDSTRIDE_MISSED', f"{name}: {' '.join(str(why).split())}")


def recorded(
    name,  # of the recording: CHAPTER_what
    make,  # called without arguments: returns the value, or raises `Unavailable`
    *parts,  # everything that decides the result: sources, functions, sizes; see `keys.key`
    save=None,  # value of `make` -> plain values, which JSON can store; None: the value itself, if it is plain
    load=None,  # (plain values, mark) -> the value on other machines; None: a `Recording`
    tools=None,  # versions of other programs that are used, or a function that returns them
    folder='recorded',  # of recordings
):
    """Return `make()`; if this machine cannot compute it, print a mark and return the recording.

    Raises Unavailable if there is no recording with this key."""
    global _origin, _made
    k = key(*parts)
    _origin = 'here'
    _made = None
    try:
        x = make()
    except Unavailable as e:
        if is_recording():
            _note_missed(name, e)
        rec = _replay(name, k, folder, e)
        _origin = 'recorded'
        _made = rec.made
        return load(rec.data, rec.mark) if load else rec
    note_lookup(name, 'made')
    if is_recording():
        write(name, k, x, save(x) if save else _plain(x), tools() if callable(tools) else tools, folder)
        print(f'Recorded: {name}')
    return x


_printed = set()  # reasons and marks that were printed: each is printed once, because a lesson may show many recordings
_origin = 'here'  # where the last call of `recorded` got its values: 'here', 'recorded'
_made = None  # `made` of the last recording


def _replay(name, k, folder, why):
    "Print the reason and the mark, and return the recording; raises `Unavailable` if there is none"
    try:
        rec = read(name, k, folder)
    except Unavailable as e:
        raise Unavailable(f'{why}; and {e}') from None
    reason = f'{why}. '
    short = f'R{brief_mark(rec.made)[1:]}, as above'
    print(f"{'' if reason in _printed else reason}{short if rec.mark in _printed else f'What follows was {rec.mark}'}")
    _printed.update((reason, rec.mark))
    return rec


def no_gpu() -> str:
    "Return the reason why kernels do not run on a GPU; empty if they do"
    from ..utils import backend, gpu_count

    if backend() == 'gpu':
        return ''
    return 'no GPU is used (GRIDSTRIDE_BACKEND is sim)' if gpu_count() else 'no GPU is here'


def _need_gpu():
    if why := no_gpu():
        raise Unavailable(f'This needs an NVIDIA GPU, and {why.replace("no GPU", "none")}')


# Measurements of a lesson: plain data, or an object that a notebook can show
def on_gpu(
    name,  # of the recording: CHAPTER_what
    make,  # called without arguments, and only on a machine with a GPU
    *parts,  # what decides the result besides the source of `make`: sources, functions, kernels
    folder='recorded',  # of recordings
    **how,  # `save`, `load` and `tools`, as for `recorded`
):
    """Return `make()` on a machine with a GPU; elsewhere print a mark and return the recorded plain data, or else the
    `Recording`"""

    def here():
        _need_gpu()
        return make()

    texts = [p if isinstance(p, str) else source_text(p) for p in (make, *parts)]
    res = recorded(name, here, *texts, folder=folder, **how)
    return res.data if isinstance(res, Recording) and res.data is not None else res


# Cells that only print, and need a GPU: the message of an error, a row of times
def print_on_gpu(
    name,  # of the recording: CHAPTER_what
    show,  # called without arguments; prints
    *parts,  # what decides the output besides the source of `show`
    folder='recorded',  # of recordings
):
    "Call `show` on a machine with a GPU; elsewhere print its recorded output, marked as such; raises `Unavailable`"

    def make():
        _need_gpu()
        said = StringIO()
        with redirect_stdout(said):
            show()
        return said.getvalue()

    print(recorded(name, make, show, *parts, load=lambda text, mark: text, folder=folder), end='')


# Tables and plots of recordings are labelled themselves, because they may be shown without the line above.
def made_on() -> str:
    "Return GPU and date of the last value that `recorded` returned, for the title of a table or plot"
    if _made:
        return brief_mark(_made)
    here = machine()
    return ', '.join(filter(None, [here['gpu'], here['date']]))


# The speeds and counters in a text hold for the GPU that it was written on. So each is a claim: a reader with another
# GPU, or a busy one, sees what was measured and can continue. But when outputs are stored together with the text, by
# `course.py record` or `course.py run --save`, a claim that does not hold is an error. Next to a table, claims are a
# column of it: `expected` makes one cell, and `expect` adds a claim to a `Contest` or a `Comparison`.
TEXT_GPU = 'an H100'  # what the text was written on
EXPECTED = f'<expected on {TEXT_GPU}'  # the head of a table's column of `expected`


def measured_in_part():
    "Record that some values of the current `recorded` call come from a recording, and the others do not"
    global _origin
    _origin = 'here, in part recorded,'


def _brief(x):
    "Format a number with three significant digits, or all integer digits from 1000 on"
    return f'{x:,.0f}' if abs(x) >= 1000 else f'{x:.3g}'


def _in_unit(number, unit):
    "Append the unit to a formatted number: 2.53x, 45%, 12 ms"
    return f'{number}{unit}' if unit in ('x', '%') else f'{number} {unit}'.rstrip()


def _range(low, high, unit=''):
    "Return the range from `low` to `high` in words"
    if low is None and high is None:
        raise ValueError('a claim needs a bound: pass low, high, or both')
    if low is None or high is None:
        return _in_unit(f'at least {_brief(low)}' if high is None else f'at most {_brief(high)}', unit)
    return _in_unit(_brief(low) if low == high else f'{_brief(low)} to {_brief(high)}', unit)


def _within(low, measured, high):
    return measured is not None and (low is None or measured >= low) and (high is None or measured <= high)


def _guess_of(guess, unit):
    "Format the reader's guess, if there is one; raises `TypeError` unless it is a number or ..."
    if guess is None or guess is ...:
        return ''
    try:
        return f'you guessed {_in_unit(_brief(float(guess)), unit)}'
    except (TypeError, ValueError):
        raise TypeError(f'my_guess is {guess!r}, but must be a number, such as 1.5, or ... for no guess') from None


def _must_hold(mark):
    "Return whether a false claim is an error: what was measured here is stored for others"
    origin = _origin if mark is None else 'recorded' if mark else 'here'
    return origin != 'recorded' and (is_recording() or os.environ.get('GRIDSTRIDE_CLAIMS') == 'hold')


def _judged(text, low, measured, high, unit, mark, guess, where=TEXT_GPU):
    "Return the line of a claim; raises `AssertionError` as `claim` does"
    holds = _within(low, measured, high)
    found = 'not measured here' if measured is None else _in_unit(_brief(measured), unit)
    but = '' if holds or measured is None else 'but '
    line = f'{text}: {found}, {but}expected {_range(low, high, unit)} on {where}'
    line = '; '.join(filter(None, [line, _guess_of(guess, unit)]))
    if not holds and _must_hold(mark):
        raise AssertionError(f'The text does not say what is measured now. {line}')
    return line


def claim(
    text,  # what is claimed, in a few words; a ratio is a speedup: bigger is better
    low,  # the least for which it holds; None: there is no least
    measured,  # the number measured here, or recorded; None where it could not be had
    high,  # the most; None: there is no most
    unit='',  # of these values: 'x' for a speedup, '%', 'ms', 'GB/s', 'TFLOP/s'
    mark=None,  # of the recording that the number is from, '' for none; by default, what `recorded` gave last
    guess=None,  # the reader's own guess, which is printed with it; `...` while there is none
    where=TEXT_GPU,  # what the text was written on
):
    """Print what was measured, and the range that the text expects.

        claim('tiled, speedup over naive', 2.2, race.speedup('tiled', 'naive'), 2.8, 'x')

    prints 'tiled, speedup over naive: 2.53x, expected 2.2 to 2.8x on an H100'. If 2.53 were out of the range, this
    would be 'but expected', and a reader's lesson continues. Raises AssertionError only where what was measured here is
    stored for others: GRIDSTRIDE_RECORD is 1, or GRIDSTRIDE_CLAIMS is 'hold', which `run --save` sets."""
    print(_judged(text, low, measured, high, unit, mark, guess, where))


def expected(
    low,  # as for `claim`, like the others
    measured,
    high,
    unit='',
    mark=None,
    guess=None,
) -> str:
    """Return a claim as the text of a table's cell: the range, and whether the measured number is out of it.

        Table(['<kernel', 'ms', EXPECTED], [['tiled', f'{ms:.2f}', expected(1.1, ms, 1.4, 'ms')]])

    Raises AssertionError as `claim` does."""
    if not (holds := _within(low, measured, high)) and _must_hold(mark):
        found = 'not measured' if measured is None else _in_unit(_brief(measured), unit)
        raise AssertionError(f'The text expects {_range(low, high, unit)}, but this is {found}')
    short = _range(low, high, unit) + ('' if holds or measured is None else ', but not here')
    return '; '.join(filter(None, [short, _guess_of(guess, unit)]))


class Expectations:
    """Claims about the rows of a table: `expect` adds one, and the table shows them in a column.

    A subclass has `names`, `baseline`, `mark`, and `in_unit(name, unit, over)`."""

    def expect(
        self,
        name,  # of the row
        low,  # as for `claim`
        high,
        over=None,  # for a speedup: the row that `name` is compared with; None: the baseline
        unit='x',  # 'x': a speedup; or another unit in which the row was measured
        guess=None,  # as for `claim`
    ):
        """Add what the text expects of a row to the table; returns the object itself.

            race.expect('tiled', 2.2, 2.8)

        Raises AssertionError as `claim` does, KeyError for an unknown row."""
        for row in filter(None, (name, over)):
            if row not in self.names:
                raise KeyError(f'no {row!r} in this table; there are {", ".join(self.names)}')
        measured = self.in_unit(name, unit, over)
        if over not in (None, self.baseline):  # the table has no column for this speedup
            text = f'{name}, speedup over {over}'
            self.comparisons.append(_judged(text, low, measured, high, unit, self.mark, guess))
            return self
        try:
            text = expected(low, measured, high, unit, self.mark, guess)
        except AssertionError as e:
            raise AssertionError(f'{name}: {e}') from None
        self.expectations.setdefault(name, []).append(text)
        return self

    @property
    def expectations(self):
        "Row -> what the text expects of it"
        return self.__dict__.setdefault('_expectations', {})

    @property
    def comparisons(self):
        "Lines below the table: expected speedups over other rows than the baseline"
        return self.__dict__.setdefault('_comparisons', [])

    def expectation(self, name) -> str:
        "Return the cell of a row in the column `EXPECTED`"
        return '; '.join(self.expectations.get(name, []))
