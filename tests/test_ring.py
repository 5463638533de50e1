"The ring on processes of this machine, against attention in float64; and what becomes of a rank that fails."
import math, multiprocessing, os, random, signal, subprocess, sys, time, types
from contextlib import contextmanager

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from gridstride import ring
from gridstride.ring import processes, transport
from exhaustive import mark_exhaustive
from found import names, saying

pytestmark = pytest.mark.usefixtures('warm_ranks')
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # or each rank imports this file, and pytest with it


def given(n, dim=16, heads=2, batch=1):
    rng = torch.Generator().manual_seed(n)
    return [2*torch.randn(batch, heads, n, dim, generator=rng, dtype=torch.float64) for _ in range(4)]


def exact(q, k, v, dout, causal):
    "out, dq, dk, dv of the whole sequence"
    q, k, v = (x.clone().requires_grad_() for x in (q, k, v))
    s = q @ k.mT/q.shape[-1]**.5
    if causal: s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    out = s.softmax(-1) @ v
    return out.detach(), *torch.autograd.grad(out, (q, k, v), dout)


def several(rank, jobs, dtype):
    "out, dq, dk and dv of this rank, per job"
    res = []
    for order, causal, parts in jobs:
        q, k, v, dout = (x[rank].to(dtype) for x in parts)
        q, k, v = (x.requires_grad_() for x in (q, k, v))
        out = ring.attention(q, k, v, order, causal)
        res.append((out.detach(), *torch.autograd.grad(out, (q, k, v), dout),
                    ring.gathered_attention(q.detach(), k.detach(), v.detach(), order, causal)))
    return res


def test_processes_start_while_a_shell_of_ipython_runs(monkeypatch):
    main = types.ModuleType('__main__')
    del main.__spec__
    monkeypatch.setitem(sys.modules, '__main__', main)
    assert ring.launch(lambda rank: rank, 1, backend='gloo') == [0]


def test_a_program_that_is_started_whole_is_not_started_again(tmp_path):
    program = tmp_path/'program.py'
    program.write_text("""print('begins')
from dataclasses import dataclass
from gridstride import ring
@dataclass
class Place: rank: int
def f(rank, first): return Place(first + rank)
print(ring.launch(f, 2, 3, backend='gloo') == [Place(3), Place(4)])
""")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.returncode) == ('begins\nTrue\n', 0), done.stderr


def loaded(rank):
    q = torch.ones(1, 1, 8, 16, requires_grad=True)
    ring.attention(q, q, q).sum().backward()
    return 'gridstride.kernels.flash.attentions' in sys.modules, 'torch._dynamo' in sys.modules


def test_no_rank_loads_the_compiler(): assert ring.launch(loaded, 1, backend='gloo') == [(True, False)]


@pytest.mark.parametrize('ranks', (1, 2, 3, 4))
def test_forward_and_backward(ranks):
    sizes = {1: (6,), 2: (4, 28), 3: (30,), 4: (8, 56)}[ranks]
    kinds = [(o, True) for o in ring.ORDERS] + [('zigzag', False)]
    whole = [(order, causal, given(n)) for n in sizes for order, causal in kinds]
    jobs = [(order, causal, [ring.split(x, order, ranks) for x in xs]) for order, causal, xs in whole]
    got = ring.launch(several, ranks, jobs, torch.float64, backend='gloo')
    for i, (order, causal, (q, k, v, dout)) in enumerate(whole):
        expected = exact(q, k, v, dout, causal)
        names, parts_of = ('out', 'dq', 'dk', 'dv', 'gathered'), zip(*[g[i] for g in got])
        for what, want, parts in zip(names, (*expected, expected[0]), parts_of):
            # the same sums in another order
            torch.testing.assert_close(ring.join(parts, order), want, rtol=1e-10, atol=1e-10,
                                       msg=lambda m: f'{order}, causal={causal}, {what}: {m}')


def test_float32_is_as_near_as_its_digits():
    q, k, v, dout = given(24)
    got = ring.launch(several, 2, [('zigzag', True, [ring.split(x, 'zigzag', 2) for x in (q, k, v, dout)])],
                      torch.float32, backend='gloo')
    for want, parts in zip(exact(q, k, v, dout, True), zip(*[g[0] for g in got])):
        # scores are up to 60, with 24 bits: their exponentials are wrong by 60*2**-24 = 4e-6
        far = (ring.join(parts, 'zigzag').double() - want).abs().max()/want.abs().max()
        assert far < 1e-5


class Watched(ring.SendRecv):
    "Tensors that have arrived, for a kernel that would wait for them by itself"
    def open(self, *tensors, needed_keys=None, num_parts=1):
        super().open(*tensors, needed_keys=needed_keys)
        self.num_parts = num_parts

    def fetch(self, step):
        post, flag = super().fetch(step), torch.ones(1, dtype=torch.int32)
        post.wait()
        post.num_parts, post.watch = self.num_parts, lambda: (flag, flag)
        return post


def by_the_kernels(rank, parts, order, watched):
    "out, dq, dk and dv of this rank by `ring.hopper`, on the emulator"
    q, k, v, dout = (x[rank] for x in parts)
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    out = ring.attention(q, k, v, order, kernels=ring.hopper, transport=Watched() if watched else None)
    return out.detach(), *torch.autograd.grad(out, (q, k, v), dout)


@pytest.mark.parametrize('ranks, rows, batch, order, watched', [
    mark_exhaustive((2, 128, 1, 'zigzag', False)), (2, 128, 2, 'zigzag', True),
    mark_exhaustive((3, 128, 1, 'zigzag', True)), mark_exhaustive((3, 66, 2, 'contiguous', True)),
    mark_exhaustive((2, 70, 2, 'zigzag', False)), mark_exhaustive((3, 65, 1, 'striped', False))])
def test_kernels_that_merge_and_sum_by_themselves(ranks, rows, batch, order, watched):
    "Where rows begin within a tile (the last two), dq is summed by torch"
    given_whole = [x.bfloat16() for x in given(rows*ranks, 64, 1, batch)]
    parts = [ring.split(x, order, ranks) for x in given_whole]
    got = ring.launch(by_the_kernels, ranks, parts, order, watched, backend='gloo')
    for want, parts in zip(exact(*(x.double() for x in given_whole), True), zip(*got)):
        far = ring.join(parts, order).double() - want
        # of each number that is rounded to bfloat16, shares and parts of gradients among them, 2^-9; on average less
        assert far.square().mean().sqrt() < 2**-7*want.square().mean().sqrt()


@pytest.mark.parametrize('together', (False, True))
@pytest.mark.parametrize('kept', (torch.float32, torch.bfloat16))
def test_gradients_are_added_where_they_belong(together, kept):
    "To all keys or to some, in any order of memory: a copy of what is added to would be lost"
    from gridstride.ring import passes
    sums = [torch.zeros(2, 3, 8, 4, dtype=kept).transpose(1, 2).contiguous().transpose(1, 2) for _ in range(2)]
    if together: sums = [x.contiguous() for x in sums]
    for keys in (slice(None), slice(4), slice(1, None)):
        passes._add_key_grads(sums, keys, [torch.ones(2, 3, 8, 4, dtype=torch.bfloat16)[:, :, keys]]*2)
    want = torch.tensor([2, 3, 3, 3, 2, 2, 2, 2]).to(kept)[:, None].expand(2, 3, 8, 4)
    for x in sums: assert x.equal(want)


def test_copy_engines_get_the_addresses_of_keys(monkeypatch):
    "Played by the CPU; of a single head, whose stride means nothing, and of several, some of them at a time"
    import ctypes
    def copy(name, *given):
        if name == 'cuMemcpyAsync': return ctypes.memmove(*given[:3])
        o, name = given[0]._obj, name.removesuffix('_v2')
        assert name == 'cuMemcpy2DAsync' and o.width <= min(o.from_pitch, o.to_pitch)
        for i in range(o.height): ctypes.memmove(o.to_device + i*o.to_pitch, o.from_device + i*o.from_pitch, o.width)
    monkeypatch.setattr(transport, '_call_driver', copy)
    for batch, heads in ((1, 1), (2, 1), (2, 3)):
        x = torch.randn(batch, 8, heads, 4).transpose(1, 2)
        x = x.contiguous()                             # with one head, as it is
        for keys in (slice(None), slice(4), slice(1, None), slice(-1), slice(0)):
            to = torch.zeros(batch, heads, 8, 4)
            for some in (slice(0, 1), slice(1, batch*heads), slice(1, 1)):
                transport._copy_keys(None, to.data_ptr(), x, keys, some)
            want = torch.zeros_like(to)
            want[:, :, keys] = x[:, :, keys]
            assert to.equal(want)


def refused(rank):
    x, said = torch.zeros(1, 1, 8, 16), []
    for q, k, how in ((x, x.numpy(), {}), (x, x.double(), {}), (x, x[:, :, 1:], {}), (x[0], x[0], {}),
                      (x, x, dict(transport=ring.SendRecv)), (x, x, dict(transport='copies'))):
        try: ring.attention(q, k, q, **how)
        except (TypeError, ValueError) as e: said.append(f'{type(e).__name__}: {e}')
    return said


def test_what_a_ring_cannot_take_is_refused(monkeypatch):
    [said] = ring.launch(refused, 1, backend='gloo')
    alike = 'ValueError: ring: q, k and v must have the same shape [batch, heads, rows, dim], dtype and device; got '
    assert names(said[0], 'TypeError: ring: k', 'ndarray', 'torch tensor')
    assert all(o.startswith(alike + f'{size} torch.float32 on cpu, ')
               for o, size in zip(said[1:4], ('(1, 1, 8, 16)', '(1, 1, 8, 16)', '(1, 8, 16)')))
    assert said[4:] == [f'TypeError: ring: transport is {o}; expected an instance, such as transport=ring.CopyEngine()'
                        for o in ("<class 'gridstride.ring.transport.SendRecv'>", "'copies'")]
    monkeypatch.setattr('gridstride.ring.ulysses_and_tree.rank_and_ranks', lambda: (0, 4))
    q, k = torch.zeros(1, 4, 8, 16), torch.zeros(1, 2, 8, 16)
    with pytest.raises(ValueError, match=saying('k has 2 heads', 4)): ring.ulysses_attention(q, k, k)
    monkeypatch.setattr(transport, 'rank_and_ranks', lambda: (0, 1))
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: False)
    with pytest.raises(RuntimeError, match=r'ring\.SendRecv'): ring.CopyEngine()


def others(rank, parts, keys, row):
    q, k, v = (x[rank] for x in parts)
    return ring.ulysses_attention(q, k, v, 'striped'), ring.tree_decode(row, *(x[rank] for x in keys))


def test_ulysses_and_the_tree():
    q, k, v, _ = given(24, heads=4)
    parts, keys = [ring.split(x, 'striped', 4) for x in (q, k, v)], [ring.split(x, 'contiguous', 4) for x in (k, v)]
    got = ring.launch(others, 4, parts, keys, q[:, :, -1:], backend='gloo')
    want = exact(q, k, v, torch.ones_like(q), True)[0]
    torch.testing.assert_close(ring.join([g[0] for g in got], 'striped'), want, rtol=1e-10, atol=1e-10)
    for g in got: torch.testing.assert_close(g[1], want[:, :, -1:], rtol=1e-10, atol=1e-10)    # the last row sees all


def test_a_merge_with_a_part_that_saw_nothing():
    out, part = torch.randn(1, 2, 5, 64), torch.randn(1, 2, 3, 64)
    lse, part_lse = torch.randn(1, 2, 5), torch.full((1, 2, 3), -math.inf)
    kept, kept_lse = out.clone(), lse.clone()
    ring.merge(out, lse, part, part_lse, 2)
    assert torch.equal(out, kept) and torch.equal(lse, kept_lse)


@pytest.mark.parametrize('order', ring.ORDERS)
def test_pieces_are_what_a_mask_leaves(order):
    ranks, n = 3, 12
    every = [ring.positions(order, n, ranks, r) for r in range(ranks)]
    assert sorted(torch.cat(every).tolist()) == list(range(n))
    for a in range(ranks):
        for b in range(ranks):
            sees, p = torch.zeros(4, 4, dtype=torch.bool), ring.score_block(order, a, b, 4, True)
            if p:
                part = sees[p.rows, p.keys]
                part |= torch.ones_like(part).tril() if p.causal else True
            assert torch.equal(sees, every[a][:, None] >= every[b])
            assert ring.scores_of(p, 4) == sees.sum()


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match='10 .*4 .*zigzag'):
        ring.split(torch.zeros(10, 2), 'zigzag', 2)
    with pytest.raises(ValueError, match=saying('order', "'spiral'")): ring.positions('spiral', 8, 2, 0)
    with pytest.raises(ValueError, match=saying('rank is', 2, '0 to 1')): ring.positions('zigzag', 8, 2, 2)
    with pytest.raises(ValueError, match='ranks is 0'): ring.positions('zigzag', 8, 0, 0)
    with pytest.raises(ValueError, match='integer'): ring.launch(print, 0)
    with pytest.raises(TypeError, match=saying('fn is', 2, 'function')): ring.launch(2, print)
    x = torch.zeros(1, 1, 8, 16)
    for way in (ring.attention, ring.gathered_attention, ring.ulysses_attention, ring.tree_decode):
        with pytest.raises(RuntimeError, match=saying('not a rank', 'ring.launch(f, 4)')): way(x, x, x)
    with pytest.raises(ValueError, match=saying('method', "'pigeon'")): ring.bytes_sent('pigeon', 8, 2)


# Ranks that fail
def fails(rank, how, began):
    ring.attention, dist.barrier()                  # all have imported what they need
    began.touch()
    if rank == 1:
        if how == 'dies': os.kill(os.getpid(), signal.SIGKILL)
        if how == 'leaves': os._exit(3)
        if how == 'aborts': os.abort()
        if how == 'raises': raise KeyError('nobody')
        if how == 'hangs': time.sleep(1000)
    if how == 'late' and rank == 2: time.sleep(1000)
    x = torch.randn(1, 1, 4, 8)
    if how != 'late': ring.attention(x, x, x, transport=ring.SendRecv(timeout=1))


@pytest.mark.parametrize('how, rank, why', [
    ('dies', 1, 'died: SIGKILL'), ('aborts', 1, 'SIGABRT; gloo'),
    ('leaves', 1, 'with code 3'), ('raises', 1, "KeyError: 'nobody'"),
    ('hangs', 1, 'time.sleep(1000)'), ('late', 2, 'time.sleep(1000)')])
def test_a_rank_that_fails_is_named_and_none_is_left(how, rank, why, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, '_GRACE_SECONDS', 20.)         # because a busy machine delays all reports
    monkeypatch.setattr(processes, '_SETTLE_SECONDS', 2.)
    before, began = set(multiprocessing.active_children()), tmp_path/'began'
    with pytest.raises(ring.RankError) as e: ring.launch(fails, 3, how, began, backend='gloo', timeout=1.5)
    assert time.time() - began.stat().st_mtime < 100
    assert e.value.rank == rank and why in str(e.value) and sorted({rank, *e.value.others}) == [0, 1, 2]
    if how in ('dies', 'leaves', 'aborts', 'hangs'):
        assert all('waiting for' in o for o in e.value.others.values()), str(e.value)
        assert any('timed out' in o for o in e.value.others.values()), str(e.value)
    assert set(multiprocessing.active_children()) == before


def test_an_interrupt_leaves_no_process():
    before = set(multiprocessing.active_children())
    def interrupt(*_): raise KeyboardInterrupt
    old = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, .5)
    try:
        with pytest.raises(KeyboardInterrupt): ring.launch(time.sleep, 2, backend='gloo')
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert set(multiprocessing.active_children()) == before


def shows(rank):
    print('I am', rank)
    return rank


def test_what_ranks_print_is_printed(capsys):
    assert ring.launch(shows, 2, backend='gloo') == [0, 1]
    assert sorted(capsys.readouterr().out.splitlines()) == ['rank 0: I am 0', 'rank 1: I am 1']


# `CopyEngine`, whose streams and copy engines are played here: what a GPU does in an order of its own is done in any
# order that its streams allow
class Queue:
    "A stream: what is to be done, in its order"
    def __init__(self, *_, **__): self.jobs, self.cuda_stream = [], self

    def wait_stream(self, other):
        done = []
        other.jobs.append((lambda: True, lambda: done.append(1)))
        self.jobs.append((lambda: bool(done), lambda: None))


class Cell:
    "A tensor: one value, which its heads may get one after the other"
    shape, dtype, world = (2, 2, 1, 1), None, None
    def __init__(self, value=None): self.heads = [value]*4
    @property
    def value(self): return self.heads[0] if len(set(self.heads)) == 1 else self.heads
    def data_ptr(self): return self
    def take(self, some, value): self.heads[some] = [value]*(some.stop - some.start)
    def contiguous(self): return self
    def view(self, *_): return self
    def numel(self): return 1
    def __getitem__(self, _): return self
    def record_stream(self, _): pass
    def copy_(self, other): self.world.put(lambda: True, lambda: setattr(self, 'heads', [*other.heads]))


class World:
    "Ranks that call `CopyEngine`, one after the other; then all that they have asked for, at once"
    def __init__(self, ranks, monkeypatch):
        self.ranks, self.me, self.flags, self.rooms, self.made = ranks, 0, {}, {}, {}
        self.wanted = {}
        self.streams = {r: [Queue()] for r in range(ranks)}
        self.current = {r: self.streams[r][0] for r in range(ranks)}
        monkeypatch.setattr(Cell, 'world', self)
        cuda = types.SimpleNamespace(Stream=self.stream, Event=lambda: Recorded(self), stream=self.on,
                                     current_device=lambda: 0, synchronize=lambda: None, is_available=lambda: True)
        fake = types.SimpleNamespace(cuda=cuda, int32=None, device=lambda *_: None, zeros=lambda *_, **__: Cell())
        monkeypatch.setattr(transport, 'torch', fake)
        monkeypatch.setattr(transport, 'dist', types.SimpleNamespace(barrier=lambda: None))
        monkeypatch.setattr(transport, 'rank_and_ranks', lambda: (self.me, ranks))
        monkeypatch.setattr(transport, '_copy_keys', lambda stream, to, x, keys, heads: self.put(
            lambda: True, lambda: to.take(heads, x.value), stream))
        monkeypatch.setattr(transport, 'SymmetricMemory', self.shared)
        monkeypatch.setattr(transport, '_current_stream_handle', lambda: None)
        monkeypatch.setattr(transport, '_call_driver', lambda name, stream, at, value, how: self.put(
            lambda: True, lambda me=self.me: self.wanted.update({me: value}), stream))
        monkeypatch.setattr(transport.CopyEngine, '_set_flag', lambda c, rank, what, value, stream=None: self.put(
            lambda: True, lambda me=c.rank: self.flags.update({(rank, what, me): value}), stream))
        monkeypatch.setattr(transport.CopyEngine, '_wait_flag', lambda c, rank, what, value, stream=None: self.put(
            lambda me=c.rank: self.flags.get((me, what, rank), 0) >= value, lambda: None, stream))

    def stream(self, *_, **__):
        self.streams[self.me].append(Queue())
        return self.streams[self.me][-1]

    @contextmanager
    def on(self, stream):
        before, self.current[self.me] = self.current[self.me], stream
        yield
        self.current[self.me] = before

    def shared(self, shape, *_):
        "Buffers for two steps, of two tensors, on each rank; sent values are not recorded"
        if len(shape) == 2: return types.SimpleNamespace(local=Flags(self.ranks))
        name = self.made[self.me] = self.made.get(self.me, 0) + 1
        of = [self.rooms.setdefault((r, name), [[Cell(), Cell()] for _ in range(2)]) for r in range(self.ranks)]
        return types.SimpleNamespace(local=of[self.me], buffer_of_rank=of)

    def put(self, ready, do, stream=None): (stream or self.current[self.me]).jobs.append((ready, do))

    def run(self, chance):
        pace = {s: 100**chance.random() for streams in self.streams.values() for s in streams}
        while any(s.jobs for s in pace):
            can = [s for s in pace if s.jobs and s.jobs[0][0]()]
            assert can, 'all wait for each other'
            chance.choices(can, [pace[s] for s in can])[0].jobs.pop(0)[1]()


class Recorded:
    "An event: what waits for it waits for what has been asked for until it was recorded last"
    def __init__(self, world): self.world = world

    def record(self, stream=None):
        self.done = done = []
        self.world.put(lambda: True, lambda: done.append(1), stream)

    def wait(self, stream=None):
        done = self.done
        self.world.put(lambda: bool(done), lambda: None, stream)


class Flags:
    def __init__(self, ranks): self.ranks = ranks
    def zero_(self): pass
    def __iter__(self):
        return (types.SimpleNamespace(split=lambda _, what=what: [(what, r) for r in range(self.ranks)])
                for what in range(4))


def uses(world, places, want):
    "A kernel that reads what has come"
    def look(): assert [p.value for p in places] == want
    world.put(lambda: True, look)


def watches(world, coming, want):
    "A kernel that reads head by head, and waits for each separately"
    (what, source), _ = coming.watch()
    me, parts = world.me, coming.num_parts
    def there(part): return world.flags.get((me, what, source), 0) >= world.wanted[me] - (parts - 1 - part)
    def look(head): assert [p.heads[head] for p in coming.buffers] == want
    for head in range(4): world.put(lambda part=head*parts//4: there(part), lambda head=head: look(head))


def forward_and_backward(world, carrier, call, urgent, parts, watched):
    "What `passes` asks of a carrier, for one rank; `watched`: how many steps a kernel waits for by itself"
    me, ranks = carrier.rank, carrier.ranks
    def have(way): return [Cell((o, me, call, way)) for o in 'kv']
    def came(step, way): return [(o, (me - step) % ranks, call, way) for o in 'kv']
    carrier.open(*have('forward'), num_parts=parts)
    coming = carrier.fetch(1)
    if watched: watches(world, coming, came(1, 'forward'))
    for step in range(1, ranks):
        if step > watched: coming.wait()
        now, coming = coming, carrier.fetch(step + 1) if step + 1 < ranks else None
        if step > watched: uses(world, now.buffers, came(step, 'forward'))
    carrier.close()
    carrier.open(*have('backward'))
    coming, going = carrier.fetch(1), None
    urgent.wait_stream(world.current[me])
    def home():
        step, post = going
        post.wait()
        uses(world, post.buffers, [(o, (me + step) % ranks, me, call) for o in ('dk', 'dv')])
        carrier.release_grads(step)
    with world.on(urgent):
        for step in range(1, ranks):
            coming.wait()
            now, coming = coming, carrier.fetch(step + 1) if step + 1 < ranks else None
            uses(world, now.buffers, came(step, 'backward'))
            if going: home()
            found = [Cell((o, me, (me - step) % ranks, call)) for o in ('dk', 'dv')]
            going = step, carrier.send_grads(step, found, (2, (1,)))
    world.current[me].wait_stream(urgent)
    home()
    carrier.close()


@pytest.mark.parametrize('ranks', (2, 3, 4, 8))
def test_copies_arrive_in_time_without_a_cyclic_wait(ranks, monkeypatch):
    for seed in range(12):
        world = World(ranks, monkeypatch)
        for world.me in range(ranks):
            carrier, urgent = transport.CopyEngine(), world.stream()
            for call in range(3): forward_and_backward(world, carrier, call, urgent, 1 + seed % 4, seed//4 % 2)
        world.run(random.Random(seed))


@pytest.mark.parametrize('broken', ('_KEYS', '_KEYS_FREE', '_GRADS', '_GRADS_FREE', 'early'))
def test_copies_that_wait_for_less_are_found_out(broken, monkeypatch):
    "A value is sent but never received; or buffers are signalled as free before they are used"
    opened = transport.CopyEngine.open
    def early(c, *tensors, **how):
        opened(c, *tensors, **how)
        c._release_buffers()
    def fails(seed):
        with monkeypatch.context() as patch:
            world = World(5, patch)
            wait_flag = transport.CopyEngine._wait_flag
            def deaf(c, rank, what, value, stream=None):
                if what != getattr(transport.CopyEngine, broken): wait_flag(c, rank, what, value, stream)
            if broken == 'early': patch.setattr(transport.CopyEngine, 'open', early)
            else: patch.setattr(transport.CopyEngine, '_wait_flag', deaf)
            for world.me in range(5):
                carrier, urgent = transport.CopyEngine(), world.stream()
                for call in range(3): forward_and_backward(world, carrier, call, urgent, 1 + seed % 4, seed//4 % 2)
            try: world.run(random.Random(seed))
            except AssertionError: return True
    assert any(map(fails, range(12)))


# The simulator
def constant(p, each): return 1.


def test_a_simulated_ring_by_hand():
    # 3 steps of 1 s, messages of .5 s that are hidden; then of 2 s, which are not: 1 more in each of two steps
    fast, slow = (ring.simulate('zigzag', 12, 3, constant, ring.Link(.1, speed), 4.) for speed in (10., 4/1.9))
    assert fast.seconds == pytest.approx(3) and fast.efficiency == pytest.approx(1)
    assert slow.seconds == pytest.approx(1 + 2*2)
    one_by_one = ring.simulate('zigzag', 12, 3, constant, ring.Link(.1, 10.), 4., overlap=False)
    assert one_by_one.seconds == pytest.approx(3 + 2*.5)
    # contiguous: the last rank has three products, and the first one waits
    lazy = ring.simulate('contiguous', 12, 3, constant, ring.Link(0., 1e9), 4.)
    assert lazy.seconds == pytest.approx(3) and lazy.ideal == pytest.approx(2)
    assert [len([s for s in noted if s.activity == 'attend']) for noted in lazy.stamps] == [1, 2, 3]


def test_a_simulated_backward_ends_when_gradients_are_home():
    link = ring.Link(0., 4/.6)
    run = ring.simulate('zigzag', 8, 2, constant, link, 4., backward=True)
    # half of the own keys (.5), the other's (1 after .6), half of the own (.5) while .6 return
    assert run.seconds == pytest.approx(.6 + 1 + .6) and run.ideal == pytest.approx(2)


def test_tasks_in_a_circle_are_named():
    a, b = ring.Task(('gpu', 0), 1., ('b',)), ring.Task(('gpu', 0), 1., ('a',))
    with pytest.raises(ValueError, match='each other'): ring.run_tasks(dict(a=a, b=b))


def test_bytes_that_are_sent():
    sent = {way: ring.bytes_sent(way, 2**16, 8, heads=16) for way in ('ring', 'all-gather', 'ulysses', 'tree')}
    each = 2**13*16*128*2
    assert sent['ring'] == sent['all-gather'] == 2*7*each and sent['ulysses'] == 4*each*7/8
    assert sent['tree'] == 3*16*129*4
