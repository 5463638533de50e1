"""Convert matrices to fragment order: the order in which the threads of a warp load elements for `mma.sync`.

`mma.sync` multiplies 16 x 16 elements of w by 16 x 8 elements of x. Each thread holds eight elements of w in four
registers: lane l of a warp holds elements of rows l/4 and l/4 + 8. A step of a warp covers 16 rows and 128 columns,
which is eight such products. Each thread loads its elements 16 bytes at a time, contiguous across the 32 lanes, so the
memory layout is

    (tile of 16 rows, step of 128 columns, load, lane, 16 bytes)

The sum along K does not depend on the order of its terms, so the columns of w and x may be permuted alike. With the
permutation a thread loads eight contiguous columns of x (16 bytes) for two products. For products 2j and 2j + 1, lane l
has the columns 32j + 8t to 32j + 8t + 7, where t = l%4.

The eight elements of a product are in one 32-bit word, or in two words for 8-bit types. `mma.sync` takes two 16-bit
floats per register, so the kernel extracts a pair at once. The pair of 4-bit integers for register i is at bits 4i and
4(i + 4), so that `(word >> 4*i) & 0x000f000f` extracts it; so are the codes of NVFP4. 8-bit pairs are in bytes 0 and 2,
or 1 and 3. Two NF4 indices share a byte, which is the index into a table of pairs.
"""

import torch

from ...utils import cdiv

STEP = 128  # columns of a step
BITS = dict(int8=8, fp8=8, int4=4, nf4=4, mxfp8=8, nvfp4=4)  # kind -> bits per element


def _to_pairs(matrix):
    "Permute a padded matrix to (tiles, steps, lane, product, register, element of the pair)"
    tiles, steps = matrix.shape[0] // 16, matrix.shape[1] // STEP
    # Axes of the view: tile, half of its rows, lane/4 | step, pair of products, lane%4, product, half, element
    pairs = matrix.view(tiles, 2, 8, steps, 4, 4, 2, 2, 2).permute(0, 3, 2, 5, 4, 6, 7, 1, 8)
    return pairs.reshape(tiles, steps, 32, 8, 4, 2)


def _from_pairs(pairs):
    "Permute pairs back to a padded matrix: the inverse of `_to_pairs`"
    tiles, steps = pairs.shape[:2]
    matrix = pairs.reshape(tiles, steps, 8, 4, 4, 2, 2, 2, 2).permute(0, 7, 2, 1, 4, 3, 5, 6, 8)
    return matrix.reshape(tiles * 16, steps * STEP)


def to_fragments(
    quantized,  # (rows, columns), a byte per element: int8 (-8 to 7 for 'int4'), codebook indices of 'nf4', e4m3, e2m1
    kind,  # a key of `BITS`
):  # (tiles, steps, loads, 32, 16) of uint8
    "Convert to the order in which `matvec.cuh` loads elements; rows and columns are padded with 0"
    rows, columns = quantized.shape
    pairs = _to_pairs(torch.nn.functional.pad(quantized.view(torch.uint8), (0, -columns % STEP, 0, -rows % 16)))
    tiles, steps = pairs.shape[:2]
    if BITS[kind] == 8:
        packed = pairs.unflatten(-2, (2, 2)).transpose(-1, -2)
    else:
        nibbles = pairs + 8 & 15 if kind == 'int4' else pairs
        nibbles = nibbles if kind == 'nf4' else nibbles.transpose(-1, -2)
        nibbles = nibbles.reshape(*pairs.shape[:3], -1, 2)
        packed = nibbles[..., 0] | nibbles[..., 1] << 4
    return packed.reshape(tiles, steps, 32, BITS[kind] // 2, 16).transpose(2, 3).contiguous()


def from_fragments(
    words,  # as `to_fragments` returns them
    kind,
    rows,
    columns,
):  # (rows, columns) of uint8; of int8 for integers
    "Convert back to row-major order: the inverse of `to_fragments`"
    packed = words.transpose(2, 3).flatten(3)
    if BITS[kind] == 8:
        pairs = packed.unflatten(-1, (8, 2, 2, 2)).transpose(-1, -2)
    else:
        nibbles = torch.stack([packed & 15, packed >> 4], -1).flatten(3)
        is_nf4 = kind == 'nf4'
        pairs = nibbles.unflatten(-1, (8, 4, 2)) if is_nf4 else nibbles.unflatten(-1, (8, 2, 4)).transpose(-1, -2)
        pairs = pairs - 8 if kind == 'int4' else pairs
    quantized = _from_pairs(pairs)[:rows, :columns].contiguous()
    return quantized.view(torch.int8) if kind.startswith('int') else quantized


def to_lane_order(
    scales,  # (rows, groups) of 16-bit floats, or of bytes
    padded_groups,  # groups per row that the kernel reads: those of all steps, including padding
):  # (tiles, groups, 8, 2)
    "Convert scales to the order in which threads load them: those of rows r and r + 8 of a tile are adjacent"
    rows, columns = scales.shape
    scales = torch.nn.functional.pad(scales, (0, padded_groups - columns, 0, -rows % 16))
    return scales.view(cdiv(rows, 16), 2, 8, padded_groups).permute(0, 3, 2, 1).contiguous()


def from_lane_order(
    lane_scales,  # as `to_lane_order` returns them
    rows,
    groups,
):  # (rows, groups)
    "Convert scales back to row-major order: the inverse of `to_lane_order`"
    return lane_scales.permute(0, 3, 2, 1).reshape(-1, lane_scales.shape[1])[:rows, :groups].contiguous()
