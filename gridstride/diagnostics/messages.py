"""The message templates of each finding, per dialect: a summary of the event, and a hint on how to fix it.

This module contains only data; `formatting` fills in the fields. A row of `MESSAGES` belongs to a kind and a code. A
row of `HINTS` replaces the hint of a finding if `hints.hint_for` recognizes the mistake in the learner's lines.
`PHRASES` are parts of sentences that a `Phrase` selects; from `FRAGMENTS`, `formatting` derives fields such as
`extent`. Templates use the syntax of `str.format`; `formatting` documents the fields that mean the same in every row.
`course.translations` writes catalogues of all templates.
"""

from collections import namedtuple

__all__ = ['DIALECTS', 'FRAGMENTS', 'HINTS', 'MESSAGES', 'PHRASES', 'VALUES', 'Message']

DIALECTS = ('python', 'cuda', 'triton')
# Each field is a template, or a dict from dialect to template.
Message = namedtuple('Message', 'summary hint', defaults=('',))

_ACCESSES = ('read', 'write', 'atomic')
_REACH_GRID_BARRIER = (
    'All threads must reach it, including those of blocks without work: guard the work, not the barrier.'
)
_REACH_BARRIER = 'All threads of a block must reach it: guard the data, not the barrier.'
_MUST_DO_NOTHING = 'A thread past the end must do nothing: guard it, as in '
_GUARD = dict(
    python=_MUST_DO_NOTHING + '`if i < n`, where n is the number of items.',
    cuda=_MUST_DO_NOTHING + '`if (i < n)`, where n is the number of items.',
)
_OUT_OF_BOUNDS = 'out-of-bounds {access_to} {element}: {array} has {extent}'
_FAULT_OUTSIDE = (
    'out-of-bounds {access}: the address is not in any array; relative to the nearest one, {array} of shape {shape}, '
    'it is index {subscript}'
)
_REQUEST_DYNAMIC = dict(
    python='Give the launch the size of dynamic shared memory, in bytes: kernel[grid, block, stream, bytes].',
    cuda='Give the launch the size of dynamic shared memory, in bytes: <<<grid, block, bytes>>>, '
    'or from Python [grid, block, stream, bytes].',
)
_USE_SMALLER_TILE = 'Use a smaller tile, or a smaller element type.'
_CHECK_POINTER = 'Either the pointer was never set, or the index is far out of bounds: check how it is computed.'
_RUN_WITH_CHECKS = dict(
    python="Run with sim.options(checks='all') to see the first access that is out of bounds.",
    cuda='Compile with checks=True to see the first access that is out of bounds.',
)
_CHECK_ALLOCATION = 'Check for an empty array, for memory that was never allocated, and for a cudaMalloc that failed.'
_COPY_TO_GPU = 'Copy the data to the GPU first: cudaMalloc and cudaMemcpy, or a tensor on the GPU.'
_COPY_TO_HOST = 'Copy the data with cudaMemcpy; only kernels can dereference a device pointer.'
_ALIGN_OFFSETS = 'Make row lengths, padding and offsets multiples of that many bytes.'
_KEEP_BLOCK_ALIVE = (
    'Keep each block alive until the others no longer need its shared memory: barrier.cluster.arrive and .wait at '
    'the end.'
)
_UNDEFINED_LANES = (
    'line {{line}} of {{kernel}}: {} depends on undefined lanes: the mask on line {{masked}} excludes them. A GPU '
    'loads 0 there, but Triton does not guarantee that: give the load `other=`,{} or select with tl.where'
)
_UNINITIALIZED = 'uninitialized read of {element}'
_RACE = 'data race ({hazard}) on {element}'
_COPY_IN_FLIGHT = 'data race on {element}: it is {now} while {whose} to it may still be in flight'
_WAIT_FOR_BULK = 'Wait on the mbarrier that the copy signals'
_WAIT_FOR_READS = (
    'Wait until the tensor cores or TMA have read the element (wgmma.wait_group, cp.async.bulk.wait_group.read, or '
    'the mbarrier that a tcgen05.commit signals), then signal the thread that writes it: with an mbarrier or a '
    'block-wide barrier.'
)
_DIVISION_OVERFLOW = 'integer overflow in a division: the smallest integer of its type is divided by -1'
_CHECK_DIVISOR = 'This is undefined behaviour: test for a divisor of -1 first, or divide in a wider type.'
_TRAP_CAUSES = 'The kernel executed a trap instruction, or reached code that the compiler considers unreachable.'
_MBARRIER_PHASE = 'at the mbarrier {mbarrier}, whose phase {phase}'
_ARRIVE_THEN_WAIT = 'Use barrier.cluster.arrive and barrier.cluster.wait in pairs.'
_SET_ARRIVAL_COUNT = 'Pass the number of arrivals per phase to mbarrier.init.'
_DEADLOCK = 'deadlock: this thread waits {why}, and no thread can proceed'
_CHECK_MBARRIER = 'Check the arrival count, the expected bytes and the parity.'
_REACH_SAME_CALL = 'All lanes in the mask must reach the same call with the same mask.'
_DIVERGENT_BARRIER = "barrier in divergent code: {here} of the block's {threads} threads reach it; thread {thread} "
_BOX_BEFORE_ARRAY = '{}: the box begins at {{at}} along axis {{axis}}; a store must not begin before the array'

MESSAGES = {
    # An index past the end, before the beginning, or of a type that is not an integer
    ('memcheck', 'outside'): Message(_OUT_OF_BOUNDS, _GUARD),
    ('memcheck', 'before'): Message(
        _OUT_OF_BOUNDS,
        dict(
            python='In Numba a negative index counts from the end; in CUDA C it addresses memory before the array. '
            'Write the index that you mean.',
            cuda='A negative index addresses memory before the array: guard the lower bound too, as in `if (i >= 0)`.',
        ),
    ),
    ('memcheck', 'counted_from_end'): Message(
        'line {line} of {kernel}: the negative index in {element} depends on the thread and counts from the end: '
        'thread {thread} of block {in_block} accesses {accessed}',
        'Numba defines this, and CUDA C does not. If the end of the array is not meant, guard the access, as in '
        '`if i > 0`.',
    ),
    ('memcheck', 'wrapped'): Message(
        _OUT_OF_BOUNDS,
        'threadIdx, blockIdx and values computed from them are unsigned: below 0 they wrap around to 2**32 - 1. '
        'Guard the access, or compute the index with int.',
    ),
    ('memcheck', 'overflowed'): Message(
        _OUT_OF_BOUNDS,
        'An index so far below 0 usually comes from integer overflow: 2147483647 + 1 wraps to -2147483648. '
        'Compute it in 64 bits: `(size_t)row*w + column`.',
    ),
    ('memcheck', 'overflowed_among'): Message(
        'out-of-bounds {access_to} {either}',
        'An index this far out of bounds usually comes from integer overflow: 2147483647 + 1 wraps to -2147483648. '
        'Compute it in 64 bits: `(size_t)row*w + column`.',
    ),
    ('memcheck', 'indices'): Message(
        'wrong number of indices for {array}: expected {dimensions}, got {given}', 'Use one index per dimension.'
    ),
    ('memcheck', 'index_type'): Message(
        'an index of {array} must be an integer; got {type}', 'Divide with //, or use int(...).'
    ),
    ('memcheck', 'outside_type'): Message(
        'out-of-bounds {access} at index {index[0]} of an array of type {type}', _GUARD['cuda']
    ),  # an array without a name
    ('memcheck', 'outside_named'): Message('out-of-bounds {access_to} {element}: {array} has type {type}', _GUARD),
    # Programs of Triton: blocks of lanes, and pointers
    ('memcheck', 'outside_program'): Message(
        _OUT_OF_BOUNDS + '{more}',
        'The block extends past the end of the array: give the access a mask, as in `mask=offsets < n`.',
    ),
    ('memcheck', 'outside_single'): Message(
        _OUT_OF_BOUNDS + '{more}',
        'This access is to a single element, and its offset is too large: fix the row, column or stride, or give the '
        'access a mask.',
    ),
    ('memcheck', 'outside_masked'): Message(
        _OUT_OF_BOUNDS + '{more}',
        'The mask is true for this lane. Either it does not compare each axis with its own size, as in '
        '`(rows[:, None] < h) & (columns[None, :] < w)`, or the address is wrong: a wrong stride, offset or table '
        'entry.',
    ),
    ('memcheck', 'outside_expanded'): Message(
        'out-of-bounds {access}: past the end of {array}, which is expanded (stride 0) to shape {shape}, but has only '
        '{count} elements in memory{more}',
        'All indices along an axis of stride 0 address the same element. Multiply the index by '
        '{array}.stride(...), or pass {array}.contiguous().',
    ),
    ('memcheck', 'outside_before'): Message(
        _OUT_OF_BOUNDS + '{more}',
        'A negative index addresses memory before the array: mask the lower bound too, as in '
        '`mask=(offsets >= 0) & (offsets < n)`.',
    ),
    ('memcheck', 'null_pointer'): Message(
        '{access} through an invalid pointer, {address:#x}: no array is stored there',
        'Check that the pointer was set, and that no argument is None.',
    ),
    ('memcheck', 'foreign_pointer'): Message(
        '{access} through an invalid pointer, {address:#x}: the address is neither in an array of the launch nor in a '
        'torch tensor',
        'Check how the address is computed. If it is loaded from memory, keep the tensor that it points to alive.',
    ),
    ('memcheck', 'misaligned_pointer'): Message(
        'misaligned {access_to} {array}: the pointer must be a multiple of {size} bytes',
        'Elements are stored at multiples of their size: check how the pointer is computed.',
    ),
    # Shared memory: an index out of bounds of one array or of all, a launch that requests no dynamic memory
    ('memcheck', 'outside_shared'): Message(_OUT_OF_BOUNDS),
    ('memcheck', 'outside_dynamic'): Message(_OUT_OF_BOUNDS, _REQUEST_DYNAMIC),
    ('memcheck', 'outside_arrays'): Message(
        'out-of-bounds {access} in shared memory, far outside all of its arrays',
        'Check how the pointer or the index is computed.',
    ),
    ('memcheck', 'no_dynamic'): Message(
        'dynamic shared memory is used, but the launch requests none', _REQUEST_DYNAMIC
    ),
    ('memcheck', 'no_shared_address'): Message(
        '{operation}: {address:#x} is not an address in shared memory',
        'Convert the pointer to the 32-bit address that PTX takes: __cvta_generic_to_shared(pointer).',
    ),
    ('memcheck', 'copy_target'): Message(
        'the destination of {operation} must be in shared memory, but {address:#x} is not',
        'To copy from shared memory, or to registers, use an ordinary assignment.',
    ),
    # Memory that the kernel must not access
    ('memcheck', 'no_array'): Message(
        'invalid {access} at {address:#x}: the address is not in any array', _CHECK_POINTER
    ),
    ('memcheck', 'freed'): Message(
        'use after free: {access_to} {array}, which has been freed', 'Free memory only after its last use.'
    ),
    ('memcheck', 'not_allocated'): Message(
        'invalid free({address:#x}): malloc did not return this address, or it has already been freed'
    ),
    ('memcheck', 'null_read'): Message('read through a null pointer', _CHECK_ALLOCATION),
    ('memcheck', 'null_written'): Message('write through a null pointer', _CHECK_ALLOCATION),
    ('memcheck', 'failed_alloc'): Message(
        '{access_to} memory whose allocation failed: line {alloc_line} requested {bytes} bytes, got '
        'cudaErrorMemoryAllocation (out of memory), and did not check the error',
        'Compare the result of the allocation with cudaSuccess before a kernel uses the pointer; allocate less memory.',
    ),
    ('memcheck', 'constant'): Message(
        dict(
            python='write to {element}, but arrays captured from outside a kernel are read-only',
            cuda='write to {element}, which is __constant__',
        ),
        dict(python='Pass the array as an argument.', cuda='Set the variable from the host with cudaMemcpyToSymbol.'),
    ),
    ('memcheck', 'kernel_reads_host'): Message('a kernel reads host memory', _COPY_TO_GPU),
    ('memcheck', 'kernel_writes_host'): Message('a kernel writes host memory', _COPY_TO_GPU),
    ('memcheck', 'local_of_other'): Message(
        "{access_to} another thread's local variable",
        'A pointer to a local variable is valid only in its own thread: exchange values through shared memory.',
    ),
    ('memcheck', 'host_reads'): Message('host code reads {array}, which is device memory', _COPY_TO_HOST),
    ('memcheck', 'host_writes'): Message('host code writes {array}, which is device memory', _COPY_TO_HOST),
    ('memcheck', 'host_reads_symbol'): Message(
        'host code reads {array}, which is a device variable',
        'Copy its value: cudaMemcpyFromSymbol(&value, {array}, sizeof value).',
    ),
    ('memcheck', 'host_writes_symbol'): Message(
        'host code writes {array}, which is a device variable',
        'Copy a value to it: cudaMemcpyToSymbol({array}, &value, sizeof value).',
    ),
    ('memcheck', 'host_symbol'): Message(
        'a kernel uses an address of {array} that was taken in host code: it is not the address on the GPU',
        'Get the address in host code with cudaGetSymbolAddress((void **)&pointer, {array}), or use {array} by its '
        'name in the kernel.',
    ),
    ('memcheck', 'host_function'): Message(
        'a kernel calls {function} through an address that was taken in host code: it is not the address on the GPU',
        'Copy the address from the GPU: `__device__ T pointer = {function};`, and in host code '
        'cudaMemcpyFromSymbol(&f, pointer, sizeof f). Or make the function a template argument.',
    ),
    ('memcheck', 'host_virtual'): Message(
        "a kernel calls a virtual function of an object that host code constructed: its vtable points to host code",
        'Construct the object on the GPU: in a kernel, with `new` or placement new.',
    ),
    ('memcheck', 'host_memory_given'): Message(
        'thrust::{algorithm} with the policy thrust::device is called with an address in host memory',
        'Pass GPU memory: a thrust::device_vector, or a pointer from cudaMalloc. To copy between host and '
        'GPU, omit the policy: thrust::copy(first, last, result).',
    ),
    ('memcheck', 'library_memory'): Message(
        'a function of a CUDA library is called with an address that is not in GPU memory',
        'Copy the array to the GPU, and pass the pointer from cudaMalloc.',
    ),
    ('memcheck', 'device_memory_given'): Message(
        'thrust::{algorithm} with the policy thrust::host is called with an address on the GPU',
        'Write thrust::device instead, or copy to a thrust::host_vector first.',
    ),
    # The same mistakes with checks disabled: the operating system reports them
    ('memcheck', 'fault_outside'): Message(_FAULT_OUTSIDE, _RUN_WITH_CHECKS),
    ('memcheck', 'fault_no_array'): Message(
        'invalid {access} at {address:#x}: the address is not in any array', _RUN_WITH_CHECKS
    ),
    ('memcheck', 'fault_freed'): Message('use after free: {access_to} {array}, which has been freed', _RUN_WITH_CHECKS),
    ('memcheck', 'fault_null'): Message('{access} through a null pointer', _CHECK_ALLOCATION),
    ('memcheck', 'fault_address'): Message(
        'invalid {access} at {address:#x}: the address is not in device memory', _CHECK_POINTER
    ),
    # Misaligned addresses
    ('memcheck', 'misaligned'): Message(
        'misaligned {access} of {bytes} bytes at {element}: the address must be a multiple of {bytes}',
        'Check the index and the offsets. A float4, for example, has 16 bytes, so its first float must have an index '
        'that is a multiple of 4, relative to a 16-byte-aligned address.',
    ),
    ('memcheck', 'misaligned_operand'): Message(
        '{operation}: the address of {element} must be a multiple of {bytes} bytes', _ALIGN_OFFSETS
    ),
    # Two threads access one element: two programs of Triton, one block, two blocks
    ('racecheck', 'programs'): Message(
        _RACE + ': two programs access it, and nothing orders them',
        'Programs run concurrently, in any order: give each its own elements, or use tl.atomic_add or another atomic.',
    ),
    ('racecheck', 'programs_atomic'): Message(
        _RACE + ': only one of the two programs accesses it with an atomic',
        'Use atomics in both programs, or read it in a second kernel, launched after the first.',
    ),
    ('racecheck', 'read_back'): Message(
        'line {line} of {kernel}: data race (read after write) on {element}: one lane reads what another '
        'lane of the program stored on line {stored}. On a GPU, different threads may execute the two accesses: put '
        'tl.debug_barrier() between them'
    ),
    ('racecheck', 'stored_again'): Message(
        'line {line} of {kernel}: data race (write after write) on {element}: another lane of the program wrote it on '
        'line {stored}. On a GPU, different threads may execute the two stores, and either value may remain: put '
        'tl.debug_barrier() between them'
    ),
    ('racecheck', 'released'): Message(
        'line {line} of {kernel}: data race on {element}: it is {now} here, and another program {before} it on line '
        '{stored}, before its atomic on line {released}. One thread of the program executes that atomic and does not '
        'wait for the others: put tl.debug_barrier() before line {released}'
    ),
    ('racecheck', 'lanes_update'): Message(
        'data race (read-modify-write) on {element}: several lanes of one program update it, and all updates but one '
        'are lost',
        'Update the element in one step: tl.atomic_add or another atomic.',
    ),
    ('racecheck', 'lanes'): Message(
        'data race (write after write) on {element}: several lanes of one store write different values to it',
        'It is undefined which of the values remains: give each lane a distinct offset, or mask off all lanes but one.',
    ),
    ('initcheck', 'undefined_stored'): Message(
        _UNDEFINED_LANES.format('the stored value', ' give the store that mask, too,')
    ),
    ('initcheck', 'undefined_address'): Message(_UNDEFINED_LANES.format('an address', '')),
    ('initcheck', 'undefined_decision'): Message(_UNDEFINED_LANES.format('a branch or a mask', '')),
    ('initcheck', 'unwritten_program'): Message(
        _UNINITIALIZED,
        'An array that holds only NaN at the launch counts as uninitialized: create the array with torch.zeros, for '
        'example.',
    ),
    ('racecheck', 'race'): Message(
        _RACE + ': no barrier between the two accesses',
        dict(
            python="Put a cuda.syncthreads() between these two lines: there a block's threads wait for each other.",
            cuda="Put a __syncthreads() between these two lines: there a block's threads wait for each other.",
        ),
    ),
    ('racecheck', 'race_of_blocks'): Message(
        _RACE + ': two blocks access it, and nothing orders them',
        dict(
            python='cuda.syncthreads() does not order different blocks: let each block write its own elements, or use '
            'cuda.atomic. Before setting a flag or incrementing a counter, call cuda.threadfence().',
            cuda='__syncthreads() does not order different blocks: let each block write its own elements, or use '
            'atomicAdd. Before setting a flag or incrementing a counter, call __threadfence().',
        ),
    ),
    # Two devices: system scope
    ('racecheck', 'race_of_devices'): Message(
        _RACE + ': two devices access it, and nothing orders them',
        'The writer must release: __threadfence_system() or st.release.sys, then set a flag. The reader must wait for '
        'the flag and acquire: ld.acquire.sys, or __threadfence_system() after the load. Before a buffer is written '
        'again, its readers must signal in the same way that they have read it.',
    ),
    ('racecheck', 'race_of_processes'): Message(
        _RACE + ': {process} and {process_before} access it, and nothing orders the two processes',
        'The writer must release: __threadfence_system() or st.release.sys, then set a flag. The reader must wait for '
        'the flag and acquire: ld.acquire.sys, or __threadfence_system() after the load. Before a buffer is written '
        'again, its readers must signal in the same way that they have read it. Between launches, wait for the kernel '
        'on the host, then let the processes meet in a barrier.',
    ),
    ('racecheck', 'scope_of_device'): Message(
        _RACE + ': the flag does not synchronize the two devices, because its release, its load or a fence has only '
        'device scope',
        'Device scope (.gpu, __threadfence) orders accesses only among the threads of one GPU; another GPU may read '
        'the old value. Use system scope in both kernels: __threadfence_system(), .sys, thread_scope_system.',
    ),
    ('racecheck', 'atomic_of_device'): Message(
        _RACE + ': two devices access it, but an atomic has device scope',
        'Use system scope across devices: atomicAdd_system instead of atomicAdd, .sys instead of .gpu, '
        'thread_scope_system instead of thread_scope_device.',
    ),
    ('racecheck', 'race_of_cluster'): Message(
        _RACE + ': no cluster barrier between the accesses of two blocks',
        'Put a cluster.sync() between these two lines (in PTX: barrier.cluster.arrive and .wait); '
        'all blocks of the cluster wait there.',
    ),
    ('racecheck', 'race_of_volatiles'): Message(
        _RACE + ': volatile does not order the accesses of different threads',
        'volatile only keeps the compiler from caching a value: `x += y` is still a read and a write. '
        'Use atomicAdd or another atomic; for a flag, a __threadfence() before the write and one after the read.',
    ),
    ('racecheck', 'atomic_of_block'): Message(
        _RACE + ': two blocks access it, but an atomic has block scope',
        'Use device scope across blocks: atomicAdd instead of atomicAdd_block, thread_scope_device instead of '
        'thread_scope_block.',
    ),
    # A flag orders the two accesses only in part: a fence is missing, or its scope is too small
    ('racecheck', 'flag_not_acquired'): Message(
        _RACE + ': no acquire fence after the load of the flag',
        dict(
            python='Put a cuda.threadfence() after the load of the flag, too, or a cuda.syncthreads() for the block.',
            cuda='Put a __threadfence() after the load of the flag, too, or use memory_order_acquire; '
            '__threadfence_block() and thread_scope_block are for threads of one block.',
        ),
    ),
    ('racecheck', 'fence_of_block'): Message(
        _RACE + ': two blocks access it, but the fence between the accesses has block scope',
        dict(
            python='Across blocks, use cuda.threadfence() instead of cuda.threadfence_block().',
            cuda='Across blocks, use __threadfence() instead of __threadfence_block(), or thread_scope_device instead '
            'of thread_scope_block.',
        ),
    ),
    # Two operations of a program: launches, copies and accesses by the host; `first` and `second` are phrases
    ('racecheck', 'unordered_operations'): Message(
        _RACE + ': {second} {now} it, {first} {before} it, and nothing orders the two operations',
        dict(
            python='Record an event after the first operation, event.record(stream), and let the other stream wait for '
            'it before the second one, event.wait(stream); or call stream.synchronize() in between.',
            cuda='Record an event after the first operation (cudaEventRecord) and let the other stream wait for it '
            'before the second one (cudaStreamWaitEvent); or call cudaStreamSynchronize in between.',
        ),
    ),
    ('racecheck', 'host_race'): Message(
        _RACE + ': the host {now} it while {first} may still {before} it',
        dict(
            python='Synchronize first: stream.synchronize(), or cuda.synchronize().',
            cuda='Synchronize first: cudaStreamSynchronize(stream), or cudaDeviceSynchronize().',
        ),
    ),
    ('racecheck', 'same_value'): Message(
        'line {line} of {kernel}: data race (write after write) on {element}: several threads write the same value, '
        'so the result is the same in any order. Let one thread write it'
    ),
    ('racecheck', 'same_value_programs'): Message(
        'line {line} of {kernel}: data race (write after write) on {element}: several programs write the same '
        'value, so the result is the same in any order. Let one program write it'
    ),
    # A thread and an asynchronous copy; `whose` is a phrase that names the copy
    ('racecheck', 'copy_not_waited_for'): Message(
        _COPY_IN_FLIGHT,
        'Wait for the copy in the thread that issued it (cp.async.wait_group, __pipeline_wait_prior), then call '
        '__syncthreads() for the others.',
    ),
    ('racecheck', 'copy_not_committed'): Message(
        _COPY_IN_FLIGHT,
        'Commit the copy in the thread that issued it (cp.async.commit_group, __pipeline_commit), wait for the group, '
        'then call __syncthreads() for the others.',
    ),
    # A thread and an engine (TMA, or the tensor cores); `first` and `second` are phrases
    ('racecheck', 'bulk_in_flight'): Message(
        'data race on {element}: it is {now} while a bulk copy to it may still be in flight',
        _WAIT_FOR_BULK + ' (mbarrier.try_wait), for the phase in which it completes; expect all its bytes there '
        '(expect_tx).',
    ),
    ('racecheck', 'engine_reads'): Message(
        'data race on {element}: the element is {now} while the tensor cores or TMA may still read it', _WAIT_FOR_READS
    ),
    ('racecheck', 'engine_has_read'): Message(
        'data race on {element}: the element is {now} with no wait for the tensor cores or TMA to finish reading it',
        _WAIT_FOR_READS,
    ),
    ('racecheck', 'after_engine'): Message(
        _RACE + ': nothing orders the accesses by {first} and by {second}',
        'Let every thread that uses the data of a bulk copy wait on its mbarrier (mbarrier.try_wait).',
    ),
    ('racecheck', 'before_engine'): Message(
        _RACE + ': nothing orders the accesses by {first} and by {second}',
        'Synchronize the two with an mbarrier or a block-wide barrier.',
    ),
    ('racecheck', 'registers_written'): Message(
        'data race on registers: wgmma.mma_async uses registers that the thread wrote, with no wgmma.fence in between',
        'Put a wgmma.fence.sync.aligned before the first wgmma, and after each write to its registers.',
    ),
    ('racecheck', 'result_not_awaited'): Message(
        'the thread ends without waiting for the result of this wgmma',
        'Issue wgmma.commit_group, then wgmma.wait_group before the first use of the result.',
    ),
    # Tensor memory; `before` and `now` are instructions, `why` is a phrase
    ('racecheck', 'tensor_in_flight'): Message(
        'data race on tensor memory (lane {lane}, column {column}): {now} uses it while {before} may still be in '
        'flight: {why}',
        'After tcgen05.mma or tcgen05.cp, issue tcgen05.commit and wait on its mbarrier for the right phase. After '
        'tcgen05.ld or tcgen05.st, issue tcgen05.wait.',
    ),
    ('racecheck', 'tensor_race'): Message(
        'data race on tensor memory (lane {lane}, column {column}): nothing orders {before} and {now}',
        'Synchronize the two with an mbarrier or a block-wide barrier, with a tcgen05.fence before and after.',
    ),
    ('racecheck', 'mma_not_awaited'): Message(
        'the block ends while the tensor cores may still execute this instruction',
        'Issue tcgen05.commit, then wait on its mbarrier before the block ends.',
    ),
    ('racecheck', 'store_not_awaited'): Message(
        'the thread ends while its bulk copy may still read shared memory',
        'Issue cp.async.bulk.commit_group, then cp.async.bulk.wait_group.read 0.',
    ),
    ('racecheck', 'load_not_awaited'): Message(
        'the block ends without waiting for this bulk copy to its shared memory',
        _WAIT_FOR_BULK + ', for the phase in which it completes.',
    ),
    # Fences that PTX requires, and without which programs are known to work on current GPUs
    ('fencecheck', 'barrier_not_visible'): Message(
        'a bulk copy or tcgen05.commit signals an mbarrier with no fence.mbarrier_init after its initialization',
        'Put a fence.mbarrier_init.release.cluster (or fence.proxy.async) after mbarrier.init, then a block-wide '
        'barrier. The PTX specification requires the fence; current GPUs are known to work without it.',
    ),
    ('fencecheck', 'no_proxy_fence'): Message(
        'data race (read after write) on {element}: no fence.proxy.async between the write by a thread and the read '
        'by TMA or the tensor cores',
        'Put a fence.proxy.async after the write, then the barrier. The PTX specification requires it; many programs '
        'work without it on current GPUs, but some are known to read stale values.',
    ),
    ('fencecheck', 'tensor_no_fence'): Message(
        'data race on tensor memory (lane {lane}, column {column}): {before} and then {now}, {why}',
        'Put fences around the synchronization: tcgen05.fence::before_thread_sync, the barrier, '
        'tcgen05.fence::after_thread_sync. A tcgen05.commit includes the first one. The PTX specification requires '
        'the fences; public programs omit some of them.',
    ),
    ('fencecheck', 'tensor_load_not_awaited'): Message(
        'tcgen05.dealloc frees tensor memory (lane {lane}, column {column}) that a tcgen05.ld reads, with no '
        'tcgen05.wait::ld in between',
        'Put a tcgen05.wait::ld.sync.aligned after the load. The PTX specification requires it. Public programs '
        'omit it and work, because their use of the loaded registers waits for the load.',
    ),
    # Blocks of a cluster
    ('racecheck', 'block_not_begun'): Message(
        "a block accesses another block's shared memory, but that block may not have started",
        'Call cluster.sync() (in PTX, barrier.cluster.arrive and barrier.cluster.wait) before the first use of '
        "another block's shared memory.",
    ),
    ('memcheck', 'block_may_end'): Message(
        "a block accesses another block's shared memory, but that block may exit first", _KEEP_BLOCK_ALIVE
    ),
    ('memcheck', 'block_ended'): Message(
        "a block accesses another block's shared memory after that block has exited", _KEEP_BLOCK_ALIVE
    ),
    ('memcheck', 'no_block'): Message(
        'mapa: block rank {block_rank} is out of range for a cluster of {blocks} blocks',
        'Use ranks 0 to %cluster_nctarank - 1; __cluster_dims__ sets the number of blocks in a cluster.',
    ),
    ('memcheck', 'copy_to_no_block'): Message(
        'a copy targets a block rank that is not in the cluster',
        'Set only the bits of blocks in the cluster: bit i of the mask is block rank i.',
    ),
    ('memcheck', 'memory_of_other_block'): Message(
        "{operation} requires an address in the block's own shared memory; got one in another block's shared memory",
        "Another block's shared memory can be used only by loads, stores, atomics, bulk copies, mbarrier.arrive and "
        '.expect_tx.',
    ),
    ('synccheck', 'programs_wait'): Message(
        'deadlock: a program spins on a value that no other program will write: all others have ended, or spin as well',
        'Release every lock, and set the flag in a program that does not itself wait here.',
    ),
    ('synccheck', 'arrives_twice'): Message(
        'a thread arrives twice at the cluster barrier with no wait in between', _ARRIVE_THEN_WAIT
    ),
    ('synccheck', 'waits_unarrived'): Message(
        'a thread waits at the cluster barrier without arriving first', _ARRIVE_THEN_WAIT
    ),
    # Bulk copies, tensor maps and the descriptors of wgmma
    ('memcheck', 'bulk_bytes'): Message(
        '{operation} copies {bytes} bytes; the size of a bulk copy must be a multiple of 16',
        'Pad the rows, or copy the remainder with threads.',
    ),
    ('memcheck', 'no_tensor_map'): Message(
        'the argument is not the address of a tensor map',
        'Create the tensor map on the host with tensor_map(x, box), declare the parameter of the kernel as `const '
        '__grid_constant__ TensorMap`, and pass its address.',
    ),
    ('memcheck', 'coordinates'): Message(
        '{operation} has {given} coordinates, but the tensor map has {axes} axes',
        'Pass one coordinate per axis of the tensor map, innermost axis first.',
    ),
    ('memcheck', 'box_misaligned'): Message(
        '{operation}: the box begins at element {at} along the innermost axis, '
        'but must begin at a multiple of 16 bytes ({elements} elements)',
        'Round the innermost coordinate down to such a multiple. On a GPU, the kernel fails with an illegal '
        'instruction.',
    ),
    ('memcheck', 'box_before'): Message(
        dict(
            python=_BOX_BEFORE_ARRAY.format('cp.async.bulk.tensor'),
            cuda=_BOX_BEFORE_ARRAY.format('cp.async.bulk.tensor'),
            triton=_BOX_BEFORE_ARRAY.format('a descriptor'),
        ),
        'No coordinate of a store may be negative. On a GPU, the kernel fails with an illegal instruction.',
    ),
    ('memcheck', 'descriptor'): Message(
        'wgmma.mma_async: a descriptor points outside shared memory',
        'Encode the address divided by 16 in its lowest 14 bits, then the two strides, each divided by 16.',
    ),
    ('memcheck', 'peer_not_enabled'): Message(
        '{access_to} {element} by device {device}: the memory belongs to device {owner}, and peer access is not '
        'enabled',
        'Enable it first: cudaSetDevice({device}); cudaDeviceEnablePeerAccess({owner}, 0). This enables one direction '
        'only. In Python, allocate the array with devices.symmetric.',
    ),
    # Tensor memory and the descriptors of tcgen05
    ('memcheck', 'tensor_columns'): Message(
        '{operation} of {columns} columns: the number of columns must be a power of two from 32 to 512',
        'Round up to 32, 64, 128, 256 or 512.',
    ),
    ('memcheck', 'tensor_outside'): Message(
        '{operation} accesses lane {lane}, column {column} of tensor memory, which is not allocated',
        'Tensor memory has 128 lanes and 512 columns. Check the address (upper 16 bits: lane, lower 16 bits: column) '
        'and the number of columns that tcgen05.alloc requested.',
    ),
    ('memcheck', 'tensor_freed'): Message(
        '{operation} accesses column {column} of tensor memory after it was freed',
        'Free the columns (tcgen05.dealloc) after their last use, with a block-wide barrier in between.',
    ),
    ('memcheck', 'tensor_freed_twice'): Message(
        'tcgen05.dealloc of {columns} columns from column {column} on: these columns are not one allocation, or were '
        'already freed',
        'Pass the address that tcgen05.alloc stored, and the same number of columns, in one warp.',
    ),
    ('memcheck', 'tensor_leak'): Message(
        'the block ends without freeing {columns} columns of tensor memory',
        'Free them in one warp, after a barrier: tcgen05.dealloc. Otherwise tcgen05.alloc of a later block on this SM '
        'may never return.',
    ),
    ('memcheck', 'tensor_relinquished'): Message(
        'tcgen05.alloc after tcgen05.relinquish_alloc_permit: the block may not allocate any more',
        'Allocate first; relinquish the permit after the last tcgen05.alloc.',
    ),
    ('memcheck', 'tensor_lanes'): Message(
        '{operation} by warp {warp} accesses lanes {lane} to {last} of tensor memory, but this warp can access only '
        'lanes {first} to {last_allowed}',
        'Warp i can access 32 lanes, the first of which is 32*(i%4): add that lane, shifted left by 16, to the '
        'address. Shapes of 16 lanes must begin at a multiple of 16.',
    ),
    ('memcheck', 'tensor_groups'): Message(
        '{operation} with cta_group::{group}, but another tcgen05 instruction of this kernel has '
        'cta_group::{other_group}',
        'Use the same cta_group in all tcgen05 instructions of a kernel.',
    ),
    ('memcheck', 'tensor_pair'): Message(
        '{operation} with cta_group::2 in a block that does not belong to a CTA pair',
        'Launch clusters of an even number of blocks, as with __cluster_dims__(2, 1, 1).',
    ),
    ('memcheck', 'instruction_descriptor'): Message(
        'tcgen05.mma: bits {part} of the instruction descriptor are {value}; allowed: {allowed}',
        'Compare the descriptor with the table in the PTX specification for this kind and cta_group.',
    ),
    ('memcheck', 'matrix_descriptor'): Message(
        'bits {part} of the matrix descriptor of {operand} are {value}; allowed: {allowed}',
        "Blackwell's format has 1 in bits 46 to 48 and the swizzle mode in bits 61 to 63; Hopper's differs.",
    ),
    ('memcheck', 'tensor_map_mode'): Message(
        'cp.async.bulk.tensor: {part} is {value}; required: {allowed}',
        'Make the tensor map for the mode of the instruction: cuTensorMapEncodeTiled with a box of one row for '
        '.tile::gather4 and .tile::scatter4, cuTensorMapEncodeIm2col for .im2col.',
    ),
    ('memcheck', 'metadata'): Message(
        '{operation}: lane {lane}: metadata {word:#010x} selects elements {first} and {second}, in this order, for '
        'group {group} (row {row}, columns {column} to {last})',
        'Select two distinct elements per group, the lower index first: the 4 bits are first | second << 2 (4, 8, '
        '12, 9, 13 or 14), with the first group in the lowest bits. Other values are undefined.',
    ),
    # Uninitialized memory, by memory space
    ('initcheck', 'unwritten'): Message(
        _UNINITIALIZED,
        dict(
            python='device_array does not clear memory: write every element first, or copy zeros to the array.',
            cuda='cudaMalloc, malloc and torch::empty do not clear memory: write every element first, or call '
            'cudaMemset.',
        ),
    ),
    ('initcheck', 'unwritten_shared'): Message(
        _UNINITIALIZED,
        dict(
            python='Shared memory starts with what an earlier block left there: write the element, call '
            'cuda.syncthreads(), then read it.',
            cuda='Shared memory starts with what an earlier block left there: write the element, call '
            '__syncthreads(), then read it.',
        ),
    ),
    ('initcheck', 'unwritten_local'): Message(
        _UNINITIALIZED, 'Local memory starts with arbitrary values: write the element before it is read.'
    ),
    ('initcheck', 'tensor_unwritten'): Message(
        'uninitialized read of tensor memory: lane {lane}, column {column}',
        'Set enable-input-d to false in the first tcgen05.mma of a tile, which then ignores D; write other elements '
        'with tcgen05.st or tcgen05.cp before they are read.',
    ),
    ('initcheck', 'unwritten_for_engine'): Message(
        _UNINITIALIZED + ' by the tensor cores or TMA',
        'If a bulk copy writes the element, first wait on the mbarrier of the copy, and expect all bytes of the copy '
        'there (expect_tx).',
    ),
    ('initcheck', 'unassigned'): Message(
        'line {line} of {kernel}: the variable {variable} is uninitialized in block {in_block}, thread {thread}: this '
        'thread executed no assignment to it. Numba reads it as 0; Python raises UnboundLocalError. Assign it before '
        'the branch or loop'
    ),
    ('initcheck', 'no_value'): Message(
        'line {line} of {kernel}: {function} returns no value in block {in_block}, thread {thread}: this thread '
        'reaches the end of the function without `return`. On a GPU, Numba ends the thread here, without an error; '
        'Python returns None',
        'Return a value on every path.',
    ),
    # A barrier of the block or the grid that not all threads reach, and loops that wait
    ('synccheck', 'returned'): Message(
        'line {line} of {kernel}: '
        + _DIVERGENT_BARRIER
        + 'has returned. GPUs since Volta do not wait for threads that have returned, but CUDA defines the barrier for '
        'all threads of the block. Guard the data, not the barrier'
    ),
    ('synccheck', 'skipped'): Message(_DIVERGENT_BARRIER + 'has skipped it', _REACH_BARRIER),
    ('synccheck', 'diverged'): Message(_DIVERGENT_BARRIER + 'is in another branch', _REACH_BARRIER),
    ('synccheck', 'grid_diverged'): Message(
        'grid barrier in divergent code: thread {thread} of block {in_block} does not reach it', _REACH_GRID_BARRIER
    ),
    ('synccheck', 'endless_wait'): Message(
        'deadlock: {waiting} here for a value in memory that no thread will change',
        'The simulator runs the threads of a block in lockstep, so they cannot spin on each other: use a barrier, '
        'or let one thread per block take the lock.',
    ),
    ('synccheck', 'blocks_wait'): Message(
        'deadlock: {waiting} here for a value in memory that no thread can change while threads run in lockstep',
        'Let blocks wait for each other with a flag that is read atomically, as in '
        '`while cuda.atomic.add(flags, i, 0) == 0`. Within a block, use a barrier, or let one thread take the lock.',
    ),
    # Named barriers and mbarriers; `why` is a phrase: the event that the thread waits for
    ('synccheck', 'no_such_barrier'): Message(
        'barrier {barrier} for {threads} threads is invalid: its number must be 0 to 15, and its thread count a '
        'multiple of 32',
        'Count 32 threads per warp that arrives.',
    ),
    ('synccheck', 'barrier_threads'): Message(
        'barrier {barrier} expects {threads} threads here, but the threads that already wait at it expect {others}',
        'Pass the same number of threads in every call for this barrier.',
    ),
    ('synccheck', 'no_mbarrier'): Message(
        '{operation} at an address that is not an initialized mbarrier',
        'Initialize the mbarrier in one thread: mbarrier.init, then fence.mbarrier_init, then a block-wide barrier '
        '(cluster-wide, if other blocks use it).',
    ),
    ('synccheck', 'mbarrier_count'): Message(
        "an mbarrier's arrival count must be between 1 and 2^20 - 1", _SET_ARRIVAL_COUNT
    ),
    ('synccheck', 'mbarrier_bytes'): Message(
        'an mbarrier must not expect more than 2^20 - 1 bytes at a time, but this one expects {bytes}',
        'Pass the number of bytes that the copies of this phase write.',
    ),
    ('synccheck', 'too_many_arrive'): Message(
        'more than {count} arrivals at an mbarrier in one phase: line {init_line} set its arrival count to {count}',
        _SET_ARRIVAL_COUNT,
    ),
    # setmaxnreg; `counts`: the registers per thread that the warpgroups own or request, as a sum
    ('synccheck', 'too_few_registers'): Message(
        'deadlock: setmaxnreg.inc waits for registers that no thread releases: the warpgroups request {counts} per '
        'thread, {needed} for the block, but its launch bounds give it {available} ({per_thread} per thread)',
        'Request fewer in setmaxnreg.inc, or release more by setmaxnreg.dec in the other warpgroups.',
    ),
    ('synccheck', 'setmaxnreg_skipped'): Message(
        'warp {warp} does not execute this setmaxnreg, but all warps of a warpgroup must execute the same one',
        'Let all four warps of the warpgroup execute it, also those that have nothing else to do.',
    ),
    ('synccheck', 'setmaxnreg_direction'): Message(
        'setmaxnreg.dec to {registers} registers per thread, but the thread has {before}',
        'Use setmaxnreg.inc to request registers, and setmaxnreg.dec to release them.',
    ),
    ('synccheck', 'not_resident'): Message(
        'deadlock: this block waits for blocks that have not started: {resident} of the {blocks} blocks are resident, '
        'no more fit on the device, and all of them wait',
        'Launch no more blocks than fit, or let each block take its index from an atomic counter and wait only for '
        'blocks with lower indices.',
    ),
    ('synccheck', 'deadlock_on_flag'): Message(
        'deadlock: a loop on device {device} waits for {element} to change, and nothing will change it; {others}',
        'Check that each kernel sets the flags that others wait for, on the device where they wait. A kernel must not '
        'mistake a flag of an earlier iteration for a new one: store the iteration number in the flag, or reset the '
        'flag before it is set again.',
    ),
    ('synccheck', 'ranks_missing'): Message(
        'deadlock: {call} of rank {rank} waits for {ranks}, {why}',
        'All ranks of a communicator must make the same calls in the same order, and each ncclSend needs an ncclRecv. '
        'Look for a rank that returns early, skips a call, or fails.',
    ),
    ('synccheck', 'ranks_disagree'): Message(
        'ranks disagree: rank {rank} calls {call}, but rank {rank_before} calls {call_before}',
        'All ranks must pass the same count, data type, operation and root, and must call the same functions in the '
        'same order.',
    ),
    ('synccheck', 'process_missing'): Message(
        'deadlock: a loop waits for {element} to change, but {why}',
        'Look for the first error in the output of the other processes. Check that each process sets the flags that '
        'others wait for before it ends.',
    ),
    ('synccheck', 'not_cooperative'): Message(
        'this_grid().sync() in a launch that is not cooperative', 'Launch with cudaLaunchCooperativeKernel.'
    ),
    ('synccheck', 'deadlock'): Message(_DEADLOCK, _CHECK_MBARRIER),
    ('synccheck', 'mutual_deadlock'): Message(_DEADLOCK + '; thread {thread} waits {other_why}', _CHECK_MBARRIER),
    # A warp and its masks; `operation`: 'a shuffle', 'a vote', 'syncwarp'
    ('synccheck', 'thread_not_in_mask'): Message(
        'a thread executes {operation} with mask {mask:#x}, which does not include that thread',
        'Include all participating lanes in the mask: {full_mask:#x} for the whole warp, -1 for a warp of any width.',
    ),
    ('synccheck', 'lane_in_other_branch'): Message(
        '{operation} waits for lane {lane} of the warp, which is in the mask but in another branch',
        'Include in the mask only the lanes that reach the operation, or move the operation before the branch.',
    ),
    ('synccheck', 'source_lane'): Message(
        'a shuffle reads from lane {lane}, which does not execute it', 'Every source lane must execute the shuffle.'
    ),
    ('synccheck', 'undefined_lane'): Message(
        'line {line} of {kernel}: a shuffle reads lane {lane}, which {state}: its value is undefined, and line '
        '{stored} stores a result that depends on it. Every source lane must execute the shuffle, with a neutral value '
        'where there is no element'
    ),
    ('synccheck', 'undefined_result'): Message(
        'line {line} of {kernel}: {state} gets the result: in thread {thread} the result is undefined, and line '
        '{stored} stores a value computed from it. Write the result to shared memory in the thread that gets it; after '
        'a barrier, all threads can read it'
    ),
    ('synccheck', 'caller_not_in_mask'): Message(
        'lane {lane} is not in the mask {mask:#x} of its own call',
        'Include each calling lane in the mask that it passes.',
    ),
    ('synccheck', 'lane_elsewhere'): Message(
        'lane {lane} waits here for the lanes of mask {mask:#x}, but lane {other_lane} executes other code',
        _REACH_SAME_CALL,
    ),
    ('synccheck', 'different_calls'): Message(
        'the lanes of mask {mask:#x} wait at different operations or with different masks', _REACH_SAME_CALL
    ),
    ('synccheck', 'warp_diverged'): Message(
        '{operation} must be executed by all 32 lanes of a warp together: lane {lane} waits here, lane {other_lane} '
        '{state}',
        'Move the operation out of branches that depend on the lane, and make the block size a multiple of 32.',
    ),
    ('synccheck', 'different_descriptors'): Message(
        'wgmma.mma_async: the lanes of a warp pass different descriptors',
        'Pass the same descriptor in all threads of a warpgroup.',
    ),
    ('synccheck', 'tensor_addresses'): Message(
        '{operation}: the lanes of a warp pass different addresses of tensor memory',
        'Pass the same address in all lanes: the instruction adds the lane index to it.',
    ),
    # Launches that no GPU accepts
    ('launch', 'no_brackets'): Message(
        '{kernel} is a kernel: launch it with a grid and a block, as in {kernel}[grid, block](...)'
    ),
    ('launch', 'brackets'): Message(
        '{kernel}[...] takes grid and block, optionally followed by stream and bytes of shared memory: '
        'expected two to four values, got {given}'
    ),
    ('launch', 'arguments'): Message(
        'wrong number of arguments for {kernel}({parameters}): expected {count}, got {given}'
    ),
    ('launch', 'sizes'): Message('{kernel}: {why}'),
    ('launch', 'empty'): Message(
        'the grid is {grid} and the block is {block}, but every size must be at least 1',
        'Skip the launch if the input is empty.',
    ),
    ('launch', 'block_size'): Message(
        'a block of {block} has {threads} threads; the limit is {limit}, and {limit_z} along z',
        'Use smaller blocks and more of them.',
    ),
    ('launch', 'grid_size'): Message(
        'the grid has {grid} blocks; the limit is {limit_x} along x, and {limit_yz} along y and z',
        'Put the longest axis along x.',
    ),
    ('launch', 'cluster_size'): Message(
        'a grid of {grid} blocks cannot be divided into clusters of {cluster} blocks: a cluster has at most {limit} '
        'blocks, and the grid size must be a multiple of the cluster size along each axis',
        'Round the grid up, and let surplus blocks do nothing. Clusters of 16 blocks are possible after '
        'cudaFuncSetAttribute with cudaFuncAttributeNonPortableClusterSizeAllowed, or in Python after '
        'kernel.allow_large_clusters().',
    ),
    ('launch', 'shared_number'): Message(
        'the size of shared memory must be a non-negative integer, in bytes; got {given!r}'
    ),
    ('launch', 'stream'): Message('a stream must be None, an integer, or a stream of torch or Numba; got {given!r}'),
    ('launch', 'shared_size'): Message(
        'the launch requests {bytes} bytes of shared memory; the limit per block is {limit} unless the kernel opts in '
        'to more',
        _USE_SMALLER_TILE,
    ),
    ('launch', 'shared_arrays'): Message(
        'the kernel uses {bytes} bytes of shared memory per block; the limit is {limit}', _USE_SMALLER_TILE
    ),
    ('launch', 'dynamic_size'): Message(
        'the launch requests {bytes} bytes of dynamic shared memory; the limit of this kernel is {limit}',
        'Above 48 KB: cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), up to 227 KB.',
    ),
    ('launch', 'cooperative_size'): Message(
        'a cooperative launch has {blocks} blocks, but only {resident} fit on the device at once',
        'Launch fewer blocks, and let each thread do more: a grid-stride loop.',
    ),
    ('launch', 'launch_bounds'): Message(
        'the block has {threads} threads; the limit of this kernel is {limit}, as its `__launch_bounds__` declares',
        'Launch smaller blocks, or raise the bound.',
    ),
    ('launch', 'shared_sum'): Message(
        'the launch uses {bytes} bytes of static and {dynamic} bytes of dynamic shared memory; the limit of this '
        'kernel is {limit}',
        _USE_SMALLER_TILE,
    ),
    ('launch', 'static_size'): Message(
        "the kernel's static shared memory exceeds the limit per block",
        'The limit is 48 KB: use smaller arrays, or dynamic shared memory, of which a block can have up to 227 KB.',
    ),
    ('launch', 'not_launched'): Message(
        '{kernel} is a kernel, but host code calls it like a function',
        'Launch it with an execution configuration: {kernel}<<<blocks, threads>>>(...).',
    ),
    ('launch', 'stream_of_other_device'): Message(
        'a kernel is launched on device {device} in a stream of device {owner}',
        'A stream belongs to the device on which it was created: call cudaSetDevice({owner}) before the launch, or '
        'create a stream on device {device}.',
    ),
    ('launch', 'waits_in_kernel'): Message(
        'a kernel waits for kernels that it has launched, which CUDA no longer allows',
        'Child grids start only after the parent grid has finished: launch the work that depends on them into '
        'cudaStreamTailLaunch, or from the host.',
    ),
    ('launch', 'out_of_memory'): Message(
        'line {line}: out of memory: {bytes} bytes requested, but the emulated device has {limit}, '
        '{used} of them in use',
        'By default the device has as much memory as this machine has free; with checks, each byte of device memory '
        'takes eleven bytes of host memory. Set another size with GRIDSTRIDE_DEVICE_MEMORY=8G or '
        'cpp.options(memory=...).',
    ),
    ('launch', 'tuned'): Message(
        '{kernel}: autotune runs each of {configs} configurations many times on the arguments of the launch, and '
        'each run changes {array} again: on a GPU the first launch gives a wrong result',
        "Name the array in the decorator: triton.autotune(..., {argument}=['{array}']).",
    ),
    ('launch', 'program_arguments'): Message('{problem}', 'The kernel takes {signature}.'),
    ('launch', 'program_grid'): Message(
        'the grid must be one to three integers, or a function of the meta-parameters that returns them; got {given}',
        'Pass (triton.cdiv(n, BLOCK),), for example.',
    ),
    # A kernel that ends early
    ('assert', 'static'): Message(
        'tl.static_assert failed: {message}', 'The condition is evaluated when the kernel is compiled.'
    ),
    ('assert', 'multiple'): Message(
        'tl.multiple_of promises multiples of {of}, but {value} is not a multiple of {of}',
        'The compiler relies on this promise to vectorize accesses: pass a number that divides the value in every '
        'program.',
    ),
    ('assert', 'device'): Message('tl.device_assert failed: {message}'),
    ('assert', 'fails'): Message(dict(python='assertion failed', cuda='assertion `{expression}` failed')),
    ('assert', 'fails_with'): Message('assertion failed: {message}'),
    ('raise', 'raised'): Message(
        '{raised}',
        'On a GPU the exception reaches the host only if the kernel is compiled with @cuda.jit(debug=True, opt=False); '
        'without debug=True the thread ends silently.',
    ),
    ('crash', 'division'): Message(
        'integer division by zero', 'A GPU continues with an undefined value: test the divisor first.'
    ),
    ('crash', 'division_overflows'): Message(
        _DIVISION_OVERFLOW, f'{_CHECK_DIVISOR} A GPU continues with an undefined value.'
    ),
    ('crash', 'stack'): Message(
        'stack overflow in a thread: its local variables need more than the {kilobytes} KB that the emulator provides',
        'A thread of a GPU has at most 512 KB of local memory. Put a large array into global memory, one slice per '
        'thread; limit the depth of recursion.',
    ),
    ('crash', 'aborts'): Message(
        'the kernel called abort(), or threw an exception', 'Device code has no exceptions: use assert(...).'
    ),
    ('crash', 'instruction'): Message('the kernel executed an instruction that traps', _TRAP_CAUSES),
    ('crash', 'trap'): Message('{operation}'),
    ('crash', 'no_return'): Message(
        'a function that must return a value ends without `return`', 'Return a value on every path.'
    ),
    ('crash', 'local_array'): Message(
        'out-of-bounds {access_to} a local array',
        "The access is through a pointer, perhaps in a called function: check the index against the array's size.",
    ),
    ('crash', 'exits'): Message(
        'exit({status}) was called',
        'exit() would also end the Python process: report the error with TORCH_CHECK(false, "message").',
    ),
    ('crash', 'exits_in_kernel'): Message(
        'exit({status}) was called', 'A kernel cannot end the program; `return` ends one thread.'
    ),
    ('crash', 'host_called'): Message(
        '{function} is a __host__ function, and a kernel called it',
        'A host function does not exist on a GPU: call it in host code, and pass its result to the kernel.',
    ),
    ('crash', 'host_memory'): Message(
        'host code accessed memory that it does not own',
        'Check for a null pointer, an out-of-bounds index, or freed memory.',
    ),
    ('crash', 'host_division'): Message('integer division by zero in host code', 'Test the divisor first.'),
    ('crash', 'host_division_overflows'): Message(f'in host code: {_DIVISION_OVERFLOW}', _CHECK_DIVISOR),
    ('crash', 'host'): Message(
        'host code crashed',
        'The code called std::terminate (an uncaught exception, or a std::thread that is not joined), freed memory '
        'twice, or reached code that the compiler considers unreachable.',
    ),
    ('crash', 'cluster_variable'): Message(
        'the emulator does not support file-scope __shared__ variables in kernels with clusters',
        'Declare the variable in the kernel, or in the function that uses it.',
    ),
    ('crash', 'no_addresses'): Message(
        'out of address space for the memory of the emulated device, or for its checks',
        'Either virtual memory is limited (ulimit -v), or the program leaks memory; checks=False needs less.',
    ),
    ('crash', 'not_emulated'): Message(
        'the emulator does not support {function}', 'Call torch.matmul from Python, or run on a GPU.'
    ),
    ('crash', 'shifted_too_far'): Message(
        'line {line} of {kernel}: undefined behaviour: a {bits}-bit integer is shifted by {distance}',
        'A GPU gives 0, or -1 if a negative integer is shifted right; this machine may give a different result. Shift '
        'by at most {max_distance}.',
    ),
    ('crash', 'does_not_fit'): Message(
        'line {line} of {kernel}: undefined behaviour: {value} does not fit into {type}',
        'A GPU may give a different result. Check the range first, or use an intrinsic such as __float2int_rz, which '
        'saturates and gives 0 for a NaN.',
    ),
    ('crash', 'no_stack'): Message(
        'out of memory: a stack for another thread cannot be allocated',
        'Raise the limit on virtual memory (ulimit -v) if there is one, or use smaller blocks.',
    ),
    ('timeout', 'time_limit'): Message(
        'the kernel is still running after {seconds} s: an infinite loop, or a deadlock',
        dict(
            python='If the kernel is only slow, raise the limit: with sim.options(seconds=...): ...',
            triton='If the kernel is only slow, raise the limit: with tile.options(seconds=...): ...',
            cuda='If the kernel is only slow, raise the limit: cpp.options(seconds=...). A loop that waits for '
            'another thread must read a volatile or atomic variable; with checks=False, it must be atomic.',
        ),
    ),
}


# Hints that replace that of a row if `hints.hint_for` recognizes the mistake in the learner's lines
_UPDATE_IN_LINE = 'This line reads {element}, then writes it: an update by another thread in between is lost. '
_UPDATE_IN_TWO_LINES = 'These two lines read {element}, then write it: an update by another thread in between is lost. '
_WITHOUT_ATOMIC = 'No atomic operation does exactly this: let one thread do it, or give each thread its own element.'
_USE_ATOMIC = dict(
    python='Update it in one step: cuda.atomic.{operation}({array_text}, {index_text}, {value}).',
    cuda='Update it in one step: atomic{Operation}(&{target}, {value}).',
)
_PASSES_GUARD = 'The guard `{guard}` is true for this thread, and '
HINTS = {
    'at_grid': _REACH_GRID_BARRIER,
    'misaligned_pair': 'A pair of bfloat16 must begin at an even index. Access a pair that begins at an odd index as '
    'two single elements.',
    'update': {d: _UPDATE_IN_LINE + remedy for d, remedy in _USE_ATOMIC.items()},
    'update_apart': {d: _UPDATE_IN_TWO_LINES + remedy for d, remedy in _USE_ATOMIC.items()},
    'update_other': _UPDATE_IN_LINE + _WITHOUT_ATOMIC,
    'update_other_apart': _UPDATE_IN_TWO_LINES + _WITHOUT_ATOMIC,
    'program_update': 'The kernel reads {element}, then writes it: an update by another program or lane in between is '
    'lost. Update it in one step: tl.atomic_{operation}({arguments}).',
    'two_names': '{element} and {second_element} are stored at the same address: the arrays overlap. Pass a copy '
    'of one array, or give each thread its own part of the memory.',
    'expanded': '{array} is expanded (stride 0): several of its elements are stored at the same address. Pass a copy, '
    'for example with .contiguous() or np.ascontiguousarray.',
    'one_element': 'Both accesses are on this line: give each thread its own element, or let one thread write.',
    'same_line': dict(
        python='Both accesses are on line {line}, in different iterations of a loop: put a cuda.syncthreads() '
        'at the end of each iteration.',
        cuda='Both accesses are on line {line}, in different iterations of a loop: put a __syncthreads() at the end of '
        'each iteration.',
    ),
    'in_line': dict(
        python='Both accesses are on this line: read into a variable, put a cuda.syncthreads() after that, then write.',
        cuda='Both accesses are on this line: read into a variable, put a __syncthreads() after that, then write.',
    ),
    'called_twice': dict(
        python='A barrier is missing between the two calls of `{function}`, lines {earlier} and {now}: put a '
        'cuda.syncthreads() at the end of `{function}`, or between these two lines.',
        cuda='A barrier is missing between the two calls of `{function}`, lines {earlier} and {now}: put a '
        '__syncthreads() at the end of `{function}`, or between these two lines.',
    ),
    'called_in_loop': dict(
        python='A barrier is missing between one call of `{function}`, line {line}, and the next: put a '
        'cuda.syncthreads() at the end of `{function}`, or at the end of each iteration.',
        cuda='A barrier is missing between one call of `{function}`, line {line}, and the next: put a '
        '__syncthreads() at the end of `{function}`, or at the end of each iteration.',
    ),
    'called_again': dict(
        python='A barrier is missing between one call of `{function}` and the next: put a cuda.syncthreads() at its '
        'end.',
        cuda='A barrier is missing between one call of `{function}` and the next: put a __syncthreads() at its end.',
    ),
    'calls_apart': dict(
        python='Put a cuda.syncthreads() between lines {earlier} and {now}, from which both were called.',
        cuda='Put a __syncthreads() between lines {earlier} and {now}, from which both were called.',
    ),
    'next_iteration': dict(
        python='Line {line} is in the next iteration of the loop: put a cuda.syncthreads() at the end of each '
        'iteration, after line {earlier}.',
        cuda='Line {line} is in the next iteration of the loop: put a __syncthreads() at the end of each iteration, '
        'after line {earlier}.',
    ),
    'one_atomic': dict(
        python='Put a cuda.syncthreads() between these two lines, or make both accesses atomic: one atomic '
        'access alone orders nothing. To read atomically, use cuda.atomic.add(array, i, 0).',
        cuda='Put a __syncthreads() between these two lines, or make both accesses atomic: one atomic '
        'access alone orders nothing. To read atomically, use atomicAdd(&x, 0).',
    ),
    'before_swap': dict(
        python='A compare-and-swap protects only the thread that executes it. Let every other thread read the element '
        'atomically: cuda.atomic.add(array, i, 0).',
        cuda='A compare-and-swap protects only the thread that executes it. Let every other thread read the element '
        'atomically: atomicAdd(&x, 0).',
    ),
    'in_step': 'Since Volta, lanes of one warp need not run in lockstep: put a __syncwarp() between the reads and the '
    'writes, and after the writes, or exchange the values with __shfl_down_sync.',
    'guard': dict(
        python=_MUST_DO_NOTHING + '`if {expr} < {array}.size`.',
        cuda=_MUST_DO_NOTHING + '`if ({expr} < n)`, where n is the number of elements, {size}.',
    ),
    'farthest': dict(
        python='The largest index is `{expr}`: guard that one, as in `if {expr} < {array}.size`.',
        cuda='The largest index is `{expr}`: guard that one, as in `if ({expr} < n)`, where n is the number '
        'of elements, {size}.',
    ),
    'guard_flat': dict(
        python='The index is `{expr}`. A thread past the last row or the last column must do nothing: guard both, '
        'as in `if r < h and c < w`.',
        cuda='The index is `{expr}`. A thread past the last row or the last column must do nothing: guard both, '
        'as in `if (r < h && c < w)`.',
    ),
    'guard_axes': dict(
        python='Along axis {axis} valid indices are 0 to {last}, and this one is {axis_index}. A thread past the end '
        'must do nothing: guard every axis, as in `if {conditions}`.',
        cuda='Along axis {axis} valid indices are 0 to {last}, and this one is {axis_index}. A thread past the end '
        'must do nothing: guard every axis, as in `if ({both})`.',
    ),
    'one_too_many': '`{guard}` admits one index too many: with {size} elements the last valid index is {last}.',
    'row_too_many': '`{guard}` admits one index too many: the last valid index is {bound} - 1. `{comparison}` must be '
    '`{corrected}`.',
    'wrong_connective': '`{guard}` admits threads with one index past the end: `{connective}` must be `{corrected}`.',
    'swapped': 'The index is `{expr}`, with rows and columns swapped: it must be `{corrected}`.',
    'swapped_axes': 'Along axis {axis} valid indices are 0 to {last}, and this one is {axis_index}: `{expr}` has rows '
    'and columns swapped, use `{corrected}`. If this is a transpose, {array} must have shape {transposed}.',
    'moved': '`{move}` has moved the pointer: `{expr}` counts from the new position, the index in this message from '
    'the first element of {array}. Check how far the pointer moves, and how many elements remain after it.',
    'moved_by': '`{move}` has moved the pointer: `{expr}` is {new_index}, counted from the new position, but only '
    '{remaining} elements remain there. Guard with the number of remaining elements.',
    'fixed': 'Valid indices of {array} are 0 to {last}: check whether the block size, or the bound of a loop, is '
    'larger.',
    'guard_of_other_size': dict(
        python=_PASSES_GUARD + '`{expr}` is {at}: guard this index, too, as in `if {expr} < {array}.size`.',
        cuda=_PASSES_GUARD
        + '`{expr}` is {at}: guard this index, too, or give {array} at least as many elements as the guard allows.',
    ),
    'stride': _PASSES_GUARD + '`{expr}` is {at}: check its stride, the distance from one row to the next.',
    'inside_another': '{inner} begins inside {array}, at {array}[{inner_at}], so this element is '
    '{inner}[{inner_index}]. Guard the index of the array that this line is meant to access.',
    'below_0': '`{expr}` is unsigned: below 0 it wraps around to 4294967295. Assign it to an int first, '
    'as in `int i = threadIdx.x;`, and guard `i` from below.',
    'from_memory': 'The index `{expr}` was read from memory and is {at}: check where it was written.',
    'unmasked_axis': 'Some lanes along axis {axis} of the block are past the end of axis {array_axis} of {array}, '
    'which has {size} elements, and access the elements that follow in memory. Add `{comparison}` to the mask of the '
    'access on line {masked}.',
    'blocks_overlap': 'The blocks of the two programs overlap: each has {extent} lanes, but they begin {distance} '
    'elements apart. If a row has {distance} elements, mask the lanes past its end on line {masked}, as in '
    '`mask=columns < {distance}`; otherwise, let the blocks begin {extent} elements apart.',
    'remainder': dict(
        MESSAGES['memcheck', 'before'].hint,
        cuda='In C a remainder has the sign of its left operand, so `{expr}` is {at} here: add {divisor} if it is '
        'negative.',
    ),
}
for _operation in ('max', 'min'):
    for _apart in ('', '_apart'):
        _row = HINTS[f'update{_apart}']
        HINTS[f'update_{_operation}{_apart}'] = dict(
            _row, cuda=_row['cuda'][:-1] + ' for integers, a loop with atomicCAS for other types.'
        )


# The parts of sentences that a `Phrase` names
PHRASES = {
    # the thread or engine that copies or reads
    'own_copy': "the thread's own asynchronous copy",
    'other_copy': "another thread's asynchronous copy",
    'a_thread': 'a thread',
    'a_bulk_copy': 'a bulk copy',
    'an_engine': 'the tensor cores or TMA',
    'element': '{element}',
    # operations of a program, and their streams
    'kernel_on': 'kernel {name} (launched on line {line}) on {stream}',
    'call_on': '{name} (line {line}) on {stream}',
    'kernel_in': 'kernel {name} on {stream}',
    'call_in': '{name} on {stream}',
    'default_stream': 'the default stream',
    'created_stream': 'stream {number} (created on line {created})',
    'given_stream': 'stream {number}',
    'of_line': 'of line {line}',
    # the reason why a thread waits, after `waits`
    'at_cluster': 'at the cluster barrier for threads that do not arrive',
    'at_grid': 'at the grid barrier, where {arrived} of {threads} threads have arrived',
    'at_barrier': 'at barrier {barrier}, where {arrived} of {threads} threads have arrived',
    'surplus_bytes': f'{_MBARRIER_PHASE} got {{bytes}} bytes more than it expects',
    'missing_arrivals_and_bytes': f'{_MBARRIER_PHASE} lacks {{missing}} of {{count}} arrivals and {{bytes}} bytes',
    'missing_bytes': f'{_MBARRIER_PHASE} lacks {{bytes}} bytes',
    'missing_arrivals': f'{_MBARRIER_PHASE} lacks {{missing}} of {{count}} arrivals',
    'for_wgmma': 'for a wgmma that not all four warps of its warpgroup have issued',
    'for_tensor_memory': 'for {columns} columns of tensor memory, of which {used} are allocated',
    'for_tensor_pair': 'for the other block of its pair to allocate tensor memory',
    'for_registers': 'for registers (setmaxnreg.inc)',
    # what is missing between two uses of tensor memory
    'not_committed': 'no tcgen05.commit follows it',
    'commit_not_awaited': 'this thread has not waited for its tcgen05.commit',
    'load_without_wait': 'the warp has not executed tcgen05.wait::ld',
    'store_without_wait': 'the warp has not executed tcgen05.wait::st',
    'fence_before': 'with no tcgen05.fence::before_thread_sync before the synchronization',
    'fence_after': 'with no tcgen05.fence::after_thread_sync after the synchronization',
    # the state of the other lane of a warp
    'lane_waits': 'waits {why}',
    'lane_nonexistent': 'does not exist',
    'lane_returned': 'has returned',
    'lane_at_other_call': 'executes other code',
    'not_in_mask': 'is not in its mask',
    # the threads to which a collective operation returns its result
    'first_of_block': 'only the first thread of the block',
    'first_of_warp': 'only the first lane of each warp',
    # why a kernel stopped
    'trap_called': '__trap() was called',
    'breakpoint': '__brkpt() was called, and no debugger is attached',
    'abort_called': 'abort() was called',
    'exception_thrown': 'the kernel threw an exception, but device code has no exceptions',
    'tile_threads': 'tiled_partition(group, n): n must be 1, 2, 4, 8, 16 or 32',
    'other_kernel_waits': '{kernel} on device {device} also waits, on line {line}',
    'no_other_kernel': 'no other kernel runs',
    # why other ranks, or other processes, do not come
    'rank_not_called': 'which did not call it',
    'rank_not_arrived': 'which called it, but earlier operations in its stream have not completed',
    'rank_ended': 'whose process has ended',
    'rank_left': 'which has called ncclCommDestroy or nvshmem_finalize',
    'rank_without_group': 'for which the same thread calls later, without ncclGroupStart and ncclGroupEnd',
    'process_ended': 'process {process}, which shares this memory, has ended',
    'processes_idle': 'the other processes that share this memory are idle',
    'copy_bytes': '__pipeline_memcpy_async must copy 4, 8 or 16 bytes',
    'matrix_stride': 'load_matrix_sync and store_matrix_sync: ldm must be a multiple of 16 bytes',
}

# Templates of the fields that `errors` derives: `waiting`, `extent`, `either`, `access_to` and `hazard`
FRAGMENTS = {
    'thread_waits': '1 thread waits',
    'threads_wait': '{threads} threads wait',
    'has_shape': 'shape {shape}',
    'one_element': '1 element',
    'elements': '{count} elements',
    'or': ' or ',
    'read_to': 'read of',
    'write_to': 'write to',
    'atomic_to': 'atomic on',
    'access_to': 'access to',
    **{f'{now}_after_{before}': f'{now} after {before}' for now in _ACCESSES for before in _ACCESSES},
}

# Values of fields that are translated; the translation of a word may depend on the field
VALUES = {
    'access': (*_ACCESSES, 'access'),
    'now': ('read', 'written', 'changed atomically', 'updated by an atomic', 'reads', 'writes'),
    'before': ('read', 'written', 'changed atomically', 'updated by an atomic', 'reads', 'writes', 'write', 'wrote')
    + ('updated',),
}
