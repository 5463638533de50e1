"""`to_cuda`: a kernel in Numba's dialect becomes CUDA C that a person would have written."""

import ast
import os

from .c_types import c_int_type, settle
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
from .tree import every, statements
from .types import C_NAMES, HALF, example, is_int, signature, write_type
from .verify import verify


def _order(unit):
    "Return the functions, each before those that call it"
    res = []

    def visit(f):
        if f in res:
            return
        for e in every(f):
            if e.op == 'device':
                visit(e.value)
        res.append(f)

    visit(unit.main)
    return res


def _result(f, ranges, unit):
    "Give a device function the C type of what it returns"
    f.is_struct = isinstance(f.result, tuple)
    returns = [s.args for s in statements(f.body) if s.kind == 'return' and s.args]
    f.c_results = [
        _result_type(t, [r[n] for r in returns], ranges, unit)
        for n, t in enumerate(f.result if f.is_struct else [f.result] if f.result else [])
    ]
    names = getattr(f, 'fields', None) or []
    f.field_names = (
        names
        if len(set(names)) == len(f.c_results) and None not in names
        else [f'item{n}' for n in range(len(f.c_results))]
    )
    f.c_result = f.struct_name if f.is_struct else f.c_results[0] if f.c_results else 'void'


def _result_type(t, items, ranges, unit):
    if not is_int(t):
        return C_NAMES[t]
    r = None
    for e in items:
        r = hull(r, ranges.of(e))
    return c_int_type(t, r, unit.wide)


def _declare(e, ex):
    "Return (type, name) of a parameter as C declares it"
    if e.op == 'var':
        return e.value.c_type, e.value.c_name
    m = e.value.memory
    const = 'const ' if not m.written else ''
    if m.dims is not None:
        return const + ex.element(m.dtype), m.c_name + ''.join(f'[{ex.text(d)}]' for d in m.dims)
    return f'{const}{ex.element(m.dtype)} *', m.c_name


def _head(f, body, ex, unit):
    "Return the line that begins a function, and its parameters"
    params = [_declare(e, ex) for e in body.parameters]
    if f is unit.main:
        unused = [e for e in body.parameters if not body.is_used(e)]
        params = [('[[maybe_unused]] ' + t if e in unused else t, n) for e, (t, n) in zip(body.parameters, params)]
    params += [
        (ex.index_type, (m.size_names if w == 'size' else m.stride_names)[d] if w != 'start' else m.start_name)
        for m, w, d in f.extra
    ]
    start = f'__global__ void {f.c_name}(' if f is unit.main else f'__device__ inline {f.c_result} {f.c_name}('
    return start + wrap([t + n if t.endswith('*') else f'{t} {n}' for t, n in params], start) + ') {', params


def _constants(unit, ex):
    "Return the lines that define what the kernel captures from outside"
    res = []
    for name, e in ex.globals.items():
        v = e.value[1]
        type = 'float' if e.type == HALF else ex.write(e).type
        res.append(f'constexpr {type} {unit.names.constant(name)} = {_literal(v, type, ex)};')
    for m in unit.constants.values():
        if m.used:
            sizes = ''.join(f'[{n}]' for n in m.values.shape)
            values = _braces(m.values, m.dtype, ex)
            res.append(f'__constant__ {ex.element(m.dtype)} {m.c_name}{sizes} = {values};')
    return res


def _literal(v, type, ex):
    "Write the value `v` as a literal for a variable of C's type `type`"
    if type == 'bool':
        return 'true' if v else 'false'
    if type in ('float', 'double', '__half'):
        return ex.real(float(v), type).text
    return str(v) if -(2**31) < v < 2**31 else ex.integer(v, type=type if 'long' in type else None).text


def _braces(a, dtype, ex):
    "Write the values of an array as C does: `{1, 2}`"
    if a.ndim == 0:
        return _literal(a.item(), C_NAMES[dtype], ex)
    return '{' + ', '.join(_braces(item, dtype, ex) for item in a) + '}'


def _describe_arguments(source, args):
    "Return what is known of each argument"
    a = source.tree.args
    if a.vararg or a.kwarg or a.kwonlyargs:
        what = 'a kernel with *args, **kwargs or keyword-only arguments'
        raise source.error(source.tree, what, 'Give it plain arguments.')
    names, defaults = [arg.arg for arg in a.args], source.f.__defaults__ or ()
    given = signature(args[0]) if len(args) == 1 and isinstance(args[0], str) else None
    n = len(args if given is None else given)
    if not len(names) - len(defaults) <= n <= len(names):
        raise _wrong_number(source.name, names, n, given is None)
    left = defaults[len(defaults) - (len(names) - n) :] if n < len(names) else ()
    if given is not None:
        return given + [example(d) for d in left]
    return [_describe_argument(source, k, x) for k, x in zip(names, (*args, *left))]


def _describe_argument(source, name, x):
    try:
        return example(x)
    except Untranslatable as e:
        raise Untranslatable(f'{name} is {e.what}', e.hint, kernel=source.name) from None


def _wrong_number(kernel, names, n, are_examples):
    "Return the error for a number of examples, or of types in a signature, that is not the kernel's"
    takes = f"{kernel} takes {len(names)} argument{'s' * (len(names) != 1)} ({', '.join(names)})"
    one = n == 1
    examples = f"{n or 'no'} example{'' if one else 's'} of them {'was' if one else 'were'} given"
    how = examples if are_examples else f'the signature has {n}'
    call = f"to_cuda({kernel}, {', '.join(names)}) with arguments as the kernel gets them"
    hint = f"{call}, or with a signature such as 'void(float32[:], int64)'."
    return Untranslatable(f'{takes}, and {how}: the types of C come from them', hint, kernel=kernel)


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
        raise Untranslatable(what, 'Give the function, not its name or its result.')
    source = Source(python_function(kernel))
    known = _describe_arguments(source, example_args)
    unit.lower(source, known)
    if os.environ.get('GRIDSTRIDE_VERIFY'):
        verify(unit)
    ranges = settle(unit)
    if os.environ.get('GRIDSTRIDE_VERIFY'):
        verify(unit, settled=True)
    return _write(unit, writer(unit, ranges), source, known)


def _write(unit, ex, source, known):
    "Return the `Translation` of a unit whose types are settled; `ex` writes its expressions"
    order = _order(unit)
    names = _name_all(unit, order)
    for f in order:
        f.struct_name = names.at_file_scope(f'{f.c_name}_result') if isinstance(f.result, tuple) else None
        _result(f, ex.ranges, unit)
    bodies = {f: Body(f, names, ex) for f in order}
    for body in bodies.values():
        body.prepare()
    parts = [_function(f, body, ex, unit) for f, body in bodies.items()]
    return _assemble(unit, ex, source, known, bodies[unit.main], parts)


def _name_all(unit, order):
    "Give functions and constants their names in C; return the `Names` that are taken"
    names = unit.names = Names()
    unit.main.c_name = names.at_file_scope(unit.main.name)
    names.taken, names.kernel = set(), {unit.main.c_name}
    for f in unit.functions.values():
        if f in order:
            f.c_name = names.at_file_scope(f.name)
    for f in order:
        for e in every(f):
            if e.op == 'global':
                names.constant(e.value[0])
    for m in unit.constants.values():
        m.c_name = names.constant(m.name or 'table')
    return names


def _function(f, body, ex, unit):
    "Return the lines of one function"
    tree, line = f.source.tree, f.source.tree.lineno
    body.cursor = tree.body[0].lineno - 1
    body.pending = False
    body.depth = 1
    head, params = _head(f, body, ex, unit)
    if f is unit.main:
        unit.head = params
    lines = _docstring(tree, body)
    if f.is_struct:
        fields = ' '.join(f'{t} {n};' for t, n in zip(f.c_results, f.field_names))
        lines.insert(0, Line(f'struct {f.struct_name} {{ {fields} }};', 0, line))
    _write_body(f, body)
    short = f is not unit.main and not f.is_struct and _on_one_line(head, body.lines)
    if short:
        lines.append(Line(short, 0, body.lines[0].line))
    else:
        lines += [*(Line(l, 0, line) for l in head.split('\n')), *body.lines, Line('}', 0, None)]
    for l in lines:
        l.file_line = (f.source.file, f.source.first - 1 + l.line) if l.line else None
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
    return [Line(f'// {l.strip()}'.rstrip(), 0, first.lineno) for l in first.value.value.strip().split('\n')]


def _write_body(f, body):
    "Write the statements of a function, without blank lines around them and a return at the end"
    tree = f.source.tree
    try:
        body.block(f.body, tree.body[0].col_offset)
    except Unsupported as e:
        following = (s.node for s in statements(f.body) if s.line > body.cursor)
        node = body.writing.node if body.writing else next(following, tree)
        raise f.source.error(node, *e.args) from None
    lines = body.lines
    while lines and not lines[0].text:
        lines.pop(0)
    while lines and not lines[-1].text:
        lines.pop()
    while lines and lines[-1].text == 'return;' and lines[-1].depth == 1:
        lines.pop()


def _on_one_line(head, lines):
    "Return a function that does nothing but return something, if that is short; else None"
    if len(lines) == 1 and '\n' not in head:
        text = lines[0].text
        if text.startswith('return ') and len(head) + len(text) < 110:
            return f'{head} {text} }}'
    return None


_LOCAL_HEADERS = ('assert.h', 'stdio.h')


def _assemble(unit, ex, source, known, body, parts):
    "Return the `Translation`: the text and what belongs to it"
    names = [a.arg for a in source.tree.args.args]
    constants = _constants(unit, ex)
    top = _title(source.name, names, known, unit)
    for h in sorted(ex.headers - {*_LOCAL_HEADERS}):
        top.append(f'#include <{h}>')
    local = [f'#include <{h}>' for h in _LOCAL_HEADERS if h in ex.headers]
    if local:
        top += ['#ifndef __CUDACC_RTC__', *local, '#endif']
    for m in sorted(ex.macros):
        top += [
            f'#ifndef {m}',
            f"#define {m} __int_as_float(0x{'7f800000' if m == 'INFINITY' else '7fffffff'})",
            '#endif',
        ]
    sections = [top, constants] + [t.split('\n') for t in ex.helpers.values()]
    lines = []
    for s in sections:
        if s:
            lines += ([''] if lines else []) + s
    where = {}
    for p in parts:
        lines.append('')
        for l in p:
            if l.file_line:
                where[len(lines) + 1] = l.file_line
            lines.append(str(l))
    params = _parameters(unit, body)
    text = '\n'.join([*lines, '', *launcher(unit, params)]) + '\n'
    least = {v.c_name: n for v, n in unit.least.items()}
    return Translation(text, unit.main.c_name, params, where, known, names, source.f.__defaults__ or (), least)


def _title(name, names, known, unit):
    "Return the comment that says for which arguments the text is"
    start = f'// {name}('
    args = wrap([f'{n}: {write_type(k)}' for n, k in zip(names, known)], start).replace('\n       ', '\n//     ')
    more = ', '.join(name for name, k in (("Numba's doubles", unit.doubles), ('64-bit integers', unit.wide)) if k)
    return (f'{start}{args})' + (f'  with {more}' if more else '')).split('\n')


def _parameters(unit, body):
    "Return one `Parameter` per parameter of the C kernel"
    paths = {}

    def find(e, path):
        if e.op == 'tuple':
            for n, part in enumerate(e.args):
                find(part, (*path, n))
        else:
            paths[id(e.value.memory if e.op == 'view' else e.value)] = path

    for n, e in enumerate(unit.main.given):
        find(e, (n,))
    res = []
    for e, (t, n) in zip(body.parameters, unit.head):
        t, m = t.replace('[[maybe_unused]] ', ''), e.value.memory if e.op == 'view' else None
        res.append(Parameter(t, n, 'array' if m else 'number', paths[id(m or e.value)], m and m.example))
    for (m, w, d), (t, n) in zip(unit.main.extra, unit.head[len(res) :]):
        res.append(Parameter(t, n, w, paths[id(m)], d))
    return res
