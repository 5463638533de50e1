"""Test cases for the lesson's exercises. Reading this file spoils them."""

import re
import numpy as np

from ...asm import CompilerMissing, occupancy, resources, sass
from ..grading import normal, problem
from .cuda_c import launch, source
from ...utils import cdiv, check

__all__ = [
    'BLOCK_SIZE_CASES',
    'MAX_PER_FMA',
    'compile_kernel',
    'check_no_instructions',
    'expected_gelu',
    'fp64_instructions',
    'global_writes',
    'check_registers',
    'best_block_size',
    'has_wide_loads',
    'check_wide_loads',
]


# Three of the four answers are judged twice: by their results, on the emulator, and by their machine code, which needs
# compilers but no GPU.
def compile_kernel(f, fn, name, arch):  # f: sass or resources
    "Compile the learner's kernel to machine code; raises `AssertionError` if a compiler is missing"
    try:
        return f(source(fn), name=name, arch=arch)
    except CompilerMissing as e:
        raise AssertionError(
            f'the results are right, but the machine code cannot be checked here, so this does not count as solved: {e}'
        ) from None


def check_no_instructions(instructions, reason):
    "Raise `AssertionError` if there are any `instructions`; name the first, with its source line, and count the others"
    if instructions:
        raise AssertionError(
            f"{reason}: see {instructions[0].op} in line {instructions[0].line} of the source"
            + (f' (and {len(instructions) - 1} more)' if len(instructions) > 1 else '')
        )


def expected_gelu(x):
    "Return the expected result of source_to_sass.floats"
    x = x.astype(np.float64)
    return (0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))).astype(np.float32)


def fp64_instructions(listing):
    "Return the double-precision (FP64) instructions, including conversions from and to double"
    return [
        i
        for i in listing.instructions
        if re.match(r'D(ADD|MUL|FMA|SET|SETP|MNMX)\b', i.op) or re.search(r'\.F64|64H', i.op)
    ]


@problem(
    'source_to_sass.floats',
    cases=[dict(n=n) for n in (1, 31, 300, 1000)] + [dict(arch=a) for a in ('sm_90', 'sm_86')],
    hints=[
        'Look at the whole listing and at `sass(src).ops()`: which instructions begin with `D`, or contain `F64`? '
        '`.lines` gives their source lines.',
        'A floating-point literal is a double unless it has the suffix `f`: `0.5f`. One double operand makes the '
        'whole sum or product a double.',
        '`tanh` of a float is a float, and `tanhf` always is; but its argument, and what you add to it, must be '
        'floats too: `1.f`.',
    ],
)
def _(fn, rng, n=200, arch=None):
    x = 2 * normal(rng, n)
    out = launch(fn, 'gelu_k', cdiv(n, 64), 64, x=x, out=np.full(n, np.nan, np.float32), n=n)
    check(out, expected_gelu(x), atol=2e-6)  # a few rounding errors of values below 10
    if arch:
        check_no_instructions(
            fp64_instructions(compile_kernel(sass, fn, 'gelu_k', arch)),
            'the results are right, but part of the kernel still computes in double precision',
        )


def global_writes(listing) -> list:
    "Return the instructions that write global memory"
    return [i for i in listing.instructions if i.op.startswith(('STG', 'ST.', 'RED', 'ATOM'))]


def check_registers(fn, arch):
    "Raise `AssertionError` unless the kernel keeps its counts in registers"
    r, listing = (compile_kernel(resources, fn, 'count_k', arch), compile_kernel(sass, fn, 'count_k', arch))
    check_no_instructions(
        [i for i in listing.instructions if i.kind == 'local'],
        f'the results are right, but each thread uses {r.local} bytes of local memory',
    )
    check_no_instructions(
        [i for i in listing.instructions if i.kind == 'shared'],
        'the results are right, but the counts are in shared memory: keep them in registers',
    )
    check_no_instructions(
        [write for loop in listing.loops for write in global_writes(loop)],
        'the results are right, but the kernel writes to global memory in a loop: count in registers, and write at '
        'the end',
    )


@problem(
    'source_to_sass.local',
    cases=[dict(h=h, w=w) for h, w in ((1, 1), (5, 40), (64, 7), (33, 100))]
    + [dict(h=4, w=70_000, equal=True)]  # does not fit into 16 bits
    + [dict(arch=a) for a in ('sm_90', 'sm_75')],
    hints=[
        'Which index is not known at compile time? Replace it by one that is: a constant, or the counter of a loop '
        'with a constant trip count.',
        'A value in memory cannot select a register. But you can compare that value with each of 0, 1, 2 and 3.',
        'For each element `v` of the row: `for (int j = 0; j < 4; j++) count[j] += v == j;` The compiler unrolls '
        'it into four comparisons.',
    ],
)
def _(fn, rng, h=40, w=30, equal=False, arch=None):  # equal: all elements of a row are equal
    x = (np.arange(h)[:, None].repeat(w, 1) % 4 if equal else rng.integers(0, 4, (h, w))).astype(np.int32)
    out = launch(fn, 'count_k', cdiv(h, 32), 32, x=x, out=np.full((h, 4), -7, np.int32), h=h, w=w)
    check(out.reshape(h, 4), np.stack([(x == j).sum(1) for j in range(4)], 1).astype(np.int32))
    if arch:
        check_registers(fn, arch)


def best_block_size(registers, bytes_per_thread, arch):
    "Return the expected result of source_to_sass.block"
    occupancies = {b: occupancy(registers, bytes_per_thread * b, b, arch).fraction for b in range(32, 1025, 32)}
    best = max(occupancies.values())
    return next(b for b, fraction in occupancies.items() if fraction == best) if best else 0


BLOCK_SIZE_CASES = (
    (32, 0, 'sm_90'),
    (40, 0, 'sm_90'),
    (96, 0, 'sm_90'),
    (255, 0, 'sm_90'),
    (24, 100, 'sm_90'),
    (24, 100, 'sm_86'),
    (32, 200, 'sm_75'),
    (64, 48, 'sm_80'),
    (24, 8000, 'sm_90'),
    (36, 30, 'sm_86'),
    (80, 0, 'sm_75'),
    (32, 112, 'sm_90'),
)


@problem(
    'source_to_sass.block',
    cases=[dict(registers=r, smem_per_thread=e, arch=a) for r, e, a in BLOCK_SIZE_CASES],
    hints=[
        'There are only 32 sizes: 32, 64, 96, up to 1024. Compute the occupancy of each.',
        '`occupancy(registers, smem_per_thread*block, block, arch).fraction`: a larger block takes more shared memory. '
        'The occupancy is 0 if not even one block fits.',
        'If several sizes are equally good, `max` returns the first: `max(range(32, 1025, 32), key=f)`, where '
        '`f(block)` returns the occupancy. If the occupancy is 0, return 0.',
    ],
)
def _(fn, rng, registers, smem_per_thread, arch):
    result = fn(registers, smem_per_thread, arch)
    expected = best_block_size(registers, smem_per_thread, arch)
    if result == expected:
        return

    def percentage(b):
        return (
            f'{occupancy(registers, smem_per_thread * b, b, arch).fraction:.0%}'
            if b in range(32, 1025, 32)
            else 'not a multiple of 32 up to 1024'
        )

    if not isinstance(result, (int, np.integer)) or isinstance(result, bool):
        raise AssertionError(f'return the number of threads per block as an integer; got {result!r}')
    if not expected:
        raise AssertionError(
            f'no block can be launched with {smem_per_thread} bytes of shared memory per thread: return 0, not {result}'
        )
    raise AssertionError(
        f'got {result} threads (occupancy: {percentage(result)}), expected {expected} ({percentage(expected)}): return '
        'the smallest block size with the highest occupancy'
    )


MAX_PER_FMA = 3  # instructions per FMA


def _advice_on_multiplies(num_fmuls):  # of a loop
    "Return advice on products that are not part of an FMA"
    advice = 'add each product to the sum in its own statement, o += a.x*b.x; o += a.y*b.y;'
    return f'. Products that are not fused with an add (FMUL): {num_fmuls}; {advice}' if num_fmuls else ''


_REMAINDER_LOOP = (
    'the results are right, but the loop with the most FFMAs is the one for the remaining elements, which the '
    'compiler unrolled, and it loads less than 16 bytes at a time: distribute the remaining elements '
    'over the threads, from `n/4*4 + t` with stride `all`'
)


def has_wide_loads(loop):
    "Return whether any instruction of the loop loads 16 bytes at a time"
    return any(op.startswith('LDG.E.128') for op in loop.ops())


def check_wide_loads(fn, arch):
    "Raise `AssertionError` unless the loop with the most FFMAs loads 16 bytes at a time and has few other instructions"
    loops = compile_kernel(sass, fn, 'dots_k', arch).loops
    loop = max(loops, key=lambda loop: (loop.ops()['FFMA'], has_wide_loads(loop)), default=None)
    if not loop or not loop.ops()['FFMA']:
        raise AssertionError(
            'the results are right, but the machine code has no loop with FFMA, the fused multiply-add of floats'
        )
    narrow_loads = [i for i in loop.instructions if i.op.startswith('LDG') and '.128' not in i.op]
    if narrow_loads and any(map(has_wide_loads, loops)):
        check_no_instructions(narrow_loads, _REMAINDER_LOOP)
    reason = 'the results are right, but the loop with the FFMAs still loads less than 16 bytes at a time'
    check_no_instructions(narrow_loads, reason)
    instructions_per_fma = len(loop.instructions) / loop.ops()['FFMA']
    if instructions_per_fma > MAX_PER_FMA:
        raise AssertionError(
            f"the results are right, but the loop has {len(loop.instructions)} instructions for "
            f"{loop.ops()['FFMA']} FMAs, {instructions_per_fma:.1f} per FMA; at most {MAX_PER_FMA} are allowed"
            + _advice_on_multiplies(loop.ops()['FMUL'])
        )


@problem(
    'source_to_sass.wide',
    cases=[
        dict(n=n, blocks=b, threads=t)
        for n, b, t in (
            (1000, 2, 32),
            (3, 1, 32),
            (4, 1, 64),
            (1027, 3, 64),
            (129, 2, 32),
            (0, 1, 32),
            (7, 1, 1),
            (15, 2, 1),
        )
    ]
    + [dict(arch=a) for a in ('sm_90', 'sm_80')],
    hints=[
        'A `float4` has four floats, `.x`, `.y`, `.z` and `.w`, and is loaded at once: '
        '`const float4 *x4 = (const float4 *)x;`, and `x4[i]` holds elements `4*i` to `4*i+3`.',
        'There are `n/4` whole float4s. The loop iterates over them as the old one did over the floats: from '
        '`t`, with stride `all`.',
        'The one, two or three remaining elements begin at `n/4*4`. A second loop, like the old one, '
        '`for (int i = n/4*4 + t; ...)`, takes them.',
    ],
)
def _(fn, rng, n=500, blocks=2, threads=64, arch=None):
    x, y = normal(rng, n + 4)[:n], normal(rng, n + 4)[:n]
    part = launch(fn, 'dots_k', blocks, threads, x=x, y=y, out=np.full(blocks * threads, np.nan, np.float32), n=n)
    if np.isnan(part.numpy()).any():
        raise AssertionError(
            'some threads did not write their sum: let each thread write its sum to out[t], or 0 if '
            'it has nothing to add'
        )
    check(np.float32(part.numpy().astype(np.float64).sum()), np.float32((x.astype(np.float64) * y).sum()), atol=1e-4)
    idle = np.count_nonzero(part == 0)
    threads = blocks * threads
    if n >= 4 * threads and idle > threads / 2:
        raise AssertionError(f'the sums of {idle} of {threads} threads are 0: distribute the elements over all threads')
    if arch:
        check_wide_loads(fn, arch)
