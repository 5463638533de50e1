"""Reads the findings of the emulator's runtime, by ctypes structures that mirror `include/cuda/finding.h`.

The runtime reports a kind, a code and fields; `messages.WORDS` has the words. C++ and Python each define the layout of
the structures, and `check_abi` compares the two definitions before anything is read.
"""

import ctypes
import re
from pathlib import Path

from .frontend.edits import NotEmulated
from ..diagnostics.accessed_arrays import accessed_arrays
from ..diagnostics.race_hints import update_of
from ..diagnostics.source_lines import find_uses
from ..diagnostics.errors import Access, Call, KernelCrash, Location, Phrase, exception_of, text_of

ABI = 4  # `abi_version` in runtime/state.h: incremented on both sides when a shared structure changes
KINDS = ('nothing', 'memcheck', 'racecheck', 'initcheck', 'synccheck', 'launch', 'assert', 'crash', 'timeout')
KINDS += ('interrupted', 'warning', 'phrase')  # in the order of the C++ enumeration
_FAR_APART = 2**26  # elements; arrays of a small program are rarely as far apart
_NUMBER, _TEXT, _LIST, _PHRASE = range(4)


class CCall(ctypes.Structure):
    "A frame of a call stack"

    _fields_ = [('line', ctypes.c_int), ('function', ctypes.c_char * 64), ('file', ctypes.c_char * 192)]


class CLocation(ctypes.Structure):
    "A source location, the indices (x, y, z) of block and thread, and the call stack"

    _fields_ = [
        ('line', ctypes.c_int),
        ('block', ctypes.c_int * 3),
        ('thread', ctypes.c_int * 3),
        ('file', ctypes.c_char * 256),
        ('depth', ctypes.c_int),
        ('calls', CCall * 8),
    ]


class CField(ctypes.Structure):
    "A field of a finding; a phrase is followed by its own `count` fields"

    _fields_ = [
        ('name', ctypes.c_char * 16),
        ('type', ctypes.c_int),
        ('count', ctypes.c_int),
        ('number_at', ctypes.c_longlong * 8),
        ('string', ctypes.c_char * 384),
    ]


class CFinding(ctypes.Structure):
    "A finding that stopped a kernel, or a warning"

    _fields_ = [
        *((field, ctypes.c_int) for field in ('kind', 'has_who', 'has_other', 'column', 'called', 'count')),
        ('code', ctypes.c_char * 32),
        ('kernel', ctypes.c_char * 128),
        ('at', CLocation),
        ('other', CLocation),
        ('fields', CField * 24),
    ]


class COptions(ctypes.Structure):
    "The options of the runtime"

    _fields_ = [(field, ctypes.c_int) for field in ('checks', 'order', 'seed', 'threads')]
    _fields_ += [('seconds', ctypes.c_double), ('memory', ctypes.c_longlong)]


class _Abi(ctypes.Structure):
    "The version and sizes of the shared structures in the runtime"

    _fields_ = [(field, ctypes.c_int) for field in ('version', 'options', 'location', 'field', 'finding')]


class AbiMismatch(RuntimeError):
    "The compiled runtime and this package have different versions of their shared structures"


def check_abi(lib):
    "Raise `AbiMismatch` unless the library has the version of this module, and its structures the same sizes"
    lib.gridstride_abi.restype = ctypes.POINTER(_Abi)
    compiled = {name: getattr(lib.gridstride_abi().contents, name) for name, _ in _Abi._fields_}
    expected = dict(zip(compiled, (ABI, *map(ctypes.sizeof, (COptions, CLocation, CField, CFinding)))))
    wrong = [
        f'{name} is {compiled[name]} there and {expected[name]} here'
        for name in expected
        if compiled[name] != expected[name]
    ]
    if wrong:
        raise AbiMismatch(
            f"the emulator's runtime {lib._name} belongs to another version of this package ({', '.join(wrong)}): "
            'restart Python, and delete that folder if it does not help'
        )


def _value(f, following):
    "Return the value of the field `f`; a phrase consumes its own fields from the iterator `following`"
    if f.type == _PHRASE:
        return Phrase(f.string.decode(), fields_of([next(following) for _ in range(f.count)]))
    if f.type == _TEXT:
        return f.string.decode(errors='replace')
    values = tuple(f.number_at[: f.count])
    return values if f.type == _LIST else values[0]


def fields_of(fields) -> dict:  # name -> value
    "Return the fields of a finding or phrase as {name: value}"
    following = iter(fields)
    return {f.name.decode(): _value(f, following) for f in following}


def _calls_of(location):
    "Return the call stack of a `CLocation`, innermost first; addr2line gives an inlined lambda its function's name"
    calls = [Call(call.function.decode(), call.file.decode(), call.line) for call in location.calls[: location.depth]]
    is_lambda = [call.function == calls[-1].function for call in calls[:-1]] + [False]
    return tuple(call._replace(function='lambda') if inner else call for call, inner in zip(calls, is_lambda))


class NotEmulatedCall(KernelCrash, NotEmulated):
    "The host code has called a function that the emulator does not have"


class Found:
    "A finding of the runtime: `kind`, `code` and `fields` as in `errors`, location, thread and the other access"

    def __init__(self, c):  # c: a `CFinding`
        self.kind = KINDS[c.kind]
        self.code = c.code.decode()
        self.fields = fields_of(c.fields[: c.count])
        self.kernel = c.kernel.decode() or None
        self.file = c.at.file.decode()
        self.line = c.at.line or None
        self.block, self.thread = (tuple(c.at.block), tuple(c.at.thread)) if c.has_who else (None, None)
        self.column, self.called = c.column, c.called or None
        self.other_file = c.other.file.decode()
        self.calls, other = _calls_of(c.at), c.other
        who = tuple(other.block), tuple(other.thread)
        self.other = Access(other.line, *who, calls=_calls_of(other)) if c.has_other else None

    def exception(
        self,
        dialect,  # of the words: 'cuda' or 'python'
        **where,  # fields of `Location` that replace those of the runtime
    ) -> Exception:
        "Return the exception for the finding; `KeyboardInterrupt` if the user stopped the kernel"
        if self.kind == 'interrupted':
            return KeyboardInterrupt(self._interrupted(**where))
        who = dict(block=self.block, thread=self.thread, calls=self.calls)
        where_found = Location(self.kernel, self.file or None, self.line, **who)._replace(**where)
        if self.code == 'not_emulated':
            what, fix = text_of(self.kind, self.code, dialect, self.fields)
            known = dict(file=where_found.file, line=where_found.line, source=where_found.source)
            return NotEmulatedCall(what, fix, code=self.code, fields=self.fields, dialect=dialect, **known)
        return exception_of(self.kind, self.code, dialect, self.fields, where_found, self.other)

    def _interrupted(self, file=None, source=None, **_):
        "Return the message of the `KeyboardInterrupt`: what was interrupted, and where"
        what = f'the kernel {self.kernel}' if self.kernel else 'the host code' if self.code else 'the call'
        where = f'\n  {file}, line {self.line}: {source}' if self.line and source else ''
        return f'{what} was interrupted{where}'

    def name_array(self, calls):
        """Name the arrays that an access out of all arrays may belong to: one, or several that are equally likely.

        `calls`: an `accessed_arrays.Lines` per function, from the access to the kernel."""
        rows = [row.split() for row in self.fields.pop('arrays', '').split(', ') if row]
        rows = {name: (name, int(at), int(size)) for name, at, size in rows}
        if not rows or not calls[0].line:
            return
        names, only = accessed_arrays(self.fields['access'], calls, rows)
        found = [rows[name] for name in names]
        by_chance = only and self._may_be_near_by_chance(found)
        if by_chance or self._is_in_no_array(calls[0].line):
            self._name_among(found)

    def _name_among(self, found):
        "Store the array, or the candidates, of `found`: (name, index, size) of each"
        access = self.fields['access']
        if len(found) == 1:
            name, at, size = found[0]
            self.code = 'overflowed' if at < 0 else 'outside'
            self.fields = dict(access=access, array=name, index=(at,), shape=(size,))
        elif found:
            self.code, self.fields = 'overflowed_among', dict(access=access, candidates=tuple(found))

    def _is_in_no_array(self, line):
        "Return whether the address is in no array, or in one that this line does not access"
        is_elsewhere = self.code == 'overflowed' and not find_uses(line, self.fields.get('array', ''))
        return self.code == 'no_array' or is_elsewhere

    def _may_be_near_by_chance(self, found):
        "Return whether an index that has overflowed may be near another array by chance"
        return self.code in ('outside', 'before', 'freed') and all(abs(at) >= _FAR_APART for _, at, _ in found)

    def order_race(self, line_of):
        """Exchange the two accesses of a data race if the other one is later in the program, which is named last.

        The emulator runs one thread up to a barrier, then the next, so the order in which it finds the accesses is
        arbitrary. Lines after the last barrier count as earlier than those before it, which belong to the next
        iteration of a loop, or the next call of a function. `line_of`: a function that returns the text of a line."""
        barrier, other = self.kind == 'racecheck' and self.fields.pop('barrier', 0), self.other
        if not other or self.file and self.other_file not in ('', self.file):
            return
        self.other = other = other._replace(source=line_of(other.line))
        if self.code != 'race' or not (lines := self._lines_to_compare(barrier, line_of)):
            return
        mine, theirs = ((line <= barrier, line) for line in lines)
        before, now = self.fields['before'], self.fields['now']
        is_update = mine == theirs and self.line == other.line and (before, now) == ('written', 'read')
        if theirs > mine or is_update and update_of(line_of(self.line), self.fields['array']):
            self.other = Access(self.line, self.block, self.thread, line_of(self.line), calls=self.calls)
            self.line = other.line
            self.block = other.block
            self.thread = other.thread
            self.calls = other.calls
            self.called = self._call_in_kernel()
            self.fields.update(before=now, now=before)

    def _lines_to_compare(self, barrier, line_of):
        "Return the lines of both accesses, or of the calls that led there, in a common function; None if there is none"
        mine, theirs = ([call.line for call in a.calls] for a in (self, self.other))
        own = self.line, self.other.line
        functions = {call[0].function for call in (self.calls, self.other.calls) if call}
        if mine and theirs and len(functions) == 1 and _head_of(line_of, self.line) == _head_of(line_of, barrier):
            return own
        if not self._is_complete():
            return own if self.called in (None, self.line) else None
        return next(((i, k) for i, k in zip(mine[::-1], theirs[::-1]) if i != k), (mine[-1], theirs[-1]))

    def _is_complete(self):
        "Return whether the calls from the kernel to both accesses are known"
        return all(a.calls and a.calls[-1].function == self.kernel for a in (self, self.other))

    def _call_in_kernel(self):
        return self.calls[-1].line if self._is_complete() and len(self.calls) > 1 else None

    def name_calls(self, convert):
        "Replace each `Call` by `convert(call)`"
        self.calls = tuple(map(convert, self.calls))
        if self.other:
            self.other = self.other._replace(calls=tuple(map(convert, self.other.calls)))

    def is_in_other_file(self):
        "Return whether the other access is in another file"
        return bool(self.other and self.file and self.other_file and self.other_file != self.file)


def _head_of(line_of, n):
    "Return the first line of the function that contains line `n`; 0 if there is none"
    return next((i for i in range(n, 0, -1) if re.search(r'__(global|device)__|^\s*def ', line_of(i))), 0)


def file_among(file, files):
    "Return the one of `files` that matches `file`, by path or by name; else the first"
    same = [path for path in files if path == file or file.endswith(f'/{path}')]
    return (same or [path for path in files if Path(path).name == Path(file).name] or [*files, None])[0]
