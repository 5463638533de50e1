// Printing: kept until the launch has ended, so that Python can put it where the notebook's output is.
#pragma once
#include "runtime.h"

namespace gridstride {

extern void (*warn)(const Finding *);  // Python's, for a warning
void flush_printed();
}
