// WebAssembly rounds to the nearest value only, so a kernel that asks for another direction is refused.
#pragma once
#define FE_TONEAREST 0
#define FE_DOWNWARD 1
#define FE_UPWARD 2
#define FE_TOWARDZERO 3
#define FE_INVALID 1
#define FE_ALL_EXCEPT 0
inline int fegetround() { return FE_TONEAREST; }
int fesetround(int direction);
inline int feclearexcept(int) { return 0; }
inline int fetestexcept(int) { return 0; }
