"""`Rung`, a step of a ladder: a GEMM kernel with its source and constants, called like a function."""

import inspect
import re
from functools import cached_property, lru_cache
from typing import NamedTuple

from ...cpp.driver import current_stream
from ...cpp.kernel import cuda_kernel
from ...cpp.frontend.reader import kernels
from ...bench.recording import Unavailable
from .launches import MAX_CACHED, Launcher, MappedLauncher, record_launch
from .operands import raise_invalid_operands, sizes
from ...utils import backend, cdiv


# Constants such as the tile size and the number of stages tune a kernel. A line that defines them is prepended to the
# source that the lesson shows, so that one source gives many kernels. Derived values, such as the bytes of shared
# memory, may be functions of the constants.
def constants_line(constants: dict) -> str:
    """Return the line of C that defines the constants; empty if there are none.

    >>> constants_line(dict(BM=128, BN=64))
    'constexpr int BM = 128, BN = 64;'"""
    return (
        f"constexpr int {', '.join(f'{name} = {int(value)}' for name, value in constants.items())};"
        if constants
        else ''
    )


def with_constants(src, constants) -> str:
    """Prepend the constants line to the source. It replaces an empty first line, so that every other line keeps its
    number"""
    line = constants_line(constants)
    return src if not line else line + src if src.startswith('\n') else f'{line}\n{src}'


@lru_cache
def _import_torch():
    import torch

    return torch


def on_hopper() -> bool:
    "Return whether the current device is a Hopper GPU, with TMA and wgmma"
    return backend() == 'gpu' and _import_torch().cuda.get_device_capability() == (9, 0)


def runs_hopper() -> bool:
    "Return whether kernels with TMA, bulk copies and wgmma can run: on a Hopper GPU, or on the emulator"
    return on_hopper() or backend() != 'gpu'


def require_hopper(name, emulated=False):
    """Raise `Unavailable` unless the current device is a Hopper GPU, which the kernel `name` needs for TMA, bulk copies
    or wgmma; with `emulated`, the emulator is accepted, too"""
    if on_hopper() or emulated and runs_hopper():
        return
    requirement = 'a Hopper GPU (compute capability 9.0), for TMA, bulk copies, mbarriers and wgmma'
    raise Unavailable(f'{name} needs {requirement}' + (', or the emulator: GRIDSTRIDE_BACKEND=sim' if emulated else ''))


def require_bfloat16(name):
    "Raise `Unavailable` if the current GPU cannot run `name`, which multiplies bfloat16; the emulator can"
    if backend() != 'gpu' or (gpu := _import_torch().cuda.get_device_properties()).major >= 8:
        return
    requirement = 'compute capability 8.0 or more, for bfloat16, mma.sync and cp.async'
    raise Unavailable(f'{name} needs {requirement}; {gpu.name} has {gpu.major}.{gpu.minor}')


def sms() -> int:
    "Return the number of SMs of the current GPU; 8 on the emulator, which gains nothing from more"
    return _import_torch().cuda.get_device_properties().multi_processor_count if backend() == 'gpu' else 8


def _resolve(value, constants):
    "Return `value`; if it is a function, call it with the constants that its parameters name"
    if not callable(value):
        return value
    return value(**{name: constants[name] for name in inspect.signature(value).parameters})


class _PreparedLaunch(MappedLauncher):
    "The prepared launch of a single kernel for one shape"

    def __init__(self, rung, h, w, k):
        # (index of the argument, box, swizzle) per tensor map
        mapped_args = [
            (i, *rung.tma_boxes[array]) for i, array in enumerate(('m', 'n', 'out')) if array in rung.tma_boxes
        ]
        launch_options = rung.grid_for(h, w, k), rung.threads, rung.shared, rung.pdl
        super().__init__(rung.kernel, mapped_args, 3, (h, w, k), *launch_options)  # 3 arrays: m, n and out

    def __call__(self, m, n, out, stream):
        super().__call__([m, n, out], stream)
        record_launch(self, [m, n, out])

    def map_key(self, index, array):
        "Return the cache key of a tensor map: argument and address, because shapes and strides are fixed"
        return index, array.data_ptr()

    def layout_key(self, arrays):
        "Return None, because shapes and strides are fixed"
        return None

    def launch_table(self, m, n, out):
        """Return (rows for the compiled launcher's table, bytes of workspace). A row has the launch object of a kernel,
        and (index of the array, byte offset) per argument"""
        return ((self.launch_object_for([m, n, out]), ((0, 0), (1, 0), (2, 0))),), 0


# A plan is plain data: it can be launched, or exported as a standalone program (`export`).
class KernelLaunch(NamedTuple):
    "One launch of a kernel"

    src: str  # CUDA C, with the constants line
    name: str  # of the kernel in the source
    arrays: tuple  # names of the array arguments: 'm', 'n', 'out' or a workspace of the plan
    scalars: tuple  # the scalar arguments, after the arrays: ints, `Int64`s, floats or `Float64`s
    grid: tuple
    block: tuple
    shared: int = 0  # bytes of dynamic shared memory
    pdl: bool = False  # programmatic dependent launch; this and the next two are as for `Launcher`
    cluster: tuple = (1, 1, 1)
    cooperative: bool = False


class LaunchPlan(NamedTuple):
    "All launches of a GEMM for one shape, in order, and their workspaces"

    calls: list
    workspaces: dict = {}  # name -> (elements, dtype)


class Device(NamedTuple):
    "The properties of a GPU that a plan depends on"

    sms: int
    is_hopper: bool  # supports bulk copies, TMA and wgmma


H100, B200 = Device(132, True), Device(148, False)


def current_device_properties() -> Device:
    "Return the properties of the current GPU, or of the emulator"
    return _gpu_properties(_import_torch().cuda.current_device()) if backend() == 'gpu' else Device(sms(), True)


@lru_cache
def _gpu_properties(index):
    "Return the `Device` of a GPU"
    properties = _import_torch().cuda.get_device_properties(index)
    return Device(properties.multi_processor_count, (properties.major, properties.minor) == (9, 0))


@lru_cache
def compile_kernel(src, name, backend):
    "Compile a kernel, once per source and backend; on the emulator, all checks are enabled"
    return cuda_kernel(src, name, checks=None if backend == 'gpu' else True)


def make_launcher(kernel_launch, backend) -> Launcher:
    "Return the `Launcher` of a `KernelLaunch`, compiled for 'gpu' or 'sim'"
    kernel = compile_kernel(kernel_launch.src, kernel_launch.name, backend)
    return Launcher(kernel, len(kernel_launch.arrays), *kernel_launch[3:])


class PreparedLaunches:
    "The prepared launches of a plan; call it with m, n, out and a stream handle"

    def __init__(self, plan):
        self.launchers = [
            (make_launcher(kernel_launch, backend()), kernel_launch.arrays) for kernel_launch in plan.calls
        ]
        self.workspaces, self.workspace_bytes = {}, 0
        for name, (num_elements, dtype) in plan.workspaces.items():
            self.workspaces[name] = self.workspace_bytes, num_elements, dtype  # offset, size, type
            # Each workspace begins at a multiple of 256 bytes.
            self.workspace_bytes += cdiv(num_elements * _DTYPE_BYTES[dtype], 256) * 256

    def __call__(self, m, n, out, stream):
        # The workspaces live until every kernel is launched; the allocator then reuses their memory only for later work
        # on the same stream.
        arrays = dict(m=m, n=n, out=out, **self._allocate_workspaces(m))
        for launcher, array_names in self.launchers:
            tensors = [arrays[name] for name in array_names]
            launcher([x.data_ptr() for x in tensors] if m.is_cuda else tensors, stream)
            record_launch(launcher, tensors)

    def launch_table(self, m, n, out):
        "Return (rows for the compiled launcher's table, bytes of workspace), as `_PreparedLaunch.launch_table` does"
        # name -> (index of the array, byte offset): the workspaces share the fourth array
        locations = dict(
            m=(0, 0), n=(1, 0), out=(2, 0), **{name: (3, offset) for name, (offset, *_) in self.workspaces.items()}
        )
        return tuple(
            (launcher.launch_object, tuple(locations[name] for name in array_names))
            for launcher, array_names in self.launchers
        ), self.workspace_bytes

    def _allocate_workspaces(self, m):
        "Return {name: workspace}: slices of one allocation; on the emulator, one allocation each, for its checks"
        torch, workspaces = _import_torch(), self.workspaces.items()
        if not m.is_cuda:
            return {
                name: torch.empty(num_elements, dtype=getattr(torch, dtype))
                for name, (_, num_elements, dtype) in workspaces
            }
        if not workspaces:
            return {}
        workspace = torch.empty(self.workspace_bytes, dtype=torch.uint8, device=m.device)
        return {
            name: workspace[offset : offset + num_elements * _DTYPE_BYTES[dtype]]
            for name, (offset, num_elements, dtype) in workspaces
        }


_DTYPE_BYTES = dict(float32=4, bfloat16=2)


# The base class of all hand-written GEMMs, with one kernel or several: the launches are prepared once per shape and
# device, and then launched on the current stream.
class GemmKernel:
    "A hand-written GEMM: `gemm(m, n)` returns m @ n. A subclass defines `launch_plan(h, w, k, device_properties)`"

    name, dtype = 'gemm', 'float32'
    layout = 'nn'  # 'tn': m is passed transposed; 'nt': n is passed transposed
    # whether it has a static buffer in global memory; then launches on different streams must be serialized
    has_static_buffer = False
    needs_hopper = False  # whether it uses TMA, bulk copies or wgmma
    needs_ampere = False  # whether it uses asynchronous copies
    # name of an array that is passed as a tensor map ('m', 'n', 'out') -> ((rows, columns) of a TMA box, swizzle)
    tma_boxes = {}

    def unsupported_reason(self, h, w, k):  # None if the shape is supported
        "Return the reason why this GEMM does not support h x k @ k x w"
        if min(h, w, k) < 1:
            return 'a size is 0'

    def supports(self, h, w, k) -> bool:
        "Return whether this GEMM supports h x k @ k x w"
        return self.unsupported_reason(h, w, k) is None

    def launch_plan(self, h, w, k, device_properties) -> LaunchPlan:
        "Return the `LaunchPlan` for h x k @ k x w on a `Device`"
        raise NotImplementedError

    def prepare(self, h, w, k, device):
        "Prepare the launches for one shape on the current device; returns a function of (m, n, out, stream)"
        self.require_support(h, w, k)
        return PreparedLaunches(self.launch_plan(h, w, k, current_device_properties()))

    def require_support(self, h, w, k):
        "Raise `ValueError` for an unsupported shape, `Unavailable` on an unsupported GPU"
        if reason := self.unsupported_reason(h, w, k):
            raise ValueError(f'{self.name} does not support {h}x{k} @ {k}x{w}: {reason}')
        self.require_gpu()

    def require_gpu(self):
        "Raise `Unavailable` if the current GPU does not support this GEMM; the emulator supports all"
        if self.needs_hopper:
            require_hopper(self.name, emulated=True)
        if self.needs_ampere:
            require_bfloat16(self.name)

    @cached_property
    def _prepared(self):
        "The prepared launches: (h, w, k, device) -> a function of (m, n, out, stream)"
        return {}

    @cached_property
    def _last_stream(self):
        "Per device the stream of the last launch: (its handle, torch's object)"
        return {}

    def __call__(self, m, n, out=None):
        "Compute m @ n, into `out` if it is passed; returns the result"
        if not self._are_valid_operands(m, n, out):
            raise_invalid_operands(self.name, m, n, out, self._dtype, self.layout)
        if out is None:
            (h, _), (_, w) = sizes(m, n, self.layout)
            out = m.new_empty((h, w))
        launch = self.prepared_launches(m, n)
        if not m.is_cuda:
            launch(m, n, out, None)
        elif m.get_device() == _import_torch().cuda.current_device():
            launch(m, n, out, self._stream_handle(m))
        else:
            with _import_torch().cuda.device(m.device):
                launch(m, n, out, self._stream_handle(m))
        return out

    def prepared_launches(self, m, n):
        "Return the prepared launches for these operands on their device: a function of (m, n, out, stream)"
        (h, k), (_, w) = (m.shape, n.shape) if self.layout == 'nn' else sizes(m, n, self.layout)
        key = (h, w, k, m.get_device())
        return self._prepared.get(key) or self._prepare_and_cache(m, *key)

    def _stream_handle(self, m):
        """Return the handle of the current stream. If the kernel has a static buffer, the stream first waits for the
        stream of the last launch, except during graph capture, where it cannot wait for streams outside the graph"""
        device = m.get_device()
        handle, last_launch = current_stream(device), self._last_stream.get(device)
        if (
            self.has_static_buffer
            and (last_launch is None or last_launch[0] != handle)
            and not _import_torch().cuda.is_current_stream_capturing()
        ):
            stream = _import_torch().cuda.current_stream()
            if last_launch:
                stream.wait_stream(last_launch[1])
            self._last_stream[device] = handle, stream
        return handle

    def _are_valid_operands(self, m, n, out):
        "Return whether the operands are valid; if not, `raise_invalid_operands` finds the reason"
        try:
            dtype, device, (m_transposed, n_transposed) = self._dtype, m.get_device(), self._are_transposed
            return (
                m.dtype is dtype
                and n.dtype is dtype
                and m.dim() == 2 == n.dim()
                and m.shape[1 - m_transposed] == n.shape[n_transposed]
                and device == n.get_device()
                and m.is_contiguous()
                and n.is_contiguous()
                and not (m.data_ptr() | n.data_ptr()) & 15
                and (m.is_cuda or backend() == 'sim' and m.device == n.device)
                and (out is None or self._is_valid_out(out, m, n))
            )
        except AttributeError:
            return False

    def _is_valid_out(self, out, m, n):
        "Return whether the result can be written to `out`"
        (m_transposed, n_transposed), address = self._are_transposed, out.data_ptr()
        return (
            out.dtype is self._dtype
            and out.shape == (m.shape[m_transposed], n.shape[1 - n_transposed])
            and out.get_device() == m.get_device()
            and out.is_contiguous()
            and not address & 15
            and address not in (m.data_ptr(), n.data_ptr())
        )

    @cached_property
    def _are_transposed(self):
        "Whether memory holds the transpose of m, and of n"
        return self.layout[0] == 't', self.layout[1] == 't'

    @cached_property
    def _dtype(self):
        "The dtype of m, n and out, as torch's object"
        return getattr(_import_torch(), self.dtype)

    def _prepare_and_cache(self, m, h, w, k, device):
        "Prepare and cache the launches for one shape on the device of `m`"
        if len(self._prepared) >= MAX_CACHED:
            self._prepared.clear()
        with _import_torch().cuda.device(m.device if m.is_cuda else -1):
            launch = self._prepared[h, w, k, device] = self.prepare(h, w, k, device)
        return launch


# The requirements of a kernel are read from its source, because a lesson may change the source or pass its own.
_HOPPER_INSTRUCTIONS = re.compile(r"\bTensorMap\b|\bwgmma\b|\bmbarrier\b|cp\.async\.bulk")
_AMPERE_INSTRUCTIONS = re.compile(r"\bcp\.async\b|\bmma\.sync\b|\b__nv_bfloat16\b")


def _as_tuple(size):
    "Return the sizes of a block as a tuple"
    return tuple(size) if isinstance(size, (tuple, list)) else (size,)


@lru_cache(256)
def _last_kernel(src):
    "Return the name of the last kernel in `src`, the one that multiplies"
    return kernels(src)[-1].name


class Rung(GemmKernel):
    """A hand-written GEMM kernel, called like a function: `rung(m, n)`.

    The kernel computes out (h x w) = m (h x k) @ n (k x w), all row-major; elsewhere this is C (M x N) = A (M x K) @
    B (K x N). `tma_boxes` has the boxes of the arguments that are passed as tensor maps: {'m': (rows, columns), 'n':
    (rows, columns, swizzle)}; the default swizzle is 128. Without a `grid` there is one block per BM x BN tile of out,
    along w first.
    """

    def __init__(
        self,
        name,  # in tables and messages
        src,  # CUDA C whose last `__global__` function has the parameters (m, n, out, int h, int w, int k)
        *,
        threads,  # per block: an int, (x, y), or a function of the constants, as `shared` and `tma_boxes` may be
        shared=0,  # bytes of dynamic shared memory
        dtype='float32',  # of m, n and out
        tma_boxes=None,  # the TMA boxes of the arguments that are tensor maps
        grid=None,  # a function of h, w, k, sms and the constants, or some of these; None: one block per tile
        supports=None,  # (h, w, k) -> True, False, or the reason why not; None: all shapes are supported
        has_static_buffer=False,  # a static buffer in global memory; launches on different streams are serialized
        pdl=False,  # programmatic dependent launch; the source waits with griddepcontrol.wait
        layout='nn',  # 'tn': m is passed as k x h, row-major; 'nt': n as w x k
        **constants,
    ):  # BM, BN, BK, ...: the constants in the source
        self.name = name
        self.dtype = dtype
        self.layout = layout
        self.has_static_buffer = has_static_buffer
        self.pdl = pdl
        self.constants = constants
        self._arguments = dict(
            src=src,
            threads=threads,
            shared=shared,
            dtype=dtype,
            tma_boxes=tma_boxes,
            grid=grid,
            supports=supports,
            has_static_buffer=has_static_buffer,
            pdl=pdl,
            layout=layout,
        )
        self.src = with_constants(src, constants)
        self.threads = _as_tuple(_resolve(threads, constants))
        self.shared = int(_resolve(shared, constants))
        boxes = _resolve(tma_boxes, constants) or {}
        self.tma_boxes = {array: (tuple(box[:2]), box[2] if len(box) == 3 else 128) for array, box in boxes.items()}
        self.needs_hopper = bool(_HOPPER_INSTRUCTIONS.search(src))
        self._compiled_kernels = {}

    @property
    def src_without_constants(self) -> str:
        "The source without the constants line"
        return self._arguments['src']

    def __repr__(self):
        constants = ''.join(f', {name}={value}' for name, value in self.constants.items())
        threads = 'x'.join(map(str, self.threads))
        memory = f'{self.shared} bytes of shared memory'
        return f'<Rung {self.name!r}: {self.dtype}, {threads} threads, {memory}{constants}>'

    def variant(self, name=None, **changes):
        "Return a copy with other constants or arguments of `__init__`; raises `ValueError` for an unknown one"
        for option in () if 'src' in changes else changes:
            if option not in self._arguments and option not in self.constants:
                raise ValueError(f'{self.name} has no constant {option}; available: {", ".join(self.constants)}')
        return type(self)(name or self.name, **{**self._arguments, **self.constants, **changes})

    def unsupported_reason(self, h, w, k):  # None if the shape is supported
        "Return the reason why this kernel does not support h x k @ k x w"
        if min(h, w, k) < 1:
            return 'a size is 0'
        if max(h * k, k * w, h * w) >= 2**31:
            return 'a matrix has 2^31 elements or more; the kernel indexes with int'
        supports = self._arguments['supports']
        result = supports(h, w, k) if supports else True
        if result is not True:
            return result if isinstance(result, str) else 'unsupported shape'
        element_bytes = 4 if self.dtype == 'float32' else 2
        columns = dict(m=h if self.layout[0] == 't' else k, n=k if self.layout[1] == 't' else w, out=w)
        if unaligned_arrays := [array for array in self.tma_boxes if columns[array] * element_bytes % 16]:
            unit = f'16 bytes ({16 // element_bytes} {self.dtype} elements)'
            received = f'{columns[unaligned_arrays[0]]} columns of {unaligned_arrays[0]}'
            return f'TMA needs row lengths that are multiples of {unit}; got {received}'

    def grid_for(self, h, w, k=1, device_properties=None):
        "Return the grid for h x k @ k x w on a `Device`; None: the current one"
        if not self._arguments['grid']:
            return cdiv(w, self.constants['BN']), cdiv(h, self.constants['BM'])
        return _resolve(
            self._arguments['grid'],
            dict(self.constants, h=h, w=w, k=k, sms=device_properties.sms if device_properties else sms()),
        )

    def launch_plan(self, h, w, k, device_properties):
        # The constants do not change the kernel's name, so the source without them is parsed once for all constants.
        name, arrays = _last_kernel(self.src_without_constants), ('m', 'n', 'out')
        grid = self.grid_for(h, w, k, device_properties)
        return LaunchPlan([KernelLaunch(self.src, name, arrays, (h, w, k), grid, self.threads, self.shared, self.pdl)])

    @property
    def kernel(self):
        "The `cuda_kernel`, compiled on first use for the current backend"
        backend_name = backend()
        if backend_name not in self._compiled_kernels:
            self._compiled_kernels[backend_name] = self._compile()
        return self._compiled_kernels[backend_name]

    def require_gpu(self):
        "Raise `Unavailable` if the current GPU lacks an instruction of the source, or has too little shared memory"
        super().require_gpu()
        if backend() != 'gpu':
            return
        if _AMPERE_INSTRUCTIONS.search(self.src):
            require_bfloat16(self.name)
        gpu = _import_torch().cuda.get_device_properties()
        if self.shared > gpu.shared_memory_per_block_optin:
            requirement = f'{self.shared:,} bytes of shared memory per block'
            limit_text = f'{gpu.name} allows at most {gpu.shared_memory_per_block_optin:,}'
            raise Unavailable(f'{self.name} needs {requirement}; {limit_text}')

    def _compile(self):
        self.require_gpu()
        kernel = compile_kernel(self.src, None, backend())
        if len(kernel.params) != 6:
            expected = '(m, n, out, int h, int w, int k)'
            raise TypeError(f'{self.name}: the kernel must take {expected}; got {kernel.__doc__}')
        return kernel

    def prepare(self, h, w, k, device):
        self.require_support(h, w, k)
        return _PreparedLaunch(self, h, w, k)
