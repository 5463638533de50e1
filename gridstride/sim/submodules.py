"""The submodules of `numba.cuda` that programs import: `numba.cuda.random`, `numba.cuda.cudadrv.devicearray`, ...

`numba_cuda_mlir.cuda`, the successor of `numba.cuda`, has the same ones.
A module that numba-cuda copied from Numba, such as `numba.cuda.core.errors`, is a proxy of Numba's own module, if Numba
is installed.
Modules of the kernel compiler and of the driver are not provided: importing one raises `ImportError`.
"""

import sys
import types
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec

from . import args, cuda, elementwise, host, inspection, libdevice, numba_testing, random, vectors
from . import types as numba_types
from ..diagnostics.errors import KernelError, LaunchError

__all__ = ['MODULE_NAMESPACES', 'SubmoduleFinder', 'make_shim', 'mlir_modules']

_REPLACED_PACKAGES = 'numba.cuda', 'numba_cuda_mlir.cuda'


class CudaSupportError(ImportError):
    "Numba's error for a missing GPU; the simulator never raises it"


class CudaAPIError(RuntimeError):
    "Numba's driver error; the simulator never raises it"


class _Driver:
    "A replacement for Numba's driver object; tests of other packages also set attributes on it"

    def get_device_count(self):
        "Return 1: there is one simulated device"
        return 1


class _NoMemoryStatistics:
    "A replacement for `rtsys`, which counts allocations in kernels: there are none here"

    def memsys_enable_stats(self):
        "Do nothing"

    memsys_disable_stats = get_allocation_stats = memsys_enable_stats


def _transpose(a, b=None):
    "Copy the transpose of `a` to `b`, or to a new device array, and return it"
    b = host.device_array(a.shape[::-1], a.dtype) if b is None else b
    b[...] = a.T
    return b


def _is_contiguous(array):
    "Return whether an array is row-major or column-major, without gaps"
    return array.flags.c_contiguous or array.flags.f_contiguous


def _auto_device(obj, stream=0, copy=True):
    "Return (device array of `obj`, whether it is a new one)"
    return host.to_device(obj, stream), not host.is_cuda_array(obj)


def _array_core(array):
    "Return the elements of an array without those that broadcasting repeats"
    return array[tuple(0 if stride == 0 else slice(None) for stride in array.strides)] if array.ndim else array


_DEVICES = dict(gpus=host.gpus, get_context=host.current_context, reset=host.close)
_DRIVER = dict(CudaAPIError=CudaAPIError, CudaSupportError=CudaSupportError, Stream=host.Stream, Event=host.Event)
_DRIVER |= dict(driver=_Driver())
_ARRAYS = dict(DeviceNDArray=host.DeviceArray, DeviceRecord=host.DeviceArray, is_cuda_ndarray=host.is_cuda_array)
_ARRAYS |= dict(to_device=host.to_device, is_contiguous=_is_contiguous, array_core=_array_core)
_ARRAYS |= dict(auto_device=_auto_device, from_array_like=host.device_array_like)
MODULE_NAMESPACES = {  # submodule name -> {attribute: value}
    'api': {name: getattr(host, name) for name in host.__all__},
    'args': vars(args),
    'compiler': {name: getattr(inspection, name) for name in inspection.__all__ if name.startswith('compile')},
    'cudadrv': {},
    'cudadrv.devicearray': _ARRAYS,
    'cudadrv.devices': _DEVICES,
    'cudadrv.driver': _DRIVER,
    'cudadrv.error': dict(CudaSupportError=CudaSupportError, CudaDriverError=CudaAPIError, NvvmError=CudaAPIError),
    'decorators': dict(jit=cuda.jit, declare_device=cuda.declare_device),
    'dispatcher': dict(CUDADispatcher=cuda.Kernel),
    'errors': dict(KernelRuntimeError=KernelError, KernelLaunchError=LaunchError, CudaLoweringError=KernelError),
    'intrinsics': vars(cuda),
    'kernels': {},
    'kernels.reduction': dict(Reduce=elementwise.Reduce, reduce=elementwise.reduce),
    'kernels.transpose': dict(transpose=_transpose),
    'libdevice': vars(libdevice),
    'memory_management': {},
    'memory_management.nrt': dict(rtsys=_NoMemoryStatistics()),
    'random': vars(random),
    'stubs': vars(cuda),
    'testing': vars(numba_testing),
    'types': vars(numba_types),
    'vector_types': {name: getattr(vectors, name) for name in vectors.__all__},
}
# Numba's own simulator: programs import its classes to recognize its arrays and kernels
_SIMULATOR = {
    'simulator': vars(cuda),
    'simulator.api': MODULE_NAMESPACES['api'],
    'simulator.cudadrv': {},
    'simulator.cudadrv.devicearray': dict(_ARRAYS, FakeCUDAArray=host.DeviceArray),
    'simulator.cudadrv.devices': dict(_DEVICES, FakeCUDAContext=host.FakeCUDAContext),
    'simulator.kernel': dict(FakeCUDAKernel=cuda.Kernel),
    'simulator.vector_types': MODULE_NAMESPACES['vector_types'],
}
MODULE_NAMESPACES |= _SIMULATOR
_COMPILER_MODULES = '''
    bf16 cache_hints cg cgutils codegen core cudadecl cudaimpl cudamath datamodel debuginfo descriptor device_init
    deviceufunc extending fp8 initialize itanium_mangler launchconfig libdevicedecl libdevicefuncs libdeviceimpl
    lowering mathimpl models np nvvmutils printimpl serialize simulator_init target typeconv typing
    ufuncs utils vectorizers'''.split()
_NOT_PROVIDED = {
    *_COMPILER_MODULES,
    *(f'cudadrv.{name}' for name in 'drvapi enums libs linkable_code nvrtc nvvm runtime'.split()),
}
_PACKAGES = 'cudadrv', 'kernels', 'memory_management', 'simulator', 'simulator.cudadrv'


def _split_name(name):
    "Split a module name into (replaced package, submodule name relative to it); (None, None) for other modules"
    for package in _REPLACED_PACKAGES:
        if name.startswith(f'{package}.') and getattr(sys.modules.get(package), 'simulated', False):
            return package, name.removeprefix(f'{package}.')
    return None, None


_SAME_NAME_IN_CORE = 'cgutils datamodel debuginfo itanium_mangler serialize typeconv types typing utils'.split()
_MODULE_OF_NUMBA = {name: f'numba.core.{name}' for name in _SAME_NAME_IN_CORE}
_MODULE_OF_NUMBA |= {name: f'numba.{name}' for name in ('core', 'cpython', 'extending', 'misc', 'np')}


class _ModuleProxy(types.ModuleType):
    "A proxy that forwards attribute access to a module of Numba, under the name of its copy in numba-cuda"

    def __getattr__(self, name):
        return getattr(self.__dict__['__original__'], name)

    def __setattr__(self, name, value):
        if name.startswith('__') or isinstance(value, _ModuleProxy):  # the import system sets these
            super().__setattr__(name, value)
        else:
            setattr(self.__original__, name, value)


def _module_of_numba(name):
    "Return the module of Numba of which numba-cuda's submodule `name` is a copy; None if it is not a copy"
    package, dot, submodule = name.partition('.')
    if package not in _MODULE_OF_NUMBA:
        return None
    try:
        return import_module(_MODULE_OF_NUMBA[package] + dot + submodule)
    except ImportError:
        return None


class SubmoduleFinder:
    "Finds the submodules of the simulator's `numba.cuda` and `numba_cuda_mlir.cuda`, for `sys.meta_path`"

    def find_spec(self, name, path=None, target=None):
        "Return the spec of a module that programs import; raises `ImportError` for a compiler or driver module"
        package, module = _split_name(name)
        if package is None:
            return None
        if original_module := _module_of_numba(module):
            return ModuleSpec(name, self, is_package=hasattr(original_module, '__path__'))
        if module in _NOT_PROVIDED:
            available = ', '.join(key for key in MODULE_NAMESPACES if '.' not in key)
            raise ImportError(
                f"{name} is part of numba-cuda's compiler or driver bindings, which the simulator does not provide. "
                f'Import one of these submodules of {package}: {available}',
                name=name,
            )
        if module not in MODULE_NAMESPACES:  # numba-cuda's own finder would loop over the shim's empty `__path__`
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)
        return ModuleSpec(name, self, is_package=module in _PACKAGES)

    def create_module(self, spec):
        "Create the proxy of a module of Numba; returns None for other modules, which the import system creates"
        if (original := _module_of_numba(_split_name(spec.name)[1])) is None:
            return None
        module = _ModuleProxy(spec.name, original.__doc__)
        module.__original__ = original
        return module

    def exec_module(self, module):
        "Populate a module with the attributes of its namespace"
        if isinstance(module, _ModuleProxy):
            return
        namespace = MODULE_NAMESPACES[_split_name(module.__name__)[1]]
        vars(module).update(
            {
                name: value
                for name, value in namespace.items()
                if not name.startswith('__') or name in ('__all__', '__getattr__')
            }
        )


def _make_package(name, doc):
    "Make a package without submodules; its spec lets `importlib.util.find_spec` find it"
    module = types.ModuleType(name, doc)
    module.__spec__ = ModuleSpec(name, None, is_package=True)
    module.__path__ = []
    return module


def make_shim(name='numba.cuda'):
    "Make the module that replaces `numba.cuda`, or `numba_cuda_mlir.cuda`"
    module = _make_package(name, cuda.__doc__)
    module.simulated = True
    module.__getattr__ = partial(_attribute_of_shim, name)
    vars(module).update({name: getattr(cuda, name) for name in cuda.__all__ if name != 'warpsize'})
    module.HAS_NUMBA = find_spec('numba') is not None
    module.vectorize, module.guvectorize = elementwise.vectorize, elementwise.guvectorize
    if module.HAS_NUMBA:
        module.config, module.types = (import_module(f'numba.core.{name}') for name in ('config', 'types'))
    module.devicearray = types.SimpleNamespace(**_ARRAYS)
    if name == 'numba_cuda_mlir.cuda':
        module.shared_array, module.local_array = cuda.shared.array, cuda.local.array
        module.DeviceNDArray = host.DeviceArray
    return module


def _attribute_of_shim(package, name):
    "Import the submodule `name`, as numba-cuda-mlir does for `cuda.random`; else return the attribute of `sim.cuda`"
    if name in MODULE_NAMESPACES and 'numba_cuda_mlir' in package:
        return import_module(f'{package}.{name}')
    return cuda.__getattr__(name)


def mlir_modules() -> dict:  # name -> module
    "Make the modules that replace `numba_cuda_mlir`, which need not be installed: its `cuda` and its `types`"
    package = _make_package('numba_cuda_mlir', 'The simulator of gridstride in place of numba_cuda_mlir')
    package.cuda = make_shim('numba_cuda_mlir.cuda')
    package.types = numba_types
    modules = {f'numba_cuda_mlir.{name}': vars(package)[name] for name in ('cuda', 'types')}
    return {'numba_cuda_mlir': package, **modules}
