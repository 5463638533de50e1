"""Emits conditions, comparisons and the conditional operator."""

from ..intervals import INT32_RANGE, comparison_rounds, is_within
from ..tree import Expr
from ..operations import NEGATED_COMPARISON, SWAPPED_COMPARISON
from ..types import BOOL, C_NAMES, DOUBLE, FLOAT, INT64, FLOATS, UINT64, INTEGERS, arithmetic_type
from .code import (
    AND,
    CONDITIONAL,
    CONVERSION_RANK,
    EQUAL,
    LESS,
    OR,
    PRIMARY,
    PROMOTED,
    UNARY,
    Code,
    binary_code,
    parenthesize,
)


# In Python, every number can be a condition, and `and` and `or` return one of their operands.
class Conditions:
    "Emits conditions, comparisons and conditional operators"

    def condition(self, expr):
        "Emit `expr` as a condition: `x != 0`, or `i` itself"
        if expr.op == 'truth':
            return self.condition(expr.args[0]) if expr.args[0].type != BOOL else self.emit(expr.args[0])
        if expr.op == 'flag':
            return self.emit(expr.args[0])
        if expr.type == BOOL:
            return self.emit(expr)
        if expr.op in ('value_land', 'value_lor'):
            return self.connective(expr, 'land' if expr.op == 'value_land' else 'lor')
        t = self.emit(expr)
        if expr.type in FLOATS:
            return Code(
                binary_code('!=', t if t.type != '__half' else self.cast(t, 'float'), Code('0', PRIMARY, 'int'), EQUAL),
                EQUAL,
                'bool',
            )
        return (
            t
            if expr.op in ('var', 'and', 'call')
            else Code(binary_code('!=', t, Code('0', PRIMARY, 'int'), EQUAL), EQUAL, 'bool')
        )

    def _expr_truth(self, expr):
        t = self.condition(expr.args[0])
        return t if t.type == 'bool' else Code(binary_code('!=', t, Code('0', PRIMARY, 'int'), EQUAL), EQUAL, 'bool')

    def _expr_flag(self, expr):
        return Code(binary_code('!=', self.emit(expr.args[0]), Code('0', PRIMARY, 'int'), EQUAL), EQUAL, 'bool')

    def _expr_not(self, expr):
        a = expr.args[0]
        if a.op == 'cmp' and all(operand.type in INTEGERS for operand in a.args):
            return self._expr_cmp(a, NEGATED_COMPARISON[a.value])
        return Code(f'!{parenthesize(self.condition(a))}', UNARY, 'bool')

    def connective(self, expr, op):
        "Emit `a && b` or `a || b`"
        symbol, precedence = ('&&', AND) if op == 'land' else ('||', OR)
        a, b = (self.condition(operand) for operand in expr.args)
        return Code(binary_code(symbol, a, b, precedence, b.precedence == precedence), precedence, 'bool')

    def _expr_land(self, expr):
        return self.connective(expr, 'land')

    def _expr_lor(self, expr):
        return self.connective(expr, 'lor')

    def _expr_value_land(self, expr):
        return self.connective_value(expr, lambda a, b: (b, a))

    def _expr_value_lor(self, expr):
        return self.connective_value(expr, lambda a, b: (a, b))

    def connective_value(self, expr, order_operands):
        "Emit `a and b` or `a or b` of scalars: `a ? b : a` or `a ? a : b`, as `order_operands(a, b)` orders them"
        a, b = expr.args
        test = self.condition(a)
        if expr.value is not None:
            first = self.record_interval(Expr('let', a.type, (a,), expr.value), self.interval(a))
            test, a = (
                self.condition(first),
                self.record_interval(Expr('var', a.type, value=expr.value), self.interval(a)),
            )
        select = self.record_interval(Expr('select', expr.type, (None, *order_operands(a, b))), self.interval(expr))
        return Code(*self.conditional(select, C_NAMES[expr.type] if expr.type in FLOATS else None, test))

    def _expr_select(self, expr):
        return Code(*self.conditional(expr, C_NAMES[expr.type] if expr.type in FLOATS else None))

    def conditional(self, expr, type, test=None):
        "Return the fields of the `Code` of `test ? a : b`, in the C type `type`, or in one that holds both values"
        test = test or self.condition(expr.args[0])
        a, b = (self.emit(operand) if type is None else self.as_type(operand, type) for operand in expr.args[1:])
        if type is None:
            types = {a.type, b.type}
            if 'unsigned long long' in types:
                type = 'unsigned long long' if expr.type == UINT64 else 'long long'
                a, b = (self.as_type(operand, type) for operand in expr.args[1:])
            elif 'unsigned int' in types and len(types) > 1 and 'long long' not in types:
                type = 'int' if is_within(self.interval(expr), INT32_RANGE) else 'long long'
                a, b = (self.cast(t, type) if t.type == 'unsigned int' else t for t in (a, b))
                if type == 'long long':
                    a = self.cast(a, type)
            else:
                type = max(types, key=CONVERSION_RANK.get)
        return f'{parenthesize(test, OR)} ? {parenthesize(a, CONDITIONAL)} : {b.text}', CONDITIONAL, type

    def _expr_let(self, expr):
        return Code(
            f'({expr.value.c_name} = {self.convert_for_assignment(expr.args[0], expr.value.c_type).text})',
            PRIMARY,
            PROMOTED.get(expr.value.c_type, expr.value.c_type),
        )

    def _expr_cmp(self, expr, op=None):
        op = op or expr.value
        precedence = EQUAL if op in ('==', '!=') else LESS
        a, b = expr.args
        if a.type in INTEGERS and b.type in INTEGERS:
            return self.compare(op, precedence, a, b)
        x, y = self.exact_in_float32(a), self.exact_in_float32(b)
        if self.unit.numba_types and x is not None and y is not None:
            a, b = x, y
        type = C_NAMES[self.comparison_type(a, b)]
        left, right = (
            self.operands_in((a, b), type) if type != '__half' else (self.as_type(a, type), self.as_type(b, type))
        )
        for operand, n in ((a, 0), (b, 1)):
            if operand.op == 'const' and operand.type == INT64 and abs(operand.value) < 2**24:
                left, right = (
                    (self.integer_literal(int(operand.value)), right),
                    (left, self.integer_literal(int(operand.value))),
                )[n]
        return Code(binary_code(op, left, right, precedence), precedence, 'bool')

    def comparison_type(self, a, b):
        "Return the type in which two floats are compared: a constant is converted to the type of the other"
        if not self.unit.numba_types:
            if a.op == 'const' and b.type in (FLOAT, DOUBLE):
                return b.type
            if b.op == 'const' and a.type in (FLOAT, DOUBLE):
                return a.type
        return arithmetic_type(a.type, b.type, self.unit.numba_types)

    def compare(self, op, precedence, a, b):
        "Emit a comparison of integers, with casts where C would convert an operand to another value"
        if comparison_rounds(a, b, self.interval):  # Numba compares a uint64 and a signed integer as float64
            left, right = (self.as_type(operand, 'double') for operand in (a, b))
            return Code(binary_code(op, left, right, precedence), precedence, 'bool')
        left, right = self.emit(a), self.emit(b)
        types = {left.type, right.type}
        if (
            'unsigned long long' in types
            and types != {'unsigned long long'}
            and not any(operand.op == 'const' and operand.value >= 0 for operand in (a, b))
        ):
            return self.compare_mixed(op, precedence, a, b, left, right)
        if 'unsigned int' in types and types <= {'unsigned int', 'int', 'bool'} and types != {'unsigned int'}:
            constant, op_constant = (b, op) if b.op == 'const' else (a, SWAPPED_COMPARISON[op])
            if constant.op == 'const' and (
                constant.value > 0 or constant.value == 0 and op_constant not in ('<', '>=')
            ):
                pass
            elif all(is_within(self.interval(operand), INT32_RANGE) for operand in (a, b)):
                left, right = (
                    self.cast(text, 'int') if text.type == 'unsigned int' else text for text in (left, right)
                )
            else:
                left, right = (
                    self.cast(text, 'long long') if text.type == 'unsigned int' else text for text in (left, right)
                )
        return Code(binary_code(op, left, right, precedence), precedence, 'bool')

    def compare_mixed(self, op, precedence, a, b, left, right):
        "Emit a comparison of an unsigned 64-bit integer with an integer that may be negative"
        if self.interval(a)[0] >= 0 and self.interval(b)[0] >= 0:
            return Code(
                binary_code(
                    op, self.as_type(a, 'unsigned long long'), self.as_type(b, 'unsigned long long'), precedence
                ),
                precedence,
                'bool',
            )
        if left.type == 'unsigned long long':
            return self.compare_mixed(SWAPPED_COMPARISON[op], precedence, b, a, right, left)
        comparison = Code(
            binary_code(op, self.as_type(a, 'unsigned long long'), self.emit(b), precedence), precedence, 'bool'
        )
        negative = Code(binary_code('<', self.emit(a), Code('0', PRIMARY, 'int'), LESS), LESS, 'bool')
        if op in ('<', '<=', '!='):
            return Code(binary_code('||', negative, comparison, OR), OR, 'bool')
        return Code(
            binary_code(
                '&&',
                Code(binary_code('>=', self.emit(a), Code('0', PRIMARY, 'int'), LESS), LESS, 'bool'),
                comparison,
                AND,
            ),
            AND,
            'bool',
        )
