// Fourier transforms: copies strided arrays to contiguous ones, which Python transforms.
#include <string.h>
#include <vector>
#include "findings.h"
#include "state.h"

namespace gridstride {

static void (*transform_in_python)(const gridstride_transform *) = nullptr;

// The elements that a transform reads or writes. The complex array of a real transform stores only half of the last
// axis.
struct TransformArray {
    const ArrayLayout &layout;
    int rank, batch, sizes[3] = {1, 1, 1};
    size_t bytes;                                          // per element

    TransformArray(const Transform &t, bool input)
        : layout(input ? t.in : t.out), rank(t.rank), batch(t.batch),
            bytes((t.is_double ? 8u : 4u) * ((input ? t.is_complex_in : t.is_complex_out) ? 2u : 1u)) {
        const bool is_real_transform = !t.is_complex_in || !t.is_complex_out;
        const bool is_half = is_real_transform && (input ? t.is_complex_in : t.is_complex_out);
        for (int axis = 0; axis < rank; axis++)
            sizes[axis] = is_half && axis == rank - 1 ? t.sizes[axis] / 2 + 1 : t.sizes[axis];
    }
    size_t elements() const { return size_t(batch) * size_t(sizes[0]) * size_t(sizes[1]) * size_t(sizes[2]); }
    // Converts the index of an element in the contiguous array to its index in memory.
    size_t index(size_t i) const {
        int at[3] = {};
        for (int axis = rank - 1; axis >= 0; axis--)
            at[axis] = int(i % size_t(sizes[axis])), i /= size_t(sizes[axis]);
        size_t offset = size_t(at[0]);
        for (int axis = 1; axis < rank; axis++) offset = offset * size_t(layout.embed[axis]) + size_t(at[axis]);
        return i * size_t(layout.distance) + offset * size_t(layout.stride);
    }
    size_t extent() const { return (index(elements() - 1) + 1) * bytes; }
};
size_t Transform::bytes_in() const { return TransformArray(*this, true).extent(); }
size_t Transform::bytes_out() const { return TransformArray(*this, false).extent(); }

void fft::run(const Transform &t, const void *in, void *out, int direction) {
    if (!transform_in_python) not_emulated("cufft");
    const TransformArray from(t, true), to(t, false);
    std::vector<char> packed(from.elements() * from.bytes), result(to.elements() * to.bytes);
    for (size_t i = 0; i < from.elements(); i++)
        memcpy(&packed[i * from.bytes], static_cast<const char *>(in) + from.index(i) * from.bytes, from.bytes);
    gridstride_transform request = {packed.data(), result.data(), t.rank, t.batch, {}, t.is_double, t.is_complex_in,
        t.is_complex_out, direction};
    memcpy(request.sizes, t.sizes, sizeof t.sizes);
    set_in_python(true);
    transform_in_python(&request);
    set_in_python(false);
    for (size_t i = 0; i < to.elements(); i++)
        memcpy(static_cast<char *>(out) + to.index(i) * to.bytes, &result[i * to.bytes], to.bytes);
}
}

extern "C" void gridstride_transform_with(void (*f)(const gridstride_transform *)) {
    gridstride::transform_in_python = f;
}
