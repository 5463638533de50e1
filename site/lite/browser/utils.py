"What the lessons import first: in the browser, threads are made before anything asks for them."

from in_browser import threads

threads.install()

from gridstride.utils import *  # noqa: E402, F403
from gridstride.cpp import cuda_kernel, load_cuda  # noqa: E402, F401
from in_browser.served import HAS_COMPILER  # noqa: E402

if HAS_COMPILER:
    from in_browser import cuda

    cuda.install()
