#pragma once
#include "emulator.h"
