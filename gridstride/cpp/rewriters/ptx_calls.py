"""C++ code for PTX instructions: each function here returns a call of a function in the emulator's `ptx.h`.

An operand is C++ code, `gs_0` for `%0`. `ptx_instructions` selects the function by the name of the instruction.
"""

import re


class UnknownPTX(ValueError):
    "The emulator cannot translate a PTX instruction or operand"


def call_ptx(name, *args):
    "Return C++ code that calls the function `name` of `ptx.h`"
    return f"::gridstride::ptx::{name}({', '.join(['GS_LINE', *args])})"


DISCARDED_OPERAND = '::gridstride::ptx::DiscardedOperand()'  # `_` as a destination


def cpp_bool(x):
    "Return the truth value of `x` as C++ code: `true` or `false`"
    return str(bool(x)).lower()


_COMPARISON_OPERATORS = dict(eq='==', ne='!=', lt='<', le='<=', gt='>', ge='>=')
REGISTER_TYPES = dict(pred='bool', b128='unsigned __int128', f32='float', f64='double')
REGISTER_TYPES |= {f'{k}{n}': f'uint{n}_t' for n in (8, 16, 32, 64) for k in 'bus'}


def compare(op, type, p, a, b):
    "Translate `setp`, which sets the predicate `p`"
    signed = f'int{type[1:]}_t' if type[0] == 's' else ''
    return f'{p} = {signed}({a}) {_COMPARISON_OPERATORS[op]} {signed}({b})'


_SCOPE = dict(cta='block', cluster='device', gpu='device', sys='system')


def scope_of(qualifier):
    "Return the scope of a qualifier, such as `gpu`, as C++ code"
    return f'::gridstride::Scope::{_SCOPE[qualifier]}'


def _ordered_access(function, order, scope, *operands):
    "Translate a load or store with a memory order and a scope"
    return call_ptx(function, f'::gridstride::Order::{order}', scope_of(scope), *operands)


def _order_and_scope(qualifiers, default_scope='sys', orders=('acquire', 'release')):
    "Return the memory order and the scope among the qualifiers of an access, such as `.acquire.gpu`; default: relaxed"
    qualifiers = qualifiers.split('.')
    order = next((qualifier for qualifier in qualifiers if qualifier in orders), 'relaxed')
    return order, next((qualifier for qualifier in qualifiers if qualifier in _SCOPE), default_scope)


MEMORY_TYPES = {
    f'{k}{n}': f'{t}{n}_t' for n in (8, 16, 32, 64) for k, t in (('b', 'uint'), ('u', 'uint'), ('s', 'int'))
}
MEMORY_TYPES |= dict(f32='float', f64='double')


def ordered_load(qualifiers, type, *operands):
    "Translate a load with a memory order, whose last operand is the address"
    function = f'load_ordered<{MEMORY_TYPES[type]}>'
    return _ordered_access(function, *_order_and_scope(qualifiers), operands[-1], *operands[:-1])


def ordered_store(qualifiers, type, *operands):
    "Translate a store with a memory order"
    return _ordered_access(f'store_ordered<{MEMORY_TYPES[type]}>', *_order_and_scope(qualifiers), *operands)


def video(operation, lanes, types, qualifiers, d, a, b, *c):
    """Translate a video instruction, scalar or SIMD on two or four parts of a word, such as `vshr` or `vabsdiff4`.

    `qualifiers`: `sat`, `clamp` for a shift, and the operation that combines the result with a third source, which SIMD
    instructions always have."""
    combination = next((name for name in qualifiers.split('.') if name in ('add', 'min', 'max')), 'nothing')
    if len(c) != (lanes != '' or combination != 'nothing'):
        raise TypeError
    flags = *(x == 's32' for x in types[1:].split('.')), 'sat' in qualifiers, 'clamp' in qualifiers
    arguments = f'Video::{operation}', lanes or '1', f'Video::{combination}', *map(cpp_bool, flags)
    return call_ptx(f"video<{', '.join(arguments).replace('Video', '::gridstride::ptx::Video')}>", d, a, b, *c)


# the mode of a TMA copy -> its name in C++, and how many more coordinates than axes it has
_TENSOR_MODES = dict(gather4=('rows', 3), scatter4=('rows', 3), im2col=('im2col', 0), im2col_no_offs=('im2col', 0))


def _split_at(operands, first, count):
    "Return `count` operands from `first` on, and the others"
    if len(operands) < first + count:
        raise TypeError
    return [*operands[first : first + count]], [*operands[:first], *operands[first + count :]]


def tensor_copy(function, flags, mode, rank, operands, map_index):
    """Translate a TMA load or store; `map_index` is the index of the tensor map, which precedes the coordinates.

    `mode` is one of `_TENSOR_MODES`, or None for a box. A load in mode im2col has an offset per spatial axis after its
    mbarrier; the runtime expects these after the coordinates."""
    rank = int(rank)
    cpp_mode, additional = _TENSOR_MODES.get(mode, ('tiled', 0))
    coordinates, other_operands = _split_at(operands, map_index + 1, rank + additional)
    if cpp_mode == 'im2col':
        offsets, other_operands = _split_at(other_operands, 3, rank - 2) if mode == 'im2col' else ([], other_operands)
        coordinates += [f'uint16_t({x})' for x in offsets] + ['0'] * 5
    coordinate_list = ', '.join(f'int32_t({x})' for x in coordinates)
    arguments = ', '.join(filter(None, [flags, f'::gridstride::TensorMode::{cpp_mode}']))
    call = call_ptx(f'{function}<{arguments}>', 'gs_at', str(rank), *other_operands)
    return f'{{ const int32_t gs_at[] = {{{coordinate_list}}}; {call}; }}'


def matrix_arguments(qualifiers):
    "Return the template arguments of `ldmatrix` and `stmatrix` for the qualifiers of the instruction, in any order"
    return f"<{re.search('x([124])', qualifiers)[1]}, {cpp_bool('.trans' in qualifiers)}>"


SMALL_FLOAT = '(e2m1|e2m3|e3m2|e4m3|e5m2)'


def small_float(function, type, operands):
    "Translate a conversion from or to a pair of floats of 4, 6 or 8 bits"
    return call_ptx(f'{function}<::gridstride::{type.upper()}>', *operands)


def pack(bits, d, *parts):
    "Translate `mov d, {a, b}`; a literal in braces has the same size as the other parts"
    part_type = f'uint{int(bits) // len(parts)}_t'
    return call_ptx('pack', d, *(f'{part_type}({x})' if x.isdigit() else x for x in parts))


_ATOMIC_OPERATIONS = dict(add='Add', exch='Exchange', min='Minimum', max='Maximum', xor='Xor', inc='Increment')
_ATOMIC_OPERATIONS |= {'and': 'And', 'or': 'Or', 'dec': 'Decrement'}
_ATOMIC_TYPES = {f'{k}{n}': f'{t}{n}_t' for n in (32, 64) for k, t in (('b', 'uint'), ('u', 'uint'), ('s', 'int'))}
_ATOMIC_TYPES |= dict(f32='float', f64='double')


def atomic(qualifiers, op, type, *operands):
    "Translate `atom`, or `red`, which has no destination"
    order, scope = _order_and_scope(qualifiers, 'gpu', ('acquire', 'release', 'acq_rel'))
    function = f'update<::gridstride::{_ATOMIC_OPERATIONS[op]}, {_ATOMIC_TYPES[type]}>'
    *destination, address, value = operands
    target = destination[0] if destination else DISCARDED_OPERAND
    return _ordered_access(function, order, scope, target, address, value)


def multimem(function, qualifiers, op, type, *operands):
    "Translate `multimem`, an operation on all devices; a vector has an operand per element, and `.weak` is relaxed"
    order, scope = _order_and_scope(qualifiers)
    types = [f'::gridstride::{_ATOMIC_OPERATIONS[op]}' for op in filter(None, [op])] + [_ATOMIC_TYPES[type]]
    address, *others = (operands[-1], *operands[:-1]) if function == 'multimem_load' else operands
    return _ordered_access(f"{function}<{', '.join(types)}>", order, scope, address, *others)


def sparse_wgmma(n, type, *operands):
    "Translate a sparse wgmma, which has metadata and a selector after b"
    index = int(n) // 2 + (2 if len(operands) == int(n) // 2 + 9 else 5)
    metadata, selector = operands[index : index + 2]
    return wgmma(n, type, *operands[:index], *operands[index + 2 :], sparse=(metadata, selector))


def wgmma(n, type, *operands, sparse=(), has_half_accumulators=False):
    "Translate a wgmma with operands d, a (a descriptor or four registers), b, scale-d, the signs, the transpose flags"
    num_registers = int(n) // (4 if has_half_accumulators else 2)
    d, other_operands = operands[:num_registers], operands[num_registers:]
    if not all(re.fullmatch(r'gs_\d+', x) for x in d):
        raise_unsupported(
            'a wgmma whose d does not consist of operands %0, %1, ...', 'write "+f"(d[0]), "+f"(d[1]), ...'
        )
    transposes = 2 if 'f16' in type else 0  # other types have both operands K-major
    a_in_registers = len(other_operands) == 8 + transposes // 2
    if not a_in_registers and len(other_operands) != 5 + transposes:
        raise TypeError
    a, other_operands = (other_operands[:4], other_operands[4:]) if a_in_registers else ((), other_operands)
    if a_in_registers:
        other_operands = ('0', *other_operands[:4], *(('0', *other_operands[4:]) if transposes else ()))
    pointer = (
        'reinterpret_cast<float *>({})' if type == 's8' or has_half_accumulators else '{}'
    )  # others are in "r" registers
    results, accumulators = (
        ', '.join(pointer.format(f'&{x}') for x in group) for group in ([x.replace('gs_', 'gs_out_') for x in d], d)
    )
    arrays = f'float *const gs_to[] = {{{results}}}, *const gs_registers[] = {{{accumulators}}};'
    arrays += f" const uint32_t gs_a[] = {{{', '.join(a) or '0'}}};"
    if sparse:
        arrays, other_operands = f'{arrays} const uint32_t gs_meta = {sparse[0]};', (*other_operands, '&gs_meta')
    arguments = 'wgmma<::gridstride::WgmmaType::' + type, n, cpp_bool(a_in_registers), *(sparse[1:] or '0')
    function = f"{', '.join(arguments)}, {cpp_bool(has_half_accumulators)}>"
    return f"{{ {arrays} {call_ptx(function, 'gs_to', 'gs_registers', 'gs_a', *other_operands)}; }}"


def _pointers(registers):
    "Return the addresses of registers as `uint32_t *`"
    return ', '.join(f'reinterpret_cast<uint32_t *>(&{x})' for x in registers)


_REGISTERS_PER_REPEAT = {'16x128b': 2, '16x256b': 4}


def tensor_memory_access(shape, repeats, packs, operands, is_load):
    "Translate tcgen05.ld, whose address (and column offset) is last, or tcgen05.st, whose address is first"
    count = int(repeats) * _REGISTERS_PER_REPEAT.get(shape, 1)
    num_others = 2 if shape == '16x32bx2' else 1
    if len(operands) != count + num_others:
        raise TypeError
    registers, others = (
        (operands[:count], operands[count:]) if is_load else (operands[num_others:], operands[:num_others])
    )
    function = f'<::gridstride::TensorShape::s{shape}, {repeats}, {cpp_bool(packs)}>'
    if not is_load:
        copies = ', '.join(f'::gridstride::ptx::register_bits({x})' for x in registers)
        arrays = f'uint32_t gs_words[] = {{{copies}}}; uint32_t *gs_registers[{count}]; '
        arrays += f'for (int gs_i = 0; gs_i < {count}; gs_i++) gs_registers[gs_i] = &gs_words[gs_i];'
        return f"{{ {arrays} {call_ptx('tensor_store_registers' + function, 'gs_registers', *others)}; }}"
    arrays = f'uint32_t *const gs_registers[] = {{{_pointers(registers)}}};'
    return f"{{ {arrays} {call_ptx('tensor_load_registers' + function, 'gs_registers', *others)}; }}"


def tensor_mma(group, kind, in_tensor_memory, d, a, b, descriptor, *operands):
    "Translate tcgen05.mma; the masks of disabled lanes and the scale of D are optional"
    num_masks = 4 * int(group)
    masks, operands = (operands[:num_masks], operands[num_masks:]) if len(operands) > 2 else ((), operands)
    accumulates, *scale = operands
    if len(scale) > 1:
        raise TypeError
    function = f'multiply_tensors<::gridstride::TensorKind::{kind}, {group}>'
    array = f"const uint32_t gs_masks[] = {{{', '.join(masks) or '0'}}};"
    call = call_ptx(
        function,
        d,
        cpp_bool(in_tensor_memory),
        a,
        b,
        descriptor,
        accumulates,
        'gs_masks' if masks else 'nullptr',
        *scale,
    )
    return f'{{ {array} {call}; }}'


def tensor_mma_variant(is_weight_stationary, sparse, group, kind, in_tensor_memory, d, a, b, *operands):
    "Translate tcgen05.mma.ws and tcgen05.mma.sp, whose metadata comes before the descriptor"
    metadata, descriptor, *operands = operands if sparse else ('0', *operands)
    if is_weight_stationary and len(operands) > 1:
        raise_unsupported('tcgen05.mma.ws with a zero-column mask', 'omit the mask')
    num_masks = 4 * int(group)
    masks, operands = (operands[:num_masks], operands[num_masks:]) if len(operands) > 2 else ((), operands)
    if len(operands) not in (1, 2):
        raise TypeError
    flags = f'{cpp_bool(is_weight_stationary)}, {cpp_bool(sparse)}'
    function = f'multiply_tensors_as<::gridstride::TensorKind::{kind}, {group}, {flags}>'
    array = f"const uint32_t gs_masks[] = {{{', '.join(masks) or '0'}}};"
    accumulates, *scale = operands
    pointer = 'gs_masks' if masks else 'nullptr'
    arguments = d, cpp_bool(in_tensor_memory), a, b, metadata, descriptor, accumulates, pointer, *scale
    return f'{{ {array} {call_ptx(function, *arguments)}; }}'


_DEFAULT_BLOCK = dict(mxf8f6f4=32, mxf4=32)


def block_scaled_mma(group, kind, scale, in_tensor_memory, d, a, b, descriptor, a_scales, b_scales, accumulates):
    "Translate tcgen05.mma of a kind with block scales"
    block = _DEFAULT_BLOCK.get(kind)
    if scale:
        size = int(re.search(r'\d+', scale)[0])
        block = size if scale.startswith('block') else {'mxf8f6f4': 32}.get(kind, 64) // size
    if not block or (kind != 'mxf4nvf4' and block != 32):
        raise TypeError
    function = f'multiply_tensors<::gridstride::TensorKind::{kind}, {group}, {block}>'
    arguments = d, cpp_bool(in_tensor_memory), a, b, descriptor, accumulates, 'nullptr', '0', a_scales, b_scales
    return call_ptx(function, *arguments)


def tensor_copy_shape(shape):
    "Return the shape of a `tcgen05.cp`, such as `64x128b.warpx2::02_13`, as C++ code"
    return '::gridstride::TensorCopyShape::c' + re.sub(r'\.warpx\d(?:::)?', '_', shape).rstrip('_')


def named_barrier(operation, barrier, *threads):
    "Translate `bar.sync` and `bar.arrive`"
    if barrier == '0' and not threads:
        return '::gridstride::sync_block(__LINE__)'
    if not threads:
        raise_unsupported(f'barrier {barrier} without a thread count', 'write the count, as in bar.sync %0, 128')
    return f"::gridstride::named_barrier({barrier}, {threads[0]}, {cpp_bool(operation == 'sync')}, __LINE__)"


def raise_unsupported(construct, remedy):
    "Raise `UnknownPTX` for a construct that the emulator does not support"
    raise UnknownPTX(f'the emulator does not support {construct} in inline PTX: {remedy}')


MANTISSA_BITS = dict(f16=10, bf16=7)  # bits
MATH_FUNCTIONS = dict(lg2='::log2f', sin='::sinf', cos='::cosf', tanh='::tanhf', sqrt='::sqrtf')
SHARED = r'\.shared(?:::cluster)?'
OPERATORS = {'add': '+', 'sub': '-', 'mul': '*', 'and': '&', 'or': '|', 'xor': '^'}


def as_unsigned(bits, operand):
    "Return the operand converted to an unsigned integer, as C++ code"
    return f'uint{bits}_t({operand})'


def as_integer(kind, bits, operand):
    "Return the operand converted to an integer that is signed if `kind` is `s`, as C++ code"
    return f'{"int" if kind == "s" else "uint"}{bits}_t({operand})'
