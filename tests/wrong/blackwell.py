import math

import numpy as np
import torch
from gridstride.kernels.quant.block_formats import e2m1_codes

from . import wrong


def used(tiles): return sum(-(-columns*bits//32) for columns,bits in tiles)

@wrong('blackwell.columns')
def multiples_of_32(tiles):
    n = -(-used(tiles)//32)*32
    return (n, 512//n) if n <= 512 else None

@wrong('blackwell.columns')
def all_of_32_bits(tiles):
    n = max(32, 1 << (sum(columns for columns,_ in tiles) - 1).bit_length())
    return (n, 512//n) if n <= 512 else None

@wrong('blackwell.columns')
def each_a_power_of_two(tiles):
    n = sum(max(32, 1 << (used([o]) - 1).bit_length()) for o in tiles)
    return (n, 512//n) if n <= 512 else None

@wrong('blackwell.columns')
def no_least(tiles):
    n = 1 << (used(tiles) - 1).bit_length()
    return (n, 512//n) if n <= 512 else None


def block(x, exponent): return exponent + 127,e2m1_codes(x/2.**exponent)

@wrong('blackwell.block')
def the_exponent_of_frexp(x): return block(x, math.frexp(x.abs().max().item())[1] - 2)

@wrong('blackwell.block')
def rounded_up(x): return block(x, math.ceil(math.log2(x.abs().max().item()/6)))

@wrong('blackwell.block')
def forgets_the_sign(x): return block(x, math.frexp(x.max().item())[1] - 3)

@wrong('blackwell.block')
def ties_away_from_zero(x):
    code,_ = block(x, math.frexp(x.abs().max().item())[1] - 3)
    y = x/2.**(code - 127)
    nearest = torch.bucketize(y.abs(), torch.tensor([.25, .75, 1.25, 1.75, 2.5, 3.5, 5]), right=True)
    return code,nearest + 8*(y < 0)

@wrong('blackwell.block')
def wraps_what_is_too_large(x):
    code,_ = block(x, math.frexp(x.abs().max().item())[1] - 3)
    y = x/2.**(code - 127)
    return code,e2m1_codes(torch.where(y.abs() > 6, y - 8*y.sign(), y))


@wrong('blackwell.offset')
def row_major(row, block, blocks): return row*blocks + block

@wrong('blackwell.offset')
def rows_in_order(row, block, blocks): return (row//128*-(-blocks//4) + block//4)*512 + row%128*4 + block%4

@wrong('blackwell.offset')
def no_padding(row, block, blocks): return row//128*128*blocks + block//4*512 + row%32*16 + row%128//32*4 + block%4

@wrong('blackwell.offset')
def groups_and_lanes_swapped(row, block, blocks):
    return (row//128*-(-blocks//4) + block//4)*512 + row%4*128 + row%128//4*4 + block%4


def with_bits(p, f, n):
    return (np.asarray(p(f), np.float32).view(np.int32) + (n.astype(np.int32) << 23)).view(np.float32)

@wrong('blackwell.exp2')
def rounds_towards_zero(x, p):
    x = np.maximum(x, np.float32(-126))
    return with_bits(p, x - np.trunc(x), np.trunc(x))

@wrong('blackwell.exp2')
def no_limit(x, p): return with_bits(p, x - np.floor(x), np.floor(x))

@wrong('blackwell.exp2')
def the_librarys(x, p): return np.exp2(x)

@wrong('blackwell.exp2')
def the_nearest_integer(x, p):
    x = np.maximum(x, np.float32(-126))
    return with_bits(p, x - np.rint(x), np.rint(x))


def online(tiles, threshold, moves=False, exceeds=False, scales=True, first=0):
    "Conditional rescale with one mistake"
    top,total,count = tiles[0].max(),0.,first
    for i,o in enumerate(tiles):
        m = o.max()
        if m > top + threshold or exceeds and i and m >= top + threshold:
            if scales: total *= 2.**(top - m)
            top,count = m,count + 1
        elif moves: top = max(top, m)
        total += np.exp2(o - top).sum()
    return count,top,total

@wrong('blackwell.rescale')
def always(tiles, threshold): return online(tiles, 0)

@wrong('blackwell.rescale')
def moves_without_rescaling(tiles, threshold): return online(tiles, threshold, moves=True)

@wrong('blackwell.rescale')
def forgets_to_scale_the_sum(tiles, threshold): return online(tiles, threshold, scales=False)

@wrong('blackwell.rescale')
def counts_the_first(tiles, threshold): return online(tiles, threshold, first=1)

@wrong('blackwell.rescale')
def at_the_threshold_already(tiles, threshold): return online(tiles, threshold, exceeds=True)
