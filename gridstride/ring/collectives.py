"""All-reduce, and matrix products that overlap their communication, between GPUs that can access each other's memory.

A `Communicator` has memory that all ranks can access. Its kernels (`collectives.cuh`) exchange data through it; copy
engines do so during a matrix product. `all_reduce`, `all_gather_matmul` and `matmul_reduce_scatter` use the
communicator of this process; on CPU tensors, they send messages by `torch.distributed`, and add in the same order.
"""

import math
from functools import lru_cache

import torch
import torch.distributed as dist

from . import overlap
from .processes import PeerError, add_failure_report, rank_and_ranks
from .transport import SymmetricMemory, copy_in_stream, copy_rectangle_in_stream
from ..cpp import cuda_kernel
from ..kernels.gemm.dispatch import matmul
from ..utils import cdiv

_THREADS, _MAX_BLOCKS, _STAGES = 512, 512, 2  # as in collectives.cuh
_C_TYPES = {torch.float32: 'float', torch.float16: '__half', torch.bfloat16: '__nv_bfloat16'}
_MAX_COPIES = overlap.MAX_CHUNKS  # flags per pair of ranks and call, for copies


class Tuning:
    "The sizes at which all-reduce switches its algorithm, and the launch configurations"

    word_bytes = 512 << 10  # maximum size for `words` with two ranks; smaller with more ranks
    one_shot_ranks = 2  # maximum number of ranks for `one_shot`; more ranks use `two_shots`
    word_blocks, blocks, vectors, lead = 256, 264, 2, 2
    min_row_bytes = 16 << 10  # of rows that are sent in four chunks of columns
    flops, link_speed = 700e12, 370e9  # of bfloat16 products on an H200, and bytes per second of its links


@lru_cache
def _kernel(name, dtype=None, vectors=Tuning.vectors, lead=Tuning.lead):
    "Compile a kernel of collectives.cuh"
    source = overlap.ring_source('waits') + overlap.ring_source('collectives')
    full_name = f'{name}<{_C_TYPES[dtype]}>' if dtype else name
    return cuda_kernel(f'#define VECTORS {vectors}\n#define LEAD {lead}\n{source}', full_name)


def _check_operand(name, x):
    "Raise TypeError or ValueError unless a collective can send `x`"
    if not isinstance(x, torch.Tensor):
        raise TypeError(f'ring: {name} is a {type(x).__name__}; expected a torch tensor')
    if x.dtype not in _C_TYPES:
        names = ', '.join(str(dtype).removeprefix('torch.') for dtype in _C_TYPES)
        raise TypeError(f'ring: {name} is {x.dtype}; expected one of {names}: convert it with .to(...)')
    if not x.is_contiguous():
        raise ValueError(f'ring: {name} must be contiguous; its strides are {x.stride()}: use .contiguous()')


class Communicator:
    """Symmetric memory through which the GPUs of all ranks exchange data, and the state of their collectives.

    All ranks create it, and call its methods in the same order with the same shapes. If a rank does not take part
    within `timeout` seconds, the kernels of the others end with an error."""

    ALGORITHMS = 'words', 'one_shot', 'two_shots'

    def __init__(
        self,
        capacity=64 << 20,  # maximum bytes of an exchange; a larger all-reduce is split into several
        timeout=10.0,  # seconds
    ):
        self.rank, self.ranks = rank_and_ranks()
        if not torch.cuda.is_available():
            raise RuntimeError('ring.Communicator: peer memory needs a GPU, and none was found; use ring.all_reduce')
        self.device, self.timeout = torch.device('cuda', torch.cuda.current_device()), timeout
        self.capacity = cdiv(capacity, 16 * self.ranks) * 16 * self.ranks
        self.word_slot = Tuning.word_bytes // 4
        sizes = dict(  # bytes of each algorithm's part of the inbox
            words=2 * self.ranks * self.word_slot * 8,
            one_shot=2 * self.ranks * self.capacity if self.ranks <= Tuning.one_shot_ranks else 0,
            two_shots=2 * self.capacity,
        )
        self.inbox = SymmetricMemory((sum(sizes.values()),), torch.uint8, self.device)
        self.signal_pad = SymmetricMemory((_STAGES * _MAX_BLOCKS * self.ranks,), torch.int64, self.device)
        self.inbox.local[: sizes['words']].zero_()
        self.signal_pad.local.zero_()
        self.tables, offset = {}, 0
        for name, size in sizes.items():
            self.tables[name] = self._table(address + offset for address in self.inbox.addresses)
            offset += size
        self.signal_table = self._table(self.signal_pad.addresses)
        self.state = torch.zeros(2, dtype=torch.int32, device=self.device)
        self.report = torch.zeros(2, dtype=torch.int64).pin_memory()
        self.watch = self.report.data_ptr(), int(timeout * 1e9)
        self.copy_stream, self.event = torch.cuda.Stream(priority=-1), torch.cuda.Event()
        self.copy_memory, self.slots = None, {}
        # [rank][copy]; the last row has the rounds that the ranks have begun
        self.copy_signal_pad = SymmetricMemory((self.ranks + 1, _MAX_COPIES), torch.int32, self.device)
        self.copy_signal_pad.local.zero_()
        self.copy_signals = [row.split(1) for row in self.copy_signal_pad.local]
        self.started = self._table(address + 4 * self.ranks * _MAX_COPIES for address in self.copy_signal_pad.addresses)
        self.num_stored, complete = torch.zeros(2, _MAX_COPIES, dtype=torch.int32, device=self.device)
        self.complete = complete.split(1)
        pointers = self.copy_signal_pad.addresses[self.rank], self.num_stored.data_ptr(), complete.data_ptr()
        self.copy_state = self._table([0, *pointers, *self.watch])  # the struct `CopyState` of waits.cuh
        add_failure_report(self.failure)
        torch.cuda.synchronize()
        dist.barrier()

    def _table(self, addresses):
        "Return addresses as a tensor on the GPU"
        return torch.tensor(list(addresses), dtype=torch.int64, device=self.device)

    def failure(self):
        "Return why a kernel has trapped, or None"
        rank, round_number = self.report.tolist()
        if not rank:
            return None
        return f'timed out waiting for rank {rank - 1} in round {round_number}: not within {self.timeout:g} s'

    def check(self):
        "Raise PeerError if a kernel has timed out waiting for a rank"
        if reason := self.failure():
            raise PeerError(reason)

    def algorithm_for(self, num_bytes):
        "Return the name of the algorithm for an array of this size"
        if num_bytes * self.ranks <= 2 * Tuning.word_bytes:
            return 'words'
        return 'one_shot' if self.ranks <= Tuning.one_shot_ranks else 'two_shots'

    def all_reduce(
        self,
        x,  # a contiguous tensor of float32, float16 or bfloat16; the same shape on all ranks
        out=None,  # like `x`, or `x` itself; None: a new tensor
        algorithm=None,  # one of `ALGORITHMS`; None: chosen by size
    ):
        """Return the sum of the ranks' `x`, added in float32 in the order of the ranks, and rounded once.

        CUDA graphs can capture the call. Raises TypeError or ValueError for other tensors."""
        _check_operand('x', x)
        out = torch.empty_like(x) if out is None else out
        num_bytes = x.numel() * x.element_size()
        if num_bytes % 16 or x.data_ptr() % 16 or out.data_ptr() % 16:
            return self._all_reduce_padded(x, out, algorithm)
        algorithm = algorithm or self.algorithm_for(num_bytes)
        piece_bytes = Tuning.word_bytes if algorithm == 'words' else self.capacity
        if num_bytes <= piece_bytes:
            self._launch_all_reduce(algorithm, x, out, num_bytes)
            return out
        for pair in zip(*(tensor.view(-1).split(piece_bytes // x.element_size()) for tensor in (x, out))):
            self._launch_all_reduce(algorithm, *pair, pair[0].numel() * x.element_size())
        return out

    def _all_reduce_padded(self, x, out, algorithm):
        "Sum arrays that are not 16-byte aligned, or whose size is not a multiple of 16 bytes"
        length = cdiv(x.numel() * x.element_size(), 16) * 16 // x.element_size()
        padded_tensor = torch.zeros(length, dtype=x.dtype, device=x.device)
        padded_tensor[: x.numel()] = x.view(-1)
        out.view(-1).copy_(self.all_reduce(padded_tensor, padded_tensor, algorithm)[: x.numel()])
        return out

    def _launch_all_reduce(self, algorithm, x, out, num_bytes):
        "Launch the kernel of an algorithm"
        if num_bytes == 0:
            return
        state, ranks = (self.state, *self.watch, self.rank, self.ranks), self.ranks
        if algorithm == 'words':
            words = num_bytes // 4
            launch = _kernel('all_reduce_words', x.dtype)[min(cdiv(words, _THREADS), Tuning.word_blocks), _THREADS]
            return launch(x, out, words, self.tables['words'], self.word_slot, *state)
        vectors, kernel = num_bytes // 16, _kernel(f'all_reduce_{algorithm}', x.dtype, Tuning.vectors, Tuning.lead)
        part = cdiv(vectors, ranks) if algorithm == 'two_shots' else vectors
        grid = min(cdiv(part, _THREADS * Tuning.vectors), Tuning.blocks)
        if algorithm == 'one_shot':
            return kernel[grid, _THREADS](
                x, out, vectors, self.tables[algorithm], self.capacity // 16, self.signal_table, *state
            )
        kernel[grid, _THREADS](x, out, vectors, part, self.tables[algorithm], self.signal_table, *state)

    # Products overlap their communication. A copy engine sends one chunk after another, and then the number of the
    # round, as a flag. A single-thread kernel, which can time out, waits for the flag in the stream.
    def _begin_copies(self, shape, dtype, chunks):
        "Begin a round of copies, which wait for the current stream; return its `_Slot`"
        if (slot := self.slots.get((shape, dtype, chunks))) is None:
            slot = self.slots[shape, dtype, chunks] = self._make_slot(shape, dtype, chunks)
        _kernel('begin_round')[1, 32](self.copy_state, self.started, self.rank, self.ranks)
        self._make_copy_stream_wait()
        return slot

    def _make_slot(self, shape, dtype, chunks):
        "Return views of the memory for copies; if it is too small, all ranks allocate more, and old slots keep theirs"
        num_bytes = math.prod(shape) * dtype.itemsize
        if self.copy_memory is None or self.copy_memory.local.numel() < num_bytes:
            self.copy_memory = SymmetricMemory((cdiv(num_bytes, 4096) * 4096,), torch.uint8, self.device)
        return _Slot(self.copy_memory, shape, dtype, chunks)

    def _make_copy_stream_wait(self):
        "Make the copy stream wait for the current stream"
        self.event.record()
        self.event.wait(self.copy_stream)

    def _end_copies(self):
        "Make the current stream wait for this rank's copies"
        self.event.record(self.copy_stream)
        self.event.wait()

    def _send(self, tensor, destination, address, index):
        "Copy a tensor to an address of the rank `destination`, then set flag `index` there"
        copy_in_stream(self.copy_stream.cuda_stream, address, tensor.data_ptr(), tensor.numel() * tensor.element_size())
        self._set_copy_flag(destination, index)

    def _set_copy_flag(self, destination, index):
        "Set flag `index` of the rank `destination` after the last copy"
        flag = self.copy_signal_pad.addresses[destination] + 4 * (self.rank * _MAX_COPIES + index)
        copy_in_stream(self.copy_stream.cuda_stream, flag, self.copy_state.data_ptr(), 4)  # the number of the round

    def _wait_copy(self, source, index):
        "Make the current stream wait until copy `index` of the rank `source` has arrived"
        _kernel('wait_copy')[1, 1](self.copy_signals[source][index], self.copy_state, source)

    def all_gather_matmul(
        self,
        x,  # [rows, K], this rank's rows; the same shape on all ranks
        w,  # [K, N], may differ between ranks
        chunks=None,  # copies per pair of ranks; None: chosen by an estimate
        one_kernel=None,  # False: a kernel per chunk; None: chosen
    ):  # [ranks * rows, N]
        """Return `all_gather(x) @ w`: the product of this rank's rows begins first, those of others as they arrive.

        CUDA graphs can capture the call, except the first one with a shape. Raises TypeError or ValueError for operands
        that do not match."""
        _check_product(x, w, 'all_gather_matmul')
        (rows, K), N = x.shape, w.shape[1]
        planned_chunks, in_one_kernel = _plan_gather(rows, K, N, x.element_size())
        if one_kernel is None and chunks is None and not in_one_kernel:
            one_kernel = False
        if self._use_one_kernel(one_kernel, x, w, 'all_gather_matmul'):
            return self._gather_in_one_kernel(x, w, chunks or planned_chunks)
        chunks = chunks or min(planned_chunks, 2)
        slot = self._begin_copies((self.ranks, rows, K), x.dtype, chunks)
        out = x.new_empty(self.ranks, rows, N)
        matmul(x, w, out=out[self.rank])
        own_chunks = x.split(slot.chunk_rows)
        for destination in self._destinations():
            for index, chunk in enumerate(own_chunks):
                self._send(chunk, destination, slot.addresses[destination][self.rank][index], index)
        for step in range(1, self.ranks):
            source = (self.rank + step) % self.ranks
            for index, result in enumerate(out[source].split(slot.chunk_rows)):
                self._wait_copy(source, index)
                matmul(slot.chunks[source][index], w, out=result)
        self._end_copies()
        return out.view(-1, N)

    def _use_one_kernel(self, one_kernel, x, w, op_name):
        "Return whether one kernel computes the product. Raises ValueError if it is requested and cannot"
        reason = overlap.fallback_reason(x, w) if one_kernel is not False else ''
        if one_kernel and reason:
            raise ValueError(f'{op_name}: one_kernel=True is not supported: {reason}')
        return one_kernel is not False and not reason

    def _gather_in_one_kernel(self, x, w, chunks):
        "Multiply the rows of all ranks in one kernel, which waits for chunks of columns of other ranks' rows"
        (rows, K), N = x.shape, w.shape[1]
        slot, out = self._begin_copies((self.ranks, rows, K), x.dtype, 1), x.new_empty(self.ranks, rows, N)
        stream, item, start = self.copy_stream.cuda_stream, x.element_size(), 0
        ends = overlap.chunk_ends(K, chunks)
        for index, end in enumerate(ends):
            for destination in self._destinations():
                address, width = slot.addresses[destination][self.rank][0], (end - start) * item
                source = x.data_ptr() + start * item
                copy_rectangle_in_stream(stream, address + start * item, source, K * item, width, rows)
                self._set_copy_flag(destination, index)
            if index == 0:  # the kernel starts as early as possible
                overlap.all_gather_matmul(x, w, out, slot.partial_sums, self.copy_state, self.rank, len(ends))
            start = end
        self._end_copies()
        return out.view(-1, N)

    def _destinations(self):
        "Return the other ranks in the order in which they multiply this rank's rows"
        return [(self.rank - step) % self.ranks for step in range(1, self.ranks)]

    def matmul_reduce_scatter(
        self,
        x,  # [rows, K], this rank's columns of the whole matrix
        w,  # [K, N], the rows that match these columns
        chunks=None,  # copies per pair of ranks
        one_kernel=None,  # False: a kernel per chunk; None: one kernel if it supports the operands and ranks
    ):  # [rows / ranks, N]
        """Return this rank's rows of the sum of all ranks' `x @ w`. Rows that others need are computed and sent first.

        Products are rounded to the type of `x` before they are sent. CUDA graphs can capture the call, except the
        first one with a shape. Raises TypeError or ValueError for operands that do not match, or rows that the number
        of ranks does not divide."""
        _check_product(x, w, 'matmul_reduce_scatter')
        if x.shape[0] % self.ranks:
            raise ValueError(f'matmul_reduce_scatter: {x.shape[0]} rows cannot be split among {self.ranks} ranks')
        rows, N = x.shape[0] // self.ranks, w.shape[1]
        if one_kernel and self.ranks != 2:
            raise ValueError(f'matmul_reduce_scatter: one_kernel=True needs two ranks; there are {self.ranks}')
        if self.ranks == 2 and rows and self._use_one_kernel(one_kernel, x, w, 'matmul_reduce_scatter'):
            return self._scatter_in_one_kernel(x, w, chunks or 4)
        slot = self._begin_copies((self.ranks, rows, N), x.dtype, chunks or 2)
        parts = [part.split(slot.chunk_rows) for part in x.split(rows)] if rows else [()] * self.ranks
        products = []
        for step in range(1, self.ranks):
            destination = (self.rank + step) % self.ranks
            for index, chunk in enumerate(parts[destination]):
                products.append(matmul(chunk, w))
                self._make_copy_stream_wait()
                self._send(products[-1], destination, slot.addresses[destination][self.rank][index], index)
        out = self._add_own_product(parts[self.rank], w, slot, x.new_empty(rows, N))
        self._end_copies()  # the products exist until they have been sent
        return out

    def _scatter_in_one_kernel(self, x, w, chunks):
        "Multiply in one kernel, which signals when a chunk for the other rank is complete, and adds what has arrived"
        rows, N, other = x.shape[0] // 2, w.shape[1], 1 - self.rank
        slot = self._begin_copies((2, rows, N), x.dtype, 1)
        product, out = x.new_empty(2, rows, N)
        chunk_rows = overlap.matmul_reduce_scatter(
            x, w, product, out, slot.partial_sums[other], self.copy_state, self.rank, chunks
        )
        address, row_bytes = slot.addresses[other][self.rank][0], N * x.element_size()
        with torch.cuda.stream(self.copy_stream):
            for index, chunk in enumerate(product.split(chunk_rows)):
                _kernel('wait_copy')[1, 1](self.complete[index], self.copy_state, self.rank)
                self._send(chunk, other, address + index * chunk_rows * row_bytes, index)
        self._end_copies()
        return out

    def _add_own_product(self, own_chunks, w, slot, out):
        "Write the product of this rank's rows plus the partial sums of the other ranks to `out`, chunk by chunk"
        other_products = [(self.rank - step) % self.ranks for step in range(1, self.ranks)]
        for index, (chunk, result) in enumerate(zip(own_chunks, out.split(slot.chunk_rows))):
            product = matmul(chunk, w) if self.ranks != 2 else None
            for source in other_products:
                self._wait_copy(source, index)
            if self.ranks == 2:  # the kernel of the product adds in float32
                torch.addmm(slot.chunks[other_products[0]][index], chunk, w, out=result)
            else:
                self._add_partial_sums(product, slot.partial_sums[:, index * slot.chunk_rows :], result)
        return out

    def _add_partial_sums(self, own_product, inbox, out):
        "Add this rank's product and those of the other ranks, in the order of the ranks"
        _kernel('add_partial_sums', own_product.dtype)[cdiv(own_product.numel(), _THREADS), _THREADS](
            own_product,
            inbox[0, : own_product.shape[0]],
            out,
            own_product.numel(),
            inbox.stride(0),
            self.rank,
            self.ranks,
        )


class _Slot:
    """Where copies arrive: arrays [ranks, rows, columns] in symmetric memory, in chunks of rows.

    `chunks[rank][index]` is a chunk of this GPU's memory, `addresses[destination][rank][index]` its address on another
    GPU. They are computed once, because a call must take only microseconds."""

    def __init__(self, memory, shape, dtype, chunks):
        self.memory = memory  # a CUDA graph may contain its addresses
        ranks, rows, columns = shape
        num_bytes = math.prod(shape) * dtype.itemsize
        self.chunk_rows = max(1, cdiv(cdiv(rows, chunks), 128) * 128)
        self.partial_sums = memory.local[:num_bytes].view(dtype).view(shape)
        self.chunks = [part.split(self.chunk_rows) for part in self.partial_sums]
        row_bytes = columns * dtype.itemsize
        self.addresses = [
            [
                [buffer.data_ptr() + (rank * rows + start) * row_bytes for start in range(0, rows, self.chunk_rows)]
                for rank in range(ranks)
            ]
            for buffer in memory.buffer_of_rank
        ]


def _plan_gather(rows, K, N, itemsize):
    "Return the number of copies per pair of ranks, and whether one kernel multiplies, by an estimate"
    product, transfer = 2 * rows * K * N / Tuning.flops, rows * K * itemsize / Tuning.link_speed
    if product >= transfer:  # the other rows arrive before the product of this rank's rows has ended
        return 1, True
    # Chunks of columns shorten the end, but the parts of rows in the last ones must not be short: copies become slower.
    if product < 2 / 3 * transfer and K * itemsize >= Tuning.min_row_bytes:
        return 4, True
    return 2, False


def _check_product(x, w, op_name):
    "Raise TypeError or ValueError unless x @ w is a product of matrices that can be sent"
    for name, tensor in dict(x=x, w=w).items():
        _check_operand(name, tensor)
    if x.dim() != 2 or w.dim() != 2 or x.shape[1] != w.shape[0] or (x.dtype, x.device) != (w.dtype, w.device):
        actual = ' @ '.join(f'{tuple(tensor.shape)} {tensor.dtype} on {tensor.device}' for tensor in (x, w))
        raise ValueError(f'{op_name}: expected (rows, K) @ (K, N) of the same dtype, on the same device; got {actual}')


@lru_cache
def _communicator_of(group):
    "Return the communicator of this process for a process group"
    return Communicator()


def communicator() -> Communicator:
    "Return the communicator of this process, which all ranks create at their first call"
    return _communicator_of(dist.group.WORLD)


def _gather(x):
    "All-gather a tensor by messages; return the tensors of all ranks"
    tensors = [torch.empty_like(x) for _ in range(rank_and_ranks()[1])]
    dist.all_gather(tensors, x)
    return tensors


def _add_in_order(tensors):
    "Add tensors in float32, one after another, and round once"
    total = torch.zeros(tensors[0].shape, dtype=torch.float32, device=tensors[0].device)
    for tensor in tensors:
        total += tensor
    return total.to(tensors[0].dtype)


def all_reduce(
    x,  # a contiguous tensor of float32, float16 or bfloat16; the same shape on all ranks
    out=None,  # like `x`, or `x` itself; None: a new tensor
):
    """Return the sum of the ranks' `x`, with the same bits on all ranks: added in float32 in the order of the ranks.

        ring.launch(lambda rank: ring.all_reduce(torch.full((4,), rank + 1.)), 4)  # four times [10, 10, 10, 10]

    On GPUs, the ranks exchange data through a `Communicator`. Raises TypeError or ValueError for other tensors, and
    RuntimeError in a process that is not a rank."""
    _check_operand('x', x)
    if x.is_cuda:
        return communicator().all_reduce(x, out)
    total = _add_in_order(_gather(x))
    return total if out is None else out.copy_(total)


def all_gather_matmul(
    x,  # [rows, K], this rank's rows; the same shape on all ranks
    w,  # [K, N], may differ between ranks
):  # [ranks * rows, N]
    """Return `all_gather(x) @ w`; on GPUs, rows of other ranks are multiplied as they arrive.

        ring.launch(lambda rank: ring.all_gather_matmul(torch.full((2, 3), rank + 1.), torch.ones(3, 4)), 2)

    Raises TypeError or ValueError for operands that do not match, RuntimeError in a process that is not a rank."""
    _check_product(x, w, 'all_gather_matmul')
    if x.is_cuda:
        return communicator().all_gather_matmul(x, w)
    return torch.cat(_gather(x)) @ w


def matmul_reduce_scatter(
    x,  # [rows, K], this rank's columns of the whole matrix
    w,  # [K, N], the rows that match these columns
):  # [rows / ranks, N]
    """Return this rank's rows of the sum of all ranks' `x @ w`; on GPUs, products are sent while others are computed.

        ring.launch(lambda rank: ring.matmul_reduce_scatter(torch.ones(4, 3), torch.ones(3, 5)), 2)

    Raises TypeError or ValueError for operands that do not match, RuntimeError in a process that is not a rank."""
    _check_product(x, w, 'matmul_reduce_scatter')
    rank, ranks = rank_and_ranks()
    if x.shape[0] % ranks:
        raise ValueError(f'matmul_reduce_scatter: {x.shape[0]} rows cannot be split among {ranks} ranks')
    if x.is_cuda:
        return communicator().matmul_reduce_scatter(x, w)
    return _add_in_order(_gather(x @ w)).chunk(ranks)[rank].contiguous()
