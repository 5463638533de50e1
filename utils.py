"What the lecture videos call `from utils import *`."
from gridstride.support import numba_cuda as _numba_cuda
from gridstride.utils import *
from gridstride.cpp import cuda_kernel, load_cuda

_numba_cuda.import_early()
