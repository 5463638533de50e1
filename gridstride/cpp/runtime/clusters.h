// Clusters: blocks that run concurrently and can access each other's shared memory.
#pragma once
#include "worker.h"

namespace gridstride {

// Returns the block whose shared memory contains the address; reports a block that has not begun or has ended.
Worker &block_at(uint32_t address, int line);
// 1 + the phase of the cluster barrier in which the current thread has arrived; 0 after it has waited
uint32_t &arrival_phase();
DescribeWait describe_cluster_wait;
}
