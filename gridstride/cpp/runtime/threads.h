// The threads of a block, as cooperative fibers.
#pragma once
#include "worker.h"

namespace gridstride {

inline int current_rank() { return worker->rank[worker->current_slot]; }
void fiber_main();
void yield();                          // lets other threads run
}
