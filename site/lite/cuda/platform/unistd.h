#pragma once
#include_next <unistd.h>
#undef _SC_PAGESIZE
#define _SC_PAGESIZE 30
#undef _SC_PHYS_PAGES
#define _SC_PHYS_PAGES 85
#define sysconf(name) gridstride_sysconf(name)
// Pages of 4 KB, as elsewhere, though those of WebAssembly have 64 KB; 2 GB of memory
inline long gridstride_sysconf(int name) { return name == _SC_PAGESIZE ? 4096 : 1 << 19; }
inline int gridstride_getpid() { return 1; }
#define getpid gridstride_getpid
