"""Starts copies of a program as the ranks of a job on this machine, as `mpirun` and `torchrun` do.

The ranks share a bootstrap (`runtime/ranks.cpp`), through which NVSHMEM's functions find each other. If a rank fails,
the others report what they wait for; those that do not end by themselves are ended."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

from . import emulator

_GRACE_SECONDS = 15  # seconds after the first failure in which the other ranks may report and end


def run_ranks(
    command,  # list: the program and its arguments
    num_ranks,  # 1 to 8
) -> int:  # exit status: that of a rank that has failed, or 0
    """Run a command as the ranks of a job; each finds RANK, WORLD_SIZE, LOCAL_RANK and GRIDSTRIDE_JOB.

    Example: `run_ranks([sys.executable, '-m', 'gridstride.cpp', 'all_reduce.cu'], 4)`"""
    emulator.check_num_devices(num_ranks)
    environment = dict(os.environ, WORLD_SIZE=str(num_ranks), LOCAL_WORLD_SIZE=str(num_ranks), **_job_variable())
    environment.setdefault('GRIDSTRIDE_DEVICES', str(num_ranks))
    ranks = [
        subprocess.Popen(command, env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank)))
        for rank in range(num_ranks)
    ]
    try:
        return _wait_for_ranks(ranks)
    finally:
        _terminate(ranks)


def _job_variable():
    "Return {'GRIDSTRIDE_JOB': ID of a new bootstrap}; empty on systems whose processes share no memory"
    create = emulator.load_runtime().gridstride_create_job
    create.restype = ctypes.c_char_p
    job = create()
    return {'GRIDSTRIDE_JOB': job.decode()} if job else {}


def _wait_for_ranks(ranks):
    "Wait until all ranks have ended, or until some time after the first failure; return its exit status"
    failed_at, status = None, 0
    while any(rank.poll() is None for rank in ranks):
        failures = [rank.returncode for rank in ranks if rank.returncode]
        if failures and failed_at is None:
            failed_at, status = time.monotonic(), _exit_status(failures[0])
        if failed_at is not None and time.monotonic() - failed_at > _GRACE_SECONDS:
            break
        time.sleep(0.02)
    return status or next((_exit_status(rank.returncode) for rank in ranks if rank.returncode), 0)


def _exit_status(returncode):
    "Return the exit status as a shell reports it"
    return returncode if returncode >= 0 else 128 - returncode


def _terminate(ranks):
    "End the ranks that still run: first with SIGTERM, then with SIGKILL"
    for send in (subprocess.Popen.terminate, subprocess.Popen.kill):
        for rank in ranks:
            if rank.poll() is None:
                send(rank)
        deadline = time.monotonic() + 2
        for rank in ranks:
            with suppress(subprocess.TimeoutExpired):
                rank.wait(max(0, deadline - time.monotonic()))


def end_with_launcher():
    "In a rank: let the system end this process when the launcher has ended (only Linux)"
    job = os.environ.get('GRIDSTRIDE_JOB', '').split(':')
    if 'RANK' not in os.environ or len(job) != 3 or not sys.platform.startswith('linux'):
        return
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)
    if os.getppid() != int(job[1]):
        sys.exit('the launcher of this rank has ended')
