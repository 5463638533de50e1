// The layout of an operand of the tensor cores in shared memory, for wgmma and tcgen05
#pragma once
#include <algorithm>
#include "engines.h"

namespace gridstride {

// The layout of an operand in shared memory, from PTX's matrix descriptor. `row` is the index along M or N, `i` along
// K.
struct Operand {
    uint32_t start, lead, stride;
    int swizzle, size;
    bool transposed;
    bool is_by_32_bytes = false;           // whether the swizzle exchanges 32 bytes, not 16 (tcgen05 only)
    Operand(uint64_t descriptor, int size, bool transposed)
        : start(uint32_t(descriptor & 0x3fff) << 4), lead(uint32_t(descriptor >> 16 & 0x3fff) << 4),
          stride(uint32_t(descriptor >> 32 & 0x3fff) << 4),
          swizzle(descriptor >> 62 == 0 ? 0 : 256 >> (descriptor >> 62)), size(size), transposed(transposed) {}
    uint32_t address(int row, int i) const {
        const int row_bytes = std::max(swizzle, 16), byte_in_row = (transposed ? row : i) * size; // contiguous bytes
        if (is_by_32_bytes) {                // groups of four, not eight, rows along k
            const uint32_t offset = start + uint32_t(byte_in_row / 128) * lead + uint32_t(i / 4) * stride +
                                    uint32_t(i % 4 * 128 + byte_in_row % 128);
            return offset ^ (offset >> 7 & 3) << 5;
        }
        if (transposed) {
            const uint32_t next_column = swizzle ? lead : stride, next_row = swizzle ? stride : lead;
            return swizzle_offset(
                start + uint32_t(byte_in_row / row_bytes) * next_column + uint32_t(i / 8) * next_row +
                    uint32_t(i % 8 * row_bytes + byte_in_row % row_bytes),
                swizzle);
        }
        return swizzle_offset(start + uint32_t(row / 8) * stride + uint32_t(byte_in_row / row_bytes) * lead +
                            uint32_t(row % 8 * row_bytes + byte_in_row % row_bytes),
            swizzle);
    }
};
}
