"Figures with units, and readable names."
import pytest
from gridstride.prof.show import format_si, short_name, truncate_middle

NAMES = {
    'void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous '
'namespace)::launch_clamp(int)>(int, float)':
        'vectorized_elementwise_kernel',
    'void (anonymous namespace)::softmax_warp_forward<float, 11, false>(float*, int)': 'softmax_warp_forward',
    'transpose(const float *, float *, int)': 'transpose',
    'void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(cutlass_80::Params)':
        'cutlass_80_simt_sgemm_256x128_8x4_nn_align1',
    '__main__::nb[abi:v1,cw51](Array<float, (int)1, C>)': 'nb',
    'tri': 'tri',
    'Memcpy DtoH (Device -> Pinned)': 'Memcpy DtoH (Device -> Pinned)',
    '_ZN2at6native13reduce_kernelILi512ELi1EEEvT1_': 'reduce_kernel',
    '_ZN43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6320softmax_warp_forwardIfEEvPT0_': 'softmax_warp_forward',
}
LONG = ('sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x64x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_'
        'execute_kernel__5x_cublas')


@pytest.mark.parametrize(
    'x,unit,want',
    [
        (2, 's', '2.00 s'),
        (0.0315, 's', '31.5 ms'),
        (3.12e-5, 's', '31.2 µs'),
        (4.32e-6, 's', '4.32 µs'),
        (9e-10, 's', '900 ps'),
        (0, 's', '0 s'),
        (3350e9, 'B/s', '3.35 TB/s'),
        (588.32e9, 'B/s', '588 GB/s'),
        (1000, 'B', '1.00 kB'),
    ],
)
def test_three_digits_and_a_prefix(x, unit, want): assert format_si(x, unit) == want


@pytest.mark.parametrize('full,want', NAMES.items(), ids=NAMES.values())
def test_names_lose_types_arguments_and_namespaces(full, want): assert short_name(full) == want


def test_long_names_lose_their_middle():
    assert truncate_middle(LONG, 30) == 'sm80_xmma_gemm_f32f…_5x_cublas'
    assert len(truncate_middle(LONG)) == 56 and truncate_middle('tri') == 'tri'
