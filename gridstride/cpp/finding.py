"""What the emulator's runtime found, as Python reads it: the mirror of `include/cuda/finding.h`.

The runtime tells a kind, a code and fields; `findings.WORDS` has the words. Both sides keep one copy of the
structures' layout, and `check_abi` compares the two before anything is read.
"""

import ctypes
from pathlib import Path

from ..advice import update_of
from ..findings import Access, Phrase, Place, exception_of

ABI = 2  # `abi_version` in runtime/state.h: counted up on both sides when something that they share changes
KINDS = ('nothing', 'memcheck', 'racecheck', 'initcheck', 'synccheck', 'launch', 'assert', 'crash', 'timeout')
KINDS += ('interrupted', 'warning', 'phrase')  # in the order of the C++ enumeration
_NUMBER, _TEXT, _NUMBERS, _PHRASE = range(4)


class CPlace(ctypes.Structure):
    "A line, and who was there: (x, y, z) of the block and of the thread"

    _fields_ = [
        ('line', ctypes.c_int),
        ('block', ctypes.c_int * 3),
        ('thread', ctypes.c_int * 3),
        ('file', ctypes.c_char * 256),
    ]


class CField(ctypes.Structure):
    "One thing that a finding is told with; a phrase is followed by `count` fields of its own"

    _fields_ = [
        ('name', ctypes.c_char * 16),
        ('type', ctypes.c_int),
        ('count', ctypes.c_int),
        ('number_at', ctypes.c_longlong * 8),
        ('string', ctypes.c_char * 384),
    ]


class CFinding(ctypes.Structure):
    "What stopped a kernel, or a warning"

    _fields_ = [
        *((o, ctypes.c_int) for o in ('kind', 'has_who', 'has_other', 'column', 'called', 'count')),
        ('code', ctypes.c_char * 32),
        ('kernel', ctypes.c_char * 128),
        ('at', CPlace),
        ('other', CPlace),
        ('fields', CField * 24),
    ]


class COptions(ctypes.Structure):
    "How kernels shall run"

    _fields_ = [(o, ctypes.c_int) for o in ('checks', 'order', 'seed', 'threads')]
    _fields_ += [('seconds', ctypes.c_double), ('memory', ctypes.c_longlong)]


class _Abi(ctypes.Structure):
    _fields_ = [(o, ctypes.c_int) for o in ('version', 'options', 'place', 'field', 'finding')]


class AbiMismatch(RuntimeError):
    "The compiled runtime and this package disagree about what they share"


def check_abi(lib):
    "`AbiMismatch` unless the library shares this module's version and the sizes of its structures, in bytes"
    lib.gridstride_abi.restype = ctypes.POINTER(_Abi)
    there = {name: getattr(lib.gridstride_abi().contents, name) for name, _ in _Abi._fields_}
    here = dict(zip(there, (ABI, *map(ctypes.sizeof, (COptions, CPlace, CField, CFinding)))))
    wrong = [f'{name} {there[name]} there and {here[name]} here' for name in here if there[name] != here[name]]
    if wrong:
        raise AbiMismatch(
            f"the emulator's runtime {lib._name} belongs to another version of this package ({', '.join(wrong)}): "
            'restart Python, and delete that folder if it does not help'
        )


def _value(f, rest):
    "The value of the field `f`; a phrase takes its own fields from the iterator `rest`"
    if f.type == _PHRASE:
        return Phrase(f.string.decode(), fields_of([next(rest) for _ in range(f.count)]))
    if f.type == _TEXT:
        return f.string.decode(errors='replace')
    numbers = tuple(f.number_at[: f.count])
    return numbers if f.type == _NUMBERS else numbers[0]


def fields_of(fields) -> dict:  # name -> value
    "What the runtime gave with a code"
    rest = iter(fields)
    return {f.name.decode(): _value(f, rest) for f in rest}


class Found:
    "A finding of the runtime: `kind`, `code` and `fields` as `findings` has them, and where"

    def __init__(self, c):  # c: a `CFinding`
        self.kind, self.code, self.fields = KINDS[c.kind], c.code.decode(), fields_of(c.fields[: c.count])
        self.kernel, self.file, self.line = c.kernel.decode() or None, c.at.file.decode(), c.at.line or None
        self.block, self.thread = (tuple(c.at.block), tuple(c.at.thread)) if c.has_who else (None, None)
        self.column, self.called = c.column, c.called or None
        self.other_file = c.other.file.decode()
        self.other = Access(c.other.line, tuple(c.other.block), tuple(c.other.thread)) if c.has_other else None

    def exception(
        self,
        dialect,  # of the words: 'cuda' or 'python'
        **where,  # what is known better here: `kernel`, `file`, `line`, `source`, `called`
    ) -> Exception:
        "The exception that tells of it; `KeyboardInterrupt` if the user ended the kernel"
        if self.kind == 'interrupted':
            return KeyboardInterrupt()
        place = Place(self.kernel, self.file or None, self.line, block=self.block, thread=self.thread)
        return exception_of(self.kind, self.code, dialect, self.fields, place._replace(**where), self.other)

    def order_race(self, line_of):
        """Of two accesses between the same barriers name that one last which comes last in the program.

        The emulator runs one thread up to a barrier, then the next; which of the two came first there says
        nothing. Lines behind the last barrier come before those in front of it, which are the next round of a
        loop. The other's line is quoted; `line_of`: the text of a line."""
        barrier, other = self.kind == 'racecheck' and self.fields.pop('barrier', 0), self.other
        if not other or self.file and self.other_file not in ('', self.file):
            return
        self.other = other = other._replace(source=line_of(other.line))
        if self.code != 'race' or self.called not in (None, self.line):
            return
        here, there = ((line <= barrier, line) for line in (self.line, other.line))
        before, now = self.fields['before'], self.fields['now']
        one = here == there and (before, now) == ('written', 'read')
        if there > here or one and update_of(line_of(self.line), self.fields['array']):
            self.other = Access(self.line, self.block, self.thread, line_of(self.line))
            self.line, self.block, self.thread, self.called = other.line, other.block, other.thread, None
            self.fields.update(before=now, now=before)

    def is_apart(self):
        "Is the other access known to be in another file?"
        return bool(self.other and self.file and self.other_file and self.other_file != self.file)


def file_among(file, files):
    "The one of `files` that `file` is, by its whole path or by its name; the first if it is none"
    same = [o for o in files if o == file or file.endswith(f'/{o}')]
    return (same or [o for o in files if Path(o).name == Path(file).name] or [*files, None])[0]
