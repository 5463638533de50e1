"The programs of tests/cuda on the emulator: right ones run in silence and print what a GPU prints, wrong ones are found on the line that they name."
import json, re, warnings
from pathlib import Path

import pytest

from gridstride import cpp
from gridstride.cpp.program import run
from gridstride.cpp.build import compiler
from gridstride.findings import EarlyReturn, KernelError, LaunchError, MemcheckError

HERE = Path(__file__).parent/'cuda'
ORDERS = 'forward','reverse','shuffle'
recorded = json.loads((HERE/'h100.json').read_text())

def programs(kind): return [pytest.param(p, id=p.stem) for p in sorted((HERE/kind).glob('*.cu'))]

def name(path): return f'program_{path.stem}'

def output(path, capfd, order='forward', checks=True, threads=0):
    "What the program prints; it must end well, without a warning"
    capfd.readouterr()
    with cpp.options(order=order, seed=3, seconds=30, threads=threads), warnings.catch_warnings():
        warnings.simplefilter('error')
        assert run(path.read_text(), name(path), checks=checks)==0
    return capfd.readouterr().out

def on_gpu(path):
    "What the program printed on a GPU"
    got = recorded[f'{path.parent.name}/{path.name}']
    assert got['rc']==0 and got['stable']
    return got['stdout']

@pytest.mark.parametrize('path', programs('same'))
def test_same_as_on_a_gpu(path, capfd):
    want = on_gpu(path)
    assert want
    for order in ORDERS: assert output(path, capfd, order)==want, order
    assert output(path, capfd, checks=False, threads=2)==want

@pytest.mark.parametrize('args,want', json.loads((HERE/'boxes.json').read_text()).items())
def test_boxes_as_on_a_gpu(args, want, capfd):
    "Those that come and go have the same bytes; where the GPU stops with an illegal instruction, the emulator says which rule is broken"
    def go(): return run((HERE/'boxes.cu').read_text(), 'boxes', args.split())  # one program for all, compiled once
    capfd.readouterr()
    if want.endswith('no error'):
        assert go()==0 and capfd.readouterr().out==want+'\n'
    else:
        with pytest.raises(MemcheckError, match='must be a multiple of 16 bytes|may not begin before the array'): go()

@pytest.mark.parametrize('path', programs('right'))
def test_right(path, capfd):
    want = on_gpu(path)
    assert 'cudaSuccess' in want
    for order in ORDERS: assert output(path, capfd, order)==want, order

CLANG = {'07_misaligned_float4': 'clang does not look at the address of a struct that is copied', '15_host_table_of_rows': "clang moves the read out of the loop, whose line it names"}

# Not stopped, as a GPU does not stop them: warnings, that name the line
WARNED = {'46_return_before_a_barrier': EarlyReturn}

@pytest.mark.parametrize('path', programs('wrong'))
def test_wrong(path):
    if path.stem in WARNED: return warned(path, WARNED[path.stem])
    if compiler().kind=='clang' and path.stem in CLANG: pytest.xfail(CLANG[path.stem])
    src = path.read_text()
    kind,lines = re.match(r'// expect: (\w+) line ([\d or]+)$', src.splitlines()[0]).groups()
    for order in ORDERS:
        with cpp.options(order=order, seed=3, seconds=30), pytest.raises(KernelError) as e: run(src, name(path))
        assert (e.value.kind, order)==(kind, order), e.value
        assert str(e.value.line) in lines.split(' or '), f'{order}: {e.value}'
        assert src.splitlines()[e.value.line-1].strip() in str(e.value) and e.value.file==f'{name(path)}.cu'

def warned(path, category):
    src = path.read_text()
    line = re.match(r'// expect: \w+ line (\d+)$', src.splitlines()[0])[1]
    for order in ORDERS:
        with cpp.options(order=order, seed=3), pytest.warns(category, match=f'^line {line} of '): assert run(src, name(path))==0

@pytest.mark.parametrize('launch,says', [('outer<<<1, 1>>>(x)', 'a kernel launches a kernel'), ('inner<<<1, 2000>>>(x)', '2000 threads')])
def test_what_went_wrong_is_told_if_the_program_ends_by_exit(launch, says):
    src = '#include <cstdlib>\n__global__ void inner(int *x) { *x = 1; }\n__global__ void outer(int *x) { inner<<<1, 1>>>(x); }\nint main() { int *x; cudaMalloc(&x, 4); %s; cudaDeviceSynchronize(); exit(0); }\n'
    with pytest.raises(LaunchError, match=says): run(src % launch, 'program_exit')
