"""The source-to-source part of the emulator: what it rewrites, what it leaves alone, on which
lines, and whether compilers take it."""
import random, re, shutil

import pytest

from gridstride.cpp.lint.callers import device_code, mark_host_functions
from gridstride.cpp.frontend.edits import NotEmulated
from gridstride.cpp.lint import unsupported_api
from gridstride.cpp.lint.unsupported_api import describe_unsupported
from gridstride.cpp.frontend.tokens import WrongSource
from gridstride.cpp.frontend.reader import host_functions, kernels
from gridstride.cpp.rewriters.rewrite import to_cpp
from gridstride.cpp.frontend.tokens import directives, tokens
from once import compile_errors

COMPILERS = [o for o in ('g++', 'clang++') if shutil.which(o)]
assert COMPILERS, 'g++ or clang++ is needed, as for the course'

def launch(callee, config, args='', takes='', gives=''):
    call = f'GRIDSTRIDE_KERNEL_CALL({callee})'
    if takes:
        call = f'GRIDSTRIDE_NAME({callee}), __LINE__, [=]({takes}) GRIDSTRIDE_NO_TSAN {{ {callee}({gives}); }}'
    return f'GRIDSTRIDE_LAUNCH(GRIDSTRIDE_CONFIG({config}), {call}{", " if args else ""}{args})'
def shared(name, type_): return f'auto &{name} = ::gridstride::shared<{type_}, __COUNTER__>("{name}")'
def symbol(name, kind='d'):
    return f"GRIDSTRIDE_OWN_SYMBOL({name}, '{kind}')"
def host(body): return f'void host() {{ {body} }}'
def same(src): assert to_cpp(src)==src

# Preprocessor lines

ODD = ['#', '##', '#if 0\n', '# define A 1', '\n', '\\\n', '\r\n', ' ', '/*', '*/', '/* x */', '/* a\nb */', '// c\n',
       '"', '"s"', "'", "'a'", "1'000", '.5', 'a', 'b1', 'u8"x"', 'R"(#\n)"', '<<<', '>', '\\', '\ufeff', '(', '}']

def lines_of(read, src):
    try: return [t for t in read(src) if t.kind == 'directive']
    except ValueError as e: return str(e)

@pytest.mark.parametrize('seed', range(4))
def test_preprocessor_lines_are_those_among_the_tokens(seed):
    "Even if it is not CUDA C: they are found without reading the tokens"
    some = random.Random(seed)
    srcs = [''.join(some.choices(ODD, k=some.randrange(1, 14))) for _ in range(500)]
    assert all(lines_of(directives, o) == lines_of(tokens, o) for o in srcs)

# Launches

@pytest.mark.parametrize('callee',
    ['k', '::k', 'ns::k', '::ns::k<float, 16>', 'k<A<B<int>>>', 'k<A<B<C<int>>>>', 'k<(N>>1)>', 'k<1<<2, sizeof(int)>',
    'k<(a<b)>', 'k<x->y>', 'k<int_<3>.value>', 'table[i]', 'table[i>0][j]', 'o.t', 'p->t[i]', 'o.t[i](2)', 'K(3)',
    'get(i)', 'get<T>(i, j)', '(cond ? a : b)', '(a > b ? k<1> : k<2>)', 'A<T>::template k<3>', 'A<T>::k', 'this->k'])
@pytest.mark.parametrize('before', ['', 'return ', '(void)', 'if (x) ', 'if (x) y; else ', 'while (f(x)) ', 'do ',
                                    'a, ', 'a = b; ', 'case 3: ', 'x && ', '!'])
def test_callee(callee, before):
    assert to_cpp(host(f'{before}{callee}<<<g, b>>>(x);'))==host(f"{before}{launch(callee, 'g, b', 'x')};")

@pytest.mark.parametrize('config', ['1, 32', 'dim3(2, 2), dim3(n >> 5)', 'n>>5, 32', 'n >> (5), 32', 'g, A<3>',
    'g, A<B<3>>', 'g, sizeof(A<B<C<int>>>)', 'g, A<B<3>>::v, 0, s', '{2, 2}, {16, 16}',
    '[=] { return a, b; }(), 1', 'f<A<int>>(n), b', 'n > 3 ? 1 : 2, 32', 'g, b, sizeof(float[3]), stream[i]',
    'cdiv(n, 256), 256', '"<<<", \'>\', 3'])
def test_config(config): assert to_cpp(host(f'k<<<{config}>>>(x);'))==host(launch('k', config, 'x')+';')

@pytest.mark.parametrize('args', ['', 'x', 'x, y', 'a << b, c >> d', '[=] { return P<1, 2>{3, 4}; }, n', 'f(a, {1, 2})',
    'P{1, 2}, ")"', "')', x", 'args...', '(T *)x', 'sizeof(NULL), f(NULL)', 'NULL + 1', '0'])
def test_arguments(args): assert to_cpp(host(f'k<<<1, 2>>>({args});'))==host(launch('k', '1, 2', args)+';')

def test_null_pointers():
    assert to_cpp(host('k<<<1, 2>>>(NULL, x, NULL);'))==host(launch('k', '1, 2', 'nullptr, x, nullptr')+';')
    k = '__global__ void k(int n, float *x, T *const y, int (*f)(int)); '
    assert launch('k<3>', '1, 2', '0, nullptr, 0, 0') in to_cpp(k + host('k<3><<<1, 2>>>(0, 0, 0, 0);'))
    macro = '#define L(k, ...) k<<<1, 2>>>(__VA_ARGS__)\n#define M(x) x\n'
    assert 'L(k, nullptr, x); M(NULL);' in to_cpp(macro + host('L(k, NULL, x); M(NULL);'))

def test_braces_meet_the_parameter():
    want = launch('k', '1, 2', 'x, nullptr, f({}), nullptr', 'auto gs_a0, auto, auto gs_a2, auto',
                  'gs_a0, {1, n}, gs_a2, {}')
    assert to_cpp(host('k<<<1, 2>>>(x, {1, n}, f({}), {});'))==host(want+';')
    assert (launch('k', '1, 2', 'nullptr, a...', 'auto, auto... gs_a1', '{}, gs_a1...')
            in to_cpp(host('k<<<1, 2>>>({}, a...);')))

def test_braces_get_the_type_of_the_parameter_of_a_kernel_without_a_template():
    typed = '::gridstride::Parameter<decltype(&{}), {}>'
    for kernel, name in (('__global__ void k(int *x, P p, Q q);', 'k'),
                         ('namespace a { __global__ void k(P p); }', 'a::k')):
        want = launch(name, '1, 2', f"x, {typed.format(name, 1)}{{1, f({{2}})}}, {typed.format(name, 2)}{{}}")
        assert want in to_cpp(kernel + host(f'{name}<<<1, 2>>>(x, {{1, f({{2}})}}, {{}});'))


def test_braces_get_the_type_of_the_parameter_of_a_template_or_an_overloaded_kernel():
    typed = '::gridstride::ParameterAt<decltype({}gs_parameters_of_k{}(x, {{1, f()}})), 1>{{1, f()}}'
    for kernel in 'template <class T> __global__ void k(T, P);', '__global__ void k(P, P); __global__ void k(P, Q);':
        for name, before, after in (('k', '', ''), ('::k', '::', ''), ('k<3, A<4>>', '', '<3, A<4>>')):
            want = launch(name, '1, 2', f'x, {typed.format(before, after)}')
            assert want in (got := to_cpp(kernel + host(f'{name}<<<1, 2>>>(x, {{1, f()}});')))
            assert got.count('gs_parameters_of_k(') == kernel.count('void') + (not after)
    assert '<T, P> gs_parameters_of_k(T, P); template <class T> __global__' in to_cpp(
        'template <class T> __global__ void k(T, P);' + host('k<<<1, 2>>>(x, {}); k<<<1, 2>>>(x, {});'))


@pytest.mark.parametrize('args', ['x, {1}, [=] __device__ (int i) { return i; }', 'a..., {1}'])
def test_braces_whose_type_is_unknown_meet_the_parameter(args):
    got = to_cpp('template <class... T> __global__ void k(T...);' + host(f'k<<<1, 2>>>({args});'))
    assert 'ParameterAt' not in got and 'nullptr' in got


LAMBDA = '[](int i) { return i; }'

@pytest.mark.parametrize('before, args', [('', f'x, {LAMBDA}'), ('', f'S{{{LAMBDA}}}, x'),
    ('', f'S<F>{{1, {{{LAMBDA}}}}}'),
    ('', f'{{1, 2}}, {LAMBDA}'), ('', f'S{{.n = 1, .f = {LAMBDA}}}'), (f'auto f = {LAMBDA};', 'S<decltype(f)>{f, 1}'),
    (f'auto f = {LAMBDA};', 'f'), (f'auto f = {LAMBDA}; S<decltype(f)> s{{f}};', 'x, s'),
    (f'auto f = {LAMBDA}; S<decltype(f)> s = {{1, f}};', 's'), (f'auto s = S{{{LAMBDA}}};', 's')])
def test_host_lambdas_given_to_a_kernel_template_are_refused(before, args):
    with pytest.raises(WrongSource, match=r'__device__(.|\n)*line [23]'):
        to_cpp(f'template <class... T> __global__ void k(T... a);\n{host(before)[:-2]}\n k<<<1, 2>>>({args}); }}')


@pytest.mark.parametrize('before, args', [('', '[] { return 4; }()'), ('', 'S{[] { return 4; }(), x}'),
    (f'auto f = {LAMBDA};', 'f(1), S{f(2)}'), (f'auto v = {LAMBDA}(3);', 'v'), ('', 'x[1], S{x[1]}'),
    ('', f'S{{[] __device__ (int i) {{ auto g = {LAMBDA}; return g(i); }}}}'), ('S s{s};', 's'),
    (f'{{ auto f = {LAMBDA}; }} auto f = [] __device__ (int i) {{ return i; }};', 'f, S{f}'),
    ('auto a = S{1}; auto b = S{a, a};' + ''.join(f' auto b{n + 1} = S{{b{n}, b{n}}};' for n in range(1, 40)), 'b40')])
def test_right_arguments_of_a_kernel_template(before, args):
    to_cpp(f'template <class... T> __global__ void k(T... a);\n{host(before)[:-2]} k<<<1, 2>>>({args}); }}')


def test_launch_in_a_launch_and_in_a_lambda():
    assert (to_cpp(host('k<<<1, f([&] { j<<<3, 4>>>(y); })>>>(x);'))
            == host(launch('k', f"1, f([&] {{ {launch('j', '3, 4', 'y')}; }})", 'x')+';'))
    assert (to_cpp(host('D(t, "n", [&] { k<T><<<1, 2>>>(x); });'))
            == host(f"D(t, \"n\", [&] {{ {launch('k<T>', '1, 2', 'x')}; }});"))
    assert to_cpp(host('CHECK((k<<<1, 2>>>(x)));'))==host(f"CHECK(({launch('k', '1, 2', 'x')}));")

def test_two_launches_in_a_statement():
    assert (to_cpp(host('k<<<1, 2>>>(x), j<3><<<3, 4>>>(y);'))
            == host(f"{launch('k', '1, 2', 'x')}, {launch('j<3>', '3, 4', 'y')};"))

def test_comments_and_lines_between_the_tokens():
    src = host('k /* a <<< */ <float, // >>>\n 2>\n  <<< /* ( */ g, // ,\n b\n>>> // )\n  (x, // y\n   z)\n;')
    got = to_cpp(src).split('\n')
    assert len(got)==src.count('\n')+1
    assert 'GRIDSTRIDE_KERNEL_CALL(k <float, 2>)' in got[4] and '/* ( */ g' in got[2] and got[3]==' b'
    assert got[5:]==['  , x, // y', '   z)', '; }']

@pytest.mark.parametrize('src', ['int a = 1 << 2 >> 1;', 'a <<= b; a >>= b; c <= d; e <=> f;', '// k<<<1, 2>>>(x)',
    '/* k<<<1,\n 2>>>(x) */', 'auto s = "k<<<1, 2>>>(x)";', 'auto s = R"(k<<<1, 2>>>(__shared__ int x;)";',
    'auto s = R"x(k<<<1, 2>>>()" __shared__)x";', "char c = '\"'; // k<<<1, 2>>>(x)", '#include <a<<<b>>>.h>',
    '#error k<<<1, 2>>>(x) isn\'t', '#if 0\nk<<<1, 2>>>(x) { asm\n#endif', 'std::ostream &operator<<<int>(S s);',
    "int n = 1'000'000; const char *t = \"asm\";", '#pragma unroll\n', 'template <int N = (1 > 0)> struct S {};',
    'v<v<v<int>>> x;', '', '\n', '// only\\\nk<<<1, 2>>>(x)', 'auto s = "a\\\n__noinline__";',
    '#define S "__shared__ int x;"', 'enum { a = 1 };\r\nint b;\r\n', 'void f();', 'double d = .5e-3, e = 0x1.8p+3;'])
def test_left_alone(src): same(src)

def test_macros():
    src = '#define L(k, n, ...) do { \\\n  k /* why */ <<<(n + 31) / 32, \\\n    32>>>(a, n); \\\n } while (0)\n'
    got = to_cpp(src)
    assert got.count('\n')==src.count('\n') and got.count('\\\n')==3
    assert launch('k', '(n + 31) / 32, \\\n    32', 'a, n') in got
    assert (to_cpp('#define L k<3, \\\n  4> \\\n <<<1, 2>>>(x)\nint a;\n')
            == f"#define L {launch('k<3, 4>', chr(92)+chr(10)+chr(92)+chr(10)+'1, 2', 'x')}\nint a;\n")
    assert launch('kern_##T', '1, 2', 'x') in to_cpp('#define L(T) kern_##T<<<1, 2>>>(x)')
    later = '[&](auto... gs_b) { ' + launch('k', '__VA_ARGS__', 'gs_b...') + '; }'
    assert to_cpp('#define L(k, ...) k<<<__VA_ARGS__>>>')==f'#define L(k, ...) {later}'
    assert (to_cpp('#define L(k, args) k<<<1, 2>>> args')
            == f"#define L(k, args) {later.replace('__VA_ARGS__', '1, 2')} args")
    assert (to_cpp('#define L(k, ...) k<<<1, 2>>>(__VA_ARGS__)')
            == f"#define L(k, ...) {later.replace('__VA_ARGS__', '1, 2')}(__VA_ARGS__)")
    assert launch('k', '1, 2', 'x') in to_cpp('#define L k<<<1, 2>>>(x) // \\\n more\n')

@pytest.mark.parametrize('src,line,what', [('\n\nvoid f() {\n  <<<1, 2>>>(x);\n}', 4, 'name of a kernel'),
    ('void f() {\n  k<<<1, 2>>(x);\n}', 2, 'no `>>>`'), ('void f() {\n  k<<<1, 2>>>;\n}', 2, 'no argument list'),
    ('void f() {\n\n  k<<<1, (2>>>(x);\n}', 3, 'not closed'), ('int f() {\n  g(1;\n}', 2, "'(' is not closed"),
    ('void f() {\n if (x) {\n}', 1, "'{' is never closed"), ('\n}', 2, 'no opening'), ('a;\n/* b\n', 2, 'comment'),
    ('void f() {\n  __shared__ int n = 3;\n}', 2, 'shared__ variable n')])
def test_errors_name_the_line(src, line, what):
    with pytest.raises(ValueError, match=re.escape(what)) as e: to_cpp(src)
    assert f"line {line}: {src.split(chr(10))[line-1].strip()}" in str(e.value)

# Shared memory

@pytest.mark.parametrize('src,want', [
    ('__shared__ float a;', [('a', 'float')]),
    ('__shared__ float a[N][M], b;', [('a', 'float [N][M]'), ('b', 'float')]),
    ('__shared__ unsigned long long int a[2*(N+1)];', [('a', 'unsigned long long int [2*(N+1)]')]),
    ('static __shared__ volatile T a[3];', [('a', 'volatile T [3]')]),
    ('__shared__ const char a[3];', [('a', 'const char [3]')]),
    ('__shared__ int __attribute__((unused)) a[3];', [('a', 'int [3]')]),
    ('float __shared__ a[3];', [('a', 'float [3]')]),
    ('volatile __shared__ float a[3];', [('a', 'volatile float [3]')]),
    ('__shared__ int *a, (*b)[4], *c[2], (*d)(int);',
     [('a', 'int *'), ('b', 'int (*)[4]'), ('c', 'int *[2]'), ('d', 'int (*)(int)')]),
    ('__shared__ Pair<int, A<B<float>>> a[2], b;',
     [('a', 'Pair<int, A<B<float>>> [2]'), ('b', 'Pair<int, A<B<float>>>')]),
    ('__shared__ ::ns::T<(a>b), 1<<2>::type a;', [('a', '::ns::T<(a>b), 1<<2>::type')]),
    ('__shared__ typename A<T>::template B<3>::C a;', [('a', 'typename A<T>::template B<3>::C')]),
    ('__shared__ struct S a[3];', [('a', 'struct S [3]')]),
    ('__shared__ decltype(x + y) a[3];', [('a', 'decltype(x + y) [3]')]),
    ('__shared__ TYPE(int, 3) a[3];', [('a', 'TYPE(int, 3) [3]')]),
    ('__shared__ Pair<int, A<float>> a[2], *b, (*c)[4];',
     [('a', 'Pair<int, A<float>> [2]'), ('b', 'Pair<int, A<float>> *'), ('c', 'Pair<int, A<float>> (*)[4]')]),
    ('__shared__ MAYBE_CONST float a[3];', [('a', 'MAYBE_CONST float [3]')]),
    ('__shared__ float a[N > 4 ? N : 4][2];', [('a', 'float [(N > 4 ? N : 4)][2]')]),
    ('__shared__ cuda::barrier<cuda::thread_scope_block> a;', [('a', 'cuda::barrier<cuda::thread_scope_block>')])])
def test_shared(src, want):
    rewritten = '; '.join(shared(*o) for o in want)+';'
    for scope in ('__global__ void {} k() {{ {} }}', 'template <class T> __device__ T{} f(T x) {{ if (x) {{ {} }} }}',
                  'struct S {{ __device__ void{} f() {{ {} }} }};', 'namespace n {{ auto f{} = [] {{ {} }}; }}',
                  '__global__ void{} k() {{ case 3: {} }}'):
        assert scope.format('', rewritten) in to_cpp(scope.format('', src))

def test_shared_arrays_are_as_aligned_as_they_say():
    for said in ('__align__(16) __shared__ T a[3];','alignas(16) __shared__ T a[3];',
                 '__shared__ T a[3] __attribute__((aligned(16)));','static __shared__ __align__(16) T a[3];'):
        assert ('struct gs_align_a { alignas(16) char c; }; auto &a = ::gridstride::shared<T [3], '
                '__COUNTER__, alignof(gs_align_a)>("a");' in to_cpp(f'__global__ void k() {{ {said} }}'))

def test_shared_outside_and_dynamic():
    assert (to_cpp('extern __shared__ float s[];')
            == 'extern __attribute__((unused)) float gs_extern_s[]; '
               'static thread_local auto &s = ::gridstride::dynamic_shared<float []>("s");')
    assert (to_cpp('namespace n { __shared__ int a[3]; }')
            == 'namespace n { static thread_local auto &a = ::gridstride::file_shared<int [3], __COUNTER__>("a"); }')
    dynamic = 'extern volatile __shared__ __align__(sizeof(T)) unsigned char s[], t[][4];'
    assert to_cpp(host(dynamic))==host('extern __attribute__((unused)) volatile unsigned char gs_extern_s[]; '
                                       'auto &s = ::gridstride::dynamic_shared<volatile unsigned char []>("s"); '
                                       'extern __attribute__((unused)) volatile unsigned char gs_extern_t[][4]; '
                                       'auto &t = ::gridstride::dynamic_shared<volatile unsigned char [][4]>("t");')

def test_shared_types_defined_in_place():
    assert (to_cpp(host('__shared__ union U { int i; T t; } a, *b;'))
            == host(f"union U {{ int i; T t; }}; {shared('a', 'U')}; {shared('b', 'U *')};"))
    assert re.search(r'struct (gs_type_\d+) \{ int i; \}; auto &a = ::gridstride::shared<volatile \1 '
                     r'\[3\], __COUNTER__>\("a"\);', to_cpp(host('volatile __shared__ struct { int i; } a[3];')))

def test_shared_in_macros():
    assert (to_cpp('#define TILE(T, n) __shared__ T n[32]')
            == '#define TILE(T, n) auto &n = ::gridstride::shared<T [32], __COUNTER__>(GRIDSTRIDE_NAME(n))')
    assert (to_cpp('#define TILE(T, n) __shared__ T buf_##n[32], o;')
            == '#define TILE(T, n) auto &buf_##n = '
               '::gridstride::shared<T [32], __COUNTER__>(GRIDSTRIDE_NAME(buf_##n)); '
               'auto &o = ::gridstride::shared<T, __COUNTER__>(GRIDSTRIDE_NAME(o));')
    alias = '#define SMEM extern __shared__ __align__(16)\n#define ALIGNED(n) __align__(n)\n'
    assert (to_cpp(alias+host('SMEM float s[]; __shared__ ALIGNED(8) int a;'))
            == alias+host('extern __attribute__((unused)) float gs_extern_s[]; '
                          'auto &s = ::gridstride::dynamic_shared<float []>("s"); '
                          f"{shared('a', 'int')};"))
    with pytest.raises(NotEmulated, match='line 1'): to_cpp('#define S __shared__ float\n')

@pytest.mark.parametrize('given, wanted', [
    ('[=] { s[0] = t; }', '[=, &s] { s[0] = t; }'), ('[] { s[0] = 1; }', '[&s] { s[0] = 1; }'),
    ('[t, p = s] { s[0] = t; }', '[t, p = s, &s] { s[0] = t; }'), ('[&] { s[0] = t; }', None),
    ('[=](int i) mutable -> int { return s[i] + u; }', '[=, &s, &u](int i) mutable -> int { return s[i] + u; }'),
    ('[=] { [] { s[0] = 1; }(); }', '[=, &s] { [&s] { s[0] = 1; }(); }'), ('[=] { return p->s + q.u + N::s; }', None),
    ('[](V *s) { s[0]; }', None), ('[=](float (&s)[4], Q<int, 2> u) { return s[0]; }', None),
    ('[=](const float *s) { return s[0]; }', None), ('[=](float s) { return [=] { return s; }; }', None),
    ('[](float s) { s; }(2 * s[0]); g = [] { s[0]; }', '[](float s) { s; }(2 * s[0]); g = [&s] { s[0]; }'),
    ('[=] { auto *r = &s[0]; }', '[=, &s] { auto *r = &s[0]; }'), ('[=] { return t; }', None)])
def test_lambdas_capture_no_copy_of_shared_memory(given, wanted):
    source = '__global__ void k(int t) {{ __shared__ float s[4], u; auto f = {}; }}'.format
    assert f'auto f = {wanted or given};' in to_cpp(source(given))
    other = f'__global__ void k(int t) {{ {{ __shared__ float s[4], u; }} for (float s, u;;) f = {given}; }}'
    assert given in to_cpp(other), 'variables of other scopes'


@pytest.mark.parametrize('captures', ['s', '&s', '=, &s', 't, s'])
def test_no_lambda_captures_shared_memory_itself(captures):
    "As nvcc has it"
    with pytest.raises(WrongSource, match=r'^s (.|\n)*line 3'):
        to_cpp(f'__global__ void k(int t) {{\n__shared__ float s[4];\nauto f = [{captures}] {{ s[0] = t; }}; }}')


# Variables of the device

@pytest.mark.parametrize('src,want', [
    ('__device__ int a;', f"static int gs_init_a; {symbol('a')};"),
    ('__device__ int a = 3;', f"static int gs_init_a = 3; {symbol('a')};"),
    ('int __device__ a = 3;', f"static int gs_init_a = 3; {symbol('a')};"),
    ('__device__ int a, *b = &a;', f"static int gs_init_a; {symbol('a')}; static int *gs_init_b = &a; {symbol('b')};"),
    ('static inline __device__ __constant__ const float a[2][2] = {{1, 2}, {3, 4}};',
     f"static const float gs_init_a[2][2] = {{{{1, 2}}, {{3, 4}}}}; {symbol('a', 'c')};"),
    ('__device__ __managed__ unsigned long long a{1};',
     f"static unsigned long long gs_init_a{{1}}; {symbol('a', 'm')};"),
    ('__device__ const char *a = "};//";', f"static const char *gs_init_a = \"}};//\"; {symbol('a')};"),
    ('__constant__ P<int, A<B<3>>> a = P<int, A<B<3>>>{1, {2, 3}};',
     f"static P<int, A<B<3>>> gs_init_a = P<int, A<B<3>>>{{1, {{2, 3}}}}; {symbol('a', 'c')};"),
    ('__device__ int (*a)(int, float) = f, b;',
     f"static int (*gs_init_a)(int, float) = f; {symbol('a')}; static int gs_init_b; {symbol('b')};"),
    ('__device__ __align__(16) P<int, float> a = P<int, float>("};", 2);',
     f"__align__(16) static P<int, float> gs_init_a = P<int, float>(\"}};\", 2); {symbol('a')};"),
    ('__device__ P a(1, 2);', f"static P gs_init_a(1, 2); {symbol('a')};"),
    ('__device__ auto a = [] __device__ (int i) { return i, 2; };',
     f"static auto gs_init_a = [] __device__ (int i) {{ return i, 2; }}; {symbol('a')};"),
    ('__device__ __align__(16) float a[4];', f"__align__(16) static float gs_init_a[4]; {symbol('a')};"),
    ('alignas(16) __device__ float a[4], b;',
     f"alignas(16) static float gs_init_a[4]; {symbol('a')}; alignas(16) static float gs_init_b; {symbol('b')};"),
    ('extern "C" __constant__ float a[3];', f"static float gs_init_a[3]; {symbol('a', 'c')};"),
    ('extern __device__ int a;', f"static int gs_init_a; {symbol('a')};"),
    ('extern __device__ int a; int f(); __device__ int a = 3;',
     f"extern int gs_init_a; {symbol('a')}; int f(); int gs_init_a = 3;"),
    ('extern __constant__ int a[]; __constant__ int a[3];',
     f"extern int gs_init_a[]; int gs_init_a[3]; {symbol('a', 'c')};"),
    ('__device__ struct S { int x; } a, b[2];',
     f"struct S {{ int x; }}; static S gs_init_a; {symbol('a')}; static S gs_init_b[2]; {symbol('b')};"),
    ('#define DEV static __device__\nDEV int a;',
     f"#define DEV static __device__\nstatic int gs_init_a; {symbol('a')};"),
    ('#if N\n__constant__\n#endif\n#ifdef M\n#pragma once\n#endif\nfloat a[3];',
     f"#if N\n__constant__\n#endif\n#ifdef M\n#pragma once\n#endif\nstatic float gs_init_a[3]; {symbol('a', 'c')};"),
    ('#define TABLE(n, T) __constant__ T n##_t[4]',
     "#define TABLE(n, T) static T gs_init_##n##_t[4]; "
     "GRIDSTRIDE_SYMBOL(n##_t, gs_init_##n##_t, GRIDSTRIDE_NAME(n##_t), 'c')")])
def test_symbol(src, want):
    assert to_cpp(src)==want
    if '#' not in src:
        assert to_cpp(f'namespace a::b {{ extern "C" {{ {src} }} }}')==f'namespace a::b {{ extern "C" {{ {want} }} }}'

@pytest.mark.parametrize('src', ['__device__ float f(float x) { return x; }', '__device__ float f(float), g(int);',
    '__host__ __device__ __forceinline__ A<B<int>> f(A<B<int>> x = {}, int y = 3);', '__device__ Foo<int> f(A<B> a);',
    '__device__ const int N = 32;', '__constant__ const float pi = 3.14f, e = 2.7f;',
    'constexpr __device__ int a[3] = {1, 2, 3};', '__device__ constexpr float x = 3;',
    'template <class T> __device__ T a = 3;', '__device__ S::S(int x) : x{x} {}',
    'template <class T, int N> __device__ __forceinline__ auto f(T x) -> decltype(x) { return x; }',
    'struct S { __device__ S() : x{1} {} __device__ int f() const { return x; } __device__ static int g(); int x; '
    '__device__ operator int() const; };',
    '__device__ T operator+(T a, T b) { return a; }', '__device__ T &operator+=(T &a, T b);',
    'auto f = [] __device__ (int x) { return x; };',
    '__device__ int S::a = 3;', '__device__ struct S f() { return {}; }', '__device__ int *f(int *x) { return x; }',
    '__device__ S::~S() {}', 'void f() { auto g = [=] __host__ __device__ (int i) { int j = i; return j; }; }',
    '#define HD __host__ __device__\nHD int f(int x) { return x; }', '__device__ void f() {} int g;',
    'class A { friend __device__ void f(A); };',
    'template <> __device__ int f<3>(int x) { return x; }', 'template __device__ int f<3>(int);',
    '__device__ int (*f(int x))(int) { return 0; }'])
def test_no_symbol(src): same(src)

# Keywords, and what cannot be emulated

def test_noinline():
    assert (to_cpp('__noinline__ int f();\n#define SLOW __noinline__\n')
            == 'GRIDSTRIDE_NOINLINE int f();\n#define SLOW GRIDSTRIDE_NOINLINE\n')
    same('__attribute__((__noinline__)) int f(); // __noinline__')

@pytest.mark.parametrize('asm,says', [
    ('asm("mov;");', ' mov '),
    ('asm volatile ("mov.u32 %0, %%gridid;" : "=r"(x));', "operand '%%gridid'"),
    ('asm("tcgen05.fence;");', ' tcgen05.fence '),
    ('asm("mov.u32 %0, %1;" : "=r"(x));', ' %1 .* 1'),
    ('asm("mov.u32 %0, 1;" : "r"(x));', "constraint 'r'"), ('asm("mov.u32 %0, 1;" : "=q"(x));', "constraint '=q'"),
    ('asm("mov.u32 %0, 1" : "=r"(x));', 'semicolon'),
    ('asm("bar.sync 1;");', 'barrier 1 '),
    ('asm(TEXT : "=r"(x));', "'TEXT'"), ('asm volatile;', 'asm')])
def test_inline_ptx_that_is_not_known(asm, says):
    with pytest.raises(NotEmulated, match=f"{says}.*\n  line 3: {re.escape(asm)}") as e:
        to_cpp(f'__device__ int f() {{\n  int x;\n  {asm}\n}}')
    assert isinstance(e.value, NotImplementedError)
    with pytest.raises(NotEmulated, match='line 2'): to_cpp(f'int a;\n#define X {asm}\n')
    for guard in ('#if 0', '#ifndef GRIDSTRIDE_EMULATOR', '#if !defined(GRIDSTRIDE_EMULATOR) // PTX',
                  '#ifdef GRIDSTRIDE_EMULATOR\n#else', '#if 1\n#else', '#if 1\n#elif B\n#else'):
        same(f'{guard}\n#ifdef X\n{asm}\n#else\n{asm}\n#endif\n#endif\n')

def test_what_ptx_is_known_is_said():
    with pytest.raises(NotEmulated,
            match=r'cp\.async.*mma\.sync.*`#ifndef GRIDSTRIDE_EMULATOR`'):
        to_cpp('void f() { asm("vmad.u32 5;"); }')

@pytest.mark.parametrize('asm,becomes', [
    ('asm("");', 'do { } while (0);'), ('__asm__ __volatile__("" ::: "memory");', 'do { } while (0);'),
    (r'asm volatile("// nothing\n" : :);', 'do { } while (0);'),
    ('asm("cp.async.wait_all;\\n\\t"\n    "cp.async.commit_group;");',
     'do { ::gridstride::copy_async_wait_all(); ::gridstride::copy_async_commit(); } while (0)\n;'),
    ('asm volatile("cp.async.wait_group %0;" ::"n"(N::value ? 2 : 1));',
     'do { constexpr auto gs_0 = (N::value ? 2 : 1); ::gridstride::copy_async_wait(gs_0); } while (0);'),
    ('asm(R"(bar.sync /* all */ 0;)");', 'do { ::gridstride::sync_block(__LINE__); } while (0);'),
    ('asm("{ .reg .pred %%p; setp.ge.u32 %%p, %0, 3; @!%%p cp.async.wait_all; }" : : "r"(x));',
     "do { auto gs_0 = ::gridstride::ptx::read_operand<'r'>((x)); { bool gs_register___p{}; "
     "gs_register___p = (gs_0) >= (3); if (!gs_register___p) ::gridstride::copy_async_wait_all(); } } while (0);")])
def test_inline_ptx(asm, becomes):
    assert re.sub(' +', ' ', to_cpp(f'void f() {{ {asm} }}'))==f'void f() {{ {becomes} }}'
    same('int asm_(int x) { return x; } // asm("")')

def test_inline_ptx_in_macros():
    assert (to_cpp('#define WAIT(n) asm volatile("cp.async.wait_group " #n ";" ::: "memory")\n')
            == '#define WAIT(n) do { ::gridstride::copy_async_wait((n)); } while (0)\n')
    assert 'copy_async_wait_all();' in to_cpp('#define WAIT "cp.async.wait_all;"\nvoid f() { asm volatile(WAIT); }\n')
    with pytest.raises(NotEmulated, match="'WAIT'"):
        to_cpp('#ifdef A\n#define WAIT "cp.async.wait_all;"\n#else\n#define WAIT ""\n#endif\n'
               'void f() { asm volatile(WAIT); }\n')
    two = to_cpp('#define LOAD(a, \\\n             b) asm("ld.shared.f32 %0, [%1 + 4];" : \\\n'
                 '  "=f"(a) : "r"(b))\nint x;\n')
    assert two.count('\n')==4 and two.count('\\\n')==2 and 'load_shared(GS_LINE, gs_1 + 4, gs_0)' in two
    assert two.endswith('\nint x;\n')

def test_branches_may_open_the_same_bracket():
    same('#ifdef A\nvoid f(int x) {\n#elif B\nvoid f(long x) {\n#else\nvoid f(float x) {\n#endif\n  g();\n}\n')
    same('void f() {\n#ifdef A\n}\n#else\n#error "A"\n#endif\nint x;')
    same('#ifdef __cplusplus\nextern "C" {\n#endif\nint x;\n#ifdef __cplusplus\n}\n#endif\n')
    assert (to_cpp('#ifdef A\nvoid f(int x) {\n#else\nvoid f() {\n#endif\n__shared__ int a;\n}\n__device__ int b;')
            == f"#ifdef A\nvoid f(int x) {{\n#else\nvoid f() {{\n#endif\n{shared('a', 'int')};\n}}\n"
              f"static int gs_init_b; {symbol('b')};")
    with pytest.raises(NotEmulated, match='preprocessor'):
        to_cpp('void f() {\n__shared__ int a[\n#ifdef A\n3\n#else\n4\n#endif\n];}')
    same('#define OPEN namespace x {\n#define CLOSE }\nOPEN int a; CLOSE void f() { if (a) {\n} }')
    same('#define OPEN namespace x {\nOPEN int a; }\n')

# Functions

SRC = '''#include <vector>
template <typename T, int N = (3 > 2)>
__global__ void __launch_bounds__(256, 2)
scale(const float* __restrict__ x, T *out, int n=N, float w[][4] = nullptr) {}
extern "C" __global__ void add(float *a, std::vector<int> b, int, unsigned   long long c);
static __global__ void no_parameters(void) { }
#define KERNEL __global__ void
KERNEL aliased(const __grid_constant__ Params p) {}
__global__ void add(float *first, std::vector<int> second, int third, unsigned long long c) { }
namespace a { namespace { namespace b { static inline torch::Tensor host(const torch::Tensor &x, \
c10::optional<at::Tensor> y = c10::nullopt, const std::string& s = "a,(b", char c=')') {
  struct Local { int f() { return 1; } }; return x; } } } __global__ void inner(int *i) {} }
__host__ __device__ int both(int a) { return a; }
__device__ int device(int a) { return a; }
struct S { int member() { return 1; } }; int S::outside() { return 1; }
int declared(int x);
PYBIND11_MODULE(name, m) { m.def("f", &both); }
auto trailing(int (*f)(float, int), T (&m)[3], Args&&... args) -> std::vector<int> { return {}; }
int g[] = {1, 2}; std::vector<int> v = f(1, 2), w{1};
#if 0
int dead() {}
#endif
'''

def test_kernels():
    got = {(k.scope, k.name):k for k in kernels(SRC)}
    assert [(k.name, k.line) for k in got.values()]==[('scale', 4), ('add', 9), ('no_parameters', 6),
                                                      ('aliased', 8), ('inner', 11)]
    scale = got['', 'scale']
    assert scale.template=='template <typename T, int N = (3 > 2)>' and scale.result_type=='void'
    assert [p[:3] for p in scale.params]==[('const float *', 'x', ''), ('T *', 'out', ''), ('int', 'n', 'N'),
                                           ('float (*)[4]', 'w', 'nullptr')]
    assert [p.name for p in got['', 'add'].params]==['first', 'second', 'third', 'c']
    assert got['', 'add'].params[3].type=='unsigned long long'
    assert got['', 'no_parameters'].params==[] and got['', 'aliased'].params==[('const Params', 'p', '', True)]
    footer = to_cpp(SRC).split('\n')[-2]
    assert footer.startswith('static const ::gridstride::ParameterNames gs_names[] = {{"scale", "x,out,n,w"}, '
                             '{"add", "first,second,third,c"}, ')
    assert footer.count('{"')==5

def test_host_functions():
    got = {f.name:f for f in host_functions(SRC)}
    assert [(f.name, f.result_type, f.scope, f.line) for f in got.values()]==[
        ('host', 'torch::Tensor', 'a::b', 10), ('both', 'int', '', 12), ('trailing', 'std::vector<int>', '', 17)]
    assert [p[:3] for p in got['host'].params]==[('const torch::Tensor &', 'x', ''),
                                                 ('c10::optional<at::Tensor>', 'y', 'c10::nullopt'),
                                                 ('const std::string &', 's', '"a,(b"'), ('char', 'c', "')'")]
    assert [p.type for p in got['trailing'].params]==['int (*)(float, int)', 'T (&)[3]', 'Args &&...']
    assert [p.name for p in got['trailing'].params]==['f', 'm', 'args']

@pytest.mark.parametrize('text,type_,name',
    [('const float*x', 'const float *', 'x'), ('float const * const* y', 'float const * const *', 'y'),
    ('int', 'int', ''), ('const T&', 'const T &', ''), ('unsigned n', 'unsigned', 'n'), ('T... xs', 'T...', 'xs'),
    ('A<B<int>>a', 'A<B<int>>', 'a'), ('::std::size_t n', '::std::size_t', 'n'), ('struct S s', 'struct S', 's'),
    ('typename A<T>::B b', 'typename A<T>::B', 'b'), ('int a[3]', 'int *', 'a'), ('int[3]', 'int *', ''),
    ('void **p', 'void **', 'p'), ('float /* in */ *\n x // why\n', 'float *', 'x'),
    ('const float *const __restrict__ x', 'const float * const', 'x'), ('long long int', 'long long int', ''),
    ('...', '...', ''), ('half2 x', 'half2', 'x')])
def test_parameter(text, type_, name):
    assert [p[:3] for p in host_functions(f'void f({text}) {{}}')[0].params]==[(type_, name, '')]

# Lines: a source put together at random from pieces, with line ends and comments at random between their tokens

PIECES = [
    '__global__ void @(float *x, int n) { __shared__ Pair < int , float > a [ N ] [ M + 1 ] , * b ; mark ( a , b ) ; }',
    '__device__ int @ = f ( 1 , mark ) , * @ = nullptr ;', '__constant__ float @ [ 3 ] = { 1 , mark , 3 } ;',
    'void @ ( ) { mark ; k < float , 16 > <<< dim3 ( 1 , mark ) , n >> 5 >>> ( x , mark , [ & ] { return mark ; } ) ; '
    'mark ; }', 'extern __shared__ float @ [ ] ;',
    'namespace mark { __device__ int @ ( int mark ) { return mark << 1 ; } }',
    'struct @ { __device__ int mark ( ) { __shared__ int a ; return a ; } } ;',
    'int @ ( ) { t [ i ] <<< 1 , 2 >>> ( NULL ) ; return mark > 3 ; }', '__noinline__ auto @ = "k<<<1, 2>>>(mark)" ;',
    'template < class T > __device__ T @ ( T mark ) ;']

def spread(piece, rng, names):
    "The tokens of `piece`, @ and mark replaced by names of their own, with line ends and comments between them"
    gaps = [' ', ' ', ' ', '\n', ' /* k<<<1, 2>>>(x)\n */ ', '\n  // __shared__ int c; (\n', '\t']
    words = [re.sub('@', lambda _: f'name_{next(names)}', re.sub('mark', lambda _: f'mark_{next(names)}', o))
             for o in re.findall(r'"[^"]*"|\S+', piece)]
    return ''.join(o + rng.choice(gaps) for o in words)

def where(text): return {m[0]:text.count('\n', 0, m.start()) for m in re.finditer(r'mark_\d+', text)}

@pytest.mark.parametrize('seed', range(60))
def test_no_token_moves_to_another_line(seed):
    rng,names = random.Random(seed),iter(range(10**6))
    pieces = [spread(rng.choice(PIECES), rng, names) for _ in range(12)]
    between = [f'int keep_{i}; // __shared__ {i} <<<\n#define KEEP_{i} (x) \\\n  {i}\n' for i in range(12)]
    src = ''.join(a+'\n'+b for a,b in zip(pieces, between))
    got = to_cpp(src)
    names = kernels(src)
    assert got.count('\n')==src.count('\n')+bool(names) and where(got)==where(src) and len(where(src)) > 3
    for o in between: assert o in got and got.count('\n', 0, got.index(o))==src.count('\n', 0, src.index(o))
    left = {t.text for t in tokens(got)}
    assert not left & {'<<<', '__shared__', '__constant__', '__noinline__'}
    assert to_cpp(got)==got + (got.split('\n')[-2]+'\n' if names else '')  # nothing is left to rewrite

# Compilers

HARD = r'''#include <utility>
#include <vector>
#define HD __host__ __device__ __forceinline__
#define KERNEL __global__ void __launch_bounds__(256)
#define SMEM extern __shared__ __align__(16)
#define TILE(T, n) __shared__ T n[32][33]
#define TABLE(n) __constant__ float n##_table[4] = {1, 2, 3, 4};
#define LAUNCH(k, n, ...) k<<<(n + 31) / 32, 32>>>(__VA_ARGS__)
#define LAUNCH2(k, args) k<<<1, \
   32>>> args
#define LAUNCH3(k, ...) k<<<__VA_ARGS__>>>
#define NAMED(T) kern_##T<<<1, 32>>>(x)
#define CHECK(...) do { __VA_ARGS__; } while (0)
struct __align__(8) P2 { int a, b; __device__ P2(int a=0, int b=0) : a(a), b{b} {} __device__ int sum() const; };
__device__ int P2::sum() const { return a+b; }
template <class A, class B> struct Pair { A a; B b; static __device__ A f(A a) { return a; } };
__device__ int d_a = 3, *d_b = &d_a, d_c[2] = {1, 2};
static __device__ __constant__ const float w[2][2] = {{1, 2}, {3, 4}};
__constant__ float coef[3];
__managed__ unsigned long long total{7};
namespace deep { namespace er { __device__ alignas(16) Pair<int, Pair<float, int>> pair = {1, {2, 3}}; } }
extern __device__ int later;
__device__ int use_later() { return later; }
__device__ int later = 9;
__device__ const int N = 32;
constexpr __device__ int M = 16;
__device__ struct { int x; } anon;
__device__ struct Tag { int x; } tag1, tag2[2];
__device__ volatile int flag;
__device__ P2 p(1, 2);
__device__ int (*fp)(int) = nullptr;
__device__ auto twice = [] (int i) { return i*2, 2; };
__device__ const char *msg = "};\"";
extern "C" __constant__ float plain_name[3];
TABLE(sin)
extern __shared__ float top[];
__shared__ int file_tile[N];
HD float sq(float x) { return x*x; }
__noinline__ __device__ int slow(int x) { return x; }
template <int K> __device__ float dev(float x) { __shared__ float s[K > 4 ? K : 4]; return s[0]+x; }
KERNEL plain(float *x, int n) {
    TILE(float, tile); tile[0][0] = x[0]; x[0] = top[0] + file_tile[0] + dev<3>(1) + sin_table[1] + coef[0];
}
__global__ void kern_float(float *x);
template <typename T, int B> __global__ void k(const T *__restrict__ x, T y = T()) {
  __shared__ Pair<int, T> a[B][M+1], *b, (*c)[4];
  static __shared__ alignas(16) volatile unsigned long long u[2*(B+1)], v;
  __shared__ struct S { int x; } st[2];
  __shared__ union { int i; float f; } un;
  __shared__ typename std::vector<T>::value_type z[N];
  SMEM unsigned char raw[];
  auto f = [&](int i) { __shared__ float inner[8]; return inner[i]; };
  a[0][0].a = st[0].x + un.i; b = &a[0][0]; c = nullptr; u[0] = v; (void)f; (void)raw; (void)z; (void)x;
}
template <class F> __global__ void call(F f) { f(1); }
__global__ void none() {}
__global__ void call2(P2 p, float *x, P2 q) {}
template <class T> __global__ void kp(T *x, int n) {}
template <class T> struct Holder {
    template <int B> static void run(T *x) { k<T, B><<<1, 32>>>(x, T(1)); k<T, (B>>1)><<<1,2>>>(x); }
};
template <class... A> void all(A... a) { call<<<1, 1>>>(a...); }
void host(float *x, int n, cudaStream_t s, bool fast) {
  plain<<<1, 32>>>(x, n);
  ::plain<<<dim3(1, 2), dim3(n >> 1), sizeof(Pair<int, Pair<int, int>>), s>>>(NULL, n << 1);
  k<Pair<int, float>, 3><<<{1, 1}, {2, 2}>>>((Pair<int, float> *)x, {});
  k<float, (32>>1)>
    <<<n / 32, // blocks
       32>>>
      (x, 2.f);
  (fast ? plain : plain)<<<1, 2>>>(x, [=] { int a = 1, b{2}; return a + b; }());
  void (*table[])(float *, int) = {plain, plain};
  table[n > 1 ? 1 : 0]<<<1, 2>>>(x, n);
  if (fast) plain<<<1, 2>>>(x, n); else none<<<1, 1>>>();
  call<<<1, 1>>>([=] __device__ (int i) { x[i] = 1, 2; });
  call /* why */ <<< 1, 1 >>> ([=] __host__ __device__ (int i) { return x[i] > 2; });
  LAUNCH(plain, n, x, n); LAUNCH(none, n); LAUNCH2(plain, (x, n)); LAUNCH3(plain, 1, 32)(x, n); LAUNCH3(none, 1, 2)();
  CHECK(plain<<<1, 2>>>(x, n));
  NAMED(float);
  for (int i = 0; i < 3; i++) Holder<float>::template run<4>(x);
  all([](int) {});
  plain<<<1, 2>>>(0, 0); call2<<<1, 1>>>({1, 2}, x, {n > 2,
    3}); LAUNCH(plain, n, NULL, n); kp<float><<<1, 1>>>(0, 0);
}
__global__ void kern_float(float *x) { x[0] = 1; }
'''

def test_compilers_take_it():
    for compiler in COMPILERS: assert compile_errors(compiler, to_cpp(HARD), '-w')==''

@pytest.mark.parametrize('line', ['  mistake;', '  __shared__ float s[missing];', '  __shared__ Missing a,\n b;',
    '  k<<<missing, 2>>>(x);', '  k<<<1,\n missing>>>(x);', '  missing<<<1, 2>>>(\nx);', '  k<<<1, 2>>>(\n missing);'])
def test_messages_keep_their_lines(line):
    src = f'__global__ void k(float *x) {{}}\nvoid host(float *x) {{\n{line}\n}}\n'
    at = next(i for i,o in enumerate(src.split('\n'), 1) if re.search('mistake|missing|Missing', o))
    reported = rf'<stdin>:{at}:\d+: (?:error|note: in expansion of macro)'
    for compiler in COMPILERS: assert re.search(reported, compile_errors(compiler, to_cpp(src)))


@pytest.mark.parametrize('header',
    ['cusolverDn.h', 'thrust/set_operations.h', 'cub/device/device_select.cuh', 'cublasXt.h', 'cuda/ptx',
     'cuda/std/span'])
def test_unsupported_headers_are_named(header):
    "If the compiler does not find them; a folder of the program may have them"
    src = f'int a;\n#include <{header}>\n'
    for report in f'fatal error: {header}: No such file or directory', f"fatal error: '{header}' file not found":
        message = describe_unsupported(f'x.cu:2:10: {report}\n', src, 'x.cu')
        assert f' {header}: ' in message and f'line 2: #include <{header}>' in message
    assert describe_unsupported('x.cu:2:10: fatal error: mine.h: No such file or directory\n', src, 'x.cu') is None


def test_what_the_platform_lacks_is_named(monkeypatch):
    "A browser has no processes; elsewhere an undeclared function is a mistake of the program"
    src = 'int main() {\n    return fork();\n}\n'
    errors = "error: use of undeclared identifier 'fork'", "fatal error: 'sys/wait.h' file not found"
    logs = [f'x.cu:2:12: {error}\n' for error in errors]
    assert [describe_unsupported(log, src, 'x.cu') for log in logs] == [None, None]
    monkeypatch.setitem(unsupported_api.absent_from_platform, r'v?fork|sys/wait\.h', 'no processes here')
    for log in logs: assert describe_unsupported(log, src, 'x.cu') == 'no processes here\n  line 2: return fork();'


def test_inline_ptx_that_is_not_known_in_a_header_is_reported_when_it_is_executed():
    asm = 'asm volatile("tcgen05.alloc.b32 %0, 3;"\n  : "=r"(x))'
    text = to_cpp(f'__device__ int f() {{ int x;\n {asm}; return x; }}', register_names=False)
    assert re.search(r'::gridstride::not_emulated\("instruction tcgen05.alloc.b32"\)\s*;', text)
    assert text.count('\n') == 2
    text = 'asm volatile(\n#if X\n"tcgen05.alloc.b32 %0, 3;"\n#endif\n: "=r"(x));'
    assert to_cpp(text, register_names=False) == text


def test_a_macro_may_be_a_pragma():
    assert to_cpp('#define UNROLL #pragma unroll 4  // of nvcc\n') == '#define UNROLL _Pragma("unroll 4")  // of nvcc\n'
    same('#define TEXT(pragma) #pragma\n')


@pytest.mark.parametrize('body', ['if (n) throw n;', 'try { f(n); } catch (int e) { n = e; }', 'g([] { throw 1; });'])
@pytest.mark.parametrize('words', ['__global__ void', '__device__ void', '__host__ __device__ void'])
def test_exceptions_in_device_code(words, body):
    with pytest.raises(WrongSource, match='exception'): to_cpp(f'{words} k(int n) {{ {body} }}')
    same(f'void k(int n) {{ {body} }}')
    to_cpp(f'{words} k(int n) {{\n#ifndef __CUDA_ARCH__\n{body}\n#endif\n}}')
    to_cpp(f'{words} k(int n) {{ auto f = [](int i) throw() {{ return i; }}; }}')

def test_functions_of_members_may_be_others():
    to_cpp('__device__ int f(int x) { return x; }\nint A::go() { return f(1); }\n')     # perhaps A::f, of a header


@pytest.mark.parametrize('text,marked', [
    ('int f(int n) { return n; }', True), ('int f(int n);\nint f(int n) { return n; }', True), ('int f(int n);', False),
    ('__device__ int f(int n);\nint f(int n) { return n; }', False), ('#define HD __device__\nHD int f() { }', False),
    ('UNKNOWN int f(int n) { return n; }', False), ('float sqrtf(float x) { return x; }', False),
    ('struct A { A(int n) : n{n} {} };', True), ('struct A { A() = default; A(const A &) = delete; };', False),
    ('struct A { float f(float); };\n__device__ float A::f(float x) { return x; }', False),
    ('enum A { a, b };', False), ('template <class T> struct A { public: T f() { return 0; } };', True),
    ('TEST(a, b) { }', False), ('float x = f(3);', False), ('struct A { friend A f(A); };', False)])
def test_functions_of_the_host_are_marked(text, marked):
    assert (', host"' in mark_host_functions(text) or ', constexpr"' in mark_host_functions(text)) == marked


@pytest.mark.parametrize('text,kind', [
    ('int c = 3;', 'variable'), ('static float a[2] = {1, 2}, b;', 'variable'), ('std::vector<int> v;', 'variable'),
    ('const char *s = "a";', 'variable'), ('const float c[2] = {1, 2};', 'variable'), ('float x = f(3);', 'variable'),
    ('constexpr float c[2] = {1, 2};', 'array'), ('struct A { static int c; };', 'variable'),
    ('const int c = 3;', None), ('constexpr float c = 3;', None), ('char *const s = 0;', None), ('int &c = d;', None),
    ('int c(3);', None), ('int f(int);', None), ('extern int c;', None), ('__device__ int c;', None),
    ('UNKNOWN int c = 3;', None), ('#define dev __device__\ndev int c;', None), ('auto f = [](int i) { };', None),
    ('struct A { int c; static const int d = 3; } a;', None), ('template <class T> T c = 3;', None), ('c;', None),
    ('int A::c = 3;', None), ('using A = int;', None), ('typedef int A;', None), ('namespace a = b;', None),
    ('struct A;', None), ('enum A : int;', None), ('int c, &d = c;', None)])
def test_variables_of_the_host_are_marked(text, kind):
    assert [o for o in ('variable', 'array') if f', {o}"' in mark_host_functions(to_cpp(text))] == [kind][:bool(kind)]


def test_code_of_the_gpu_ends_with_its_body():
    text = 'struct A { int n, m; __device__ A(int n) : n{n}, m(n) { f(); } void g() { f(); } };\n'
    c, found = device_code(text)
    assert [c.text(range(a, b)) for a, b in found] == [') : n{n}, m(n) { f(); }']
