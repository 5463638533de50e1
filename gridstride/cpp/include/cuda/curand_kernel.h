// cuRAND's generators for kernels: XORWOW and Philox, with the sequences of NVIDIA's library.
#pragma once
#include "emulator.h"

// XORWOW (Marsaglia, 2003): a shift register of 160 bits, and a counter d
struct curandStateXORWOW {
    unsigned d, v[5];
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
};
typedef curandStateXORWOW curandStateXORWOW_t, curandState_t, curandState;

// Philox4x32-10 (Salmon and others, 2011): a counter of 128 bits, scrambled in ten rounds
struct curandStatePhilox4_32_10 {
    uint4 ctr, output;
    uint2 key;
    unsigned STATE;
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
};
typedef curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;

namespace gridstride {
namespace random {
struct Bits160 { unsigned v[5]; };
GRIDSTRIDE_INLINE void step(unsigned (&v)[5]) {
    const unsigned t = v[0] ^ v[0] >> 2;
    v[0] = v[1], v[1] = v[2], v[2] = v[3], v[3] = v[4];
    v[4] = v[4] ^ v[4] << 4 ^ t ^ t << 1;
}
// What 2^k steps make of each of the 160 bits; a subsequence is 2^67 steps long
struct Jumps {
    static constexpr int subsequence = 67;
    Bits160 of[subsequence + 64][160];
    GRIDSTRIDE_UNSEEN static Bits160 times(const Bits160 &x, const Bits160 *rows) {
        Bits160 res{};
        for (int i = 0; i < 160; i++)
            if (x.v[i / 32] >> i % 32 & 1)
                for (int w = 0; w < 5; w++) res.v[w] ^= rows[i].v[w];
        return res;
    }
    GRIDSTRIDE_UNSEEN Jumps() {
        for (int i = 0; i < 160; i++) {
            of[0][i] = {};
            of[0][i].v[i / 32] = 1u << i % 32;
            step(of[0][i].v);
        }
        for (int k = 1; k < subsequence + 64; k++)
            for (int i = 0; i < 160; i++) of[k][i] = times(of[k - 1][i], of[k - 1]);
    }
};
// `n` times 2^`first` steps
GRIDSTRIDE_UNSEEN inline Bits160 jumped(Bits160 x, unsigned long long n, int first) {
    const bool enabled = enable_checks(false);                       // the table is the host's
    static const Jumps *const jumps = new Jumps;
    for (int k = first; n; n >>= 1, k++)
        if (n & 1) x = Jumps::times(x, jumps->of[k]);
    enable_checks(enabled);
    return x;
}
inline void jump(curandStateXORWOW *s, unsigned long long n, int first) {
    const Bits160 x = jumped({{s->v[0], s->v[1], s->v[2], s->v[3], s->v[4]}}, n, first);
    for (int w = 0; w < 5; w++) s->v[w] = x.v[w];
}

inline uint4 philox(uint4 c, uint2 key) {
    for (int round = 0; round < 10; round++, key.x += 0x9e3779b9u, key.y += 0xbb67ae85u) {
        const unsigned long long a = 0xd2511f53ull * c.x, b = 0xcd9e8d57ull * c.z;
        c = {unsigned(b >> 32) ^ c.y ^ key.x, unsigned(b), unsigned(a >> 32) ^ c.w ^ key.y, unsigned(a)};
    }
    return c;
}
// Adds to the lower or the upper half of the counter; the lower one carries
inline void count(curandStatePhilox4_32_10 *s, unsigned long long lower, unsigned long long upper) {
    unsigned long long low = s->ctr.x | (unsigned long long)s->ctr.y << 32;
    unsigned long long high = s->ctr.z | (unsigned long long)s->ctr.w << 32;
    low += lower, high += upper + (low < lower);
    s->ctr = {unsigned(low), unsigned(low >> 32), unsigned(high), unsigned(high >> 32)};
    s->output = philox(s->ctr, s->key);
}

constexpr float part = 2.3283064e-10f;                                     // 2^-32
constexpr double small_part = 1.1102230246251565e-16;                      // 2^-53
inline float uniform(unsigned x) { return float(x) * part + part / 2; }
inline unsigned long long wide(unsigned x, unsigned y) { return x ^ (unsigned long long)y << 21; }
inline double uniform(unsigned x, unsigned y) { return double(wide(x, y)) * small_part + small_part / 2; }
inline float2 normal(unsigned x, unsigned y) {
    const float r = sqrtf(-2 * logf(uniform(x))), a = float(y) * (part * 6.2831855f) + part * 6.2831855f / 2;
    return {sinf(a) * r, cosf(a) * r};
}
inline double2 normal(const uint4 &x) {
    const double r = sqrt(-2 * log(uniform(x.x, x.y))), a = double(wide(x.z, x.w)) * (2 * small_part) + small_part;
    return {sinpi(a) * r, cospi(a) * r};
}
}
}

inline void skipahead(unsigned long long n, curandStateXORWOW *s) {
    gridstride::random::jump(s, n, 0);
    s->d += unsigned(n) * 362437u;
}
inline void skipahead_sequence(unsigned long long n, curandStateXORWOW *s) {
    gridstride::random::jump(s, n, gridstride::random::Jumps::subsequence);
}
inline void curand_init(
    unsigned long long seed, unsigned long long subsequence, unsigned long long offset, curandStateXORWOW *s) {
    const unsigned t = 1099087573u * (unsigned(seed) ^ 0xaad26b49u),
                   u = 2591861531u * (unsigned(seed >> 32) ^ 0xf7dcefddu);
    *s = {6615241u + u + t,
        {123456789u + t, 362436069u ^ t, 521288629u + u, 88675123u ^ u, 5783321u + t}, 0, 0, 0, 0};
    skipahead_sequence(subsequence, s);
    skipahead(offset, s);
}
inline unsigned curand(curandStateXORWOW *s) {
    gridstride::random::step(s->v);
    return (s->d += 362437u) + s->v[4];
}

inline void skipahead(unsigned long long n, curandStatePhilox4_32_10 *s) {
    const unsigned long long at = s->STATE + n % 4;
    s->STATE = at % 4;
    gridstride::random::count(s, n / 4 + at / 4, 0);
}
inline void skipahead_sequence(unsigned long long n, curandStatePhilox4_32_10 *s) {
    gridstride::random::count(s, 0, n);
}
inline void curand_init(
    unsigned long long seed, unsigned long long subsequence, unsigned long long offset, curandStatePhilox4_32_10 *s) {
    *s = {{0, 0, 0, 0}, {0, 0, 0, 0}, {unsigned(seed), unsigned(seed >> 32)}, 0, 0, 0, 0, 0};
    skipahead_sequence(subsequence, s);
    skipahead(offset, s);
}
inline unsigned curand(curandStatePhilox4_32_10 *s) {
    const unsigned at = s->STATE++,
                   res = at == 0 ? s->output.x : at == 1 ? s->output.y : at == 2 ? s->output.z : s->output.w;
    if (s->STATE == 4) s->STATE = 0, gridstride::random::count(s, 1, 0);
    return res;
}
// the next four values, from any position among the counter's four
inline uint4 curand4(curandStatePhilox4_32_10 *s) {
    const unsigned x = curand(s), y = curand(s), z = curand(s);
    return {x, y, z, curand(s)};
}

namespace gridstride {
namespace random {
template <class S> uint4 four(S *s) {
    const unsigned x = curand(s), y = curand(s), z = curand(s);
    return {x, y, z, curand(s)};
}
}
}
template <class S> float curand_uniform(S *s) { return gridstride::random::uniform(curand(s)); }
inline double curand_uniform_double(curandStateXORWOW *s) {
    const unsigned x = curand(s);
    return gridstride::random::uniform(x, curand(s));
}
inline double curand_uniform_double(curandStatePhilox4_32_10 *s) {
    return double(curand(s)) * 2.3283064365386963e-10 + 2.3283064365386963e-10;
}
template <class S> float2 curand_normal2(S *s) {
    const unsigned x = curand(s);
    return gridstride::random::normal(x, curand(s));
}
template <class S> double2 curand_normal2_double(S *s) {
    return gridstride::random::normal(gridstride::random::four(s));
}
// The second of two is kept for the next call.
template <class S> float curand_normal(S *s) {
    if (s->boxmuller_flag) return s->boxmuller_flag = 0, s->boxmuller_extra;
    const float2 v = curand_normal2(s);
    s->boxmuller_extra = v.y, s->boxmuller_flag = 1;
    return v.x;
}
template <class S> double curand_normal_double(S *s) {
    if (s->boxmuller_flag_double) return s->boxmuller_flag_double = 0, s->boxmuller_extra_double;
    const double2 v = curand_normal2_double(s);
    s->boxmuller_extra_double = v.y, s->boxmuller_flag_double = 1;
    return v.x;
}
template <class S> float curand_log_normal(S *s, float mean, float deviation) {
    return expf(mean + deviation * curand_normal(s));
}
template <class S> double curand_log_normal_double(S *s, double mean, double deviation) {
    return exp(mean + deviation * curand_normal_double(s));
}
inline float4 curand_uniform4(curandStatePhilox4_32_10 *s) {
    const uint4 x = curand4(s);
    using gridstride::random::uniform;
    return {uniform(x.x), uniform(x.y), uniform(x.z), uniform(x.w)};
}
inline double2 curand_uniform2_double(curandStatePhilox4_32_10 *s) {
    const uint4 x = curand4(s);
    using gridstride::random::uniform;
    return {uniform(x.x, x.y), uniform(x.z, x.w)};
}
inline float4 curand_normal4(curandStatePhilox4_32_10 *s) {
    const uint4 x = curand4(s);
    const float2 a = gridstride::random::normal(x.x, x.y), b = gridstride::random::normal(x.z, x.w);
    return {a.x, a.y, b.x, b.y};
}
