"""`ExpressionEmitter`: emits an expression, and records the helpers, headers and constants that it needs."""

import re

from ..types import C_NAMES
from .arithmetic import Arithmetic
from .calls import Calls
from .conditions import Conditions
from .conversions import Conversions, SinglePrecision
from .elements import Elements
from .helpers import HELPERS
from .literals import Literals
from .code import Code


class ExpressionEmitter(Literals, Conversions, SinglePrecision, Arithmetic, Conditions, Elements, Calls):
    "Emits the expressions of a unit whose types are final: `emit(expr)` returns a `Code`"

    def __init__(self, unit, ranges):
        self.unit, self.ranges = unit, ranges
        # The helpers, headers, constants and macros that the generated code uses
        self.helpers = {}  # (name, C type) -> definition
        self.headers = set()
        self.globals = {}
        self.macros = set()
        # Whether the statement that is being emitted ignores the result of an atomic operation
        self.result_is_unused = False
        # Expressions that code generation creates; kept alive, because intervals are looked up by `id`
        self.generated_exprs = []

    def helper_name(self, name, type=''):
        "Record that the code uses the helper `name` for values of the C type `type`, and return the name"
        definition = re.sub(r'\bT\b', type, HELPERS[name])
        if type == 'float':
            definition = re.sub(r'\b(fmod|copysign|floor)\(', r'\1f(', definition)
        self.helpers.setdefault((name, type), definition)
        return name

    def element_type(self, dtype):
        "Return the C type of the elements of an array of `dtype`: 'float'"
        if dtype in ('float16', 'bfloat16'):
            self.headers.add('cuda_fp16.h' if dtype == 'float16' else 'cuda_bf16.h')
        return C_NAMES[dtype]

    def emit(self, expr, low_bits_only=False) -> Code:
        "Emit `expr` as C; `low_bits_only`: only the low 32 bits of an integer matter"
        emit = getattr(self, '_expr_' + expr.op)
        return emit(expr, low_bits_only) if expr.op in _TAKE_LOW_BITS_ONLY else emit(expr)

    def text(self, expr, low_bits_only=False):
        "Emit `expr` as C; return only the string"
        return self.emit(expr, low_bits_only).text

    def interval(self, expr):
        "Return the interval of `expr`"
        return self.ranges.recorded_interval(expr)


_TAKE_LOW_BITS_ONLY = {'add', 'sub', 'mul', 'cast', 'neg'}
