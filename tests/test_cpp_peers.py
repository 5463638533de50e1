"""Data races between processes that share device memory, as right and wrong pairs. The kernels of both processes run at
the same time, because each waits for the other to begin. Either process may find the race."""
import re
import sys

import pytest

from gridstride import cpp, load_cuda
from gridstride.diagnostics.errors import KernelError

pytestmark = pytest.mark.skipif(not sys.platform.startswith('linux'), reason='a process opens files of another: Linux')

SOURCE = r'''
#include <nvshmem.h>
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <sys/wait.h>
#include <unistd.h>
struct Box { int data[64], flag[4], begun[2]; };
enum { right = 0, no_release = 1, no_acquire = 2, release_of_device = 3, flag_of_device = 4, acquire_of_block = 5,
    ptx = 6, ptx_relaxed_store = 7, ptx_relaxed_load = 8, ptx_of_device = 9, volatiles = 10, volatiles_no_acquire = 11,
    no_flag = 12, no_block_barrier = 13, cuda_atomic = 14, cuda_atomic_of_device = 15, cuda_atomic_relaxed = 16 };
__device__ void store_flag(int *flag, int value, int how) {
    if (how != no_release && how < ptx) how == release_of_device ? __threadfence() : __threadfence_system();
    if (how == ptx || how == ptx_relaxed_load)
        asm volatile("st.release.sys.b32 [%0], %1;" :: "l"(flag), "r"(value) : "memory");
    else if (how == ptx_relaxed_store)
        asm volatile("st.relaxed.sys.b32 [%0], %1;" :: "l"(flag), "r"(value) : "memory");
    else if (how == ptx_of_device)
        asm volatile("st.release.gpu.b32 [%0], %1;" :: "l"(flag), "r"(value) : "memory");
    else if (how == volatiles || how == volatiles_no_acquire) __threadfence_system(), *(volatile int *)flag = value;
    else if (how == cuda_atomic)
        cuda::atomic_ref<int, cuda::thread_scope_system>(*flag).store(value, cuda::memory_order_release);
    else if (how == cuda_atomic_relaxed)
        cuda::atomic_ref<int, cuda::thread_scope_system>(*flag).store(value, cuda::memory_order_relaxed);
    else if (how == cuda_atomic_of_device)
        cuda::atomic_ref<int, cuda::thread_scope_device>(*flag).store(value, cuda::memory_order_release);
    else if (how == flag_of_device) atomicExch(flag, value);
    else if (how == no_block_barrier) __threadfence_system(), atomicExch_system(flag, value);
    else atomicExch_system(flag, value);
}
__device__ int load_flag(int *flag, int how) {
    int value;
    if (how == ptx || how == ptx_relaxed_store || how == ptx_of_device)
        asm volatile("ld.acquire.sys.b32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    else if (how == ptx_relaxed_load)
        asm volatile("ld.relaxed.sys.b32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    else if (how == volatiles || how == volatiles_no_acquire) value = *(volatile int *)flag;
    else if (how >= cuda_atomic)
        value = cuda::atomic_ref<int, cuda::thread_scope_system>(*flag).load(cuda::memory_order_acquire);
    else value = atomicAdd_system(flag, 0);
    return value;
}
__device__ void wait_flag(int *flag, int value, int how) {
    while (load_flag(flag, how) < value) {}
    if (how == acquire_of_block) __threadfence_block();
    else if (how != no_acquire && (how < ptx || how == volatiles || how == no_block_barrier)) __threadfence_system();
}
__device__ void meet(Box *box, int rank) {                 // orders nothing, because there is no fence
    if (threadIdx.x == 0) {
        atomicAdd_system(&box->begun[rank], 1);
        while (atomicAdd_system(&box->begun[1 - rank], 0) < 1) {}
    }
    __syncthreads();
}
// One message
__global__ void send(Box *box, int how) {
    meet(box, 0);
    box->data[threadIdx.x] = threadIdx.x;                   // send
    if (how != no_block_barrier) __syncthreads();
    if (threadIdx.x == 0 && how != no_flag) store_flag(box->flag, 1, how);
}
__global__ void receive(Box *box, int *out, int how) {
    meet(box, 1);
    if (threadIdx.x > 0) return;                            // because a barrier of the block acquires, too
    if (how != no_flag) wait_flag(box->flag, 1, how);
    for (int i = 0; i < 64; i++)
        out[i] = box->data[i];                              // receive
}
// A block waits for the message, and another one reads it after a barrier of the grid.
__global__ void receive_in_grid(Box *box, int *out, int how) {
    if (blockIdx.x == 0) {
        meet(box, 1);
        if (threadIdx.x == 0) wait_flag(box->flag, 1, right);
    }
    if (!how) cooperative_groups::this_grid().sync();
    if (blockIdx.x == 1) out[threadIdx.x] = box->data[threadIdx.x];     // receive in grid
}
// Rounds: a buffer that is written again after its reader has signalled
enum { early_signal = 1, no_signal = 2, same_flag = 3, reset = 4 };
__global__ void send_rounds(Box *box, int how) {
    meet(box, 0);
    for (int round = 1; round <= 3; round++) {
        const bool counts = how != same_flag && how != reset;
        box->data[threadIdx.x] = 10 * round;                // send in rounds
        __syncthreads();
        if (threadIdx.x == 0) store_flag(box->flag, counts ? round : 1, right);
        if (threadIdx.x == 0 && how != no_signal) wait_flag(box->flag + 1, round, right);
        __syncthreads();
    }
}
__global__ void receive_rounds(Box *box, int *out, int how) {
    meet(box, 1);
    for (int round = 1; round <= 3; round++) {
        const bool counts = how != same_flag && how != reset;
        if (threadIdx.x == 0) wait_flag(box->flag, counts ? round : 1, right);
        if (threadIdx.x == 0 && how == early_signal) store_flag(box->flag + 1, round, right);
        __syncthreads();
        out[threadIdx.x] = box->data[threadIdx.x];          // receive in rounds
        __syncthreads();
        if (threadIdx.x == 0 && how == reset) atomicExch_system(box->flag, 0);
        if (threadIdx.x == 0 && how != early_signal) store_flag(box->flag + 1, round, right);
    }
}
// Both processes count: with system scope, or with device scope
__global__ void count(Box *box, int rank, int how) {
    meet(box, rank);
    if (how) atomicAdd(box->flag, 1);                       // counts
    else atomicAdd_system(box->flag, 1);
}
// Neighbouring elements of a word
__global__ void halves(Box *box, int rank) {
    meet(box, rank);
    ((short *)box->data)[2 * threadIdx.x + rank] = 7;
}
template <class F, class G> int run_pair(F first, G second, int device) {
    Box *box; int *out, last = 0; cudaMalloc(&box, sizeof *box), cudaMalloc(&out, 256);
    cudaMemset(box, 0, sizeof *box), cudaMemset(out, 0, 256);
    cudaIpcMemHandle_t handle; cudaIpcGetMemHandle(&handle, box);
    const int child = fork();
    if (!child) {
        void *p; cudaSetDevice(device);
        if (cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess)) _exit(3);
        first((Box *)p);
        _exit(cudaDeviceSynchronize());
    }
    second(box, out);
    const int error = cudaDeviceSynchronize();
    int status; waitpid(child, &status, 0);
    cudaMemcpy(&last, out + 5, 4, cudaMemcpyDeviceToHost), cudaFree(box), cudaFree(out);
    return error ? -error : 1000 * (WIFEXITED(status) ? WEXITSTATUS(status) : 99) + last;
}
int message(int how, int device) {
    return run_pair([=](Box *box) { send<<<1, 64>>>(box, how); },
        [=](Box *box, int *out) { receive<<<1, 64>>>(box, out, how); }, device);
}
int rounds(int how, int device) {
    return run_pair([=](Box *box) { send_rounds<<<1, 64>>>(box, how); },
        [=](Box *box, int *out) { receive_rounds<<<1, 64>>>(box, out, how); }, device);
}
int grids(int how, int device) {
    return run_pair([=](Box *box) { send<<<1, 64>>>(box, right); },
        [=](Box *box, int *out) {
            int mode = how;
            void *args[] = {&box, &out, &mode};
            cudaLaunchCooperativeKernel((void *)receive_in_grid, 2, 64, args, 0, nullptr);
        }, device);
}
int counts(int how, int device) {
    return run_pair([=](Box *box) { count<<<1, 64>>>(box, 0, how); },
        [=](Box *box, int *out) { count<<<1, 64>>>(box, 1, how); }, device);
}
int half_words(int, int device) {
    return run_pair([=](Box *box) { halves<<<1, 64>>>(box, 0); },
        [=](Box *box, int *out) { halves<<<1, 64>>>(box, 1); }, device);
}
__global__ void write(int *x, int value) { x[threadIdx.x] = value; }
__global__ void sum(int *x, int *out) { out[threadIdx.x] += x[threadIdx.x]; }
// The hosts take turns; the emulator does not see their pipe. 1: the writer's host does not wait for its kernel
int by_hosts(int how, int device) {
    int ready[2], done[2]; if (pipe(ready) || pipe(done)) return -1;
    const int value = run_pair([=](Box *box) {
        char c = 1;
        close(ready[0]), close(done[1]);                    // so that a read ends if the other process does
        for (int i = 0; i < 3; i++) {
            write<<<1, 64>>>(box->data, i + 1);
            if (!how) cudaDeviceSynchronize();
            if (::write(ready[1], &c, 1) != 1 || read(done[0], &c, 1) != 1) _exit(4);
        }
    }, [=](Box *box, int *out) {
        char c = 1;
        close(ready[1]), close(done[0]);
        for (int i = 0; i < 3; i++) {
            if (read(ready[0], &c, 1) != 1) return;
            sum<<<1, 64>>>(box->data, out), cudaDeviceSynchronize();
            if (::write(done[1], &c, 1) != 1) return;
        }
    }, device);
    close(ready[0]), close(done[1]);
    return value;
}
__global__ void pass_on(float *x, uint64_t *signal, float *out, bool fences) {
    const int pe = nvshmem_my_pe(), right = (pe + 1) % nvshmem_n_pes();
    float value = 10 + pe;
    nvshmem_putmem(x, &value, sizeof value, right);
    if (fences) nvshmem_fence();
    nvshmemx_signal_op(signal, 1, NVSHMEM_SIGNAL_SET, right);
    nvshmem_signal_wait_until(signal, NVSHMEM_CMP_EQ, 1);
    out[0] = x[0];                                          // reads what it was sent
}
int shmem(int how, int) {                                   // 1: no fence between the data and the signal
    nvshmemx_uniqueid_t id; nvshmemx_get_uniqueid(&id);
    int processes[2], all = 0, status;
    for (int rank = 0; rank < 2; rank++)
        if (!(processes[rank] = fork())) {
            nvshmemx_init_attr_t a; nvshmemx_set_attr_uniqueid_args(rank, 2, &id, &a);
            cudaSetDevice(rank);
            if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &a)) _exit(90);
            float *x = (float *)nvshmem_malloc(64), *out; uint64_t *signal = (uint64_t *)nvshmem_malloc(8);
            cudaMalloc(&out, 4);
            pass_on<<<1, 1>>>(x, signal, out, !how), cudaDeviceSynchronize();
            nvshmem_barrier_all();
            _exit(0);
        }
    for (int process : processes) waitpid(process, &status, 0), all += WIFEXITED(status) ? WEXITSTATUS(status) : 99;
    return all;
}
// A message whose flag a first kernel of the reader awaits, and whose data its second kernel reads
__global__ void await_only(Box *box) { meet(box, 1); if (threadIdx.x == 0) wait_flag(box->flag, 1, right); }
__global__ void read_only(Box *box, int *out) { out[threadIdx.x] = box->data[threadIdx.x]; }
__global__ void fill_only(Box *box) { box->data[threadIdx.x] = threadIdx.x; }
__global__ void signal_only(Box *box) { meet(box, 0); if (threadIdx.x == 0) store_flag(box->flag, 1, right); }
int by_kernels(int, int device) {
    return run_pair([=](Box *box) { fill_only<<<1, 64>>>(box), signal_only<<<1, 64>>>(box); },
        [=](Box *box, int *out) { await_only<<<1, 64>>>(box), read_only<<<1, 64>>>(box, out); }, device);
}
'''


@pytest.fixture(scope='module')
def module(): return load_cuda(SOURCE, name='peers')


def line(text): return next(i for i, o in enumerate(SOURCE.splitlines(), 1) if o.endswith(f'// {text}'))


def run(module, name, how, device=1):
    with cpp.options(devices=1 + device, seconds=20): return getattr(module, name)(how, device)


def found(module, capfd, name, how, device=1):
    "(code, lines of both accesses) of the findings of both processes"
    findings = []
    try: run(module, name, how, device)
    except KernelError as e:
        if e.other: findings.append((e.code, {e.line, e.other.line}, e))
    printed = re.findall(r'^(\w+): (.*) \(\S*:(\d+), against \S*:(\d+)\)$', capfd.readouterr().err, re.M)
    findings += [(code, {*map(int, lines)}, fields) for code, fields, *lines in printed]
    return findings


NAMES = dict(re.findall(r'\b(\w+) = (\d+)', SOURCE.split('struct Box')[1].split('__device__')[0]))
ROUNDS = dict(re.findall(r'\b(\w+) = (\d+)', SOURCE.split('// Rounds')[1].split('__global__')[0]))
SEND, RECEIVE = 'send', 'receive'


@pytest.mark.parametrize('name', ['right', 'ptx', 'volatiles', 'cuda_atomic'])
def test_right_messages(name, module): assert run(module, 'message', int(NAMES[name])) == 5


@pytest.mark.parametrize('name,code', [
    ('no_release', 'race_of_processes'), ('no_acquire', 'flag_not_acquired'), ('release_of_device', 'scope_of_device'),
    ('flag_of_device', 'atomic_of_device'), ('acquire_of_block', 'flag_not_acquired'),
    ('ptx_relaxed_store', 'race_of_processes'), ('ptx_relaxed_load', 'flag_not_acquired'),
    ('ptx_of_device', 'atomic_of_device'), ('volatiles_no_acquire', 'flag_not_acquired'),
    ('no_flag', 'race_of_processes'), ('no_block_barrier', 'race_of_processes'),
    ('cuda_atomic_of_device', 'atomic_of_device'), ('cuda_atomic_relaxed', 'race_of_processes')])
def test_wrong_messages(name, code, module, capfd):
    findings = found(module, capfd, 'message', int(NAMES[name]))
    assert code in [c for c, *_ in findings], findings
    if not code.startswith('atomic'): assert (code, {line('send'), line('receive')}) in [f[:2] for f in findings]


@pytest.mark.parametrize('name', [
    'right', 'release_of_device', 'flag_of_device', 'ptx_of_device', 'cuda_atomic_of_device'])
def test_device_scope_suffices_on_one_device(name, module):
    assert run(module, 'message', int(NAMES[name]), device=0) == 5


@pytest.mark.parametrize('how', [0, int(ROUNDS['reset'])])
def test_right_rounds(how, module): assert run(module, 'rounds', how) == 30


@pytest.mark.parametrize('name', ['early_signal', 'no_signal', 'same_flag'])
def test_wrong_rounds(name, module, capfd):
    findings = found(module, capfd, 'rounds', int(ROUNDS[name]))
    lines = {line('send in rounds'), line('receive in rounds')}
    assert ('race_of_processes', lines) in [f[:2] for f in findings], findings


@pytest.mark.parametrize('device', [0, 1])
def test_a_grid_barrier_acquires_for_all_blocks(device, module, capfd):
    assert run(module, 'grids', 0, device) == 5
    findings = found(module, capfd, 'grids', 1, device)
    assert ('race_of_processes', {line('send'), line('receive in grid')}) in [f[:2] for f in findings], findings


def test_counters(module, capfd):
    assert run(module, 'counts', 0) == 0 and run(module, 'counts', 1, device=0) == 0
    findings = found(module, capfd, 'counts', 1)
    assert ('atomic_of_device', {line('counts')}) in [f[:2] for f in findings], findings


def test_two_halves_of_a_word_do_not_race(module): assert run(module, 'half_words', 0) == 0


def test_hosts_order_launches(module, capfd):
    assert run(module, 'by_hosts', 0, device=0) == 6
    assert 'race_of_processes' in [code for code, *_ in found(module, capfd, 'by_hosts', 1, device=0)]


def test_a_finding_names_the_ranks(module, capfd):
    assert run(module, 'shmem', 0) == 0
    findings = found(module, capfd, 'shmem', 1)
    assert findings and all(code == 'race_of_processes' for code, *_ in findings)
    for _, lines, fields in findings:
        assert line('reads what it was sent') in lines and len(lines) == 2
        assert {*re.findall(r'process\w*=rank (\d)', fields)} == {'0', '1'}


def test_flags_order_later_launches(module): assert run(module, 'by_kernels', 0) == 5


def test_a_finding_names_both_processes(module, capfd):
    for code, lines, finding in found(module, capfd, 'message', int(NAMES['no_flag'])):
        if isinstance(finding, KernelError):
            fields = finding.fields
            assert finding.other.block == (0, 0, 0) and {finding.device, finding.other.device} == {0, 1}
            assert fields['process'] != fields['process_before'] and fields['process_before'] in str(finding)
        else: assert re.search(r'process=process \d+, process_before=process \d+', finding)
