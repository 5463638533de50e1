"""Under `torch.autocast`, operators compute in the type that torch chooses for the same operator: on a GPU a softmax of
bfloat16 has a float32 result, on a CPU a bfloat16 one."""

from functools import lru_cache

import torch


def is_autocast_enabled(x) -> bool:
    "Return whether autocast may change the type of an operator's result for `x`, a floating-point tensor"
    return isinstance(x, torch.Tensor) and x.is_floating_point() and torch.is_autocast_enabled(x.device.type)


@lru_cache
def _result_dtype(by_torch, dtype, device, autocast_dtype):
    "Return the dtype of torch's result; `autocast_dtype` is only a part of the cache key"
    return by_torch(torch.zeros(1, 1, dtype=dtype, device=device)).dtype


def autocast_operands(
    by_torch,  # torch's version of the operator, as a function of a matrix
    x,
    *others,  # tensors or None
) -> tuple:  # of (x, *others)
    """Convert the operands to the type of torch's result for `x` under the autocast that is enabled.

    autocast_operands(softmax_by_torch, x)"""
    device = x.device.type
    dtype = _result_dtype(by_torch, x.dtype, device, torch.get_autocast_dtype(device))
    return tuple(operand if operand is None else operand.to(dtype) for operand in (x, *others))
