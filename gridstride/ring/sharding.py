"""Which rank has which positions of a sequence, and what a rank computes with another one's keys: one product each."""

from typing import NamedTuple

import torch

ORDERS = 'contiguous', 'striped', 'zigzag'


class Piece(NamedTuple):
    "Rows of a rank, up to its last, and the keys of another one that they look at: all, or row i of these keys 0 to i"

    rows: slice
    keys: slice
    causal: bool


_ALL = slice(None)


def check_order(order, length, ranks):
    "Raise unless the sequence can be split so"
    if not isinstance(ranks, int) or ranks < 1:
        raise ValueError(f'ring: ranks is {ranks!r}, and it must be an integer from 1 on')
    if order not in ORDERS:
        raise ValueError(f'ring: order is {order!r}, and it may be {", ".join(map(repr, ORDERS))}')
    parts = 2 * ranks if order == 'zigzag' else ranks
    if length % parts or length < parts:
        raise ValueError(
            f'ring: {length} positions cannot be split into {parts} equal parts for {order}; pad the sequence'
        )


def positions(
    order: str,  # 'contiguous', 'striped' or 'zigzag'
    length: int,  # of the sequence
    ranks: int,  # that share it
    rank: int,  # which of them
) -> torch.Tensor:  # int64 [length/ranks], in the order in which the rank has them
    """The positions of the sequence that a rank has. Contiguous: one part after the other; striped: every `ranks`-th
    position; zigzag: two of 2*ranks parts, one from the front and one from the end"""
    check_order(order, length, ranks)
    if not 0 <= rank < ranks:
        raise ValueError(f'ring: rank is {rank}, and {ranks} ranks are 0 to {ranks - 1}')
    every = torch.arange(length)
    if order == 'striped':
        return every[rank::ranks]
    if order == 'contiguous':
        return every.chunk(ranks)[rank]
    parts = every.chunk(2 * ranks)
    return torch.cat([parts[rank], parts[-1 - rank]])


def split(
    x,  # a tensor with the whole sequence
    order: str,  # this and `ranks`, as for `positions`
    ranks: int,
    dim=-2,  # of the sequence
) -> list:  # of tensors, rank by rank
    "Split a sequence among ranks"
    return [x.index_select(dim, positions(order, x.shape[dim], ranks, r).to(x.device)) for r in range(ranks)]


def join(
    parts,  # of all ranks, as `split` gives them
    order: str,  # that they were split in
    dim=-2,  # of the sequence
):  # a tensor with the whole sequence
    "The sequence, of what its ranks have of it"
    x, n = torch.cat(list(parts), dim), len(parts)
    at = torch.cat([positions(order, x.shape[dim], n, r) for r in range(n)]).to(x.device)
    return torch.empty_like(x).index_copy_(dim, at, x)


def piece(
    order: str,  # as for `positions`
    mine: int,  # rank with the rows
    other: int,  # rank with the keys
    length: int,  # of what each of them has
    causal: bool,  # does each position attend only to itself and earlier positions?
):  # a `Piece`, or None if these rows see none of these keys
    "Return what rows of one rank attend to of the keys of another one"
    if not causal or mine == other:
        return Piece(_ALL, _ALL, causal)
    if order == 'contiguous':
        return Piece(_ALL, _ALL, False) if other < mine else None
    if order == 'zigzag':
        half = length // 2
        return Piece(_ALL, slice(half), False) if other < mine else Piece(slice(half, None), _ALL, False)
    if other < mine:
        return Piece(_ALL, _ALL, True)
    return Piece(slice(1, None), slice(-1), True) if length > 1 else None


def scores_of(
    part,  # a `Piece`, or None
    length,  # of what each of the two ranks has
) -> int:
    "Count the scores that a piece of `length` rows and keys has; 0 for None"
    if part is None:
        return 0
    rows, keys = (len(range(*o.indices(length))) for o in (part.rows, part.keys))
    return rows * (rows + 1) // 2 if part.causal else rows * keys
