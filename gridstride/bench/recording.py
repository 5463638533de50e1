"""Recordings: results that need a GPU, stored in a file and shown on machines without one.

A lesson runs from top to bottom on a laptop. A cell that requires a GPU shows a result that was recorded on a machine
with a GPU. Three rules keep this honest: a recorded result is marked as such; a recording belongs to one source and one
set of arguments, and is refused for any other; one command records everything again.

    def copy_rate():
        if not gpu_count():
            raise Unavailable('A copy rate needs an NVIDIA GPU, and this machine has none')
        return {'GB/s': bench(copy, x, bytes=2 * x.nbytes).gbs}

    recorded('profiling_copy', copy_rate, copy, x)

On a machine with a GPU the value is computed; with `GRIDSTRIDE_RECORD=1` it is also stored, in
`recorded/profiling_copy.json`.
On any other machine the recording is shown instead, after a line with the reason, the GPU and the date. If one of the
other arguments (here the function `copy` and the shape of `x`) has changed since, the recording is refused.
`python3 course.py record 08` records a lesson, and prints which recordings were written and which were not.
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

from ..support.atomic_write import write_atomically
from ..support.tables import Table
from .keys import key, source_text

__all__ = [
    'PACKAGES',
    'Unavailable',
    'no_gpu',
    'machine',
    'provenance',
    'brief_provenance',
    'mime_representations',
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
    'mark_partly_recorded',
    'EXPECTED',
    'claim',
    'claim_table',
    'expected',
    'Expectations',
]


# A function that cannot compute a value on this machine raises `Unavailable` with the reason. A notebook shows this
# error as one line.
class Unavailable(RuntimeError):
    "Raised if this machine cannot compute a value; the message contains the reason and a remedy"

    def _render_traceback_(self):
        return [f'{type(self).__name__}: {self}']


PACKAGES = ['torch', 'triton', 'numba', 'gridstride']  # a recording stores their versions, if they are installed


def _gpu():
    "Return (name, driver) of the first GPU, or (None, None)"
    command = ['nvidia-smi', '--query-gpu=name,driver_version', '--format=csv,noheader']
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None, None
    first_gpu = output.strip().partition('\n')[0]
    return tuple(part.strip() for part in first_gpu.rsplit(',', 1)) if first_gpu else (None, None)


def _versions():
    versions = {}
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


def machine(
    tools=None,  # versions of other programs that were used, such as {'ncu': '2025.3.1'}
) -> dict:  # gpu, date, versions
    "Return the GPU, the date and the versions for a recording"
    gpu, driver = _gpu()
    versions = {**_versions(), **({'driver': driver} if driver else {}), **(tools or {})}
    return dict(gpu=gpu, date=date.today().isoformat(), versions=versions)


def brief_provenance(machine_info: dict) -> str:  # as `machine` returns it
    "Return the GPU and date of a recording, for the title of a table or plot"
    gpu_text = f"on an {machine_info['gpu']}, " if machine_info['gpu'] else ''
    return f"recorded {gpu_text}{machine_info['date']}"


def provenance(machine_info: dict) -> str:  # as `machine` returns it
    "Return the provenance of a recording: GPU, date and versions"
    versions = ', '.join(f'{k} {v}' for k, v in machine_info['versions'].items())
    return f'{brief_provenance(machine_info)} ({versions})' if versions else brief_provenance(machine_info)


# A value is stored in each MIME type in which a notebook can show it (text, HTML, SVG, PNG), and also as data if JSON
# can represent it.
_REPR_METHODS = {
    'text/html': '_repr_html_',
    'image/svg+xml': '_repr_svg_',
    'image/png': '_repr_png_',
    'text/markdown': '_repr_markdown_',
}


def _png(figure):
    "Return a matplotlib figure as PNG"
    buffer = BytesIO()
    figure.savefig(buffer, format='png', bbox_inches='tight')
    return buffer.getvalue()


def _encode(v):
    return base64.b64encode(v).decode() if isinstance(v, bytes) else v


def mime_representations(x) -> dict:  # MIME type -> text, base64 if it is binary
    "Return the representations of `x` that a notebook can show"
    if hasattr(x, '_repr_mimebundle_'):
        bundle = dict(x._repr_mimebundle_())
    else:
        bundle = {mime_type: getattr(x, method)() for mime_type, method in _REPR_METHODS.items() if hasattr(x, method)}
    if hasattr(x, 'savefig'):
        bundle['image/png'] = _png(x)
    bundle.setdefault('text/plain', x if isinstance(x, str) else repr(x))
    return {mime_type: _encode(v) for mime_type, v in bundle.items() if isinstance(v, (str, bytes))}


def _json_data(x):
    "Return `x` if a round trip through JSON preserves it, else None"
    try:
        return x if json.loads(json.dumps(x)) == x else None
    except (TypeError, ValueError):
        return None


# Each recording is one file, `recorded/NAME.json` in the folder of the lesson. It is written atomically, so that no
# process reads a partly written file.
class Recording:
    """A value that was recorded on another machine; a notebook shows it as it was shown there.

    `data`: the value as JSON data; `machine_info`: GPU, date and versions, see `machine`;
    `representations`: see `mime_representations`."""

    def __init__(self, key, machine_info, representations, data=None):
        self.key = key
        self.machine_info = machine_info
        self.representations = representations
        self.data = data

    @property
    def provenance(self) -> str:
        "The line with the GPU, the date and the versions"
        return provenance(self.machine_info)

    def __repr__(self):
        return f"{self.representations['text/plain']}\n[{self.provenance}]"

    def _html(self):
        "Return the HTML that a notebook shows, with the provenance below it; None if there is only text"
        html = self.representations.get('text/html') or self.representations.get('image/svg+xml')
        if not html and 'image/png' in self.representations:
            html = f'<img src="data:image/png;base64,{self.representations["image/png"]}">'
        return html and f'{html}<p style="margin:.2em 0 .8em">[{escape(self.provenance)}]</p>'

    def _repr_mimebundle_(self, include=None, exclude=None):
        html = self._html()
        return {**self.representations, **({'text/html': html} if html else {}), 'text/plain': repr(self)}


def _append(variable, line):
    "Append a line to the file named by an environment variable, if it is set"
    if path := os.environ.get(variable):
        with open(path, 'a', encoding='utf-8') as file:
            file.write(line + '\n')


def log_lookup(name, outcome):
    "Log, for the tests, whether a value was computed here ('made'), or its recording was a 'hit' or 'stale'"
    _append('GRIDSTRIDE_LOOKUPS', f'{name} {outcome}')


def _path(name, folder):
    if not re.fullmatch(r'\w[\w.-]*', name):
        raise ValueError(f'{name!r} cannot name a recording: use letters, digits, _, - and . only')
    return Path(folder) / f'{name}.json'


# A reader's own recordings are next to the lesson, and take precedence. A lesson that is opened alone, as on Colab,
# uses the course's recordings: they are in the wheel, and in a clone of the repository they are in `nbs`.
_PACKAGE = Path(__file__).resolve().parents[1]
_SHIPPED = _PACKAGE / 'recorded', _PACKAGE.parent / 'nbs/recorded'


def recorded_file(
    path,  # relative to the lesson's folder, such as 'recorded/quantization_prose.txt'
) -> Path:
    """Return the path of a recorded file or folder: in the lesson's folder, or else in the package.

    `recorded_file('recorded/sources.json')`; a path that exists in neither is returned unchanged."""
    path = Path(path)
    if path.exists() or path.parts[:1] != ('recorded',):
        return path
    candidates = [folder.joinpath(*path.parts[1:]) for folder in _SHIPPED]
    return next((p for p in candidates if p.exists()), path)


def write(
    name,  # of the recording
    key,  # from `keys.key`
    x,  # the value; stored as `mime_representations` returns it
    data=None,  # the same value as JSON data
    tools=None,  # versions of other programs that were used
    folder='recorded',  # of the file
) -> Path:
    "Store `x` in `folder/name.json`; return the path"
    path = _path(name, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    machine_info = machine(tools)
    machine_info['versions'] = dict(sorted(machine_info['versions'].items()))
    # the order of the items in `data` is kept
    content = dict(data=data, forms=mime_representations(x), key=key, made=machine_info)
    write_atomically(path, json.dumps(content, indent=1, ensure_ascii=False) + '\n')
    return path


def read(
    name,  # of the recording
    key,  # from `keys.key`; it must be that of the recording
    folder='recorded',  # of the file
) -> Recording:
    "Return the recording `name`. Raises Unavailable if there is none, or if its key is different"
    path = recorded_file(_path(name, folder))
    try:
        content = json.loads(path.read_text(encoding='utf-8'))
        recording = Recording(content['key'], content['made'], content['forms'], content.get('data'))
    except FileNotFoundError:
        raise Unavailable(f'there is no recording {path}') from None
    except (ValueError, TypeError, KeyError) as e:
        raise Unavailable(f'the recording {path} cannot be read ({e})') from None
    is_current = recording.key == key or renew_key(name, recording.key, key, folder)
    log_lookup(name, 'hit' if is_current else 'stale')
    if is_current:
        return recording
    raise Unavailable(
        f'the recording {path} was made from another source or other arguments, so it is not shown: '
        'undo your changes, comments included, or record it again on a GPU'
    )


def renew_key(
    name,  # of the recording
    old_key,  # the key in its file
    new_key,  # the key that replaces it
    folder='recorded',  # of the file
) -> bool:  # whether the key was replaced
    """Replace the key in the file of a recording that GRIDSTRIDE_REKEY names, and nothing else.

    `benchmarks/rekey.py` sets this variable after a change of code that does not change the result."""
    if name not in os.environ.get('GRIDSTRIDE_REKEY', '').split(','):
        return False
    path, old_line = _path(name, folder), f'"key": "{old_key}"'
    write_atomically(path, path.read_text(encoding='utf-8').replace(old_line, f'"key": "{new_key}"'))
    print(f'New key: {name}')
    return True


# `recorded` computes a value if this machine can, and otherwise shows its recording after a line with the reason. With
# `GRIDSTRIDE_RECORD=1` it stores the computed value; `python3 course.py record 08` sets this for a lesson, and prints
# which recordings were written and which were not (from the file that `GRIDSTRIDE_MISSED` names).
def is_recording() -> bool:
    "Return whether values are stored as recordings: the environment variable GRIDSTRIDE_RECORD is 1"
    return os.environ.get('GRIDSTRIDE_RECORD') == '1'


def _log_missing_recording(name, reason):
    "Append a recording that could not be made, with the reason, to the file that GRIDSTRIDE_MISSED names, if it is set"
    _append('GRIDSTRIDE_MISSED', f"{name}: {' '.join(str(reason).split())}")


def recorded(
    name,  # of the recording: CHAPTER_what
    make,  # called without arguments: returns the value, or raises `Unavailable`
    *parts,  # everything that determines the result: sources, functions, sizes; see `keys.key`
    save=None,  # value of `make` -> JSON data; None: the value itself, if JSON can represent it
    load=None,  # (JSON data, provenance) -> the value on other machines; None: a `Recording`
    tools=None,  # versions of other programs that are used, or a function that returns them
    folder='recorded',  # of recordings
):
    """Return `make()`; if this machine cannot compute it, print where it was recorded, and return the recording.

    Raises Unavailable if there is no recording with this key."""
    global _last_origin, _last_machine
    recording_key = key(*parts)
    _last_origin = 'here'
    _last_machine = None
    try:
        value = make()
    except Unavailable as e:
        if is_recording():
            _log_missing_recording(name, e)
        recording = _replay(name, recording_key, folder, str(e))
        _last_origin = 'recorded'
        _last_machine = recording.machine_info
        return load(recording.data, recording.provenance) if load else recording
    log_lookup(name, 'made')
    if is_recording():
        write(
            name,
            recording_key,
            value,
            save(value) if save else _json_data(value),
            tools() if callable(tools) else tools,
            folder,
        )
        print(f'Recorded: {name}')
    return value


_printed = set()  # the reasons and provenances that were printed; each is printed only once
_last_origin = 'here'  # of the values that `recorded` returned last: 'here', 'recorded'
_last_machine = (
    None  # `machine_info` of the recording that `recorded` returned last, None for a value that was computed here
)


def _replay(name, recording_key, folder, reason):
    "Print the reason and the provenance, and return the recording. Raises Unavailable if there is none"
    try:
        recording = read(name, recording_key, folder)
    except Unavailable as e:
        raise Unavailable(f'{reason}; and {e}') from None
    sentence = f'{reason}. '  # a string, because a reason may be an error, and equal errors are different objects
    short_provenance = f'R{brief_provenance(recording.machine_info)[1:]}, as above'
    shown_provenance = (
        short_provenance if recording.provenance in _printed else f'What follows was {recording.provenance}'
    )
    print(f"{'' if sentence in _printed else sentence}{shown_provenance}")
    _printed.update((sentence, recording.provenance))
    return recording


def no_gpu() -> str:
    "Return the reason why kernels do not run on a GPU; '' if they do"
    from ..utils import backend, gpu_count

    if backend() == 'gpu':
        return ''
    return 'no GPU is used (GRIDSTRIDE_BACKEND is sim)' if gpu_count() else 'no GPU was found'


def _require_gpu():
    if reason := no_gpu():
        raise Unavailable(f'This needs an NVIDIA GPU, and {reason.replace("no GPU", "none")}')


def on_gpu(
    name,  # of the recording: CHAPTER_what
    make,  # called without arguments, and only on a machine with a GPU
    *parts,  # everything else that determines the result, besides the source of `make`: sources, functions, kernels
    folder='recorded',  # of recordings
    **options,  # `save`, `load` and `tools`, as for `recorded`
):
    """Return `make()` on a machine with a GPU; elsewhere print where it was recorded, and return the recorded value.

    The value is JSON data, or, if it could not be stored as such, a `Recording`, which a notebook can show."""

    def make_on_gpu():
        _require_gpu()
        return make()

    sources = [part if isinstance(part, str) else source_text(part) for part in (make, *parts)]
    value = recorded(name, make_on_gpu, *sources, folder=folder, **options)
    return value.data if isinstance(value, Recording) and value.data is not None else value


def print_on_gpu(
    name,  # of the recording: CHAPTER_what
    show,  # called without arguments; prints text, such as the message of an error
    *parts,  # everything else that determines the output, besides the source of `show`
    folder='recorded',  # of recordings
):
    "Call `show` on a machine with a GPU; elsewhere print its recorded output and its origin. Raises Unavailable"

    def make():
        _require_gpu()
        output = StringIO()
        with redirect_stdout(output):
            show()
        return output.getvalue()

    print(recorded(name, make, show, *parts, load=lambda text, provenance: text, folder=folder), end='')


# The titles of tables and plots contain the provenance, too, because they may be shown without the printed line.
def made_on() -> str:
    "Return the GPU and date of the last value that `recorded` returned, for the title of a table or plot"
    if _last_machine:
        return brief_provenance(_last_machine)
    this_machine = machine()
    return ', '.join(filter(None, [this_machine['gpu'], this_machine['date']]))


# The speeds and counters in the text of a lesson hold for the GPU on which it was written. So each is a claim: a reader
# with another GPU, or a busy GPU, sees the measured value and can continue. But when outputs are stored together with
# the text, by `course.py record` or `course.py run --save`, a claim that does not hold is an error. The claims about a
# table are a column of it: `expected` returns one cell, and `expect` adds a claim to a `VariantComparison` or a
# `Comparison`.
REFERENCE_GPU = 'an H100'  # the GPU on which the ranges in the lessons were measured
EXPECTED = f'<expected on {REFERENCE_GPU}'  # head of the column of claims


def mark_partly_recorded():
    "Mark the current call of `recorded` as one that computes some values here and takes others from a recording"
    global _last_origin
    _last_origin = 'here, in part recorded,'


def _format_number(x):
    "Format a number with three significant digits, or all integer digits from 1000 on"
    return f'{x:,.0f}' if abs(x) >= 1000 else f'{x:.3g}'


def _with_unit(number, unit):
    "Append the unit to a formatted number: 2.53x, 45%, 12 ms"
    return f'{number}{unit}' if unit == 'x' or unit.startswith('%') else f'{number} {unit}'.rstrip()


def _range(low, high, unit=''):
    "Format the range from `low` to `high`"
    if low is None and high is None:
        raise ValueError('a claim needs a bound: pass low, high, or both')
    if low is None or high is None:
        return _with_unit(
            f'at least {_format_number(low)}' if high is None else f'at most {_format_number(high)}', unit
        )
    return _with_unit(_format_number(low) if low == high else f'{_format_number(low)} to {_format_number(high)}', unit)


def _is_within(low, measured, high):
    return measured is not None and (low is None or measured >= low) and (high is None or measured <= high)


def _guess_text(guess, unit):
    "Format the reader's guess, if there is one. Raises TypeError unless it is a number or ..."
    if guess is None or guess is ...:
        return ''
    try:
        return f'you guessed {_with_unit(_format_number(float(guess)), unit)}'
    except (TypeError, ValueError):
        raise TypeError(f'my_guess is {guess!r}, but must be a number, such as 1.5, or ... for no guess') from None


def _is_enforced(mark):
    "Return whether a false claim raises an error, because a value that was measured here is stored for others"
    origin = _last_origin if mark is None else 'recorded' if mark else 'here'
    return origin != 'recorded' and (is_recording() or os.environ.get('GRIDSTRIDE_CLAIMS') == 'hold')


def _claim_line(text, low, measured, high, unit, mark, guess, where=REFERENCE_GPU):
    "Return the line of a claim. Raises AssertionError as `claim` does"
    holds = _is_within(low, measured, high)
    actual = 'not measured here' if measured is None else _with_unit(_format_number(measured), unit)
    contrast = '' if holds or measured is None else 'but '
    line = f'{text}: {actual}, {contrast}expected {_range(low, high, unit)} on {where}'
    line = '; '.join(filter(None, [line, _guess_text(guess, unit)]))
    if not holds and _is_enforced(mark):
        raise AssertionError(f'The measurement contradicts the text. {line}')
    return line


def claim(
    text,  # the quantity, in a few words; a ratio is a speedup: bigger is better
    low,  # the expected minimum; None: no minimum
    measured,  # the value, measured here or recorded; None if it was not measured
    high,  # the expected maximum; None: no maximum
    unit='',  # of these values: 'x' for a speedup, '%', 'ms', 'GB/s', 'TFLOP/s'
    mark=None,  # provenance of `measured` if it was recorded, '' if not; None: as for the last value of `recorded`
    guess=None,  # the reader's guess, which is printed, too; `...` while there is none
    where=REFERENCE_GPU,  # the GPU on which the range was measured
):
    """Print a measured value, and the range that the text expects.

        claim('tiled, speedup over naive', 2.2, timed.speedup('tiled', 'naive'), 2.8, 'x')

    prints 'tiled, speedup over naive: 2.53x, expected 2.2 to 2.8x on an H100'. If 2.53 were out of the range, it would
    print 'but expected', and a reader's lesson would continue. Raises AssertionError only if a value that was measured
    here is stored for others: if GRIDSTRIDE_RECORD is 1, or GRIDSTRIDE_CLAIMS is 'hold', which `run --save` sets."""
    print(_claim_line(text, low, measured, high, unit, mark, guess, where))


def expected(
    low,  # the parameters are those of `claim`
    measured,
    high,
    unit='',
    mark=None,
    guess=None,
) -> str:
    """Format a claim for a cell of a table: the expected range, and whether the value is out of it.

        Table(['<kernel', 'ms', EXPECTED], [['tiled', f'{ms:.2f}', expected(1.1, ms, 1.4, 'ms')]])

    Raises AssertionError as `claim` does."""
    return _expected_text(low, measured, high, unit, mark, guess)


def _expected_text(low, measured, high, unit, mark, guess, over=''):
    "Format `expected`; the measured value is included if it is a speedup over another row, `over`"
    actual = 'not measured' if measured is None else _with_unit(_format_number(measured), unit)
    if not (holds := _is_within(low, measured, high)) and _is_enforced(mark):
        raise AssertionError(f'The text expects {_range(low, high, unit)}, but the measured value is {actual}')
    cell = _range(low, high, unit) + (f' over {over} ({actual})' if over else '')
    cell += '' if holds or measured is None else ', but not here'
    return '; '.join(filter(None, [cell, _guess_text(guess, unit)]))


def _claim_row(mark, text, low, measured, high, unit='', guess=None):
    "Return a claim as the row of a table. Raises AssertionError as `claim` does"
    actual = 'not measured here' if measured is None else _with_unit(_format_number(measured), unit)
    return [text, actual, expected(low, measured, high, unit, mark, guess)]


def claim_table(
    *claims,  # (text, low, measured, high), optionally followed by unit and guess: as for `claim`
    title=None,  # of the table; None: the GPU and date of the last value of `recorded`
    mark=None,  # as for `claim`
) -> Table:
    """Return several claims as a table with a row per claim.

        claim_table(('cycles to L1', 30, 39.6, 45), ('cycles to L2', 200, 291, 330))

    Raises AssertionError as `claim` does."""
    rows = [_claim_row(mark, *claim) for claim in claims]
    return Table(['<', 'measured', EXPECTED], rows, made_on() if title is None else title)


class Expectations:
    """Claims about the rows of a table: `expect` adds one, and the table shows them in a column.

    A subclass has `names`, `baseline`, `provenance`, and `in_unit(name, unit, over)`."""

    where = REFERENCE_GPU  # the GPU on which the ranges were measured

    def expect(
        self,
        name,  # of the row
        low,  # as for `claim`
        high,  # as for `claim`
        over=None,  # for a speedup: the row that `name` is compared with; None: the baseline
        unit='x',  # 'x': a speedup; or the unit of another quantity of the row
        guess=None,  # as for `claim`
    ):
        """Add a claim about a row to the table; return `self`.

            timed.expect('tiled', 2.2, 2.8)

        Raises AssertionError as `claim` does, KeyError for an unknown row."""
        for row in filter(None, (name, over)):
            if row not in self.names:
                raise KeyError(f'no {row!r} in this table; available: {", ".join(self.names)}')
        measured = self.in_unit(name, unit, over)
        other = '' if over in (None, self.baseline) else over  # whose speedup no column has
        try:
            text = _expected_text(low, measured, high, unit, self.provenance, guess, other)
        except AssertionError as e:
            raise AssertionError(f'{name}: {e}') from None
        self.expectations.setdefault(name, []).append(text)
        return self

    @property
    def expectations(self):
        "Row -> the formatted claims about it"
        return self.__dict__.setdefault('_expectations', {})

    @property
    def expected_head(self) -> str:
        "The header of the column of claims"
        return f'<expected on {self.where}'

    def expectation(self, name) -> str:
        "Return the cell of a row in the column of claims"
        return '; '.join(self.expectations.get(name, []))
