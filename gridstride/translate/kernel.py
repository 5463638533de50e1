"""`to_cuda`: translates a kernel in Numba's dialect to CUDA C that a person could have written."""

import ast
import os

from .c_types import c_int_type, choose_c_types
from .codegen.body import Body
from .codegen.expressions import Expressions
from .codegen.lines import Line
from .codegen.names import Names
from .codegen.text import Unsupported
from .intervals import hull
from .launcher import launcher, wrap
from .lowering import Unit
from .source import Source, Untranslatable, python_function
from .translation import Parameter, Translation
from .tree import function_expressions, statements
from .types import C_NAMES, HALF, example, is_int, signature, write_type
from .verify import verify


def _callers_last(unit):
    "Return the functions, each before those that call it"
    ordered = []

    def visit(function):
        if function in ordered:
            return
        for expr in function_expressions(function):
            if expr.op == 'device':
                visit(expr.value)
        ordered.append(function)

    visit(unit.main)
    return ordered


def _choose_result_type(function, ranges, unit):
    "Give a device function the C type of what it returns"
    function.is_struct = isinstance(function.result, tuple)
    returns = [stmt.args for stmt in statements(function.body) if stmt.kind == 'return' and stmt.args]
    function.c_results = [
        _result_type(item_type, [r[position] for r in returns], ranges, unit)
        for position, item_type in enumerate(
            function.result if function.is_struct else [function.result] if function.result else []
        )
    ]
    names = getattr(function, 'fields', None) or []
    function.field_names = (
        names
        if len(set(names)) == len(function.c_results) and None not in names
        else [f'item{position}' for position in range(len(function.c_results))]
    )
    function.c_result = (
        function.struct_name if function.is_struct else function.c_results[0] if function.c_results else 'void'
    )


def _result_type(item_type, items, ranges, unit):
    if not is_int(item_type):
        return C_NAMES[item_type]
    interval = None
    for expr in items:
        interval = hull(interval, ranges.of(expr))
    return c_int_type(item_type, interval, unit.wide)


def _declare(parameter, writer):
    "Return (type, name) of a parameter as C declares it"
    if parameter.op == 'var':
        return parameter.value.c_type, parameter.value.c_name
    memory = parameter.value.memory
    const = 'const ' if not memory.written else ''
    if memory.dims is not None:
        return const + writer.element_type(memory.dtype), memory.c_name + ''.join(
            f'[{writer.text(d)}]' for d in memory.dims
        )
    return f'{const}{writer.element_type(memory.dtype)} *', memory.c_name


def _function_head(function, body, writer, unit):
    "Return the line that begins a function, and its parameters"
    params = [_declare(e, writer) for e in body.parameters]
    if function is unit.main:
        unused = [e for e in body.parameters if not body.is_used(e)]
        params = [('[[maybe_unused]] ' + t if e in unused else t, n) for e, (t, n) in zip(body.parameters, params)]
    params += [
        (
            writer.index_type,
            (memory.size_names if w == 'size' else memory.stride_names)[d] if w != 'start' else memory.start_name,
        )
        for memory, w, d in function.extra
    ]
    start = (
        f'__global__ void {function.c_name}('
        if function is unit.main
        else f'__device__ inline {function.c_result} {function.c_name}('
    )
    return start + wrap([t + n if t.endswith('*') else f'{t} {n}' for t, n in params], start) + ') {', params


def _constants(unit, writer):
    "Return the lines that define what the kernel captures from outside"
    res = []
    for name, e in writer.globals.items():
        v = e.value[1]
        type = 'float' if e.type == HALF else writer.write(e).type
        res.append(f'constexpr {type} {unit.names.constant(name)} = {_literal(v, type, writer)};')
    for memory in unit.constants.values():
        if memory.used:
            sizes = ''.join(f'[{n}]' for n in memory.values.shape)
            values = _initializer(memory.values, memory.dtype, writer)
            res.append(f'__constant__ {writer.element_type(memory.dtype)} {memory.c_name}{sizes} = {values};')
    return res


def _literal(value, type, writer):
    "Write the value `value` as a literal for a variable of C's type `type`"
    if type == 'bool':
        return 'true' if value else 'false'
    if type in ('float', 'double', '__half'):
        return writer.real(float(value), type).text
    return str(value) if -(2**31) < value < 2**31 else writer.integer(value, type=type if 'long' in type else None).text


def _initializer(array, dtype, writer):
    "Write the values of an array as C does: `{1, 2}`"
    if array.ndim == 0:
        return _literal(array.item(), C_NAMES[dtype], writer)
    return '{' + ', '.join(_initializer(item, dtype, writer) for item in array) + '}'


def _describe_arguments(source, args):
    "Return what is known of each argument"
    parameters = source.tree.args
    if parameters.vararg or parameters.kwarg or parameters.kwonlyargs:
        what = 'a kernel with *args, **kwargs or keyword-only arguments'
        raise source.error(source.tree, what, 'Use plain positional parameters.')
    names, defaults = [arg.arg for arg in parameters.args], source.f.__defaults__ or ()
    signature_types = signature(args[0]) if len(args) == 1 and isinstance(args[0], str) else None
    count = len(args if signature_types is None else signature_types)
    if not len(names) - len(defaults) <= count <= len(names):
        raise _wrong_number(source.name, names, count, signature_types is None)
    defaults_used = defaults[len(defaults) - (len(names) - count) :] if count < len(names) else ()
    if signature_types is not None:
        return signature_types + [example(d) for d in defaults_used]
    return [_describe_argument(source, k, x) for k, x in zip(names, (*args, *defaults_used))]


def _describe_argument(source, name, x):
    try:
        return example(x)
    except Untranslatable as e:
        raise Untranslatable(f'{name} is {e.what}', e.hint, kernel=source.name) from None


def _wrong_number(kernel, names, count, are_examples):
    "Return the error for a number of examples, or of types in a signature, that is not the kernel's"
    takes = f"{kernel} takes {len(names)} argument{'s' * (len(names) != 1)} ({', '.join(names)})"
    is_one = count == 1
    examples = f"{count or 'no'} example{'' if is_one else 's'} of them {'was' if is_one else 'were'} given"
    what_was_given = examples if are_examples else f'the signature has {count}'
    call = f"to_cuda({kernel}, {', '.join(names)}) with arguments as the kernel gets them"
    hint = f"{call}, or with a signature such as 'void(float32[:], int64)'."
    return Untranslatable(f'{takes}, but {what_was_given}: the types in C are derived from them', hint, kernel=kernel)


def to_cuda(
    kernel,  # a kernel of the simulator or of Numba, or a plain function in that dialect
    *example_args,  # arguments as the kernel gets them, or one Numba signature such as 'void(float32[:,::1], int64)'
    doubles=False,  # compute exactly with Numba's types, where a Python float is a float64
    wide=False,  # 64 bits for every integer
) -> Translation:  # a str: CUDA C for `load_cuda` and `cuda_kernel`
    """Translate a kernel to CUDA C that a person would have written: the same names, statements and comments.

    Example: `src = to_cuda(scale_k, x, out)`, then `cuda_kernel(src)[grid, block](*src.pack((x, out)))`. The examples
    are arrays, tensors, scalars, and tuples of these; only their types and layouts count.

    An array becomes a pointer and those of its sizes and strides that the kernel needs. The text ends with
    `launch_<kernel>`, a function for the host that takes the kernel's arguments as tensors and scalars, then grid,
    block and bytes of shared memory.

    Integers have the values of Python's 64-bit integers. They are an `int` where that makes no difference, given that
    an array has, and an axis of the grid covers, at most 2**31 - 2**16 elements, and that a Python int that is an
    argument is not larger: the launcher refuses such arrays, and `wide=True` translates for them. A Python int that is
    an operand of `//` or `%`, and not negative in the example, must not be negative later: the launcher makes sure of
    it, and `//` and `%` are C's.

    Floats: a Python float, whether literal or argument, takes the precision of the other operand; with a float32 array
    nothing is computed in double unless a float64, or a division of integers, requires it. `doubles=True` computes
    as Numba does, with float32 only where the result has the same bits.

    Raises `Untranslatable` for what CUDA C cannot express: what, on which line, and the way out.
    """
    return translate(kernel, example_args, Unit(doubles, wide))


def translate(kernel, example_args, unit, writer=Expressions):
    "Return the `Translation` that the new `Unit` makes of a kernel; `writer`: the class that writes its expressions"
    if not callable(python_function(kernel)):
        what = f'{kernel!r} is of type {type(kernel).__name__} and not a kernel'
        raise Untranslatable(what, 'Pass the function, not its name or its result.')
    source = Source(python_function(kernel))
    argument_types = _describe_arguments(source, example_args)
    unit.lower(source, argument_types)
    if os.environ.get('GRIDSTRIDE_VERIFY'):
        verify(unit)
    ranges = choose_c_types(unit)
    if os.environ.get('GRIDSTRIDE_VERIFY'):
        verify(unit, settled=True)
    return _write(unit, writer(unit, ranges), source, argument_types)


def _write(unit, writer, source, argument_types):
    "Return the `Translation` of a unit whose types are settled; `writer` writes its expressions"
    order = _callers_last(unit)
    names = _name_all(unit, order)
    for function in order:
        function.struct_name = (
            names.take_at_file_scope(f'{function.c_name}_result') if isinstance(function.result, tuple) else None
        )
        _choose_result_type(function, writer.ranges, unit)
    bodies = {function: Body(function, names, writer) for function in order}
    for body in bodies.values():
        body.prepare()
    parts = [_function(function, body, writer, unit) for function, body in bodies.items()]
    return _assemble(unit, writer, source, argument_types, bodies[unit.main], parts)


def _name_all(unit, order):
    "Give functions and constants their names in C; return the `Names` that are taken"
    names = unit.names = Names()
    unit.main.c_name = names.take_at_file_scope(unit.main.name)
    names.taken, names.kernel = set(), {unit.main.c_name}
    for function in unit.functions.values():
        if function in order:
            function.c_name = names.take_at_file_scope(function.name)
    for function in order:
        for expr in function_expressions(function):
            if expr.op == 'global':
                names.constant(expr.value[0])
    for memory in unit.constants.values():
        memory.c_name = names.constant(memory.name or 'table')
    return names


def _function(function, body, writer, unit):
    "Return the lines of one function"
    tree, line = function.source.tree, function.source.tree.lineno
    body.cursor = tree.body[0].lineno - 1
    body.blank_line_pending = False
    body.depth = 1
    head, params = _function_head(function, body, writer, unit)
    if function is unit.main:
        unit.head = params
    lines = _docstring(tree, body)
    if function.is_struct:
        fields = ' '.join(f'{t} {n};' for t, n in zip(function.c_results, function.field_names))
        lines.insert(0, Line(f'struct {function.struct_name} {{ {fields} }};', 0, line))
    _write_body(function, body)
    short = function is not unit.main and not function.is_struct and _one_line_function(head, body.lines)
    if short:
        lines.append(Line(short, 0, body.lines[0].line))
    else:
        lines += [*(Line(l, 0, line) for l in head.split('\n')), *body.lines, Line('}', 0, None)]
    for l in lines:
        l.file_line = (function.source.file, function.source.first - 1 + l.line) if l.line else None
    return lines


def _docstring(tree, body):
    "Write the docstring as a comment, if there is one; the body's cursor goes after it, or after the parameters"
    first = tree.body[0]
    if not (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    ):
        body.cursor = tree.args.args[-1].end_lineno if tree.args.args else tree.lineno
        return []
    body.cursor = first.end_lineno
    return [Line(f'// {line.strip()}'.rstrip(), 0, first.lineno) for line in first.value.value.strip().split('\n')]


def _write_body(function, body):
    "Write the statements of a function, without blank lines around them and a return at the end"
    tree = function.source.tree
    try:
        body.block(function.body, tree.body[0].col_offset)
    except Unsupported as e:
        following = (s.node for s in statements(function.body) if s.line > body.cursor)
        node = body.writing.node if body.writing else next(following, tree)
        raise function.source.error(node, *e.args) from None
    lines = body.lines
    while lines and not lines[0].text:
        lines.pop(0)
    while lines and not lines[-1].text:
        lines.pop()
    while lines and lines[-1].text == 'return;' and lines[-1].depth == 1:
        lines.pop()


def _one_line_function(head, lines):
    "Return a function that does nothing but return something, if that is short; else None"
    if len(lines) == 1 and '\n' not in head:
        text = lines[0].text
        if text.startswith('return ') and len(head) + len(text) < 110:
            return f'{head} {text} }}'
    return None


_LOCAL_HEADERS = ('assert.h', 'stdio.h')


def _assemble(unit, writer, source, argument_types, body, parts):
    "Return the `Translation`: the text and what belongs to it"
    names = [a.arg for a in source.tree.args.args]
    constants = _constants(unit, writer)
    top = _title(source.name, names, argument_types, unit)
    for header in sorted(writer.headers - {*_LOCAL_HEADERS}):
        top.append(f'#include <{header}>')
    local = [f'#include <{header}>' for header in _LOCAL_HEADERS if header in writer.headers]
    if local:
        top += ['#ifndef __CUDACC_RTC__', *local, '#endif']
    for memory in sorted(writer.macros):
        top += [
            f'#ifndef {memory}',
            f"#define {memory} __int_as_float(0x{'7f800000' if memory == 'INFINITY' else '7fffffff'})",
            '#endif',
        ]
    sections = [top, constants] + [helper_text.split('\n') for helper_text in writer.helpers.values()]
    lines = []
    for section in sections:
        if section:
            lines += ([''] if lines else []) + section
    line_of_python = {}
    for function_lines in parts:
        lines.append('')
        for line in function_lines:
            if line.file_line:
                line_of_python[len(lines) + 1] = line.file_line
            lines.append(str(line))
    params = _parameters(unit, body)
    text = '\n'.join([*lines, '', *launcher(unit, params)]) + '\n'
    least = {v.c_name: n for v, n in unit.minimums.items()}
    return Translation(
        text, unit.main.c_name, params, line_of_python, argument_types, names, source.f.__defaults__ or (), least
    )


def _title(name, names, argument_types, unit):
    "Return the comment that says for which arguments the text is"
    start = f'// {name}('
    args = wrap([f'{name}: {write_type(described)}' for name, described in zip(names, argument_types)], start).replace(
        '\n       ', '\n//     '
    )
    more = ', '.join(
        name for name, described in (("Numba's doubles", unit.doubles), ('64-bit integers', unit.wide)) if described
    )
    return (f'{start}{args})' + (f'  with {more}' if more else '')).split('\n')


def _parameters(unit, body):
    "Return one `Parameter` per parameter of the C kernel"
    paths = {}

    def find(parameter, path):
        if parameter.op == 'tuple':
            for name, part in enumerate(parameter.args):
                find(part, (*path, name))
        else:
            paths[id(parameter.value.memory if parameter.op == 'view' else parameter.value)] = path

    for name, parameter in enumerate(unit.main.parameter_exprs):
        find(parameter, (name,))
    parameters = []
    for parameter, (c_type, name) in zip(body.parameters, unit.head):
        c_type, memory = (
            c_type.replace('[[maybe_unused]] ', ''),
            parameter.value.memory if parameter.op == 'view' else None,
        )
        parameters.append(
            Parameter(
                c_type,
                name,
                'array' if memory else 'number',
                paths[id(memory or parameter.value)],
                memory and memory.example,
            )
        )
    for (memory, kind, axis), (c_type, name) in zip(unit.main.extra, unit.head[len(parameters) :]):
        parameters.append(Parameter(c_type, name, kind, paths[id(memory)], axis))
    return parameters
