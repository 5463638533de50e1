"""`Launcher`: a kernel with its scalar arguments bound, launched with little overhead; `Mapped`: with tensor maps."""

import ctypes
import threading
from functools import cached_property

from ...cpp.driver import call_driver, driver, ensure_max_dynamic_smem
from ...cpp.launcher import launcher
from ..maps import tensor_map
from ...utils import dim3

# A small product takes the GPU a few microseconds, about as long as a handful of Python calls. To keep the launch
# overhead low, everything that is constant for a shape is prepared once: the grid, the sizes, the array of argument
# addresses. A call then only stores the pointers and calls the driver. A kernel that loads by TMA takes tensor maps
# instead of pointers; the map for an address is made once, too.
MAX_CACHED = 64  # the most cached tensor maps per launcher, and cached shapes per product

# CU_LAUNCH_ATTRIBUTE_COOPERATIVE, _CLUSTER_DIMENSION, _PROGRAMMATIC_STREAM_SERIALIZATION
_COOPERATIVE, _CLUSTER, _PDL = 2, 4, 6


class _Attribute(ctypes.Structure):
    "The driver's CUlaunchAttribute"

    _fields_ = [('id', ctypes.c_int), ('pad', ctypes.c_int), ('values', ctypes.c_uint * 16)]


class _Config(ctypes.Structure):
    "The driver's CUlaunchConfig"

    _fields_ = [(name, ctypes.c_uint) for name in ('gx', 'gy', 'gz', 'bx', 'by', 'bz', 'shared')] + [
        ('stream', ctypes.c_void_p),
        ('attributes', ctypes.POINTER(_Attribute)),
        ('n', ctypes.c_uint),
    ]


class Long(int):
    "An argument of type `long long`; a plain int is passed as `int`, and a float as `float`"


class Double(float):
    "An argument of type `double`"


_C = {Long: ctypes.c_longlong, float: ctypes.c_float, Double: ctypes.c_double}


class Launcher:
    """A kernel with its scalar arguments bound. On a GPU call it with the addresses of its arrays and a stream handle,
    on the emulator with tensors"""

    def __init__(
        self,
        kernel,
        arrays,  # number of array arguments, which precede the scalars
        scalars,
        grid,
        block,
        shared=0,
        pdl=False,  # programmatic dependent launch: it may begin before the previous kernel ends, see griddepcontrol
        cluster=(1, 1, 1),  # blocks of a cluster along x, y, z, if the source has no `__cluster_dims__`
        cooperative=False,  # all blocks must be resident at once, because they wait for each other
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
        "Prepare the structures that ctypes passes to the driver, if there is no compiled launcher"
        kernel, shared = self.kernel, self.shared
        self.pointers = (ctypes.c_void_p * self.arrays)()
        at = [ctypes.addressof(self.pointers) + 8 * i for i in range(self.arrays)]
        at += [ctypes.addressof(value) for value in self.values]
        values = [_Attribute(i, 0, (ctypes.c_uint * 16)(*v)) for i, v in self.attributes]
        attributes = (_Attribute * len(values))(*values)
        self.argument_addresses = (ctypes.c_void_p * len(at))(*at)
        self.config = _Config(*self.grid, *self.block, shared, None, attributes, len(values))
        self.run = driver().cuLaunchKernelEx
        self.launch_args = ctypes.byref(self.config), ctypes.c_void_p(kernel.handle), self.argument_addresses, None

    def __call__(self, arrays, stream=None):
        if not self.kernel.handle:
            return self.kernel.launch((*arrays, *self.scalars), self.grid, self.block, None, self.shared, self.cluster)
        if launcher():
            return self.launch(self.compiled, stream or 0, *arrays)
        with self.lock:  # threads share the argument buffer
            self.bind_arrays(arrays)
            self.config.stream = stream
            if self.run(*self.launch_args):
                call_driver(lambda: self.run(*self.launch_args), self.kernel.__name__)

    def launch(self, compiled, *launch_args):
        "Launch by the compiled launcher; `launch_args`: a stream handle and the addresses of the arrays"
        if compiled.run(*launch_args):
            call_driver(lambda: compiled.run(*launch_args), self.kernel.__name__)

    @cached_property
    def compiled(self):
        "The launch as an object of the compiled launcher"
        return self.compile(self.parameters())

    def compile(self, parameters):
        "Return the launch as an object of the compiled launcher, for parameters in the format of `launcher.cpp`"
        attributes = [(i, (*v, 0, 0)[:3]) for i, v in self.attributes]
        size = tuple(self.grid), tuple(self.block), self.shared
        return launcher().Launch(self.kernel.handle, *size, attributes, parameters, self.kernel)

    def parameters(self) -> list:
        "Return the parameters in the format of `launcher.cpp`: addresses are passed per launch, scalars are bound"
        return [('&',)] * self.arrays + [bytes(value) for value in self.values]

    def bind_arrays(self, arrays):
        "Store the addresses of the arrays for the next launch"
        self.pointers[:] = arrays


class Mapped(Launcher):
    "A launcher that is called with tensors; the kernel takes some of them as tensor maps"

    def __init__(
        self,
        kernel,
        mapped_args,  # (index of the argument, box, swizzle) per tensor map
        *launch_options,  # the further arguments of `Launcher`
    ):
        super().__init__(kernel, *launch_options)
        self.mapped_args, self.maps, self.current_maps, self.compiled_by_form = mapped_args, {}, [], {}

    def __call__(self, arrays, stream=None):
        if self.kernel.handle and launcher():
            return self.launch(self.compiled_for(arrays), stream or 0, *(x.data_ptr() for x in arrays))
        if not self.kernel.handle:
            arrays = list(arrays)
            for i, box, swizzle in self.mapped_args:
                arrays[i] = tensor_map(arrays[i], box, swizzle)
        super().__call__(arrays, stream)

    def compiled_for(self, arrays):
        "Return the compiled launcher's object for arrays of one form; it updates the addresses in the maps itself"
        if any(arrays[i].data_ptr() & 15 for i, *_ in self.mapped_args):
            for i, box, swizzle in self.mapped_args:
                tensor_map(arrays[i], box, swizzle)  # raises for the unaligned array
        if (key := self.form_of(arrays)) not in self.compiled_by_form:
            if len(self.compiled_by_form) >= MAX_CACHED:
                self.compiled_by_form.clear()
            parameters = self.parameters()
            for i, box, swizzle in self.mapped_args:
                parameters[i] = 'T', 0, 0, bytes(tensor_map(arrays[i], box, swizzle))
            self.compiled_by_form[key] = self.compile(parameters)
        return self.compiled_by_form[key]

    def form_of(self, arrays):
        "Return what the maps depend on besides the addresses: shapes and strides"
        return tuple((arrays[i].shape, arrays[i].stride()) for i, *_ in self.mapped_args)

    def bind_arrays(self, arrays):
        for i, x in enumerate(arrays):
            self.pointers[i] = x.data_ptr()
        # Keep references until the next launch: making one map may evict another map of the same launch from the cache.
        self.current_maps = [self.map(i, arrays[i], box, swizzle) for i, box, swizzle in self.mapped_args]
        for (i, *_), tensor_map_ in zip(self.mapped_args, self.current_maps):
            self.argument_addresses[i] = tensor_map_.address

    def key(self, i, x):
        "Return the cache key of a map"
        return i, x.data_ptr(), x.shape, x.stride()

    def map(self, i, x, box, swizzle):
        "Return the map of the array that is the `i`th argument"
        if (key := self.key(i, x)) not in self.maps:
            if len(self.maps) >= MAX_CACHED:
                self.maps.clear()
            self.maps[key] = tensor_map(x, box, swizzle)
        return self.maps[key]
