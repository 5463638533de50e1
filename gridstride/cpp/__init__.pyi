# Made by tests/front_stubs.py from the exports of this package, which are imported on first use.
from .emulator import on_emulator as on_emulator
from .emulator import options as options
from .frontend.edits import NotEmulated as NotEmulated
from .kernel import cuda_kernel as cuda_kernel
from .lint.compile_errors import CompileError as CompileError
from .load import load_cuda as load_cuda
from .magic import load_ipython_extension as load_ipython_extension
from .several_devices import devices as devices
from .toolchain.cache import cache_dir as cache_dir
from .toolchain.compilers import CompilerMissing as CompilerMissing
