"""Helper functions of the generated C: Python's operators that C lacks, and atomic operations that CUDA lacks."""

from ..types import C_NAMES


# The helpers that a kernel uses are emitted before it. `T` is a placeholder for their C type.
HELPERS = {
    'floor_div': '''__device__ inline T floor_div(T a, T b) {  // as Python's //
    T q = a/b;
    return q*b != a && (a < 0) != (b < 0) ? q - 1 : q;
}''',
    'floor_mod': '''__device__ inline T floor_mod(T a, T b) {  // as Python's %
    T r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}''',
    'real_mod': '''__device__ inline T real_mod(T a, T b) {  // as Python's %: the sign is that of b
    T r = fmod(a, b);
    if (r == 0) return copysign((T)0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}''',
    'real_floor_div': '''__device__ inline T real_floor_div(T a, T b) {  // as Python's //
    T r = fmod(a, b);
    if (b == 0) return a/b;
    T q = (a - r)/b;
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;
    if (q == 0) return copysign((T)0, a/b);
    T rounded_down = floor(q);
    return q - rounded_down > (T)0.5 ? rounded_down + 1 : rounded_down;
}''',
    'int_pow': '''__device__ inline T int_pow(T a, T n) {  // modulo 2**64
    unsigned long long r = 1, base = a;
    for (; n > 0; n >>= 1, base *= base)
        if (n & 1) r *= base;
    return r;
}''',
    'square': '__device__ inline T square(T x) { return x*x; }',
    'least': '__device__ inline T least(T a, T b) { return a < b || a != a ? a : b; }  // a NaN stays',
    'greatest': '__device__ inline T greatest(T a, T b) { return a > b || a != a ? a : b; }  // a NaN stays',
    'lane_id': '__device__ inline int lane_id() { '
    'return (threadIdx.x + blockDim.x*(threadIdx.y + blockDim.y*threadIdx.z)) % 32; }',
}


def _compare_and_swap_loop(name, swap, bits, type, from_bits):
    "Return an atomic operation as a compare-and-swap loop; `swap`: the statements of an iteration"
    return f'''__device__ inline {type} {name}({type} *address, {type} value) {{
    {bits} *address_as_bits = ({bits} *)address;
    {bits} old = atomicCAS(address_as_bits, 0, 0), assumed;
    do {{
        assumed = old;
        {type} now = {from_bits('assumed')};
        {swap}
    }} while (old != assumed);
    return {from_bits('old')};
}}'''


def atomic_helper(op, dtype):
    "Return (name, definition) of the atomic operation `op` on elements of `dtype`, which CUDA lacks"
    type = C_NAMES[dtype]
    bits = 'unsigned long long' if type in ('double', 'long long', 'unsigned long long') else 'unsigned int'
    to_bits = {'float': '__float_as_uint({})', 'double': '__double_as_longlong({})'}.get(type, '{}')
    from_bits = {'float': '__uint_as_float({})', 'double': '__longlong_as_double({})'}.get(type, f'({type}){{}}')
    name = {
        'max': 'atomic_max',
        'min': 'atomic_min',
        'nanmax': 'atomic_nanmax',
        'nanmin': 'atomic_nanmin',
        'inc': 'atomic_inc',
        'dec': 'atomic_dec',
    }[op]
    condition = {
        'max': 'value > now',
        'min': 'value < now',
        'nanmax': 'value > now || now != now',
        'nanmin': 'value < now || now != now',
    }.get(op)
    stop = f'if (!({condition})) break;' if condition else ''
    new = {'inc': 'now >= value ? 0 : now + 1', 'dec': 'now == 0 || now > value ? value : now - 1'}.get(op, 'value')
    swap = f'old = atomicCAS(address_as_bits, assumed, {to_bits.format(new)});'
    swap = f'{stop}\n        {swap}' if stop else swap
    return name, _compare_and_swap_loop(name, swap, bits, type, from_bits.format)
