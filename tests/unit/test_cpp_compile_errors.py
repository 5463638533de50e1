"What compilers say, in few words: logs of g++, clang and nvcc, and what a learner is shown of them."
import warnings

import pytest

from gridstride.cpp.lint.compile_errors import CompileError, CompileWarning, Diagnostic, describe, read_log, warn_of

SRC = 'template <class T> T twice(T x) {\n    return x.y;\n}\nint f() {\n    return twice(1) + twice(2.0f);\n}'


def test_the_line_and_the_column():
    e = CompileError('int f() {\n    return x;\n}', 'mine.cu',
        "mine.cu: In function 'int f()':\nmine.cu:2:12: error: 'x' was not declared\n    2 |     return x;\n")
    first, *quoted = str(e).split('\n')
    assert first.startswith('mine.cu, line 2: ') and first.endswith("'x' was not declared") and e.line == 2
    assert quoted == ['      return x;', '             ^']
    assert e.errors == [(2, 12, "'x' was not declared", None, '', '')]


@pytest.mark.parametrize('log,want', [
    ('mine.cu(2): error: identifier "x" is undefined', (2, 0, 'identifier "x" is undefined', None, '', '')),
    ('mine.cu(2): catastrophic error: cannot open source file "a.h"',
     (2, 0, 'cannot open source file "a.h"', None, '', '')),
    ('In file included from mine.cu:1:\n/some/where/mma.h:2:2: error: #error no mma.h here',
     (1, 0, '#error no mma.h here', None, '', '/some/where/mma.h, line 2: ')),
    ("mine.cu:5:12:   required from here\n/usr/vector:45:23: error: no match for '<'",
     (5, 0, "no match for '<'", None, '', '')),
    ("mine.cu:2:7: error: no member named 'y' in 'int'\nmine.cu:5:12: note: in instantiation of function template "
     "specialization 'twice<int>' requested here", (2, 7, "no member named 'y' in 'int'", 5, '', '')),
    ('mine.cu(2): error: expression must have class type\n          detected during instantiation of "T twice(T) [with '
     'T=int]" \n(at line 5)\nat line 5\n', (2, 0, 'expression must have class type', 5, '', '')),
    ("mine.cu:1:20: error: request for member 'y'\n    1 | #define Y(x) x.y\n"
     "mine.cu:5:10: note: in expansion of macro 'Y'", (1, 20, "request for member 'y'", 5, '', ''))])
def test_who_led_there(log, want): assert read_log(log, 'mine.cu') == [want]


def test_an_error_in_a_header_of_the_learners_names_the_header():
    log = ("In file included from all.cuh:2,\n                 from mine.cu:1:\n"
           "sub/bad.cuh:2:8: error: 'T' does not name a type\n/usr/h.h:1:1: error: more\nmine.cu:3:1: error: most\n")
    assert read_log(log, 'mine.cu', other_files={'sub/bad.cuh': ''}) == [
        (2, 8, "'T' does not name a type", None, 'sub/bad.cuh', ''), (1, 0, 'more', None, '', ''),
        (3, 1, 'most', None, '', '')]
    e = CompileError(SRC, 'mine.cu', log, other_files={'sub/bad.cuh': 'int a;\nstatic T x;'})
    assert (e.file, e.line) == ('sub/bad.cuh', 2)
    first, *quoted = str(e).split('\n')[:3]
    assert first.startswith('sub/bad.cuh, line 2: ') and first.endswith("'T' does not name a type")
    assert quoted == ['  static T x;', '         ^']


def test_an_error_of_a_template_is_reported_once():
    "However many types it is used with, with the line that used it first"
    log = ''.join(f"mine.cu: In instantiation of 'T twice(T) [with T = {t}]':\nmine.cu:5:{c}:   required from here\n"
                  f"mine.cu:2:14: error: request for member 'y' in 'x', which is of non-class type '{t}'\n"
                  for t, c in (('int', 12), ('float', 23)))
    e = CompileError(SRC, 'mine.cu', log)
    first, *quoted, used = str(e).split('\n')
    assert first.startswith('mine.cu, line 2: ') and first.endswith("'int'") and "'float'" not in str(e)
    assert quoted == ['      return x.y;', '               ^']
    assert used.endswith('line 5: return twice(1) + twice(2.0f);')


def test_errors_of_one_position_are_reported_once():
    log = ('mine.cu:2:7: error: no match\nmine.cu:2:7: error: invalid conversion\nmine.cu:3:1: error: more\n'
           'mine.cu:4:1: error: more\nmine.cu:5:1: error: more')
    assert [d.line for d in read_log(log, 'mine.cu')] == [2, 3, 4, 5]
    assert str(CompileError(SRC, 'mine.cu', log)).splitlines()[-1].startswith('and 1 ')


def test_a_log_without_the_source_is_shown_by_its_end():
    first, *others = str(CompileError(SRC, 'mine.cu', 'ld: no room')).split('\n')
    assert first.startswith('mine.cu ') and others == ['ld: no room']
    log = ('ptxas info    : 24 bytes gmem\nptxas         .     0 bytes stack frame\n'
           'ptxas error   : Entry function uses too much shared data')
    first, *others = str(CompileError(SRC, 'mine.cu', log)).split('\n')
    assert first.startswith('mine.cu ') and others == log.splitlines()[-1:]


def test_warnings_of_the_learners_lines_only():
    log = ("/usr/h.h:3:1: warning: suggest parentheses around assignment used as truth value [-Wparentheses]\n"
           "mine.cu:5:7: warning: unused variable 'a' [-Wunused-variable]\n"
        "mine.cu:2:9: warning: suggest parentheses around assignment used as truth value [-Wparentheses]\n")
    with pytest.warns(CompileWarning) as w: warn_of(log, SRC, 'mine.cu')
    said = [str(o.message).split('\n')[0].split(': ', 1) for o in w]
    assert said == [['mine.cu, line 2', 'suggest parentheses around assignment used as truth value']]
    assert w[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        warn_of('mine.cu:5:7: warning: unused [-Wunused]', SRC, 'mine.cu')


@pytest.mark.parametrize('said, flag', [
    ("address of local variable 'a' returned", 'return-local-addr'),
    ("address of stack memory associated with local variable 'a' returned", 'return-stack-address')])
def test_the_address_of_a_local_variable_is_warned_of(said, flag):
    with pytest.warns(CompileWarning) as w: warn_of(f'mine.cu:2:7: warning: {said} [-W{flag}]', SRC, 'mine.cu')
    assert len(w) == 1 and "'a' returned" in str(w[0].message) and 'line 2' in str(w[0].message)


@pytest.mark.parametrize('line, said, hint', [
    ('    __shared__ float ms[tw][tw];', "no matching function for call to 'shared<float [tw][tw], 0>(const char [3])'",
     'extern __shared__'),
    ('    __shared__ float ms[tw][tw];', "no matching function for call to 'shared'", 'extern __shared__'),
    ('    __shared__ float ms[tw][tw];', 'expression must have a constant value', 'extern __shared__'),
    ('    x[r][c] = 1;', "invalid types 'float[int]' for array subscript", 'x[r*w + c]'),
    ('    x[r][c] = 1;', 'subscripted value is not an array, pointer, or vector', 'x[r*w + c]'),
    ('    x[r][c] = 1;', 'expression must have pointer-to-object type but it has type "float"', 'x[r*w + c]'),
    ('    x[i] = x[i]**2;', "invalid type argument of unary '*' (have 'int')", '`x*x`'),
    ('    x[i] = x[i]**2;', "indirection requires pointer operand ('int' invalid)", '`x*x`'),
    ('    if i < n: x[i] = 0;', "expected '(' before 'i'", 'in parentheses'),
    ('    if i < n: x[i] = 0;', "expected '(' after 'if'", 'in parentheses'),
    ('    CHECK_INPUT(x);', "'CHECK_INPUT' was not declared in this scope", 'cuda_begin'),
    ('    k<<<cdiv(n,tpb), tpb>>>(x, n);', "use of undeclared identifier 'cdiv'", 'cuda_begin'),
    ('    k<<<cdiv(n,tpb), tpb>>>(x, n);', 'identifier "cdiv" is undefined', 'cuda_begin'),
    ('    k<<<cdiv(n,tpb), tpb>>>(x, n);', "'k' was not declared in this scope", 'above the function'),
    ('    k<<<cdiv(n,tpb), tpb>>>(x, n);', "use of undeclared identifier 'k'", 'above the function'),
    ('    k[blocks, tpb](x, n);', "no match for 'operator[]' (operand types are 'void(float*, int)' and 'dim3')",
     'kernel<<<blocks, threads>>>'),
    ('    k<<<blocks, tpb>>>(x, n);', "cannot convert 'torch::Tensor' to 'float*'", 'x.data_ptr<float>()'),
    ('    k<<<blocks, tpb>>>(x, n);', 'no suitable conversion function from "at::Tensor" to "float *" exists',
     'x.data_ptr<float>()'),
    ('    k<<<blocks, tpb>>>(x, n);', "no matching function for call to 'k(float*&, int&)'", 'kernel<16><<<'),
    ('#include <mine.h>', 'mine.h: No such file or directory', '-I FOLDER'),
    ('#include "mine.h"', "'mine.h' file not found", '-I FOLDER'),
    ('#include "mine.h"', 'cannot open source file "mine.h"', '-I FOLDER'),
    ('__global__ void k(half *x) {}', "'half' was not declared in this scope", '`#include <cuda_fp16.h>`'),
    ('__global__ void k(__half2 *x) {}', "unknown type name '__half2'", '`#include <cuda_fp16.h>`'),
    ('__global__ void k(half *x) {}', 'identifier "half" is undefined', '`#include <cuda_fp16.h>`'),
    ('__global__ void k(half *x, int n) {}', "'m' was not declared in this scope", None),
    ('__nv_bfloat16 x = y;', "'__nv_bfloat16' was not declared in this scope", '`#include <cuda_bf16.h>`'),
    ('__nv_bfloat16 x = y;', "'y' was not declared in this scope", None),
    ('__global__ k(float *x) { }', "ISO C++ forbids declaration of 'k' with no type", '`__global__ void`'),
    ('__global__ k(float *x) { }', 'a type specifier is required for all declarations', '`__global__ void`'),
    ('__global__ k(float *x) { }', 'explicit type is missing ("int" assumed)', '`__global__ void`'),
    ('    k<<blocks, tpb>>(x, n);', "no match for 'operator<<' (operand types are 'void()' and 'dim3')",
     'three angle brackets'),
    ('    k<<blocks, tpb>>(x, n);', "invalid operands to binary expression ('void (float *)' and 'dim3')",
     'three angle brackets'),
    ('    out[i] = x << 2;', "invalid operands of types 'float' and 'int' to binary 'operator<<'", None),
    ('    return x[i];', "return-statement with a value, in function returning 'void'", 'returns nothing'),
    ('    return x[i];', "void function 'k' should not return a value", 'returns nothing'),
    ('    return x[i];', 'return value type does not match the function type', 'returns nothing'),
    ('    out[i] = x[i];', "assignment of read-only location '*(out + 4)'", '`const` data is'),
    ('    out[i] = x[i];', 'read-only variable is not assignable', '`const` data is'),
    ('    out[i] = x[i];', 'expression must be a modifiable lvalue', '`const` data is'),
    ('    out[i] = 1;', "invalid types 'float*[float]' for array subscript", 'an integer'),
    ('    s[i] = 1;', "invalid types 'float [32][float]' for array subscript", 'an integer'),
    ('    out[i] = 1;', 'array subscript is not an integer', 'an integer'),
    ('    out[i] = 1;', "invalid types 'float[int]' for array subscript", 'as a pointer'),
    ('    out[i] = 1;', 'subscripted value is not an array, pointer, or vector', 'as a pointer'),
    ('    ms[tr,tc] = 1;', "incompatible types in assignment of 'float' to 'float [16]'", '`s[tr][tc]`'),
    ('    ms[tr,tc] = 1;', "array type 'float[16]' is not assignable", '`s[tr][tc]`'),
    ('    i = threadIdx.x;', "'i' was not declared in this scope", 'with its type'),
    ('    i = threadIdx.x;', "use of undeclared identifier 'i'", 'with its type'),
    ('    if (i < n) x[i] = 0;', "expected ',' or ';' before 'if'", 'must end with'),
    ('    __syncthreads;', 'statement has no effect', '`__syncthreads();`'),
    ('    __syncthreads;', 'expression result unused', '`__syncthreads();`'),
    ('    __syncwarp;', 'statement has no effect', 'the parentheses'),
    ('    auto f = [=] { c = 1; };', "assignment of read-only variable 'c'", 'captures by copy'),
    ('    k<<<blocks, tpb>>>(x, n);', "'blocks' was not declared in this scope", None),
    ('done:', "jump to label 'done'", 'into braces'), ('    default:', 'jump to case label', 'into braces'),
    ('    goto done;', 'cannot jump from this goto statement to its label', 'into braces'),
    ('    void put() { s[0]; }', 'use of local variable with automatic storage from containing function', 'pointer'),
    ('    void put() { s[0]; }', "reference to local variable 's' declared in enclosing function 'k'", 'pointer'),
    ('    __shared__ float ms[16]', 'expected a ";"', None),
    ('    y = total + 1;', "'total' was not declared in this scope", None)])
def test_habits_of_python_get_a_hint(line, said, hint):
    *_, last = describe([Diagnostic(1, 0, said)], line, 'mine.cu').splitlines()
    assert hint in last if hint else last.strip() == line.strip()


def test_errors_after_the_source_are_not_reported():
    log = 'mine.cu:3:1: error: no y\nmine.cu:7:2: error: of what was appended'
    assert str(CompileError(SRC, 'mine.cu', log)).splitlines() == ['mine.cu, line 3: no y', '  }', '  ^']
    assert 'was appended' in str(CompileError(SRC, 'mine.cu', log.splitlines()[1]))
