"""Assemble the source of a GEMM with an epilogue: `epilogue_gemm.cuh` after the PTX wrappers, an activation, types and
constants."""

from functools import lru_cache
from typing import NamedTuple

from ..fused.sources import source as fused_source
from ..ptx import PTX, wgmma
from ..source_assembly import C_TYPES, source_loader, assemble_source

source = source_loader(__package__)  # source(name) -> the contents of name.cuh

F16_TYPES = dict(bfloat16='bf16', float16='f16')  # torch's 16-bit float types -> their names in PTX


class Activation(NamedTuple):
    "An elementwise function in CUDA C: expressions of `float x`"

    value: str  # 'x > 0 ? x : 0'
    grad: str = ''  # its derivative: 'x > 0 ? 1 : 0'; empty: no gradient is supported


ACTIVATIONS = dict(
    relu=Activation('x > 0 ? x : 0', 'x > 0 ? 1 : 0'),
    gelu=Activation('gelu(x)', 'gelu_grad(x)'),
    gelu_tanh=Activation('gelu(x)', 'gelu_grad(x)'),
    silu=Activation('x * sigmoid(x)', 'sigmoid(x) * (1 + x * (1 - sigmoid(x)))'),
)
_SIGMOID = '__device__ float sigmoid(float x) { return reciprocal(1 + exp2_of(-1.4426950408889634f * x)); }\n'


def _grad_stub(activation):
    "Return the CUDA C of an `active_grad` that is never called if the activation has no derivative; otherwise ''"
    has_grad = activation and ACTIVATIONS.get(activation, activation).grad
    return '' if has_grad else '__device__ float active_grad(float x) { return 1; }\n'


@lru_cache(256)
def activation_source(
    activation,  # a name of `ACTIVATIONS`, an `Activation`, or None
) -> str:
    "Return the CUDA C of `active` and `active_grad`; it needs the types Elem and Acc"
    if activation is None:
        return ''
    expressions = activation if isinstance(activation, Activation) else ACTIVATIONS[activation]
    helpers = f'constexpr bool TANH = {str(activation == "gelu_tanh").lower()};\n{fused_source("gelu")}{_SIGMOID}'
    value = f'{helpers}__device__ float active(float x) {{ return {expressions.value}; }}\n'
    gradient = f'__device__ float active_grad(float x) {{ return {expressions.grad}; }}\n'
    return value + gradient * bool(expressions.grad)


@lru_cache(1024)
def gemm_source(
    dtype,  # of A and B: 'bfloat16', 'float16'
    out_dtype,  # of the result
    activation,  # as for `activation_source`
    constants,  # ((name in the source, int), ...)
) -> str:
    "Return the CUDA C of a GEMM with an epilogue, ready to be compiled"
    prefix = (PTX + wgmma(dict(constants)['BN'])).replace('bf16', F16_TYPES[dtype]) + activation_source(activation)
    types = ('Elem', C_TYPES[dtype]), ('Out', C_TYPES[out_dtype]), ('Acc', 'float')
    stubs = '' if activation else '__device__ float active(float x) { return x; }\n'
    return assemble_source(source('epilogue_gemm'), types, constants, prefix + stubs + _grad_stub(activation))


@lru_cache(256)
def activation_pass_source(dtype, activation) -> str:
    "Return the CUDA C of the kernels that apply an `Activation` or its gradient to an array"
    types = ('Elem', C_TYPES[dtype]), ('Acc', 'float')
    return assemble_source(source('pass'), types, (), activation_source(activation) + _grad_stub(activation))
