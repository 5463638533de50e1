import math

import numpy as np
import torch
from gridstride.kernels.quant.block_formats import e2m1_codes

from . import right


@right('blackwell.columns')
def doubles(tiles):
    n = 32
    while n < sum(math.ceil(columns*bits/32) for columns,bits in tiles): n *= 2
    return (n, 512//n) if n <= 512 else None

@right('blackwell.block')
def by_logarithm(x):
    scale = 2.**(math.floor(math.log2(x.abs().max().item())) - 2)
    return int(math.log2(scale)) + 127,e2m1_codes(x/scale)

@right('blackwell.block')
def by_distance(x):
    code = math.frexp(x.abs().max().item())[1] + 124
    values = torch.tensor([0, 1, 2, 3, 4, 6, 8, 12])/2
    near = ((x/2.**(code - 127)).abs()[:,None] - values).abs()
    best = near.amin(1, keepdim=True)
    codes = torch.tensor([next(i for i in (0, 2, 4, 6, 1, 3, 5, 7) if row[i]) for row in (near == best)])
    return code,codes + 8*(torch.signbit(x)).long()

@right('blackwell.offset')
def by_divmod(row, block, blocks):
    band,row = divmod(row, 128)
    group,lane = divmod(row, 32)
    tile,byte = divmod(block, 4)
    return 512*(band*math.ceil(blocks/4) + tile) + 16*lane + 4*group + byte

@right('blackwell.exp2')
def by_ldexp(x, p):
    x = np.maximum(x, np.float32(-126))
    n = np.floor(x)
    return np.ldexp(np.asarray(p(x - n), np.float32), n.astype(int)).astype(np.float32)

@right('blackwell.rescale')
def in_a_loop(tiles, threshold):
    top,total,count = -math.inf,0.,-1
    for o in tiles:
        if o.max() > top + threshold:
            total,top,count = (total*2.**(top - o.max()) if count >= 0 else 0.),float(o.max()),count + 1
        total += sum(2.**(s - top) for s in o)
    return count,top,total
