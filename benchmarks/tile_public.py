"""Public Triton kernels, run by `gridstride.tile` on small tensors on the CPU, checked, compared with torch in float64.

    python tile_public.py FOLDER [WORD ...] > tile_public.txt    # WORD: only the rows that hold it

FOLDER holds clones: triton, Liger-Kernel, unsloth, attorch, flash-linear-attention, ao, xformers, mamba,
flash-attention, kernels (of triton-lang), and `site`, for packages that their host code imports. Their kernels and the
host functions that launch them run as they are; what else their packages import is left out. A row shows which
kernels were launched, and what became of it: `right` (gradients, too, where there are any), `found` (a finding),
`refused` in words, or `wrong`; and the warnings of `tile` about uninitialized lanes, which a mask has left out.
"""

import ast, contextlib, importlib, importlib.abc, importlib.util, linecache, sys, traceback, types, warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest.mock import MagicMock

import torch, torch.nn as nn, torch.nn.functional as F
import triton
from torch import tensor
from triton.runtime.jit import KernelInterface

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / 'tests/tile')]
from gridstride import tile
from gridstride.diagnostics.errors import KernelError, UndefinedLanes
from gridstride.utils import check
from tile_corpus import pretend_an_h100

FOLDER = Path()
ROWS = []
LAUNCHED = Counter()
ABSENT = 'transformers unsloth_zoo bitsandbytes peft causal_conv1d megablocks'.split()


# How public code is loaded and its kernels are launched


def launch(kernel, grid):
    def run(*args, **meta):
        if hasattr(kernel, 'configs'):
            kernel.best_config = kernel.configs[0]
        done = tile.checked(kernel)[grid](*args, **meta)
        LAUNCHED[tile.checked(kernel).__name__] += 1
        return done

    return run


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    "Packages that host code imports and kernels do not need"

    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ABSENT:
            return importlib.util.spec_from_loader(name, self, is_package=True)

    def create_module(self, spec):
        module = MagicMock(name=spec.name)
        module.is_torch_npu_available = lambda: False
        module.__path__, module.__spec__, module.__all__ = [], spec, []
        module.Version = __import__('packaging.version').version.Version
        return module

    def exec_module(self, module):
        pass


def bare(name, path):
    "A package whose __init__ is left out: its modules are imported one by one"
    module = types.ModuleType(name)
    module.__path__ = [str(FOLDER / path)]
    sys.modules[name] = module
    return module


def script(path):
    "The functions, classes and names of a script, without what it does when it runs"
    path = FOLDER / path
    module = types.ModuleType(path.stem)
    module.__file__, module.is_tileir = str(path), lambda: False
    sys.modules[path.stem] = module
    for node in ast.parse(path.read_text()).body:
        if not isinstance(
            node, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.Try, ast.If)
        ):
            continue
        if isinstance(node, ast.If) and '__main__' in ast.unparse(node.test):
            continue
        with contextlib.suppress(Exception):
            exec(compile(ast.Module([node], []), str(path), 'exec'), module.__dict__)
    linecache.checkcache(str(path))
    return module


def load(name):
    return importlib.import_module(name)


def set_up(folder):
    global FOLDER
    FOLDER = Path(folder).resolve()
    KernelInterface.__getitem__ = launch
    for cls in KernelInterface.__subclasses__():
        if '__getitem__' in vars(cls):
            cls.__getitem__ = launch
    pretend_an_h100()
    triton._C.libtriton.nvidia.cublas = MagicMock()
    sys.meta_path.append(Absent())
    sys.path.append(str(FOLDER / 'site'))
    props = types.SimpleNamespace(
        multi_processor_count=8,
        major=9,
        minor=0,
        name='NVIDIA H100',
        warp_size=32,
        max_num_regs=65536,
        total_memory=80 << 30,
        shared_memory_per_block_optin=232448,
    )
    torch.cuda.get_device_properties = lambda *_: props
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    torch.cuda.current_device = lambda: 0
    torch.cuda.device = lambda *_: contextlib.nullcontext()
    empty = torch.empty

    def empty_here(*size, **how):
        return empty(*size, **{**how, 'device': 'cpu'})

    torch.empty = empty_here
    for name, path in (
        ('liger_kernel', 'Liger-Kernel/src/liger_kernel'),
        ('liger_kernel.ops', 'Liger-Kernel/src/liger_kernel/ops'),
        ('unsloth', 'unsloth/unsloth'),
        ('unsloth.kernels', 'unsloth/unsloth/kernels'),
        ('attorch', 'attorch/attorch'),
        ('fla', 'flash-linear-attention/fla'),
        ('fla.ops', 'flash-linear-attention/fla/ops'),
        ('fla.modules', 'flash-linear-attention/fla/modules'),
        ('torchao', 'ao/torchao'),
        ('mamba_ssm', 'mamba/mamba_ssm'),
        ('mamba_ssm.ops', 'mamba/mamba_ssm/ops'),
        ('mamba_ssm.ops.triton', 'mamba/mamba_ssm/ops/triton'),
        ('flash_attn', 'flash-attention/flash_attn'),
        ('flash_attn.ops', 'flash-attention/flash_attn/ops'),
        ('flash_attn.ops.triton', 'flash-attention/flash_attn/ops/triton'),
        ('xformers', 'xformers/xformers'),
        ('xformers.ops', 'xformers/xformers/ops'),
        ('xformers.ops._triton', 'xformers/xformers/ops/_triton'),
    ):
        bare(name, path).__version__ = '0'


@contextlib.contextmanager
def as_on_a_gpu():
    "Host code that asks a tensor for its device gets the device that it needs"
    torch.Tensor.is_cuda = property(lambda _: True)
    try:
        yield
    finally:
        del torch.Tensor.is_cuda


class Row(NamedTuple):
    "A file of a project: what to run, and how near to float64 its results must be"

    project: str
    file: str
    name: str
    run: Callable  # gives pairs (got, want)
    compare: Callable


def public(project, file, rtol=1e-4, atol=1e-5):
    "A row whose values agree one by one"
    return keep(project, file, lambda got, want: check(got, want, rtol=rtol, atol=atol))


def keep(project, file, compare):
    def row(f):
        ROWS.append(Row(project, file, f.__name__, f, compare))
        return f

    return row


# Comparisons


def rand(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


def listed(o):
    return [o] if isinstance(o, torch.Tensor) else [v for v in o if isinstance(v, torch.Tensor)]


def gradients(f, inputs, dys=None):
    "Results of `f` and the gradients of its floating inputs, for random gradients of the results"
    inputs = [o.detach().clone().requires_grad_(o.is_floating_point()) for o in inputs]
    outs = [o for o in listed(f(*inputs)) if o.is_floating_point()]
    dys = dys or [torch.randn(o.shape) for o in outs]
    wanted = [o for o in inputs if o.requires_grad]
    keep = [(o, d.clone()) for o, d in zip(outs, dys) if o.requires_grad]
    results = [o.detach().clone() for o in outs]
    grads = torch.autograd.grad([o for o, _ in keep], wanted, [d.to(o.dtype) for o, d in keep], allow_unused=True)
    return results, [g if g is not None else torch.zeros_like(o) for g, o in zip(grads, wanted)], dys


def both(ours, theirs, *inputs):
    "(got, want) of results and gradients, the reference in float64"
    out, grad, dys = gradients(ours, inputs)
    wide = [o.double() if o.is_floating_point() else o for o in inputs]
    want, want_grad, _ = gradients(theirs, wide, [d.double() for d in dys])
    return [*zip(out, want), *zip(grad, want_grad)]


def forward(ours, theirs, *inputs):
    wide = [o.double() if isinstance(o, torch.Tensor) and o.is_floating_point() else o for o in inputs]
    return list(zip(listed(ours(*inputs)), listed(theirs(*wide))))


def module(ours, theirs, *inputs):
    "A layer compared with that of torch, with the same parameters; gradients of the parameters, too"
    theirs.load_state_dict(ours.state_dict())
    theirs.double()
    names = [n for n, _ in ours.named_parameters()]

    def run(layer):
        return lambda *o: torch.func.functional_call(layer, dict(zip(names, o)), tuple(o[len(names) :]))

    return both(run(ours), run(theirs), *(p.detach() for p in ours.parameters()), *inputs)


# Triton's tutorials


@public('triton', 'python/tutorials/01-vector-add.py')
def tutorial_01():
    return forward(script('triton/python/tutorials/01-vector-add.py').add, lambda x, y: x + y, rand(3000), rand(3000))


@public('triton', 'python/tutorials/02-fused-softmax.py')
def tutorial_02():
    m, x, y = script('triton/python/tutorials/02-fused-softmax.py'), rand(13, 781), torch.full((13, 781), float('nan'))
    m.softmax_kernel[(4,)](y, x, 781, 781, 13, 781, BLOCK_SIZE=1024, num_stages=2)
    return [(y, x.double().softmax(1))]


@public('triton', 'python/tutorials/03-matrix-multiplication.py', 2e-3, 2e-3)
def tutorial_03():
    m = script('triton/python/tutorials/03-matrix-multiplication.py')
    return forward(
        lambda a, b: m.matmul(a, b, activation='leaky_relu'),
        lambda a, b: F.leaky_relu(a @ b, 0.01),
        rand(100, 96, dtype=torch.float16),
        rand(96, 130, dtype=torch.float16),
    )


@public('triton', 'python/tutorials/04-low-memory-dropout.py')
def tutorial_04():
    m, x = script('triton/python/tutorials/04-low-memory-dropout.py'), rand(1500)
    keep = (torch.rand(1500) > 0.5).to(torch.int32)
    a, b, c = (m.seeded_dropout(x, p=0.5, seed=s) for s in (123, 123, 512))
    return [
        (m.dropout(x, x_keep=keep, p=0.5), x.double() * keep / 0.5),
        (a, b.double()),
        (a * (a == 0), a.double() * 0),
        (torch.where(c == 0, x / 0.5, c), x.double() / 0.5),
    ]


@public('triton', 'python/tutorials/05-layer-norm.py', 1e-3, 1e-4)
def tutorial_05():
    m = script('triton/python/tutorials/05-layer-norm.py')
    return both(
        lambda x, w, b: m.LayerNorm.apply(x, (100,), w, b, 1e-5),
        lambda x, w, b: F.layer_norm(x, (100,), w, b, 1e-5),
        rand(19, 100),
        rand(100),
        rand(100),
    )


def attended(causal):
    def f(q, k, v):
        s = q @ k.mT * 0.5
        if causal:
            s = s.masked_fill(~torch.ones(s.shape[-2:], dtype=bool).tril(), -torch.inf)
        return s.softmax(-1) @ v

    return f


@public('triton', 'python/tutorials/06-fused-attention.py', 1e-2, 1e-2)
def tutorial_06():
    m = script('triton/python/tutorials/06-fused-attention.py')
    q, k, v = (rand(1, 2, 128, 64, dtype=torch.float16) * 0.5 for _ in range(3))
    return [
        p
        for causal in (False, True)
        for p in both(lambda q, k, v: m._attention.apply(q, k, v, causal, 0.5, False), attended(causal), q, k, v)
    ]


@public('triton', 'python/tutorials/07-extern-functions.py')
def tutorial_07():
    m, x, y = script('triton/python/tutorials/07-extern-functions.py'), torch.rand(2000), torch.zeros(2000)
    m.asin_kernel[(2,)](x, y, 2000, BLOCK_SIZE=1024)
    return [(y, x.double().asin())]


@public('triton', 'python/tutorials/08-grouped-gemm.py', 2e-3, 2e-3)
def tutorial_08():
    m = script('triton/python/tutorials/08-grouped-gemm.py')
    a = [rand(s, 64, dtype=torch.float16) for s in (128, 256)]
    b = [rand(64, s, dtype=torch.float16) for s in (128, 128)]
    return [(c, x.double() @ y.double()) for c, x, y in zip(m.group_gemm_fn(a, b), a, b)]


@public('triton', 'python/tutorials/09-persistent-matmul.py', 2e-3, 2e-3)
def tutorial_09():
    m = script('triton/python/tutorials/09-persistent-matmul.py')
    a, b = rand(200, 128, dtype=torch.float16), rand(256, 128, dtype=torch.float16)
    want = a.double() @ b.double().T
    return [
        (m.matmul(a, b.T.contiguous()), want),
        (m.matmul_persistent(a, b.T.contiguous()), want),
        (m.matmul_tma(a, b, False), want),
        (m.matmul_tma_persistent(a, b, False), want),
    ]


# Liger-Kernel


def liger(file, **tolerance):
    return public('Liger-Kernel', f'src/liger_kernel/ops/{file}.py', **tolerance)


def ops(name):
    return load(f'liger_kernel.ops.{name}')


def rms(x, w, eps=1e-6, offset=0.0):
    return x * (x.pow(2).mean(-1, keepdim=True) + eps).rsqrt() * (w + offset)


@liger('rms_norm', rtol=1e-3, atol=1e-4)
def liger_rms_norm():
    f = ops('rms_norm').LigerRMSNormFunction
    return [
        p
        for mode, offset in (('llama', 0.0), ('gemma', 1.0))
        for p in both(
            lambda x, w: f.apply(x, w, 1e-6, offset, mode, False),
            lambda x, w: rms(x, w, 1e-6, offset),
            rand(3, 7, 100),
            rand(100),
        )
    ]


@liger('layer_norm', rtol=1e-3, atol=1e-4)
def liger_layer_norm():
    return both(
        lambda *o: ops('layer_norm').LigerLayerNormFunction.apply(*o, 1e-5),
        lambda x, w, b: F.layer_norm(x, (70,), w, b, 1e-5),
        rand(9, 70),
        rand(70),
        rand(70),
    )


@liger('softmax')
def liger_softmax():
    return both(ops('softmax').LigerSoftmaxFunction.apply, lambda x: x.softmax(-1), rand(5, 90))


@liger('sparsemax')
def liger_sparsemax():
    def sparsemax(x):
        z = x.sort(-1, descending=True)[0]
        k = torch.arange(1, x.shape[-1] + 1)
        n = ((1 + k * z) > z.cumsum(-1)).sum(-1, keepdim=True)
        return (x - (z.cumsum(-1).gather(-1, n - 1) - 1) / n).relu()

    return both(lambda x: ops('sparsemax').LigerSparsemaxFunction.apply(x, -1), sparsemax, rand(5, 90))


@liger('cross_entropy')
def liger_cross_entropy():
    target = torch.randint(0, 90, (11,))
    target[3] = -100
    f = ops('cross_entropy').LigerCrossEntropyFunction
    return [
        p
        for smooth in (0.0, 0.1)
        for p in both(
            lambda x: f.apply(x, target, None, -100, 0.0, smooth, 'mean', None, False)[0],
            lambda x: F.cross_entropy(x, target, label_smoothing=smooth),
            rand(11, 90),
        )
    ]


@liger('kl_div')
def liger_kl_div():
    want = rand(6, 90).softmax(-1)
    return both(
        lambda x: ops('kl_div').LigerKLDivLossFunction.apply(x, want, 'batchmean', False, 1e-10),
        lambda x: F.kl_div(x, want.double(), reduction='batchmean'),
        rand(6, 90).log_softmax(-1),
    )


@liger('jsd', rtol=1e-3)
def liger_jsd():
    p = rand(6, 90).log_softmax(-1)

    def jsd(x):
        m = 0.5 * (x.exp() + p.double().exp())
        return (
            0.5
            * (
                F.kl_div(m.log(), p.double(), reduction='sum', log_target=True)
                + F.kl_div(m.log(), x, reduction='sum', log_target=True)
            )
            / 6
        )

    return both(lambda x: ops('jsd').LigerJSDFunction.apply(x, p, None, 0.5), jsd, rand(6, 90).log_softmax(-1))


@liger('tvd')
def liger_tvd():
    q = rand(6, 90).softmax(-1)
    return both(
        lambda x: ops('tvd').LigerTVDLossFunction.apply(x, q, None, 'batchmean'),
        lambda x: 0.5 * (x - q.double()).abs().sum() / 6,
        rand(6, 90).softmax(-1),
    )


@liger('group_norm', rtol=1e-3, atol=1e-4)
def liger_group_norm():
    return both(
        lambda x, w, b: ops('group_norm').LigerGroupNormFunction.apply(x, w, b, 6, 3, 1e-5),
        lambda x, w, b: F.group_norm(x, 3, w, b, 1e-5),
        rand(2, 6, 30),
        rand(6),
        rand(6),
    )


@liger('dyt', rtol=1e-3, atol=1e-4)
def liger_dyt():
    ops('dyt').infer_device = lambda: 'cuda'
    return both(
        ops('dyt').LigerDyTFunction.apply,
        lambda x, a, w, b: (a * x).tanh() * w + b,
        rand(9, 70),
        rand(1),
        rand(70),
        rand(70),
    )


@liger('poly_norm', rtol=1e-3, atol=1e-4)
def liger_poly_norm():
    def norm(x):
        return x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()

    return both(
        lambda x, w, b: ops('poly_norm').LigerPolyNormFunction.apply(x, w, b, 1e-6, False),
        lambda x, w, b: w[0] * norm(x**3) + w[1] * norm(x**2) + w[2] * norm(x) + b,
        rand(9, 70),
        rand(3),
        torch.randn(()),
    )


@liger('fused_add_rms_norm', rtol=1e-3, atol=1e-4)
def liger_fused_add_rms_norm():
    return both(
        lambda x, r, w: ops('fused_add_rms_norm').LigerFusedAddRMSNormFunction.apply(
            x, r, w, 1e-6, 0.0, 'llama', False
        ),
        lambda x, r, w: (rms(x + r, w), x + r),
        rand(9, 70),
        rand(9, 70),
        rand(70),
    )


@liger('relu_squared')
def liger_relu_squared():
    return both(ops('relu_squared').LigerReLUSquaredFunction.apply, lambda x: x.relu() ** 2, rand(5, 90))


@liger('swiglu')
def liger_swiglu():
    return both(ops('swiglu').LigerSiLUMulFunction.apply, lambda a, b: F.silu(a) * b, rand(5, 90), rand(5, 90))


@liger('geglu')
def liger_geglu():
    return both(
        ops('geglu').LigerGELUMulFunction.apply,
        lambda a, b: F.gelu(a, approximate='tanh') * b,
        rand(5, 90),
        rand(5, 90),
    )


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


@liger('rope')
def liger_rope():
    angle = torch.rand(1, 5, 16).repeat(1, 1, 2)
    cos, sin = angle.cos(), angle.sin()

    def want(q, k):
        return tuple(rotated(o, cos.double()[:, None], sin.double()[:, None]) for o in (q, k))

    return both(
        lambda q, k: ops('rope').LigerRopeFunction.apply(q, k, cos, sin), want, rand(2, 4, 5, 32), rand(2, 2, 5, 32)
    )


@liger('qwen2vl_mrope')
def liger_mrope():
    angle = torch.rand(3, 2, 5, 16).repeat(1, 1, 1, 2)
    cos, sin, parts = angle.cos(), angle.sin(), [4, 6, 6]

    def want(q, k):
        c, s = (
            torch.cat([m[i % 3] for i, m in enumerate(o.double().split(parts * 2, -1))], -1)[:, None]
            for o in (cos, sin)
        )
        return rotated(q, c, s), rotated(k, c, s)

    return both(
        lambda q, k: ops('qwen2vl_mrope').LigerQwen2VLMRopeFunction.apply(q, k, cos, sin, parts),
        want,
        rand(2, 4, 5, 32),
        rand(2, 2, 5, 32),
    )


@liger('fused_linear_cross_entropy', rtol=1e-3, atol=1e-4)
def liger_fused_linear_cross_entropy():
    target = torch.randint(0, 90, (11,))
    f = ops('fused_linear_cross_entropy').LigerFusedLinearCrossEntropyFunction
    return both(
        lambda x, w: f.apply(x, w, target)[0], lambda x, w: F.cross_entropy(x @ w.T, target), rand(11, 32), rand(90, 32)
    )


@liger('multi_token_attention', rtol=1e-3, atol=1e-4)
def liger_multi_token_attention():
    causal = torch.ones(12, 12, dtype=bool).tril()

    def want(s, w, b):
        p = s.masked_fill(~causal, -torch.inf).softmax(-1)
        return F.conv2d(p, w, b, padding=1).masked_fill(~causal, 0.0)

    f = ops('multi_token_attention').LigerMultiTokenAttentionFunction
    return both(
        lambda s, w, b: f.apply(s, w, b, 1, 1, 1, 1, False), want, rand(1, 2, 12, 12), rand(2, 2, 3, 3), rand(2)
    )


@liger('grpo_loss', rtol=1e-3, atol=1e-4)
def liger_selective_log_softmax():
    x, ids = rand(2, 6, 90), torch.randint(0, 90, (2, 5))
    got = ops('grpo_loss').fused_selective_log_softmax(x, ids, 0.9)
    return [(got, (x[:, :-1].double() / 0.9).log_softmax(-1).gather(-1, ids[..., None])[..., 0])]


# unsloth


def sloth(file, **tolerance):
    return public('unsloth', f'unsloth/kernels/{file}.py', **tolerance)


def slow(name):
    "A module of unsloth's kernels; what they share is given without its host code"
    if 'unsloth.kernels.utils' not in sys.modules:
        import triton.language as tl
        from triton.language.extra import libdevice

        bare('unsloth.kernels.utils', 'unsloth/unsloth/kernels').__dict__.update(
            calculate_settings=lambda n: (triton.next_power_of_2(n), 4),
            MAX_FUSED_SIZE=65536,
            triton_tanh=libdevice.tanh,
            triton_cast=tl.cast,
            torch_gpu_device=lambda _: contextlib.nullcontext(),
            is_cdna=lambda: False,
            torch_device_stream=lambda _: MagicMock(),
        )
        bare('unsloth.device_type', 'unsloth/unsloth').__dict__.update(
            DEVICE_COUNT=1, DEVICE_TYPE='cuda', is_hip=lambda: False
        )
    return load(f'unsloth.kernels.{name}')


@sloth('rms_layernorm', rtol=1e-3, atol=1e-4)
def unsloth_rms_layernorm():
    "Its backward pass writes no gradient of the weight"
    f, w = slow('rms_layernorm').Fast_RMS_Layernorm, rand(70)
    return [
        p
        for gemma in (False, True)
        for p in both(
            lambda x: f.apply(x, w, 1e-6, gemma), lambda x: rms(x, w.double(), 1e-6, float(gemma)), rand(2, 5, 70)
        )
    ]


@sloth('layernorm', rtol=1e-3, atol=1e-4)
def unsloth_layernorm():
    w, b = rand(70), rand(70)
    return both(
        lambda x: slow('layernorm').Fast_Layernorm.apply(x, w, b, 1e-5),
        lambda x: F.layer_norm(x, (70,), w.double(), b.double(), 1e-5),
        rand(2, 5, 70),
    )


@sloth('rope_embedding')
def unsloth_rope():
    angle = torch.rand(5, 16).repeat(1, 2)
    cos, sin = angle.cos(), angle.sin()
    return both(
        lambda x: slow('rope_embedding').Fast_RoPE_Embedding.apply(x, cos, sin),
        lambda x: rotated(x, cos.double()[:, None], sin.double()[:, None]),
        rand(2, 5, 4, 32),
    )


@sloth('swiglu')
def unsloth_swiglu():
    return forward(slow('swiglu').swiglu_fg_kernel, lambda e, g: F.silu(e) * g, rand(2, 5, 70), rand(2, 5, 70))


@sloth('swiglu', rtol=1e-3)
def unsloth_swiglu_backward():
    dw, e, g = rand(10, 70), rand(10, 70), rand(10, 70)
    leaf = e.double().requires_grad_()
    h = F.silu(leaf) * g.double()
    h.backward(dw.double())
    want = h.detach(), dw.double() * F.silu(e.double()), leaf.grad
    return list(zip(slow('swiglu').swiglu_DWf_DW_dfg_kernel(dw, e, g), want))


@sloth('geglu')
def unsloth_geglu():
    m, e, g = slow('geglu'), rand(2, 5, 70), rand(2, 5, 70)
    return forward(m.geglu_exact_forward_kernel, lambda e, g: F.gelu(e) * g, e, g) + forward(
        m.geglu_approx_forward_kernel, lambda e, g: F.gelu(e, approximate='tanh') * g, e, g
    )


@sloth('geglu', rtol=1e-3)
def unsloth_geglu_backward():
    pairs, m = [], slow('geglu')
    for f, how in (m.geglu_exact_backward_kernel, 'none'), (m.geglu_approx_backward_kernel, 'tanh'):
        dw, e, g = rand(10, 70), rand(10, 70), rand(10, 70)
        leaf = e.double().requires_grad_()
        h = F.gelu(leaf, approximate=how) * g.double()
        h.backward(dw.double())
        want = h.detach(), dw.double() * F.gelu(e.double(), approximate=how), leaf.grad
        pairs += zip(f(dw, e, g), want)
    return pairs


@sloth('cross_entropy_loss')
def unsloth_cross_entropy():
    target = torch.randint(0, 90, (11,))
    target[3] = -100
    f = slow('cross_entropy_loss').Fast_CrossEntropyLoss
    return both(
        lambda x: f.apply(x, target, 0, 0), lambda x: F.cross_entropy(x, target, reduction='none'), rand(11, 90)
    )


@sloth('fp8', rtol=1e-2, atol=1e-3)
def unsloth_fp8():
    m = slow('fp8')
    w, s = rand(200, 130).to(torch.float8_e4m3fn), torch.rand(2, 2) + 0.5
    big = s.repeat_interleave(128, 0)[:200].repeat_interleave(128, 1)[:, :130]
    x = rand(4, 256)
    q, scale = m.act_quant(x, 128)
    return [
        (m.weight_dequant_block(w, s, 128, torch.float32), w.double() * big.double()),
        ((q.float() * scale.repeat_interleave(128, 1)) * (1 / 448), x.double() * (1 / 448)),
    ]


# attorch: layers compared with torch.nn's


def att(file, **tolerance):
    return public('attorch', f'attorch/{file}.py', **tolerance)


ACTIVATIONS = (
    'Sigmoid LogSigmoid Tanh ReLU GELU SiLU ReLU6 Hardsigmoid Hardtanh Hardswish SELU Mish Softplus Softsign '
    'Tanhshrink LeakyReLU ELU CELU Hardshrink Softshrink'
).split()


@att('act_layers', rtol=1e-3, atol=1e-5)
def attorch_activations():
    m = load('attorch.act_layers')
    return [p for name in ACTIVATIONS for p in both(getattr(m, name)(), getattr(nn, name)(), rand(300))]


@att('softmax_layers')
def attorch_softmax():
    m = load('attorch.softmax_layers')
    return [
        p
        for name in ('Softmax', 'LogSoftmax', 'Softmin')
        for p in both(getattr(m, name)(-1), getattr(nn, name)(-1), rand(9, 50))
    ]


@att('layer_norm_layer', rtol=1e-3, atol=1e-4)
def attorch_layer_norm():
    return module(load('attorch.layer_norm_layer').LayerNorm(50, device='cpu'), nn.LayerNorm(50), rand(9, 50))


@att('rms_norm_layer', rtol=1e-3, atol=1e-4)
def attorch_rms_norm():
    return module(
        load('attorch.rms_norm_layer').RMSNorm(50, eps=1e-6, device='cpu'), nn.RMSNorm(50, eps=1e-6), rand(9, 50)
    )


@att('batch_norm_layer', rtol=1e-3, atol=1e-4)
def attorch_batch_norm():
    return both(
        load('attorch.batch_norm_layer').BatchNorm2d(6, device='cpu'), nn.BatchNorm2d(6).double(), rand(4, 6, 5, 3)
    )


@att('conv_layer', rtol=2e-2, atol=2e-2)
def attorch_conv():
    ours, theirs = load('attorch.conv_layer').Conv2d(4, 6, 3, padding=1, device='cpu'), nn.Conv2d(4, 6, 3, padding=1)
    theirs.load_state_dict(ours.state_dict())
    return forward(ours, theirs.double(), rand(2, 4, 9, 7))


@att('linear_layer', rtol=1e-2, atol=1e-2)
def attorch_linear():
    ours = load('attorch.linear_layer').Linear(40, 30, device='cpu')
    w, b = ours.weight.detach(), ours.bias.detach()
    return both(
        lambda x: ours(x), lambda x: F.linear(x, (w.T if w.shape == (40, 30) else w).double(), b.double()), rand(17, 40)
    )


@att('glu_layer')
def attorch_glu():
    return both(load('attorch.glu_layer').GLU(-1), nn.GLU(-1), rand(9, 50))


@att('dropout_layer')
def attorch_dropout():
    y, x = load('attorch.dropout_layer').Dropout(0.3)(x := rand(2000)), x
    kept = y != 0
    return [
        (y, torch.where(kept, x / 0.7, 0.0).double()),
        (((kept.float().mean() - 0.7).abs() < 0.05).float(), tensor(1.0).double()),
    ]


@att('cross_entropy_loss_layer')
def attorch_cross_entropy():
    target = torch.randint(0, 50, (9,))
    m = load('attorch.cross_entropy_loss_layer').CrossEntropyLoss()
    return both(lambda x: m(x, target), lambda x: F.cross_entropy(x, target), rand(9, 50))


@att('nll_loss_layer')
def attorch_nll():
    target = torch.randint(0, 50, (9,))
    m = load('attorch.nll_loss_layer').NLLLoss()
    return both(lambda x: m(x, target), lambda x: F.nll_loss(x, target), rand(9, 50).log_softmax(1))


@att('p_loss_layers')
def attorch_p_loss():
    m, y = load('attorch.p_loss_layers'), rand(500)
    return [
        p
        for name in ('L1Loss', 'MSELoss', 'SmoothL1Loss', 'HuberLoss')
        for p in both(lambda x: getattr(m, name)()(x, y), lambda x: getattr(nn, name)()(x, y.double()), rand(500))
    ]


# flash-linear-attention


def fla(file, **tolerance):
    return public('flash-linear-attention', f'fla/{file}.py', **tolerance)


def near(most):
    "TF32 keeps 10 bits of each factor, bfloat16 7, and values cancel: the error is measured by all values' size"

    def compare(got, want):
        error = ((got - want).pow(2).mean() / want.pow(2).mean()).sqrt()
        assert got.shape == want.shape and error < most, f'the error is {error:.3g} of the values'

    return compare


def chunked(file, most=5e-3):
    return keep('flash-linear-attention', f'fla/{file}.py', near(most))


@fla('ops/utils/cumsum', rtol=1e-3, atol=1e-4)
def fla_cumsum():
    m, g, v = load('fla.ops.utils.cumsum'), rand(2, 40, 3), rand(2, 40, 3, 20)

    def chunks(o):
        return torch.cat([c.double().cumsum(1) for c in o.split(16, 1)], 1)

    return [
        (m.chunk_local_cumsum(g, 16), chunks(g)),
        (m.chunk_local_cumsum(v, 16), chunks(v)),
        (m.chunk_global_cumsum(g), g.double().cumsum(1)),
        (m.chunk_global_cumsum(v), v.double().cumsum(1)),
        (m.chunk_global_cumsum(g, reverse=True), g.double().flip(1).cumsum(1).flip(1)),
    ]


@fla('ops/utils/softmax')
def fla_softmax():
    return forward(load('fla.ops.utils.softmax').softmax_fwd, lambda x: x.softmax(-1), rand(4, 5, 50))


@fla('ops/utils/logsumexp')
def fla_logsumexp():
    return forward(load('fla.ops.utils.logsumexp').logsumexp_fwd, lambda x: x.logsumexp(-1), rand(4, 50))


@fla('ops/utils/matmul', rtol=1e-2, atol=1e-2)
def fla_matmul():
    m = load('fla.ops.utils.matmul')
    return forward(m.matmul, lambda a, b: a @ b, rand(70, 50, dtype=torch.float16), rand(50, 40, dtype=torch.float16))


@fla('ops/utils/pooling', rtol=1e-3)
def fla_mean_pooling():
    def want(x):
        return torch.stack([c.mean(1) for c in x.split(16, 1)], 1)

    return both(lambda x: load('fla.ops.utils.pooling').mean_pooling(x, 16), want, rand(2, 40, 3, 20))


@fla('ops/utils/solve_tril', rtol=1e-2, atol=1e-3)
def fla_solve_tril():
    a = rand(2, 64, 3, 64).tril(-1) * 0
    for t in range(64):
        a[:, t, :, :t] = rand(2, 3, t) * 0.1
    want = torch.linalg.inv(torch.eye(64, dtype=torch.float64) + a.double().transpose(1, 2)).transpose(1, 2)
    return [(load('fla.ops.utils.solve_tril').solve_tril(a), want)]


@fla('modules/l2norm', rtol=1e-3)
def fla_l2norm():
    return both(
        lambda x: load('fla.modules.l2norm').l2norm(x, 1e-6),
        lambda x: x * (x.pow(2).sum(-1, keepdim=True) + 1e-6).rsqrt(),
        rand(2, 9, 50),
    )


@fla('modules/layernorm', rtol=1e-3, atol=1e-4)
def fla_layernorm():
    m = load('fla.modules.layernorm')
    return both(
        lambda x, w, b: m.layer_norm(x, w, b),
        lambda x, w, b: F.layer_norm(x, (50,), w, b),
        rand(2, 9, 50),
        rand(50),
        rand(50),
    ) + both(lambda x, w: m.rms_norm(x, w, None, eps=1e-5), lambda x, w: rms(x, w, 1e-5), rand(2, 9, 50), rand(50))


@fla('modules/rotary', rtol=1e-3)
def fla_rotary():
    angle = torch.rand(9, 16)
    cos, sin = angle.cos(), angle.sin()

    def want(x):
        return rotated(x, *(o.double().repeat(1, 2)[:, None] for o in (cos, sin)))

    return both(lambda x: load('fla.modules.rotary').rotary_embedding(x, cos, sin), want, rand(2, 9, 3, 32))


@fla('modules/token_shift', rtol=1e-3)
def fla_token_shift():
    def want(x):
        return F.pad(x, (0, 0, 1, -1)) - x

    return both(load('fla.modules.token_shift').token_shift, want, rand(2, 9, 50))


@fla('modules/activations', rtol=1e-3)
def fla_activations():
    m = load('fla.modules.activations')
    return (
        both(m.swish, F.silu, rand(9, 50))
        + both(m.logsigmoid, F.logsigmoid, rand(9, 50))
        + both(m.swiglu, lambda x, y: F.silu(x) * y, rand(9, 50), rand(9, 50))
    )


@fla('modules/fused_cross_entropy')
def fla_cross_entropy():
    target = torch.randint(0, 90, (11,))
    return both(
        lambda x: load('fla.modules.fused_cross_entropy').cross_entropy_loss(x, target)[0],
        lambda x: F.cross_entropy(x, target, reduction='none'),
        rand(11, 90),
    )


@fla('ops/hgrn/fused_recurrent', rtol=1e-3)
def fla_hgrn():
    def want(x, g):
        h, out = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            out.append(h := g[:, t].exp() * h + x[:, t])
        return torch.stack(out, 1)

    g = F.logsigmoid(rand(2, 20, 40))
    return both(
        lambda x, g: load('fla.ops.hgrn.fused_recurrent').fused_recurrent_hgrn(x, g)[0], want, rand(2, 20, 40), g
    )


def recurrent(q, k, v, g=None):
    "Linear attention, one step after the other"
    s, out = torch.zeros(*q[:, 0].shape, v.shape[-1], dtype=q.dtype), []
    for t in range(q.shape[1]):
        if g is not None:
            s = s * g[:, t].exp().reshape(*g[:, t].shape, *[1] * (4 - g[:, t].ndim))
        s = s + k[:, t, :, :, None] * v[:, t, :, None, :]
        out.append((q[:, t, :, :, None] * s).sum(-2) * q.shape[-1] ** -0.5)
    return torch.stack(out, 1)


@fla('ops/gla/fused_recurrent', rtol=1e-2, atol=1e-3)
def fla_gla_recurrent():
    g = F.logsigmoid(rand(1, 20, 2, 16))
    return both(
        lambda q, k, v, g: load('fla.ops.gla.fused_recurrent').fused_recurrent_gla(q, k, v, gk=g)[0],
        recurrent,
        rand(1, 20, 2, 16),
        rand(1, 20, 2, 16),
        rand(1, 20, 2, 16),
        g,
    )


@chunked('ops/gla/chunk')
def fla_gla_chunk():
    g = F.logsigmoid(rand(1, 70, 2, 16))
    return both(
        lambda q, k, v, g: load('fla.ops.gla.chunk').chunk_gla(q, k, v, g)[0],
        recurrent,
        rand(1, 70, 2, 16),
        rand(1, 70, 2, 16),
        rand(1, 70, 2, 16),
        g,
    )


@chunked('ops/simple_gla/chunk')
def fla_simple_gla_chunk():
    g = F.logsigmoid(rand(1, 70, 2))
    return both(
        lambda q, k, v, g: load('fla.ops.simple_gla.chunk').chunk_simple_gla(q, k, v, g)[0],
        recurrent,
        rand(1, 70, 2, 16),
        rand(1, 70, 2, 16),
        rand(1, 70, 2, 16),
        g,
    )


@chunked('ops/simple_gla/parallel')
def fla_simple_gla_parallel():
    g = F.logsigmoid(rand(1, 70, 2))
    return both(
        lambda q, k, v, g: load('fla.ops.simple_gla.parallel').parallel_simple_gla(q, k, v, g)[0],
        recurrent,
        rand(1, 70, 2, 16),
        rand(1, 70, 2, 16),
        rand(1, 70, 2, 16),
        g,
    )


def delta(q, k, v, beta):
    s, out = torch.zeros(*q[:, 0].shape, v.shape[-1], dtype=q.dtype), []
    for t in range(q.shape[1]):
        old = (k[:, t, :, :, None] * s).sum(-2)
        s = s + k[:, t, :, :, None] * ((v[:, t] - old) * beta[:, t, :, None])[:, :, None]
        out.append((q[:, t, :, :, None] * s).sum(-2) * q.shape[-1] ** -0.5)
    return torch.stack(out, 1)


@chunked('ops/delta_rule/chunk', 2e-2)
def fla_delta_rule():
    k = F.normalize(rand(1, 70, 2, 16), dim=-1)
    q, v, beta = rand(1, 70, 2, 16), rand(1, 70, 2, 16), torch.rand(1, 70, 2)
    return both(
        lambda *o: load('fla.ops.delta_rule.chunk').chunk_delta_rule(*o)[0],
        delta,
        *(o.bfloat16() for o in (q, k, v, beta)),
    )


@fla('ops/delta_rule/fused_recurrent', rtol=1e-2, atol=1e-3)
def fla_delta_rule_recurrent():
    k = F.normalize(rand(1, 20, 2, 16), dim=-1)
    return both(
        lambda q, k, v, b: load('fla.ops.delta_rule.fused_recurrent').fused_recurrent_delta_rule(q, k, v, b)[0],
        delta,
        rand(1, 20, 2, 16),
        k,
        rand(1, 20, 2, 16),
        torch.rand(1, 20, 2),
    )


@chunked('ops/attn/parallel')
def fla_attention():
    def want(q, k, v):
        return attended(True)(*(o.transpose(1, 2) for o in (q * 2 * 16**-0.5, k, v))).transpose(1, 2)

    return both(
        lambda q, k, v: load('fla.ops.attn.parallel').parallel_attn(q, k, v),
        want,
        *(rand(1, 70, 2, 16) for _ in range(3)),
    )


# torchao and xformers


@public('ao', 'torchao/prototype/quantized_training/int8_mm.py', 1e-5, 1e-3)
def ao_int8_mm():
    m = load('torchao.prototype.quantized_training.int8_mm')
    a, b = (torch.randint(-127, 128, s, dtype=torch.int8) for s in ((70, 64), (64, 50)))
    r, c = torch.rand(70), torch.rand(50)
    return [(m.scaled_int8_mm_cuda(a, b, r, c), (a.double() @ b.double()) * r.double()[:, None] * c.double())]


@public('ao', 'torchao/prototype/blockwise_fp8_inference/kernels.py', 2e-2, 2e-2)
def ao_blockwise_fp8():
    m, x = load('torchao.prototype.blockwise_fp8_inference.kernels'), rand(20, 256)
    torch.utils._triton.has_triton = lambda: True
    q, s = m.fp8_blockwise_act_quant(x, 128)
    return [(q.float() * s.repeat_interleave(128, 1) / 10, x.double() / 10)]


@public('xformers', 'xformers/ops/_triton/k_index_select_cat.py')
def xformers_index_select_cat():
    m, x, at = load('xformers.ops._triton.k_index_select_cat'), rand(20, 40), torch.randperm(20)[:7]
    out = torch.full((7, 40), float('nan'))
    with as_on_a_gpu():
        m.index_select_cat_fwd(out, x, at)
    return [(out, x[at].double())]


@public('xformers', 'xformers/ops/_triton/k_scaled_index_add.py')
def xformers_scaled_index_add():
    m, x, s, at = load('xformers.ops._triton.k_scaled_index_add'), rand(9, 5, 40), rand(4, 5, 40), torch.randperm(9)[:4]
    want = x.double().index_add(0, at, s.double(), alpha=0.5)
    with as_on_a_gpu():
        m.scaled_index_add_fwd(x, at, s, None, 0.5)
    return [(x, want)]


@public('xformers', 'xformers/ops/_triton/rmsnorm_kernels.py', 1e-3, 1e-4)
def xformers_rmsnorm():
    m, x, y, w = load('xformers.ops._triton.rmsnorm_kernels'), rand(9, 50), rand(9, 50), rand(50)
    first, total = m._rms_norm_forward(x, w, 1e-6), x.double() + y.double()
    return [
        (first, rms(x.double(), w.double())),
        (m._rms_norm_add_forward(x, y, w, 1e-6), rms(total, w.double())),
        (x, total),
    ]


# mamba, flash-attention and Triton's own collection


def mamba(file, **tolerance):
    return public('mamba', f'mamba_ssm/ops/triton/{file}.py', **tolerance)


def scanned(x, dt, a, b, c, d):
    "A selective state space, one step after the other"
    h, out = torch.zeros(*x[:, 0].shape, b.shape[-1], dtype=x.dtype), []
    for t in range(x.shape[1]):
        fade = (dt[:, t] * a).exp()[..., None, None]
        h = h * fade + (dt[:, t, :, None] * x[:, t])[..., None] * b[:, t, 0, None, None, :]
        out.append((h * c[:, t, 0, None, None, :]).sum(-1) + d[:, None] * x[:, t])
    return torch.stack(out, 1)


@mamba('layernorm_gated', rtol=1e-3, atol=1e-4)
def mamba_norm_gated():
    f = load('mamba_ssm.ops.triton.layernorm_gated').rmsnorm_fn
    return both(
        lambda x, w, z: f(x, w, None, z, eps=1e-6),
        lambda x, w, z: rms(x, w) * F.silu(z),
        rand(9, 50),
        rand(50),
        rand(9, 50),
    )


@mamba('layer_norm', rtol=1e-3, atol=1e-4)
def mamba_layer_norm():
    f = load('mamba_ssm.ops.triton.layer_norm').layer_norm_fn
    return both(
        lambda x, w, b, r: f(x, w, b, residual=r, eps=1e-5, prenorm=True),
        lambda x, w, b, r: (F.layer_norm(x + r, (50,), w, b, 1e-5), x + r),
        *(rand(9, 50), rand(50), rand(50), rand(9, 50)),
    )


@mamba('k_activations', rtol=1e-3)
def mamba_swiglu():
    f = load('mamba_ssm.ops.triton.k_activations').swiglu
    return both(f, lambda xy: F.silu(xy.chunk(2, -1)[0]) * xy.chunk(2, -1)[1], rand(9, 100))


@mamba('selective_state_update', rtol=1e-3, atol=1e-4)
def mamba_state_update():
    m = load('mamba_ssm.ops.triton.selective_state_update')
    state, x, dt, a, bias = rand(2, 30, 16), rand(2, 30), torch.rand(2, 30), -torch.rand(30, 16), torch.rand(30)
    b, c, d = rand(2, 16), rand(2, 16), rand(30)
    step = (dt + bias).double()
    h = state.double() * (step[..., None] * a).exp() + (step * x)[..., None] * b[:, None]
    got = m.selective_state_update(state, x, dt, a, b, c, d, dt_bias=bias)
    return [(got, (h * c[:, None]).sum(-1) + (d * x).double()), (state, h)]


@keep('mamba', 'mamba_ssm/ops/triton/ssd_combined.py', near(5e-3))
def mamba_chunk_scan():
    f = load('mamba_ssm.ops.triton.ssd_combined').mamba_chunk_scan_combined
    x, dt, a = rand(1, 64, 2, 16), torch.rand(1, 64, 2), -torch.rand(2)
    return both(
        lambda x, dt, a, b, c, d: f(x, dt, a, b, c, 32, D=d),
        scanned,
        x,
        dt,
        a,
        rand(1, 64, 1, 16),
        rand(1, 64, 1, 16),
        rand(2),
    )


def flash(file, **tolerance):
    return public('flash-attention', f'flash_attn/ops/triton/{file}.py', **tolerance)


@flash('rotary', rtol=1e-3)
def flash_rotary():
    m, x, angle = load('flash_attn.ops.triton.rotary'), rand(2, 9, 3, 32), torch.rand(9, 16)
    cos, sin = angle.cos(), angle.sin()
    pairs = x.double().unflatten(-1, (16, 2))
    c, s = cos.double()[:, None], sin.double()[:, None]
    woven = torch.stack([pairs[..., 0] * c - pairs[..., 1] * s, pairs[..., 1] * c + pairs[..., 0] * s], -1).flatten(-2)
    wide = rotated(x.double(), c.repeat(1, 1, 2), s.repeat(1, 1, 2))
    return [(m.apply_rotary(x, cos, sin), wide), (m.apply_rotary(x, cos, sin, interleaved=True), woven)]


@flash('cross_entropy', rtol=1e-3)
def flash_cross_entropy():
    target = torch.randint(0, 90, (11,))
    f = load('flash_attn.ops.triton.cross_entropy').cross_entropy_loss
    return both(lambda x: f(x, target)[0], lambda x: F.cross_entropy(x, target, reduction='none'), rand(11, 90))


@flash('layer_norm', rtol=1e-3, atol=1e-4)
def flash_layer_norm():
    f = load('flash_attn.ops.triton.layer_norm').rms_norm_fn
    return both(lambda x, w: f(x, w, None, eps=1e-6), rms, rand(9, 50), rand(50))


@public('kernels', 'kernels/cross_entropy.py', 1e-3)
def kernels_cross_entropy():
    target = torch.randint(0, 90, (11,))
    f = script('kernels/kernels/cross_entropy.py').cross_entropy
    return both(lambda x: f(x, target), lambda x: F.cross_entropy(x, target, reduction='none'), rand(11, 90))


# The table


def verdict(row):
    "(verdict, what was said, the launches that ran)"
    torch.manual_seed(0)
    LAUNCHED.clear()
    try:
        pairs = row.run()
        for got, want in pairs:
            row.compare(got.double(), want.double())
    except KernelError as e:
        return 'found' if e.kind in ('memcheck', 'racecheck', 'initcheck') else 'refused', e, dict(LAUNCHED)
    except (AssertionError, ValueError) as e:
        return 'wrong', e, dict(LAUNCHED)
    except Exception as e:
        return 'refused', e, dict(LAUNCHED)
    return 'right', None, dict(LAUNCHED)


def judge(row):
    "What became of a row, and what was warned of"
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always', UndefinedLanes)
        what, e, launched = verdict(row)
    warned = sorted({str(o.message).split(': ')[0] for o in caught if issubclass(o.category, UndefinedLanes)})
    return what, e, launched, warned


def main(folder, *words):
    set_up(folder)
    warnings.simplefilter('ignore')
    torch.set_num_threads(1)
    total, functions, warned_of = Counter(), Counter(), 0
    for row in ROWS:
        if words and not any(w in f'{row.project} {row.file} {row.name}' for w in words):
            continue
        what, e, launched, warned = judge(row)
        total[what] += 1
        functions[what] += len(launched)
        print(f'{what:8} {row.project}/{row.file}: ' + ', '.join(launched), flush=True)
        warned_of += bool(warned)
        if warned:
            print(f'         lanes without a value are used: {", ".join(warned)}')
        if e is not None:
            print(f'--- {row.name}: ' + ''.join(traceback.format_exception(e)[-8:]), file=sys.stderr, flush=True)
    print(
        ', '.join(f'{n} {what} ({functions[what]} kernels)' for what, n in total.items()) + f'; {warned_of} warned of'
    )


if __name__ == '__main__':
    main(*sys.argv[1:])
