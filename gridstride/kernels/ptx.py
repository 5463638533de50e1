"""PTX instructions as CUDA C functions: `PTX` is the source in `ptx.cuh`, and `TCGEN05`, for Blackwell, that in
`tcgen05.cuh`. `primitives` selects functions of `ptx.cuh` and `clusters.cuh`, and `wgmma` generates the function that
issues a `wgmma`. The functions in `STORE_TRANSPOSED` and `STORE_SPLIT_K` store its accumulators."""

import re
from importlib.resources import files

_NAMES = 'ptx', 'clusters', 'store_transposed', 'store_split_k', 'tcgen05'
PTX, _CLUSTERS, STORE_TRANSPOSED, STORE_SPLIT_K, TCGEN05 = (
    files(__package__).joinpath(f'{name}.cuh').read_text(encoding='utf-8') for name in _NAMES
)


# A function begins on a new line, and ends on the same line or with a brace alone on its line. A kernel includes
# only the functions that it calls, so that it also compiles for GPUs that lack the instructions of the others.
_FUNCTION = re.compile(r'^(?:template<.*> )?__device__ \w+ (\w+)\((?:.*\} *(?://.*)?|.*\n(?: .*\n)*\})$', re.M)


def primitives(*names) -> str:  # CUDA C that needs `typedef unsigned u32;` above it
    "Return the functions with these names, in the order of the headers; raises `KeyError` for an unknown name"
    functions = [(match[1], match[0]) for match in _FUNCTION.finditer(PTX + _CLUSTERS)]
    if unknown := set(names) - {name for name, _ in functions}:
        available = ', '.join(dict.fromkeys(name for name, _ in functions))
        raise KeyError(f'ptx.cuh has no {", ".join(sorted(unknown))}; it has {available}')
    return ''.join(f'{code}\n' for name, code in functions if name in names)


# A `wgmma` names every register of its accumulators, so each tile width needs its own function.
def wgmma(n: int) -> str:  # n: columns of the result, a multiple of 8 up to 256
    "Return a CUDA C function that issues d (+)= m @ n for bf16 tiles of 64 x 16 and 16 x `n`, given by descriptors"
    size = n // 2  # accumulators per thread
    registers = ','.join(f'%{i}' for i in range(size))
    operands = ', '.join(f'"+f"(d[{i}])' for i in range(size))
    return f'''
// Issues d (+)= m @ n for 16 elements along k. *_TRANSPOSED: the operand is stored transposed: k is not contiguous
template<bool M_TRANSPOSED, bool N_TRANSPOSED> __device__ void wgmma(float (&d)[{size}], u64 m, u64 n, int more) {{
    asm volatile("{{ .reg .pred more; setp.ne.b32 more, %{size + 2}, 0;\\n"
                 "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 "
                 "{{{registers}}}, "
                 "%{size}, %{size + 1}, more, 1, 1, %{size + 3}, %{size + 4}; }}"
                 : {operands}
                 : "l"(m), "l"(n), "r"(more), "n"(M_TRANSPOSED), "n"(N_TRANSPOSED) : "memory");
}}
'''
