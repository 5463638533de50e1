#pragma once
#include <gridstride/tensor.h>
