"""Instructions that C has no words for, as C functions: `PTX`, the text of `ptx.cuh`, `primitives`, some of them and of
`clusters.cuh`, and `wgmma`, which is written by a function."""

import re
from importlib.resources import files

PTX, _CLUSTERS = (files(__package__).joinpath(o).read_text(encoding='utf-8') for o in ('ptx.cuh', 'clusters.cuh'))


# A function begins at a line of its own, and ends there or with a brace that stands alone. A lesson shows few of them
# at a time, and a kernel that has no others is compiled for GPUs that lack what those need.
_FUNCTION = re.compile(r'^(?:template<.*> )?__device__ \w+ (\w+)\((?:.*\} *(?://.*)?|.*\n(?: .*\n)*\})$', re.M)


def primitives(*names) -> str:  # CUDA C, below `typedef unsigned u32;`
    "The functions of the headers that have these names, in their order; `KeyError` for a name that they have not"
    found = [(m[1], m[0]) for m in _FUNCTION.finditer(PTX + _CLUSTERS)]
    if lacks := set(names) - {name for name, _ in found}:
        has = ', '.join(dict.fromkeys(name for name, _ in found))
        raise KeyError(f'ptx.cuh has no {", ".join(sorted(lacks))}; it has {has}')
    return ''.join(f'{text}\n' for name, text in found if name in names)


# wgmma names each of its registers, which makes a long line.
def wgmma(n: int) -> str:  # n: columns of the result, a multiple of 8 up to 256
    "CUDA C of a function that starts d (+)= m @ n, 64x16 and 16 x `n`, both bf16, by descriptors of shared memory"
    d = n // 2
    registers = ','.join(f'%{i}' for i in range(d))
    operands = ', '.join(f'"+f"(d[{i}])' for i in range(d))
    return f'''
// Starts d (+)= m @ n of 16 k. *_TRANSPOSED: memory holds the transpose, so that k is not contiguous
template<bool M_TRANSPOSED, bool N_TRANSPOSED> __device__ void wgmma(float (&d)[{d}], u64 m, u64 n, int more) {{
    asm volatile("{{ .reg .pred more; setp.ne.b32 more, %{d + 2}, 0;\\n"
                 "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 "
                 "{{{registers}}}, "
                 "%{d}, %{d + 1}, more, 1, 1, %{d + 3}, %{d + 4}; }}"
                 : {operands}
                 : "l"(m), "l"(n), "r"(more), "n"(M_TRANSPOSED), "n"(N_TRANSPOSED) : "memory");
}}
'''
