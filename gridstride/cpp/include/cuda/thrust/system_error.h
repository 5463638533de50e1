#pragma once
#include <system_error>
#include "tuple.h"

namespace thrust { using std::system_error; }
