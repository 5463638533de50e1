"""`gridstride.kernels.sparse`: formats against what they promise, kernels on the emulator against float64."""
import copy, re
from functools import partial
from itertools import combinations

import pytest
import torch
from gridstride.asm import sass
from gridstride.kernels import densify, prune_24, standalone
from gridstride.kernels.ladder.rung import H100
from gridstride.kernels.sparse import (TwoFourLinear, blocks, formats, multiply_24, pack_24, programs, two_four,
                                       unpack_24)
from gridstride.kernels.sparse.blocks import from_blocks, multiply_blocks, prune_blocks, to_blocks
from gridstride.kernels.sparse.csr import from_csr, multiply_csr, prune_single, to_csr
from gridstride.kernels.sparse.formats import (CompressedMatrix, compress, decompress, from_words, keep_mask,
                                               kept_magnitude, prune,
                                               search_order, to_words)
from one_unit import one_unit, right_and_wrong
from exhaustive import some
from found import names, saying

DTYPES = torch.float32, torch.bfloat16, torch.float16


@pytest.fixture(scope='module', autouse=True)
def at_once(request):
    "All kernels are compiled in one unit"
    cases = [*(partial(test_a_24_product, *o) for o in TWO_FOUR_CASES),
             *(partial(test_a_product_of_blocks, *o) for o in BLOCK_CASES),
             *(partial(test_a_product_of_unstructured_elements, *o) for o in CSR_CASES)]
    with one_unit(request, cases):
        for o in (blocks, two_four): o._prepare.cache_clear()             # of launches that were only noted
        yield


def weights(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize('dtype', DTYPES)
def test_magnitude_keeps_the_best_two_of_each_four(dtype):
    w = weights(16, 96, dtype=dtype)
    fours = w.double().abs().unflatten(1, (-1, 4))
    best = torch.stack([fours[..., list(o)].sum(-1) for o in combinations(range(4), 2)]).amax(0)
    assert (keep_mask(w).unflatten(1, (-1, 4)).sum(-1) == 2).all()
    assert torch.equal(prune(w).double().abs().unflatten(1, (-1, 4)).sum(-1), best)
    assert kept_magnitude(w) == pytest.approx(best.sum().item(), rel=1e-6)


def test_among_equals_the_first_stay():
    w = torch.tensor([[1., -1, 1, 1, 2, 3, -3, 3, 0, 0, 0, 0, 0, 0, 0, 5]])
    assert prune(w).tolist() == [[1, -1, 0, 0, 0, 3, -3, 0, 0, 0, 0, 0, 0, 0, 0, 5]]


@pytest.mark.parametrize('dtype', DTYPES)
@pytest.mark.parametrize('shape', [(1, 4), (3, 8), (63, 60), (64, 64), (65, 132), (130, 520)])
def test_what_is_compressed_comes_back(shape, dtype):
    w = prune(weights(*shape, dtype=dtype))
    w[0] = 0                                                # fours of zeros
    w[-1, ::4] = 0                                          # and some with one number
    c = compress(w)
    assert c.values.shape == (shape[0], shape[1]//2) and c.values.dtype == dtype
    assert c.metadata.shape == (shape[0], shape[1]//4) and c.metadata.dtype == torch.uint8
    assert torch.equal(decompress(c), w)
    assert torch.equal(from_words(to_words(c.metadata), *shape), c.metadata)


def test_positions_are_in_increasing_order():
    w = torch.tensor([[0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 7, 8, 7, 0, 0, 8, 0, 7, 0, 0, 7, 8, 0, 0.]])
    c = compress(w)
    assert c.metadata.tolist() == [[0b0100, 0b1100, 0b1110, 0b1100, 0b0100, 0b0100]]
    assert c.values.tolist() == [[0, 0, 0, 7, 7, 8, 7, 8, 0, 7, 7, 8]]


def test_each_thread_has_the_metadata_of_two_rows_and_sixteen_columns():
    "As PTX defines it for `wgmma.sp` of 32 elements along k: selector 0 takes the words of lanes 0 and 1 of each four"
    rows, columns = 150, 200
    metadata = compress(prune(weights(rows, columns))).metadata
    words = to_words(metadata)
    assert words.shape == (3, 2, 4, 32, 2) and words.dtype == torch.int32
    for r in range(0, 192, 7):
        for g in range(64):
            lane, step, bit = r%8*4 + g*4%64//16, g*4%128//64, r%16//8*16 + g%4*4
            nibble = int(words[r//64, g*4//128, r%64//16, lane, step]) >> bit & 15
            assert nibble == (metadata[r, g] if r < rows and g*4 < columns else 4)


@pytest.mark.parametrize('tool', [keep_mask, prune, compress, search_order])
def test_what_cannot_be_is_refused(tool):
    w = weights(4, 12)
    w[2, 5] = float('nan')
    name = 'keep_mask' if tool is prune else tool.__name__
    with pytest.raises(ValueError, match=rf'{name}: w\[2, 5\] is NaN'): tool(w)
    with pytest.raises(ValueError, match=saying('10 columns', 'multiple of 4', 'pad')): tool(weights(4, 10))
    for bad in (weights(4, 12).int(), weights(12), [[1.]*4]):
        with pytest.raises(TypeError, match='floats'): tool(bad)


def test_three_of_four_and_unordered_positions_are_refused():
    w = prune(weights(4, 12))
    w[1, 4:8] = torch.tensor([1, 0, 2, 3.])
    with pytest.raises(ValueError, match=saying('1 groups', 'two', 'w[1, 4:8]', 'prune')): compress(w)
    c = compress(prune(weights(4, 12)))
    for bad in (0, 5, 1, 11):                               # twice the same, or the larger first
        metadata = c.metadata.clone()
        metadata[3, 1] = bad
        with pytest.raises(ValueError, match=saying('metadata[3, 1]', bad, '4, 8')):
            decompress(CompressedMatrix(c.values, metadata))


def test_an_order_of_columns_keeps_more():
    w = weights(32, 64)
    w[:, 8:12] *= 10                                        # four large columns share a four
    sizes = [kept_magnitude(w[:, search_order(w, iterations)]) for iterations in (0, 1, 5, 20)]
    assert sizes == sorted(sizes) and sizes[0] == kept_magnitude(w) and sizes[-1] > 1.1*sizes[0]
    order = search_order(w)
    assert sorted(order.tolist()) == list(range(64)) and torch.equal(order, search_order(w))
    assert not torch.equal(order, search_order(w, seed=1))
    x = weights(8, 64, seed=1)
    assert torch.allclose(x[:, order] @ w[:, order].T, x @ w.T, atol=1e-3)  # the same elements in another order
    with pytest.raises(ValueError, match=saying('12 columns', 'multiple of 8')): search_order(weights(4, 12))


def test_two_fours_are_parted_in_the_best_way():
    w = weights(16, 8)
    best = max(kept_magnitude(w[:, [*o, *(i for i in range(8) if i not in o)]]) for o in combinations(range(8), 4))
    assert kept_magnitude(w[:, search_order(w, 1)]) == pytest.approx(best, rel=1e-6)
    assert len(formats._group_splits()) == 35


# Products

def close(got, want, size, dtype):
    "Rounded once from a sum in float32: half an ulp, and 2^-20 of the largest sum of terms' sizes"
    last = {torch.float32: 2**-24, torch.bfloat16: 2**-8, torch.float16: 2**-11}[dtype]
    assert got.dtype == dtype
    torch.testing.assert_close(got.double(), want, rtol=last, atol=2**-20*size.max().item())


def exact(x, w): return x.double() @ w.double(), x.double().abs() @ w.double().abs()


@pytest.mark.parametrize('block', blocks.BLOCK_SHAPES)
@pytest.mark.parametrize('shape', [(8, 8), (128, 64), (136, 72), (264, 200)])
def test_blocks_come_back(shape, block):
    w = prune_blocks(weights(*shape), .5, block).bfloat16()
    b = to_blocks(w, block)
    assert torch.equal(from_blocks(b), w) and b.values.shape == (len(b.columns)*block[0], 64)
    assert b.row_offsets[0] == 0 and b.row_offsets[-1] == len(b.columns)
    assert b.row_offsets.dtype == b.columns.dtype == torch.int32


def test_the_smallest_blocks_go():
    w = weights(256, 256)
    w[128:, 64:128] *= 3
    w[:128, 192:] *= 2
    got = prune_blocks(w, .75)
    assert torch.equal(got[128:, 64:128], w[128:, 64:128]) and torch.equal(got[:128, 192:], w[:128, 192:])
    assert (got != 0).sum() == 2*128*64
    assert torch.equal(prune_blocks(w, 0), w) and not prune_blocks(w, 1).any()


# by `mma.sp`?, dtype, rows of w, of x, columns, a bias?, tile (None: chosen): partial tiles at the ends, a ring that
# wraps, two warpgroups of 128 rows each, clusters along both sides, few rows of x, and split-K
TWO_FOUR_CASES = [(True, 'bfloat16', 264, 140, 208, True, None), (True, 'float16', 8, 1, 16, False, None),
                  (False, 'bfloat16', 264, 200, 720, True, two_four.Tile(256, 192, 5, 2, 1, 48, 8)),
                  (False, 'float16', 8, 1, 16, False, None), (False, 'bfloat16', 72, 7, 1040, True, None),
                  (False, 'float16', 136, 8, 208, False, None),
                  (False, 'float16', 8, 1, 16, False, two_four.Tile(128, 64, 8, 2, 1, 32, 8)),
                  (False, 'bfloat16', 136, 140, 336, False, two_four.Tile(128, 64, 3, 1, 2, 32, 8)),
                  (False, 'bfloat16', 200, 40, 720, True, two_four.SplitTile(128, 32, 4)),
                  (False, 'float16', 72, 20, 1040, False, two_four.SplitTile(64, 16, 2))]


@pytest.mark.slow
@pytest.mark.parametrize('use_mma_sp,dtype,rows,n,k,biased,tile', TWO_FOUR_CASES)
def test_a_24_product(use_mma_sp, dtype, rows, n, k, biased, tile):
    dtype = getattr(torch, dtype)
    w, x = prune(weights(rows, k, dtype=dtype)), weights(n, k, dtype=dtype, seed=1)
    w[0, ::8] = 0                                           # fours with one number
    p = pack_24(w)
    assert torch.equal(unpack_24(p), w) and p.nbytes == p.values.nbytes + p.words.nbytes
    bias, (want, size) = weights(rows, dtype=dtype, seed=2) if biased else None, exact(x, w.T)
    got = two_four.run_24(x, p, bias, use_mma_sp, tile) if tile else multiply_24(x, p, bias, use_mma_sp)
    close(got, want + bias.double() if biased else want, size, dtype)


def test_a_24_product_without_rows_is_empty():
    p = pack_24(prune(weights(16, 32).half()))
    assert multiply_24(weights(0, 32).half(), p).shape == (0, 16)


def test_a_tile_is_chosen_by_its_rounds():
    "Large products get large tiles; few rows of x, many blocks, which share the columns of w"
    large, few = two_four.choose_tile(8192, 8192, 8192), two_four.choose_persistent_tile(4096, 16, 4096)
    assert large.BM*large.BN == 2**15 and few.BM*few.BN == 2**13
    assert two_four.choose_tile(4096, 64, 14336).CK > 1
    for tile in two_four.TILES:
        call, boxes = two_four.hopper_launch('bfloat16', 4096, 4096, 4096, True, H100, tile)
        assert call.shared <= 232448 - 1024 and all(max(box) <= 256 for box, _ in boxes)


@pytest.mark.parametrize('tile', two_four.SPLIT_TILES)
def test_the_stages_of_split_tiles_fit(tile):
    call, boxes = two_four.split_launch('bfloat16', 4096, 4096, 4096, True, tile)
    assert call.shared <= 232448 - 1024 and all(max(box) <= 256 for box, _ in boxes)


@pytest.mark.parametrize('rows,n,expected', [(4096, 8, True), (14336, 1, False), (4096, 9, False)])
def test_few_rows_of_x_have_a_kernel_of_their_own(rows, n, expected):
    assert two_four._is_few_rows_faster(rows, n) is expected


def test_24_refuses_in_words():
    w = prune(weights(16, 64))
    p, x = pack_24(w.bfloat16()), weights(3, 64).bfloat16()
    with pytest.raises(TypeError, match='pack_24: w .*float32.*bfloat16, float16'): pack_24(w)
    with pytest.raises(ValueError, match='pack_24: .*16x40'): pack_24(w[:, :40].half())
    with pytest.raises(TypeError, match='x .*float16.*bfloat16'): multiply_24(x.half(), p)
    with pytest.raises(ValueError, match=r'\(n, 64\)'): multiply_24(x[:, :32].contiguous(), p)
    with pytest.raises(ValueError, match=r'bias .*\(64,\).*\(16,\)'): multiply_24(x, p, x[0])


# block, rows of w, of x, columns, dtype: an empty row of blocks, partial blocks, a second tile of x
BLOCK_CASES = [((128, 64), 264, 70, 200, 'bfloat16'), ((64, 64), 136, 300, 136, 'bfloat16'),
               ((128, 64), 8, 1, 8, 'float16')]


@pytest.mark.slow
@pytest.mark.parametrize('block,rows,n,k,dtype', BLOCK_CASES)
def test_a_product_of_blocks(block, rows, n, k, dtype):
    dtype = getattr(torch, dtype)
    w, x = prune_blocks(weights(rows, k), .6, block).to(dtype), weights(n, k, dtype=dtype, seed=1)
    if rows > block[0]: w[:block[0]] = 0
    close(multiply_blocks(x, to_blocks(w, block)), *exact(x, w.T), dtype)


def test_a_product_without_a_block_is_0():
    assert not multiply_blocks(weights(3, 64).bfloat16(), to_blocks(torch.zeros(16, 64).bfloat16())).any()


def test_blocks_refuse_in_words():
    w, x = weights(16, 64).bfloat16(), weights(3, 64).bfloat16()
    with pytest.raises(ValueError, match=r'block is \(32, 64\).*\(128, 64\)'): to_blocks(w, (32, 64))
    with pytest.raises(ValueError, match=saying('zeros', 2, '0 to 1')): prune_blocks(w, 2)
    with pytest.raises(ValueError, match='prune_blocks: w has a NaN'): prune_blocks(w*float('nan'))
    with pytest.raises(TypeError, match='2-dimensional float32'): to_blocks(w.float())
    with pytest.raises(ValueError, match=saying('12x64', 'multiples of 8')): to_blocks(w[:12])
    b = to_blocks(w)
    with pytest.raises(TypeError, match='x is float16'): multiply_blocks(x.half(), b)
    with pytest.raises(ValueError, match=r'\(n, 64\)'): multiply_blocks(x[:, :32].contiguous(), b)


# dtype, rows and columns of w, columns of x; None: a vector
CSR_CASES = [('float32', 50, 70, 1), ('float32', 50, 70, 33), ('bfloat16', 9, 129, None), ('bfloat16', 50, 70, 72),
             ('float16', 1, 8, 300)]


@pytest.mark.slow
@pytest.mark.parametrize('dtype,rows,k,n', CSR_CASES)
def test_a_product_of_unstructured_elements(dtype, rows, k, n):
    dtype = getattr(torch, dtype)
    w, x = prune_single(weights(rows, k), .8).to(dtype), weights(k, *([] if n is None else [n]), dtype=dtype, seed=1)
    w[rows//2] = 0
    c = to_csr(w)
    assert torch.equal(from_csr(c), w) and len(c.values) == (w != 0).sum()
    close(multiply_csr(c, x), *exact(w, x), dtype)


def test_the_smallest_values_are_pruned():
    w = weights(20, 30)
    got = prune_single(w, .7)
    assert (got != 0).sum() == 180 and w[got == 0].abs().max() <= got[got != 0].abs().min()
    assert torch.equal(prune_single(w, 0), w) and not prune_single(w, 1).any()


def test_unstructured_sparsity_refuses_with_a_reason():
    c = to_csr(weights(4, 6))
    with pytest.raises(ValueError, match='zeros is -1'): prune_single(weights(4, 6), -1)
    with pytest.raises(ValueError, match='prune_single: w has a NaN'): prune_single(weights(4, 6)*float('nan'))
    with pytest.raises(TypeError, match='2-dimensional int64'): to_csr(torch.ones(2, 2).long())
    with pytest.raises(TypeError, match='x is float16'): multiply_csr(c, weights(6, 2).half())
    with pytest.raises(ValueError, match=r'\(6,\) or \(6, any\)'): multiply_csr(c, weights(4, 2))


# The tool

def model(dtype=torch.bfloat16):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.GELU(), torch.nn.Linear(256, 96, bias=False),
                               torch.nn.ModuleDict(dict(last=torch.nn.Linear(96, 60)))).to(dtype)


def run(m, x): return m[3].last(m[2](m[1](m[0](x))))


@pytest.mark.parametrize('dtype', DTYPES)
def test_a_module_is_swapped_and_back(dtype, capsys):
    m, x = model(dtype), weights(3, 5, 128, dtype=dtype)
    pruned = [prune(o.weight.detach()) for o in (m[0], m[2])]
    q = prune_24(m)
    said = capsys.readouterr().out
    assert q is m and type(q[0]) is type(q[2]) is TwoFourLinear and '2:4 sparse' in said
    assert names(said, '3.last', '60x96', 'multiple of 8')
    name = str(dtype).removeprefix('torch.')
    assert names(said, f'{name} on the CPU', 'torch', 'dense')
    size = x.element_size()
    assert q[0].packed.nbytes == 256*64*size + 256*128//8*1
    assert torch.equal(q[0].weight, pruned[0]) and torch.equal(q[2].weight, pruned[1])
    got = run(q, x)
    assert densify(q) is m and type(q[0]) is torch.nn.Linear and torch.equal(q[0].weight, pruned[0])
    torch.testing.assert_close(run(q, x), got, rtol=0, atol=0)


def test_another_order_of_columns_keeps_more_and_gives_the_same(capsys):
    "As the dense layer of the weight that is left, in the order that x has; its state has the order"
    m, x = model(torch.float32), weights(3, 128)
    with torch.no_grad(): m[0].weight[:, 8:12] *= 10                # four large columns share a four
    plain, q = prune_24(copy.deepcopy(m)), prune_24(copy.deepcopy(m), iterations=10)
    lost = [(o[0].weight - m[0].weight).square().sum() for o in (plain, q)]
    assert lost[1] < .8*lost[0] and 'ordered=True' in repr(q[0]) and 'order' not in repr(plain[0])
    kept_ones = q[0].weight != 0
    assert torch.equal(q[0].weight[kept_ones], m[0].weight[kept_ones]) and kept_ones.sum() == kept_ones.numel()/2
    got, state = run(q, x), q.state_dict()
    torch.testing.assert_close(run(densify(q), x), got, rtol=1e-5, atol=1e-5)       # sums in another order
    other = prune_24(model(torch.float32), iterations=1)
    other.load_state_dict(state)
    assert torch.equal(run(other, x), got)


def test_a_linear_itself_is_returned_as_a_new_one():
    m = torch.nn.Linear(64, 32).half().eval()
    q = prune_24(m)
    assert type(q) is TwoFourLinear and not q.training and type(densify(q)) is torch.nn.Linear and q.bias is m.bias
    assert 'in_features=64, out_features=32, bias=True' in repr(q)
    with pytest.raises(ValueError, match=r'x .*\(1, 32\).*\(\.\.\., 64\)'):
        q(weights(1, 32).half())


def test_a_state_goes_to_a_module_that_was_pruned_too(tmp_path):
    a, b = prune_24(model(), skip='3.*'), model()
    with torch.no_grad(): b[0].weight.mul_(-1)
    prune_24(b, skip=['3.*'])
    x = weights(2, 128, dtype=torch.bfloat16)
    assert not torch.equal(run(a, x), run(b, x))
    torch.save(a.state_dict(), tmp_path/'state')
    b.load_state_dict(torch.load(tmp_path/'state'))
    assert torch.equal(run(a, x), run(b, x))


def test_the_operator_is_one_for_torch():
    "Shapes without values, gradients and tracing, which torch itself checks; a traced layer is one node"
    q = prune_24(model(), skip='3.*')
    x, p = weights(3, 128, dtype=torch.bfloat16), q[0].packed
    given = x.requires_grad_(), p.values, p.words, q[0].bias
    torch.library.opcheck(torch.ops.gridstride.two_four_linear.default, given)
    seen = []
    def backend(graph, inputs):
        seen.extend(n.target for n in graph.graph.nodes)
        return graph.forward
    compiled = torch.compile(lambda x: run(q, x), backend=backend, fullgraph=True)
    with torch.no_grad(): assert torch.equal(compiled(x), run(q, x))
    assert sum('two_four_linear' in str(o) for o in seen) == 2


def test_gradients_are_those_of_the_dense_layer():
    q = prune_24(model(), skip='3.*')
    dense, grads = densify(copy.deepcopy(q)), []
    for m in (q, dense):
        x = weights(3, 128, dtype=torch.bfloat16).requires_grad_()
        m[0].bias.requires_grad_()
        run(m, x).square().sum().backward()
        grads.append((x.grad, m[0].bias.grad))
    for a, b in zip(*grads): torch.testing.assert_close(a, b, rtol=2**-7, atol=1e-2)     # sums in another order


def test_what_cannot_be_pruned_stays_and_is_listed(capsys):
    m = torch.nn.ModuleDict(dict(one=torch.nn.Linear(32, 8), two=torch.nn.Linear(32, 8), wide=torch.nn.Linear(32, 8),
                                 bad=torch.nn.Linear(32, 8), head=torch.nn.Linear(32, 40), odd=torch.nn.Linear(24, 8)))
    m.embedding = torch.nn.Embedding(40, 32)
    m.head.weight = m.embedding.weight
    m.wide.double()
    with torch.no_grad(): m.bad.weight[1, 2] = float('nan')
    prune_24(m, skip='two')
    said = capsys.readouterr().out
    assert [k for k, o in m.items() if type(o) is TwoFourLinear] == ['one']
    for line in ('head is unchanged: another layer shares its weight', 'wide is unchanged: it is float64',
                 'two is unchanged: it is in skip',
                 'bad is unchanged: its weight has a NaN',
                 'odd is unchanged: it is 8x24, but the kernels need'): assert line in said


@pytest.mark.parametrize('call,error,words', [
    (lambda: prune_24(torch.ones(2)), TypeError, 'prune_24: module .*Tensor'),
    (lambda: prune_24(torch.nn.GELU()), ValueError, saying('no layer', 'pruned', 'torch.nn.Lin')),
    (lambda: densify(model()), ValueError, 'densify: .*2:4')])
def test_prune_24_refuses_with_a_reason(call, error, words):
    with pytest.raises(error, match=words): call()


# Exported programs

@pytest.mark.parametrize('name,cases,right,wrong', some([
    ('multiply_24_bfloat16', ((136, 72, 272),), 'b + 64/16, second', 'b + (WRONG ? 0 : 64)/16, second'),
    ('multiply_blocks_64', ((8, 1, 16), (136, 72, 208)), 'columns[i]*64, bar', 'columns[i]*(WRONG ? 32 : 64), bar'),
    ('multiply_csr_float32_512', ((20, 40, 100),), '+= scale', '+= (WRONG ? 1.01f : 1.f)*scale')], 3, first=2))
def test_an_exported_program_finds_itself_right(name, cases, right, wrong, capfd, monkeypatch):
    "And one with a mistake wrong"
    spmm = dict(programs._spmm_programs())[name]._replace(cases=cases)
    text = standalone.program_source(programs._program(name, spmm))
    text = text.replace('gpu.multiProcessorCount >= SMS', 'true').replace('RUNS = 20', 'RUNS = 1')
    assert right_and_wrong(text, right, wrong, 'sparse', monkeypatch) == [0, 1]
    assert re.findall(rf'^(\w+) {name}', capfd.readouterr().out, re.M) == ['PASS', 'FAIL']


# What the compiler makes of it

WRITES = re.compile(r'(?:@!?U?P\d+ )?(?!ST|RED|HGMMA|SYNCS|NANOSLEEP|BRA)(\S+) (?:P\d, )?R(\d+)\b')


def written(text):
    "Registers that an instruction writes: loads and wide products more than one"
    if not (m := WRITES.match(text)): return range(0)
    many = 4 if '.128' in m[1] else 2 if '.64' in m[1] or 'WIDE' in m[1] else 1
    return range(int(m[2]), int(m[2]) + many)


def after(items, i):
    "Each instruction that may run while the product that is item i is in flight, on all paths"
    at = {o: j for j, o in enumerate(items) if isinstance(o, str)}
    ahead, seen = [(i + 1, 'gsb0' in items[i].text)], set()        # where, and how many groups end since
    while ahead:
        j, groups = ahead.pop()
        if (j, groups) in seen: continue
        seen.add((j, groups))
        o = items[j]
        if isinstance(o, str):
            ahead.append((j + 1, groups))
            continue
        yield o
        groups += o.op.startswith('HGMMA') and 'gsb0' in o.text
        waits = re.match(r'WARPGROUP.DEPBAR.LE gsb0, 0x(\d)', o.text)
        if waits and groups > int(waits[1]): continue               # it is done
        if o.target in at: ahead.append((at[o.target], groups))
        if o.op not in ('BRA', 'EXIT') or o.text.startswith('@'): ahead.append((j + 1, groups))


def overwritten(items):
    "What writes the metadata register of a product while the product may be in flight"
    for i, o in enumerate(items):
        if not isinstance(o, str) and o.op.startswith('HGMMA.SP'):
            metadata = int(re.findall(r'R(\d+)', o.text)[-1])
            yield from (p.text for p in after(items, i) if metadata in written(p.text))


@pytest.mark.parametrize('tile', some([pytest.param(o) for o in list(two_four.TILES)[:2]], 2))
def test_metadata_registers_are_kept_until_a_product_is_done(tile):
    "The tensor cores read them so long: without `keep` the compiler was seen to use them for other words before"
    call, _ = two_four.hopper_launch('bfloat16', 8192, 8192, 8192, False, H100, tile)
    items = sass(call.src, arch='sm_90a').items
    first, *_ = (i for i, o in enumerate(items) if not isinstance(o, str) and o.op.startswith('HGMMA.SP'))
    metadata = re.findall(r'R\d+', items[first].text)[-1]
    assert not list(overwritten(items))
    move = items[first]._replace(op='MOV', text=f'MOV {metadata}, R1')
    assert move.text in overwritten([*items[:first + 1], move, *items[first + 1:]])
