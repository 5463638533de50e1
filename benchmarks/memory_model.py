"""Test racecheck's memory model with random programs of fences, atomics, locks and flags that are correct or racy by
construction.

    python memory_model.py [programs] [seed] > memory_model.txt
    python memory_model.py --numba    # test the simulator, with locks, tickets and counters in Numba's dialect

A racy program has exactly one mistake. The output lists the missed races and false alarms by kind of program."""
import argparse, linecache, random, re
from collections import Counter, namedtuple

import numpy as np

from gridstride.cpp import cuda_kernel
from gridstride.diagnostics.errors import KernelError, RacecheckError

Program = namedtuple('Program', 'kind mistake body')           # mistake: None in a correct program
BLOCKS, THREADS, PROGRAMS_PER_UNIT = 4, 64, 100
ORDER = 'cuda::memory_order_'
WIDE = ['__threadfence();', '__threadfence_system();',
        f'cuda::atomic_thread_fence({ORDER}seq_cst, cuda::thread_scope_device);',
        f'cuda::atomic_thread_fence({ORDER}acq_rel);']
NARROW = ['__threadfence_block();', f'cuda::atomic_thread_fence({ORDER}seq_cst, cuda::thread_scope_block);']
PARAMS = 'int *data, int *flag, int *out'
HEAD = '''#include <cuda/atomic>
#include <cuda/barrier>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
using system_ref = cuda::atomic_ref<int>;
using device_ref = cuda::atomic_ref<int, cuda::thread_scope_device>;
using block_ref = cuda::atomic_ref<int, cuda::thread_scope_block>;
extern "C" {
'''


class Generator:
    "Generates programs from random choices; a method returns the body of a correct kernel, or one with a mistake"

    def __init__(self, seed): self.random = random.Random(seed)

    def pick(self, *options): return self.random.choice(options)

    def chance(self, p=.5): return self.random.random() < p

    def fence(self, wide, half=None):
        """Pick a fence with device scope if `wide`, else with any scope; `half` ('release' or 'acquire') also allows a
        fence with only this order"""
        if half and self.chance(.2):
            scope = 'device' if wide or self.chance() else 'block'
            return f'cuda::atomic_thread_fence({ORDER}{half}, cuda::thread_scope_{scope});'
        return self.pick(*(WIDE if wide or self.chance() else NARROW))

    def ref(self, wide): return self.pick('device_ref', 'system_ref') if wide or self.chance() else 'block_ref'

    def suffix(self, wide): return self.pick('', '', '_system') if wide or self.chance() else '_block'

    def hand_over(self, wide, flag, mistake=None, value=1, previous=0):
        """Return the parts of a message from one thread to another: (code before the data is written, code after it,
        write of the flag, wait for the flag, code before the data is read). `previous` is the flag's value before."""
        has_release_write, has_acquire_read, before = self.chance(.35), self.chance(.35), ''
        if mistake in ('no release fence', 'release fence too narrow', 'release fence before the data', 'plain flag'):
            has_release_write = False
        if mistake in ('no acquire fence', 'acquire fence too narrow', 'acquire fence before the read',
                     'plain read of the flag'):
            has_acquire_read = False
        if mistake == 'relaxed store': has_release_write = True
        if mistake == 'relaxed load': has_acquire_read = True
        ref = 'block_ref' if mistake == 'flag too narrow' else self.ref(wide)
        flag_suffix = '_block' if mistake == 'flag too narrow' else self.suffix(wide)
        if has_release_write:
            order = 'relaxed' if mistake == 'relaxed store' else self.pick('release', 'seq_cst')
            write = self.pick(f'{ref}(*{flag}).store({value}, {ORDER}{order});',
                              f'{ref}(*{flag}).exchange({value}, {ORDER}{"acq_rel" if order == "release" else order});')
            release_fence = ''
        else:
            writes = [f'atomicExch{flag_suffix}({flag}, {value});', f'{ref}(*{flag}).store({value}, {ORDER}relaxed);']
            if previous == 0 and value > 0: writes.append(f'atomicAdd{flag_suffix}({flag}, {value});')
            if mistake != 'flag too narrow': writes.append(f'*(volatile int *){flag} = {value};')
            write, release_fence = self.pick(*writes), self.fence(wide, 'release')
        if mistake == 'no release fence': release_fence = ''
        if mistake == 'release fence too narrow': release_fence = self.pick(*NARROW)
        if mistake == 'release fence before the data': before, release_fence = release_fence, ''
        if mistake == 'plain flag': write = f'*{flag} = {value};'
        if has_acquire_read:
            order = 'relaxed' if mistake == 'relaxed load' else self.pick('acquire', 'seq_cst')
            read, acquire_fence = f'{self.ref(wide)}(*{flag}).load({ORDER}{order})', ''
        else:
            suffix = self.suffix(wide)
            read = self.pick(f'atomicAdd{suffix}({flag}, 0)', f'atomicCAS{suffix}({flag}, {value}, {value})',
                             f'*(volatile int *){flag}', f'{self.ref(wide)}(*{flag}).load({ORDER}relaxed)')
            acquire_fence = self.fence(wide, 'acquire')
        wait = f'while ({read} != {value}) {{ }}'
        if mistake == 'no acquire fence': acquire_fence = ''
        if mistake == 'acquire fence too narrow': acquire_fence = self.pick(*NARROW)
        if mistake == 'acquire fence before the read': wait, acquire_fence = f'{acquire_fence} {wait}', ''
        if mistake == 'plain read of the flag': wait = f'for (int k = 0; k < 50 && *{flag} != {value}; k++) {{ }}'
        return before, release_fence, write, wait, acquire_fence

    def noise(self):
        "Pick code that neither orders accesses nor races: fences, atomics on other words"
        if self.chance(.6): return ''
        return self.pick('__threadfence();', 'atomicAdd(flag + 100, 1);', 'device_ref(flag[101]).fetch_add(1);',
                         '__syncthreads();', 'atomicAdd(flag + 200 + threadIdx.x, 1); __threadfence();')

    def message(self, mistake=None):
        "A message from a thread to one of another block"
        writer_block = self.random.randrange(BLOCKS-1)
        reader_block = self.random.randrange(writer_block+1, BLOCKS)
        writer, reader = self.random.randrange(THREADS-1), self.random.randrange(THREADS)
        num_words, first_word = self.random.randint(1, 3), self.random.randrange(8)
        before, release_fence, write, wait, acquire_fence = self.hand_over(True, 'flag', mistake)
        writes = [f'data[{first_word+i}] = {i+5};' for i in range(num_words)]
        reads = [f'out[{i}] = data[{first_word+i}];' for i in range(num_words)]
        late_write = writes.pop() if mistake == 'a write after the flag' else ''
        early_read = reads.pop() if mistake == 'a read before the flag' else ''
        is_writer = f'blockIdx.x == {writer_block} && threadIdx.x == {writer}'
        is_reader = f'blockIdx.x == {reader_block} && threadIdx.x == {reader}'
        other_writer = (f'if (blockIdx.x == {writer_block} && threadIdx.x == {writer+1}) {{ {" ".join(writes)} }}'
                        if mistake == 'released by another thread' else '')
        writes = '' if other_writer else ' '.join(writes)
        return (f'{self.noise()} {other_writer} if ({is_writer}) {{ {before} {writes} {release_fence} {write} '
                f'{late_write} }} if ({is_reader}) {{ {early_read} {wait} {acquire_fence} {" ".join(reads)} }}')

    def message_of_blocks(self, mistake=None):
        "All threads of a block write and one sets a flag; a thread of another block waits for it, for its whole block"
        writer_block = self.random.randrange(BLOCKS-1)
        reader_block = self.random.randrange(writer_block+1, BLOCKS)
        writer, waiter = self.random.randrange(THREADS), self.random.randrange(THREADS)
        _, release_fence, write, wait, acquire_fence = self.hand_over(True, 'flag', mistake)
        has_own_fences = self.chance(.3) and mistake is None
        write_data = f'data[threadIdx.x] = {self.random.randint(1, 9)};'
        barrier = ('' if mistake == 'no barrier before the release'
                   else self.pick('__syncthreads();', 'cg::this_thread_block().sync();'))
        end_barrier = '' if mistake == 'no barrier after the acquire' else '__syncthreads();'
        if has_own_fences: write_data, release_fence = f'{write_data} {self.pick(*WIDE)}', ''
        return (f'{self.noise()} if (blockIdx.x == {writer_block}) {{ {write_data} {barrier} '
                f'if (threadIdx.x == {writer}) {{ {release_fence} {write} }} }} if (blockIdx.x == {reader_block}) {{ '
                f'if (threadIdx.x == {waiter}) {{ {wait} {acquire_fence} }} {end_barrier} '
                f'out[threadIdx.x] = data[{THREADS-1} - threadIdx.x]; }}')

    def message_in_block(self, mistake=None):
        "A message from a thread to another of its block, in shared or in global memory"
        flag_writer, reader = self.random.sample(range(1, THREADS-1), 2)
        shared = self.chance(.6)
        data_name, flag_name = ('s', '&f') if shared else ('(data + blockIdx.x*16)', '(flag + blockIdx.x)')
        before, release_fence, write, wait, acquire_fence = self.hand_over(False, flag_name, mistake)
        num_words = self.random.randint(1, 3)
        writes = [f'{data_name}[{k}] = {k+5};' for k in range(num_words)]
        reads = [f'out[blockIdx.x*16 + {k}] = {data_name}[{k}];' for k in range(num_words)]
        late_write = writes.pop() if mistake == 'a write after the flag' else ''
        early_read = reads.pop() if mistake == 'a read before the flag' else ''
        data_writer, other_writer = flag_writer, ''
        if mistake == 'released by another thread':
            data_writer = next(k for k in range(THREADS) if k not in (flag_writer, reader))
            other_writer = f'if (threadIdx.x == {data_writer}) {{ {" ".join(writes)} }}'
        setup = ('__shared__ int s[4], f; if (threadIdx.x == 0) f = 0; '
                 'if (threadIdx.x < 4) s[threadIdx.x] = 0; __syncthreads();' if shared else '')
        writes = '' if other_writer else ' '.join(writes)
        return (f'{setup} {other_writer} if (threadIdx.x == {flag_writer}) {{ {before} {writes} {release_fence} '
                f'{write} {late_write} }} if (threadIdx.x == {reader}) {{ {early_read} {wait} {acquire_fence} '
                f'{" ".join(reads)} }}')

    def lock(self, mistake=None):
        "A thread of each block changes words under a lock"
        thread, num_words = self.random.randrange(THREADS), self.random.randint(1, 3)
        has_acquire_lock, has_release_unlock = self.chance(.3), self.chance(.3)
        if mistake in ('no acquire fence', 'acquire fence too narrow', 'no fences'): has_acquire_lock = False
        if mistake in ('no release fence', 'release fence too narrow', 'no fences', 'release fence after the unlock'):
            has_release_unlock = False
        if mistake == 'lock too narrow': has_acquire_lock, has_release_unlock = False, False
        exchange = (f'{self.pick("device_ref", "system_ref")}(*flag).exchange(1, {ORDER}acquire)' if has_acquire_lock
                    else self.pick('atomicCAS(flag, 0, 1)', 'atomicExch(flag, 1)', 'atomicCAS_system(flag, 0, 1)'))
        acquire_fence = '' if has_acquire_lock else self.fence(True, 'acquire')
        release_fence = '' if has_release_unlock else self.fence(True, 'release')
        store = (f'{self.pick("device_ref", "system_ref")}(*flag).store(0, {ORDER}release);' if has_release_unlock
                 else self.pick('atomicExch(flag, 0);', '*(volatile int *)flag = 0;', 'atomicAnd(flag, 0);'))
        if mistake == 'lock too narrow': exchange = 'atomicCAS_block(flag, 0, 1)'
        if mistake in ('no acquire fence', 'no fences'): acquire_fence = ''
        if mistake in ('no release fence', 'no fences'): release_fence = ''
        if mistake == 'acquire fence too narrow': acquire_fence = self.pick(*NARROW)
        if mistake == 'release fence too narrow': release_fence = self.pick(*NARROW)
        if mistake == 'release fence after the unlock': store, release_fence = f'{store} {release_fence}', ''
        changes = [f'data[{k}] {self.pick("+= 1", "= data[%d] + blockIdx.x" % k, "-= 3")};' for k in range(num_words)]
        outside = changes.pop() if mistake in ('a change before the lock', 'a change after the lock') else ''
        first, last = (outside, '') if mistake == 'a change before the lock' else ('', outside)
        is_thread = f'threadIdx.x == {thread}'
        lock, unlock = f'while ({exchange} != 0) {{ }} {acquire_fence}', f'{release_fence} {store}'
        if mistake == 'one block without the lock':
            condition = f'if (blockIdx.x != {self.random.randrange(BLOCKS)})'
            lock, unlock = f'{condition} {{ {lock} }}', f'{condition} {{ {unlock} }}'
        return f'{self.noise()} if ({is_thread}) {{ {first} {lock} {" ".join(changes)} {unlock} {last} }}'

    def ticket(self, mistake=None):
        "The last block sums the words that all blocks have written"
        all_write = mistake == 'no barrier before the ticket' or self.chance(.5)
        thread = self.random.randrange(THREADS)
        has_own_fences = all_write and mistake is None and self.chance(.4)
        has_release_ticket = self.chance(.25) and mistake in (None, 'no barrier before the ticket')
        suffix = '_block' if mistake == 'ticket too narrow' else self.pick('', '_system')
        add = (f'{self.pick("device_ref", "system_ref")}(*flag).fetch_add(1, {ORDER}acq_rel)' if has_release_ticket
               else self.pick(f'atomicAdd{suffix}(flag, 1)', f'(int)atomicInc{suffix}((unsigned *)flag, 1000)'))
        write_data = (f'data[blockIdx.x*{THREADS} + threadIdx.x] = 1;' if all_write
                      else f'if (threadIdx.x == {thread}) data[blockIdx.x*{THREADS}] = 1;')
        fence = '' if has_release_ticket else self.fence(True)
        if mistake == 'no fence': fence = ''
        if mistake == 'fence too narrow': fence = self.pick(*NARROW)
        before = ''
        if mistake == 'fence before the data': before, fence = fence, ''
        barrier = (self.pick('__syncthreads();', 'cg::this_thread_block().sync();')
                   if all_write and mistake != 'no barrier before the ticket' else '')
        if has_own_fences: write_data, fence = f'{write_data} {self.pick(*WIDE)}', ''
        end_fence = self.fence(True) if self.chance() else ''
        reads = (f'for (int b = 0; b < {BLOCKS}; '
                 f'b++) v += data[b*{THREADS}{" + %d - threadIdx.x" % (THREADS-1) if all_write else ""}];')
        condition = '' if all_write else f'if (threadIdx.x == {self.random.randrange(THREADS)})'
        reset = self.pick('', f'if (threadIdx.x == {thread}) *flag = 0;')
        return (f'__shared__ bool last; {before} {write_data} {barrier} if (threadIdx.x == {thread}) {{ '
                f'{fence} last = {add} == {BLOCKS-1}; }} __syncthreads(); '
                f'if (last) {{ {end_fence} int v = 0; {condition} {{ {reads} out[threadIdx.x] = v; }} {reset} }}')

    def chain(self, mistake=None):
        "Each block waits for the preceding one, and reads the words of all preceding blocks"
        thread = self.random.randrange(THREADS)
        _, release_fence, write, _, _ = self.hand_over(True, '(flag + blockIdx.x)',
                                                      mistake if mistake and 'release' in mistake else None)
        _, _, _, wait, acquire_fence = self.hand_over(True, '(flag + blockIdx.x - 1)',
                                                      mistake if mistake and 'acquire' in mistake else None)
        return (f'{self.noise()} if (threadIdx.x == {thread}) {{ int v = blockIdx.x; '
                f'if (blockIdx.x) {{ {wait} {acquire_fence} }} for (int b = 0; b < blockIdx.x; b++) v += data[b]; '
                f'data[blockIdx.x] = v; {release_fence} {write} }}')

    def there_and_back(self, mistake=None):
        "A message between two threads of a block and its answer, in the same buffer"
        first_thread, second_thread = self.random.sample(range(1, THREADS), 2)
        is_in_answer = bool(mistake) and mistake.startswith('back: ')
        message = self.hand_over(False, '&f', None if is_in_answer else mistake)
        answer = self.hand_over(False, '&f', mistake[6:] if is_in_answer else None, value=2, previous=1)
        return ('__shared__ int s, f; if (threadIdx.x == 0) s = f = 0; __syncthreads(); '
                f'if (threadIdx.x == {first_thread}) {{ {message[0]} s = 1; {message[1]} {message[2]} '
                f'{answer[3]} {answer[4]} out[blockIdx.x] = s; }} '
                f'if (threadIdx.x == {second_thread}) {{ {message[3]} {message[4]} '
                f'{answer[0]} s = s + 1; {answer[1]} {answer[2]} }}')

    def counter(self, mistake=None):
        "A counter that assigns indices, with sums next to it"
        count = self.pick('atomicAdd(flag, 1)', 'device_ref(*flag).fetch_add(1)',
            f'system_ref(*flag).fetch_add(1, {ORDER}acq_rel)', f'device_ref(*flag).fetch_add(1, {ORDER}relaxed)')
        fences = self.chance()
        count = f'{self.pick(*WIDE)} int m = {count}; {self.pick(*WIDE)}' if fences else f'int m = {count};'
        if mistake == 'a sum next to the counter': return f'{count} data[0] += m;'
        if mistake == 'an element for two': return f'{count} data[m/2] += 1;'
        if mistake == 'an atomic sum and a plain read': return f'{count} atomicAdd(data, m); out[m] = data[0];'
        return f'{count} {self.pick("data[m] = m;", "atomicAdd(data, m);", "device_ref(data[0]).fetch_add(m);")}'

    def volatiles(self, mistake=None):
        "Volatile accesses in global and in shared memory"
        fences = self.chance(.3)
        before, after = (self.pick(*WIDE), self.pick(*WIDE)) if fences else ('', '')
        if mistake == 'a volatile sum':
            return (f'volatile int *d = data; {before} d[{self.random.randrange(4)}] '
                    f'{self.pick("+= 1", "-= 3", "+= threadIdx.x + 1")}; {after}')
        if mistake == 'a volatile sum of blocks':
            return (f'volatile int *d = data; if (threadIdx.x == {self.random.randrange(THREADS)}) {{ {before} d[1] '
                    f'{self.pick("+= 1", "+= blockIdx.x + 1")}; {after} }}')
        half = self.pick(32, 16, 8)
        if mistake == 'a warp in step':
            return ('__shared__ volatile int s[64]; s[threadIdx.x] = threadIdx.x; __syncthreads(); '
                    f'if (threadIdx.x < {half}) {{ s[threadIdx.x] += s[threadIdx.x + {half}]; '
                    f's[threadIdx.x] += s[threadIdx.x + {half//2}]; }}')
        if mistake == 'volatile data, plain reader':
            return ('volatile int *d = data; if (blockIdx.x == 0 && threadIdx.x == 0) d[0] = 1; '
                    'if (blockIdx.x == 2 && threadIdx.x == 3) out[0] = data[0];')
        return self.pick(f'volatile int *d = data; d[blockIdx.x*{THREADS} + threadIdx.x] += 1;',
            'volatile int *f = flag; if (blockIdx.x == 0 && threadIdx.x == 7) *f = 9; if (blockIdx.x == 1) { '
            'while (*f != 9) { } out[threadIdx.x] = *f; }',
            '__shared__ volatile int s[64]; s[threadIdx.x] = threadIdx.x; __syncthreads(); '
            f'if (threadIdx.x < {half}) {{ s[threadIdx.x] += s[threadIdx.x + {half}]; __syncwarp({(1 << half)-1:#x}u); '
            f'if (threadIdx.x < {half//2}) s[threadIdx.x] += s[threadIdx.x + {half//2}]; }}',
            f'volatile int *d = data; if (blockIdx.x == 0) {{ if (threadIdx.x == 9) d[0] = 4; __syncthreads(); '
            f'if (threadIdx.x == 50) d[0] += 1; }}')

    def barriers(self, mistake=None):
        "Threads exchange words in shared memory across a barrier"
        lane_mask = self.pick(1, 3, 7)                            # partner within 2, 4 or 8 lanes
        crosses_warps = mistake in ('a barrier of the warp for the block',) or (mistake is None and self.chance())
        partner = f'(threadIdx.x ^ {32 + lane_mask if crosses_warps else lane_mask})'
        block_barriers = ['__syncthreads();', 'cg::this_thread_block().sync();', 'cg::sync(cg::this_thread_block());',
                 'b.arrive_and_wait();', 'asm volatile("bar.sync 1, 64;" ::: "memory");']
        warp_barriers = ['__syncwarp();', 'cg::tiled_partition<32>(cg::this_thread_block()).sync();',
                'cg::tiled_partition<8>(cg::this_thread_block()).sync();']
        barrier = self.pick(*block_barriers) if crosses_warps or self.chance(.3) else self.pick(*warp_barriers)
        if mistake == 'no barrier': barrier = self.pick('', '__threadfence_block();', '__threadfence();')
        if mistake == 'a barrier of the warp for the block': barrier = self.pick(*warp_barriers)
        if mistake == 'a tile too small':
            partner, barrier = '(threadIdx.x ^ 8)', 'cg::tiled_partition<8>(cg::this_thread_block()).sync();'
        if mistake == 'a shuffle for a barrier': barrier = '__shfl_sync(~0u, 1, 0);'
        init = ('__shared__ cuda::barrier<cuda::thread_scope_block> b; '
                'if (threadIdx.x == 0) init(&b, 64); __syncthreads();' if 'arrive' in barrier else '')
        write, read = 's[threadIdx.x] = threadIdx.x;', f'out[blockIdx.x*64 + threadIdx.x] = s[{partner}];'
        if mistake == 'a barrier before the write': return f'__shared__ int s[64]; {init} {barrier} {write} {read}'
        return f'__shared__ int s[64]; {init} {write} {barrier} {read}'


HAND_OVER_MISTAKES = ['no release fence', 'release fence before the data', 'no acquire fence',
                      'acquire fence before the read', 'plain flag', 'plain read of the flag', 'relaxed store',
                      'relaxed load']
SCOPE_MISTAKES = ['release fence too narrow', 'acquire fence too narrow', 'flag too narrow']
MESSAGE_MISTAKES = ['a write after the flag', 'a read before the flag', 'released by another thread']
MISTAKES_OF_KIND = dict(
    message=HAND_OVER_MISTAKES + SCOPE_MISTAKES + MESSAGE_MISTAKES,
    message_of_blocks=['no release fence', 'release fence too narrow', 'flag too narrow', 'relaxed store',
                       'no barrier before the release', 'no barrier after the acquire'],
    message_in_block=HAND_OVER_MISTAKES + MESSAGE_MISTAKES,
    lock=['no fences', 'no acquire fence', 'no release fence', 'acquire fence too narrow', 'release fence too narrow',
          'release fence after the unlock', 'lock too narrow', 'a change before the lock', 'a change after the lock',
          'one block without the lock'],
    ticket=['no fence', 'fence too narrow', 'fence before the data', 'ticket too narrow',
            'no barrier before the ticket'],
    chain=['no release fence', 'release fence too narrow', 'no acquire fence', 'acquire fence too narrow',
           'acquire fence before the read'],
    there_and_back=['no release fence', 'no acquire fence', 'relaxed store', 'relaxed load', 'back: no release fence',
                    'back: no acquire fence', 'back: relaxed store', 'back: relaxed load'],
    counter=['a sum next to the counter', 'an element for two', 'an atomic sum and a plain read'],
    volatiles=['a volatile sum', 'a volatile sum of blocks', 'a warp in step', 'volatile data, plain reader'],
    barriers=['no barrier', 'a barrier of the warp for the block', 'a tile too small', 'a shuffle for a barrier',
              'a barrier before the write'])


def programs(n, seed):
    "Generate `n` programs, about half of them racy"
    generator = Generator(seed)
    kinds = [kind for kind, mistakes in MISTAKES_OF_KIND.items() for _ in range(1 + len(mistakes)//3)]
    for _ in range(n):
        kind = generator.pick(*kinds)
        mistake = generator.pick(*MISTAKES_OF_KIND[kind]) if generator.chance(.55) else None
        yield Program(kind, mistake, re.sub(' +', ' ', getattr(generator, kind)(mistake)))


def run_programs(units):
    "Run programs; yield (program, the finding of racecheck or None)"
    units = list(units)
    for i in range(0, len(units), PROGRAMS_PER_UNIT):
        batch = units[i:i+PROGRAMS_PER_UNIT]
        kernels = cuda_kernel(HEAD + ''.join(f'__global__ void p{k}({PARAMS}) {{ {program.body} }}\n'
                                             for k, program in enumerate(batch)) + '}')
        for k, program in enumerate(batch):
            try: kernels[f'p{k}'][BLOCKS, THREADS](*(np.zeros(512, np.int32) for _ in range(3)))
            except RacecheckError as finding: yield program, finding
            except KernelError as finding: raise AssertionError(f'{program}\n{finding}') from None
            else: yield program, None


def print_table(results):
    "Print missed races and false alarms by kind; return (missed races, racy programs, false alarms, correct programs)"
    counts = Counter()
    for program, finding in results:
        outcome = ('found' if finding else 'missed') if program.mistake else 'alarm' if finding else 'silent'
        counts[program.kind, outcome] += 1
        counts['all', outcome] += 1
        if outcome in ('missed', 'alarm'):
            print(f'{outcome}: {program.kind}, {program.mistake}: {program.body}\n  {finding or ""}')
    print(f'{"":<20}{"right":>8}{"alarms":>8}{"wrong":>8}{"missed":>8}')
    for kind in [*MISTAKES_OF_KIND, 'all']:
        silent, alarm, found, missed = (counts[kind, outcome] for outcome in ('silent', 'alarm', 'found', 'missed'))
        if silent + alarm + found + missed:
            print(f'{kind.replace("_", " "):<20}{silent+alarm:>8}{alarm:>8}{found+missed:>8}{missed:>8}')
    return missed, found + missed, alarm, silent + alarm        # the last row is that of all kinds


# The same in Numba's dialect, for programs whose blocks need not run concurrently

NUMBA_WIDE, NUMBA_NARROW = ['cuda.threadfence()', 'cuda.threadfence_system()'], 'cuda.threadfence_block()'


def numba_programs(n, seed):
    "Generate `n` programs in Numba's dialect, about half of them racy"
    generator = Generator(seed)
    make_body = dict(lock=numba_lock, ticket=numba_ticket, counter=numba_counter)
    excluded = 'lock too narrow', 'ticket too narrow', 'one block without the lock'
    for _ in range(n):
        kind = generator.pick(*make_body)
        mistakes = [mistake for mistake in MISTAKES_OF_KIND[kind] if mistake not in excluded]
        mistake = generator.pick(*mistakes) if generator.chance(.55) else None
        thread, fences = generator.random.randrange(THREADS), [generator.pick(*NUMBA_WIDE) for _ in range(2)]
        yield Program(kind, mistake, '\n'.join(make_body[kind](generator, mistake, thread, fences)))


def numba_lock(generator, mistake, thread, fences):
    acquire_fence, release_fence = fences
    if mistake in ('no fences', 'no acquire fence'): acquire_fence = 'pass'
    if mistake in ('no fences', 'no release fence', 'release fence after the unlock'): release_fence = 'pass'
    if mistake == 'acquire fence too narrow': acquire_fence = NUMBA_NARROW
    if mistake == 'release fence too narrow': release_fence = NUMBA_NARROW
    first = 'data[0] += 1' if mistake == 'a change before the lock' else 'pass'
    last = 'data[0] += 1' if mistake == 'a change after the lock' else 'pass'
    if mistake == 'release fence after the unlock': last = generator.pick(*NUMBA_WIDE)
    return [f'if t == {thread}:', f'    {first}', '    while cuda.atomic.cas(flag, 0, 0, 1) != 0: pass',
            f'    {acquire_fence}', '    data[0] += 1', f'    {release_fence}', '    cuda.atomic.exch(flag, 0, 0)',
            f'    {last}']


def numba_ticket(generator, mistake, thread, fences):
    fence, _ = fences
    all_write = mistake == 'no barrier before the ticket' or generator.chance()
    has_own_fences = all_write and mistake is None and generator.chance()
    write = f'data[b*{THREADS} + t] = 1' if all_write else f'if t == {thread}: data[b*{THREADS}] = 1'
    before = fence if mistake == 'fence before the data' else 'pass'
    if mistake in ('no fence', 'fence before the data') or has_own_fences: fence = 'pass'
    if mistake == 'fence too narrow': fence = NUMBA_NARROW
    own_fence = generator.pick(*NUMBA_WIDE) if has_own_fences else 'pass'
    barrier = 'cuda.syncthreads()' if all_write and mistake != 'no barrier before the ticket' else 'pass'
    condition = 'last[0]' if all_write else f'last[0] and t == {generator.random.randrange(THREADS)}'
    word = f'data[k*{THREADS} + {THREADS-1} - t]' if all_write else f'data[k*{THREADS}]'
    return ['last = cuda.shared.array(1, np.int32)', before, write, own_fence, barrier, f'if t == {thread}:',
            f'    {fence}', f'    last[0] = cuda.atomic.add(flag, 0, 1) == {BLOCKS-1}', 'cuda.syncthreads()',
            f'if {condition}:', f'    for k in range({BLOCKS}): out[t] += {word}']


def numba_counter(generator, mistake, thread, fences):
    use = {'a sum next to the counter': 'data[0] += m', 'an element for two': 'data[m//2] += 1',
           'an atomic sum and a plain read': 'cuda.atomic.add(data, 0, m); out[m] = data[0]'}
    before, after = (generator.pick('pass', *NUMBA_WIDE) for _ in range(2))
    return [before, 'm = cuda.atomic.add(flag, 0, 1)', after, use.get(mistake, 'data[m] = m')]


def run_numba_programs(units):
    "Run programs in the simulator; yield the same as `run_programs`"
    from gridstride.sim import cuda
    for k, program in enumerate(units):
        src, name = ('def program(data, flag, out):\n    t, b = cuda.threadIdx.x, cuda.blockIdx.x\n'
                     + ''.join(f'    {o}\n' for o in program.body.split('\n')), f'<program {k}>')
        linecache.cache[name] = len(src), None, src.splitlines(True), name
        namespace = dict(cuda=cuda, np=np)
        exec(compile(src, name, 'exec'), namespace)
        try: cuda.jit(namespace['program'])[BLOCKS, THREADS](*(np.zeros(512, np.int32) for _ in range(3)))
        except RacecheckError as finding: yield program, finding
        else: yield program, None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('programs', type=int, nargs='?', default=1000)
    parser.add_argument('seed', type=int, nargs='?', default=17)
    parser.add_argument('--numba', action='store_true')
    args = parser.parse_args()
    if args.numba: results = run_numba_programs(numba_programs(args.programs, args.seed))
    else: results = run_programs(programs(args.programs, args.seed))
    print(f'{args.programs} programs, seed {args.seed}, {"the simulator" if args.numba else "the emulator"}\n')
    num_missed, num_racy, num_alarms, num_correct = print_table(results)
    print(f'\n{num_alarms} false alarms in {num_correct}, {num_missed} misses in {num_racy}: {num_missed/num_racy:.1%}')


if __name__ == '__main__': main()
