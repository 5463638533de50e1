"""Train a small transformer on Python sources with `gridstride.kernels` and with torch, and compare the loss curves.

    python training.py > training.txt # some seconds on a GPU; writes training.json and training.svg
    python training.py --small        # a tiny model, also on a CPU, where the kernels are emulated; writes nothing

Both start from the same parameters and read the same batches of this repository's sources. They differ in GELU, the
norms, the loss and the optimizer: `gelu`, `rms_norm`, `cross_entropy` (in place) and `AdamW` of `gridstride.kernels`,
or torch's. Products and attention are torch's in both.
"""
import argparse, json, time
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

HERE = Path(__file__).parent


class Size(NamedTuple):
    "The size of the transformer and of its training"

    layers: int
    width: int
    heads: int
    batch: int
    tokens: int
    steps: int
    rate: float


SMALL, LARGE = Size(2, 32, 2, 2, 16, 25, 1e-2), Size(6, 384, 6, 32, 256, 200, 1e-3)


class Tools(NamedTuple):
    "The parts of a transformer except products and attention"

    gelu: object
    rms_norm: object  # of x and weight
    cross_entropy: object  # of logits and targets
    AdamW: type


def torch_tools():
    return Tools(F.gelu, lambda x, w: F.rms_norm(x, w.shape, w, 1e-6), F.cross_entropy, torch.optim.AdamW)


def gridstride_tools():
    from gridstride import kernels
    return Tools(kernels.gelu, kernels.rms_norm,
                 lambda x, t: kernels.cross_entropy(x, t, in_place=True), kernels.AdamW)


class Block(nn.Module):
    "Attention to earlier tokens, then two layers per token"
    def __init__(self, size, tools):
        super().__init__()
        self.heads, self.tools, d = size.heads, tools, size.width
        self.norms = nn.ParameterList([torch.ones(d), torch.ones(d)])
        self.qkv, self.out = nn.Linear(d, 3*d, bias=False), nn.Linear(d, d, bias=False)
        self.up, self.down = nn.Linear(d, 4*d), nn.Linear(4*d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.tools.rms_norm(x, self.norms[0])).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, d))
        return x + self.down(self.tools.gelu(self.up(self.tools.rms_norm(x, self.norms[1]))))


class Transformer(nn.Module):
    "Logits for the next byte at each position"
    def __init__(self, size, tools):
        super().__init__()
        self.tools = tools
        self.tokens, self.positions = nn.Embedding(256, size.width), nn.Embedding(size.tokens, size.width)
        self.blocks = nn.Sequential(*(Block(size, tools) for _ in range(size.layers)))
        self.norm, self.head = nn.Parameter(torch.ones(size.width)), nn.Linear(size.width, 256, bias=False)

    def forward(self, x):
        x = self.tokens(x) + self.positions.weight[:x.shape[1]]
        return self.head(self.tools.rms_norm(self.blocks(x), self.norm))


def source_bytes():
    "Return the bytes of the package's Python sources, as integers from 0 to 255"
    text = b'\n'.join(p.read_bytes() for p in sorted((HERE.parent/'gridstride').rglob('*.py')))
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


def train(tools, size, device='cpu', seed=0):  # ([loss of each step], median seconds per step)
    "Train a transformer; `seed` determines its initial parameters and the batches"
    torch.manual_seed(seed)
    model, source = Transformer(size, tools).to(device), source_bytes()
    optimizer = tools.AdamW(model.parameters(), lr=size.rate)
    generator, losses, seconds = torch.Generator().manual_seed(seed), [], []
    for _ in range(size.steps):
        starts = torch.randint(0, len(source) - size.tokens - 1, (size.batch, 1), generator=generator)
        batch = source[starts + torch.arange(size.tokens + 1)].to(device)
        start = time.perf_counter()
        loss = tools.cross_entropy(model(batch[:, :-1]).view(-1, 256), batch[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    return losses, sorted(seconds)[len(seconds)//2]


def draw(curves, path):
    "Draw both loss curves to an SVG file"
    import matplotlib
    matplotlib.use('Agg')
    from gridstride.support.plots import styled
    from matplotlib import pyplot as plt
    with styled():
        fig, ax = plt.subplots(figsize=(6, 3.5))
        for (name, ys), line in zip(curves.items(), (dict(lw=4, alpha=.4), dict(lw=1))): ax.plot(ys, label=name, **line)
        ax.set(xlabel='step', ylabel='loss, nats for a byte')
        ax.legend()
        fig.savefig(path, bbox_inches='tight')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--small', action='store_true')
    small = parser.parse_args().small
    device, size = 'cuda' if torch.cuda.is_available() else 'cpu', SMALL if small else LARGE
    results = {'gridstride': train(gridstride_tools(), size, device), 'torch': train(torch_tools(), size, device)}
    curves = {name: losses for name, (losses, _) in results.items()}
    print(f'{size}, float32\nstep  gridstride     torch  difference')
    for i in sorted({*range(0, size.steps, max(1, size.steps//15)), size.steps-1}):
        ours, theirs = (losses[i] for losses in curves.values())
        print(f'{i:>4}  {ours:>10.6f}{theirs:>10.6f}{ours - theirs:>12.1e}')
    print('  '.join(f'{name}: {1e3*seconds:.1f} ms a step' for name, (_, seconds) in results.items()))
    if small: return
    from gridstride.bench.recording import machine
    record = dict(made=machine(), size=size._asdict(), losses=curves,
                  seconds={name: seconds for name, (_, seconds) in results.items()})
    (HERE/'training.json').write_text(json.dumps(record, indent=1)+'\n')
    draw(curves, HERE/'training.svg')


if __name__ == '__main__': main()
