"""Prune and compress matrices to 2:4 sparsity in plain torch.

Of every four consecutive elements of a row (a **group**), at most two are nonzero. A compressed matrix stores two
elements per group, and a nibble with their positions: two bits each, 0 to 3, the lower position in the lower bits.
Therefore a valid nibble is 4, 8, 9, 12, 13 or 14.
"""

from itertools import combinations
from typing import NamedTuple

import torch

from ...utils import cdiv

FIRST_TWO_NIBBLE = 4  # the nibble of positions 0 and 1
_INVALID_NIBBLE = 255
TILE_ROWS, TILE_COLUMNS = 64, 128  # size of a tile of metadata, in elements of the matrix


def _nibble(mask):
    "Return the positions of the bits set in `mask`, padded to two, as a nibble; `_INVALID_NIBBLE` for more than two"
    positions = [i for i in range(4) if mask >> i & 1]
    first, second = sorted((positions + [i for i in range(4) if i not in positions])[:2])
    return first | second << 2 if len(positions) <= 2 else _INVALID_NIBBLE


def _nibble_table(device):
    "Return the nibble of each of the 16 masks of four bits"
    return torch.tensor([_nibble(mask) for mask in range(16)], dtype=torch.uint8, device=device)


class CompressedMatrix(NamedTuple):
    "A 2:4 sparse matrix"

    values: object  # (rows, columns/2)
    metadata: object  # (rows, columns/4) of uint8: one nibble per group


def _check_matrix(op_name, w):
    "Raise `TypeError` or `ValueError` unless `w` is a matrix of floats without NaN, with a multiple of 4 columns"
    if not hasattr(w, 'is_floating_point') or not w.is_floating_point() or w.dim() != 2:
        raise TypeError(f'{op_name}: w must be a torch tensor of floats with two axes; got a {type(w).__name__}')
    if w.shape[1] % 4:
        raise ValueError(f'{op_name}: w has {w.shape[1]} columns; expected a multiple of 4: pad w with zeros')
    if w.isnan().any():
        row, column = w.isnan().nonzero()[0].tolist()
        raise ValueError(f'{op_name}: w[{row}, {column}] is NaN, which has no magnitude: replace it first')


def keep_mask(w):  # w's shape of bool
    """Return the mask of the elements that pruning keeps: the two largest of each group, or the first ones if equal.

    >>> keep_mask(torch.tensor([[1., -4., 2., 3.]])).tolist()
    [[False, True, False, True]]"""
    _check_matrix('keep_mask', w)
    magnitudes = w.detach().abs().unflatten(1, (-1, 4))
    # Element i of a group is kept if fewer than two elements j are larger, or equal and earlier.
    magnitude_i, magnitude_j = magnitudes.unsqueeze(-1), magnitudes.unsqueeze(-2)
    is_earlier = torch.ones(4, 4, dtype=torch.bool, device=w.device).tril(-1)
    return ((magnitude_j > magnitude_i) | (magnitude_j == magnitude_i) & is_earlier).sum(-1).lt(2).flatten(1)


def prune(w):  # w's shape
    """Set the two smallest elements of each group to 0.

    >>> prune(torch.tensor([[1., -4., 2., 3.]])).tolist()
    [[0.0, -4.0, 0.0, 3.0]]"""
    return torch.where(keep_mask(w), w, 0)


def compress(
    w,  # (rows, columns): at most two elements of each group are nonzero
) -> CompressedMatrix:
    "Compress to two elements per group and their positions. Raises ValueError for a group with more nonzero elements"
    _check_matrix('compress', w)
    groups = w.detach().unflatten(1, (-1, 4))
    metadata = _nibble_table(w.device)[((groups != 0) << torch.arange(4, device=w.device)).sum(-1)]
    if (is_invalid := metadata == _INVALID_NIBBLE).any():
        row, group = is_invalid.nonzero()[0].tolist()
        raise ValueError(
            f'compress: {int(is_invalid.sum()):,} groups have more than two nonzero elements; the first group is '
            f'w[{row}, {4 * group}:{4 * group + 4}]: use prune(w), which keeps the two largest of each group'
        )
    positions = torch.stack([metadata & 3, metadata >> 2], -1).long()
    return CompressedMatrix(groups.gather(-1, positions).flatten(1), metadata)


def to_dense(matrix: CompressedMatrix):  # (rows, columns)
    "Convert to a dense matrix; the metadata must be valid"
    values, metadata = matrix
    positions = torch.stack([metadata & 3, metadata >> 2], -1).long()
    groups = values.new_zeros(*metadata.shape, 4)
    return groups.scatter(-1, positions, values.unflatten(1, (-1, 2))).flatten(1)


def decompress(matrix: CompressedMatrix):  # (rows, columns)
    "Convert to a dense matrix. Raises ValueError for invalid metadata"
    metadata = matrix.metadata
    first, second = metadata & 3, metadata >> 2
    if (is_invalid := (first >= second) | (second > 3)).any():
        row, group = is_invalid.nonzero()[0].tolist()
        raise ValueError(
            f'decompress: metadata[{row}, {group}] is {int(metadata[row, group])}; expected 4, 8, 9, 12, 13 or 14: '
            'two positions, the lower one in the lower bits'
        )
    return to_dense(matrix)


# The tensor cores read the positions (the metadata) from registers. A 32-bit word of a thread holds the metadata of 16
# elements of two rows: in lane l, row l/4 in the lower half and row l/4 + 8 in the upper half. For 32 elements along K,
# `mma.sp` and `wgmma.sp` read the words of two of every four lanes: with the *selector* 0 those of the first two lanes,
# with 1 those of the last two. Therefore one word per lane is enough for 64 elements along K: lane l holds the metadata
# of the 16 elements from 16*(l%4) on. In this memory layout each thread loads two adjacent words.
def to_words(
    metadata,  # (rows, columns/4) of uint8
):  # (tiles along rows, tiles along columns, 4 warps, 32 lanes, 2 words) of int32
    "Convert metadata to the order in which the kernels load it; padding groups have positions 0 and 1"
    rows, groups = metadata.shape
    nibbles = torch.nn.functional.pad(
        metadata, (0, -groups % (TILE_COLUMNS // 4), 0, -rows % TILE_ROWS), value=FIRST_TWO_NIBBLE
    )
    nibbles = nibbles.view(cdiv(rows, TILE_ROWS), 4, 2, 8, cdiv(4 * groups, TILE_COLUMNS), 2, 4, 4).permute(
        0, 4, 1, 3, 6, 5, 2, 7
    )
    shifts = torch.arange(0, 32, 4, device=metadata.device)
    words = (nibbles.flatten(-2).long() << shifts).sum(-1)
    return torch.where(words < 2**31, words, words - 2**32).to(torch.int32).flatten(3, 4).contiguous()


def from_words(
    words,  # as `to_words` returns them
    rows,
    columns,
):  # (rows, columns/4) of uint8
    "Convert words back to metadata: the inverse of `to_words`"
    shifts = torch.arange(0, 32, 4, device=words.device)
    nibbles = (words.long().unsqueeze(-1) >> shifts & 15).to(torch.uint8).unflatten(3, (8, 4)).unflatten(-1, (2, 4))
    nibbles = nibbles.permute(0, 2, 6, 3, 1, 5, 4, 7).reshape(TILE_ROWS * words.shape[0], -1)
    return nibbles[:rows, : columns // 4].contiguous()


# The columns of w may be permuted if those of x are permuted in the same way. A permutation can move large elements of
# one group to different groups, so that pruning keeps more of them.
def _group_splits():
    "Return the 35 ways to split eight columns into two groups of four, as permutations of the eight"
    first_groups = [(0, *others) for others in combinations(range(1, 8), 3)]
    return torch.tensor([[*group, *(i for i in range(8) if i not in group)] for group in first_groups])


def kept_magnitude(w) -> float:
    "Compute the sum of the magnitudes of the elements that `keep_mask` keeps"
    return w.detach().float().abs().unflatten(1, (-1, 4)).topk(2).values.sum(dtype=torch.float64).item()


def search_order(
    w,  # (rows, columns); the number of columns is a multiple of 8
    iterations=20,
    seed=0,
):  # (columns,) of int64
    """Search for an order of the columns in which pruning keeps larger elements: prune w[:, order], and multiply by
    x[:, order].

    Each iteration takes random pairs of groups, and splits their eight columns in the best of 35 ways, so the kept
    magnitude never decreases. Raises ValueError unless the number of columns is a multiple of 8. Source: Pool and Yu,
    "Channel Permutations for N:M Sparsity"."""
    _check_matrix('search_order', w)
    if w.shape[1] % 8:
        raise ValueError(f'search_order: w has {w.shape[1]} columns; expected a multiple of 8: pad w with zeros')
    magnitudes, order = w.detach().abs().float(), torch.arange(w.shape[1], device=w.device)
    generator, splits = torch.Generator().manual_seed(seed), _group_splits().to(w.device)
    for _ in range(iterations):
        shuffle = torch.randperm(len(order) // 4, generator=generator).to(w.device)
        pairs = order.view(-1, 4)[shuffle].view(-1, 8)
        split_columns = (magnitudes[:, pairs[:, split]].unflatten(-1, (2, 4)) for split in splits)
        magnitude_per_split = [columns.topk(2).values.sum((0, 2, 3)) for columns in split_columns]
        order = pairs.gather(1, splits[torch.stack(magnitude_per_split).argmax(0)]).flatten()
    return order
