// The operands of wgmma and tcgen05 in shared memory
#pragma once
#include <algorithm>
#include "engines.h"

namespace gridstride {

// The layout of an operand in shared memory, from the matrix descriptor of PTX. `row` is the index along M or N, `i`
// the index along K.
struct Operand {
    uint32_t start, leading, stride;       // the start address, and the byte offsets along the two dimensions
    int swizzle, size;
    bool transposed;
    bool has_32_byte_atoms = false;        // whether the swizzle moves units of 32 bytes, not 16 (tcgen05 only)
    Operand(uint64_t descriptor, int size, bool transposed)
        : start(uint32_t(descriptor & 0x3fff) << 4), leading(uint32_t(descriptor >> 16 & 0x3fff) << 4),
          stride(uint32_t(descriptor >> 32 & 0x3fff) << 4),
          swizzle(descriptor >> 62 == 0 ? 0 : 256 >> (descriptor >> 62)), size(size), transposed(transposed) {}
    uint32_t address(int row, int i) const {
        const int row_bytes = std::max(swizzle, 16), byte_in_row = (transposed ? row : i) * size;
        if (has_32_byte_atoms) {                // groups of four, not eight, rows along K
            const uint32_t offset = start + uint32_t(byte_in_row / 128) * leading + uint32_t(i / 4) * stride +
                                    uint32_t(i % 4 * 128 + byte_in_row % 128);
            return offset ^ (offset >> 7 & 3) << 5;
        }
        if (transposed) {
            const uint32_t next_column = swizzle ? leading : stride, next_row = swizzle ? stride : leading;
            return swizzle_offset(
                start + uint32_t(byte_in_row / row_bytes) * next_column + uint32_t(i / 8) * next_row +
                    uint32_t(i % 8 * row_bytes + byte_in_row % row_bytes),
                swizzle);
        }
        return swizzle_offset(start + uint32_t(row / 8) * stride + uint32_t(byte_in_row / row_bytes) * leading +
                            uint32_t(row % 8 * row_bytes + byte_in_row % row_bytes),
            swizzle);
    }
};
}
