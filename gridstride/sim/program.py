"""A kernel or device function, vectorized: its source is rewritten to run in all lanes at once."""

import ast

import numpy as np

from ..diagnostics.errors import NotSimulated
from ..support.function_source import SourceMissing, source_of
from .arithmetic import as_numba
from .constants import check_constants, outer_values, outer_names_read
from .definition import definition
from .memory import freeze_array
from .operations import Operations
from .records import freeze_records
from .rewrite import rewrite_function, rewriter_of
from .spin_wait import may_spin, uses_this_grid
from .thread_dependence import index_depends_on_thread
from .trees import fix_locations

__all__ = ['Program']


def _unreadable_source(fn):
    problem = 'the source of the kernel cannot be read; define the kernel in a file or in a notebook cell'
    return NotSimulated(problem, kernel=fn.__name__)


def _read_source(fn):
    "Return (source, file, first line number) of a function; raises `NotSimulated` if there is none"
    try:
        source = source_of(fn)
    except SourceMissing:
        raise _unreadable_source(fn) from None
    return source.text, source.file, source.first_line


def _definition(source, fn):
    "Return the `def` of a function as a syntax tree; raises `NotSimulated` if there is none"
    if (tree := definition(source, fn)) is None:
        if fn.__code__.co_filename == '<string>':  # made by `exec`; Python 3.13 returns the source of `python -c` here
            raise _unreadable_source(fn)
        problem = 'a kernel must be defined with def, or be the only lambda on its line with its parameters'
        raise NotSimulated(problem, kernel=fn.__name__)
    return tree


# Packages make many device functions with different closures from one `def`. The rewritten code does not depend on the
# values of the closure, so these functions share it.
_MAX_REWRITTEN = 1000
_rewritten = {}  # (code of a function, its source, ...) -> result of `_rewrite`


def _rewrite_cached(py_func, source, function_node, rewriter):
    "Return the result of `_rewrite` for a function, cached per code object and source"
    key = (py_func.__code__, py_func.__name__, rewriter.file, source, rewriter.offset)
    key += rewriter.may_spin, rewriter.is_kernel
    if key not in _rewritten:
        if len(_rewritten) == _MAX_REWRITTEN:
            _rewritten.clear()
        _rewritten[key] = _rewrite(function_node, rewriter)
    return _rewritten[key]


def _rewrite(function_node, rewriter):
    "Vectorize a function; returns (its syntax tree, its code, the constants that it uses, its sites)"
    tree = fix_locations(rewrite_function(function_node, rewriter), rewriter.offset)
    return tree, compile(tree, rewriter.file, 'exec'), rewriter.constants, rewriter.sites


class Program:
    """A kernel or device function, vectorized: rewritten to run in all lanes at once.

    `Program(f)(ctx, active, *args)` runs it in the lanes of `active`; `.text` is the rewritten source. A function that
    `may_spin`, because it waits for other blocks, becomes a generator."""

    def __init__(self, py_func, is_kernel=False):
        source, file, first_line = _read_source(py_func)
        function_node = _definition(source, py_func)
        self.may_spin, self.uses_this_grid = (
            may_spin(function_node, py_func),
            is_kernel and uses_this_grid(function_node, py_func),
        )
        values = outer_values(py_func)
        values_read = {name: values[name] for name in outer_names_read(py_func) & values.keys()}
        rewriter = rewriter_of(py_func.__name__, file, source.splitlines(), first_line - 1, self.may_spin, is_kernel)
        check_constants(function_node, values_read, is_kernel, rewriter.fail)
        self.params = [arg.arg for arg in function_node.args.args]
        self.tree, code, constants, self.sites = _rewrite_cached(py_func, source, function_node, rewriter)
        self.file = file
        self.py_func = py_func
        self.name = py_func.__name__
        self.is_kernel = is_kernel
        self.lane_function = self._bind(code, constants)
        self.defaults = py_func.__defaults__ or ()

    @property
    def text(self):
        "The rewritten function as Python source"
        return ast.unparse(self.tree)

    def index_depends_on_thread(self, site):
        "Return whether the index of the access at a site depends on the thread that executes it"
        source, _, first_line = _read_source(self.py_func)
        line = self.sites[site].line - first_line + 1
        return index_depends_on_thread(_definition(source, self.py_func), line, self.sites[site].col)

    def _bind(self, code, constants):
        "Make the rewritten function in a namespace with the globals and closure of the original, and the operations"
        namespace = {**_outer_kernel_values(self.py_func), **constants, '__gs': Operations}
        name = self.tree.body[0].name
        value_of_outer_name = {k: v for k, v in namespace.items() if k == name}
        exec(code, namespace)
        function = namespace.pop(name)
        namespace.update(value_of_outer_name)  # a recursive call resolves to the device function
        return function

    def __call__(self, ctx, active, *args, **kw):
        return self.call(ctx, active, None, args, kw)

    def call(self, ctx, active, site, args, keywords):
        "Call the program from the running function at `site`, which is None for the launch of a kernel"
        if keywords or len(args) != len(self.params):
            args = self._complete(args, keywords)
        call_sites = () if site is None else (ctx.program.sites[site], *ctx.call_sites)
        if self.may_spin:
            return self.run_steps(ctx, active, call_sites, *args)
        caller_state = ctx.program, ctx.call_sites
        ctx.program, ctx.call_sites = self, call_sites
        try:
            return self.lane_function(ctx, active, self.is_kernel, *args)
        finally:
            ctx.program, ctx.call_sites = caller_state

    def _complete(self, args, keywords):
        "Return one argument per parameter: those of the call, and defaults; raises `TypeError` for a mismatch"
        other_params = self.params[len(args) :]
        values = {**dict(zip(self.params[::-1], map(as_numba, self.defaults[::-1]))), **keywords}
        if len(args) > len(self.params) or set(keywords) - set(other_params) or set(other_params) - set(values):
            raise TypeError(f'wrong arguments for {self.name}; its parameters are ({", ".join(self.params)})')
        return *args, *(values[name] for name in other_params)

    def run_steps(self, ctx, active, call_sites, *args):
        "Run a call as a generator, which yields while it waits for other blocks"
        caller_state = ctx.program, ctx.call_sites
        ctx.program, ctx.call_sites = self, call_sites
        result = yield from self.lane_function(ctx, active, self.is_kernel, *args)
        ctx.program, ctx.call_sites = caller_state
        return result


def _outer_kernel_values(fn):
    "Return {name: value} of the globals and the closure of `fn`; the values that `fn` reads are converted for kernels"
    names_read = outer_names_read(fn)
    return {
        name: _as_kernel_value(name, value) if name in names_read else value for name, value in outer_values(fn).items()
    }


def _as_kernel_value(name, value):
    "Convert a value from outside the kernel: numbers to Numba's types, arrays to constants"
    if isinstance(value, np.ndarray) and value.dtype.names:
        return freeze_records(value, name)
    if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in 'biufc':
        return freeze_array(value, name)
    return as_numba(value)
