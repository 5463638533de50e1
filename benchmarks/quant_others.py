"""The same weights quantized by `gridstride.kernels.quant`, torchao, bitsandbytes and quanto: each library's name of a
format, the bits it takes per element, its error, and how many elements have the same value as ours.

    pip install torchao bitsandbytes optimum-quanto         # any of them; the output names the missing ones
    python quant_others.py > quant_others.txt               # some seconds, without a GPU

The weights are 1024 x 1024 samples of Student's t distribution with five degrees of freedom, whose tails are as heavy
as those of trained layers, with rows of different scales, in bfloat16. "dB" is the signal-to-noise ratio of the
dequantized weights. "bits" counts all tensors that a library stores, per element. "same" is the fraction of elements
that differ from ours by at most 2^-7 of their value, the rounding error of two bfloat16s.
"""
import importlib.metadata
import warnings

import torch
from gridstride.kernels.quant import pack, unpack
from gridstride.kernels.quant.formats import snr_db
from gridstride.support.tables import Table
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

SHAPE = 1024, 1024
OURS = {                # format -> (description, arguments of `pack`)
    'int8 row': ('int8, one scale per row', dict(kind='int8')),
    'int4 128': ('int4, a scale for 128', dict(kind='int4')),
    'int4 128 zeros': ('int4, a scale and a zero for 128', dict(kind='int4', zeros=True)),
    'int4 128 mse': ("int4, a scale for 128, fit='mse'", dict(kind='int4', fit='mse')),
    'nf4 64': ('NF4, a scale for 64', dict(kind='nf4')),
    'fp8 row': ('e4m3, one scale per row', dict(kind='fp8'))}


def weights():
    g = torch.Generator().manual_seed(0)
    normal, chi = torch.randn(SHAPE, generator=g), torch.randn(5, *SHAPE, generator=g).square().mean(0)
    return (normal/chi.sqrt()*torch.logspace(-2, 0, SHAPE[0]).view(-1, 1)).bfloat16()


def ours(w):
    for key, (_, options) in OURS.items():
        packed = pack(w, **options)
        name = ', '.join([options['kind'], *(f'{k}={v!r}' for k, v in options.items() if k != 'kind')])
        yield key, f'gridstride {name}', unpack(packed), [o for o in packed[3:] if o is not None]


def make_linear(w):
    m = torch.nn.Sequential(torch.nn.Linear(*reversed(w.shape), bias=False))
    m[0].weight = torch.nn.Parameter(w.clone(), requires_grad=False)
    return m


def stored_tensors(t):
    "Return the plain tensors that a tensor subclass consists of"
    if not is_traceable_wrapper_subclass(t): return [t]
    return [o for name in t.__tensor_flatten__()[0] for o in stored_tensors(getattr(t, name))]


def torchao(w):
    import torchao.quantization as q
    intx = lambda **options: q.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=q.PerGroup(128), **options)
    for key, name, config in (('int8 row', 'Int8WeightOnlyConfig', q.Int8WeightOnlyConfig()),
                              ('int4 128', 'IntxWeightOnlyConfig', intx()),
                              ('int4 128 zeros', 'Intx.., ASYMMETRIC', intx(mapping_type=q.MappingType.ASYMMETRIC)),
                              ('fp8 row', 'Float8WeightOnlyConfig', q.Float8WeightOnlyConfig())):
        m = make_linear(w)
        q.quantize_(m, config)
        yield key, f'torchao {name}', m[0].weight.dequantize(), stored_tensors(m[0].weight)


def bitsandbytes(w):
    import bitsandbytes.functional as b
    q, scales, _ = b.int8_vectorwise_quant(w.half())
    yield 'int8 row', 'bitsandbytes LLM.int8', q.float()*scales.view(-1, 1)/127, [q, scales]
    q, s = b.quantize_4bit(w, blocksize=64, quant_type='nf4')
    yield 'nf4 64', 'bitsandbytes nf4', b.dequantize_4bit(q, s), [q, s.absmax]


def quanto(w):
    import optimum.quanto as k
    for key, kind in (('int8 row', 'qint8'), ('int4 128 zeros', 'qint4'), ('fp8 row', 'qfloat8')):
        m = make_linear(w)
        k.quantize(m, weights=getattr(k, kind))
        k.freeze(m)
        yield key, f'quanto {kind}', m[0].weight.dequantize(), stored_tensors(m[0].weight)


TOOLS = {'torchao': torchao, 'bitsandbytes': bitsandbytes, 'optimum-quanto': quanto}


def version(package):
    try: return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError: return None


def fraction_equal(got, ours): return ((got.float() - ours).abs() <= 2**-7*ours.abs()).float().mean().item()


def main():
    w = weights()
    our_values, rows = {key: got for key, _, got, _ in ours(w)}, []
    missing = [o for o in TOOLS if not version(o)]
    for tool in [ours, *(TOOLS[o] for o in TOOLS if o not in missing)]:
        for key, name, got, tensors in tool(w):
            bits = 8*sum(o.nbytes for o in tensors)/w.numel()
            equal = fraction_equal(got, our_values[key])
            rows.append((key, [name, f'{bits:.3f}', f'{snr_db(w, got):.2f}', f'{equal:.1%}']))
    versions = ', '.join(f'{o} {version(o)}' for o in ('torch', *TOOLS) if version(o))
    for key, (description, _) in OURS.items():
        table_rows = [fields for row_key, fields in rows if row_key == key]
        print(Table(['<tool', 'bits', 'dB', 'same as ours'], table_rows, description), end='\n\n')
    print(versions + ''.join(f'\n{o} is not installed' for o in missing))


if __name__ == '__main__':
    warnings.simplefilter('ignore')
    main()
