// Where an algorithm runs: here always on the host, in the order of a loop.
#pragma once
#include <type_traits>
#include "tuple.h"

namespace thrust {
struct execution_policy {
    execution_policy on(cudaStream_t) const { return {}; }
    template <class A> execution_policy operator()(const A &) const { return {}; }     // an allocator for what it needs
};
inline constexpr execution_policy host, device, seq;
namespace cuda { inline constexpr execution_policy par, par_nosync; }
namespace omp { inline constexpr execution_policy par; }
namespace emulated {
template <class P> using if_policy = std::enable_if_t<std::is_same_v<std::decay_t<P>, execution_policy>, int>;
}
}
