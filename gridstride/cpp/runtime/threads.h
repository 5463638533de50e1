// The threads of a block, as fibers that take turns.
#pragma once
#include "worker.h"

namespace gridstride {

inline int current_rank() { return worker->rank[worker->current]; }
void fiber_main();
void yield();                          // the others may run
}
