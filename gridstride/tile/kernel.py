"""Launches kernels decorated with `@triton.jit` on the CPU, with every check: `checked(kernel)[grid](...)`."""

import inspect
import random
from functools import cached_property
from types import SimpleNamespace

import numpy as np

from ..diagnostics.errors import Location, WrongArgument, exception_of
from ..diagnostics.settings import settings, shuffle
from .block import scalar
from .descriptors import from_host
from .memory import is_array, make_pointer
from .rebind import BoundFunctions, function_of, unwrap
from .run import LaunchContext, set_current, located_type_error
from .trace import recorder
from .tuning import run_tuned, tuner_of
from .types import const, to_dtype

__all__ = ['checked', 'CheckedKernel', 'COMPILER_OPTIONS']

# Compiler options that a launch may pass
COMPILER_OPTIONS = (
    'num_warps num_stages num_ctas maxnreg enable_fp_fusion grid warmup debug sanitize_overflow stream extern_libs '
    'launch_cooperative_grid launch_pdl allow_fp8e4nv supported_fp8_dtypes default_dot_input_precision cluster_dims '
    'max_num_imprecise_acc_default ptx_version waves_per_eu matrix_instr_nonkdim kpack noinline '
    'num_buffers_warp_spec num_consumer_groups reg_dec_producer reg_inc_consumer instrumentation_mode'
).split()


class CheckedKernel:
    "A kernel that runs on the CPU with every check: `kernel[grid](*arguments, **constants)`"

    def __init__(self, kernel):
        self.kernel = kernel  # may be wrapped by autotune or heuristics
        self.py_func = function_of(kernel)
        self.__name__ = self.py_func.__name__
        self.__doc__ = self.py_func.__doc__
        self.__module__ = self.py_func.__module__
        self.signature = inspect.signature(self.py_func)
        self.arg_names = list(self.signature.parameters)
        self.constexpr_names = {
            name for name, parameter in self.signature.parameters.items() if _is_constexpr(parameter.annotation)
        }
        self.unspecialized_names = _unspecialized_names(self.jitted)
        self._has_printed_config = False
        self._tuned_keys = set()

    fn = property(
        lambda self: self.py_func if unwrap(self.kernel) is self.kernel else checked(self.kernel.fn),
        doc='the Python function; for a kernel decorated with autotune or heuristics, the kernel that they wrap',
    )
    jitted = property(lambda self: unwrap(self.kernel), doc='the function decorated with @triton.jit, for other tools')

    def __repr__(self):
        return f'<checked kernel {self.__name__}>'

    def __getitem__(self, grid):
        return lambda *args, **meta: self.run(*args, grid=grid, **meta)

    def __getattr__(self, k):  # configs, best_config, keys, ...
        if k.startswith('__') or k == 'kernel':
            raise AttributeError(k)
        return getattr(self.kernel, k)

    def warmup(self, *args, grid, **meta):
        "Check the arguments; Triton would compile the kernel"
        return self.run(*args, grid=grid, warmup=True, **meta)

    def __call__(self, *args, **meta):
        raise self._argument_error(f'{self.__name__} is called without a grid: {self.__name__}[grid](...)')

    def run(self, *args, grid, warmup=False, **meta):
        "Launch the kernel: run one program per position in the grid; returns a substitute for the compiled kernel"
        values = self._bind_arguments(args, meta)
        sizes = self._evaluate_grid(grid, values)
        if warmup:
            return self._compiled_kernel
        launch = _Launch(self, sizes, values)
        tuner = tuner_of(self.kernel, values, self._tuned_keys)
        if tuner:
            run_tuned(tuner, launch, values, lambda: _Launch(self, sizes, self._bind_arguments(args, meta)))
        else:
            launch.run()
        return self._compiled_kernel

    @cached_property
    def _compiled_kernel(self):
        return _CompiledKernel(self)

    def _argument_error(self, problem):
        return _launch_error('program_arguments', self.__name__, problem=problem, signature=', '.join(self.arg_names))

    def _bind_arguments(self, args, meta):
        "Return {name: value} of all arguments, including those that the first config and heuristics choose"
        keywords = {
            name: value for name, value in meta.items() if name in self.arg_names or name not in COMPILER_OPTIONS
        }
        try:
            values = self.signature.bind_partial(*args, **keywords).arguments
        except TypeError as error:
            raise self._argument_error(f'{self.__name__}: {error}') from None
        num_warps = meta.get('num_warps', 4)
        if 'num_warps' not in self.arg_names and num_warps not in (1, 2, 4, 8, 16, 32):
            raise self._argument_error(
                f'{self.__name__}: num_warps must be a power of 2, at most 32; got {num_warps!r}'
            )
        values = {**values, **self._choose_constants(values)}
        for name, parameter in self.signature.parameters.items():
            if name not in values and parameter.default is not parameter.empty:
                values[name] = parameter.default
        if missing_names := [name for name in self.arg_names if name not in values]:
            raise self._argument_error(f'{self.__name__}: missing arguments {", ".join(missing_names)}')
        return {name: values[name] for name in self.arg_names}

    def _choose_constants(self, values):
        "Return {name: value} of the constants that autotune and heuristics choose; for autotune, of the first config"
        kernel = self.kernel
        constants = {}
        while unwrap(kernel) is not kernel:
            if getattr(kernel, 'configs', None):
                self._apply_first_config(kernel.configs, values, constants)
            if isinstance(getattr(kernel, 'values', None), dict):
                for name, f in kernel.values.items():
                    constants[name] = f({**values, **constants})
            kernel = kernel.fn
        return constants

    def _apply_first_config(self, configs, values, constants):
        "Add the constants of the first config, and print its name once"
        config = configs[0]
        if conflicts := [name for name in config.kwargs if name in values]:
            raise self._argument_error(f'{self.__name__}: {", ".join(conflicts)} is passed, but autotune chooses it')
        constants.update(config.kwargs)
        if getattr(config, 'pre_hook', None):
            config.pre_hook({**values, **constants})
        if not self._has_printed_config and len(configs) > 1:
            self._has_printed_config = True
            constants_text = ', '.join(f'{name}={value}' for name, value in config.kwargs.items())
            config_text = f'the first of {len(configs)} configs, {constants_text}'
            print(f'gridstride: {self.__name__} runs with {config_text}: nothing is timed here')

    def _evaluate_grid(self, grid, values):
        "Return the three sizes of the grid, which may be a function of the arguments; raises `LaunchError` if invalid"
        grid = grid(values) if callable(grid) else grid
        grid = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
        integers = [size for size in grid if isinstance(size, (int, np.integer)) and not isinstance(size, bool)]
        if len(integers) != len(grid) or not 1 <= len(grid) <= 3 or any(size < 0 for size in integers):
            raise _launch_error('program_grid', self.__name__, given=repr(grid))
        sizes = tuple(int(size) for size in grid) + (1,) * (3 - len(grid))
        for axis, limit in enumerate((2**31 - 1, 65535, 65535)):
            if sizes[axis] > limit:
                raise _launch_error(
                    'program_grid', self.__name__, given=f'{sizes}, but axis {axis} has {limit} programs at most'
                )
        return sizes


class _CompiledKernel:
    "A substitute for a compiled kernel: nothing is compiled, so its register and memory counts are placeholders"

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

    def _ipython_display_(self):
        "Show nothing below a cell that ends with a launch"


def _launch_error(code, kernel, **fields):
    return exception_of('launch', code, 'triton', fields, Location(kernel=kernel))


def _is_constexpr(annotation):
    name = annotation if isinstance(annotation, str) else getattr(annotation, '__name__', '')
    return 'constexpr' in name or getattr(annotation, '__name__', '') == 'const'


def _unspecialized_names(jitted):
    "Return the names of the arguments for whose values Triton does not specialize the kernel"
    return {
        parameter.name for parameter in getattr(jitted, 'params', ()) if getattr(parameter, 'do_not_specialize', False)
    }


def checked(
    kernel,  # a function decorated with `@triton.jit`, and optionally with autotune or heuristics
) -> CheckedKernel:
    """Wrap a kernel to launch it on the CPU with every check: `checked(k)[grid](*args)`.

    Raises `TypeError` for an object that is not a kernel."""
    if isinstance(kernel, CheckedKernel):
        return kernel
    if not callable(function_of(kernel)):
        raise TypeError(f'{kernel!r} is not a kernel: checked() takes a function decorated with @triton.jit')
    return CheckedKernel(kernel)


class _Launch:
    "One launch: converts arguments to pointers and scalars, then runs the programs one after the other"

    def __init__(self, kernel, sizes, values):
        self.kernel, self.sizes = kernel, sizes
        self.ctx = LaunchContext(kernel, sizes, settings)
        self.bound_functions = BoundFunctions()
        self.function = self.bound_functions.function(kernel.py_func)
        with np.errstate(invalid='ignore'):  # uninitialized memory may contain signaling NaNs
            self.args = [self._convert_argument(name, value) for name, value in values.items()]

    def _convert_argument(self, name, value):
        "Convert an argument: an array becomes a pointer, a number a scalar of the kernel or a constant"
        if is_array(value):
            if name in self.kernel.constexpr_names:
                raise WrongArgument(f'{name} is a tl.constexpr, but an array is passed for it')
            return make_pointer(value, name, self.ctx.regions)
        if name in self.kernel.constexpr_names or value is None or isinstance(value, str):
            return self.bound_functions.value(value)
        if isinstance(value, (np.integer, np.floating, np.bool_)):
            value = value.item()
        if isinstance(value, (bool, int, float)):
            return self._convert_number(name, value)
        if isinstance(value, tuple):
            elements = [self._convert_argument(name, element) for element in value]
            return type(value)(*elements) if hasattr(value, '_fields') else tuple(elements)
        return self._convert_other(name, value)

    def _convert_number(self, name, value):
        "Convert a number to fp32, int32 or int64, or to a constant if it is 1: Triton specializes a kernel for 1"
        if type(value) is int and value == 1 and name not in self.kernel.unspecialized_names:
            return const(1)
        is_int = type(value) is int
        if type(value) is bool or is_int and (-(2**31) <= value < 2**31 or value >= 2**63):
            return scalar(value)
        return scalar(value, to_dtype('float32' if isinstance(value, float) else 'int64'))

    def _convert_other(self, name, value):
        "Convert a tensor descriptor, a type or a function"
        if hasattr(value, 'block_shape') and hasattr(value, 'base'):
            return from_host(value, name, self.ctx.regions)
        try:
            return to_dtype(value)
        except TypeError:
            pass
        if callable(value):
            return self.bound_functions.value(value)
        raise WrongArgument(
            f'{name} must be a NumPy array, a torch tensor, a number or a type; got {type(value).__name__}'
        )

    def ordered_program_ids(self):
        "Return the program ids, in the order in which programs run"
        x, y, z = self.sizes
        program_ids = [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]
        if settings.order == 'reverse':
            program_ids.reverse()
        elif settings.order == 'shuffle':
            shuffle(program_ids, random.Random(settings.seed).randrange, settings.swaps)
        return program_ids

    def run(self):
        "Run all programs"
        ctx = self.ctx
        ctx.ordered_program_ids = self.ordered_program_ids()
        ctx.first_program = 0
        ctx.pending_programs = iter(enumerate(ctx.ordered_program_ids))
        ctx.run_next_program = self.run_next_program
        ctx.trace = recorder()
        if ctx.trace:
            ctx.trace.begin_launch(ctx)
        outer_launch = set_current(ctx)
        try:
            with np.errstate(all='ignore'):
                while self.run_next_program():
                    pass
        finally:
            set_current(outer_launch)

    def run_next_program(self):
        "Run the next program; returns False if there is none left"
        ctx = self.ctx
        execution_index, program_id = next(ctx.pending_programs, (None, None))
        if execution_index is None:
            return False
        ctx.execution_index, ctx.program_id, ctx.first_stamp, ctx.acquired_events = (
            execution_index,
            program_id,
            len(ctx.accesses),
            (),
        )
        ctx.masked_load_line, ctx.clock = 0, None
        ctx.fence()
        ctx.check_deadline()
        if ctx.trace:
            ctx.trace.begin_program()
        try:
            self.function(*self.args)
        except TypeError as e:
            raise located_type_error(e) from e.__cause__
        return True
