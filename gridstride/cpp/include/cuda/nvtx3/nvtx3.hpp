#pragma once
#error "the emulator has no nvtx3/nvtx3.hpp (marks for profilers): leave them out, or run on a GPU"
