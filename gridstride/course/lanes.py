"""The fast lanes through the course, and its parts with their topics and hours: two tables of the README.

A lane or a part has the hours that its lessons state in the table of lessons, `curriculum`, which writes both tables.
"""

__all__ = ['LANES', 'TOPICS', 'chosen', 'hours', 'lane_table', 'part_table']

# What the reader knows, what the reader would like, the lessons in this order (or whole chapters), and other pages
LANES = (
    (
        'Python',
        'to write a correct kernel',
        'first_kernel blocks_and_threads shared_memory threads_and_barriers cuda_c shared_memory_cuda',
        '',
    ),
    (
        'PyTorch, no CUDA',
        'Triton kernels for my model',
        'first_kernel blocks_and_threads timing programs fusion softmax',
        '',
    ),
    ('CUDA C', 'to find out why it is slow', 'profiling ptx_and_sass memory checklist latency_and_roofline', ''),
    ('CUDA C', 'reductions and scans', 'reductions', ''),
    ('CUDA C and profiling', 'a matmul as fast as the library', 'matmul_ladder tensor_cores hopper_gemm', ''),
    ('attention on paper', 'FlashAttention', 'sum programs softmax flash_attention flash_attention_hopper', ''),
    ('serving language models', 'quantization, decoding', 'latency_and_roofline quantization latent_attention', ''),
    (
        'all of CUDA',
        'the checkers on my own code',
        '',
        '[the package](gridstride/README.md), [its messages](site/messages)',
    ),
)

TOPICS = {  # part -> what it teaches
    'One thread at a time': 'indices, grids and blocks, guards, shared memory, barriers, data races; in plain Python',
    'On the GPU': 'CUDA C, `load_inline`, Numba, timing, the PyTorch profiler, Nsight Compute, PTX, SASS, registers, '
    'occupancy',
    'Making it fast': 'coalescing, bank conflicts, swizzles, divergence, latency, the roofline, reductions, scan, '
    'histogram, float32 matrix products',
    'Triton and PyTorch': 'blocks and masks, autotuning, fused GELU, dropout, norms, losses, optimizers, a small '
    'transformer',
    'Machine-learning kernels': 'online softmax, FlashAttention forward and backward, int4, int8 and FP8 quantization, '
    '2:4 sparsity',
    'Tensor cores, Hopper, Blackwell': '`wmma`, `mma.sync`, `ldmatrix`, asynchronous copies, TMA, mbarriers, `wgmma`, '
    'warp specialization, clusters, FlashAttention on Hopper, decoding with a paged KV cache',
    'Many GPUs, other languages': 'ring attention, seven kernel languages, AMD, Blackwell in PTX, judging kernels '
    'that a language model wrote',
}
ROMAN = 'I II III IV V VI VII'.split()
_HEAD = '|---|---|---|---|---|'


def chosen(
    slugs,  # of lessons or of whole chapters, in the order of reading
    lessons,  # all lessons
) -> list:
    "Return the lessons with these slugs; raises `LookupError` for a slug that no lesson has"
    found = []
    for slug in slugs.split():
        some = [o for o in lessons if slug in (o.slug, o.chapter)]
        if not some:
            raise LookupError(f'no lesson and no chapter is called {slug}')
        found += some
    return found


def hours(low, high=None):
    "Write minutes as hours, to the half hour"
    least, most = (f'{round(o / 30) / 2:g}' for o in (low, low if high is None else high))
    return f'{least} h' if least == most else f'{least} to {most} h'


def _times(some):
    "Return the hours of some lessons as two cells of a table"
    if not some:
        return ' | '
    low, high = (sum(o.exercises[i] for o in some) for i in (0, 1))
    return f'{hours(sum(o.reading for o in some))} | {hours(low, high)}'


def _links(some):
    return ', '.join(f'[{o.number}](nbs/{o.file})' for o in some)


def lane_table(lessons) -> str:
    "Return the table of fast lanes as Markdown"
    rows = ['| I know | I want | read | reading | exercises |', _HEAD]
    for know, want, slugs, other in LANES:
        some = chosen(slugs, lessons)
        rows.append(f'| {know} | {want} | {_links(some) or other} | {_times(some)} |')
    return '\n'.join(rows)


def part_table(
    parts,  # {title: lessons}
) -> str:
    "Return the table of parts as Markdown, with a line of totals"
    rows = ['| part | lessons | what it teaches | reading | exercises |', _HEAD]
    for roman, (title, some) in zip(ROMAN, parts.items(), strict=True):
        rows.append(f'| {roman} **{title}** | {_links(some)} | {TOPICS[title]} | {_times(some)} |')
    every = [o for some in parts.values() for o in some]
    return '\n'.join([*rows, f'| **all** | {len(every)} | | {_times(every)} |'])
