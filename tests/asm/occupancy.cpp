// Reads lines of numbers, one kernel each; prints for each what cuda_occupancy.h says: blocks that are resident, then
// the blocks that registers, shared memory, warps, blocks and barriers allow, and the factors that limit (1 warps,
// 2 registers, 4 shared memory, 8 blocks, 16 barriers).
#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <cuda_occupancy.h>

int main() {
    int major, minor, threads, shared, most, reserved, registers, fixed, dynamic, block, barriers;
    while (scanf("%d %d %d %d %d %d %d %d %d %d %d", &major, &minor, &threads, &shared, &most, &reserved, &registers,
                 &fixed, &dynamic, &block, &barriers) == 11) {
        cudaOccDeviceProp p;
        p.computeMajor = major;               p.computeMinor = minor;
        p.maxThreadsPerBlock = 1024;          p.maxThreadsPerMultiprocessor = threads;
        p.regsPerBlock = 65536;               p.regsPerMultiprocessor = 65536;
        p.sharedMemPerBlock = 48*1024;        p.sharedMemPerBlockOptin = most;
        p.sharedMemPerMultiprocessor = shared;
        p.reservedSharedMemPerBlock = reserved;
        p.warpSize = 32;                      p.numSms = 1;
        cudaOccFuncAttributes a;
        a.maxThreadsPerBlock = INT_MAX;       a.numRegs = registers;
        a.sharedSizeBytes = fixed;            a.maxDynamicSharedSizeBytes = dynamic;
        a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        a.numBlockBarriers = barriers;
        cudaOccDeviceState s;
        cudaOccResult r = {};
        int error = cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &a, &s, block, dynamic);
        if (error) printf("error %d\n", error);
        else printf("%d %d %d %d %d %d %u\n", r.activeBlocksPerMultiprocessor, r.blockLimitRegs, r.blockLimitSharedMem,
                    r.blockLimitWarps, r.blockLimitBlocks, r.blockLimitBarriers, r.limitingFactors);
    }
}
