#pragma once
#error "the emulator has no nvToolsExt.h (marks for profilers): leave them out, or run on a GPU"
