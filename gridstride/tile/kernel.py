"""`checked(kernel)[grid](...)`: launches of kernels under `@triton.jit`, on the CPU, with every check."""

import inspect
import random
from types import SimpleNamespace

import numpy as np

from ..diagnostics.errors import Location, WrongArgument, exception_of
from ..diagnostics.settings import settings
from .block import scalar
from .descriptors import from_host
from .memory import is_array, wrap
from .rebind import Bound, function_of, unwrap
from .run import Run, enter, not_begun
from .trace import recorder
from .tuning import run_tuned, tuner_of
from .types import const, to_dtype

__all__ = ['checked', 'Checked', 'OPTIONS']

# Compiler options that a launch may pass
OPTIONS = (
    'num_warps num_stages num_ctas maxnreg enable_fp_fusion grid warmup debug sanitize_overflow stream extern_libs '
    'launch_cooperative_grid launch_pdl allow_fp8e4nv supported_fp8_dtypes default_dot_input_precision cluster_dims '
    'max_num_imprecise_acc_default ptx_version waves_per_eu matrix_instr_nonkdim kpack noinline '
    'num_buffers_warp_spec num_consumer_groups reg_dec_producer reg_inc_consumer instrumentation_mode'
).split()


class Checked:
    "A kernel that runs on the CPU with every check: `kernel[grid](*arguments, **constants)`"

    def __init__(self, kernel):
        self.kernel = kernel  # perhaps wrapped by autotune or heuristics
        self.python = function_of(kernel)
        self.__name__ = self.python.__name__
        self.__doc__ = self.python.__doc__
        self.__module__ = self.python.__module__
        self.signature = inspect.signature(self.python)
        self.names = list(self.signature.parameters)
        self.constants = {k for k, p in self.signature.parameters.items() if _is_constexpr(p.annotation)}
        self.unspecialized = _unspecialized(self.jitted)
        self._printed, self._tuned = False, set()

    arg_names = property(lambda self: self.names, doc='the names of its arguments')
    fn = property(
        lambda self: self.python if unwrap(self.kernel) is self.kernel else checked(self.kernel.fn),
        doc='the Python function; of one under autotune or heuristics the kernel, as on a GPU',
    )
    jitted = property(lambda self: unwrap(self.kernel), doc='the function under `@triton.jit`, for other tools')

    def __repr__(self):
        return f'<checked kernel {self.__name__}>'

    def __getitem__(self, grid):
        return lambda *args, **meta: self.run(*args, grid=grid, **meta)

    def __getattr__(self, k):  # configs, best_config, keys, ...
        if k.startswith('__') or k == 'kernel':
            raise AttributeError(k)
        return getattr(self.kernel, k)

    def warmup(self, *args, grid, **meta):
        "Compile ahead of time, as Triton does; here only the arguments are checked"
        self.run(*args, grid=grid, warmup=True, **meta)
        return _Compiled(self)

    def __call__(self, *args, **meta):
        raise self._wrong(f'{self.__name__} is called without a grid: {self.__name__}[grid](...)')

    def run(self, *args, grid, warmup=False, **meta):
        "Launch the kernel: one program per position of the grid"
        values = self._arguments(args, meta)
        sizes = self._grid(grid, values)
        if warmup:
            return
        launch = _Launch(self, sizes, values)
        tuner = tuner_of(self.kernel, values, self._tuned)
        if tuner:
            run_tuned(tuner, launch, values, lambda: _Launch(self, sizes, self._arguments(args, meta)))
        else:
            launch.run()

    def _wrong(self, problem):
        return _launch('program_arguments', self.__name__, problem=problem, signature=', '.join(self.names))

    def _arguments(self, args, meta):
        "Return {name: value} of all arguments, with those that the first config and heuristics choose"
        given = {k: v for k, v in meta.items() if k in self.names or k not in OPTIONS}
        try:
            values = self.signature.bind_partial(*args, **given).arguments
        except TypeError as e:
            raise self._wrong(f'{self.__name__}: {e}') from None
        warps = meta.get('num_warps', 4)
        if 'num_warps' not in self.names and warps not in (1, 2, 4, 8, 16, 32):
            raise self._wrong(f'{self.__name__}: num_warps is {warps!r}, but must be a power of 2, at most 32')
        values = {**values, **self._choose(values)}
        for k, p in self.signature.parameters.items():
            if k not in values and p.default is not p.empty:
                values[k] = p.default
        if missing := [k for k in self.names if k not in values]:
            raise self._wrong(f'{self.__name__}: missing arguments {", ".join(missing)}')
        return {k: values[k] for k in self.names}

    def _choose(self, values):
        "Return the constants that autotune and heuristics choose: autotune takes the first config"
        k = self.kernel
        found = {}
        while unwrap(k) is not k:
            if getattr(k, 'configs', None):
                self._configure(k.configs, values, found)
            if isinstance(getattr(k, 'values', None), dict):
                for name, f in k.values.items():
                    found[name] = f({**values, **found})
            k = k.fn
        return found

    def _configure(self, configs, values, found):
        "Take the first config, and print that once"
        config = configs[0]
        if clash := [name for name in config.kwargs if name in values]:
            raise self._wrong(f'{self.__name__}: {", ".join(clash)} is passed, but autotune chooses it')
        found.update(config.kwargs)
        if getattr(config, 'pre_hook', None):
            config.pre_hook({**values, **found})
        if not self._printed and len(configs) > 1:
            self._printed = True
            shown = ', '.join(f'{k}={v}' for k, v in config.kwargs.items())
            which = f'the first of {len(configs)} configs, {shown}'
            print(f'gridstride: {self.__name__} runs with {which}: nothing is timed here')

    def _grid(self, grid, values):
        given = grid(values) if callable(grid) else grid
        given = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        integers = [size for size in given if isinstance(size, (int, np.integer)) and not isinstance(size, bool)]
        if len(integers) != len(given) or not 1 <= len(given) <= 3 or any(size < 0 for size in integers):
            raise _launch('program_grid', self.__name__, given=repr(given))
        sizes = tuple(int(size) for size in given) + (1,) * (3 - len(given))
        for axis, most in enumerate((2**31 - 1, 65535, 65535)):
            if sizes[axis] > most:
                shown = f'{sizes}, and axis {axis} has {most} programs at most'
                raise _launch('program_grid', self.__name__, given=shown)
        return sizes


class _Compiled:
    "A substitute for a compiled kernel: nothing was compiled, so its register and shared memory counts are made up"

    n_regs, n_spills, n_max_threads = 32, 0, 1024

    def __init__(self, kernel):
        self.kernel = kernel
        self.name = kernel.__name__
        self.asm = {}
        self.metadata = SimpleNamespace(name=self.name, shared=1024, num_warps=4, num_stages=3, num_ctas=1)

    def __getitem__(self, grid):
        return self.kernel[grid]

    def _init_handles(self):
        pass


def _launch(code, kernel, **fields):
    return exception_of('launch', code, 'triton', fields, Location(kernel=kernel))


def _is_constexpr(annotation):
    name = annotation if isinstance(annotation, str) else getattr(annotation, '__name__', '')
    return 'constexpr' in name or getattr(annotation, '__name__', '') == 'const'


def _unspecialized(jitted):
    "Return the names of the arguments for which Triton does not specialize the kernel on their value"
    return {p.name for p in getattr(jitted, 'params', ()) if getattr(p, 'do_not_specialize', False)}


def checked(
    kernel,  # a function under `@triton.jit`, or under autotune or heuristics above it
) -> Checked:
    """Wrap a kernel to launch it on the CPU with every check: `checked(k)[grid](*args)`.

    Raises `TypeError` for an object that is not a kernel."""
    if isinstance(kernel, Checked):
        return kernel
    if not callable(function_of(kernel)):
        raise TypeError(f'{kernel!r} is not a kernel: checked() takes a function under @triton.jit')
    return Checked(kernel)


class _Launch:
    "One launch: converts arguments to pointers and scalars, then runs the programs one after the other"

    def __init__(self, kernel, sizes, values):
        self.kernel, self.sizes = kernel, sizes
        self.run_ = Run(kernel, sizes, settings)
        self.bound = Bound()
        self.f = self.bound.function(kernel.python)
        self.args = [self._convert_argument(k, v) for k, v in values.items()]

    def _convert_argument(self, k, v):
        if is_array(v):
            if k in self.kernel.constants:
                raise WrongArgument(f'{k} is a tl.constexpr, but an array is passed for it')
            return wrap(v, k, self.run_.regions)
        if k in self.kernel.constants or v is None or isinstance(v, str):
            return self.bound.value(v)
        if isinstance(v, (np.integer, np.floating, np.bool_)):
            v = v.item()
        if isinstance(v, (bool, int, float)):
            return self._convert_number(k, v)
        if isinstance(v, tuple):
            found = [self._convert_argument(k, element) for element in v]
            return type(v)(*found) if hasattr(v, '_fields') else tuple(found)
        return self._convert_other(k, v)

    def _convert_number(self, k, v):
        "Convert a number argument to fp32, int32 or int64; Triton specializes a kernel on the number 1"
        if type(v) is int and v == 1 and k not in self.kernel.unspecialized:
            return const(1)
        narrow = type(v) is bool or type(v) is int and -(2**31) <= v < 2**31 or type(v) is int and v >= 2**63
        return scalar(v, to_dtype('float32' if isinstance(v, float) else 'int64') if not narrow else None)

    def _convert_other(self, k, v):
        if hasattr(v, 'block_shape') and hasattr(v, 'base'):
            return from_host(v, k, self.run_.regions)
        try:
            return to_dtype(v)
        except TypeError:
            pass
        if callable(v):
            return self.bound.value(v)
        raise WrongArgument(f'{k} is {type(v).__name__}; a kernel takes arrays of NumPy or torch, numbers and types')

    def positions(self):
        "Return the program ids, in the order in which programs run"
        x, y, z = self.sizes
        found = [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]
        if settings.order == 'reverse':
            found.reverse()
        elif settings.order == 'shuffle':
            random.Random(settings.seed).shuffle(found)
        return found

    def run(self):
        "Run all programs"
        run = self.run_
        run.positions = self.positions()
        run.first = 0
        run.pending = iter(enumerate(run.positions))
        run.begin_program = self.begin_program
        run.trace = recorder()
        if run.trace:
            run.trace.begin(run)
        before = enter(run)
        try:
            with np.errstate(all='ignore'):
                while self.begin_program():
                    pass
        finally:
            enter(before)

    def begin_program(self):
        "Start the next program; returns False if there is none left"
        run = self.run_
        number, position = next(run.pending, (None, None))
        if number is None:
            return False
        run.number, run.program, run.start, run.acquired = number, position, len(run.stamps), ()
        run.undef_line, run.before = 0, None
        run.fence()
        run.in_time()
        if run.trace:
            run.trace.program()
        try:
            self.f(*self.args)
        except TypeError as e:
            raise not_begun(e) from e.__cause__
        return True
