"""Run the kernels once each on a GPU, for Nsight Compute to count; or write the counts that it printed as JSON.

    ncu --clock-control none --csv --metrics $(python record.py metrics) python record.py > counts.csv
    python record.py counts.csv > h100.json
"""
import csv, json, sys
from pathlib import Path

METRICS = {
    'global_load_requests': 'l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum',
    'global_load_sectors': 'l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum',
    'global_store_requests': 'l1tex__t_requests_pipe_lsu_mem_global_op_st.sum',
    'global_store_sectors': 'l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum',
    'shared_load_requests': 'smsp__sass_inst_executed_op_shared_ld.sum',
    'shared_store_requests': 'smsp__sass_inst_executed_op_shared_st.sum',
    'shared_load_wavefronts': 'l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum',
    'shared_store_wavefronts': 'l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum',
    'shared_load_conflicts': 'l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum',
    'shared_store_conflicts': 'l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum',
}


def run():
    "Every kernel once, on the GPU"
    from numba import cuda
    import numpy as np
    from kernels import kernels
    for name,k,grid,block,args in kernels(cuda):
        dev = [cuda.to_device(a) if isinstance(a, np.ndarray) else a for a in args]
        k[grid, block](*dev)
        cuda.synchronize()


def counts(path):
    "Counter by kernel from Nsight Compute's CSV, in the order of the launches"
    from kernels import kernels
    lines = Path(path).read_text().splitlines()
    start = next(i for i,l in enumerate(lines) if l.startswith('"ID"'))
    by_id,short = {},{v:k for k,v in METRICS.items()}
    for row in csv.DictReader(lines[start:]):
        if row['Metric Name'] in short:
            by_id.setdefault(int(row['ID']),
                             {})[short[row['Metric Name']]] = int(float(row['Metric Value'].replace(',','')))
    from gridstride.sim import cuda
    names = [o[0] for o in kernels(cuda)]
    assert len(names)==len(by_id), (len(names), len(by_id))
    return dict(zip(names, (by_id[i] for i in sorted(by_id))))


if __name__=='__main__':
    what = sys.argv[1] if len(sys.argv)>1 else ''
    if what=='metrics': print(','.join(METRICS.values()))
    elif what: print(json.dumps(counts(what), indent=1))
    else: run()
