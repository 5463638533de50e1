"""Test cases for the lesson's exercises. Reading this file spoils them."""

import itertools

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.gradcheck import GradcheckError, gradcheck
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from ..grading import normal, problem
from ...utils import check

__all__ = []

_counter = itertools.count()  # operators cannot be defined twice


def random(rng, *shape):
    "Make a float64 tensor of normal random values"
    return torch.tensor(normal(rng, *shape)).double()


# A schema
_CASES = (
    ('scale', (('x', 'Tensor', 'read'), ('factor', 'float', 'read')), ('Tensor',)),
    ('sort', (('x', 'Tensor', 'read'), ('descending', 'bool', 'read')), ('Tensor', 'Tensor')),
    ('add_', (('x', 'Tensor', 'write'), ('y', 'Tensor', 'read')), ()),
    ('norm', (('x', 'Tensor', 'read'), ('bias', 'Tensor', 'optional'), ('eps', 'float', 'optional')), ('Tensor',)),
    (
        'adamw',
        (('p', 'Tensor', 'write'), ('g', 'Tensor', 'read'), ('m', 'Tensor', 'write'), ('step', 'int', 'read')),
        (),
    ),
    ('nothing', (), ()),
)


def parse_schema(text):
    "Parse a schema; raises `AssertionError` with torch's reason"
    if not isinstance(text, str):
        raise AssertionError(f'return the schema as a string; got {text!r}')
    try:
        return torch._C.parse_schema(text)
    except RuntimeError as e:
        raise AssertionError(f'{text!r} is not a schema: {str(e).strip().splitlines()[0]}') from None


def _argument_kind(argument):
    "Return 'write', 'optional' or 'read', or what an optional argument lacks"
    if argument.alias_info is not None and argument.alias_info.is_write:
        return 'write'
    if not str(argument.type).startswith('Optional'):
        return 'read'
    is_none = argument.has_default_value() and argument.default_value is None
    return 'optional' if is_none else 'optional, but without the default None'


@problem(
    'custom_ops.schema',
    cases=[dict(name=name, arguments=list(arguments), results=list(results)) for name, arguments, results in _CASES],
    hints=[
        'An argument is `type name`; arguments are joined by commas. After `->`, no result is `()`, one is its type, '
        'and several are in parentheses.',
        'A tensor that is written has an alias annotation, `Tensor(a!) p`. A second one is `Tensor(b!) m`: with the '
        'same letter, the two would share memory.',
        'An argument that may be None has a question mark after its type, and here None as its default: '
        '`Tensor? bias=None`.',
    ],
)
def _(fn, rng, name, arguments, results):
    text = fn(name, list(arguments), list(results))
    schema = parse_schema(text)
    if schema.name != name:
        raise AssertionError(f'{text!r}: the name is {schema.name}; expected {name}')
    if [str(r.type) for r in schema.returns] != results:
        raise AssertionError(f'{text!r}: expected the results {results}')
    actual_arguments = [
        (a.name, str(a.type).removeprefix('Optional[').rstrip(']'), _argument_kind(a)) for a in schema.arguments
    ]
    for actual, expected in itertools.zip_longest(actual_arguments, arguments):
        if actual != expected:
            raise AssertionError(f'{text!r}: an argument is {actual}; expected {expected}')
    letters = [str(a.alias_info.before_set) for a in schema.arguments if a.alias_info is not None]
    if len({*letters}) < len(letters):
        raise AssertionError(f'{text!r}: two tensors have the same alias annotation, so that they share memory')


# A fake tensor
def pad_columns(x, multiple):
    "Compute the result of the operator of the exercise"
    rows, columns = x.shape
    padded = x.new_zeros(rows, -(-columns // multiple) * multiple)
    padded[:, :columns] = x
    return padded, torch.full((rows,), columns, dtype=torch.int32, device=x.device)


def _attributes(tensor):
    return tuple(tensor.shape), tensor.stride(), tensor.dtype, str(tensor.device)


ATTRIBUTES = 'shape', 'strides', 'dtype', 'device'


def _symbolic_columns(fn, multiple):
    "Return the sizes that torch had to fix when it called `fn` with symbolic sizes"
    environment = ShapeEnv()
    mode = FakeTensorMode(shape_env=environment)
    dynamic = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * 2)
    x = mode.from_tensor(torch.zeros(6, 37), symbolic_context=dynamic)
    with mode, enable_python_dispatcher():
        fn(x, multiple)
    return sorted(int(value) for value in environment.replacements.values() if value.is_number)


@problem(
    'custom_ops.fake',
    cases=[
        dict(rows=rows, columns=columns, multiple=multiple, dtype=dtype, transposed=transposed, device=device)
        for rows, columns, multiple, dtype, transposed, device in (
            (3, 5, 4, 'float32', False, 'cpu'),
            (2, 8, 4, 'bfloat16', False, 'cpu'),
            (1, 1, 16, 'float64', False, 'cpu'),
            (4, 33, 32, 'float32', True, 'cpu'),
            (0, 3, 2, 'float16', False, 'cpu'),
            (3, 5, 4, 'float32', False, 'meta'),  # a second device, which every machine has
        )
    ],
    hints=[
        'A fake function sees sizes, strides, dtype and device, and makes empty tensors of the right kind. It never '
        'reads an element.',
        '`x.new_empty(rows, padded)` has the dtype and device of `x`, and contiguous strides, whatever those of `x` '
        'are. `dtype=torch.int32` overrides the dtype.',
        'Round up with integer arithmetic, `-(-columns//multiple)*multiple`: it also works on symbolic sizes. `int`, '
        '`range`, `math.ceil` and a float division do not.',
    ],
)
def _(fn, rng, rows, columns, multiple, dtype, transposed, device):
    x = random(rng, rows, columns).to(device, getattr(torch, dtype))
    x = x.t().contiguous().t() if transposed else x
    expected_result = pad_columns(x, multiple)
    with FakeTensorMode() as mode:
        try:
            result = fn(mode.from_tensor(x), multiple)
        except RuntimeError as e:
            raise AssertionError(f'a fake tensor has no data: {str(e).splitlines()[0]}') from None
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise AssertionError(f'return two tensors; got {result!r}')
    for name, actual, expected in zip(('the padded matrix', 'the lengths'), result, expected_result):
        if not isinstance(actual, torch.Tensor):
            raise AssertionError(f'{name}: expected a tensor; got {actual!r}')
        for attribute, a, b in zip(ATTRIBUTES, _attributes(actual), _attributes(expected)):
            if a != b:
                raise AssertionError(f'{name}: {attribute} is {a}; expected {b}, as for a real tensor')
    if fixed := _symbolic_columns(fn, multiple):
        raise AssertionError(f'with symbolic sizes, torch had to fix a size to {fixed[0]}, and would compile again')


# A gradient
def softcap_operator(setup_context, backward):
    "Define the operator of the exercise with these functions, and return it"

    @torch.library.custom_op(f'gridstride_exercise::softcap_{next(_counter)}', mutates_args=())
    def softcap(x: torch.Tensor, cap: float) -> torch.Tensor:
        return cap * torch.tanh(x / cap)

    softcap.register_fake(lambda x, cap: torch.empty_like(x))
    softcap.register_autograd(backward, setup_context=setup_context)
    return softcap


@problem(
    'custom_ops.gradient',
    cases=[dict(shape=shape, cap=cap) for shape, cap in (((1,), 2.0), ((5,), 1.0), ((3, 4), 30.0), ((2, 3, 2), 0.5))],
    hints=[
        '`setup_context(ctx, inputs, output)`: `inputs` are `(x, cap)`, and `output` is the result. A tensor is kept '
        'with `ctx.save_for_backward`, a number as an attribute of `ctx`.',
        'The derivative of `tanh(u)` is `1 - tanh(u)**2`, and `tanh(x/cap)` is `out/cap`: save `output` alone.',
        '`backward(ctx, grad)` returns a gradient per input: `grad*(1 - (out/cap)**2)` for `x`, and None for `cap`.',
    ],
)
def _(fn, rng, shape, cap):
    functions = fn()
    if not isinstance(functions, (tuple, list)) or len(functions) != 2 or not all(map(callable, functions)):
        raise AssertionError(f'return setup_context, backward; got {functions!r}')
    softcap = softcap_operator(*functions)
    x = random(rng, *shape).requires_grad_()
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        out = softcap(x, cap)
    if any(t.data_ptr() == x.data_ptr() for t in saved):
        raise AssertionError('x is saved for the backward pass: save the result alone, which the caller keeps anyway')
    if len(saved) > 1:
        raise AssertionError(f'{len(saved)} tensors are saved for the backward pass; one is enough')
    gradient = random(rng, *shape)
    (actual,) = torch.autograd.grad(out, x, gradient)
    with torch.no_grad():
        check(actual, gradient * (1 - torch.tanh(x / cap) ** 2), rtol=1e-9, atol=1e-9)
    try:
        gradcheck(lambda x: softcap(x, cap), x)
    except GradcheckError:
        raise AssertionError(
            'the gradient differs from the numerical gradient (finite differences) of gradcheck'
        ) from None


# vmap
def rescale(x, weight):
    "Compute the result of the operator of the exercise, row by row"
    return x * weight / x.norm(dim=-1, keepdim=True)


def rescale_operator(rule):
    "Define the operator of the exercise with this rule for vmap; return it and the list of the shapes of its calls"
    calls = []

    @torch.library.custom_op(f'gridstride_exercise::rescale_{next(_counter)}', mutates_args=())
    def operator(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        if x.dim() != 2 or weight.dim() != 1 or x.shape[1] != len(weight) or not x.is_contiguous():
            raise AssertionError(
                f'the operator takes a contiguous matrix and a vector; got shapes {tuple(x.shape)} and '
                f'{tuple(weight.shape)}, strides {x.stride()}'
            )
        calls.append(tuple(x.shape))
        return rescale(x, weight)

    operator.register_vmap(lambda info, in_dims, x, weight: rule(operator, info, in_dims, x, weight))
    return operator, calls


@problem(
    'custom_ops.vmap',
    cases=[
        dict(batch=batch, rows=rows, columns=columns, dim=dim)
        for batch, rows, columns, dim in ((1, 2, 3, 0), (4, 3, 5, 0), (3, 2, 7, 1), (5, 3, 4, 2))
    ],
    hints=[
        'The rows are independent, so a batch of matrices is one matrix with `batch*rows` rows.',
        '`x.movedim(in_dims[0], 0)` brings the batch to the front; then `reshape(-1, columns)`. `in_dims[1]` is None '
        'here: all of the batch shares `weight`.',
        'Call `op` once, give the result the shape of the batch again, and return it with the position of the batch: '
        '`out.view(x.shape), 0`.',
    ],
)
def _(fn, rng, batch, rows, columns, dim):
    op, calls = rescale_operator(fn)
    x, weight = random(rng, batch, rows, columns), random(rng, columns)
    moved = x.movedim(0, dim).contiguous()
    result = torch.vmap(op, in_dims=(dim, None))(moved, weight)
    check(result, rescale(x, weight), rtol=1e-9, atol=1e-9)
    if calls != [(batch * rows, columns)]:
        problem = f'it was called with inputs of the shapes {calls}'
        raise AssertionError(f'call the operator once, with {batch * rows} rows; {problem}')
