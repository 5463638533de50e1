"`matmul` with a given kernel: products, gradients of gradients, a model that learns."
import warnings

import pytest
import torch
from gridstride.cpp import on_emulator
from gridstride.kernels import explain, matmul, plan, tune, using
from gridstride.kernels.ladder.ladder import Reference
from gridstride.kernels.ladder.rung import Rung
from gridstride.utils import check
from test_kernels_rung import NAIVE

naive = Rung('naive', NAIVE, threads=(8, 8), BM=8, BN=8, BK=4, supports=lambda h, w, k: w != 13 or 'w is 13')


@pytest.fixture(autouse=True)
def emulated():
    torch.manual_seed(0)
    with on_emulator(): yield


def close(got, a, b): Reference(a.detach().reshape(-1, a.shape[-1]), b.detach())(got.detach().reshape(-1, b.shape[1]))


def test_plans():
    with using(naive):
        assert [bool(plan(*s).kernel) for s in ((8, 8, 8), (8, 13, 8), (0, 8, 8))] == [True, False, False]
        assert plan(8, 8, 8, 'float64').kernel is plan(8, 8, 8, torch.float64).kernel is None
    kernel, why = plan(4096, 4096, 4096)
    assert kernel is None and 'GPU' in why


def test_products_and_batches_and_transposes():
    a, b, batch = torch.randn(33, 20), torch.randn(20, 17), torch.randn(2, 3, 5, 20)
    with using(naive):
        assert explain(a, b).kernel is naive and matmul(batch, b).shape == (2, 3, 5, 17)
        for x, y in ((a, b), (batch, b), (b.t(), a.t())): close(matmul(x, y), x, y)


def test_the_gradient_of_a_gradient():
    x, y = (torch.randn(s, requires_grad=True) for s in ((33, 20), (20, 17)))
    def twice(product):
        g, = torch.autograd.grad((product(x, y)**2).sum(), x, create_graph=True)
        return torch.autograd.grad((g**2).sum(), y)[0]
    with using(naive): again = twice(matmul)
    check(again, twice(torch.matmul), rtol=1e-4, atol=.01)      # sums of fourth powers, of about 10^4


def test_what_the_kernel_does_not_take_is_torchs_to_the_bit():
    a, b = torch.randn(33, 20), torch.randn(20, 17)
    ints = torch.ones(3, 4, dtype=torch.int64), torch.ones(4, 5, dtype=torch.int64)
    with warnings.catch_warnings(), using(naive):
        warnings.simplefilter('error')
        for x, y in ((torch.randn(2, 4, 5), torch.randn(2, 5, 3)), (a.half(), b.half()),
                     (a, b[:, :13].contiguous()), ints):
            assert explain(x, y).kernel is None
            check(matmul(x, y), torch.matmul(x, y), 0, 0)
        with torch.autocast('cpu', torch.bfloat16): assert matmul(a, b).dtype is torch.bfloat16
    assert tune(a.double(), b.double()).kernel is None


def test_what_torch_refuses_is_refused():
    a, b = torch.randn(33, 20), torch.randn(20, 17)
    with using(naive):
        with pytest.raises(RuntimeError): matmul(a, a)
        with pytest.raises(RuntimeError): matmul(a.requires_grad_(), b, torch.empty(33, 17))
        with pytest.raises(TypeError, match='Tensor.*list'): matmul([[1.]], b)


class Linear(torch.nn.Module):
    "Like torch's, with its weights as (inputs, outputs)"

    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight, self.bias = (torch.nn.Parameter(torch.randn(n_in, n_out)/n_in**.5),
                                  torch.nn.Parameter(torch.zeros(n_out)))

    def forward(self, x): return matmul(x, self.weight) + self.bias


def test_a_model_learns():
    model = torch.nn.Sequential(Linear(20, 16), torch.nn.ReLU(), Linear(16, 3))
    opt, x, losses = torch.optim.SGD(model.parameters(), lr=.5), torch.randn(64, 20), []
    y = (x[:, 0] > 0).long()
    with using(naive):
        for _ in range(8):
            losses.append(torch.nn.functional.cross_entropy(model(x), y))
            opt.zero_grad()
            losses[-1].backward()
            opt.step()
    assert losses[-1] < .6*losses[0]
