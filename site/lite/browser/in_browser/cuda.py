"""CUDA C in the browser: Clang, as WebAssembly, compiles it, and the module runs with the emulator's runtime next to
Python; each has its own memory. A call copies its tensors there and back.

`gridstride.cpp` rewrites sources and describes findings as elsewhere; `install` replaces the functions that compile
and load them: JavaScript does both (cuda/cuda.js).
"""

import ctypes, hashlib, json
from pathlib import Path

import numpy as np
import torch
from pyodide.code import run_js
from pyodide.ffi import can_run_sync, create_proxy, run_sync, to_js

from gridstride.cpp import emulator, kernel, load, program, values
from gridstride.cpp.frontend.edits import NotEmulated
from gridstride.cpp.finding import CFinding, RuntimeFinding
from gridstride.cpp.lint import unsupported_api
from gridstride.cpp.lint.compile_errors import WARNINGS
from gridstride.cpp.toolchain import build, compilers
from gridstride.cpp.toolchain.cache import BuildResult
from gridstride.support.array_memory import owner

MISSING = (
    'CUDA C needs a browser that can suspend stacks of WebAssembly (JSPI): Chrome or Edge from version 137, or Firefox '
    'from 153'
)
RUN_LOCALLY = 'run this program with Python on your machine, after pip install gridstride'
FOLDER = Path('/tmp/gridstride')  # of compiled modules
_MAX_RESULT_WORDS = 1 << 13  # how much of a result, whose length is not known, is copied; a longer text is truncated
_NON_NUMPY_ITEMSIZES = dict(bfloat16=2, float8_e5m2=1, float8_e4m3fn=1)  # of types that NumPy lacks
_ITEMSIZES = {code: _NON_NUMPY_ITEMSIZES.get(name) or np.dtype(name).itemsize for name, code in values._DTYPES.items()}
_PROCESS_FUNCTIONS = r'v?fork|waitpid|exec[lv]\w*|popen|system|sys/wait\.h'  # functions and headers
_javascript = None  # the module cuda/cuda.js


def javascript():
    "Return the module cuda.js, loaded once; raises `RuntimeError` in a browser that cannot run it"
    global _javascript
    if not can_run_sync():
        raise RuntimeError(MISSING)
    _javascript = _javascript or run_sync(run_js('import(self.gridstrideCuda)'))
    return _javascript


def prepare():
    "Download and start the compiler, if that has not been done"
    run_sync(javascript().prepare())


# Compiling


def emulated_flags(c, src, checks):
    "Return the flags that `build.emulated_flags` adds to those of cuda/compile.js"
    has_vectors = checks and compilers.uses_vector_types(src)
    alignment = ['-Xclang', '-fsanitize=alignment', '-Xclang', '-fsanitize-recover=alignment'] if has_vectors else []
    warnings = [f'-W{warning}' for warning in (*WARNINGS, 'vla')]
    return ['-DGRIDSTRIDE_WITHOUT_AT', *warnings, *alignment, f'checks={checks}']


def compile_module(
    sources, name, flags, headers_first, fail, warn=None, key_parts=(), extra_units=(), host_only_files=()
) -> BuildResult:  # with `name.wasm` in its folder
    "Compile C++ as `build.compile_module` does, into a module of WebAssembly"
    flags, is_checked = [f for f in flags if not f.startswith('checks=')], 'checks=True' in flags
    key = json.dumps([sources, name, flags, is_checked, headers_first, extra_units])
    folder = FOLDER / hashlib.sha256(key.encode()).hexdigest()[:20]
    module, log = folder / f'{name}.wasm', folder / 'log.txt'
    if not (is_cached := module.exists()):
        headers = 'tensor' if headers_first == build.HEADERS else 'kernel'
        options = to_js([name, *extra_units]), is_checked, to_js(flags), headers
        result = run_sync(javascript().compile(json.dumps(sources), *options))
        if result.status:
            raise fail(result.log, ['clang++', *flags])
        for file, text in sources.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text)
        log.write_text(result.log)
        module.write_bytes(result.wasm.to_bytes())
    if warn:
        warn(log.read_text())
    return BuildResult(folder, [['clang++', *flags]], 0.0, is_cached)


# Calling


class _Runtime:
    "The functions of the runtime that `emulator` calls: they store the options of the next call and the last finding"

    options, swaps, allowed_findings, finding = None, 1 << 30, '', None

    def gridstride_set_options(self, reference):
        self.options = reference._obj

    def gridstride_limit_swaps(self, swaps):
        self.swaps = swaps

    def gridstride_allow_findings(self, lines):
        self.allowed_findings = lines.decode()

    def gridstride_set_module_folder(self, folder):
        "Do nothing: programs load no modules here"

    def gridstride_finding(self):
        return ctypes.pointer(self.finding)

    def __getattr__(self, name):
        if not name.startswith('gridstride_'):
            raise AttributeError(name)
        raise NotEmulated(f'a browser has one emulated device, and no reports of coverage: {RUN_LOCALLY}')


_runtime = _Runtime()


class _Block:
    """Python's memory that is copied to the module's memory for the duration of a call.

    There it begins `offset` bytes after a multiple of `ALIGNMENT`, so that misaligned accesses are detected."""

    ALIGNMENT = 64

    def __init__(self, program, begin, end, offset):
        self.begin, self.end, self.program = begin, end, program
        self.allocated = program.allocate(end - begin + self.ALIGNMENT)
        self.address = self.allocated + (offset - self.allocated) % self.ALIGNMENT
        self.copy_in()

    def _views(self):
        n = self.end - self.begin
        return self.program.bytes(self.address, n), (ctypes.c_char * n).from_address(self.begin)

    def copy_in(self):
        module_bytes, python_bytes = self._views()
        module_bytes.assign(python_bytes)

    def copy_out(self):
        module_bytes, python_bytes = self._views()
        module_bytes.assign_to(python_bytes)


def _offset(id_):
    """Return the offset of an array from the start of its memory, in bytes.

    The start counts as aligned: NumPy allocates at multiples of 8 bytes here, and of 16 elsewhere."""
    array = ctypes.cast(int(id_), ctypes.py_object).value
    return array.ctypes.data - owner(array).ctypes.data


def _tensors(words):
    "Yield (position of the address, begin, end, offset) of each tensor with elements in packed words"
    i = 0
    while i < len(words):
        kind = int(words[i])
        if kind == values.TENSOR:
            n = int(words[i + 6])
            sizes, strides = words[i + 7 : i + 7 + n], words[i + 7 + n : i + 7 + 2 * n]
            if address := int(words[i + 2]):
                last = sum((int(size) - 1) * int(stride) for size, stride in zip(sizes, strides))
                yield i + 2, address, address + (last + 1) * _ITEMSIZES[int(words[i + 3])], _offset(words[i + 1])
            i += 7 + 2 * n
        elif kind == values.STRING:
            i += 2 + (int(words[i + 1]) + 7) // 8
        else:
            i += {values.NONE: 1, values.DEVICE: 3}.get(kind, 2)  # a list is followed by its items


class _Blocks:
    "The memory that a call shares with a module"

    def __init__(self, program):
        self.program, self.blocks = program, []

    def share(self, words) -> np.ndarray:  # with the module's addresses
        "Copy the tensors of packed words to the module's memory; tensors that overlap are copied as one block"
        words = np.frombuffer(words, np.int64).copy()
        tensors = list(_tensors(words))
        offsets = {begin: offset for _, begin, _, offset in tensors}
        for begin, end in _merge([(begin, end) for _, begin, end, _ in tensors]):
            if not any(b.begin <= begin and end <= b.end for b in self.blocks):
                self.blocks.append(_Block(self.program, begin, end, offsets[begin]))
        for i, begin, end, _ in tensors:
            block = next(b for b in reversed(self.blocks) if b.begin <= begin and end <= b.end)
            words[i] = block.address + begin - block.begin
        return words

    def copy_in(self):
        for block in self.blocks:
            block.copy_in()

    def copy_out(self):
        for block in self.blocks:
            block.copy_out()

    def free(self):
        for block in self.blocks:
            self.program.release(block.allocated)


def _merge(ranges):
    "Yield the union of ranges, as ranges that do not overlap"
    current = None
    for begin, end in sorted(ranges):
        if current and begin < current[1]:
            current = current[0], max(end, current[1])
            continue
        if current:
            yield current
        current = begin, end
    if current:
        yield current


class BrowserModule(load.EmulatorModule):
    "A module of WebAssembly; its functions are called as those of a shared library"

    def __init__(self, build_result, name, declarations, checks, src=None):
        self.build_result, self.src, self.__name__, self.checks = build_result, src, name, checks
        self.build_directory = str(build_result.folder)
        self.__file__ = str(build_result.folder / f'{name}.wasm')
        self.seconds, self.cached, self.command = build_result.seconds, build_result.cached, 'clang++'
        self.emulated, self._shared, self._failure = True, [], None
        self._finding_of_thread = load.threading.local()
        callbacks = dict(print=emulator.print_text, warn=_warn, ask=self._ask)
        callbacks |= dict(retain=values._incref, release=values._decref)
        proxies = {name: create_proxy(f) for name, f in callbacks.items()}
        self.program = run_sync(javascript().open(to_js(Path(self.__file__).read_bytes()), _to_object(proxies)))
        functions, kernels = {}, {}
        for exported in self.program.exported():
            exported_function = _Exported(exported)
            f = values.Function(exported_function, self, (declarations or {}).get(exported.name))
            (kernels if exported.isKernel else functions)[f.__name__] = f
        self.functions, self.kernels = dict(reversed(functions.items())), dict(reversed(kernels.items()))
        self.__dict__.update(self.functions)

    def call(self, entry, call):
        with load.device_lock:
            emulator.prepare(self.checks, sources=self.sources)
            code = self._call(entry, call)
            if code == values.FINDING:
                _runtime.finding = CFinding.from_buffer_copy(self.program.finding().to_bytes())
                self._finding_of_thread.error = emulator.last_exception(self.sources())
            else:
                emulator.raise_pending_error()
            return code

    def _call(self, entry, call):
        blocks = _Blocks(self.program)
        options = to_js(memoryview(bytes(_runtime.options)))
        self.program.setOptions(options, _runtime.swaps, _runtime.allowed_findings)
        self._shared.append(blocks)
        packed = call._objects['0']  # of its first field, `args`
        address = self._copy_words(blocks.share(packed))
        launch = dict(grid=[*call.grid], block=[*call.block], shared=call.shared, cluster=[*call.cluster])
        launch['largeClusters'] = call.large_clusters
        try:
            result = run_sync(self.program.call(entry, address, call.n, _to_object(launch)))
            blocks.copy_out()
            if result.result:
                call.kept = self._words_at(result.result)
                call.result = ctypes.cast(call.kept, ctypes.POINTER(ctypes.c_int64))
            call.message = result.message.encode() if result.message else None
            call.argument = result.argument
            if result.code == values.PYTHON_ERROR:
                values._last_operation.error, self._failure = self._failure, None
            return result.code
        finally:
            self._shared.pop()
            blocks.free()
            self.program.release(address)

    def _copy_words(self, words):
        "Copy words to the module's memory; returns their address"
        return self.program.copyIn(to_js(memoryview(words.tobytes())))

    def _words_at(self, address):
        "Copy words of the module's memory"
        words = (ctypes.c_int64 * _MAX_RESULT_WORDS)()
        module_bytes = self.program.bytes(address, ctypes.sizeof(words))
        module_bytes.assign_to((ctypes.c_char * module_bytes.length).from_buffer(words))
        return words

    def _ask(self, operation, address, n, result_address):
        "Run an operation of Python for C++, as `values._callback` does"
        blocks = self._shared[-1]
        blocks.copy_out()
        words = self._words_at(address)
        kept = ctypes.cast(words, ctypes.POINTER(ctypes.c_int64))
        name = ctypes.c_char_p(self.program.string(operation).encode())
        result = ctypes.c_void_p()
        if values._callback(name, kept, n, ctypes.byref(result)):
            # a callback has its own thread state, and so other thread-local variables
            self._failure = values._last_operation.__dict__.pop('error')
            return 1
        result_words = self._copy_words(blocks.share(values._last_operation.result_words))
        blocks.copy_in()
        self.program.setPointer(result_address, result_words)
        return 0


class _Exported:
    "An exported function, with the attributes of `values._ExportedFunction`"

    def __init__(self, exported):
        self.name, self.call, self.types = exported.name.encode(), exported.call, exported.types.encode
        self.kernel = exported.isKernel


def _to_object(values):
    return to_js(values, dict_converter=run_js('Object.fromEntries'))


def _warn(finding):
    emulator.warn_of_finding(RuntimeFinding(CFinding.from_buffer_copy(finding.to_bytes())))


def _no_native_compiler(c):
    "Raise `CompilerMissing`: this compiler generates WebAssembly only"
    raise compilers.CompilerMissing("engine='c' needs a C++ compiler for this CPU, which a browser lacks")


def install():
    "Let `gridstride.cpp` compile and run CUDA C here"
    clang = compilers.Compiler('clang++', 'clang', 22, 'clang as WebAssembly')
    build.compiler = compilers.compiler = lambda: clang
    build.compile_module, build.emulated_flags = compile_module, emulated_flags
    compilers.common_flags = _no_native_compiler
    build.files_used_by = lambda *_: set()
    unsupported_api.absent_from_platform[_PROCESS_FUNCTIONS] = f'a browser has no processes: {RUN_LOCALLY}'
    emulator.load_runtime = lambda: _runtime
    values._PACK[torch.Tensor] = values._pack_array
    for module in (load, kernel, program):
        module.EmulatorModule = BrowserModule
