import torch
from gridstride import triton
from gridstride.kernels.quant import formats
from gridstride.bench.variants import changed

from . import wrong

tl = triton.language


@wrong('quantization.bytes')
def no_scales(weights, bits, group, gbs): return gbs*1e9/(weights*bits/8)

@wrong('quantization.bytes')
def scales_of_a_byte(weights, bits, group, gbs): return gbs*1e9/(weights*(bits + 8/group)/8)

@wrong('quantization.bytes')
def bits_for_bytes(weights, bits, group, gbs): return gbs*1e9/(weights*(bits + 16/group))


def quality(w, group): return formats.snr_db(w, formats.dequantize_ints(formats.symmetric(w, 4, group)))
def divides(w, group): return group == 'row' or w.shape[1] % group == 0

@wrong('quantization.group')
def the_smallest(w, least):
    good = [g for g in ('row', 128, 64, 32) if divides(w, g) and quality(w, g) >= least]
    return good[-1] if good else None

@wrong('quantization.group')
def what_divides_not(w, least): return next((g for g in ('row', 128, 64, 32) if quality(w, g) >= least), None)

@wrong('quantization.group')
def never_none(w, least):
    return next((g for g in ('row', 128, 64) if divides(w, g) and quality(w, g) >= least), 32)

@wrong('quantization.group')
def more_than_asked(w, least):
    return next((g for g in ('row', 128, 64, 32) if divides(w, g) and quality(w, g) > least), None)

@wrong('quantization.group')
def as_long_as_it_is_good(w, least):
    best = None
    for g in (32, 64, 128, 'row'):
        if not divides(w, g): continue
        if quality(w, g) < least: break
        best = g
    return best

@wrong('quantization.group')
def of_eight_bits(w, least):
    def db(g): return formats.snr_db(w, formats.dequantize_ints(formats.symmetric(w, 8, g)))
    return next((g for g in ('row', 128, 64, 32) if divides(w, g) and db(g) >= least), None)


@wrong('quantization.group')
def decibels_of_swapped_arguments(w, least):
    def db(g): return formats.snr_db(formats.dequantize_ints(formats.symmetric(w, 4, g)), w)
    return next((g for g in ('row', 128, 64, 32) if divides(w, g) and db(g) >= least), None)


def of(line): return f'__device__ int nibble(unsigned w, int i) {{ return {line}; }}'

@wrong('quantization.sign')
def sign_lost(): return of('w >> 4*i & 15')

@wrong('quantization.sign')
def unsigned_to_the_end(): return of('w << (28 - 4*i) >> 28')

@wrong('quantization.sign')
def nibbles_swapped(): return of('(int)(w << 4*i) >> 28')


def packed(q, order=(0, 2, 4, 6, 1, 3, 5, 7), add=8):
    n = (q + add).long().view(len(q), -1, 8)[..., list(order)] & 15
    return (n << 4*torch.arange(8)).sum(-1).to(torch.uint32).view(torch.int32)

@wrong('quantization.order')
def plain_order(q): return packed(q, range(8))

@wrong('quantization.order')
def nibbles_of_a_byte_swapped(q): return packed(q, (2, 0, 6, 4, 3, 1, 7, 5))

@wrong('quantization.order')
def eight_is_not_added(q): return packed(q, add=0)

@wrong('quantization.order')
def the_inverse_order(q): return packed(q, (0, 4, 1, 5, 2, 6, 3, 7))

@wrong('quantization.order')
def in_place(q):
    q += 8
    return packed(q, add=0)


def threes(packed):
    b = packed.int().view(len(packed), -1, 3)
    return (b[..., 0] | b[..., 1] << 8 | b[..., 2] << 16)[..., None] >> 3*torch.arange(8) & 7

@wrong('quantization.three')
def as_twos_complement(packed):
    n = threes(packed)
    return torch.where(n > 3, n - 8, n).to(torch.int8).flatten(1)

@wrong('quantization.three')
def nothing_is_subtracted(packed): return threes(packed).to(torch.int8).flatten(1)

@wrong('quantization.three')
def bytes_swapped(packed):
    b = packed.view(len(packed), -1, 3)
    return (threes(b.flip(-1).flatten(1)) - 4).to(torch.int8).flatten(1)

@wrong('quantization.three')
def values_in_one_byte_only(packed):
    n = packed[:, torch.arange(packed.shape[1]//3*8)*3//8]
    shift = (torch.arange(n.shape[1])*3 % 8).to(torch.uint8)
    return ((n >> shift & 7).int() - 4).to(torch.int8)

@wrong('quantization.three')
def shifted_as_bytes(packed):
    b = packed.view(len(packed), -1, 3)
    word = b[..., 0] | b[..., 1] << 8 | b[..., 2] << 16
    return ((word[..., None].int() >> 3*torch.arange(8) & 7) - 4).to(torch.int8).flatten(1)


@triton.jit
def two_k(x, w, scales, y, h, k, G: tl.constexpr, HEIGHT: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0)*HEIGHT + tl.arange(0, HEIGHT)
    sums = tl.zeros((HEIGHT,), tl.float32)
    for first in range(0, k, BLOCK):
        c = first + tl.arange(0, BLOCK)
        inside = (r[:,None] < h) & (c < k)
        b = tl.load(w + r[:,None]*(k//4) + c//4, mask=inside, other=0)
        n = (b >> (2*(c % 4)).to(tl.uint8) & 3).to(tl.float32) - 2
        s = tl.load(scales + r[:,None]*(k//G) + c//G, mask=inside, other=0)
        v = tl.load(x + c, mask=c < k, other=0)
        sums += tl.sum(n*s*v, 1)
    tl.store(y + r, sums, mask=r < h)

@wrong('quantization.two')
def scales_of_the_first_block(): return changed(two_k, 'c//G, mask', '(c - first)//G, mask')

@wrong('quantization.two')
def groups_end_with_the_block(): return changed(two_k, 'c//G, mask', 'tl.cdiv(first, G) + (c - first)//G, mask')

@wrong('quantization.two')
def one_scale_a_row(): return changed(two_k, '(k//G) + c//G', '(k//G)')

@wrong('quantization.two')
def swapped_in_the_byte(): return changed(two_k, '2*(c % 4)', '6 - 2*(c % 4)')

@wrong('quantization.two')
def sign_lost_in_a_byte():
    return changed(two_k, {'(b >> (2*(c % 4))': '((b >> (2*(c % 4))',
                           '& 3).to(tl.float32) - 2': '& 3) - 2).to(tl.float32)'})

@wrong('quantization.two')
def no_mask_for_columns(): return changed(two_k, '(r[:,None] < h) & (c < k)', '(r[:,None] < h) & (c >= 0)')

@wrong('quantization.two')
def last_block_left_out(): return changed(two_k, 'range(0, k, BLOCK)', 'range(0, k - BLOCK + 1, BLOCK)')


two_of = changed(two_k, {'two_k(x': 'two_of(p, x', 'tl.program_id(0)*HEIGHT': 'p*HEIGHT'}) # for program p

@wrong('quantization.two')
def one_program_does_all():
    @triton.jit
    def k(x, w, scales, y, h, k, G: tl.constexpr, HEIGHT: tl.constexpr, BLOCK: tl.constexpr):
        for p in range(tl.num_programs(0) if tl.program_id(0) == 0 else 0):
            two_of(p, x, w, scales, y, h, k, G, HEIGHT, BLOCK)
    return k

@wrong('quantization.two')
def a_block_that_holds_all_columns_here():
    @triton.jit
    def k(x, w, scales, y, h, k, G: tl.constexpr, HEIGHT: tl.constexpr, BLOCK: tl.constexpr):
        two_of(tl.program_id(0), x, w, scales, y, h, k, G, HEIGHT, 128)
    return k

@wrong('quantization.two')
def one_column_after_the_other():
    @triton.jit
    def k(x, w, scales, y, h, k, G: tl.constexpr, HEIGHT: tl.constexpr, BLOCK: tl.constexpr):
        two_of(tl.program_id(0), x, w, scales, y, h, k, G, HEIGHT, 1)
    return k


def scales_per_block(columns):
    "The scales of a block, of which there are none where G is greater than BLOCK"
    return changed(two_k, {'tl.load(scales + r[:,None]*(k//G) + c//G, mask=inside, other=0)': f'''tl.load(
            scales + r[:,None]*(k//G) + first//G + {columns}, mask=(r[:,None] < h) & (first//G + {columns} < k//G),
            other=0)
        s = tl.reshape(tl.broadcast_to(s[:,:,None], (HEIGHT, BLOCK//G, G)), (HEIGHT, BLOCK))'''})

@wrong('quantization.two')
def a_range_per_block(): return scales_per_block('tl.arange(0, BLOCK//G)[None,:]')

@wrong('quantization.two')
def a_shape_per_block(): return scales_per_block('tl.cumsum(tl.full((1, BLOCK//G), 1, tl.int32), 1) - 1')
