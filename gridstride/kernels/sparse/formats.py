"""2:4 sparse matrices in plain torch: which elements are kept, and how they are stored.

Of each four consecutive elements of a row at most two are not 0. Stored are two of the four, and their positions, 0 to
3, in two bits each, the first position in the lower two. So a nibble is one of 4, 8, 9, 12, 13 and 14; the first
position is always below the second.
"""

from itertools import combinations
from typing import NamedTuple

import torch

from ...utils import cdiv

FIRST_TWO = 4  # the nibble of positions 0 and 1
_NONE = 255
ROWS, COLUMNS = 64, 128  # of a tile of words


def _nibble(mask):
    "The positions of the bits that are set, filled up from the left to two; `_NONE` if there are more"
    at = [i for i in range(4) if mask >> i & 1]
    first, second = sorted((at + [i for i in range(4) if i not in at])[:2])
    return first | second << 2 if len(at) <= 2 else _NONE


def _table(device):
    "The nibble per mask of four bits"
    return torch.tensor([_nibble(m) for m in range(16)], dtype=torch.uint8, device=device)


class Compressed(NamedTuple):
    "A 2:4 sparse matrix"

    values: object  # (rows, columns/2)
    metadata: object  # (rows, columns/4) of uint8: one nibble per four


def _check(tool, w):
    "Raise unless `w` is a matrix of floats in whole fours, without NaN"
    if not hasattr(w, 'is_floating_point') or not w.is_floating_point() or w.dim() != 2:
        raise TypeError(f'{tool}: w must be a torch tensor of floats with two axes')
    if w.shape[1] % 4:
        raise ValueError(f'{tool}: {w.shape[1]} columns are not a multiple of 4; pad them with zeros')
    if w.isnan().any():
        r, c = w.isnan().nonzero()[0].tolist()
        raise ValueError(f'{tool}: w[{r}, {c}] is NaN, which is neither large nor small')


def kept(w):  # w's shape of bool
    "Return the mask of the elements of w that magnitude keeps: the two largest of each four; among equals the first"
    _check('kept', w)
    size = w.detach().abs().unflatten(1, (-1, 4))
    mine, other = size.unsqueeze(-1), size.unsqueeze(-2)
    before = torch.ones(4, 4, dtype=torch.bool, device=w.device).tril(-1)
    return ((other > mine) | (other == mine) & before).sum(-1).lt(2).flatten(1)


def prune(w):  # w's shape
    "w, and 0 for the two smallest of each four"
    return torch.where(kept(w), w, 0)


def compress(
    w,  # (rows, columns): two at most of each four are not 0
) -> Compressed:
    "Two of each four, and their positions: those that are not 0, filled up from the left"
    _check('compress', w)
    fours = w.detach().unflatten(1, (-1, 4))
    metadata = _table(w.device)[((fours != 0) << torch.arange(4, device=w.device)).sum(-1)]
    if (full := metadata == _NONE).any():
        r, c = full.nonzero()[0].tolist()
        raise ValueError(
            f'compress: w[{r}, {4 * c}:{4 * c + 4}] has more than two nonzero elements, as '
            f'{int(full.sum()):,} fours have; prune(w) keeps the two largest of each'
        )
    at = torch.stack([metadata & 3, metadata >> 2], -1).long()
    return Compressed(fours.gather(-1, at).flatten(1), metadata)


def spread(c: Compressed):  # (rows, columns)
    "The dense matrix, for positions that are known to be valid"
    at = torch.stack([c.metadata & 3, c.metadata >> 2], -1).long()
    res = c.values.new_zeros(*c.metadata.shape, 4)
    return res.scatter(-1, at, c.values.unflatten(1, (-1, 2))).flatten(1)


def decompress(c: Compressed):  # (rows, columns)
    "The dense matrix; `ValueError` for positions that are not ascending"
    first, second = c.metadata & 3, c.metadata >> 2
    if (bad := (first >= second) | (second > 3)).any():
        r, g = bad.nonzero()[0].tolist()
        raise ValueError(
            f'decompress: metadata[{r}, {g}] is {int(c.metadata[r, g])}, and there are 4, 8, 9, 12, 13 and 14: '
            'two indices, the lower one in the lower bits'
        )
    return spread(c)


# The tensor cores read the metadata, the positions, from registers: a thread has a word of 32 bits, for sixteen
# elements of two rows. Lane l of a warp has rows l/4, in the lower half, and l/4 + 8; `mma.sp` and `wgmma.sp` of 32
# elements along k take the words of two lanes of each four, which the *selector* names: 0 the first two, 1 the last
# two. So one word per lane is enough for 64 elements along k: lane l has those from 16*(l%4) on. Here each thread has
# two adjacent words.
def to_words(
    metadata,  # (rows, columns/4) of uint8
):  # (tiles of 64 rows, of 128 columns, 4 warps, 32 lanes, 2) of int32
    "Positions as the kernels load them; the rows and columns that pad the last tiles have positions 0 and 1"
    rows, fours = metadata.shape
    n = torch.nn.functional.pad(metadata, (0, -fours % (COLUMNS // 4), 0, -rows % ROWS), value=FIRST_TWO)
    n = n.view(cdiv(rows, ROWS), 4, 2, 8, cdiv(4 * fours, COLUMNS), 2, 4, 4).permute(0, 4, 1, 3, 6, 5, 2, 7)
    bits = torch.arange(0, 32, 4, device=metadata.device)
    words = (n.flatten(-2).long() << bits).sum(-1)
    return torch.where(words < 2**31, words, words - 2**32).to(torch.int32).flatten(3, 4).contiguous()


def from_words(
    words,  # as of `to_words`
    rows,
    columns,
):  # (rows, columns/4) of uint8
    "The inverse of `to_words`"
    bits = torch.arange(0, 32, 4, device=words.device)
    n = (words.long().unsqueeze(-1) >> bits & 15).to(torch.uint8).unflatten(3, (8, 4)).unflatten(-1, (2, 4))
    n = n.permute(0, 2, 6, 3, 1, 5, 4, 7).reshape(ROWS * words.shape[0], -1)
    return n[:rows, : columns // 4].contiguous()


# Which columns form a four is a choice: x may have its columns in any order, as long as w has the same. So large
# elements that would share a four can be separated.
def _splits():
    "The 35 ways to part eight columns into two fours, as orders of the eight"
    fours = [(0, *o) for o in combinations(range(1, 8), 3)]
    return torch.tensor([[*four, *(i for i in range(8) if i not in four)] for four in fours])


def kept_size(w) -> float:
    "The sum of the sizes of what `kept` keeps"
    return w.detach().float().abs().unflatten(1, (-1, 4)).topk(2).values.sum(dtype=torch.float64).item()


def search_order(
    w,  # (rows, columns), columns a multiple of 8
    rounds=20,
    seed=0,
):  # (columns,) of int64
    """An order of columns in which magnitude keeps more: w[:, order] is what to prune, x[:, order] what to multiply.

    Each round parts pairs of fours, drawn by chance, in the best of the 35 ways; so what is kept never gets less. The
    idea is that of Pool and Yu, "Channel Permutations for N:M Sparsity"."""
    _check('search_order', w)
    if w.shape[1] % 8:
        raise ValueError(f'search_order: {w.shape[1]} columns are not a multiple of 8; pad them with zeros')
    size, order = w.detach().abs().float(), torch.arange(w.shape[1], device=w.device)
    chance, splits = torch.Generator().manual_seed(seed), _splits().to(w.device)
    for _ in range(rounds):
        eights = order.view(-1, 4)[torch.randperm(len(order) // 4, generator=chance).to(w.device)].view(-1, 8)
        gains = [size[:, eights[:, s]].unflatten(-1, (2, 4)).topk(2).values.sum((0, 2, 3)) for s in splits]
        order = eights.gather(1, splits[torch.stack(gains).argmax(0)]).flatten()
    return order
