#pragma once
#include <gridstride/stable.h>
