import math
import torch
from . import wrong


def joined(name, arguments, results, of='({})'.format, letters='abcdefgh'):
    letters = iter(letters)
    texts = dict(read=lambda t, n: f'{t} {n}', write=lambda t, n: f'{t}({next(letters)}!) {n}',
                 optional=lambda t, n: f'{t}? {n}=None')
    listed = ', '.join(texts[kind](t, n) for n, t, kind in arguments)
    return f'{name}({listed}) -> {results[0] if len(results) == 1 else of(", ".join(results))}'

@wrong('custom_ops.schema')
def not_written(name, arguments, results):
    return joined(name, [(n, t, 'read' if kind == 'write' else kind) for n, t, kind in arguments], results)

@wrong('custom_ops.schema')
def one_letter(name, arguments, results): return joined(name, arguments, results, letters='aaaa')

@wrong('custom_ops.schema')
def nothing_is_none(name, arguments, results):
    return joined(name, arguments, results or ['None'])

@wrong('custom_ops.schema')
def optional_without_default(name, arguments, results): return joined(name, arguments, results).replace('=None', '')

@wrong('custom_ops.schema')
def results_without_parentheses(name, arguments, results): return joined(name, arguments, results, '{}'.format)

@wrong('custom_ops.schema')
def name_before_type(name, arguments, results):
    return joined(name, [(t, n, kind) for n, t, kind in arguments], results)


def up(n, multiple): return -(-n//multiple)*multiple

@wrong('custom_ops.fake')
def strides_of_x(x, multiple):
    padded = x.t().new_empty(up(x.shape[1], multiple), x.shape[0]).t()
    return padded, x.new_empty(x.shape[0], dtype=torch.int32)

@wrong('custom_ops.fake')
def lengths_are_floats(x, multiple): return x.new_empty(x.shape[0], up(x.shape[1], multiple)), x.new_empty(x.shape[0])

@wrong('custom_ops.fake')
def one_multiple_too_many(x, multiple):
    return (x.new_empty(x.shape[0], x.shape[1]//multiple*multiple + multiple),
            x.new_empty(x.shape[0], dtype=torch.int32))

@wrong('custom_ops.fake')
def sizes_are_fixed(x, multiple):
    return (x.new_empty(x.shape[0], math.ceil(int(x.shape[1])/multiple)*multiple),
            x.new_empty(x.shape[0], dtype=torch.int32))

@wrong('custom_ops.fake')
def lengths_on_the_cpu(x, multiple):
    return x.new_empty(x.shape[0], up(x.shape[1], multiple)), torch.empty(x.shape[0], dtype=torch.int32)

@wrong('custom_ops.fake')
def default_dtype(x, multiple):
    return torch.empty(x.shape[0], up(x.shape[1], multiple)), torch.empty(x.shape[0], dtype=torch.int32)

@wrong('custom_ops.fake')
def reads_data(x, multiple):
    rows = x.shape[0] + 0*int((x != 0).sum().item())
    return x.new_empty(rows, up(x.shape[1], multiple)), x.new_empty(rows, dtype=torch.int32)


@wrong('custom_ops.gradient')
def saves_x():
    def setup_context(ctx, inputs, output):
        x, ctx.cap = inputs
        ctx.save_for_backward(x)
    def backward(ctx, grad): return grad*(1 - torch.tanh(ctx.saved_tensors[0]/ctx.cap)**2), None
    return setup_context, backward

def from_result(formula):
    def setup_context(ctx, inputs, output):
        ctx.cap = inputs[1]
        ctx.save_for_backward(output)
    def backward(ctx, grad): return formula(grad, ctx.saved_tensors[0], ctx.cap), None
    return setup_context, backward

@wrong('custom_ops.gradient')
def cap_is_forgotten(): return from_result(lambda grad, out, cap: grad*(1 - out**2))

@wrong('custom_ops.gradient')
def gradient_is_forgotten(): return from_result(lambda grad, out, cap: 1 - (out/cap)**2)

@wrong('custom_ops.gradient')
def divided_by_cap(): return from_result(lambda grad, out, cap: grad*(1 - (out/cap)**2)/cap)

@wrong('custom_ops.gradient')
def saves_both():
    def setup_context(ctx, inputs, output):
        x, ctx.cap = inputs
        ctx.save_for_backward(x, output)
    def backward(ctx, grad): return grad*(1 - (ctx.saved_tensors[1]/ctx.cap)**2), None
    return setup_context, backward


@wrong('custom_ops.vmap')
def once_per_matrix(op, info, in_dims, x, weight):
    return torch.stack([op(m.contiguous(), weight) for m in x.unbind(in_dims[0])]), 0

@wrong('custom_ops.vmap')
def batch_is_not_moved(op, info, in_dims, x, weight):
    return op(x.reshape(-1, x.shape[-1]), weight).view(x.shape), in_dims[0]

@wrong('custom_ops.vmap')
def not_contiguous(op, info, in_dims, x, weight):
    x = x.movedim(in_dims[0], -1)
    out = op(x.reshape(len(weight), -1).t(), weight)
    return out, 0

@wrong('custom_ops.vmap')
def batch_is_always_first(op, info, in_dims, x, weight):
    return op(x.reshape(-1, x.shape[-1]), weight).view(x.shape), 0
