"""`Launcher`: a kernel with bound scalar arguments, for low launch overhead; `MappedLauncher` adds tensor maps."""

import ctypes
import threading
from functools import cached_property

from ...cpp.driver import (
    CLUSTER_ATTRIBUTE,
    COOPERATIVE_ATTRIBUTE,
    PDL_ATTRIBUTE,
    call_driver,
    driver,
    ensure_max_dynamic_smem,
    launch_config,
)
from ...cpp.launcher import launcher
from ..tensor_maps import tensor_map
from ...utils import dim3

# A small GEMM takes a few microseconds on a GPU, as long as a few Python calls. To keep the launch overhead low,
# everything that is constant for a shape is prepared once: the grid, the sizes, the array of argument addresses. A call
# then only stores the pointers and calls the driver. A kernel that loads by TMA takes tensor maps instead of pointers;
# the map for an address is cached, too.
MAX_CACHED = 64  # tensor maps per launcher, and shapes per GEMM


class Int64(int):
    "An argument of type `long long`; a plain int is passed as `int`, and a float as `float`"


class Float64(float):
    "An argument of type `double`"


# While a call is recorded (`kernels.launch_replay`), each launch of its thread is counted.
_thread_state = threading.local()


def active_recorder():  # a `CallRecorder`, or None
    "Return the recorder of this thread's current call"
    return getattr(_thread_state, 'recorder', None)


def set_recorder(recorder):
    "Count and record the following launches of this thread; with None, stop"
    _thread_state.recorder = recorder


def record_launch(launcher, tensors):
    "Record a launch of a `Launcher` on these tensors if this thread's current call is recorded"
    if recorder := active_recorder():
        recorder.add_launch(launcher, tensors)


_C_TYPES = {Int64: ctypes.c_longlong, float: ctypes.c_float, Float64: ctypes.c_double}


class Launcher:
    """A kernel with its scalar arguments bound. On a GPU it is called with the addresses of its arrays and a stream
    handle, on the emulator with tensors"""

    def __init__(
        self,
        kernel,
        num_arrays,  # array arguments, which precede the scalars
        scalars,
        grid,
        block,
        shared=0,
        pdl=False,  # programmatic dependent launch: the kernel may begin before the previous one ends (griddepcontrol)
        cluster=(1, 1, 1),  # blocks of a cluster along x, y, z, if the source has no `__cluster_dims__`
        cooperative=False,  # all blocks must be resident at once, because they wait for each other
    ):
        self.kernel, self.scalars = kernel, scalars
        self.grid, self.block, self.cluster, self.shared = dim3(grid), dim3(block), cluster, shared
        self.lock = threading.Lock()
        if not kernel.handle:
            return
        ensure_max_dynamic_smem(kernel, shared)
        self.scalar_values = [_C_TYPES.get(type(scalar), ctypes.c_int)(scalar) for scalar in scalars]
        attributes = [(PDL_ATTRIBUTE, (1,))] * pdl + [(CLUSTER_ATTRIBUTE, cluster)] * (max(cluster) > 1)
        attributes += [(COOPERATIVE_ATTRIBUTE, (1,))] * cooperative
        self.attributes, self.num_arrays = attributes, num_arrays
        if not launcher():
            self._prepare_ctypes()

    def _prepare_ctypes(self):
        "Prepare the structures that ctypes passes to the driver, if there is no compiled launcher"
        kernel, shared = self.kernel, self.shared
        self.pointers = (ctypes.c_void_p * self.num_arrays)()
        addresses = [ctypes.addressof(self.pointers) + 8 * i for i in range(self.num_arrays)]
        addresses += [ctypes.addressof(value) for value in self.scalar_values]
        self.argument_addresses = (ctypes.c_void_p * len(addresses))(*addresses)
        self.config = launch_config(self.grid, self.block, shared, None, self.attributes)
        self.driver_launch = driver().cuLaunchKernelEx
        self.launch_args = ctypes.byref(self.config), ctypes.c_void_p(kernel.handle), self.argument_addresses, None

    def __call__(self, arrays, stream=None):
        if not self.kernel.handle:
            return self.kernel.launch((*arrays, *self.scalars), self.grid, self.block, None, self.shared, self.cluster)
        if launcher():
            return self.launch(self.launch_object, stream or 0, *arrays)
        with self.lock:  # threads share the argument buffer
            self.bind_arrays(arrays)
            self.config.stream = stream
            if self.driver_launch(*self.launch_args):
                call_driver(lambda: self.driver_launch(*self.launch_args), self.kernel.__name__)

    def launch(self, launch_object, *launch_args):
        "Launch with the compiled launcher (`launcher.cpp`); `launch_args`: a stream handle and addresses of the arrays"
        if recorder := active_recorder():
            recorder.num_launches += 1
        if launch_object.run(*launch_args):  # a second call reports the error
            call_driver(lambda: launch_object.run(*launch_args), self.kernel.__name__)

    @cached_property
    def launch_object(self):
        "The `Launch` of the compiled launcher, with this kernel and its scalars"
        return self.make_launch_object(self.parameters())

    def make_launch_object(self, parameters):
        "Return a `Launch` of the compiled launcher; `parameters`: in the format of `launcher.cpp`"
        attributes = [(number, (*values, 0, 0)[:3]) for number, values in self.attributes]
        configuration = tuple(self.grid), tuple(self.block), self.shared
        return launcher().Launch(self.kernel.handle, *configuration, attributes, parameters, self.kernel)

    def parameters(self) -> list:
        "Return the parameters in the format of `launcher.cpp`: addresses are passed per launch, scalars are bound"
        return [('&',)] * self.num_arrays + [bytes(value) for value in self.scalar_values]

    def bind_arrays(self, arrays):
        "Store the addresses of the arrays for the next launch"
        self.pointers[:] = arrays


class MappedLauncher(Launcher):
    "A launcher that is called with tensors, some of which it passes to the kernel as tensor maps"

    def __init__(
        self,
        kernel,
        mapped_args,  # (index of the argument, box, swizzle) per tensor map
        *launch_options,  # the other arguments of `Launcher`
    ):
        super().__init__(kernel, *launch_options)
        self.mapped_args, self.maps, self.current_maps, self.launch_objects = mapped_args, {}, [], {}

    def __call__(self, arrays, stream=None):
        if self.kernel.handle and launcher():
            return self.launch(self.launch_object_for(arrays), stream or 0, *(x.data_ptr() for x in arrays))
        if not self.kernel.handle:
            arrays = list(arrays)
            for i, box, swizzle in self.mapped_args:
                arrays[i] = tensor_map(arrays[i], box, swizzle)
        super().__call__(arrays, stream)

    def launch_object_for(self, arrays):
        "Return the compiled launcher's `Launch` for arrays of these shapes; it updates the maps' addresses itself"
        if any(arrays[i].data_ptr() & 15 for i, *_ in self.mapped_args):
            for i, box, swizzle in self.mapped_args:
                tensor_map(arrays[i], box, swizzle)  # raises for the unaligned array
        if (key := self.layout_key(arrays)) not in self.launch_objects:
            if len(self.launch_objects) >= MAX_CACHED:
                self.launch_objects.clear()
            parameters = self.parameters()
            for i, box, swizzle in self.mapped_args:
                parameters[i] = 'T', 0, 0, bytes(tensor_map(arrays[i], box, swizzle))
            self.launch_objects[key] = self.make_launch_object(parameters)
        return self.launch_objects[key]

    def layout_key(self, arrays):
        "Return the cache key of a launch object: shapes and strides, on which the maps depend besides the addresses"
        return tuple((arrays[i].shape, arrays[i].stride()) for i, *_ in self.mapped_args)

    def bind_arrays(self, arrays):
        for i, array in enumerate(arrays):
            self.pointers[i] = array.data_ptr()
        # The list keeps the maps alive until the next launch, because a new map may evict another one from the cache.
        self.current_maps = [self.map_for(i, arrays[i], box, swizzle) for i, box, swizzle in self.mapped_args]
        for (i, *_), current_map in zip(self.mapped_args, self.current_maps):
            self.argument_addresses[i] = current_map.address

    def map_key(self, index, array):
        "Return the cache key of the tensor map of argument `index`"
        return index, array.data_ptr(), array.shape, array.stride()

    def map_for(self, index, array, box, swizzle):
        "Return the tensor map of the array that is argument `index`"
        if (key := self.map_key(index, array)) not in self.maps:
            if len(self.maps) >= MAX_CACHED:
                self.maps.clear()
            self.maps[key] = tensor_map(array, box, swizzle)
        return self.maps[key]
