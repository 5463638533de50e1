"""Standalone programs of the kernels that order and select, for `export`."""

from typing import NamedTuple

from . import compaction, sorts, top_k
from .keys import KEY_TYPES
from ..common import vector_width
from ..ladder import H100
from ..source_assembly import C_TYPES
from ..standalone import Launch, Program

_C_TYPES = {**C_TYPES, 'uint32': 'unsigned', 'int64': 'long long'}
K = 64


class OrderingProgram(NamedTuple):
    "An operator for one dtype"

    operator: str  # 'sort', 'argsort', 'topk', 'compact'
    dtype: str
    cases: tuple  # (rows, width); the last one is timed

    @property
    def name(self):
        "The name of the file"
        return f'{self.operator}_{self.dtype}'


PROGRAMS = [
    OrderingProgram('sort', 'uint32', ((1, 33), (70, 1000), (3, 20_001), (1, 2**24))),
    OrderingProgram('argsort', 'float32', ((70, 33), (3, 5000), (1, 2**20 + 7), (1, 2**24))),
    OrderingProgram('topk', 'float32', ((1, 100), (3, 1000), (2, 100_001), (64, 128_256))),
    OrderingProgram('compact', 'int32', ((1, 33), (1, 2**20 + 7), (1, 2**26))),
]


class Plan(NamedTuple):
    "The kernel launches of a case, its workspaces, and the C++ expressions of other arrays"

    kernel_launches: list
    workspaces: dict  # name -> (C type, elements, is_zeroed: set to 0 before each launch)
    arrays: dict  # name in the launches -> C++ expression


def _sort_plan(program, rows, width) -> Plan:
    "Return the plan of a sort or an argsort"
    key, key_c_type = KEY_TYPES[program.dtype], sorts.UNSIGNED_TYPES[KEY_TYPES[program.dtype].bytes]
    positions = program.operator == 'argsort'
    problem = sorts.SortProblem(key, *(('positions', 4) if positions else ('none', 0)), rows, width, False)
    x, out, n = f'({key_c_type} *)x', 'out' if positions else f'({key_c_type} *)out', rows * width
    if width <= sorts._MAX_BLOCK_ROW:
        arrays = dict(x=x, values=x, out_values=x, out=x if positions else out)
        return Plan(
            sorts.row_launches(problem), {}, arrays | dict(positions=out if positions else '(long long *)nullptr')
        )
    kernel_launches, tiles = sorts.onesweep_launches(problem, vector_width(0, key.bytes, rows, width), H100)
    words = rows * tiles * 256
    workspaces = {f'status{i}': ('unsigned', words, False) for i in range(2)}
    counts = rows * key.bytes * 256, rows * key.bytes
    workspaces |= {name: ('unsigned', size, True) for name, size in zip(('counts', 'tickets'), counts)}
    workspaces |= dict(out_buffer=(key_c_type, n, False))
    if not positions:
        unused = dict.fromkeys(('values', 'out_values', 'values_buffer'), 'out_buffer')
        return Plan(kernel_launches, workspaces, unused | dict(x=x, out=out, positions='(long long *)nullptr'))
    workspaces |= dict(keys=(key_c_type, n, False), values_buffer=('unsigned', n, False))
    halves = dict.fromkeys(('values', 'out_values'), '(unsigned *)out')
    return Plan(kernel_launches, workspaces, halves | dict(x=x, out='keys', positions=out))


def _topk_plan(program, rows, width) -> Plan:
    "Return the plan of a top-k"
    key = KEY_TYPES[program.dtype]
    vec_size = vector_width(0, key.bytes, rows, width)
    kernel_launches, num_candidates = top_k.topk_launches(key, K, rows, width, True, vec_size, H100)
    workspaces = dict(candidates=('unsigned long long', max(1, rows * num_candidates), False))
    workspaces |= dict(values=('unsigned', rows * K, False))
    return Plan(kernel_launches, workspaces, dict(x='(unsigned *)x', indices='out'))


def _compact_plan(program, rows, width) -> Plan:
    "Return the plan of a compaction"
    size = rows * width
    kernel_launches, tiles = compaction.compact_launches(KEY_TYPES[program.dtype], size, False, 16, False, H100)
    word = 'unsigned long long'
    workspaces = dict(keep=('unsigned char', size, False), status=(word, tiles, True), ticket=(word, 1, True))
    workspaces |= dict(total=('long long', 1, False))
    arrays = dict(x='(unsigned *)x', out='(unsigned *)out', positions='(long long *)nullptr')
    if kernel_launches[0].name == 'compact_resident':
        arrays['status'] = '(unsigned *)status'
    return Plan(kernel_launches, workspaces, arrays)


_PLANS = dict(sort=_sort_plan, argsort=_sort_plan, topk=_topk_plan, compact=_compact_plan)


def plan_of(program, rows, width) -> Plan:
    "Return the plan of a program for a case on an H100"
    return _PLANS[program.operator](program, rows, width)


def _case_lines(program, rows, width):
    "Yield the lines of C++ and the `Launch`es for a case"
    plan = plan_of(program, rows, width)
    for name, (c_type, num_elements, is_zeroed) in plan.workspaces.items():
        yield f'static auto *{name} = allocate<{c_type}>({num_elements});'
        if is_zeroed:
            yield f'OK(cudaMemsetAsync({name}, 0, {num_elements} * sizeof({c_type})));'
    if program.operator == 'compact':
        yield f'mark<<<{-(-rows * width // 256)}, 256>>>(x, keep, {rows * width});'
    for kernel_launch in plan.kernel_launches:
        yield Launch(kernel_launch, tuple(plan.arrays.get(name, name) for name in kernel_launch.arrays))


def _program(program):
    result = 'long long' if program.operator in ('argsort', 'topk') else _C_TYPES[program.dtype]
    constants = f'''enum Operator {{ SORT, ARGSORT, TOPK, COMPACT }};
constexpr Operator OPERATOR = {program.operator.upper()};
constexpr size_t K = {K};
typedef {_C_TYPES[program.dtype]} Key;
typedef {result} Out;'''
    description = f'`gridstride.kernels.{program.operator}` of {program.dtype}.'
    cases = [list(_case_lines(program, rows, width)) for rows, width in program.cases]
    functions = {'void launch(int case_index, const Key *x, Out *out)': cases}
    main_file = 'ordering/main.cuh'
    return Program(program.name, description, main_file, 'rows, width', program.cases, functions, constants)


def programs() -> list:  # of `Program`
    "Return one program per operator"
    return [_program(program) for program in PROGRAMS]
