"""Reads the findings of the emulator's runtime with ctypes structures that mirror `include/cuda/finding.h`.

The runtime reports a kind, a code and fields; `messages.MESSAGES` has the templates. C++ and Python each define the
layout of the structures, and `check_abi` compares the two definitions before anything is read: their sizes, and a
checksum of the headers, which also contain enumerations such as `KINDS` and the functions that Python calls.
"""

import ctypes
import re
from pathlib import Path

from .frontend.edits import NotEmulated
from .toolchain.runtime_library import abi_checksum
from ..diagnostics.accessed_arrays import accessed_arrays
from ..diagnostics.race_hints import update_of
from ..diagnostics.source_lines import find_uses
from ..diagnostics.errors import Access, Call, KernelCrash, Location, exception_of
from ..diagnostics.formatting import Phrase, text_of

ABI_CHECKSUM = abi_checksum()  # of the headers that this module was written for
KINDS = ('nothing', 'memcheck', 'racecheck', 'initcheck', 'synccheck', 'fencecheck', 'launch', 'assert')
KINDS += ('crash', 'timeout', 'interrupted', 'warning', 'phrase')  # in the order of the C++ enumeration
_FAR_APART_ELEMENTS = 2**26  # arrays of a small program are rarely at such a distance
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
        ('device', ctypes.c_int),
        ('file', ctypes.c_char * 256),
        ('num_calls', ctypes.c_int),
        ('calls', CCall * 8),
    ]


class CField(ctypes.Structure):
    "A field of a finding; the `count` fields of a phrase follow it"

    _fields_ = [
        ('name', ctypes.c_char * 16),
        ('type', ctypes.c_int),
        ('count', ctypes.c_int),
        ('values', ctypes.c_longlong * 8),
        ('string', ctypes.c_char * 384),
    ]


class CFinding(ctypes.Structure):
    "A finding that stopped a kernel, or a warning"

    _fields_ = [
        *((field, ctypes.c_int) for field in ('kind', 'has_thread', 'has_other', 'column', 'call_line', 'num_fields')),
        ('code', ctypes.c_char * 32),
        ('kernel', ctypes.c_char * 128),
        ('location', CLocation),
        ('other', CLocation),
        ('fields', CField * 24),
    ]


class COptions(ctypes.Structure):
    "The options of the runtime"

    _fields_ = [(field, ctypes.c_int) for field in ('checks', 'order', 'seed', 'threads')]
    _fields_ += [('seconds', ctypes.c_double), ('memory', ctypes.c_longlong), ('devices', ctypes.c_int)]


class _Abi(ctypes.Structure):
    "The version of the shared structures, and their sizes in the runtime"

    _fields_ = [(field, ctypes.c_int) for field in ('version', 'options', 'location', 'field', 'finding')]


class AbiMismatch(RuntimeError):
    "The compiled runtime and this package have different versions of their shared structures"


def check_abi(lib):
    "Raise `AbiMismatch` unless the library has the version of this module and structures of the same sizes"
    lib.gridstride_abi.restype = ctypes.POINTER(_Abi)
    compiled = {name: getattr(lib.gridstride_abi().contents, name) for name, _ in _Abi._fields_}
    expected = dict(zip(compiled, (ABI_CHECKSUM, *map(ctypes.sizeof, (COptions, CLocation, CField, CFinding)))))
    mismatches = [
        f'{name}: {compiled[name]} in the runtime, {expected[name]} in Python'
        for name in expected
        if compiled[name] != expected[name]
    ]
    if mismatches:
        raise AbiMismatch(
            f"the emulator's runtime {lib._name} is from another version of this package ({', '.join(mismatches)}): "
            'restart Python; if that does not help, delete the folder that contains this file'
        )


def _value_of(c_field, remaining_fields):
    "Return the value of the field `c_field`; a phrase takes its fields from the iterator `remaining_fields`"
    if c_field.type == _PHRASE:
        return Phrase(c_field.string.decode(), fields_of([next(remaining_fields) for _ in range(c_field.count)]))
    if c_field.type == _TEXT:
        return c_field.string.decode(errors='replace')
    values = tuple(c_field.values[: c_field.count])
    return values if c_field.type == _LIST else values[0]


_ARRAY_TYPE = re.compile(r"'(?:.*' \(aka ')?([^']*?) ?(\[[^']*\])'\)?")


def name_type(text):
    "Return GCC's name of an array type: Clang calls `'int [12]'` `'int[12]'`, and adds it to the name of an alias"
    return f"'{m[1]} {m[2]}'" if (m := _ARRAY_TYPE.fullmatch(text)) else text


def fields_of(fields) -> dict:  # name -> value
    "Return the fields of a finding or phrase as {name: value}"
    remaining_fields = iter(fields)
    values = {c_field.name.decode(): _value_of(c_field, remaining_fields) for c_field in remaining_fields}
    return {name: name_type(value) if name == 'type' else value for name, value in values.items()}


def _calls_of(location):
    "Return the call stack of a `CLocation`, innermost first; addr2line names an inlined lambda after its function"
    c_calls = location.calls[: location.num_calls]
    calls = [Call(call.function.decode(), call.file.decode(), call.line) for call in c_calls]
    is_inlined_lambda = [call.function == calls[-1].function for call in calls[:-1]] + [False]
    return tuple(
        call._replace(function='lambda') if inlined else call for call, inlined in zip(calls, is_inlined_lambda)
    )


class NotEmulatedCall(KernelCrash, NotEmulated):
    "Host code called a function that the emulator does not support"


class RuntimeFinding:
    "A finding of the runtime: `kind`, `code` and `fields` as in `errors`, location, thread and the other access"

    def __init__(self, c_finding):  # a `CFinding`
        location, other_location = c_finding.location, c_finding.other
        self.kind = KINDS[c_finding.kind]
        self.code = c_finding.code.decode()
        self.fields = fields_of(c_finding.fields[: c_finding.num_fields])
        self.kernel = c_finding.kernel.decode() or None
        self.file = _decode_path(location.file)
        self.line = location.line or None
        self.block = tuple(location.block) if c_finding.has_thread else None
        self.thread = tuple(location.thread) if c_finding.has_thread == 1 else None
        self.device = location.device if c_finding.has_thread and location.device >= 0 else None
        self.column = c_finding.column
        self.call_line = c_finding.call_line or None
        self.calls = _calls_of(location)
        self.other_file = _decode_path(other_location.file)
        self.other = None
        if c_finding.has_other:
            self.other = Access(
                other_location.line,
                tuple(other_location.block),
                tuple(other_location.thread),
                calls=_calls_of(other_location),
                device=other_location.device if other_location.device >= 0 else None,
            )

    def exception(
        self,
        dialect,  # of the message: 'cuda' or 'python'
        **location_fields,  # fields of `Location` that replace those of the runtime
    ) -> Exception:
        "Return the exception for the finding; `KeyboardInterrupt` if the user stopped the kernel"
        if self.kind == 'interrupted':
            return KeyboardInterrupt(self._interrupt_message(**location_fields))
        thread = dict(block=self.block, thread=self.thread, calls=self.calls, device=self.device)
        location = Location(self.kernel, self.file or None, self.line, **thread)._replace(**location_fields)
        if self.code == 'not_emulated':
            summary, hint = text_of(self.kind, self.code, dialect, self.fields)
            line_fields = dict(file=location.file, line=location.line, source=location.source)
            return NotEmulatedCall(summary, hint, code=self.code, fields=self.fields, dialect=dialect, **line_fields)
        return exception_of(self.kind, self.code, dialect, self.fields, location, self.other)

    def _interrupt_message(self, file=None, source=None, **_):
        "Return the message of the `KeyboardInterrupt`: the kernel or code that was interrupted, and its line"
        subject = f'the kernel {self.kernel}' if self.kernel else 'the host code' if self.code else 'the call'
        location = f'\n  {file}, line {self.line}: {source}' if self.line and source else ''
        return f'{subject} was interrupted{location}'

    def name_array(self, calls):
        """Set the intended array of an access that is in no array, or several arrays that are equally likely.

        `calls`: an `accessed_arrays.ExecutedLine` per function, from the access to the kernel."""
        rows = [row.split() for row in self.fields.pop('arrays', '').split(', ') if row]
        array_of_name = {name: (name, int(index), int(size)) for name, index, size in rows}
        if not array_of_name or not calls[0].line:
            return
        names, are_origins_known = accessed_arrays(self.fields['access'], calls, array_of_name)
        candidates = [array_of_name[name] for name in names]
        is_by_chance = are_origins_known and self._may_be_coincidence(candidates)
        if is_by_chance or self._is_in_no_array(calls[0].line):
            self._set_candidates(candidates)

    def _set_candidates(self, candidates):
        "Store the array, or several candidates, each as (name, index, size)"
        access = self.fields['access']
        if len(candidates) == 1:
            name, index, size = candidates[0]
            self.code = 'overflowed' if index < 0 else 'outside'
            self.fields = dict(access=access, array=name, index=(index,), shape=(size,))
        elif candidates:
            self.code, self.fields = 'overflowed_among', dict(access=access, candidates=tuple(candidates))

    def _is_in_no_array(self, line):
        "Return whether the address is not in any array, or in one that this line does not access"
        is_elsewhere = self.code == 'overflowed' and not find_uses(line, self.fields.get('array', ''))
        return self.code == 'no_array' or is_elsewhere

    def _may_be_coincidence(self, candidates):
        "Return whether the address of an overflowed index may be near another array by chance"
        return self.code in ('outside', 'before', 'freed') and all(
            abs(index) >= _FAR_APART_ELEMENTS for _, index, _ in candidates
        )

    def order_race(self, line_of):
        """Swap the two accesses of a data race if the other one is later in the program: messages begin with the later
        one.

        The emulator runs one thread up to a barrier, then the next, so the order in which it finds the accesses is
        arbitrary. Lines after the last barrier count as earlier than lines before it, because the latter belong to the
        next iteration of a loop, or to the next call of a function. `line_of(n)` returns source line n."""
        barrier, other_access = self.kind == 'racecheck' and self.fields.pop('barrier', 0), self.other
        if not other_access or _is_other_file(self.file, self.other_file):
            return
        self.other = other_access = other_access._replace(source=line_of(other_access.line))
        lines = self._lines_to_compare(barrier, line_of) if self.code == 'race' else None
        if not lines or None in lines:  # without addr2line, lines are unknown
            return
        position, other_position = ((line <= barrier, line) for line in lines)
        earlier_kind, later_kind = self.fields['before'], self.fields['now']
        is_update = (
            position == other_position
            and self.line == other_access.line
            and (earlier_kind, later_kind) == ('written', 'read')
        )
        if other_position > position or is_update and update_of(line_of(self.line), self.fields['array']):
            self.other = Access(
                self.line, self.block, self.thread, line_of(self.line), calls=self.calls, device=self.device
            )
            self.line = other_access.line
            self.block = other_access.block
            self.thread = other_access.thread
            self.device = other_access.device
            self.calls = other_access.calls
            self.call_line = self._call_in_kernel()
            self.fields.update(before=later_kind, now=earlier_kind)

    def _lines_to_compare(self, barrier, line_of):
        "Return the lines of both accesses, or of the calls that led there, in a common function; None if there is none"
        lines, other_lines = ([call.line for call in a.calls] for a in (self, self.other))
        access_lines = self.line, self.other.line
        functions = {call[0].function for call in (self.calls, self.other.calls) if call}
        if (
            lines
            and other_lines
            and len(functions) == 1
            and _first_line_of_function(line_of, self.line) == _first_line_of_function(line_of, barrier)
        ):
            return access_lines
        if not self._is_complete():
            return access_lines if self.call_line in (None, self.line) else None
        return next(((i, k) for i, k in zip(lines[::-1], other_lines[::-1]) if i != k), (lines[-1], other_lines[-1]))

    def _is_complete(self):
        "Return whether the calls from the kernel to both accesses are known"
        return all(a.calls and a.calls[-1].function == self.kernel for a in (self, self.other))

    def _call_in_kernel(self):
        return self.calls[-1].line if self._is_complete() and len(self.calls) > 1 else None

    def name_calls(self, convert):
        "Replace each `Call` with `convert(call)`"
        self.calls = tuple(map(convert, self.calls))
        if self.other:
            self.other = self.other._replace(calls=tuple(map(convert, self.other.calls)))

    def is_in_other_file(self):
        "Return whether the other access is in another file"
        return bool(self.other and _is_other_file(self.file, self.other_file))


def _first_line_of_function(line_of, n):
    "Return the first line of the function that contains line `n`; 0 if there is none"
    return next((i for i in range(n, 0, -1) if re.search(r'__(global|device)__|^\s*def ', line_of(i))), 0)


def _decode_path(path):
    "Decode a path that the runtime reports; a hash may be any byte"
    return path.decode('latin-1' if path.startswith(_HASH_MARK.encode()) else 'utf-8')


# For inline PTX, the runtime reports this character and a hash of the file name instead of a path.
_HASH_MARK = '\x01'


def _name_hash(path):
    "Return the hash of a file's name, as `name_hash` of `runtime.h` computes it"
    hash = 0
    for byte in Path(path).name.encode():
        hash = (hash * 31 + byte) % 127
    return hash + 1


def _is_other_file(file, other):
    "Return whether two files of the runtime differ; either is '' if it is unknown, or known by its hash"
    if not file or not other:
        return False
    if _HASH_MARK in (file[0], other[0]):
        file, other = (ord(f[1]) if f[0] == _HASH_MARK else _name_hash(f) for f in (file, other))
    return file != other


def resolve_hash(file, files):
    "Return the first path in `files` with the hash of `file`, or '' if there is none; `file` itself if it is a path"
    if not file.startswith(_HASH_MARK):
        return file
    return next((path for path in files if _name_hash(path) == ord(file[1])), '')


def matching_file(file, files):
    "Return the path in `files` that matches `file`, by path or by name; else the first one"
    exact_matches = [path for path in files if path == file or file.endswith(f'/{path}')]
    return (exact_matches or [path for path in files if Path(path).name == Path(file).name] or [*files, None])[0]
