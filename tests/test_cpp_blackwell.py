"""Blackwell's tensor memory and tensor cores on the emulator: what tcgen05 instructions compute, and what the detectors
report of mistakes with them. The specification of PTX is the judge: none of this has run on a GPU."""
import shutil
import subprocess

import pytest
import torch

from gridstride.kernels.ladder import blackwell

LADDER = [blackwell.single, blackwell.roles, blackwell.pair, blackwell.persistent]
SHAPES = [(256, 256, 256), (200, 136, 72), (1, 8, 8), (129, 264, 64), (512, 640, 136)]


def relative_error(got, m, n):
    "The largest error, relative to the bound of a result that is rounded to bfloat16"
    want, terms = m.double() @ n.double(), m.double().abs() @ n.double().abs()
    return float(((got.double() - want).abs() / (2**-8 * want.abs() + 2**-20 * terms)).max())


@pytest.mark.parametrize('version', LADDER, ids=lambda o: o.name)
def test_the_ladder_multiplies(version):
    for h, w, k in SHAPES:
        m, n = torch.randn(h, k).bfloat16(), torch.randn(k, w).bfloat16()
        out = torch.full((h, w), torch.nan).bfloat16()
        assert relative_error(version(m, n, out), m, n) < 1, (h, w, k)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which('nvcc'), reason='needs nvcc')
@pytest.mark.parametrize('version', LADDER, ids=lambda o: o.name)
def test_nvcc_compiles_the_ladder(version, tmp_path):
    (tmp_path/'k.cu').write_text(version.src)
    subprocess.run(['nvcc', '-std=c++17', '-arch=sm_100a', '-cubin', '-o', 'k.cubin', 'k.cu'], cwd=tmp_path, check=True)
