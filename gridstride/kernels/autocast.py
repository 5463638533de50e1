"""Under `torch.autocast`, operators compute in the dtype that torch selects for the same operator: on a GPU, a softmax
of bfloat16 returns float32; on a CPU, bfloat16."""

from functools import lru_cache

import torch

from .operators import constant


@constant  # `torch.compile` of torch 2.11 cannot trace it
def _is_autocast_available(device_type):
    return torch.amp.is_autocast_available(device_type)


def is_autocast_enabled(x) -> bool:
    "Return whether autocast may change the dtype of an operator's result for `x`, a floating-point tensor"
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        return False
    device_type = x.device.type
    return _is_autocast_available(device_type) and torch.is_autocast_enabled(device_type)


@lru_cache
def _result_dtype(torch_operator, dtype, device, autocast_dtype):
    "Return the dtype of torch's result; `autocast_dtype` is only part of the cache key"
    return torch_operator(torch.zeros(1, 1, dtype=dtype, device=device)).dtype


def autocast_operands(
    torch_operator,  # torch's version of the operator, as a function of a matrix
    x,
    *others,  # tensors or None
) -> tuple:  # of (x, *others)
    """Convert the operands to the dtype of torch's result for `x` under the active autocast.

    autocast_operands(torch_softmax, x)"""
    device = x.device.type
    dtype = _result_dtype(torch_operator, x.dtype, device, torch.get_autocast_dtype(device))
    return tuple(operand if operand is None else operand.to(dtype) for operand in (x, *others))
