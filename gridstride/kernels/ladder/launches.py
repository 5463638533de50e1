"""`Launcher`: a kernel with its scalar arguments bound, launched with little overhead; `Mapped`: with tensor maps."""

import ctypes
import threading
from functools import cached_property

from ...cpp.driver import call_driver, driver, ensure_max_dynamic_smem
from ...cpp.launcher import launcher
from ..maps import tensor_map
from ...utils import dim3

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
        self.values = [_C.get(type(scalar), ctypes.c_int)(scalar) for scalar in scalars]
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
        at += [ctypes.addressof(value) for value in self.values]
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
        return [('&',)] * self.arrays + [bytes(value) for value in self.values]

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
        "Return what maps depend on, apart from their addresses"
        return tuple((arrays[i].shape, arrays[i].stride()) for i, *_ in self.mapped)

    def put(self, arrays):
        for i, x in enumerate(arrays):
            self.pointers[i] = x.data_ptr()
        # Held until the next launch: when `map` makes one map, it may drop another of the same launch.
        self.held = [self.map(i, arrays[i], box, swizzle) for i, box, swizzle in self.mapped]
        for (i, *_), o in zip(self.mapped, self.held):
            self.argument_addresses[i] = o.address

    def key(self, i, x):
        "Return what a map depends on"
        return i, x.data_ptr(), x.shape, x.stride()

    def map(self, i, x, box, swizzle):
        "The map of an array that is the `i`th argument"
        if (key := self.key(i, x)) not in self.maps:
            if len(self.maps) >= KEPT:
                self.maps.clear()
            self.maps[key] = tensor_map(x, box, swizzle)
        return self.maps[key]
