"""Register functions that launch kernels as custom operators of torch: `torch.compile` then traces each as one node."""

import functools, sys

import torch

_LIBRARY = torch.library.Library('gridstride', 'FRAGMENT')


def operator(
    schema,  # in torch's syntax: 'gelu(Tensor x, bool tanh) -> Tensor'
    fake,  # the same function for tensors without data: it returns empty results of the right shapes and dtypes
):  # a decorator
    """Register the decorated function as the operator `torch.ops.gridstride.NAME`. Traced code calls the operator;
    other code calls the function directly, whose overhead is a third of the operator's.

        @operator('gelu(Tensor x, bool tanh) -> Tensor', lambda x, tanh: torch.empty_like(x))
        def gelu(x, tanh): ..."""

    def register(run):
        name = schema.partition('(')[0]
        _LIBRARY.define(schema)
        _LIBRARY.impl(name, run, 'CompositeExplicitAutograd')
        torch.library.register_fake(f'gridstride::{name}', fake, lib=_LIBRARY)
        traced_operator = getattr(torch.ops.gridstride, name).default

        def call(*args):
            return traced_operator(*args) if torch.compiler.is_compiling() else run(*args)

        return call

    return register


def constant(function):
    """Mark a function without arguments whose result never changes, as `torch.compiler.assume_constant_result` does,
    but without importing the compiler: for a rank of ring attention, the import would take longer than its attention"""
    function._dynamo_marked_constant = True
    return function


def untraced(function):
    """Exclude a function from tracing, as `torch.compiler.disable` does, but without importing the compiler: until
    other code has imported it, nothing is traced_operator"""
    disabled = []

    @functools.wraps(function)
    def call(*args, **kwargs):
        if 'torch._dynamo' not in sys.modules:
            return function(*args, **kwargs)
        if not disabled:
            disabled.append(torch.compiler.disable(function))
        return disabled[0](*args, **kwargs)

    call._torchdynamo_disable = True
    return call
