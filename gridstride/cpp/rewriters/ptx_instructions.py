"""The table of PTX instructions that the emulator supports, and their C++ code."""

import re

from .ptx_calls import (
    DISCARDED_OPERAND,
    MANTISSA_BITS,
    MATH_FUNCTIONS,
    MEMORY_TYPES,
    OPERATORS,
    SHARED,
    SMALL_FLOAT,
    as_integer,
    as_unsigned,
    atomic,
    block_scaled_mma,
    call_ptx,
    compare,
    cpp_bool,
    matrix_arguments,
    multimem,
    named_barrier,
    ordered_load,
    ordered_store,
    pack,
    raise_unsupported,
    scope_of,
    small_float,
    sparse_wgmma,
    tensor_copy,
    tensor_copy_shape,
    tensor_memory_access,
    tensor_mma,
    tensor_mma_variant,
    video,
    wgmma,
)


# (pattern of an instruction, function that returns C++ code for it). The function is called with the groups of the
# pattern, then the operands. A vector `{a, b}` counts as two operands; an address `[a+4]` becomes a sum.
_CALLS = [
    (re.compile(pattern), translate)
    for pattern, translate in (
        (
            r'cp\.async\.(ca|cg)\.shared\.global',
            lambda cache, dst, src, bytes, *src_size: call_ptx(
                f"copy<{cpp_bool(cache == 'cg')}, {bytes}>", dst, src, *src_size
            ),
        ),
        (r'cp\.async\.commit_group', lambda: '::gridstride::copy_async_commit()'),
        (r'cp\.async\.wait_group', lambda n: f'::gridstride::copy_async_wait({n})'),
        (r'cp\.async\.wait_all', lambda: '::gridstride::copy_async_wait_all()'),
        (
            r'ldmatrix\.sync\.aligned((?:\.(?:x[124]|m8n8|trans|shared|b16))+)',
            lambda qualifiers, *operands: call_ptx(
                f'ldmatrix{matrix_arguments(qualifiers)}', operands[-1], *operands[:-1]
            ),
        ),
        (
            r'stmatrix\.sync\.aligned((?:\.(?:x[124]|m8n8|trans|shared|b16))+)',
            lambda qualifiers, *operands: call_ptx(f'stmatrix{matrix_arguments(qualifiers)}', *operands),
        ),
        (r'movmatrix\.sync\.aligned\.m8n8\.trans\.b16', lambda *operands: call_ptx('movmatrix', *operands)),
        (
            r'mma\.sync\.aligned\.m16n8k(16|32)\.row\.col(?:\.satfinite)?\.s32\.([su]8)\.\2\.s32(?:\.satfinite)?',
            lambda k, t, *operands: call_ptx(f'mma<{k}, ::gridstride::ptx::{t}, ::gridstride::ptx::s32>', *operands),
        ),
        (
            r'mma\.sync\.aligned\.m16n8k(8|16)\.row\.col\.f32\.(b?f16)\.\2\.f32',
            lambda k, t, *operands: call_ptx(f'mma<{k}, ::gridstride::ptx::{t}, ::gridstride::ptx::f32>', *operands),
        ),
        (
            r'mma\.sync\.aligned\.m16n8k(4|8)\.row\.col\.f32\.tf32\.tf32\.f32',
            lambda k, *operands: call_ptx(f'mma<{k}, ::gridstride::ptx::tf32, ::gridstride::ptx::f32>', *operands),
        ),
        (
            r'mma\.sync\.aligned\.m16n8k(8|16)\.row\.col\.f16\.f16\.f16\.f16',
            lambda k, *operands: call_ptx(f'mma_f16<{k}, ::gridstride::ptx::f16, ::gridstride::ptx::f16>', *operands),
        ),
        (
            r'mma\.sp(::ordered_metadata)?\.sync\.aligned\.m16n8k(16|32)\.row\.col\.f32\.(b?f16)\.\3\.f32',
            lambda ordered, k, t, *operands: call_ptx(
                f'mma_sp<{k}, ::gridstride::ptx::{t}, {cpp_bool(ordered)}, {operands[-1]}>', *operands[:-1]
            ),
        ),
        (r'mbarrier\.init(?:\.shared)?\.b64', lambda *operands: call_ptx('init', *operands)),
        (r'mbarrier\.inval(?:\.shared)?\.b64', lambda barrier: call_ptx('invalidate', barrier)),
        (
            rf'mbarrier\.expect_tx(?:\.relaxed\.(?:cta|cluster))?{SHARED}\.b64',
            lambda *operands: call_ptx('expect', *operands),
        ),
        (
            rf'mbarrier\.arrive(\.expect_tx)?(?:\.release)?(?:\.(?:cta|cluster))?{SHARED}\.b64',
            lambda expects, *operands: call_ptx('arrive', cpp_bool(expects), *operands),
        ),
        (
            r'mbarrier\.(try|test)_wait(?:\.parity)?(?:\.acquire)?(?:\.(?:cta|cluster))?\.shared\.b64',
            lambda mode, p, barrier, phase, *hint: (
                f"{p} = {call_ptx('wait_parity', cpp_bool(mode == 'try'), barrier, phase)}"
            ),
        ),
        (r'fence\.mbarrier_init\.release\.cluster', lambda: '::gridstride::fence_mbarrier_init()'),
        (r'fence\.proxy\.async(?:\.global|\.shared(?:::cluster)?)?', lambda: '::gridstride::fence_proxy_async()'),
        (r'fence\.(?:acq_rel|sc)\.(cta|cluster|gpu|sys)', lambda scope: f'::gridstride::fence({scope_of(scope)})'),
        (
            rf'cp\.async\.bulk{SHARED}\.global\.mbarrier::complete_tx::bytes(?:\.multicast::cluster)?',
            lambda dst, src, bytes, barrier, *blocks: call_ptx('bulk_load', dst, src, bytes, barrier, *blocks),
        ),
        (
            r'st\.async(?:\.weak)?\.shared::cluster\.mbarrier::complete_tx::bytes(?:\.v[24])?\.[bsuf](?:32|64)',
            lambda dst, *operands: call_ptx('store_async', dst, operands[-1], *operands[:-1]),
        ),
        (
            r'cp\.async\.bulk\.global\.shared\.bulk_group',
            lambda dst, src, bytes: call_ptx('bulk_store', dst, src, bytes),
        ),
        (
            rf'cp\.async\.bulk\.tensor\.([1-5])d(?:\.cta_group::[12])?{SHARED}\.global'
            r'(?:\.tile(?:::(gather4))?|\.(im2col))?'
            r'\.mbarrier::complete_tx::bytes(?:\.multicast::cluster|\.cta_group::[12])*(\.pair)?',
            lambda rank, gather, im2col, pair, *operands: tensor_copy(
                'tensor_load', cpp_bool(pair), gather or im2col, rank, operands, 1
            ),
        ),
        (
            r'cp\.async\.bulk\.tensor\.([1-5])d\.global\.shared(?:\.tile(?:::(scatter4))?|\.(im2col_no_offs))?'
            r'\.bulk_group',
            lambda rank, scatter, im2col, *operands: tensor_copy(
                'tensor_store', '', scatter or im2col, rank, operands, 0
            ),
        ),
        (r'cp\.async\.bulk\.commit_group', lambda: '::gridstride::bulk_commit()'),
        (r'cp\.async\.bulk\.wait_group(?:\.read)?', lambda n: f'::gridstride::bulk_wait({n})'),
        (r'wgmma\.fence\.sync\.aligned', lambda: '::gridstride::wgmma_fence()'),
        (r'wgmma\.commit_group\.sync\.aligned', lambda: '::gridstride::wgmma_commit()'),
        (r'wgmma\.wait_group\.sync\.aligned', lambda n: f'::gridstride::wgmma_wait({n}, __LINE__)'),
        (
            r'wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f32\.(b?f16)\.\2',
            lambda n, t, *operands: wgmma(n, t, *operands),
        ),
        (
            r'wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f16\.f16\.f16',
            lambda n, *operands: wgmma(n, 'f16', *operands, has_half_accumulators=True),
        ),
        (
            r'wgmma\.mma_async\.sp\.sync\.aligned\.m64n(\d+)k32\.f32\.(b?f16)\.\2',
            lambda n, t, *operands: sparse_wgmma(n, t, *operands),
        ),
        (
            r'wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k8\.f32\.tf32\.tf32',
            lambda n, *operands: wgmma(n, 'tf32', *operands),
        ),
        (
            r'wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k32\.f32\.e4m3\.e4m3',
            lambda n, *operands: wgmma(n, 'e4m3', *operands),
        ),
        (
            r'wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k32\.s32\.s8\.s8',
            lambda n, *operands: wgmma(n, 's8', *operands, '1', '1'),
        ),
        (
            r'tcgen05\.alloc\.cta_group::([12])\.sync\.aligned(?:\.shared)?\.b32',
            lambda group, to, columns: call_ptx('tensor_alloc', group, to, columns),
        ),
        (
            r'tcgen05\.dealloc\.cta_group::([12])\.sync\.aligned\.b32',
            lambda group, address, columns: f'::gridstride::tmem_dealloc({group}, {address}, {columns}, __LINE__)',
        ),
        (
            r'tcgen05\.relinquish_alloc_permit\.cta_group::([12])\.sync\.aligned',
            lambda group: f'::gridstride::tmem_relinquish({group}, __LINE__)',
        ),
        (
            r'tcgen05\.ld\.sync\.aligned\.(32x32b|16x64b|16x128b|16x256b|16x32bx2)\.x(\d+)(\.pack::16b)?\.b32',
            lambda shape, n, packs, *operands: tensor_memory_access(shape, n, packs, operands, True),
        ),
        (
            r'tcgen05\.st\.sync\.aligned\.(32x32b|16x64b|16x128b|16x256b|16x32bx2)\.x(\d+)(\.unpack::16b)?\.b32',
            lambda shape, n, packs, *operands: tensor_memory_access(shape, n, packs, operands, False),
        ),
        (
            r'tcgen05\.wait::(ld|st)\.sync\.aligned',
            lambda access: f"::gridstride::tmem_wait({cpp_bool(access == 'ld')}, __LINE__)",
        ),
        (
            r'tcgen05\.fence::(before|after)_thread_sync',
            lambda side: f"::gridstride::tmem_fence({cpp_bool(side == 'before')})",
        ),
        (
            r'tcgen05\.commit\.cta_group::([12])\.mbarrier::arrive::one(?:\.shared(?:::cluster)?)?'
            r'(?:\.multicast::cluster)?\.b64',
            lambda group, barrier, blocks='0': (
                f'::gridstride::tmem_commit({group}, uint32_t({barrier}), {blocks}, __LINE__)'
            ),
        ),
        (
            r'tcgen05\.cp\.cta_group::([12])\.(128x256b|4x256b|128x128b|64x128b\.warpx2::(?:02_13|01_23)'
            r'|32x128b\.warpx4)',
            lambda group, shape, address, descriptor: (
                f'::gridstride::tmem_copy({group}, {tensor_copy_shape(shape)}, {address}, {descriptor}, __LINE__)'
            ),
        ),
        (
            r'tcgen05\.shift\.cta_group::([12])\.down',
            lambda group, address: f'::gridstride::tmem_shift({group}, {address}, __LINE__)',
        ),
        (
            r'tcgen05\.mma\.cta_group::([12])\.kind::(f16|tf32|f8f6f4|i8)'
            r'(?:\.collector::a::(?:fill|use|lastuse|discard))?(\.tensor_a)?',
            tensor_mma,
        ),
        (
            r'tcgen05\.mma\.ws(\.sp)?\.cta_group::(1)\.kind::(f16|tf32|f8f6f4|i8)'
            r'(?:\.collector::b[0-3]::(?:fill|use|lastuse|discard))?(\.tensor_a)?',
            lambda *arguments: tensor_mma_variant(True, *arguments),
        ),
        (
            r'tcgen05\.mma(\.sp)\.cta_group::([12])\.kind::(f16|tf32|f8f6f4|i8)'
            r'(?:\.collector::a::(?:fill|use|lastuse|discard))?(\.tensor_a)?',
            lambda *arguments: tensor_mma_variant(False, *arguments),
        ),
        (
            r'tcgen05\.mma\.cta_group::([12])\.kind::(mxf8f6f4|mxf4|mxf4nvf4)\.block_scale'
            r'(?:\.(scale_vec::[124]X|block16|block32))?(?:\.collector::a::(?:fill|use|lastuse|discard))?(\.tensor_a)?',
            block_scaled_mma,
        ),
        (
            r'clusterlaunchcontrol\.try_cancel\.async\.shared\.mbarrier::complete_tx::bytes'
            r'(\.multicast::cluster::all)?\.b128',
            lambda cluster, to, barrier: call_ptx('try_cancel', cpp_bool(cluster), to, barrier),
        ),
        (
            r'clusterlaunchcontrol\.query_cancel\.is_canceled\.pred\.b128',
            lambda p, response: f'{p} = ::gridstride::ptx::is_canceled({response})',
        ),
        (
            r'clusterlaunchcontrol\.query_cancel\.get_first_ctaid\.v4\.b32\.b128',
            lambda x, y, z, w, response: call_ptx('first_of_canceled', x, y, z, w, response),
        ),
        (
            r'clusterlaunchcontrol\.query_cancel\.get_first_ctaid::([xyz])\.b32\.b128',
            lambda axis, d, response: f'{d} = ::gridstride::bit_cast<::gridstride::Canceled>({response}).{axis}',
        ),
        (
            r'setmaxnreg\.(inc|dec)\.sync\.aligned\.u32',
            lambda action, n: call_ptx(f'set_registers<{n}, {str(action == "inc").lower()}>'),
        ),
        (r'mapa\.shared::cluster\.u32', lambda d, address, rank: call_ptx('mapa', d, address, rank)),
        (
            r'barrier\.cluster\.arrive(?:\.(?:release|relaxed))?(?:\.aligned)?',
            lambda: '::gridstride::cluster_arrive(__LINE__)',
        ),
        (r'barrier\.cluster\.wait(?:\.acquire)?(?:\.aligned)?', lambda: '::gridstride::cluster_wait(__LINE__)'),
        (r'elect\.sync', lambda d, p, mask: call_ptx('elect', d, p, mask)),
        (r'prefetch\.tensormap|prefetch\.global\.L[12]|prefetchu\.L1|discard\.global\.L2', lambda *operands: ''),
        (
            r'cp\.async\.bulk\.prefetch\.L2\.global(?:\.L2::cache_hint)?',
            lambda src, bytes, *policy: call_ptx('bulk_prefetch', src, bytes),
        ),
        (r'cp\.async\.bulk\.prefetch\.tensor\..*', lambda *operands: ''),
        (
            r'cp\.async\.mbarrier\.arrive(\.noinc)?(?:\.shared)?\.b64',
            lambda noinc, barrier: (
                '::gridstride::copy_async_commit(), ::gridstride::copy_async_wait(0)'
                + (f", {call_ptx('arrive', 'false', DISCARDED_OPERAND, barrier)}" if noinc else '')
            ),
        ),
        (r'nanosleep\.u32', lambda n: '::gridstride::yield_thread()'),
        (
            r'ld((?:\.(?:acquire|relaxed|volatile|cta|cluster|gpu|sys|global))*\.(?:acquire|relaxed|volatile)'
            r'(?:\.(?:cta|cluster|gpu|sys|global))*)(?:\.v[24])?\.([bsuf](?:8|16|32|64))',
            ordered_load,
        ),
        (
            r'st((?:\.(?:release|relaxed|volatile|cta|cluster|gpu|sys|global))*\.(?:release|relaxed|volatile)'
            r'(?:\.(?:cta|cluster|gpu|sys|global))*)(?:\.v[24])?\.([bsuf](?:8|16|32|64))',
            ordered_store,
        ),
        (
            r'multimem\.ld_reduce((?:\.(?:weak|relaxed|acquire|cta|cluster|gpu|sys|global))*)'
            r'\.(add|min|max|and|or|xor)(?:\.v[248])?\.([usbf](?:32|64))',
            lambda *arguments: multimem('multimem_load', *arguments),
        ),
        (
            r'multimem\.st((?:\.(?:weak|relaxed|release|cta|cluster|gpu|sys|global))*)(?:\.v[248])?\.([usbf](?:32|64))',
            lambda qualifiers, *arguments: multimem('multimem_store', qualifiers, '', *arguments),
        ),
        (
            r'multimem\.red((?:\.(?:relaxed|release|cta|cluster|gpu|sys|global))*)'
            r'\.(add|min|max|and|or|xor)(?:\.v[248])?\.([usbf](?:32|64))',
            lambda *arguments: multimem('multimem_update', *arguments),
        ),
        (
            r'red\.async(?:\.mmio)?((?:\.(?:release|cluster|gpu|sys|global))*)'
            r'\.(add|min|max|inc|dec|and|or|xor)\.([usb](?:32|64))',
            atomic,
        ),
        (
            r'(atom|red)((?:\.(?:relaxed|acquire|release|acq_rel|cta|cluster|gpu|sys|global))*)'
            r'\.(add|exch|min|max|and|or|xor|inc|dec)\.([bsuf](?:32|64))',
            lambda kind, *arguments: atomic(*arguments),
        ),
        (
            r'ld\.(shared|global)(?:\.nc|\.l?[cu][asguv]?)?\.([bus]8)',
            lambda space, type, d, address: call_ptx(f'load_{space}_as<{MEMORY_TYPES[type]}>', address, d),
        ),
        (
            r'st\.(shared|global)(?:\.[cw][bgst])?\.([bus]8)',
            lambda space, type, *operands: call_ptx(f'store_{space}_as<{MEMORY_TYPES[type]}>', *operands),
        ),
        (
            r'ld\.(shared|global)(?:::cluster)?(?:\.nc|\.l?[cu][asguv]?)?(?:\.v[24])?\.[bsuf](?:16|32|64|128)',
            lambda space, *operands: call_ptx(f'load_{space}', operands[-1], *operands[:-1]),
        ),
        (
            r'st\.(shared|global)(?:::cluster)?(?:\.[cw][bgst])?(?:\.v[24])?\.[bsuf](?:16|32|64)',
            lambda space, *operands: call_ptx(f'store_{space}', *operands),
        ),
        (r'createpolicy\.fractional\.b64', lambda d, *operands: f'{d} = 0'),
        (r'griddepcontrol\.(?:wait|launch_dependents)', lambda: ''),
        (r'cvta\.to\.(shared|global)\.u64', lambda space, d, s: call_ptx(f'to_{space}', d, s)),
        (r'cvt\.u(?:32\.u64|64\.u32)', lambda d, s: call_ptx('convert', d, s)),
        (r'cvt\.rna\.tf32\.f32', lambda d, s: call_ptx('to_tf32', d, s)),
        (r'cvt\.rn\.(b?f16)x2\.f32', lambda t, d, a, b: call_ptx(f"to_pair<{7 if t == 'bf16' else 10}>", d, a, b)),
        (rf'cvt\.rn\.satfinite\.{SMALL_FLOAT}x2\.f32', lambda t, *operands: small_float('to_small_pair', t, operands)),
        (
            rf'cvt\.rn\.satfinite\.{SMALL_FLOAT}x2\.f16x2',
            lambda t, *operands: small_float('halves_to_small_pair', t, operands),
        ),
        (rf'cvt\.rn\.f16x2\.{SMALL_FLOAT}x2', lambda t, *operands: small_float('small_pair_to_halves', t, operands)),
        (
            r'cvt\.(rz|rp)(\.satfinite)?\.ue8m0x2\.(f32|bf16x2)',
            lambda rounding, saturates, source, *operands: call_ptx(
                'to_scales' if source == 'f32' else 'bfloats_to_scales',
                *operands,
                cpp_bool(saturates),
                dict(rz='::cudaRoundZero', rp='::cudaRoundPosInf')[rounding],
            ),
        ),
        (r'cvt\.rn\.bf16x2\.ue8m0x2', lambda d, s: call_ptx('scales_to_bfloats', d, s)),
        (r'ex2\.approx(?:\.ftz)?\.f32', lambda d, s: f'{d} = ::exp2f({s})'),
        (r'rcp\.approx(?:\.ftz)?\.f32', lambda d, s: f'{d} = 1 / {s}'),
        (
            r'(add|sub|and|or|xor)\.([usb])(32|64)',
            lambda op, t, n, d, a, b: f'{d} = {as_unsigned(n, a)} {OPERATORS[op]} {as_unsigned(n, b)}',
        ),
        (r'mul\.lo\.([usb])(32|64)', lambda t, n, d, a, b: f'{d} = {as_unsigned(n, a)} * {as_unsigned(n, b)}'),
        (
            r'mad\.lo\.([usb])(32|64)',
            lambda t, n, d, a, b, c: f'{d} = {as_unsigned(n, a)} * {as_unsigned(n, b)} + {as_unsigned(n, c)}',
        ),
        (
            r'mul\.wide\.([us])32',
            lambda t, d, a, b: (
                f'{d} = {as_integer(t, 64, as_integer(t, 32, a))} * {as_integer(t, 64, as_integer(t, 32, b))}'
            ),
        ),
        (
            r'(min|max)\.([us])(32|64)',
            lambda op, t, n, d, a, b: f'{d} = std::{op}({as_integer(t, n, a)}, {as_integer(t, n, b)})',
        ),
        (r'not\.b(32|64)', lambda n, d, a: f'{d} = ~{as_unsigned(n, a)}'),
        (r'shl\.b(32|64)', lambda n, d, a, s: f'{d} = {s} < {n} ? {as_unsigned(n, a)} << {s} : 0'),
        (
            r'shr\.([usb])(32|64)',
            lambda t, n, d, a, s: f'{d} = {as_integer(t, n, a)} >> ({s} < {n} ? {s} : {n} - 1) >> ({s} < {n} ? 0 : 1)',
        ),
        (r'popc\.b(32|64)', lambda n, d, a: f'{d} = __builtin_popcountll({as_unsigned(n, a)})'),
        (
            r'clz\.b(32|64)',
            lambda n, d, a: f'{d} = {as_unsigned(n, a)} ? __builtin_clzll({as_unsigned(n, a)}) - (64 - {n}) : {n}',
        ),
        (r'brev\.b32', lambda d, a: f'{d} = __brev({a})'),
        (
            r'bfind\.u(32|64)',
            lambda n, d, a: f'{d} = {as_unsigned(n, a)} ? 63 - __builtin_clzll({as_unsigned(n, a)}) : ~0u',
        ),
        (r'(add|sub|mul)(?:\.rn)?(?:\.ftz)?\.f(?:32|64)', lambda op, d, a, b: f'{d} = {a} {OPERATORS[op]} {b}'),
        (r'fma\.rn(?:\.ftz)?\.f(?:32|64)', lambda d, a, b, c: f'{d} = std::fma({a}, {b}, {c})'),
        (
            r'v(add|sub|absdiff|min|max|avrg|shl|shr)([24]?)((?:\.[us]32){3})((?:\.(?:sat|clamp|wrap|add|min|max))*)',
            video,
        ),
        (r'mov\.[bsuf](?:16|32|64)', lambda d, s: call_ptx('mov', d, s)),
        (r'mov\.[bsuf](16|32|64|128)\.pack', pack),
        (r'mov\.[bsuf](?:16|32|64|128)\.unpack', lambda *operands: call_ptx('unpack', operands[-1], *operands[:-1])),
        (r'lop3\.b32', lambda *operands: call_ptx('lop3', *operands)),
        (r'fma\.rn(?:\.ftz)?\.(b?f16)x2', lambda t, *operands: call_ptx(f'fma_pair<{MANTISSA_BITS[t]}>', *operands)),
        (
            r'(add|sub|mul)(?:\.rn)?(?:\.ftz)?\.(b?f16)x2',
            lambda op, t, d, a, b: call_ptx(
                f'apply_pair<{MANTISSA_BITS[t]}>', d, f'[](double x, double y) {{ return x {OPERATORS[op]} y; }}', a, b
            ),
        ),
        (r'(lg2|sin|cos|tanh|sqrt)\.(?:approx|rn)(?:\.ftz)?\.f32', lambda f, d, s: f'{d} = {MATH_FUNCTIONS[f]}({s})'),
        (r'rsqrt\.approx(?:\.ftz)?\.f32', lambda d, s: f'{d} = ::rsqrtf({s})'),
        (r'(min|max)(?:\.ftz)?\.f32', lambda op, d, a, b: f'{d} = ::f{op}f({a}, {b})'),
        (r'brkpt|trap', lambda: '::__trap()'),
        (r'selp\.[bsuf](?:16|32|64)', lambda d, a, b, p: f'{d} = {p} ? {a} : {b}'),
        (r'setp\.(eq|ne|lt|le|gt|ge)\.([bsu](?:32|64))', compare),
        (r'(?:bar|barrier)\.(sync|arrive)(?:\.aligned)?', named_barrier),
        (r'bar\.warp\.sync', lambda mask: f'::gridstride::sync_warp({mask}, __LINE__)'),
    )
]

_SUPPORTED = (
    'cp.async.ca and .cg, cp.async.commit_group, .wait_group and .wait_all; ldmatrix, stmatrix, movmatrix; '
    'mma.sync of m16n8k16 and m16n8k8 for bf16 and f16, of m16n8k8 and m16n8k4 for tf32; mma.sp of '
    'm16n8k32 and m16n8k16 for bf16 and f16; ld and st of shared and global memory, '
    'cache hints, griddepcontrol; cvta.to, cvt (tf32, bf16x2, f16x2, e2m1x2, e2m3x2, e3m2x2, e4m3x2, e5m2x2, '
    'ue8m0x2, addresses), ex2.approx, rcp.approx, mov, '
    'add, sub, mul, mad, and, or, xor, not, shl, shr, min, max, popc, clz, brev, bfind, fma; '
    'setp, selp, bra; bar.sync, bar.warp.sync; mbarrier, cp.async.bulk (also .tensor, with multicast), '
    'fence.proxy.async; wgmma of '
    'm64nNk16 for bf16 and f16, of m64nNk8 for tf32, of m64nNk32 for e4m3 and s8, wgmma.mma_async.sp of m64nNk32 for '
    'bf16 and f16; tcgen05 (alloc, dealloc, ld, st, wait, fence, mma of all kinds, commit, cp, shift); '
    'vadd, vsub, vabsdiff, vmin, vmax, vavrg, vshl, vshr and their SIMD forms; setmaxnreg; '
    'mapa, barrier.cluster, '
    'ld and st of shared::cluster, st.async; '
    'elect.sync'
)


# `.shared::cta` and cache hints have no effect on the emulator. `griddepcontrol`, which lets the next launch begin
# early, has no effect either, because a launch ends before the next one begins.
def instruction_code(name, operands):
    "Return C++ code for the instruction `name` with these operands"
    base_name = re.sub(r'::cta\b|\.L[12]::\w+', '', name)
    if base_name.startswith('cp.async.bulk.tensor') and '.cta_group::2' in base_name:
        base_name += '.pair'
    if 'L2::cache_hint' in name:
        operands = operands[:-1]  # the policy
    for pattern, translate in _CALLS:
        if not (m := pattern.fullmatch(base_name)):
            continue
        try:
            return translate(*m.groups(), *operands)
        except TypeError:
            raise_unsupported(f'{name} with {len(operands)} operands', f'it supports {_SUPPORTED}')
    raise_unsupported(f'instruction {name}', f'it supports {_SUPPORTED}')
