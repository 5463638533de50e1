"""Rejects functions and types of the standard libraries in device code that nvcc 13 rejects there, but g++ accepts."""

from .callers import Unit, host_device_code, device_code, is_unused_template, wrong_source
from ..frontend.code import indices_between
from ..frontend.declarations import KEYWORDS
from ..frontend.edits import apply
from .libc import alternative_to, is_host_function
from ..frontend.reader import read

# functions of the C library, with or without `std::`; some libraries implement them as macros
_C_FUNCTIONS = set(
    'abort aligned_alloc atexit atof atoi atol bsearch calloc div drand48 exit fclose fflush fgets fopen fprintf fputs '
    'fread fscanf fwrite getchar getenv gettimeofday isalnum isalpha isdigit islower isspace isupper ldiv lrand48 '
    'memchr memcmp memmove perror putchar puts qsort quick_exit rand rand_r realloc scanf snprintf sprintf srand '
    'srand48 sscanf strcat strchr strcmp strcpy strdup strlen strncat strncmp strncpy strstr strtod strtof strtok '
    'strtol strtoul system time tolower toupper'.split()
)
# host-only functions of the CUDA runtime
_C_FUNCTIONS |= set(
    'cudaDeviceReset cudaEventElapsedTime cudaEventQuery cudaEventSynchronize cudaFreeHost '
    'cudaFuncSetAttribute cudaGetDeviceProperties cudaHostAlloc cudaLaunchKernel cudaMallocHost cudaMallocManaged '
    'cudaMemcpy cudaMemcpy2D cudaMemGetInfo cudaMemPrefetchAsync cudaMemset cudaSetDevice cudaStreamCreate '
    'cudaStreamSynchronize'.split()
)
# functions and types of the C++17 library, with `std::`
_FUNCTIONS = set(
    'accumulate adjacent_find all_of any_of async atomic_signal_fence atomic_thread_fence binary_search copy copy_if '
    'copy_n count count_if current_exception equal equal_range exchange fill fill_n find find_if find_if_not for_each '
    'generate includes inner_product inplace_merge iota is_sorted iter_swap lexicographical_compare lower_bound '
    'make_heap make_shared make_unique merge mismatch none_of nth_element partial_sort partial_sum partition pop_heap '
    'push_heap reduce remove remove_if replace replace_if rethrow_exception reverse rotate set_new_handler '
    'set_terminate shuffle sort sort_heap stable_partition stable_sort stod stof stoi stol swap terminate to_string '
    'transform transform_reduce uncaught_exceptions unique upper_bound'.split()
)
_TYPES = set(
    'any atomic atomic_flag basic_string chrono condition_variable condition_variable_any deque filesystem '
    'forward_list fstream function future ifstream istringstream list lock_guard map mt19937 mt19937_64 multimap '
    'multiset mutex normal_distribution ofstream ostringstream packaged_task priority_queue promise queue '
    'random_device recursive_mutex regex scoped_lock set shared_future shared_lock shared_mutex shared_ptr stack '
    'string stringstream this_thread thread timed_mutex uniform_int_distribution uniform_real_distribution '
    'unique_lock unique_ptr unordered_map unordered_set valarray vector weak_ptr wstring'.split()
)
_STREAMS = {'cin', 'cout', 'cerr', 'clog', 'endl'}
# functions that the std of NVRTC lacks in all versions
_NOT_IN_NVRTC = set(
    'accumulate async current_exception inner_product inplace_merge iota make_shared make_unique nth_element '
    'partial_sum reduce rethrow_exception set_new_handler set_terminate shuffle sort stable_partition stable_sort stod '
    'stof stoi stol terminate to_string transform_reduce uncaught_exceptions'.split()
)
_CONSTEXPR = set(
    'addressof as_const begin clamp data distance empty end gcd get launder lcm make_pair make_tuple max max_element '
    'min min_element minmax next numeric_limits prev size tie'.split()
)
_CONSTEXPR_TYPES = {'bitset', 'complex', 'optional', 'pair', 'reverse_iterator', 'string_view', 'tuple', 'variant'}
_HOST_ONLY_MESSAGE = 'std::{name} is host-only, but this code runs on the GPU{advice}'
_HOST_FUNCTION_MESSAGE = '{name} is a __host__ function, which device code cannot call{advice}'
_HOST_FUNCTION_WARNING = (
    '{name} is a __host__ function, and a GPU that runs this __host__ __device__ function cannot call it{advice}'
)
_ONLY_CONSTEXPR_MESSAGE = (
    '`constexpr` does not make std::{name} a device function{advice}; nvcc accepts it with --expt-relaxed-constexpr'
)
_ADVICE = {
    'max': ': write `max`',
    'min': ': write `min`',
    'clamp': ': write `min(max(x, low), high)`',
    'numeric_limits': ': write a constant, such as `INT_MAX` or `FLT_MAX`',
    'pair': ': write your own struct',
    'complex': ': write `float2`, or your own struct',
    'array': ': write `float a[3]`, or your own struct',
    'swap': ': write `auto t = a; a = b; b = t;`',
    'vector': ': write an array whose size is a compile-time constant',
    'cout': ': write `printf`',
    'cerr': ': write `printf`',
    'this_thread': ': write `__nanosleep(ns)`',
    'chrono': ': write `clock64()`',
    'terminate': ': write `__trap()` to end the launch',
    'atomic': ': write `atomicAdd` or another atomic function, or use `cuda::atomic`',
    'atomic_thread_fence': ': write `__threadfence()`',
    'mutex': ': write `atomicCAS`',
}


def find_host_uses(
    unit: Unit,
    own_names: 'ProgramNames',  # names that the program itself declares
    extensions: tuple,  # of nvcc, which options enable: 'constexpr', 'lambda'; 'std' for NVRTC, which has its own std
):
    "Yield a `WrongSource` per use of a host-only function or type of the standard libraries in device code"
    code, bodies = device_code(unit.text)
    spans = [*bodies, *([] if 'lambda' not in extensions else _lambdas(code, bodies))]
    candidates = _candidates(code, own_names) if spans else []
    for a, b in spans:
        for i in indices_between(candidates, a, b):
            if code.is_word(i) and (message := _describe_use(code, i, own_names, extensions)) and code.is_evaluated(i):
                if not (is_host_function(code[i]) and is_unused_template(code, code.match[a])):
                    yield wrong_source(message, unit.file, code.line(i), unit)
        for i in _uses_of_parameter_types(code, a, b):
            yield wrong_source(_format(_HOST_ONLY_MESSAGE, code[i]), unit.file, code.line(i), unit)
        for i in [] if {'std', 'constexpr'} & {*extensions} else _uses_of_std_arrays(code, a, b):
            yield wrong_source(_format(_ONLY_CONSTEXPR_MESSAGE, 'array'), unit.file, code.line(i), unit)
    for i in [] if 'lambda' in extensions else code.find_specifiers('__device__'):
        if code[i - 1] == ']' and code.scope(i) == 'code' and not any(a <= i < b for a, b in bodies):
            yield wrong_source(_EXTENDED_LAMBDA_MESSAGE, unit.file, code.line(i), unit)


def _lambdas(code, bodies):
    "Yield (`)` of the parameters, end of the body) per `__device__` lambda that host code defines"
    for i in code.find_specifiers('__device__'):
        closing_paren = code.match.get(i + 1)
        if (
            code[i - 1] == ']'
            and code[i + 1] == '('
            and '__host__' not in code.expand_alias(i)
            and code.scope(i) == 'code'
        ):
            opening = code.find_stop(closing_paren + 1, ('{', ';'))
            if code[opening] == '{' and not any(a <= i < b for a, b in bodies):
                yield closing_paren, code.match[opening]


def find_host_device_uses(
    unit: Unit,
    own_names,  # as for `find_host_uses`
):
    """Yield (message, file, line) per call of a host function in a `__host__ __device__` function.

    These are warnings, as with nvcc."""
    code, bodies = host_device_code(unit.text)
    candidates = _candidates(code, own_names) if bodies else []
    for a, b in bodies:
        for i in indices_between(candidates, a, b):
            if code.is_word(i) and _is_host_call(code, i, own_names) and code.is_evaluated(i):
                warning = wrong_source(_format(_HOST_FUNCTION_WARNING, code[i]), unit.file, code.line(i), unit)
                yield str(warning), unit.file, code.line(i)


_CHECKED_ELSEWHERE = {'errno', 'exit', 'abort'}


def guard_host_calls(
    text: str,  # C++ for the emulator
    own_names,  # as for `find_host_uses`
) -> str:
    "Rewrite calls of host functions in `__host__ __device__` functions, so that device code reports them"
    code, bodies = host_device_code(text)
    candidates, edits = _candidates(code, own_names) if bodies else [], []
    for i in (i for a, b in bodies for i in indices_between(candidates, a, b)):
        if (
            code.is_word(i)
            and code[i] not in _CHECKED_ELSEWHERE
            and code[i + 1] == '('
            and _is_host_call(code, i, own_names)
            and code.is_evaluated(i)
        ):
            first = i - 2 if code[i - 2] == 'std' else i - (code[i - 1] == '::')
            edits.append((pos := code.tokens[first].start, pos, f'(::gridstride::report_host_only_call("{code[i]}"), '))
            edits.append((pos := code.tokens[code.match[i + 1]].end, pos, ')'))
    return apply(text, edits)


def _candidates(code, own_names):
    "Return the tokens that may name a function or type of the libraries: called, assigned, after `std::`, or macros"
    tokens = {*code.find_any(_C_FUNCTIONS | own_names.macros.keys() | {'errno'}), *(i - 1 for i in code.find('('))}
    tokens.update(i + n for i in code.find('=') for n in (1, 2))
    return sorted(tokens.union(i + 2 for i in code.find('std')))


def _format(template, name):
    "Format the message `template` about a name, with advice on what to write instead"
    advice = (
        _ADVICE.get(name, '')
        if template is not _HOST_FUNCTION_MESSAGE and template is not _HOST_FUNCTION_WARNING
        else f': {alternative_to(name)}'
    )
    return template.format(name=name, advice=advice)


def _describe_use(code, i, own_names, extensions):
    "Describe why device code may not use the name at token `i`, or its expansion as a macro; None if it may"
    if template := _describe_rejection(code, i, own_names, extensions):
        return _format(template, code[i])
    for macro_body in own_names.macros.get(code[i], ()):
        host_calls = (
            j
            for j in range(len(macro_body))
            if macro_body.is_word(j) and macro_body[j] != code[i] and _is_host_call(macro_body, j, own_names)
        )
        if (j := next(host_calls, None)) is not None:
            return _format(_HOST_FUNCTION_MESSAGE, macro_body[j])


def _uses_of_parameter_types(code, a, b):
    "Yield the host-only types of parameters before the `)` at `a` that the body, up to `b`, uses"
    if not code.find_between('std', code.match[a], a):
        return
    body = {*code.texts[a:b]}
    for first, end in code.arguments(code.match[a]):
        if code[end - 1] in body and not {'*', '='} & {code[i] for i in range(first, end)}:
            yield from (i for i in range(first, end) if code[i] in _TYPES and code[i - 2] == 'std')


def _uses_of_std_arrays(code, a, b):
    "Return the uses of elements and members of the std::arrays that the function with the `)` at `a` declares"
    names = set()
    for i in code.find_between('array', code.match[a], b):
        if (code[i - 2], code[i - 1], code[i]) == ('std', '::', 'array') and (end_of_type := code.closing_angle(i + 1)):
            names.add(code[end_of_type + 2 if code[end_of_type + 1] in ('&', 'const') else end_of_type + 1])
    uses = code.find_any_between(frozenset(names), a, b) if names else []
    return [i for i in uses if code[i + 1] in ('[', '.') and code[i - 1] not in ('.', '->', '::')]


_EXTENDED_LAMBDA_MESSAGE = 'nvcc accepts a `__device__` lambda in host code only with --extended-lambda'


def _describe_rejection(code, i, own_names, extensions):
    "Return the message template for a use of the name at token `i` in device code; None if the use is allowed"
    name = code[i]
    is_std = code[i - 1] == '::' and code[i - 2] == 'std' and code[i - 3] != '::'
    if _is_host_call(code, i, own_names):
        return _HOST_FUNCTION_MESSAGE
    if not is_std:
        return
    next_token = (code.closing_angle(i + 1) or i) + 1 if code[i + 1] == '<' else i + 1
    if (
        name in _TYPES | _STREAMS
        or name in (_NOT_IN_NVRTC if 'std' in extensions else _FUNCTIONS)
        and code[next_token] == '('
    ):
        return _HOST_ONLY_MESSAGE
    if 'std' in extensions:
        return
    is_construction = (
        code[next_token] in ('(', '{') or code.is_word(next_token) and code[next_token + 1] in ('(', '{', ';')
    )
    if name in _CONSTEXPR_TYPES and is_construction and 'constexpr' not in extensions:
        return _ONLY_CONSTEXPR_MESSAGE
    if (
        name in _CONSTEXPR
        and 'constexpr' not in extensions
        and code[next_token + 2 * (name == 'numeric_limits')] == '('
    ):
        return _ONLY_CONSTEXPR_MESSAGE


def _is_host_call(code, i, own_names):
    "Return whether the name at token `i` calls a host function of the C library or CUDA, or takes its address"
    name = code[i]
    is_std = code[i - 1] == '::' and code[i - 2] == 'std' and code[i - 3] != '::'
    is_unqualified = is_std or code[i - 1] not in ('.', '->', '::')
    is_unqualified = (
        is_unqualified
        or code[i - 1] == '::'
        and (not code.is_word(i - 2) and code[i - 2] != '>' or code[i - 2] in KEYWORDS)
    )
    if name == 'errno':
        return is_unqualified and name not in own_names
    if not is_unqualified or code[i + 1] not in ('(', ';', ',') or not (name in _C_FUNCTIONS or is_host_function(name)):
        return False
    if code[i + 1] == '(':
        is_constant_length = name == 'strlen' and code.is_string(i + 2)  # the compiler counts it
        return (is_std or name not in own_names) and not is_constant_length
    return _is_assigned_value(code, i) and name not in own_names


def _is_assigned_value(code, i):
    "Return whether the name at token `i` is the whole right-hand side of a `=`"
    i -= 2 if (code[i - 2], code[i - 1]) == ('std', '::') else 0
    return code[i - 1] == '=' or (code[i - 2], code[i - 1]) == ('=', '&')


class ProgramNames:
    """A set of the names that a program itself declares, which hide functions of the standard libraries.

    `macros`: name -> the bodies of the macros of this name."""

    def __init__(
        self,
        texts,  # of C++
    ):
        self._sources = []
        self._cache = {}
        self.macros = {}
        for source in map(read, texts):
            self._sources.append(source.main)
            for macro in source.macros:
                self.macros.setdefault(macro.name, []).append(macro)

    def __contains__(self, name):
        if name not in self._cache:
            self._cache[name] = name in self.macros or any(_declares_name(c, name) for c in self._sources)
        return self._cache[name]


def _declares_name(code, name):
    "Return whether the source declares the name, or uses it other than as a function"
    return any(
        _is_declaration(code, i) or not (code[i + 1] == '(' or _may_name_c_function(code, i))
        for i in code.find(name)
        if code.is_word(i)
    )


def _may_name_c_function(code, i):
    "Return whether the name at token `i` is assigned, or follows `::`, `.` or `->`, so that it may be a C function"
    return _is_assigned_value(code, i) or code[i - 1] in ('.', '->', '::')


def _is_declaration(code, i):
    "Return whether the name at token `i` is that of a variable or a function that is declared there"
    if code[i - 1] in ('*', '&', '&&'):
        return code.is_word(i - 2) and (code[i + 1] != '(' or code.scope(i) != 'code')
    if code[i - 1] == '::':
        return code.is_word(i - 2) and code[i - 2] != 'std' and code.scope(i) != 'code'
    if code[i - 1] == '>':
        return code.opening_angle(i - 1) is not None
    return code.is_word(i - 1) and code[i - 1] not in KEYWORDS
