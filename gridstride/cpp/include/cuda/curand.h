// cuRAND's host API for the generators XORWOW and Philox. The order of XORWOW's values is the documented one.
#pragma once
#include "curand_kernel.h"
#include "library_calls.h"

// Other headers test this macro.
#define CURAND_H_

enum curandStatus {
    CURAND_STATUS_SUCCESS = 0,
    CURAND_STATUS_VERSION_MISMATCH = 100,
    CURAND_STATUS_NOT_INITIALIZED = 101,
    CURAND_STATUS_ALLOCATION_FAILED = 102,
    CURAND_STATUS_TYPE_ERROR = 103,
    CURAND_STATUS_OUT_OF_RANGE = 104,
    CURAND_STATUS_LENGTH_NOT_MULTIPLE = 105,
    CURAND_STATUS_DOUBLE_PRECISION_REQUIRED = 106,
    CURAND_STATUS_LAUNCH_FAILURE = 201,
    CURAND_STATUS_PREEXISTING_FAILURE = 202,
    CURAND_STATUS_INITIALIZATION_FAILED = 203,
    CURAND_STATUS_ARCH_MISMATCH = 204,
    CURAND_STATUS_INTERNAL_ERROR = 999
};
typedef curandStatus curandStatus_t;
enum curandRngType {
    CURAND_RNG_TEST = 0,
    CURAND_RNG_PSEUDO_DEFAULT = 100,
    CURAND_RNG_PSEUDO_XORWOW = 101,
    CURAND_RNG_PSEUDO_MRG32K3A = 121,
    CURAND_RNG_PSEUDO_MTGP32 = 141,
    CURAND_RNG_PSEUDO_MT19937 = 142,
    CURAND_RNG_PSEUDO_PHILOX4_32_10 = 161,
    CURAND_RNG_QUASI_DEFAULT = 200,
    CURAND_RNG_QUASI_SOBOL32 = 201,
    CURAND_RNG_QUASI_SCRAMBLED_SOBOL32 = 202,
    CURAND_RNG_QUASI_SOBOL64 = 203,
    CURAND_RNG_QUASI_SCRAMBLED_SOBOL64 = 204
};
typedef curandRngType curandRngType_t;
enum curandOrdering {
    CURAND_ORDERING_PSEUDO_BEST = 100,
    CURAND_ORDERING_PSEUDO_DEFAULT = 101,
    CURAND_ORDERING_PSEUDO_SEEDED = 102,
    CURAND_ORDERING_PSEUDO_LEGACY = 103,
    CURAND_ORDERING_PSEUDO_DYNAMIC = 104,
    CURAND_ORDERING_QUASI_DEFAULT = 201
};
typedef curandOrdering curandOrdering_t;

namespace gridstride {
namespace random {
constexpr unsigned num_sequences = 4096;         // value n has index n / num_sequences in subsequence n % num_sequences
struct Source {
    virtual ~Source() = default;
    virtual unsigned next() = 0;
};
class XorwowSource : public Source {
    std::vector<curandStateXORWOW> states;
    size_t position = 0;

public:
    XorwowSource(unsigned long long seed, unsigned long long offset) : states(num_sequences) {
        curand_init(seed, 0, 0, &states[0]);
        for (size_t i = 1; i < num_sequences; i++) states[i] = states[i - 1], skipahead_sequence(1, &states[i]);
        for (auto &state : states) skipahead(offset / num_sequences, &state);
        for (unsigned long long i = 0; i < offset % num_sequences; i++) next();
    }
    unsigned next() override { return curand(&states[position++ % num_sequences]); }
};
class PhiloxSource : public Source {
    curandStatePhilox4_32_10 state;

public:
    PhiloxSource(unsigned long long seed, unsigned long long offset) { curand_init(seed, 0, offset, &state); }
    unsigned next() override { return curand(&state); }
};
}
}
struct curandGenerator_st {
    curandRngType type;
    bool on_host;
    unsigned long long seed = 0, offset = 0;
    cudaStream_t stream = nullptr;
    gridstride::random::Source *source = nullptr;          // null before the first value

    gridstride::random::Source &get_source() {
        if (source) return *source;
        if (type == CURAND_RNG_PSEUDO_PHILOX4_32_10) source = new gridstride::random::PhiloxSource(seed, offset);
        else source = new gridstride::random::XorwowSource(seed, offset);
        return *source;
    }
    void restart() { delete source, source = nullptr; }
};
typedef curandGenerator_st *curandGenerator_t;

namespace gridstride {
namespace random {
inline curandStatus create(curandGenerator_t *g, curandRngType type, bool on_host) {
    if (type != CURAND_RNG_PSEUDO_DEFAULT && type != CURAND_RNG_PSEUDO_XORWOW &&
        type != CURAND_RNG_PSEUDO_PHILOX4_32_10)
        not_emulated("a cuRAND generator other than XORWOW and Philox");
    *g = new curandGenerator_st{type, on_host};
    return CURAND_STATUS_SUCCESS;
}
// Writes `n` values; `f` computes `per_call` values from a source at once.
template <class T, class F>
curandStatus generate(curandGenerator_t g, T *out, size_t n, size_t per_call, F f, int line) {
    if (n % per_call) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
    const std::vector<library::Array> arrays = {{out, n * sizeof(T), true}};
    const auto fill = [=] {
        Source &source = g->get_source();
        for (size_t i = 0; i < n; i += per_call) f(source, out + i);
    };
    if (g->on_host)
        return is_device_only(out) ? CURAND_STATUS_LAUNCH_FAILURE : (fill(), CURAND_STATUS_SUCCESS);
    if (!library::are_on_device(arrays)) return CURAND_STATUS_LAUNCH_FAILURE;
    library::run("curandGenerate", g->stream, arrays, fill, line);
    return CURAND_STATUS_SUCCESS;
}
// Computes a pair of normally distributed values.
inline void fill_normal(Source &source, float *out) {
    const unsigned x = source.next();
    const float2 v = normal(x, source.next());
    out[0] = v.x, out[1] = v.y;
}
inline void fill_normal(Source &source, double *out) {
    const unsigned x = source.next(), y = source.next(), z = source.next();
    const double2 v = normal(uint4{x, y, z, source.next()});
    out[0] = v.x, out[1] = v.y;
}
template <class T> curandStatus generate_normal(
    curandGenerator_t g, T *out, size_t n, T mean, T deviation, bool is_log, int line) {
    return generate(g, out, n, 2, [=](Source &source, T *to) {
        fill_normal(source, to);
        for (int i = 0; i < 2; i++) to[i] = mean + deviation * to[i], to[i] = is_log ? T(exp(to[i])) : to[i];
    }, line);
}
}
}
inline curandStatus curandCreateGenerator(curandGenerator_t *g, curandRngType type) {
    return gridstride::random::create(g, type, false);
}
inline curandStatus curandCreateGeneratorHost(curandGenerator_t *g, curandRngType type) {
    return gridstride::random::create(g, type, true);
}
inline curandStatus curandDestroyGenerator(curandGenerator_t g) {
    g->restart();
    delete g;
    return CURAND_STATUS_SUCCESS;
}
inline curandStatus curandSetStream(curandGenerator_t g, cudaStream_t s) {
    g->stream = s;
    return CURAND_STATUS_SUCCESS;
}
inline curandStatus curandSetPseudoRandomGeneratorSeed(curandGenerator_t g, unsigned long long seed) {
    g->restart();
    g->seed = seed;
    return CURAND_STATUS_SUCCESS;
}
inline curandStatus curandSetGeneratorOffset(curandGenerator_t g, unsigned long long offset) {
    g->restart();
    g->offset = offset;
    return CURAND_STATUS_SUCCESS;
}
inline curandStatus curandSetGeneratorOrdering(curandGenerator_t g, curandOrdering) {
    g->restart();
    return CURAND_STATUS_SUCCESS;
}
inline curandStatus curandGenerateSeeds(curandGenerator_t g) { g->get_source(); return CURAND_STATUS_SUCCESS; }
inline curandStatus curandGetVersion(int *version) { *version = 10400; return CURAND_STATUS_SUCCESS; }
inline curandStatus curandGenerate(curandGenerator_t g, unsigned *out, size_t n, int line = __builtin_LINE()) {
    using namespace gridstride::random;
    return generate(g, out, n, 1, [](Source &source, unsigned *to) { *to = source.next(); }, line);
}
inline curandStatus curandGenerateUniform(curandGenerator_t g, float *out, size_t n, int line = __builtin_LINE()) {
    using namespace gridstride::random;
    return generate(g, out, n, 1, [](Source &source, float *to) { *to = uniform(source.next()); }, line);
}
inline curandStatus curandGenerateUniformDouble(
    curandGenerator_t g, double *out, size_t n, int line = __builtin_LINE()) {
    using namespace gridstride::random;
    const auto fill = [](Source &source, double *to) {
        const unsigned x = source.next();
        *to = uniform(x, source.next());
    };
    return generate(g, out, n, 1, fill, line);
}
inline curandStatus curandGenerateNormal(
    curandGenerator_t g, float *out, size_t n, float mean, float deviation, int line = __builtin_LINE()) {
    return gridstride::random::generate_normal(g, out, n, mean, deviation, false, line);
}
inline curandStatus curandGenerateNormalDouble(
    curandGenerator_t g, double *out, size_t n, double mean, double deviation, int line = __builtin_LINE()) {
    return gridstride::random::generate_normal(g, out, n, mean, deviation, false, line);
}
inline curandStatus curandGenerateLogNormal(
    curandGenerator_t g, float *out, size_t n, float mean, float deviation, int line = __builtin_LINE()) {
    return gridstride::random::generate_normal(g, out, n, mean, deviation, true, line);
}
inline curandStatus curandGenerateLogNormalDouble(
    curandGenerator_t g, double *out, size_t n, double mean, double deviation, int line = __builtin_LINE()) {
    return gridstride::random::generate_normal(g, out, n, mean, deviation, true, line);
}
