"""`sim.options(engine='c')`: simulated kernels run as compiled CUDA C, on the emulator, and mean what they mean.

The kernel is translated with Numba's types (`doubles=True`), compiled once per combination of argument types, and
run on the arrays in place. The emulator's detectors are enabled as the option `checks` says; the
index of every access is checked against the shape of its array, since the address alone does not show that
`x[t,0]` is in another row than it should be. What is found names the line of Python. A kernel that cannot
be translated raises; nothing falls back to another engine unseen.
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
from ..cpp.load import one_at_a_time, open_emulated
from ..cpp.rewriters.rewrite import to_cpp
from ..diagnostics.errors import NotSimulated, learner_stacklevel
from ..diagnostics.launch_config import configure, count_arguments
from ..diagnostics.settings import checking, settings
from ..sim.arguments import arguments
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


# The emulator's memory is apart from the host's. What the arguments cover together is one piece of it, so
# that arrays that share memory still do.
class _Piece(ctypes.Structure):
    """Memory of arguments: where it is, and how many bytes.

    For uninitialized memory also which bytes are known and, after the launch, written.
    """

    _fields_ = [
        ('host', ctypes.c_void_p),
        ('bytes', ctypes.c_size_t),
        ('itemsize', ctypes.c_size_t),
        ('known', ctypes.c_void_p),
        ('written', ctypes.c_void_p),
        ('device', ctypes.c_void_p),
    ]


class _Call(ctypes.Structure):
    "A launch, as `gs_launch` in the prelude has it: the entry, its arguments, and the memory that they point to"

    _fields_ = [
        ('enter', ctypes.c_void_p),
        ('args', ctypes.POINTER(ctypes.c_void_p)),
        ('config', ctypes.POINTER(ctypes.c_uint)),
        ('pieces', ctypes.POINTER(_Piece)),
        ('npieces', ctypes.c_int),
        ('piece_of', ctypes.POINTER(ctypes.c_int)),
        ('offsets', ctypes.POINTER(ctypes.c_longlong)),
        ('nargs', ctypes.c_int),
    ]


def as_array(v):
    "Return a simulator's view as a NumPy array that shares its memory"
    return part(v.mem.data, int(v.offset), tuple(map(int, v.shape)), v.strides)


def _views(v):
    return [view for p in v for view in _views(p)] if isinstance(v, tuple) else [v] if isinstance(v, View) else []


def _to_arrays(v):
    return tuple(map(_to_arrays, v)) if isinstance(v, tuple) else as_array(v) if isinstance(v, View) else v


def _join(spans):
    "Join spans that overlap"
    res = []
    for lo, hi in sorted(spans):
        if res and lo < res[-1][1]:
            res[-1] = res[-1][0], max(hi, res[-1][1])
        else:
            res.append((lo, hi))
    return res


# Each translation is in a namespace of its own, with a function that takes the addresses of the kernel's
# arguments; the same text is CUDA C for nvcc, and several kernels make one compilation. For messages, lines
# that come from Python have a `#line`, with a number as the name of the file: a notebook's cells have other
# names each time, and the cache must find what was compiled.
_HOST = '#ifndef __CUDACC_RTC__  // what follows is for the host'


def entry(t, n, name):
    """A C function that launches the kernel `name` of the translation `t`.

    `enter_n` takes the addresses of the arguments, then six sizes and the bytes of shared memory.
    """
    args = ', '.join(f"*({p.type.replace('[[maybe_unused]] ', '')} *)a[{i}]" for i, p in enumerate(t.params))
    sizes = 'dim3(c[0], c[1], c[2]), dim3(c[3], c[4], c[5]), c[6]'
    return f'extern "C" void enter_{n}(void **a, const unsigned *c) {{ t{n}::{name}<<<{sizes}>>>({args}); }}'


def together(
    translations,  # what `to_cuda` made
    marked=None,  # files: lines of Python instead of those of C
) -> str:  # CUDA C without the launchers, and `enter_0`, `enter_1`, ...
    "Return one source of several translations"
    heads, parts = {}, []
    for n, t in enumerate(translations):
        lines = t.split(_HOST)[0].split('\n')
        heads.update((l, None) for l in lines if l.startswith('#include'))
        name = f'{t.kernel}_{n}_{_digest(t)}'  # the runtime knows kernels by name
        body = _mark(lines, t.lines, marked) if marked is not None else lines
        text = '\n'.join('' if l.startswith('#include') else l for l in body)
        parts.append(
            f'namespace t{n} {{\n'
            + text.replace(f'__global__ void {t.kernel}(', f'__global__ void {name}(')
            + f'\n}}\n{entry(t, n, name)}\n'
        )
    return '\n'.join([*heads, *parts])


def _digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:10]


_FILE = 'kernel_{}.py'
_UNSEEN = '#line 1 "gridstride/cpp/include/made.h"'  # a location that is not the learner's


def _mark(lines, where, files):
    "`lines` with directives that say where each comes from"
    res = []
    for n, l in enumerate(lines, 1):
        if (w := where.get(n)) is None:
            res += [_UNSEEN, l]
        else:
            file, line = w if isinstance(w, tuple) else (files[0], w)
            if file not in files:
                files.append(file)
            res += [f'#line {line} "{_FILE.format(files.index(file))}"', l]
    return res


_HEADERS = ('emulator.h',)
_PRELUDE = (
    f'#include "emulator.h"\n{_UNSEEN}'
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
    "Translations, compiled for the emulator; `checks`: report every access to the detectors?"

    def __init__(self, translations, checks, files=None, flags=()):
        c, self.translations = compiler(), translations
        text = together(translations, files)
        source = f'{_PRELUDE}#line 1 "kernel.cu"\n{to_cpp(text)}'
        # -O1 makes what a kernel calls for an index a part of it: code elsewhere would have no line of its own
        look = [*checked_flags(c, text), '-O1'] if checks else []
        flags = [*common_flags(c), *line_flags(c), *endless_flags(c), '-w', *look, *flags]
        sources = {'kernel.cpp': source, 'kernel.cu': text}
        self.built = compile_module(
            sources, 'kernel', flags, _HEADERS, lambda log, command: CompileError(text, 'kernel.cu', log, command)
        )
        self.checks = checks
        emulator.device()
        self._opened = open_emulated(str(self.built.folder / 'kernel.so'))
        self.dll = self._opened.dll

    def call(self, n, values, arrays, fresh, grid, block, shared):
        """Run translation `n`; return whether the detectors found nothing.

        `values`: the C kernel's arguments in order; `arrays`: for those that are arrays, by their number, the array
        whose first element is meant; `fresh`: for uninitialized arrays, by their number, (which bytes are known, where
        to note those that are after the launch). `grid`, `block`: three sizes each; `shared`: bytes.
        """
        params = self.translations[n].params
        holders = [
            ctypes.c_void_p(address(arrays[i])) if i in arrays else _hold(p.type, v)
            for i, (p, v) in enumerate(zip(params, values))
        ]
        call = _Call(
            ctypes.cast(getattr(self.dll, f'enter_{n}'), ctypes.c_void_p),
            (ctypes.c_void_p * max(1, len(values)))(*map(ctypes.addressof, holders)),
            (ctypes.c_uint * 7)(*grid, *block, shared),
            *_memory(arrays, fresh, len(values)),
            len(values),
        )
        with one_at_a_time:
            emulator.prepare(self.checks, settings.seconds)
            return self.dll.gs_call(ctypes.byref(call)) == 0


def _memory(arrays, fresh, n):
    "Return (pieces of memory, how many; the piece of each of `n` arguments, -1 for none, and the offset there)"
    spans = {i: byte_bounds(a) for i, a in arrays.items()}
    areas = _join([s for s in spans.values() if s[0] < s[1]])
    pieces = (_Piece * len(areas))(*((lo, hi - lo, 1) for lo, hi in areas))
    piece_of, offsets = (ctypes.c_int * n)(*[-1] * n), (ctypes.c_longlong * n)()
    for i, a in arrays.items():
        k = next((k for k, (lo, hi) in enumerate(areas) if lo <= spans[i][0] < hi), -1)
        if k < 0:
            continue
        piece_of[i], offsets[i] = k, address(a) - areas[k][0]
        pieces[k].itemsize = a.itemsize
        if i in fresh:
            pieces[k].known, pieces[k].written = (mask.ctypes.data for mask in fresh[i])
    return pieces, len(areas), piece_of, offsets


_HOLD = {
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


def _hold(type, v):
    "Return a scalar as a `ctypes` object, whose address C gets"
    if type == '__half':
        return ctypes.c_uint16(int(np.float16(v).view(np.uint16)))
    return _HOLD[type](v)


# In the translation for the engine the address of an element is a call that checks every index. All
# integers have 64 bits there, as they have in Python.
class CheckedArrays(Arrays):
    "Compute the address of an element by the operation `inside`, which stops at an index that is out of bounds"

    def inside(self, access, view, idx, sizes, strides):
        "Return the address of the element `idx`, checked against the sizes; `access`: what is done there"
        idx = [convert.as_number(convert.need_number(i)) for i in idx]
        return Expr('inside', INT, [*idx, *sizes, *strides], value=(access, view.memory.name))

    def element_index(self, node, view, idx):
        "Return one index, which is checked"
        at = super().element_index(node, view, idx)
        if None in view.sizes or not view.ndim:
            return at
        address = self.inside(_access_of(node), view, idx, view.sizes, view.strides)
        return [add(view.offset, add(_lead(view), address))]

    def subview(self, node, view, idx):
        "Return the part of `view` at indices that are checked one by one"

        def check(i, n):
            return i if isinstance(i, ast.Slice) or n is None else self.inside('access', view, [i], [n], [ONE])

        return super().subview(node, view, [check(i, n) for i, n in zip(idx, view.sizes)])


def _access_of(node):
    "What a syntax node does with an element; `x[i] += 1` reads first"
    if isinstance(node, ast.Call):
        return 'atomic'
    return 'read' if isinstance(node, (ast.Subscript, ast.AugAssign)) else 'write'


def _lead(view):
    "Return the address of the part of a C array that a view's first indices select"
    if not view.lead:
        return ZERO
    dims = view.memory.dims
    return index(Part(view.memory, dims, row_strides(dims)), [*view.lead, *[ZERO] * view.ndim])[0]


class CheckedExpressions(Expressions):
    "Write the address of an element as `gs_at(...)`"

    def _expr_inside(self, e):
        "Write an index that `gs_at` checks against sizes, and multiplies by strides"
        n = len(e.args) // 3
        args = [f'(long long)({self.fit(a, "long long").text})' for a in e.args]
        axes = [f'gs_axis{{{", ".join(args[k::n])}}}' for k in range(n)]
        access, array = e.value
        return Text(f'gs_at("{access}", "{array}", __LINE__, {", ".join(axes)})', PRIMARY, 'long long')

    def element_at(self, memory, idx):
        "Write the element at an index that counts from the first element of all"
        if memory.dims is None or memory.ndim == len(idx):
            return self.row(memory, idx)
        return f'(&{memory.c_name}{"[0]" * memory.ndim})[{self.text(idx[0])}]'


class CheckedUnit(Unit):
    "Unit of translation whose indices are checked"

    arrays = CheckedArrays


def _unravel(a, at):
    "Return the index of the element that is `at` elements after the first byte of the memory of the array `a`"
    steps = [abs(s) // a.itemsize for s in a.strides]
    res = {}
    for d in sorted(range(a.ndim), key=lambda d: -steps[d]):
        res[d], at = divmod(at, steps[d]) if steps[d] else (0, at)
    return tuple(a.shape[d] - 1 - res[d] if a.strides[d] < 0 else res[d] for d in range(a.ndim))


def _exception(made, arrays):
    "Return the exception for what the emulator found; `arrays`: the NumPy arrays by their names in C"
    f = emulator.last_finding()
    name, at = (f.fields.get(key) for key in ('array', 'index'))
    if name in arrays and len(at or ()) == 1 and f.code not in ('outside', 'before'):  # which `gs_at` reports itself
        f.fields['index'] = _unravel(arrays[name], at[0])
    numbered = [_FILE.format(i) for i in range(len(made.files))]
    file = made.files[numbered.index(file_among(f.file, numbered))] if f.line else None
    f.fields.pop('arrays', None)
    in_c, f.kernel = f.kernel, made.kernel
    f.name_calls(lambda c: _shown_call(c._replace(function=c.function.replace(in_c, f.kernel)), made.files, numbered))
    if f.is_apart():
        there = made.files[numbered.index(file_among(f.other_file, numbered))]
        f.other = f.other._replace(file=there, source=linecache.getline(there, f.other.line).strip())
    f.order_race(lambda n: linecache.getline(file, n).strip())
    source = linecache.getline(file, f.line).strip() if f.line else ''
    above = ''.join(linecache.getlines(file)[made.first - 1 : f.line - 1]) if f.line else ''
    onward = ''.join(linecache.getlines(file)[f.line - 1 :]) if f.line else ''
    around = dict(above=above, onward=onward, called=_called(f))
    return f.exception('python', kernel=made.kernel, file=file, source=source, **around)


def _called(found):
    "(line, its text, its file) of the kernel's own line that led to what was found in another function"
    calls = found.calls
    return (calls[-1].line, calls[-1].source, calls[-1].file) if len(calls) > 1 else None


def _shown_call(call, files, numbered):
    "A `Call` in the Python file that it is in, with the text of its line"
    file = files[numbered.index(file_among(call.file, numbered))]
    return call._replace(file=file, source=linecache.getline(file, call.line).strip())


def _kind(a):
    "Return what a translation depends on: types and layouts, and whether an integer is a large one"
    if isinstance(a, tuple):
        return tuple(map(_kind, a))
    if isinstance(a, View):
        return a.dtype.str, a.ndim, tuple(map(int, a.strides)) if not _contiguous(a) else None
    return type(a)


def _contiguous(v):
    n = 1
    for size, s in zip(reversed(v.shape), reversed(v.strides)):
        if size != 1 and s != n:
            return False
        n *= int(size)
    return True


class _Made:
    "Kernel, compiled for arguments of some kinds"

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
        new = type(warning)(text)
        vars(new).update(vars(warning))
        if 'kernel' in getattr(new, 'fields', {}):
            new.fields = {**new.fields, 'kernel': self.kernel}
        return new


_lock = threading.Lock()


def _get_made(kernel, views, args):
    memcheck, checked = checking('memcheck'), bool(settings.checks)
    known, key = kernel.__dict__.setdefault('_compiled', {}), (tuple(map(_kind, views)), memcheck, checked)
    with _lock:
        if key not in known:
            known[key] = _Made(kernel, args, memcheck, checked)
    return known[key]


def launch(kernel, grid, block, shared, args, trace=None):
    "Run a simulated kernel as compiled CUDA C; raise what the detectors find, with the line of Python"
    asked = {'a trace': trace is not None, 'who=True': settings.who, f'warps of {settings.warp}': settings.warp != 32}
    if what := next((operand for operand, is_so in asked.items() if is_so), None):
        hint = "It needs the simulator's own engine: sim.options(engine='lanes')."
        raise NotSimulated(f"{what} with engine='c'", hint, kernel=kernel.__name__)
    grid, block, _, shared, _ = configure(kernel.__name__, grid, block, shared=shared)
    f = kernel.py_func
    params, defaults = list(inspect.signature(f).parameters), f.__defaults__ or ()
    count_arguments(kernel.__name__, params, len(args), len(defaults))
    missing = defaults[len(defaults) - len(params) + len(args) :]
    views = arguments(kernel.__name__, params, (*args, *missing))
    if any(isinstance(v, Records) for v in views):
        hint = "They need the simulator's own engine: sim.options(engine='lanes')."
        raise NotSimulated("arrays of records with engine='c'", hint, kernel=kernel.__name__)
    given = [_to_arrays(v) for v in views]
    made = _get_made(kernel, views, given)
    _run(made, views, given, grid, block, shared)


def _at(values, path):
    for i in path:
        values = values[i]
    return values


def _run(made, views, given, grid, block, shared):
    t = made.translation
    values = t.pack(given)
    arrays = {i: v for i, (p, v) in enumerate(zip(t.params, values)) if p.kind == 'array'}
    unwritten = {
        i: _bytes(_at(views, p.path), arrays[i])
        for i, p in enumerate(t.params)
        if p.kind == 'array' and _at(views, p.path).mem.tracks_init and checking('initcheck')
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        ok = made.compiled.call(0, values, arrays, unwritten, grid, block, shared)
    for w in caught if ok else ():
        warnings.warn(made.renamed(w.message), stacklevel=learner_stacklevel())
    for i in unwritten:
        _note(_at(views, t.params[i].path), *unwritten[i], arrays[i])
    if not ok:
        raise _exception(made, {p.name: _at(given, p.path) for p in t.params if p.kind == 'array'}) from None


def _elements_of(v, flat):
    "Return the slice of elements of the view's memory that the array `flat` covers"
    first = (address(flat) - address(v.mem.data)) // flat.itemsize
    return slice(first, first + flat.size)


def _bytes(v, flat):
    "Return which bytes of `flat` are initialized, and a buffer for which of them are after the launch"
    known = np.repeat((v.mem.shadow.write_time[_elements_of(v, flat)] != 0).astype(np.uint8), flat.itemsize)
    return known, known.copy()


def _note(v, known, written, flat):
    "Note that elements that the kernel has written are initialized"
    size = flat.itemsize
    v.mem.shadow.write_time[_elements_of(v, flat)] |= written.reshape(-1, size).all(1)
