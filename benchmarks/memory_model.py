"""racecheck's memory model, judged: programs of fences, atomics, locks and flags, right and wrong by construction.

Each wrong one differs from a right one by one thing. Prints misses and false alarms by kind: memory_model.txt.
`python memory_model.py [programs] [seed]`; `--numba` judges the simulator, by locks and tickets in Numba's dialect."""
import argparse, linecache, random, re
from collections import Counter, namedtuple

import numpy as np

from gridstride.cpp import cuda_kernel
from gridstride.diagnostics.errors import KernelError, RacecheckError

Program = namedtuple('Program', 'kind wrong body')           # wrong: what is wrong with it, or None
BLOCKS, THREADS, PER_UNIT = 4, 64, 100
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


class Maker:
    "Makes programs from random choices"

    def __init__(self, seed): self.random = random.Random(seed)

    def pick(self, *options): return self.random.choice(options)

    def some(self, p=.5): return self.random.random() < p

    def fence(self, wide, half=None):
        "A fence that reaches far enough; `half`: 'release' or 'acquire', where that is enough"
        if half and self.some(.2):
            scope = 'device' if wide or self.some() else 'block'
            return f'cuda::atomic_thread_fence({ORDER}{half}, cuda::thread_scope_{scope});'
        return self.pick(*(WIDE if wide or self.some() else NARROW))

    def ref(self, wide): return self.pick('device_ref', 'system_ref') if wide or self.some() else 'block_ref'

    def suffix(self, wide): return self.pick('', '', '_system') if wide or self.some() else '_block'

    def hand_over(self, wide, flag, wrong=None, value=1, was=0):
        """(before the data, after the data, the write of the flag; its read, after that): a
        message from one thread to another"""
        r, a, before = self.some(.35), self.some(.35), ''
        if wrong in ('no release fence', 'release fence too narrow', 'release fence before the data', 'plain flag'):
            r = False
        if wrong in ('no acquire fence', 'acquire fence too narrow', 'acquire fence before the read',
                     'plain read of the flag'):
            a = False
        if wrong == 'relaxed store': r = True
        if wrong == 'relaxed load': a = True
        ref = 'block_ref' if wrong == 'flag too narrow' else self.ref(wide)
        ends = '_block' if wrong == 'flag too narrow' else self.suffix(wide)
        if r:
            order = 'relaxed' if wrong == 'relaxed store' else self.pick('release', 'seq_cst')
            write = self.pick(f'{ref}(*{flag}).store({value}, {ORDER}{order});',
                              f'{ref}(*{flag}).exchange({value}, {ORDER}{"acq_rel" if order == "release" else order});')
            release_fence = ''
        else:
            writes = [f'atomicExch{ends}({flag}, {value});', f'{ref}(*{flag}).store({value}, {ORDER}relaxed);']
            if was == 0 and value > 0: writes.append(f'atomicAdd{ends}({flag}, {value});')
            if wrong != 'flag too narrow': writes.append(f'*(volatile int *){flag} = {value};')
            write, release_fence = self.pick(*writes), self.fence(wide, 'release')
        if wrong == 'no release fence': release_fence = ''
        if wrong == 'release fence too narrow': release_fence = self.pick(*NARROW)
        if wrong == 'release fence before the data': before, release_fence = release_fence, ''
        if wrong == 'plain flag': write = f'*{flag} = {value};'
        if a:
            order = 'relaxed' if wrong == 'relaxed load' else self.pick('acquire', 'seq_cst')
            read, then = f'{self.ref(wide)}(*{flag}).load({ORDER}{order})', ''
        else:
            suffix = self.suffix(wide)
            read = self.pick(f'atomicAdd{suffix}({flag}, 0)', f'atomicCAS{suffix}({flag}, {value}, {value})',
                             f'*(volatile int *){flag}', f'{self.ref(wide)}(*{flag}).load({ORDER}relaxed)')
            then = self.fence(wide, 'acquire')
        wait = f'while ({read} != {value}) {{ }}'
        if wrong == 'no acquire fence': then = ''
        if wrong == 'acquire fence too narrow': then = self.pick(*NARROW)
        if wrong == 'acquire fence before the read': wait, then = f'{then} {wait}', ''
        if wrong == 'plain read of the flag': wait = f'for (int k = 0; k < 50 && *{flag} != {value}; k++) {{ }}'
        return before, release_fence, write, wait, then

    def noise(self):
        "What makes no order and no race: fences, atomics elsewhere"
        if self.some(.6): return ''
        return self.pick('__threadfence();', 'atomicAdd(flag + 100, 1);', 'device_ref(flag[101]).fetch_add(1);',
                         '__syncthreads();', 'atomicAdd(flag + 200 + threadIdx.x, 1); __threadfence();')

    def message(self, wrong=None):
        "From a thread to one of another block"
        p = self.random.randrange(BLOCKS-1)
        c, t, u = self.random.randrange(p+1, BLOCKS), self.random.randrange(THREADS-1), self.random.randrange(THREADS)
        n, at = self.random.randint(1, 3), self.random.randrange(8)
        before, release_fence, write, wait, then = self.hand_over(True, 'flag', wrong)
        puts = [f'data[{at+k}] = {k+5};' for k in range(n)]
        gets = [f'out[{k}] = data[{at+k}];' for k in range(n)]
        late = puts.pop() if wrong == 'a write after the flag' else ''
        early = gets.pop() if wrong == 'a read before the flag' else ''
        who = f'blockIdx.x == {p} && threadIdx.x == {t}'
        other = (f'if (blockIdx.x == {p} && threadIdx.x == {t+1}) {{ {" ".join(puts)} }}'
                 if wrong == 'released by another thread' else '')
        puts = '' if other else ' '.join(puts)
        return (f'{self.noise()} {other} if ({who}) {{ {before} {puts} {release_fence} {write} {late} }} '
                f'if (blockIdx.x == {c} && threadIdx.x == {u}) {{ {early} {wait} {then} {" ".join(gets)} }}')

    def message_of_blocks(self, wrong=None):
        "All threads of a block write, one of them sets a flag, one of another block waits for it for all threads there"
        p = self.random.randrange(BLOCKS-1)
        c, t, u = self.random.randrange(p+1, BLOCKS), self.random.randrange(THREADS), self.random.randrange(THREADS)
        _, release_fence, write, wait, then = self.hand_over(True, 'flag', wrong)
        each = self.some(.3) and wrong is None
        put = f'data[threadIdx.x] = {self.random.randint(1, 9)};'
        barrier = ('' if wrong == 'no barrier before the release'
                   else self.pick('__syncthreads();', 'cg::this_thread_block().sync();'))
        after = '' if wrong == 'no barrier after the acquire' else '__syncthreads();'
        if each: put, release_fence = f'{put} {self.pick(*WIDE)}', ''
        return (f'{self.noise()} if (blockIdx.x == {p}) {{ {put} {barrier} if (threadIdx.x == {t}) {{ '
                f'{release_fence} {write} }} }} if (blockIdx.x == {c}) {{ if (threadIdx.x == {u}) {{ {wait} {then} }} '
                f'{after} out[threadIdx.x] = data[{THREADS-1} - threadIdx.x]; }}')

    def message_in_block(self, wrong=None):
        "From a thread to another of its block, in shared or in global memory"
        t, u = self.random.sample(range(1, THREADS-1), 2)
        shared = self.some(.6)
        d, f = ('s', '&f') if shared else ('(data + blockIdx.x*16)', '(flag + blockIdx.x)')
        before, release_fence, write, wait, then = self.hand_over(False, f, wrong)
        n = self.random.randint(1, 3)
        puts, gets = ([f'{d}[{k}] = {k+5};' for k in range(n)],
                      [f'out[blockIdx.x*16 + {k}] = {d}[{k}];' for k in range(n)])
        late = puts.pop() if wrong == 'a write after the flag' else ''
        early = gets.pop() if wrong == 'a read before the flag' else ''
        w = next(k for k in range(THREADS) if k not in (t, u)) if wrong == 'released by another thread' else t
        apart = f'if (threadIdx.x == {w}) {{ {" ".join(puts)} }}' if w != t else ''
        start = ('__shared__ int s[4], f; if (threadIdx.x == 0) f = 0; '
                 'if (threadIdx.x < 4) s[threadIdx.x] = 0; __syncthreads();' if shared else '')
        data = "" if apart else " ".join(puts)
        return (f'{start} {apart} if (threadIdx.x == {t}) {{ {before} {data} {release_fence} '
                f'{write} {late} }} if (threadIdx.x == {u}) {{ {early} {wait} {then} {" ".join(gets)} }}')

    def lock(self, wrong=None):
        "A thread of each block changes some words under a lock"
        t, n = self.random.randrange(THREADS), self.random.randint(1, 3)
        a, r = self.some(.3), self.some(.3)
        if wrong in ('no acquire fence', 'acquire fence too narrow', 'no fences'): a = False
        if wrong in ('no release fence', 'release fence too narrow', 'no fences', 'release fence after the unlock'):
            r = False
        if wrong == 'lock too narrow': a, r = False, False
        take = (f'{self.pick("device_ref", "system_ref")}(*flag).exchange(1, {ORDER}acquire)' if a
                else self.pick('atomicCAS(flag, 0, 1)', 'atomicExch(flag, 1)', 'atomicCAS_system(flag, 0, 1)'))
        then, release_fence = '' if a else self.fence(True, 'acquire'), '' if r else self.fence(True, 'release')
        give = (f'{self.pick("device_ref", "system_ref")}(*flag).store(0, {ORDER}release);' if r
                else self.pick('atomicExch(flag, 0);', '*(volatile int *)flag = 0;', 'atomicAnd(flag, 0);'))
        if wrong == 'lock too narrow': take = 'atomicCAS_block(flag, 0, 1)'
        if wrong in ('no acquire fence', 'no fences'): then = ''
        if wrong in ('no release fence', 'no fences'): release_fence = ''
        if wrong == 'acquire fence too narrow': then = self.pick(*NARROW)
        if wrong == 'release fence too narrow': release_fence = self.pick(*NARROW)
        if wrong == 'release fence after the unlock': give, release_fence = f'{give} {release_fence}', ''
        work = [f'data[{k}] {self.pick("+= 1", "= data[%d] + blockIdx.x" % k, "-= 3")};' for k in range(n)]
        outside = work.pop() if wrong in ('a change before the lock', 'a change after the lock') else ''
        first, last = (outside, '') if wrong == 'a change before the lock' else ('', outside)
        who = f'threadIdx.x == {t}'
        lock, unlock = f'while ({take} != 0) {{ }} {then}', f'{release_fence} {give}'
        if wrong == 'one block without the lock':
            b = self.random.randrange(BLOCKS)
            lock, unlock = f'if (blockIdx.x != {b}) {{ {lock} }}', f'if (blockIdx.x != {b}) {{ {unlock} }}'
        return f'{self.noise()} if ({who}) {{ {first} {lock} {" ".join(work)} {unlock} {last} }}'

    def ticket(self, wrong=None):
        "The last block sums what all blocks have written"
        all_write = wrong == 'no barrier before the ticket' or self.some(.5)
        t = self.random.randrange(THREADS)
        each = all_write and wrong is None and self.some(.4)
        r = self.some(.25) and wrong in (None, 'no barrier before the ticket')
        ends = '_block' if wrong == 'ticket too narrow' else self.pick('', '_system')
        take = (f'{self.pick("device_ref", "system_ref")}(*flag).fetch_add(1, {ORDER}acq_rel)' if r
                else self.pick(f'atomicAdd{ends}(flag, 1)', f'(int)atomicInc{ends}((unsigned *)flag, 1000)'))
        put = (f'data[blockIdx.x*{THREADS} + threadIdx.x] = 1;' if all_write
               else f'if (threadIdx.x == {t}) data[blockIdx.x*{THREADS}] = 1;')
        fence = '' if r else self.fence(True)
        if wrong == 'no fence': fence = ''
        if wrong == 'fence too narrow': fence = self.pick(*NARROW)
        before = ''
        if wrong == 'fence before the data': before, fence = fence, ''
        barrier = (self.pick('__syncthreads();', 'cg::this_thread_block().sync();')
                   if all_write and wrong != 'no barrier before the ticket' else '')
        if each: put, fence = f'{put} {self.pick(*WIDE)}', ''
        then = self.fence(True) if self.some() else ''
        reads = (f'for (int b = 0; b < {BLOCKS}; '
                 f'b++) v += data[b*{THREADS}{" + %d - threadIdx.x" % (THREADS-1) if all_write else ""}];')
        who = '' if all_write else f'if (threadIdx.x == {self.random.randrange(THREADS)})'
        reset = self.pick('', f'if (threadIdx.x == {t}) *flag = 0;')
        return (f'__shared__ bool last; {before} {put} {barrier} if (threadIdx.x == {t}) {{ {fence} last = {take} == '
                f'{BLOCKS-1}; }} __syncthreads(); '
                f'if (last) {{ {then} int v = 0; {who} {{ {reads} out[threadIdx.x] = v; }} {reset} }}')

    def chain(self, wrong=None):
        "Each block waits for the one before, and uses what all of those before have written"
        t = self.random.randrange(THREADS)
        _, release_fence, write, _, _ = self.hand_over(True, '(flag + blockIdx.x)',
                                                wrong if wrong and 'release' in wrong else None)
        _, _, _, wait, then = self.hand_over(True, '(flag + blockIdx.x - 1)',
                                             wrong if wrong and 'acquire' in wrong else None)
        return (f'{self.noise()} if (threadIdx.x == {t}) {{ int v = blockIdx.x; if (blockIdx.x) {{ {wait} {then} }} '
                f'for (int b = 0; b < blockIdx.x; b++) v += data[b]; data[blockIdx.x] = v; {release_fence} {write} }}')

    def there_and_back(self, wrong=None):
        "A message between two threads of a block, whose buffer is used again when it is answered"
        t, u = self.random.sample(range(1, THREADS), 2)
        one = self.hand_over(False, '&f', wrong if wrong and not wrong.startswith('back: ') else None)
        two = self.hand_over(False, '&f', wrong[6:] if wrong and wrong.startswith('back: ') else None, value=2, was=1)
        return ('__shared__ int s, f; if (threadIdx.x == 0) s = f = 0; __syncthreads(); '
                f'if (threadIdx.x == {t}) {{ {one[0]} s = 1; {one[1]} {one[2]} {two[3]} {two[4]} out[blockIdx.x] = s; '
                f'}} if (threadIdx.x == {u}) {{ {one[3]} {one[4]} {two[0]} s = s + 1; {two[1]} {two[2]} }}')

    def counter(self, wrong=None):
        "A counter that assigns indices, and sums next to it"
        count = self.pick('atomicAdd(flag, 1)', 'device_ref(*flag).fetch_add(1)',
            f'system_ref(*flag).fetch_add(1, {ORDER}acq_rel)', f'device_ref(*flag).fetch_add(1, {ORDER}relaxed)')
        fences = self.some()
        count = f'{self.pick(*WIDE)} int m = {count}; {self.pick(*WIDE)}' if fences else f'int m = {count};'
        if wrong == 'a sum next to the counter': return f'{count} data[0] += m;'
        if wrong == 'an element for two': return f'{count} data[m/2] += 1;'
        if wrong == 'an atomic sum and a plain read': return f'{count} atomicAdd(data, m); out[m] = data[0];'
        return f'{count} {self.pick("data[m] = m;", "atomicAdd(data, m);", "device_ref(data[0]).fetch_add(m);")}'

    def of_volatiles(self, wrong=None):
        "volatile, in global and in shared memory"
        fences = self.some(.3)
        before, after = (self.pick(*WIDE), self.pick(*WIDE)) if fences else ('', '')
        if wrong == 'a volatile sum':
            return (f'volatile int *d = data; {before} d[{self.random.randrange(4)}] '
                    f'{self.pick("+= 1", "-= 3", "+= threadIdx.x + 1")}; {after}')
        if wrong == 'a volatile sum of blocks':
            return (f'volatile int *d = data; if (threadIdx.x == {self.random.randrange(THREADS)}) {{ {before} d[1] '
                    f'{self.pick("+= 1", "+= blockIdx.x + 1")}; {after} }}')
        half = self.pick(32, 16, 8)
        if wrong == 'a warp in step':
            return ('__shared__ volatile int s[64]; s[threadIdx.x] = threadIdx.x; __syncthreads(); '
                    f'if (threadIdx.x < {half}) {{ s[threadIdx.x] += s[threadIdx.x + {half}]; '
                    f's[threadIdx.x] += s[threadIdx.x + {half//2}]; }}')
        if wrong == 'volatile data, plain reader':
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

    def barriers(self, wrong=None):
        "Words of shared memory that neighbours exchange"
        near = self.pick(1, 3, 7)                            # xor: within 2, 4, 8 lanes
        far = wrong in ('a barrier of the warp for the block',) or (wrong is None and self.some())
        partner = f'(threadIdx.x ^ {32 + near if far else near})'
        whole = ['__syncthreads();', 'cg::this_thread_block().sync();', 'cg::sync(cg::this_thread_block());',
                 'b.arrive_and_wait();', 'asm volatile("bar.sync 1, 64;" ::: "memory");']
        warp = ['__syncwarp();', 'cg::tiled_partition<32>(cg::this_thread_block()).sync();',
                'cg::tiled_partition<8>(cg::this_thread_block()).sync();']
        barrier = self.pick(*whole) if far or self.some(.3) else self.pick(*warp)
        if wrong == 'no barrier': barrier = self.pick('', '__threadfence_block();', '__threadfence();')
        if wrong == 'a barrier of the warp for the block': barrier = self.pick(*warp)
        if wrong == 'a tile too small':
            near, partner, barrier = 8, '(threadIdx.x ^ 8)', 'cg::tiled_partition<8>(cg::this_thread_block()).sync();'
        if wrong == 'a shuffle for a barrier': barrier = '__shfl_sync(~0u, 1, 0);'
        init = ('__shared__ cuda::barrier<cuda::thread_scope_block> b; '
                'if (threadIdx.x == 0) init(&b, 64); __syncthreads();' if 'arrive' in barrier else '')
        put, get = 's[threadIdx.x] = threadIdx.x;', f'out[blockIdx.x*64 + threadIdx.x] = s[{partner}];'
        if wrong == 'a barrier before the write': return f'__shared__ int s[64]; {init} {barrier} {put} {get}'
        return f'__shared__ int s[64]; {init} {put} {barrier} {get}'


HANDS = ['no release fence', 'release fence before the data', 'no acquire fence', 'acquire fence before the read',
         'plain flag', 'plain read of the flag', 'relaxed store', 'relaxed load']
SCOPES = ['release fence too narrow', 'acquire fence too narrow', 'flag too narrow']
MESSAGE = ['a write after the flag', 'a read before the flag', 'released by another thread']
KINDS = dict(
    message=HANDS + SCOPES + MESSAGE,
    message_of_blocks=['no release fence', 'release fence too narrow', 'flag too narrow', 'relaxed store',
                       'no barrier before the release', 'no barrier after the acquire'],
    message_in_block=HANDS + MESSAGE,
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
    of_volatiles=['a volatile sum', 'a volatile sum of blocks', 'a warp in step', 'volatile data, plain reader'],
    barriers=['no barrier', 'a barrier of the warp for the block', 'a tile too small', 'a shuffle for a barrier',
              'a barrier before the write'])


def programs(n, seed):
    "`n` programs, about half of them wrong"
    make = Maker(seed)
    kinds = [k for k, wrong in KINDS.items() for _ in range(1 + len(wrong)//3)]
    for _ in range(n):
        kind = make.pick(*kinds)
        wrong = make.pick(*KINDS[kind]) if make.some(.55) else None
        yield Program(kind, wrong, re.sub(' +', ' ', getattr(make, kind)(wrong)))


def judge(units):
    "(program, the finding of racecheck: None if nothing) of each program"
    units = list(units)
    for i in range(0, len(units), PER_UNIT):
        part = units[i:i+PER_UNIT]
        kernels = cuda_kernel(
            HEAD + ''.join(f'__global__ void p{k}({PARAMS}) {{ {p.body} }}\n' for k, p in enumerate(part)) + '}')
        for k, p in enumerate(part):
            try: kernels[f'p{k}'][BLOCKS, THREADS](*(np.zeros(512, np.int32) for _ in range(3)))
            except RacecheckError as e: yield p, e
            except KernelError as e: raise AssertionError(f'{p}\n{e}') from None
            else: yield p, None


def table(results):
    "Prints misses and false alarms by kind; returns (misses, wrong ones, false alarms, right ones)"
    count = Counter()
    for p, e in results:
        outcome = ('found' if e else 'missed') if p.wrong else 'alarm' if e else 'silent'
        count[p.kind, outcome] += 1
        count['all', outcome] += 1
        if outcome in ("missed", "alarm"): print(f'{outcome}: {p.kind}, {p.wrong}: {p.body}\n  {e or ""}')
    print(f'{"":<20}{"right":>8}{"alarms":>8}{"wrong":>8}{"missed":>8}')
    for kind in [*KINDS, 'all']:
        n = {o: count[kind, o] for o in ('silent', 'alarm', 'found', 'missed')}
        if sum(n.values()):
            print(f'{kind.replace("_", " "):<20}{n["silent"]+n["alarm"]:>8}{n["alarm"]:>8}{n["found"]+n["missed"]:>8}'
                  f'{n["missed"]:>8}')
    return (count['all', 'missed'], count['all', 'missed']+count['all', 'found'], count['all', 'alarm'],
            count['all', 'alarm']+count['all', 'silent'])


# The same in Numba's dialect: locks and tickets, whose blocks need not run at once

def numba_programs(n, seed):
    make = Maker(seed)
    wide, narrow = ['cuda.threadfence()', 'cuda.threadfence_system()'], ['cuda.threadfence_block()']
    for _ in range(n):
        kind = make.pick('lock', 'ticket', 'counter')
        wrong = make.pick(*[w for w in KINDS[kind] if 'lock too' not in w and 'ticket too' not in w
                            and w != 'one block without the lock']) if make.some(.55) else None
        t, f, g = make.random.randrange(THREADS), make.pick(*wide), make.pick(*wide)
        if kind == 'lock':
            if wrong in ('no fences', 'no acquire fence'): f = 'pass'
            if wrong in ('no fences', 'no release fence', 'release fence after the unlock'): g = 'pass'
            if wrong == 'acquire fence too narrow': f = narrow[0]
            if wrong == 'release fence too narrow': g = narrow[0]
            last = (make.pick(*wide) if wrong == 'release fence after the unlock' else 'data[0] += 1'
                    if wrong == 'a change after the lock' else 'pass')
            first = 'data[0] += 1' if wrong == 'a change before the lock' else 'pass'
            body = ['if t == %d:' % t, f'    {first}', '    while cuda.atomic.cas(flag, 0, 0, 1) != 0: pass',
                    f'    {f}', '    data[0] += 1', f'    {g}', '    cuda.atomic.exch(flag, 0, 0)', f'    {last}']
        elif kind == 'ticket':
            all_write = wrong == 'no barrier before the ticket' or make.some()
            each = all_write and wrong is None and make.some()
            put = f'data[b*{THREADS} + t] = 1' if all_write else f'if t == {t}: data[b*{THREADS}] = 1'
            before = f if wrong == 'fence before the data' else 'pass'
            if wrong in ('no fence', 'fence before the data') or each: f = 'pass'
            if wrong == 'fence too narrow': f = narrow[0]
            body = ['last = cuda.shared.array(1, np.int32)', before, put, make.pick(*wide) if each else 'pass',
                'cuda.syncthreads()' if all_write and wrong != 'no barrier before the ticket' else 'pass',
                f'if t == {t}:', f'    {f}',
                f'    last[0] = cuda.atomic.add(flag, 0, 1) == {BLOCKS-1}', 'cuda.syncthreads()',
                'if last[0]:' if all_write else f'if last[0] and t == {make.random.randrange(THREADS)}:',
                f'    for k in range({BLOCKS}): '
                f'out[t] += data[k*{THREADS}{" + %d - t" % (THREADS-1) if all_write else ""}]']
        else:
            body = [make.pick('pass', *wide), 'm = cuda.atomic.add(flag, 0, 1)', make.pick('pass', *wide),
                    {'a sum next to the counter': 'data[0] += m', 'an element for two': 'data[m//2] += 1',
                     'an atomic sum and a plain read': 'cuda.atomic.add(data, 0, m); out[m] = data[0]'}
                    .get(wrong, 'data[m] = m')]
        yield Program(kind, wrong, '\n'.join(body))


def judge_numba(units):
    "As `judge`, by the simulator"
    from gridstride.sim import cuda
    for k, p in enumerate(units):
        src, name = ('def program(data, flag, out):\n    t, b = cuda.threadIdx.x, cuda.blockIdx.x\n'
                     + ''.join(f'    {o}\n' for o in p.body.split('\n')), f'<program {k}>')
        linecache.cache[name] = len(src), None, src.splitlines(True), name
        there = dict(cuda=cuda, np=np)
        exec(compile(src, name, 'exec'), there)
        try: cuda.jit(there['program'])[BLOCKS, THREADS](*(np.zeros(512, np.int32) for _ in range(3)))
        except RacecheckError as e: yield p, e
        else: yield p, None


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('programs', type=int, nargs='?', default=1000)
    p.add_argument('seed', type=int, nargs='?', default=17)
    p.add_argument('--numba', action='store_true')
    a = p.parse_args()
    results = judge_numba(numba_programs(a.programs, a.seed)) if a.numba else judge(programs(a.programs, a.seed))
    print(f'{a.programs} programs, seed {a.seed}, {"the simulator" if a.numba else "the emulator"}\n')
    missed, wrong, alarms, right = table(results)
    print(f'\n{alarms} false alarms in {right}, {missed} misses in {wrong}: {missed/wrong:.1%}')


if __name__ == '__main__': main()
