"""`Expressions`: writes an expression, and records the helpers, headers and constants that it needs."""

import re

from ..types import C_NAMES
from .arithmetic import Arithmetic
from .calls import Calls
from .conditions import Truth
from .conversions import Conversions, SinglePrecision
from .elements import Elements
from .helpers import HELPERS
from .literals import Literals
from .text import Text


# `x` writes an expression; it notes what the expression needs: helpers, headers, constants.
class Expressions(Literals, Conversions, SinglePrecision, Arithmetic, Truth, Elements, Calls):
    "Write the expressions of a unit whose types are settled: `write(e)` gives a `Text`"

    def __init__(self, unit, ranges):
        self.unit, self.ranges = unit, ranges
        # what the text will need
        self.helpers = {}
        self.headers = set()
        self.globals = {}
        self.macros = set()
        self.quiet = False  # is the result of an atomic operation unused?
        self.generated_exprs = []  # expressions that are made here: what is known of one is known by its identity

    def helper_name(self, name, type=''):
        "Note that the helper `name` is needed for values of C's type `type`, and return its name"
        text = re.sub(r'\bT\b', type, HELPERS[name])
        if type == 'float':
            text = re.sub(r'\b(fmod|copysign|floor)\(', r'\1f(', text)
        self.helpers.setdefault((name, type), text)
        return name

    def element(self, dtype):
        "Return C's type of the elements of an array: 'float'"
        if dtype in ('float16', 'bfloat16'):
            self.headers.add('cuda_fp16.h' if dtype == 'float16' else 'cuda_bf16.h')
        return C_NAMES[dtype]

    def write(self, expr, low=False) -> Text:
        "Write `expr` as C; `low`: only the low 32 bits of an integer matter"
        write = getattr(self, '_expr_' + expr.op)
        return write(expr, low) if expr.op in _TAKES_LOW else write(expr)

    def text(self, expr, low=False):
        "Write `expr` as C, a string alone"
        return self.write(expr, low).text

    def interval(self, expr):
        "Return the interval of `expr`"
        return self.ranges.of(expr)


_TAKES_LOW = {'add', 'sub', 'mul', 'cast', 'neg'}
