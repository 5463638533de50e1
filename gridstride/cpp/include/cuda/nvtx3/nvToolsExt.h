#pragma once
#error "the emulator has no nvtx3/nvToolsExt.h (marks for profilers): leave them out, or run on a GPU"
