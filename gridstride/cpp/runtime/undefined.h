// Values that are undefined on a GPU: a shuffle's result from an inactive lane, a collective's result in threads that
// do not get it. The emulator returns recognizable bit patterns for them, and warns if a value computed from one is
// stored.
#pragma once
#include "worker.h"

namespace gridstride {

__attribute__((noinline, cold)) // out of line, so that shuffles stay fast
bool shows_undefined(const void *value, int bytes);    // whether it was computed from such a pattern
void forget_undefined(Worker &);
}
