"""`gridstride.kernels.attention` on the emulator: ragged sizes, masks, grouped heads, lengths, gradients, what is left
to SDPA, and what is refused."""
import math, re
from functools import partial

import pytest
import torch
from gridstride.kernels import attention, attention_backend
from gridstride.cpp import emulator
from gridstride.kernels.flash import attentions, calls, key_parts, programs, schedule, sources
from gridstride.kernels import operators, standalone
from gridstride.kernels.ladder.rung import Device
from gridstride.utils import cdiv
from one_unit import one_unit, right_and_wrong
from exhaustive import included_values, mark_exhaustive
from found import names, saying


def normal(*shape, seed=0, dtype=torch.bfloat16):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def qkv(batch, heads, group, rows, keys, dim, dtype=torch.bfloat16):
    sizes = (heads, rows), (heads//group, keys), (heads//group, keys)
    return [normal(batch, h, n, dim, seed=i, dtype=dtype) for i, (h, n) in enumerate(sizes)]


def exact(q, k, v, causal=False, scale=None, window=None, lens=None, bias=None):
    "(out, lse) in float64, with the whole matrix of scores; a row that looks at nothing gives 0"
    q, k, v = (x.double() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1]//k.shape[1], 1) for x in (k, v))
    i, j = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])
    looks = (torch.ones(i.numel(), j.numel()) > 0) & (~torch.tensor(causal) | (j <= i))
    if window: looks = looks & ((i - j).abs() < window)
    if lens is not None:
        rows, keys = (x[:, None, None, None] for x in (lens if isinstance(lens, tuple) else (lens, lens)))
        looks = looks & (i < rows) & (j < keys)
    s = q @ k.mT*(scale or q.shape[-1]**-.5)
    if bias: s = s - 2.**(-torch.arange(s.shape[1])[:, None, None] - 1)*(i - j)
    s = s.masked_fill(~looks, -math.inf)
    return s.softmax(-1).nan_to_num(0) @ v, s.logsumexp(-1)


def is_near(got, want):
    # P and results are rounded to bfloat16, 2^-9 of each; many of random signs do not add up to twice that
    torch.testing.assert_close(got.double(), want, rtol=0, atol=2**-8*want.abs().max().item())


def both(given, **how):
    "`attention` of these, held against float64"
    out, lse = attention(*given, **how, lse=True)
    want, wanted = exact(*given, **how)
    is_near(out, want)
    torch.testing.assert_close(lse.double(), wanted, rtol=1e-5, atol=1e-5)    # float32, a sum of some hundreds


@pytest.mark.slow
def test_unaligned_sizes_and_grouped_heads():
    for rows, keys in ((1, 1), (191, 129), (193, 260)): both(qkv(1, 2, 2, rows, keys, 64))


@pytest.mark.slow
def test_causal_with_lengths():
    both(qkv(2, 2, 1, 260, 260, 128), causal=True, lens=torch.tensor([129, 260]))
    both(qkv(2, 1, 1, 130, 70, 128), causal=True, lens=(torch.tensor([130, 0]), torch.tensor([0, 70])))


@pytest.mark.slow
def test_a_window_and_a_scale():
    both(qkv(1, 2, 1, 400, 300, 64), window=50, scale=.3)     # the last rows look at nothing


def by_mma_sync(monkeypatch):
    monkeypatch.setattr(attentions, 'current_device_properties', lambda: Device(132, False))


@pytest.mark.slow
def test_mma_sync():
    with pytest.MonkeyPatch.context() as patch:
        by_mma_sync(patch)
        assert attention_backend(*qkv(1, 1, 1, 3, 3, 64)).name == 'mma.sync'
        both(qkv(2, 2, 2, 131, 131, 64), causal=True, window=100, lens=torch.tensor([130, 65]))


def slopes(given, **how):
    "(gradients, those of float64)"
    given = [x.requires_grad_() for x in given]
    dout = normal(*given[0].shape, seed=3)
    got = torch.autograd.grad(attention(*given, **how), given, dout)
    wide, how = [x.detach().double().requires_grad_() for x in given], dict(how)
    for o in ('gradients', 'deterministic'): how.pop(o, None)
    return got, torch.autograd.grad(exact(*wide, **how)[0], wide, dout.double())


def gradients(given, **how):
    "Held against float64; p, ds and the results are rounded to bfloat16, and rows add up with random signs"
    for g, w in zip(*slopes(given, **how)):
        torch.testing.assert_close(g.double(), w.nan_to_num(0), rtol=0, atol=2**-7*w.nan_to_num(0).abs().max().item())


@pytest.mark.slow
def test_gradients():
    gradients(qkv(1, 2, 2, 65, 130, 64))
    gradients(qkv(1, 2, 1, 65, 130, 64), gradients='sdpa', window=70)


def test_registers_that_warpgroups_ask_for_are_there():
    "A launch has 168 per thread, as many as 384 threads can have; a request for more than others released deadlocks"
    text = sources.source('backward_hopper')
    down, up = (int(re.search(rf'setmaxnreg_{o}<(\d+)>', text)[1]) for o in ('dec', 'inc'))
    assert 65536//384//8*8 == 168 and down + 2*up <= 3*168


@pytest.mark.slow
def test_gradients_of_masked_rows():
    gradients(qkv(2, 1, 1, 190, 190, 128), causal=True, window=70, lens=torch.tensor([190, 20]))


FIXED_ORDER = [mark_exhaustive({}), dict(causal=True), mark_exhaustive(dict(window=90))]


@pytest.mark.slow
@pytest.mark.parametrize('how', FIXED_ORDER, ids=str)
def test_gradients_in_a_fixed_order(how):
    "Whichever block runs first"
    found = []
    for order in ('forward', 'reverse'):
        with emulator.options(order=order):
            found.append(slopes(qkv(1, 1, 1, 390, 390, 64), **how, deterministic=True))
    (one, want), (other, _) = found
    assert all(map(torch.equal, one, other))
    for g, w in zip(one, want):                                        # as in `gradients`
        torch.testing.assert_close(g.double(), w, rtol=0, atol=2**-7*w.abs().max().item())


@pytest.mark.slow
def test_alibi():
    given, bias = qkv(1, 2, 1, 65, 130, 64), '-exp2f(-head - 1)*(row - key)'
    both(given, bias=bias)
    gradients(given, bias=bias)
    with pytest.raises(ValueError, match="gradients='kernel'"):
        attention(*given, bias=bias, gradients='sdpa')
    with pytest.raises(ValueError, match='bias'): attention(*(x.float() for x in given), bias=bias)


@pytest.fixture(scope='module', autouse=True)
def at_once(request):
    with one_unit(request, [test_unaligned_sizes_and_grouped_heads, test_causal_with_lengths,
                                 test_a_window_and_a_scale, test_mma_sync,
                                 test_gradients, test_gradients_of_masked_rows,
                                 *(partial(test_gradients_in_a_fixed_order, *values)
                                   for values in included_values(request, FIXED_ORDER)),
                                 test_alibi]):
        yield


def test_large_scores_do_not_overflow():
    q, k, v = qkv(1, 2, 1, 260, 260, 128)
    both((q*30, k, v), causal=True, lens=torch.tensor([260]))


def test_scores_that_rise_from_tile_to_tile():
    "By so little that shares stay in their unit, or by more"
    for rise in (.5, 3, 40):                                   # of 260 keys
        q, k, v = qkv(1, 1, 1, 70, 260, 64)
        k[..., 0] = torch.linspace(0, rise, 260)
        q[..., 0] = 8                                          # over the square root of 64
        both((q, k, v))


def test_heads_between_rows():
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in qkv(2, 4, 2, 191, 129, 64))
    both((q, k, v))


def test_what_is_left_to_sdpa():
    given = qkv(1, 2, 2, 40, 50, 64, torch.float32)
    name, why = attention_backend(*given)
    assert name == 'sdpa' and names(why, 'bfloat16', 'float32')
    near = dict(rtol=1e-5, atol=1e-5)                                          # float32 sums of some fifty elements
    torch.testing.assert_close(attention(*given, causal=True).double(), exact(*given, causal=True)[0], **near)
    lens = torch.tensor([0]), torch.tensor([50])
    assert attention(*given, lens=lens).eq(0).all()
    with pytest.raises(ValueError, match=saying('lse', 'SDPA')): attention(*given, lse=True)
    assert 'head dimension 64, 128, 256' in attention_backend(*qkv(1, 1, 1, 3, 3, 96)).reason


@pytest.mark.slow
def test_lengths_beyond_the_sizes_are_all_or_nothing():
    q, k, v = qkv(2, 2, 1, 20, 30, 64)
    given = dict(lens=(torch.tensor([20, 5]), torch.tensor([30, 0])))
    beyond = dict(lens=(torch.tensor([99, 5]), torch.tensor([1000, -3])))
    assert torch.equal(attention(q, k, v, **given), attention(q, k, v, **beyond))
    by_torch = [attention(q.float(), k.float(), v.float(), **o) for o in (given, beyond)]
    assert torch.equal(*by_torch) and by_torch[0][1].eq(0).all()


def test_nothing_gives_nothing():
    q, k, v = qkv(1, 2, 1, 5, 0, 64)
    assert attention(q, k, v).eq(0).all() and attention(v, k, v).shape == (1, 2, 0, 64)


def test_bad_input_is_named():
    q, k, v = qkv(2, 4, 2, 5, 6, 64)
    for given, how, error, says in (
            (([1], k, v), {}, TypeError, 'q is a list'), ((q, k.int(), v), {}, TypeError, 'k is int32'),
            ((q, k, v[0]), {}, ValueError, r'v has shape .*expected \[batch'), ((q, k, v[:1]), {}, ValueError, 'v'),
            ((q, k.float(), v), {}, ValueError, r'k is torch.float32.*k\.to\(q\)'),
            ((q[:1], k, v), {}, ValueError, 'batch and dim'),
            ((q[:, :3], k, v), {}, ValueError, 'q has 3 heads .* 2'),
            ((q, k, v), dict(scale=-1), ValueError, 'scale'),
            ((q, k, v), dict(window=0), ValueError, 'window is 0'),
            ((q, k, v), dict(gradients='mine'), ValueError, "'sdpa' or 'kernel'"),
            ((q, k, v), dict(gradients='sdpa', deterministic=True), ValueError, "SDPA.*deterministic.*'kernel'"),
            ((q, k, v), dict(lens=torch.tensor([1, 2])), ValueError, 'different lengths'),
            ((q, k, v), dict(lens=(torch.tensor([1]),)*2), ValueError, 'lens .* 2 integers'),
            ((q, k, v), dict(lens=[torch.tensor([1, 2])]), ValueError, 'lens has 1 items'),
            ((q, k, v), dict(scale='large'), ValueError, "scale is 'large'"),
            ((q, k, v), dict(window=True), ValueError, 'window is True'),
            ((q, k, v), dict(bias=torch.ones(8, 8)), TypeError, 'bias must be a string')):
        with pytest.raises(error, match=says): attention(*given, **how)


@pytest.mark.slow
def test_the_operator_is_one():
    q, k, v = qkv(1, 4, 2, 30, 40, 64)
    torch.library.opcheck(torch.ops.gridstride.attention.default, (q, k, v, False, .125, 0, None, ''))
    out, lse = attention(q, k, v, lse=True)
    given = normal(*out.shape, seed=4), q, k, v, out, lse, False, .125, 0, None, '', 'kernel'
    torch.library.opcheck(torch.ops.gridstride.attention_backward.default, given)


def test_a_constant_is_marked_as_torch_marks_it():
    marked, torchs = operators.constant(lambda: 1), torch.compiler.assume_constant_result(lambda: 1)
    assert vars(marked) == vars(torchs) != {}


@pytest.mark.slow
def test_torch_compile_keeps_it_whole():
    def f(q, k, v): return sum(attention(2*q, k, v, gradients=o).relu().sum() for o in ('kernel', 'sdpa'))
    given = [x.requires_grad_() for x in qkv(1, 2, 2, 65, 130, 64)]
    compiled = torch.compile(f, fullgraph=True, backend='aot_eager')
    for got, want in zip(torch.autograd.grad(compiled(*given), given), torch.autograd.grad(f(*given), given)):
        # dq's addends come in any order
        torch.testing.assert_close(got, want, rtol=0, atol=2**-7*want.abs().max().item())


@pytest.mark.slow
@pytest.mark.exhaustive
def test_an_exported_program_finds_itself_right(monkeypatch, capfd):
    "And one without the sums of dout*out wrong"
    monkeypatch.setattr(programs, 'CHECKED_SIZES', ((2, 4, 2, 24, 24),))
    monkeypatch.setattr(programs, 'TIMED_SIZES', {64: (1, 2, 1, 70, 131)})
    program = programs._program(programs.Variant('backward', 64, True))
    text = standalone.program_source(program).replace('gpu.multiProcessorCount >= SMS', 'true')
    right, wrong = 'dp[i + y] - (y%2 ? x.y : x.x)', 'dp[i + y] - (WRONG ? 0 : y%2 ? x.y : x.x)'
    assert right_and_wrong(text, right, wrong, 'attention', monkeypatch) == [0, 1]
    assert re.findall(r'^(\w+) attention_backward_64_causal', capfd.readouterr().out, re.M) == ['PASS', 'FAIL']


def test_gradients_of_parts_of_the_keys_add_up():
    q, k, v = qkv(1, 1, 1, 70, 70, 64)
    dout = normal(1, 1, 70, 64, seed=3)
    out, lse = attention(q, k, v, lse=True)
    into = [torch.full_like(x, torch.nan) for x in (q, k[:, :, :40], v[:, :, :40])]
    parts = [key_parts.attention_gradients(dout, q, k[:, :, p], v[:, :, p], out, lse, outputs=o)
             for p, o in ((slice(40), into), (slice(40, None), None))]
    assert all(a is b for a, b in zip(parts[0], into))
    given = [x.double().requires_grad_() for x in (q, k, v)]
    wants = torch.autograd.grad(exact(*given)[0], given, dout.double())
    is_near(sum(p[0].double() for p in parts), wants[0])
    for i in (1, 2): is_near(torch.cat([p[i] for p in parts], 2), wants[i])


def scores(q, k): return q.double() @ k.double().mT*q.shape[-1]**-.5


def attend_all(s, *values):
    "out and lse by scores of several arrays of keys"
    return s.softmax(-1) @ torch.cat(values, 2).double(), s.logsumexp(-1)


@pytest.mark.slow
@pytest.mark.parametrize('rows, first, keys, dim, causal, wide', [
    mark_exhaustive((200, 70, 130, 64, False, False)), (200, 1, 90, 128, False, True), (70, 0, 70, 64, True, True)])
def test_more_keys_are_merged_by_the_kernel_itself(rows, first, keys, dim, causal, wide):
    q, k, v = qkv(1, 2, 1, rows, keys, dim)
    before = [x[:, :, :50].flip(2).contiguous() for x in (k, v)]
    out, lse = attend_all(scores(q, before[0]), before[1])
    out, lse = out.to(torch.float32 if wide else torch.bfloat16).contiguous(), lse.float().contiguous()
    key_parts.attend_and_merge(out, lse, first, q[:, :, first:].contiguous(), k, v, causal)
    more = scores(q, k)
    if causal: more = more.masked_fill(torch.ones(rows, keys, dtype=torch.bool).triu(1), -math.inf)
    more[:, :, :first] = -math.inf
    want, wanted = attend_all(torch.cat([scores(q, before[0]), more], -1), before[1], v)
    is_near(out, want)
    torch.testing.assert_close(lse.double(), wanted, rtol=1e-5, atol=1e-5)


def test_keys_without_queries_get_queries():
    "Rows that have attended to nothing yet, whose buffer may hold anything; and a fresh result"
    q, k, v = qkv(1, 1, 1, 70, 66, 64)
    want, wanted = attend_all(scores(q, k), v)
    for fresh, lse in ((False, torch.full((1, 1, 70), -math.inf)), (True, torch.full((1, 1, 70), torch.nan))):
        out = torch.full((1, 1, 70, 64), torch.nan, dtype=torch.bfloat16)
        key_parts.attend_and_merge(out, lse, 0, q, k, v, overwrite=fresh)
        is_near(out, want)
        torch.testing.assert_close(lse.double(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize('batch, group, rows, first, others, dim, causal, wide, parts', [
    mark_exhaustive((1, 1, 200, 70, 130, 64, True, False, 1)), (1, 1, 260, 130, 260, 128, True, True, 2),
    mark_exhaustive((2, 2, 130, 0, 65, 64, False, False, 4))])
def test_two_arrays_of_keys(batch, group, rows, first, others, dim, causal, wide, parts):
    q, k, v = qkv(batch, 2, group, rows, rows, dim)
    more = [x.flip(2).contiguous() for x in qkv(batch, 2, group, rows, others, dim)[1:]]
    there = torch.tensor([7], dtype=torch.int32)
    out, lse = key_parts.attention_pair(q, k, v, *more, first, there, there.clone(), causal,
                                         float32_out=wide, num_parts=parts)
    k, v, *more = (x.repeat_interleave(group, 1) for x in (k, v, *more))
    own, other = scores(q, k), scores(q, more[0])
    if causal: own = own.masked_fill(torch.ones(rows, rows, dtype=torch.bool).triu(1), -math.inf)
    other[:, :, :first] = -math.inf
    want, wanted = attend_all(torch.cat([own, other], -1), v, more[1])
    assert out.dtype == (torch.float32 if wide else torch.bfloat16)
    is_near(out, want)
    torch.testing.assert_close(lse.double(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('heads, group, rows, others, first, parts', [
    (2, 1, 200, 130, 70, 1), (16, 1, 8192, 4096, 0, 4), (6, 3, 700, 300, 300, 4), (1, 1, 24, 24, 0, 2)])
def test_each_tile_is_taken_once(heads, group, rows, others, first, parts):
    c = calls.AttentionProblem(1, heads, group, rows, rows, 128, True, 0, False)
    order = calls.pair_order(c, Device(132, True), first, others, parts)
    assert sorted(order) == list(range(heads*cdiv(rows, 192)))


def test_blocks_take_tiles_in_an_order_that_ends_early(monkeypatch):
    "By hand: two blocks, two heads; ranks of a ring, whose heads are in work one after the other but for the last"
    late = schedule.order_by_sections(2, 2, 1, num_late_rows=1)
    assert late == [(0, 1), (1, 1), (0, 0), (1, 0)]
    assert schedule.order_by_sections(3, 2, 1, num_last_heads=2) == [(0, 1), (0, 0), (1, 1), (2, 1), (1, 0), (2, 0)]
    with monkeypatch.context() as m:
        m.setattr(schedule, '_JITTER', 0)
        end = schedule.simulate_end(late, (1, 5), (0, 4), 2, [0, 9.5])
        assert end == 9.5 + 4 + 2.5 + 1                                             # head 1 waits for two steps
    for first, others in (0, 16384), (16384, 32768):
        c, on = calls.AttentionProblem(1, 16, 1, 32768, 32768, 128, True, 0, False), Device(132, True)
        order = calls.pair_order(c, on, first, others, 4)
        heads = [n//171 for n in order]
        assert heads[:13*171] == sorted(heads[:13*171]) and set(heads[13*171:]) == {13, 14, 15}


@pytest.mark.parametrize('heads, group, section, rows, first', [
    (16, 1, 4, 43, 21), (16, 1, 5, 43, 0), (8, 4, 4, 30, 10), (2, 1, 2, 3, 0), (6, 2, 2, 50, 50)])
def test_no_order_that_was_tried_ends_much_earlier(heads, group, section, rows, first):
    own, other = [2*r + 3 for r in range(rows)], [rows if r >= first else 0 for r in range(rows)]
    order = schedule.choose_order(heads, own, other, 132, group, section, 1)
    tried = [schedule.order_by_sections(heads, rows, section, last, rows*late//8)
             for late in (0, 1, 2, 3, 4, 8) for last in (0, min(heads, section + 2*group))]
    assert order in tried and all(sorted(o) == sorted(order) for o in tried)
    end, *ends = (schedule.simulate_end(o, own, other, 132, [rows]*heads) for o in (order, *tried))
    assert end < 1.02*min(ends)


@pytest.mark.slow
def test_dq_of_parts_is_summed_in_one_buffer():
    "All rows see 40 keys, those from 64 on the others, too"
    q, k, v = qkv(2, 2, 1, 150, 150, 64)
    dout = normal(2, 2, 150, 64, seed=3)
    given = [x.double().requires_grad_() for x in (q, k, v)]
    s = scores(*given[:2])
    s = s.masked_fill((torch.arange(150)[:, None] < 64) & (torch.arange(150) >= 40), -math.inf)
    out, lse = attend_all(s, given[2])
    wants = torch.autograd.grad(out, given, dout.double())
    rows = key_parts.PartGradients(dout, q, out.detach().bfloat16(), lse.detach().float())
    parts = [rows.add(k[:, :, p].contiguous(), v[:, :, p].contiguous(), first)
             for p, first in ((slice(40), 0), (slice(40, None), 64))]
    is_near(rows.dq(), wants[0])
    for i in (0, 1): is_near(torch.cat([p[i] for p in parts], 2), wants[1 + i])
    with pytest.raises(ValueError, match=saying('first', 63, 64)):
        rows.add(k, v, 63)


@pytest.mark.slow
def test_gradients_go_to_any_buffer():
    "Also to columns of something wider, which kernels cannot write in whole sectors"
    q, k, v = qkv(2, 2, 1, 70, 70, 64)
    dout = normal(2, 2, 70, 64, seed=3)
    out, lse = attention(q, k, v, lse=True)
    want = key_parts.attention_gradients(dout, q, k, v, out, lse)
    into = [torch.full((*x.shape[:3], 65), torch.nan, dtype=x.dtype)[..., 1:] for x in (q, k, v)]
    got = key_parts.attention_gradients(dout, q, k, v, out, lse, outputs=into)
    rows = key_parts.PartGradients(dout, q, out, lse)
    more = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in want[1:]]
    parts = rows.add(k, v, outputs=more)
    assert all(a is b for a, b in zip([*got, *parts], [*into, *more]))
    for a, b in zip([*got, rows.dq(), *parts], [*want, *want]): assert a.equal(b)


def test_output_buffers_that_do_not_fit():
    q, k, v = qkv(1, 1, 1, 70, 66, 64)
    out, lse, one = torch.empty_like(q), torch.empty(1, 1, 70), torch.ones(1, dtype=torch.int32)
    onto, pair, parts = key_parts.attend_and_merge, key_parts.attention_pair, key_parts.PartGradients
    wrong = {
        r'out is torch.bfloat16 \(1, 1, 70, 64\) on cpu; .*torch.bfloat16 or torch.float32 \(1, 1, 71, ':
            lambda: onto(out, lse, 1, q, k, v),
        'out is torch.float64': lambda: onto(out.double(), lse, 0, q, k, v),
        'out .*contiguous': lambda: onto(torch.empty(1, 1, 64, 70).bfloat16().mT, lse, 0, q, k, v),
        'lse is torch.float64': lambda: onto(out, lse.double(), 0, q, k, v),
        'first_row is -1': lambda: onto(out[:, :, 1:], lse[:, :, 1:], -1, q, k, v),
        'our kernels support bfloat16; q is float32':
            lambda: onto(out, lse, 0, *(x.float() for x in (q, k, v))),
        r'k \(1, 1, 0, 64\)': lambda: onto(out, lse, 0, q, k[:, :, :0], v[:, :, :0]),
        'first_row is 70': lambda: pair(q, k, v, k, v, 70, one, one),
        'num_parts is 0': lambda: pair(q, k, v, k, v, 0, one, one, num_parts=0),
        'k has 1 heads and other_k 2': lambda: pair(*qkv(1, 2, 2, 70, 66, 64), *[k.repeat(1, 2, 1, 1)]*2, 0, one, one),
        'other_v .*16-byte aligned':
            lambda: pair(q, k, v, k, torch.empty(1, 1, 66, 65).bfloat16()[..., 1:], 0, one, one),
        'arrival_counter is torch.int64': lambda: pair(q, k, v, k, v, 0, one.long(), one),
        r'dout is torch.bfloat16 \(1, 1, 69, 64\)': lambda: parts(q[:, :, 1:], q, out, lse),
        'lse .*contiguous': lambda: parts(q, q, out, torch.empty(1, 1, 140)[..., ::2]),
        'PartGradients: it needs a Hopper GPU, and head dimension 64, 128':
            lambda: parts(*[torch.empty(1, 1, 70, 256, dtype=q.dtype)]*3, lse),
        'attention_gradients: out is torch.float32':
            lambda: key_parts.attention_gradients(q, q, k, v, out.float(), lse),
    }
    for why, call in wrong.items():
        with pytest.raises(ValueError, match=why): call()
