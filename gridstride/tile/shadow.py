"""The shadow memory of an array, for racecheck and initcheck: per element its last accesses, and whether it is
uninitialized.

racecheck finds data races between programs: two programs access an element, one of them writes, and neither access
happens before the other (`LaunchContext.happens_before`). The shadow stores accesses as stamps (`LaunchContext`).
"""

import numpy as np

from .lost_update import atomic_update_advice
from .run import other_access, differ, finding, learner_frame
from .unmasked_axis import missing_mask_advice, earlier_missing_mask_advice, overlap_advice

__all__ = ['Shadow']


_FIELD_OF_ACCESS = {'atomic': 'updated by an atomic'}  # access -> its field in findings, if different


class Shadow:
    """The shadow memory of an array: per element the stamps of its last write and atomic, its first and last read.

    The shadow keeps the first and the last read since the last write: a write that happens after one of them may still
    race with the other. The stamps are allocated at the first write, because most arrays are only read."""

    def __init__(self, region):
        self.region = region
        self.write_stamp = self.atomic_stamp = self.first_read = self.last_read = None
        self.early_reads = []  # (offsets, stamp) of the reads before the first write
        self.num_early_reads = 0  # elements in `early_reads`
        self.latest_read = 0, None  # (stamp, offsets) of the latest read
        self.is_updated_in_place = False  # whether an atomic updated an element, or it was written after it was read
        self.is_uninitialized = None  # per element, whether it is uninitialized
        self.release_events = None  # per element, the latest `ReleaseEvent` of an atomic

    def mark_uninitialized(self, region):
        "Mark an array as uninitialized if each of its elements is NaN when the launch begins"
        if region.dtype.rank < 2 or region.dtype is not self.region.dtype or 0 in region.shape:
            return
        first_value = region.flat[region.origin]
        if first_value == first_value:
            return
        if min(region.strides, default=0) < 0 or ((values := region.view(region.flat)) == values).any():
            return
        if self.is_uninitialized is None:
            self.is_uninitialized = np.zeros(self.region.size, bool)
        region.view(self.is_uninitialized)[...] = True

    def offsets_of(self, region, element_offsets):
        "Convert offsets in `region`, which may reinterpret the memory as another type, to offsets in the shadow"
        return np.minimum(element_offsets * region.itemsize // self.region.itemsize, self.region.size - 1)

    def initcheck(self, ctx, region, element_offsets, offsets, access, lane_index):
        "Raise a finding if an uninitialized element is read"
        if access == 'written':
            self.is_uninitialized[offsets] = False
            return
        is_uninitialized = self.is_uninitialized[offsets]
        if is_uninitialized.any():
            position = int(np.argmax(is_uninitialized))
            if (
                region.flat[element_offsets[position]] == region.flat[element_offsets[position]]
            ):  # the host has written the element since the launch began
                self.is_uninitialized[offsets] &= region.flat[element_offsets] != region.flat[element_offsets]
                return
            if not ctx.is_allowed('unwritten_program'):
                raise finding(
                    'initcheck',
                    'unwritten_program',
                    dict(array=region.name, index=region.index_of(element_offsets[position])),
                    lane_index(position),
                )
        if access == 'atomic':
            self.is_uninitialized[offsets] = False

    def _allocate(self):
        "Allocate the stamps of every element, at the first write"
        size = self.region.size
        self.write_stamp, self.atomic_stamp, self.first_read, self.last_read = (
            np.zeros(size, np.int64) for _ in range(4)
        )
        for offsets, stamp in self.early_reads:
            self._record_read(offsets, stamp)
        self.early_reads = []

    def _record_read(self, offsets, stamp):
        "Record the first and the last read of elements"
        first_read = self.first_read[offsets]
        self.first_read[offsets] = np.where(first_read == 0, stamp, first_read)
        self.last_read[offsets] = stamp

    def racecheck(self, ctx, region, element_offsets, offsets, access, lane_index, value, block):
        "Raise a data race if another program's access to an element does not happen before this one"
        stamp = len(ctx.accesses) - 1
        if access == 'read':
            self.latest_read = stamp, offsets
        if self.write_stamp is None:
            if access == 'read':
                self.early_reads.append((offsets, stamp))
                self.num_early_reads += offsets.size
                if self.num_early_reads > 1 << 22:
                    self._allocate()
                return
            self._allocate()
        if ctx.is_tuning and (access == 'atomic' or access == 'written' and self.first_read[offsets].any()):
            self.is_updated_in_place = True
        earlier_stamps = [self.write_stamp]
        if access != 'atomic':
            earlier_stamps.append(self.atomic_stamp)
        if access != 'read':
            earlier_stamps += [self.first_read, self.last_read]
        for stamp_of_element in earlier_stamps:
            stamps = stamp_of_element[offsets]
            is_by_other_program = (stamps != 0) & (stamps < ctx.first_stamp)
            if is_by_other_program.any():
                positions = np.flatnonzero(is_by_other_program)
                self._check_order(ctx, region, element_offsets, stamps, positions, access, lane_index, value, block)
        if access == 'read':
            self._record_read(offsets, stamp)
        elif access == 'atomic':
            self.atomic_stamp[offsets] = stamp
        else:
            if not ctx.is_allowed('lanes_update'):
                self._check_lost_update(ctx, region, element_offsets, offsets, lane_index, value)
            self.write_stamp[offsets] = stamp
            self.first_read[offsets] = self.last_read[offsets] = self.atomic_stamp[offsets] = 0

    def _check_lost_update(self, ctx, region, element_offsets, offsets, lane_index, value):
        "Raise a finding if several lanes write an element that this program has read, so that an update is lost"
        if offsets.size == 1 or not (is_read := self.last_read[offsets] >= ctx.first_stamp).any():
            return
        order = np.argsort(offsets, kind='stable')
        duplicates = np.flatnonzero((np.diff(offsets[order]) == 0) & is_read[order[1:]])
        if duplicates.size:
            duplicates = duplicates[
                self._may_lose(region.flat[element_offsets], offsets, value, order[duplicates], order[duplicates + 1])
            ]
        if duplicates.size:
            position = int(order[duplicates[0]])
            fields = dict(array=region.name, index=region.index_of(element_offsets[position]))
            frame = learner_frame()
            fields.update(_field_of(atomic_update_advice(frame.f_code, frame.f_lineno)))
            raise finding('racecheck', 'lanes_update', fields, lane_index(position))

    def _may_lose(self, old_values, offsets, value, first_lanes, second_lanes):
        """Return, per pair of lanes that write one element, whether an update may be lost.

        None is lost if both lanes write the old value of the element, or the same value without having computed it from
        that element: a scalar, or the result of a reduction, for which all lanes read before any of them writes."""
        stamp, read_offsets = self.latest_read
        is_read_as_block = (self.last_read[offsets[first_lanes]] == stamp) & (
            read_offsets is not None and read_offsets.size > 1
        )
        if not np.ndim(value):
            return ~is_read_as_block & differ(old_values[first_lanes], value)
        is_equal = ~differ(value[first_lanes], value[second_lanes])
        if read_offsets is not None and read_offsets.size == offsets.size:
            is_read_as_block &= (read_offsets[first_lanes] != offsets[first_lanes]) | (
                read_offsets[second_lanes] != offsets[second_lanes]
            )
            is_equal &= is_read_as_block | ~differ(old_values[first_lanes], value[first_lanes])
        else:
            is_equal &= ~differ(old_values[first_lanes], value[first_lanes])
        return ~is_equal

    def _check_order(self, ctx, region, element_offsets, stamps, positions, access, lane_index, value, block):
        "Raise a data race if an earlier access of the elements at `positions` does not happen before this one"
        for position in _distinct_cases(region.flat, element_offsets, stamps, positions, access, value):
            execution_index, _, _, earlier_access, _, _ = ctx.accesses[stamps[position]]
            if execution_index == ctx.execution_index:
                continue
            fields = dict(array=region.name, index=region.index_of(element_offsets[position]))
            if ctx.happens_before(stamps[position]):
                ctx.check_release(stamps[position], fields, _FIELD_OF_ACCESS.get(access, access))
                continue
            if earlier_access == access == 'written' and _has_value(
                region.flat[element_offsets[position]], value, position
            ):
                fields.update(self._advice(ctx, region, block, lane_index(position), stamps[position]))
                ctx.warn_same_value(fields)
                continue
            code = 'programs_atomic' if 'atomic' in (earlier_access, access) else 'programs'
            if ctx.is_allowed(code):
                continue
            fields.update(
                before=_FIELD_OF_ACCESS.get(earlier_access, earlier_access), now=_FIELD_OF_ACCESS.get(access, access)
            )
            fields.update(self._advice(ctx, region, block, lane_index(position), stamps[position]))
            raise finding('racecheck', code, fields, lane_index(position), other_access(ctx, stamps[position]))

    def _advice(self, ctx, region, block, lane, stamp):
        "Return the field `advice` if one of the two accesses of a race lacks a mask, or they are an update"
        _, line, file, *_ = ctx.accesses[stamp]
        frame = learner_frame()
        lines = [frame.f_lineno, *([line] if file == frame.f_code.co_filename else [])]
        advice = self._mask_advice(ctx, region, block, lane, stamp, frame)
        return _field_of(advice or atomic_update_advice(frame.f_code, *lines))

    def _mask_advice(self, ctx, region, block, lane, stamp, frame):
        "Return the advice if one of the two accesses of a race lacks a mask, else None"
        if not lane or block is None or self.region.dtype is not region.dtype:
            return None
        _, line, file, _, num_lanes, first_offset = ctx.accesses[stamp]
        advice = missing_mask_advice(region, block.offsets, lane, frame.f_lineno)
        if advice is None and num_lanes > 1 and first_offset is not None:
            advice = earlier_missing_mask_advice(region, block, block.offsets[lane], first_offset, line)
            if advice is None and (line, file) == (frame.f_lineno, frame.f_code.co_filename):
                advice = overlap_advice(block.offsets, first_offset, line)
        return advice


def _field_of(advice):
    "Return the field of a finding with its advice, no field for None"
    return {} if advice is None else dict(advice=advice)


def _distinct_cases(flat, element_offsets, stamps, positions, access, value):
    "Return one position per earlier access, and for a write two: one that changes its element, one that does not"
    if positions.size == 1:
        return positions
    cases = 2 * stamps[positions]
    if access == 'written':
        cases += ~differ(flat[element_offsets], value)[positions]
    return positions[np.sort(np.unique(cases, return_index=True)[1])]


def _has_value(old_value, value, position):
    "Return whether the value to write equals the old value of the element, bit for bit"
    new_value = np.asarray(value[position] if np.ndim(value) else value)
    return new_value.tobytes() == np.asarray(old_value).tobytes()
