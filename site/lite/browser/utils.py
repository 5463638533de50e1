"What the lessons import first: in the browser, threads are made before anything asks for them."

import functools

import numpy as np
from in_browser import threads

threads.install()


@functools.wraps(np.bincount)
def bincount(x, *args, _bincount=np.bincount, **kw):
    "Count integers of 64 bits, too, although NumPy's own have 32 here"
    return _bincount(np.asarray(x, np.intp), *args, **kw)


@functools.wraps(np.indices)
def indices(dimensions, dtype=np.int64, sparse=False, _indices=np.indices):
    "Return indices of 64 bits, although NumPy's own have 32 here"
    return _indices(dimensions, dtype, sparse)


np.bincount, np.indices = bincount, indices

from gridstride.utils import *  # noqa: E402, F403
from gridstride.cpp import cuda_kernel, load_cuda  # noqa: E402, F401
from in_browser.served import HAS_COMPILER  # noqa: E402

if HAS_COMPILER:
    from in_browser import cuda

    cuda.install()
