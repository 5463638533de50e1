"Lanes that a masked load left without a value: every operation of the language hands this on, or warns of it"
import types, warnings

import numpy as np, pytest

pytest.importorskip('ml_dtypes')
from gridstride.diagnostics.errors import UndefinedLanes
from gridstride.diagnostics.settings import settings
from gridstride.tile import language, libdevice
from gridstride.tile.block import tensor
from gridstride.tile.memory import make_pointer
from gridstride.tile.run import LaunchContext, KernelGlobals, set_current
from gridstride.tile.types import DTYPES

N = 8
# f, i, m: blocks of which the last lanes are undefined: fp32, int32, a mask; s, n, c: scalars that are.
# g, j, k: the same blocks, defined; x, y: pointers to fp32 and int32, X, Y: blocks of them; D: a descriptor
OPERATIONS = '''
abs(f); add(f, 1); add(1., f); sub(f, g); mul(g, f); cdiv(i, 2); ceil(f); floor(f); clamp(f, 0., 1.); clamp(g, f, 1.);
clamp(g, 0., f); cos(f); sin(f); exp(f); exp2(f); log(f); log2(f); sqrt(f); sqrt_rn(f); rsqrt(f); erf(f); sigmoid(f);
fdiv(f, g); fdiv(g, f); div_rn(g, f); fma(f, g, g); fma(g, f, g); fma(g, g, f); umulhi(i, j); umulhi(j, i);
umulhi(cast(i, int64), cast(j, int64)); maximum(f, g); minimum(g, f); builtin_max(f, g); builtin_min(g, f);
item(full([1], s, float32)); condition(c); to_tensor(f); swizzle2d(i, j, 2, 4, 2); swizzle2d(j, i, 2, 4, 2);
map_elementwise(identity, f); cast(f, int32); cast(f, int32, bitcast=True); cast(f, float16, 'rtz');
where(m, g, g); where(k, f, g); where(~k, g, f); full([8], s, float32); full([8], n, int64); zeros_like(f)*f;
broadcast_to(expand_dims(f, 0), [2, 8]); broadcast(expand_dims(f, 0), expand_dims(g, 1)); expand_dims(f, 0);
unsqueeze(f, 0); squeeze(expand_dims(f, 0), 0); reshape(f, [4, 2]); view(f, [2, 4]); ravel(reshape(f, [4, 2]));
trans(reshape(f, [4, 2])); permute(reshape(f, [4, 2]), [1, 0]); cat(f, g, True); cat(g, f, True); join(f, g); join(g,
f);
split(reshape(f, [4, 2])); interleave(g, f); flip(f); gather(f, j, 0); gather(g, i, 0);
sum(f); sum(reshape(f, [4, 2]), 0); max(f); max(f, 0, True); min(f); argmax(f, 0); argmin(f, 0); xor_sum(i);
reduce_or(i, 0);
reduce(f, 0, plus); reduce((g, f), 0, plus_2); associative_scan(f, 0, plus); associative_scan((g, f), 0, plus_2);
cumsum(f); cumsum(f, reverse=True); cumprod(f); sort(f); topk(f, 2); histogram(i, 4); histogram(i, 4, m); histogram(j,
4, m);
softmax(f); dot(F, G); dot(G, F); dot(G, G, F);
philox(n, j, j, j, j); philox(3, i, j, j, j); philox(3, j, j, j, i); randint4x(n, j); randint(3, i); rand(n, j);
rand(3, i);
rand4x(3, i); randn(3, i); randn4x(n, j); uint_to_uniform_float(i); pair_uniform_to_normal(g, f);
load(x + i); load(X, m); load(X, ~k, f); load(x, c); load(x, c, s); store(X, f); store(X, g, m); store(x, s); store(x
+ n, 1.);
store(x, 1., c); atomic_add(X, f); atomic_add(X, g, m); atomic_add(x + i, 1.); atomic_add(x, s); atomic_max(Y, i);
atomic_min(Y, i); atomic_and(Y, i); atomic_or(Y, i); atomic_xor(Y, i); atomic_xchg(Y, i); atomic_cas(Y, i, j);
atomic_cas(Y, j, i); atomic_cas(y, n, 1);
make_block_ptr(x, (8, 8), (8, 1), (n, 0), (4, 4), (1, 0)); make_block_ptr(x, (n, 8), (8, 1), (0, 0), (4, 4), (1, 0));
make_block_ptr(x, (8, 8), (n, 1), (0, 0), (4, 4), (1, 0)); advance(P, (n, 0)); store(P, F4);
make_tensor_descriptor(x, (n, 8), (8, 1), (4, 4)); load_tensor_descriptor(D, (n, 0)); store_tensor_descriptor(D, (n,
0), G4);
store_tensor_descriptor(D, (0, 0), F4); D.gather(i, 0); D.gather(j, n); D.scatter(full([8, 4], 1., float32), i, 0);
D.scatter(full([8, 4], s, float32), j, 0); D.atomic_add((0, 0), F4); D.atomic_add((n, 0), G4);
range(n); range(0, n); range(0, 8, n); assume(c); assume(m); device_assert(c); device_assert(m); device_assert(j < 8,
mask=m);
max_contiguous(i, 4); max_constancy(i, 4); multiple_of(i, 1)
'''
OTHERS = '''
f + g; 1 - f; f / g; i // 2; i % 2; 2 % i; i << 1; 1 << i; i >> 1; i & j; j | i; i ^ 1; -f; ~i; f < g; f == 1;
f.to(tl.int32); f[None, :];
f[:, None]; F.T; m.logical_and(k); k.logical_or(m); bool(c); x + i; X + i; f.sum(); i.to(tl.pointer_type(tl.float32));
libdevice.sin(f); libdevice.pow(f, g); libdevice.pow(g, f); libdevice.isnan(f); libdevice.popc(i); libdevice.brev(i);
libdevice.float2int_rn(f); libdevice.fma(g, f, g); libdevice.mulhi(j, i);
libdevice.float_as_int(f); libdevice.int_as_float(i)
'''
# of which no argument is a value of the kernel, or which say nothing of it
NO_VALUES = set('''arange constexpr debug_barrier device_print dtype block_type pointer_type
next_power_of_2 num_programs program_id static_assert static_print static_range zeros'''.split())
# of modules that the language is made of, and no names of Triton
NO_OPERATIONS = set('''BlockPointer Constant Descriptor PropagateNan block_of const current learner_frame
get_close_matches check_types_unchanged compile_error unknown_name unsupported_name slice tensor
tensor_descriptor tuple types_of warn_of_undefined'''.split())


def undefined(x):
    "The value, its last lanes undefined; or a scalar"
    x.undef_mask = np.arange(x.data.size).reshape(x.data.shape) > x.data.size//2 if x.data.ndim else np.True_
    return x


def values(run):
    "What the operations are given"
    f32, i32, i1 = (DTYPES[o] for o in ('float32', 'int32', 'int1'))
    def block(t, *shape): return tensor(np.ones(shape, t.np)[()], t)
    x, y = (make_pointer(np.ones((8, 8), o), n, run.regions) for n, o in (('x', np.float32), ('y', np.int32)))
    j = tensor(np.arange(N, dtype=np.int32), i32)
    yield from dict(f=undefined(block(f32, N)), i=undefined(block(i32, N)), m=undefined(block(i1, N)),
        s=undefined(block(f32)), n=undefined(block(i32)), c=undefined(block(i1)), g=block(f32, N), j=j,
        k=tensor(np.arange(N) >= N//2, i1),
        F=undefined(block(f32, 16, 16)), G=block(f32, 16, 16), F4=undefined(block(f32, 4, 4)), G4=block(f32, 4, 4),
        x=x, y=y, X=x + j, Y=y + j, tl=language, libdevice=libdevice, identity=lambda a: a, plus=lambda a, b: a + b,
        plus_2=lambda a, b, c, d: (a + c, b + d)).items()
    yield 'D', language.make_tensor_descriptor(x, (8, 8), (8, 1), (4, 4))
    yield 'P', language.make_block_ptr(x, (8, 8), (8, 1), (0, 0), (4, 4), (1, 0))


def is_undefined(found):
    "Does a value, or one of several, know of undefined lanes?"
    if isinstance(found, (tuple, list)): return any(map(is_undefined, found))
    return type(found) is tensor and found.undef_mask is not None and bool(np.any(found.undef_mask))


def handed_on(text, own):
    "Are undefined lanes known after an operation, or was there a warning?"
    run = LaunchContext(types.SimpleNamespace(__name__='kernel'), (1, 1, 1), settings)
    run.positions, before = [(0, 0, 0)], set_current(run)
    try:
        scope = KernelGlobals(values(run))
        if own: scope |= {k: getattr(language, k) for k in dir(language) if k not in scope and not k.startswith('_')}
        if text.startswith(('D.gather', 'D.scatter')):
            scope['D'] = language.make_tensor_descriptor(scope['x'], (8, 8), (8, 1), (1, 4))
        code = compile(text, 'operations', 'eval')
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter('always')
            found = types.FunctionType(code, scope)()
        return is_undefined(found) or any(issubclass(o.category, UndefinedLanes) for o in caught)
    finally: set_current(before)


def listed(text): return [o.strip() for o in text.replace('\n', ' ').split(';')]


@pytest.mark.parametrize('text', listed(OPERATIONS))
def test_an_operation_hands_on_that_a_lane_is_undefined(text): assert handed_on(text, True)


@pytest.mark.parametrize('text', listed(OTHERS))
def test_what_is_not_a_function_propagates_it(text): assert handed_on(text, False)


def test_every_operation_is_asked():
    there = {k for k, v in vars(language).items() if callable(v) and not k.startswith('_')}
    asked = {o.partition('(')[0] for o in listed(OPERATIONS)}
    assert there - NO_VALUES - NO_OPERATIONS - asked == set()


@pytest.mark.parametrize('text', ['histogram(j, 4)', 'histogram(i, 4, ~k)', 'where(k, g, f)', 'gather(g, j, 0)',
                                  'load(X, k, f)',
                                  'where(k, g, load(X, ~k))', 'store(X, f, ~k)'])
def test_where_no_lane_is_undefined_nothing_is_said(text): assert not handed_on(text, True)
