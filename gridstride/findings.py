"""What a kernel can do wrong: exceptions that say what, where, by whom, and how such a thing is usually mended.

The kinds carry the names of compute-sanitizer's tools, so that a finding here and one on a GPU are called
the same.

| kind | what was found |
|---|---|
| `memcheck` | an index outside of an array |
| `racecheck` | two threads, one place, at least one write, and nothing between them |
| `initcheck` | a read of memory that nobody wrote |
| `synccheck` | a barrier that not all threads reach, a wrong warp mask, a loop that never ends |
| `launch` | a launch that no GPU would accept |
| `assert`, `raise` | an assertion that does not hold, an exception that a kernel raises |
| `crash`, `timeout` | a kernel that crashed, one that did not end |

Whoever finds something hands over a *kind*, a *code* and *fields*, and no text. `WORDS` has the wording of
every code, and `exception_of` is the one place where a finding becomes an exception:

    exception_of('racecheck', 'race', 'python', dict(array='s', index=(3,), before='written', now='read'),
                 Place(kernel='reverse', line=12, ...), other=Access(11, (0, 0, 0), (3, 0, 0)))

There are three *dialects*, because what mends a kernel reads differently in them: `'python'` for kernels in
Numba's dialect, whoever runs them (the simulator, or the emulator with `engine='c'`), `'cuda'` for CUDA C, and
`'triton'`, which takes the words of `'python'` where it has none of its own.
A template names its fields as `str.format` does. Some of them mean the same in every row:

- `array`, a name, and `index`, a tuple of whole numbers, become attributes of the exception; `element` is
  made of the two as the dialect writes it, `s[3, 4]` or `s[3][4]`. Where there is no array, `space` says what
  there is instead: 'shared memory'.
- `threads` is how many; `waiting` is made of it, '1 thread waits'.
- `thread` is a position (x, y, z) and is shown without the dimensions that are not used.

A code for the C++ side of the emulator is one word that is a C identifier. To add one: a row in `WORDS`, the
same kind and code in the C++ list of codes (`cpp/include/cuda/finding.h`), and the call that finds it, which
gives a value to each field that the row names (`field_names` lists them). A field is a whole number, a text, a
tuple of whole numbers, or a `Phrase`: a part of the sentence that has a row of its own, in `PHRASES`, and fields
of its own. Addresses and masks are numbers there; how they look is the row's affair (`{mask:#x}`).
A test holds the C++ side against the rows: its list, and the fields that each call gives.

How a thing is mended depends on the learner's line, too: `advice.fitting` may choose a row of `MENDS` instead of
the second text of `WORDS`. The last line says how to run once without the check that found it, unless the
finding is one of `ALWAYS`, which are told whatever is checked. Some findings are warnings: `WARNINGS`.

What an executor cannot do is no finding: `NotSimulated` carries its own text, made where it is raised.
"""

import functools
import os
import re
import sys
import warnings
from collections import namedtuple
from string import Formatter
from typing import NamedTuple

from .advice import fitting
from .shown import ShownBriefly, is_machinery

__all__ = [
    'Access',
    'Call',
    'Phrase',
    'Place',
    'KernelError',
    'MemcheckError',
    'RacecheckError',
    'InitcheckError',
    'SynccheckError',
    'LaunchError',
    'DeviceAssert',
    'DeviceRaise',
    'DivisionByZero',
    'KernelCrash',
    'KernelTimeout',
    'NotCompiled',
    'NotSimulated',
    'SameValueRace',
    'EarlyReturn',
    'UnassignedVariable',
    'OutOfMemory',
    'OpenResult',
    'MissingBarrier',
    'TunedInPlace',
    'UndefinedLanes',
    'WrongArgument',
    'ALWAYS',
    'DIALECTS',
    'MENDS',
    'PHRASES',
    'WARNINGS',
    'WORDS',
    'element',
    'exception_of',
    'field_names',
    'of_class',
    'outside_level',
    'warn_outside',
    'position',
    'switch_off',
    'text_of',
    'warn_of',
]

_PACKAGE = os.path.dirname(__file__) + os.sep

# the other side of a race, the text of its line, and its file and the calls that led there if they are known
Access = namedtuple('Access', 'line block thread source file calls', defaults=('', '', ()))
Call = namedtuple('Call', 'function file line source', defaults=('',))  # a frame of a call stack: innermost first
Phrase = namedtuple('Phrase', 'code fields', defaults=({},))  # a part of a sentence, with a row of its own


class KernelError(ShownBriefly, Exception):
    "What a kernel did wrong; the attributes that do not apply are None"

    kind = None

    def __init__(
        self,
        what,  # one line: what happened
        mend='',  # how it is usually mended
        off='',  # how to run without the check that found it
        kernel=None,  # its name
        file=None,
        line=None,
        source='',  # where, and the text of that line
        block=None,
        thread=None,  # who, as (x, y, z)
        array=None,
        index=None,  # on what
        other=None,  # an `Access`
        called=None,  # (line, its text, perhaps its file): the kernel's own line that led to `line`
        calls=(),  # the call stack, each a `Call`, the innermost first; empty where it is not known
        advice=None,  # (name of a row of `MENDS`, its fields): what mends it, if that is not the finding's own
        code=None,  # which of the findings of this kind, as `WORDS` has it
        fields=None,  # what it is told with: name -> value
        dialect='python',  # one of `DIALECTS`: what blocks and threads are called
        apart=False,  # name the file of each line, as one of several?
    ):
        self.kernel, self.file, self.line, self.block, self.thread = kernel, file, line, block, thread
        self.array, self.index, self.other, self.called = array, index, other, called[0] if called else None
        self.code, self.fields, self.what, self.mend = code, fields or {}, what, mend
        self.calls, (self.advice, self.advice_fields) = tuple(calls), advice or (None, {})
        there = _call_in(kernel, other)
        at = _places(file, apart, other.file if other else '', *(called or ())[2:], there.file if there else '')
        lines = (
            f'{self.kind}: {what}',
            f'  {at(line)}: {source}' if line else '',
            f'  called on {at(called[0], *called[2:])}: {called[1]}' if called else '',
            kernel and f'  in {kernel}' + ('' if block is None else f', {_who(block, thread, dialect)}'),
            other
            and f'  against {at(other.line, other.file)}, {_who(other.block, other.thread, dialect)}'
            + _quoted(other.source),
            there and f'  called on {at(there.line, there.file)}{_quoted(there.source)}',
            mend and f'  {mend}',
            off and f'  {off}',
        )
        super().__init__('\n'.join(filter(None, lines)))


def _call_in(kernel, access):
    "The `Call` in the kernel that led to an access in another function; None if it is in the kernel, or not known"
    calls = access.calls if access else ()
    return calls[-1] if len(calls) > 1 and calls[-1].function == kernel else None


def position(p):  # (x, y, z)
    "A position as the reader wants it: without the dimensions that are not used"
    x, y, z = (int(o) for o in p)
    return f'({x},{y},{z})' if z else f'({x},{y})' if y else f'({x})'


def _places(file, apart, *others):
    "A function that names a line, and its file too if that is `apart`, or where not all are lines of `file`"
    apart = apart or any(o and o != file for o in others)
    return lambda line, of='': f'line {line}' + _of(of or file) * apart


def _of(file):
    "The name of a file behind a line; a notebook's cells have none that a reader knows"
    return '' if not file or 'ipykernel_' in file or file[0] == '<' else f' of {os.path.basename(file)}'


def _quoted(source):
    return f': {source}' if source else ''


def _who(block, thread, dialect='python'):
    if dialect != 'triton':
        return f'block {position(block)}, thread {position(thread)}'
    lane = f', lane {element("", thread, dialect)}' if thread else ''
    return f'program {position(block)}{lane}'


class MemcheckError(KernelError, IndexError):
    "An access outside of the array that is meant, or of memory that is not the kernel's"

    kind = 'memcheck'


class RacecheckError(KernelError):
    "Two threads use one place, at least one of them writes, and nothing orders them; `other` is the earlier access"

    kind = 'racecheck'


class InitcheckError(KernelError):
    "Memory is read that nobody has written"

    kind = 'initcheck'


class SynccheckError(KernelError):
    "Threads that must meet do not: at a barrier, at a warp's operation, or in a loop that waits"

    kind = 'synccheck'


class LaunchError(KernelError, ValueError, RuntimeError):
    "A launch that no GPU would accept: its sizes, its shared memory, the number of its arguments"

    kind = 'launch'


class DeviceAssert(KernelError, AssertionError):
    "An `assert` in a kernel does not hold"

    kind = 'assert'


class DeviceRaise(KernelError):
    "A kernel has raised an exception; this is one of that class, too"

    kind = 'raise'


class KernelCrash(KernelError, RuntimeError):
    "A compiled kernel crashed: a division by zero, a full stack, a trap"

    kind = 'crash'


class DivisionByZero(KernelCrash, ZeroDivisionError):
    "A kernel has divided an integer by zero"


class KernelTimeout(KernelError, TimeoutError):
    "A kernel did not end in time"

    kind = 'timeout'


class NotSimulated(KernelError, NotImplementedError):
    "Something that a GPU can do and the simulator cannot"

    kind = 'not simulated'


class NotCompiled(KernelError, TypeError):
    "Something that the compiler of Triton or Numba refuses, and that Python alone might take"

    kind = 'not compiled'


class WrongArgument(ShownBriefly, TypeError):
    "An argument of a launch that the kernel does not take"


class SameValueRace(RuntimeWarning):
    "Several threads write the same value to one place: harmless today, a race all the same"


class MissingBarrier(RuntimeWarning):
    "A program's threads use one element with no barrier in between, or one releases what the others did"


class UndefinedLanes(RuntimeWarning):
    "A result depends on lanes without a value: of a masked load, absent ones of a shuffle, CUB's in other threads"


class EarlyReturn(RuntimeWarning):
    "Threads have returned before a barrier at which others wait: fine on a GPU since Volta, and no more than that"


class UnassignedVariable(RuntimeWarning):
    "Threads read a variable that only others have assigned: 0 in Numba, an error in Python"


class OutOfMemory(RuntimeWarning):
    "An allocation has failed: the emulated device has no more memory than the machine has to give"


class TunedInPlace(RuntimeWarning):
    "Autotuning runs a kernel many times on the arguments of a launch, and a second run changes the result"


class OpenResult(RuntimeWarning):
    "Arithmetic of which C++ leaves the result open: a GPU may give another than the emulator"


CLASSES = {
    c.kind: c
    for c in (
        MemcheckError,
        RacecheckError,
        InitcheckError,
        SynccheckError,
        LaunchError,
        DeviceAssert,
        DeviceRaise,
        KernelCrash,
        KernelTimeout,
    )
}


_CLASSES_OF = {('crash', 'division'): DivisionByZero}  # codes that have a class of their own


class Place(NamedTuple):
    "Where something was found and by whom; what is not known is None"

    kernel: str = None  # its name
    file: str = None
    line: int = None
    source: str = ''  # the text of that line
    block: tuple = None  # (x, y, z)
    thread: tuple = None  # (x, y, z)
    called: tuple = None  # (line, its text, perhaps its file): the kernel's own line that led to `line`
    above: str = ''  # the lines of the function before it
    onward: str = ''  # that line as its file has it, and the lines of the function after it
    calls: tuple = ()  # the calls that led to it, each a `Call`, the innermost first
    apart: bool = False  # is the file one of several, so that lines are named with their files?


# The words. A text that is the same in both dialects stands once.
DIALECTS = ('python', 'cuda', 'triton')
Words = namedtuple('Words', 'what mend', defaults=('',))  # each a template, or one for each dialect
_OPTIONS = dict(python='sim.options', cuda='cpp.options', triton='tile.options')

_AT_GRID = 'All blocks meet there: who has nothing to do waits with the others. Guard the work, not the barrier.'
_EVERYBODY = 'All threads of a block must reach it: guard the data, not the barrier.'
_NOTHING = 'A thread past the end must do nothing: guard it, as in '
_GUARD = dict(
    python=_NOTHING + '`if i < n`, where n is the number of items.',
    cuda=_NOTHING + '`if (i < n)`, where n is the number of items.',
)
_OUTSIDE = '{element} is outside: {array} has shape {shape}'
_FAULT = 'an address in no array: the nearest is {array} of shape {shape}, where it would be {element}'
_DYNAMIC = dict(
    python='The launch gives the size of dynamic shared memory, in bytes: kernel[grid, block, stream, bytes].',
    cuda='The launch gives the size of dynamic shared memory, in bytes: <<<grid, block, bytes>>>, '
    'or from Python [grid, block, stream, bytes].',
)
_SMALLER = 'Use a smaller tile, or types of fewer bytes.'
_WILD = 'Either the pointer was never set, or the index is far outside: look at how it is computed.'
_LOOK = dict(
    python="sim.options(checks='all') shows the first access that is outside.",
    cuda='Compile with checks=True to see the first access that is outside.',
)
_NEVER_ALLOCATED = 'An array without elements, one that was never allocated, or a failed cudaMalloc.'
_TO_THE_GPU = 'Copy it to the GPU first: cudaMalloc and cudaMemcpy, or a tensor on the GPU.'
_TO_THE_HOST = 'Copy it with cudaMemcpy; only kernels can use a device pointer.'
_MULTIPLES = 'Rows, paddings and offsets must all be multiples of it, in bytes.'
_ENDS_LATE = 'A block stays until the others need it no more: barrier.cluster.arrive and .wait at the end.'
_UNDEFINED = (
    'line {{line}} of {{kernel}}: {} comes from lanes that the mask of line {{masked}} left without a value. '
    'GPUs put 0 there, Triton promises nothing: give the load `other=`,{} or choose with tl.where'
)
_UNWRITTEN = '{element} is read, and nobody has written it'
_RACE = '{element} is {before} by one thread and {now} by another, with nothing between'
_COPY_UNDER_WAY = '{element} is {now} while {whose} asynchronous copy to it may be under way'
_UNREAD = (
    'Wait for it (wgmma.wait_group, cp.async.bulk.wait_group.read), then tell whoever writes: '
    'an mbarrier, or a barrier of the block.'
)
_TOO_LARGE = 'the quotient of a division of integers overflows: the smallest integer of its type is divided by -1'
_UNDEFINED_QUOTIENT = 'This is undefined behaviour: test for a divisor of -1 first, or divide in a wider type.'
_AT_MBARRIER = 'at the mbarrier {mbarrier}, whose phase {phase}'
_PAIRS = 'barrier.cluster.arrive and barrier.cluster.wait come in pairs.'
_ILLEGAL = 'A GPU stops with an illegal instruction.'
_BOX_BEFORE = '{}: the box begins at {{at}} along axis {{axis}}, and a store may not begin before the array'

WORDS = {
    # An index outside of an array: past its end, before its beginning, or of a kind that none takes
    ('memcheck', 'outside'): Words(_OUTSIDE, _GUARD),
    ('memcheck', 'before'): Words(
        _OUTSIDE,
        dict(
            python='Numba counts a negative index from the end, CUDA C reads the memory before the array: '
            'write the index that is meant.',
            cuda='A negative index is the memory before the array.',
        ),
    ),
    ('memcheck', 'wrapped'): Words(
        _OUTSIDE,
        'threadIdx, blockIdx and what is computed from them are unsigned: below 0 they begin again at 2**32 - 1. '
        'Guard it, or compute the index with int.',
    ),
    ('memcheck', 'overflowed'): Words(
        _OUTSIDE,
        'So far below 0 an index mostly comes from an overflow: after 2147483647 an int goes on at -2147483648. '
        'Compute it with 64 bits: `(size_t)row*w + column`.',
    ),
    ('memcheck', 'indices'): Words(
        'dimensions of {array}: {dimensions}; indices given: {given}', 'An element takes one index for each dimension.'
    ),
    ('memcheck', 'index_type'): Words(
        'an index of {array} is {type}; it must be a whole number', 'Divide with //, or use int(...).'
    ),
    ('memcheck', 'outside_type'): Words(
        'index {index[0]} is outside of {type}', _GUARD['cuda']
    ),  # of an array without a name
    ('memcheck', 'outside_named'): Words('{array}: index {index[0]} is outside of {type}', _GUARD),
    # Programs of Triton: blocks of lanes, and pointers
    ('memcheck', 'outside_program'): Words(
        _OUTSIDE + '{more}',
        'The block has more lanes than there are elements left: give the access a mask, as in `mask=offsets < n`.',
    ),
    ('memcheck', 'outside_single'): Words(
        _OUTSIDE + '{more}',
        'A single element, and its offset is too large: a wrong row, column or stride; or give the access a mask.',
    ),
    ('memcheck', 'outside_masked'): Words(
        _OUTSIDE + '{more}',
        'Its mask lets this lane in. Either it does not compare every axis with its own size, as in '
        '`(rows[:, None] < h) & (columns[None, :] < w)`, or the address is another one: a wrong stride, offset or '
        'entry of a table.',
    ),
    ('memcheck', 'outside_expanded'): Words(
        'an access past the memory of {array}: its shape is {shape}, but it is expanded (stride 0); elements in '
        'memory: {count}{more}',
        'Along an axis of stride 0 all elements are one. Multiply the index by {array}.stride(...), or pass '
        '{array}.contiguous().',
    ),
    ('memcheck', 'outside_before'): Words(
        _OUTSIDE + '{more}', 'It is the memory before the array: mask it from below, too, as in `mask=offsets >= 0`.'
    ),
    ('memcheck', 'null_pointer'): Words(
        'a pointer holds {address:#x}, where no array is', 'It was never set, or an argument that is None is used.'
    ),
    ('memcheck', 'foreign_pointer'): Words(
        'a pointer holds {address:#x}, which lies in no array that the launch was given, and in no tensor of torch',
        'Look at how it is computed; an address from memory must be that of a tensor that still lives.',
    ),
    ('memcheck', 'misaligned_pointer'): Words(
        'a pointer into {array} is no multiple of {size} bytes', 'Elements begin at multiples of their size.'
    ),
    # Shared memory: outside of an array of it, of all of them, and where the launch asked for none
    ('memcheck', 'outside_shared'): Words(_OUTSIDE),
    ('memcheck', 'outside_dynamic'): Words(_OUTSIDE, _DYNAMIC),
    ('memcheck', 'outside_arrays'): Words(
        'shared memory is used far from any of its arrays', 'Look at how the pointer or the index is computed.'
    ),
    ('memcheck', 'no_dynamic'): Words('shared memory is used that the launch did not ask for', _DYNAMIC),
    ('memcheck', 'no_shared_address'): Words(
        '{operation}: {address:#x} is no address in shared memory',
        'PTX addresses shared memory by 32 bits: __cvta_generic_to_shared(pointer).',
    ),
    ('memcheck', 'copy_target'): Words(
        '{operation} copies to shared memory, and {address:#x} is no address there',
        'From shared memory, or to registers, an ordinary assignment copies.',
    ),
    # Memory that is not the kernel's
    ('memcheck', 'no_array'): Words('address {address:#x} is in no array', _WILD),
    ('memcheck', 'freed'): Words('{array} is used after it was freed', 'Free it behind its last use.'),
    ('memcheck', 'not_allocated'): Words(
        'free({address:#x}): malloc has not given this address, or it was freed before'
    ),
    ('memcheck', 'null_read'): Words('a null pointer is read', _NEVER_ALLOCATED),
    ('memcheck', 'null_written'): Words('a null pointer is written', _NEVER_ALLOCATED),
    ('memcheck', 'failed_alloc'): Words(
        'memory is {now} that line {allocated} asked for and did not get: the allocation of {bytes} bytes had failed '
        'with cudaErrorMemoryAllocation (out of memory), and its error was not checked',
        'Compare what the allocation returns with cudaSuccess before a kernel uses the pointer; ask for less memory.',
    ),
    ('memcheck', 'constant'): Words(
        dict(
            python='{element} is written, and an array outside of a kernel is a constant to it',
            cuda='{element} is written, and it is __constant__',
        ),
        dict(python='Pass it as an argument.', cuda='The host fills it with cudaMemcpyToSymbol.'),
    ),
    ('memcheck', 'kernel_reads_host'): Words("a kernel reads the host's memory", _TO_THE_GPU),
    ('memcheck', 'kernel_writes_host'): Words("a kernel writes the host's memory", _TO_THE_GPU),
    ('memcheck', 'local_of_other'): Words(
        "another thread's local variable is {now}",
        'A pointer to a local variable means something to its own thread alone: exchange values in shared memory.',
    ),
    ('memcheck', 'host_reads'): Words('the host reads {array} on the GPU', _TO_THE_HOST),
    ('memcheck', 'host_writes'): Words('the host writes {array} on the GPU', _TO_THE_HOST),
    ('memcheck', 'host_reads_symbol'): Words(
        'host code reads {array}, which is a variable on the GPU',
        'Copy it: cudaMemcpyFromSymbol(&value, {array}, sizeof value).',
    ),
    ('memcheck', 'host_writes_symbol'): Words(
        'host code writes {array}, which is a variable on the GPU',
        'Copy to it: cudaMemcpyToSymbol({array}, &value, sizeof value).',
    ),
    ('memcheck', 'host_symbol'): Words(
        'a kernel uses an address that host code has taken of {array}: that is not its address on the GPU',
        'Host code gets the address by cudaGetSymbolAddress((void **)&pointer, {array}), '
        'and a kernel uses {array} by its name.',
    ),
    ('memcheck', 'host_function'): Words(
        'a kernel calls {function} by an address that host code has taken: that is not its address on the GPU',
        'Copy the address from the GPU: `__device__ T pointer = {function};`, and in host code '
        'cudaMemcpyFromSymbol(&f, pointer, sizeof f). Or make the function an argument of a template.',
    ),
    ('memcheck', 'host_virtual'): Words(
        "a kernel calls a virtual function of an object that host code has made: its table of functions is the host's",
        'Construct the object on the GPU: in a kernel, by `new` or by placement new.',
    ),
    ('memcheck', 'host_memory_given'): Words(
        "thrust::{algorithm} has the policy thrust::device and is given an address of the host's memory",
        'Give it memory of the GPU: a thrust::device_vector, or a pointer from cudaMalloc. To copy between host and '
        'GPU, leave the policy out: thrust::copy(first, last, result).',
    ),
    ('memcheck', 'device_memory_given'): Words(
        'thrust::{algorithm} has the policy thrust::host and is given an address on the GPU',
        'Write thrust::device instead, or copy to a thrust::host_vector first.',
    ),
    # The same, found by the operating system, because the detectors did not look on
    ('memcheck', 'fault_outside'): Words(_FAULT, _LOOK),
    ('memcheck', 'fault_no_array'): Words('address {address:#x} is in no array', _LOOK),
    ('memcheck', 'fault_freed'): Words('{array} is used after it was freed', _LOOK),
    ('memcheck', 'fault_null'): Words('a null pointer is read or written', _NEVER_ALLOCATED),
    ('memcheck', 'fault_address'): Words('address {address:#x} is not device memory', _WILD),
    # Addresses that must be multiples of something
    ('memcheck', 'misaligned'): Words(
        'an access of {bytes} bytes at {element} is misaligned: the address must be a multiple of {bytes}',
        'What is read or written as {bytes} bytes at once begins at a multiple of {bytes}: a float4, which has 16, at '
        'every fourth float, or at every eighth bfloat16.',
    ),
    ('memcheck', 'misplaced'): Words(
        '{operation}: the address of {element} is misaligned: it must be a multiple of {bytes}', _MULTIPLES
    ),
    # One place, two threads: of one block, of two blocks, and with the same value
    ('racecheck', 'programs'): Words(
        '{element} is {before} by one program and {now} by another, and nothing orders them',
        'Programs run in any order, and at once: give each its own elements, or use tl.atomic_add and its kin.',
    ),
    ('racecheck', 'programs_atomic'): Words(
        '{element} is {before} by one program and {now} by another: an atomic on one side only orders nothing',
        'Use atomics on both sides, or a second kernel that reads when the first has ended.',
    ),
    ('racecheck', 'read_back'): Words(
        'line {line} of {kernel}: {element} is read by another lane than the one that stored it in line {stored}. '
        'On a GPU these are threads: put tl.debug_barrier() between'
    ),
    ('racecheck', 'stored_again'): Words(
        'line {line} of {kernel}: {element} is written by another lane than the one that wrote it in line {stored}. '
        'On a GPU these are threads, and either value may stay: put tl.debug_barrier() between'
    ),
    ('racecheck', 'released'): Words(
        'line {line} of {kernel}: {element} is {now}, and another program {before} it in line {stored}, before its '
        'atomic in line {released}. That atomic is executed by one thread of the program and does not wait for the '
        'others: put tl.debug_barrier() before line {released}'
    ),
    ('racecheck', 'lanes_update'): Words(
        '{element} is read and written by several lanes of one program: one change of several is kept',
        'Each lane reads it before another one writes it. In one step: tl.atomic_add and its kin.',
    ),
    ('racecheck', 'lanes'): Words(
        '{element} is written by several lanes of one store, with different values',
        'Which one stays is not defined: let the offsets of the lanes differ, or mask all but one.',
    ),
    ('initcheck', 'undefined_stored'): Words(_UNDEFINED.format('what it stores', ' give the store that mask, too,')),
    ('initcheck', 'undefined_address'): Words(_UNDEFINED.format('an address', '')),
    ('initcheck', 'undefined_decision'): Words(_UNDEFINED.format('a decision or a mask', '')),
    ('initcheck', 'unwritten_program'): Words(
        _UNWRITTEN,
        'An array that holds nothing but NaN when the launch begins counts as unwritten: fill it, as torch.zeros does.',
    ),
    ('racecheck', 'race'): Words(
        _RACE,
        dict(
            python="Put a cuda.syncthreads() between these two lines: there a block's threads wait for each other.",
            cuda="Put a __syncthreads() between these two lines: there a block's threads wait for each other.",
        ),
    ),
    ('racecheck', 'race_of_blocks'): Words(
        _RACE,
        dict(
            python='No barrier orders blocks: let each write its own place, or use cuda.atomic. '
            'Before a flag or a ticket: a cuda.threadfence().',
            cuda='No barrier orders blocks: let each write its own place, or use atomicAdd. '
            'Before a flag or a ticket: a __threadfence().',
        ),
    ),
    ('racecheck', 'race_of_cluster'): Words(
        _RACE,
        'Put a cluster.sync() between these two lines (in PTX barrier.cluster.arrive and .wait): '
        'there the blocks of a cluster wait for each other.',
    ),
    ('racecheck', 'race_of_volatiles'): Words(
        '{element} is {before} by one thread and {now} by another, and volatile orders nothing between threads',
        'volatile keeps the compiler from remembering a value, and no more: `x += y` is still a read and a write. '
        'Use atomicAdd and its kin; for a flag, a __threadfence() before the write and one after the read.',
    ),
    ('racecheck', 'atomic_of_block'): Words(
        '{element} is {before} by a thread of one block and {now} by one of another, '
        'with an atomic that holds within one block only',
        'Across blocks: atomicAdd instead of atomicAdd_block, thread_scope_device instead of thread_scope_block.',
    ),
    # A flag was written and read between the two, and that is not enough
    ('racecheck', 'flag_not_acquired'): Words(
        '{element} is {before} by one thread and {now} by another, which has read the flag of the first one '
        'with no fence behind it',
        dict(
            python='cuda.threadfence() after the read of the flag, too, or a cuda.syncthreads() for the whole block.',
            cuda='A __threadfence() after the read of the flag, too, or memory_order_acquire; '
            '__threadfence_block() and thread_scope_block are for threads of one block.',
        ),
    ),
    ('racecheck', 'fence_of_block'): Words(
        '{element} is {before} by a thread of one block and {now} by one of another, '
        'and the fence between holds within one block only',
        dict(
            python='Across blocks: cuda.threadfence() instead of cuda.threadfence_block().',
            cuda='Across blocks: __threadfence() instead of __threadfence_block(), '
            'thread_scope_device instead of thread_scope_block.',
        ),
    ),
    # Two operations of a program: launches, copies, and what the host does itself; `first` and `second` are phrases
    ('racecheck', 'unordered_operations'): Words(
        '{second} {now} {element}, which {first} {before}: nothing orders the two operations',
        dict(
            python='Record an event after the first, event.record(stream), and let the other stream wait for it before '
            'the second, event.wait(stream); or call stream.synchronize() in between.',
            cuda='Record an event after the first (cudaEventRecord) and let the other stream wait for it before the '
            'second (cudaStreamWaitEvent); or call cudaStreamSynchronize in between.',
        ),
    ),
    ('racecheck', 'host_race'): Words(
        'the host {now} {element} while {first} may still {before} it',
        dict(
            python='Wait for it first: stream.synchronize(), or cuda.synchronize().',
            cuda='Wait for it first: cudaStreamSynchronize, or cudaDeviceSynchronize().',
        ),
    ),
    ('racecheck', 'same_value'): Words(
        'line {line} of {kernel}: several threads write the same value to {element}. '
        'Harmless as it is; one thread would do'
    ),
    ('racecheck', 'same_value_programs'): Words(
        'line {line} of {kernel}: several programs write the same value to {element}. '
        'Harmless as it is; one program would do'
    ),
    # A thread and an asynchronous copy; `whose` is a phrase
    ('racecheck', 'copy_not_waited_for'): Words(
        _COPY_UNDER_WAY,
        'Whoever copies waits for it (cp.async.wait_group, __pipeline_wait_prior), '
        'then a __syncthreads() orders it for the others.',
    ),
    ('racecheck', 'copy_not_committed'): Words(
        _COPY_UNDER_WAY,
        'Whoever copies commits it (cp.async.commit_group, __pipeline_commit) and waits for the group, '
        'then a __syncthreads() orders it for the others.',
    ),
    # A thread and an engine: one that copies in bulk, or the tensor cores; `first`, `second`: phrases
    ('racecheck', 'bulk_under_way'): Words(
        '{element} is {now} while a bulk copy to it may be under way',
        'Wait at the mbarrier that the copy is told to (mbarrier.try_wait), for the phase in which it comes; '
        'announce all its bytes there (expect_tx).',
    ),
    ('racecheck', 'no_proxy_fence'): Words(
        '{element} is written by a thread, and read by the copy engine or the tensor cores '
        'with no fence.proxy.async between',
        'Whoever wrote it: fence.proxy.async, then the barrier.',
    ),
    ('racecheck', 'engine_reads'): Words(
        '{element} is {now} while the tensor cores or the copy engine may still read it', _UNREAD
    ),
    ('racecheck', 'engine_has_read'): Words(
        '{element} is {now}, and nothing orders it after what read it: the tensor cores or the copy engine', _UNREAD
    ),
    ('racecheck', 'after_engine'): Words(
        '{element} is {before} by {first} and {now} by {second}, with nothing between',
        'Every thread that uses what a bulk copy brings waits at its mbarrier (mbarrier.try_wait).',
    ),
    ('racecheck', 'before_engine'): Words(
        '{element} is {before} by {first} and {now} by {second}, with nothing between',
        'Put an mbarrier or a barrier of the block between the two.',
    ),
    ('racecheck', 'registers_written'): Words(
        'wgmma.mma_async uses registers that the thread has written, with no wgmma.fence between',
        'wgmma.fence.sync.aligned comes before the first wgmma, and whenever its registers were written.',
    ),
    ('racecheck', 'result_not_awaited'): Words(
        'the thread ends, and has not waited for the result of this wgmma',
        'wgmma.commit_group, then wgmma.wait_group before the first use of what it computes.',
    ),
    ('racecheck', 'store_not_awaited'): Words(
        'the thread ends while its bulk copy may still read shared memory',
        'cp.async.bulk.commit_group, then cp.async.bulk.wait_group.read 0.',
    ),
    ('racecheck', 'load_not_awaited'): Words(
        'the block ends, and nobody has waited for this bulk copy to its shared memory',
        'Wait at the mbarrier that the copy is told to, for the phase in which it comes.',
    ),
    ('racecheck', 'barrier_not_visible'): Words(
        'a bulk copy is told to an mbarrier that the copy engine may not see yet',
        'Behind mbarrier.init: fence.mbarrier_init.release.cluster (or fence.proxy.async), '
        'then a barrier of the block.',
    ),
    # Blocks of a cluster
    ('racecheck', 'block_not_begun'): Words(
        'shared memory of a block of the cluster is used that may not have begun',
        "cluster.sync(), in PTX barrier.cluster.arrive and .wait, comes before the first use of another block's shared "
        'memory.',
    ),
    ('memcheck', 'block_may_end'): Words(
        'shared memory of a block of the cluster that has ended may be used here: nothing makes it wait', _ENDS_LATE
    ),
    ('memcheck', 'block_ended'): Words('shared memory of a block of the cluster that has ended is used', _ENDS_LATE),
    ('memcheck', 'no_block'): Words(
        'mapa: there is no block {block_rank} in a cluster of {blocks}',
        'Ranks count from 0 to %cluster_nctarank - 1; __cluster_dims__ says how many blocks are in a cluster.',
    ),
    ('memcheck', 'copy_to_no_block'): Words(
        'a copy for a block that the cluster does not have', 'The mask has a bit for each block of the cluster.'
    ),
    ('memcheck', 'not_its_own'): Words(
        "{operation} takes the block's own shared memory, and this address is in another block's",
        "Of other blocks' shared memory there are loads, stores, mbarrier.arrive and .expect_tx.",
    ),
    ('synccheck', 'programs_wait'): Words(
        'a program asks again and again for what no other program will write: all others have ended, or wait, too',
        'Who holds a lock gives it back, and a flag is set by a program that does not wait for this one.',
    ),
    ('synccheck', 'arrives_twice'): Words(
        "a thread arrives twice at the cluster's barrier without waiting between", _PAIRS
    ),
    ('synccheck', 'waits_unarrived'): Words("a thread waits at the cluster's barrier and has not arrived", _PAIRS),
    # Bulk copies, tensor maps and the descriptors of wgmma
    ('memcheck', 'bulk_bytes'): Words(
        '{operation} copies {bytes} bytes; a bulk copy takes multiples of 16',
        'Pad the rows, or copy the rest by threads.',
    ),
    ('memcheck', 'no_tensor_map'): Words(
        'this is no tensor map',
        'On the host, tensor_map(x, box) makes one; the kernel takes it as `const __grid_constant__ TensorMap`, '
        'and gives its address.',
    ),
    ('memcheck', 'coordinates'): Words(
        '{operation} has {given} coordinates, and the tensor map {axes} axes',
        'A box has one coordinate for each axis of the tensor map, that of the last axis first.',
    ),
    ('memcheck', 'box_misaligned'): Words(
        '{operation}: the box begins at element {at} of its rows, '
        'and that must be a multiple of 16 bytes, {elements} elements',
        _ILLEGAL,
    ),
    ('memcheck', 'box_before'): Words(
        dict(
            python=_BOX_BEFORE.format('cp.async.bulk.tensor'),
            cuda=_BOX_BEFORE.format('cp.async.bulk.tensor'),
            triton=_BOX_BEFORE.format('a descriptor'),
        ),
        _ILLEGAL,
    ),
    ('memcheck', 'descriptor'): Words(
        'wgmma.mma_async: a descriptor leads outside of shared memory',
        'Its lowest 14 bits are the address divided by 16, then come the two distances, each divided by 16.',
    ),
    ('memcheck', 'metadata'): Words(
        "{operation}: lane {lane}'s metadata {word:#010x} keeps, in its group {group} (row {row}, columns {column} to "
        '{last}), elements {first} and {second}, in this order',
        'Of a group two elements are kept, the lower one first: its 4 bits are first | second << 2, that is 4, 8, 12, '
        '9, 13 or 14, and the first group stands in the lowest bits. PTX promises nothing for other bits.',
    ),
    # Memory that nobody has written, by where it lies
    ('initcheck', 'unwritten'): Words(
        _UNWRITTEN,
        dict(
            python='device_array does not clear memory: write it, or copy zeros.',
            cuda='cudaMalloc, malloc and torch::empty do not clear memory: write it, or cudaMemset it first.',
        ),
    ),
    ('initcheck', 'unwritten_shared'): Words(
        _UNWRITTEN,
        dict(
            python='Shared memory starts with what the last block left there: '
            'write it, then cuda.syncthreads(), then read.',
            cuda='Shared memory starts with what the last block left there: write it, then __syncthreads(), then read.',
        ),
    ),
    ('initcheck', 'unwritten_local'): Words(_UNWRITTEN, 'Local memory starts with anything: write it first.'),
    ('initcheck', 'unwritten_for_engine'): Words(
        '{element} is read by the tensor cores or the copy engine, and nothing has written it',
        'If a bulk copy is to bring it: wait at its mbarrier first, and announce all its bytes.',
    ),
    ('initcheck', 'unassigned'): Words(
        'line {line} of {kernel}: the variable {variable} is uninitialized in block {in_block}, thread {thread}: no '
        'assignment ran in this thread. It is 0 in Numba, and an UnboundLocalError in Python. Assign it before the '
        'branch or the loop'
    ),
    # A barrier of the block or the grid that not all threads reach, and loops that wait
    ('synccheck', 'returned'): Words(
        "line {line} of {kernel}: {here} of the block's {threads} threads reach this barrier; thread {thread} has "
        'returned. A GPU since Volta goes on without it, but CUDA asks for all: guard the data, not the barrier'
    ),
    ('synccheck', 'skipped'): Words(
        "{here} of the block's {threads} threads reach this barrier; thread {thread} has passed it by", _EVERYBODY
    ),
    ('synccheck', 'diverged'): Words(
        "{here} of the block's {threads} threads reach this barrier; thread {thread} is in another branch", _EVERYBODY
    ),
    ('synccheck', 'grid_diverged'): Words(
        "not all threads of the grid reach its barrier: thread {thread} of block {in_block} does not", _AT_GRID
    ),
    ('synccheck', 'endless_wait'): Words(
        '{waiting} here for a change of memory that never comes',
        'Threads that run in step cannot wait for each other in a loop; use a barrier, '
        'or let one thread of a block take the lock.',
    ),
    ('synccheck', 'blocks_wait'): Words(
        '{waiting} here for a change of memory that does not come while threads run in step',
        'Blocks may wait for each other by a flag that is read atomically, as in '
        '`while cuda.atomic.add(flags, i, 0) == 0`. Threads of one block use a barrier, or one of them takes the lock.',
    ),
    # Barriers with a number, and mbarriers; `why`: a phrase, what the thread waits for
    ('synccheck', 'no_such_barrier'): Words(
        'barrier {barrier} for {threads} threads: there are barriers 0 to 15, and whole warps meet at them',
        'Give a multiple of 32 threads, of all the warps that come.',
    ),
    ('synccheck', 'barrier_threads'): Words(
        'barrier {barrier} is used for {threads} threads here and for {others} by those who wait there',
        'All who meet at a barrier give the same number of threads.',
    ),
    ('synccheck', 'no_mbarrier'): Words(
        '{operation} at a place where no mbarrier is',
        'One thread makes it: mbarrier.init, then fence.mbarrier_init, then a barrier of the block '
        '(of the cluster, if other blocks use it).',
    ),
    ('synccheck', 'mbarrier_count'): Words(
        'an mbarrier for no arrival, or for more than 2^20 - 1',
        'mbarrier.init gets the number of arrivals of one phase.',
    ),
    ('synccheck', 'too_many_arrive'): Words(
        'more threads arrive at an mbarrier than the {count} of a phase, which it was made for on line {made_on}',
        'mbarrier.init gets the number of arrivals of one phase.',
    ),
    ('synccheck', 'not_resident'): Words(
        'this block waits for others that have not begun: {resident} of the {blocks} blocks are on the device, which '
        'has room for no more, and all of them wait',
        'Launch no more blocks than fit, or let a block take its number from an atomic counter and wait for those '
        'with lower ones.',
    ),
    ('synccheck', 'not_cooperative'): Words(
        'this_grid().sync() in a launch that does not keep all blocks on the device',
        'Launch with cudaLaunchCooperativeKernel.',
    ),
    ('synccheck', 'stuck'): Words(
        'this thread waits {why}, and no thread can go on',
        'Count who arrives in a phase, the bytes that come, and the parity that is waited for.',
    ),
    ('synccheck', 'stuck_together'): Words(
        'this thread waits {why}, and no thread can go on; thread {thread} waits {other_why}',
        'Count who arrives in a phase, the bytes that come, and the parity that is waited for.',
    ),
    # A warp and its masks; `operation`: 'a shuffle', 'a vote', 'syncwarp'
    ('synccheck', 'unnamed_lane'): Words(
        '{operation} is reached by a thread that its mask {mask:#x} does not name',
        'The mask names all lanes that take part: {whole:#x} for the whole warp, -1 for one of any width.',
    ),
    ('synccheck', 'absent_lane'): Words(
        '{operation} waits for lane {lane} of the warp, which its mask names and which is in another branch',
        'Name only the lanes that come here, or call it before the branch.',
    ),
    ('synccheck', 'source_lane'): Words(
        'a shuffle reads from lane {lane}, which does not take part', 'All lanes that are read must call the shuffle.'
    ),
    ('synccheck', 'undefined_lane'): Words(
        'line {line} of {kernel}: a shuffle reads lane {lane}, which {state}: its value is undefined, and line '
        '{stored} stores a result of it. All lanes that are read must call it, with a neutral value where there is no '
        'element'
    ),
    ('synccheck', 'undefined_result'): Words(
        'line {line} of {kernel}: {state} gets the result: in thread {thread} it is undefined, and line {stored} '
        'stores what is computed from it. Let the thread that gets it write it to shared memory; after a barrier all '
        'can read it'
    ),
    ('synccheck', 'own_mask'): Words(
        'lane {lane} is not in the mask {mask:#x} that it calls this with',
        'A lane may wait only for a group that it belongs to.',
    ),
    ('synccheck', 'lane_elsewhere'): Words(
        'lane {lane} waits here for the lanes of mask {mask:#x}; lane {other_lane} is elsewhere',
        'Every lane that the mask names must reach the same call with the same mask.',
    ),
    ('synccheck', 'different_calls'): Words(
        'the lanes of mask {mask:#x} wait at different operations or with different masks',
        'Every lane that the mask names must reach the same call with the same mask.',
    ),
    ('synccheck', 'warp_apart'): Words(
        '{operation} is for all 32 lanes of a warp together: lane {lane} waits here, lane {other_lane} {state}',
        'No branch around it may depend on the lane; blocks are multiples of 32 threads.',
    ),
    ('synccheck', 'different_descriptors'): Words(
        'wgmma.mma_async: the lanes of a warp give different descriptors', 'All threads of a warpgroup give the same.'
    ),
    # What no GPU launches
    ('launch', 'no_brackets'): Words(
        '{kernel} is a kernel: say how many blocks of how many threads, as in {kernel}[grid, block](...)'
    ),
    ('launch', 'brackets'): Words(
        '{kernel}[...] takes grid and block, then stream and bytes of shared memory if need be: '
        'two to four things, not {given}'
    ),
    ('launch', 'arguments'): Words('{kernel} takes {count} arguments ({parameters}), not {given}'),
    ('launch', 'sizes'): Words('{kernel}: {why}'),
    ('launch', 'empty'): Words(
        'a grid of {grid} blocks of {block} threads: every size is at least 1', 'An empty input needs no launch.'
    ),
    ('launch', 'block_size'): Words(
        'a block of {block} is {threads} threads; a GPU takes {most} at most, and {most_z} along z',
        'Use smaller blocks and more of them.',
    ),
    ('launch', 'grid_size'): Words(
        'a grid of {grid} blocks; a GPU takes {most_x} along x, {most_yz} along y and z',
        'Put the longest axis along x.',
    ),
    ('launch', 'cluster_size'): Words(
        'a grid of {grid} blocks in clusters of {cluster}: a cluster has 8 blocks at most, and the grid whole clusters',
        'Round the grid up, and let the blocks that are too many do nothing.',
    ),
    ('launch', 'shared_number'): Words('{given!r} bytes of shared memory: it is a whole number, 0 or more'),
    ('launch', 'stream'): Words('{given!r} is no stream: it is None, a number, or an object of torch or Numba'),
    ('launch', 'shared_size'): Words(
        '{bytes} bytes of shared memory; a block has {most} unless a kernel asks for more', _SMALLER
    ),
    ('launch', 'shared_arrays'): Words('{bytes} bytes of shared memory for a block; it has {most}', _SMALLER),
    ('launch', 'dynamic_size'): Words(
        '{bytes} bytes of dynamic shared memory; this kernel may use {most}',
        'Above 48 KB: cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), up to 227 KB.',
    ),
    ('launch', 'cooperative_size'): Words(
        '{blocks} blocks in a cooperative launch; {resident} of them fit on the device together',
        'Let each thread do more: a loop over the items with the stride of the grid.',
    ),
    ('launch', 'launch_bounds'): Words(
        'a block of {threads} threads, and `__launch_bounds__` lets this kernel have {most}',
        'A GPU refuses that. Launch smaller blocks, or raise the bound.',
    ),
    ('launch', 'shared_sum'): Words(
        '{bytes} bytes of static and {dynamic} of dynamic shared memory; this kernel may use {most}', _SMALLER
    ),
    ('launch', 'static_size'): Words(
        "the block's shared arrays need more than a block has",
        'A block has 48 KB of static shared memory; use smaller arrays, or dynamic shared memory for up to 227 KB.',
    ),
    ('launch', 'not_launched'): Words(
        '{kernel} is a kernel, and host code calls it as an ordinary function',
        'Launch it, and say how many blocks of how many threads: {kernel}<<<blocks, threads>>>(...).',
    ),
    ('launch', 'waits_in_kernel'): Words(
        'a kernel waits for kernels that it has launched, which CUDA allows no longer',
        'They begin when its grid is over. Launch what comes after them into cudaStreamTailLaunch, or from the host.',
    ),
    ('launch', 'out_of_memory'): Words(
        'line {line}: out of memory: {bytes} bytes are asked for, and the emulated device has {limit}, '
        '{used} of them in use',
        'By itself it has what is free on this machine, where with checks each byte takes eleven; '
        'GRIDSTRIDE_DEVICE_MEMORY=8G, or cpp.options(memory=...), gives it another size.',
    ),
    ('launch', 'tuned'): Words(
        '{kernel}: autotune times {configs} configs on the arguments of the launch, each by many runs, and a second '
        'run changes {array}: the first launch on a GPU gives a wrong result',
        "Name the array in the decorator: triton.autotune(..., {argument}=['{array}']).",
    ),
    ('launch', 'program_arguments'): Words('{problem}', 'It takes {signature}.'),
    ('launch', 'program_grid'): Words(
        'the grid is {given}',
        'One to three whole numbers, or a function of the arguments that gives them, such as (triton.cdiv(n, BLOCK),).',
    ),
    # An end before the end
    ('assert', 'static'): Words('tl.static_assert: {message}', 'It is decided when the kernel is compiled.'),
    ('assert', 'multiple'): Words(
        'tl.multiple_of promises multiples of {of}, and {value} is none',
        'The compiler believes it, and reads several elements at once: promise only what holds for every program.',
    ),
    ('assert', 'device'): Words('tl.device_assert does not hold: {message}'),
    ('assert', 'fails'): Words(
        dict(python='an assert does not hold', cuda='the assertion `{expression}` does not hold')
    ),
    ('assert', 'fails_with'): Words('an assert does not hold: {message}'),
    ('raise', 'raised'): Words(
        '{raised}',
        'On a GPU the host gets the exception from a kernel under @cuda.jit(debug=True, opt=False); without debug=True '
        'the thread ends, and nothing reports it.',
    ),
    ('crash', 'division'): Words(
        'an integer is divided by zero', 'A GPU goes on with a meaningless number; test the divisor first.'
    ),
    ('crash', 'division_overflows'): Words(
        _TOO_LARGE, f'{_UNDEFINED_QUOTIENT} A GPU goes on with a meaningless number.'
    ),
    ('crash', 'stack'): Words(
        'the local variables of a thread need more than the {kilobytes} KB that the emulator has for them',
        'A thread of a GPU has at most 512 KB of local memory. Put a large array into global memory, a slice of it per '
        'thread; end a recursion earlier.',
    ),
    ('crash', 'aborts'): Words(
        'the kernel called abort(), or threw an exception',
        'Device code has no exceptions: assert(...) says what must hold.',
    ),
    ('crash', 'instruction'): Words(
        'the kernel executed an instruction that traps',
        'It asked for that, or came to a place that the compiler takes for impossible.',
    ),
    ('crash', 'trap'): Words('{operation}'),
    ('crash', 'no_return'): Words(
        'a function that promises a result ends without `return`', 'Each way through it returns something.'
    ),
    ('crash', 'local_array'): Words(
        'a local array is {now} past its end',
        'By a pointer to it, here, above or in a function that was given it: compare the index with its size.',
    ),
    ('crash', 'exits'): Words(
        'exit({status}) was called', 'It would end Python, too: TORCH_CHECK(false, "why") tells what is wrong.'
    ),
    ('crash', 'exits_in_kernel'): Words(
        'exit({status}) was called', 'A kernel cannot end the program; `return` ends one thread.'
    ),
    ('crash', 'host_called'): Words(
        '{function} is a __host__ function, and a kernel called it',
        'A GPU has no such function. Call it in host code, and pass what the kernel needs as an argument.',
    ),
    ('crash', 'host_memory'): Words(
        'the host code reads or writes memory that is not its own',
        'A null pointer, an index far outside, or memory that was given back.',
    ),
    ('crash', 'host_division'): Words('the host code divides an integer by zero', 'Test the divisor first.'),
    ('crash', 'host_division_overflows'): Words(f'in the host code {_TOO_LARGE}', _UNDEFINED_QUOTIENT),
    ('crash', 'host'): Words(
        'the host code crashed', 'It asked for that, or came to a place that the compiler takes for impossible.'
    ),
    ('crash', 'cluster_variable'): Words(
        'in clusters the emulator has no __shared__ variables of file scope',
        'Declare it in the kernel, or in the function that uses it.',
    ),
    ('crash', 'no_addresses'): Words(
        'no addresses are left for the memory of the emulated device, or for its detectors',
        'A limit on virtual memory (ulimit -v) is in their way, or what is never freed has taken them all; '
        'checks=False needs fewer.',
    ),
    ('crash', 'not_emulated'): Words(
        'the emulator has no {function}', 'Call torch.matmul from Python, or run on a GPU.'
    ),
    ('crash', 'shifted_too_far'): Words(
        'line {line} of {kernel}: a number of {bits} bits is shifted by {by}',
        'C++ leaves the result open: a GPU gives 0, or -1 for a negative number that goes to the right, and this '
        'machine may give another. Shift by {most} at most.',
    ),
    ('crash', 'does_not_fit'): Words(
        'line {line} of {kernel}: {value} does not fit into {type}',
        'C++ leaves the result open, and a GPU may give another than this machine. Compare the number first, or take '
        'an intrinsic such as __float2int_rz: that gives the nearest that fits, and 0 for a NaN.',
    ),
    ('crash', 'no_stack'): Words(
        "no memory for another thread's stack",
        'A limit on virtual memory (ulimit -v) is in its way, or no memory is left: use smaller blocks.',
    ),
    ('timeout', 'endless'): Words(
        'the kernel still runs after {seconds} s: an endless loop, or threads that wait for what never comes',
        dict(
            python='If it is only slow: with sim.options(seconds=...).',
            triton='If it is only slow: with tile.options(seconds=...).',
            cuda='If it is only slow: cpp.options(seconds=...). A loop that waits for another thread must look at a '
            'volatile or an atomic variable, and with checks=False at an atomic one.',
        ),
    ),
}


# What mends a finding, where `advice.fitting` can tell more than the finding's own row
_ONE_LINE = 'Both are this one line: it reads {element}, then writes it, and another thread comes between. '
_TWO_LINES = 'An update in two lines reads {element}, then writes it, and another thread comes between. '
_NO_ATOMIC = 'No atomic does just that: let one thread do it, or give each thread a place of its own.'
_ATOMIC = dict(
    python='In one step: cuda.atomic.{operation}({array_text}, {index_text}, {value}).',
    cuda='In one step: atomic{Operation}(&{target}, {value}).',
)
_TOO_FAR = 'The guard `{guard}` lets this thread in, and '
MENDS = {
    'at_grid': _AT_GRID,
    'misaligned_pair': 'What is read or written as 4 bytes at once begins at a multiple of 4: two bfloat16, at an even '
    'index. Numbers that lie elsewhere, or apart, are moved one by one.',
    'update': {d: _ONE_LINE + o for d, o in _ATOMIC.items()},
    'update_apart': {d: _TWO_LINES + o for d, o in _ATOMIC.items()},
    'update_other': _ONE_LINE + _NO_ATOMIC,
    'update_other_apart': _TWO_LINES + _NO_ATOMIC,
    'two_names': '{element} is {second_element}, too: these arrays share memory. Give one as a copy, '
    'or let each thread keep to elements that no other one has by either name.',
    'expanded': '{array} is expanded (stride 0): several of its elements are one element of memory. Give the kernel a '
    'copy, as .contiguous() or np.ascontiguousarray makes one.',
    'one_place': 'Both are this one line: give each thread a place of its own, or let one thread write.',
    'same_line': dict(
        python='Both are line {line}, in different rounds of a loop: put a cuda.syncthreads() '
        'at the end of each round.',
        cuda='Both are line {line}, in different rounds of a loop: put a __syncthreads() at the end of each round.',
    ),
    'in_line': dict(
        python='Both are this one line: read into a variable, put a cuda.syncthreads() after that, then write.',
        cuda='Both are this one line: read into a variable, put a __syncthreads() after that, then write.',
    ),
    'called_twice': dict(
        python='A barrier is missing between the two calls of `{function}`, lines {earlier} and {now}: put a '
        'cuda.syncthreads() at the end of `{function}`, or between these two lines.',
        cuda='A barrier is missing between the two calls of `{function}`, lines {earlier} and {now}: put a '
        '__syncthreads() at the end of `{function}`, or between these two lines.',
    ),
    'called_in_loop': dict(
        python='A barrier is missing between one call of `{function}`, line {line}, and the next: put a '
        'cuda.syncthreads() at the end of `{function}`, or at the end of each iteration.',
        cuda='A barrier is missing between one call of `{function}`, line {line}, and the next: put a '
        '__syncthreads() at the end of `{function}`, or at the end of each iteration.',
    ),
    'called_again': dict(
        python='A barrier is missing between one call of `{function}` and the next: put a cuda.syncthreads() at its '
        'end.',
        cuda='A barrier is missing between one call of `{function}` and the next: put a __syncthreads() at its end.',
    ),
    'calls_apart': dict(
        python='Put a cuda.syncthreads() between lines {earlier} and {now}, from which both were called.',
        cuda='Put a __syncthreads() between lines {earlier} and {now}, from which both were called.',
    ),
    'round': dict(
        python='Line {line} is one round of the loop further: put a cuda.syncthreads() at the end of each round, '
        'behind line {earlier}.',
        cuda='Line {line} is one round of the loop further: put a __syncthreads() at the end of each round, '
        'behind line {earlier}.',
    ),
    'one_atomic': dict(
        python='Put a cuda.syncthreads() between these two lines, or let both be atomic: one alone orders '
        'nothing. A read: cuda.atomic.add(array, i, 0).',
        cuda='Put a __syncthreads() between these two lines, or let both be atomic: one alone orders '
        'nothing. A read: atomicAdd(&x, 0).',
    ),
    'before_swap': dict(
        python='A compare-and-swap checks what its own thread has read there. A thread that reads and does not swap '
        'needs an atomic read: cuda.atomic.add(array, i, 0).',
        cuda='A compare-and-swap checks what its own thread has read there. A thread that reads and does not swap '
        'needs an atomic read: atomicAdd(&x, 0).',
    ),
    'in_step': 'Lanes of one warp need not run in step, since Volta: read, __syncwarp(), write, __syncwarp(); or let '
    '__shfl_down_sync carry the values.',
    'guard': dict(
        python=_NOTHING + '`if {expr} < {array}.size`.',
        cuda=_NOTHING + '`if ({expr} < n)`, where n is the number of elements, {size}.',
    ),
    'farthest': dict(
        python='The index that goes farthest is `{expr}`: guard that one, as in `if {expr} < {array}.size`.',
        cuda='The index that goes farthest is `{expr}`: guard that one, as in `if ({expr} < n)`, where n is the number '
        'of elements, {size}.',
    ),
    'guard_flat': dict(
        python='The index is `{expr}`. A thread past the last row or the last column must do nothing: guard both, '
        'as in `if r < h and c < w`.',
        cuda='The index is `{expr}`. A thread past the last row or the last column must do nothing: guard both, '
        'as in `if (r < h && c < w)`.',
    ),
    'guard_axes': dict(
        python='Along axis {axis} there are 0 to {last}, and the index is {index_there}. A thread past the end must do '
        'nothing: guard every axis, as in `if {conditions}`.',
        cuda='Along axis {axis} there are 0 to {last}, and the index is {index_there}. A thread past the end must do '
        'nothing: guard every axis, as in `if ({both})`.',
    ),
    'one_too_many': '`{guard}` lets in one too many: with {size} elements the last index is {last}.',
    'row_too_many': '`{guard}` lets in one too many: the last one is {bound} - 1. `{wrote}` must be `{right}`.',
    'wrong_joint': '`{guard}` lets in threads of which one index is past the end: `{joint}` must be `{right}`.',
    'swapped': 'The index is `{expr}`, with rows and columns swapped: it must be `{right}`.',
    'swapped_axes': 'Along axis {axis} there are 0 to {last}, and the index is {index_there}: `{expr}` has rows and '
    'columns swapped, it must be `{right}`; or this is a transpose, and {array} must have shape {turned}.',
    'moved': '`{expr}` counts from where `{move}` has moved the pointer, and the index above from the first element of '
    '{array}: look at how far it was moved, and how many elements are left there.',
    'moved_by': '`{expr}` is {own}, counted from where `{move}` has moved the pointer, and {left} elements are left '
    'there: guard against that number.',
    'fixed': 'The places of {array} there are 0 to {last}: is the block, or a loop, larger than that?',
    'lets_in': dict(
        python=_TOO_FAR + '`{expr}` is {at}: guard this index, too, as in `if {expr} < {array}.size`.',
        cuda=_TOO_FAR
        + '`{expr}` is {at}: guard this index, too, or give {array} as many elements as the guard lets in.',
    ),
    'stride': _TOO_FAR + '`{expr}` is {at}: look at its stride, the distance from one row to the next.',
    'inside_another': '{inner} begins inside of {array}, at {array}[{inner_at}]: counted from there it is '
    '{inner}[{inner_index}]. Guard the index of the one that this line means.',
    'below_0': '`{expr}` is unsigned: below 0 it begins again at 4294967295. Put it into an int first, '
    'as in `int i = threadIdx.x;`, and guard `i` from below.',
    'from_memory': 'The index `{expr}` is read from memory, where {at} stands: see who wrote it.',
}
for _operation in ('max', 'min'):
    for _apart in ('', '_apart'):
        _said = MENDS[f'update{_apart}']
        MENDS[f'update_{_operation}{_apart}'] = dict(
            _said, cuda=_said['cuda'][:-1] + ' for whole numbers, a loop with atomicCAS for others.'
        )


# Findings that are warnings: the kernel goes on
WARNINGS = {
    'same_value': ('racecheck', SameValueRace),
    'same_value_programs': ('racecheck', SameValueRace),
    'read_back': ('racecheck', MissingBarrier),
    'stored_again': ('racecheck', MissingBarrier),
    'released': ('racecheck', MissingBarrier),
    'undefined_stored': ('initcheck', UndefinedLanes),
    'undefined_address': ('initcheck', UndefinedLanes),
    'undefined_decision': ('initcheck', UndefinedLanes),
    'returned': ('synccheck', EarlyReturn),
    'unassigned': ('initcheck', UnassignedVariable),
    'undefined_lane': ('synccheck', UndefinedLanes),
    'undefined_result': ('synccheck', UndefinedLanes),
    'out_of_memory': ('launch', OutOfMemory),
    'tuned': ('launch', TunedInPlace),
    'shifted_too_far': ('crash', OpenResult),
    'does_not_fit': ('crash', OpenResult),
}

# Findings that no choice of checks silences, by kind: nothing could go on
ALWAYS = dict(
    memcheck='indices index_type no_shared_address fault_outside fault_no_array fault_freed fault_null fault_address '
    'host_function host_virtual misplaced host_reads host_writes host_reads_symbol host_writes_symbol host_symbol '
    'host_memory_given device_memory_given failed_alloc copy_target no_block copy_to_no_block not_its_own bulk_bytes '
    'no_tensor_map coordinates box_misaligned box_before descriptor block_ended',
    synccheck='grid_diverged endless_wait blocks_wait stuck stuck_together warp_apart '
    'lane_elsewhere different_calls own_mask arrives_twice waits_unarrived no_such_barrier '
    'barrier_threads no_mbarrier mbarrier_count too_many_arrive different_descriptors not_resident '
    'not_cooperative programs_wait',
)


# The parts of sentences that a `Phrase` names
PHRASES = {
    # who copies or reads, what an mbarrier is called
    'own_copy': "the thread's own",
    'other_copy': "another thread's",
    'a_thread': 'a thread',
    'a_bulk_copy': 'a bulk copy',
    'an_engine': 'the tensor cores or the copy engine',
    'element': '{element}',
    # operations of a program, and their streams
    'kernel_on': 'kernel {name} (launched on line {line}) on {stream}',
    'call_on': '{name} (line {line}) on {stream}',
    'kernel_in': 'kernel {name} on {stream}',
    'call_in': '{name} on {stream}',
    'default_stream': 'the default stream',
    'created_stream': 'stream {number} (created on line {created})',
    'given_stream': 'stream {number}',
    'of_line': 'of line {line}',
    # what a thread waits for
    'at_cluster': "at the cluster's barrier for threads that do not come",
    'at_grid': "at the grid's barrier, where {arrived} of {threads} threads are",
    'at_barrier': 'at barrier {barrier}, where {arrived} of {threads} threads are',
    'gets_more': f'{_AT_MBARRIER} got {{bytes}} bytes more than it expects',
    'lacks_both': f'{_AT_MBARRIER} lacks {{left}} of {{count}} arrivals and {{bytes}} bytes',
    'lacks_bytes': f'{_AT_MBARRIER} lacks {{bytes}} bytes',
    'lacks_arrivals': f'{_AT_MBARRIER} lacks {{left}} of {{count}} arrivals',
    'for_wgmma': 'for a wgmma that not all four warps of its warpgroup have asked for',
    # what the other lane of a warp does
    'apart_waits': 'waits {why}',
    'apart_absent': 'does not exist',
    'apart_returned': 'has returned',
    'apart_elsewhere': 'is elsewhere',
    'not_in_mask': 'is not in its mask',
    # who gets the result of a collective
    'first_of_block': 'only the first thread of the block',
    'first_of_warp': 'only the first lane of each warp',
    # and what a kernel called that ends it
    'trap_called': '__trap() was called',
    'breakpoint': '__brkpt() was called, and no debugger is there',
    'abort_called': 'abort() was called',
    'exception_thrown': 'an exception was thrown, and device code has none',
    'tile_threads': 'tiled_partition(group, n): n must be 1, 2, 4, 8, 16 or 32',
    'copy_bytes': '__pipeline_memcpy_async copies 4, 8 or 16 bytes',
    'matrix_stride': 'load_matrix_sync and store_matrix_sync: ldm must be a multiple of 16 bytes',
}


def element(array, index, dialect):
    "An element as the dialect writes it: `s[3, 4]` or `s[3][4]`; without an index the array's name"
    if index is None or len(index) == 0:
        return array
    return array + ''.join(f'[{i}]' for i in index) if dialect == 'cuda' else f'{array}[{", ".join(map(str, index))}]'


def _templates(kind, code, dialect):
    "The templates of `what` and `mend`"
    return tuple(_in(o, dialect) for o in WORDS[kind, code])


def _in(text, dialect):
    "A text as the dialect has it; Triton's is Python's where it has none of its own"
    return text if isinstance(text, str) else text.get(dialect) or text['python']


def field_names(kind, code):
    "The names of the fields that whoever finds this must give, in any dialect; `element` needs `array` and `index`"
    texts = (text for dialect in DIALECTS for text in _templates(kind, code, dialect))
    names = {re.match(r'\w*', name)[0] for text in texts for _, name, _, _ in Formatter().parse(text) if name}
    return set().union(*(_MADE_OF.get(o, {o}) for o in names))


_MADE_OF = dict(element={'array', 'index'}, waiting={'threads'})


def _shown(fields, dialect):
    "Fields as the templates show them"
    shown = {k: _phrase(v, dialect) if isinstance(v, Phrase) else v for k, v in (fields or {}).items()}
    for k in ('thread', 'in_block'):
        if k in shown:
            shown[k] = position(shown[k])
    name = shown.get('array') or shown.get('space') or ''
    threads = shown.get('threads')
    shown['waiting'] = '1 thread waits' if threads == 1 else f'{threads} threads wait'
    shown.setdefault('element', element(name, shown.get('index'), dialect))
    return shown


def _phrase(phrase, dialect):
    return PHRASES[phrase.code].format(**_shown(phrase.fields, dialect))


def text_of(kind, code, dialect, fields=None):
    "(what, mend): the wording of a finding with its fields filled in; `KeyError` names a field that is missing"
    shown = _shown(fields, dialect)
    return tuple(o.format(**shown) for o in _templates(kind, code, dialect))


def _advised(advice, dialect, fields):
    "The text of `advice`, (name of a row of `MENDS`, its fields); nothing for None"
    return advice and _in(MENDS[advice[0]], dialect).format(**{**_shown(fields, dialect), **advice[1]})


def switch_off(kind, code, dialect):
    "How to run without the check that found it; nothing where that is not possible"
    if kind not in ('memcheck', 'racecheck', 'initcheck', 'synccheck') or code in ALWAYS.get(kind, '').split():
        return ''
    return f"To run without this check: with {_OPTIONS[dialect]}(checks='no {kind}'): ..."


def exception_of(
    kind,  # 'memcheck', 'racecheck', ...
    code,  # which one, as `WORDS` has it
    dialect,  # 'python', 'cuda' or 'triton'
    fields=None,  # name -> value, for the templates
    place=Place(),  # where it was found
    other=None,  # an `Access`: the other side of a race
) -> KernelError:  # of the class that belongs to the kind
    "The exception that tells of a finding; `KeyError` if there is no such code, or a field is missing"
    what, mend = text_of(kind, code, dialect, fields)
    advice = fitting(kind, code, fields or {}, place, other)
    mend = _advised(advice, dialect, fields) or mend
    array, index = ((fields or {}).get(k) or None for k in ('array', 'index'))
    on = dict(array=array, index=index, other=other, code=code, fields=fields, dialect=dialect, advice=advice)
    where = {k: v for k, v in place._asdict().items() if k not in ('above', 'onward')}
    cls = _CLASSES_OF.get((kind, code), CLASSES[kind])
    return cls(what, mend, switch_off(kind, code, dialect), **on, **where)


def of_class(
    error,  # a `KernelError`
    other,  # a class of exceptions
):
    "The same finding as an exception of `other`, too, or of a class that `other` is derived from"
    for base in other.__mro__:
        if issubclass(base, Exception) and isinstance(error, base):
            return error
        try:
            new = _both(type(error), base)(error.args[0])
        except TypeError:  # it cannot be made of one text
            continue
        vars(new).update(vars(error))
        new.args = error.args
        return new


@functools.lru_cache
def _both(kind, other):
    "A class of both"
    text = dict(__str__=Exception.__str__, __reduce__=lambda self: (kind, self.args), __doc__=kind.__doc__)
    return type(other.__name__, (kind, other), dict(text, __module__=kind.__module__))


def outside_level():
    "How far above its caller the learner's code is: the `stacklevel` of a warning about it"
    frame, n = sys._getframe(1), 1
    while frame.f_back and (frame.f_code.co_filename.startswith(_PACKAGE) or is_machinery(frame.f_code.co_filename)):
        frame, n = frame.f_back, n + 1
    return n


def warn_outside(
    warning: Warning,
    file=None,  # what it is about, where no line of Python is the learner's: `python -m gridstride.cpp`
    line=None,
):
    "Warn at the learner's line of Python that led here, or else at `line` of `file`"
    level = outside_level()
    if file and sys._getframe(level - 1).f_code.co_filename.startswith('<frozen'):
        warnings.warn_explicit(warning, type(warning), file, line or 1)
    else:
        warnings.warn(warning, stacklevel=level)


def warn_of(code, dialect, fields, file=None):
    "Warn of a finding that is one of `WARNINGS`; at the line that launched the kernel, or else at its line of `file`"
    kind, category = WARNINGS[code]
    what, mend = text_of(kind, code, dialect, fields)
    warning = category(f'{what}. {switch_off(kind, code, dialect) or mend}')
    warning.kind, warning.code, warning.fields, warning.line = kind, code, fields, fields.get('line')
    warn_outside(warning, file, warning.line)
