"""Other ways to distribute attention over ranks: by heads instead of positions (Ulysses), and a tree for decoding."""

import torch
import torch.distributed as dist

from .sharding import join, split
from .parts import kernels_for, merge
from .processes import rank_and_ranks


def _to_heads(tensor, order):
    "Exchange tensors: send all heads of this rank's positions, return this rank's heads of the whole sequence"
    ranks = dist.get_world_size()
    sent_parts = [part.contiguous() for part in tensor.chunk(ranks, 1)]
    received_parts = [torch.empty_like(sent_parts[0]) for _ in range(ranks)]
    dist.all_to_all(received_parts, sent_parts) if tensor.is_cuda else _all_to_all(received_parts, sent_parts)
    return join(received_parts, order)


def _to_positions(tensor, order):
    "Exchange tensors: send this rank's heads of the whole sequence, return all heads of this rank's positions"
    ranks = dist.get_world_size()
    sent_parts = [part.contiguous() for part in split(tensor, order, ranks)]
    received_parts = [torch.empty_like(sent_parts[0]) for _ in range(ranks)]
    dist.all_to_all(received_parts, sent_parts) if tensor.is_cuda else _all_to_all(received_parts, sent_parts)
    return torch.cat(received_parts, 1)


def _all_to_all(received_parts, sent_parts):
    "Exchange tensors with all ranks by messages, because gloo has no all-to-all"
    rank = dist.get_rank()
    received_parts[rank].copy_(sent_parts[rank])
    other_ranks = [other for other in range(len(sent_parts)) if other != rank]
    ops = [dist.P2POp(dist.isend, sent_parts[other], other) for other in other_ranks] + [
        dist.P2POp(dist.irecv, received_parts[other], other) for other in other_ranks
    ]
    for work in dist.batch_isend_irecv(ops) if ops else ():
        work.wait()


def ulysses_attention(
    q,  # [batch, heads, rows, dim]: this rank's part; heads must be a multiple of the number of ranks
    k,  # like q
    v,  # like q
    order='contiguous',  # the remaining arguments are those of `attention`
    causal=True,
    scale=None,
    kernels=None,
):  # like q
    """Compute the forward pass of attention with an all-to-all: each rank computes some heads of the whole sequence.

        out = ring.ulysses_attention(q, k, v)

    Raises ValueError for heads that are not a multiple of the ranks. Source: Jacobs and others, DeepSpeed
    Ulysses (2023)."""
    _, ranks = rank_and_ranks()
    for name, tensor in dict(q=q, k=k, v=v).items():
        if tensor.shape[1] % ranks:
            expected = f'a multiple of the number of ranks, {ranks}'
            raise ValueError(f'ulysses_attention: {name} has {tensor.shape[1]} heads; expected {expected}')
    q, k, v = (_to_heads(tensor, order) for tensor in (q, k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
    out, _ = (kernels or kernels_for(q, k, v)).attend(q, k, v, causal, scale)
    return _to_positions(out, order)


def tree_decode(
    q,  # [batch, heads, rows, dim]: the same few rows on all ranks
    k,  # [batch, heads, keys, dim]: this rank's part of the keys
    v,  # like k
    scale=None,  # as for `attention`
    kernels=None,  # as for `attention`
):  # like q, the same on all ranks
    """Compute attention of a few rows to keys that are split over ranks. Each rank attends to its own keys, then pairs
    of ranks at distances 1, 2, 4, ... exchange and merge their partial results.

        out = ring.tree_decode(q, k, v)

    Raises ValueError unless the number of ranks is a power of two. Source: Shyam and others, Tree Attention (2024)."""
    rank, ranks = rank_and_ranks()
    if ranks & ranks - 1:
        raise ValueError(f'tree_decode: the number of ranks must be a power of two; got {ranks}')
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
    out, lse = (kernels or kernels_for(q, k, v)).attend(q, k, v, False, scale)
    dtype = torch.promote_types(out.dtype, torch.float32)
    out_and_lse = torch.cat([out.to(dtype), lse[..., None].to(dtype)], -1)
    distance = 1
    while distance < ranks:
        other_out_and_lse = torch.empty_like(out_and_lse)
        ops = [
            dist.P2POp(dist.isend, out_and_lse, rank ^ distance),
            dist.P2POp(dist.irecv, other_out_and_lse, rank ^ distance),
        ]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        out, lse = out_and_lse[..., :-1].contiguous(), out_and_lse[..., -1].contiguous()
        merge(out, lse, other_out_and_lse[..., :-1].contiguous(), other_out_and_lse[..., -1].contiguous())
        out_and_lse, distance = torch.cat([out, lse[..., None]], -1), 2 * distance
    return out_and_lse[..., :-1].to(q.dtype)


def bytes_sent(
    method: str,  # 'all-gather', 'ring', 'ring with backward', 'ulysses', 'tree', 'ring decoding'
    length: int,  # of the sequence
    ranks: int,
    heads=16,
    kv_heads=None,  # heads of keys and values; None: as many as q has
    dim=128,
    size=2,  # bytes of an element
    rows=1,  # of q when decoding
) -> float:  # bytes that each rank sends per layer and sequence
    """Compute the bytes that each rank sends, for the forward pass unless `method` names the backward pass.

    >>> bytes_sent('ring', 8, 2, heads=1, dim=1)
    16.0

    Raises ValueError for an unknown method."""
    kv_heads, part_bytes = kv_heads or heads, length / ranks * dim * size
    keys_and_values = 2 * kv_heads * part_bytes * (ranks - 1)
    formulas = {
        'all-gather': keys_and_values,
        'ring': keys_and_values,
        'ring with backward': 3 * keys_and_values,  # keys and values again, and their gradients to the owners
        'ulysses': (2 * heads + 2 * kv_heads) * part_bytes * (ranks - 1) / ranks,
        'tree': (ranks - 1).bit_length() * rows * heads * (dim + 1) * 4,  # float32
        'ring decoding': keys_and_values,
    }
    if method not in formulas:
        raise ValueError(f'bytes_sent: method must be one of {", ".join(map(repr, formulas))}; got {method!r}')
    return formulas[method]
