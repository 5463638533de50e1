// Thrust's random number generators, and distributions that use one generated number per value
#pragma once
#include <cmath>
#include <random>
#include "tuple.h"

namespace thrust {
typedef std::minstd_rand default_random_engine;
using std::minstd_rand;
using std::minstd_rand0;
namespace emulated {
template <class T, class G> T fraction(G &generator) {
    return T(generator() - G::min()) / (T(1) + T(G::max() - G::min()));
}
}
template <class T = double> class uniform_real_distribution {
    T a, b;

public:
    explicit uniform_real_distribution(T a = 0, T b = 1) : a(a), b(b) {}
    template <class G> T operator()(G &generator) const { return emulated::fraction<T>(generator) * (b - a) + a; }
};
template <class T = int> class uniform_int_distribution {
    T a, b;

public:
    explicit uniform_int_distribution(T a = 0, T b = std::numeric_limits<T>::max()) : a(a), b(b) {}
    template <class G> T operator()(G &generator) const {
        return T(uniform_real_distribution<double>(double(a), double(b) + 1)(generator));
    }
};
template <class T = double> class normal_distribution {
    T mean, deviation;

public:
    explicit normal_distribution(T mean = 0, T deviation = 1) : mean(mean), deviation(deviation) {}
    template <class G> T operator()(G &generator) const {
        return mean + deviation * T(normcdfinv((double(generator() - G::min()) + 1) / (double(G::max()) + 2)));
    }
};
namespace random {
using thrust::default_random_engine;
using thrust::normal_distribution;
using thrust::uniform_int_distribution;
using thrust::uniform_real_distribution;
}
}
