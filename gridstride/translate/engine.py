"""`sim.options(engine='c')`: runs simulated kernels as compiled CUDA C, on the emulator, with the same results.

The kernel is translated with Numba's types (`numba_types=True`), compiled once per combination of argument types, and
executed on the arrays in place. The option `checks` enables the emulator's detectors. In addition, each index is
checked against the shape of its array, because `x[t, 0]` may be in bounds of the memory but in the wrong row. Findings
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
from ..cpp.toolchain.compilers import checked_flags, common_flags, compiler, endless_loop_flags, line_flags
from ..cpp.lint.compile_errors import CompileError
from ..cpp.finding import matching_file
from ..cpp.load import device_lock, open_emulated
from ..cpp.rewriters.rewrite import to_cpp
from ..diagnostics.errors import NotSimulated, learner_stacklevel
from ..diagnostics.launch_config import configure, check_argument_count
from ..diagnostics.settings import is_check_enabled, settings
from ..sim.arguments import convert_arguments
from ..sim.memory import View
from ..sim.records import Records
from ..support.array_memory import address, byte_bounds, strided_view
from .codegen.code import PRIMARY, Code
from .codegen.expressions import ExpressionEmitter
from .kernel import translate
from .launcher import HOST_GUARD
from .lowering import Unit, convert
from .lowering.arrays import Arrays
from .tree import ONE, ZERO, Expr, add, c_index, contiguous_strides
from .tree import View as ArrayView
from .types import INT64


# The emulator's memory is separate from the host's. Arguments that overlap are copied to the same span of emulated
# memory, so that they still overlap there.
class _MemorySpan(ctypes.Structure):
    """A contiguous span of the arguments' memory: its address and size.

    If it is partly uninitialized, also two masks: the bytes that are initialized before and after the launch.
    """

    _fields_ = [
        ('host', ctypes.c_void_p),
        ('bytes', ctypes.c_size_t),
        ('itemsize', ctypes.c_size_t),
        ('initialized', ctypes.c_void_p),
        ('initialized_after', ctypes.c_void_p),
        ('device', ctypes.c_void_p),
    ]


class _LaunchArguments(ctypes.Structure):
    "The parameter of `gs_call`: an entry function, its arguments, and their memory (`gs_launch` in the prelude)"

    _fields_ = [
        ('enter', ctypes.c_void_p),
        ('args', ctypes.POINTER(ctypes.c_void_p)),
        ('config', ctypes.POINTER(ctypes.c_uint)),
        ('spans', ctypes.POINTER(_MemorySpan)),
        ('num_spans', ctypes.c_int),
        ('span_indices', ctypes.POINTER(ctypes.c_int)),
        ('offsets', ctypes.POINTER(ctypes.c_longlong)),
        ('num_args', ctypes.c_int),
    ]


def as_array(view):
    "Return a simulator's view as a NumPy array that shares its memory"
    return strided_view(view.mem.data, int(view.offset), tuple(map(int, view.shape)), view.strides)


def _to_arrays(argument):
    "Return an argument with its views as NumPy arrays"
    if isinstance(argument, tuple):
        return tuple(map(_to_arrays, argument))
    return as_array(argument) if isinstance(argument, View) else argument


def _merge_overlapping(spans):
    "Merge intervals (low, high) that overlap"
    merged_spans = []
    for low, high in sorted(spans):
        if merged_spans and low < merged_spans[-1][1]:
            merged_spans[-1] = merged_spans[-1][0], max(high, merged_spans[-1][1])
        else:
            merged_spans.append((low, high))
    return merged_spans


# Each translation is in its own namespace, with a function that takes the addresses of the kernel's arguments, so that
# several kernels can be compiled at once; nvcc can compile the same source. `#line` directives refer to the lines of
# Python for messages. Their file names contain a number instead of the real name, because the name of a notebook's
# cell differs per session, and the compilation cache is keyed on the source.


def entry_function(translation, index, kernel):
    """Return a C function that launches the kernel named `kernel` of a translation.

    `enter_<index>` takes the addresses of the arguments, then the sizes of grid and block and the bytes of shared
    memory.
    """
    types = [param.type.replace('[[maybe_unused]] ', '') for param in translation.params]
    args = ', '.join(f'*({type} *)a[{i}]' for i, type in enumerate(types))
    launch = f't{index}::{kernel}<<<dim3(c[0], c[1], c[2]), dim3(c[3], c[4], c[5]), c[6]>>>({args});'
    return f'extern "C" void enter_{index}(void **a, const unsigned *c) {{ {launch} }}'


def combine_translations(
    translations,  # a list of `Translation`
    python_files=None,  # a list, to which the Python files are appended; `#line` directives then name lines of Python
) -> str:  # CUDA C without the launchers, and `enter_0`, `enter_1`, ...
    "Return one CUDA C source that contains several translations"
    includes, namespaces = {}, []
    for index, translation in enumerate(translations):
        lines = translation.split(HOST_GUARD)[0].split('\n')
        includes.update((line, None) for line in lines if line.startswith('#include'))
        name = f'{translation.kernel}_{index}_{_digest(translation)}'  # the runtime knows kernels by name
        if python_files is not None:
            lines = _add_line_directives(lines, translation.lines, python_files)
        text = '\n'.join('' if line.startswith('#include') else line for line in lines)
        namespaces.append(
            f'namespace t{index} {{\n'
            + text.replace(f'__global__ void {translation.kernel}(', f'__global__ void {name}(')
            + f'\n}}\n{entry_function(translation, index, name)}\n'
        )
    return '\n'.join([*includes, *namespaces])


def _digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:10]


_FILE_NAME = 'kernel_{}.py'
_NO_PYTHON_LINE = '#line 1 "gridstride/cpp/include/generated.h"'  # a location outside the user's source


def _add_line_directives(lines, python_locations, python_files):
    """Return lines of C with `#line` directives.

    `python_locations`: number of a line of C -> its line of Python, or (file, line). New files are appended to
    `python_files`.
    """
    result = []
    for number, line in enumerate(lines, 1):
        if (location := python_locations.get(number)) is None:
            result += [_NO_PYTHON_LINE, line]
        else:
            file, python_line = location if isinstance(location, tuple) else (python_files[0], location)
            if file not in python_files:
                python_files.append(file)
            result += [f'#line {python_line} "{_FILE_NAME.format(python_files.index(file))}"', line]
    return result


_HEADERS = ('emulator.h',)
_PRELUDE = (
    f'#include "emulator.h"\n{_NO_PYTHON_LINE}'
    + r'''
struct gs_span {
    char *host; size_t bytes, itemsize;
    const unsigned char *initialized; unsigned char *initialized_after;
    char *device;
};
struct gs_launch {
    void (*enter)(void **, const unsigned *); void **args; const unsigned *config;
    gs_span *spans; int num_spans; const int *span_indices; const long long *offsets; int num_args;
};

static void gs_run(void *p) {
    gs_launch &l = *static_cast<gs_launch *>(p);
    for (int i = 0; i < l.num_spans; i++) {
        gs_span &p = l.spans[i];
        p.device = static_cast<char *>(gridstride::copy_in_host_array(p.host, p.bytes, p.itemsize, p.initialized));
        for (size_t a = 0, b; p.initialized && a < p.bytes; a = b) {
            for (b = a; b < p.bytes && p.initialized[b] == p.initialized[a]; b++) {}
            if (p.initialized[a]) gridstride::mark_initialized(p.device + a, b - a);
        }
    }
    for (int i = 0; i < l.num_args; i++)
        if (const int span = l.span_indices[i]; span >= 0)
            *static_cast<char **>(l.args[i]) = l.spans[span].device + l.offsets[i];
    l.enter(l.args, l.config);
    for (int i = 0; i < l.num_spans; i++)
        if (gs_span &p = l.spans[i]; p.initialized_after)
            gridstride_get_written(p.device, p.bytes, p.initialized_after);
}
extern "C" int gs_call(gs_launch *l) {
    const bool ok = gridstride::run_guarded(gs_run, l, nullptr);  // there is no host code to guard
    gridstride::copy_out_host_arrays();
    return ok ? 0 : 1;
}
// The offset of an element, with a check of its indices. Its parameters are scalars, because the detectors would check
// accesses to an array on the stack, too.
struct gs_axis {
    long long i, n, step;                  // an index, the size of its axis, the stride there
};
template <class... Axes>
static inline long long gs_at(const char *access, const char *array, int line, Axes... axes) {
    const bool inside = (... & (static_cast<unsigned long long>(axes.i) < static_cast<unsigned long long>(axes.n)));
    if (__builtin_expect(!inside, 0)) {
        const long long i[] = {axes.i...}, n[] = {axes.n...};
        gridstride::report_index_outside(access, array, i, n, sizeof...(axes), line);
    }
    return (... + (axes.i*axes.step));
}
'''
)


class CompiledTranslations:
    "One or more translations, compiled for the emulator; with `checks`, they report every access to the detectors"

    def __init__(self, translations, checks, python_files=None, flags=()):
        c, self.translations = compiler(), translations
        text = combine_translations(translations, python_files)
        source = f'{_PRELUDE}#line 1 "kernel.cu"\n{to_cpp(text)}'
        # -O1 inlines `gs_at`, which has no line of Python, so that a finding in it names a line of the kernel
        check_flags = [*checked_flags(c, text), '-O1'] if checks else []
        flags = [*common_flags(c), *line_flags(c), *endless_loop_flags(c), '-w', *check_flags, *flags]
        sources = {'kernel.cpp': source, 'kernel.cu': text}
        self.build_result = compile_module(
            sources, 'kernel', flags, _HEADERS, lambda log, command: CompileError(text, 'kernel.cu', log, command)
        )
        self.checks = checks
        emulator.load_runtime()
        self._library = open_emulated(str(self.build_result.folder / 'kernel.so'))
        self.dll = self._library.dll

    def call(self, index, values, arrays, uninitialized, grid, block, shared):
        """Launch the kernel of translation `index`; return whether the detectors found nothing.

        `values` are the arguments of the C kernel. `arrays` maps the positions of pointers to NumPy arrays;
        `uninitialized` maps the positions of uninitialized arrays to (mask of the bytes that are initialized, buffer
        for the same mask after the launch). `grid` and `block` have three sizes; `shared` is in bytes.
        """
        params = self.translations[index].params
        values_in_c = [
            ctypes.c_void_p(address(arrays[i])) if i in arrays else _as_ctypes(parameter.type, value)
            for i, (parameter, value) in enumerate(zip(params, values))
        ]
        call = _LaunchArguments(
            ctypes.cast(getattr(self.dll, f'enter_{index}'), ctypes.c_void_p),
            (ctypes.c_void_p * max(1, len(values)))(*map(ctypes.addressof, values_in_c)),
            (ctypes.c_uint * 7)(*grid, *block, shared),
            *_memory_spans(arrays, uninitialized, len(values)),
            len(values),
        )
        with device_lock:
            emulator.prepare(self.checks, settings.seconds)
            return self.dll.gs_call(ctypes.byref(call)) == 0


def _memory_spans(arrays, uninitialized, argument_count):
    "Return (spans of memory, their number, the index of each argument's span or -1, its offset in the span)"
    spans = {i: byte_bounds(array) for i, array in arrays.items()}
    merged_spans = _merge_overlapping([span for span in spans.values() if span[0] < span[1]])
    c_spans = (_MemorySpan * len(merged_spans))(*((low, high - low, 1) for low, high in merged_spans))
    span_indices = (ctypes.c_int * argument_count)(*[-1] * argument_count)
    offsets = (ctypes.c_longlong * argument_count)()
    for i, array in arrays.items():
        span_index = next((n for n, (low, high) in enumerate(merged_spans) if low <= spans[i][0] < high), -1)
        if span_index < 0:
            continue
        span_indices[i], offsets[i] = span_index, address(array) - merged_spans[span_index][0]
        c_spans[span_index].itemsize = array.itemsize
        if i in uninitialized:
            mask, written_mask = uninitialized[i]
            c_spans[span_index].initialized, c_spans[span_index].initialized_after = (
                mask.ctypes.data,
                written_mask.ctypes.data,
            )
    return c_spans, len(merged_spans), span_indices, offsets


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


def _as_ctypes(type, value):
    "Return a scalar of the C type `type` as a `ctypes` object"
    if type == '__half':
        return ctypes.c_uint16(int(np.float16(value).view(np.uint16)))
    return _CTYPES[type](value)


# With memcheck, the offset of an element is computed by a call of `gs_at`, which checks every index. All integers have
# 64 bits, as in Python, so that an index that is out of bounds does not wrap.
class CheckedArrays(Arrays):
    "Lower indices with a check: the operation `checked_offset` reports an index that is out of bounds"

    def checked_offset(self, access, view, indices, sizes, strides):
        "Return the offset of an element whose indices are checked; `access`: 'read', 'write', 'atomic' or 'access'"
        indices = [convert.bool_to_int(convert.require_number(i)) for i in indices]
        return Expr('checked_offset', INT64, [*indices, *sizes, *strides], value=(access, view.buffer.name))

    def element_index(self, node, view, indices):
        "Return the checked index of an element in C: one offset from the beginning of the memory"
        expression = super().element_index(node, view, indices)
        if None in view.sizes or not view.ndim:
            return expression
        offset = self.checked_offset(_access_kind(node), view, indices, view.sizes, view.strides)
        return [add(view.offset, add(_leading_offset(view), offset))]

    def subview(self, node, view, indices):
        "Return the subview of `view` at the given indices, each of which is checked"

        def check(i, size):
            if isinstance(i, ast.Slice) or size is None:
                return i
            return self.checked_offset('access', view, [i], [size], [ONE])

        return super().subview(node, view, [check(i, size) for i, size in zip(indices, view.sizes)])


def _access_kind(node):
    "Return the kind of the first access of a syntax node, 'read', 'write' or 'atomic'; `x[i] += 1` reads first"
    if isinstance(node, ast.Call):
        return 'atomic'
    return 'read' if isinstance(node, (ast.Subscript, ast.AugAssign)) else 'write'


def _leading_offset(view):
    "Return the offset of the row of a C array that the leading indices of a view select"
    if not view.leading_indices:
        return ZERO
    dims = view.buffer.dims
    flat_view = ArrayView(view.buffer, dims, contiguous_strides(dims))
    return c_index(flat_view, [*view.leading_indices, *[ZERO] * view.ndim])[0]


class CheckedExpressionEmitter(ExpressionEmitter):
    "Emits the offset of an element as a call to `gs_at`"

    def _expr_checked_offset(self, expr):
        "Emit the offset of an element: `gs_at` checks each index against its size, and multiplies it by its stride"
        n = len(expr.args) // 3
        args = [f'(long long)({self.convert_for_assignment(a, "long long").text})' for a in expr.args]
        axes = [f'gs_axis{{{", ".join(args[k::n])}}}' for k in range(n)]
        access, array = expr.value
        return Code(f'gs_at("{access}", "{array}", __LINE__, {", ".join(axes)})', PRIMARY, 'long long')

    def element_at(self, buffer, indices):
        "Emit an element; a single index counts from the first element of a C array of any number of dimensions"
        if buffer.dims is None or buffer.ndim == len(indices):
            return self.subscript(buffer, indices)
        return f'(&{buffer.c_name}{"[0]" * buffer.ndim})[{self.text(indices[0])}]'


class CheckedUnit(Unit):
    "A unit of translation in which every index is checked"

    arrays_class = CheckedArrays


def _index_of_offset(array, offset):
    "Return the index of the element of `array` that is `offset` elements after its lowest address"
    strides = [abs(stride) // array.itemsize for stride in array.strides]
    index = {}
    for axis in sorted(range(array.ndim), key=lambda axis: -strides[axis]):
        index[axis], offset = divmod(offset, strides[axis]) if strides[axis] else (0, offset)
    return tuple(
        array.shape[axis] - 1 - index[axis] if array.strides[axis] < 0 else index[axis] for axis in range(array.ndim)
    )


def _exception(compiled_kernel, arrays):
    "Return the exception for the emulator's last finding, with names, lines and indices of Python; `arrays`: by C name"
    finding = emulator.last_finding()
    name, index = (finding.fields.get(key) for key in ('array', 'index'))
    has_python_index = finding.code in ('outside', 'before')  # reported by `gs_at`
    if name in arrays and len(index or ()) == 1 and not has_python_index:
        finding.fields['index'] = _index_of_offset(arrays[name], index[0])
    line_directive_files = [_FILE_NAME.format(i) for i in range(len(compiled_kernel.files))]
    file_number = line_directive_files.index(matching_file(finding.file, line_directive_files))
    file = compiled_kernel.files[file_number] if finding.line else None
    finding.fields.pop('arrays', None)
    c_name, finding.kernel = finding.kernel, compiled_kernel.kernel
    finding.name_calls(
        lambda call: _call_in_python(
            call._replace(function=call.function.replace(c_name, finding.kernel)),
            compiled_kernel.files,
            line_directive_files,
        )
    )
    if finding.is_in_other_file():
        other_file = compiled_kernel.files[
            line_directive_files.index(matching_file(finding.other_file, line_directive_files))
        ]
        finding.other = finding.other._replace(
            file=other_file, source=linecache.getline(other_file, finding.other.line).strip()
        )
    finding.order_race(lambda line: linecache.getline(file, line).strip())
    source = linecache.getline(file, finding.line).strip() if finding.line else ''
    preceding_lines = (
        ''.join(linecache.getlines(file)[compiled_kernel.first_line - 1 : finding.line - 1]) if finding.line else ''
    )
    following_lines = ''.join(linecache.getlines(file)[finding.line - 1 :]) if finding.line else ''
    context = dict(preceding_lines=preceding_lines, following_lines=following_lines, call_site=_call_site(finding))
    return finding.exception('python', kernel=compiled_kernel.kernel, file=file, source=source, **context)


def _call_site(finding):
    "Return (line, source line, file) of the call in the kernel that led to the finding; None if it is in the kernel"
    calls = finding.calls
    return (calls[-1].line, calls[-1].source, calls[-1].file) if len(calls) > 1 else None


def _call_in_python(call, files, line_directive_files):
    "Return a `Call` with its Python file and source line"
    file = files[line_directive_files.index(matching_file(call.file, line_directive_files))]
    return call._replace(file=file, source=linecache.getline(file, call.line).strip())


def _specialization_key(argument):
    "Return the type and layout of an argument, for which kernels are specialized"
    if isinstance(argument, tuple):
        return tuple(map(_specialization_key, argument))
    if isinstance(argument, View):
        strides = None if _is_contiguous(argument) else tuple(map(int, argument.strides))
        return argument.dtype.str, argument.ndim, strides
    return type(argument)


def _is_contiguous(view):
    expected = 1
    for size, stride in zip(reversed(view.shape), reversed(view.strides)):
        if size != 1 and stride != expected:
            return False
        expected *= int(size)
    return True


class _CompiledKernel:
    "A kernel, compiled for arguments of certain types and layouts"

    def __init__(self, kernel, args, memcheck, checks):
        self.kernel = kernel.__name__
        self.files = [inspect.getsourcefile(kernel.py_func) or kernel.py_func.__code__.co_filename]
        self.first_line = kernel.py_func.__code__.co_firstlineno
        unit_class, emitter_class = (CheckedUnit, CheckedExpressionEmitter) if memcheck else (Unit, ExpressionEmitter)
        self.translation = translate(kernel, args, unit_class(numba_types=True, all_int64=memcheck), emitter_class)
        if 'this_grid().sync()' in self.translation:
            raise NotSimulated(
                "engine='c' does not support grid barriers",
                "They need the simulator's own engine: sim.options(engine='lanes').",
                kernel=self.kernel,
            )
        self.compiled_translations = CompiledTranslations([self.translation], checks, self.files)

    def rename_kernel(self, warning):
        "Return a warning of the emulator that names the kernel as in Python"
        text = re.sub(r'^(line \d+ of) \w+', rf'\1 {self.kernel}', str(warning)).replace('cpp.options', 'sim.options')
        renamed_warning = type(warning)(text)
        vars(renamed_warning).update(vars(warning))
        if 'kernel' in getattr(renamed_warning, 'fields', {}):
            renamed_warning.fields = {**renamed_warning.fields, 'kernel': self.kernel}
        return renamed_warning


_lock = threading.Lock()


def _compile(kernel, views, args):
    "Return the `_CompiledKernel` for arguments, from the cache of the kernel if it has one"
    memcheck, checks = is_check_enabled('memcheck'), bool(settings.checks)
    cache = kernel.__dict__.setdefault('_compiled', {})
    key = tuple(map(_specialization_key, views)), memcheck, checks
    with _lock:
        if key not in cache:
            cache[key] = _CompiledKernel(kernel, args, memcheck, checks)
    return cache[key]


def launch(kernel, grid, block, shared, args, trace=None):
    "Launch a simulated kernel as compiled CUDA C; raise a finding of the detectors with its line of Python"
    options_used = {
        'a trace': trace is not None,
        'label_prints=True': settings.label_prints,
        f'warps of {settings.warp}': settings.warp != 32,
    }
    if unsupported := next((option for option, is_used in options_used.items() if is_used), None):
        hint = "It needs the simulator's own engine: sim.options(engine='lanes')."
        raise NotSimulated(f"engine='c' does not support {unsupported}", hint, kernel=kernel.__name__)
    grid, block, _, shared, _ = configure(kernel.__name__, grid, block, shared=shared)
    py_func = kernel.py_func
    params, defaults = list(inspect.signature(py_func).parameters), py_func.__defaults__ or ()
    check_argument_count(kernel.__name__, params, len(args), len(defaults))
    defaults_used = defaults[len(defaults) - len(params) + len(args) :]
    views = convert_arguments(kernel.__name__, params, (*args, *defaults_used))
    if any(isinstance(v, Records) for v in views):
        hint = "They need the simulator's own engine: sim.options(engine='lanes')."
        raise NotSimulated("engine='c' does not support arrays of records", hint, kernel=kernel.__name__)
    args_as_arrays = [_to_arrays(v) for v in views]
    compiled_kernel = _compile(kernel, views, args_as_arrays)
    _run(compiled_kernel, views, args_as_arrays, grid, block, shared)


def _item_at(values, path):
    "Return the item of nested tuples at the indices in `path`"
    for i in path:
        values = values[i]
    return values


def _run(compiled_kernel, views, args, grid, block, shared):
    "Launch a compiled kernel on `args`, which are `views` as NumPy arrays; forward its warnings, raise its finding"
    params = compiled_kernel.translation.params
    values = compiled_kernel.translation.pack(args)
    arrays = {i: value for i, (param, value) in enumerate(zip(params, values)) if param.kind == 'array'}
    uninitialized = {
        i: _initialized_masks(_item_at(views, params[i].path), array)
        for i, array in arrays.items()
        if _item_at(views, params[i].path).mem.tracks_init and is_check_enabled('initcheck')
    }
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter('always')
        has_no_findings = compiled_kernel.compiled_translations.call(
            0, values, arrays, uninitialized, grid, block, shared
        )
    for warning in caught_warnings if has_no_findings else ():
        warnings.warn(compiled_kernel.rename_kernel(warning.message), stacklevel=learner_stacklevel())
    for i, (_, written_mask) in uninitialized.items():
        _mark_initialized(_item_at(views, params[i].path), written_mask, arrays[i])
    if not has_no_findings:
        arrays_by_name = {param.name: _item_at(args, param.path) for param in params if param.kind == 'array'}
        raise _exception(compiled_kernel, arrays_by_name) from None


def _elements_of(view, flat):
    "Return the slice of the view's memory that the array `flat` covers, in elements"
    first = (address(flat) - address(view.mem.data)) // flat.itemsize
    return slice(first, first + flat.size)


def _initialized_masks(view, flat):
    "Return (mask of the initialized bytes of `flat`, buffer for the same mask after the launch)"
    initialized = np.repeat((view.mem.shadow.write_time[_elements_of(view, flat)] != 0).astype(np.uint8), flat.itemsize)
    return initialized, initialized.copy()


def _mark_initialized(view, mask, flat):
    "Mark the elements of `flat` as initialized whose bytes are all in `mask`"
    view.mem.shadow.write_time[_elements_of(view, flat)] |= mask.reshape(-1, flat.itemsize).all(1)
