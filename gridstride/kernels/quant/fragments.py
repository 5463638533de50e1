"""Fragment order: the elements of a matrix stored in the order in which the threads of a warp load them.

`mma.sync` multiplies 16 x 16 elements of w by 16 x 8 of x. Of the 16 x 16 each thread has eight, in four registers:
lane l of a warp has elements of rows l/4 and l/4 + 8. Here a warp's step is 16 rows and 128 columns, eight such
products, and each thread reads its part of it by loads of 16 bytes, which are contiguous for the 32 lanes:

    (tile of 16 rows, step of 128 columns, load, lane, 16 bytes)

The order of columns along k does not matter, as long as x has the same order. So a thread takes eight contiguous
columns of x, one load of 16 bytes, for two products: lane l has in products 2j and 2j + 1 the columns 32j + 8t to
32j + 8t + 7, where t = l%4.

The eight elements of a product are in one word of 32 bits, or in two words for 8-bit types. `mma.sync` takes 16-bit
floats, two per register, so a pair is extracted at once: 4-bit integers are in bits 4i and 4(i + 4) for register i, so
that `(word >> 4*i) & 0x000f000f` is the pair; 8-bit elements in bytes 0 and 2, or 1 and 3. A pair of codebook indices
is in one byte, by which the pair is looked up.
"""

import torch

from ...utils import cdiv

STEP = 128  # columns of a step
BITS = dict(int8=8, fp8=8, int4=4, nf4=4)


def _as_pairs(q):
    "(tiles, steps, lane, product, register, element of its pair) of a matrix whose sizes fit"
    tiles, steps = q.shape[0] // 16, q.shape[1] // STEP
    # rows: tile, half, lane/4; columns: step, two products, lane%4, which of the two, half of its columns, element
    q = q.view(tiles, 2, 8, steps, 4, 4, 2, 2, 2).permute(0, 3, 2, 5, 4, 6, 7, 1, 8)
    return q.reshape(tiles, steps, 32, 8, 4, 2)


def _from_pairs(p):
    tiles, steps = p.shape[:2]
    p = p.reshape(tiles, steps, 8, 4, 4, 2, 2, 2, 2).permute(0, 7, 2, 1, 4, 3, 5, 6, 8)
    return p.reshape(tiles * 16, steps * STEP)


def to_fragments(
    q,  # (rows, columns) of bytes: int8 (-8 to 7 for 'int4'), codebook indices of 'nf4', e4m3
    kind,  # 'int8', 'int4', 'nf4', 'fp8'
):  # (tiles, steps, loads, 32, 16) of uint8
    "Elements in the order in which `matvec.cuh` loads them; the last rows and columns are padded with 0"
    rows, columns = q.shape
    p = _as_pairs(torch.nn.functional.pad(q.view(torch.uint8), (0, -columns % STEP, 0, -rows % 16)))
    if BITS[kind] == 8:
        p = p.unflatten(-2, (2, 2)).transpose(-1, -2)
    else:
        p = ((p + 8 & 15).transpose(-1, -2) if kind == 'int4' else p).reshape(*p.shape[:3], -1, 2)
        p = p[..., 0] | p[..., 1] << 4
    tiles, steps = p.shape[:2]
    return p.reshape(tiles, steps, 32, BITS[kind] // 2, 16).transpose(2, 3).contiguous()


def from_fragments(
    words,  # as of `to_fragments`
    kind,
    rows,
    columns,
):  # (rows, columns) of uint8; of int8 for integers
    "The inverse of `to_fragments`"
    p = words.transpose(2, 3).flatten(3)
    if BITS[kind] == 8:
        p = p.unflatten(-1, (8, 2, 2, 2)).transpose(-1, -2)
    else:
        p = torch.stack([p & 15, p >> 4], -1).flatten(3)
        p = p.unflatten(-1, (8, 2, 4)).transpose(-1, -2) - 8 if kind == 'int4' else p.unflatten(-1, (8, 4, 2))
    q = _from_pairs(p)[:rows, :columns].contiguous()
    return q.view(torch.int8) if kind.startswith('int') else q


def to_lanes(
    scales,  # (rows, groups) of 16-bit floats
    groups,  # that the kernel reads: those of whole steps
):  # (tiles, groups, 8, 2)
    "Scales as a thread loads them: those of row r and r + 8 of a tile are adjacent"
    rows, given = scales.shape
    scales = torch.nn.functional.pad(scales, (0, groups - given, 0, -rows % 16))
    return scales.view(cdiv(rows, 16), 2, 8, groups).permute(0, 3, 2, 1).contiguous()


def from_lanes(
    lanes,  # as of `to_lanes`
    rows,
    groups,
):  # (rows, groups)
    "The scales again"
    return lanes.permute(0, 3, 2, 1).reshape(-1, lanes.shape[1])[:rows, :groups].contiguous()
