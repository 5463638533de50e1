"""What the programs here expect of the detectors, next to what compute-sanitizer finds on a GPU; a
test holds ours to it.

    python judged.py > judged.txt    # after judge.py; needs no GPU
"""
import json, re
from pathlib import Path

HERE = Path(__file__).resolve().parent

# What the emulator finds and compute-sanitizer does not, or the other way round
DIFFERS = {
    'right/19_release_and_acquire.cu': 'racecheck does not take release and acquire on shared memory for an order',
    'wrong/11_into_the_next_array.cu': "memcheck knows the block's shared memory, not the arrays in it",
    'wrong/12_local_array.cu': "memcheck knows a thread's local memory, not the arrays in it",
    'wrong/15_host_table_of_rows.cu': 'named on the line of the loop, out of which nvcc has moved the access',
    'wrong/25_cleared_without_barrier.cu': 'racecheck does not compare plain accesses with atomic ones',
    'wrong/86_sum_read_by_all_too_early.cu': 'racecheck does not compare plain accesses with atomic ones',
    'wrong/27_bit_fields.cu': 'nvcc writes these two fields apart; in C++ they are one place',
    **{f'wrong/{o}.cu': 'racecheck looks at shared memory only; this race is in global memory' for o in (
        '28_counter_without_atomic', '29_blocks_write_one_place', '30_last_block_without_fence', '31_atomic_and_plain',
        '32_stencil_across_blocks', '33_too_narrow_scope', '66_own_fence_and_atomic', '67_flag_read_without_fence',
        '68_fence_before_the_data', '69_fence_of_the_block', '70_published_by_another_thread',
        '71_volatile_is_no_atomic', '84_lock_without_fence', '85_no_barrier_of_the_grid')},
    'wrong/34_relaxed_flag.cu': 'found, but without a line',
    **{f'wrong/{o}.cu': 'initcheck looks at global memory only; this is shared'
       for o in ('39_shared_partly_written', '41_shared_counter_not_cleared', '43_halo_not_loaded')},
    **{f'wrong/{o}.cu': 'the kernel hangs, and synccheck reports only at its end' for o in (
        '45_barrier_in_a_branch', '48_shuffle_with_lanes_elsewhere', '49_different_trip_counts',
        '51_masks_that_differ')},
    'wrong/46_return_before_a_barrier.cu':
        'since Volta the hardware excuses threads that have returned; the programming guide does not',
    'wrong/88_return_before_the_grid.cu':
        'the same at the barrier of the grid, if the first thread of the block is there',
    'wrong/52_group_barrier_in_a_branch.cu': "the two barriers are one to the hardware when a whole warp takes each; "
                                             "the programming guide asks for the same one",
    'wrong/61_mma_in_a_branch.cu':
        'the hardware multiplies with whatever the other lanes hold; synccheck looks at barriers only',
    'wrong/62_rows_not_written.cu': 'initcheck looks at global memory only; this is shared',
}

# Which of the wrong ones the emulator warns of, and lets run
WARNED = {'wrong/46_return_before_a_barrier.cu', 'wrong/88_return_before_the_grid.cu'}


def recorded(): return json.loads((HERE/'h100.json').read_text())


def expected(name):
    "(kind, lines) that the first line of the program names; None for a right one"
    m = re.match(r'// expect: (\w+) lines? ([\d or,]+)', (HERE/name).read_text())
    return (m[1], {int(o) for o in re.findall(r'\d+', m[2])}) if m else None


def agree(record, name):
    "Does compute-sanitizer say of the program what its first line says?"
    tools, want = record[name]['sanitizer'], expected(name)
    if want is None: return not any(t['errors'] for t in tools.values())
    return bool(want[1] & set(tools[want[0]]['lines']))


def found(tools):
    "What compute-sanitizer says, in words: tool, kind and lines of each that finds something"
    said = []
    for tool, got in tools.items():
        where = f" line {', '.join(map(str, got['lines']))}" if got['lines'] else ''
        what = f": {got['kinds'][0]}" if got['kinds'] else ''
        if got['errors']: said.append(f'{tool}{where}{what}')
        elif got.get('timeout'): said.append(f'{tool} hangs')
    return '; '.join(said) or 'nothing'


def table():
    "The lines of judged.txt"
    record = recorded()
    names = [n for n in record if n.startswith(('right/', 'wrong/'))]
    alike = sum(agree(record, n) for n in names)
    yield (f'{len(names)} programs: the emulator and compute-sanitizer say the same of {alike}, '
           'of the others see below each')
    yield ''
    for n in names:
        want = expected(n)
        ours = f"{want[0]} line {' or '.join(map(str, sorted(want[1])))}" if want else 'nothing'
        if n in WARNED: ours += ', a warning'
        yield n
        yield f'    emulator           {ours}'
        yield f"    compute-sanitizer  {found(record[n]['sanitizer'])}"
        if n in DIFFERS: yield f'    why                {DIFFERS[n]}'


if __name__ == '__main__': print('\n'.join(table()))
