"""`gridstride.kernels.latent_attention` on the emulator: lengths around the pages' borders, shuffled pages, splits of
any number, several new tokens, what is left to torch, what is refused, and kernels that are wrong on purpose."""
import math, re, sys
from itertools import pairwise

import pytest
import torch
from gridstride.asm import resources, sass
from gridstride.cpp import emulator
from gridstride.cpp.toolchain.compilers import CompilerMissing
from gridstride.diagnostics.errors import KernelError
from found import finding, names
from gridstride.kernels import latent_attention, latent_attention_backend, standalone
from gridstride.kernels.latent import calls, decoding, programs, sources
from gridstride.kernels.latent.calls import DecodeProblem
from gridstride.kernels.ladder.rung import H100, Device
from one_unit import one_unit, right_and_wrong

LENS = 63, 0, 64, 65, 1, 200
LAST = {torch.bfloat16: 2**-8, torch.float16: 2**-11}                 # half an ulp


def made(lens, heads, dtype=torch.bfloat16, length=None, seed=0):
    "Random keys on shuffled pages; past the end of a row its page holds NaN, and its table an invalid page"
    rng = torch.Generator().manual_seed(seed)
    def normal(*shape): return torch.randn(shape, generator=rng, dtype=torch.float64).to(dtype)
    pages = [-(-n//64) for n in lens]
    order, cache = torch.randperm(sum(pages) + 2, generator=rng).int(), normal(sum(pages) + 2, 64, 576)
    table = torch.full((len(lens), max(*pages, 1)), 2**30, dtype=torch.int32)
    for b, (n, its) in enumerate(zip(lens, order.split([*pages, 2]))):
        table[b, :len(its)] = its
        if n % 64: cache[its[-1].item(), n % 64:] = math.nan
    cache[order[-2:].long()] = math.nan                               # unused
    return normal(len(lens), *([length] if length else []), heads, 576), cache, table, torch.tensor(lens).int()


def exact(q, cache, table, lens, scale=192**-.5):
    "(out, lse) in float64, one of the batch after the other"
    each = q if q.dim() == 4 else q[:, None]
    out, lse = torch.zeros(*each.shape[:-1], 512).double(), torch.full(each.shape[:-1], -math.inf).double()
    for b, n in enumerate(lens.tolist()):
        keys = cache[table[b, :-(-n//64)].long()].flatten(0, 1).double()
        for j, end in enumerate(range(n - each.shape[1] + 1, n + 1)):
            if end < 1: continue
            s = each[b, j].double() @ keys[:end].mT*scale
            out[b, j], lse[b, j] = s.softmax(-1) @ keys[:end, :512], s.logsumexp(-1)
    return out.view(*q.shape[:-1], 512), lse.view(q.shape[:-1])


def both(given, **how):
    "`latent_attention` of these, held against float64"
    out, lse = latent_attention(*given, **how)
    want, wanted = exact(*given, **{o: how[o] for o in how if o == 'scale'})
    # P and results are rounded to 16 bits; many of random signs do not add up to twice that
    torch.testing.assert_close(out.double(), want, rtol=0, atol=LAST[out.dtype]*want.abs().max().item())
    torch.testing.assert_close(lse.double(), wanted, rtol=1e-5, atol=1e-5)     # float32, a sum of some hundreds


@pytest.mark.slow
def test_hopper_around_pages():
    assert latent_attention_backend(made((1,), 16)[0]).name == 'hopper'
    for heads, splits in ((48, None), (16, 1), (16, 40)): both(made(LENS, heads), splits=splits)
    both(made((2200,), 16), splits=40)                                 # more splits than lanes that merge them
    with emulator.options(order='reverse'): both(made(LENS, 48), splits=5)


@pytest.mark.slow
def test_hopper_by_pairs_of_blocks():
    "128 heads: two blocks of a cluster copy pages for each other, as they do where there are many"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, '_MAX_UNSHARED_PAGES', 0)
        calls.decode_hopper.cache_clear()
        both(made((200, 1, 0, 70), 128), splits=3)
    calls.decode_hopper.cache_clear()


@pytest.mark.slow
def test_hopper_by_two_blocks_that_copy_for_themselves():
    both(made((200, 1, 0, 70), 128), splits=3)


@pytest.mark.slow
def test_hopper_of_several_new_tokens_in_float16():
    "144 rows are three tiles, one padded; of three tokens and one key, the first token ends before key 0"
    both(made((2, 70, 0, 1, 129), 48, torch.float16, length=3), splits=3, scale=.1)


def by_mma_sync(monkeypatch): monkeypatch.setattr(decoding, 'current_device_properties', lambda: Device(8, False))


@pytest.mark.slow
def test_mma_sync_around_pages():
    with pytest.MonkeyPatch.context() as patch:
        by_mma_sync(patch)
        assert latent_attention_backend(made((1,), 16)[0]).name == 'mma.sync'
        for heads, splits in ((48, None), (48, 5), (16, 1), (16, 40)): both(made(LENS, heads), splits=splits)


@pytest.mark.slow
def test_mma_sync_of_several_new_tokens_in_float16():
    with pytest.MonkeyPatch.context() as patch:
        by_mma_sync(patch)
        both(made((2, 70, 0, 1, 129), 16, torch.float16, length=3), splits=3, scale=.1)


@pytest.fixture(scope='module', autouse=True)
def at_once(request):
    with one_unit(request, [test_hopper_around_pages, test_hopper_by_pairs_of_blocks,
                                 test_hopper_by_two_blocks_that_copy_for_themselves,
                                 test_hopper_of_several_new_tokens_in_float16, test_mma_sync_around_pages,
                                 test_mma_sync_of_several_new_tokens_in_float16]): yield


@pytest.mark.slow
def test_large_scores_do_not_overflow(monkeypatch):
    q, *rest = made((130, 65), 16)
    both((q*30, *rest), splits=3)
    by_mma_sync(monkeypatch)
    both((q*30, *rest), splits=3)


def test_what_is_left_to_torch():
    given = made((2, 70, 0, 129), 16, torch.float32, length=3)
    assert names(latent_attention_backend(given[0]).reason, 'bfloat16 and float16', 'float32')
    for got, want in zip(latent_attention(*given), exact(*given)):
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)   # float32 sums of some hundred elements


def test_nothing_gives_nothing():
    for given in (made((0, 0), 16), made((0, 0), 16, torch.float64)):
        out, lse = latent_attention(*given)
        assert out.eq(0).all() and lse.eq(-math.inf).all()
    q, cache, table, lens = made((5,), 16)
    assert latent_attention(q[:0], cache, table[:0], lens[:0])[0].shape == (0, 16, 512)


def test_bad_input_is_named():
    q, cache, table, lens = made((5, 70), 16)
    wild, far = table.clone(), lens.clone()
    wild[1, 1], far[0] = 9, 200
    for given, how, error, says in (
            (([1], cache, table, lens), {}, TypeError, 'q is a list'),
            ((q, cache.half(), table, lens), {}, TypeError, 'cache is float16 and q bfloat16'),
            ((q, cache, table.long(), lens), {}, TypeError, 'table is int64'),
            ((q[..., :512].contiguous(), cache, table, lens), {}, ValueError, r'q has shape .*\[batch, heads, 576'),
            ((q, cache[:, :32].contiguous(), table, lens), {}, ValueError, r'expected \[pages, 64, 576\]'),
            ((q[:, :8].contiguous(), cache, table, lens), {}, ValueError, '8 heads; expected a multiple of 16'),
            ((q, cache, table, lens[:1]), {}, ValueError, 'lens has shape'),
            ((q, cache, table[:1], lens), {}, ValueError, 'table has shape'),
            ((q, cache, wild, lens), {}, ValueError, r'table\[1, 1\] is 9; .*0 to 4'),
            ((q, cache, table, far), {}, ValueError, r'lens\[0\] is 200; .*0 to 128.*2 pages'),
            ((q, cache, table, lens), dict(scale=0), ValueError, 'scale is 0.0'),
            ((q, cache, table, lens), dict(splits=0), ValueError, 'splits is 0'),
            ((q.clone().requires_grad_(), cache, table, lens), {}, ValueError, 'q requires a gradient')):
        with pytest.raises(error, match=says): latent_attention(*given, **how)
    with torch.no_grad(): latent_attention(q.clone().requires_grad_(), cache, table, lens)


def test_a_page_that_is_not_there_stops_the_kernel(monkeypatch):
    "Where the table is not checked before"
    monkeypatch.setattr(decoding, '_check_pages', lambda *given: None)
    q, cache, table, lens = made((5, 70), 16)
    table[1, 1] = len(cache)
    for way in (lambda patch: None, by_mma_sync):
        way(monkeypatch)
        with pytest.raises(KernelError, match='__trap'): latent_attention(q, cache, table, lens)


@pytest.mark.slow
@pytest.mark.parametrize('late, back, want', (
    (r'wgmma_wait<0>\(\);\n *fence_accumulators\(o\);', r'half\)\);', 'racecheck engine_has_read'),
    (r'load_p\(x(?:.*\n){4}.*', r'ROPE\)\);', 'racecheck')), ids=('values', 'probabilities'))
def test_a_stage_released_before_it_was_read_is_found(late, back, want, monkeypatch):
    "By the emulator, which knows what tensor cores may still read"
    whole = sources.hopper_source
    def lame(*how):
        text, swapped = whole(*how), rf'( *{late}\n)( *arrive_in_cluster\(.*{back}\n)'
        assert len(re.findall(swapped, text)) == 1
        return re.sub(swapped, r'\2\1', text)
    monkeypatch.setattr(calls, 'hopper_source', lame)
    calls.decode_hopper.cache_clear()
    with finding(want): latent_attention(*made((400,), 16), splits=1)
    calls.decode_hopper.cache_clear()


@pytest.mark.slow
def test_partials_that_forget_the_larger_score_are_wrong(monkeypatch):
    "A merge that adds partial results as they come: what was there is worth less once one brings a larger score"
    whole = sources.merge_source('bfloat16', True, 4)
    cases = ('exp2_fast(lse - base)', '(lse > MINUS_INFINITY)', 200, 3), ('m.o[c] *= rescale', '', 2200, 40)
    for right, wrong, keys, splits in cases:
        assert whole.count(right) == 1
        monkeypatch.setattr(calls, 'merge_source', lambda *how: whole.replace(right, wrong))
        both(made((200,), 16), splits=1)                               # nothing to be merged
        with pytest.raises(AssertionError, match='not close'): both(made((keys,), 16), splits=splits)


@pytest.mark.slow
def test_the_operator_is_one():
    given = made((5, 70), 16)
    torch.library.opcheck(torch.ops.gridstride.latent_attention.default, (*given, .1, 0))


def test_torch_compile_keeps_it_whole():
    def f(q, *rest): return latent_attention(2*q, *rest)[0].relu()
    given = made((5, 70), 16)
    assert torch.equal(torch.compile(f, fullgraph=True, backend='aot_eager')(*given), f(*given))


@pytest.mark.slow
@pytest.mark.exhaustive
def test_an_exported_program_finds_itself_right(monkeypatch, capfd):
    "And one whose partial results forget the larger score wrong"
    monkeypatch.setattr(programs, 'CHECKED_SIZES', ((3, 300),))
    monkeypatch.setattr(programs, 'TIMED_SIZE', (1, 70))
    monkeypatch.setattr(programs, 'H100', Device(4, True))
    monkeypatch.setattr(standalone, 'H100', Device(4, True))
    program = next(o for o in programs.programs() if o.name == 'latent_attention_hopper_16')
    text = standalone.program_source(program).replace('RUNS = 20', 'RUNS = 1')
    right, wrong = 'exp2_fast(lse - base)', '(WRONG ? lse > MINUS_INFINITY : exp2_fast(lse - base))'
    assert right_and_wrong(text, right, wrong, 'latent', monkeypatch) == [0, 1]
    assert re.findall(r'^(\w+) latent_attention_hopper_16', capfd.readouterr().out, re.M) == ['PASS', 'FAIL']


@pytest.mark.parametrize('way', programs.VARIANTS, ids=lambda o: o.name)
def test_what_is_exported_is_what_is_launched(way, monkeypatch):
    "As on an H100; nothing is run"
    seen = []
    monkeypatch.setattr(decoding, 'current_device_properties', lambda: H100._replace(is_hopper=way.kernel == 'hopper'))
    monkeypatch.setattr(decoding, 'launch', lambda found, x, **arrays: seen.append((found[0], ())))
    monkeypatch.setattr(decoding, 'launch_mapped', lambda call, boxes, x, **arrays: seen.append((call, boxes)))
    for batch, keys in programs.CHECKED_SIZES:
        wide = -(-keys//64)
        q, cache = (torch.empty(*o, 576, dtype=torch.bfloat16) for o in ((batch, way.heads), (batch*wide, 64)))
        latent_attention(q, cache, torch.zeros(batch, wide).int(), torch.zeros(batch).int())
        assert seen == programs.variant_launches(way, batch, keys)[0]
        seen.clear()


def test_splits_are_as_many_as_blocks_or_as_sequences():
    def chosen(batch, rows, requested=0, wide=128):
        return calls.choose_splits(DecodeProblem('bfloat16', batch, rows, rows, 2**14, wide), requested, 64, 132)
    assert chosen(128, 64) == 128                                     # of 132: a sequence each, and nothing to merge
    assert (chosen(128, 128), chosen(264, 64)) == (64, 132)            # two sequences each
    assert chosen(128, 128, wide=512) == 66                           # whose merge takes less than two idle SMs
    assert (chosen(100, 64), chosen(140, 64), chosen(120, 128)) == (132, 132, 66)
    assert chosen(128, 64, requested=5) == 5 and chosen(1, 64, wide=3) == 3


def test_splits_have_a_few_pages_unless_they_are_few():
    "What was fastest on an H100, of 128 heads"
    def chosen(batch, keys):
        return calls.choose_splits(DecodeProblem('bfloat16', batch, 128, 128, 2**14, keys//64), 0, 64, 132)

    assert [chosen(1, keys) for keys in (1024, 4096, 8192, 32768)] == [16, 32, 32, 66]
    assert [chosen(*o) for o in ((4, 1024), (4, 4096), (16, 1024), (16, 4096))] == [32, 64, 64, 66]


def test_blocks_share_copies_of_many_pages():
    "What was fastest on an H100"
    def cluster(batch, keys, heads=128):
        problem = DecodeProblem('bfloat16', batch, heads, heads, 2**14, keys//64)
        return calls.decode_hopper(problem, .1, 0, H100)[0].cluster[0]

    assert [cluster(*o) for o in ((1, 1024), (1, 32768), (16, 4096), (64, 1024))] == [1]*4
    assert [cluster(*o) for o in ((16, 8192), (64, 4096), (128, 8192))] == [2]*3 and cluster(128, 8192, 64) == 1


def test_registers_that_warpgroups_ask_for_are_there():
    "A launch has 128 per thread; a request for more than others released deadlocks"
    asked = re.findall(r'setmaxnreg_(?:inc|dec)<(\d+)>', sources.source('decode_hopper'))
    score, add, produce = map(int, asked)
    assert score + 2*add + produce <= 65536//128


def compiled(ask, call, arch, **how):
    "What NVRTC says of a kernel; on Linux the course installs it"
    try: return ask(call.src, arch=arch, **how)
    except CompilerMissing as e:
        if sys.platform == 'linux': raise
        pytest.skip(str(e))


@pytest.mark.slow
def test_compiles_without_spills():
    c = DecodeProblem('bfloat16', 128, 128, 128, 2**14, 128)
    plain, splits = calls.decode_ampere(c, .1, 0, H100)
    wanted = [(plain, 'sm_80', 2), (calls.merge_launch(c, splits, H100._replace(is_hopper=False)), 'sm_80', 1)]
    wanted += [(calls.decode_hopper(o, .1, 0, H100)[0], 'sm_90a', 1) for o in (c, c._replace(rows=64, heads=64))]
    for call, arch, blocks in wanted:
        took = compiled(resources, call, arch, block=call.block[0], shared_bytes=call.shared)
        assert (took.spill_stores, took.spill_loads) == (0, 0) and took.occupancy.blocks >= blocks, took


@pytest.fixture(scope='module')
def instructions():
    "Of the kernel for a Hopper GPU"
    call = calls.decode_hopper(DecodeProblem('bfloat16', 128, 64, 64, 2**14, 128), .1, 0, H100)[0]
    return [o.text for o in compiled(sass, call, 'sm_90a').items if hasattr(o, 'text')]


@pytest.mark.slow
def test_products_are_not_serialized(instructions):
    "If it finds no alternative, the assembler waits for each product; here it waits where the source does"
    products, waits = ([o for o in instructions if o.startswith(name)] for name in ('HGMMA', 'WARPGROUP.DEPBAR'))
    assert len(products) == 36 + 8 and len(waits) == 2


def test_descriptors_are_computed_in_uniform_registers(instructions):
    "One addition each; if the assembler does not know that all lanes have the same value, it takes 13 instructions"
    at = [i for i, o in enumerate(instructions) if o.startswith('HGMMA.64x64')]
    assert sorted(b - a for a, b in pairwise(at))[len(at)//2] <= 6
