// The output of printf, stored until the launch has ended, so that Python can write it to the notebook's output
#pragma once
#include "runtime.h"

namespace gridstride {

extern void (*warn)(const Finding *);  // Python's, for a warning
void flush_printed();
}
