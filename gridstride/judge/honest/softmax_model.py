#!POPCORN leaderboard softmax
#!POPCORN gpu H100
"KernelBench's form: a module"

import torch


class ModelNew(torch.nn.Module):
    "Computes the softmax of each row in two passes"

    def forward(self, x):
        "Return the softmax of each row"
        e = torch.exp(x - x.amax(-1, keepdim=True))
        return e / e.sum(-1, keepdim=True)
