"""Emits calls to CUDA functions and device functions, and atomic operations."""

from ..intervals import INT32_RANGE, UINT32_RANGE, is_within
from ..tree import constant_value
from ..types import BOOL, C_NAMES, INT64, FLOATS, UINT64
from .helpers import atomic_helper
from .code import C_INTEGERS, EQUAL, PRIMARY, PROMOTED, UNARY, WIDE_TYPES, Code, binary_code, parenthesize


_NATIVE_ATOMICS = {
    c_type: operations.split()
    for c_type, operations in {
        'int': 'add sub max min exch and or xor cas',
        'unsigned int': 'add sub max min exch and or xor cas inc dec',
        'long long': 'max min',
        'unsigned long long': 'add max min exch and or xor cas',
        'float': 'add',
        'double': 'add',
    }.items()
}  # C type -> those of Numba's atomic operations that CUDA has for it


# An atomic operation that CUDA lacks is expressed by one that it has, or by a compare-and-swap loop.
class Calls:
    "Emits calls to CUDA functions and device functions, and atomic operations"

    def _expr_math(self, expr):
        type = C_NAMES[expr.type]
        args = [
            self.emit(a) if a.op == 'pointer_to' or expr.value == 'ldexp' and n else self.as_type(a, type)
            for n, a in enumerate(expr.args)
        ]
        if expr.value == 'pow' and expr.args[0].type in FLOATS and constant_value(expr.args[1]) == 0.5:
            return Code(f"sqrt{'f' * (type == 'float')}({args[0].text})", PRIMARY, type)
        return Code(f"{expr.value}{'f' * (type == 'float')}({', '.join(a.text for a in args)})", PRIMARY, type)

    def _expr_test_float(self, expr):
        a = self.emit(expr.args[0])
        return Code(f"{expr.value}({self.cast(a, 'float').text if a.type == '__half' else a.text})", PRIMARY, 'bool')

    def _expr_pointer_to(self, expr):
        return Code(f'&{self.emit(expr.args[0]).text}', UNARY, '*')

    def _expr_call(self, expr):
        c = expr.value
        if 'cooperative_groups' in c.name:
            self.headers.add('cooperative_groups.h')
        args = [self.pass_argument(a, t) for a, t in zip(expr.args, (*c.parameter_types, *[None] * len(expr.args)))]
        return Code(f"{c.name}({', '.join(args)})", PRIMARY, c.result_type)

    def pass_argument(self, expr, type):
        "Emit an argument of a CUDA function whose parameter has the C type `type`"
        if type == 'bool':
            return self.condition(expr).text
        if type == 'unsigned int' and expr.op == 'const':
            return self.mask_literal(expr)
        return self.text(expr)

    def mask_literal(self, expr):
        "Emit a constant lane mask: in hexadecimal if the source has it so, or if it is not in [0, 2^31)"
        return (
            getattr(expr, 'text', None)
            if getattr(expr, 'text', '')[:2].lower() == '0x' and 0 <= expr.value < 2**32
            else hex(expr.value % 2**32)
            if not 0 <= expr.value < 2**31
            else str(expr.value)
        )

    def _expr_shuffle(self, expr):
        value, mask, lane, *width = expr.args
        value_code = self.emit(value)
        if value_code.type == 'bool':
            value_code = Code(value_code.text, value_code.precedence, 'int')
        args = [
            self.mask_literal(mask) if mask.op == 'const' else self.text(mask),
            value_code.text,
            self.text(lane),
            *map(self.text, width),
        ]
        t = Code(f"{expr.value}({', '.join(args)})", PRIMARY, value_code.type)
        return Code(binary_code('!=', t, Code('0', PRIMARY, 'int'), EQUAL), EQUAL, 'bool') if expr.type == BOOL else t

    def _expr_bits(self, expr):
        a, interval = self.emit(expr.args[0]), self.interval(expr.args[0])
        is_narrow = (
            expr.args[0].type not in (INT64, UINT64)
            or expr.value == 'popc'
            and is_within(interval, UINT32_RANGE)
            or expr.value == 'ffs'
            and (is_within(interval, UINT32_RANGE) or is_within(interval, INT32_RANGE))
        )
        type = (
            ('unsigned int' if expr.value in ('popc', 'brev') else 'int')
            if is_narrow
            else 'unsigned long long'
            if expr.value in ('popc', 'brev')
            else 'long long'
        )
        if a.type in WIDE_TYPES and a.type != type or a.type not in WIDE_TYPES and not is_narrow:
            a = self.cast(a, type)
        t = f"__{expr.value}{'' if is_narrow else 'll'}({a.text})"
        if expr.value != 'brev':
            return Code(t, PRIMARY, 'int')
        type = 'unsigned int' if is_narrow else 'unsigned long long'
        return self.cast(
            Code(t, PRIMARY, type), 'int' if expr.type == 'int32' else 'long long' if expr.type == INT64 else type
        )

    def _expr_field(self, expr):
        variable = expr.args[0].value
        type = variable.result_of.c_results[expr.value]
        return Code(
            f'{variable.c_name}.{variable.result_of.field_names[expr.value]}', PRIMARY, PROMOTED.get(type, type)
        )

    def _expr_device_call(self, expr):
        callee = expr.value
        args = []
        for argument, parameter in zip(expr.args, callee.parameter_exprs):
            args += self.device_arguments(argument, parameter)
        for layout_param in callee.layout_params:
            args.append(self.layout_argument(expr, *layout_param))
        return Code(f"{callee.c_name}({', '.join(args)})", PRIMARY, PROMOTED.get(callee.c_result, callee.c_result))

    def device_arguments(self, argument, parameter):
        "Return the C arguments for an argument of a device function: several for a tuple, none for an unused parameter"
        if argument.op == 'tuple':
            return [text for pair in zip(argument.args, parameter.args) for text in self.device_arguments(*pair)]
        if (
            argument.op == 'object'
            or parameter.op == 'var'
            and parameter.value.is_dropped
            or parameter.op == 'view'
            and parameter.value.buffer.is_dropped
        ):
            return []
        if argument.op == 'view':
            return [self.array_argument(argument.value, parameter.value.buffer)]
        return [self.convert_for_assignment(argument, parameter.value.c_type).text]

    def layout_argument(self, call_expr, buffer, kind, dim):
        "Emit the argument for a layout parameter of a device function: a size or stride of the array for `buffer`"
        arguments = zip(call_expr.args, call_expr.value.parameter_exprs)
        view = next(view for a, p in arguments for view in views_of(a, p, buffer))
        return self.text(view.sizes[dim] if kind == 'size' else view.strides[dim])

    def _expr_atomic(self, expr):
        op, buffer, num_indices = expr.value
        address = '&' + self.element_at(buffer, expr.args[:num_indices])
        return self.atomic_call(op, buffer, address, expr.args[num_indices:])

    def as_element_type(self, expr, buffer):
        "Emit `expr`, converted to the element type of `buffer`"
        return self.convert_for_assignment(expr, C_NAMES[buffer.dtype], low_bits_only=True)

    _ATOMIC_NAMES = {
        'add': 'Add',
        'sub': 'Sub',
        'max': 'Max',
        'min': 'Min',
        'exch': 'Exch',
        'and': 'And',
        'or': 'Or',
        'xor': 'Xor',
        'cas': 'CAS',
        'inc': 'Inc',
        'dec': 'Dec',
    }

    def atomic_call(self, op, buffer, address, values):
        "Emit an atomic operation: CUDA's own, one expressed by it, or a compare-and-swap loop"
        type = C_NAMES[buffer.dtype]
        args = [self.as_element_type(v, buffer) for v in values]
        if op in _NATIVE_ATOMICS.get(type, ''):
            return Code(f"atomic{self._ATOMIC_NAMES[op]}({address}, {', '.join(a.text for a in args)})", PRIMARY, type)
        if op == 'sub':
            return self.atomic_subtraction(address, args[0], type)
        if type == 'long long' and op in _NATIVE_ATOMICS['unsigned long long']:
            return self.atomic_as_unsigned(f'atomic{self._ATOMIC_NAMES[op]}', address, args)
        if op in ('nanmax', 'nanmin') and type in C_INTEGERS:
            return self.atomic_call(op[3:], buffer, address, values)
        name, text = atomic_helper(op, buffer.dtype)
        self.helpers.setdefault((name, type), text)
        return Code(f'{name}({address}, {args[0].text})', PRIMARY, type)

    def atomic_subtraction(self, address, a, type):
        "Emit an atomic subtraction as an addition"
        if type in ('float', 'double'):
            return Code(f'atomicAdd({address}, -{parenthesize(a)})', PRIMARY, type)
        if type == 'unsigned long long':
            return Code(f'atomicAdd({address}, -(unsigned long long){parenthesize(a)})', PRIMARY, type)
        return self.atomic_as_unsigned(
            'atomicAdd', address, [Code(f'-{parenthesize(self.cast(a, "long long"))}', UNARY, 'long long')]
        )

    def atomic_as_unsigned(self, name, address, args):
        "Emit an atomic operation on a `long long` as one on an `unsigned long long`: the bits are the same"
        texts = [
            a.text if a.type == 'unsigned long long' or a.text.isdigit() else f'(unsigned long long){parenthesize(a)}'
            for a in args
        ]
        call = f"{name}((unsigned long long *){address}, {', '.join(texts)})"
        return (
            Code(call, PRIMARY, 'unsigned long long')
            if self.result_is_unused
            else Code(f'(long long){call}', UNARY, 'long long')
        )

    def _expr_view(self, expr):
        return Code(expr.value.buffer.c_name, PRIMARY, '*')


def views_of(argument, parameter, buffer):
    "Yield each view in `argument` that the device function accesses through its parameter `buffer`"
    if argument.op == 'tuple':
        for item, item_parameter in zip(argument.args, parameter.args):
            yield from views_of(item, item_parameter, buffer)
    elif argument.op == 'view' and parameter.value.buffer is buffer:
        yield argument.value
