"""A kernel or device function, read from its source and rewritten for lanes."""

import ast

import numpy as np

from ..diagnostics.errors import NotSimulated
from ..support.function_source import SourceMissing, source_of
from .arithmetic import as_numba
from .constants import check_constants, outside, outer_names_read
from .definition import definition
from .memory import freeze
from .operations import Operations
from .records import freeze_records
from .rewrite import rewrite_function, rewriter_of
from .spin_wait import may_spin, meets_grid
from .trees import settle

__all__ = ['Program']


def _unreadable_source(f):
    what = 'a kernel whose source cannot be read; define it in a file or in a notebook cell'
    return NotSimulated(what, kernel=f.__name__)


def _read(f):
    "Return (source, file, first line number) of a function; raises `NotSimulated` if there is none"
    try:
        source = source_of(f)
    except SourceMissing:
        raise _unreadable_source(f) from None
    return source.text, source.file, source.first


def _definition(src, f):
    "Return the `def` of a function"
    if (fn := definition(src, f)) is None:
        if f.__code__.co_filename == '<string>':  # of `exec`: Python 3.13 takes it for the text after `python -c`
            raise _unreadable_source(f)
        what = 'a kernel is a function made with def, or by the one lambda with its parameters that a line has'
        raise NotSimulated(what, kernel=f.__name__)
    return fn


class Program:
    """A kernel or device function, rewritten for lanes: `Program(f)(run, m, *args)`; `.text` shows the result.

    If it `may_spin`, to wait for other blocks, it is a generator."""

    def __init__(self, f, kernel=False):
        src, file, first = _read(f)
        fn = _definition(src, f)
        self.may_spin, self.meets_grid = may_spin(fn, f), kernel and meets_grid(fn, f)
        rewriter = rewriter_of(f.__name__, file, src.splitlines(), first - 1, self.may_spin, kernel)
        names = outside(f)
        check_constants(fn, {k: names[k] for k in outer_names_read(f) & names.keys()}, kernel, rewriter.fail)
        self.tree = settle(rewrite_function(fn, rewriter), first - 1)
        self.file = file
        self.f = f
        self.name = f.__name__
        self.kernel = kernel
        self.run = self._compile(file, rewriter.consts)
        self.sites = rewriter.sites
        self.params = [arg.arg for arg in fn.args.args]
        self.defaults = f.__defaults__ or ()

    @property
    def text(self):
        "The rewritten function as Python source"
        return ast.unparse(self.tree)

    def _compile(self, file, consts):
        "Compile the rewritten function, with the globals of `f`, its constants, and the operations"
        space = {**_names(self.f), **consts, '__gs': Operations}
        name = self.tree.body[0].name
        own = {k: v for k, v in space.items() if k == name}
        exec(compile(self.tree, file, 'exec'), space)
        made = space.pop(name)
        space.update(own)  # a recursive call means the device function
        return made

    def __call__(self, run, m, *args, **kw):
        return self.call(run, m, None, args, kw)

    def call(self, run, m, site, args, kw):
        "Call it from a site of the running function, or as a kernel if the site is None"
        others = self.params[len(args) :]
        given = {**dict(zip(self.params[::-1], map(as_numba, self.defaults[::-1]))), **kw}
        if len(args) > len(self.params) or set(kw) - set(others) or set(others) - set(given):
            raise TypeError(f'{self.name} takes ({", ".join(self.params)})')
        args = (*args, *(given[k] for k in others))
        callers = () if site is None else (run.program.sites[site], *run.callers)
        if self.may_spin:
            return self.steps(run, m, callers, *args)
        outer = run.program, run.callers
        run.program, run.callers = self, callers
        try:
            return self.run(run, m, self.kernel, *args)
        finally:
            run.program, run.callers = outer

    def steps(self, run, m, callers, *args):
        "Run a call that yields where it waits for other blocks"
        outer = run.program, run.callers
        run.program, run.callers = self, callers
        res = yield from self.run(run, m, self.kernel, *args)
        run.program, run.callers = outer
        return res


def _names(f):
    "Return {name: value} of the globals and closure of `f`; numbers are typed, and arrays frozen, as in Numba"
    used = outer_names_read(f)
    return {k: _as_kernel_value(k, v) if k in used else v for k, v in outside(f).items()}


def _as_kernel_value(name, v):
    "Convert a value from outside the kernel to what the kernel sees"
    if isinstance(v, np.ndarray) and v.dtype.names:
        return freeze_records(v, name)
    if isinstance(v, np.ndarray) and v.ndim and v.dtype.kind in 'biufc':
        return freeze(v, name)
    return as_numba(v)
