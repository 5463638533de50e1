"""Emits the host code of a translation: a C++ function that takes tensors, checks them, and launches the kernel."""

from .tree import functions, statements
from .types import C_NAMES

HOST_GUARD = '#ifndef __CUDACC_RTC__  // what follows is for the host'
_HEADERS = 'torch/extension.h', 'c10/cuda/CUDAException.h', 'ATen/cuda/CUDAContext.h', 'algorithm', 'climits'
_TORCH_DTYPES = {
    'bool': 'kBool',
    'int8': 'kInt8',
    'uint8': 'kUInt8',
    'int16': 'kInt16',
    'uint16': 'kUInt16',
    'int32': 'kInt32',
    'uint32': 'kUInt32',
    'int64': 'kInt64',
    'uint64': 'kUInt64',
    'float16': 'kFloat16',
    'bfloat16': 'kBFloat16',
    'float32': 'kFloat32',
    'float64': 'kFloat64',
}

_CHECK_ARRAY = '''\
static void check_array(const torch::Tensor &x, const char *name, torch::ScalarType type, int64_t dims) {
    TORCH_CHECK(x.is_cuda(), name, " must be on the GPU");
    TORCH_CHECK(x.scalar_type() == type, name, " is ", x.scalar_type(), ", and this kernel takes ", type);
    TORCH_CHECK(x.dim() == dims, name, " has ", x.dim(), " dimensions, and this kernel takes ", dims);
'''
_CHECK_32_BITS = '''\
    const int64_t most = INT_MAX - 65535;  // so that an index past the end still fits in an int
    int64_t last = x.numel();
    for (int64_t d = 0; d < dims; d++) last = std::max({last, x.size(d), (x.size(d) - 1)*x.stride(d)});
    TORCH_CHECK(last <= most, name, " is too large for the 32-bit indices of this kernel");
'''
_RAISE_SHARED_LIMIT = (
    '    if ({shared} > 48*1024) '
    'C10_CUDA_CHECK(cudaFuncSetAttribute({kernel}, cudaFuncAttributeMaxDynamicSharedMemorySize, int({shared})));'
)
_COOPERATIVE = (
    '    C10_CUDA_CHECK(cudaLaunchCooperativeKernel('
    '(void *){kernel}, {blocks}, {threads}, args, {shared}, at::cuda::getCurrentCUDAStream()));'
)


def join_in_lines(items, start, width=120):
    "Join the items with commas, in lines of at most `width` columns; the first line follows the string `start`"
    lines = [start]
    for n, item in enumerate(items):
        item += ',' if n + 1 < len(items) else ''
        if len(lines[-1]) + len(item) > width and lines[-1] != start:
            lines.append(' ' * 8 + item)
        else:
            lines[-1] += (' ' if not lines[-1].endswith(('(', ' ' * 8)) else '') + item
    return '\n'.join(lines)[len(start) :]


def launcher_lines(unit, params):
    "Return the lines of the host code; `params`: one `Parameter` per parameter of the C kernel"
    names = _choose_names({p.name for p in params})
    lines = []
    if any(p.kind == 'array' for p in params):
        lines += [_CHECK_ARRAY + ('' if unit.all_int64 else _CHECK_32_BITS) + '}', '']
    lines += _signature_lines(unit.main.c_name, params, **names)
    lines += _check_lines(unit, params)
    lines += ['    {grid}.resize(3, 1); {block}.resize(3, 1);'.format(**names)]
    all_statements = (s for function in functions(unit) for s in statements(function.body))
    if any(s.kind == 'alloc' and s.buffer.space == 'dynamic' for s in all_statements):
        lines.append(_RAISE_SHARED_LIMIT.format(kernel=unit.main.c_name, **names))
    lines += _launch_lines(unit, params, **names)
    lines += ['    C10_CUDA_KERNEL_LAUNCH_CHECK();', '}']
    includes = [f'#include <{header}>' for header in _HEADERS]
    return [HOST_GUARD, *includes, '', *'\n'.join(lines).split('\n'), '#endif']


def _choose_names(param_names):
    "Return {name: unused name} of the launcher's own variables: the name, with a suffix if it is in `param_names`"
    return {n: n if n not in param_names else n + '_' for n in ('grid', 'block', 'shared', 'blocks', 'threads')}


def _signature_lines(kernel, params, grid, block, shared, **_):
    parameters = [
        'torch::Tensor ' + p.name if p.kind == 'array' else f'{p.type} {p.name}' for p in _launcher_params(params)
    ]
    parameters += [f'std::vector<int64_t> {grid}', f'std::vector<int64_t> {block}', f'int64_t {shared} = 0']
    start = f'void launch_{kernel}('
    return [
        f'// {grid} and {block}: one to three sizes each; {shared}: bytes of dynamic shared memory',
        start + join_in_lines(parameters, start) + ') {',
    ]


def _launcher_params(params):
    "Return the parameters of the kernel that are parameters of the launcher, too"
    return [p for p in params if p.kind in ('array', 'scalar')]


def _check_lines(unit, params):
    "Return the lines that check the arguments"
    lines = []
    for p in params:
        if p.kind == 'array':
            lines += _array_check_lines(p.name, p.dim)
    for variable, minimum in unit.minimums.items():
        name = variable.c_name
        lines.append(f'    TORCH_CHECK({name} >= {minimum}, "{name} must be at least {minimum}");')
    return lines


def _array_check_lines(name, argument_type):
    lines = [f'    check_array({name}, "{name}", torch::{_TORCH_DTYPES[argument_type.dtype]}, {argument_type.ndim});']
    if not any(argument_type.takes_stride) and argument_type.ndim:
        lines.append(f'    TORCH_CHECK({name}.is_contiguous(), "{name} must be contiguous");')
    elif argument_type.ndim and not argument_type.takes_stride[-1]:
        message = f'the last dimension of {name} must be contiguous'
        lines.append(f'    TORCH_CHECK({name}.stride({argument_type.ndim - 1}) == 1, "{message}");')
    return lines


def _launch_lines(unit, params, grid, block, shared, blocks, threads):
    kernel, arrays = unit.main.c_name, {p.path: p.name for p in params if p.kind == 'array'}
    values = [_argument_expression(p, arrays) for p in params]
    sizes = ', '.join(f'{grid}[{d}]' for d in range(3)), ', '.join(f'{block}[{d}]' for d in range(3))
    lines = [f'    dim3 {blocks}({sizes[0]}), {threads}({sizes[1]});']
    if not unit.is_cooperative:
        start = f'    {kernel}<<<{blocks}, {threads}, {shared}, at::cuda::getCurrentCUDAStream()>>>('
        return [*lines, start + join_in_lines(values, start) + ');']
    names = [f'arg{n}' for n in range(len(values))]
    for n, value, p in zip(names, values, params):
        lines.append(f"    {p.type}{'' if p.type.endswith('*') else ' '}{n} = {value};")
    lines.append(f"    void *args[] = {{{', '.join('(void *)&' + n for n in names)}}};")
    return [*lines, _COOPERATIVE.format(kernel=kernel, shared=shared, blocks=blocks, threads=threads)]


def _argument_expression(p, arrays):
    "Return the C expression of the argument for a parameter; `arrays`: {path: name}"
    if p.kind == 'array':
        c_type = C_NAMES[p.dim.dtype]
        has_torch_type = c_type in ('float', 'double', 'int', 'bool')
        return f'{p.name}.data_ptr<{c_type}>()' if has_torch_type else f'({c_type} *){p.name}.data_ptr()'
    if p.kind == 'scalar':
        return p.name
    if p.kind == 'start':
        return '0'
    text = f'{arrays[p.path]}.{p.kind}({p.dim})'
    return text if p.type == 'long long' else f'int({text})'
