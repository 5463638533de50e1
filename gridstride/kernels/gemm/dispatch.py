"""`matmul(a, b)`: the fast path for operands like earlier ones, torch's operator, and the gradient.

Which kernel multiplies, and when torch does, is in `plan`.
"""

from functools import lru_cache

import torch
from torch.autograd import forward_ad

from .plan import KEPT, TYPES, forgetting, multiply, tf32, why_torch
from ..operators import operator
from ..ladder.rung import Product
from ..tool import enter_thread
from ...cpp.launcher import launcher

_FLOAT = torch.float32
_PLAIN = torch.Tensor, torch.nn.Parameter
_OURS = tuple(getattr(torch, o) for o in TYPES)

# Queries of torch that take a fraction of a microsecond, by private names. A version without the first two is queried
# in another way; one without any other has no compiled launcher (`launcher.why_not`), so no fast path.
_is_any_autocast = getattr(torch._C, '_is_any_autocast_enabled', lambda: torch.is_autocast_enabled('cuda'))
_precision = getattr(torch._C, '_get_fp32_precision_getter', None)
_functorch = getattr(torch._C, '_functorch', None)


def _may_use_tf32():
    return _precision('cuda', 'matmul') == 'tf32' if _precision else tf32(torch.backends.cuda.matmul)


def _is_ordinary(a):
    "Do only values and gradients matter: no autocast, mode, transform or TF32?"
    return not (
        _is_any_autocast()
        or torch._C._len_torch_dispatch_stack()
        or _functorch.peek_interpreter_stack() is not None
        or forward_ad._current_level >= 0
        or a.dtype is _FLOAT
        and _may_use_tf32()
    )


# A table of the compiled launcher: the launches for operands, by their shapes, strides, type, device and alignment.
# None until a kernel has multiplied, so that the first call on a CPU compiles no launcher.
_launch_table = None


@lru_cache
def _table():
    module = launcher()
    if not module:
        return
    table = module.Table(torch._C._dynamo.guards._empty_strided_cuda)
    forgetting.append(table.clear)
    return table


def _can_be_kept(a, b, kernel, m, n):
    "Are these the operands themselves, no copies, for torch or a kernel that needs no other launch to end first?"
    if kernel is None:
        return a.is_cuda
    if not (a.is_cuda and isinstance(kernel, Product)) or kernel.uses_workspace:
        return False
    return m.data_ptr() == a.data_ptr() and n.data_ptr() == b.data_ptr()


def _keep(a, b, kernel, m, n, out):
    "Add the launches just made, or that torch multiplied, to the table, if they can be repeated without Python"
    global _launch_table
    table = _table() if _can_be_kept(a, b, kernel, m, n) else None
    if table is None:
        return
    if len(table) >= KEPT:
        table.clear()
    if kernel is None:
        table.leave(a, b)
    else:
        steps, size = kernel.ready(m, n).steps(m, n, out)
        workspace = ((size,), (1,), torch.uint8) if size else None
        table.keep(a, b, steps, tuple(out.shape), (tuple(out.shape), out.stride(), out.dtype), workspace)
    _launch_table = table


# torch's operator, for what `torch.compile` traces: there the product is one operator, and takes the same path when it
# runs.
def _shape_of(a, b):
    return a.new_empty(*a.shape[:-1], b.shape[1])


@operator('matmul(Tensor a, Tensor b) -> Tensor', _shape_of)
def _multiply_traced(a, b):
    if a.is_cuda:
        enter_thread()
    return multiply(a, b, None, _keep).contiguous()


def _keep_operands(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _gradients(ctx, g, product):
    a, b = ctx.saved_tensors
    ga = product(g, b.t()) if ctx.needs_input_grad[0] else None
    gb = product(a.reshape(-1, a.shape[-1]).t(), g.reshape(-1, g.shape[-1])) if ctx.needs_input_grad[1] else None
    return ga, gb


def _backward(ctx, g):
    return _gradients(ctx, g, torch.ops.gridstride.matmul.default)


torch.library.register_autograd('gridstride::matmul', _backward, setup_context=_keep_operands)


def _multiply_batch(info, dims, a, b):
    a, b = (x[None] if dim is None else x.movedim(dim, 0) for x, dim in zip((a, b), dims))
    out = a.reshape(a.shape[0], -1, a.shape[-1]) @ b
    return out.view(out.shape[0], *a.shape[1:-1], b.shape[-1]), 0


torch.library.register_vmap('gridstride::matmul', _multiply_batch)


def _by_torch(a, b, out):
    return torch.matmul(a, b) if out is None else torch.matmul(a, b, out=out)


def _is_ours(a, b):
    "Return whether a kernel may multiply them, as far as is known before it runs"
    return (
        type(a) in _PLAIN
        and type(b) in _PLAIN
        and a.is_cuda
        and b.is_cuda
        and a.dtype in _OURS
        and a.dtype == b.dtype
        and a.dim() >= 2
        and b.dim() == 2
        and a.shape[-1] == b.shape[0]
        and not torch.is_autocast_enabled('cuda')
    )


# The gradients of a product are products: with $g$ the gradient of $a b$, that of $a$ is $g b^T$ and that of
# $b$ is $a^T g$. They take the same path as the product itself, so that they may be differentiated again.
class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return matmul(a, b)

    @staticmethod
    def backward(ctx, g):
        if g.is_cuda:  # before cuBLAS warns that there is no context
            enter_thread()
        return _gradients(ctx, g, matmul)


def check_epilogue(e):
    "Raise `TypeError` for an `e` that is not an `Epilogue`: any object with a method `product` is one"
    if not hasattr(e, 'product'):
        raise TypeError(f'matmul: epilogue is a {type(e).__name__}, and an Epilogue is needed: Epilogue(bias=...)')


def matmul(
    a,  # any tensor that torch.matmul takes; a kernel multiplies (..., k)
    b,  # by (k, w)
    out=None,  # written instead of a new tensor
    epilogue=None,  # an `Epilogue`: what is done with the product before it is written
):
    """Compute `a @ b` by the fastest kernel of the course that supports it, else by torch; `explain(a, b)` returns
    which.

        matmul(a, b)
        matmul(a, b, epilogue=Epilogue(bias, 'gelu'))

    Products of float32 have float32's errors, infinities and NaN, even if tensor cores compute them; but values below
    1e-33 lose bits there (`split`, `thin`). If a partial sum overflows, the order of additions decides which results
    are infinite, as always.

    The first product of a shape is planned and compiled; later ones are looked up and launched. For `torch.compile` it
    is the operator `torch.ops.gridstride.matmul`, and a CUDA graph captures it as it is. Raises TypeError for an
    epilogue of another type, and what torch raises for operands that do not fit."""
    if epilogue is not None:
        check_epilogue(epilogue)
        return epilogue.product(a, b, out)
    if torch.compiler.is_compiling():
        return _multiply_traced(a, b) if out is None and _is_ours(a, b) else _by_torch(a, b, out)
    try:
        asks = torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)
    except AttributeError:
        return _by_torch(a, b, out)  # it raises: an operand is not a tensor
    if _launch_table is not None and _is_ordinary(a):
        if not asks and (done := _launch_table(a, b, out)) is not None:
            return _by_torch(a, b, out) if done is NotImplemented else done
        if asks and out is None and _launch_table.knows(a, b):
            return _Product.apply(a, b)
    if not asks:
        return multiply(a, b, out, _keep)
    if out is None and not why_torch(a, b):
        return _Product.apply(a, b)
    return _by_torch(a, b, out)  # with `out` it raises, as it must
