"""Functions that exchange values among the lanes of a warp: shuffles, votes and matches.

Values are reshaped to (warps, lanes per warp): a vote reduces each row, and a match compares each row with itself.
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


def _by_warp(ctx, values):
    "Reshape `values` from lanes to (warps, lanes per warp)"
    return np.broadcast_to(values, ctx.group.size)[ctx.group.lanes_by_warp()]


def _by_lane(ctx, values):
    "Reshape `values` from (warps, lanes per warp) to lanes"
    return values[ctx.group.warp_in_group, ctx.group.laneid]


def _active_by_warp(ctx, active):
    "Reshape the mask `active` to (warps, lanes per warp); lanes without a thread are inactive"
    return _by_warp(ctx, active) & (ctx.group.lanes_by_warp() >= 0)


def _broadcast_to_lanes(ctx, values):
    "Broadcast one value per warp to its lanes"
    return values[ctx.group.warp_in_group]


def _shuffle(source_of):
    "Make a shuffle: each lane reads from lane `source_of(lane, argument, width)`, with the argument of the call"

    def shuffle(ctx, active, site, mask, value, argument, width=None):
        ctx.detectors.synccheck.check_mask(ctx, active, mask, site, 'a shuffle')
        group = ctx.group
        width = ctx.warp_size if width is None else width
        source = source_of(group.laneid, np.asarray(argument).astype(np.int64), np.int64(width))
        segment_start = group.laneid // width * width
        source = np.where((source >= segment_start) & (source < segment_start + width), source, group.laneid)
        source_lanes = group.lanes_by_warp()[group.warp_in_group, source]
        ctx.detectors.synccheck.check_sources(ctx, active, source_lanes, source, site)
        return np.broadcast_to(value, group.size)[source_lanes]

    shuffle.__name__, shuffle.__doc__ = source_of.__name__, source_of.__doc__
    return intrinsic(shuffle)


@_shuffle
def shfl_sync(lane, source_lane, width):
    "Read the value of lane `source_lane` of each segment of `width` lanes"
    return lane // width * width + source_lane % width


@_shuffle
def shfl_up_sync(lane, delta, width):
    "Read the value `delta` lanes below; its own value if the segment of `width` lanes has no such lane"
    return lane - delta


@_shuffle
def shfl_down_sync(lane, delta, width):
    "Read the value `delta` lanes above; its own value if the segment of `width` lanes has no such lane"
    return lane + delta


@_shuffle
def shfl_xor_sync(lane, lane_mask, width):
    "Read the value of the lane with the index `lane ^ lane_mask`"
    return lane ^ lane_mask


def _vote(combine):
    "Make a vote whose result per warp is `combine(predicate, active)`; both arguments are (warps, lanes per warp)"

    def vote(ctx, active, site, mask, predicate):
        ctx.detectors.synccheck.check_mask(ctx, active, mask, site, 'a vote')
        return _broadcast_to_lanes(
            ctx, combine(_by_warp(ctx, truth(np.asarray(predicate))), _active_by_warp(ctx, active))
        )

    vote.__name__, vote.__doc__ = combine.__name__, combine.__doc__
    return intrinsic(vote)


def _pack_bits(predicates):
    "Pack each row of booleans into an integer, bit i for lane i: uint64 for 64 lanes, else int64"
    num_lanes = predicates.shape[-1]
    bits = (predicates.astype(np.uint64) << np.arange(num_lanes, dtype=np.uint64)).sum(-1, dtype=np.uint64)
    return bits if num_lanes == 64 else bits.astype(np.int64)


@_vote
def all_sync(predicate, active):
    "Return whether the predicate is true in all active lanes of the warp"
    return (predicate | ~active).all(1)


@_vote
def any_sync(predicate, active):
    "Return whether the predicate is true in any lane of the warp"
    return (predicate & active).any(1)


@_vote
def eq_sync(predicate, active):
    "Return whether the predicate is equal in all lanes of the warp"
    return (predicate | ~active).all(1) | ~(predicate & active).any(1)


@_vote
def ballot_sync(predicate, active):
    "Return the mask of the lanes with a true predicate in the warp"
    return _pack_bits(predicate & active)


@intrinsic
def match_any_sync(ctx, active, site, mask, value):
    "Return the mask of the lanes that have the same value as this one"
    ctx.detectors.synccheck.check_mask(ctx, active, mask, site, 'a match')
    values, is_active = _by_warp(ctx, value), _active_by_warp(ctx, active)
    return _by_lane(ctx, _pack_bits((values[:, :, None] == values[:, None, :]) & is_active[:, None, :]))


@intrinsic
def match_all_sync(ctx, active, site, mask, value):
    "Return (mask of the active lanes if all have the same value, else 0; whether all have the same value)"
    ctx.detectors.synccheck.check_mask(ctx, active, mask, site, 'a match')
    values, is_active = _by_warp(ctx, value), _active_by_warp(ctx, active)
    first_value = values[np.arange(len(values)), np.argmax(is_active, 1)]
    is_same = ((values == first_value[:, None]) | ~is_active).all(1)
    return _broadcast_to_lanes(ctx, _pack_bits(is_active & is_same[:, None])), _broadcast_to_lanes(ctx, is_same)


@intrinsic
def activemask(ctx, active, site):
    "Return the mask of the active lanes of the warp"
    return _broadcast_to_lanes(ctx, _pack_bits(_active_by_warp(ctx, active)))


@intrinsic
def lanemask_lt(ctx, active, site):
    "Return the mask of the lanes with a smaller index"
    return _pack_bits(np.arange(ctx.warp_size) < ctx.group.laneid[:, None])
