"""Parse PTX and SASS into instructions, with their kinds and source lines."""

import re
from collections import namedtuple


# The opcode, with its modifiers after dots, determines the kind of an instruction. In SASS, a leading `U` often means
# that the instruction runs once per warp. The kinds show which memory a kernel accesses, how many instructions are
# floating-point arithmetic, and how many only compute addresses and control loops.
_SASS_OPCODES = {
    'move': '''
        IMAD.MOV MOV UMOV S2R S2UR CS2R CS2UR R2UR SEL USEL FSEL UFSEL P2R UP2UR R2P UR2UP PRMT UPRMT MOVM''',
    'tensor': 'HMMA IMMA DMMA BMMA QMMA OMMA HGMMA IGMMA QGMMA BGMMA UTC*MMA UTCCP UTCSHIFT LDT LDTM STT STTM',
    'local': 'LDL STL',
    'shared': 'LDS STS ATOMS LDSM STSM STAS REDAS',
    'barrier': '''
        BAR UBAR B2R MEMBAR ERRBAR FENCE DEPBAR LDGDEPBAR SYNCS UCGABAR* CGAERRBAR WARPGROUP ARRIVES UTCBAR
        UTCATOMSWS ACQBULK ACQSHMINIT PREEXIT UTMACMDFLUSH UTMACCTL CCTL''',
    'global': '''
        LD ST LDG STG ATOM ATOMG RED REDG LDGSTS UTMA* UBLK* SULD SUST SUATOM SURED TEX TLD TLD4 TXD TXQ TMML''',
    'constant': 'LDC ULDC LDCU',
    'convert': 'F2F F2I I2F I2FP I2I I2IP F2FP F2IP FRND UF2F UF2I UF2FP UI2F UI2FP UI2I UFRND',
    'warp': 'SHFL VOTE VOTEU MATCH REDUX CREDUX ELECT',
    'control': '''
        BRA UBRA BRX BRXU JMP JMX JMXU EXIT RET CALL BSSY BSYNC BREAK BMOV KILL NANOSLEEP YIELD RPCMOV BPT WARPSYNC
        WARPEXIT COLLECTIVE ENDCOLLECTIVE''',
    'float': '''
        FADD* FMUL* FFMA* FMNMX* FSET FSETP FSWZADD FCHK FHADD FHFMA HADD2 HMUL2 HFMA2 HSET2 HSETP2 HMNMX2 DADD DMUL
        DFMA DSET DSETP DMNMX MUFU UFADD UFMUL UFFMA UFSET UFSETP UFMNMX''',
    'integer': '''
        I* UI* LEA ULEA LOP* ULOP* SHF USHF SHL SHR USHL USHR V* UVI* POPC UPOPC FLO UFLO BREV UBREV BMSK UBMSK SGXT
        USGXT PLOP3 UPLOP3 LEPC QSPC''',
}
_PTX_OPCODES = {
    'tensor': 'mma wmma wgmma.mma_async tcgen05.mma tcgen05.ld tcgen05.st tcgen05.cp tcgen05.shift',
    'shared': 'ldmatrix stmatrix',
    'barrier': '''
        bar barrier membar fence mbarrier griddepcontrol wgmma tcgen05 cp.async.wait* cp.async.commit*
        cp.async.bulk.wait* cp.async.bulk.commit* cp.async.mbarrier*''',
    'global': 'cp ldu prefetch prefetchu tex tld4 suld sust sured discard applypriority createpolicy',
    'convert': 'cvt',
    'warp': 'shfl vote match redux activemask elect',
    'control': 'bra brx ret exit call trap brkpt nanosleep pmevent',
    'move': 'mov selp cvta isspacep prmt mapa getctarank',
    'float': 'sqrt rsqrt rcp sin cos ex2 lg2 tanh testp copysign',
    'integer': '''
        and or xor not cnot lop3 shl shr shf bfe bfi bfind bmsk clz popc brev sad dp4a dp2a mul24 mad24 addc subc
        madc rem szext fns v*''',
}
_MEMORY_OPS = ('ld', 'st', 'atom', 'red')
_ARITHMETIC = re.compile(r'(add|sub|mul|mad|fma|div|neg|abs|min|max|setp?|slct)\b')
_FLOATS = {'f16', 'f16x2', 'bf16', 'bf16x2', 'f32', 'f32x2', 'f64'}


def _compile_rules(opcodes_of_kind):
    "Return [(kind, pattern of its opcodes)]; a `*` in an opcode matches any letters and digits"
    return [
        (kind, re.compile('(?:' + '|'.join(re.escape(op).replace(r'\*', r'\w*') for op in ops.split()) + r')(?![\w])'))
        for kind, ops in opcodes_of_kind.items()
    ]


_SASS_RULES, _PTX_RULES = _compile_rules(_SASS_OPCODES), _compile_rules(_PTX_OPCODES)


def kind_of(
    op: str,  # the opcode with its modifiers
    language='sass',  # or 'ptx'
) -> str:  # a key of `listing.KINDS`
    """Return the kind of an instruction.

    >>> kind_of('LDG.E.128'), kind_of('fma.rn.f32', 'ptx')
    ('global', 'float')"""
    parts = re.split(r'[.:]+', op)
    if language == 'ptx' and (parts[0] in _MEMORY_OPS or parts[0] == 'wmma' and parts[1] in ('load', 'store')):
        space = next((part for part in parts if part in ('shared', 'local', 'param', 'const')), 'global')
        return 'constant' if space in ('param', 'const') else space
    rules = _SASS_RULES if language == 'sass' else _PTX_RULES
    kind = next((kind for kind, pattern in rules if pattern.match(op)), None)
    if kind or language == 'sass':
        return kind or 'other'
    if _FLOATS & set(parts):
        return 'float'
    return 'integer' if _ARITHMETIC.match(op) else 'other'


# An instruction of an inlined function has two source lines: one in the function and one in its caller. `line` is that
# of the function if the listing's source contains it, else that of the caller.
#
# position: the address in SASS, the index in PTX; op: the opcode; line: of the source, 0 if unknown; target: the label
# of a branch, else ''.
Instruction = namedtuple('Instruction', 'position op kind text line target')

_BRANCH = re.compile(r'(?:bra|BRA|UBRA)\S*\s.*?(?:`\()?(\.L\w+|\$L\w+)\)?\s*;?$')

# This instruction computes -0*0 plus a constant; the compiler uses it as a move if the pipeline of moves is busy.
_MOVE_BY_FMA = re.compile(r'^HFMA2\S* \w+, -RZ, RZ, ')


def parse_instruction(position, text, line, language):
    "Return the `Instruction` with this text"
    text = re.sub(r'\s+', ' ', text.replace(';', '')).strip()
    text_without_predicate = re.sub(r'^(?:@!?U?%?\w+ )', '', text)
    op = text_without_predicate.split()[0].rstrip(',')
    branch = _BRANCH.match(text_without_predicate)
    kind = 'move' if _MOVE_BY_FMA.search(text_without_predicate) else kind_of(op, language)
    return Instruction(position, op, kind, text, line, branch[1] if branch else '')


def _source_line(locations, file, kernel_lines):
    "Return the first line among (file, line) pairs, innermost first, that is in the kernel's source; 0 for none"
    return next(
        (
            line
            for path, line in locations
            if path.split('/')[-1] == file and (kernel_lines is None or line in kernel_lines)
        ),
        0,
    )


def read_sass(
    text: str,  # the output of `nvdisasm -c -gi`
    entry: str,  # the kernel's name in it
    file: str,  # the source's file name, without folders
    kernel_lines=None,  # line numbers of the kernel; None: all
) -> list:  # of `Instruction`s and labels
    "Return the instructions of a kernel and of the functions that it calls"
    items = []
    for section in re.split(r'^//-+ +(?=\.)', text, flags=re.M)[1:]:
        name = re.match(r'\.text\.(\S+)', section)
        if name and (name[1] == entry or 'STO_CUDA_ENTRY' not in section):
            items += _strip_padding(_parse_sass_section(section, file, kernel_lines))
    return items


def _strip_padding(items):
    "Remove the padding after a function, which never runs: a branch to itself, and NOPs up to a multiple of 128 bytes"
    while items and (isinstance(items[-1], str) or items[-1].op == 'NOP'):
        items.pop()
    if len(items) > 1 and items[-1].target == items[-2]:
        del items[-2:]
    return items


def _parse_sass_section(section, file, kernel_lines):
    "Return the instructions and labels of one function in the output of nvdisasm"
    items = []
    locations = []
    is_new_location = True
    for line in section.splitlines():
        if match := re.match(r'\s*//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?', line):
            if is_new_location:
                locations = []
                is_new_location = False
            locations += [(match[1], int(match[2]))] + ([(match[3], int(match[4]))] if match[3] else [])
        elif match := re.match(r'\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;', line):
            items.append(
                parse_instruction(int(match[1], 16), match[2], _source_line(locations, file, kernel_lines), 'sass')
            )
        elif match := re.match(r'(\.L_x_\w+|\$\S+):', line):
            items.append(match[1])
        if not line.strip().startswith('//## '):
            is_new_location = True
    return items


def read_ptx(
    text: str,  # a module
    entry: str,  # the kernel's name in it
    file: str,  # the source's file name, without folders
    kernel_lines=None,  # line numbers of the kernel; None: all
) -> list:  # of `Instruction`s and labels
    "Return the instructions of a kernel"
    files = {match[1]: match[2] for match in re.finditer(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', text, re.M)}
    items = []
    line = 0
    index = 0
    for match in _BODY_ELEMENT.finditer(re.sub(r'//.*', '', _body(text, entry)[0])):
        if match['loc']:
            location = re.match(r'(\d+)\s+(\d+)\s+\d+(?:.*inlined_at\s+(\d+)\s+(\d+))?', match['loc'])
            locations = [(files.get(location[i], ''), int(location[i + 1])) for i in (1, 3) if location[i]]
            line = _source_line(locations, file, kernel_lines)
        elif match['label'] and not re.match(r'\$L__(?!BB)', match['label']):
            items.append(match['label'])
        elif match['text']:
            items.append(parse_instruction(index, match['text'], line, 'ptx'))
            index += 1
    return items


# The parts of a kernel's body: braces of blocks, directives, labels and instructions. A brace among the operands
# belongs to an instruction.
_BODY_ELEMENT = re.compile(
    r'\s*(?:[{}]|\.loc\s+(?P<loc>[^\n]*)|(?P<label>[$%\w]+)\s*:|\.[^;]*;|(?P<text>[^\s;{}][^;]*);)'
)


def _body(text, entry):
    "Return (the text between the braces of a kernel, its start in `text`, its end)"
    start = re.search(rf'^.*\.entry\s+{re.escape(entry)}\s*\(', text, re.M)
    if not start:
        raise ValueError(f'no kernel {entry} in this PTX')
    depth = 0
    opening_brace = text.index('{', start.end())
    for match in re.finditer(r'//[^\n]*|[{}]', text[opening_brace:]):
        depth += {'{': 1, '}': -1}.get(match[0], 0)
        if not depth:
            return text[opening_brace + 1 : opening_brace + match.start()], start.start(), opening_brace + match.end()


def clean_ptx(
    text: str,  # a module
    entry: str,  # the kernel's name in it
) -> str:
    "Return the PTX of a kernel without debugging information"
    _, start, end = _body(text, entry)
    directives = re.findall(r'^\.(?:version|target|address_size)\b.*', text, re.M)
    lines = re.sub(r'//.*', '', text[start:end]).splitlines()
    debug_line = re.compile(r'\s*(\.loc|\.pragma|\$L__(?!BB))')
    return '\n'.join(
        [*directives, '', *(line.rstrip() for line in lines if line.strip() and not debug_line.match(line))]
    )
