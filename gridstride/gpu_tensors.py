"""Tensors on the emulated GPU of `gridstride.as_gpu`: they are in the CPU's memory, and their `device` is `cuda:0`.

A tensor is on the GPU if its storage is, so views, `detach` and in-place operations stay there. The result of a
function of torch is on the GPU if one of its arguments is. torch's own modules and this package read the true device,
the CPU; but `torch.nn` reads `cuda:0`, because its functions move tensors to the device of other tensors."""

import sys
from contextlib import contextmanager, nullcontext

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._device import _device_constructors
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ['EmulatedDevices']

GPU = torch.device('cuda', 0)
_HALF_TYPES = torch.float16, torch.bfloat16
_SHARING_FUNCTIONS = torch.as_tensor, torch.asarray  # their results may share memory with their arguments


def _device_type(device):
    "Return the type of a device argument, such as 'cuda'; an integer is the index of a GPU"
    if isinstance(device, (str, torch.device)):
        return str(device).partition(':')[0]
    return 'cuda' if type(device) is int else None


def _true_device(device):
    "Return the device that holds the data for a device argument: the CPU for a GPU"
    return 'cpu' if _device_type(device) == 'cuda' else device


# On the CPU, torch sums the gradients of weight and bias in float16, and loses precision; on a GPU it sums in float32.
def _sum_in_float32(layer_norm):
    "Make a `layer_norm` that sums in float32"

    def layer_norm_in_float32(input, normalized_shape, weight=None, bias=None, eps=1e-5):
        if input.dtype not in _HALF_TYPES:
            return layer_norm(input, normalized_shape, weight, bias, eps)
        input32, *parameters = [None if x is None else x.float() for x in (input, weight, bias)]
        return layer_norm(input32, normalized_shape, *parameters, eps).to(input.dtype)

    return layer_norm_in_float32


def _is_called_by_program():
    "Return whether the program or `torch.nn` calls a function of torch, not other code of torch or this package"
    frame = sys._getframe(2)
    while frame.f_code.co_name == '__torch_function__':  # of a mode entered later, such as `with torch.device(...)`
        frame = frame.f_back
    name = frame.f_globals.get('__name__', '')
    return name.startswith('torch.nn.') or name.partition('.')[0] not in ('torch', 'gridstride')


def _tensors(values):
    "Return the tensors in arguments or results, including those in lists, tuples and dictionaries"
    tensors = []
    for value in values:
        if isinstance(value, torch.Tensor):
            tensors.append(value)
        elif isinstance(value, (list, tuple)):
            tensors += _tensors(value)
        elif isinstance(value, dict):
            tensors += _tensors(value.values())
    return tensors


def _address(tensor):
    "Return the address of a tensor's storage; None if it has none"
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # of a sparse tensor
        return None


def _with_new_storage(results, arguments):
    "Return the tensors in `results` that do not share their storage with a tensor in `arguments`"
    addresses = {*map(_address, arguments)}
    return [tensor for tensor in results if _address(tensor) not in addresses]


class _Storages:
    "A set of storages that does not keep them alive"

    def __init__(self):
        self._references = {}  # address -> weak reference, which keeps the address from being used again
        self._max_references = 1000  # at this length, references to deleted storages are removed

    def add(self, tensor):
        if (address := _address(tensor)) is None or tensor.device.type != 'cpu' or address in self._references:
            return
        self._references[address] = StorageWeakRef(tensor.untyped_storage())
        if len(self._references) >= self._max_references:
            self._references = {k: ref for k, ref in self._references.items() if not ref.expired()}
            self._max_references = 2 * len(self._references) + 1000

    def discard(self, tensor):
        self._references.pop(_address(tensor), None)

    def __contains__(self, tensor):
        return _address(tensor) in self._references

    def add_results(self, result, args):
        "Add the new storages in `result`, the result of a function, if the storage of an argument is in the set"
        if not (results := _tensors((result,))):
            return
        arguments = _tensors(args)
        if not self._references.keys().isdisjoint(map(_address, arguments)):
            for tensor in _with_new_storage(results, arguments):
                self.add(tensor)


class _InBackward(TorchDispatchMode):
    "Adds the gradients that torch's C++ code computes in a backward pass, before functions of the program get them"

    def __init__(self, storages):
        super().__init__()
        self.storages = storages

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.storages.add_results(result, (args, kwargs or {}))
        return result


class EmulatedDevices(TorchFunctionMode):
    "A torch function mode that stores the GPU's tensors in CPU memory"

    def __init__(self):
        super().__init__()
        self.storages = _Storages()
        self.default = None  # the argument of `torch.set_default_device`, if it is a GPU
        self._result_on_gpu = {  # function of a tensor -> its result on the GPU
            torch.Tensor.device.__get__: GPU,
            torch.Tensor.is_cuda.__get__: True,
            torch.Tensor.is_cpu.__get__: False,
            torch.Tensor.get_device: 0,
        }

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in self._result_on_gpu:
            on_gpu = args[0] in self.storages and _is_called_by_program()
            return self._result_on_gpu[func] if on_gpu else func(*args, **kwargs)
        if func in (torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu):
            return self._move(func, args, kwargs)
        if func is torch.Tensor.pin_memory:
            return args[0].clone()
        if func is torch.nn.functional.layer_norm:
            func = _sum_in_float32(func)
        return self._call(func, args, kwargs)

    def _call(self, func, args, kwargs):
        "Call a function of torch with the CPU in place of the GPU, and record results that belong on the GPU"
        if kwargs.get('pin_memory'):
            kwargs = kwargs | dict(pin_memory=False)
        device = kwargs.get('device')
        if device is None and self.default is not None and func in _device_constructors():
            device = self.default
        if device is not None:
            kwargs = kwargs | dict(device=_true_device(device))
        result = func(*args, **kwargs)
        if device is None:
            self.storages.add_results(result, (args, kwargs))
        elif _device_type(device) == 'cuda':
            return self._on_gpu(result, shared=func in _SHARING_FUNCTIONS)
        return result

    def _on_gpu(self, result, shared=False):
        "Move a new result to the GPU; copy it if other tensors or arrays may share its memory"
        if not isinstance(result, torch.Tensor) or result in self.storages:
            return result
        gpu_tensor = result.clone() if shared else result
        self.storages.add(gpu_tensor)
        return gpu_tensor

    def _move(self, func, args, kwargs):
        "Call `Tensor.to`, `cuda` or `cpu`"
        tensor = args[0]
        target = self._target(func, args[1:], kwargs)
        if func is torch.Tensor.cuda:
            result = tensor
        else:
            result = func(*map(_true_device, args), **{k: _true_device(v) for k, v in kwargs.items()})
        if target is None:
            self.storages.add_results(result, (args, kwargs))
            return result
        shared = not _with_new_storage([result], [tensor])
        if target == 'cuda':
            return self._on_gpu(result, shared)
        if shared and tensor in self.storages:
            result = result.clone()
        if result is not tensor:
            self.storages.discard(result)
        return result

    def _target(self, func, args, kwargs):
        "Return the type of the target device of a tensor's move; None if it is not moved"
        if func is not torch.Tensor.to:
            return 'cuda' if func is torch.Tensor.cuda else 'cpu'
        for value in (*args, *kwargs.values()):
            if isinstance(value, torch.Tensor):
                return 'cuda' if value in self.storages else value.device.type
            if (target := _device_type(value)) is not None:
                return target
        return None

    def inside_operator(self):
        "Return a context manager that enters this mode unless it is active: torch calls operators outside it"
        return nullcontext() if self in _get_current_function_mode_stack() else self

    @contextmanager
    def _during_backward(self):
        "Enter this mode in a backward pass, because torch calls the program's functions there without it"
        with _InBackward(self.storages), self.inside_operator():
            yield

    def make_run_backward(self, original):
        "Make a function that runs a backward pass of tensors on the GPU"

        def run_backward(outputs, grads, *args, **kwargs):
            for output, grad in zip(outputs, grads):
                if isinstance(output, torch.Tensor) and grad is not None and output in self.storages:
                    self.storages.add(grad)
            with self._during_backward():
                return original(outputs, grads, *args, **kwargs)

        return run_backward

    def make_set_default_device(self, original):
        "Make a `torch.set_default_device` that also takes a GPU"

        def set_default_device(device):
            self.default = device if _device_type(device) == 'cuda' else None
            original(None if self.default is not None else device)

        return set_default_device

    def make_get_default_device(self, original):
        "Make a `torch.get_default_device` that also returns the GPU"
        return lambda: GPU if self.default is not None else original()

    def make_generator(self):
        "Make a `torch.Generator` that also takes a GPU"

        class Generator(torch.Generator):
            def __new__(cls, device='cpu'):
                return super().__new__(cls, _true_device(device))

        return Generator
