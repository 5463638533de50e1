"""`matmul(a, b)`: a fast path for operands like those of an earlier call, the operator for `torch.compile`, and the
gradients.

`plan` selects the kernel, or torch. `stored_a` and `stored_b` are the operands in the layout of their memory (see
`plan`).
"""

from functools import lru_cache, partial

import torch
from torch.autograd import forward_ad

from .plan import MAX_PLANS, TYPES, allows_tf32, cache_clearers, fallback_reason, is_torch_faster_in_graphs, multiply
from ..launch_replay import entry_point, install_entry_points, is_any_autocast_enabled, make_apply
from ..operators import operator
from ..ladder.rung import GemmKernel
from ..common import make_context_current_once
from ...cpp.launcher import launcher

_FLOAT = torch.float32
_TENSOR_TYPES = torch.Tensor, torch.nn.Parameter
_KERNEL_DTYPES = tuple(getattr(torch, name) for name in TYPES)

# Private functions of torch that report a mode in a fraction of a microsecond. If a version of torch lacks the first
# one, a public function replaces it; if it lacks one of the others, there is no compiled launcher
# (`launcher.no_launcher_reason`), and so no fast path.
_get_precision = getattr(torch._C, '_get_fp32_precision_getter', None)
_functorch = getattr(torch._C, '_functorch', None)


def _may_use_tf32():
    "Return whether torch may use TF32 for float32 matrix multiplication"
    return _get_precision('cuda', 'matmul') == 'tf32' if _get_precision else allows_tf32(torch.backends.cuda.matmul)


def _is_ordinary(a):
    "Return whether neither autocast, a dispatch mode, a transform of torch.func nor TF32 changes the multiplication"
    return not (
        is_any_autocast_enabled()
        or torch._C._len_torch_dispatch_stack()
        or _functorch.peek_interpreter_stack() is not None
        or forward_ad._current_level >= 0
        or a.dtype is _FLOAT
        and _may_use_tf32()
    )


# The compiled launcher's table: the launches for operands of given shapes, strides, dtype, device and alignment. It is
# None until a kernel has multiplied, so that the first call on a CPU does not compile the launcher.
_launch_table = None


@lru_cache
def _compiled_table():
    "Return the compiled launcher's table, created at the first call; None if there is no compiled launcher"
    module = launcher()
    if not module:
        return
    table = module.Table(torch._C._dynamo.guards._empty_strided_cuda, (is_any_autocast_enabled,), (_may_use_tf32,))
    cache_clearers.append(table.clear)
    install_entry_points(table, [entry_point(matmul, 'a', 'b')])
    return table


def _is_replayable(a, b, kernel, stored_a, stored_b):
    "Return whether later calls can repeat the launches: no operand was copied, and no static buffer is used"
    if kernel is None:
        return a.is_cuda
    if not (a.is_cuda and isinstance(kernel, GemmKernel)) or kernel.has_static_buffer:
        return False
    return stored_a.data_ptr() == a.data_ptr() and stored_b.data_ptr() == b.data_ptr()


def _cache_launches(a, b, kernel, stored_a, stored_b, out):
    "Add a GEMM to the table, as its launches or as torch's function, if it can be replayed without Python"
    global _launch_table
    table = _compiled_table() if _is_replayable(a, b, kernel, stored_a, stored_b) else None
    if table is None:
        return
    if len(table) >= MAX_PLANS:
        table.clear()
    if kernel is None:
        function = torch.mm if a.dim() == 2 else torch.matmul  # torch.matmul calls torch.mm, after other checks
        table.use_function(function, (a, b))
    else:
        prepared_launches = kernel.prepared_launches(stored_a, stored_b)
        launches, workspace_bytes = prepared_launches.launch_table(stored_a, stored_b, out)
        workspace = ((workspace_bytes,), (1,), torch.uint8) if workspace_bytes else None
        in_graphs = torch.matmul if is_torch_faster_in_graphs(a.numel() // a.shape[-1], *b.shape, a.dtype) else None
        table.store_recipe((a, b), launches, (tuple(out.shape), out.stride(), out.dtype), workspace, in_graphs)
    _launch_table = table


# The operator for `torch.compile`: a traced multiplication is one operator, which selects its kernel in the same way,
# at run time.
def _fake_matmul(a, b):
    "Return a fake result, for `torch.compile`"
    return a.new_empty(*a.shape[:-1], b.shape[1])


@operator('matmul(Tensor a, Tensor b) -> Tensor', _fake_matmul)
def _multiply_traced(a, b):
    if a.is_cuda:
        make_context_current_once()
    return multiply(a, b, None, _cache_launches).contiguous()


def _save_operands(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _gradients(ctx, grad_out, multiply):
    "Return the gradients of a and b from `grad_out`, that of their product; `multiply`: the function that multiplies"
    a, b = ctx.saved_tensors
    grad_a = multiply(grad_out, b.t()) if ctx.needs_input_grad[0] else None
    grad_b = None
    if ctx.needs_input_grad[1]:
        grad_b = multiply(a.reshape(-1, a.shape[-1]).t(), grad_out.reshape(-1, grad_out.shape[-1]))
    return grad_a, grad_b


def _backward(ctx, grad_out):
    return _gradients(ctx, grad_out, torch.ops.gridstride.matmul.default)


torch.library.register_autograd('gridstride::matmul', _backward, setup_context=_save_operands)


def _multiply_vmapped(info, dims, a, b):
    "Implement `torch.vmap` of the operator"
    a, b = (x[None] if dim is None else x.movedim(dim, 0) for x, dim in zip((a, b), dims))
    out = a.reshape(a.shape[0], -1, a.shape[-1]) @ b
    return out.view(out.shape[0], *a.shape[1:-1], b.shape[-1]), 0


torch.library.register_vmap('gridstride::matmul', _multiply_vmapped)


def _torch_matmul(a, b, out):
    "Multiply with torch, into `out` if it is passed"
    return torch.matmul(a, b) if out is None else torch.matmul(a, b, out=out)


def _is_supported(a, b):
    "Return whether a kernel may multiply the operands, by the properties that are known while `torch.compile` traces"
    return (
        type(a) in _TENSOR_TYPES
        and type(b) in _TENSOR_TYPES
        and a.is_cuda
        and b.is_cuda
        and a.dtype in _KERNEL_DTYPES
        and a.dtype == b.dtype
        and a.dim() >= 2
        and b.dim() == 2
        and a.shape[-1] == b.shape[0]
        and not torch.is_autocast_enabled('cuda')
    )


# The gradients of a matrix product are matrix products: with $g$ the gradient of $a b$, those of $a$ and $b$ are
# $g b^T$ and $a^T g$. They are computed by `matmul`, so that they may be differentiated again.
class _Matmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return matmul(a, b)

    @staticmethod
    def backward(ctx, grad_out):
        if grad_out.is_cuda:  # else cuBLAS warns that there is no context
            make_context_current_once()
        return _gradients(ctx, grad_out, matmul)


_apply_matmul = make_apply(_Matmul)


def check_epilogue(epilogue):
    "Raise `TypeError` unless `epilogue` is an `Epilogue`, that is, has a method `multiply`"
    if not hasattr(epilogue, 'multiply'):
        received = type(epilogue).__name__
        raise TypeError(f'matmul: epilogue must be an Epilogue, such as Epilogue(bias=...); got a {received}')


def matmul(
    a,  # (..., K) for a kernel; torch multiplies all other operands of torch.matmul
    b,  # (K, N) for a kernel
    out=None,  # receives the result, instead of a new tensor
    epilogue=None,  # an `Epilogue`: operations on the product before it is stored
):  # (..., N)
    """Compute `a @ b` with the fastest kernel of the course that supports it, or else with torch; `explain(a, b)`
    returns the choice.

        matmul(a, b)
        matmul(a, b, epilogue=Epilogue(bias, 'gelu'))

    Products of float32 have the errors, infinities and NaN of float32, even if tensor cores compute them (kernels
    `bf16x6` and `skinny`); but values below 1e-33 lose bits there. If a partial sum overflows, the order of additions
    decides which elements are infinite, as in every matmul.

    The first call with a shape selects and compiles a kernel; later calls find it in a table. `torch.compile`
    traces the operator `torch.ops.gridstride.matmul`, and CUDA graphs can capture the launches. Raises TypeError for an
    invalid epilogue, and the errors of torch.matmul for operands whose shapes or dtypes do not match."""
    if epilogue is not None:
        check_epilogue(epilogue)
        return epilogue.multiply(a, b, out)
    if out is None and not torch.compiler.is_dynamo_compiling() and _launch_table is not None:
        if (result := _launch_table.fast(a, b)) is not None:
            return result
    if torch.compiler.is_compiling():
        return _multiply_traced(a, b) if out is None and _is_supported(a, b) else _torch_matmul(a, b, out)
    try:
        needs_grad = torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)
    except AttributeError:
        return _torch_matmul(a, b, out)  # raises: an operand is not a tensor
    if _launch_table is not None and _is_ordinary(a):
        table_call = _launch_table if out is None else partial(_launch_table.into, out)
        if not needs_grad and (result := table_call(a, b)) is not None:
            return _torch_matmul(a, b, out) if result is NotImplemented else result
        if needs_grad and out is None and _launch_table.has_recipe(a, b):
            return _apply_matmul(a, b)
    if not needs_grad:
        return multiply(a, b, out, _cache_launches)
    if out is None and not fallback_reason(a, b):
        return _Matmul.apply(a, b)
    return _torch_matmul(a, b, out)  # with `out`, torch raises: `out` has no gradient
