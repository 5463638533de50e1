// Reads numbers from the standard input, writes what an operation on half or bfloat16 makes of each (or of each pair).
#include "emulator.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef unsigned short Bits;
Bits bits(__half h) { return __half_as_ushort(h); }
Bits bits(__nv_bfloat16 h) { return __bfloat16_as_ushort(h); }
template <class T> T number(Bits b);
template <> __half number(Bits b) { return __ushort_as_half(b); }
template <> __nv_bfloat16 number(Bits b) { return __ushort_as_bfloat16(b); }

template <class From, class F> int stream(F f) {
    From from;
    while (fread(&from, sizeof from, 1, stdin) == 1) {
        const auto to = f(from);
        fwrite(&to, sizeof to, 1, stdout);
    }
    return 0;
}
struct Pair { Bits a, b; };
template <class T> int operation(const char *name) {
    if (!strcmp(name, "widen")) return stream<Bits>([](Bits b) { return float(number<T>(b)); });
    if (!strcmp(name, "narrow")) return stream<float>([](float x) { return bits(T(x)); });
    if (!strcmp(name, "narrow_double")) return stream<double>([](double x) { return bits(T(x)); });
    if (!strcmp(name, "add")) return stream<Pair>([](Pair p) { return bits(number<T>(p.a) + number<T>(p.b)); });
    if (!strcmp(name, "sub")) return stream<Pair>([](Pair p) { return bits(number<T>(p.a) - number<T>(p.b)); });
    if (!strcmp(name, "mul")) return stream<Pair>([](Pair p) { return bits(number<T>(p.a) * number<T>(p.b)); });
    if (!strcmp(name, "div")) return stream<Pair>([](Pair p) { return bits(number<T>(p.a) / number<T>(p.b)); });
    return 1;
}
int main(int, char **argv) {
    return strcmp(argv[1], "half") ? operation<__nv_bfloat16>(argv[2]) : operation<__half>(argv[2]);
}
