"""Checks the declarations of kernels: g++ treats kernels as ordinary functions and accepts some that nvcc rejects."""

from ..frontend.code import Code
from ..frontend.tokens import WrongSource

_REMOVE_SPECIFIER = '{name} is a kernel, which runs only on the GPU: remove `{specifier}` next to `__global__`'
_NOT_A_MEMBER = 'a kernel cannot be a member of a class: define it outside {owner}, and pass it what it needs'
_NOT_VARIADIC = '{name} is a kernel, which cannot be variadic: remove `...`'
_NO_RVALUE = '{name} is a kernel, whose arguments are copied to the GPU: pass {param} by value, without `&&`'
_NO_INITIALIZER_LIST = '{name} is a kernel, which cannot take a std::initializer_list: pass it an array'
_LOCAL_CONSTANT = '{name} is a `__constant__` variable in a function: declare it at file scope'


def reject_invalid_kernels(
    code: Code,
    functions: list,  # of `Function`: those of the source
):
    "Raise `WrongSource` for an invalid declaration of a kernel, and for a `__constant__` variable in a function"
    for function in functions:
        if '__global__' in function.specifiers and (message := _describe_flaw(function)):
            i = next(i for i in code.find(function.name) if code.line(i) == function.line)
            raise code.error(WrongSource, message, i)
    for i in code.find_specifiers('__global__'):
        if code.scope(i) == 'type' and code[i - 1] != 'friend' and code[code.find_stop(i, ('{', ';'))] == '{':
            raise code.error(WrongSource, _NOT_A_MEMBER.format(owner='the class'), i)
    for i in code.find_specifiers('__constant__'):
        if code.scope(i) == 'code' and code[i - 1] in ('{', '}', ';') and code[i] == '__constant__':
            raise code.error(
                WrongSource, _LOCAL_CONSTANT.format(name=code[code.find_stop(i, ('=', ';', '[', '{')) - 1]), i
            )


def _describe_flaw(function):
    "Describe the error in the declaration of a kernel; None if there is none"
    excluded = ('__device__', '__host__', 'constexpr')
    if specifier := next((s for s in excluded if s in function.specifiers), None):
        return _REMOVE_SPECIFIER.format(name=function.name, specifier=specifier)
    for p in function.params:
        if p.type == '...' or p.name == '...':
            return _NOT_VARIADIC.format(name=function.name)
        if 'initializer_list' in p.type:
            return _NO_INITIALIZER_LIST.format(name=function.name)
        if p.type.endswith('&&') and not function.template:
            return _NO_RVALUE.format(name=function.name, param=p.type.rstrip('& ') + ' ' + p.name)
