// synccheck: reports barriers that some threads do not reach, and deadlocks.
#pragma once
#include "worker.h"

namespace gridstride {

Field thread_field(Worker &, int rank);
void check_barrier(Worker &);
void warn_about_returned_thread(Worker &, int line, int num_arrived, int returned_rank);
// Adds to a finding that a thread waits for registers (setmaxnreg.inc)
DescribeWait describe_register_wait;
[[noreturn]] void report_wrong_mask(Worker &, unsigned mask, int line);
}
