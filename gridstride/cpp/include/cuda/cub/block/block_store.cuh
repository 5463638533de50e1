#pragma once
#error "the emulator has no cub/block/block_store.cuh (the CUB library): use shuffles or cooperative groups, or run on a GPU"
