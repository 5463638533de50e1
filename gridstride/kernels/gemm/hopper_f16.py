"""`half`: a product of 16-bit floats with any tile, in each layout, which may begin early and share k in a cluster.

It is lesson 22's last rung, whose pieces it takes, with more numbers: what memory holds as a transpose, the type, as
many stages as there is room for, clusters of up to eight blocks, several blocks of an SM, sums of parts of k that are
added up through the shared memory of a cluster, and warpgroups that take turns at tiles: one multiplies while the other
stores.
"""

from functools import cache

from ..ladder.finals import at_once, box_out, sharing, step_stores
from ..ladder.hopper import order
from ..ptx import PTX, wgmma
from ..ladder.rung import Rung
from ..texts import texts_of
from ...utils import cdiv

_SM, _OWN, _MOST = 228 * 1024, 1024, 16  # bytes of an SM, and those that a block keeps for itself; stages
_IN_PTX = dict(bfloat16='bf16', float16='f16')
_LAYOUTS = 'nn', 'tn', 'nt'


def downs(turned, layout):
    "Does k go down the columns of wgmma's first tile, and of its second, as memory has them?"
    m, n = layout[0] == 't', layout[1] == 'n'
    return (n, m) if turned else (m, n)


def box(cut):
    "Columns of the boxes in which wgmma's second tile comes where k goes down: 64, which is faster, or 32"
    columns = cut.BN // 2 if cut.beside else cut.BN
    return 32 if columns <= 32 or cut.beside and columns % 64 else 64


def rows(cut, layout):
    "Rows of wgmma's second tile that are loaded: in whole boxes where k goes down, else in parts of whole eights"
    least = box(cut) if downs(cut.turned, layout)[1] else 8 * cut.CM
    return cdiv(cut.BN, least) * least


def stage_bytes(cut, layout):
    "Bytes of both tiles of a stage, 64 numbers along k"
    return 128 * (cut.BM + rows(cut, layout))


def stored(cut):
    "Columns of wgmma's result that a block stores: all of a warpgroup's, or its share of those that others have, too"
    columns, least = cut.BN // 2 if cut.beside else cut.BN, 8 if cut.turned else 16
    return columns if cut.CK == 1 else cdiv(columns, least * cut.CK) * least


def _warpgroups(cut):
    return 2 if cut.ping or cut.BM > 64 else 1


def _tall(cut):
    "Products of 64 rows that a warpgroup has one below the other"
    return cut.BM // 64 // (1 if cut.beside or cut.ping else _warpgroups(cut))


def _sums(cut):
    "Of a thread that multiplies"
    return _tall(cut) * cut.BN // (1 + cut.beside) // 2


def _registers(cut):
    "Of a thread that copies, and of one that multiplies"
    wgs = _warpgroups(cut)
    each = 65536 // (cut.BLOCKS * 128 * (wgs + 1)) // 8 * 8  # with which all begin
    down = 24 if each <= 80 or _sums(cut) > 200 else 40 if _sums(cut) > 176 else 56
    return dict(DOWN=down, UP=min(240, (each * (wgs + 1) - down) // wgs // 8 * 8))


def _rooms(cut, layout):
    "(stages, columns of results that leave at once, bytes that a warpgroup has for these, or for sums sent to it)"
    wgs, stage, n = _warpgroups(cut), stage_bytes(cut, layout), stored(cut)
    least = 8 if cut.turned else box_out(n)
    most = _SM // cut.BLOCKS - _OWN - 16 * _MOST - 8 * (cut.CK > 1)
    sums = (cut.CK - 1) * 256 * n * _tall(cut)

    def stages(columns):
        return (
            most - wgs * max(sums, 128 * min(n, columns))
        ) // stage  # if so many columns of results are to have room

    found = min(_MOST, max(stages(128), min(4, stages(64))))
    columns = (most - found * stage) // (wgs * 128) // least * least
    if found < 1 or columns < least:
        return 0, 0, 0
    columns = cdiv(cdiv(n, cdiv(n, columns)), least) * least
    return found, columns, max(sums, 128 * columns)


def why_not(cut, layout):  # None if there is one
    "Why there is no kernel that cuts products so, in a few words"
    size, (first, down) = cut.CM * cut.CN * cut.CK, downs(cut.turned, layout)
    if size > 8:
        return 'a cluster has at most eight blocks'
    if not cut.turned and stored(cut) % 16 or cut.BN // (1 + cut.beside) % 8:
        return 'its columns are not multiples of those that leave together'
    if not first and cut.BM // cut.CN > 256 or not down and rows(cut, layout) // cut.CM > 256:
        return 'a box of TMA has at most 256 rows'
    if cut.beside and down and cut.BN // 2 % box(cut):
        return 'each of two warpgroups needs whole boxes'
    if cut.beside and cut.BM == 64:
        return 'two warpgroups side by side have 128 rows or more'
    if cut.ping and (cut.beside or cut.CK > 1 or cut.BLOCKS > 1):
        return 'warpgroups that take turns have all of a tile, and an SM'
    if not cut.beside and not cut.ping and cut.BM // 64 % _warpgroups(cut):
        return 'its rows are not the same for both warpgroups'
    columns, sums = cut.BN // (1 + cut.beside), _sums(cut)
    each = 65536 // (cut.BLOCKS * 128 * (_warpgroups(cut) + 1)) // 8 * 8
    if columns > 256 or sums + 32 > _registers(cut)['UP'] or columns // 2 + 26 > each:
        return 'a thread has too few registers for its sums'
    stages, columns, _ = _rooms(cut, layout)
    if stages < 3 or not columns:
        return 'there is no room for three stages'
    if cut.CK > 1 and sums > 96:
        return 'there is no room for sums that are added up'


def _shared(WGS, STAGES, STAGE, ROOM, CK):
    return STAGES * STAGE + WGS * ROOM + 16 * STAGES + 8 * (CK > 1)


def _boxes(cut, layout, columns):
    "Rows and columns of TMA's boxes: the blocks of a cluster share the loads of m and n"
    first, second = downs(cut.turned, layout)
    a = (64 // cut.CN if first else cut.BM // cut.CN, 64)
    b = (64 // cut.CM, box(cut), 2 * box(cut)) if second else (rows(cut, layout) // cut.CM, 64)
    each = box_out(stored(cut))
    out = (columns, 64) if cut.turned else (16, each, 2 * each)
    return dict(m=b, n=a, out=out) if cut.turned else dict(m=a, n=b, out=out)


def _name(cut, dtype, layout, early):
    t = cut
    more = [f'{t.CM}x{t.CN}', f'k in {t.CK}' * (t.CK > 1), f'{t.BLOCKS} an SM' * (t.BLOCKS > 1), 'early' * early]
    kind = f' {layout}' * (layout != 'nn') + f' {dtype}' * (dtype != 'bfloat16')
    kind += ' turned' * t.turned + ' beside' * t.beside + ' ping' * t.ping
    return f'half {t.BM}x{t.BN}{kind}, ' + ', '.join(o for o in more if o)


# With CK > 1 a cluster has one tile, and the grid has as many clusters as there are; else those that run at once take
# turns at the tiles.
def half(
    cut,  # a `cost_model.Cut`
    dtype='bfloat16',
    layout='nn',  # 'tn': m is given as k x h; 'nt': n as w x k
    early=False,  # does it begin before the kernel ahead of it has ended? See `finals.begin_early`
) -> Rung:
    "The rung that cuts products so; `ValueError` if there is none"
    if dtype not in _IN_PTX or layout not in _LAYOUTS:
        raise ValueError(
            f'half: {dtype!r} in the layout {layout!r}; the type may be {", ".join(_IN_PTX)}, the layout '
            f'{", ".join(_LAYOUTS)}'
        )
    return _half(cut, dtype, layout, bool(early))


@cache  # asked for again, it gives the same rung, which is compiled once
def _half(cut, dtype, layout, early):
    if why := why_not(cut, layout):
        raise ValueError(f'there is no {_name(cut, dtype, layout, early)}: {why}')
    (stages, columns, room), size = _rooms(cut, layout), cut.CM * cut.CN * cut.CK

    def grid(h, w, sms):
        tall, wide = (cut.BN * cut.CN, cut.BM * cut.CM) if cut.turned else (cut.BM * cut.CM, cut.BN * cut.CN)
        tiles = cdiv(h, tall) * cdiv(w, wide)
        return (tiles if cut.CK > 1 else min(max(1, at_once(size, sms)) * cut.BLOCKS, tiles)) * size, 1

    def supports(h, w, k):
        return cdiv(k, 64) >= cut.CK or f'k is too short for {cut.CK} blocks'

    text = (PTX + wgmma(cut.BN // 2 if cut.beside else cut.BN)).replace('bf16', _IN_PTX[dtype])
    numbers = {o: getattr(cut, o) for o in ('BM', 'BN', 'CM', 'CN', 'CK', 'BLOCKS')}
    flags = dict(TURNED=cut.turned, BESIDE=cut.beside, PING=cut.ping, EARLY=early)
    flags |= dict(M_TURNED=layout[0] == 't', N_TURNED=layout[1] == 't')
    columns_each = cut.BN // 2 if cut.beside else cut.BN
    each = dict(M=_tall(cut), N=stored(cut), COLUMNS=columns_each)
    src = text + sharing + order + step_stores + texts_of(__package__)('hopper_f16')
    return Rung(
        _name(cut, dtype, layout, early),
        src,
        threads=128 * (_warpgroups(cut) + 1),
        shared=_shared,
        maps=_boxes(cut, layout, columns),
        grid=grid,
        supports=supports,
        dtype=dtype,
        pdl=early,
        layout=layout,
        **numbers,
        BK=64,
        WGS=_warpgroups(cut),
        STAGES=stages,
        STAGE=stage_bytes(cut, layout),
        OUT_COLS=columns,
        ROOM=room,
        BOX=box(cut),
        GROUP=8,
        **_registers(cut),
        **each,
        **{k: int(v) for k, v in flags.items()},
    )
