// A jump leaves the stack on which `gridstride::completes` (gridstride/cpp/runtime/platform.h) runs a function.
#pragma once
typedef int sigjmp_buf[1];
[[noreturn]] void siglongjmp(sigjmp_buf, int);
