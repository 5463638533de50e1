"""Translates inline PTX to calls of functions in the emulator's `ptx.h`.

`asm volatile("ldmatrix... {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(address))` consists of PTX and of the expressions
for its operands `%0`, `%1`, ... Each instruction becomes a call, each register that the PTX declares a variable, a
label a label, and a branch a `goto`. An instruction that cannot be translated raises `UnknownPTX`.
"""

import re
from functools import lru_cache

from .ptx_calls import DISCARDED_OPERAND, REGISTER_TYPES, raise_unsupported
from .ptx_instructions import instruction_code


# Special registers are written with `%%` in inline PTX, since `%` begins the index of an operand.
_SPECIAL_REGISTERS = dict(
    laneid='uint32_t(::gridstride::lane())',
    lanemask_eq='(1u << ::gridstride::lane())',
    lanemask_lt='((1u << ::gridstride::lane()) - 1)',
    lanemask_le='((2u << ::gridstride::lane()) - 1)',
    lanemask_gt='~((2u << ::gridstride::lane()) - 1)',
    lanemask_ge='~((1u << ::gridstride::lane()) - 1)',
    warpid='uint32_t(::gridstride::thread_rank() / 32)',
    nwarpid='64u',
    smid='::gridstride::ptx::sm()',
    nsmid='132u',
    clock='uint32_t(::clock64())',
    clock_hi='uint32_t(::clock64() >> 32)',
    clock64='uint64_t(::clock64())',
    globaltimer='uint64_t(::clock64())',
    globaltimer_lo='uint32_t(::clock64())',
    globaltimer_hi='uint32_t(::clock64() >> 32)',
    **{
        f'{ptx}.{d}': f'uint32_t({c}.{d})'
        for ptx, c in dict(
            tid='threadIdx',
            ntid='blockDim',
            ctaid='blockIdx',
            nctaid='gridDim',
            cluster_nctaid='::gridstride::cluster_shape()',
            clusterid='::gridstride::cluster_index()',
            cluster_ctaid='::gridstride::ptx::index_in_cluster()',
            nclusterid='::gridstride::ptx::clusters_of_grid()',
        ).items()
        for d in 'xyz'
    },
    cluster_ctarank='::gridstride::cluster_rank()',
    cluster_nctarank='::gridstride::cluster_blocks()',
)


def _label(name):
    return 'gs_label_' + re.sub(r'\W', '_', name)


def _operand(text, registers, num_operands):
    "Return C++ code for an operand, which may be one of `registers`; for `{a, b}`, several operands with commas"
    text = text.strip()
    for pattern in (_VECTOR, _TENSOR, _PAIR):
        if m := pattern.fullmatch(text):
            return ', '.join(_operand(part, registers, num_operands) for part in _list_parts(*m.groups()))
    if m := _ADDRESS.fullmatch(text):
        return _operand(m[1], registers, num_operands) + (
            f' + {_operand(m[2], registers, num_operands)}' if m[2] else ''
        )
    if m := re.fullmatch(r'%(\d+)', text):
        if int(m[1]) >= num_operands:
            raise_unsupported(f'operand {text}', f'this asm statement has {num_operands}')
        return f'gs_{m[1]}'
    if text in registers:
        return _register(text)
    return _constant(text)


# `{a, b}`, `[map, {x, y}]`, `a|b` and `[address + offset]`
_VECTOR = re.compile(r'\{(.*)\}', re.S)
_TENSOR = re.compile(r'\[\s*([^\s,]+)\s*,\s*(\{.*\})\s*\]', re.S)
_PAIR = re.compile(r'(\S+)\s*\|\s*(\S+)')
_ADDRESS = re.compile(r'\[\s*([^\s+]+)\s*(?:\+\s*([^\]]+?))?\s*\]')


def _list_parts(first, second=None):
    return [first, second] if second else first.split(',')


def _constant(text):
    "Return C++ code for an operand that is a number, a special register, a macro's parameter, or `_` (unused)"
    if text == '_':
        return DISCARDED_OPERAND
    if text[:1] == '%' and text.lstrip('%') in _SPECIAL_REGISTERS:
        return _SPECIAL_REGISTERS[text.lstrip('%')]
    if m := re.fullmatch(r'\x01(\w+)\x01', text):
        return f'({m[1]})'  # a macro parameter that `#` has stringified
    if m := re.fullmatch(r'0[fF]([0-9a-fA-F]{8})', text):
        return f'::gridstride::bit_cast<float>(0x{m[1]}u)'
    if text == 'WARP_SZ':
        return '32'
    if re.fullmatch(r'-?(?:0[xX][0-9a-fA-F]+|\d+)U?', text):
        return text
    if re.fullmatch(r'-?\d+\.\d*', text):
        return text + 'f'
    supported = 'registers that the PTX declares, integers, and %%laneid, %%lanemask_lt, %%smid, %%tid.x and the like'
    raise_unsupported(f'operand {text!r}', f'it supports %0, %1, ..., {supported}')


def _register(name):
    return 'gs_register_' + re.sub(r'\W', '_', name)


def _split_operands(text):
    "Split the operands of an instruction at the commas outside brackets"
    return [part for part in re.findall(r'(?:\{[^}]*\}|\[[^\]]*\]|[^,{\[])+', text) if part.strip()]


_STATEMENT = re.compile(
    r'\s*(?:(?P<brace>[{}])|(?:@(?P<not>!?)\s*(?P<guard>[\w%$]+)\s+)?(?P<name>\.?[A-Za-z][\w.:]*)(?P<operands>[^;]*);)'
)

_LABEL = re.compile(r'(?:(?<=[;{}\n])|\A)\s*([A-Za-z_$%][\w$]*)\s*:(?!:)')


@lru_cache(256)  # a source repeats its PTX
def translate_ptx(
    text: str,  # PTX, with `%0`, `%1`, ... for its operands
    num_operands: int,
) -> str:  # C++ code; operand n is its variable `gs_n`
    "Translate PTX to C++ statements; raises `UnknownPTX` if an instruction has no translation"
    text = re.sub(r'//[^\n]*|/\*.*?\*/', ' ', text, flags=re.S).rstrip()
    statements = []
    registers = set()  # those that the PTX declares
    pos = 0
    labels = ''.join(f'__label__ {_label(label)}; ' for label in dict.fromkeys(_LABEL.findall(text)))
    while pos < len(text):
        if m := _LABEL.match(text, pos):
            pos = m.end()
            statements.append(f'{_label(m[1])}:;')
            continue
        if not (m := _STATEMENT.match(text, pos)):
            raise_unsupported(f'{text[pos:].strip()!r}', 'an instruction ends with a semicolon')
        pos = m.end()
        statements.append(m['brace'] or _translate_statement(m, registers, num_operands))
    return f"{{ {labels}{' '.join(statements)} }}" if labels else ' '.join(statements)


def _translate_statement(m, registers, num_operands):
    "Return C++ code for one statement of PTX; a declaration adds to `registers`"
    if m['name'].startswith('.'):
        return _declaration(m['name'], m['operands'], registers)
    guard = f"if ({m['not']}{_operand(m['guard'], registers, num_operands)}) " if m['guard'] else ''
    if m['name'].startswith('bra'):
        return f"{guard}goto {_label(m['operands'].strip())};"
    parts = _split_operands(m['operands'])
    operands = [x for part in parts for x in _operand(part, registers, num_operands).split(', ')]
    name = m['name']
    if name.startswith('mov.') and len(operands) > 2:
        name += '.unpack' if parts[0].strip().startswith('{') else '.pack'
    if name.startswith('tcgen05.mma') and len(parts) > 1 and parts[1].strip().startswith('['):
        name += '.tensor_a'  # A is in tensor memory, not in shared memory
    return f"{guard}{instruction_code(name, operands)};"


def _declaration(name, types, registers):
    "Add declared registers to `registers`, and return C++ code that declares them"
    m = re.fullmatch(r'\s*\.(\w+)\s+([\w$%]+(?:\s*,\s*[\w$%]+)*)\s*', types)
    if name != '.reg' or not m or m[1] not in REGISTER_TYPES:
        raise_unsupported(f'declaration {(name + types).strip()!r}', f".reg of {', '.join(REGISTER_TYPES)} only")
    names = re.split(r'\s*,\s*', m[2])
    registers.update(names)
    return f"{REGISTER_TYPES[m[1]]} {', '.join(f'{_register(name)}{{}}' for name in names)};"
