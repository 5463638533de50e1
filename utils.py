"What the lecture videos call `from utils import *`."
from gridstride.utils import *
from gridstride.cpp import cuda_kernel, load_cuda
