"""What of the standard libraries a GPU has, as nvcc 13 has it: it refuses the rest in device code, g++ does not."""

from .callers import Unit, device_code, wrong
from .declarations import KEYWORDS
from .reader import read

# of C, called with `std::` or without
_C = set(
    'abort aligned_alloc atexit atof atoi atol bsearch calloc div drand48 exit fclose fflush fgets fopen fprintf fputs '
    'fread fscanf fwrite getchar getenv gettimeofday isalnum isalpha isdigit islower isspace isupper ldiv lrand48 '
    'memchr memcmp memmove perror putchar puts qsort quick_exit rand rand_r realloc scanf snprintf sprintf srand '
    'srand48 sscanf strcat strchr strcmp strcpy strdup strlen strncat strncmp strncpy strstr strtod strtof strtok '
    'strtol strtoul system time tolower toupper'.split()
)
# of CUDA's runtime, which has the other functions for device code, too
_C |= set(
    'cudaDeviceReset cudaEventElapsedTime cudaEventQuery cudaEventSynchronize cudaFreeHost '
    'cudaFuncSetAttribute cudaGetDeviceProperties cudaHostAlloc cudaLaunchKernel cudaMallocHost cudaMallocManaged '
    'cudaMemcpy cudaMemcpy2D cudaMemGetInfo cudaMemPrefetchAsync cudaMemset cudaSetDevice cudaStreamCreate '
    'cudaStreamSynchronize'.split()
)
# of C++17, with `std::`
_FUNCTIONS = set(
    'accumulate adjacent_find all_of any_of async binary_search copy copy_if copy_n count count_if equal equal_range '
    'exchange fill fill_n find find_if find_if_not for_each generate includes inner_product inplace_merge iota '
    'is_sorted iter_swap lexicographical_compare lower_bound make_heap make_shared make_unique merge mismatch '
    'none_of nth_element partial_sort partial_sum partition pop_heap push_heap reduce remove remove_if replace '
    'replace_if reverse rotate shuffle sort sort_heap stable_partition stable_sort stod stof stoi stol swap to_string '
    'transform transform_reduce unique upper_bound'.split()
)
_TYPES = set(
    'basic_string chrono condition_variable deque forward_list function ifstream istringstream list map mt19937 '
    'mt19937_64 multimap multiset mutex normal_distribution ofstream ostringstream priority_queue queue '
    'random_device regex set shared_ptr stack string stringstream thread uniform_int_distribution '
    'uniform_real_distribution unique_ptr unordered_map unordered_set vector'.split()
)
_STREAMS = {'cin', 'cout', 'cerr', 'clog', 'endl'}
# of the functions, those that NVRTC has not in any version
_NEVER = set(
    'accumulate async inner_product inplace_merge iota make_shared make_unique nth_element partial_sum reduce shuffle '
    'sort stable_partition stable_sort stod stof stoi stol to_string transform_reduce'.split()
)
_CONSTEXPR = set(
    'addressof as_const begin clamp data distance empty end gcd get launder lcm make_pair make_tuple max max_element '
    'min min_element minmax next numeric_limits prev size tie'.split()
)
_CONSTEXPR_TYPES = {'bitset', 'complex', 'optional', 'pair', 'reverse_iterator', 'string_view', 'tuple'}
_NONE = 'std::{name} is of the host, and this runs on the GPU, which has no such thing{instead}'
_NONE_OF_C = '{name} is of the host, and this runs on the GPU, which has no such function{instead}'
_ONLY_CONSTEXPR = (
    'std::{name} is constexpr, which alone is no function of the GPU{instead}; nvcc takes it with '
    '--expt-relaxed-constexpr'
)
_INSTEAD = {
    'max': ': write `max`',
    'min': ': write `min`',
    'clamp': ': write `min(max(x, low), high)`',
    'numeric_limits': ': write a constant, such as `INT_MAX` or `FLT_MAX`',
    'pair': ': write a struct of your own',
    'complex': ': write `float2`, or a struct of your own',
    'array': ': write `float a[3]`, or a struct of your own',
    'swap': ': write `auto t = a; a = b; b = t;`',
    'vector': ': write an array of a size that the compiler knows',
    'cout': ': write `printf`',
    'cerr': ': write `printf`',
    'fprintf': ': write `printf`',
    'puts': ': write `printf`',
    'exit': ': write `return`, or `__trap()` to stop all',
    'abort': ': write `__trap()`',
    'rand': ': use <curand_kernel.h>, or random numbers made before',
}


def wrong_uses(
    unit: Unit,
    own: set,  # names that the program gives to something of its own
    takes: tuple,  # more than nvcc without options: 'constexpr', 'lambda'; 'std', as NVRTC has one of its own
):
    "Generator of a `WrongSource` for each use in device code of what only the host's standard libraries have"
    c, bodies = device_code(unit.text)
    for a, b in bodies:
        for i in range(a, b):
            if c.is_word(i) and (words := _refusal(c, i, own, takes)) and c.is_evaluated(i):
                what = words.format(name=c[i], instead=_INSTEAD.get(c[i], ''))
                yield wrong(what, unit.file, c.line(i), unit)
        for i in _parameters_used(c, a, b):
            yield wrong(_NONE.format(name=c[i], instead=_INSTEAD.get(c[i], '')), unit.file, c.line(i), unit)
        for i in [] if {'std', 'constexpr'} & {*takes} else _arrays_used(c, a, b):
            yield wrong(_ONLY_CONSTEXPR.format(name='array', instead=_INSTEAD['array']), unit.file, c.line(i), unit)
    for i in [] if 'lambda' in takes else c.find_specifiers('__device__'):
        if c[i - 1] == ']' and c.scope(i) == 'code' and not any(a <= i < b for a, b in bodies):
            yield wrong(_LAMBDA, unit.file, c.line(i), unit)


def _parameters_used(c, a, b):
    "Each parameter's type, in front of the `)` at `a`, that the host alone has, if the body uses the parameter"
    body = {c[i] for i in range(a, b)}
    for first, end in c.arguments(c.mate[a]):
        if c[end - 1] in body and not {'*', '='} & {c[i] for i in range(first, end)}:
            yield from (i for i in range(first, end) if c[i] in _TYPES and c[i - 2] == 'std')


def _arrays_used(c, a, b):
    "Where an element or a method is used of what a function, with its parameters' `)` at `a`, declares as a std::array"
    names = set()
    for i in range(c.mate[a], b):
        if (c[i - 2], c[i - 1], c[i]) == ('std', '::', 'array') and (past := c.angle(i + 1)):
            names.add(c[past + 2 if c[past + 1] in ('&', 'const') else past + 1])
    return [i for i in range(a, b) if c[i] in names and c[i + 1] in ('[', '.') and c[i - 1] not in ('.', '->', '::')]


_LAMBDA = 'a lambda of the host that says `__device__` is taken by nvcc with --extended-lambda alone'


def _refusal(c, i, own, takes):
    "The words for what is wrong with the name at token `i`; None if nothing is"
    name, std = c[i], c[i - 1] == '::' and c[i - 2] == 'std' and c[i - 3] != '::'
    if name in _C and c[i + 1] == '(' and (std or c[i - 1] not in ('::', '.', '->') and name not in own):
        return None if name == 'strlen' and c.is_string(i + 2) else _NONE_OF_C  # a compiler counts it
    if not std:
        return
    past = (c.angle(i + 1) or i) + 1 if c[i + 1] == '<' else i + 1
    if name in _TYPES | _STREAMS or name in (_NEVER if 'std' in takes else _FUNCTIONS) and c[past] == '(':
        return _NONE
    if 'std' in takes:
        return
    made = c[past] in ('(', '{') or c.is_word(past) and c[past + 1] in ('(', '{', ';')
    if name in _CONSTEXPR_TYPES and made and 'constexpr' not in takes:
        return _ONLY_CONSTEXPR
    if name in _CONSTEXPR and 'constexpr' not in takes and c[past + 2 * (name == 'numeric_limits')] == '(':
        return _ONLY_CONSTEXPR


def own_names(
    text: str,  # C++
) -> set:
    "Of the standard libraries' names those that the text declares as something of its own, or as a macro"
    source = read(text)
    c = source.main
    return {c[i] for i in c.find(*_C) if _declares(c, i)} | {o.name for o in source.macros} & _C


def _declares(c, i):
    "Is the name at token `i` that of a variable or a function that begins there?"
    return c.is_word(i - 1) and c[i - 1] not in KEYWORDS or c[i - 1] in ('*', '&') and c.is_word(i - 2)
