"""Chooses the names of the generated C: a Python name is kept unless it is reserved in C or CUDA."""

import re

from .helpers import HELPERS


_RESERVED = set(
    '''alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr
continue decltype default delete do double dynamic_cast else enum explicit export extern false float for friend
goto half if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
protected public register reinterpret_cast return short signed sizeof static static_assert static_cast struct
switch template this throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t
while xor xor_eq main min max abs fabs sqrt exp log sin cos tan pow floor ceil fmod printf assert threadIdx
blockIdx blockDim gridDim warpSize NULL INFINITY NAN llabs rint trunc round erf std torch at c10 signbit isnan
isinf isfinite stdin stdout stderr restrict concept requires char8_t char16_t char32_t dim3 int2 int4 float2
float4 near far linux unix'''.split()
) | set(HELPERS)


_C_LIBRARY = set(
    '''y0 y1 yn j0 j1 jn gamma lgamma index rindex div time clock remove rename random srandom signal read write open
close link select dup pipe wait sleep abort exit atexit free malloc rand'''.split()
)


class Names:
    "The names that are taken at file scope of the generated C"

    def __init__(self):
        self.taken_names = set()
        self.constants = {}  # name in Python -> name in C
        self.kernel = set()  # the name of the kernel, which a local variable may also have

    def unused_name(self, name, other_taken_names=(), is_at_file_scope=False):
        "Return `name`, or a name like it, that is valid in C and not taken, at file scope or in a function"
        name = base = re.sub(r'[^\w]|[^\x00-\x7f]', lambda m: f'u{ord(m[0]):x}', name) or 'x'
        if name in _RESERVED or is_at_file_scope and name in _C_LIBRARY or re.match(r'__', name):
            name = base = name.strip('_') + '_'
        n = 2
        while name in self.taken_names or name in other_taken_names or is_at_file_scope and name in self.kernel:
            name, n = f"{base}{'_' if base[-1].isdigit() else ''}{n}", n + 1
        return name

    def take_at_file_scope(self, name):
        "Return an unused name at file scope, and mark it as taken"
        c_name = self.unused_name(name, is_at_file_scope=True)
        self.taken_names.add(c_name)
        return c_name

    def constant(self, name):
        "Return the name in C of a constant at file scope"
        if name not in self.constants:
            self.constants[name] = self.take_at_file_scope(name)
        return self.constants[name]
