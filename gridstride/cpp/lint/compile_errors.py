"""Formats compiler errors for a learner: with the learner's line, the message and the line that used a template or
macro.

A compiler prints `name.cu:3:5: error: ...`, and many more lines. An error in a header or a template is attributed to
the line of the learner's source that used the header or template. Only the first error at each location is reported.
"""

import os, re
from pathlib import Path
from typing import NamedTuple

from ...diagnostics.errors import warn_learner
from ...support.short_tracebacks import ShortTracebackError
from .uninitialized import is_guarded, is_set_by_call, macros_that_set, may_use_uninitialized, find_uninitialized_uses
from ..frontend.reader import read_compiled


class Diagnostic(NamedTuple):
    "An error or a warning of a compiler: line and column (0: unknown) in the learner's source, and the message"

    line: int
    column: int
    message: str
    line_of_use: int = None  # the line that used the template or macro with the error
    file: str = ''  # the file of the line, if it is not the source but another file of the learner
    origin: str = ''  # the file and line of the error, if a header that is not the learner's has it


class CompileError(ShortTracebackError, RuntimeError):
    """The source does not compile; the message contains the learner's lines with the compiler's messages.

    `errors` is a list of `Diagnostic`, `file` and `line` belong to the first one, `source_name` is the name of the
    source in the message, `log` is the compiler's whole log."""

    def __init__(
        self,
        src,
        name,
        log,
        command=(),
        other_files=(),  # dict: name -> text of the learner's other files
    ):
        self.source_name = name
        self.log = log
        self.command = command
        self.errors = read_log(log, name, other_files=other_files)
        self.file = self.errors[0].file or name if self.errors else name
        self.line = self.errors[0].line if self.errors else None
        super().__init__(
            describe(self.errors, src, name, other_files) if self.errors else _format_other_errors(log, name)
        )


class CompileWarning(UserWarning):
    "The source compiles, but one of its lines is probably a mistake"


_NVCC_DIAGNOSTIC = r'^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?:catastrophic )?{kind}(?: #[\w-]+)?: (?P<message>.*)'
_GCC_DIAGNOSTIC = r'^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? (?:fatal )?{kind}: (?P<message>.*)'


def _find_diagnostics(kind, log):
    patterns = (pattern.format(kind=kind) for pattern in (_GCC_DIAGNOSTIC, _NVCC_DIAGNOSTIC))
    return [match for pattern in patterns for match in re.finditer(pattern, log, re.M)]


# the line that used the template or macro with the error: g++ prints it before the error, clang and nvcc after it
_USE_BEFORE = r'^{name}:(\d+):(?:\d+:)?\s+required from here'
_USE_AFTER = (
    r'^{name}:(\d+):(?:\d+:)? note: in expansion of macro',
    r'^{name}:(\d+):(?:\d+:)? note: in instantiation of .* requested here',
    r'detected during .*?at line (\d+)',
)


def read_log(
    log: str,  # of g++, clang or nvcc
    name: str,  # of the learner's source, as in the log
    kind='error',  # or 'warning'
    other_files=(),  # names of the learner's other files
) -> list:  # of `Diagnostic`, at most one per location
    "Parse the errors, or warnings, in the learner's files or caused by them, from a log"
    matches = _find_diagnostics(kind, log)
    matches.sort(key=re.Match.start)
    ends = [0, *(match.end() for match in matches)]
    starts = [*(match.start() for match in matches), len(log)]
    diagnostics = {}
    for i, match in enumerate(matches):
        diagnostic = _diagnose(
            match, name, other_files, log[ends[i] : starts[i]], log[match.end() : starts[i + 1]], log[: match.start()]
        )
        if diagnostic:
            diagnostics.setdefault(
                (diagnostic.file, diagnostic.line, 0 if diagnostic.line_of_use else diagnostic.column), diagnostic
            )
    return list(diagnostics.values())


def _diagnose(match, name, other_files, log_before, log_after, whole_log_before):
    "Return the `Diagnostic` for a match from the log around it; None if it belongs to no line of the learner's files"
    line_of_use = _line_of_use(name, log_before, log_after)
    column = int(match.groupdict().get('column') or 0)
    if Path(match['file']).name == name:
        line = int(match['line'])
        return Diagnostic(
            line, column, _translate_message(match['message'], log_after), line_of_use if line_of_use != line else None
        )
    if (file := os.path.normpath(match['file'])) in other_files:
        return Diagnostic(
            int(match['line']), column, _translate_message(match['message'], log_after), line_of_use, file
        )
    line = (
        line_of_use
        or _find_line(name, log_before, -1)
        or _find_line(name, whole_log_before, -1)
        or _find_line(name, log_after, 0)
    )
    return Diagnostic(line, 0, match['message'], origin=_origin_of(match, log_after)) if line else None


# Headers of compilers and of the emulator, whose lines do not help a learner
_SYSTEM_FOLDERS = re.compile(r'/(?:usr|opt|Library|nix)/|.*/gridstride/cpp/include/|<')


def _origin_of(match, log_after):
    "Return `file, line n: text` of an error in a header; '' for headers of the compiler and the emulator"
    if _SYSTEM_FOLDERS.match(match['file']):
        return ''
    shown = _SHOWN_LINE.match(log_after)
    text = (shown['gcc'] or shown['clang'] or '').strip() if shown else ''
    return f'{match["file"]}, line {match["line"]}: {text}'


def _line_of_use(name, log_before, log_after):
    "Return the line that used the template or the macro with the error; None if there is none"
    if lines := re.findall(_USE_BEFORE.format(name=re.escape(name)), log_before, re.M):
        return int(lines[-1])
    for pattern in _USE_AFTER:
        if lines := re.findall(pattern.format(name=re.escape(name)), log_after, re.M | re.S * ('during' in pattern)):
            return int(lines[-1])


def _find_line(name, text, index):
    "Return a line number of the file that the text mentions, the first (0) or the last (-1); None if there is none"
    mentioned_lines = re.findall(rf'{re.escape(name)}:(\d+)', text)
    return int(mentioned_lines[index]) if mentioned_lines else None


# If an `extern __shared__` array is declared with two types, the error names the emulator's variable for it.
_EXTERN_SHARED = re.compile(r"['\"‘][^'\"’]*\bgs_extern_(\w+)[^'\"’]*['\"’]")
_PREVIOUS_DECLARATION = re.compile(r':(\d+):(?:\d+:)? note: previous (?:declaration|definition)')


def _translate_message(message, log_after):
    "Replace the emulator's names in a message by nvcc's wording; `log_after` is the log after the message"
    message = message.replace('gs_parameters_of_', '')  # see `rewriters.launches`
    if not (match := _EXTERN_SHARED.search(message)):
        return message
    line = _PREVIOUS_DECLARATION.search(log_after)
    return f'declaration is incompatible with previous "{match[1]}"' + (
        f' (declared at line {line[1]})' if line else ''
    )


# a rewritten line, whose columns differ from the learner's
_REWRITTEN = re.compile(r'<<<|__(shared|device|constant|managed)__')


def describe(
    diagnostics: list,  # of `Diagnostic`
    src: str,  # the learner's source
    name: str,
    other_files=(),  # dict: name -> text of the learner's other files
    max_diagnostics=3,  # the maximum number of diagnostics
) -> str:
    "Format the lines of the source with the compiler's messages"
    lines = {file: text.splitlines() for file, text in {**dict(other_files), '': src}.items()}
    # errors in lines after the learner's last one, which the emulator added, are consequences of other errors
    diagnostics = [d for d in diagnostics if d.line <= len(lines[d.file])] or diagnostics
    output = [line for d in diagnostics[:max_diagnostics] for line in _format_diagnostic(d, lines, name)]
    num_omitted = len(diagnostics) - max_diagnostics
    if num_omitted > 0:
        output.append(f"and {num_omitted} more error{'s' * (num_omitted > 1)}; fix these first")
    return '\n'.join(output)


# Hints for errors that Python users make and compilers explain badly: (pattern of the line, pattern of the message,
# hint). The second pattern is matched against the message and the line after it.
_UNDECLARED_NAME = r'^(?=.*(?:not declared|undeclared|undefined))'
_HINTS = (
    (
        r'__shared__',
        r"call to 'shared\b|constant value|variable.length",
        'The size of a shared array must be a compile-time constant: a number, a `constexpr`, a template argument.\n'
        '  For a size set at launch, write `extern __shared__ float s[];`; its bytes are the third launch parameter.',
    ),
    (
        r'__shared__',
        r'declaration is incompatible with previous',
        '`extern __shared__` arrays of the same name are the same array, so their types must agree. '
        'Use different names,\n  or declare one `extern __shared__ char name[];` and cast it: '
        '`T *s = reinterpret_cast<T *>(name);`.',
    ),
    (
        r'\]\s*\[',
        r'for array subscript|subscripted value is not|pointer-to-object type',
        'A pointer has one index: `x[r*w + c]` is the element at row r, column c, with w elements per row.',
    ),
    (
        r'\*\*',
        r"unary '\*'|indirection requires pointer|operand of \"\*\"",
        'C has no `**`: write `x*x`, or `powf(x, y)`.',
    ),
    (
        r'\b(if|for|while)\s+[^(\s]',
        r"expected (a )?['\"]\(",
        'In C the condition of `if`, `for` and `while` is in parentheses, and the body in braces: '
        '`if (i < n) { ... }`.',
    ),
    (
        r'\b(CHECK_\w+|TORCH_CHECK|cdiv)\b',
        _UNDECLARED_NAME + r'.*[\'"](CHECK_\w+|TORCH_CHECK|cdiv)[\'"]',
        "`cuda_begin` defines it: start the source with it, `cuda_begin + r'''...'''`.",
    ),
    (
        r'<<<',
        _UNDECLARED_NAME + r'.*[\'"](\w+)[\'"].*\n.*\b\1\s*<',
        'C knows a name only after its declaration: put the kernel above the function that launches it.',
    ),
    (
        r'\]\s*\(',
        r"operator\[\]' \(operand types are 'void|subscript of pointer to function",
        'In C a launch is written `kernel<<<blocks, threads>>>(...)`; square brackets are for Python.',
    ),
    (
        r'<<<',
        r'no matching function for call to|no instance of function template',
        'Is it a template? Then its arguments in angle brackets must be compile-time constants: '
        '`kernel<16><<<blocks, threads>>>(...)`.',
    ),
    (
        r'#\s*include',
        r'No such file|file not found|cannot open source',
        "Your own headers are searched for in the current directory and in the program's directory; "
        '`python -m gridstride.cpp -I FOLDER program.cu` adds a directory.',
    ),
    (
        r'\b(__)?half2?\b',
        r"unknown type name ['\"](__)?half|['\"](__)?half2?['\"].*(not declared|undefined)",
        'Include its header: `#include <cuda_fp16.h>`.',
    ),
    (
        r'\b(__)?nv_bfloat162?\b',
        r"unknown type name ['\"](__)?nv_bf|['\"](__)?nv_bfloat162?['\"].*(not declared|undefined)",
        'Include its header: `#include <cuda_bf16.h>`.',
    ),
    (
        r'__global__',
        r'with no type|explicit type is missing|type specifier|must have a (return )?type|requires a type',
        'Declare a kernel as `__global__ void`.',
    ),
    (
        r'',
        r'jump to (label|case label)|cannot jump from',
        'A jump must not bypass a declaration with an initializer; on the emulator this includes shared variables. '
        'Move the declaration above the jump, or into braces.',
    ),
    (
        r'',
        r'local variable (with automatic storage|.*declared in enclosing function)',
        'A local type cannot use the local variables of the enclosing function; on the emulator this includes shared '
        'variables. Pass it a pointer.',
    ),
    (
        r'<<.*>>',
        r"operator<<|invalid operands to binary expression|no operator \"<<\"",
        'A launch is written with three angle brackets: `kernel<<<blocks, threads>>>(...)`.',
    ),
    (
        r'\breturn\b',
        r"return-statement with a value|should not return a value|return value type does not match",
        'A `void` function returns nothing: a kernel writes its result to an array, `out[i] = ...`.',
    ),
    (
        r'=',
        r'read-only|const-qualified|modifiable lvalue',
        '`const` data is read-only: declare an array that a kernel writes as `float *out`. A lambda cannot write to a '
        'variable that it captures by copy.',
    ),
    (
        r'^(?!.*\]\s*\[)',
        r'\[(float|double)\]|subscript is not an integer|must have integral',
        'An index must be an integer: `int i = ...`.',
    ),
    (
        r'^(?!.*\]\s*\[)',
        r"types ['\"][\w ]*\w\[|subscripted value is not|pointer-to-object type",
        'Declare an array parameter as a pointer, `float *x`; `float x` is a single value.',
    ),
    (
        r'\w\s*\[[^\[\]]*\w\s*,\s*\w[^\[\]]*\]',
        r"\w \[\d+\]'|array type|modifiable lvalue",
        'C needs a pair of brackets per index: `s[tr][tc]`.',
    ),
    (r'', r"expected ',' or ';' before '(\w+)'.*\n\s*\1\b", 'The statement before it must end with `;`.'),
    (
        r'=',
        _UNDECLARED_NAME + r'.*[\'"](\w+)[\'"].*\n\s*\1\s*=',
        'Declare a variable with its type: `int i = ...`, `float o = 0;`.',
    ),
    (
        r'\b__sync\w+\s*;',
        r'no effect|unused',
        'Add the parentheses, `__syncthreads();`: without them the function is not called.',
    ),
    (r'\(', r"::Tensor['\"] to ['\"](const )?\w+ ?\*", "Pass a tensor's address to a kernel: `x.data_ptr<float>()`."),
)


def _format_diagnostic(diagnostic, lines, name):
    "Yield the lines of text for one diagnostic"
    text = _get_line(lines[diagnostic.file], diagnostic.line)
    yield f'{diagnostic.file or name}, line {diagnostic.line}: {diagnostic.message}'
    yield f'  {text}'
    if 0 < diagnostic.column <= len(text) and not _REWRITTEN.search(text):
        yield f"  {' ' * (diagnostic.column - 1)}^"
    if diagnostic.origin:
        yield f'in {diagnostic.origin}'
    if diagnostic.line_of_use:
        file_suffix = f' of {name}' if diagnostic.file else ''
        line_of_use = _get_line(lines[''], diagnostic.line_of_use).strip()
        yield f'used in line {diagnostic.line_of_use}{file_suffix}: {line_of_use}'
    message_and_line = f'{diagnostic.message}\n{text}'
    yield from (
        f'  {hint}'
        for line_pattern, message_pattern, hint in _HINTS
        if re.search(line_pattern, text) and re.search(message_pattern, message_and_line)
    )


def _get_line(lines, n):
    "Return line `n`, with indices from 1; '' if there is no such line"
    return lines[n - 1] if n <= len(lines) else ''


# the line of the source that g++ and clang print after a message: `   12 |   text`, or `  text` and a line with `^`
_SHOWN_LINE = re.compile(r'\n +\d+ \| ?(?P<gcc>.*)|\n(?P<clang>[^\n]*)\n *[~ ]*\^')


def _format_other_errors(log, name, max_errors=3):
    """Format the errors of a log that are in none of the learner's files, with file, line and text; omit warnings.

    If there are none, as in a linker's log, the result has the last lines of the log."""
    matches = _find_diagnostics('error', log)
    if not matches:
        return _format_last_lines(log, name)
    lines = [f'{name} does not compile:']
    for m in matches[:max_errors]:
        lines.append(f'{m["file"]}, line {m["line"]}: {m["message"]}')
        if shown := _SHOWN_LINE.match(log, m.end()):
            lines.append(f'  {(shown["gcc"] or shown["clang"] or "").strip()}')
    return '\n'.join(lines)


def _format_last_lines(log, name, max_lines=12):
    lines = [line for line in log.strip().splitlines() if not re.match(r'ptxas\s+(info|\.)\s|.*\bwarning: ', line)]
    return '\n'.join([f'{name} does not compile:', *lines[-max_lines:]])


# Compiler warnings with few false positives
WARNINGS = ('format', 'uninitialized', 'parentheses', 'return-type', 'unused-value')
_ALIASES = ('format-extra-args', 'dangling-else', 'logical-op-parentheses', 'bitwise-op-parentheses')
_ALIASES += ('maybe-uninitialized', 'sometimes-uninitialized', 'return-local-addr', 'return-stack-address')
_RELIABLE_WARNING = re.compile(rf"(.*) \[-W(?:{'|'.join(WARNINGS + _ALIASES)})=?\]$")
_INTEGER_64 = re.compile(r'(unsigned )?long( long)?( unsigned)?( int)?')


def _differs_in_integer_name(message):
    "Return whether the warning is about a format and an argument that are two 64-bit integer types"
    types = [quoted for quoted in re.findall(r"'([^']*)'", message) if not quoted.startswith('%')]
    return message.startswith('format') and len(types) > 1 and all(map(_INTEGER_64.fullmatch, (types[0], types[-1])))


_UNINITIALIZED_WARNING = re.compile(r"'(\w+)[^']*' (may be|is) used uninitialized")


def _correct_uninitialized(diagnostics, src):
    "Remove false positives (guarded uses) from the warnings, and add uses that the compiler misses"
    if not diagnostics and not may_use_uninitialized(src):
        return []
    code, matches = read_compiled(src), {d: _UNINITIALIZED_WARNING.search(d.message) for d in diagnostics}
    macros = macros_that_set(src)
    names = {m[1] for m in matches.values() if m}
    reliable = [d for d, m in matches.items() if not m or not _is_initialized(code, m, d.line, macros)]
    missed_uses = [use for use in find_uninitialized_uses(code) if use[0] not in names]
    return reliable + [Diagnostic(line, 0, f"'{name}' may be used uninitialized") for name, line in missed_uses]


def _is_initialized(code, warning, line, macros):
    "Return whether the source shows that the variable of a compiler's warning is initialized on this line"
    return (
        warning[2] == 'may be' and is_guarded(code, warning[1], line) or is_set_by_call(code, warning[1], line, macros)
    )


def warn_of(
    log: str,
    src: str,
    name: str,
    other_files=(),  # dict: name -> text of the learner's other files
):
    "Warn about lines that are probably mistakes, with the compiler's messages"
    warnings = read_log(log, name, 'warning', other_files)
    diagnostics = [d._replace(message=m[1]) for d in warnings if (m := _RELIABLE_WARNING.match(d.message))]
    diagnostics_to_report = _correct_uninitialized(_diagnostics_of_file(diagnostics, ''), src)
    for file in {d.file for d in diagnostics if d.file}:
        file_diagnostics = _diagnostics_of_file(diagnostics, file)
        diagnostics_to_report += [
            d for d in _correct_uninitialized(file_diagnostics, other_files[file]) if d in file_diagnostics
        ]
    diagnostics_to_report.sort(key=lambda d: (d.file, d.line))  # compilers report in different orders
    if diagnostics_to_report:
        location = diagnostics_to_report[0].file or name, diagnostics_to_report[0].line
        warn_learner(
            CompileWarning(describe(diagnostics_to_report, src, name, other_files, max_diagnostics=9)), *location
        )


def _diagnostics_of_file(diagnostics, file):
    return [d for d in diagnostics if d.file == file and not _differs_in_integer_name(d.message)]
