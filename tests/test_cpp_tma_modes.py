"""TMA's other modes on the emulator: four rows of a matrix (gather4, scatter4) and the pixels under a filter (im2col).
One program makes the tensor maps, checks what was copied, and has the mistakes. It has not run on a GPU."""
import shutil
import subprocess

import pytest

from found import finding
from gridstride.cpp import program
from gridstride.kernels.ptx import PTX

PROGRAM = r'''
#include <cuda.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
''' + PTX + r'''
// Loads four rows of 128 bytes from column 0 on, and stores them to other rows, in reverse order
__global__ void rows(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to, float *out,
                     int4 at, int4 there, int wrong) {
    __shared__ alignas(1024) float s[4*32];
    __shared__ alignas(1024) float reversed[4*32];
    __shared__ u64 bar;
    int i = threadIdx.x;
    if (i == 0) {
        barrier_init(address(&bar), 1);
        fence_mbarrier_init();
        barrier_expect(address(&bar), wrong == 2 ? 128 : sizeof s);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" // gather
                     :: "r"(address(s)), "l"(&from), "r"(address(&bar)), "r"(wrong == 3 ? 2 : 0), "r"(at.x), "r"(at.y),
                        "r"(at.z), "r"(at.w) : "memory");
    }
    __syncthreads();
    if (wrong != 4) barrier_wait(address(&bar), 0);
    out[i] = s[i];
    int r = i/32, c = i%32;
    reversed[(3-r)*32 + c] = s[r*32 + ((c/4 ^ r) * 4 | c%4)]; // of the 128-byte swizzle
    if (wrong != 5) fence_for_tma();
    __syncthreads();
    if (i == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group "
                     "[%0, {0, %1, %2, %3, %4}], [%5];" // scatter
                     :: "l"(&to), "r"(there.x), "r"(there.y), "r"(there.z), "r"(there.w), "r"(address(reversed))
                     : "memory");
        stores_commit();
        if (wrong != 6) stores_wait_read();
    }
}
// Loads 4 channels of 40 pixels of NHWC images, and stores them to other images without offsets
__global__ void pixels(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to, float *out,
                       int c, int w, int h, int n, int dw, int dh, int wrong) {
    __shared__ alignas(128) float s[40*4];
    __shared__ u64 bar;
    int i = threadIdx.x;
    if (i == 0) {
        barrier_init(address(&bar), 1);
        fence_mbarrier_init();
        barrier_expect(address(&bar), sizeof s);
        if (wrong == 7) w = 9;
        if (wrong == 8)
            asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                         "[%0], [%1, {%3, %4, %5, %6}], [%2];" // im2col
                         :: "r"(address(s)), "l"(&from), "r"(address(&bar)), "r"(c), "r"(w), "r"(h), "r"(n) : "memory");
        else
            asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
                         "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" // im2col
                         :: "r"(address(s)), "l"(&from), "r"(address(&bar)), "r"(c), "r"(w), "r"(h), "r"(n),
                            "h"((short)dw), "h"((short)dh) : "memory");
    }
    __syncthreads();
    barrier_wait(address(&bar), 0);
    out[i] = s[i];
    __syncthreads();
    if (i == 0) {
        asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group "
                     "[%0, {%1, %2, %3, %4}], [%5];" :: "l"(&to), "r"(c), "r"(w), "r"(h), "r"(n), "r"(address(s))
                     : "memory");
        stores_commit();
        stores_wait_read();
    }
}

static void *driver_function(const char *name) {
    void *function;
    cudaDriverEntryPointQueryResult found;
    cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found);
    return function;
}
static float *copy_to_gpu(const std::vector<float> &x) {
    float *p;
    cudaMalloc(&p, x.size()*4);
    cudaMemcpy(p, x.data(), x.size()*4, cudaMemcpyHostToDevice);
    return p;
}
static std::vector<float> copy_back(const float *p, size_t n) {
    std::vector<float> x(n);
    cudaMemcpy(x.data(), p, n*4, cudaMemcpyDeviceToHost);
    return x;
}
static int failed(const char *what, int i) { return printf("%s: element %d is wrong\n", what, i), 1; }

static int check_rows(int wrong) {
    const int h = 20, w = 32;
    std::vector<float> x(h*w), old(h*w, -1);
    for (int i = 0; i < h*w; i++) x[i] = i + 1;
    float *from = copy_to_gpu(x), *to = copy_to_gpu(old), *out = copy_to_gpu(old);
    auto encode = (decltype(&cuTensorMapEncodeTiled))driver_function("cuTensorMapEncodeTiled");
    const cuuint64_t sizes[] = {w, h}, strides[] = {w*4};
    const cuuint32_t box[] = {w, wrong == 1 ? 4u : 1u}, ones[] = {1, 1};
    CUtensorMap maps[2];
    for (int i = 0; i < 2; i++)
        if (encode(&maps[i], CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, i ? to : from, sizes, strides, box, ones,
                   CU_TENSOR_MAP_INTERLEAVE_NONE, i ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B,
                   CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)) return 2;
    const int at[] = {7, -1, 0, 20}, there[] = {3, 25, 19, 0};       // two rows and one row that do not exist
    rows<<<1, 128>>>(maps[0], maps[1], out, {7, -1, 0, 20}, {3, 25, 19, 0}, wrong);
    std::vector<float> loaded = copy_back(out, 128), stored = copy_back(to, h*w), want = old;
    auto row = [&](int r, int c) { return at[r] >= 0 && at[r] < h ? x[at[r]*w + c] : 0; };
    for (int i = 0; i < 128; i++)                                    // 16 bytes are exchanged by the swizzle
        if (loaded[i] != row(i/32, ((i%32)/4 ^ i/32) * 4 | i%4)) return failed("gather4", i);
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < w && there[r] < h; c++) want[there[r]*w + c] = row(3 - r, c);
    for (int i = 0; i < h*w; i++)
        if (stored[i] != want[i]) return failed("scatter4", i);
    return 0;
}
// The rows of im2col's matrix for one tap of a 3x3 filter with padding 1 are the output pixels of the convolution.
static int check_pixels(int stride, int wrong) {
    const int N = 3, H = 6, W = 9, C = 8, rows_out = (H + 2 - 3)/stride + 1, columns_out = (W + 2 - 3)/stride + 1;
    std::vector<float> x(N*H*W*C), old(N*H*W*C, -1);
    for (size_t i = 0; i < x.size(); i++) x[i] = i + 1;
    float *from = copy_to_gpu(x), *to = copy_to_gpu(old), *out = copy_to_gpu(old);
    auto encode = (decltype(&cuTensorMapEncodeIm2col))driver_function("cuTensorMapEncodeIm2col");
    const cuuint64_t sizes[] = {C, W, H, N}, strides[] = {C*4, W*C*4, H*W*C*4};
    const cuuint32_t steps[] = {1, (cuuint32_t)stride, (cuuint32_t)stride, 1}, box[] = {4, 1, 1, 1};
    const int lower[] = {-1, -1}, upper[] = {-1, -1};
    CUtensorMap maps[2];
    for (int i = 0; i < 2; i++)
        if (encode(&maps[i], CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, i ? to : from, sizes, strides, lower, upper, 4, 40,
                   steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)) return 2;
    if (wrong == 9) {
        auto tiled = (decltype(&cuTensorMapEncodeTiled))driver_function("cuTensorMapEncodeTiled");
        if (tiled(&maps[0], CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, from, sizes, strides, box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)) return 2;
    }
    const int first = rows_out*columns_out + columns_out + 2, c = 4, r = 2, q = 1;    // in image 1; tap (2, 1)
    auto position = [&](int pixel, int &n, int &h, int &w) {
        n = pixel/(rows_out*columns_out), h = pixel/columns_out%rows_out*stride - 1, w = pixel%columns_out*stride - 1;
    };
    int n, h, w;
    position(first, n, h, w);
    pixels<<<1, 160>>>(maps[0], maps[1], out, c, w, h, n, q, r, wrong);
    std::vector<float> loaded = copy_back(out, 160), stored = copy_back(to, old.size()), want = old;
    for (int i = 0; i < 160; i++) {
        position(first + i/4, n, h, w);
        auto index = [&](int h, int w) {
            return n < N && h >= 0 && h < H && w >= 0 && w < W ? ((n*H + h)*W + w)*C + c + i%4 : -1;
        };
        int source = index(h + r, w + q), target = index(h, w);
        if (loaded[i] != (source < 0 ? 0 : x[source])) return failed("im2col", i);
        if (target >= 0) want[target] = loaded[i];
    }
    for (size_t i = 0; i < want.size(); i++)
        if (stored[i] != want[i]) return failed("im2col_no_offs", (int)i);
    return 0;
}
int main(int argc, char **argv) {
    int wrong = argc > 1 ? atoi(argv[1]) : 0;
    if (wrong >= 7) return check_pixels(wrong == 9 ? 1 : 2, wrong);
    return wrong ? check_rows(wrong) : check_rows(0) || check_pixels(1, 0) || check_pixels(2, 0);
}
'''
MISTAKES = {1: 'memcheck tensor_map_mode', 2: 'synccheck|racecheck', 3: 'memcheck box_misaligned',
            4: 'racecheck bulk_in_flight', 5: 'fencecheck no_proxy_fence', 6: 'racecheck store_not_awaited',
            7: 'memcheck tensor_map_mode', 8: 'memcheck tensor_map_mode', 9: 'memcheck tensor_map_mode'}


@pytest.fixture(scope='module')
def compiled(): return program.compile_program(PROGRAM, 'modes')


def run(compiled, *arguments): return program.run_compiled(compiled[0], 'modes', ['modes', *arguments], compiled[1])


def test_the_copies_are_right(compiled): assert run(compiled) == 0


@pytest.mark.parametrize('wrong', MISTAKES)
def test_mistakes_are_found(compiled, wrong):
    with finding(MISTAKES[wrong]): run(compiled, str(wrong))


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which('nvcc'), reason='needs nvcc')
def test_nvcc_compiles_the_program(tmp_path):
    (tmp_path/'k.cu').write_text(PROGRAM)
    subprocess.run(['nvcc', '-std=c++17', '-arch=sm_100a', '-cubin', '-o', 'k.cubin', 'k.cu'], cwd=tmp_path, check=True)
