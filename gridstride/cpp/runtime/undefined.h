// Values that are undefined on a GPU: what a shuffle reads of an absent lane, a collective's result in other threads
// than those that get it. They get values that are easy to recognize, and a result of them that is stored is a warning.
#pragma once
#include "worker.h"

namespace gridstride {

__attribute__((noinline, cold)) // part of no shuffle's fast path
bool shows_undefined(const void *value, int bytes);    // does it come from such a number?
void forget_undefined(Worker &);
}
