"""`sim.options(engine='c')`: runs simulated kernels as compiled CUDA C, on the emulator, with the same results.

The kernel is translated with Numba's types (`doubles=True`), compiled once per combination of argument types, and
run on the arrays in place. The option `checks` enables the emulator's detectors. In addition, each index is checked
against the shape of its array, because `x[t,0]` may be in bounds of the memory and yet in the wrong row. Findings
name the line of Python. A kernel that cannot be translated raises an error: there is no silent fallback to the other
engine.
"""

import ast
import ctypes
import hashlib
import inspect
import linecache
import re
import threading
import warnings

import numpy as np

from ..cpp import emulator
from ..cpp.toolchain.build import compile_module
from ..cpp.toolchain.compilers import checked_flags, common_flags, compiler, endless_flags, line_flags
from ..cpp.lint.compile_errors import CompileError
from ..cpp.finding import file_among
from ..cpp.load import device_lock, open_emulated
from ..cpp.rewriters.rewrite import to_cpp
from ..diagnostics.errors import NotSimulated, learner_stacklevel
from ..diagnostics.launch_config import configure, count_arguments
from ..diagnostics.settings import checking, settings
from ..sim.arguments import convert_arguments
from ..sim.memory import View
from ..sim.records import Records
from ..support.array_memory import address, byte_bounds, part
from .codegen.expressions import Expressions
from .codegen.text import PRIMARY, Text
from .kernel import translate
from .lowering import Unit, convert
from .lowering.arrays import Arrays
from .tree import ONE, ZERO, Expr, add, index, row_strides
from .tree import View as Part
from .types import INT


# The emulator's memory is separate from the host's. Arguments that overlap are copied to one piece of it, so that
# they still share memory there.
class _MemoryPiece(ctypes.Structure):
    """A contiguous piece of the arguments' memory: its address and its bytes.

    For uninitialized memory also masks of the bytes that are initialized before and after the launch.
    """

    _fields_ = [
        ('host', ctypes.c_void_p),
        ('bytes', ctypes.c_size_t),
        ('itemsize', ctypes.c_size_t),
        ('known', ctypes.c_void_p),
        ('written', ctypes.c_void_p),
        ('device', ctypes.c_void_p),
    ]


class _LaunchArguments(ctypes.Structure):
    "The arguments of a launch, `gs_launch` in the prelude: the entry function, its arguments, and their memory"

    _fields_ = [
        ('enter', ctypes.c_void_p),
        ('args', ctypes.POINTER(ctypes.c_void_p)),
        ('config', ctypes.POINTER(ctypes.c_uint)),
        ('pieces', ctypes.POINTER(_MemoryPiece)),
        ('npieces', ctypes.c_int),
        ('piece_of', ctypes.POINTER(ctypes.c_int)),
        ('offsets', ctypes.POINTER(ctypes.c_longlong)),
        ('nargs', ctypes.c_int),
    ]


def as_array(view):
    "Return a simulator's view as a NumPy array that shares its memory"
    return part(view.mem.data, int(view.offset), tuple(map(int, view.shape)), view.strides)


def _views(v):
    return [view for p in v for view in _views(p)] if isinstance(v, tuple) else [v] if isinstance(v, View) else []


def _to_arrays(v):
    return tuple(map(_to_arrays, v)) if isinstance(v, tuple) else as_array(v) if isinstance(v, View) else v


def _merge_overlapping(spans):
    "Merge intervals (low, high) that overlap"
    merged = []
    for low, high in sorted(spans):
        if merged and low < merged[-1][1]:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    return merged


# Each translation is in its own namespace, with a function that takes the addresses of the kernel's arguments. So
# several kernels can be compiled at once; nvcc compiles the same text. For messages, `#line` directives give the
# lines of Python. Their file names contain a number, because the name of a notebook's cell differs in each session,
# and the compilation cache must find the same text.
_HOST = '#ifndef __CUDACC_RTC__  // what follows is for the host'


def entry_function(t, n, name):
    """Return a C function that launches the kernel `name` of the translation `t`.

    `enter_n` takes the addresses of the arguments, then six sizes and the bytes of shared memory.
    """
    args = ', '.join(f"*({p.type.replace('[[maybe_unused]] ', '')} *)a[{i}]" for i, p in enumerate(t.params))
    sizes = 'dim3(c[0], c[1], c[2]), dim3(c[3], c[4], c[5]), c[6]'
    return f'extern "C" void enter_{n}(void **a, const unsigned *c) {{ t{n}::{name}<<<{sizes}>>>({args}); }}'


def combine_translations(
    translations,  # what `to_cuda` made
    marked=None,  # files: lines of Python instead of those of C
) -> str:  # CUDA C without the launchers, and `enter_0`, `enter_1`, ...
    "Return one source of several translations"
    heads, parts = {}, []
    for number, translation in enumerate(translations):
        lines = translation.split(_HOST)[0].split('\n')
        heads.update((line, None) for line in lines if line.startswith('#include'))
        name = f'{translation.kernel}_{number}_{_digest(translation)}'  # the runtime knows kernels by name
        body = _add_line_directives(lines, translation.lines, marked) if marked is not None else lines
        text = '\n'.join('' if line.startswith('#include') else line for line in body)
        parts.append(
            f'namespace t{number} {{\n'
            + text.replace(f'__global__ void {translation.kernel}(', f'__global__ void {name}(')
            + f'\n}}\n{entry_function(translation, number, name)}\n'
        )
    return '\n'.join([*heads, *parts])


def _digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:10]


_FILE = 'kernel_{}.py'
_NOT_FROM_PYTHON = '#line 1 "gridstride/cpp/include/made.h"'  # a location that is not the learner's


def _add_line_directives(lines, where, files):
    "Return `lines` with `#line` directives for the lines of Python that they come from"
    result = []
    for number, line in enumerate(lines, 1):
        if (location := where.get(number)) is None:
            result += [_NOT_FROM_PYTHON, line]
        else:
            file, line_of_python = location if isinstance(location, tuple) else (files[0], location)
            if file not in files:
                files.append(file)
            result += [f'#line {line_of_python} "{_FILE.format(files.index(file))}"', line]
    return result


_HEADERS = ('emulator.h',)
_PRELUDE = (
    f'#include "emulator.h"\n{_NOT_FROM_PYTHON}'
    + r'''
struct gs_piece {
    char *host; size_t bytes, itemsize; const unsigned char *known; unsigned char *written; char *device;
};
struct gs_launch {
    void (*enter)(void **, const unsigned *); void **args; const unsigned *config;
    gs_piece *pieces; int npieces; const int *piece_of; const long long *offsets; int nargs;
};

static void gs_run(void *p) {
    gs_launch &l = *static_cast<gs_launch *>(p);
    for (int i = 0; i < l.npieces; i++) {
        gs_piece &p = l.pieces[i];
        p.device = static_cast<char *>(gridstride::adopt(p.host, p.bytes, p.itemsize, p.known));
        for (size_t a = 0, b; p.known && a < p.bytes; a = b) {
            for (b = a; b < p.bytes && p.known[b] == p.known[a]; b++) {}
            if (p.known[a]) gridstride::device_written(p.device + a, b - a);
        }
    }
    for (int i = 0; i < l.nargs; i++)
        if (l.piece_of[i] >= 0) *static_cast<char **>(l.args[i]) = l.pieces[l.piece_of[i]].device + l.offsets[i];
    l.enter(l.args, l.config);
    for (int i = 0; i < l.npieces; i++)
        if (l.pieces[i].written) gridstride_written(l.pieces[i].device, l.pieces[i].bytes, l.pieces[i].written);
}
extern "C" int gs_call(gs_launch *l) {
    const bool ok = gridstride::guarded(gs_run, l, nullptr);  // no host code: a kernel alone
    gridstride::give_back();
    return ok ? 0 : 1;
}
// The offset of an element. Its parameters are scalars: accesses to an array on the stack cost time in checks.
struct gs_axis {
    long long i, n, step;                  // an index, the size of its axis, the stride there
};
template <class... Axes>
static inline long long gs_at(const char *access, const char *array, int line, Axes... axes) {
    const bool inside = (... & (static_cast<unsigned long long>(axes.i) < static_cast<unsigned long long>(axes.n)));
    if (__builtin_expect(!inside, 0)) {
        const long long i[] = {axes.i...}, n[] = {axes.n...};
        gridstride::index_outside(access, array, i, n, sizeof...(axes), line);
    }
    return (... + (axes.i*axes.step));
}
'''
)


class Compiled:
    "Translations that are compiled for the emulator; with `checks`, they report every access to the detectors"

    def __init__(self, translations, checks, files=None, flags=()):
        c, self.translations = compiler(), translations
        text = combine_translations(translations, files)
        source = f'{_PRELUDE}#line 1 "kernel.cu"\n{to_cpp(text)}'
        # -O1 makes what a kernel calls for an index a part of it: code elsewhere would have no line of its own
        check_flags = [*checked_flags(c, text), '-O1'] if checks else []
        flags = [*common_flags(c), *line_flags(c), *endless_flags(c), '-w', *check_flags, *flags]
        sources = {'kernel.cpp': source, 'kernel.cu': text}
        self.built = compile_module(
            sources, 'kernel', flags, _HEADERS, lambda log, command: CompileError(text, 'kernel.cu', log, command)
        )
        self.checks = checks
        emulator.device()
        self._opened = open_emulated(str(self.built.folder / 'kernel.so'))
        self.dll = self._opened.dll

    def call(self, number, values, arrays, uninitialized, grid, block, shared):
        """Run translation `number`; returns whether the detectors found nothing.

        `values` are the arguments of the C kernel; `arrays` maps the positions of those that are pointers to NumPy
        arrays, and `uninitialized` those of uninitialized arrays to (mask of initialized bytes, buffer for this mask
        after the launch). `grid` and `block` have three sizes; `shared` is in bytes.
        """
        params = self.translations[number].params
        values_in_c = [
            ctypes.c_void_p(address(arrays[i])) if i in arrays else _as_ctypes(parameter.type, value)
            for i, (parameter, value) in enumerate(zip(params, values))
        ]
        call = _LaunchArguments(
            ctypes.cast(getattr(self.dll, f'enter_{number}'), ctypes.c_void_p),
            (ctypes.c_void_p * max(1, len(values)))(*map(ctypes.addressof, values_in_c)),
            (ctypes.c_uint * 7)(*grid, *block, shared),
            *_memory(arrays, uninitialized, len(values)),
            len(values),
        )
        with device_lock:
            emulator.prepare(self.checks, settings.seconds)
            return self.dll.gs_call(ctypes.byref(call)) == 0


def _memory(arrays, uninitialized, argument_count):
    "Return (pieces of memory, their number, the piece of each argument or -1, the offset of each argument in it)"
    spans = {i: byte_bounds(array) for i, array in arrays.items()}
    areas = _merge_overlapping([s for s in spans.values() if s[0] < s[1]])
    pieces = (_MemoryPiece * len(areas))(*((low, high - low, 1) for low, high in areas))
    piece_of, offsets = (ctypes.c_int * argument_count)(*[-1] * argument_count), (ctypes.c_longlong * argument_count)()
    for i, array in arrays.items():
        piece = next((piece for piece, (low, high) in enumerate(areas) if low <= spans[i][0] < high), -1)
        if piece < 0:
            continue
        piece_of[i], offsets[i] = piece, address(array) - areas[piece][0]
        pieces[piece].itemsize = array.itemsize
        if i in uninitialized:
            pieces[piece].known, pieces[piece].written = (mask.ctypes.data for mask in uninitialized[i])
    return pieces, len(areas), piece_of, offsets


_CTYPES = {
    'bool': ctypes.c_bool,
    'signed char': ctypes.c_int8,
    'unsigned char': ctypes.c_uint8,
    'short': ctypes.c_int16,
    'unsigned short': ctypes.c_uint16,
    'int': ctypes.c_int32,
    'unsigned int': ctypes.c_uint32,
    'long long': ctypes.c_int64,
    'unsigned long long': ctypes.c_uint64,
    'float': ctypes.c_float,
    'double': ctypes.c_double,
}


def _as_ctypes(type, v):
    "Return a scalar as a `ctypes` object, whose address C gets"
    if type == '__half':
        return ctypes.c_uint16(int(np.float16(v).view(np.uint16)))
    return _CTYPES[type](v)


# In a translation for the checked engine, the offset of an element is the result of a call that checks every index.
# All integers have 64 bits there, as they have in Python.
class CheckedArrays(Arrays):
    "Lower indices with a check: the operation `inside` reports an index that is out of bounds"

    def inside(self, access, view, idx, sizes, strides):
        "Return the address of the element `idx`, checked against the sizes; `access` is 'read', 'write' or 'atomic'"
        idx = [convert.as_number(convert.need_number(i)) for i in idx]
        return Expr('inside', INT, [*idx, *sizes, *strides], value=(access, view.memory.name))

    def element_index(self, node, view, idx):
        "Return one index, which is checked"
        at = super().element_index(node, view, idx)
        if None in view.sizes or not view.ndim:
            return at
        address = self.inside(_access_of(node), view, idx, view.sizes, view.strides)
        return [add(view.offset, add(_leading_offset(view), address))]

    def subview(self, node, view, idx):
        "Return the part of `view` at indices that are checked one by one"

        def check(i, n):
            return i if isinstance(i, ast.Slice) or n is None else self.inside('access', view, [i], [n], [ONE])

        return super().subview(node, view, [check(i, n) for i, n in zip(idx, view.sizes)])


def _access_of(node):
    "Return 'read', 'write' or 'atomic', the first access that a syntax node makes; `x[i] += 1` reads first"
    if isinstance(node, ast.Call):
        return 'atomic'
    return 'read' if isinstance(node, (ast.Subscript, ast.AugAssign)) else 'write'


def _leading_offset(view):
    "Return the address of the part of a C array that a view's first indices select"
    if not view.lead:
        return ZERO
    dims = view.memory.dims
    return index(Part(view.memory, dims, row_strides(dims)), [*view.lead, *[ZERO] * view.ndim])[0]


class CheckedExpressions(Expressions):
    "Write the address of an element as `gs_at(...)`"

    def _expr_inside(self, expr):
        "Write an index that `gs_at` checks against sizes, and multiplies by strides"
        n = len(expr.args) // 3
        args = [f'(long long)({self.fit(a, "long long").text})' for a in expr.args]
        axes = [f'gs_axis{{{", ".join(args[k::n])}}}' for k in range(n)]
        access, array = expr.value
        return Text(f'gs_at("{access}", "{array}", __LINE__, {", ".join(axes)})', PRIMARY, 'long long')

    def element_at(self, memory, idx):
        "Write the element at an index that counts from the first element of all"
        if memory.dims is None or memory.ndim == len(idx):
            return self.row(memory, idx)
        return f'(&{memory.c_name}{"[0]" * memory.ndim})[{self.text(idx[0])}]'


class CheckedUnit(Unit):
    "A unit of translation whose indices are checked"

    arrays = CheckedArrays


def _index_of_offset(a, at):
    "Return the index of the element that is `at` elements after the first byte of the memory of the array `a`"
    steps = [abs(s) // a.itemsize for s in a.strides]
    res = {}
    for d in sorted(range(a.ndim), key=lambda d: -steps[d]):
        res[d], at = divmod(at, steps[d]) if steps[d] else (0, at)
    return tuple(a.shape[d] - 1 - res[d] if a.strides[d] < 0 else res[d] for d in range(a.ndim))


def _exception(compiled_kernel, arrays):
    "Return the exception for the emulator's finding; `arrays`: the NumPy arrays by their names in C"
    found = emulator.last_finding()
    name, index = (found.fields.get(key) for key in ('array', 'index'))
    if (
        name in arrays and len(index or ()) == 1 and found.code not in ('outside', 'before')
    ):  # which `gs_at` reports itself
        found.fields['index'] = _index_of_offset(arrays[name], index[0])
    numbered = [_FILE.format(i) for i in range(len(compiled_kernel.files))]
    file = compiled_kernel.files[numbered.index(file_among(found.file, numbered))] if found.line else None
    found.fields.pop('arrays', None)
    in_c, found.kernel = found.kernel, compiled_kernel.kernel
    found.name_calls(
        lambda c: _call_in_python(
            c._replace(function=c.function.replace(in_c, found.kernel)), compiled_kernel.files, numbered
        )
    )
    if found.is_in_other_file():
        other_file = compiled_kernel.files[numbered.index(file_among(found.other_file, numbered))]
        found.other = found.other._replace(
            file=other_file, source=linecache.getline(other_file, found.other.line).strip()
        )
    found.order_race(lambda n: linecache.getline(file, n).strip())
    source = linecache.getline(file, found.line).strip() if found.line else ''
    lines_before = ''.join(linecache.getlines(file)[compiled_kernel.first - 1 : found.line - 1]) if found.line else ''
    lines_from = ''.join(linecache.getlines(file)[found.line - 1 :]) if found.line else ''
    context = dict(lines_before=lines_before, lines_from=lines_from, called=_call_site(found))
    return found.exception('python', kernel=compiled_kernel.kernel, file=file, source=source, **context)


def _call_site(found):
    "Return (line, its text, its file) of the kernel's line that called the function of the finding, or None"
    calls = found.calls
    return (calls[-1].line, calls[-1].source, calls[-1].file) if len(calls) > 1 else None


def _call_in_python(call, files, numbered):
    "Return a `Call` with its Python file, and the text of its line"
    file = files[numbered.index(file_among(call.file, numbered))]
    return call._replace(file=file, source=linecache.getline(file, call.line).strip())


def _specialization_key(argument):
    "Return a key of an argument for which kernels are specialized: its type and layout"
    if isinstance(argument, tuple):
        return tuple(map(_specialization_key, argument))
    if isinstance(argument, View):
        return (
            argument.dtype.str,
            argument.ndim,
            tuple(map(int, argument.strides)) if not _contiguous(argument) else None,
        )
    return type(argument)


def _contiguous(view):
    n = 1
    for size, stride in zip(reversed(view.shape), reversed(view.strides)):
        if size != 1 and stride != n:
            return False
        n *= int(size)
    return True


class _CompiledKernel:
    "A kernel that is compiled for arguments of certain types and layouts"

    def __init__(self, kernel, args, memcheck, checked):
        self.kernel = kernel.__name__
        self.files = [inspect.getsourcefile(kernel.py_func) or kernel.py_func.__code__.co_filename]
        self.first = kernel.py_func.__code__.co_firstlineno
        unit, writer = (CheckedUnit, CheckedExpressions) if memcheck else (Unit, Expressions)
        self.translation = translate(kernel, args, unit(doubles=True, wide=memcheck), writer)
        if 'this_grid().sync()' in self.translation:
            raise NotSimulated(
                "a barrier of the grid with engine='c'",
                "It needs the simulator's own engine: sim.options(engine='lanes').",
                kernel=self.kernel,
            )
        self.compiled = Compiled([self.translation], checked, self.files)

    def renamed(self, warning):
        "Return a warning of the emulator with the name that the kernel has in Python"
        text = re.sub(r'^(line \d+ of) \w+', rf'\1 {self.kernel}', str(warning)).replace('cpp.options', 'sim.options')
        renamed_warning = type(warning)(text)
        vars(renamed_warning).update(vars(warning))
        if 'kernel' in getattr(renamed_warning, 'fields', {}):
            renamed_warning.fields = {**renamed_warning.fields, 'kernel': self.kernel}
        return renamed_warning


_lock = threading.Lock()


def _compiled_kernel(kernel, views, args):
    memcheck, checked = checking('memcheck'), bool(settings.checks)
    known, key = (
        kernel.__dict__.setdefault('_compiled', {}),
        (tuple(map(_specialization_key, views)), memcheck, checked),
    )
    with _lock:
        if key not in known:
            known[key] = _CompiledKernel(kernel, args, memcheck, checked)
    return known[key]


def launch(kernel, grid, block, shared, args, trace=None):
    "Run a simulated kernel as compiled CUDA C; raises the findings of the detectors, with the line of Python"
    options_used = {
        'a trace': trace is not None,
        'who=True': settings.who,
        f'warps of {settings.warp}': settings.warp != 32,
    }
    if unsupported := next((option for option, is_used in options_used.items() if is_used), None):
        hint = "It needs the simulator's own engine: sim.options(engine='lanes')."
        raise NotSimulated(f"{unsupported} with engine='c'", hint, kernel=kernel.__name__)
    grid, block, _, shared, _ = configure(kernel.__name__, grid, block, shared=shared)
    py_func = kernel.py_func
    params, defaults = list(inspect.signature(py_func).parameters), py_func.__defaults__ or ()
    count_arguments(kernel.__name__, params, len(args), len(defaults))
    missing = defaults[len(defaults) - len(params) + len(args) :]
    views = convert_arguments(kernel.__name__, params, (*args, *missing))
    if any(isinstance(v, Records) for v in views):
        hint = "They need the simulator's own engine: sim.options(engine='lanes')."
        raise NotSimulated("arrays of records with engine='c'", hint, kernel=kernel.__name__)
    arrays_given = [_to_arrays(v) for v in views]
    compiled_kernel = _compiled_kernel(kernel, views, arrays_given)
    _run(compiled_kernel, views, arrays_given, grid, block, shared)


def _item_at(values, path):
    for i in path:
        values = values[i]
    return values


def _run(compiled_kernel, views, arrays_given, grid, block, shared):
    t = compiled_kernel.translation
    values = t.pack(arrays_given)
    arrays = {i: v for i, (p, v) in enumerate(zip(t.params, values)) if p.kind == 'array'}
    unwritten = {
        i: _initialized_bytes(_item_at(views, p.path), arrays[i])
        for i, p in enumerate(t.params)
        if p.kind == 'array' and _item_at(views, p.path).mem.tracks_init and checking('initcheck')
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        ok = compiled_kernel.compiled.call(0, values, arrays, unwritten, grid, block, shared)
    for w in caught if ok else ():
        warnings.warn(compiled_kernel.renamed(w.message), stacklevel=learner_stacklevel())
    for i in unwritten:
        _mark_initialized(_item_at(views, t.params[i].path), *unwritten[i], arrays[i])
    if not ok:
        raise _exception(
            compiled_kernel, {p.name: _item_at(arrays_given, p.path) for p in t.params if p.kind == 'array'}
        ) from None


def _elements_of(view, flat):
    "Return the slice of elements of the view's memory that the array `flat` covers"
    first = (address(flat) - address(view.mem.data)) // flat.itemsize
    return slice(first, first + flat.size)


def _initialized_bytes(view, flat):
    "Return (mask of the initialized bytes of `flat`, buffer for this mask after the launch)"
    initialized = np.repeat((view.mem.shadow.write_time[_elements_of(view, flat)] != 0).astype(np.uint8), flat.itemsize)
    return initialized, initialized.copy()


def _mark_initialized(view, initialized, written, flat):
    "Mark the elements that the kernel has written as initialized"
    size = flat.itemsize
    view.mem.shadow.write_time[_elements_of(view, flat)] |= written.reshape(-1, size).all(1)
