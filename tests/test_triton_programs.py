"Programs of Triton as people write them, with `import triton` alone: run under `gridstride.as_gpu`, they end right"
import re
from pathlib import Path

import pytest
from gridstride import tile
from warm import run_python

pytest.importorskip('triton', reason='the programs import it')
SOURCE = (Path(__file__).parent/'tile/programs/tutorials.py').read_text(encoding='utf-8')
RESULTS = set(re.findall(r"agrees\(\s*'([^']+)'|'([^']+)' if ", SOURCE)) - {('', '')}


def run(source, folder):
    (folder/'program.py').write_text(source, encoding='utf-8')
    return run_python('-m', 'gridstride.as_gpu', 'program.py', cwd=folder)


@pytest.mark.takes(8)
def test_programs_of_triton_end_right(tmp_path):
    done = run(SOURCE, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    printed = set(done.stdout.splitlines())
    wanted = {text for both in RESULTS for text in both if text}
    assert len(wanted) > 10 and wanted <= printed, wanted - printed


LOCK = 'while tl.atomic_cas(lock_ptr, 0, 1) == 1:\n        pass\n'
WRONG = {
    'no_lock': (LOCK, 'pass\n', 'RacecheckError'),
    'no_barrier_before_the_release': ('    tl.debug_barrier()\n', '', 'MissingBarrier'),
    'no_mask': ('tl.load(y_ptr + i, mask=i < n), mask=i < n)', 'tl.load(y_ptr + i), mask=i < n)', 'MemcheckError'),
}


@pytest.mark.takes(5)
@pytest.mark.parametrize('what', WRONG)
def test_a_mistake_in_a_program_is_a_finding(what, tmp_path):
    old, new, error = WRONG[what]
    assert SOURCE.count(old) == 1
    done = run(SOURCE.replace(old, new), tmp_path)
    assert error in done.stderr, done.stdout + done.stderr
    if error == 'MissingBarrier':  # it names the atomic after the store, not the one before it
        lines = {text: i for i, line in enumerate((tmp_path/'program.py').read_text().splitlines(), 1)
                 for text in ('atomic_xchg(lock_ptr, 0)', 'atomic_xchg(count_ptr, 1)') if text in line}
        assert f"line {lines['atomic_xchg(lock_ptr, 0)']}." in done.stderr
        assert f"line {lines['atomic_xchg(count_ptr, 1)']}." not in done.stderr, done.stderr


def test_a_launch_returns_what_stands_for_the_compiled_kernel():
    "Programs log its registers; a cell that ends with a launch shows nothing"
    import torch, triton, triton.language as tl

    @triton.jit
    def fill(x_ptr, BLOCK: tl.constexpr): tl.store(x_ptr + tl.arange(0, BLOCK), 1.)

    k, x = tile.checked(fill), torch.zeros(8)
    compiled = k[(1,)](x, BLOCK=8)
    assert compiled.name == 'fill' and compiled.n_regs > 0 and compiled.n_spills == 0 and compiled.metadata.shared > 0
    assert compiled is k.warmup(x, BLOCK=8, grid=(1,)) and compiled._ipython_display_() is None
