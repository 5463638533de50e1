"""What the programs in tests/cuda expect of the detectors, against compute-sanitizer's findings on
a GPU: the same, or the reason why not."""
import json, re
from pathlib import Path

import pytest

CUDA = Path(__file__).parent/'cuda'
RECORD = json.loads((CUDA/'h100.json').read_text())

# What the emulator finds and compute-sanitizer does not, or the other way round
DIFFERS = {
    'right/19_release_and_acquire.cu': 'racecheck does not take release and acquire on shared memory for an order',
    'wrong/11_into_the_next_array.cu': "memcheck knows the block's shared memory, not the arrays in it",
    'wrong/12_local_array.cu': "memcheck knows a thread's local memory, not the arrays in it",
    'wrong/15_host_table_of_rows.cu': 'named on the line of the loop, out of which nvcc has moved the access',
    'wrong/25_cleared_without_barrier.cu': 'racecheck does not compare plain accesses with atomic ones',
    'wrong/27_bit_fields.cu': 'nvcc writes these two fields apart; in C++ they are one place',
    **{f'wrong/{o}.cu': 'racecheck looks at shared memory only; this race is in global memory' for o in (
        '28_counter_without_atomic', '29_blocks_write_one_place', '30_last_block_without_fence', '31_atomic_and_plain',
        '32_stencil_across_blocks', '33_too_narrow_scope')},
    'wrong/34_relaxed_flag.cu': 'found, but without a line',
    **{f'wrong/{o}.cu': 'initcheck looks at global memory only; this is shared'
       for o in ('39_shared_partly_written', '41_shared_counter_not_cleared', '43_halo_not_loaded')},
    **{f'wrong/{o}.cu': 'the kernel hangs, and synccheck reports only at its end' for o in (
        '45_barrier_in_a_branch', '48_shuffle_with_lanes_elsewhere', '49_different_trip_counts',
        '51_masks_that_differ')},
    'wrong/46_return_before_a_barrier.cu':
        'since Volta the hardware excuses threads that have returned; the programming guide does not',
    'wrong/52_group_barrier_in_a_branch.cu': "the two barriers are one to the hardware when a whole warp takes each; "
                                             "the programming guide asks for the same one",
    'wrong/61_mma_in_a_branch.cu':
        'the hardware multiplies with whatever the other lanes hold; synccheck looks at barriers only',
    'wrong/62_rows_not_written.cu': 'initcheck looks at global memory only; this is shared',
}


def expected(name):
    "(kind, lines) that the first line of the program names; None for a right one"
    m = re.match(r'// expect: (\w+) lines? ([\d or,]+)', (CUDA/name).read_text())
    return (m[1], {int(o) for o in re.findall(r'\d+', m[2])}) if m else None


def agree(name):
    "Does compute-sanitizer say of the program what its first line says?"
    tools, want = RECORD[name]['sanitizer'], expected(name)
    if want is None: return not any(t['errors'] for t in tools.values())
    return bool(want[1] & set(tools[want[0]]['lines']))


NAMES = [n for n in RECORD if n.startswith(('right/', 'wrong/'))]


@pytest.mark.parametrize('name', NAMES)
def test_program_is_judged_alike_or_it_is_known_why(name):
    assert agree(name) != (name in DIFFERS), RECORD[name]['sanitizer']


def test_the_record_is_of_these_programs():
    import hashlib
    files = {f'{p.parent.name}/{p.name}': hashlib.sha256(p.read_bytes()).hexdigest() for p in CUDA.glob('*/*.cu')}
    assert ({n: r['sha256'] for n, r in RECORD.items()}
            == files), 'programs have changed since they ran on a GPU: run tests/cuda/judge.py'
    assert all(sum(n.startswith(f'{kind}/') for n in files) > 40 for kind in ('same', 'right', 'wrong'))
    assert len(NAMES) - len(DIFFERS) >= 70 and all(r['stable'] for n, r in RECORD.items() if not n.startswith('wrong/'))
