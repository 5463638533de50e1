import re

from gridstride import triton
from gridstride.triton import language as tl
from gridstride.bench.variants import changed

from . import wrong


@triton.jit
def bias_k(x, b, out, h, w, BLOCK: tl.constexpr):
    r,c = tl.program_id(0),tl.arange(0, BLOCK)
    v = tl.load(x + r*w + c, mask=c < w) + tl.load(b + c, mask=c < w)
    tl.store(out + r*w + c, tl.maximum(v, 0.), mask=c < w)

@wrong('triton.rows')
def within_the_array(): return changed(bias_k, {'out + r*w + c, tl.maximum(v, 0.), mask=c < w':
                                                'out + r*w + c, tl.maximum(v, 0.), mask=r*w + c < h*w'})

@wrong('triton.rows')
def bias_without_a_mask(): return changed(bias_k, 'tl.load(b + c, mask=c < w)', 'tl.load(b + c)')

@wrong('triton.rows')
def bias_of_the_row(): return changed(bias_k, 'tl.load(b + c, mask=c < w)', 'tl.load(b + r)')

@wrong('triton.rows')
def bias_after_the_maximum():
    return changed(bias_k, {' + tl.load(b + c, mask=c < w)': '',
                            'tl.maximum(v, 0.)': 'tl.maximum(v, 0.) + tl.load(b + c, mask=c < w)'})

@wrong('triton.rows')
def no_kernel(): return bias_after_the_maximum


@triton.jit
def rms_k(x, g, out, w, eps, BLOCK: tl.constexpr):
    r,c = tl.program_id(0),tl.arange(0, BLOCK)
    v = tl.load(x + r*w + c, mask=c < w, other=0.)
    v = v / tl.sqrt(tl.sum(v*v)/w + eps)
    tl.store(out + r*w + c, v*tl.load(g + c, mask=c < w), mask=c < w)

@wrong('triton.rms')
def mean_over_the_block(): return changed(rms_k, 'tl.sum(v*v)/w', 'tl.sum(v*v)/BLOCK')

@wrong('triton.rms')
def masked_lanes_count(): return changed(rms_k, 'other=0.', 'other=1.')

@wrong('triton.rms')
def masked_lanes_are_anything(): return changed(rms_k, ', other=0.', '')

@wrong('triton.rms')
def eps_outside_the_root(): return changed(rms_k, 'tl.sqrt(tl.sum(v*v)/w + eps)', '(tl.sqrt(tl.sum(v*v)/w) + eps)')

@wrong('triton.rms')
def less_the_mean(): return changed(rms_k, 'v = v / ', 'v = (v - tl.sum(v)/w) / ')


@triton.jit
def count_k(x, bins, n, BLOCK: tl.constexpr):
    i = tl.program_id(0)*BLOCK + tl.arange(0, BLOCK)
    b = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(bins + b, 1, mask=i < n)

@wrong('triton.count')
def load_and_store(): return changed(count_k, 'tl.atomic_add(bins + b, 1, mask=i < n)',
                                     'tl.store(bins + b, tl.load(bins + b) + 1, mask=i < n)')

@wrong('triton.count')
def out_of_bounds_lanes_count(): return changed(count_k, 'bins + b, 1, mask=i < n', 'bins + b, 1')

@wrong('triton.count')
def loads_what_is_not_there(): return changed(count_k, 'tl.load(x + i, mask=i < n, other=0)', 'tl.load(x + i)')

@wrong('triton.count')
def each_program_from_the_start(): return changed(count_k, 'tl.program_id(0)*BLOCK + ', '')


@wrong('triton.count')
def zeros_are_left_out(): return changed(count_k, 'bins + b, 1, mask=i < n', 'bins + b, 1, mask=(i < n) & (b > 0)')


def group(rows, cols, programs, cost, waves=None, most=None, clamped=True, whole=False, last=False):
    def place(t, group):
        tall = min(rows - t//(group*cols)*group, group) if clamped else group
        return t//(group*cols)*group + t%(group*cols)%tall, t%(group*cols)//tall
    def fetched(group):
        firsts = range(0, rows*cols - (programs-1 if whole else 0), programs)[:waves]
        return sum(cost(*(len(set(o)) for o in zip(*(place(t, group) for t in range(i, min(i+programs, rows*cols))))))
                   for i in firsts)
    groups = [2**i for i in range(rows.bit_length() if most is None else most)]
    return min(groups[::-1] if last else groups, key=fetched)

@wrong('triton.group')
def the_first_wave_alone(rows, cols, th, tw, programs):
    return group(rows, cols, programs, lambda r, c: r*th + c*tw, waves=1)

@wrong('triton.group')
def tiles_instead_of_elements(rows, cols, th, tw, programs): return group(rows, cols, programs, lambda r, c: r + c)

def numbers(th, tw): return lambda r, c: r*th + c*tw

@wrong('triton.group')
def the_largest_of_equals(rows, cols, th, tw, programs): return group(rows, cols, programs, numbers(th, tw), last=True)

@wrong('triton.group')
def more_than_rows(rows, cols, th, tw, programs):
    return group(rows, cols, programs, numbers(th, tw), most=rows.bit_length() + 1)

@wrong('triton.group')
def up_to_32(rows, cols, th, tw, programs):
    return group(rows, cols, programs, numbers(th, tw), most=min(rows.bit_length(), 6))

@wrong('triton.group')
def the_last_group_is_as_tall(rows, cols, th, tw, programs):
    return group(rows, cols, programs, numbers(th, tw), clamped=False)

@wrong('triton.group')
def whole_waves_alone(rows, cols, th, tw, programs):
    return group(rows, cols, programs, numbers(th, tw), whole=True)

@wrong('triton.group')
def always_eight(rows, cols, th, tw, programs): return min(8, 2**(rows.bit_length() - 1))

@wrong('triton.group')
def rows_of_m_alone(rows, cols, th, tw, programs): return group(rows, cols, programs, lambda r, c: r*th)


def owner(text, r, c, lane, warp, join):
    each,lanes,warps,order = ([int(o) for o in re.search(name + r' = \[(\d+), (\d+)\]', text).groups()]
                              for name in ('sizePerThread', 'threadsPerWarp', 'warpsPerCTA', 'order'))
    at = [(r,c)[a]//each[a] for a in (0,1)]
    return (join([warp(at[a], lanes[a], warps[a]) for a in (0,1)], warps, order),
            join([lane(at[a], lanes[a], warps[a]) for a in (0,1)], lanes, order))

def in_warp(at, lanes, warps): return at % lanes
def of_warps(at, lanes, warps): return at//lanes % warps
def joined(at, sizes, order): return at[order[0]] + sizes[order[0]]*at[order[1]]

@wrong('triton.owner')
def rows_always_slow(text, shape, r, c):
    return owner(text, r, c, in_warp, of_warps, lambda at, sizes, order: at[1] + sizes[1]*at[0])

@wrong('triton.owner')
def order_reversed(text, shape, r, c):
    return owner(text, r, c, in_warp, of_warps, lambda at, sizes, order: at[order[1]] + sizes[order[1]]*at[order[0]])

@wrong('triton.owner')
def nothing_is_repeated(text, shape, r, c):
    return owner(text, r, c, in_warp, lambda at, lanes, warps: at//lanes, joined)

@wrong('triton.owner')
def warps_before_lanes(text, shape, r, c):
    return owner(text, r, c, lambda at, lanes, warps: at//warps % lanes, lambda at, lanes, warps: at % warps, joined)

@wrong('triton.owner')
def lane_before_warp(text, shape, r, c): return owner(text, r, c, in_warp, of_warps, joined)[::-1]


@triton.jit
def softmax_k(x, out, w, BLOCK: tl.constexpr):
    r,lanes = tl.program_id(0),tl.arange(0, BLOCK)
    top,total = -float('inf'),0.
    for first in range(0, w, BLOCK):
        c = first + lanes
        v = tl.load(x + r*w + c, mask=c < w, other=-float('inf'))
        new = tl.maximum(top, tl.max(v))
        total = total*tl.exp(top - new) + tl.sum(tl.exp(v - new))
        top = new
    for first in range(0, w, BLOCK):
        c = first + lanes
        v = tl.load(x + r*w + c, mask=c < w)
        tl.store(out + r*w + c, tl.exp(v - top)/total, mask=c < w)

@wrong('triton.long')
def three_times_over_the_row():
    once = 'total*tl.exp(top - new) + tl.sum(tl.exp(v - new))'
    again = """    for first in range(0, w, BLOCK):
        v = tl.load(x + r*w + first + lanes, mask=first + lanes < w, other=-float('inf'))
        total += tl.sum(tl.exp(v - top))
"""
    return changed(softmax_k, {f'        total = {once}\n        top = new\n': '        top = new\n' + again})

@wrong('triton.long')
def old_sums_stay(): return changed(softmax_k, 'total*tl.exp(top - new)', 'total')

@wrong('triton.long')
def no_maximum(): return changed(softmax_k, 'tl.maximum(top, tl.max(v))', 'tl.maximum(0., 0.*tl.max(v))')

@wrong('triton.long')
def begins_with_a_maximum_of_zero(): return changed(softmax_k, "top,total = -float('inf'),0.", 'top,total = 0.,0.')

@wrong('triton.long')
def zeros_past_the_end(): return changed(softmax_k, "other=-float('inf')", 'other=0.')

@wrong('triton.long')
def the_last_block_alone(): return changed(softmax_k, 'total*tl.exp(top - new) + ', '')

@wrong('triton.long')
def one_block_only(): return changed(softmax_k, {"top,total = -float('inf'),0.\n    for first in range(0, w, BLOCK)":
                                                 "top,total = -float('inf'),0.\n    for first in range(0, 1)"})


@triton.jit
def linear_k(x, wt, b, out, h, k, w, th: tl.constexpr, tw: tl.constexpr, tk: tl.constexpr):
    cols = tl.cdiv(w, tw)
    r = (tl.program_id(0)//cols*th + tl.arange(0, th))[:,None]
    c = (tl.program_id(0)%cols*tw + tl.arange(0, tw))[None,:]
    i = tl.arange(0, tk)
    o = tl.zeros((th,tw), tl.float32)
    for idx in range(0, k, tk):
        ic,ir = (idx+i)[None,:],(idx+i)[:,None]
        ms = tl.load(x + r*k + ic, mask=(r < h) & (ic < k), other=0.)
        ns = tl.load(wt + c*k + ir, mask=(c < w) & (ir < k), other=0.)
        o = tl.dot(ms, ns, o, input_precision='ieee')
    o = tl.maximum(o + tl.load(b + c, mask=c < w), 0.)
    tl.store(out + r*w + c, o, mask=(r < h) & (c < w))

@wrong('triton.linear')
def ten_bits(): return changed(linear_k, ", input_precision='ieee'", '')

@wrong('triton.linear')
def tiles_of_anything(): return changed(linear_k, '(ic < k), other=0.', '(ic < k)')

@wrong('triton.linear')
def not_transposed(): return changed(linear_k, 'wt + c*k + ir', 'wt + ir*w + c')

@wrong('triton.linear')
def the_depth_without_a_mask(): return changed(linear_k, '(r < h) & (ic < k)', '(r < h) & (ic < k + tk)')

@wrong('triton.linear')
def relu_before_the_bias(): return changed(linear_k, 'tl.maximum(o + tl.load(b + c, mask=c < w), 0.)',
                                           'tl.maximum(o, 0.) + tl.load(b + c, mask=c < w)')

@wrong('triton.linear')
def rows_of_tiles_by_height(): return changed(linear_k, 'cols = tl.cdiv(w, tw)', 'cols = tl.cdiv(h, th)')
