"""The shadow memory of an array, for racecheck and initcheck: the last accesses of its elements, and which are
uninitialized.

racecheck finds data races between programs: two of them access an element, one of them writes, and neither access
happens before the other (`LaunchContext.happens_before`). In the shadow, an access is its stamp (`LaunchContext`).
"""

import numpy as np

from .run import other_access, differ, finding

__all__ = ['Shadow']


_CURRENT_ACCESS = {'atomic': 'updated by an atomic'}


class Shadow:
    """The shadow memory of an array: per element the stamps of its last write and atomic, its first and last read.

    The first and the last read are those since the last write: a write that happens after one of them may still race
    with the other. The stamps are allocated at the first write, because most arrays are only read."""

    def __init__(self, region):
        self.region = region
        self.write_stamp = self.atomic_stamp = self.first_read = self.last_read = None
        self.early_reads = []  # (offsets, stamp) of the reads before the first write
        self.num_early_reads = 0  # elements in `early_reads`
        self.latest_read = 0, None  # (stamp, offsets) of the latest read
        self.updated_in_place = False  # whether an element was updated by an atomic, or written after it was read
        self.unwritten = None  # a mask of the uninitialized elements
        self.release_events = None  # per element, the latest `ReleaseEvent` of an atomic

    def mark_unwritten(self, region):
        "Mark an array as uninitialized if each of its elements is NaN when the launch begins"
        if region.dtype.rank < 2 or region.dtype is not self.region.dtype or 0 in region.shape:
            return
        first_value = region.flat[region.origin]
        if first_value == first_value:
            return
        if min(region.strides, default=0) < 0 or ((values := region.view(region.flat)) == values).any():
            return
        if self.unwritten is None:
            self.unwritten = np.zeros(self.region.size, bool)
        region.view(self.unwritten)[...] = True

    def offsets_of(self, region, element_offsets):
        "Convert offsets in a region that reinterprets the memory as another type to offsets in the shadow"
        return np.minimum(element_offsets * region.itemsize // self.region.itemsize, self.region.size - 1)

    def initcheck(self, region, element_offsets, offsets, verb, lane_index):
        "Raise a finding if an uninitialized element is read"
        if verb == 'written':
            self.unwritten[offsets] = False
            return
        unwritten = self.unwritten[offsets]
        if unwritten.any():
            position = int(np.argmax(unwritten))
            if (
                region.flat[element_offsets[position]] == region.flat[element_offsets[position]]
            ):  # the host wrote it in between
                self.unwritten[offsets] &= region.flat[element_offsets] != region.flat[element_offsets]
                return
            raise finding(
                'initcheck',
                'unwritten_program',
                dict(array=region.name, index=region.index_of(element_offsets[position])),
                lane_index(position),
            )
        if verb == 'atomic':
            self.unwritten[offsets] = False

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
        first_read = self.first_read[offsets]
        self.first_read[offsets] = np.where(first_read == 0, stamp, first_read)
        self.last_read[offsets] = stamp

    def racecheck(self, ctx, region, element_offsets, offsets, verb, lane_index, value):
        "Raise a data race if another program's access to an element does not happen before this one"
        stamp = len(ctx.accesses) - 1
        if verb == 'read':
            self.latest_read = stamp, offsets
        if self.write_stamp is None:
            if verb == 'read':
                self.early_reads.append((offsets, stamp))
                self.num_early_reads += offsets.size
                if self.num_early_reads > 1 << 22:
                    self._allocate()
                return
            self._allocate()
        if ctx.is_tuning and (verb == 'atomic' or verb == 'written' and self.first_read[offsets].any()):
            self.updated_in_place = True
        earlier_stamps = [self.write_stamp]
        if verb != 'atomic':
            earlier_stamps.append(self.atomic_stamp)
        if verb != 'read':
            earlier_stamps += [self.first_read, self.last_read]
        for recorded in earlier_stamps:
            stamps = recorded[offsets]
            by_others = (stamps != 0) & (stamps < ctx.first_stamp)
            if by_others.any():
                self._check_order(ctx, region, element_offsets, stamps, by_others, verb, lane_index, value)
        if verb == 'read':
            self._record_read(offsets, stamp)
        elif verb == 'atomic':
            self.atomic_stamp[offsets] = stamp
        else:
            self._check_lost_update(ctx, region, element_offsets, offsets, lane_index, value)
            self.write_stamp[offsets] = stamp
            self.first_read[offsets] = self.last_read[offsets] = self.atomic_stamp[offsets] = 0

    def _check_lost_update(self, ctx, region, element_offsets, offsets, lane_index, value):
        "Raise a finding if several lanes write an element that this program has read: an update gets lost"
        if offsets.size == 1 or not (read_here := self.last_read[offsets] >= ctx.first_stamp).any():
            return
        order = np.argsort(offsets, kind='stable')
        duplicates = np.flatnonzero((np.diff(offsets[order]) == 0) & read_here[order[1:]])
        if duplicates.size:
            duplicates = duplicates[
                self._may_lose(region.flat[element_offsets], offsets, value, order[duplicates], order[duplicates + 1])
            ]
        if duplicates.size:
            position = int(order[duplicates[0]])
            raise finding(
                'racecheck',
                'lanes_update',
                dict(array=region.name, index=region.index_of(element_offsets[position])),
                lane_index(position),
            )

    def _may_lose(self, old_values, offsets, value, first, second):
        """Return which pairs of lanes, `first` and `second`, that write one element may lose an update.

        A pair loses none if both lanes write the value that the element has. Nor does it if they write one value that
        was not computed from the element by each lane for itself: a scalar, or the result of a reduction, for which
        all lanes have read before any of them writes."""
        stamp, read_offsets = self.latest_read
        read_as_block = (self.last_read[offsets[first]] == stamp) & (read_offsets is not None and read_offsets.size > 1)
        if not np.ndim(value):
            return ~read_as_block & differ(old_values[first], value)
        equal = ~differ(value[first], value[second])
        if read_offsets is not None and read_offsets.size == offsets.size:
            read_as_block &= (read_offsets[first] != offsets[first]) | (read_offsets[second] != offsets[second])
            equal &= read_as_block | ~differ(old_values[first], value[first])
        else:
            equal &= ~differ(old_values[first], value[first])
        return ~equal

    def _check_order(self, ctx, region, element_offsets, stamps, by_others, verb, lane_index, value):
        for position in np.flatnonzero(by_others):
            program_number, _, _, verb_before, _ = ctx.accesses[stamps[position]]
            if program_number == ctx.number:
                continue
            fields = dict(array=region.name, index=region.index_of(element_offsets[position]))
            if ctx.happens_before(stamps[position]):
                ctx.check_release(stamps[position], fields, _CURRENT_ACCESS.get(verb, verb))
                continue
            if verb_before == verb == 'written' and _has_value(region.flat[element_offsets[position]], value, position):
                ctx.warn_same_value(fields)
                continue
            code = 'programs_atomic' if 'atomic' in (verb_before, verb) else 'programs'
            fields.update(before=_CURRENT_ACCESS.get(verb_before, verb_before), now=_CURRENT_ACCESS.get(verb, verb))
            raise finding('racecheck', code, fields, lane_index(position), other_access(ctx, stamps[position]))


def _has_value(old_value, value, position):
    "Return whether the element has the value that is written, bit for bit"
    new_value = np.asarray(value[position] if np.ndim(value) else value)
    return new_value.tobytes() == np.asarray(old_value).tobytes()
