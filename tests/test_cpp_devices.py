"""Several emulated devices: kernels that wait for each other, what orders their accesses, and whose memory they use.

Each case is a right or a wrong variant of one program, all in two compilations: kernels that Python launches on each
device, and host code."""
import pytest
import torch
from found import finding

from gridstride import cpp, cuda_kernel, load_cuda
from gridstride.diagnostics.errors import KernelError

SOURCE = r'''
#include <cuda/atomic>
__device__ int load_acquire(const int *p) {
    int v; asm volatile("ld.acquire.sys.global.b32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v;
}
__device__ void store_release(int *p, int v) {
    asm volatile("st.release.sys.global.b32 [%0], %1;" :: "l"(p), "r"(v) : "memory");
}
__device__ void send(int *flag, int value) { __threadfence_system(); atomicExch_system(flag, value); }
__device__ void await(int *flag, int value) {
    while (atomicAdd_system(flag, 0) < value) {}
    __threadfence_system();
}
// All devices meet: each has a flag per device, which counts rounds.
__device__ void meet(int *const *flags, int rank, int ranks, int round) {
    __syncthreads();
    if (threadIdx.x < ranks) {
        store_release(flags[threadIdx.x] + rank, round);
        while (load_acquire(flags[rank] + threadIdx.x) < round) {}
    }
    __syncthreads();
}

__global__ void message(int *const *data, int *const *flags, int *out, int rank, int ranks, int variant) {
    int *box = data[1], *flag = flags[1];
    if (rank == 0) {
        box[0] = 5;
        if (variant == 1) __threadfence(); else if (variant != 2) __threadfence_system();
        variant == 3 ? atomicExch(flag, 1) : atomicExch_system(flag, 1);
    } else {
        while ((variant == 4 ? atomicAdd(flag, 0) : atomicAdd_system(flag, 0)) == 0) {}
        if (variant == 6) __threadfence(); else if (variant != 5) __threadfence_system();
        out[0] = box[0];
    }
}
__global__ void ptx_message(int *const *data, int *const *flags, int *out, int rank, int ranks, int variant) {
    int *box = data[1], *flag = flags[1], v = 0;
    if (rank == 0) {
        box[0] = 5;
        if (variant == 1) asm volatile("st.relaxed.sys.global.b32 [%0], %1;" :: "l"(flag), "r"(1) : "memory");
        else if (variant == 2) asm volatile("st.release.gpu.global.b32 [%0], %1;" :: "l"(flag), "r"(1) : "memory");
        else if (variant == 5) asm volatile("red.release.sys.global.add.s32 [%0], %1;" :: "l"(flag), "r"(1) : "memory");
        else if (variant == 6) asm volatile("red.relaxed.sys.global.add.s32 [%0], %1;" :: "l"(flag), "r"(1) : "memory");
        else if (variant == 7)
            asm volatile("fence.acq_rel.gpu; st.relaxed.sys.global.b32 [%0], %1;" :: "l"(flag), "r"(1) : "memory");
        else store_release(flag, 1);
    } else {
        do {
            if (variant == 3) asm volatile("ld.relaxed.sys.global.b32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory");
            else if (variant == 4) asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory");
            else v = load_acquire(flag);
        } while (v == 0);
        out[0] = box[0];
    }
}
template <cuda::thread_scope scope> __device__ void pass(int *box, int *word, int *out, int rank, int variant) {
    cuda::atomic_ref<int, scope> flag(*word);
    if (rank == 0) {
        box[0] = 5;
        flag.store(1, variant == 2 ? cuda::memory_order_relaxed : cuda::memory_order_release);
    } else {
        while (flag.load(variant == 3 ? cuda::memory_order_relaxed : cuda::memory_order_acquire) == 0) {}
        out[0] = box[0];
    }
}
__global__ void atomic_message(int *const *data, int *const *flags, int *out, int rank, int ranks, int variant) {
    if (variant == 1) pass<cuda::thread_scope_device>(data[1], flags[1], out, rank, variant);
    else pass<cuda::thread_scope_system>(data[1], flags[1], out, rank, variant);
}
__global__ void volatile_message(int *const *data, int *const *flags, int *out, int rank, int ranks, int variant) {
    volatile int *flag = flags[1];
    if (rank == 0) {
        data[1][0] = 5;
        if (variant != 1) __threadfence_system();
        *flag = 1;
    } else {
        while (*flag == 0) {}
        if (variant != 2) __threadfence_system();
        out[0] = data[1][0];
    }
}
__global__ void counters(int *const *data, int *const *flags, int *out, int rank, int ranks, int variant) {
    if (variant == 1) atomicAdd(data[0], 1); else if (variant == 2) data[0][0] += 1; else atomicAdd_system(data[0], 1);
}
// The barrier of devices in two rounds: rank 0 writes, the others read; then all write their own element.
__global__ void rounds(int *const *data, int *const *flags, int *out, int rank, int ranks, int variant) {
    for (int round = 1; round <= 3; round++) {
        if (threadIdx.x == 0 && rank == 0) data[0][0] = round;
        if (variant == 1) meet(flags, rank, ranks, 1); else meet(flags, rank, ranks, 2 * round - 1);
        if (threadIdx.x == 0) out[round] = data[0][0];
        if (variant != 2) meet(flags, rank, ranks, 2 * round); else __syncthreads();
    }
}
// Flags that are reset: by the reader, after it has read them
__global__ void resets(int *const *data, int *const *flags, int *out, int rank, int ranks, int variant) {
    int *mine = flags[rank], *theirs = flags[1 - rank];
    if (variant == 1) atomicExch_system(mine, 0);                    // too early: the other may have set it already
    if (rank == 0) data[1][0] = 5;
    send(theirs, 1);
    if (variant == 1 && rank == 1) atomicExch_system(mine, 0);
    await(mine, 1);
    if (rank == 1) out[0] = data[1][0];
    atomicExch_system(mine, 0);
}
__global__ void one_shot(int *const *data, int *const *flags, int *out, int rank, int ranks, int variant) {
    const int n = 32, i = threadIdx.x;
    for (int round = 1; round <= 3; round++) {
        const int buffer = variant == 2 ? 0 : round % 2 * n;         // double buffering
        data[rank][buffer + i] = (rank + 1) * round;
        if (variant == 1 ? round == 1 : true) meet(flags, rank, ranks, round);
        int sum = 0;
        for (int peer = 0; peer < ranks; peer++) sum += data[peer][buffer + i];
        out[i] = sum;
    }
}
__global__ void two_shot(int *const *data, int *const *flags, int *out, int rank, int ranks, int variant) {
    const int n = 32, part = n / ranks, i = threadIdx.x;
    data[rank][i] = rank + 1;
    meet(flags, rank, ranks, 1);
    if (i < part) {
        int sum = 0;
        for (int peer = 0; peer < ranks; peer++) sum += data[peer][rank * part + i];
        const int target = variant == 2 ? (rank + 1) % ranks * part : n + rank * part;   // 2: which others still read
        for (int peer = 0; peer < ranks; peer++) data[peer][target + i] = sum;
    }
    if (variant != 1) meet(flags, rank, ranks, 2);
    out[i] = data[rank][(variant == 2 ? 0 : n) + i];
}
__global__ void all_gather(int *const *data, int *const *flags, int *out, int rank, int ranks, int variant) {
    const int part = 8, i = threadIdx.x;
    if (variant == 1) meet(flags, rank, ranks, 1);                   // before the data
    if (i < part)
        for (int peer = 0; peer < ranks; peer++) data[peer][rank * part + i] = rank * part + i;
    if (variant != 1) meet(flags, rank, ranks, 1);
    out[i] = data[rank][i % (part * ranks)];
}
// Each step adds a part to what has arrived from the left neighbour, and sends it to the right one.
__global__ void ring(int *const *data, int *const *flags, int *out, int rank, int ranks, int variant) {
    const int part = 8, i = threadIdx.x, right = (rank + 1) % ranks;
    if (i >= part) return;
    for (int step = 0; step < ranks - 1; step++) {
        const int slot = (variant == 1 ? 0 : step) * part + i;       // 1: one slot for all steps
        const int mine = rank + 1, arrived = step ? data[rank][(variant == 1 ? 0 : step - 1) * part + i] : 0;
        data[right][slot] = arrived + mine;
        __syncwarp(0xff);
        if (i == 0) {
            store_release(flags[right], step + 1);
            while (load_acquire(flags[rank]) < (variant == 2 ? 1 : step + 1)) {}
        }
        __syncwarp(0xff);
    }
    out[i] = data[rank][(variant == 1 ? 0 : ranks - 2) * part + i] + rank + 1;
}
__global__ void leaves(int *const *data, int *const *flags, int *out, int rank, int ranks, int variant) {
    if (variant == 1 && rank == 1) return;
    meet(flags, rank, ranks, 1);
    if (threadIdx.x == 0) out[0] = ranks;
}
// A rank that does not come: the others give up in time
__global__ void gives_up(int *const *data, int *const *flags, int *out, int rank, int ranks, int variant) {
    if (rank == 1) return;
    const long long begin = clock64();
    while (load_acquire(flags[0]) == 0)
        if (clock64() - begin > 800000000) { out[0] = -1; return; }
}
__device__ int own = 1;
__global__ void variables(int *const *data, int *const *flags, int *out, int rank, int ranks, int variant) {
    if (threadIdx.x == 0) own += 10 * rank;
    meet(flags, rank, ranks, 1);
    if (threadIdx.x == 0) out[0] = own;
}
__global__ void first(int *const *data, int *const *flags, int *out, int rank, int ranks, int variant) {
    data[rank][threadIdx.x] = rank + 1;
}
__global__ void second(int *const *data, int *const *flags, int *out, int rank, int ranks, int variant) {
    if (variant == 0) meet(flags, rank, ranks, 1);
    out[threadIdx.x] = data[(rank + 1) % ranks][threadIdx.x];
}
'''
KERNELS = ('message ptx_message atomic_message volatile_message counters rounds resets one_shot two_shot all_gather '
           'ring leaves gives_up variables first second').split()


@pytest.fixture(scope='module')
def kernels(): return cuda_kernel(SOURCE, KERNELS)


def run(kernel, ranks, variant, threads=1, options={}):
    "Launch a kernel on each device, the last one first; returns the outputs by rank"
    out = [torch.zeros(64, dtype=torch.int32) for _ in range(ranks)]
    with cpp.options(seconds=20, **options), cpp.devices(ranks) as d:
        data, flags = d.symmetric(128, torch.int32, 'data'), d.symmetric(16, torch.int32, 'flags')
        for k in kernel if isinstance(kernel, list) else [kernel]:
            for rank in reversed(range(ranks)):
                with d[rank]: k[1, threads](d.pointers(data), d.pointers(flags), out[rank], rank, ranks, variant)
        d.synchronize()
        return out, data


RIGHT = [('message', 2, 0, 1), ('ptx_message', 2, 0, 1), ('ptx_message', 2, 5, 1), ('atomic_message', 2, 0, 1),
         ('volatile_message', 2, 0, 1), ('rounds', 2, 0, 32), ('rounds', 4, 0, 64), ('resets', 2, 0, 1),
         ('one_shot', 2, 0, 32), ('one_shot', 8, 0, 32), ('two_shot', 4, 0, 32), ('all_gather', 4, 0, 32),
         ('ring', 4, 0, 32), ('leaves', 3, 0, 32), ('counters', 3, 0, 32)]
SUM = {'one_shot': lambda ranks: 3*ranks*(ranks+1)//2, 'two_shot': lambda ranks: ranks*(ranks+1)//2,
       'ring': lambda ranks: ranks*(ranks+1)//2}


@pytest.mark.parametrize('name,ranks,variant,threads', RIGHT, ids=lambda o: str(o))
def test_right_programs(name, ranks, variant, threads, kernels):
    out, data = run(kernels[name], ranks, variant, threads)
    if 'message' in name or name == 'resets': assert out[1][0] == 5
    if name in SUM: assert all((o[:8] == SUM[name](ranks)).all() for o in out)
    if name == 'rounds': assert all(o[1:4].tolist() == [1, 2, 3] for o in out)
    if name == 'all_gather': assert all(o[:32].tolist() == list(range(32)) for o in out)
    if name == 'counters': assert data[0][0] == ranks*threads


WRONG = [
    ('message', 2, 1, 1, 'racecheck scope_of_device'), ('message', 2, 2, 1, 'racecheck race_of_devices'),
    ('message', 2, 3, 1, 'racecheck atomic_of_device'), ('message', 2, 4, 1, 'racecheck atomic_of_device'),
    ('message', 2, 5, 1, 'racecheck flag_not_acquired'), ('message', 2, 6, 1, 'racecheck flag_not_acquired'),
    ('ptx_message', 2, 1, 1, 'racecheck race_of_devices'), ('ptx_message', 2, 2, 1, 'racecheck atomic_of_device'),
    ('ptx_message', 2, 3, 1, 'racecheck flag_not_acquired'), ('ptx_message', 2, 4, 1, 'racecheck atomic_of_device'),
    ('ptx_message', 2, 6, 1, 'racecheck race_of_devices'), ('ptx_message', 2, 7, 1, 'racecheck scope_of_device'),
    ('atomic_message', 2, 1, 1, 'racecheck atomic_of_device'), ('atomic_message', 2, 2, 1, 'racecheck race_of_devices'),
    ('atomic_message', 2, 3, 1, 'racecheck flag_not_acquired'),
    ('volatile_message', 2, 1, 1, 'racecheck race_of_devices'),
    ('volatile_message', 2, 2, 1, 'racecheck flag_not_acquired'),
    ('counters', 3, 1, 32, 'racecheck atomic_of_device'), ('counters', 2, 2, 1, 'racecheck race_of_devices'),
    ('rounds', 2, 1, 32, 'racecheck race_of_devices'), ('rounds', 2, 2, 32, 'racecheck race_of_devices'),
    ('resets', 2, 1, 1, 'synccheck deadlock_on_flag'),
    ('one_shot', 2, 1, 32, 'racecheck race_of_devices'), ('one_shot', 2, 2, 32, 'racecheck race_of_devices'),
    ('two_shot', 4, 1, 32, 'racecheck race_of_devices'), ('two_shot', 2, 2, 32, 'racecheck race_of_devices'),
    ('all_gather', 4, 1, 32, 'racecheck race_of_devices'), ('ring', 4, 1, 32, 'racecheck race_of_devices'),
    ('ring', 4, 2, 32, 'racecheck race_of_devices'), ('leaves', 3, 1, 32, 'synccheck deadlock_on_flag'),
]


@pytest.mark.parametrize('name,ranks,variant,threads,want', WRONG, ids=lambda o: str(o))
def test_wrong_programs(name, ranks, variant, threads, want, kernels):
    with finding(want) as e: run(kernels[name], ranks, variant, threads)
    error = e.value
    assert error.kernel == name and error.device in range(ranks) and error.source
    if error.kind == 'racecheck': assert error.other.device != error.device and error.other.line
    message = str(error)
    assert f'device {error.device}, block' in message


@pytest.mark.exhaustive
@pytest.mark.parametrize('options', [dict(order='reverse'), dict(order='shuffle', seed=3)], ids=str)
@pytest.mark.parametrize('name,ranks,variant,threads,want', WRONG + [(*o, None) for o in RIGHT], ids=lambda o: str(o))
def test_programs_in_other_orders(name, ranks, variant, threads, want, options, kernels):
    if not want: return run(kernels[name], ranks, variant, threads, options)
    kinds = ('racecheck', 'synccheck')
    with pytest.raises(KernelError) as e: run(kernels[name], ranks, variant, threads, options)
    assert e.value.kind in kinds


def test_a_kernel_may_give_up_in_time(kernels):
    out, _ = run(kernels['gives_up'], 2, 0)
    assert out[0][0] == -1


def test_each_device_has_its_own_variables(kernels):
    out, _ = run(kernels['variables'], 3, 0, 32)
    assert len({int(o[0]) for o in out}) == 3


def test_kernels_of_one_device_run_one_after_the_other(kernels):
    "A flag of the second kernel releases what the first one has written; without it another device may be too early"
    out, _ = run([kernels['first'], kernels['second']], 2, 0, 32)
    assert [o[:32].unique().tolist() for o in out] == [[2], [1]]
    with finding('racecheck race_of_devices'): run([kernels['first'], kernels['second']], 2, 1, 32)


def test_unchecked_kernels_wait_for_each_other_too(kernels):
    out, _ = run(kernels['one_shot'], 4, 0, 32, dict(checks=False))
    assert (out[3][:32] == 30).all()


HOST = r"""
#include <nccl.h>
#include <nvshmem.h>
#include <thread>
#include <vector>
__global__ void fill(int *x, int value) { x[threadIdx.x] = value; }
__global__ void add(int *out, const int *a, const int *b) { out[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x]; }
__global__ void copy(int *out, const int *from) { out[threadIdx.x] = from[threadIdx.x]; }
__global__ void set(int *flag) { __threadfence_system(); atomicExch_system(flag, 1); }
__global__ void await(int *flag) { while (atomicAdd_system(flag, 0) == 0) {} }
__device__ int counter = 7;
__global__ void count(int by) { counter += by; }
static const int n = 32, bytes = n * sizeof(int);
struct Two {                                             // a buffer and a stream per device
    int *x[2]; cudaStream_t s[2]; const bool peers;
    Two(bool peers = true) : peers(peers) {
        for (int d = 0; d < 2; d++) {
            cudaSetDevice(d);
            cudaMalloc(&x[d], bytes); cudaMemset(x[d], 0, bytes);
            cudaStreamCreateWithFlags(&s[d], cudaStreamNonBlocking);
            if (peers) cudaDeviceEnablePeerAccess(1 - d, 0);
        }
        for (int d = 0; d < 2; d++) { cudaSetDevice(d); cudaDeviceSynchronize(); }
        cudaSetDevice(0);
    }
    ~Two() {
        for (int d = 0; d < 2; d++) {
            cudaSetDevice(d); cudaFree(x[d]); cudaStreamDestroy(s[d]);
            if (peers) cudaDeviceDisablePeerAccess(1 - d);
        }
        cudaSetDevice(0);
    }
    int first(int d) { int v; cudaMemcpy(&v, x[d], sizeof v, cudaMemcpyDefault); return v; }
};
int facts() {
    int devices, device, can, self, p2p; cudaPointerAttributes a;
    cudaGetDeviceCount(&devices);
    cudaDeviceCanAccessPeer(&can, 0, 1); cudaDeviceCanAccessPeer(&self, 1, 1);
    cudaDeviceGetP2PAttribute(&p2p, cudaDevP2PAttrNativeAtomicSupported, 0, 1);
    const bool refused = cudaSetDevice(devices) == cudaErrorInvalidDevice &&
        cudaDeviceEnablePeerAccess(0, 0) == cudaErrorInvalidDevice;
    cudaGetLastError();
    Two t; cudaSetDevice(1); cudaGetDevice(&device);
    const bool again = cudaDeviceEnablePeerAccess(0, 0) == cudaErrorPeerAccessAlreadyEnabled;
    cudaGetLastError();
    cudaPointerGetAttributes(&a, t.x[1]);
    return devices == 2 && can && !self && p2p && refused && device == 1 && again && a.device == 1 &&
        a.type == cudaMemoryTypeDevice;
}
int peer_read(int variant) {
    Two t(variant != 1);
    cudaSetDevice(1); fill<<<1, n>>>(t.x[1], 3); cudaDeviceSynchronize();
    cudaSetDevice(0); copy<<<1, n>>>(t.x[0], t.x[1]); cudaDeviceSynchronize();
    return t.first(0);
}
int event_order(int variant) {                                    // the event orders streams of two devices
    Two t; cudaEvent_t e;
    cudaSetDevice(1); cudaEventCreate(&e); fill<<<1, n, 0, t.s[1]>>>(t.x[1], 3); cudaEventRecord(e, t.s[1]);
    cudaSetDevice(0); if (variant != 1) cudaStreamWaitEvent(t.s[0], e, 0);
    copy<<<1, n, 0, t.s[0]>>>(t.x[0], t.x[1]);
    cudaStreamSynchronize(t.s[0]);
    cudaSetDevice(1); cudaStreamSynchronize(t.s[1]);
    return t.first(0);
}
int peer_copy(int variant) {
    Two t; cudaEvent_t e;
    cudaSetDevice(1); cudaEventCreate(&e); fill<<<1, n, 0, t.s[1]>>>(t.x[1], 4);
    if (variant == 1) {                                              // not after the kernel
        cudaSetDevice(0); cudaMemcpyPeerAsync(t.x[0], 0, t.x[1], 1, bytes, t.s[0]);
    }
    else cudaMemcpyPeerAsync(t.x[0], 0, t.x[1], 1, bytes, t.s[1]);
    cudaEventRecord(e, t.s[1]);
    cudaSetDevice(0); if (variant != 2) cudaStreamWaitEvent(t.s[0], e, 0);
    add<<<1, n, 0, t.s[0]>>>(t.x[0], t.x[0], t.x[0]);                 // 2: the copy may still run
    cudaStreamSynchronize(t.s[0]);
    return t.first(0);
}
int stream_of_other(int variant) {
    Two t;
    cudaSetDevice(variant == 1 ? 0 : 1);
    fill<<<1, n, 0, t.s[1]>>>(t.x[1], 5);
    cudaSetDevice(1); cudaStreamSynchronize(t.s[1]);
    return t.first(1);
}
// The kernel that sets the flag is launched after the host has waited for another one.
int late_partner() {
    Two t;
    cudaSetDevice(0); await<<<1, 1, 0, t.s[0]>>>(t.x[0]);
    cudaSetDevice(1); fill<<<1, n, 0, t.s[1]>>>(t.x[1], 6); cudaStreamSynchronize(t.s[1]);
    set<<<1, 1, 0, t.s[1]>>>(t.x[0]);
    cudaSetDevice(0); cudaStreamSynchronize(t.s[0]);
    return t.first(1);
}
// A stream fills, then sets the flag for which a kernel of the other device waits.
int flag_after_copy(int variant) {
    Two t;
    int *flag; cudaSetDevice(0); cudaMalloc(&flag, 4); cudaMemset(flag, 0, 4); cudaDeviceSynchronize();
    await<<<1, 1, 0, t.s[0]>>>(flag);
    if (variant != 1) copy<<<1, n, 0, t.s[0]>>>(t.x[0], t.x[0]);
    cudaSetDevice(1); fill<<<1, n, 0, t.s[1]>>>(t.x[1], 8);
    if (variant == 1) { set<<<1, 1, 0, t.s[1]>>>(flag); fill<<<1, n, 0, t.s[1]>>>(t.x[1], 9); }
    else set<<<1, 1, 0, t.s[1]>>>(flag);
    cudaSetDevice(0); add<<<1, n, 0, t.s[0]>>>(t.x[0], t.x[1], t.x[1]);
    cudaStreamSynchronize(t.s[0]); cudaFree(flag);
    return t.first(0);
}
int variables() {
    int v[2];
    for (int d = 0; d < 2; d++) { cudaSetDevice(d); count<<<1, 1>>>(d + 1); }
    for (int d = 0; d < 2; d++) { cudaSetDevice(d); cudaMemcpyFromSymbol(&v[d], counter, sizeof v[d]); }
    cudaSetDevice(0);
    return 100 * v[0] + v[1];
}
int ipc() {
    Two t(false); cudaIpcMemHandle_t handle; void *p;
    cudaSetDevice(1); cudaIpcGetMemHandle(&handle, t.x[1]);
    cudaSetDevice(0); cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess);
    fill<<<1, n>>>((int *)p, 11); cudaDeviceSynchronize(); cudaIpcCloseMemHandle(p);
    return t.first(1);
}
// A thread of the host per rank, each of which launches and waits
int threads(int variant) {
    const int ranks = variant == 1 ? 1 : 2;              // 1: one rank does not come
    Two t; int *flag[2];
    for (int d = 0; d < 2; d++) {
        cudaSetDevice(d); cudaMalloc(&flag[d], 4); cudaMemset(flag[d], 0, 4); cudaDeviceSynchronize();
    }
    std::vector<std::thread> all;
    for (int d = 0; d < ranks; d++) all.emplace_back([&, d] {
        cudaSetDevice(d);
        set<<<1, 1, 0, t.s[d]>>>(flag[1 - d]);
        await<<<1, 1, 0, t.s[d]>>>(flag[d]);
        fill<<<1, n, 0, t.s[d]>>>(t.x[d], d + 1);
        cudaStreamSynchronize(t.s[d]);
    });
    for (auto &thread : all) thread.join();
    for (int d = 0; d < 2; d++) cudaFree(flag[d]);
    return 10 * t.first(0) + t.first(1);
}
// A stream that is destroyed while it captures leaves the capture, and a new stream may have its address. Returns the
// number of right results: 1: the stream that began the capture; 2: one that has joined it
int destroyed_capture(int which) {
    int *x, v, right = 0; cudaMalloc(&x, bytes);
    cudaStream_t s[2], later; cudaEvent_t e; cudaStreamCaptureStatus status; cudaGraph_t graph; size_t nodes = 0;
    for (auto &stream : s) cudaStreamCreate(&stream);
    cudaEventCreate(&e);
    cudaStreamBeginCapture(s[0], cudaStreamCaptureModeGlobal);
    fill<<<1, n, 0, s[0]>>>(x, 3);
    cudaEventRecord(e, s[0]), cudaStreamWaitEvent(s[1], e, 0);
    cudaStreamDestroy(s[which - 1]);
    cudaStreamCreate(&later);
    right += !cudaStreamIsCapturing(later, &status) && status == cudaStreamCaptureStatusNone;
    fill<<<1, n, 0, later>>>(x, 4), cudaStreamSynchronize(later), cudaMemcpy(&v, x, 4, cudaMemcpyDeviceToHost);
    right += v == 4;
    const cudaError_t waited = cudaStreamWaitEvent(later, e, 0), ended = cudaStreamEndCapture(s[2 - which], &graph);
    if (which == 1) right += waited == cudaErrorCapturedEvent && ended == cudaErrorIllegalState;
    else right += !waited && !ended && !cudaGraphGetNodes(graph, nullptr, &nodes) && nodes == 1;
    cudaGetLastError(), cudaEventDestroy(e), cudaStreamDestroy(s[2 - which]), cudaStreamDestroy(later), cudaFree(x);
    return right;
}
struct Ranks {
    static const int ranks = 4, count = 8;
    ncclComm_t comms[ranks]; cudaStream_t s[ranks]; float *x[ranks], *y[ranks];
    Ranks() {
        ncclCommInitAll(comms, ranks, nullptr);
        for (int r = 0; r < ranks; r++) {
            cudaSetDevice(r); cudaStreamCreate(&s[r]);
            cudaMalloc(&x[r], ranks * count * 4); cudaMalloc(&y[r], ranks * count * 4);
            std::vector<float> values(ranks * count);
            for (int i = 0; i < ranks * count; i++) values[i] = 100 * r + i;
            cudaMemcpy(x[r], values.data(), ranks * count * 4, cudaMemcpyHostToDevice);
        }
    }
    float at(int rank, int i) { float v; cudaMemcpy(&v, y[rank] + i, 4, cudaMemcpyDeviceToHost); return v; }
    void wait() { for (int r = 0; r < ranks; r++) { cudaSetDevice(r); cudaStreamSynchronize(s[r]); } cudaSetDevice(0); }
    ~Ranks() {
        for (int r = 0; r < ranks; r++) {
            cudaSetDevice(r); cudaFree(x[r]); cudaFree(y[r]); cudaStreamDestroy(s[r]); ncclCommDestroy(comms[r]);
        }
        cudaSetDevice(0);
    }
};
#define ALL(call) ncclGroupStart(); for (int r = 0; r < 4; r++) call; ncclGroupEnd(); t.wait()
int collectives() {
    Ranks t; const int c = Ranks::count; int right = 0;
    ALL(ncclAllReduce(t.x[r], t.y[r], c, ncclFloat, ncclSum, t.comms[r], t.s[r])); right += t.at(3, 2) == 600 + 4 * 2;
    ALL(ncclAllGather(t.x[r], t.y[r], c, ncclFloat, t.comms[r], t.s[r])); right += t.at(1, 2 * c + 3) == 203;
    ALL(ncclReduceScatter(t.x[r], t.y[r], c, ncclFloat, ncclMax, t.comms[r], t.s[r]));
    right += t.at(2, 1) == 300 + 2 * c + 1;
    ALL(ncclBroadcast(t.x[r], t.y[r], c, ncclFloat, 2, t.comms[r], t.s[r])); right += t.at(0, 1) == 201;
    ALL(ncclReduce(t.x[r], t.y[r], c, ncclFloat, ncclAvg, 1, t.comms[r], t.s[r]));
    right += t.at(1, 0) == 150 && t.at(0, 0) == 200;
    ncclGroupStart();
    for (int r = 0; r < 4; r++) {
        ncclSend(t.x[r], c, ncclFloat, (r + 1) % 4, t.comms[r], t.s[r]);
        ncclRecv(t.y[r], c, ncclFloat, (r + 3) % 4, t.comms[r], t.s[r]);
    }
    ncclGroupEnd(); t.wait();
    right += t.at(0, 5) == 305 && t.at(1, 5) == 5;
    return right;
}
__global__ void halve(float *x) { x[threadIdx.x] /= 2; }
int nccl_order(int variant) {                                     // 1: a kernel of another stream changes an input
    Ranks t; cudaStream_t other; cudaSetDevice(1); cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaDeviceSynchronize();
    halve<<<1, 8, 0, variant == 1 ? other : t.s[1]>>>(t.x[1]);
    ALL(ncclAllReduce(t.x[r], t.y[r], 8, ncclFloat, ncclSum, t.comms[r], t.s[r]));
    cudaSetDevice(1); cudaStreamSynchronize(other); cudaStreamDestroy(other);
    return t.at(0, 0);
}
__global__ void put(float *x, uint64_t *signal, float *out, int variant) {
    const int pe = nvshmem_my_pe(), right = (pe + 1) % nvshmem_n_pes();
    float value = 10 + pe;
    if (variant == 1) { nvshmem_float_p(x, value, right); nvshmemx_signal_op(signal, 1, NVSHMEM_SIGNAL_SET, right); }
    else nvshmem_putmem_signal(x, &value, sizeof value, signal, 1, NVSHMEM_SIGNAL_SET, right);
    nvshmem_signal_wait_until(signal, NVSHMEM_CMP_EQ, 1);
    out[0] = x[0];
}
int shmem(int variant) {
    nvshmem_init();
    float *x[4], *out[4]; uint64_t *signal[4]; int sum = 0;
    for (int pe = 0; pe < 4; pe++) {
        cudaSetDevice(pe); x[pe] = (float *)nvshmem_malloc(64); signal[pe] = (uint64_t *)nvshmem_malloc(8);
        cudaMalloc(&out[pe], 4);
    }
    for (int pe = 0; pe < 4; pe++) { cudaSetDevice(pe); put<<<1, 1>>>(x[pe], signal[pe], out[pe], variant); }
    nvshmem_barrier_all();
    for (int pe = 0; pe < 4; pe++) {
        float v; cudaSetDevice(pe); cudaMemcpy(&v, out[pe], 4, cudaMemcpyDeviceToHost);
        sum = sum * 10 + int(v) - 10; cudaFree(out[pe]);
        nvshmem_free(x[pe]); nvshmem_free(signal[pe]);
    }
    cudaSetDevice(0); nvshmem_finalize();
    return sum;
}
__global__ void reduce_all(float *mc, int rank) {
    float sum; int i = threadIdx.x;
    if (rank == 1) {
        asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];" : "=f"(sum) : "l"(mc + i) : "memory");
        asm volatile("multimem.st.relaxed.sys.global.f32 [%0], %1;" :: "l"(mc + 32 + i), "f"(sum) : "memory");
    }
    asm volatile("multimem.red.relaxed.sys.global.add.f32 [%0], %1;" :: "l"(mc + 64 + i), "f"(1.f) : "memory");
}
int multicast() {
    float *x[4]; int right = 0;
    for (int pe = 0; pe < 4; pe++) {
        cudaSetDevice(pe); x[pe] = (float *)nvshmem_malloc(96 * 4);
        fill<<<1, 32>>>((int *)x[pe], __float_as_int(pe + 1.f));
    }
    nvshmem_barrier_all();
    for (int pe = 0; pe < 4; pe++) {
        cudaSetDevice(pe); reduce_all<<<1, 32>>>((float *)nvshmemx_mc_ptr(NVSHMEM_TEAM_WORLD, x[pe]), pe);
    }
    nvshmem_barrier_all();
    for (int pe = 0; pe < 4; pe++) {
        float v[96]; cudaSetDevice(pe); cudaMemcpy(v, x[pe], sizeof v, cudaMemcpyDeviceToHost);
        right += v[40] == 10 && v[70] == 4; nvshmem_free(x[pe]);
    }
    cudaSetDevice(0);
    return right;
}
"""


@pytest.fixture(scope='module')
def host(): return load_cuda(HOST, name='host_of_devices')


@pytest.mark.parametrize('name,args,devices,want', [
    ('facts', (), 2, 1), ('peer_read', (0,), 2, 3), ('event_order', (0,), 2, 3), ('peer_copy', (0,), 2, 8),
    ('stream_of_other', (0,), 2, 5), ('late_partner', (), 2, 6), ('variables', (), 2, 809), ('ipc', (), 2, 11),
    ('collectives', (), 4, 6), ('nccl_order', (0,), 4, 550), ('shmem', (0,), 4, 3012),
    ('multicast', (), 4, 4), ('flag_after_copy', (0,), 2, 16), ('threads', (0,), 2, 12),
    ('destroyed_capture', (1,), 1, 3), ('destroyed_capture', (2,), 1, 3), ('destroyed_capture', (1,), 2, 3)], ids=str)
def test_right_host_code(name, args, devices, want, host):
    with cpp.options(devices=devices, seconds=20): assert getattr(host, name)(*args) == want


@pytest.mark.parametrize('name,variant,devices,want', [
    ('peer_read', 1, 2, 'memcheck peer_not_enabled'), ('event_order', 1, 2, 'racecheck unordered_operations'),
    ('peer_copy', 1, 2, 'racecheck unordered_operations'), ('peer_copy', 2, 2, 'racecheck unordered_operations'),
    ('stream_of_other', 1, 2, 'launch stream_of_other_device'), ('threads', 1, 2, 'synccheck deadlock_on_flag'),
    ('flag_after_copy', 1, 2, 'racecheck race_of_devices|racecheck unordered_operations'),
    ('nccl_order', 1, 4, 'racecheck unordered_operations'), ('shmem', 1, 4, 'racecheck race_of_devices')], ids=str)
def test_wrong_host_code(name, variant, devices, want, host):
    with cpp.options(devices=devices, seconds=20), finding(want): getattr(host, name)(variant)


def test_the_number_of_devices_is_an_option(host, monkeypatch):
    with pytest.raises(ValueError, match='1 to 8'):
        with cpp.options(devices=9): pass
    monkeypatch.setenv('GRIDSTRIDE_DEVICES', '2')
    assert host.facts() == 1
    monkeypatch.setenv('GRIDSTRIDE_DEVICES', 'two')
    with pytest.raises(ValueError, match='1 to 8'): host.facts()
