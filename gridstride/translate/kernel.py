"""`to_cuda`: translates a kernel in Numba's dialect to readable CUDA C."""

import ast
import os

from .c_types import c_int_type, choose_c_types
from .codegen.body import BodyEmitter
from .codegen.expressions import ExpressionEmitter
from .codegen.lines import Line
from .codegen.names import Names
from .codegen.code import Unsupported
from .intervals import hull
from .launcher import launcher_lines, join_in_lines
from .lowering import Unit
from .source import Source, Untranslatable, python_function
from .translation import Parameter, Translation
from .tree import function_expressions, statements
from .types import C_NAMES, HALF, argument_type, is_int, parse_signature, format_type
from .verify import verify


def _callees_first(unit):
    "Return the kernel and its device functions, callees before callers"
    ordered_functions = []

    def visit(function):
        if function in ordered_functions:
            return
        for expr in function_expressions(function):
            if expr.op == 'device_call':
                visit(expr.value)
        ordered_functions.append(function)

    visit(unit.main)
    return ordered_functions


def _choose_result_type(function, ranges, unit):
    "Set the C type of the result of a device function, and for a tuple the types and names of the fields of its struct"
    function.is_struct = isinstance(function.result_type, tuple)
    returns = [stmt.args for stmt in statements(function.body) if stmt.kind == 'return' and stmt.args]
    function.c_results = [
        _result_type(item_type, [r[position] for r in returns], ranges, unit)
        for position, item_type in enumerate(
            function.result_type if function.is_struct else [function.result_type] if function.result_type else []
        )
    ]
    names = getattr(function, 'result_names', None) or []
    function.field_names = (
        names
        if len(set(names)) == len(function.c_results) and None not in names
        else [f'item{position}' for position in range(len(function.c_results))]
    )
    function.c_result = (
        function.struct_name if function.is_struct else function.c_results[0] if function.c_results else 'void'
    )


def _result_type(item_type, items, ranges, unit):
    "Return the C type of a result of a device function; `items`: the expressions that are returned for it"
    if not is_int(item_type):
        return C_NAMES[item_type]
    interval = None
    for expr in items:
        interval = hull(interval, ranges.recorded_interval(expr))
    return c_int_type(item_type, interval, unit.all_int64)


def _type_and_name(parameter, emitter):
    "Return (type, name) of a parameter as C declares it"
    if parameter.op == 'var':
        return parameter.value.c_type, parameter.value.c_name
    buffer = parameter.value.buffer
    qualifier = 'const ' if not buffer.is_written else ''
    if buffer.dims is not None:
        return qualifier + emitter.element_type(buffer.dtype), buffer.c_name + ''.join(
            f'[{emitter.text(d)}]' for d in buffer.dims
        )
    return f'{qualifier}{emitter.element_type(buffer.dtype)} *', buffer.c_name


def _function_head(function, body, emitter, unit):
    "Return the head of a function definition, and the (type, name) of its parameters"
    params = [_type_and_name(e, emitter) for e in body.parameters]
    if function is unit.main:
        unused_parameters = [e for e in body.parameters if not body.is_used(e)]
        params = [
            ('[[maybe_unused]] ' + type if e in unused_parameters else type, name)
            for e, (type, name) in zip(body.parameters, params)
        ]
    params += [(emitter.index_type, _layout_name(*param)) for param in function.layout_params]
    start = (
        f'__global__ void {function.c_name}('
        if function is unit.main
        else f'__device__ inline {function.c_result} {function.c_name}('
    )
    texts = [type + name if type.endswith('*') else f'{type} {name}' for type, name in params]
    return start + join_in_lines(texts, start) + ') {', params


def _layout_name(buffer, kind, dim):
    "Return the name of the parameter for a size, stride or start of an array"
    if kind == 'start':
        return buffer.start_name
    return (buffer.size_names if kind == 'size' else buffer.stride_names)[dim]


def _constant_lines(unit, emitter):
    "Return the lines that define the constants that the kernel captures from outside"
    lines = []
    for name, expr in emitter.globals.items():
        value = expr.value[1]
        type = 'float' if expr.type == HALF else emitter.emit(expr).type
        lines.append(f'constexpr {type} {unit.names.constant(name)} = {_literal(value, type, emitter)};')
    for buffer in unit.constants.values():
        if buffer.is_used:
            sizes = ''.join(f'[{n}]' for n in buffer.values.shape)
            values = _initializer(buffer.values, buffer.dtype, emitter)
            lines.append(f'__constant__ {emitter.element_type(buffer.dtype)} {buffer.c_name}{sizes} = {values};')
    return lines


def _literal(value, type, emitter):
    "Return `value` as a literal for a variable of the C type `type`"
    if type == 'bool':
        return 'true' if value else 'false'
    if type in ('float', 'double', '__half'):
        return emitter.float_literal(float(value), type).text
    return (
        str(value)
        if -(2**31) < value < 2**31
        else emitter.integer_literal(value, type=type if 'long' in type else None).text
    )


def _initializer(array, dtype, emitter):
    "Return the elements of an array as a C initializer: `{1, 2}`"
    if array.ndim == 0:
        return _literal(array.item(), C_NAMES[dtype], emitter)
    return '{' + ', '.join(_initializer(item, dtype, emitter) for item in array) + '}'


def _types_of_arguments(source, args):
    "Return the type of each argument, from the examples or the signature; types of defaults come last"
    parameters = source.tree.args
    if parameters.vararg or parameters.kwarg or parameters.kwonlyargs:
        construct = 'a kernel cannot have *args, **kwargs or keyword-only arguments'
        raise source.error(source.tree, construct, 'Use plain positional parameters.')
    names, defaults = [arg.arg for arg in parameters.args], source.function.__defaults__ or ()
    signature_types = parse_signature(args[0]) if len(args) == 1 and isinstance(args[0], str) else None
    count = len(args if signature_types is None else signature_types)
    if not len(names) - len(defaults) <= count <= len(names):
        raise _argument_count_error(source.name, names, count, signature_types is None)
    defaults_used = defaults[len(defaults) - (len(names) - count) :] if count < len(names) else ()
    if signature_types is not None:
        return signature_types + [argument_type(d) for d in defaults_used]
    return [_type_of_argument(source, k, x) for k, x in zip(names, (*args, *defaults_used))]


def _type_of_argument(source, name, argument):
    "Return the type of an example argument; raise `Untranslatable` with its name if there is none"
    try:
        return argument_type(argument)
    except Untranslatable as e:
        raise Untranslatable(f'{name} is {e.construct}', e.hint, kernel=source.name) from None


def _argument_count_error(kernel, names, count, are_examples):
    "Return the error for examples, or a signature, whose number of arguments is not that of the kernel"
    expected = f"{kernel} takes {len(names)} argument{'s' * (len(names) != 1)} ({', '.join(names)})"
    is_one = count == 1
    examples = f"{count or 'no'} example argument{'' if is_one else 's'} {'was' if is_one else 'were'} given"
    actual = examples if are_examples else f'the signature has {count}'
    call = f"to_cuda({kernel}, {', '.join(names)}) with the arguments of a launch"
    hint = f"Call {call}, or with a signature such as 'void(float32[:], int64)'."
    return Untranslatable(f'{expected}, but {actual}: the types in C are derived from them', hint, kernel=kernel)


def to_cuda(
    kernel,  # a kernel of the simulator or of Numba, or a plain function in that dialect
    *example_args,  # arguments as the kernel gets them, or one Numba signature such as 'void(float32[:,::1], int64)'
    numba_types=False,  # compute exactly with Numba's types, where a Python float is a float64
    all_int64=False,  # 64 bits for every integer
) -> Translation:  # a str: CUDA C for `load_cuda` and `cuda_kernel`
    """Translate a kernel to readable CUDA C with the same names, statements and comments.

    Example: `src = to_cuda(scale_k, x, out)`, then `cuda_kernel(src)[grid, block](*src.pack((x, out)))`. The examples
    are arrays, tensors, scalars, and tuples of these; only their types and layouts matter.

    An array becomes a pointer, and a parameter per size and stride that the kernel needs. The source ends with
    `launch_<kernel>`, a host function that takes the kernel's arguments as tensors and scalars, then grid, block and
    bytes of shared memory.

    Integers behave like Numba's 64-bit integers. They are declared `int` where that makes no difference. This assumes
    that no array has more than 2**31 - 2**16 elements, that no axis of the grid has more threads than that, and that no
    Python int among the arguments is larger: the launcher rejects larger arrays; `all_int64=True` translates for them.
    If a Python int is an operand of `//` or `%` and is not negative in the example, the launcher rejects negative
    values, and C's `/` and `%` are used.

    A Python float, whether a literal or an argument, takes the precision of the other operand: with a float32 array,
    double is used only for a float64 or a division of integers. `numba_types=True` computes as Numba does, and uses
    float32 only where the result has the same bits.

    Raises `Untranslatable` for a construct that CUDA C cannot express; the error names the line and a remedy.
    """
    return translate(kernel, example_args, Unit(numba_types, all_int64))


def translate(kernel, example_args, unit, emitter_class=ExpressionEmitter):
    "Return the `Translation` of a kernel; `unit`: a new `Unit`, `emitter_class`: the class that emits its expressions"
    if not callable(python_function(kernel)):
        message = f'{kernel!r} is of type {type(kernel).__name__}, so it is not a kernel'
        raise Untranslatable(message, 'Pass the function, not its name or its result.')
    source = Source(python_function(kernel))
    argument_types = _types_of_arguments(source, example_args)
    unit.lower(source, argument_types)
    if os.environ.get('GRIDSTRIDE_VERIFY'):
        verify(unit)
    ranges = choose_c_types(unit)
    if os.environ.get('GRIDSTRIDE_VERIFY'):
        verify(unit, types_are_final=True)
    return _emit(unit, emitter_class(unit, ranges), source, argument_types)


def _emit(unit, emitter, source, argument_types):
    "Return the `Translation` of a unit whose types are final; `emitter` emits its expressions"
    order = _callees_first(unit)
    names = _name_globals(unit, order)
    for function in order:
        function.struct_name = (
            names.take_at_file_scope(f'{function.c_name}_result') if isinstance(function.result_type, tuple) else None
        )
        _choose_result_type(function, emitter.ranges, unit)
    bodies = {function: BodyEmitter(function, names, emitter) for function in order}
    for body in bodies.values():
        body.prepare()
    definitions = [_function_lines(function, body, emitter, unit) for function, body in bodies.items()]
    return _assemble(unit, emitter, source, argument_types, bodies[unit.main], definitions)


def _name_globals(unit, order):
    "Choose the C names of functions and constants; return the `Names` that hold them"
    names = unit.names = Names()
    unit.main.c_name = names.take_at_file_scope(unit.main.name)
    names.taken_names, names.kernel = set(), {unit.main.c_name}
    for function in unit.functions.values():
        if function in order:
            function.c_name = names.take_at_file_scope(function.name)
    for function in order:
        for expr in function_expressions(function):
            if expr.op == 'global':
                names.constant(expr.value[0])
    for buffer in unit.constants.values():
        buffer.c_name = names.constant(buffer.name or 'table')
    return names


def _function_lines(function, body, emitter, unit):
    "Return the lines of one function"
    tree, line = function.source.tree, function.source.tree.lineno
    body.cursor = tree.body[0].lineno - 1
    body.is_blank_line_pending = False
    body.depth = 1
    head, params = _function_head(function, body, emitter, unit)
    if function is unit.main:
        unit.kernel_params = params
    lines = _take_docstring(tree, body)
    if function.is_struct:
        fields = ' '.join(f'{type} {name};' for type, name in zip(function.c_results, function.field_names))
        lines.insert(0, Line(f'struct {function.struct_name} {{ {fields} }};', 0, line))
    _emit_body(function, body)
    one_line_text = function is not unit.main and not function.is_struct and _one_line_function(head, body.lines)
    if one_line_text:
        lines.append(Line(one_line_text, 0, body.lines[0].line))
    else:
        lines += [*(Line(head_line, 0, line) for head_line in head.split('\n')), *body.lines, Line('}', 0, None)]
    for line in lines:
        line.file_line = (function.source.file, function.source.first_line - 1 + line.line) if line.line else None
    return lines


def _take_docstring(tree, body):
    "Return the docstring as comment lines, and move the cursor of `body` past it, or past the parameters"
    first = tree.body[0]
    if not (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    ):
        body.cursor = tree.args.args[-1].end_lineno if tree.args.args else tree.lineno
        return []
    body.cursor = first.end_lineno
    return [Line(f'// {line.strip()}'.rstrip(), 0, first.lineno) for line in first.value.value.strip().split('\n')]


def _emit_body(function, body):
    "Emit the statements of a function; remove blank lines at both ends and a final `return;`"
    tree = function.source.tree
    try:
        body.block(function.body, tree.body[0].col_offset)
    except Unsupported as e:
        later_nodes = (s.node for s in statements(function.body) if s.line > body.cursor)
        node = body.current_stmt.node if body.current_stmt else next(later_nodes, tree)
        raise function.source.error(node, *e.args) from None
    lines = body.lines
    while lines and not lines[0].text:
        lines.pop(0)
    while lines and not lines[-1].text:
        lines.pop()
    while lines and lines[-1].text == 'return;' and lines[-1].depth == 1:
        lines.pop()


def _one_line_function(head, lines):
    "Return the definition of a function that is a single return statement and fits on one line; else None"
    if len(lines) == 1 and '\n' not in head:
        text = lines[0].text
        if text.startswith('return ') and len(head) + len(text) < 110:
            return f'{head} {text} }}'
    return None


_LOCAL_HEADERS = ('assert.h', 'stdio.h')


def _assemble(unit, emitter, source, argument_types, body, definitions):
    "Return the `Translation`: the source with all function definitions, its parameters, and its lines of Python"
    names = [a.arg for a in source.tree.args.args]
    constants = _constant_lines(unit, emitter)
    first_lines = _title_lines(source.name, names, argument_types, unit)
    for header in sorted(emitter.headers - {*_LOCAL_HEADERS}):
        first_lines.append(f'#include <{header}>')
    guarded_includes = [f'#include <{header}>' for header in _LOCAL_HEADERS if header in emitter.headers]
    if guarded_includes:
        first_lines += ['#ifndef __CUDACC_RTC__', *guarded_includes, '#endif']
    for macro in sorted(emitter.macros):
        bits = '7f800000' if macro == 'INFINITY' else '7fffffff'
        first_lines += [f'#ifndef {macro}', f'#define {macro} __int_as_float(0x{bits})', '#endif']
    sections = [first_lines, constants] + [helper_text.split('\n') for helper_text in emitter.helpers.values()]
    lines = []
    for section in sections:
        if section:
            lines += ([''] if lines else []) + section
    line_of_python = {}
    for function_lines in definitions:
        lines.append('')
        for line in function_lines:
            if line.file_line:
                line_of_python[len(lines) + 1] = line.file_line
            lines.append(str(line))
    params = _parameters(unit, body)
    text = '\n'.join([*lines, '', *launcher_lines(unit, params)]) + '\n'
    minimums = {variable.c_name: minimum for variable, minimum in unit.minimums.items()}
    return Translation(
        text,
        unit.main.c_name,
        params,
        line_of_python,
        argument_types,
        names,
        source.function.__defaults__ or (),
        minimums,
    )


def _title_lines(name, names, argument_types, unit):
    "Return the comment that names the arguments for which the kernel is translated"
    start = f'// {name}('
    types = [f'{name}: {format_type(type)}' for name, type in zip(names, argument_types)]
    args = join_in_lines(types, start).replace('\n       ', '\n//     ')
    options = ("Numba's types", unit.numba_types), ('64-bit integers', unit.all_int64)
    options_used = ', '.join(text for text, is_set in options if is_set)
    return (f'{start}{args})' + (f'  with {options_used}' if options_used else '')).split('\n')


def _parameters(unit, body):
    "Return one `Parameter` per parameter of the C kernel"
    paths = {}  # id of a variable or buffer -> path of its argument

    def find_paths(expr, path):
        if expr.op == 'tuple':
            for n, item in enumerate(expr.args):
                find_paths(item, (*path, n))
        else:
            paths[id(expr.value.buffer if expr.op == 'view' else expr.value)] = path

    for n, expr in enumerate(unit.main.parameter_exprs):
        find_paths(expr, (n,))
    parameters = []
    for expr, (c_type, name) in zip(body.parameters, unit.kernel_params):
        c_type = c_type.replace('[[maybe_unused]] ', '')
        buffer = expr.value.buffer if expr.op == 'view' else None
        kind = 'array' if buffer else 'scalar'
        parameters.append(Parameter(c_type, name, kind, paths[id(buffer or expr.value)], buffer and buffer.argument))
    for (buffer, kind, axis), (c_type, name) in zip(unit.main.layout_params, unit.kernel_params[len(parameters) :]):
        parameters.append(Parameter(c_type, name, kind, paths[id(buffer)], axis))
    return parameters
