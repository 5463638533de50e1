// Including this again defines the macro again, as with C's own.
#include "runtime.h"
#undef assert
#ifdef NDEBUG
#define assert(...) ((void)0)
#else
#define assert(...) ((__VA_ARGS__) ? (void)0 : ::gridstride::assert_failed(#__VA_ARGS__, __FILE__, __LINE__))
#endif
