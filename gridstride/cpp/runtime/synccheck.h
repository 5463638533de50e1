// Barriers that not all reach, and threads that wait for what never comes.
#pragma once
#include "worker.h"

namespace gridstride {

void check_barrier(Worker &);
[[noreturn]] void wrong_mask(Worker &, unsigned mask, int line);
}
