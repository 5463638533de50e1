"""`Expressions`: writes an expression, and records the helpers, headers and constants that it needs."""

import re

from ..types import C_NAMES
from .arithmetic import Arithmetic
from .calls import Calls
from .conditions import Conditions
from .conversions import Conversions, SinglePrecision
from .elements import Elements
from .helpers import HELPERS
from .literals import Literals
from .text import Text


# Writing an expression also records the helpers, headers and constants that it needs.
class Expressions(Literals, Conversions, SinglePrecision, Arithmetic, Conditions, Elements, Calls):
    "Write the expressions of a unit whose types are final: `write(e)` returns a `Text`"

    def __init__(self, unit, ranges):
        self.unit, self.ranges = unit, ranges
        # what the written text needs
        self.helpers = {}
        self.headers = set()
        self.globals = {}
        self.macros = set()
        self.result_unused = False  # whether the result of an atomic operation is unused
        # Expressions that are made here are kept alive, because their intervals are looked up by `id`
        self.generated_exprs = []

    def helper_name(self, name, type=''):
        "Record that the helper `name` is needed for values of C's type `type`, and return its name"
        text = re.sub(r'\bT\b', type, HELPERS[name])
        if type == 'float':
            text = re.sub(r'\b(fmod|copysign|floor)\(', r'\1f(', text)
        self.helpers.setdefault((name, type), text)
        return name

    def element_type(self, dtype):
        "Return C's type of the elements of an array: 'float'"
        if dtype in ('float16', 'bfloat16'):
            self.headers.add('cuda_fp16.h' if dtype == 'float16' else 'cuda_bf16.h')
        return C_NAMES[dtype]

    def write(self, expr, low=False) -> Text:
        "Write `expr` as C; `low`: only the low 32 bits of an integer matter"
        write = getattr(self, '_expr_' + expr.op)
        return write(expr, low) if expr.op in _TAKES_LOW else write(expr)

    def text(self, expr, low=False):
        "Write `expr` as C; returns only the string"
        return self.write(expr, low).text

    def interval(self, expr):
        "Return the interval of `expr`"
        return self.ranges.of(expr)


_TAKES_LOW = {'add', 'sub', 'mul', 'cast', 'neg'}
