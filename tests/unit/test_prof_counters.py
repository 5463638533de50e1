"Pages of Nsight Compute in small, the command that makes them, and what may go wrong."
import pytest
from gridstride.prof import counters
from gridstride.prof.counters import error_from_output, ncu, ncu_command
from gridstride.prof.ncu_report import (Kernel, Line, Metric, Ncu, parse_details, parse_raw_metrics,
                                        parse_source_lines, report_from_json)
from gridstride.bench.recording import Unavailable

HEAD = ('"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid '
'Size","Device","CC",'
        '"Section Name","Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type","Rule Description",'
        '"Estimated Speedup Type","Estimated Speedup"')
ROW = '"0","7","k","127.0.0.1","add(const float *, int)","1","7","(32, 32, 1)","(64, 64, 1)","0","9.0",'
PAGE = f'''==PROF== Connected to process 7
what the program says, in a line
{HEAD}
{ROW}"GPU Speed Of Light Throughput","Duration","us","31.20",
{ROW}"GPU Speed Of Light Throughput","Elapsed Cycles","cycle","61,737",
{ROW}"SpeedOfLight","","","","SOLBottleneck","OPT","Memory is busier, ""much"" busier","",""
{ROW}"Memory Workload Analysis","L2 Hit Rate","%","52.35",
{ROW}"MemoryWorkloadAnalysis_Tables","","","","SharedMemoryConflicts","OPT","Conflicts","global","66.14"
==PROF== Disconnected from process 7'''
SOURCE = '''"File Path","/tmp/k.cu"
"Function Name","add(int)"
"Line No","Source","Address","Source","# Samples","Instructions Executed",\
"L1 Wavefronts Shared Excessive","stall_barrier"
"4","x[i] = y[i];","-","-","34","1024","-","2"
"","","0x7f","   LDG R1","34","512","0","2"
==WARNING== something
'''


@pytest.fixture
def kernel(): return parse_details(PAGE)[0]


def test_metrics_are_found_by_name_and_by_section(kernel):
    assert (kernel.name, kernel.block) == ('add(const float *, int)', '(32, 32, 1)')
    assert (kernel['Duration'], kernel['Elapsed Cycles'], kernel['Memory Workload Analysis: L2 Hit Rate']) == (
        31.2,
        61737,
        52.35,
    )
    assert kernel.seconds == pytest.approx(31.2e-6)
    with pytest.raises(KeyError, match='similar: L2 Hit Rate'): kernel['Hit Rate']


def test_rules_belong_to_the_section_above_them(kernel):
    assert [(r.section, r.name, r.speedup, r.scope) for r in kernel.rules] == [
        ('GPU Speed Of Light Throughput', 'SOLBottleneck', None, ''),
        ('Memory Workload Analysis', 'SharedMemoryConflicts', .6614, 'global')]
    assert kernel.rules[0].text == 'Memory is busier, "much" busier'


def test_a_page_without_a_table_has_no_kernels(): assert parse_details('==WARNING== No kernels were profiled.') == {}


def test_flops_and_bytes_are_sums_of_what_was_read(kernel):
    assert (kernel.flops, kernel.bytes) == (None, None)
    read = {'dram__bytes.sum': 4096, 'smsp__sass_thread_inst_executed_op_ffma_pred_on.sum': 100,
            'smsp__sass_thread_inst_executed_op_fadd_pred_on.sum': 7, 'sm__ops_path_tensor_src_fp64.sum': 'n/a'}
    kernel.raw = {n: Metric(n, v, '') for n, v in read.items()}
    assert (kernel.flops, kernel.bytes) == (207, 4096)


def test_raw_metrics_are_those_with_ncus_names_and_a_value():
    got = parse_raw_metrics('"ID","Kernel Name","dram__bytes.sum","gpu__time_duration.sum","launch__uses"\n'
              '"","","byte","ns","",\n"0","add","1,024","31200",""\n')
    assert {n: (m.value, m.unit) for n, m in got[0].items()} == {
        'dram__bytes.sum': (1024, 'byte'), 'gpu__time_duration.sum': (31200, 'ns')}


def test_lines_are_the_sums_and_not_the_instructions():
    counts = {'# Samples': 34, 'Instructions Executed': 1024, 'stall_barrier': 2}
    assert parse_source_lines(SOURCE) == [('add(int)', [Line(4, 'x[i] = y[i];', 34, counts)])]


def test_a_report_shows_bank_conflicts_and_survives_being_kept(kernel):
    kernel.lines = parse_source_lines(SOURCE)[0][1]
    kernel.lines[0].counters['L1 Wavefronts Shared Excessive'] = 4063232
    r = Ncu([kernel], '2025.3.1', ['ncu does not know the metric x'])
    assert (r['add']['Duration'], r['Duration'], r[0].block) == (31.2, 31.2, '(32, 32, 1)')
    assert 'bank conflicts' in repr(r) and '4,063,232' in repr(r) and '66%' in repr(r)
    again = report_from_json(r.to_json(), provenance='recorded on an NVIDIA H100')
    assert repr(again).replace('\n[recorded on an NVIDIA H100]', '') == repr(r) and again.to_json() == r.to_json()


def test_the_command_of_a_set():
    want = ['ncu', '--clock-control', 'none', '-f', '-o', 'r', '--set', 'basic', 'k']
    assert ncu_command('ncu', 'r', ['k'], 'basic', (), False, False, None, 0, None) == want
    asked = ncu_command('ncu', 'r', ['k'], 'basic', (), False, False, None, 0, None,
                    ['--cache-control', 'none', '--clock-control', 'base'])
    assert (asked[:5] == ['ncu', '--cache-control', 'none', '--clock-control', 'base']
            and 'none' not in asked[5:]), 'the clock is left alone unless ncu is to hold it'


def test_the_command_of_sections_metrics_lines_and_some_launches():
    got = ncu_command('ncu', 'r', ['k'], ['Occupancy'], ['dram__bytes.sum'], True, True, 'add', 2, 1)
    assert ' '.join(got[6:]) == (
        '--profile-from-start off --section Occupancy --section SourceCounters --import-source yes --source-folders . '
        '--metrics dram__bytes.sum,gpu__time_duration.sum --kernel-name regex:add --launch-skip 2 --launch-count 1 k')


def test_a_source_is_written_as_what_it_is(tmp_path):
    cuda = '#include <cstdio>\n__global__ void f() {}\nint main() { f<<<1,1>>>(); }\n'
    assert counters._write_source(cuda, tmp_path).name == 'profiled.cu'
    assert counters._write_source('import torch\nsrc = "__global__"\n', tmp_path).name == 'profiled.py'


def test_what_the_program_printed_last_is_shown():
    said = '==PROF== Connected\nTraceback\nNameError: x\n==ERROR== The application returned an error code (1).'
    assert str(error_from_output(said, 1)).splitlines()[1:3] == ['Traceback', 'NameError: x']
    taken = ('==ERROR== Failed to prepare kernel for profiling', '==ERROR== Unknown Error on device 0.',
             '==ERROR== Failed to profile "naive_k" in process 2030',
             '==ERROR== The application returned an error code (9).')
    # as printed on an H100 that a second ncu used
    assert isinstance(e := error_from_output('\n'.join(taken), 9), Unavailable) and 'another profiler' in str(e)
    assert error_from_output('==PROF== Profiling "k" - 0: 0%....100% - 20 passes', 0) is None


def test_without_a_gpu_it_is_unavailable(monkeypatch):
    monkeypatch.setattr(counters, 'no_gpu', lambda: 'no GPU is here')
    with pytest.raises(Unavailable, match='no GPU is here'): ncu(parse_details)
    with pytest.raises(FileNotFoundError, match='nowhere.py .*file.*source'): ncu('nowhere.py')


def test_lines_of_a_kernel_in_a_text_of_the_program_get_their_text():
    k = Kernel('thrice(const float *)')
    k.lines = [Line(3, '<Unable to open source file>', 5), Line(9, '<Unable to open source file>', 1)]
    source = "k = cuda_kernel('__global__ void thrice(const float* x) {\\n  int i = 0;\\n  use(i);\\n}')"
    counters._complete_source(k, counters._kernel_sources(source), False)
    assert [(l.number, l.text) for l in k.lines] == [
        (None, '  use(i);'),
        (None, '(line 9: source not available)'),
    ]
