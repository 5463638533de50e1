"""Other ways to split a long sequence: by heads instead of positions (Ulysses), and a tree for one row (decoding)."""

import torch
import torch.distributed as dist

from .sharding import join, split
from .parts import kernels_for, merge
from .processes import rank_and_ranks


def _to_heads(x, order):
    "[batch, heads, rows, dim] of this rank -> its heads of the whole sequence"
    ranks = dist.get_world_size()
    sent = [o.contiguous() for o in x.chunk(ranks, 1)]
    got = [torch.empty_like(sent[0]) for _ in range(ranks)]
    dist.all_to_all(got, sent) if x.is_cuda else _all_to_all(got, sent)
    return join(got, order)


def _to_positions(x, order):
    "Some heads of the whole sequence -> all heads of this rank's positions"
    ranks = dist.get_world_size()
    sent = [o.contiguous() for o in split(x, order, ranks)]
    got = [torch.empty_like(sent[0]) for _ in range(ranks)]
    dist.all_to_all(got, sent) if x.is_cuda else _all_to_all(got, sent)
    return torch.cat(got, 1)


def _all_to_all(got, sent):
    "Of gloo, which has none: a message to each other rank, and one from it"
    me = dist.get_rank()
    got[me].copy_(sent[me])
    others = [r for r in range(len(sent)) if r != me]
    ops = [dist.P2POp(dist.isend, sent[r], r) for r in others] + [dist.P2POp(dist.irecv, got[r], r) for r in others]
    for o in dist.batch_isend_irecv(ops) if ops else ():
        o.wait()


def ulysses_attention(
    q,  # [batch, heads, rows, dim]: what this rank has; heads must be a multiple of the ranks
    k,  # like q
    v,  # like q
    order='contiguous',  # this and what follows, as for `attention`
    causal=True,
    scale=None,
    kernels=None,
):  # like q
    """Attention by exchanging heads for positions and back: each rank computes some heads of the whole sequence,
    forward; `ValueError` for heads that the ranks cannot share evenly.

    After Jacobs and others, DeepSpeed Ulysses (2023)"""
    _, ranks = rank_and_ranks()
    for name, x in dict(q=q, k=k, v=v).items():
        if x.shape[1] % ranks:
            raise ValueError(
                f'ulysses_attention: {x.shape[1]} heads of {name} cannot be shared by {ranks} ranks evenly'
            )
    q, k, v = (_to_heads(x, order) for x in (q, k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
    out, _ = (kernels or kernels_for(q, k, v)).attend(q, k, v, causal, scale)
    return _to_positions(out, order)


def tree_decode(
    q,  # [batch, heads, rows, dim]: the same on all ranks, a row or a few
    k,  # [batch, heads, keys, dim]: what this rank has of the keys
    v,  # like k
    scale=None,  # this and `kernels`, as for `attention`
    kernels=None,
):  # like q, on all ranks
    """Attention of few rows to keys that are split over ranks: each attends to its own keys, then pairs of ranks
    swap their partial results, over distances 1, 2, 4, ...; ranks must be a power of two. After Shyam and others, Tree
    Attention (2024)"""
    me, ranks = rank_and_ranks()
    if ranks & ranks - 1:
        raise ValueError(f'tree_decode: {ranks} ranks are not a power of two')
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
    out, lse = (kernels or kernels_for(q, k, v)).attend(q, k, v, False, scale)
    wide = torch.promote_types(out.dtype, torch.float32)
    known = torch.cat([out.to(wide), lse[..., None].to(wide)], -1)
    far = 1
    while far < ranks:
        theirs = torch.empty_like(known)
        swap = [dist.P2POp(dist.isend, known, me ^ far), dist.P2POp(dist.irecv, theirs, me ^ far)]
        for o in dist.batch_isend_irecv(swap):
            o.wait()
        out, lse = known[..., :-1].contiguous(), known[..., -1].contiguous()
        merge(out, lse, theirs[..., :-1].contiguous(), theirs[..., -1].contiguous())
        known, far = torch.cat([out, lse[..., None]], -1), 2 * far
    return known[..., :-1].to(q.dtype)


def bytes_sent(
    way: str,  # 'all-gather', 'ring', 'ring with backward', 'ulysses', 'tree', 'ring decoding'
    length: int,  # of the sequence
    ranks: int,
    heads=16,
    kv_heads=None,  # heads of keys and values; None: as many as of q
    dim=128,
    size=2,  # bytes of an element
    rows=1,  # of q when decoding
) -> float:  # bytes that each rank sends per layer and sequence
    "Compute the bytes that each method sends, forward unless it says otherwise"
    kv_heads, each = kv_heads or heads, length / ranks * dim * size
    keys_and_values = 2 * kv_heads * each * (ranks - 1)
    ways = {
        'all-gather': keys_and_values,
        'ring': keys_and_values,
        'ring with backward': 3 * keys_and_values,  # keys and values again, and their gradients home
        'ulysses': (2 * heads + 2 * kv_heads) * each * (ranks - 1) / ranks,
        'tree': (ranks - 1).bit_length() * rows * heads * (dim + 1) * 4,  # float32
        'ring decoding': keys_and_values,
    }
    if way not in ways:
        raise ValueError(f'bytes_sent: way is {way!r}, and it may be {", ".join(map(repr, ways))}')
    return ways[way]
