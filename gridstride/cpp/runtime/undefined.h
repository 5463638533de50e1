// Values that are undefined on a GPU: the value that a shuffle reads from an inactive lane, and a collective's result
// in threads that do not receive it. The emulator returns recognizable bit patterns for them, and warns if a value that
// is computed from one is stored.
#pragma once
#include "worker.h"

namespace gridstride {

__attribute__((noinline, cold)) // out of line, so that shuffles stay fast
bool shows_undefined(const void *value, int bytes);    // whether the value was probably computed from such a pattern
void discard_undefined(Worker &);
}
