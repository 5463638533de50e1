"""Rewrites shared and device variables to references to memory of the emulator.

Each reference has the type of its variable.
"""

import re

from ..frontend.code import ALIGNMENTS
from ..frontend.declarations import is_alignment, is_storage, tokens_of_type, skip_attribute, read_declaration
from ..frontend.edits import Edits, NotEmulated
from ..frontend.reader import namespace_of, read
from ..frontend.tokens import WrongSource


def rewrite_shared(edits: Edits):
    "Rewrite `__shared__ T a[N], b;` to references to the shared memory of the block"
    code = edits.code
    end = -1  # of the last declaration
    for i in code.find_specifiers('__shared__'):
        if i <= end:
            continue
        declaration = read_declaration(code, i)
        if declarators := list(declaration.declarators):
            _rewrite_shared(edits, declaration, declarators)
        elif not _is_alias(code):
            message = 'the emulator cannot parse this declaration of a __shared__ variable: write its type and its name'
            raise code.error(NotEmulated, message, i)
        end = declarators[-1].end if declarators else i


def _is_alias(code):
    "Return whether this is the body of a macro that consists only of specifiers"
    names = [j for j in range(len(code)) if code.is_word(j)]
    return code.macro is not None and all(is_storage(code, j) or is_alignment(code, j) for j in names)


def _rewrite_shared(edits, declaration, declarators):
    code = edits.code
    common_type = _common_type(edits, declaration)
    if not _defines_type(code, declaration):
        edits.replace(code.start(declaration.start), code.start(declaration.first))
    for declarator in declarators:
        if declarator.init < declarator.end:
            name = code[declarator.name]
            message = f'the __shared__ variable {name} cannot have an initializer'
            raise code.error(
                WrongSource, f'{message}; store its value in one thread, then __syncthreads()', declarator.name
            )
        edits.replace_tokens(
            declarator.first, declarator.end - 1, _shared_reference(edits, declaration, declarator, common_type)
        )
        if code[declarator.end] == ',':
            edits.replace_tokens(declarator.end, declarator.end, ';')


def _shared_reference(edits, declaration, declarator, common_type):
    "Return C++ code for the reference that replaces `declarator`; `common_type` is that of all declarators"
    code = edits.code
    is_dynamic = 'extern' in declaration.specifiers
    is_at_file_scope = code.macro is None and code.scope(declaration.start) == 'namespace'
    function = 'dynamic_shared' if is_dynamic else 'file_shared' if is_at_file_scope else 'shared'
    suffix = _parenthesize_bounds(
        code.text(
            [
                j
                for j in tokens_of_type(code, declarator.first, declarator.end)
                if not declarator.name <= j < declarator.name_end
            ]
        )
    )
    name, type_ = (
        code.text(range(declarator.name, declarator.name_end)),
        f'{common_type} {suffix}'.strip() + ('' if is_dynamic else ', __COUNTER__'),
    )
    prefix = 'static thread_local ' if is_at_file_scope else ''
    if is_dynamic:
        prefix = f'extern {_extern_declaration(edits, declarator, common_type)}; {prefix}'
    alignment = (
        _alignment(code, declaration.start, declarator.end) if function == 'shared' and code.macro is None else None
    )
    if alignment:
        prefix = f'struct gs_align_{name} {{ alignas({alignment}) char c; }}; '
        type_ += f', alignof(gs_align_{name})'
    return f'{prefix}auto &{name} = ::gridstride::{function}<{type_}>({edits.quote(name)})'


def _extern_declaration(edits, declarator, common_type):
    "Return C++ code that declares a dynamic array under another name, so that the compiler rejects a second type"
    code = edits.code
    indices = tokens_of_type(code, declarator.first, declarator.end)
    prefix, suffix = (
        code.text([j for j in indices if is_included(j)])
        for is_included in (lambda j: j < declarator.name, lambda j: j >= declarator.name_end)
    )
    name = edits.prefix_for_name('gs_extern_') + code.text(range(declarator.name, declarator.name_end))
    return f'__attribute__((unused)) {common_type} {prefix}{name}{suffix}'  # unused, because code uses the reference


def _parenthesize_bounds(declarator_text):
    "Put array bounds that contain a `>` in parentheses, so that it does not end the template arguments"
    return re.sub(r'\[([^\[\]]*>[^\[\]]*)\]', r'[(\1)]', declarator_text)


def _alignment(code, i, end):
    "Return the alignment in the declaration `i:end`; None if it has none"
    for j in range(i, end):
        is_alignment_keyword = code[j] in ('alignas', '__align__') or code[j] == 'aligned' and code[j - 1] == '('
        if is_alignment_keyword and code[j + 1] == '(':
            return code.text(range(j + 2, code.match[j + 1]))


def _defines_type(code, declaration):
    return '{' in code.texts[declaration.start : declaration.first]


def _common_type(edits, declaration):
    "Return the type that all declarators share; a type that the declaration defines gets a separate declaration"
    return (
        _extract_type(edits, declaration)
        if _defines_type(edits.code, declaration)
        else edits.code.text(tokens_of_type(edits.code, declaration.start, declaration.first))
    )


def _extract_type(edits, declaration):
    code = edits.code
    brace = next(j for j in range(declaration.start, declaration.first) if code[j] == '{')
    class_keyword = next(j for j in range(declaration.start, brace) if code[j] in ('struct', 'union', 'class'))
    j = class_keyword + 1
    while j < brace and skip_attribute(code, j) > j:
        j = skip_attribute(code, j)
    name = code[j] if j < brace else f'gs_type_{code.start(class_keyword)}'
    if declaration.start < class_keyword:
        edits.replace(code.start(declaration.start), code.start(class_keyword))
    if j == brace:
        edits.insert(code.end(class_keyword), f' {name}')
    edits.replace(code.end(code.match[brace]), code.start(declaration.first), '; ')
    outer_tokens = (*range(declaration.start, class_keyword), *range(code.match[brace] + 1, declaration.first))
    return ' '.join([code[i] for i in outer_tokens if code[i] in ('const', 'volatile')] + [name])


# `__device__ int n = 3;` outside functions becomes a variable with the initial value, and a reference to device memory
# that starts with a copy of this value. Constants that the compiler may need at compile time are not rewritten.
_KIND_OF_SPECIFIER = {'__managed__': 'm', '__constant__': 'c', '__device__': 'd'}
_NON_SYMBOL_SPECIFIERS = {'constexpr', '__shared__', '__global__', 'typedef', 'using', 'friend', 'template'}


def rewrite_symbols(edits: Edits):
    "Rewrite `__device__ T a = 3;` outside functions to a reference to device memory"
    code = edits.code
    device_variables = list(_device_variables(code, edits.shared))
    edits.has_plain_variables = any(_stays_cpp_variable(code, i) for i in code.find_specifiers(*_KIND_OF_SPECIFIER))
    variables = (
        (code.text(range(declarator.name, declarator.name_end)), declarator, declaration)
        for declaration, declarators in device_variables
        for declarator in declarators
    )
    defined_names = {
        name for name, declarator, declaration in variables if not _is_declaration(declarator, declaration)
    }
    has_reference = {}  # name of a declared variable -> whether the reference to it was inserted
    for declaration, declarators in device_variables:
        _rewrite_symbol(edits, declaration, declarators, defined_names, has_reference)


def _device_variables(code, shared=()):
    "Yield (`Declaration`, its declarators) per declaration of device variables"
    end = -1
    for i in code.find_specifiers(*_KIND_OF_SPECIFIER):
        if i <= end or code.scope(i) != 'namespace':
            continue
        declaration = read_declaration(code, i)
        first = next(declaration.declarators, None)
        if not first or not _is_symbol(code, declaration, first):
            continue
        declarators = [first, *declaration.declarators]
        end = declarators[-1].end
        are_constants = 'const' in declaration.specifiers and all(
            _is_scalar_constant(code, declarator) for declarator in declarators
        )
        if not are_constants or any(
            _qualified_name(code, declaration, declarator) in shared for declarator in declarators
        ):
            yield declaration, declarators


# A variable that several files access has external linkage, as with nvcc -rdc=true: one file defines the variable and
# the reference, and the other files declare the reference.
def _qualified_name(code, declaration, declarator):
    "Return the variable's name with its namespaces; None in an unnamed namespace, which other files cannot access"
    opening = declaration.start
    while (opening := code.parent[opening]) >= 0:
        if code[opening - 1] == 'namespace':
            return None
    space, name = namespace_of(code, declaration.start), code.text(range(declarator.name, declarator.name_end))
    return f'{space}::{name}' if space else name


def shared_variables(
    sources: dict,  # file name -> CUDA C: all files of a program, with its own headers
) -> tuple:  # of (qualified name, array bounds such as '[4]')
    "Return the `__device__` variables that one file declares `extern` and another one defines"
    declaring_files = {}
    defining_files = {}
    bounds = {}
    for file, text in sources.items():
        for name, is_declaration, bound in _external_variables(text):
            (declaring_files if is_declaration else defining_files).setdefault(name, set()).add(file)
            if not is_declaration:
                bounds[name] = bound
    candidates = declaring_files.keys() & defining_files.keys()
    shared_names = (name for name in candidates if len(declaring_files[name] | defining_files[name]) > 1)
    return tuple(sorted((name, bounds[name]) for name in shared_names))


def _external_variables(text):
    "Yield (name, whether it is only declared, its bounds) per device variable that other files may access"
    if not any(space in text for space in _KIND_OF_SPECIFIER):
        return
    try:
        code = read(text).main
    except ValueError:
        return  # rewriting this file reports the error
    for declaration, declarators in _device_variables(code, _AnyName()):
        for declarator in declarators:
            if 'static' not in declaration.specifiers and (name := _qualified_name(code, declaration, declarator)):
                yield name, _is_declaration(declarator, declaration), _bounds(code, declarator)


class _AnyName:
    "A set that contains every name"

    def __contains__(self, name):
        return True


def _bounds(code, declarator):
    "Return the first array bound of a declarator, in brackets, computed from its initializer if empty; '' for no array"
    if code[declarator.name_end] != '[':
        return ''
    if code[declarator.name_end + 1] != ']':
        return code.text(range(declarator.name_end, code.match[declarator.name_end] + 1))
    brace = declarator.init + (code[declarator.init] == '=')
    return f'[{len(code.arguments(brace))}]' if declarator.init < declarator.end and code[brace] == '{' else ''


def _stays_cpp_variable(code, i):
    "Return whether the variable declared at token `i` stays a C++ variable: a constant, a member, or one in a macro"
    if code.scope(i) not in ('namespace', 'type'):
        return False
    declaration = read_declaration(code, i)
    first = next(declaration.declarators, None)
    if not first or code[first.name_end] == '(':
        return False
    ends_with_name = code[first.name_end] == ''  # the tokens after the macro's use are unknown
    if _is_symbol(code, declaration, first):
        return code.scope(i) == 'type' or 'const' in declaration.specifiers and _is_scalar_constant(code, first)
    return ends_with_name and code.macro is not None and not declaration.specifiers & _NON_SYMBOL_SPECIFIERS


def _is_declaration(declarator, declaration):
    "Return whether the variable has `extern` and no initializer; to nvcc it is the definition if there is no other"
    return 'extern' in declaration.specifiers and declarator.init == declarator.end


def _is_symbol(code, declaration, declarator):
    "Return whether the declaration with this first declarator declares a device variable"
    if declaration.specifiers & _NON_SYMBOL_SPECIFIERS or code[declaration.start - 1] == 'template':
        return False
    if code[declarator.name_end] == '(':
        return _is_literal(code, declarator.name_end + 1)
    if code[declarator.name_end] == '':
        return bool(declaration.specifiers & {'__constant__', '__managed__'})
    return (
        code[declarator.name_end] in ('[', '=', '{', ',', ';', ')')
        or skip_attribute(code, declarator.name_end) > declarator.name_end
    )


def _is_literal(code, i):
    is_token_literal = i < len(code) and code.tokens.kinds[i] in ('number', 'string')
    return is_token_literal or code[i] in ('-', '!', '~', '&', '{', 'true', 'false', 'nullptr')


def _is_scalar_constant(code, declarator):
    return declarator.init < declarator.end and not any(
        code[j] in ('*', '[') for j in range(declarator.first, declarator.init)
    )


def _rewrite_symbol(edits, declaration, declarators, defined_names, has_reference):
    code = edits.code
    alignments, defines_type = _alignments(code, declaration), _defines_type(code, declaration)
    common_type = _common_type(edits, declaration)
    for n, declarator in enumerate(declarators):
        name = code.text(range(declarator.name, declarator.name_end))
        shared_name = _shared_name(edits, declaration, declarator)
        is_declaration = _is_declaration(declarator, declaration) and (shared_name is not None or name in defined_names)
        linkage = '' if name in has_reference else 'static '
        if shared_name is not None:
            linkage = 'extern ' if 'const' in declaration.specifiers else ''
        prefix = alignments + ('extern ' if is_declaration else linkage) + common_type
        if n:
            edits.replace_tokens(declarator.first - 1, declarator.first - 1, f'; {prefix}')
        elif defines_type:
            edits.insert(code.start(declaration.first), f'{prefix} ')
        else:
            edits.replace(code.start(_skip_directives(code, declaration)), code.start(declaration.first), f'{prefix} ')
        edits.insert(code.start(declarator.name), edits.prefix_for_name('gs_init_'))
        if shared_name is None:
            _insert_reference(edits, declaration, declarator, name, is_declaration, has_reference)
        else:
            _insert_shared_reference(edits, declaration, declarator, shared_name, is_declaration)


def _shared_name(edits, declaration, declarator):
    "Return the qualified name of a variable that other files access, too; None for any other variable"
    if edits.code.macro is not None or 'static' in declaration.specifiers or not edits.shared:
        return None
    name = _qualified_name(edits.code, declaration, declarator)
    return name if name in edits.shared else None


def _insert_shared_reference(edits, declaration, declarator, qualified_name, is_declaration):
    "Insert a declaration of the reference that all files share, or its definition if this file defines the variable"
    code = edits.code
    name, pos = code[declarator.name], code.end(declarator.end - 1)
    has_no_bound = code[declarator.name_end] == '[' and code[declarator.name_end + 1] == ']'
    if has_no_bound and is_declaration and edits.shared[qualified_name]:
        edits.insert(code.start(declarator.name_end + 1), edits.shared[qualified_name][1:-1])
    slot = 'gs_slot_' + qualified_name.replace('::', '_')
    if is_declaration:
        edits.insert(pos, f'; GRIDSTRIDE_DECLARE_SYMBOL({slot}, {name}, gs_init_{name})')
        return
    space = next(v for k, v in _KIND_OF_SPECIFIER.items() if k in declaration.specifiers)
    edits.insert(pos, f"; GRIDSTRIDE_SHARED_SYMBOL({slot}, {name}, gs_init_{name}, {edits.quote(name)}, '{space}')")


def _skip_directives(code, declaration):
    "Return the first token to replace: the one after a preprocessor directive that only memory specifiers precede"
    if not code.directives:
        return declaration.start
    first = max(
        (k for k in range(declaration.start + 1, declaration.first + 1) if k in code.directives),
        default=declaration.start,
    )
    return first if all(code[k] in _KIND_OF_SPECIFIER for k in range(declaration.start, first)) else declaration.start


def _alignments(code, declaration):
    "Return the text of the alignments among the specifiers of a declaration"
    if not code.aliases and ALIGNMENTS.isdisjoint(code.texts[declaration.start : declaration.first]):
        return ''
    indices = [
        j
        for j in range(declaration.start, declaration.first)
        if code.is_word(j) and not is_storage(code, j) and skip_attribute(code, j) > j
    ]
    return ''.join(code.text(range(j, skip_attribute(code, j))) + ' ' for j in indices)


def _insert_reference(edits, declaration, declarator, name, is_declaration, has_reference):
    """Insert the reference, which has the name of the variable, once.

    A variable may be declared several times; the reference is inserted at the first declaration with a size."""
    code = edits.code
    if has_reference.get(name):
        return
    has_size = not (is_declaration and code[declarator.name_end] == '[' and code[declarator.name_end + 1] == ']')
    if has_size:
        space = next(v for k, v in _KIND_OF_SPECIFIER.items() if k in declaration.specifiers)
        if code.macro is None:
            reference = f"GRIDSTRIDE_OWN_SYMBOL({name}, '{space}')"
        else:
            reference = (
                f"GRIDSTRIDE_SYMBOL({name}, {edits.prefix_for_name('gs_init_')}{name}, {edits.quote(name)}, '{space}')"
            )
        edits.insert(code.end(declarator.end - 1), f'; {reference}')
    if is_declaration:
        has_reference[name] = has_size
