"""A judge for untrusted kernels: `judge(file)` accepts a submission, or rejects it and reports the reason.

A submission is a file in the format of the public leaderboards: `custom_kernel(data)` (GPU MODE's, with its lines
`#!POPCORN leaderboard NAME` and `#!POPCORN gpu NAME`) or `ModelNew` (KernelBench's). It runs in a separate process,
forked from a server process that has never received a task:

- each call has new random inputs, whose seeds come from the operating system; inputs are sent and outputs are received
  as bytes. The float64 reference and all comparisons run in the judge's process, which runs no code of the submission
  and unpickles nothing from it. So a submission cannot find the correct output in its own process;
- the judge's clock runs from the first byte of the inputs to the last byte of the output, in the judge's process. Work
  after that is not in the output, and work before it cannot depend on the inputs. There is no warm-up and no unchecked
  call, so only correct outputs are timed. While the reference is timed, all processes of the submission are stopped;
- memory that the submission allocates is full of NaN, and inputs have the same addresses in each call. Some inputs are
  earlier inputs with one changed value or with shuffled values. Hidden sizes are mixed with public sizes, in a random
  order;
- a supervisor process kills all processes that a submission started, on Linux also those that left its session; each
  output has a time limit. In a verdict, control characters in a submission's text are escaped.

On Linux the submission's process is a sandbox, which `Verdict.isolation` lists (`verdicts.ISOLATION`):

- user, PID, mount, network, IPC and UTS namespaces: it sees, signals and traces no other process, and has no network.
  All of the file system is read-only; home folders, other disks (/mnt, /media, /srv), /tmp, /run, mail, files of /etc
  that not all users may read, sockets that have a name and devices other than GPUs are hidden.
  Python, its packages, and folders of PATH and CUDA_HOME remain readable. Files that it writes to its own folder, to
  the home folder or to caches of compiled kernels are in memory, at most 1 GiB in all, and are discarded at the end.
  CUDA C for the emulator is compiled in a separate sandbox, in which no code of the submission runs. The result is
  stored in the folder `judged` of the cache, which submissions can only read and which only their sandboxes read, so
  that a second verdict does not compile again;
- Landlock in addition. If namespaces are not available, Landlock alone denies most of these accesses, but the cache is
  writable, /proc shows the names of other processes, and named sockets are reachable;
- a seccomp filter denies sockets other than Unix sockets, and ten system calls that kernels do not need;
- no capabilities, no keys of the session's keyring, an environment of listed variables without secrets, and limits:
  half of the memory, files in memory included, 256 processes, 1,024 open files, 1 GiB per file, 64 MiB of printed text.

Elsewhere (macOS, containers that deny both) it runs like any program of yours, with resource limits only, and the
verdict says "not isolated on this system". Files outside the hidden folders that all users, or this user, can read
are readable in a sandbox, too. The sandbox does not protect from vulnerabilities of the operating system or of a GPU
driver: run submissions of attackers in a virtual machine.

A submission shares its interpreter with the code that calls it, so no report from its process is trusted. That code
detects patched functions, threads that keep running, streams that are never waited for, inspected frames and objects,
and changed inputs. A submission can prevent this, so such reports, like the launch counts of a verdict, only add the
reason to a rejection. On a CPU a file whose output is correct in a second process, where launches do nothing, is
rejected; a submission that detects the second process (with a kernel whose launch has no effect there), and returns a
wrong output in it, is not detected. On a GPU the time between two events is measured in the submission's process, so a
submission that replaces the driver below torch can make it shorter. The time must be positive and at most that of the
call; work outside the events is detected if it takes more than half as long as the transfers of a call (`clock`).

What this judge, like any such judge, cannot detect:

- a correct output from a library where a kernel was required: `Verdict.launch_counts` lists what ran. A file is
  rejected if its kernels never run, or if its output is correct even though its launches do nothing (on a GPU, only
  launches from Python: those of a module from `load_inline` are not detected); a file without kernels is not rejected;
- an output that is typical of random normal inputs, within the tolerance;
- a kernel that is wrong for inputs that were not tried: special values, sizes beyond those that a task draws, races
  that did not happen. On a CPU, the emulator's checks find many of these;
- a cache whose key is a whole input: it never hits, so it only costs time.

Without a GPU, kernels are emulated: the counts are meaningful, the times are not, and no claim is made about them.

The modules, in reading order: `referee` (`judge`: calls, times, the verdict), `verdicts`, `forms` (parses a file),
`tasks` (inputs and references), `tolerance` (the allowed error), `calls` (the calls and their checks); between the
processes `processes` and `server` (start, time and end them), `isolation` (the sandbox) with `seccomp` (denied system
calls), `compiling` (compiles modules in a separate sandbox), `wire` (messages), `worker` (calls the submission) with
`devices` (GPU or CPU) and `audit` (detects cheats); `samples` (known cheats, honest kernels), `writing` (writes a
submission from your kernel).
"""

from ..support.lazy_exports import lazy_exports_of

_NAMES = {
    'referee': ('judge',),
    'verdicts': ('Verdict', 'REASONS'),
    'tasks': ('Task', 'TASKS', 'find_task'),
    'forms': ('Submission', 'FormError', 'read_submission'),
    'processes': ('stop',),
    'samples': ('cheats', 'honest'),
    'writing': ('write_submission',),
}
__all__, __getattr__, __dir__ = lazy_exports_of(__name__, _NAMES)
