"""Compile kernels in tile languages without a GPU: each language wraps a kernel in a program that compiles it."""

from typing import NamedTuple

from .elsewhere import TileKernel, compile_or_load, compile_with_kittens, run_program

__all__ = ['LANGUAGES', 'Language', 'compile_in_language']


class Language(NamedTuple):
    "A tile language, and the code with which it compiles a kernel `softmax` for rows of 1024 elements"

    package: str  # on PyPI
    prologue: str  # code before the kernel: the imports
    epilogue: str  # code after the kernel, which writes kernel.cu, kernel.triton, kernel.ptx or kernel.cubin
    suffix: str = '.py'
    command: tuple = ('{python}',)
    arch: str = 'sm_90a'

    def program(self, kernel: str) -> str:
        "Return a program that compiles a kernel"
        return f'{self.prologue}{kernel}{self.epilogue}'

    def compile(self, kernel: str) -> TileKernel:
        "Compile a kernel. Raises Unavailable without the compiler"
        return run_program(self.package, self.program(kernel), self.suffix, self.command, self.arch)


_CUTILE = Language(
    'cuda-tile',
    '''
import cuda.tile as ct
from cuda.tile.compilation import ArrayConstraint, CallingConvention, ConstantConstraint, KernelSignature, export_kernel
''',
    '''
rows = ArrayConstraint(ct.float32, 2, index_dtype=ct.int32, stride_constant=(1024, 1), stride_lower_bound_incl=0,
                       alias_groups=(), may_alias_internally=False, base_addr_divisible_by=16)
what = KernelSignature([rows, rows, ConstantConstraint(1024)], CallingConvention.cutile_python_v1())
export_kernel(softmax, [what], 'kernel.cubin', gpu_code='sm_90', output_format='cubin')
''',
    arch='sm_90',
)

_TILELANG = Language(
    'tilelang',
    '''
import os, tilelang, tilelang.language as T
from tilelang import tvm
from tilelang.contrib import nvcc
''',
    '''
with tvm.target.Target({'kind': 'cuda', 'arch': 'sm_90a'}) as target:
    code = tilelang.lower(softmax, target=target, enable_device_compile=False).kernel_source
open('kernel.cu', 'w').write(code)
root = os.path.dirname(tilelang.__file__)
headers = [f'-I{root}/src', f'-I{root}/3rdparty/cutlass/include']
open('kernel.ptx', 'wb').write(nvcc.compile_cuda(code, 'ptx', arch='sm_90a', options=headers))
''',
)

_CUTE = Language(
    'nvidia-cutlass-dsl',
    '''
import glob, os, shutil
os.environ.update(CUTE_DSL_ARCH='sm_90a', CUTE_DSL_KEEP_PTX='1', CUTE_DSL_DUMP_DIR='.')
import cutlass.cute as cute
from cutlass import Float32
from cutlass.cute.runtime import make_fake_compact_tensor
''',
    '''
@cute.jit
def softmax(x: cute.Tensor, out: cute.Tensor):
    softmax_k(x, out).launch(grid=[x.shape[0], 1, 1], block=[32, 1, 1])

rows = make_fake_compact_tensor(Float32, (4096, 1024), stride_order=(1, 0))     # no data: type and layout alone
made = cute.compile(softmax, rows, rows)
shutil.copy(glob.glob('*.ptx')[0], 'kernel.ptx')
''',
)

_MOJO = Language(
    'mojo',
    '''
from max.gpu import block_idx, thread_idx
from max.gpu.host import get_gpu_target
from max.gpu.host.compile import _compile_code
from max.gpu.primitives import warp
from std.math import exp
''',
    '''
def main() raises:
    with open('kernel.ptx', 'w') as f: f.write(String(_compile_code[softmax, target=get_gpu_target['sm_90a']()]()))
''',
    '.mojo',
    ('{bin}/mojo', 'run'),
)

_TVM = Language(
    'apache-tvm',
    '''
import tvm, tvm_ffi
from tvm import te, topi
from tvm.s_tir import dlight
''',
    '''
@tvm_ffi.register_global_func('tvm_callback_cuda_postproc', override=True)
def keep(code, target):
    open('kernel.cu', 'w').write('typedef unsigned uint;\\n' + code.split('#endif\\n')[-1])  # without TVM's header
    return code

tvm.compile(mod, target=tvm.target.Target(target, host='llvm'))
''',
)


_GLUON = Language(
    'triton',
    '''
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
''',
    '''
aligned = {(i,): [['tt.divisibility', 16]] for i in range(2)}
source = GluonASTSource(softmax, dict(x='*fp32', out='*fp32', W='constexpr'), {(2,): 1024}, aligned)
made = triton.compile(source, target=GPUTarget('cuda', 90, 32))
open('kernel.ptx', 'w').write(made.asm['ptx'])
''',
)

# Helion generates the source of a Triton program; this program imports it, and compiles only its kernel.
_HELION = Language(
    'helion',
    '''
import torch, helion, helion.language as hl
''',
    '''
import importlib.util, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

bound = helion.kernel(softmax).bind((torch.empty(65536, 1024),))
text = bound.to_triton_code(bound.config_spec.default_config())
open('kernel.triton', 'w').write(text)
open('generated.py', 'w').write(text)
spec = importlib.util.spec_from_file_location('generated', 'generated.py')
spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
types = dict(x='*fp32', out='*fp32', _RDIM_SIZE_1='constexpr')
aligned = {(i,): [['tt.divisibility', 16]] for i in range(2)}
source = ASTSource(module._helion_softmax, types, {(2,): 1024}, aligned)
made = triton.compile(source, target=GPUTarget('cuda', 90, 32))
open('kernel.ptx', 'w').write(made.asm['ptx'])
''',
)


class _Kittens(Language):
    "ThunderKittens: C++ that nvcc compiles, without a program around it"

    def compile(self, kernel):
        return compile_with_kittens(self.program(kernel))


LANGUAGES = {
    'Gluon': _GLUON,
    'Helion': _HELION,
    'cuda.tile': _CUTILE,
    'TileLang': _TILELANG,
    'CuTe DSL': _CUTE,
    'ThunderKittens': _Kittens('', '', ''),
    'Mojo': _MOJO,
    'TVM': _TVM,
}


def compile_in_language(
    language: str,  # a key of `LANGUAGES`
    kernel: str,  # source that defines `softmax` (`softmax_k` in CuTe DSL; `mod` and `target` in TVM)
    recording: str,  # name of the recording
) -> TileKernel:
    "Compile a kernel if the language's compiler is installed, else return the recording"
    definition = LANGUAGES[language]
    return compile_or_load(recording, lambda: definition.compile(kernel), definition.program(kernel))
