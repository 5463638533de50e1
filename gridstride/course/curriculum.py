"""The table of lessons, and the texts that are generated from it: tables of lessons, parts and learning paths, first
cells, links.

    python -m gridstride.course.curriculum            # list the lessons
    python -m gridstride.course.curriculum --write    # write the generated texts

A lesson is a notebook, `nbs/08a_timing.ipynb`: number, letter and slug. The ids of its exercises, its recordings and
its judges contain the slug of the chapter, not the number. So to move a lesson, change its number here, `git mv` its
notebook, and run `--write`. In this table, {slug} refers to a lesson; it becomes a link with the lesson's number.
"""

import argparse
import json
import os
import re
import sys
from collections import namedtuple
from pathlib import Path

from ..support.atomic_write import write_atomically
from .learning_paths import chapter_table, learning_path_table, part_table, week_table
from .publishing import clone_commands, is_setup, launch_links, settings, setup_cell, with_links

__all__ = [
    'Lesson',
    'LESSONS',
    'PARTS',
    'chapter_of',
    'chapter_title',
    'minutes',
    'part_of',
    'lessons_by_part',
    'lesson_of_file',
    'first_cell',
    'update_links',
    'lesson_table',
    'listing',
    'generated_texts',
    'main',
]

_FIELDS = 'number slug title reading exercises needs follows does gpu chapter chapter_title'


class Lesson(namedtuple('Lesson', _FIELDS, defaults=[None, None])):
    """A row of the table.

    `number` is that of the chapter, and a letter if the chapter has several lessons; `reading` and `exercises`, a
    pair, are minutes; `needs` and `follows` appear in the notebook's first cell, `does` and `gpu` in nbs/README.md.
    `chapter` and `chapter_title` differ from `slug` and `title` if the chapter has several lessons."""

    __slots__ = ()

    @property
    def file(self):
        "Return the name of the notebook"
        return f'{self.number}_{self.slug}.ipynb'


PARTS = {
    1: 'One thread at a time',
    5: 'On the GPU',
    10: 'Making it fast',
    17: 'Triton and PyTorch',
    20: 'Machine-learning kernels',
    24: 'Tensor cores, Hopper, Blackwell',
    29: 'Many GPUs, other languages',
}  # number of the first chapter -> the part

# fmt: off
LESSONS = tuple(row._replace(chapter=row.chapter or row.slug, chapter_title=row.chapter_title or row.title) for row in (
    Lesson(
        '01',
        'first_kernel',
        'Your first kernel',
        reading=35,
        exercises=(40, 70),
        needs=(
            'Python and a little PyTorch. No GPU. Nearly everything here is plain Python, on purpose, so that nothing'
            " is hidden; at the end the same kernel runs in the course's simulator, and in CUDA C."
        ),
        follows=(
            '[Getting started with CUDA for Python programmers](https://youtu.be/4sgKnKbR-WE) (Jeremy Howard, lecture'
            ' 3), minutes 3 to 24. The ▶ links jump to the matching minute.'
        ),
        does='a loop becomes a function of an index; a colour picture becomes grey; guards',
        gpu='not needed',
    ),
    Lesson(
        '02',
        'blocks_and_threads',
        'Blocks and threads',
        reading=40,
        exercises=(50, 80),
        needs='lesson {first_kernel}. No GPU: still plain Python.',
        follows=(
            '[lecture 3](https://youtu.be/4sgKnKbR-WE?t=1135), minutes 18 to 25 and 44 to 60, and the first minutes '
            'of [lecture 5](https://youtu.be/wVsR-YhaHlM?t=320), 5:20 to 9:25 (both Jeremy Howard).'
        ),
        does='grids in one and two dimensions; a matrix product as a kernel',
        gpu='not needed',
    ),
    Lesson(
        '03',
        'shared_memory',
        'Shared memory',
        reading=50,
        exercises=(70, 110),
        needs='lesson {blocks_and_threads}. No GPU: plain Python.',
        follows=(
            '[Going further with CUDA for Python programmers](https://youtu.be/wVsR-YhaHlM?t=716) (Jeremy Howard, '
            'lecture 5), 11:56 to 34:36.'
        ),
        does='tiles, padding, fill then dot; each element is loaded once and used sixteen times',
        gpu='not needed',
    ),
    Lesson(
        '04',
        'threads_and_barriers',
        'Threads and barriers',
        reading=60,
        exercises=(85, 130),
        needs=(
            "lesson {shared_memory}, whose table of runners ends with the two that this lesson uses. No GPU: Python's "
            'own threads.'
        ),
        follows='[lecture 5](https://youtu.be/wVsR-YhaHlM?t=2076) (Jeremy Howard), 34:36 to 42:09.',
        does=(
            'real threads, two barriers and what each protects; schedules that hide a data race, and the simulator, '
            'which reports it'
        ),
        gpu='not needed',
    ),
    Lesson(
        '05',
        'cuda_c',
        'CUDA C',
        reading=70,
        exercises=(100, 125),
        needs="lesson {blocks_and_threads}, and a C++ compiler; with a GPU, NVIDIA's compiler `nvcc`.",
        follows=(
            '[lecture 1](https://youtu.be/LuhJEEJQgUM?t=1068) (Mark Saroufim) from 17:48, and [lecture '
            '5](https://youtu.be/wVsR-YhaHlM?t=565) (Jeremy Howard), 9:25 to 11:56.'
        ),
        does=(
            'kernels in C, compiled in a second; what `load_inline` generates and why it takes a minute; reading '
            'errors'
        ),
        gpu='helps',
    ),
    Lesson(
        '06',
        'shared_memory_cuda',
        'Shared memory in CUDA C',
        reading=80,
        exercises=(90, 125),
        needs=(
            'lesson {threads_and_barriers} and lesson {cuda_c}. Without a GPU, everything runs and is checked on the '
            'emulator, and times are those of an H100.'
        ),
        follows='[lecture 5](https://youtu.be/wVsR-YhaHlM?t=2529) (Jeremy Howard), 42:09 to 55:57.',
        does=(
            'dynamic, static and templated tiles; why one is slower, as the machine code shows; choosing the tile '
            'size'
        ),
        gpu='helps',
    ),
    Lesson(
        '07a',
        'why_slow',
        'Why Numba was slow',
        reading=45,
        exercises=(25, 25),
        needs=(
            'lessons {threads_and_barriers} and {shared_memory_cuda}. A GPU helps. Without one, the kernels are '
            'simulated, and measurements are those of an NVIDIA H100, marked as recorded.'
        ),
        follows='[lecture 5](https://youtu.be/wVsR-YhaHlM?t=3357) (Jeremy Howard), 55:57 to 1:00:07.',
        does="the kernels of lesson 06 in Python; why the lecture's kernel is 4x slower than C, found by experiment",
        gpu='helps',
        chapter='numba',
        chapter_title='Numba',
    ),
    Lesson(
        '07b',
        'simulators',
        'Simulators and to_cuda',
        reading=25,
        exercises=(85, 105),
        needs=(
            'lesson {why_slow}. Without a GPU all kernels still run and are checked; times are those of an NVIDIA '
            'H100.'
        ),
        follows='[lecture 5](https://youtu.be/wVsR-YhaHlM?t=3607) (Jeremy Howard), 1:00:07 to 1:17:33.',
        does=(
            'two simulators, one of which reports mistakes; Python translated to CUDA C of the same speed; shipping a'
            ' kernel'
        ),
        gpu='helps',
        chapter='numba',
        chapter_title='Numba',
    ),
    Lesson(
        '08a',
        'timing',
        'Timing',
        reading=50,
        exercises=(70, 70),
        needs=(
            'lessons {cuda_c}, {shared_memory_cuda} and {numba}. If you come from lesson 02, on the way to Triton, '
            'skip "The square, written by you": the other sections and the exercises need Python alone. Without a GPU '
            'all kernels still run and are checked; what only a GPU can show was recorded on an NVIDIA H100.'
        ),
        follows='[lecture 1](https://youtu.be/LuhJEEJQgUM?t=597) (Mark Saroufim), 9:57 to 26:14.',
        does=(
            "timing that you can trust; ceilings and the roofline; PyTorch's profiler; one kernel in CUDA C and Numba, "
            "made as fast as PyTorch's; launch overhead"
        ),
        gpu='helps',
        chapter='profiling',
        chapter_title='Profiling',
    ),
    Lesson(
        '08b',
        'profilers',
        'Profilers',
        reading=55,
        exercises=(30, 30),
        needs=(
            'lesson {timing}. Without a GPU all kernels still run and are checked; times are those of an NVIDIA H100.'
        ),
        follows='[lecture 1](https://youtu.be/LuhJEEJQgUM?t=2356) (Mark Saroufim), 39:16 to the end.',
        does=(
            'Nsight Compute: counters, waves, the tail effect, stall reasons; Proton, down to the lines of a Triton '
            'kernel'
        ),
        gpu='helps',
        chapter='profiling',
        chapter_title='Profiling',
    ),
    Lesson(
        '09a',
        'ptx_and_sass',
        'PTX and SASS',
        reading=40,
        exercises=(25, 25),
        needs=(
            "lessons {cuda_c} and {shared_memory_cuda}. No GPU is needed: NVIDIA's compilers work without one, and "
            'what only a GPU can measure comes from an NVIDIA H100.'
        ),
        follows=(
            '[lecture 1](https://youtu.be/LuhJEEJQgUM?t=1574) (Mark Saroufim), [lecture '
            '2](https://youtu.be/NQ-0D5Ti2dc) (Andreas Köpf) and [lecture 4](https://youtu.be/lTmYrKwjSOU) (Thomas '
            'Viehmann).'
        ),
        does='PTX and SASS next to the source, on a laptop; which code runs on which GPU; registers, spills, occupancy',
        gpu='helps',
        chapter='source_to_sass',
        chapter_title='From source to SASS',
    ),
    Lesson(
        '09b',
        'occupancy',
        'Occupancy',
        reading=45,
        exercises=(55, 75),
        needs=(
            'lesson {ptx_and_sass} and, for one section each, lessons {why_slow} and {profilers}. No GPU is needed: '
            "NVIDIA's compilers work without one, and what only a GPU can measure comes from an NVIDIA H100."
        ),
        follows=(
            '[lecture 1](https://youtu.be/LuhJEEJQgUM?t=1574) (Mark Saroufim), [lecture '
            '2](https://youtu.be/NQ-0D5Ti2dc) (Andreas Köpf) and [lecture 4](https://youtu.be/lTmYrKwjSOU) (Thomas '
            'Viehmann).'
        ),
        does=(
            'when few warps are enough; the inner loops of three matrix products, in CUDA C, Numba and Triton, '
            'instruction by instruction'
        ),
        gpu='helps',
        chapter='source_to_sass',
        chapter_title='From source to SASS',
    ),
    Lesson(
        '10',
        'memory',
        'Memory',
        reading=65,
        exercises=(60, 100),
        needs=(
            'lessons {shared_memory_cuda}, {numba} and {profiling}. Without a GPU, all kernels still run and are '
            'checked, and the times shown are those of an NVIDIA H100.'
        ),
        follows=(
            'the first item of [lecture 8](https://youtu.be/SGhfUhlowB4) (Mark Saroufim), coalescing, and continues '
            'where it stops.'
        ),
        does=(
            'coalescing, bank conflicts, padding, swizzles: a transpose at 94% of copy bandwidth; the layouts of '
            'CUTLASS and Triton'
        ),
        gpu='helps',
    ),
    Lesson(
        '11a',
        'traffic',
        'The checklist: memory and branches',
        reading=60,
        exercises=(10, 10),
        needs=(
            'lessons {shared_memory_cuda}, {numba}, {source_to_sass} and {memory}. Without a GPU all kernels still '
            'run, are counted and checked; times are those of an NVIDIA H100.'
        ),
        follows=(
            '[lecture 8](https://youtu.be/SGhfUhlowB4) (Mark Saroufim), which has this list, and [lecture '
            '4](https://youtu.be/lTmYrKwjSOU) (Thomas Viehmann).'
        ),
        does=(
            'five of eight questions for a slow kernel, each with a counter and a measured time: coalescing, '
            'occupancy, memory-bound or compute-bound, divergence, tiling'
        ),
        gpu='helps',
        chapter='checklist',
        chapter_title='The checklist',
    ),
    Lesson(
        '11b',
        'privatization',
        'The checklist: privatization and the others',
        reading=60,
        exercises=(50, 50),
        needs=(
            'lesson {traffic}. Without a GPU all kernels still run and are checked; times are those of an NVIDIA H100.'
        ),
        follows=(
            '[lecture 8](https://youtu.be/SGhfUhlowB4) (Mark Saroufim), which has this list, and [lecture '
            '4](https://youtu.be/lTmYrKwjSOU) (Thomas Viehmann).'
        ),
        does=(
            "a histogram as fast as CUB's; sliding windows, coarsening, online softmax; and what the counters of the "
            'hardware say'
        ),
        gpu='helps',
        chapter='checklist',
        chapter_title='The checklist',
    ),
    Lesson(
        '12',
        'latency_and_roofline',
        'Latency and the roofline',
        reading=45,
        exercises=(40, 40),
        needs=(
            'lesson {traffic}; {privatization} helps. Without a GPU all kernels still run and are checked; times are '
            'those of an NVIDIA H100.'
        ),
        follows=(
            '[lecture 8](https://youtu.be/SGhfUhlowB4) (Mark Saroufim) and [lecture 4](https://youtu.be/lTmYrKwjSOU) '
            '(Thomas Viehmann), and continues where they stop.'
        ),
        does=(
            "the latency of each cache; Little's law; loads in flight instead of warps; the latency of a small kernel; "
            'all layers of a network on one roofline'
        ),
        gpu='helps',
    ),
    Lesson(
        '13a',
        'sum',
        'Reductions: the sum',
        reading=65,
        exercises=(30, 40),
        needs=(
            'lessons {shared_memory_cuda}, {profiling} and {memory}. The exercise threads_and_barriers.block_sum of '
            'lesson {threads_and_barriers} is the first step. Without a GPU, all kernels still run and are checked, '
            'and the times shown are those of an NVIDIA H100. A GPU older than Hopper has no clusters, so the lesson '
            'skips the kernel that needs them.'
        ),
        follows='[lecture 9](https://youtu.be/09wntC6BT5o) (Mark Saroufim), and continues where it stops.',
        does='a sum from one thread to DRAM bandwidth; five ways to combine blocks',
        gpu='helps',
        chapter='reductions',
        chapter_title='Reductions',
    ),
    Lesson(
        '13b',
        'other_reductions',
        'Reductions: accuracy, and the scan',
        reading=70,
        exercises=(70, 90),
        needs=(
            'lesson {sum}. Without a GPU all kernels still run and are checked; times are those of an NVIDIA H100.'
        ),
        follows='[lecture 9](https://youtu.be/09wntC6BT5o) (Mark Saroufim), and continues where it stops.',
        does='argmax, variance, rows; the rounding error of a float32 sum, and determinism; a scan in one pass',
        gpu='helps',
        chapter='reductions',
        chapter_title='Reductions',
    ),
    Lesson(
        '14',
        'scan_sort_select',
        'Scan, sort and select',
        reading=60,
        exercises=(60, 70),
        needs=(
            'lesson {other_reductions}, whose scan this one uses, and {memory}. Without a GPU, all kernels still run '
            'and are checked, and the times shown are those of an NVIDIA H200.'
        ),
        follows=(
            'no lecture; chapters 11 (prefix sum), 12 (merge) and 13 (sorting) of *Programming Massively Parallel '
            'Processors*, fourth edition.'
        ),
        does='filters, merges, a radix sort in one read per digit, and the k largest elements in one read',
        gpu='helps',
    ),
    Lesson(
        '15a',
        'filters',
        'Stencils and convolution: filters and halos',
        reading=60,
        exercises=(60, 80),
        needs=(
            'lessons {memory}, {privatization} and {sum}; the last section uses the product of lesson '
            '{shared_memory_cuda}. Without a GPU, all kernels still run and are checked, and the times shown are those '
            'of an NVIDIA H200.'
        ),
        follows='',
        does=(
            'convolution in one and two dimensions, constant memory, four ways to load a halo, separable filters, a '
            'layer of a network as a matrix product'
        ),
        gpu='helps',
        chapter='stencils_and_convolution',
        chapter_title='Stencils and convolution',
    ),
    Lesson(
        '15b',
        'time_steps',
        'Stencils and convolution: time steps and anti-diagonals',
        reading=60,
        exercises=(60, 80),
        needs=(
            'lessons {filters} and {latency_and_roofline}. Without a GPU, all kernels still run and are checked, and '
            'the times shown are those of an NVIDIA H200.'
        ),
        follows='',
        does=(
            'heat in three dimensions with one load per cell, two time steps per pass, edit distance along '
            'anti-diagonals in a block and in a warp'
        ),
        gpu='helps',
        chapter='stencils_and_convolution',
        chapter_title='Stencils and convolution',
    ),
    Lesson(
        '16a',
        'tiles',
        'The matmul ladder: tiles',
        reading=60,
        exercises=(15, 15),
        needs=(
            'lesson {shared_memory_cuda}; {profiling} (Nsight Compute) and {source_to_sass} (registers, occupancy) '
            'help, and so does a GPU. Without a GPU, every kernel is checked on the emulator, and the measurements '
            'shown are those of an NVIDIA H100, marked as recorded.'
        ),
        follows='[lecture 5](https://youtu.be/wVsR-YhaHlM?t=4015) (Jeremy Howard) beyond its end, 1:06:55.',
        does=(
            'float32 from 1% of the speed of `torch.matmul` to 49%, one step and one prediction at a time: '
            'coalescing, shared memory, tiles in registers'
        ),
        gpu='helps',
        chapter='matmul_ladder',
        chapter_title='The matmul ladder',
    ),
    Lesson(
        '16b',
        'asynchronous_copies',
        'The matmul ladder: asynchronous copies',
        reading=35,
        exercises=(60, 80),
        needs=(
            'lesson {tiles}. Without a GPU all kernels still run and are checked; times are those of an NVIDIA H100.'
        ),
        follows='',
        does='wide loads, no bank conflicts, a tile per warp, copies in the background: 70% of `torch.matmul`',
        gpu='helps',
        chapter='matmul_ladder',
        chapter_title='The matmul ladder',
    ),
    Lesson(
        '16c',
        'past_the_library',
        'The matmul ladder: past the library',
        reading=55,
        exercises=(10, 10),
        needs=(
            'lesson {asynchronous_copies}. Without a GPU, all kernels still run and are checked, and the times shown '
            'are those of an NVIDIA H100. A GPU older than Ampere, such as the T4 of Colab, cannot run kernels with '
            '`cp.async`; the lesson then shows their recorded times.'
        ),
        follows='',
        does=(
            'prefetching into registers, larger tiles, fewer instructions; five ideas, each tested alone: 102% of '
            '`torch.matmul`'
        ),
        gpu='helps',
        chapter='matmul_ladder',
        chapter_title='The matmul ladder',
    ),
    Lesson(
        '16d',
        'other_shapes',
        'The matmul ladder: other shapes',
        reading=20,
        exercises=(30, 30),
        needs=(
            'lesson {past_the_library}. Without a GPU, all kernels still run and are checked, and the times shown '
            'are those of an NVIDIA H100. A GPU older than Ampere, such as the T4 of Colab, cannot run kernels with '
            '`cp.async`; the lesson then shows their recorded times.'
        ),
        follows='',
        does='skinny matrices; float32 products from bfloat16 ones; the kernel in a model',
        gpu='helps',
        chapter='matmul_ladder',
        chapter_title='The matmul ladder',
    ),
    Lesson(
        '17a',
        'programs',
        'Triton: programs',
        reading=55,
        exercises=(70, 80),
        needs=(
            'lessons {first_kernel} and {blocks_and_threads}; {timing}, {source_to_sass} and {memory} help with the '
            'sections on speed and on the compiler. Without a GPU all kernels still run and are checked; what only a '
            'GPU can show comes from an NVIDIA H100.'
        ),
        follows=(
            '[lecture 1](https://youtu.be/LuhJEEJQgUM?t=1574) (Mark Saroufim) from 26:14, and [lecture '
            '14](https://youtu.be/DdTsX6DQk24) (Umer Adil).'
        ),
        does=(
            'programs on blocks, with every mask checked; what the compiler decides, in TTGIR, PTX and SASS; what '
            '`torch.compile` writes; softmax at DRAM bandwidth; the debugger'
        ),
        gpu='helps',
        chapter='triton',
        chapter_title='Triton',
    ),
    Lesson(
        '17b',
        'matrix_product',
        'Triton: a matrix product',
        reading=60,
        exercises=(80, 80),
        needs=(
            'lesson {programs}. Without a GPU, the kernels run in the checker on the CPU, and you see times that were '
            'recorded on an NVIDIA H100 or H200.'
        ),
        follows='[lecture 14](https://youtu.be/DdTsX6DQk24) (Umer Adil).',
        does=(
            'an autotuned bfloat16 product with a tile order for the L2 cache, compared with cuBLAS; descriptors, '
            'warp specialization, layouts'
        ),
        gpu='helps',
        chapter='triton',
        chapter_title='Triton',
    ),
    Lesson(
        '18a',
        'norms',
        'Fusion: elementwise kernels and norms',
        reading=60,
        exercises=(40, 55),
        needs=(
            "lesson {timing}, and {programs}'s programs, blocks and masks; {traffic} and {sum} help. One kernel is in "
            'CUDA C (lesson {cuda_c}); you can skip it. Without a GPU all kernels still run and are checked; times are '
            'those of an NVIDIA H100.'
        ),
        follows=(
            '[lecture 4](https://youtu.be/lTmYrKwjSOU) (Thomas Viehmann), where GELU is fused, and [lecture '
            '6](https://youtu.be/hIop0mWKPHc) (Jane Xu), the optimizers.'
        ),
        does='speed predicted from bytes: GELU, dropout that stores no mask, norms, forward and backward',
        gpu='helps',
        chapter='fusion',
        chapter_title='Fusion',
    ),
    Lesson(
        '18b',
        'loss_and_optimizers',
        'Fusion: the loss and the optimizer',
        reading=55,
        exercises=(30, 45),
        needs=(
            'lesson {norms}. Without a GPU all kernels still run and are checked; times are those of an NVIDIA H100.'
        ),
        follows='[lecture 6](https://youtu.be/hIop0mWKPHc) (Jane Xu).',
        does=(
            'a loss that stores no logits, AdamW over hundreds of tensors in one launch; a small transformer trained '
            'with all of these kernels'
        ),
        gpu='helps',
        chapter='fusion',
        chapter_title='Fusion',
    ),
    Lesson(
        '19',
        'custom_ops',
        'Custom operators',
        reading=60,
        exercises=(50, 70),
        needs=(
            'the CUDA C of lesson {cuda_c} and the norms of lesson {fusion}. No GPU is needed: the lesson measures on '
            'this CPU how long PyTorch takes to reach a kernel, and runs the kernels on the emulator, with all checks.'
        ),
        follows='no lecture; the manual of [`torch.library`](https://docs.pytorch.org/docs/stable/library.html).',
        does=(
            'a kernel as an operator of PyTorch: schema, fake tensors, gradients, vmap, `torch.compile` without a '
            'graph break; what each layer of a call costs; a package with a wheel, tested without a GPU'
        ),
        gpu='helps',
    ),
    Lesson(
        '20a',
        'online_softmax',
        'Softmax: the online softmax',
        reading=40,
        exercises=(15, 25),
        needs=(
            'the kernels in Python of lessons {first_kernel} and {blocks_and_threads}; {memory} (sectors), {sum} '
            '(trees and shuffles) and {norms} (passes) help. Without a GPU all kernels still run and are checked.'
        ),
        follows=(
            '[lecture 8](https://youtu.be/SGhfUhlowB4) (Mark Saroufim), whose last item is the online softmax; '
            '[lecture 12](https://youtu.be/zEuwuCTEf_0) needs it.'
        ),
        does=(
            'safe softmax, online softmax and merging partial results, tested on random inputs; a row in the registers '
            'of a warp, read once'
        ),
        gpu='helps',
        chapter='softmax',
        chapter_title='Softmax',
    ),
    Lesson(
        '20b',
        'rows_on_chip',
        'Softmax: rows on the chip',
        reading=55,
        exercises=(55, 75),
        needs=(
            "lesson {online_softmax} and {programs}'s softmax; for the kernels in CUDA C also {shared_memory_cuda}. "
            'If you read only the Triton kernels, skip from "A block per row" to "In Triton". Without a GPU all '
            'kernels still run and are checked; times are those of an NVIDIA H100. A GPU older than Hopper has no '
            'clusters, so it skips their kernels.'
        ),
        follows='',
        does=(
            'rows kept in a block or in eight SMs, each read once, as counters show; Triton; masks, log-softmax and '
            'the backward pass'
        ),
        gpu='helps',
        chapter='softmax',
        chapter_title='Softmax',
    ),
    Lesson(
        '21a',
        'attention_forward',
        'FlashAttention: forward',
        reading=40,
        exercises=(35, 50),
        needs=(
            'lessons {softmax} and {triton}. Without a GPU all kernels still run and are checked; times are those of '
            'an NVIDIA H100.'
        ),
        follows=(
            '[lecture 12](https://youtu.be/zEuwuCTEf_0) (Thomas Viehmann), then two papers: '
            '[FlashAttention](https://arxiv.org/abs/2205.14135) and '
            '[FlashAttention-2](https://arxiv.org/abs/2307.08691).'
        ),
        does='attention that never stores its matrix of scores, from one line of algebra to Triton; bytes counted',
        gpu='helps',
        chapter='flash_attention',
        chapter_title='FlashAttention',
    ),
    Lesson(
        '21b',
        'attention_backward',
        'FlashAttention: backward and masks',
        reading=45,
        exercises=(50, 70),
        needs=(
            "lesson {attention_forward} and {rows_on_chip}'s gradient of a softmax. Without a GPU all kernels still "
            'run and are checked; times are those of an NVIDIA H100.'
        ),
        follows=(
            'three papers: [FlashAttention](https://arxiv.org/abs/2205.14135), '
            '[FlashAttention-2](https://arxiv.org/abs/2307.08691) and '
            '[FlashAttention-3](https://arxiv.org/abs/2407.08608).'
        ),
        does=(
            'a backward pass from one saved value per row; who accumulates dQ; masks and grouped queries; errors; a '
            'small GPT'
        ),
        gpu='helps',
        chapter='flash_attention',
        chapter_title='FlashAttention',
    ),
    Lesson(
        '22a',
        'number_formats',
        'Quantization: formats',
        reading=50,
        exercises=(15, 20),
        needs=(
            "lesson {checklist}'s roofline. Without a GPU all kernels still run and are checked; times are those of an "
            'NVIDIA H100.'
        ),
        follows='[lecture 7](https://youtu.be/1u9xUK3G4VM) (Charles Hernandez) on quantization.',
        does=(
            'why generation is limited by reading the weights; quantization grids, groups, outliers, NF4 and e4m3, '
            'measured in decibels and in the perplexity of a small model'
        ),
        gpu='helps',
        chapter='quantization',
        chapter_title='Quantization',
    ),
    Lesson(
        '22b',
        'dequantizing',
        'Quantization: kernels',
        reading=55,
        exercises=(75, 115),
        needs=(
            "lesson {number_formats}, CUDA C ({shared_memory_cuda}), {sum}'s sum of a warp, and {programs}'s Triton; "
            '{ptx_and_sass} (SASS) helps. Without a GPU all kernels still run and are checked; times are those of an '
            'NVIDIA H100.'
        ),
        follows='[lecture 7](https://youtu.be/1u9xUK3G4VM) (Charles Hernandez) on quantization.',
        does='int4 and int8 kernels that build floats from bits; 8-bit weights and activations on tensor cores',
        gpu='helps',
        chapter='quantization',
        chapter_title='Quantization',
    ),
    Lesson(
        '23',
        'sparsity',
        'Sparsity',
        reading=60,
        exercises=(75, 110),
        needs=(
            "lesson {cuda_c}'s CUDA C, {memory}'s sectors and {triton}'s Triton; {tensor_cores}'s `mma.sync` helps in "
            'the sections on 2:4, {hopper_gemm}\'s `wgmma` in "Twice as fast?". Without a GPU all kernels still run '
            'and are checked; times are those of an NVIDIA H100.'
        ),
        follows='[lecture 11](https://youtu.be/mGDnOLcfE8g) (Jesse Cai).',
        does=(
            'which zeros save time: unstructured, in blocks, 2:4; the 2:4 format decoded from its bytes, and the one '
            'instruction that reads it; how much accuracy a small network loses by pruning, and regains by permuting '
            'columns and by training'
        ),
        gpu='helps',
    ),
    Lesson(
        '24a',
        'mma',
        'Tensor cores: wmma and mma.sync',
        reading=65,
        exercises=(30, 30),
        needs=(
            'lesson {matmul_ladder}, whose tiles, stages and counters this lesson uses; lesson {source_to_sass} '
            'helps. So does a GPU: without one, the emulator runs the kernels on small products, and what an NVIDIA '
            'H100 measured is marked as recorded.'
        ),
        follows='[lecture 4](https://youtu.be/lTmYrKwjSOU), whose end mentions tensor cores without programming them.',
        does='wmma, `mma.sync`, `ldmatrix`, swizzles: which lane holds which element, and how exact the sums are',
        gpu='helps',
        chapter='tensor_cores',
        chapter_title='Tensor cores',
    ),
    Lesson(
        '24b',
        'pipelines',
        'Tensor cores: pipelines',
        reading=60,
        exercises=(80, 100),
        needs=(
            'lesson {mma}. Without a GPU all kernels still run and are checked; times are those of an NVIDIA H100.'
        ),
        follows='',
        does='asynchronous copies in several stages, fragments prefetched, stores by rows; and what limits the speed',
        gpu='helps',
        chapter='tensor_cores',
        chapter_title='Tensor cores',
    ),
    Lesson(
        '25a',
        'tma_and_wgmma',
        'Hopper: TMA and wgmma',
        reading=55,
        exercises=(30, 30),
        needs=(
            'lesson {matmul_ladder} and lesson {tensor_cores}. Without a Hopper GPU (H100, H200), every kernel runs '
            'on the emulator with small matrices, and you see speeds that were recorded on an H100.'
        ),
        follows=(
            'no lecture; [lecture 45](https://youtu.be/ErTmTCRP1_U) (Outperforming cuBLAS on NVIDIA H100) describes '
            'such a kernel.'
        ),
        does='budgets on paper; TMA, the 128-byte swizzle, mbarriers and wgmma; two kernels that overlap nothing yet',
        gpu='helps',
        chapter='hopper_gemm',
        chapter_title='Past cuBLAS on Hopper',
    ),
    Lesson(
        '25b',
        'producers',
        'Hopper: producers and consumers',
        reading=55,
        exercises=(25, 25),
        needs=(
            'lesson {tma_and_wgmma}. Without a Hopper GPU (H100, H200) the emulator runs every kernel on small '
            'products; speeds are recorded on an H100.'
        ),
        follows=(
            'no lecture; [lecture 45](https://youtu.be/ErTmTCRP1_U) (Outperforming cuBLAS on NVIDIA H100) describes '
            'such a kernel.'
        ),
        does=(
            'a ring of stages, warp specialization, a tile order that suits L2, clusters, stores by TMA: a bfloat16 '
            'product at 731 TFLOP/s'
        ),
        gpu='helps',
        chapter='hopper_gemm',
        chapter_title='Past cuBLAS on Hopper',
    ),
    Lesson(
        '25c',
        'every_shape',
        'Hopper: every shape',
        reading=65,
        exercises=(110, 150),
        needs=(
            'lesson {producers}. Without a Hopper GPU (H100, H200) the emulator runs every kernel on small '
            'products; speeds are recorded on an H100.'
        ),
        follows=(
            'no lecture; [lecture 45](https://youtu.be/ErTmTCRP1_U) (Outperforming cuBLAS on NVIDIA H100) describes '
            'such a kernel.'
        ),
        does=(
            'stream-K, ping-pong, a tile and a schedule per shape: faster than the library at 8192^3; data races that'
            ' a GPU hides, reported without one'
        ),
        gpu='helps',
        chapter='hopper_gemm',
        chapter_title='Past cuBLAS on Hopper',
    ),
    Lesson(
        '26',
        'flash_attention_hopper',
        'FlashAttention on Hopper',
        reading=60,
        exercises=(15, 20),
        needs=(
            'lessons {flash_attention}, {tensor_cores} and {hopper_gemm}. Without a GPU all kernels still run and are '
            'checked; times are those of an NVIDIA H100.'
        ),
        follows=(
            'the papers [FlashAttention-2](https://arxiv.org/abs/2307.08691) and '
            '[FlashAttention-3](https://arxiv.org/abs/2407.08608).'
        ),
        does=(
            'attention on tensor cores, then with TMA and wgmma; which tiles a mask leaves, and how they are '
            'scheduled'
        ),
        gpu='helps',
    ),
    Lesson(
        '27a',
        'latent_cache',
        'Latent attention: the cache',
        reading=50,
        exercises=(25, 35),
        needs=(
            "lesson {flash_attention}'s forward pass, {cuda_c}'s CUDA C and {numba}'s Numba. Without a GPU all kernels "
            'still run and are checked.'
        ),
        follows='[DeepSeek-V2](https://arxiv.org/abs/2405.04434) (the latent).',
        does=(
            'a decode step reads the whole KV cache, so the keys of all heads share one row of 576 elements; absorbed '
            'matrices, tested equal; bytes counted'
        ),
        gpu='helps',
        chapter='latent_attention',
        chapter_title='Latent attention',
    ),
    Lesson(
        '27b',
        'decoding',
        'Latent attention: decoding',
        reading=55,
        exercises=(45, 70),
        needs=(
            "lesson {latent_cache}, {softmax}'s merge and {triton}'s Triton; {hopper_gemm} helps at the end. Without a "
            'GPU all kernels still run and are checked; times are those of an NVIDIA H100.'
        ),
        follows=(
            '[PagedAttention](https://arxiv.org/abs/2309.06180), '
            '[Flash-Decoding](https://crfm.stanford.edu/2023/10/12/flashdecoding.html), '
            '[FlashMLA](https://github.com/deepseek-ai/FlashMLA).'
        ),
        does=(
            'one sequence split among 132 SMs, and into how many parts; a paged KV cache and a wrong page table; a '
            'kernel at the ridge point of the roofline'
        ),
        gpu='helps',
        chapter='latent_attention',
        chapter_title='Latent attention',
    ),
    Lesson(
        '28a',
        'block_scaling',
        'Blackwell: block scaling',
        reading=50,
        exercises=(25, 35),
        needs=(
            'the groups, decibels and small model of lesson {number_formats}, the kernels of {dequantizing}, and CUDA '
            'C ({shared_memory_cuda}). No GPU is needed: times were recorded on an NVIDIA H200.'
        ),
        follows=(
            'the [microscaling specification]'
            '(https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf), and '
            "[PTX's](https://docs.nvidia.com/cuda/parallel-thread-execution/) on `tcgen05`."
        ),
        does=(
            'floats of 4 bits, scales that are powers of two or floats; MXFP8, MXFP4 and NVFP4 in decibels and in '
            'perplexity; a product with block scales; NVFP4 weights on Hopper'
        ),
        gpu='helps',
        chapter='blackwell',
        chapter_title='Blackwell',
    ),
    Lesson(
        '28b',
        'tensor_memory',
        'Blackwell: tensor memory and tcgen05',
        reading=50,
        exercises=(10, 15),
        needs=(
            'lessons {tma_and_wgmma} and {producers}; {block_scaling} helps. No GPU: the emulator runs all kernels.'
        ),
        follows="[PTX's specification](https://docs.nvidia.com/cuda/parallel-thread-execution/) of `tcgen05`.",
        does=(
            'accumulators in tensor memory; products that one thread starts, and the waits they require; a pipeline '
            'with roles, a product of two SMs, work stealing'
        ),
        gpu='not needed',
        chapter='blackwell',
        chapter_title='Blackwell',
    ),
    Lesson(
        '28c',
        'flash_attention_4',
        'What FlashAttention 4 changed',
        reading=40,
        exercises=(30, 35),
        needs=(
            'lesson {flash_attention_hopper}; {dequantizing} helps, for floats that are made of bits. No GPU is '
            'needed: the kernels run on the emulator, and times were recorded on an NVIDIA H200.'
        ),
        follows=(
            'the [FlashAttention repository](https://github.com/Dao-AILab/flash-attention), whose version 4 is for '
            'Blackwell.'
        ),
        does=(
            'exponentials by a polynomial on the multiply-add units; accumulators that are rescaled only when necessary'
        ),
        gpu='helps',
        chapter='blackwell',
        chapter_title='Blackwell',
    ),
    Lesson(
        '29a',
        'ring',
        'Ring attention: the ring',
        reading=45,
        exercises=(40, 60),
        needs=(
            'lesson {softmax} (the merge) and the forward pass of lesson {flash_attention}. No GPU is needed: four '
            'processes on this machine replace four GPUs.'
        ),
        follows=(
            '[lecture 13](https://youtu.be/ws7angQYIxI) (Andreas Koepf), then two papers: [Ring '
            'Attention](https://arxiv.org/abs/2310.01889), [Striped Attention](https://arxiv.org/abs/2311.09431).'
        ),
        does=(
            'a sequence that is too long for one GPU: four processes that communicate while they compute, the causal '
            'mask that leaves half of them idle and the orders that balance the load'
        ),
        gpu='not needed',
        chapter='ring_attention',
        chapter_title='Ring attention',
    ),
    Lesson(
        '29b',
        'two_gpus',
        'Ring attention: backward, two GPUs, 64 GPUs',
        reading=45,
        exercises=(40, 55),
        needs=(
            'lesson {ring} and the backward pass of lesson {attention_backward}. No GPU is needed: four processes on '
            'this machine replace four GPUs. Measurements with two real ones are recorded.'
        ),
        follows=(
            '[lecture 13](https://youtu.be/ws7angQYIxI) (Andreas Koepf), then [Tree '
            'Attention](https://arxiv.org/abs/2408.04093).'
        ),
        does=(
            'the backward pass; two real GPUs, whose copy engines move the keys; Ulysses and tree attention; 64 '
            'simulated GPUs; a rank that fails'
        ),
        gpu='not needed',
        chapter='ring_attention',
        chapter_title='Ring attention',
    ),
    Lesson(
        '30a',
        'all_reduce',
        'Collectives: all-reduce in one shot and in two',
        reading=50,
        exercises=(40, 60),
        needs=(
            "lesson {ring} (ranks) and {other_reductions}'s flags and fences; {two_gpus} helps. No GPU is needed: "
            'two to four emulated GPUs run every kernel, with all checks. Times of two real ones are recorded.'
        ),
        follows='',
        does=(
            'kernels that store into the memory of other GPUs: what a link carries, flags of system scope, rounds and '
            'slots, all-reduce in one shot and in two, words that carry their own flag, a prediction for eight GPUs'
        ),
        gpu='not needed',
        chapter='collectives',
        chapter_title='Collectives',
    ),
    Lesson(
        '30b',
        'overlap',
        'Collectives: a product that overlaps its communication',
        reading=35,
        exercises=(15, 25),
        needs=(
            'lesson {all_reduce}, and the simulator of {two_gpus}. No GPU is needed: processes and emulated GPUs '
            'replace real ones. Times and timelines of two real ones are recorded.'
        ),
        follows='',
        does=(
            'a layer that several GPUs share; a matrix product that begins with the rows it has, while others arrive; '
            'how many chunks; one kernel that sends, waits and multiplies, without a race or a deadlock'
        ),
        gpu='not needed',
        chapter='collectives',
        chapter_title='Collectives',
    ),
    Lesson(
        '31a',
        'tile_languages',
        'Where next: tile languages',
        reading=45,
        exercises=(15, 15),
        needs=(
            'lessons {source_to_sass}, {triton}, {softmax} and {hopper_gemm}. No GPU is needed, and of the '
            'nine languages only Triton and Gluon must be installed: the output of the other compilers is recorded, '
            'and so are all times on an H200.'
        ),
        follows='',
        does=(
            'one softmax in nine languages, and which decisions each compiler makes, as the machine code and its '
            'timing show'
        ),
        gpu='not needed',
        chapter='where_next',
        chapter_title='Where next',
    ),
    Lesson(
        '31b',
        'amd_and_judges',
        'Where next: AMD, checkers and judges',
        reading=50,
        exercises=(55, 80),
        needs=(
            'lessons {source_to_sass}, {checklist}, {reductions} and {triton}. No GPU: the output of the compiler for '
            'AMD is recorded.'
        ),
        follows='',
        does=(
            "AMD's machine code compared with SASS, and which kernels break with 64 lanes; ten kernels and the "
            'checkers that find their mistakes; a judge that detects cheats; what to read'
        ),
        gpu='not needed',
        chapter='where_next',
        chapter_title='Where next',
    ),
))
# fmt: on


# Look-ups


def chapter_of(number: str):  # '8', '08' or '08a'
    "Return the slug of the chapter with this number; None if there is none"
    number = number.zfill(2)
    return next((lesson.chapter for lesson in LESSONS if number in (lesson.number, lesson.number[:2])), None)


def chapter_title(slug: str):
    "Return the title of a chapter; None if there is none"
    return next((lesson.chapter_title for lesson in LESSONS if lesson.chapter == slug), None)


def lesson_of_file(name: str):  # '08a_timing.ipynb'
    "Return the lesson whose notebook has this slug, or the first one of a chapter; None if there is none"
    slug = re.sub(r'^\d\d[a-z]?_', '', Path(name).stem)
    matching_lessons = [lesson for lesson in LESSONS if lesson.slug == slug]
    matching_lessons = matching_lessons or [lesson for lesson in LESSONS if lesson.chapter == slug]
    return matching_lessons[0] if matching_lessons else None


def part_of(lesson) -> str:
    "Return the part of the course that a lesson belongs to"
    return PARTS[max(n for n in PARTS if n <= int(lesson.number[:2]))]


def lessons_by_part() -> dict:  # {part: lessons}
    "Return all lessons, by the part that they belong to"
    lessons_of_part = {title: [] for title in PARTS.values()}
    for lesson in LESSONS:
        lessons_of_part[part_of(lesson)].append(lesson)
    return lessons_of_part


def minutes(lesson) -> tuple:  # of str
    "Return the minutes for reading and for the exercises: ('35', '40 to 70')"
    low, high = lesson.exercises
    return str(lesson.reading), f'{low} to {high}' if high > low else str(low)


# Generated parts of a notebook


def _with_links(text):
    "Replace each {slug} with a link"
    return re.sub(r'\{(\w+)\}', lambda m: _link(m[1]), text)


def _link(slug):
    "Return a link to a lesson, or to the first one of a chapter: [08](08a_timing.ipynb)"
    lesson = lesson_of_file(slug)
    number = lesson.number if lesson.slug == slug else lesson.number[:2]
    return f'[{number}]({lesson.file})'


def _head_lines(lesson):
    "Return the lines of a first cell that are generated from the table: Needs, Time, Follows"
    reading, exercises = minutes(lesson)
    work = f', {exercises} for the exercises' if lesson.exercises[1] else ''
    lines = [f'**Needs** {_with_links(lesson.needs)}', f'**Time** {reading} minutes to read and run{work}.']
    return lines + [f'**Follows** {_with_links(lesson.follows)}'] * bool(lesson.follows)


def first_cell(
    text,  # the first cell of the lesson's notebook
    lesson,
) -> str:
    "Return the first cell with the title, and the lines Needs, Time and Follows, of the table"
    paragraphs = text.split('\n\n')
    generated_paragraphs = [i for i, p in enumerate(paragraphs) if re.match(r'\*\*(Needs|Time|Follows)\*\*', p)]
    insert_at = generated_paragraphs[0] if generated_paragraphs else len(paragraphs)
    kept_paragraphs = [p for i, p in enumerate(paragraphs) if i not in generated_paragraphs]
    kept_paragraphs[0] = re.sub(r'^#.*', f'# {lesson.number} {lesson.title}', kept_paragraphs[0])
    return '\n\n'.join([*kept_paragraphs[:insert_at], *_head_lines(lesson), *kept_paragraphs[insert_at:]])


_LINK = re.compile(r'\[([^\[\]]*)\]\(([\w./-]*?)(\d\d[a-z]?_\w+\.ipynb)(#[^)\s]*)?\)')
_LESSON_NUMBER = re.compile(r'^((?:[Ll]esson |[Cc]hapter )?)\d\d([a-z]?)(?=\b)')  # of a lesson, or of a chapter


def update_links(text: str) -> str:
    "Update the number and the file in each link to a lesson in Markdown"

    def link(m):
        link_text, folder, file, anchor = m.groups()
        lesson = lesson_of_file(file) if folder in ('', 'nbs/', '../', '../nbs/', '../../nbs/') else None
        if not lesson:
            return m[0]
        link_text = _LESSON_NUMBER.sub(lambda n: n[1] + (lesson.number if n[2] else lesson.number[:2]), link_text)
        return f'[{link_text}]({folder}{lesson.file}{anchor or ""})'

    return _LINK.sub(link, text)


# Generated parts of pages


def _links_of_lesson(lesson, root):
    "Return the links that open a lesson elsewhere"
    browser = json.loads((root / 'site/lite/lite.json').read_text(encoding='utf-8'))
    name = lesson.file.removesuffix('.ipynb')
    page = browser['page'].format(name=name) if name in browser['lessons'] else None
    return launch_links(lesson.file, settings(root), page)


def _first_lesson_line(root):
    "Return the line of the README with the links to the first lesson and to the site"
    links = _links_of_lesson(LESSONS[0], root)
    links_text = ', '.join(f'[{text[0].lower() + text[1:]}]({url})' for text, url in links.items())
    return f'Lesson 01: {links_text}. All lessons: [the site]({settings(root)["site"]}).'


def lesson_table(
    root,  # of the repository
) -> str:
    "Return the table of lessons of nbs/README.md: Markdown, a table per part"
    lines = []
    head = '| lesson | what it does | reading | exercises | GPU | open in |'
    for part, lessons in lessons_by_part().items():
        lines += ['', f'## {part}', '', head, '|---' * 6 + '|']
        for lesson in lessons:
            reading, exercises = minutes(lesson)
            links = ', '.join(f'[{text.split()[-1]}]({url})' for text, url in _links_of_lesson(lesson, root).items())
            row = (
                f'[{lesson.number} {lesson.title}]({lesson.file})',
                lesson.does,
                f'{reading} min',
                f'{exercises} min',
                lesson.gpu,
                links,
            )
            lines.append(f'| {" | ".join(row)} |')
    return '\n'.join(lines[1:])


def listing() -> str:
    "Return the lessons by parts, with their minutes, as plain text"
    lines = []
    for part, lessons in lessons_by_part().items():
        lines += ['', part]
        for lesson in lessons:
            reading, exercises = minutes(lesson)
            work = f', {exercises} for the exercises' if lesson.exercises[1] else ''
            lines.append(f'  {lesson.number:<4}{lesson.title:<46}{reading:>3} min to read{work}')
    return '\n'.join(lines[1:])


# Writing


def _insert_table(text, name, table):
    "Return a page with a table between the markers of this name"
    begin = f'<!-- {name}: made by python -m gridstride.course.curriculum --write -->\n'
    end = f'\n<!-- end of {name} -->'
    before, after = text.split(begin)
    return before + begin + table + end + after.split(end)[1]


def _update_notebook(text, lesson, links):  # lesson: None for a notebook that is not in the table
    "Return the JSON of a notebook with its first cell, set-up cell and links updated"
    nb = json.loads(text)
    if lesson:
        first, *other_cells = nb['cells']
        first['source'] = with_links(first_cell(''.join(first['source']), lesson), links).splitlines(True)
        nb['cells'] = [first, setup_cell(), *[c for c in other_cells if not is_setup(c)]]
    for c in nb['cells']:
        if c['cell_type'] == 'markdown':
            c['source'] = update_links(''.join(c['source'])).splitlines(True)
    return json.dumps(nb, indent=1, ensure_ascii=False) + '\n'


def _pages_with_links(root):
    "Return the pages of the repository that link to lessons"
    patterns = '*.md', 'site/index.md', 'nbs/README.md', 'benchmarks/*.md', 'gridstride/*.md', 'gridstride/*/*.md'
    return [p for pattern in patterns for p in root.glob(pattern)]


def generated_texts(
    root,  # of the repository
) -> dict:  # {path: text}
    "Return the content of each page and notebook with its generated parts updated, as `--write` writes it"
    page_texts = {p: update_links(p.read_text(encoding='utf-8')) for p in _pages_with_links(root)}
    readme, all_lessons = root / 'README.md', root / 'nbs/README.md'
    page_texts[readme] = _insert_table(page_texts[readme], 'clone', f'```bash\n{clone_commands(settings(root))}\n```')
    page_texts[readme] = _insert_table(page_texts[readme], 'links', _first_lesson_line(root))
    page_texts[readme] = _insert_table(page_texts[readme], 'learning paths', learning_path_table(LESSONS))
    page_texts[readme] = _insert_table(page_texts[readme], 'parts', part_table(lessons_by_part()))
    instructors = root / 'INSTRUCTORS.md'
    page_texts[instructors] = _insert_table(page_texts[instructors], 'weeks', week_table(LESSONS))
    page_texts[instructors] = _insert_table(page_texts[instructors], 'chapters', chapter_table(LESSONS))
    page_texts[all_lessons] = _insert_table(page_texts[all_lessons], 'lessons', lesson_table(root))
    for folder in ('nbs', 'nbs/inside', 'nbs/lib'):
        for p in sorted((root / folder).glob('*.ipynb')):
            lesson = lesson_of_file(p.name) if folder == 'nbs' else None
            links = _links_of_lesson(lesson, root) if lesson else {}
            page_texts[p] = _update_notebook(p.read_text(encoding='utf-8'), lesson, links)
    return page_texts


def main(argv=None):  # None: the command line
    "List the lessons, or write the generated texts"
    parser = argparse.ArgumentParser(prog='python -m gridstride.course.curriculum', description=__doc__.splitlines()[0])
    parser.add_argument('--write', action='store_true', help='write the tables of pages, first cells and links')
    if not parser.parse_args(argv).write:
        return print(listing())
    for path, text in generated_texts(Path(__file__).resolve().parents[2]).items():
        if path.read_text(encoding='utf-8') != text:
            write_atomically(path, text)
            print(os.path.relpath(path))


if __name__ == '__main__':
    sys.exit(main())
