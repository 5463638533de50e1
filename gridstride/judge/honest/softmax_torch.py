#!POPCORN leaderboard softmax
#!POPCORN gpu H100
"torch alone"

import torch


def custom_kernel(data):
    "Return the softmax of each row"
    return torch.softmax(data, -1)
