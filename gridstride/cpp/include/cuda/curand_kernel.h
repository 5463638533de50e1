// cuRAND's device generators XORWOW and Philox, with the same sequences as NVIDIA's library.
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
// A step is a linear map of the 160 bits of the state, so 2^k steps are a matrix: powers[k][i] is the state after 2^k
// steps from a state in which only bit i is set. A subsequence is 2^67 steps long.
struct Jumps {
    static constexpr int subsequence = 67;
    Bits160 powers[subsequence + 64][160];
    GRIDSTRIDE_NO_TSAN static Bits160 apply(const Bits160 &x, const Bits160 *rows) {
        Bits160 res{};
        for (int i = 0; i < 160; i++)
            if (x.v[i / 32] >> i % 32 & 1)
                for (int w = 0; w < 5; w++) res.v[w] ^= rows[i].v[w];
        return res;
    }
    GRIDSTRIDE_NO_TSAN Jumps() {
        for (int i = 0; i < 160; i++) {
            powers[0][i] = {};
            powers[0][i].v[i / 32] = 1u << i % 32;
            step(powers[0][i].v);
        }
        for (int k = 1; k < subsequence + 64; k++)
            for (int i = 0; i < 160; i++) powers[k][i] = apply(powers[k - 1][i], powers[k - 1]);
    }
};
// Advances by n * 2^first_power steps.
GRIDSTRIDE_NO_TSAN inline Bits160 advance(Bits160 x, unsigned long long n, int first_power) {
    const bool enabled = enable_checks(false);                       // the table is host memory
    static const Jumps *const jumps = new Jumps;
    for (int k = first_power; n; n >>= 1, k++)
        if (n & 1) x = Jumps::apply(x, jumps->powers[k]);
    enable_checks(enabled);
    return x;
}
inline void jump(curandStateXORWOW *s, unsigned long long n, int first_power) {
    const Bits160 x = advance({{s->v[0], s->v[1], s->v[2], s->v[3], s->v[4]}}, n, first_power);
    for (int w = 0; w < 5; w++) s->v[w] = x.v[w];
}

inline uint4 philox(uint4 c, uint2 key) {
    for (int round = 0; round < 10; round++, key.x += 0x9e3779b9u, key.y += 0xbb67ae85u) {
        const unsigned long long a = 0xd2511f53ull * c.x, b = 0xcd9e8d57ull * c.z;
        c = {unsigned(b >> 32) ^ c.y ^ key.x, unsigned(b), unsigned(a >> 32) ^ c.w ^ key.y, unsigned(a)};
    }
    return c;
}
// Adds to the lower and the upper half of the counter, with a carry from the lower to the upper half.
inline void advance_counter(curandStatePhilox4_32_10 *s, unsigned long long lower, unsigned long long upper) {
    unsigned long long low = s->ctr.x | (unsigned long long)s->ctr.y << 32;
    unsigned long long high = s->ctr.z | (unsigned long long)s->ctr.w << 32;
    low += lower, high += upper + (low < lower);
    s->ctr = {unsigned(low), unsigned(low >> 32), unsigned(high), unsigned(high >> 32)};
    s->output = philox(s->ctr, s->key);
}

constexpr float two_to_minus_32 = 2.3283064e-10f;
constexpr double two_to_minus_53 = 1.1102230246251565e-16;
inline float uniform(unsigned x) { return float(x) * two_to_minus_32 + two_to_minus_32 / 2; }
inline unsigned long long combine(unsigned x, unsigned y) { return x ^ (unsigned long long)y << 21; }
inline double uniform(unsigned x, unsigned y) { return double(combine(x, y)) * two_to_minus_53 + two_to_minus_53 / 2; }
inline float2 normal(unsigned x, unsigned y) {
    const float r = sqrtf(-2 * logf(uniform(x))),
                a = float(y) * (two_to_minus_32 * 6.2831855f) + two_to_minus_32 * 6.2831855f / 2;
    return {sinf(a) * r, cosf(a) * r};
}
inline double2 normal(const uint4 &x) {
    const double r = sqrt(-2 * log(uniform(x.x, x.y))),
                 a = double(combine(x.z, x.w)) * (2 * two_to_minus_53) + two_to_minus_53;
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
    const unsigned long long position = s->STATE + n % 4;
    s->STATE = position % 4;
    gridstride::random::advance_counter(s, n / 4 + position / 4, 0);
}
inline void skipahead_sequence(unsigned long long n, curandStatePhilox4_32_10 *s) {
    gridstride::random::advance_counter(s, 0, n);
}
inline void curand_init(
    unsigned long long seed, unsigned long long subsequence, unsigned long long offset, curandStatePhilox4_32_10 *s) {
    *s = {{0, 0, 0, 0}, {0, 0, 0, 0}, {unsigned(seed), unsigned(seed >> 32)}, 0, 0, 0, 0, 0};
    skipahead_sequence(subsequence, s);
    skipahead(offset, s);
}
inline unsigned curand(curandStatePhilox4_32_10 *s) {
    const unsigned i = s->STATE++;
    const unsigned res = i == 0 ? s->output.x : i == 1 ? s->output.y : i == 2 ? s->output.z : s->output.w;
    if (s->STATE == 4) s->STATE = 0, gridstride::random::advance_counter(s, 1, 0);
    return res;
}
// Returns the next four values, which may begin at any position among the four values of a counter.
inline uint4 curand4(curandStatePhilox4_32_10 *s) {
    const unsigned x = curand(s), y = curand(s), z = curand(s);
    return {x, y, z, curand(s)};
}

namespace gridstride {
namespace random {
template <class S> uint4 next_four(S *s) {
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
    return gridstride::random::normal(gridstride::random::next_four(s));
}
// Normal values are computed in pairs; the state keeps the second one for the next call.
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
