// Buffers the output of printf until the launch has ended, so that Python can write it to the notebook's output
#pragma once
#include "runtime.h"

namespace gridstride {

extern void (*warn)(const Finding *);  // Python's function that issues a warning
void flush_printed();
}
