"""Compiles simulated kernels with Numba's own compiler, without a GPU: to PTX, LLVM IR, SASS and types."""

import math
from importlib import import_module

from ..diagnostics.launch_config import max_resident_blocks
from .constants import static_shared_bytes
from .signatures import declared_types

__all__ = ['compile', 'compile_for_current_device', 'compile_ptx', 'compile_ptx_for_current_device']

_COMPUTE_CAPABILITY = 9, 0  # of the simulated device


def compile_with_numba(
    kernel,  # or a device function
    signature,  # a string: 'void(float32[:])'
):
    "Compile a kernel with Numba; returns an `asm.python.Numba`"
    return import_module('gridstride.asm.python').Numba(kernel, (signature,))


def compile(
    pyfunc,
    sig,  # 'void(float32[:])'
    debug=None,
    lineinfo=False,
    device=True,
    fastmath=False,
    cc=None,
    opt=None,
    abi='c',
    output='ptx',
    **other_options,
):  # (PTX, the type of the result)
    "Compile a function to PTX with Numba's own compiler; raises `CompilerMissing` without it"
    options = dict(lineinfo=lineinfo, device=device, fastmath=fastmath, opt=opt, abi=abi, output=output, debug=debug)
    return compile_with_numba(pyfunc, sig).compile_with_numba(cc or _COMPUTE_CAPABILITY, **options, **other_options)


def compile_ptx(pyfunc, sig, debug=None, lineinfo=False, device=False, fastmath=False, cc=None, opt=None, abi='numba'):
    "Compile a kernel to PTX with Numba's own compiler; raises `CompilerMissing` without it"
    return compile(pyfunc, sig, debug, lineinfo, device, fastmath, cc, opt, abi)


compile_for_current_device, compile_ptx_for_current_device = compile, compile_ptx


class Overloads(dict):
    "{types of the arguments: `Overload`}; a key may also be written with Numba's types, as in `jit`"

    def __missing__(self, signature):
        parameter_types = declared_types(signature) if isinstance(signature, tuple) else []
        if not parameter_types or parameter_types[0] not in self:
            raise KeyError(signature)
        return self[parameter_types[0]]


class Overload:
    "A kernel compiled for certain argument types"

    def __init__(self, kernel, signature):
        self.kernel, self.signature = kernel, signature

    @property
    def text(self):
        "Return the signature as a string"
        return f'void({", ".join(map(_type_name, self.signature))})'

    def _compile(self):
        return compile_with_numba(self.kernel, self.text)

    def inspect_asm(self):
        "Return the PTX of the kernel"
        return self._compile().compile_with_numba(_COMPUTE_CAPABILITY, lineinfo=True)[0]

    def inspect_llvm(self):
        "Return the LLVM IR of the kernel"
        return self._compile().llvm(_COMPUTE_CAPABILITY)

    def inspect_types(self):
        "Return the source of the kernel with the types that Numba infers"
        return self._compile().annotated_source(_COMPUTE_CAPABILITY)

    def inspect_sass(self):
        "Return the SASS of the kernel, for an H100"
        return str(import_module('gridstride.asm').sass(self.kernel, self.text))

    def resources(self):
        "Return the registers and memory that the kernel uses, as `asm.resources` does"
        return import_module('gridstride.asm').resources(self.kernel, self.text)

    def max_cooperative_grid_blocks(self, blockdim, dynsmemsize=0):
        "Return the maximum number of blocks of a cooperative launch; the limit by registers is ignored"
        num_threads = math.prod(blockdim if isinstance(blockdim, tuple) else (blockdim,))
        return max_resident_blocks(num_threads, dynsmemsize + static_shared_bytes(self.kernel.py_func))

    regs_per_thread = property(lambda self: self.resources().registers)
    shared_mem_per_block = property(lambda self: self.resources().shared)
    local_mem_per_thread = property(lambda self: self.resources().local)
    const_mem_size = property(lambda self: self.resources().constant)
    max_threads_per_block = 1024


def _type_name(t):
    if type(t) is tuple:
        return f'Tuple(({", ".join(map(_type_name, t))},))'
    return str(t).replace('bool', 'boolean')


class InspectableKernel:
    "Inspection methods of a kernel, for all of its signatures or for one"

    def _inspect(self, method, signature):
        if signature is not None:
            overload = self.overloads.get(signature) or Overload(self, signature)
            return getattr(overload, method)()
        return {key: getattr(overload, method)() for key, overload in self.overloads.items()}

    def inspect_asm(self, signature=None):
        "Return the PTX for a signature; without one, {signature: PTX}"
        return self._inspect('inspect_asm', signature)

    def inspect_llvm(self, signature=None):
        "Return the LLVM IR for a signature; without one, {signature: LLVM IR}"
        return self._inspect('inspect_llvm', signature)

    def inspect_sass(self, signature=None):
        "Return the SASS for a signature; without one, {signature: SASS}"
        return self._inspect('inspect_sass', signature)

    def inspect_types(self, file=None):
        "Print the source with the types that Numba infers, per signature"
        for overload in self.overloads.values():
            print(overload.inspect_types(), file=file)

    def get_regs_per_thread(self, signature=None):
        "Return the registers per thread for a signature; without one, {signature: count}"
        return self._resource('regs_per_thread', signature)

    def get_shared_mem_per_block(self, signature=None):
        "Return the bytes of static shared memory per block for a signature; without one, {signature: bytes}"
        return self._resource('shared_mem_per_block', signature)

    def get_local_mem_per_thread(self, signature=None):
        "Return the bytes of local memory per thread for a signature; without one, {signature: bytes}"
        return self._resource('local_mem_per_thread', signature)

    def get_const_mem_size(self, signature=None):
        "Return the bytes of constant memory for a signature; without one, {signature: bytes}"
        return self._resource('const_mem_size', signature)

    def get_max_threads_per_block(self, signature=None):
        "Return the maximum threads per block for a signature; without one, {signature: count}"
        return self._resource('max_threads_per_block', signature)

    def _resource(self, name, signature):
        if signature is not None:
            return getattr(self.overloads.get(signature) or Overload(self, signature), name)
        return {key: getattr(overload, name) for key, overload in self.overloads.items()}
