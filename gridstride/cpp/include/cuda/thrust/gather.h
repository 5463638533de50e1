#pragma once
#include "algorithms.h"
