"""Translates inline PTX to calls of functions in the emulator's `ptx.h`.

`asm volatile("ldmatrix... {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(address))` consists of PTX and of the expressions
for its operands `%0`, `%1`, ... Each instruction becomes a call, each register that the PTX declares a variable, a
label a label, and a branch a `goto`. `UnknownPTX` names an instruction that has no translation.
"""

import re
from functools import lru_cache


class UnknownPTX(ValueError):
    "The emulator has no translation of an instruction or operand of PTX"


def _ptx(name, *args):
    return f"::gridstride::ptx::{name}({', '.join(['__LINE__', *args])})"


def _bool(x):
    return str(bool(x)).lower()


_COMPARE = dict(eq='==', ne='!=', lt='<', le='<=', gt='>', ge='>=')
_TYPES = dict(pred='bool', **{f'{k}{n}': f'uint{n}_t' for n in (16, 32, 64) for k in 'bus'}, f32='float', f64='double')


def _compare(op, type, p, a, b):
    signed = f'int{type[1:]}_t' if type[0] == 's' else ''
    return f'{p} = {signed}({a}) {_COMPARE[op]} {signed}({b})'


_SCOPE = dict(cta='block', cluster='device', gpu='device', sys='system')


def _scope(qualifier):
    return f'::gridstride::Scope::{_SCOPE[qualifier]}'


def _order(what, order, scope, *operands):
    return _ptx(what, f'::gridstride::Order::{order}', _scope(scope), *operands)


def _tensor(name, rank, operands, map_index):
    "Translate a TMA load or store of a box, whose map and coordinates are the operands from `map_index` on"
    rank = int(rank)
    first = map_index + 1
    at, others = operands[first : first + rank], [*operands[:first], *operands[first + rank :]]
    if len(at) < rank:
        raise TypeError
    coordinates = ', '.join(f'int32_t({x})' for x in at)
    return f"{{ const int32_t gs_at[] = {{{coordinates}}}; {_ptx(name, 'gs_at', str(rank), *others)}; }}"


def _sparse_wgmma(n, type, *operands):
    "Translate a sparse wgmma, which has metadata and a selector after b"
    at = int(n) // 2 + (2 if len(operands) == int(n) // 2 + 9 else 5)
    meta, selector = operands[at : at + 2]
    return _wgmma(n, type, *operands[:at], *operands[at + 2 :], sparse=(meta, selector))


def _wgmma(n, type, *operands, sparse=()):
    "Translate a wgmma with operands d, a (a descriptor or four registers), b, scale-d, the signs, the transpose flags"
    d, others = operands[: int(n) // 2], operands[int(n) // 2 :]
    if not all(re.fullmatch(r'gs_\d+', x) for x in d):
        _refuse('wgmma whose d is not made of operands %0, %1, ...', 'they are "+f"(d[0]), "+f"(d[1]), ...')
    transposes = 2 if 'f16' in type else 0  # other types have both operands K-major
    registers = len(others) == 8 + transposes // 2
    if not registers and len(others) != 5 + transposes:
        raise TypeError
    a, others = (others[:4], others[4:]) if registers else ((), others)
    if registers:
        others = ('0', *others[:4], *(('0', *others[4:]) if transposes else ()))
    pointer = 'reinterpret_cast<float *>({})' if type == 's8' else '{}'  # the accumulators of s8 are integers
    results, accumulators = (
        ', '.join(pointer.format(f'&{x}') for x in group) for group in ([x.replace('gs_', 'gs_out_') for x in d], d)
    )
    arrays = f'float *const gs_to[] = {{{results}}}, *const gs_now[] = {{{accumulators}}};'
    arrays += f" const uint32_t gs_a[] = {{{', '.join(a) or '0'}}};"
    if sparse:
        arrays, others = f'{arrays} const uint32_t gs_meta = {sparse[0]};', (*others, '&gs_meta')
    function = ', '.join(('wgmma<::gridstride::Number::' + type, n, _bool(registers), *sparse[1:])) + '>'
    return f"{{ {arrays} {_ptx(function, 'gs_to', 'gs_now', 'gs_a', *others)}; }}"


def _named_barrier(operation, barrier, *threads):
    if barrier == '0' and not threads:
        return '::gridstride::sync_block(__LINE__)'
    if not threads:
        _refuse(f'barrier {barrier} without a number of threads', 'bar.sync %0, 128')
    return f"::gridstride::named_barrier({barrier}, {threads[0]}, {_bool(operation == 'sync')}, __LINE__)"


_SHARED = r'\.shared(?:::cluster)?'
_SIGNS = {'add': '+', 'sub': '-', 'mul': '*', 'and': '&', 'or': '|', 'xor': '^'}


def _u(bits, operand):
    return f'uint{bits}_t({operand})'


def _i(kind, bits, operand):
    return f'{"int" if kind == "s" else "uint"}{bits}_t({operand})'


# (pattern of instructions, function that returns C++ for one). The arguments of the function are the groups of the
# pattern, then the operands. A vector `{a, b}` counts as two operands; an address `[a+4]` is the sum.
_CALLS = [
    (re.compile(a), b)
    for a, b in (
        (
            r'cp\.async\.(ca|cg)\.shared\.global',
            lambda kind, to, at, bytes, *read: _ptx(f"copy<{_bool(kind == 'cg')}, {bytes}>", to, at, *read),
        ),
        (r'cp\.async\.commit_group', lambda: '::gridstride::copy_async_commit()'),
        (r'cp\.async\.wait_group', lambda n: f'::gridstride::copy_async_wait({n})'),
        (r'cp\.async\.wait_all', lambda: '::gridstride::copy_async_wait_all()'),
        (
            r'ldmatrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?\.shared\.b16',
            lambda n, t, *operands: _ptx(f'ldmatrix<{n}, {_bool(t)}>', operands[-1], *operands[:-1]),
        ),
        (
            r'stmatrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?\.shared\.b16',
            lambda n, t, *operands: _ptx(f'stmatrix<{n}, {_bool(t)}>', *operands),
        ),
        (
            r'mma\.sync\.aligned\.m16n8k(8|16)\.row\.col\.f32\.(b?f16)\.\2\.f32',
            lambda k, t, *operands: _ptx(f'mma<{k}, ::gridstride::ptx::{t}, ::gridstride::ptx::f32>', *operands),
        ),
        (
            r'mma\.sync\.aligned\.m16n8k(4|8)\.row\.col\.f32\.tf32\.tf32\.f32',
            lambda k, *operands: _ptx(f'mma<{k}, ::gridstride::ptx::tf32, ::gridstride::ptx::f32>', *operands),
        ),
        (
            r'mma\.sync\.aligned\.m16n8k(8|16)\.row\.col\.f16\.f16\.f16\.f16',
            lambda k, *operands: _ptx(f'mma_f16<{k}, ::gridstride::ptx::f16, ::gridstride::ptx::f16>', *operands),
        ),
        (
            r'mma\.sp(::ordered_metadata)?\.sync\.aligned\.m16n8k(16|32)\.row\.col\.f32\.(b?f16)\.\3\.f32',
            lambda ordered, k, t, *operands: _ptx(
                f'mma_sp<{k}, ::gridstride::ptx::{t}, {_bool(ordered)}, {operands[-1]}>', *operands[:-1]
            ),
        ),
        (r'mbarrier\.init(?:\.shared)?\.b64', lambda *operands: _ptx('init', *operands)),
        (r'mbarrier\.inval(?:\.shared)?\.b64', lambda at: _ptx('invalidate', at)),
        (
            rf'mbarrier\.expect_tx(?:\.relaxed\.(?:cta|cluster))?{_SHARED}\.b64',
            lambda *operands: _ptx('expect', *operands),
        ),
        (
            rf'mbarrier\.arrive(\.expect_tx)?(?:\.release)?(?:\.(?:cta|cluster))?{_SHARED}\.b64',
            lambda expects, *operands: _ptx('arrive', _bool(expects), *operands),
        ),
        (
            r'mbarrier\.(try|test)_wait(?:\.parity)?(?:\.acquire)?(?:\.(?:cta|cluster))?\.shared\.b64',
            lambda how, p, at, phase, *hint: f"{p} = {_ptx('over', _bool(how == 'try'), at, phase)}",
        ),
        (r'fence\.mbarrier_init\.release\.cluster', lambda: '::gridstride::fence_mbarrier_init()'),
        (r'fence\.proxy\.async(?:\.global|\.shared(?:::cluster)?)?', lambda: '::gridstride::fence_proxy_async()'),
        (r'fence\.(?:acq_rel|sc)\.(cta|cluster|gpu|sys)', lambda scope: f'::gridstride::fence({_scope(scope)})'),
        (
            rf'cp\.async\.bulk{_SHARED}\.global\.mbarrier::complete_tx::bytes(?:\.multicast::cluster)?',
            lambda to, at, bytes, bar, *blocks: _ptx('bulk_load', to, at, bytes, bar, *blocks),
        ),
        (
            r'st\.async(?:\.weak)?\.shared::cluster\.mbarrier::complete_tx::bytes(?:\.v[24])?\.[bsuf](?:32|64)',
            lambda to, *operands: _ptx('store_async', to, operands[-1], *operands[:-1]),
        ),
        (r'cp\.async\.bulk\.global\.shared\.bulk_group', lambda to, at, bytes: _ptx('bulk_store', to, at, bytes)),
        (
            rf'cp\.async\.bulk\.tensor\.([1-5])d{_SHARED}\.global(?:\.tile)?'
            r'\.mbarrier::complete_tx::bytes(?:\.multicast::cluster)?',
            lambda rank, *operands: _tensor('tensor_load', rank, operands, 1),
        ),
        (
            r'cp\.async\.bulk\.tensor\.([1-5])d\.global\.shared(?:\.tile)?\.bulk_group',
            lambda rank, *operands: _tensor('tensor_store', rank, operands, 0),
        ),
        (r'cp\.async\.bulk\.commit_group', lambda: '::gridstride::bulk_commit()'),
        (r'cp\.async\.bulk\.wait_group(?:\.read)?', lambda n: f'::gridstride::bulk_wait({n})'),
        (r'wgmma\.fence\.sync\.aligned', lambda: '::gridstride::wgmma_fence()'),
        (r'wgmma\.commit_group\.sync\.aligned', lambda: '::gridstride::wgmma_commit()'),
        (r'wgmma\.wait_group\.sync\.aligned', lambda n: f'::gridstride::wgmma_wait({n}, __LINE__)'),
        (
            r'wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f32\.(b?f16)\.\2',
            lambda n, t, *operands: _wgmma(n, t, *operands),
        ),
        (
            r'wgmma\.mma_async\.sp\.sync\.aligned\.m64n(\d+)k32\.f32\.(b?f16)\.\2',
            lambda n, t, *operands: _sparse_wgmma(n, t, *operands),
        ),
        (
            r'wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k8\.f32\.tf32\.tf32',
            lambda n, *operands: _wgmma(n, 'tf32', *operands),
        ),
        (
            r'wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k32\.f32\.e4m3\.e4m3',
            lambda n, *operands: _wgmma(n, 'e4m3', *operands),
        ),
        (
            r'wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k32\.s32\.s8\.s8',
            lambda n, *operands: _wgmma(n, 's8', *operands, '1', '1'),
        ),
        (r'setmaxnreg\.(?:inc|dec)\.sync\.aligned\.u32', lambda n: f'::gridstride::ptx::set_registers<{n}>()'),
        (r'mapa\.shared::cluster\.u32', lambda d, at, rank: _ptx('mapa', d, at, rank)),
        (
            r'barrier\.cluster\.arrive(?:\.(?:release|relaxed))?(?:\.aligned)?',
            lambda: '::gridstride::cluster_arrive(__LINE__)',
        ),
        (r'barrier\.cluster\.wait(?:\.acquire)?(?:\.aligned)?', lambda: '::gridstride::cluster_wait(__LINE__)'),
        (r'elect\.sync', lambda d, p, mask: _ptx('elect', d, p, mask)),
        (r'prefetch\.tensormap', lambda at: ''),
        (r'nanosleep\.u32', lambda n: '::gridstride::yield_thread()'),
        (
            r'ld\.(acquire|relaxed)\.(cta|cluster|gpu|sys)\.global\.[bsuf](?:32|64)',
            lambda order, scope, d, at: _order('load_ordered', order, scope, d, at),
        ),
        (
            r'st\.(release|relaxed)\.(cta|cluster|gpu|sys)\.global\.[bsuf](?:32|64)',
            lambda order, scope, at, s: _order('store_ordered', order, scope, at, s),
        ),
        (
            r'ld\.(shared|global)(?:::cluster)?(?:\.nc)?(?:\.v[24])?\.[bsuf](?:32|64)',
            lambda space, *operands: _ptx(f'load_{space}', operands[-1], *operands[:-1]),
        ),
        (
            r'st\.(shared|global)(?:::cluster)?(?:\.v[24])?\.[bsuf](?:32|64)',
            lambda space, *operands: _ptx(f'store_{space}', *operands),
        ),
        (r'createpolicy\.fractional\.b64', lambda d, *operands: f'{d} = 0'),
        (r'griddepcontrol\.(?:wait|launch_dependents)', lambda: ''),
        (r'cvta\.to\.(shared|global)\.u64', lambda space, d, s: _ptx(f'to_{space}', d, s)),
        (r'cvt\.u(?:32\.u64|64\.u32)', lambda d, s: _ptx('convert', d, s)),
        (r'cvt\.rna\.tf32\.f32', lambda d, s: _ptx('to_tf32', d, s)),
        (r'cvt\.rn\.(b?f16)x2\.f32', lambda t, d, a, b: _ptx(f"to_pair<{7 if t == 'bf16' else 10}>", d, a, b)),
        (r'ex2\.approx(?:\.ftz)?\.f32', lambda d, s: f'{d} = ::exp2f({s})'),
        (r'rcp\.approx(?:\.ftz)?\.f32', lambda d, s: f'{d} = 1 / {s}'),
        (
            r'(add|sub|and|or|xor)\.([usb])(32|64)',
            lambda op, t, n, d, a, b: f'{d} = {_u(n, a)} {_SIGNS[op]} {_u(n, b)}',
        ),
        (r'mul\.lo\.([usb])(32|64)', lambda t, n, d, a, b: f'{d} = {_u(n, a)} * {_u(n, b)}'),
        (r'mad\.lo\.([usb])(32|64)', lambda t, n, d, a, b, c: f'{d} = {_u(n, a)} * {_u(n, b)} + {_u(n, c)}'),
        (r'mul\.wide\.([us])32', lambda t, d, a, b: f'{d} = {_i(t, 64, _i(t, 32, a))} * {_i(t, 64, _i(t, 32, b))}'),
        (r'(min|max)\.([us])(32|64)', lambda op, t, n, d, a, b: f'{d} = std::{op}({_i(t, n, a)}, {_i(t, n, b)})'),
        (r'not\.b(32|64)', lambda n, d, a: f'{d} = ~{_u(n, a)}'),
        (r'shl\.b(32|64)', lambda n, d, a, s: f'{d} = {s} < {n} ? {_u(n, a)} << {s} : 0'),
        (
            r'shr\.([usb])(32|64)',
            lambda t, n, d, a, s: f'{d} = {_i(t, n, a)} >> ({s} < {n} ? {s} : {n} - 1) >> ({s} < {n} ? 0 : 1)',
        ),
        (r'popc\.b(32|64)', lambda n, d, a: f'{d} = __builtin_popcountll({_u(n, a)})'),
        (r'clz\.b(32|64)', lambda n, d, a: f'{d} = {_u(n, a)} ? __builtin_clzll({_u(n, a)}) - (64 - {n}) : {n}'),
        (r'brev\.b32', lambda d, a: f'{d} = __brev({a})'),
        (r'bfind\.u(32|64)', lambda n, d, a: f'{d} = {_u(n, a)} ? 63 - __builtin_clzll({_u(n, a)}) : ~0u'),
        (r'(add|sub|mul)(?:\.rn)?(?:\.ftz)?\.f(?:32|64)', lambda op, d, a, b: f'{d} = {a} {_SIGNS[op]} {b}'),
        (r'fma\.rn(?:\.ftz)?\.f(?:32|64)', lambda d, a, b, c: f'{d} = std::fma({a}, {b}, {c})'),
        (r'mov\.[bsuf](?:16|32|64)', lambda d, s: _ptx('mov', d, s)),
        (r'selp\.[bsuf](?:16|32|64)', lambda d, a, b, p: f'{d} = {p} ? {a} : {b}'),
        (r'setp\.(eq|ne|lt|le|gt|ge)\.([bsu](?:32|64))', _compare),
        (r'(?:bar|barrier)\.(sync|arrive)(?:\.aligned)?', _named_barrier),
        (r'bar\.warp\.sync', lambda mask: f'::gridstride::sync_warp({mask}, __LINE__)'),
    )
]

KNOWN = (
    'cp.async.ca and .cg, cp.async.commit_group, .wait_group and .wait_all; ldmatrix and stmatrix; mma.sync of '
    'm16n8k16 and m16n8k8 for bf16 and f16, of m16n8k8 and m16n8k4 for tf32; mma.sp of '
    'm16n8k32 and m16n8k16 for bf16 and f16; ld and st of shared and global memory, '
    'hints for the caches, griddepcontrol; cvta.to, cvt (tf32, bf16x2, f16x2, addresses), ex2.approx, rcp.approx, mov, '
    'add, sub, mul, mad, and, or, xor, not, shl, shr, min, max, popc, clz, brev, bfind, fma; '
    'setp, selp, bra; bar.sync, bar.warp.sync; mbarrier, cp.async.bulk (also .tensor, with multicast), '
    'fence.proxy.async; wgmma of '
    'm64nNk16 for bf16 and f16, of m64nNk8 for tf32, of m64nNk32 for e4m3 and s8, wgmma.mma_async.sp of m64nNk32 for '
    'bf16 and f16; setmaxnreg; mapa, barrier.cluster, '
    'ld and st of shared::cluster, st.async; '
    'elect.sync'
)


def _refuse(what, why):
    raise UnknownPTX(f'the emulator does not support {what} in inline PTX: {why}')


# `.shared::cta` and cache hints change nothing on the emulator; nor do `griddepcontrol` and its early start of the next
# launch, because a launch ends here before the next one begins.
def _call(name, operands):
    "Return C++ code for the instruction `name`"
    plain = re.sub(r'::cta\b|\.L[12]::\w+', '', name)
    if 'L2::cache_hint' in name:
        operands = operands[:-1]  # the policy
    for pattern, write in _CALLS:
        if not (m := pattern.fullmatch(plain)):
            continue
        try:
            return write(*m.groups(), *operands)
        except TypeError:
            _refuse(f'{name} with {len(operands)} operands', f'it supports {KNOWN}')
    _refuse(f'instruction {name}', f'it supports {KNOWN}')


# Special registers are written with `%%` in inline PTX, since `%` begins the index of an operand.
_SPECIAL = dict(
    laneid='uint32_t(::gridstride::lane())',
    lanemask_eq='(1u << ::gridstride::lane())',
    lanemask_lt='((1u << ::gridstride::lane()) - 1)',
    lanemask_le='((2u << ::gridstride::lane()) - 1)',
    lanemask_gt='~((2u << ::gridstride::lane()) - 1)',
    lanemask_ge='~((1u << ::gridstride::lane()) - 1)',
    warpid='uint32_t(::gridstride::thread_rank() / 32)',
    nwarpid='64u',
    smid='::gridstride::ptx::sm()',
    nsmid='132u',
    clock='uint32_t(::clock64())',
    clock_hi='uint32_t(::clock64() >> 32)',
    clock64='uint64_t(::clock64())',
    globaltimer='uint64_t(::clock64())',
    globaltimer_lo='uint32_t(::clock64())',
    globaltimer_hi='uint32_t(::clock64() >> 32)',
    **{
        f'{ptx}.{d}': f'uint32_t({c}.{d})'
        for ptx, c in dict(
            tid='threadIdx',
            ntid='blockDim',
            ctaid='blockIdx',
            nctaid='gridDim',
            cluster_nctaid='::gridstride::cluster_shape()',
            clusterid='::gridstride::cluster_index()',
        ).items()
        for d in 'xyz'
    },
    cluster_ctarank='::gridstride::cluster_rank()',
    cluster_nctarank='::gridstride::cluster_blocks()',
)


def _label(name):
    return 'gs_label_' + re.sub(r'\W', '_', name)


def _operand(text, registers, count):
    "Return C++ code for one of `count` operands of PTX, which may be one of `registers`; `{a, b}` becomes several"
    text = text.strip()
    for pattern in (_VECTOR, _TENSOR, _PAIR):
        if m := pattern.fullmatch(text):
            return ', '.join(_operand(part, registers, count) for part in _parts(*m.groups()))
    if m := _ADDRESS.fullmatch(text):
        return _operand(m[1], registers, count) + (f' + {_operand(m[2], registers, count)}' if m[2] else '')
    if m := re.fullmatch(r'%(\d+)', text):
        if int(m[1]) >= count:
            _refuse(f'operand {text}', f'this asm statement has {count}')
        return f'gs_{m[1]}'
    if text in registers:
        return _register(text)
    return _constant(text)


# `{a, b}`, `[map, {x, y}]`, `a|b` and `[address + offset]`
_VECTOR = re.compile(r'\{(.*)\}', re.S)
_TENSOR = re.compile(r'\[\s*([^\s,]+)\s*,\s*(\{.*\})\s*\]', re.S)
_PAIR = re.compile(r'(\S+)\s*\|\s*(\S+)')
_ADDRESS = re.compile(r'\[\s*([^\s+]+)\s*(?:\+\s*([^\]]+?))?\s*\]')


def _parts(first, second=None):
    return [first, second] if second else first.split(',')


def _constant(text):
    "Return C++ code for an operand that is a number, a special register, a macro's parameter, or `_` for none"
    if text == '_':
        return '::gridstride::ptx::Sink()'
    if text[:1] == '%' and text.lstrip('%') in _SPECIAL:
        return _SPECIAL[text.lstrip('%')]
    if m := re.fullmatch(r'\x01(\w+)\x01', text):
        return f'({m[1]})'  # the parameter was stringified into the text
    if m := re.fullmatch(r'0[fF]([0-9a-fA-F]{8})', text):
        return f'::gridstride::as<float>(0x{m[1]}u)'
    if text == 'WARP_SZ':
        return '32'
    if re.fullmatch(r'-?(?:0[xX][0-9a-fA-F]+|\d+)U?', text):
        return text
    if re.fullmatch(r'-?\d+\.\d*', text):
        return text + 'f'
    known = 'registers that the text declares, integers, and %%laneid, %%lanemask_lt, %%smid, %%tid.x and the like'
    _refuse(f'operand {text!r}', f'it supports %0, %1, ..., {known}')


def _register(name):
    return 'gs_register_' + re.sub(r'\W', '_', name)


def _split(text):
    "Split the operands of an instruction at the commas outside brackets"
    return [part for part in re.findall(r'(?:\{[^}]*\}|\[[^\]]*\]|[^,{\[])+', text) if part.strip()]


_STATEMENT = re.compile(
    r'\s*(?:(?P<brace>[{}])|(?:@(?P<not>!?)\s*(?P<guard>[\w%$]+)\s+)?(?P<name>\.?[A-Za-z][\w.:]*)(?P<after>[^;]*);)'
)

_LABEL = re.compile(r'(?:(?<=[;{}\n])|\A)\s*([A-Za-z_$%][\w$]*)\s*:(?!:)')


@lru_cache(256)  # a source repeats its PTX
def statements(
    text: str,  # PTX, with `%0`, `%1`, ... for its operands
    count: int,  # how many operands there are
) -> str:  # C++ code, in which operand i is the variable `gs_i`
    "Translate PTX to C++ statements; raises `UnknownPTX` for an instruction without a translation"
    text = re.sub(r'//[^\n]*|/\*.*?\*/', ' ', text, flags=re.S).rstrip()
    res = []
    registers = set()  # that the PTX declares
    i = 0
    labels = ''.join(f'__label__ {_label(label)}; ' for label in dict.fromkeys(_LABEL.findall(text)))
    while i < len(text):
        if m := _LABEL.match(text, i):
            i = m.end()
            res.append(f'{_label(m[1])}:;')
            continue
        if not (m := _STATEMENT.match(text, i)):
            _refuse(f'{text[i:].strip()!r}', 'an instruction ends with a semicolon')
        i = m.end()
        res.append(m['brace'] or _write_statement(m, registers, count))
    return f"{{ {labels}{' '.join(res)} }}" if labels else ' '.join(res)


def _write_statement(m, registers, count):
    "Return C++ code for one statement of PTX; a declaration adds to `registers`"
    if m['name'].startswith('.'):
        return _declare(m['name'], m['after'], registers)
    guard = f"if ({m['not']}{_operand(m['guard'], registers, count)}) " if m['guard'] else ''
    if m['name'].startswith('bra'):
        return f"{guard}goto {_label(m['after'].strip())};"
    operands = [x for part in _split(m['after']) for x in _operand(part, registers, count).split(', ')]
    return f"{guard}{_call(m['name'], operands)};"


def _declare(name, types, registers):
    "Add declared registers to `registers`, and return C++ code that declares them"
    m = re.fullmatch(r'\s*\.(\w+)\s+([\w$%]+(?:\s*,\s*[\w$%]+)*)\s*', types)
    if name != '.reg' or not m or m[1] not in _TYPES:
        _refuse(f'declaration {(name + types).strip()!r}', f".reg of {', '.join(_TYPES)} only")
    names = re.split(r'\s*,\s*', m[2])
    registers.update(names)
    return f"{_TYPES[m[1]]} {', '.join(f'{_register(name)}{{}}' for name in names)};"
