"""Rewrites shared and device variables to references to memory of the emulator.

The type of the reference is that of the variable.
"""

import re

from ..frontend.code import ALIGNMENTS
from ..frontend.declarations import is_alignment, is_storage, tokens_of_type, skip_attribute, read_declaration
from ..frontend.edits import Edits, NotEmulated
from ..frontend.reader import namespace_of, read
from ..frontend.tokens import WrongSource


def rewrite_shared(e: Edits):
    "Rewrite `__shared__ T a[N], b;` to references to the shared memory of the block"
    c = e.code
    end = -1  # of the last declaration
    for i in c.find_specifiers('__shared__'):
        if i <= end:
            continue
        declaration = read_declaration(c, i)
        if declarators := list(declaration.declarators):
            _rewrite_shared(e, declaration, declarators)
        elif not _is_alias(c):
            message = 'the emulator cannot parse this declaration of a __shared__ variable: write its type and its name'
            raise c.error(NotEmulated, message, i)
        end = declarators[-1].end if declarators else i


def _is_alias(c):
    "Return whether this is the body of a macro that consists only of specifiers"
    words = [j for j in range(len(c)) if c.is_word(j)]
    return c.macro is not None and all(is_storage(c, j) or is_alignment(c, j) for j in words)


def _rewrite_shared(e, declaration, declarators):
    c = e.code
    common_type = _common_type(e, declaration)
    if not _defines_type(c, declaration):
        e.replace(c.start(declaration.start), c.start(declaration.first))
    for declarator in declarators:
        if declarator.init < declarator.end:
            name = c[declarator.name]
            message = f'{name} is in shared memory, so it cannot have an initial value here'
            raise c.error(WrongSource, f'{message}: let a thread write it, then __syncthreads()', declarator.name)
        e.replace_tokens(
            declarator.first, declarator.end - 1, _shared_reference(e, declaration, declarator, common_type)
        )
        if c[declarator.end] == ',':
            e.replace_tokens(declarator.end, declarator.end, ';')


def _shared_reference(e, declaration, declarator, common_type):
    "Return C++ code for the reference that replaces `declarator`; `common_type` is that of all declarators"
    c = e.code
    is_dynamic = 'extern' in declaration.words
    is_at_file_scope = c.macro is None and c.scope(declaration.start) == 'namespace'
    function = 'dynamic_shared' if is_dynamic else 'file_shared' if is_at_file_scope else 'shared'
    suffix = _parenthesize_bounds(
        c.text(
            [
                j
                for j in tokens_of_type(c, declarator.first, declarator.end)
                if not declarator.name <= j < declarator.name_end
            ]
        )
    )
    name, type_ = (
        c.text(range(declarator.name, declarator.name_end)),
        f'{common_type} {suffix}'.strip() + ('' if is_dynamic else ', __COUNTER__'),
    )
    prefix = 'static thread_local ' if is_at_file_scope else ''
    if is_dynamic:
        prefix = f'extern {_extern_declaration(e, declarator, common_type)}; {prefix}'
    alignment = _alignment(c, declaration.start, declarator.end) if function == 'shared' and c.macro is None else None
    if alignment:
        prefix = f'struct gs_align_{name} {{ alignas({alignment}) char c; }}; '
        type_ += f', alignof(gs_align_{name})'
    return f'{prefix}auto &{name} = ::gridstride::{function}<{type_}>({e.quote(name)})'


def _extern_declaration(e, declarator, common_type):
    "Return C++ code that declares a dynamic array under another name, so that the compiler refuses a second type"
    c = e.code
    indices = tokens_of_type(c, declarator.first, declarator.end)
    prefix, suffix = (
        c.text([j for j in indices if is_included(j)])
        for is_included in (lambda j: j < declarator.name, lambda j: j >= declarator.name_end)
    )
    name = e.prefix_for_name('gs_extern_') + c.text(range(declarator.name, declarator.name_end))
    return f'__attribute__((unused)) {common_type} {prefix}{name}{suffix}'  # unused, because code uses the reference


def _parenthesize_bounds(declarator_text):
    "Put array bounds that contain a `>` in parentheses, so that it does not end the template arguments"
    return re.sub(r'\[([^\[\]]*>[^\[\]]*)\]', r'[(\1)]', declarator_text)


def _alignment(c, i, end):
    "Return the alignment in the declaration `i:end`; None if it has none"
    for j in range(i, end):
        is_alignment_keyword = c[j] in ('alignas', '__align__') or c[j] == 'aligned' and c[j - 1] == '('
        if is_alignment_keyword and c[j + 1] == '(':
            return c.text(range(j + 2, c.match[j + 1]))


def _defines_type(c, declaration):
    return '{' in c.texts[declaration.start : declaration.first]


def _common_type(e, declaration):
    "Return the type that all declarators share; a type that the declaration defines gets a declaration of its own"
    return (
        _extract_type(e, declaration)
        if _defines_type(e.code, declaration)
        else e.code.text(tokens_of_type(e.code, declaration.start, declaration.first))
    )


def _extract_type(e, declaration):
    c = e.code
    brace = next(j for j in range(declaration.start, declaration.first) if c[j] == '{')
    class_keyword = next(j for j in range(declaration.start, brace) if c[j] in ('struct', 'union', 'class'))
    j = class_keyword + 1
    while j < brace and skip_attribute(c, j) > j:
        j = skip_attribute(c, j)
    name = c[j] if j < brace else f'gs_type_{c.start(class_keyword)}'
    if declaration.start < class_keyword:
        e.replace(c.start(declaration.start), c.start(class_keyword))
    if j == brace:
        e.insert(c.end(class_keyword), f' {name}')
    e.replace(c.end(c.match[brace]), c.start(declaration.first), '; ')
    outer_tokens = (*range(declaration.start, class_keyword), *range(c.match[brace] + 1, declaration.first))
    return ' '.join([c[i] for i in outer_tokens if c[i] in ('const', 'volatile')] + [name])


# `__device__ int n = 3;` outside functions becomes a variable with the initial value, and a reference to device memory
# that starts with a copy of this value. Constants that the compiler may need at compile time are not rewritten.
_KIND_OF_SPECIFIER = {'__managed__': 'm', '__constant__': 'c', '__device__': 'd'}
_NON_SYMBOL_SPECIFIERS = {'constexpr', '__shared__', '__global__', 'typedef', 'using', 'friend', 'template'}


def rewrite_symbols(e: Edits):
    "Rewrite `__device__ T a = 3;` outside functions to a reference to device memory"
    c = e.code
    device_variables = list(_device_variables(c, e.shared))
    e.has_plain_variables = any(_stays_cpp_variable(c, i) for i in c.find_specifiers(*_KIND_OF_SPECIFIER))
    variables = (
        (c.text(range(declarator.name, declarator.name_end)), declarator, declaration)
        for declaration, declarators in device_variables
        for declarator in declarators
    )
    defined_names = {
        name for name, declarator, declaration in variables if not _is_declaration(declarator, declaration)
    }
    has_reference = {}  # name of a declared variable -> whether the reference to it was inserted
    for declaration, declarators in device_variables:
        _rewrite_symbol(e, declaration, declarators, defined_names, has_reference)


def _device_variables(c, shared=()):
    "Yield (`Declaration`, its declarators) per declaration of device variables"
    end = -1
    for i in c.find_specifiers(*_KIND_OF_SPECIFIER):
        if i <= end or c.scope(i) != 'namespace':
            continue
        declaration = read_declaration(c, i)
        first = next(declaration.declarators, None)
        if not first or not _is_symbol(c, declaration, first):
            continue
        declarators = [first, *declaration.declarators]
        end = declarators[-1].end
        are_constants = 'const' in declaration.words and all(
            _is_scalar_constant(c, declarator) for declarator in declarators
        )
        if not are_constants or any(
            _qualified_name(c, declaration, declarator) in shared for declarator in declarators
        ):
            yield declaration, declarators


# A variable that several files access has external linkage, as with nvcc -rdc=true: one file defines the variable and
# the reference, and the other files declare the reference.
def _qualified_name(c, declaration, declarator):
    "Return the variable's name with its namespaces; None in an unnamed namespace, which other files cannot access"
    opening = declaration.start
    while (opening := c.outer[opening]) >= 0:
        if c[opening - 1] == 'namespace':
            return None
    space, name = namespace_of(c, declaration.start), c.text(range(declarator.name, declarator.name_end))
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
        c = read(text).main
    except ValueError:
        return  # rewriting this file reports the error
    for declaration, declarators in _device_variables(c, _AnyName()):
        for declarator in declarators:
            if 'static' not in declaration.words and (name := _qualified_name(c, declaration, declarator)):
                yield name, _is_declaration(declarator, declaration), _bounds(c, declarator)


class _AnyName:
    "A set that contains every name"

    def __contains__(self, name):
        return True


def _bounds(c, declarator):
    "Return the first array bound of a declarator, in brackets, computed from its initializer if empty; '' for no array"
    if c[declarator.name_end] != '[':
        return ''
    if c[declarator.name_end + 1] != ']':
        return c.text(range(declarator.name_end, c.match[declarator.name_end] + 1))
    brace = declarator.init + (c[declarator.init] == '=')
    return f'[{len(c.arguments(brace))}]' if declarator.init < declarator.end and c[brace] == '{' else ''


def _stays_cpp_variable(c, i):
    "Return whether the variable declared at token `i` stays a C++ variable: a constant, a member, or one in a macro"
    if c.scope(i) not in ('namespace', 'type'):
        return False
    declaration = read_declaration(c, i)
    first = next(declaration.declarators, None)
    if not first or c[first.name_end] == '(':
        return False
    ends_with_name = c[first.name_end] == ''  # the tokens after the macro's use are unknown
    if _is_symbol(c, declaration, first):
        return c.scope(i) == 'type' or 'const' in declaration.words and _is_scalar_constant(c, first)
    return ends_with_name and c.macro is not None and not declaration.words & _NON_SYMBOL_SPECIFIERS


def _is_declaration(declarator, declaration):
    "Return whether the variable has `extern` and no initializer; nvcc takes it as the definition if there is no other"
    return 'extern' in declaration.words and declarator.init == declarator.end


def _is_symbol(c, declaration, declarator):
    "Return whether the declaration with this first declarator declares a device variable"
    if declaration.words & _NON_SYMBOL_SPECIFIERS or c[declaration.start - 1] == 'template':
        return False
    if c[declarator.name_end] == '(':
        return _is_literal(c, declarator.name_end + 1)
    if c[declarator.name_end] == '':
        return bool(declaration.words & {'__constant__', '__managed__'})
    return (
        c[declarator.name_end] in ('[', '=', '{', ',', ';', ')')
        or skip_attribute(c, declarator.name_end) > declarator.name_end
    )


def _is_literal(c, i):
    is_token_literal = i < len(c) and c.tokens.kinds[i] in ('number', 'string')
    return is_token_literal or c[i] in ('-', '!', '~', '&', '{', 'true', 'false', 'nullptr')


def _is_scalar_constant(c, declarator):
    return declarator.init < declarator.end and not any(
        c[j] in ('*', '[') for j in range(declarator.first, declarator.init)
    )


def _rewrite_symbol(e, declaration, declarators, defined_names, has_reference):
    c = e.code
    alignments, defines_type = _alignments(c, declaration), _defines_type(c, declaration)
    common_type = _common_type(e, declaration)
    for n, declarator in enumerate(declarators):
        name = c.text(range(declarator.name, declarator.name_end))
        shared_name = _shared_name(e, declaration, declarator)
        is_declaration = _is_declaration(declarator, declaration) and (shared_name is not None or name in defined_names)
        linkage = '' if name in has_reference else 'static '
        if shared_name is not None:
            linkage = 'extern ' if 'const' in declaration.words else ''
        prefix = alignments + ('extern ' if is_declaration else linkage) + common_type
        if n:
            e.replace_tokens(declarator.first - 1, declarator.first - 1, f'; {prefix}')
        elif defines_type:
            e.insert(c.start(declaration.first), f'{prefix} ')
        else:
            e.replace(c.start(_skip_directives(c, declaration)), c.start(declaration.first), f'{prefix} ')
        e.insert(c.start(declarator.name), e.prefix_for_name('gs_init_'))
        if shared_name is None:
            _insert_reference(e, declaration, declarator, name, is_declaration, has_reference)
        else:
            _insert_shared_reference(e, declaration, declarator, shared_name, is_declaration)


def _shared_name(e, declaration, declarator):
    "Return the qualified name of a variable that other files access, too; None for any other variable"
    if e.code.macro is not None or 'static' in declaration.words or not e.shared:
        return None
    name = _qualified_name(e.code, declaration, declarator)
    return name if name in e.shared else None


def _insert_shared_reference(e, declaration, declarator, qualified_name, is_declaration):
    "Insert a declaration of the reference that all files share, or its definition if this file defines the variable"
    c = e.code
    name, pos = c[declarator.name], c.end(declarator.end - 1)
    has_no_bound = c[declarator.name_end] == '[' and c[declarator.name_end + 1] == ']'
    if has_no_bound and is_declaration and e.shared[qualified_name]:
        e.insert(c.start(declarator.name_end + 1), e.shared[qualified_name][1:-1])
    slot = 'gs_slot_' + qualified_name.replace('::', '_')
    if is_declaration:
        e.insert(pos, f'; GRIDSTRIDE_DECLARE_SYMBOL({slot}, {name}, gs_init_{name})')
        return
    space = next(v for k, v in _KIND_OF_SPECIFIER.items() if k in declaration.words)
    e.insert(pos, f"; GRIDSTRIDE_SHARED_SYMBOL({slot}, {name}, gs_init_{name}, {e.quote(name)}, '{space}')")


def _skip_directives(c, declaration):
    "Return the first token to replace: the one after a preprocessor line that only memory specifiers precede"
    if not c.directives:
        return declaration.start
    first = max(
        (k for k in range(declaration.start + 1, declaration.first + 1) if k in c.directives), default=declaration.start
    )
    return first if all(c[k] in _KIND_OF_SPECIFIER for k in range(declaration.start, first)) else declaration.start


def _alignments(c, declaration):
    "Return the text of the alignments among the specifiers of a declaration"
    if not c.aliases and ALIGNMENTS.isdisjoint(c.texts[declaration.start : declaration.first]):
        return ''
    indices = [
        j
        for j in range(declaration.start, declaration.first)
        if c.is_word(j) and not is_storage(c, j) and skip_attribute(c, j) > j
    ]
    return ''.join(c.text(range(j, skip_attribute(c, j))) + ' ' for j in indices)


def _insert_reference(e, declaration, declarator, name, is_declaration, has_reference):
    """Insert the reference, which has the variable's own name, once.

    A variable may be declared several times; the reference is inserted at the first declaration with a size."""
    c = e.code
    if has_reference.get(name):
        return
    has_size = not (is_declaration and c[declarator.name_end] == '[' and c[declarator.name_end + 1] == ']')
    if has_size:
        space = next(v for k, v in _KIND_OF_SPECIFIER.items() if k in declaration.words)
        if c.macro is None:
            reference = f"GRIDSTRIDE_OWN_SYMBOL({name}, '{space}')"
        else:
            reference = f"GRIDSTRIDE_SYMBOL({name}, {e.prefix_for_name('gs_init_')}{name}, {e.quote(name)}, '{space}')"
        e.insert(c.end(declarator.end - 1), f'; {reference}')
    if is_declaration:
        has_reference[name] = has_size
