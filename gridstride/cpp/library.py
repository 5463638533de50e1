"""What of the standard libraries a GPU has, as nvcc 13 has it: it refuses the rest in device code, g++ does not."""

from .callers import Unit, device_code, is_evaluated, wrong
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
    'basic_string condition_variable deque forward_list ifstream istringstream list map mt19937 mt19937_64 multimap '
    'multiset mutex normal_distribution ofstream ostringstream priority_queue queue random_device regex set '
    'shared_ptr stack string stringstream thread uniform_int_distribution uniform_real_distribution unordered_map '
    'unordered_set vector'.split()
)
_STREAMS = {'cin', 'cout', 'cerr', 'clog', 'endl'}
_CONSTEXPR = set(
    'addressof as_const begin clamp data distance empty end gcd get launder lcm make_pair make_tuple max max_element '
    'min min_element minmax next numeric_limits prev size tie'.split()
)
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
            if c.is_word(i) and (words := _refusal(c, i, own, takes)) and is_evaluated(c, i):
                what = words.format(name=c[i], instead=_INSTEAD.get(c[i], ''))
                yield wrong(what, unit.file, c.line(i), unit)
    for i in [] if 'lambda' in takes else c.find_specifiers('__device__'):
        if c[i - 1] == ']' and c.scope(i) == 'code' and not any(a <= i < b for a, b in bodies):
            yield wrong(_LAMBDA, unit.file, c.line(i), unit)


_LAMBDA = 'a lambda of the host that says `__device__` is taken by nvcc with --extended-lambda alone'


def _refusal(c, i, own, takes):
    "The words for what is wrong with the name at token `i`; None if nothing is"
    name, std = c[i], c[i - 1] == '::' and c[i - 2] == 'std' and c[i - 3] != '::'
    if name in _C and c[i + 1] == '(' and (std or c[i - 1] not in ('::', '.', '->') and name not in own):
        return None if name == 'strlen' and c.is_string(i + 2) else _NONE_OF_C  # a compiler counts it
    if not std or 'std' in takes:
        return
    past = (c.angle(i + 1) or i) + 1 if c[i + 1] == '<' else i + 1
    if name in _TYPES | _STREAMS or name in _FUNCTIONS and c[past] == '(':
        return _NONE
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
