"""Litmus programs of the memory model: one table for the simulator, its compiled engine, the emulator and `tile`.

A program is a list of steps for block 0 and one for each other block, of one thread; or for all threads of a block.
Each step is written in Numba's dialect, in CUDA C and in Triton, if it can be: a program exists in the languages that
have all of its steps. The last column is the code of racecheck's finding (of `tile`, too, if it is another one than
`programs`), or `-` for a right program.
"""
import re
from collections import namedtuple

Step = namedtuple('Step', 'python cuda triton', defaults=(None, None, None))


def both(text): return Step(text, text)


def atomic_ref(scope, call): return Step(cuda=f'cuda::atomic_ref<int, cuda::thread_scope_{scope}>(*flag).{call}')


STEPS = dict(
    # x and y are two words of global memory, out is what a block reports
    store_x=Step('x[0] = 1', 'x[0] = 1', 'tl.store(x, 1)'),
    store_y=Step('y[0] = 1', 'y[0] = 1', 'tl.store(y, 1)'),
    load_x=Step('out[b] = x[0]', 'out[b] = x[0]', 'tl.store(out + b, tl.load(x))'),
    load_y=Step('out[b] = y[0]', 'out[b] = y[0]', 'tl.store(out + b, tl.load(y))'),
    swap_x=Step('cuda.atomic.exch(x, 0, 1)', 'atomicExch(x, 1)', 'tl.atomic_xchg(x, 1)'),
    swap_y=Step('cuda.atomic.exch(y, 0, 1)', 'atomicExch(y, 1)', 'tl.atomic_xchg(y, 1)'),
    peek_x=Step('out[b] = cuda.atomic.add(x, 0, 0)', 'out[b] = atomicAdd(x, 0)',
                'tl.store(out + b, tl.atomic_add(x, 0))'),
    peek_y=Step('out[b] = cuda.atomic.add(y, 0, 0)', 'out[b] = atomicAdd(y, 0)',
                'tl.store(out + b, tl.atomic_add(y, 0))'),
    increment=Step('x[0] += 1', 'x[0] += 1', 'tl.store(x, tl.load(x) + 1)'),
    atomic_increment=Step('cuda.atomic.add(x, 0, 1)', 'atomicAdd(x, 1)', 'tl.atomic_add(x, 1)'),
    # what all threads of a block do
    scatter=both('part[b] = b'), gather=both('out[b] = part[n - 1 - b]'),
    barrier=Step('cuda.syncthreads()', '__syncthreads()'), barrier_warp=Step('cuda.syncwarp()', '__syncwarp()'),
    # fences
    fence=Step('cuda.threadfence()', '__threadfence()'),
    fence_block=Step('cuda.threadfence_block()', '__threadfence_block()'),
    fence_system=Step('cuda.threadfence_system()', '__threadfence_system()'),
    fence_release=Step(cuda='cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_device)'),
    fence_acquire=Step(cuda='cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device)'),
    # flags
    set=Step('cuda.atomic.exch(flag, 0, 1)', 'atomicExch(flag, 1)', "tl.atomic_xchg(flag, 1, sem='relaxed')"),
    set_other=Step('cuda.atomic.exch(flag, 1, 1)', 'atomicExch(flag + 1, 1)', "tl.atomic_xchg(flag + 1, 1)"),
    set_plain=both('flag[0] = 1'),
    set_block=Step(cuda='atomicExch_block(flag, 1)'),
    set_system=Step(cuda='atomicExch_system(flag, 1)'),
    set_release=atomic_ref('device', 'store(1, cuda::memory_order_release)')._replace(
        triton="tl.atomic_xchg(flag, 1, sem='release')"),
    set_relaxed=atomic_ref('device', 'store(1, cuda::memory_order_relaxed)'),
    wait=Step('while cuda.atomic.add(flag, 0, 0) == 0: pass', 'while (atomicAdd(flag, 0) == 0) { }',
              "while tl.atomic_add(flag, 0, sem='relaxed') == 0: pass"),
    wait_acquire=Step(cuda='while (!cuda::atomic_ref<int, cuda::thread_scope_device>(*flag)'
                           '.load(cuda::memory_order_acquire)) { }',
                      triton="while tl.atomic_add(flag, 0, sem='acquire') == 0: pass"),
    wait_acquire_block=Step(cuda='while (!cuda::atomic_ref<int, cuda::thread_scope_block>(*flag)'
                                 '.load(cuda::memory_order_acquire)) { }'),
    wait_relaxed=Step(cuda='while (!cuda::atomic_ref<int, cuda::thread_scope_device>(*flag)'
                           '.load(cuda::memory_order_relaxed)) { }'),
    # locks
    lock=Step('while cuda.atomic.cas(flag, 0, 0, 1) != 0: pass', 'while (atomicCAS(flag, 0, 1)) { }',
              "while tl.atomic_cas(flag, 0, 1, sem='relaxed') == 1: pass"),
    unlock=Step('cuda.atomic.exch(flag, 0, 0)', 'atomicExch(flag, 0)', "tl.atomic_xchg(flag, 0, sem='relaxed')"),
    lock_acquire=Step(triton="while tl.atomic_cas(flag, 0, 1, sem='acquire') == 1: pass"),
    unlock_release=Step(triton="tl.atomic_xchg(flag, 0, sem='release')"),
    # tickets: what follows is for the last block
    part=Step('part[b] = 1', 'part[b] = 1', 'tl.store(part + b, 1)'),
    ticket=Step('if cuda.atomic.add(flag, 0, 1) == n - 1:', 'if (atomicAdd(flag, 1) == n - 1) {',
                "if tl.atomic_add(flag, 1, sem='relaxed') == n - 1:"),
    ticket_acq_rel=Step(triton='if tl.atomic_add(flag, 1) == n - 1:'),
    total=Step('for i in range(n): out[0] += part[i]', 'for (int i = 0; i < n; i++) out[0] += part[i]',
               'for i in range(n): tl.store(out, tl.load(out) + tl.load(part + i))'))

ROWS = '''
message                          | store_x fence set | wait fence load_x               | -
message of the system            | store_x fence_system set_system | wait fence_system load_x | -
message by release and acquire   | store_x set_release | wait_acquire load_x           | -
message by fence and acquire     | store_x fence set_relaxed | wait_acquire load_x     | -
message by two half fences       | store_x fence_release set_relaxed | wait_relaxed fence_acquire load_x | -
message without fences           | store_x set | wait load_x                           | race_of_blocks
message without release          | store_x set | wait fence load_x                     | race_of_blocks
message without acquire          | store_x fence set | wait load_x                     | flag_not_acquired
message whose fence is too early | fence store_x set | wait fence load_x               | race_of_blocks
message released to the block    | store_x fence_block set | wait fence load_x         | fence_of_block
message acquired of the block    | store_x fence set | wait fence_block load_x         | flag_not_acquired
message by a flag of the block   | store_x fence set_block | wait fence load_x         | atomic_of_block
message to a reader of the block | store_x set_release | wait_acquire_block load_x     | atomic_of_block
message by a relaxed store       | store_x set_relaxed | wait_acquire load_x           | race_of_blocks
message by a relaxed load        | store_x set_release | wait_relaxed load_x           | flag_not_acquired
message that is only released    | store_x set_release | wait load_x                   | flag_not_acquired
message that is only acquired    | store_x set | wait_acquire load_x                   | race_of_blocks
message by a plain flag          | store_x fence set_plain | wait fence load_x         | race_of_blocks
message by another flag          | set store_x fence set_other | wait fence load_x     | race_of_blocks
store buffering                  | store_x load_y | store_y load_x                     | race_of_blocks
store buffering with fences      | store_x fence load_y | store_y fence load_x         | race_of_blocks
store buffering of atomics       | swap_x peek_y | swap_y peek_x                       | -
load buffering                   | load_x store_y | load_y store_x                     | race_of_blocks
load buffering of atomics        | peek_x swap_y | peek_y swap_x                       | -
counter                          | increment | increment                               | race_of_blocks
counter between fences           | fence increment fence | fence increment fence       | race_of_blocks
counter of atomics               | atomic_increment | atomic_increment                 | -
counter of atomics, plain load   | atomic_increment | load_x                           | race_of_blocks programs_atomic
lock                             | lock fence increment fence unlock | same            | -
lock by acquire and release      | lock_acquire increment unlock_release | same        | -
lock without fences              | lock increment unlock | same                        | race_of_blocks
lock without release             | lock fence increment unlock | same                  | race_of_blocks
lock without acquire             | lock increment fence unlock | same                  | flag_not_acquired
ticket                           | part fence ticket fence total | same                | -
ticket by acquire and release    | part ticket_acq_rel total | same                    | -
ticket without fences            | part ticket total | same                            | race_of_blocks
ticket without release           | part ticket fence total | same                      | race_of_blocks
ticket without acquire           | part fence ticket total | same                      | flag_not_acquired
ticket with its fence too early  | fence part ticket fence total | same                | race_of_blocks
ticket released to the block     | part fence_block ticket fence total | same          | fence_of_block
threads hand over                | scatter gather | same                               | race
threads hand over at a barrier   | scatter barrier gather | same                       | -
threads hand over at a warp's    | scatter barrier_warp gather | same                  | race
threads hand over after a fence  | scatter fence gather | same                         | race
threads count                    | increment | same                                    | race
threads count by atomics         | atomic_increment | same                             | -
'''


Litmus = namedtuple('Litmus', 'name first second finds finds_in_triton')


def program(row):
    name, first, second, finds = (o.strip() for o in row.split('|'))
    code, *other = [None, None] if finds == '-' else [*finds.split(), 'programs']
    return Litmus(name, first, first if second == 'same' else second, code, other[0])


PROGRAMS = [program(row) for row in ROWS.strip().splitlines()]


def steps(o, language):
    "Return [steps of the first block, steps of the others]; None if a step does not exist in the language"
    steps_of_blocks = [[getattr(STEPS[name], language) for name in names.split()] for names in (o.first, o.second)]
    return None if None in sum(steps_of_blocks, []) else steps_of_blocks


def programs(language): return [o for o in PROGRAMS if steps(o, language)]


def is_right(o, x, out):
    "Return whether a right program gave its only possible result; atomics without fences have several"
    results = dict(message=out[1] == 1, counter=x[0] == 3, lock=x[0] == 3, ticket=out[0] == 3)
    return results.get(o.name.split()[0].rstrip('s'), True)


def kernel_name(o): return re.sub(r'\W+', '_', o.name)


def is_within_block(o): return o.name.startswith('threads')


def launch(o):
    "Return (number of blocks, threads per block)"
    return (1, 64) if is_within_block(o) else (3 if o.first == o.second else 2, 1)


def indent(lines, depth):
    "Return lines of Python, indented by one more level after each line that opens a block"
    indented = []
    for line in lines:
        indented.append('    '*depth + line)
        depth += line.endswith(':')
    return indented


def python_source(o, language, parameters, index):
    first, second = steps(o, language)
    lines = ['    if b == 0:', *indent(first, 2), '    else:', *indent(second, 2)]
    lines = [f'    b = {index}', *(indent(first, 1) if first == second else lines)]
    return '\n'.join([f'def {kernel_name(o)}({parameters}):', *lines]) + '\n'


def numba(o):
    index = 'cuda.threadIdx.x' if is_within_block(o) else 'cuda.blockIdx.x'
    return '@cuda.jit\n' + python_source(o, 'python', 'x, y, flag, part, out, n', index)


def triton(o):
    return '@triton.jit\n' + python_source(o, 'triton', 'x, y, flag, part, out, n: tl.constexpr', 'tl.program_id(0)')


def c_statements(lines):
    closing_braces = '}'*sum(o[-1] == '{' for o in lines)
    return ' '.join([*(o if o[-1] in '{}' else f'{o};' for o in lines), closing_braces])


def cuda_c(o):
    first, second = map(c_statements, steps(o, 'cuda'))
    index = 'threadIdx' if is_within_block(o) else 'blockIdx'
    return (f'__global__ void {kernel_name(o)}(int *x, int *y, int *flag, int *part, int *out, int n) {{\n'
            f'    const int b = {index}.x;\n    ' +
            (first if first == second else f'if (b == 0) {{ {first} }} else {{ {second} }}') + '\n}\n')
