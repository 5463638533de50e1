"""Convert matrices to fragment order: the order in which the threads of a warp load elements for `mma.sync`.

`mma.sync` multiplies 16 x 16 elements of w by 16 x 8 elements of x. Each thread holds eight elements of w in four
registers: lane l of a warp holds elements of rows l/4 and l/4 + 8. Here one step of a warp is 16 rows and 128 columns,
which is eight such products. Each thread loads its elements 16 bytes at a time, contiguous across the 32 lanes:

    (tile of 16 rows, step of 128 columns, load, lane, 16 bytes)

The order of the columns along K does not matter if x has the same order. Therefore a thread loads eight contiguous
columns of x at once, 16 bytes, for two products: for products 2j and 2j + 1, lane l has the columns from 32j + 8t to
32j + 8t + 7, where t = l%4.

The eight elements of a product are in one 32-bit word, or in two words for 8-bit types. `mma.sync` takes two 16-bit
floats per register, so the kernel extracts a pair at once. The pair of 4-bit integers for register i is at bits 4i and
4(i + 4), so that `(word >> 4*i) & 0x000f000f` extracts it; 8-bit pairs are in bytes 0 and 2, or 1 and 3. Two codebook
indices share a byte, which is the index into a table of pairs.
"""

import torch

from ...utils import cdiv

STEP = 128  # columns of a step
BITS = dict(int8=8, fp8=8, int4=4, nf4=4)


def _to_pairs(q):
    "Permute a padded matrix to (tiles, steps, lane, product, register, element of the pair)"
    tiles, steps = q.shape[0] // 16, q.shape[1] // STEP
    # Axes: tile, half of its rows, lane/4 | step, pair of products, lane%4, product of the pair, half, element
    q = q.view(tiles, 2, 8, steps, 4, 4, 2, 2, 2).permute(0, 3, 2, 5, 4, 6, 7, 1, 8)
    return q.reshape(tiles, steps, 32, 8, 4, 2)


def _from_pairs(p):
    "Invert `_to_pairs`"
    tiles, steps = p.shape[:2]
    p = p.reshape(tiles, steps, 8, 4, 4, 2, 2, 2, 2).permute(0, 7, 2, 1, 4, 3, 5, 6, 8)
    return p.reshape(tiles * 16, steps * STEP)


def to_fragments(
    q,  # (rows, columns) of bytes: int8 (-8 to 7 for 'int4'), codebook indices of 'nf4', e4m3
    kind,  # 'int8', 'int4', 'nf4', 'fp8'
):  # (tiles, steps, loads, 32, 16) of uint8
    "Convert to the order in which `matvec.cuh` loads elements; rows and columns are padded with 0"
    rows, columns = q.shape
    p = _to_pairs(torch.nn.functional.pad(q.view(torch.uint8), (0, -columns % STEP, 0, -rows % 16)))
    if BITS[kind] == 8:
        p = p.unflatten(-2, (2, 2)).transpose(-1, -2)
    else:
        p = ((p + 8 & 15).transpose(-1, -2) if kind == 'int4' else p).reshape(*p.shape[:3], -1, 2)
        p = p[..., 0] | p[..., 1] << 4
    tiles, steps = p.shape[:2]
    return p.reshape(tiles, steps, 32, BITS[kind] // 2, 16).transpose(2, 3).contiguous()


def from_fragments(
    words,  # as `to_fragments` returns them
    kind,
    rows,
    columns,
):  # (rows, columns) of uint8; of int8 for integers
    "Convert back to row-major order: the inverse of `to_fragments`"
    p = words.transpose(2, 3).flatten(3)
    if BITS[kind] == 8:
        p = p.unflatten(-1, (8, 2, 2, 2)).transpose(-1, -2)
    else:
        p = torch.stack([p & 15, p >> 4], -1).flatten(3)
        p = p.unflatten(-1, (8, 2, 4)).transpose(-1, -2) - 8 if kind == 'int4' else p.unflatten(-1, (8, 4, 2))
    q = _from_pairs(p)[:rows, :columns].contiguous()
    return q.view(torch.int8) if kind.startswith('int') else q


def to_lane_order(
    scales,  # (rows, groups) of 16-bit floats
    groups,  # that the kernel reads: the groups of all steps, padded
):  # (tiles, groups, 8, 2)
    "Convert scales to the order in which threads load them: rows r and r + 8 of a tile are adjacent"
    rows, columns = scales.shape
    scales = torch.nn.functional.pad(scales, (0, groups - columns, 0, -rows % 16))
    return scales.view(cdiv(rows, 16), 2, 8, groups).permute(0, 3, 2, 1).contiguous()


def from_lane_order(
    ordered,  # as `to_lane_order` returns them
    rows,
    groups,
):  # (rows, groups)
    "Convert scales back to row-major order: the inverse of `to_lane_order`"
    return ordered.permute(0, 3, 2, 1).reshape(-1, ordered.shape[1])[:rows, :groups].contiguous()
