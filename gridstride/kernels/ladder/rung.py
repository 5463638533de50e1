"""`Rung`: one hand-written matrix product, its source and its constants in one object, called like a function."""

import ctypes
import inspect
import re
import threading
from functools import cached_property, lru_cache
from typing import NamedTuple

from ...cpp.driver import call_driver, current_stream, driver, ensure_max_dynamic_smem
from ...cpp.kernel import cuda_kernel
from ...cpp.launcher import launcher
from ...cpp.frontend.reader import kernels
from ...bench.recording import Unavailable
from ..maps import tensor_map
from .operands import raise_invalid_operands, sizes
from ...utils import backend, cdiv, dim3


# A kernel is tuned by its constants: the size of a tile, the number of stages. They are not part of the source that a
# lesson explains, but a line above it, so that the same text makes many kernels. What follows from the constants, the
# bytes of shared memory for instance, may be a function of them.
def constants_line(constants: dict) -> str:
    "The line of C that defines the constants; empty if there are none"
    return f"constexpr int {', '.join(f'{k} = {int(v)}' for k, v in constants.items())};" if constants else ''


def with_constants(src, constants) -> str:
    """The source below its line of constants. An empty first line is replaced by them, so that the other lines keep
    the numbers of their lines"""
    line = constants_line(constants)
    return src if not line else line + src if src.startswith('\n') else f'{line}\n{src}'


@lru_cache
def _torch():
    import torch

    return torch


def on_hopper() -> bool:
    "Is the current device a Hopper GPU, with TMA and wgmma?"
    return backend() == 'gpu' and _torch().cuda.get_device_capability() == (9, 0)


def runs_hopper() -> bool:
    "Can kernels with TMA, bulk copies and wgmma run here: on a Hopper GPU, or on the emulator?"
    return on_hopper() or backend() != 'gpu'


def need_hopper(name, emulated=False):
    """Raise `Unavailable` where `name`, which has TMA, bulk copies or wgmma, cannot run: on another GPU and, unless it
    may be `emulated`, without one"""
    if on_hopper() or emulated and runs_hopper():
        return
    needs = 'a Hopper GPU (compute capability 9.0), for TMA, bulk copies, mbarriers and wgmma'
    raise Unavailable(f'{name} needs {needs}' + (', or the emulator: GRIDSTRIDE_BACKEND=sim' if emulated else ''))


def need_bfloat16(name):
    "Raise `Unavailable` where the current GPU cannot run `name`, which multiplies bfloat16; the emulator can"
    if backend() != 'gpu' or (p := _torch().cuda.get_device_properties()).major >= 8:
        return
    what = 'compute capability 8.0 or more, for bfloat16, mma.sync and cp.async'
    raise Unavailable(f'{name} needs {what}, and {p.name} has {p.major}.{p.minor}')


def sms() -> int:
    "SMs of the current GPU; the emulator gets eight, as more blocks would only take longer"
    return _torch().cuda.get_device_properties().multi_processor_count if backend() == 'gpu' else 8


def _of(x, constants):
    "`x` itself, or what the function `x` returns for the constants that it names"
    return x(**{k: constants[k] for k in inspect.signature(x).parameters}) if callable(x) else x


# A small product takes the GPU a few microseconds, no longer than Python takes for a handful of calls. So to keep the
# launch overhead low, all that stays the same for one shape is prepared once: the grid, the sizes, the array of the
# arguments' addresses. What is left per call is the pointers and one call of the driver. A kernel that loads by TMA
# gets tensor maps instead of pointers; the map for an address is made once as well.
KEPT = 64  # cached tensor maps, and cached shapes

# CU_LAUNCH_ATTRIBUTE_COOPERATIVE, _CLUSTER_DIMENSION, _PROGRAMMATIC_STREAM_SERIALIZATION
_COOPERATIVE, _CLUSTER, _PDL = 2, 4, 6


class _Attribute(ctypes.Structure):
    "The driver's CUlaunchAttribute"

    _fields_ = [('id', ctypes.c_int), ('pad', ctypes.c_int), ('values', ctypes.c_uint * 16)]


class _Config(ctypes.Structure):
    "The driver's CUlaunchConfig"

    _fields_ = [(o, ctypes.c_uint) for o in ('gx', 'gy', 'gz', 'bx', 'by', 'bz', 'shared')] + [
        ('stream', ctypes.c_void_p),
        ('attributes', ctypes.POINTER(_Attribute)),
        ('n', ctypes.c_uint),
    ]


class Long(int):
    "An argument that a kernel takes as `long long`; another int is an `int`, and a float a `float`"


class Double(float):
    "An argument that a kernel takes as `double`"


_C = {Long: ctypes.c_longlong, float: ctypes.c_float, Double: ctypes.c_double}


class Launcher:
    """A kernel with its scalar arguments bound; call it with its arrays: on a GPU their addresses, and the handle of a
    stream, else tensors"""

    def __init__(
        self,
        kernel,
        arrays,  # how many
        scalars,
        grid,
        block,
        shared=0,
        pdl=False,  # programmatic dependent launch: may it begin before the previous kernel ends? See griddepcontrol
        cluster=(1, 1, 1),  # blocks of a cluster along x, y, z, if the source has no `__cluster_dims__`
        cooperative=False,  # must all blocks be resident at once, because they wait for each other?
    ):
        self.kernel, self.scalars = kernel, scalars
        self.grid, self.block, self.cluster, self.shared = dim3(grid), dim3(block), cluster, shared
        self.lock = threading.Lock()
        if not kernel.handle:
            return
        ensure_max_dynamic_smem(kernel, shared)
        self.values = [_C.get(type(o), ctypes.c_int)(o) for o in scalars]
        attributes = [(_PDL, (1,))] * pdl + [(_CLUSTER, cluster)] * (max(cluster) > 1)
        attributes += [(_COOPERATIVE, (1,))] * cooperative
        self.attributes, self.arrays = attributes, arrays
        if not launcher():
            self._prepare_ctypes()

    def _prepare_ctypes(self):
        "Make the structures that ctypes passes to the driver, where there is no compiled launcher"
        kernel, shared = self.kernel, self.shared
        self.pointers = (ctypes.c_void_p * self.arrays)()
        at = [ctypes.addressof(self.pointers) + 8 * i for i in range(self.arrays)]
        at += [ctypes.addressof(o) for o in self.values]
        values = [_Attribute(i, 0, (ctypes.c_uint * 16)(*v)) for i, v in self.attributes]
        attributes = (_Attribute * len(values))(*values)
        self.argument_addresses = (ctypes.c_void_p * len(at))(*at)
        self.config = _Config(*self.grid, *self.block, shared, None, attributes, len(values))
        self.run = driver().cuLaunchKernelEx
        self.given = ctypes.byref(self.config), ctypes.c_void_p(kernel.handle), self.argument_addresses, None

    def __call__(self, arrays, stream=None):
        if not self.kernel.handle:
            return self.kernel.launch((*arrays, *self.scalars), self.grid, self.block, None, self.shared, self.cluster)
        if launcher():
            return self.launch(self.compiled, stream or 0, *arrays)
        with self.lock:  # another thread has the same argument buffer
            self.put(arrays)
            self.config.stream = stream
            if self.run(*self.given):
                call_driver(lambda: self.run(*self.given), self.kernel.__name__)

    def launch(self, compiled, *given):
        "Launch by compiled code; `given`: a stream and the addresses of the arrays"
        if compiled.run(*given):
            call_driver(lambda: compiled.run(*given), self.kernel.__name__)

    @cached_property
    def compiled(self):
        "The launch as an object of the compiled launcher"
        return self.compile(self.parameters())

    def compile(self, parameters):
        "The launch as an object of the compiled launcher, for parameters in the form that `launcher.cpp` takes"
        attributes = [(i, (*v, 0, 0)[:3]) for i, v in self.attributes]
        size = tuple(self.grid), tuple(self.block), self.shared
        return launcher().Launch(self.kernel.handle, *size, attributes, parameters, self.kernel)

    def parameters(self) -> list:
        "The kernel's parameters in the form that `launcher.cpp` takes: addresses come with a launch, scalars are bound"
        return [('&',)] * self.arrays + [bytes(o) for o in self.values]

    def put(self, arrays):
        "Store the addresses that the next launch takes"
        self.pointers[:] = arrays


class Mapped(Launcher):
    "A launcher that is called with tensors, some of which the kernel takes as tensor maps"

    def __init__(
        self,
        kernel,
        mapped,  # (index of the argument, box, swizzle) per tensor map
        *how,  # as `Launcher` takes it
    ):
        super().__init__(kernel, *how)
        self.mapped, self.maps, self.held, self.forms = mapped, {}, [], {}

    def __call__(self, arrays, stream=None):
        if self.kernel.handle and launcher():
            return self.launch(self.compiled_for(arrays), stream or 0, *(x.data_ptr() for x in arrays))
        if not self.kernel.handle:
            arrays = list(arrays)
            for i, box, swizzle in self.mapped:
                arrays[i] = tensor_map(arrays[i], box, swizzle)
        super().__call__(arrays, stream)

    def compiled_for(self, arrays):
        "The compiled launcher's object for arrays of one form; it updates the addresses in their maps by itself"
        if any(arrays[i].data_ptr() & 15 for i, *_ in self.mapped):
            for i, box, swizzle in self.mapped:
                tensor_map(arrays[i], box, swizzle)  # raises for the array that is not aligned
        if (key := self.form(arrays)) not in self.forms:
            if len(self.forms) >= KEPT:
                self.forms.clear()
            parameters = self.parameters()
            for i, box, swizzle in self.mapped:
                parameters[i] = 'T', 0, 0, bytes(tensor_map(arrays[i], box, swizzle))
            self.forms[key] = self.compile(parameters)
        return self.forms[key]

    def form(self, arrays):
        "What maps depend on, apart from their addresses"
        return tuple((arrays[i].shape, arrays[i].stride()) for i, *_ in self.mapped)

    def put(self, arrays):
        for i, x in enumerate(arrays):
            self.pointers[i] = x.data_ptr()
        # Held until the next launch: when `map` makes one map, it may drop another of the same launch.
        self.held = [self.map(i, arrays[i], box, swizzle) for i, box, swizzle in self.mapped]
        for (i, *_), o in zip(self.mapped, self.held):
            self.argument_addresses[i] = o.address

    def key(self, i, x):
        "What a map depends on"
        return i, x.data_ptr(), x.shape, x.stride()

    def map(self, i, x, box, swizzle):
        "The map of an array that is the `i`th argument"
        if (key := self.key(i, x)) not in self.maps:
            if len(self.maps) >= KEPT:
                self.maps.clear()
            self.maps[key] = tensor_map(x, box, swizzle)
        return self.maps[key]


class _Launch(Mapped):
    "The launch of a rung for one shape"

    def __init__(self, rung, h, w, k):
        mapped = [(i, *rung.maps[o]) for i, o in enumerate(('m', 'n', 'out')) if o in rung.maps]
        how = rung.grid_for(h, w, k), rung.threads, rung.shared, rung.pdl
        super().__init__(rung.kernel, mapped, 3, (h, w, k), *how)

    def __call__(self, m, n, out, stream):
        super().__call__([m, n, out], stream)

    def key(self, i, x):  # shapes and strides are the rung's
        return i, x.data_ptr()

    def form(self, arrays):
        return None

    def steps(self, m, n, out):
        "The same launch as steps for a table of the compiled launcher, and the bytes of the workspace it needs"
        return ((self.compiled_for([m, n, out]), ((0, 0), (1, 0), (2, 0))),), 0


# What a product launches for a shape is data, so that it can be launched here, or written into a program of its own
# (`export`).
class Call(NamedTuple):
    "One launch of a kernel"

    src: str  # CUDA C, with its line of constants
    name: str  # of the kernel in it
    arrays: tuple  # names: 'm', 'n', 'out', or those of the plan's workspaces
    scalars: tuple  # ints, `Long`s, floats or `Double`s, which follow the arrays
    grid: tuple
    block: tuple
    shared: int = 0  # bytes of dynamic shared memory
    pdl: bool = False  # as for `Launcher`, like the next two
    cluster: tuple = (1, 1, 1)
    cooperative: bool = False


class LaunchPlan(NamedTuple):
    "All launches of a product for one shape, in order, and the workspaces that they need besides m, n and out"

    calls: list
    workspaces: dict = {}  # name -> (elements, dtype)


class Device(NamedTuple):
    "The properties of a GPU that a plan depends on"

    sms: int
    hopper: bool  # has it bulk copies, TMA and wgmma?


H100 = Device(132, True)


def here() -> Device:
    "The current GPU, or the emulator"
    return Device(sms(), runs_hopper())


@lru_cache
def compiled(src, name, backend):
    "A kernel of a source, compiled once for the GPU and once for the emulator: there with all detectors, at any time"
    return cuda_kernel(src, name, checks=None if backend == 'gpu' else True)


def launcher_of(call, backend) -> Launcher:
    "The `Launcher` of a call, compiled for 'gpu' or 'sim'"
    kernel = compiled(call.src, call.name, backend)
    return Launcher(kernel, len(call.arrays), *call[3:])


class Sequence:
    "The launches of a plan, prepared; call it with m, n, out and the handle of a stream"

    def __init__(self, plan):
        self.launches = [(launcher_of(c, backend()), c.arrays) for c in plan.calls]
        self.workspaces, self.bytes = {}, 0
        for name, (n, dtype) in plan.workspaces.items():
            self.workspaces[name] = self.bytes, n, dtype
            self.bytes += cdiv(n * _SIZES[dtype], 256) * 256  # each begins at a multiple of 256 bytes

    def __call__(self, m, n, out, stream):
        arrays = dict(m=m, n=n, out=out)
        if m.is_cuda:
            arrays = {name: x.data_ptr() for name, x in arrays.items()}
        workspace = self._allocate(m, arrays) if self.workspaces else None
        for launch, names in self.launches:
            launch([arrays[o] for o in names], stream)
        # It lives until all is launched; torch's allocator reuses it only for what is later on the same stream.
        del workspace

    def steps(self, m, n, out):
        "The same launches as steps for a table of the compiled launcher, and the bytes of the workspace they need"
        at = dict(m=(0, 0), n=(1, 0), out=(2, 0), **{o: (3, begin) for o, (begin, *_) in self.workspaces.items()})
        return tuple((o.compiled, tuple(at[name] for name in names)) for o, names in self.launches), self.bytes

    def _allocate(self, m, arrays):
        "Add the workspaces to `arrays`: one allocation on a GPU; one each on the emulator, which checks their bounds"
        torch, spaces = _torch(), self.workspaces.items()
        if not m.is_cuda:
            arrays.update({o: torch.empty(n, dtype=getattr(torch, dtype)) for o, (_, n, dtype) in spaces})
            return
        workspace = torch.empty(self.bytes, dtype=torch.uint8, device=m.device)
        arrays.update({o: workspace.data_ptr() + begin for o, (begin, *_) in spaces})
        return workspace


_SIZES = dict(float32=4, bfloat16=2)  # bytes


# What all hand-written products have in common, whether they are one kernel or three: they are prepared once for a
# shape on a device, and then launched on the current stream.
class Product:
    "`product(m, n)` multiplies by hand-written kernels; a subclass defines `launch_plan(h, w, k, on)`"

    name, dtype, layout = 'product', 'float32', 'nn'  # layout: 'tn': m is given as its transpose, 'nt': n is
    # Does it use a workspace in global memory while it runs? Then its launches on several streams are serialized.
    uses_workspace = False
    hopper = False  # has it TMA, bulk copies or wgmma?
    # TMA: {'m': ((rows, columns) of a box, swizzle)}, for those of m, n and out that are given as tensor maps
    maps = {}

    def why_not(self, h, w, k):  # None if it can
        "The reason why this product cannot multiply h x k by k x w, in a few words"
        if min(h, w, k) < 1:
            return 'a size is 0'

    def supports(self, h, w, k) -> bool:
        "Can it multiply h x k by k x w?"
        return self.why_not(h, w, k) is None

    def launch_plan(self, h, w, k, on) -> LaunchPlan:
        "The `LaunchPlan` for h x k @ k x w on the `Device` `on`"
        raise NotImplementedError

    def prepare(self, h, w, k, device):
        "Prepare the launches for one shape on the current device: a function of (m, n, out, stream)"
        self.need(h, w, k)
        return Sequence(self.launch_plan(h, w, k, here()))

    def need(self, h, w, k):
        "Raise `ValueError` for a shape that it does not multiply, `Unavailable` on a GPU that cannot run it"
        if why := self.why_not(h, w, k):
            raise ValueError(f'{self.name} does not multiply {h}x{k} by {k}x{w}: {why}')
        self.need_gpu()

    def need_gpu(self):
        "Raise `Unavailable` with the reason if the current GPU cannot run it; the emulator runs all"
        if self.hopper:
            need_hopper(self.name, emulated=True)

    @cached_property
    def _ready(self):
        return {}

    @cached_property
    def _last(self):
        return {}

    def __call__(self, m, n, out=None):
        "Multiply: `m @ n`, into `out` if it is given"
        if not self._fits(m, n, out):
            raise_invalid_operands(self.name, m, n, out, self._dtype, self.layout)
        if out is None:
            (h, _), (_, w) = sizes(m, n, self.layout)
            out = m.new_empty((h, w))
        launch = self.ready(m, n)
        if not m.is_cuda:
            launch(m, n, out, None)
        elif m.get_device() == _torch().cuda.current_device():
            launch(m, n, out, self._stream(m))
        else:
            with _torch().cuda.device(m.device):
                launch(m, n, out, self._stream(m))
        return out

    def ready(self, m, n):
        "The prepared launches for such operands on their device: a function of (m, n, out, stream)"
        (h, k), (_, w) = (m.shape, n.shape) if self.layout == 'nn' else sizes(m, n, self.layout)
        key = (h, w, k, m.get_device())
        return self._ready.get(key) or self._keep_ready(m, *key)

    def _stream(self, m):
        """The handle of the current stream. A kernel with a workspace first waits for its previous stream, except in a
        CUDA graph, which knows nothing of what runs concurrently"""
        device = m.get_device()
        raw, last = current_stream(device), self._last.get(device)
        if self.uses_workspace and (last is None or last[0] != raw) and not _torch().cuda.is_current_stream_capturing():
            now = _torch().cuda.current_stream()
            if last:
                now.wait_stream(last[1])
            self._last[device] = raw, now
        return raw

    def _fits(self, m, n, out):
        "Do the operands meet the kernel's requirements? `raise_invalid_operands` reports what does not"
        try:
            d, where, (ta, tb) = self._dtype, m.get_device(), self._transposed
            return (
                m.dtype is d
                and n.dtype is d
                and m.dim() == 2 == n.dim()
                and m.shape[1 - ta] == n.shape[tb]
                and where == n.get_device()
                and m.is_contiguous()
                and n.is_contiguous()
                and not (m.data_ptr() | n.data_ptr()) & 15
                and (m.is_cuda or backend() == 'sim' and m.device == n.device)
                and (out is None or self._takes(out, m, n))
            )
        except AttributeError:
            return False

    def _takes(self, out, m, n):
        (ta, tb), at = self._transposed, out.data_ptr()
        return (
            out.dtype is self._dtype
            and out.shape == (m.shape[ta], n.shape[1 - tb])
            and out.get_device() == m.get_device()
            and out.is_contiguous()
            and not at & 15
            and at not in (m.data_ptr(), n.data_ptr())
        )

    @cached_property
    def _transposed(self):
        return self.layout[0] == 't', self.layout[1] == 't'

    @cached_property
    def _dtype(self):
        return getattr(_torch(), self.dtype)

    def _keep_ready(self, m, h, w, k, device):
        "Prepare and cache the launches for one shape on one device, that of `m`"
        if len(self._ready) >= KEPT:
            self._ready.clear()
        with _torch().cuda.device(m.device if m.is_cuda else -1):
            launch = self._ready[h, w, k, device] = self.prepare(h, w, k, device)
        return launch


_HOPPER = re.compile(r"\bTensorMap\b|\bwgmma\b|\bmbarrier\b|cp\.async\.bulk")
_AMPERE = re.compile(r"\bcp\.async\b|\bmma\.sync\b|\b__nv_bfloat16\b")


def _threads(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


@lru_cache(256)
def _last_kernel(src):
    "The name of the last kernel of `src`, the one that multiplies"
    return kernels(src)[-1].name


class Rung(Product):
    """`rung(m, n)` multiplies by a hand-written kernel; `src` is its source below its line of constants.

    The kernel computes out[h,w] = m[h,k] @ n[k,w], all row-major. `maps` has the boxes of those arguments that are
    tensor maps for TMA: {'m': (rows, columns), 'n': (rows, columns, swizzle)}; the swizzle is 128 unless given. Without
    a `grid` there is one block per BM x BN tile of out, along w first.
    """

    def __init__(
        self,
        name,  # in tables and messages
        src,  # CUDA C with one `__global__` function (m, n, out, int h, int w, int k)
        *,
        threads,  # of a block: an int or (x, y); or a function of the constants, as the next four may be
        shared=0,  # bytes of dynamic shared memory
        dtype='float32',  # of m, n and out
        maps=None,  # TMA: the boxes of the arguments that are tensor maps
        grid=None,  # a function of h, w, k, sms and the constants, as far as it names them; None: one block per tile
        supports=None,  # (h, w, k) -> True, or False or the reason as a sentence; None: every shape of at least 1
        uses_workspace=False,  # does it use a workspace in global memory, for partial sums for instance? See `Product`
        pdl=False,  # programmatic dependent launch: its source waits for the previous kernel by griddepcontrol.wait
        layout='nn',  # 'tn': m is given as k x h, row-major, and 'nt': n as w x k
        **constants,
    ):  # BM, BN, BK, ...: the constants in the source
        self.name, self.dtype, self.layout, self.uses_workspace, self.constants = (
            name,
            dtype,
            layout,
            uses_workspace,
            constants,
        )
        self.pdl = pdl
        self._given = dict(
            src=src,
            threads=threads,
            shared=shared,
            dtype=dtype,
            maps=maps,
            grid=grid,
            supports=supports,
            uses_workspace=uses_workspace,
            pdl=pdl,
            layout=layout,
        )
        self.src, self.threads, self.shared = (
            with_constants(src, constants),
            _threads(_of(threads, constants)),
            int(_of(shared, constants)),
        )
        self.maps = {
            o: (tuple(box[:2]), box[2] if len(box) == 3 else 128) for o, box in (_of(maps, constants) or {}).items()
        }
        self.hopper, self._built = bool(_HOPPER.search(src)), {}

    @property
    def text(self) -> str:
        "The source as it was given: without its line of constants"
        return self._given['src']

    def __repr__(self):
        constants = ''.join(f', {k}={v}' for k, v in self.constants.items())
        threads = 'x'.join(map(str, self.threads))
        memory = f'{self.shared} bytes of shared memory'
        return f'<Rung {self.name!r}: {self.dtype}, {threads} threads, {memory}{constants}>'

    def tuned(self, name=None, **changes):
        "The same kernel with other constants or arguments of `Rung`; `ValueError` for a constant it does not have"
        for k in () if 'src' in changes else changes:
            if k not in self._given and k not in self.constants:
                raise ValueError(f'{self.name} has no {k}; its constants are {", ".join(self.constants)}')
        return Rung(name or self.name, **{**self._given, **self.constants, **changes})

    def why_not(self, h, w, k):  # None if it can
        "The reason why this kernel cannot multiply h x k by k x w, in a few words"
        if min(h, w, k) < 1:
            return 'a size is 0'
        if max(h * k, k * w, h * w) >= 2**31:
            return 'a matrix has 2^31 elements or more, and the kernel counts with int'
        said = self._given['supports'](h, w, k) if self._given['supports'] else True
        if said is not True:
            return said if isinstance(said, str) else 'the kernel is not made for that shape'
        size = 4 if self.dtype == 'float32' else 2
        columns = dict(m=h if self.layout[0] == 't' else k, n=k if self.layout[1] == 't' else w, out=w)
        if bad := [f'{columns[o]} columns of {o}' for o in self.maps if columns[o] * size % 16]:
            return f'TMA needs rows of whole 16 bytes, {16 // size} {self.dtype}s, and there are {bad[0]}'

    def grid_for(self, h, w, k=1, on=None):
        "Blocks for h x k @ k x w on a `Device`, by default the one that is here"
        if not self._given['grid']:
            return cdiv(w, self.constants['BN']), cdiv(h, self.constants['BM'])
        return _of(self._given['grid'], dict(self.constants, h=h, w=w, k=k, sms=on.sms if on else sms()))

    def launch_plan(self, h, w, k, on):
        name, arrays = _last_kernel(self.text), ('m', 'n', 'out')  # the same for all constants
        grid = self.grid_for(h, w, k, on)
        return LaunchPlan([Call(self.src, name, arrays, (h, w, k), grid, self.threads, self.shared, self.pdl)])

    @property
    def kernel(self):
        "The `cuda_kernel`, compiled at its first use, for the GPU, the emulator or both"
        where = backend()
        if where not in self._built:
            self._built[where] = self._compile()
        return self._built[where]

    def need_gpu(self):
        super().need_gpu()
        if backend() != 'gpu':
            return
        if _AMPERE.search(self.src):
            need_bfloat16(self.name)
        p = _torch().cuda.get_device_properties()
        if self.shared > p.shared_memory_per_block_optin:
            what = f'{self.shared:,} bytes of shared memory for a block'
            raise Unavailable(
                f'{self.name} needs {what}, and {p.name} gives {p.shared_memory_per_block_optin:,} at most'
            )

    def _compile(self):
        self.need_gpu()
        kernel = compiled(self.src, None, backend())
        if len(kernel.params) != 6:
            raise TypeError(
                f'{self.name}: a rung takes (m, n, out, int h, int w, int k), and this kernel {kernel.__doc__}'
            )
        return kernel

    def prepare(self, h, w, k, device):
        self.need(h, w, k)
        return _Launch(self, h, w, k)
