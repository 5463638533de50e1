"""Prune and compress matrices to 2:4 sparsity in plain torch.

Of every four consecutive elements of a row (a **group**), at most two are not 0. A compressed matrix stores two
elements per group, and a nibble with their positions: two bits each, 0 to 3, with the lower position in the lower bits.
A valid nibble is therefore 4, 8, 9, 12, 13 or 14.
"""

from itertools import combinations
from typing import NamedTuple

import torch

from ...utils import cdiv

FIRST_TWO_NIBBLE = 4  # the nibble of positions 0 and 1
_INVALID_NIBBLE = 255
TILE_ROWS, TILE_COLUMNS = 64, 128  # of a tile of metadata


def _nibble(mask):
    "Return the positions of the set bits, padded to two, as a nibble; `_INVALID_NIBBLE` if more than two bits are set"
    positions = [i for i in range(4) if mask >> i & 1]
    first, second = sorted((positions + [i for i in range(4) if i not in positions])[:2])
    return first | second << 2 if len(positions) <= 2 else _INVALID_NIBBLE


def _nibble_table(device):
    "Return the nibble of each mask of four bits"
    return torch.tensor([_nibble(m) for m in range(16)], dtype=torch.uint8, device=device)


class Compressed(NamedTuple):
    "A 2:4 sparse matrix"

    values: object  # (rows, columns/2)
    metadata: object  # (rows, columns/4) of uint8: one nibble per group


def _check_matrix(op_name, w):
    "Raise unless `w` is a matrix of floats without NaN, whose columns are a multiple of 4"
    if not hasattr(w, 'is_floating_point') or not w.is_floating_point() or w.dim() != 2:
        raise TypeError(f'{op_name}: w must be a torch tensor of floats with two axes')
    if w.shape[1] % 4:
        raise ValueError(f'{op_name}: {w.shape[1]} columns are not a multiple of 4; pad them with zeros')
    if w.isnan().any():
        r, c = w.isnan().nonzero()[0].tolist()
        raise ValueError(f'{op_name}: w[{r}, {c}] is NaN, whose magnitude is undefined')


def keep_mask(w):  # w's shape of bool
    """Return the mask of the elements that pruning keeps: the two largest of each group, the first of equal ones.

    >>> keep_mask(torch.tensor([[1., -4., 2., 3.]])).tolist()
    [[False, True, False, True]]"""
    _check_matrix('keep_mask', w)
    size = w.detach().abs().unflatten(1, (-1, 4))
    own_size, other_size = size.unsqueeze(-1), size.unsqueeze(-2)
    earlier = torch.ones(4, 4, dtype=torch.bool, device=w.device).tril(-1)
    return ((other_size > own_size) | (other_size == own_size) & earlier).sum(-1).lt(2).flatten(1)


def prune(w):  # w's shape
    """Set the two smallest elements of each group to 0.

    >>> prune(torch.tensor([[1., -4., 2., 3.]])).tolist()
    [[0.0, -4.0, 0.0, 3.0]]"""
    return torch.where(keep_mask(w), w, 0)


def compress(
    w,  # (rows, columns): at most two elements of each group are not 0
) -> Compressed:
    "Compress to two elements per group and their positions. Raises ValueError for a group with more nonzero elements"
    _check_matrix('compress', w)
    fours = w.detach().unflatten(1, (-1, 4))
    metadata = _nibble_table(w.device)[((fours != 0) << torch.arange(4, device=w.device)).sum(-1)]
    if (full := metadata == _INVALID_NIBBLE).any():
        r, c = full.nonzero()[0].tolist()
        raise ValueError(
            f'compress: w[{r}, {4 * c}:{4 * c + 4}] has more than two nonzero elements, like '
            f'{int(full.sum()):,} groups of four; prune(w) keeps the two largest of each'
        )
    positions = torch.stack([metadata & 3, metadata >> 2], -1).long()
    return Compressed(fours.gather(-1, positions).flatten(1), metadata)


def to_dense(c: Compressed):  # (rows, columns)
    "Convert to a dense matrix; the positions must be valid"
    positions = torch.stack([c.metadata & 3, c.metadata >> 2], -1).long()
    res = c.values.new_zeros(*c.metadata.shape, 4)
    return res.scatter(-1, positions, c.values.unflatten(1, (-1, 2))).flatten(1)


def decompress(c: Compressed):  # (rows, columns)
    "Convert to a dense matrix. Raises ValueError for positions that are not ascending"
    first, second = c.metadata & 3, c.metadata >> 2
    if (bad := (first >= second) | (second > 3)).any():
        r, g = bad.nonzero()[0].tolist()
        raise ValueError(
            f'decompress: metadata[{r}, {g}] is {int(c.metadata[r, g])}; it must be 4, 8, 9, 12, 13 or 14: '
            'two indices, the lower one in the lower bits'
        )
    return to_dense(c)


# The tensor cores read the positions (the metadata) from registers. A 32-bit word of a thread holds the metadata of
# sixteen elements of two rows: in lane l, row l/4 in the lower half and row l/4 + 8 in the upper half. For 32 elements
# along K, `mma.sp` and `wgmma.sp` read the words of two of every four lanes, which the *selector* chooses: 0 for the
# first two, 1 for the last two. One word per lane is therefore enough for 64 elements along K: lane l holds those from
# 16*(l%4) on. Here each thread loads two adjacent words.
def to_words(
    metadata,  # (rows, columns/4) of uint8
):  # (tiles of 64 rows, of 128 columns, 4 warps, 32 lanes, 2) of int32
    "Convert metadata to the order in which the kernels load it; padding rows and columns have positions 0 and 1"
    rows, fours = metadata.shape
    nibbles = torch.nn.functional.pad(
        metadata, (0, -fours % (TILE_COLUMNS // 4), 0, -rows % TILE_ROWS), value=FIRST_TWO_NIBBLE
    )
    nibbles = nibbles.view(cdiv(rows, TILE_ROWS), 4, 2, 8, cdiv(4 * fours, TILE_COLUMNS), 2, 4, 4).permute(
        0, 4, 1, 3, 6, 5, 2, 7
    )
    bits = torch.arange(0, 32, 4, device=metadata.device)
    words = (nibbles.flatten(-2).long() << bits).sum(-1)
    return torch.where(words < 2**31, words, words - 2**32).to(torch.int32).flatten(3, 4).contiguous()


def from_words(
    words,  # as `to_words` returns them
    rows,
    columns,
):  # (rows, columns/4) of uint8
    "Convert words back to metadata: the inverse of `to_words`"
    bits = torch.arange(0, 32, 4, device=words.device)
    nibbles = (words.long().unsqueeze(-1) >> bits & 15).to(torch.uint8).unflatten(3, (8, 4)).unflatten(-1, (2, 4))
    nibbles = nibbles.permute(0, 2, 6, 3, 1, 5, 4, 7).reshape(TILE_ROWS * words.shape[0], -1)
    return nibbles[:rows, : columns // 4].contiguous()


# The columns of w may be permuted if those of x are permuted in the same way. A permutation can move large elements of
# one group to different groups, so that pruning keeps more of them.
def _group_splits():
    "Return the 35 ways to split eight columns into two groups of four, as permutations of the eight"
    fours = [(0, *o) for o in combinations(range(1, 8), 3)]
    return torch.tensor([[*four, *(i for i in range(8) if i not in four)] for four in fours])


def kept_magnitude(w) -> float:
    "Sum the magnitudes of the elements that `keep_mask` keeps"
    return w.detach().float().abs().unflatten(1, (-1, 4)).topk(2).values.sum(dtype=torch.float64).item()


def search_order(
    w,  # (rows, columns), columns a multiple of 8
    rounds=20,
    seed=0,
):  # (columns,) of int64
    """Search for an order of the columns in which pruning keeps larger elements: prune w[:, order], multiply x[:,
    order].

    Each round splits random pairs of groups in the best of the 35 ways, so the kept magnitude never decreases. After
    Pool and Yu, "Channel Permutations for N:M Sparsity". Raises ValueError unless the columns are a multiple of 8."""
    _check_matrix('search_order', w)
    if w.shape[1] % 8:
        raise ValueError(f'search_order: {w.shape[1]} columns are not a multiple of 8; pad them with zeros')
    size, order = w.detach().abs().float(), torch.arange(w.shape[1], device=w.device)
    generator, splits = torch.Generator().manual_seed(seed), _group_splits().to(w.device)
    for _ in range(rounds):
        column_groups = order.view(-1, 4)[torch.randperm(len(order) // 4, generator=generator).to(w.device)].view(-1, 8)
        gains = [size[:, column_groups[:, s]].unflatten(-1, (2, 4)).topk(2).values.sum((0, 2, 3)) for s in splits]
        order = column_groups.gather(1, splits[torch.stack(gains).argmax(0)]).flatten()
    return order
