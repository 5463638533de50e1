"""Tensors on the emulated GPU of `gridstride.as_gpu`: they are in the CPU's memory, and their `device` is `cuda:0`.

A tensor is on the GPU if its storage is, so views, `detach` and operations in place change nothing. What a function of
torch computes from a tensor on the GPU is on the GPU, too. torch's own modules and this package read the true device,
the CPU; but `torch.nn` reads `cuda:0`, because its functions move tensors to the device of other tensors."""

import sys
from contextlib import ExitStack, contextmanager

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._device import _device_constructors
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ['EmulatedDevices']

GPU = torch.device('cuda', 0)
_HALVES = torch.float16, torch.bfloat16
_SHARING = torch.as_tensor, torch.asarray  # their results may share memory with their arguments


def _device_type(device):
    "Return the type of a device argument, such as 'cuda'; an integer is the index of a GPU"
    if isinstance(device, (str, torch.device)):
        return str(device).partition(':')[0]
    return 'cuda' if type(device) is int else None


def _true_device(device):
    "Return the device whose memory is used for a device argument: for a GPU the CPU"
    return 'cpu' if _device_type(device) == 'cuda' else device


# torch's CPU function sums the gradients of weight and bias in float16, and loses digits; on a GPU it sums in float32
def _in_float32(layer_norm):
    "Return `layer_norm` whose sums are in float32"

    def computed(input, normalized_shape, weight=None, bias=None, eps=1e-5):
        if input.dtype not in _HALVES:
            return layer_norm(input, normalized_shape, weight, bias, eps)
        given = [None if x is None else x.float() for x in (input, weight, bias)]
        return layer_norm(given[0], normalized_shape, *given[1:], eps).to(input.dtype)

    return computed


def _is_asked_by_program():
    "Return whether the code that called a function of torch is neither torch, `torch.nn` excepted, nor this package"
    frame = sys._getframe(2)
    while frame.f_code.co_name == '__torch_function__':  # of a mode entered later, such as `with torch.device(...)`
        frame = frame.f_back
    name = frame.f_globals.get('__name__', '')
    return name.startswith('torch.nn.') or name.partition('.')[0] not in ('torch', 'gridstride')


def _tensors(values):
    "Return the tensors in arguments or results, also those in lists, tuples and dictionaries"
    found = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _tensors(value)
        elif isinstance(value, dict):
            found += _tensors(value.values())
    return found


def _address(tensor):
    "Return the address of a tensor's storage; None if it has none"
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # of a sparse tensor
        return None


def _new(found, given):
    "Return the tensors of `found` whose storage belongs to no tensor of `given`"
    addresses = {*map(_address, given)}
    return [tensor for tensor in found if _address(tensor) not in addresses]


class _Storages:
    "A set of storages that does not keep them alive"

    def __init__(self):
        self._references = {}  # address -> weak reference, which keeps the address from being used again
        self._limit = 1000  # from this length on, references to deleted storages are dropped

    def add(self, tensor):
        if (address := _address(tensor)) is None or tensor.device.type != 'cpu' or address in self._references:
            return
        self._references[address] = StorageWeakRef(tensor.untyped_storage())
        if len(self._references) >= self._limit:
            self._references = {k: ref for k, ref in self._references.items() if not ref.expired()}
            self._limit = 2 * len(self._references) + 1000

    def discard(self, tensor):
        self._references.pop(_address(tensor), None)

    def __contains__(self, tensor):
        return _address(tensor) in self._references

    def add_results(self, result, args):
        "Add the new storages in `result`, which was computed from `args`, if one of these is in the set"
        if not (found := _tensors((result,))):
            return
        given = _tensors(args)
        if not self._references.keys().isdisjoint(map(_address, given)):
            for tensor in _new(found, given):
                self.add(tensor)


class _InBackward(TorchDispatchMode):
    "Adds the gradients that torch's C++ computes in a backward pass, before a program's functions get them"

    def __init__(self, storages):
        super().__init__()
        self.storages = storages

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.storages.add_results(result, (args, kwargs or {}))
        return result


class EmulatedDevices(TorchFunctionMode):
    "A mode in which torch's functions use the CPU's memory for the GPU"

    def __init__(self):
        super().__init__()
        self.storages = _Storages()
        self.default = None  # the argument of `torch.set_default_device`, if it is a GPU
        self._answers = {
            torch.Tensor.device.__get__: GPU,
            torch.Tensor.is_cuda.__get__: True,
            torch.Tensor.is_cpu.__get__: False,
            torch.Tensor.get_device: 0,
        }

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in self._answers:
            on_gpu = args[0] in self.storages and _is_asked_by_program()
            return self._answers[func] if on_gpu else func(*args, **kwargs)
        if func in (torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu):
            return self._move(func, args, kwargs)
        if func is torch.Tensor.pin_memory:
            return args[0].clone()
        if func is torch.nn.functional.layer_norm:
            func = _in_float32(func)
        return self._call(func, args, kwargs)

    def _call(self, func, args, kwargs):
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
            return self._on_gpu(result, shared=func in _SHARING)
        return result

    def _on_gpu(self, result, shared=False):
        "Move a new result to the GPU: a copy if other tensors or arrays may share its memory"
        if not isinstance(result, torch.Tensor) or result in self.storages:
            return result
        moved = result.clone() if shared else result
        self.storages.add(moved)
        return moved

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
        shared = not _new([result], [tensor])
        if target == 'cuda':
            return self._on_gpu(result, shared)
        if shared and tensor in self.storages:
            result = result.clone()
        if result is not tensor:
            self.storages.discard(result)
        return result

    def _target(self, func, args, kwargs):
        "Return the type of the device that a tensor is moved to; None: it stays where it is"
        if func is not torch.Tensor.to:
            return 'cuda' if func is torch.Tensor.cuda else 'cpu'
        for value in (*args, *kwargs.values()):
            if isinstance(value, torch.Tensor):
                return 'cuda' if value in self.storages else value.device.type
            if (target := _device_type(value)) is not None:
                return target
        return None

    @contextmanager
    def _during_backward(self):
        "Let a program's functions in a backward pass, which torch calls without this mode, find the GPU"
        with ExitStack() as stack:
            stack.enter_context(_InBackward(self.storages))
            if self not in _get_current_function_mode_stack():
                stack.enter_context(self)
            yield

    def run_backward(self, original):
        "Return torch's function that runs a backward pass, for tensors on the GPU"

        def run_backward(outputs, grads, *args, **kwargs):
            for output, grad in zip(outputs, grads):
                if isinstance(output, torch.Tensor) and grad is not None and output in self.storages:
                    self.storages.add(grad)
            with self._during_backward():
                return original(outputs, grads, *args, **kwargs)

        return run_backward

    def set_default_device(self, original):
        "Return `torch.set_default_device` that also takes a GPU"

        def set_default_device(device):
            self.default = device if _device_type(device) == 'cuda' else None
            original(None if self.default is not None else device)

        return set_default_device

    def get_default_device(self, original):
        "Return `torch.get_default_device` that also returns the GPU"
        return lambda: GPU if self.default is not None else original()

    def generator(self):
        "Return `torch.Generator` that also takes a GPU"

        class Generator(torch.Generator):
            def __new__(cls, device='cpu'):
                return super().__new__(cls, _true_device(device))

        return Generator
