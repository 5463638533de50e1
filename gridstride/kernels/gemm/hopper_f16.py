"""`gemm_f16`: a product of 16-bit floats with any tile, in each layout, with split-K in a cluster and programmatic
dependent launch.

It is lesson 22's last rung, whose parts it reuses, with more constants: transposed operands, the type, as many stages
as shared memory has space for, clusters of up to eight blocks, several blocks per SM, split-K whose partial sums are
reduced through the shared memory of a cluster, and ping-pong: two warpgroups take turns at tiles, and one multiplies
while the other stores.
"""

from functools import cache

from ..ladder.finals import at_once, box_out, sharing, step_stores
from ..ladder.hopper import order
from ..ptx import PTX, wgmma
from ..ladder.rung import Rung
from ..texts import source_loader
from ...utils import cdiv

_SM_BYTES, _BLOCK_BYTES = 228 * 1024, 1024  # shared memory of an SM, and what the system reserves per block
_MAX_STAGES = 16
_IN_PTX = dict(bfloat16='bf16', float16='f16')
_LAYOUTS = 'nn', 'tn', 'nt'


def mn_major(swap_ab, layout):
    "For wgmma's first tile and its second: is k as the outer axis (MN-major)?"
    m, n = layout[0] == 't', layout[1] == 'n'
    return (n, m) if swap_ab else (m, n)


def box(config):
    "Columns of the TMA boxes of an MN-major second tile: 64, which is faster, or 32"
    columns = config.BN // 2 if config.split_n else config.BN
    return 32 if columns <= 32 or config.split_n and columns % 64 else 64


def rows(config, layout):
    "Rows of wgmma's second tile that are loaded: in whole boxes if it is MN-major, else in multiples of eight"
    least = box(config) if mn_major(config.swap_ab, layout)[1] else 8 * config.CM
    return cdiv(config.BN, least) * least


def stage_bytes(config, layout):
    "Bytes of both tiles of a stage, 64 elements along k"
    return 128 * (config.BM + rows(config, layout))


def stored_columns(config):
    "Columns of wgmma's result that a block stores: all of a warpgroup's, or with split-K its part of the cluster's"
    columns, least = config.BN // 2 if config.split_n else config.BN, 8 if config.swap_ab else 16
    return columns if config.CK == 1 else cdiv(columns, least * config.CK) * least


def _warpgroups(config):
    return 2 if config.pingpong or config.BM > 64 else 1


def _m_blocks(config):
    "Blocks of 64 rows per warpgroup"
    return config.BM // 64 // (1 if config.split_n or config.pingpong else _warpgroups(config))


def _accumulators(config):
    "Accumulators per thread of a consumer"
    return _m_blocks(config) * config.BN // (1 + config.split_n) // 2


def _registers(config):
    "Registers per thread of the producer, and of a consumer"
    wgs = _warpgroups(config)
    each = 65536 // (config.BLOCKS * 128 * (wgs + 1)) // 8 * 8  # with which all begin
    down = 24 if each <= 80 or _accumulators(config) > 200 else 40 if _accumulators(config) > 176 else 56
    return dict(DOWN=down, UP=min(240, (each * (wgs + 1) - down) // wgs // 8 * 8))


def _smem_plan(config, layout):
    "(stages, columns stored at once, bytes per warpgroup for these, or for partial sums sent to it)"
    wgs, stage, n = _warpgroups(config), stage_bytes(config, layout), stored_columns(config)
    least = 8 if config.swap_ab else box_out(n)
    most = _SM_BYTES // config.BLOCKS - _BLOCK_BYTES - 16 * _MAX_STAGES - 8 * (config.CK > 1)
    sums = (config.CK - 1) * 256 * n * _m_blocks(config)

    def stages(columns):
        return (most - wgs * max(sums, 128 * min(n, columns))) // stage  # with a buffer for so many columns of results

    found = min(_MAX_STAGES, max(stages(128), min(4, stages(64))))
    columns = (most - found * stage) // (wgs * 128) // least * least
    if found < 1 or columns < least:
        return 0, 0, 0
    columns = cdiv(cdiv(n, cdiv(n, columns)), least) * least
    return found, columns, max(sums, 128 * columns)


def why_not(config, layout):  # None if there is one
    "The reason why there is no kernel of this configuration, in a few words"
    size, (first, down) = config.CM * config.CN * config.CK, mn_major(config.swap_ab, layout)
    if size > 8:
        return 'a cluster has at most eight blocks'
    if not config.swap_ab and stored_columns(config) % 16 or config.BN // (1 + config.split_n) % 8:
        return 'its columns are not multiples of those that leave together'
    if not first and config.BM // config.CN > 256 or not down and rows(config, layout) // config.CM > 256:
        return 'a box of TMA has at most 256 rows'
    if config.split_n and down and config.BN // 2 % box(config):
        return 'each of two warpgroups needs whole boxes'
    if config.split_n and config.BM == 64:
        return 'two warpgroups side by side have 128 rows or more'
    if config.pingpong and (config.split_n or config.CK > 1 or config.BLOCKS > 1):
        return 'warpgroups that take turns have all of a tile, and an SM'
    if not config.split_n and not config.pingpong and config.BM // 64 % _warpgroups(config):
        return 'its rows are not the same for both warpgroups'
    columns, sums = config.BN // (1 + config.split_n), _accumulators(config)
    each = 65536 // (config.BLOCKS * 128 * (_warpgroups(config) + 1)) // 8 * 8
    if columns > 256 or sums + 32 > _registers(config)['UP'] or columns // 2 + 26 > each:
        return 'a thread has too few registers for its sums'
    stages, columns, _ = _smem_plan(config, layout)
    if stages < 3 or not columns:
        return 'three stages do not fit into shared memory'
    if config.CK > 1 and sums > 96:
        return 'a thread has too few registers for partial sums'


def _shared(WGS, STAGES, STAGE, BUFFER, CK):
    return STAGES * STAGE + WGS * BUFFER + 16 * STAGES + 8 * (CK > 1)


def _boxes(config, layout, columns):
    "Rows and columns of TMA's boxes: the blocks of a cluster share the loads of m and n (multicast)"
    first, second = mn_major(config.swap_ab, layout)
    a = (64 // config.CN if first else config.BM // config.CN, 64)
    b = (64 // config.CM, box(config), 2 * box(config)) if second else (rows(config, layout) // config.CM, 64)
    each = box_out(stored_columns(config))
    out = (columns, 64) if config.swap_ab else (16, each, 2 * each)
    return dict(m=b, n=a, out=out) if config.swap_ab else dict(m=a, n=b, out=out)


def _name(config, dtype, layout, pdl):
    t = config
    more = [f'{t.CM}x{t.CN}', f'k in {t.CK}' * (t.CK > 1), f'{t.BLOCKS} an SM' * (t.BLOCKS > 1), 'early' * pdl]
    kind = f' {layout}' * (layout != 'nn') + f' {dtype}' * (dtype != 'bfloat16')
    kind += ' turned' * t.swap_ab + ' beside' * t.split_n + ' ping' * t.pingpong
    return f'half {t.BM}x{t.BN}{kind}, ' + ', '.join(o for o in more if o)


# With CK > 1 a cluster has one tile, and the grid one cluster per tile; else the kernel is persistent: the clusters
# that run at once loop over the tiles.
def gemm_f16(
    config,  # a `cost_model.TileConfig`
    dtype='bfloat16',
    layout='nn',  # 'tn': m is given as k x h; 'nt': n as w x k
    pdl=False,  # programmatic dependent launch: does it begin before the previous kernel ends? See `finals.begin_early`
) -> Rung:
    "The rung of a configuration; `ValueError` if there is none"
    if dtype not in _IN_PTX or layout not in _LAYOUTS:
        raise ValueError(
            f'gemm_f16: {dtype!r} in the layout {layout!r}; the type may be {", ".join(_IN_PTX)}, the layout '
            f'{", ".join(_LAYOUTS)}'
        )
    return _gemm_f16(config, dtype, layout, bool(pdl))


@cache  # the same rung each time, which is compiled once
def _gemm_f16(config, dtype, layout, pdl):
    if why := why_not(config, layout):
        raise ValueError(f'there is no {_name(config, dtype, layout, pdl)}: {why}')
    (stages, columns, buffer), size = _smem_plan(config, layout), config.CM * config.CN * config.CK

    def grid(h, w, sms):
        tall, wide = (
            (config.BN * config.CN, config.BM * config.CM)
            if config.swap_ab
            else (config.BM * config.CM, config.BN * config.CN)
        )
        tiles = cdiv(h, tall) * cdiv(w, wide)
        return (tiles if config.CK > 1 else min(max(1, at_once(size, sms)) * config.BLOCKS, tiles)) * size, 1

    def supports(h, w, k):
        return cdiv(k, 64) >= config.CK or f'k is too short for {config.CK} blocks'

    text = (PTX + wgmma(config.BN // 2 if config.split_n else config.BN)).replace('bf16', _IN_PTX[dtype])
    constants = {o: getattr(config, o) for o in ('BM', 'BN', 'CM', 'CN', 'CK', 'BLOCKS')}
    flags = dict(SWAP_AB=config.swap_ab, SPLIT_N=config.split_n, PINGPONG=config.pingpong, PDL=pdl)
    flags |= dict(M_TRANSPOSED=layout[0] == 't', N_TRANSPOSED=layout[1] == 't')
    columns_each = config.BN // 2 if config.split_n else config.BN
    each = dict(M=_m_blocks(config), N=stored_columns(config), COLUMNS=columns_each)
    src = text + sharing + order + step_stores + source_loader(__package__)('hopper_f16')
    return Rung(
        _name(config, dtype, layout, pdl),
        src,
        threads=128 * (_warpgroups(config) + 1),
        shared=_shared,
        maps=_boxes(config, layout, columns),
        grid=grid,
        supports=supports,
        dtype=dtype,
        pdl=pdl,
        layout=layout,
        **constants,
        BK=64,
        WGS=_warpgroups(config),
        STAGES=stages,
        STAGE=stage_bytes(config, layout),
        OUT_COLS=columns,
        BUFFER=buffer,
        BOX=box(config),
        GROUP=8,
        **_registers(config),
        **each,
        **{k: int(v) for k, v in flags.items()},
    )
