// Tuples and pairs are those of the standard library: the emulator compiles for the host.
#pragma once
#include <tuple>
#include <utility>
#include "../emulator.h"

namespace thrust {
using std::get;
using std::make_pair;
using std::make_tuple;
using std::pair;
using std::swap;
using std::tie;
using std::tuple;
using std::tuple_element;
using std::tuple_size;
}
