#!POPCORN leaderboard matmul
#!POPCORN gpu H100
"CUDA C, a rung of lesson 16: each thread has a patch of the tile in registers"

from gridstride.kernels.ladder.fp32 import patch


def custom_kernel(data):
    "Return m @ n"
    return patch(*data)
