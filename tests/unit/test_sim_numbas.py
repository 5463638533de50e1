"A kernel in Numba's own simulator, in a process of its own."
import numpy as np
import pytest
from gridstride.sim import cuda, numba_simulator, numba_reference

ADD = 4
pytestmark = pytest.mark.filterwarnings('ignore')


@cuda.jit
def add_k(x, out, n):
    i = cuda.grid(1)
    if i == 0: print('thread', i)
    if i < n: out[i] = x[i] + ADD


@pytest.mark.slow
def test_arrays_are_written_and_what_it_prints_is_printed(capsys):
    import torch
    x, out = np.arange(3, dtype=np.float32), torch.zeros(3)
    seconds = numba_simulator(add_k)[1, 4](x, out, 3)
    assert out.tolist() == [4, 5, 6] and 0 < seconds < numba_reference.TIMEOUT
    assert capsys.readouterr().out == 'thread 0\n'


@pytest.mark.slow
def test_what_fails_there_is_reported():
    def wrong(x): x[cuda.grid(1)+9] = 1.
    with pytest.raises(RuntimeError, match='wrong failed.*IndexError'):
        numba_simulator(wrong)[1, 1](np.zeros(3))


def test_what_does_not_end_is_reported(monkeypatch):
    monkeypatch.setattr(numba_reference, 'TIMEOUT', 0)
    with pytest.raises(TimeoutError, match='add_k timed out'): numba_simulator(add_k)[1, 1](np.zeros(3), np.zeros(3), 3)
