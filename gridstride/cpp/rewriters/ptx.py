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
    "Return C++ code that calls the function `name` of `ptx.h`"
    return f"::gridstride::ptx::{name}({', '.join(['GS_LINE', *args])})"


def _cpp_bool(x):
    return str(bool(x)).lower()


_COMPARISON_OPERATORS = dict(eq='==', ne='!=', lt='<', le='<=', gt='>', ge='>=')
_TYPES = dict(pred='bool', b128='unsigned __int128', f32='float', f64='double')
_TYPES |= {f'{k}{n}': f'uint{n}_t' for n in (8, 16, 32, 64) for k in 'bus'}


def _comparison(op, type, p, a, b):
    "Translate `setp`, which sets the predicate `p`"
    signed = f'int{type[1:]}_t' if type[0] == 's' else ''
    return f'{p} = {signed}({a}) {_COMPARISON_OPERATORS[op]} {signed}({b})'


_SCOPE = dict(cta='block', cluster='device', gpu='device', sys='system')


def _scope_of(qualifier):
    return f'::gridstride::Scope::{_SCOPE[qualifier]}'


def _ordered_access(function, order, scope, *operands):
    "Translate a load or store with a memory order and a scope"
    return _ptx(function, f'::gridstride::Order::{order}', _scope_of(scope), *operands)


def _order_and_scope(words):
    "Return the memory order and the scope among the qualifiers of a load or store; `.volatile` means relaxed"
    words = words.split('.')
    order = next((word for word in words if word in ('acquire', 'release')), 'relaxed')
    return order, next((word for word in words if word in _SCOPE), 'sys')


_MEMORY_TYPES = {
    f'{k}{n}': f'{t}{n}_t' for n in (8, 16, 32, 64) for k, t in (('b', 'uint'), ('u', 'uint'), ('s', 'int'))
}
_MEMORY_TYPES |= dict(f32='float', f64='double')


def _ordered_load(words, type, *operands):
    "Translate a load with a memory order, whose last operand is the address"
    function = f'load_ordered<{_MEMORY_TYPES[type]}>'
    return _ordered_access(function, *_order_and_scope(words), operands[-1], *operands[:-1])


def _ordered_store(words, type, *operands):
    "Translate a store with a memory order"
    return _ordered_access(f'store_ordered<{_MEMORY_TYPES[type]}>', *_order_and_scope(words), *operands)


def _video(operation, lanes, types, words, d, a, b, *c):
    """Translate an instruction on one, two or four parts of words, such as `vshr` or `vabsdiff4`.

    `words`: `sat`, `clamp` of a shift, and how the result is combined with a third source, which SIMD always has."""
    combination = next((word for word in words.split('.') if word in ('add', 'min', 'max')), 'nothing')
    if len(c) != (lanes != '' or combination != 'nothing'):
        raise TypeError
    flags = *(x == 's32' for x in types[1:].split('.')), 'sat' in words, 'clamp' in words
    arguments = f'Video::{operation}', lanes or '1', f'Video::{combination}', *map(_cpp_bool, flags)
    return _ptx(f"video<{', '.join(arguments).replace('Video', '::gridstride::ptx::Video')}>", d, a, b, *c)


# the mode of a TMA copy -> its name in C++, and the number of its coordinates minus that of axes
_TENSOR_MODES = dict(gather4=('rows', 3), scatter4=('rows', 3), im2col=('im2col', 0), im2col_no_offs=('im2col', 0))


def _split_at(operands, first, count):
    "Return `count` operands from `first` on, and the others"
    if len(operands) < first + count:
        raise TypeError
    return [*operands[first : first + count]], [*operands[:first], *operands[first + count :]]


def _tensor_copy(function, flags, mode, rank, operands, map_index):
    """Translate a TMA load or store; `map_index` is the index of the tensor map, before the coordinates.

    `mode` is one of `_TENSOR_MODES`, or None for a box. A load in mode im2col has an offset per spatial axis after its
    mbarrier; the runtime takes these after the coordinates."""
    rank = int(rank)
    cpp_mode, additional = _TENSOR_MODES.get(mode, ('tiled', 0))
    coordinates, other_operands = _split_at(operands, map_index + 1, rank + additional)
    if cpp_mode == 'im2col':
        offsets, other_operands = _split_at(other_operands, 3, rank - 2) if mode == 'im2col' else ([], other_operands)
        coordinates += [f'uint16_t({x})' for x in offsets] + ['0'] * 5
    coordinate_list = ', '.join(f'int32_t({x})' for x in coordinates)
    arguments = ', '.join(filter(None, [flags, f'::gridstride::TensorMode::{cpp_mode}']))
    call = _ptx(f'{function}<{arguments}>', 'gs_at', str(rank), *other_operands)
    return f'{{ const int32_t gs_at[] = {{{coordinate_list}}}; {call}; }}'


def _matrices(words):
    "Return the template arguments of `ldmatrix` and `stmatrix` for the words of the instruction, in any order"
    return f"<{re.search('x([124])', words)[1]}, {_cpp_bool('.trans' in words)}>"


_SMALL_FLOAT = '(e2m1|e2m3|e3m2|e4m3|e5m2)'


def _small_float(function, type, operands):
    "Translate a conversion from or to a pair of floats of 4, 6 or 8 bits"
    return _ptx(f'{function}<::gridstride::{type.upper()}>', *operands)


def _pack(bits, d, *parts):
    "Translate `mov d, {a, b}`; a part that is a number has the size of the others"
    part_type = f'uint{int(bits) // len(parts)}_t'
    return _ptx('pack', d, *(f'{part_type}({x})' if x.isdigit() else x for x in parts))


_ATOMIC_OPERATIONS = dict(add='Add', exch='Exchange', min='Minimum', max='Maximum', xor='Xor', inc='Increment')
_ATOMIC_OPERATIONS |= {'and': 'And', 'or': 'Or', 'dec': 'Decrement'}
_ATOMIC_TYPES = {f'{k}{n}': f'{t}{n}_t' for n in (32, 64) for k, t in (('b', 'uint'), ('u', 'uint'), ('s', 'int'))}
_ATOMIC_TYPES |= dict(f32='float', f64='double')


def _atomic(qualifiers, op, type, *operands):
    "Translate `atom`, or `red`, which has no destination"
    words = qualifiers.split('.')
    order = next((word for word in words if word in ('acquire', 'release', 'acq_rel')), 'relaxed')
    scope = next((word for word in words if word in _SCOPE), 'gpu')
    function = f'update<::gridstride::{_ATOMIC_OPERATIONS[op]}, {_ATOMIC_TYPES[type]}>'
    *destination, address, value = operands
    target = destination[0] if destination else '::gridstride::ptx::Sink()'
    return _ordered_access(function, order, scope, target, address, value)


def _multimem(function, qualifiers, op, type, *operands):
    "Translate `multimem`, an operation on all devices; a vector has an operand per element, and `.weak` is relaxed"
    words = qualifiers.split('.')
    order = next((word for word in words if word in ('acquire', 'release')), 'relaxed')
    scope = next((word for word in words if word in _SCOPE), 'sys')
    types = [f'::gridstride::{_ATOMIC_OPERATIONS[op]}' for op in filter(None, [op])] + [_ATOMIC_TYPES[type]]
    address, *others = (operands[-1], *operands[:-1]) if function == 'multimem_load' else operands
    return _ordered_access(f"{function}<{', '.join(types)}>", order, scope, address, *others)


def _sparse_wgmma(n, type, *operands):
    "Translate a sparse wgmma, which has metadata and a selector after b"
    index = int(n) // 2 + (2 if len(operands) == int(n) // 2 + 9 else 5)
    metadata, selector = operands[index : index + 2]
    return _wgmma(n, type, *operands[:index], *operands[index + 2 :], sparse=(metadata, selector))


def _wgmma(n, type, *operands, sparse=(), has_half_sums=False):
    "Translate a wgmma with operands d, a (a descriptor or four registers), b, scale-d, the signs, the transpose flags"
    num_registers = int(n) // (4 if has_half_sums else 2)
    d, other_operands = operands[:num_registers], operands[num_registers:]
    if not all(re.fullmatch(r'gs_\d+', x) for x in d):
        _refuse('wgmma whose d is not made of operands %0, %1, ...', 'write them as "+f"(d[0]), "+f"(d[1]), ...')
    transposes = 2 if 'f16' in type else 0  # other types have both operands K-major
    a_in_registers = len(other_operands) == 8 + transposes // 2
    if not a_in_registers and len(other_operands) != 5 + transposes:
        raise TypeError
    a, other_operands = (other_operands[:4], other_operands[4:]) if a_in_registers else ((), other_operands)
    if a_in_registers:
        other_operands = ('0', *other_operands[:4], *(('0', *other_operands[4:]) if transposes else ()))
    pointer = 'reinterpret_cast<float *>({})' if type == 's8' or has_half_sums else '{}'  # others are in "r" registers
    results, accumulators = (
        ', '.join(pointer.format(f'&{x}') for x in group) for group in ([x.replace('gs_', 'gs_out_') for x in d], d)
    )
    arrays = f'float *const gs_to[] = {{{results}}}, *const gs_now[] = {{{accumulators}}};'
    arrays += f" const uint32_t gs_a[] = {{{', '.join(a) or '0'}}};"
    if sparse:
        arrays, other_operands = f'{arrays} const uint32_t gs_meta = {sparse[0]};', (*other_operands, '&gs_meta')
    arguments = 'wgmma<::gridstride::Number::' + type, n, _cpp_bool(a_in_registers), *(sparse[1:] or '0')
    function = f"{', '.join(arguments)}, {_cpp_bool(has_half_sums)}>"
    return f"{{ {arrays} {_ptx(function, 'gs_to', 'gs_now', 'gs_a', *other_operands)}; }}"


def _pointers(registers):
    "Return the addresses of registers as `uint32_t *`"
    return ', '.join(f'reinterpret_cast<uint32_t *>(&{x})' for x in registers)


_REGISTERS_PER_REPEAT = {'16x128b': 2, '16x256b': 4}


def _tensor_move(shape, repeats, packs, operands, is_load):
    "Translate tcgen05.ld, with its address (and distance) last, or tcgen05.st, with them first"
    count = int(repeats) * _REGISTERS_PER_REPEAT.get(shape, 1)
    num_others = 2 if shape == '16x32bx2' else 1
    if len(operands) != count + num_others:
        raise TypeError
    registers, others = (
        (operands[:count], operands[count:]) if is_load else (operands[num_others:], operands[:num_others])
    )
    function = f'<::gridstride::TensorShape::s{shape}, {repeats}, {_cpp_bool(packs)}>'
    if not is_load:
        copies = ', '.join(f'::gridstride::ptx::register_bits({x})' for x in registers)
        arrays = f'uint32_t gs_words[] = {{{copies}}}; uint32_t *gs_now[{count}]; '
        arrays += f'for (int gs_i = 0; gs_i < {count}; gs_i++) gs_now[gs_i] = &gs_words[gs_i];'
        return f"{{ {arrays} {_ptx('tensor_store_registers' + function, 'gs_now', *others)}; }}"
    arrays = f'uint32_t *const gs_now[] = {{{_pointers(registers)}}};'
    return f"{{ {arrays} {_ptx('tensor_load_registers' + function, 'gs_now', *others)}; }}"


def _tensor_product(group, kind, in_tensor_memory, d, a, b, descriptor, *operands):
    "Translate tcgen05.mma: masks of lanes are optional, and so is the scale of D"
    num_masks = 4 * int(group)
    masks, operands = (operands[:num_masks], operands[num_masks:]) if len(operands) > 2 else ((), operands)
    accumulates, *scale = operands
    if len(scale) > 1:
        raise TypeError
    function = f'multiply_tensors<::gridstride::TensorKind::{kind}, {group}>'
    array = f"const uint32_t gs_masks[] = {{{', '.join(masks) or '0'}}};"
    call = _ptx(
        function,
        d,
        _cpp_bool(in_tensor_memory),
        a,
        b,
        descriptor,
        accumulates,
        'gs_masks' if masks else 'nullptr',
        *scale,
    )
    return f'{{ {array} {call}; }}'


def _product_as(is_weight_stationary, sparse, group, kind, in_tensor_memory, d, a, b, *operands):
    "Translate tcgen05.mma.ws and tcgen05.mma.sp, whose metadata comes before the descriptor"
    metadata, descriptor, *operands = operands if sparse else ('0', *operands)
    if is_weight_stationary and len(operands) > 1:
        _refuse('tcgen05.mma.ws with a zero-column mask', 'omit the mask')
    num_masks = 4 * int(group)
    masks, operands = (operands[:num_masks], operands[num_masks:]) if len(operands) > 2 else ((), operands)
    if len(operands) not in (1, 2):
        raise TypeError
    flags = f'{_cpp_bool(is_weight_stationary)}, {_cpp_bool(sparse)}'
    function = f'multiply_tensors_as<::gridstride::TensorKind::{kind}, {group}, {flags}>'
    array = f"const uint32_t gs_masks[] = {{{', '.join(masks) or '0'}}};"
    accumulates, *scale = operands
    pointer = 'gs_masks' if masks else 'nullptr'
    arguments = d, _cpp_bool(in_tensor_memory), a, b, metadata, descriptor, accumulates, pointer, *scale
    return f'{{ {array} {_ptx(function, *arguments)}; }}'


_DEFAULT_BLOCK = dict(mxf8f6f4=32, mxf4=32)


def _scaled_product(group, kind, scale, in_tensor_memory, d, a, b, descriptor, a_scales, b_scales, accumulates):
    "Translate tcgen05.mma of a kind with block scales"
    block = _DEFAULT_BLOCK.get(kind)
    if scale:
        number = int(re.search(r'\d+', scale)[0])
        block = number if scale.startswith('block') else {'mxf8f6f4': 32}.get(kind, 64) // number
    if not block or (kind != 'mxf4nvf4' and block != 32):
        raise TypeError
    function = f'multiply_tensors<::gridstride::TensorKind::{kind}, {group}, {block}>'
    arguments = d, _cpp_bool(in_tensor_memory), a, b, descriptor, accumulates, 'nullptr', '0', a_scales, b_scales
    return _ptx(function, *arguments)


def _tensor_copy_shape(shape):
    return '::gridstride::TensorCopyShape::c' + re.sub(r'\.warpx\d(?:::)?', '_', shape).rstrip('_')


def _named_barrier(operation, barrier, *threads):
    if barrier == '0' and not threads:
        return '::gridstride::sync_block(__LINE__)'
    if not threads:
        _refuse(f'barrier {barrier} without a number of threads', 'write the number, as in bar.sync %0, 128')
    return f"::gridstride::named_barrier({barrier}, {threads[0]}, {_cpp_bool(operation == 'sync')}, __LINE__)"


_MANTISSA = dict(f16=10, bf16=7)  # bits
_FUNCTIONS = dict(lg2='::log2f', sin='::sinf', cos='::cosf', tanh='::tanhf', sqrt='::sqrtf')
_SHARED = r'\.shared(?:::cluster)?'
_OPERATORS = {'add': '+', 'sub': '-', 'mul': '*', 'and': '&', 'or': '|', 'xor': '^'}


def _as_unsigned(bits, operand):
    return f'uint{bits}_t({operand})'


def _as_integer(kind, bits, operand):
    return f'{"int" if kind == "s" else "uint"}{bits}_t({operand})'


# (pattern of an instruction, function that returns C++ code for it). The arguments of the function are the groups of
# the pattern, then the operands. A vector `{a, b}` counts as two operands; an address `[a+4]` is the sum.
_CALLS = [
    (re.compile(pattern), translate)
    for pattern, translate in (
        (
            r'cp\.async\.(ca|cg)\.shared\.global',
            lambda cache, dst, src, bytes, *src_size: _ptx(
                f"copy<{_cpp_bool(cache == 'cg')}, {bytes}>", dst, src, *src_size
            ),
        ),
        (r'cp\.async\.commit_group', lambda: '::gridstride::copy_async_commit()'),
        (r'cp\.async\.wait_group', lambda n: f'::gridstride::copy_async_wait({n})'),
        (r'cp\.async\.wait_all', lambda: '::gridstride::copy_async_wait_all()'),
        (
            r'ldmatrix\.sync\.aligned((?:\.(?:x[124]|m8n8|trans|shared|b16))+)',
            lambda words, *operands: _ptx(f'ldmatrix{_matrices(words)}', operands[-1], *operands[:-1]),
        ),
        (
            r'stmatrix\.sync\.aligned((?:\.(?:x[124]|m8n8|trans|shared|b16))+)',
            lambda words, *operands: _ptx(f'stmatrix{_matrices(words)}', *operands),
        ),
        (r'movmatrix\.sync\.aligned\.m8n8\.trans\.b16', lambda *operands: _ptx('movmatrix', *operands)),
        (
            r'mma\.sync\.aligned\.m16n8k(16|32)\.row\.col(?:\.satfinite)?\.s32\.([su]8)\.\2\.s32(?:\.satfinite)?',
            lambda k, t, *operands: _ptx(f'mma<{k}, ::gridstride::ptx::{t}, ::gridstride::ptx::s32>', *operands),
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
                f'mma_sp<{k}, ::gridstride::ptx::{t}, {_cpp_bool(ordered)}, {operands[-1]}>', *operands[:-1]
            ),
        ),
        (r'mbarrier\.init(?:\.shared)?\.b64', lambda *operands: _ptx('init', *operands)),
        (r'mbarrier\.inval(?:\.shared)?\.b64', lambda barrier: _ptx('invalidate', barrier)),
        (
            rf'mbarrier\.expect_tx(?:\.relaxed\.(?:cta|cluster))?{_SHARED}\.b64',
            lambda *operands: _ptx('expect', *operands),
        ),
        (
            rf'mbarrier\.arrive(\.expect_tx)?(?:\.release)?(?:\.(?:cta|cluster))?{_SHARED}\.b64',
            lambda expects, *operands: _ptx('arrive', _cpp_bool(expects), *operands),
        ),
        (
            r'mbarrier\.(try|test)_wait(?:\.parity)?(?:\.acquire)?(?:\.(?:cta|cluster))?\.shared\.b64',
            lambda mode, p, barrier, phase, *hint: (
                f"{p} = {_ptx('wait_parity', _cpp_bool(mode == 'try'), barrier, phase)}"
            ),
        ),
        (r'fence\.mbarrier_init\.release\.cluster', lambda: '::gridstride::fence_mbarrier_init()'),
        (r'fence\.proxy\.async(?:\.global|\.shared(?:::cluster)?)?', lambda: '::gridstride::fence_proxy_async()'),
        (r'fence\.(?:acq_rel|sc)\.(cta|cluster|gpu|sys)', lambda scope: f'::gridstride::fence({_scope_of(scope)})'),
        (
            rf'cp\.async\.bulk{_SHARED}\.global\.mbarrier::complete_tx::bytes(?:\.multicast::cluster)?',
            lambda dst, src, bytes, barrier, *blocks: _ptx('bulk_load', dst, src, bytes, barrier, *blocks),
        ),
        (
            r'st\.async(?:\.weak)?\.shared::cluster\.mbarrier::complete_tx::bytes(?:\.v[24])?\.[bsuf](?:32|64)',
            lambda dst, *operands: _ptx('store_async', dst, operands[-1], *operands[:-1]),
        ),
        (r'cp\.async\.bulk\.global\.shared\.bulk_group', lambda dst, src, bytes: _ptx('bulk_store', dst, src, bytes)),
        (
            rf'cp\.async\.bulk\.tensor\.([1-5])d(?:\.cta_group::[12])?{_SHARED}\.global'
            r'(?:\.tile(?:::(gather4))?|\.(im2col))?'
            r'\.mbarrier::complete_tx::bytes(?:\.multicast::cluster|\.cta_group::[12])*(\.pair)?',
            lambda rank, gather, im2col, pair, *operands: _tensor_copy(
                'tensor_load', _cpp_bool(pair), gather or im2col, rank, operands, 1
            ),
        ),
        (
            r'cp\.async\.bulk\.tensor\.([1-5])d\.global\.shared(?:\.tile(?:::(scatter4))?|\.(im2col_no_offs))?'
            r'\.bulk_group',
            lambda rank, scatter, im2col, *operands: _tensor_copy(
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
            lambda n, t, *operands: _wgmma(n, t, *operands),
        ),
        (
            r'wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f16\.f16\.f16',
            lambda n, *operands: _wgmma(n, 'f16', *operands, has_half_sums=True),
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
        (
            r'tcgen05\.alloc\.cta_group::([12])\.sync\.aligned(?:\.shared)?\.b32',
            lambda group, to, columns: _ptx('tensor_alloc', group, to, columns),
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
            lambda shape, n, packs, *operands: _tensor_move(shape, n, packs, operands, True),
        ),
        (
            r'tcgen05\.st\.sync\.aligned\.(32x32b|16x64b|16x128b|16x256b|16x32bx2)\.x(\d+)(\.unpack::16b)?\.b32',
            lambda shape, n, packs, *operands: _tensor_move(shape, n, packs, operands, False),
        ),
        (
            r'tcgen05\.wait::(ld|st)\.sync\.aligned',
            lambda what: f"::gridstride::tmem_wait({_cpp_bool(what == 'ld')}, __LINE__)",
        ),
        (
            r'tcgen05\.fence::(before|after)_thread_sync',
            lambda side: f"::gridstride::tmem_fence({_cpp_bool(side == 'before')})",
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
                f'::gridstride::tmem_copy({group}, {_tensor_copy_shape(shape)}, {address}, {descriptor}, __LINE__)'
            ),
        ),
        (
            r'tcgen05\.shift\.cta_group::([12])\.down',
            lambda group, address: f'::gridstride::tmem_shift({group}, {address}, __LINE__)',
        ),
        (
            r'tcgen05\.mma\.cta_group::([12])\.kind::(f16|tf32|f8f6f4|i8)'
            r'(?:\.collector::a::(?:fill|use|lastuse|discard))?(\.tensor_a)?',
            _tensor_product,
        ),
        (
            r'tcgen05\.mma\.ws(\.sp)?\.cta_group::(1)\.kind::(f16|tf32|f8f6f4|i8)'
            r'(?:\.collector::b[0-3]::(?:fill|use|lastuse|discard))?(\.tensor_a)?',
            lambda *arguments: _product_as(True, *arguments),
        ),
        (
            r'tcgen05\.mma(\.sp)\.cta_group::([12])\.kind::(f16|tf32|f8f6f4|i8)'
            r'(?:\.collector::a::(?:fill|use|lastuse|discard))?(\.tensor_a)?',
            lambda *arguments: _product_as(False, *arguments),
        ),
        (
            r'tcgen05\.mma\.cta_group::([12])\.kind::(mxf8f6f4|mxf4|mxf4nvf4)\.block_scale'
            r'(?:\.(scale_vec::[124]X|block16|block32))?(?:\.collector::a::(?:fill|use|lastuse|discard))?(\.tensor_a)?',
            _scaled_product,
        ),
        (
            r'clusterlaunchcontrol\.try_cancel\.async\.shared\.mbarrier::complete_tx::bytes'
            r'(\.multicast::cluster::all)?\.b128',
            lambda cluster, to, barrier: _ptx('try_cancel', _cpp_bool(cluster), to, barrier),
        ),
        (
            r'clusterlaunchcontrol\.query_cancel\.is_canceled\.pred\.b128',
            lambda p, answer: f'{p} = ::gridstride::ptx::is_canceled({answer})',
        ),
        (
            r'clusterlaunchcontrol\.query_cancel\.get_first_ctaid\.v4\.b32\.b128',
            lambda x, y, z, w, answer: _ptx('first_of_canceled', x, y, z, w, answer),
        ),
        (
            r'clusterlaunchcontrol\.query_cancel\.get_first_ctaid::([xyz])\.b32\.b128',
            lambda axis, d, answer: f'{d} = ::gridstride::bit_cast<::gridstride::Canceled>({answer}).{axis}',
        ),
        (r'setmaxnreg\.(?:inc|dec)\.sync\.aligned\.u32', lambda n: f'::gridstride::ptx::set_registers<{n}>()'),
        (r'mapa\.shared::cluster\.u32', lambda d, address, rank: _ptx('mapa', d, address, rank)),
        (
            r'barrier\.cluster\.arrive(?:\.(?:release|relaxed))?(?:\.aligned)?',
            lambda: '::gridstride::cluster_arrive(__LINE__)',
        ),
        (r'barrier\.cluster\.wait(?:\.acquire)?(?:\.aligned)?', lambda: '::gridstride::cluster_wait(__LINE__)'),
        (r'elect\.sync', lambda d, p, mask: _ptx('elect', d, p, mask)),
        (r'prefetch\.tensormap|prefetch\.global\.L[12]|prefetchu\.L1|discard\.global\.L2', lambda *operands: ''),
        (r'cp\.async\.bulk\.prefetch\..*', lambda *operands: ''),
        (
            r'cp\.async\.mbarrier\.arrive(\.noinc)?(?:\.shared)?\.b64',
            lambda noinc, barrier: (
                '::gridstride::copy_async_commit(), ::gridstride::copy_async_wait(0)'
                + (f", {_ptx('arrive', 'false', '::gridstride::ptx::Sink()', barrier)}" if noinc else '')
            ),
        ),
        (r'nanosleep\.u32', lambda n: '::gridstride::yield_thread()'),
        (
            r'ld((?:\.(?:acquire|relaxed|volatile|cta|cluster|gpu|sys|global))*\.(?:acquire|relaxed|volatile)'
            r'(?:\.(?:cta|cluster|gpu|sys|global))*)(?:\.v[24])?\.([bsuf](?:8|16|32|64))',
            _ordered_load,
        ),
        (
            r'st((?:\.(?:release|relaxed|volatile|cta|cluster|gpu|sys|global))*\.(?:release|relaxed|volatile)'
            r'(?:\.(?:cta|cluster|gpu|sys|global))*)(?:\.v[24])?\.([bsuf](?:8|16|32|64))',
            _ordered_store,
        ),
        (
            r'multimem\.ld_reduce((?:\.(?:weak|relaxed|acquire|cta|cluster|gpu|sys|global))*)'
            r'\.(add|min|max|and|or|xor)(?:\.v[248])?\.([usbf](?:32|64))',
            lambda *arguments: _multimem('multimem_load', *arguments),
        ),
        (
            r'multimem\.st((?:\.(?:weak|relaxed|release|cta|cluster|gpu|sys|global))*)(?:\.v[248])?\.([usbf](?:32|64))',
            lambda qualifiers, *arguments: _multimem('multimem_store', qualifiers, '', *arguments),
        ),
        (
            r'multimem\.red((?:\.(?:relaxed|release|cta|cluster|gpu|sys|global))*)'
            r'\.(add|min|max|and|or|xor)(?:\.v[248])?\.([usbf](?:32|64))',
            lambda *arguments: _multimem('multimem_update', *arguments),
        ),
        (
            r'red\.async(?:\.mmio)?((?:\.(?:release|cluster|gpu|sys|global))*)'
            r'\.(add|min|max|inc|dec|and|or|xor)\.([usb](?:32|64))',
            _atomic,
        ),
        (
            r'(atom|red)((?:\.(?:relaxed|acquire|release|acq_rel|cta|cluster|gpu|sys|global))*)'
            r'\.(add|exch|min|max|and|or|xor|inc|dec)\.([bsuf](?:32|64))',
            lambda kind, *arguments: _atomic(*arguments),
        ),
        (
            r'ld\.(shared|global)(?:\.nc|\.l?[cu][asguv]?)?\.([bus]8)',
            lambda space, type, d, address: _ptx(f'load_{space}_as<{_MEMORY_TYPES[type]}>', address, d),
        ),
        (
            r'st\.(shared|global)(?:\.[cw][bgst])?\.([bus]8)',
            lambda space, type, *operands: _ptx(f'store_{space}_as<{_MEMORY_TYPES[type]}>', *operands),
        ),
        (
            r'ld\.(shared|global)(?:::cluster)?(?:\.nc|\.l?[cu][asguv]?)?(?:\.v[24])?\.[bsuf](?:16|32|64|128)',
            lambda space, *operands: _ptx(f'load_{space}', operands[-1], *operands[:-1]),
        ),
        (
            r'st\.(shared|global)(?:::cluster)?(?:\.[cw][bgst])?(?:\.v[24])?\.[bsuf](?:16|32|64)',
            lambda space, *operands: _ptx(f'store_{space}', *operands),
        ),
        (r'createpolicy\.fractional\.b64', lambda d, *operands: f'{d} = 0'),
        (r'griddepcontrol\.(?:wait|launch_dependents)', lambda: ''),
        (r'cvta\.to\.(shared|global)\.u64', lambda space, d, s: _ptx(f'to_{space}', d, s)),
        (r'cvt\.u(?:32\.u64|64\.u32)', lambda d, s: _ptx('convert', d, s)),
        (r'cvt\.rna\.tf32\.f32', lambda d, s: _ptx('to_tf32', d, s)),
        (r'cvt\.rn\.(b?f16)x2\.f32', lambda t, d, a, b: _ptx(f"to_pair<{7 if t == 'bf16' else 10}>", d, a, b)),
        (
            rf'cvt\.rn\.satfinite\.{_SMALL_FLOAT}x2\.f32',
            lambda t, *operands: _small_float('to_small_pair', t, operands),
        ),
        (
            rf'cvt\.rn\.satfinite\.{_SMALL_FLOAT}x2\.f16x2',
            lambda t, *operands: _small_float('halves_to_small_pair', t, operands),
        ),
        (rf'cvt\.rn\.f16x2\.{_SMALL_FLOAT}x2', lambda t, *operands: _small_float('small_pair_to_halves', t, operands)),
        (
            r'cvt\.(rz|rp)(\.satfinite)?\.ue8m0x2\.(f32|bf16x2)',
            lambda rounding, saturates, source, *operands: _ptx(
                'to_scales' if source == 'f32' else 'bfloats_to_scales',
                *operands,
                _cpp_bool(saturates),
                dict(rz='::cudaRoundZero', rp='::cudaRoundPosInf')[rounding],
            ),
        ),
        (r'cvt\.rn\.bf16x2\.ue8m0x2', lambda d, s: _ptx('scales_to_bfloats', d, s)),
        (r'ex2\.approx(?:\.ftz)?\.f32', lambda d, s: f'{d} = ::exp2f({s})'),
        (r'rcp\.approx(?:\.ftz)?\.f32', lambda d, s: f'{d} = 1 / {s}'),
        (
            r'(add|sub|and|or|xor)\.([usb])(32|64)',
            lambda op, t, n, d, a, b: f'{d} = {_as_unsigned(n, a)} {_OPERATORS[op]} {_as_unsigned(n, b)}',
        ),
        (r'mul\.lo\.([usb])(32|64)', lambda t, n, d, a, b: f'{d} = {_as_unsigned(n, a)} * {_as_unsigned(n, b)}'),
        (
            r'mad\.lo\.([usb])(32|64)',
            lambda t, n, d, a, b, c: f'{d} = {_as_unsigned(n, a)} * {_as_unsigned(n, b)} + {_as_unsigned(n, c)}',
        ),
        (
            r'mul\.wide\.([us])32',
            lambda t, d, a, b: (
                f'{d} = {_as_integer(t, 64, _as_integer(t, 32, a))} * {_as_integer(t, 64, _as_integer(t, 32, b))}'
            ),
        ),
        (
            r'(min|max)\.([us])(32|64)',
            lambda op, t, n, d, a, b: f'{d} = std::{op}({_as_integer(t, n, a)}, {_as_integer(t, n, b)})',
        ),
        (r'not\.b(32|64)', lambda n, d, a: f'{d} = ~{_as_unsigned(n, a)}'),
        (r'shl\.b(32|64)', lambda n, d, a, s: f'{d} = {s} < {n} ? {_as_unsigned(n, a)} << {s} : 0'),
        (
            r'shr\.([usb])(32|64)',
            lambda t, n, d, a, s: f'{d} = {_as_integer(t, n, a)} >> ({s} < {n} ? {s} : {n} - 1) >> ({s} < {n} ? 0 : 1)',
        ),
        (r'popc\.b(32|64)', lambda n, d, a: f'{d} = __builtin_popcountll({_as_unsigned(n, a)})'),
        (
            r'clz\.b(32|64)',
            lambda n, d, a: f'{d} = {_as_unsigned(n, a)} ? __builtin_clzll({_as_unsigned(n, a)}) - (64 - {n}) : {n}',
        ),
        (r'brev\.b32', lambda d, a: f'{d} = __brev({a})'),
        (
            r'bfind\.u(32|64)',
            lambda n, d, a: f'{d} = {_as_unsigned(n, a)} ? 63 - __builtin_clzll({_as_unsigned(n, a)}) : ~0u',
        ),
        (r'(add|sub|mul)(?:\.rn)?(?:\.ftz)?\.f(?:32|64)', lambda op, d, a, b: f'{d} = {a} {_OPERATORS[op]} {b}'),
        (r'fma\.rn(?:\.ftz)?\.f(?:32|64)', lambda d, a, b, c: f'{d} = std::fma({a}, {b}, {c})'),
        (
            r'v(add|sub|absdiff|min|max|avrg|shl|shr)([24]?)((?:\.[us]32){3})((?:\.(?:sat|clamp|wrap|add|min|max))*)',
            _video,
        ),
        (r'mov\.[bsuf](?:16|32|64)', lambda d, s: _ptx('mov', d, s)),
        (r'mov\.[bsuf](16|32|64|128)\.pack', _pack),
        (r'mov\.[bsuf](?:16|32|64|128)\.unpack', lambda *operands: _ptx('unpack', operands[-1], *operands[:-1])),
        (r'lop3\.b32', lambda *operands: _ptx('lop3', *operands)),
        (r'fma\.rn(?:\.ftz)?\.(b?f16)x2', lambda t, *operands: _ptx(f'fma_pair<{_MANTISSA[t]}>', *operands)),
        (
            r'(add|sub|mul)(?:\.rn)?(?:\.ftz)?\.(b?f16)x2',
            lambda op, t, d, a, b: _ptx(
                f'apply_pair<{_MANTISSA[t]}>', d, f'[](double x, double y) {{ return x {_OPERATORS[op]} y; }}', a, b
            ),
        ),
        (r'(lg2|sin|cos|tanh|sqrt)\.(?:approx|rn)(?:\.ftz)?\.f32', lambda f, d, s: f'{d} = {_FUNCTIONS[f]}({s})'),
        (r'rsqrt\.approx(?:\.ftz)?\.f32', lambda d, s: f'{d} = ::rsqrtf({s})'),
        (r'(min|max)(?:\.ftz)?\.f32', lambda op, d, a, b: f'{d} = ::f{op}f({a}, {b})'),
        (r'brkpt|trap', lambda: '::__trap()'),
        (r'selp\.[bsuf](?:16|32|64)', lambda d, a, b, p: f'{d} = {p} ? {a} : {b}'),
        (r'setp\.(eq|ne|lt|le|gt|ge)\.([bsu](?:32|64))', _comparison),
        (r'(?:bar|barrier)\.(sync|arrive)(?:\.aligned)?', _named_barrier),
        (r'bar\.warp\.sync', lambda mask: f'::gridstride::sync_warp({mask}, __LINE__)'),
    )
]

_SUPPORTED = (
    'cp.async.ca and .cg, cp.async.commit_group, .wait_group and .wait_all; ldmatrix, stmatrix, movmatrix; '
    'mma.sync of m16n8k16 and m16n8k8 for bf16 and f16, of m16n8k8 and m16n8k4 for tf32; mma.sp of '
    'm16n8k32 and m16n8k16 for bf16 and f16; ld and st of shared and global memory, '
    'hints for the caches, griddepcontrol; cvta.to, cvt (tf32, bf16x2, f16x2, e2m1x2, e2m3x2, e3m2x2, e4m3x2, e5m2x2, '
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


def _refuse(construct, remedy):
    "Raise `UnknownPTX` for a construct that the emulator does not have"
    raise UnknownPTX(f'the emulator does not support {construct} in inline PTX: {remedy}')


# `.shared::cta` and cache hints have no effect on the emulator. Nor does `griddepcontrol`, which starts the next launch
# early: on the emulator, a launch ends before the next one begins.
def _instruction(name, operands):
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
            _refuse(f'{name} with {len(operands)} operands', f'it supports {_SUPPORTED}')
    _refuse(f'instruction {name}', f'it supports {_SUPPORTED}')


# Special registers are written with `%%` in inline PTX, since `%` begins the index of an operand.
_SPECIAL_REGISTERS = dict(
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
            cluster_ctaid='::gridstride::ptx::index_in_cluster()',
            nclusterid='::gridstride::ptx::clusters_of_grid()',
        ).items()
        for d in 'xyz'
    },
    cluster_ctarank='::gridstride::cluster_rank()',
    cluster_nctarank='::gridstride::cluster_blocks()',
)


def _label(name):
    return 'gs_label_' + re.sub(r'\W', '_', name)


def _operand(text, registers, num_operands):
    "Return C++ code for an operand, which may be one of `registers`; for `{a, b}`, several operands with commas"
    text = text.strip()
    for pattern in (_VECTOR, _TENSOR, _PAIR):
        if m := pattern.fullmatch(text):
            return ', '.join(_operand(part, registers, num_operands) for part in _list_parts(*m.groups()))
    if m := _ADDRESS.fullmatch(text):
        return _operand(m[1], registers, num_operands) + (
            f' + {_operand(m[2], registers, num_operands)}' if m[2] else ''
        )
    if m := re.fullmatch(r'%(\d+)', text):
        if int(m[1]) >= num_operands:
            _refuse(f'operand {text}', f'this asm statement has {num_operands}')
        return f'gs_{m[1]}'
    if text in registers:
        return _register(text)
    return _constant(text)


# `{a, b}`, `[map, {x, y}]`, `a|b` and `[address + offset]`
_VECTOR = re.compile(r'\{(.*)\}', re.S)
_TENSOR = re.compile(r'\[\s*([^\s,]+)\s*,\s*(\{.*\})\s*\]', re.S)
_PAIR = re.compile(r'(\S+)\s*\|\s*(\S+)')
_ADDRESS = re.compile(r'\[\s*([^\s+]+)\s*(?:\+\s*([^\]]+?))?\s*\]')


def _list_parts(first, second=None):
    return [first, second] if second else first.split(',')


def _constant(text):
    "Return C++ code for an operand that is a number, a special register, a macro's parameter, or `_` (unused)"
    if text == '_':
        return '::gridstride::ptx::Sink()'
    if text[:1] == '%' and text.lstrip('%') in _SPECIAL_REGISTERS:
        return _SPECIAL_REGISTERS[text.lstrip('%')]
    if m := re.fullmatch(r'\x01(\w+)\x01', text):
        return f'({m[1]})'  # a macro's parameter, which `#` has turned into text
    if m := re.fullmatch(r'0[fF]([0-9a-fA-F]{8})', text):
        return f'::gridstride::bit_cast<float>(0x{m[1]}u)'
    if text == 'WARP_SZ':
        return '32'
    if re.fullmatch(r'-?(?:0[xX][0-9a-fA-F]+|\d+)U?', text):
        return text
    if re.fullmatch(r'-?\d+\.\d*', text):
        return text + 'f'
    supported = 'registers that the PTX declares, integers, and %%laneid, %%lanemask_lt, %%smid, %%tid.x and the like'
    _refuse(f'operand {text!r}', f'it supports %0, %1, ..., {supported}')


def _register(name):
    return 'gs_register_' + re.sub(r'\W', '_', name)


def _split_operands(text):
    "Split the operands of an instruction at the commas outside brackets"
    return [part for part in re.findall(r'(?:\{[^}]*\}|\[[^\]]*\]|[^,{\[])+', text) if part.strip()]


_STATEMENT = re.compile(
    r'\s*(?:(?P<brace>[{}])|(?:@(?P<not>!?)\s*(?P<guard>[\w%$]+)\s+)?(?P<name>\.?[A-Za-z][\w.:]*)(?P<operands>[^;]*);)'
)

_LABEL = re.compile(r'(?:(?<=[;{}\n])|\A)\s*([A-Za-z_$%][\w$]*)\s*:(?!:)')


@lru_cache(256)  # a source repeats its PTX
def translate_ptx(
    text: str,  # PTX, with `%0`, `%1`, ... for its operands
    num_operands: int,
) -> str:  # C++ code; operand n is its variable `gs_n`
    "Translate PTX to C++ statements; raises `UnknownPTX` if an instruction has no translation"
    text = re.sub(r'//[^\n]*|/\*.*?\*/', ' ', text, flags=re.S).rstrip()
    statements = []
    registers = set()  # those that the PTX declares
    pos = 0
    labels = ''.join(f'__label__ {_label(label)}; ' for label in dict.fromkeys(_LABEL.findall(text)))
    while pos < len(text):
        if m := _LABEL.match(text, pos):
            pos = m.end()
            statements.append(f'{_label(m[1])}:;')
            continue
        if not (m := _STATEMENT.match(text, pos)):
            _refuse(f'{text[pos:].strip()!r}', 'an instruction ends with a semicolon')
        pos = m.end()
        statements.append(m['brace'] or _translate_statement(m, registers, num_operands))
    return f"{{ {labels}{' '.join(statements)} }}" if labels else ' '.join(statements)


def _translate_statement(m, registers, num_operands):
    "Return C++ code for one statement of PTX; a declaration adds to `registers`"
    if m['name'].startswith('.'):
        return _declaration(m['name'], m['operands'], registers)
    guard = f"if ({m['not']}{_operand(m['guard'], registers, num_operands)}) " if m['guard'] else ''
    if m['name'].startswith('bra'):
        return f"{guard}goto {_label(m['operands'].strip())};"
    parts = _split_operands(m['operands'])
    operands = [x for part in parts for x in _operand(part, registers, num_operands).split(', ')]
    name = m['name']
    if name.startswith('mov.') and len(operands) > 2:
        name += '.unpack' if parts[0].strip().startswith('{') else '.pack'
    if name.startswith('tcgen05.mma') and len(parts) > 1 and parts[1].strip().startswith('['):
        name += '.tensor_a'  # A is in tensor memory, not in shared memory
    return f"{guard}{_instruction(name, operands)};"


def _declaration(name, types, registers):
    "Add declared registers to `registers`, and return C++ code that declares them"
    m = re.fullmatch(r'\s*\.(\w+)\s+([\w$%]+(?:\s*,\s*[\w$%]+)*)\s*', types)
    if name != '.reg' or not m or m[1] not in _TYPES:
        _refuse(f'declaration {(name + types).strip()!r}', f".reg of {', '.join(_TYPES)} only")
    names = re.split(r'\s*,\s*', m[2])
    registers.update(names)
    return f"{_TYPES[m[1]]} {', '.join(f'{_register(name)}{{}}' for name in names)};"
