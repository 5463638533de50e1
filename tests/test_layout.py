"""Layouts against their laws, against brute force, and against the answers of pycute and of Triton."""
import importlib.util, json, pathlib, random
import numpy as np, pytest
from hypothesis import assume, given, strategies as st
from gridstride.layout import Cost, Layout, Linear, Swizzle, cost, picture, walk

# what pycute of nvidia-cutlass 4.2.0 answered, written by `ask_pycute`
PYCUTE = pathlib.Path(__file__).parent/'layout'/'pycute.json'
sizes = st.sampled_from([1, 2, 3, 4, 6, 8])
shapes = st.recursive(sizes, lambda s: st.lists(s, min_size=1, max_size=3).map(tuple), max_leaves=4)


@st.composite
def layouts(draw, most=256):
    shape = draw(shapes)
    def stride(s):
        return (tuple(map(stride, s)) if isinstance(s, tuple)
                else draw(st.sampled_from([0, 1, 2, 3, 4, 6, 8, 12, 16, 24])))
    res = Layout(shape, stride(shape))
    assume(res.size<=most)
    return res

@st.composite
def compact(draw):   # each offset once, modes in any order
    flat = Layout(draw(shapes)); assume(flat.size<=256)
    modes = draw(st.permutations(flat.flat))
    return Layout(tuple(n for n, _ in modes), tuple(d for _, d in modes))

def indices(layout): return [int(layout(i)) for i in range(layout.size)]
def or_none(f, *args):
    try: return f(*args)
    except ValueError: return None


# What a layout is

def test_a_layout_is_read_and_written_as_text():
    for text in '8:1', '(4,8):(8,1)', '((2,2),8):((1,16),2)', '(4,(2,2)):(2,(1,8))':
        assert str(Layout(text))==text and eval(repr(Layout(text)))==Layout(text)
    assert str(Layout((4, 8)))=='(4,8):(1,4)' and str(Layout.row_major(4, 8))=='(4,8):(8,1)'
    assert str(Layout.row_major(4, (2, 3)))=='(4,(2,3)):(6,(3,1))'

@given(layouts())
def test_a_number_counts_through_the_shape_leftmost_first(a):
    coordinates = [c[::-1] for c in np.ndindex(*[n for n, _ in a.flat][::-1])]
    assert indices(a)==[sum(i*d for i, (_, d) in zip(c, a.flat)) for c in coordinates]
    assert a.cosize==1+max(indices(a)) and a.is_injective==(len(set(indices(a)))==a.size)
    assert sorted(a.offsets().ravel())==sorted(indices(a))

def test_coordinates_may_nest_and_may_be_arrays():
    a = Layout('((2,2),8):((1,16),2)')
    assert a(3, 2)==a((1, 1), 2)==a((3, 2))==a(3+4*2)==21
    assert a(np.arange(4), 2).tolist()==[a(i, 2) for i in range(4)]
    assert (a.offsets()==[[a(i, j) for j in range(8)] for i in range(4)]).all()

@pytest.mark.parametrize('wrong,says',
    [(lambda: Layout('4,8:8'), 'stride'), (lambda: Layout('x:1'), 'write shape:stride'),
    (lambda: Layout(0), 'positive integer'), (lambda: Layout((4, 8), (8,)), 'must be nested'),
    (lambda: Layout(4, -1), 'non-negative integer'), (lambda: Layout((4, 8))(1, 2, 3), 'got 3'),
    (lambda: Layout((4, 8))((1, 2), 3), 'integer, not'), (lambda: Layout('4:1', 2), 'not both'),
    (lambda: Layout(2.0), 'positive integer'), (lambda: Layout.row_major(6, 4).compose(Layout(4, 4)), 'divide'),
    (lambda: Layout('(2,2):(0,1)').compose(Layout('(2,2):(1,1)')), 'share a mode'),
    (lambda: Layout((4, 4), (1, 8)).compose(6), 'multiple'),
    (lambda: Layout((2, 2), (1, 3)).complement(12), 'no complement'),
    (lambda: Layout((4, 8)).compose((2,)), 'per mode'), (lambda: Swizzle(3, 0, 2), 'bits')])
def test_what_is_not_a_layout_is_refused_with_a_reason(wrong, says):
    with pytest.raises((ValueError, TypeError), match=says): wrong()


# The algebra keeps its laws

@given(layouts())
def test_coalesce_is_the_same_function(a):
    c = a.coalesce()
    assert indices(c)==indices(a) and len(c.flat)<=len(a.flat) and c.coalesce()==c

@given(layouts(), layouts(64))
def test_compose_is_one_function_after_the_other(a, b):
    assume((c := or_none(a.compose, b)) is not None and b.cosize<=a.size)
    assert indices(c)==[a(b(i)) for i in range(b.size)] and c.size==b.size
    assert (not isinstance(b.shape, tuple) or [o.size for o in c]==[o.size for o in b])

@given(compact(), st.integers(1, 6))
def test_a_complement_fills_what_was_left_out(a, times):
    a = Layout(a.shape, tuple(d*2 for d in a.stride))   # every other element
    rest = a.complement(a.size*2*times)
    both = Layout.of(a, rest)
    assert sorted(indices(both))==list(range(both.size)) and both.size==a.size*2*times

@given(compact(), st.sampled_from([1, 2, 3, 4, 6, 8]), st.sampled_from([1, 2, 3, 4]))
def test_divide_sorts_a_layout_into_tiles_and_loses_nothing(a, n, d):
    tile = Layout(n, d)
    assume(or_none(tile.complement, a.size) is not None and (c := or_none(a.divide, tile)) is not None
           and c.size==a.size)
    assert sorted(indices(c))==sorted(indices(a)) and indices(c[0])==[a(tile(i)) for i in range(n)]

@given(compact(), layouts(16))
def test_a_product_is_copies_of_the_first(a, b):
    c = a.product(b)
    assert c[0]==a and len(c)==2 and c[1].size==b.size
    if b.is_injective: assert c.is_injective

def test_tiles_of_a_matrix():
    a, t = Layout.row_major(6, 8), Layout.row_major(6, 8).tiles((3, 4))
    assert t[0].size==12 and t[1].size==4
    m = a.offsets()
    for i in range(2):
        for j in range(2): assert sorted(t(np.arange(12), i+2*j))==sorted(m[3*i:3*i+3, 4*j:4*j+4].ravel())

@given(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3))
def test_a_swizzle_is_its_own_inverse_and_keeps_vectors_together(bits, base, more):
    s = Swizzle(bits, base, bits+more)
    x = np.arange(1<<(base+2*bits+more))
    assert sorted(s(x))==x.tolist() and (s(s(x))==x).all() and (s(x)%(1<<base)==x%(1<<base)).all()
    assert (s(x)>>(base+bits)==x>>(base+bits)).all()


# Others agree

def ask_pycute(seed=17, n=400):
    "What pycute says of `n` random questions; run once: python tests/test_layout.py, with pycute on the path"
    import pycute
    rng, res = random.Random(seed), []
    # the published condition: in order of stride, each is a multiple of what the ones before reach
    def has_complement(layout):
        modes = sorted((d, n)
                       for n, d in zip(pycute.flatten(layout.shape), pycute.flatten(layout.stride)) if n>1 and d>0)
        return all(d%(n0*d0)==0 for (d0, n0), (d, _) in zip(modes, modes[1:]))
    tree = (lambda depth: rng.choice([1, 2, 3, 4, 6, 8]) if depth==0 or rng.random()<.5
            else tuple(tree(depth-1) for _ in range(rng.randint(1, 3))))
    steps = (lambda s: tuple(map(steps, s)) if isinstance(s, tuple)
             else rng.choice([0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 48]))
    written = lambda x: '('+','.join(map(written, x))+')' if isinstance(x, tuple) else str(x)
    text = lambda a: f'{written(a.shape)}:{written(a.stride)}'
    while len(res)<n:
        (a, b) = (pycute.Layout(s, steps(s)) for s in (tree(2), tree(1)))
        what = rng.choice(['coalesce', 'compose', 'complement', 'divide', 'product'])
        # it answers all the same
        if what in ('complement', 'divide', 'product') and not has_complement(b if what=='divide' else a): continue
        def ask():   # (its answer, a layout that must be one after the other: it does not look whether sizes divide)
            if what=='coalesce': return pycute.coalesce(a), None
            if what=='complement': return pycute.complement(a, 96), None
            if what=='compose': return (c := pycute.composition(a, b)), (c, a, b)
            if what=='divide':
                return (c := pycute.logical_divide(a, b)), (c, a, pycute.make_layout(b, pycute.complement(b, a.size())))
            return (c := pycute.logical_product(a, b)), (c[1], pycute.complement(a, a.size()*b.cosize()), b)
        try: c, law = ask()
        except (AssertionError, ZeroDivisionError): continue
        if law and any(law[0](i)!=law[1](law[2](i)) for i in range(law[2].size())): continue
        res.append([what, text(a), text(b), text(c)])
    return res

def answer(what, a, b):
    a, b = Layout(a), Layout(b)
    return a.coalesce() if what=='coalesce' else a.complement(96) if what=='complement' else getattr(a, what)(b)

def test_pycute_agrees():
    rows = ask_pycute() if importlib.util.find_spec('pycute') else json.loads(PYCUTE.read_text())
    same = {k: 0 for k in ('coalesce', 'compose', 'complement', 'divide', 'product')}
    refused = []
    for what, a, b, c in rows:
        got = or_none(answer, what, a, b)
        if got is None: refused.append((what, a, b, c)); continue
        assert indices(got)==indices(Layout(c)), (what, a, b, str(got), c)
        same[what] += str(got)==c
    assert all(n>=20 for n in same.values()), same
    assert not refused, (len(refused), refused[:5])

def test_triton_agrees():
    triton = pytest.importorskip('triton._C.libtriton', reason='Triton is not there')
    Theirs = triton.linear_layout.LinearLayout
    rng = random.Random(3)
    for _ in range(100):
        out = {'row': 1<<rng.randint(1, 4), 'column': 1<<rng.randint(1, 4)}
        place = lambda: [rng.randrange(n) for n in out.values()]
        bases = {k: [place() for _ in range(rng.randint(1, 4))] for k in ('lane', 'warp')}
        ours, theirs = Linear(bases, out), Theirs.from_bases(list(bases.items()), list(out), list(out.values()), False)
        assert ours.matrix.tolist()==theirs.get_matrix_view() and ours.is_injective==theirs.is_injective()
        assert ours.is_surjective==theirs.is_surjective()
        for _ in range(4):
            i = {k: rng.randrange(n) for k, n in ours.sizes.items()}
            assert ours(**i)==theirs.apply(i)
        double, their_double = ours*ours, theirs*theirs
        assert double.matrix.tolist()==their_double.get_matrix_view()
        if ours.is_injective and ours.is_surjective:
            assert ours.invert().matrix.tolist()==theirs.invert().get_matrix_view()
        after = {k: [[rng.randrange(8)] for _ in range(n.bit_length()-1)] for k, n in out.items()}
        if all(after.values()):
            both = ours.compose(Linear(after, {'offset': 8}))
            assert (both.matrix.tolist()
                    == theirs.compose(Theirs.from_bases(list(after.items()), ['offset'], [8], False)).get_matrix_view())


# Linear layouts

def test_linear_of_a_function_and_back():
    s = Swizzle(3, 0, 3).compose(Layout.row_major(8, 8))
    a = Linear.of(s, {'row': 8, 'column': 8}, {'offset': 64})
    back = a.invert()
    for r, c in np.ndindex(8, 8):
        assert a(row=r, column=c)=={'offset': s(r, c)} and back(offset=s(r, c))=={'row': r, 'column': c}
    assert a.compose(back)==Linear.identity(8, 'row', 'row')*Linear.identity(8, 'column', 'column')
    with pytest.raises(ValueError, match='not linear'): Linear.of(lambda i: (i+1)%8, {'i': 8}, {'o': 8})
    with pytest.raises(ValueError, match='power of'): Linear.identity(6, 'i', 'o')
    with pytest.raises(ValueError, match='8 .*4 of 8'):
        Linear({'i': [1, 2, 3]}, {'o': 8}).invert()
    with pytest.raises(ValueError, match='a position'): Linear({'i': [8]}, {'o': 8})
    with pytest.raises(ValueError, match='row, column'): a(row=1)

def test_products_and_broadcasts():
    tile = (Linear.identity(4, 'register', 'column')*Linear.identity(8, 'lane', 'row')
            *Linear.identity(4, 'lane', 'column'))
    assert tile(register=3, lane=8+5)=={'column': 3+4, 'row': 5}
    twice = tile*Linear.broadcast(2, 'warp', 'row')
    assert twice(register=0, lane=1, warp=1)==twice(register=0, lane=1, warp=0) and not twice.is_injective


# Costs

def slow_wavefronts(bytes_of_lane, size):
    res = 0
    per = max(1, size//4)
    for part in np.split(np.array(bytes_of_lane), per):
        banks = {}
        for b in part:
            for k in range(per): banks.setdefault((b//4+k)%32, set()).add(b//4+k)
        res += max(map(len, banks.values()))
    return res

@given(st.lists(st.integers(0, 255), min_size=32, max_size=32), st.sampled_from([1, 2, 4]))
def test_wavefronts_by_brute_force(places, vector):
    at = [p*vector for p in places]
    assert cost(Layout(1024), np.array(at), vector=vector).wavefronts==slow_wavefronts([4*a for a in at], 4*vector)

def test_a_tile_and_its_fixes():
    plain, padded, swizzled = (Layout.row_major(32, 32), Layout((32, 32), (33, 1)),
                               Swizzle(5, 0, 5).compose(Layout.row_major(32, 32)))
    assert walk(plain, 'column')==Cost(requests=32, wavefronts=1024, ideal=32, sectors=1024)
    assert walk(plain, 'column').conflicts==992
    for o in padded, swizzled: assert walk(o, 'row').conflicts==walk(o, 'column').conflicts==0
    wide = Swizzle(3, 2, 3).compose(Layout.row_major(32, 32))
    assert walk(wide, 'row', vector=4)[:3]==(8, 32, 32) and walk(plain, 'column', size=8).wavefronts==32*32
    linear = Linear.of(swizzled, {'row': 32, 'column': 32}, {'offset': 1024})
    assert cost(lambda r, c: linear(row=r, column=c), np.arange(32), 7).conflicts==0
    for wrong, says in [(lambda: walk(plain, 'diagonal'), "'row' or 'column'"),
                        (lambda: walk(Layout.row_major(3, 5), 'row'), 'whole warps'),
                        (lambda: walk(Layout(64), 'row'), 'rows and columns.* has 1'),
                        (lambda: cost(plain, np.arange(64), 0), 'per lane, 32'),
                        (lambda: cost(plain, np.arange(32), 0, vector=3), '16 bytes'),
                        (lambda: cost(Layout(64), np.arange(32), vector=2), 'at byte 4')]:
        with pytest.raises(ValueError, match=says): wrong()

def test_a_picture_of_banks():
    s = picture(Swizzle(3, 0, 3).compose(Layout.row_major(8, 8)), mark=(np.arange(8), 0))
    assert s.svg.count('stroke="#e4572e"')==8 and 'Swizzle&lt;3,0,3&gt; o (8,8):(8,1)' in s.svg
    assert '>63<' in picture(Layout.row_major(8, 8), show='offset').svg
    assert '>31<' in picture(Layout.row_major(8, 8)).svg
    with pytest.raises(ValueError, match='bank'): picture(Layout.row_major(8, 8), show='colour')


if __name__=='__main__':
    PYCUTE.parent.mkdir(exist_ok=True)
    PYCUTE.write_text('[\n'+',\n'.join(map(json.dumps, ask_pycute()))+'\n]\n')
