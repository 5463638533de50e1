"""The torch operator `latent_attention`: check operands, and choose a kernel for the GPU."""

import math

import torch

from . import calls
from .calls import DecodeProblem
from .sources import HEAD_DIM_K, F16_TYPES, PAGE_SIZE, HEAD_DIM_V
from ..flash.attentions import Backend, has_ampere
from ..flash.launches import launch_mapped
from ..operators import constant, operator
from ..ladder.rung import current_device_properties
from ..common import check_tensor, launch, dtype_name

_OP_NAME = 'latent_attention'  # in messages


@constant
def _has_hopper():
    "Return whether kernels for Hopper run here"
    return current_device_properties().is_hopper


def _choose_backend(dtype):
    "Choose the `Backend` for a dtype"
    if dtype not in F16_TYPES:
        return Backend('torch', f'our kernels support bfloat16 and float16; q is {dtype}')
    if _has_hopper():
        return Backend('hopper')
    if not has_ampere():
        return Backend('torch', 'mma.sync of 16 columns needs an Ampere GPU')
    return Backend('mma.sync')


def _check_operands(q, cache, table, lens):
    "Raise `TypeError` or `ValueError` unless dtypes and shapes match, and all tensors are on the kernels' device"
    for name, tensor in dict(q=q, cache=cache).items():
        check_tensor(_OP_NAME, tensor, (*F16_TYPES, 'float32', 'float64'), name)
        if tensor.requires_grad and torch.is_grad_enabled():
            raise ValueError(
                f'{_OP_NAME}: {name} requires a gradient, but decoding has no backward pass: use {name}.detach() or '
                'torch.no_grad()'
            )
    for name, tensor in dict(table=table, lens=lens).items():
        check_tensor(_OP_NAME, tensor, ('int32',), name)
    if cache.dtype != q.dtype:
        raise TypeError(
            f'{_OP_NAME}: cache is {dtype_name(cache)} and q {dtype_name(q)}; their dtypes must be the same'
        )
    if any(tensor.device != q.device for tensor in (cache, table, lens)):
        raise ValueError(f'{_OP_NAME}: q, cache, table and lens must be on one device')
    for name, tensor, axes, expected in (
        ('q', q, (3, 4), f'[batch, heads, {HEAD_DIM_K}] or [batch, length, heads, {HEAD_DIM_K}]'),
        ('cache', cache, (3,), f'[pages, {PAGE_SIZE}, {HEAD_DIM_K}]'),
    ):
        has_wrong_pages = name == 'cache' and tensor.dim() == 3 and tensor.shape[1] != PAGE_SIZE
        if tensor.dim() not in axes or tensor.shape[-1] != HEAD_DIM_K or has_wrong_pages:
            raise ValueError(f'{_OP_NAME}: {name} has shape {tuple(tensor.shape)}; expected {expected}')
    if not 0 < q.shape[-2] <= 128 or q.shape[-2] % 16:
        raise ValueError(
            f'{_OP_NAME}: q has {q.shape[-2]} heads; expected a multiple of 16 up to 128: pad q with heads of zeros'
        )
    if lens.shape != q.shape[:1]:
        raise ValueError(
            f'{_OP_NAME}: lens has shape {tuple(lens.shape)}; expected ({q.shape[0]},), the batch size of q'
        )
    if table.dim() != 2 or table.shape[0] != q.shape[0]:
        raise ValueError(f'{_OP_NAME}: table has shape {tuple(table.shape)}; expected [{q.shape[0]}, pages]')


def _check_pages(cache, table, lens):
    "Raise `ValueError` unless `lens` and `table` refer only to pages of the cache"
    table_columns, pages = table.shape[1], cache.shape[0]
    for sequence, length in enumerate(lens.tolist()):
        if not 0 <= length <= table_columns * PAGE_SIZE:
            raise ValueError(
                f'{_OP_NAME}: lens[{sequence}] is {length}; expected 0 to {table_columns * PAGE_SIZE}: '
                f'a row of table has {table_columns} pages of {PAGE_SIZE} keys'
            )
        used_pages = table[sequence, : -(-length // PAGE_SIZE)]
        if (invalid_columns := ((used_pages < 0) | (used_pages >= pages)).nonzero().flatten()).numel():
            column = int(invalid_columns[0])
            page = int(used_pages[column])
            raise ValueError(f'{_OP_NAME}: table[{sequence}, {column}] is {page}; the cache has pages 0 to {pages - 1}')


def _check_scale(scale):
    "Return the scale of the scores as a float; raise `ValueError` unless it is positive"
    scale = calls.SCALE if scale is None else float(scale)
    if not 0 < scale < math.inf:
        raise ValueError(f'{_OP_NAME}: scale is {scale}; expected a positive number')
    return scale


def _check_splits(splits):
    "Return the requested number of splits, 0 for None; raise `ValueError` for an invalid one"
    if splits is not None and (not isinstance(splits, int) or not 1 <= splits < 2**16):
        raise ValueError(f'{_OP_NAME}: splits is {splits!r}; expected None or an integer from 1 to 65535')
    return splits or 0


def _allocate_results(q, *other_arguments):
    "Return the uninitialized output and lse"
    return q.new_empty(*q.shape[:-1], HEAD_DIM_V), q.new_empty(q.shape[:-1], dtype=torch.float32)


def _decode_problem(q, cache, table):
    "Return the `DecodeProblem` of these operands"
    batch, heads = q.shape[0], q.shape[-2]
    return DecodeProblem(dtype_name(q), batch, math.prod(q.shape[1:-1]), heads, cache.shape[0], table.shape[1])


@operator(
    'latent_attention(Tensor q, Tensor cache, Tensor table, Tensor lens, float scale, int splits) -> (Tensor, Tensor)',
    _allocate_results,
)
def _latent_attention(q, cache, table, lens, scale, splits):
    if _choose_backend(dtype_name(q)).name == 'torch':
        return _torch_attention(q, cache, table, lens, scale)
    out, lse = _allocate_results(q)
    if not q.numel() or not table.numel():
        return out.zero_(), lse.fill_(-math.inf)
    problem = _decode_problem(q, cache, table)
    gpu, boxes = current_device_properties(), ()
    if gpu.is_hopper:
        kernel_launch, boxes, num_splits = calls.decode_hopper(problem, scale, splits, gpu)
    else:
        kernel_launch, num_splits = calls.decode_ampere(problem, scale, splits, gpu)
    sizes = calls.workspace_sizes(problem, num_splits)
    workspaces = {name: q.new_empty(size, dtype=torch.float32) for name, size in sizes.items()}
    inputs = dict(q=q.view(-1, HEAD_DIM_K), cache=cache.view(-1, HEAD_DIM_K), table=table, lens=lens)
    arrays = dict(**inputs, out=out, lse=lse, **workspaces)
    if boxes:
        launch_mapped(kernel_launch, boxes, q, **arrays)
    else:
        launch([kernel_launch], q, **arrays)
    launch([calls.merge_launch(problem, num_splits, gpu)], q, **arrays)
    return out, lse


def _torch_attention(q, cache, table, lens, scale):
    "Compute the result with torch, which gathers all keys of a sequence first; pages past its end are not read"
    accumulator = torch.promote_types(q.dtype, torch.float32)
    num_keys, length = table.shape[1] * PAGE_SIZE, q.shape[1] if q.dim() == 4 else 1
    positions = torch.arange(num_keys, device=q.device)
    is_valid = positions < lens[:, None]
    pages = torch.where(is_valid[:, ::PAGE_SIZE], table, 0).long()
    k = torch.where(is_valid[:, :, None], cache[pages].flatten(1, 2).to(accumulator), 0)
    rows = q.flatten(1, -2).to(accumulator)
    row_ends = lens[:, None] - torch.arange(length - 1, -1, -1, device=q.device).repeat_interleave(q.shape[-2])
    scores = (rows @ k.mT * scale).masked_fill(positions >= row_ends[:, :, None], -math.inf)
    lse = scores.logsumexp(-1)
    probabilities = (scores - torch.where(lse.isneginf(), 0, lse)[:, :, None]).exp()
    out = (probabilities @ k[:, :, :HEAD_DIM_V]).to(q.dtype)
    return out.view(*q.shape[:-1], HEAD_DIM_V), lse.float().view(q.shape[:-1])


def latent_attention_backend(
    q,  # as for `latent_attention`
) -> Backend:
    """Return the `Backend` that computes `latent_attention` of q: 'hopper', 'mma.sync', or 'torch' and the reason.

    latent_attention_backend(q).name"""
    check_tensor(_OP_NAME, q, (*F16_TYPES, 'float32', 'float64'), 'q')
    return _choose_backend(dtype_name(q))


def latent_attention(
    q,  # [batch, heads, 576], or [batch, length, heads, 576] for several new tokens; a multiple of 16 heads up to 128
    cache,  # KV cache, [pages, 64, 576]: per key 512 elements of the latent, which is also the value, and 64 of RoPE
    table,  # int32 [batch, columns]: the pages of each sequence, in order; entries past its end are not read
    lens,  # int32 [batch]: context lengths, including the new tokens; 0 gives zeros, and an lse of minus infinity
    scale=None,  # of q @ k^T; None: 1/sqrt(192), because the head dimension before absorption is 128 + 64
    splits=None,  # split-K: number of splits of all pages; None: about one per resident block
) -> tuple:  # out, like q with 512 columns; lse, float32: the log-sum-exp of the scores
    """Compute a decode step of multi-head latent attention (MLA) with absorbed projections: per sequence,
    softmax(q @ k^T * scale) @ k[:, :512], where all heads share one latent KV cache. If there are several new tokens,
    the last one attends to `lens` keys, the one before it to one key less, and so on.

        out, lse = latent_attention(q, cache, table, lens)

    Our kernels support bfloat16 and float16. torch, which gathers all keys, computes float32 and float64, and all
    dtypes on GPUs older than Ampere. `latent_attention_backend` returns the implementation. There is no gradient.

    Raises TypeError or ValueError for unsupported operands. The values in lens and table are checked only on the CPU,
    because on a GPU the check would require a synchronization; there, the kernel traps if a page is out of range.
    Sources: DeepSeek-AI, DeepSeek-V2 (2024); Dao and others, Flash-Decoding (2023)."""
    if not torch.compiler.is_compiling():
        _check_operands(q, cache, table, lens)
        if not q.is_cuda:
            _check_pages(cache, table, lens)
    return _latent_attention(q, cache, table, lens, _check_scale(scale), _check_splits(splits))
