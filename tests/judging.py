"""Run the tests of the judge on the CPU or, with GRIDSTRIDE_JUDGE_ON=cuda, on a GPU.

    GRIDSTRIDE_JUDGE_ON=cuda python -m pytest -n 8 tests/test_judge*.py

Several of them share one GPU there, so nothing is timed, and waits for the GPU count only in
`tests/kernels/check_judge_gpu.py`, which runs alone."""
import os

import pytest
from gridstride import judge as judges
from gridstride.judge import calls
from gridstride.utils import gpu_count

ON_GPU = os.environ.get('GRIDSTRIDE_JUDGE_ON') == 'cuda'
where = [pytest.mark.real_backend] if ON_GPU else []
cpu_only = pytest.mark.skipif(ON_GPU, reason='kernels run on a GPU here, not emulated')


def judge(*args, **options):
    "`gridstride.judge.judge`; untimed on a GPU, where the other tests would be timed, too"
    defaults = dict(device='cuda', timing=False, limit=60.) if ON_GPU else {}  # torch.compile makes code for a GPU
    return judges.judge(*args, **defaults | options)


if ON_GPU:
    assert gpu_count(), 'GRIDSTRIDE_JUDGE_ON=cuda, but there is no GPU'
    calls._MAX_BUSY_SECONDS = 1.
