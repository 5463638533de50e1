import torch
from . import right


@right('custom_ops.schema')
def by_inference(name, arguments, results):
    import inspect
    from typing import Optional
    types = dict(Tensor=torch.Tensor, float=float, bool=bool, int=int)
    def parameter(n, t, kind):
        options = dict(default=None, annotation=Optional[types[t]]) if kind == 'optional' else dict(annotation=types[t])
        return inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD, **options)
    def f(): pass
    returned = tuple(types[r] for r in results)
    f.__signature__ = inspect.Signature(
        [parameter(*a) for a in arguments],
        return_annotation=None if not returned else returned[0] if len(returned) == 1 else tuple[returned])
    return name + torch.library.infer_schema(f, mutates_args={n for n, _, kind in arguments if kind == 'write'})

@right('custom_ops.schema')
def letter_by_letter(name, arguments, results):
    text, letter = name + '(', 'a'
    for i, (n, t, kind) in enumerate(arguments):
        text += ', '*(i > 0) + t
        if kind == 'write': text, letter = f'{text}({letter}!)', chr(ord(letter) + 1)
        text += f'? {n} = None' if kind == 'optional' else f' {n}'
    return text + ') -> (' + ', '.join(results) + ')'


@right('custom_ops.fake')
def with_add(x, multiple):
    rows, columns = x.size()
    return (torch.empty(rows, (columns + multiple - 1)//multiple*multiple, dtype=x.dtype, device=x.device),
            torch.empty((rows,), dtype=torch.int32, device=x.device))

@right('custom_ops.fake')
def with_remainder(x, multiple):
    return (x.new_zeros(x.shape[0], x.shape[1] + -x.shape[1] % multiple),
            torch.zeros(x.shape[0], dtype=torch.int32, device=x.device))

@right('custom_ops.fake')
def with_pad(x, multiple):
    padded = torch.nn.functional.pad(x, (0, -x.shape[1] % multiple)).contiguous()
    return torch.empty_like(padded), x.new_empty(x.shape[:1], dtype=torch.int32)


@right('custom_ops.gradient')
def saves_the_derivative():
    def setup_context(ctx, inputs, output): ctx.save_for_backward(1 - (output/inputs[1])**2)
    def backward(ctx, grad): return ctx.saved_tensors[0]*grad, None
    return setup_context, backward

@right('custom_ops.gradient')
def by_keyword():
    def setup_context(ctx, inputs, output):
        _, ctx.cap = inputs
        ctx.save_for_backward(output)
    def backward(ctx, grad):
        out, = ctx.saved_tensors
        return torch.addcmul(grad, grad*out, out, value=-1/ctx.cap**2), None
    return setup_context, backward


@right('custom_ops.vmap')
def flattened(op, info, in_dims, x, weight):
    x = x.movedim(in_dims[0], 0).contiguous()
    return op(x.flatten(0, 1), weight).unflatten(0, x.shape[:2]), 0

@right('custom_ops.vmap')
def batch_is_second(op, info, in_dims, x, weight):
    x = x.movedim(in_dims[0], 1)
    return op(x.reshape(-1, x.shape[2]), weight).view(x.shape), 1
