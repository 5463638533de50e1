"""Floats of 4, 6 and 8 bits in CUDA C: tests/cuda/documented/13_small_floats.cu prints digests of all conversions,
which `test_cpp_programs.py` compares with those of the emulator. Here they are held against NumPy and CUDA's header."""
import re, shutil, subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

PROGRAM = Path(__file__).parent/'cuda'/'documented'/'13_small_floats.cu'
PRINTED = re.findall(r'^//> (.*)\n', PROGRAM.read_text(), re.M)
LIBRARY = Path('/usr/local/cuda/include')
TYPES = dict(e2m1=ml_dtypes.float4_e2m1fn, e2m3=ml_dtypes.float6_e2m3fn, e3m2=ml_dtypes.float6_e3m2fn)
pytestmark = pytest.mark.exhaustive


def digest(*columns):
    "The program's digest of columns of codes, row by row; a negative code is left out"
    total = 0
    for row in zip(*(column.tolist() for column in columns)):
        for code in row:
            if code >= 0: total = (total ^ code)*0x9e3779b97f4a7c15 % 2**64
    return f'{total:016x}'


def inputs():
    "The program's floats, and its doubles that no float equals"
    low = np.array([0, 1, 0xffff], np.uint32)
    floats = (np.arange(65536, dtype=np.uint32)[:, None] << 16 | low).ravel().view(np.float32)
    with np.errstate(invalid='ignore', over='ignore'): return floats, floats.astype(np.float64)*1.0000001


def to_small(x, dtype, rounding):
    "The codes of the nearest values, ties to the even code, or of the last values that are not larger"
    info = ml_dtypes.finfo(dtype)
    values = np.arange(1 << info.bits - 1, dtype=np.uint8).view(dtype).astype(np.float64)
    magnitude = np.minimum(np.where(np.isnan(x), np.inf, np.abs(x)), values[-1]).astype(np.float64)
    codes = np.searchsorted(values, magnitude, 'right') - 1
    if rounding == 'rn':
        middle = (values[codes] + values[np.minimum(codes + 1, len(values) - 1)])/2
        codes += (magnitude > middle) | (magnitude == middle) & (codes % 2 == 1) & (codes < len(values) - 1)
    return codes | (np.signbit(x) & ~np.isnan(x)).astype(np.int64) << info.bits - 1


@pytest.mark.parametrize('name', TYPES)
@pytest.mark.parametrize('rounding', ['rn', 'rz'])
def test_conversions_round_as_numpy_does(name, rounding):
    floats, doubles = inputs()
    of_doubles = np.where(np.isnan(floats), -1, to_small(doubles, TYPES[name], rounding))
    assert f'{name} {rounding} {digest(to_small(floats, TYPES[name], rounding), of_doubles)}' in PRINTED


@pytest.mark.skipif(not (LIBRARY/'cuda_fp4.hpp').exists(), reason='needs a CUDA toolkit')
@pytest.mark.skipif(not shutil.which('g++'), reason='needs g++')
def test_the_librarys_own_header_computes_the_same(tmp_path):
    program = tmp_path/'small_floats'
    subprocess.run(['g++', '-O1', '-std=c++17', '-x', 'c++', f'-I{LIBRARY}', PROGRAM, '-o', program], check=True)
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    assert printed == [line for line in PRINTED if not line.startswith('ptx')]
