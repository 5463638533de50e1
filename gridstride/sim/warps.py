"""The functions by which the lanes of a warp exchange values: shuffles, votes and matches.

Values are reshaped to (warps, lanes of a warp): a vote reduces each row, and a match compares each row with itself.
"""

import numpy as np

from .intrinsics import intrinsic
from .lanes import truth

__all__ = [
    'activemask',
    'all_sync',
    'any_sync',
    'ballot_sync',
    'eq_sync',
    'lanemask_lt',
    'match_all_sync',
    'match_any_sync',
]
__all__ += ['shfl_down_sync', 'shfl_sync', 'shfl_up_sync', 'shfl_xor_sync']


def _warps(ctx, values):
    "Reshape `values` to (warps, lanes of a warp)"
    return np.broadcast_to(values, ctx.group.size)[ctx.group.lanes_by_warp()]


def _lanes(ctx, values):
    "Reshape (warps, lanes of a warp) back to lanes"
    return values[ctx.group.warp_in_group, ctx.group.laneid]


def _active_lanes(ctx, active):
    "Reshape the mask `active` to (warps, lanes of a warp)"
    return _warps(ctx, active) & (ctx.group.lanes_by_warp() >= 0)


def _broadcast_to_lanes(ctx, values):
    "Broadcast one value per warp to its lanes"
    return values[ctx.group.warp_in_group]


def _shuffle(source_of):
    "Make the shuffle in which each lane reads from the lane that `source_of(lane, other, width)` returns"

    def shuffle(ctx, active, site, mask, value, other, width=None):
        ctx.detectors.synccheck.check_mask(ctx, active, mask, site, 'a shuffle')
        group = ctx.group
        width = ctx.warp_size if width is None else width
        source = source_of(group.laneid, np.asarray(other).astype(np.int64), np.int64(width))
        segment_start = group.laneid // width * width
        source = np.where((source >= segment_start) & (source < segment_start + width), source, group.laneid)
        source_lanes = group.lanes_by_warp()[group.warp_in_group, source]
        ctx.detectors.synccheck.check_sources(ctx, active, source_lanes, source, site)
        return np.broadcast_to(value, group.size)[source_lanes]

    shuffle.__name__, shuffle.__doc__ = source_of.__name__, source_of.__doc__
    return intrinsic(shuffle)


@_shuffle
def shfl_sync(lane, other, width):
    "Read the value of lane `other` of each segment of `width` lanes"
    return lane // width * width + other % width


@_shuffle
def shfl_up_sync(lane, other, width):
    "Read the value `other` lanes below; its own value if the segment of `width` lanes has no such lane"
    return lane - other


@_shuffle
def shfl_down_sync(lane, other, width):
    "Read the value `other` lanes above; its own value if the segment of `width` lanes has no such lane"
    return lane + other


@_shuffle
def shfl_xor_sync(lane, other, width):
    "Read the value of the lane whose index differs in the bits of `other`"
    return lane ^ other


def _vote(combine):
    "Make the vote whose result per warp is `combine(yes, active)`, of the predicate and the mask of the active lanes"

    def vote(ctx, active, site, mask, predicate):
        ctx.detectors.synccheck.check_mask(ctx, active, mask, site, 'a vote')
        return _broadcast_to_lanes(ctx, combine(_warps(ctx, truth(np.asarray(predicate))), _active_lanes(ctx, active)))

    vote.__name__, vote.__doc__ = combine.__name__, combine.__doc__
    return intrinsic(vote)


def _bits(predicates):
    "Pack each row of booleans into an integer, bit i for lane i: uint64 for 64 lanes, else int64"
    lane_count = predicates.shape[-1]
    bits = (predicates.astype(np.uint64) << np.arange(lane_count, dtype=np.uint64)).sum(-1, dtype=np.uint64)
    return bits if lane_count == 64 else bits.astype(np.int64)


@_vote
def all_sync(yes, active):
    "Return whether the predicate is true in all active lanes of the warp"
    return (yes | ~active).all(1)


@_vote
def any_sync(yes, active):
    "Return whether the predicate is true in any lane of the warp"
    return (yes & active).any(1)


@_vote
def eq_sync(yes, active):
    "Return whether the predicate is equal in all lanes of the warp"
    return (yes | ~active).all(1) | ~(yes & active).any(1)


@_vote
def ballot_sync(yes, active):
    "Return the mask of the lanes of the warp whose predicate is true"
    return _bits(yes & active)


@intrinsic
def match_any_sync(ctx, active, site, mask, value):
    "Return the mask of the lanes that have the same value as this one"
    ctx.detectors.synccheck.check_mask(ctx, active, mask, site, 'a match')
    values, here = _warps(ctx, value), _active_lanes(ctx, active)
    return _lanes(ctx, _bits((values[:, :, None] == values[:, None, :]) & here[:, None, :]))


@intrinsic
def match_all_sync(ctx, active, site, mask, value):
    "Return (mask of the active lanes if all have the same value, else 0; whether all have the same value)"
    ctx.detectors.synccheck.check_mask(ctx, active, mask, site, 'a match')
    values, here = _warps(ctx, value), _active_lanes(ctx, active)
    first = values[np.arange(len(values)), np.argmax(here, 1)]
    same = ((values == first[:, None]) | ~here).all(1)
    return _broadcast_to_lanes(ctx, _bits(here & same[:, None])), _broadcast_to_lanes(ctx, same)


@intrinsic
def activemask(ctx, active, site):
    "Return the mask of the active lanes of the warp"
    return _broadcast_to_lanes(ctx, _bits(_active_lanes(ctx, active)))


@intrinsic
def lanemask_lt(ctx, active, site):
    "Return the mask of the lanes with a smaller index"
    return _bits(np.arange(ctx.warp_size) < ctx.group.laneid[:, None])
