"""Learning paths through the course, its parts with their topics and hours, and a ten-week schedule for a class.

The hours are sums over the table of lessons in `curriculum`, which writes the tables of README and INSTRUCTORS.
"""

__all__ = [
    'LEARNING_PATHS',
    'TOPICS',
    'WEEKS',
    'select_lessons',
    'format_hours',
    'learning_path_table',
    'part_table',
    'week_table',
    'chapter_table',
]

# (knowledge of the reader, goal of the reader, slugs of lessons or chapters in reading order, links to other pages)
LEARNING_PATHS = (
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
    ('CUDA C', 'to find out why my kernel is slow', 'profiling ptx_and_sass memory checklist latency_and_roofline', ''),
    ('CUDA C', 'reductions, scans, sorting', 'reductions scan_sort_select', ''),
    ('CUDA C and profiling', 'a matmul as fast as cuBLAS', 'matmul_ladder tensor_cores hopper_gemm', ''),
    ('CUDA C and attention', 'FlashAttention', 'sum programs softmax flash_attention flash_attention_hopper', ''),
    (
        'CUDA C and Triton, serving language models',
        'quantization, decoding',
        'latency_and_roofline quantization online_softmax attention_forward latent_attention block_scaling',
        '',
    ),
    ('CUDA C, PyTorch on several GPUs', 'kernels that communicate', 'other_reductions ring_attention collectives', ''),
    (
        'all of CUDA',
        'the checkers on my own code, in CI',
        'custom_ops',
        '[the package](gridstride/README.md), [its messages](site/messages)',
    ),
)

TOPICS = {  # part -> its contents
    'One thread at a time': 'indices, grids and blocks, guards, shared memory, barriers, data races; in plain Python',
    'On the GPU': 'CUDA C, `load_inline`, Numba, timing, the PyTorch profiler, Nsight Compute, PTX, SASS, registers, '
    'occupancy',
    'Making it fast': 'coalescing, bank conflicts, swizzling, divergence, latency, the roofline, reductions, scan, '
    'sort, top-k, histogram, convolution, stencils, float32 matmul',
    'Triton and PyTorch': 'blocks and masks, autotuning, fused GELU, dropout, norms, losses, optimizers, a small '
    'transformer, custom operators',
    'Machine-learning kernels': 'online softmax, FlashAttention forward and backward, int4, int8 and FP8 quantization, '
    '2:4 sparsity',
    'Tensor cores, Hopper, Blackwell': '`wmma`, `mma.sync`, `ldmatrix`, asynchronous copies, TMA, mbarriers, `wgmma`, '
    'warp specialization, clusters, FlashAttention on Hopper, decoding with a paged KV cache, NVFP4, tensor memory',
    'Many GPUs, other languages': 'ring attention, collectives, nine kernel languages, AMD, evaluating '
    'LLM-generated kernels',
}
WEEKS = (  # the chapters of each week of a class
    'first_kernel blocks_and_threads shared_memory threads_and_barriers',
    'cuda_c shared_memory_cuda',
    'numba profiling',
    'source_to_sass memory checklist',
    'latency_and_roofline reductions scan_sort_select stencils_and_convolution',
    'matmul_ladder triton',
    'fusion custom_ops softmax flash_attention',
    'quantization sparsity',
    'tensor_cores hopper_gemm',
    'flash_attention_hopper latent_attention blackwell ring_attention collectives where_next',
)
ROMAN = 'I II III IV V VI VII'.split()
_DELIMITER_ROW = '|---|---|---|---|---|'


def select_lessons(
    slugs,  # of lessons or of whole chapters, in reading order
    lessons,  # all lessons
) -> list:
    "Return the lessons with these slugs; raises `LookupError` for a slug that no lesson has"
    chosen_lessons = []
    for slug in slugs.split():
        matching_lessons = [lesson for lesson in lessons if slug in (lesson.slug, lesson.chapter)]
        if not matching_lessons:
            raise LookupError(f'no lesson or chapter has the slug {slug!r}')
        chosen_lessons += matching_lessons
    return chosen_lessons


def format_hours(low, high=None):
    "Format minutes as hours, rounded to half hours"
    shortest, longest = (f'{round(minutes / 30) / 2:g}' for minutes in (low, low if high is None else high))
    return f'{shortest} h' if shortest == longest else f'{shortest} to {longest} h'


def _hours_cells(lessons):
    "Return the hours of some lessons as two cells of a table"
    if not lessons:
        return ' | '
    low, high = (sum(lesson.exercises[i] for lesson in lessons) for i in (0, 1))
    return f'{format_hours(sum(lesson.reading for lesson in lessons))} | {format_hours(low, high)}'


def _links(lessons):
    return ', '.join(f'[{lesson.number}](nbs/{lesson.file})' for lesson in lessons)


def learning_path_table(lessons) -> str:
    "Return the table of learning paths as Markdown"
    rows = ['| I know | I want | lessons | reading | exercises |', _DELIMITER_ROW]
    for knowledge, goal, slugs, other_pages in LEARNING_PATHS:
        chosen_lessons = select_lessons(slugs, lessons)
        links = ', '.join(filter(None, [_links(chosen_lessons), other_pages]))
        rows.append(f'| {knowledge} | {goal} | {links} | {_hours_cells(chosen_lessons)} |')
    return '\n'.join(rows)


def part_table(
    parts,  # {title: lessons}
) -> str:
    "Return the table of parts as Markdown, with a row of totals"
    rows = ['| part | lessons | what it teaches | reading | exercises |', _DELIMITER_ROW]
    for roman, (title, lessons) in zip(ROMAN, parts.items(), strict=True):
        rows.append(f'| {roman} **{title}** | {_links(lessons)} | {TOPICS[title]} | {_hours_cells(lessons)} |')
    all_lessons = [lesson for lessons in parts.values() for lesson in lessons]
    return '\n'.join([*rows, f'| **all** | {len(all_lessons)} | | {_hours_cells(all_lessons)} |'])


def week_table(lessons) -> str:
    "Return the ten-week schedule as Markdown, with a row of totals"
    rows = ['| week | chapters | lessons | reading | exercises |', _DELIMITER_ROW]
    for week, slugs in enumerate(WEEKS, 1):
        week_lessons = select_lessons(slugs, lessons)
        titles = ', '.join(dict.fromkeys(lesson.chapter_title for lesson in week_lessons))
        rows.append(f'| {week} | {titles} | {_links(week_lessons)} | {_hours_cells(week_lessons)} |')
    return '\n'.join([*rows, f'| **all** | | {len(lessons)} | {_hours_cells(lessons)} |'])


def chapter_table(lessons) -> str:
    "Return the minutes of each chapter as Markdown"
    rows = ['| chapter | lessons | minutes to read and run | minutes for the exercises |', '|---|---|---|---|']
    for slug in dict.fromkeys(lesson.chapter for lesson in lessons):
        chapter_lessons = select_lessons(slug, lessons)
        low, high = (sum(lesson.exercises[i] for lesson in chapter_lessons) for i in (0, 1))
        exercises = f'{low} to {high}' if high > low else str(low)
        title = f'{chapter_lessons[0].number[:2]} {chapter_lessons[0].chapter_title}'
        reading = sum(lesson.reading for lesson in chapter_lessons)
        rows.append(f'| {title} | {_links(chapter_lessons)} | {reading} | {exercises} |')
    return '\n'.join(rows)
