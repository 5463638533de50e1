"""Split the positions of a sequence among ranks, and find the rows and keys of two ranks that attend to each other."""

from typing import NamedTuple

import torch

ORDERS = 'contiguous', 'striped', 'zigzag'


class ScoreBlock(NamedTuple):
    "Some rows of one rank and some keys of another: each row attends to all keys; if `causal`, row i to keys 0 to i"

    rows: slice
    keys: slice
    causal: bool


_ALL = slice(None)


def check_order(order, length, ranks):
    "Raise ValueError unless the sequence can be split in this order"
    if not isinstance(ranks, int) or ranks < 1:
        raise ValueError(f'ring: ranks is {ranks!r}; expected an integer of at least 1')
    if order not in ORDERS:
        raise ValueError(f'ring: order must be one of {", ".join(map(repr, ORDERS))}; got {order!r}')
    parts = 2 * ranks if order == 'zigzag' else ranks
    if length % parts or length < parts:
        raise ValueError(
            f'ring: {length} positions cannot be split into {parts} equal parts for {order}; pad the sequence'
        )


def positions(
    order: str,  # 'contiguous', 'striped' or 'zigzag'
    length: int,  # of the sequence
    ranks: int,  # the number of ranks
    rank: int,
) -> torch.Tensor:  # int64 [length/ranks], in the order of the rank's rows
    """Return the positions of the sequence that a rank owns.

    >>> positions('zigzag', 8, 2, 0).tolist()
    [0, 1, 6, 7]

    Contiguous: part `rank` of `ranks` parts; striped: every `ranks`-th position; zigzag: of 2*ranks parts, part `rank`
    from the front and part `rank` from the end. Raises ValueError for an unknown order or a length that cannot be
    split."""
    check_order(order, length, ranks)
    if not 0 <= rank < ranks:
        raise ValueError(f'ring: rank is {rank}; expected 0 to {ranks - 1}')
    all_positions = torch.arange(length)
    if order == 'striped':
        return all_positions[rank::ranks]
    if order == 'contiguous':
        return all_positions.chunk(ranks)[rank]
    parts = all_positions.chunk(2 * ranks)
    return torch.cat([parts[rank], parts[-1 - rank]])


def split(
    sequence,  # a tensor with the whole sequence
    order: str,  # as for `positions`
    ranks: int,  # the number of ranks
    dim=-2,  # axis of the sequence
) -> list:  # of the shards, rank by rank
    """Split a sequence among ranks.

    >>> [x.tolist() for x in split(torch.arange(4), 'striped', 2, 0)]
    [[0, 2], [1, 3]]"""
    return [
        sequence.index_select(dim, positions(order, sequence.shape[dim], ranks, rank).to(sequence.device))
        for rank in range(ranks)
    ]


def join(
    shards,  # the shards of all ranks, as `split` returns them
    order: str,  # as for `split`
    dim=-2,  # axis of the sequence
):  # a tensor with the whole sequence
    "Return the sequence from the shards of all ranks: the inverse of `split`"
    concatenated, ranks = torch.cat(list(shards), dim), len(shards)
    length, device = concatenated.shape[dim], concatenated.device
    index = torch.cat([positions(order, length, ranks, rank) for rank in range(ranks)]).to(device)
    return torch.empty_like(concatenated).index_copy_(dim, index, concatenated)


def score_block(
    order: str,  # as for `positions`
    query_rank: int,  # rank with the rows
    key_rank: int,  # rank with the keys
    length: int,  # positions per rank
    causal: bool,  # each position attends only to itself and earlier positions
):  # a `ScoreBlock`, or None if no row attends to any of the keys
    """Return the rows of one rank, and the keys of another rank that they attend to.

    >>> score_block('contiguous', 0, 1, 4, causal=True) is None
    True"""
    if not causal or query_rank == key_rank:
        return ScoreBlock(_ALL, _ALL, causal)
    if order == 'contiguous':
        return ScoreBlock(_ALL, _ALL, False) if key_rank < query_rank else None
    if order == 'zigzag':
        half = length // 2
        if key_rank < query_rank:
            return ScoreBlock(_ALL, slice(half), False)
        return ScoreBlock(slice(half, None), _ALL, False)
    if key_rank < query_rank:
        return ScoreBlock(_ALL, _ALL, True)
    return ScoreBlock(slice(1, None), slice(-1), True) if length > 1 else None


def scores_of(
    part,  # a `ScoreBlock`, or None
    length,  # positions per rank
) -> int:
    """Count the scores of a block; 0 for None.

    >>> scores_of(score_block('contiguous', 0, 0, 4, causal=True), 4)
    10"""
    if part is None:
        return 0
    rows, keys = (len(range(*index_slice.indices(length))) for index_slice in (part.rows, part.keys))
    return rows * (rows + 1) // 2 if part.causal else rows * keys
