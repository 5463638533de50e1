from . import wrong
from .shared_memory_cuda import changed


@wrong('tensor_cores.holds')
def quarters_by_rows(row, col): return row%8*4 + col%8//2, row//8*2 + col//8, col%2

@wrong('tensor_cores.holds')
def halves_the_other_way(row, col): return row%8*4 + col%8//2, row//8 + col//8*2, 1-col%2

@wrong('tensor_cores.holds')
def as_in_b(row, col): return col%8*4 + row%8//2, row//8 + col//8*2, row%2

@wrong('tensor_cores.holds')
def lane_only(row, col): return row%8*4 + col%8//2


@wrong('tensor_cores.narrow')
def leaves_the_row(r, c): return 32*r + (c ^ r%8*8)

@wrong('tensor_cores.narrow')
def not_swizzled(r, c): return 32*r + c

@wrong('tensor_cores.narrow')
def padded(r, c): return 40*r + c

@wrong('tensor_cores.narrow')
def each_row_another_order(r, c): return 32*r + (c ^ r%4*8)

@wrong('tensor_cores.narrow')
def elements_are_swapped(r, c): return 32*r + (c ^ r//2%4)

@wrong('tensor_cores.narrow')
def two_columns_at_one_address(r, c): return 32*r + c%8

@wrong('tensor_cores.narrow')
def two_orders_are_too_few(r, c): return 32*r + (c ^ r//2%2*8)


LINEAR = r'''
__global__ void linear_k(const bf16 *m, const bf16 *n, bf16 *out, int h, int w, int k) {
    int r = blockIdx.y*16, c = blockIdx.x*8, g = threadIdx.x/4, t = threadIdx.x%4*2;
    float o[4] = {};
    for (int idx = 0; idx < k; idx += 16) {
        unsigned a[4], b[2];
        for (int q = 0; q < 4; q++) a[q] = *(const unsigned *)&m[(r + g + q%2*8)*k + idx + t + q/2*8];
        for (int q = 0; q < 2; q++) b[q] = *(const unsigned *)&n[(c + g)*k + idx + t + q*8];
        mma(o, a, b[0], b[1]);
    }
    for (int q = 0; q < 2; q++)
        *(__nv_bfloat162 *)&out[(r + g + q*8)*w + c + t] = __floats2bfloat162_rn(o[2*q], o[2*q+1]);
}
'''

@wrong('tensor_cores.linear')
def quarters_of_a():
    return changed(LINEAR, ('(r + g + q%2*8)*k + idx + t + q/2*8', '(r + g + q/2*8)*k + idx + t + q%2*8'))

@wrong('tensor_cores.linear')
def not_transposed(): return changed(LINEAR, ('&n[(c + g)*k + idx + t + q*8]', '&n[(idx + g)*w + c + t]'))

@wrong('tensor_cores.linear')
def halves_of_b(): return changed(LINEAR, ('mma(o, a, b[0], b[1]);', 'mma(o, a, b[1], b[0]);'))

@wrong('tensor_cores.linear')
def registers_of_d(): return changed(LINEAR, ('o[2*q], o[2*q+1]', 'o[q], o[2+q]'))

@wrong('tensor_cores.linear')
def sums_start_again():
    return changed(
        LINEAR, ('    float o[4] = {};\n', ''), ('        mma(o,', '        float o[4] = {};\n        mma(o,'),
        ('    }\n    for (int q = 0; q < 2; q++)\n        *(', '    for (int q = 0; q < 2; q++)\n        *('),
        ('o[2*q+1]);\n', 'o[2*q+1]);\n    }\n'))

@wrong('tensor_cores.linear')
def without_the_tensor_core(): return r'''
__global__ void linear_k(const bf16 *m, const bf16 *n, bf16 *out, int h, int w, int k) {
    for (int i = threadIdx.x; i < 128; i += 32) {
        int r = blockIdx.y*16 + i/8, c = blockIdx.x*8 + i%8;
        float o = 0;
        for (int j = 0; j < k; j++) o += __bfloat162float(m[r*k + j])*__bfloat162float(n[c*k + j]);
        out[r*w + c] = __float2bfloat16(o);
    }
}
'''

@wrong('tensor_cores.linear')
def mma_in_a_comment():
    return changed(without_the_tensor_core(), ('float o = 0;', 'float o = 0; /* mma(o, a, b[0], b[1]); */'))

@wrong('tensor_cores.linear')
def mma_next_to_the_sums():
    return changed(without_the_tensor_core(),
                   ('float o = 0;', 'float o = 0, d[4] = {}; unsigned a[4] = {}; mma(d, a, 0, 0);'))


GRAM = r'''
__global__ void gram_k(const bf16 *m, bf16 *out, int h, int w) {
    __shared__ __align__(16) bf16 left[16][24], right[16][24];
    int r = blockIdx.y*16, c = blockIdx.x*16, lane = threadIdx.x;
    int g = lane/4, t = lane%4*2, row = lane/2, half = lane%2*8;
    float o[2][4] = {};
    for (int idx = 0; idx < h; idx += 16) {
        *(uint4 *)&left[row][half] = *(const uint4 *)&m[(idx + row)*w + r + half];
        *(uint4 *)&right[row][half] = *(const uint4 *)&m[(idx + row)*w + c + half];
        __syncwarp();
        unsigned a[4], b[4];
        ldmatrix_trans(a, address(&left[lane%8 + lane/16*8][lane/8%2*8]));
        ldmatrix_trans(b, address(&right[lane%16][lane/16*8]));
        mma(o[0], a, b[0], b[1]);
        mma(o[1], a, b[2], b[3]);
        __syncwarp();
    }
    for (int j = 0; j < 2; j++) for (int q = 0; q < 2; q++)
        *(__nv_bfloat162 *)&out[(r + g + q*8)*w + c + 8*j + t] = __floats2bfloat162_rn(o[j][2*q], o[j][2*q+1]);
}
'''

@wrong('tensor_cores.gram')
def quarters_as_in_the_lesson():
    return changed(GRAM, ('&left[lane%8 + lane/16*8][lane/8%2*8]', '&left[lane%16][lane/16*8]'))

@wrong('tensor_cores.gram')
def a_is_not_transposed(): return changed(GRAM, ('ldmatrix_trans(a,', 'ldmatrix(a,'))

@wrong('tensor_cores.gram')
def a_as_it_is_stored():
    return changed(GRAM, ('ldmatrix_trans(a,', 'ldmatrix(a,'),
                   ('&left[lane%8 + lane/16*8][lane/8%2*8]', '&left[lane%16][lane/16*8]'))

@wrong('tensor_cores.gram')
def b_is_not_transposed(): return changed(GRAM, ('ldmatrix_trans(b,', 'ldmatrix(b,'))

@wrong('tensor_cores.gram')
def no_barrier_after_use():
    return changed(
        GRAM, ('        mma(o[1], a, b[2], b[3]);\n        __syncwarp();\n', '        mma(o[1], a, b[2], b[3]);\n'))

@wrong('tensor_cores.gram')
def rows_not_aligned(): return changed(GRAM, ('left[16][24], right[16][24]', 'left[16][20], right[16][20]'))

@wrong('tensor_cores.gram')
def the_same_columns_twice(): return changed(GRAM, ('&right[lane%16][lane/16*8]', '&right[lane%16][0]'))
