#pragma once
#error "the emulator has no surface_functions.h (textures and surfaces): read arrays instead, or run on a GPU"
