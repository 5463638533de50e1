"""Register functions that launch kernels as custom operators of torch: `torch.compile` traces each call as one node."""

import functools, sys

import torch

from .launch_replay import replayable

_LIBRARY = torch.library.Library('gridstride', 'FRAGMENT')


def operator(
    schema,  # in torch's syntax: 'gelu(Tensor x, bool tanh) -> Tensor'
    make_empty_results,  # a function of the same arguments that returns empty results of the right shapes and dtypes
    torch_fallback=None,  # this and the next are as for `launch_replay.replayable`
    is_replayable=None,
    make_torch_function=None,
):  # a decorator
    """Register the decorated function as the operator `torch.ops.gridstride.NAME`. Traced code calls the operator;
    other code calls the function directly, and a replayed call runs only its launches (`launch_replay`). The attribute
    `eager` is the function for code that is known not to be traced.

        @operator('gelu(Tensor x, bool tanh) -> Tensor', lambda x, tanh: torch.empty_like(x))
        def gelu(x, tanh): ..."""

    def register(run):
        name = schema.partition('(')[0]
        call = replayable(run, torch_fallback, is_replayable, make_torch_function=make_torch_function)
        _LIBRARY.define(schema)
        _LIBRARY.impl(name, call, 'CompositeExplicitAutograd')
        torch.library.register_fake(f'gridstride::{name}', make_empty_results, lib=_LIBRARY)
        traced_operator = getattr(torch.ops.gridstride, name).default

        def dispatch(*args):
            return traced_operator(*args) if torch.compiler.is_compiling() else call(*args)

        dispatch.eager = call
        return dispatch

    return register


def constant(function):
    """Mark a function whose result depends on its arguments alone, as `torch.compiler.assume_constant_result` does.

    Unlike that function, it does not import the compiler, because the import takes longer than the computation of a
    rank in ring attention."""
    function._dynamo_marked_constant = True
    return function


def untraced(function):
    """Exclude a function from tracing, as `torch.compiler.disable` does, but do not import the compiler.

    Nothing is traced until other code imports the compiler."""
    disabled_function = []  # at most one, created when the compiler is first needed

    @functools.wraps(function)
    def run_untraced(*args, **kwargs):
        if 'torch._dynamo' not in sys.modules:
            return function(*args, **kwargs)
        if not disabled_function:
            disabled_function.append(torch.compiler.disable(function))
        return disabled_function[0](*args, **kwargs)

    run_untraced._torchdynamo_disable = True
    return run_untraced
