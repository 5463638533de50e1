// synccheck: barriers that some threads do not reach, and deadlocks.
#pragma once
#include "worker.h"

namespace gridstride {

Field thread_field(Worker &, int rank);
void check_barrier(Worker &);
void warn_of_returned(Worker &, int line, int here, int gone);    // a warning: `gone`, a thread, is not at the barrier
[[noreturn]] void wrong_mask(Worker &, unsigned mask, int line);
}
