"""What launches kernels, as torch's own operators: so `torch.compile` keeps it whole in the graph that it makes."""

import functools, sys

import torch

_LIBRARY = torch.library.Library('gridstride', 'FRAGMENT')


def operator(
    schema,  # as torch writes it: 'gelu(Tensor x, bool tanh) -> Tensor'
    fake,  # the same function of tensors without data (meta): it returns the shapes and types of the results
):  # a decorator
    """The function below it is also the operator `torch.ops.gridstride.NAME`, which traced code calls; other
    code calls the function itself, which costs a third of the time of an operator"""

    def register(run):
        name = schema.partition('(')[0]
        _LIBRARY.define(schema)
        _LIBRARY.impl(name, run, 'CompositeExplicitAutograd')
        torch.library.register_fake(f'gridstride::{name}', fake, lib=_LIBRARY)
        traced = getattr(torch.ops.gridstride, name).default

        def call(*args):
            return traced(*args) if torch.compiler.is_compiling() else run(*args)

        return call

    return register


def constant(function):
    """Mark a function without arguments whose result never changes, as `torch.compiler.assume_constant_result` does:
    that one imports the whole compiler first, which takes each rank of a ring longer than its attention"""
    function._dynamo_marked_constant = True
    return function


def untraced(function):
    """Like `torch.compiler.disable`, without an import of the compiler: until other code has imported it, nothing is
    traced"""
    disabled = []

    @functools.wraps(function)
    def call(*args, **how):
        if 'torch._dynamo' not in sys.modules:
            return function(*args, **how)
        if not disabled:
            disabled.append(torch.compiler.disable(function))
        return disabled[0](*args, **how)

    call._torchdynamo_disable = True
    return call
