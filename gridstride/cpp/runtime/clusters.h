// Clusters: blocks that run at the same time and reach each other's shared memory.
#pragma once
#include "worker.h"

namespace gridstride {

// the block whose shared memory has the address, which must still be there
Worker &block_at(uint32_t address, int line);
// 1 + the phase of the cluster's barrier that the thread at work arrived in, until it has waited
uint32_t &arrived_in();
DescribeWait describe_cluster_wait;
}
