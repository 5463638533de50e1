"""A judge for kernels of other authors: `judge(file)` reports that a submission is right, or why it is refused.

A submission is a file in the form of the public leaderboards: `custom_kernel(data)` (GPU MODE's, with its lines
`#!POPCORN leaderboard NAME` and `#!POPCORN gpu NAME`) or `ModelNew` (KernelBench's). It runs in a process of its own,
forked from a warm one that has never seen a task:

- inputs go there as bytes, new random ones per call, seeds from the operating system; answers come back as
  bytes. The reference, in float64, and all comparisons are in the judge's process, which runs nothing of the
  submission and unpickles nothing from it. So there is no answer to be found there, whatever memory, objects or
  frames are read;
- the judge's clock runs from the first byte of the inputs to the last one of the answer, in the judge's process. What
  is computed later comes too late, and what was computed before had not seen the inputs. There is no warm-up and no
  call that is not looked at: what was not right was not timed. While the reference is timed, all processes of the
  submission are stopped;
- memory that the submission gets is full of NaN, inputs are at the addresses of the last ones, some are earlier ones in
  which one value differs, or the values are shuffled, sizes that are not public are among them, in a random order;
- a warden kills what a submission has started, on Linux also what has left its session; each answer has a limit of
  time. What a verdict shows of a submission's text has no control characters.

On Linux the submission's process is a sandbox, which `Verdict.isolation` lists (`verdicts.ISOLATION`):

- user, PID, mount, network, IPC and UTS namespaces: it sees, signals and traces no other process, and has no network.
  All of the file system is read-only; home folders, other disks (/mnt, /media, /srv), /tmp, /run, mail, files of /etc
  that not all users may read, sockets that have a name and devices other than GPUs are hidden.
  Python, its packages, and folders of PATH and CUDA_HOME remain readable. What it writes to its own folder, to the home
  folder or to caches of compiled kernels exists in memory, up to 1 GiB in all, and is gone with it. CUDA C for the
  emulator is compiled in a sandbox of its own, in which nothing of the submission runs. The result is kept in a folder
  of the cache, `judged`, that submissions can only read and that nothing but their sandboxes reads: a second verdict
  does not compile again;
- Landlock, on top, even if namespaces are not available: there it still denies most of that. Without namespaces
  the cache can be written to, /proc shows other processes' names, and named sockets are reachable;
- a filter of system calls (seccomp): no keyrings, no sockets but Unix's, none of ten calls that a kernel does not need;
- no capabilities, no keys of the session's keyring, an environment of listed variables without secrets, and limits:
  half of the memory, files in memory included, 256 processes, 1,024 open files, 1 GiB per file, 64 MiB of output.

Elsewhere (macOS, containers that deny both) it runs as any program of yours, with limits of the system alone, and the
verdict says "not isolated on this system". Files outside the hidden folders that all users, or this user, can read
are readable in a sandbox, too. A flaw of the kernel or of a GPU's driver is out of its reach: for submissions of
attackers use a virtual machine.

A submission shares its interpreter with the code that calls it, so no word of its process is trusted. That code
notices patched functions, threads that continue, streams that nothing waits for, looks into frames and objects, and
inputs that were written to. A submission can prevent this: it only gives a refusal its reason, as do the launch counts
of a verdict. On a CPU a file whose answer is right in a second process, in which no launch does anything, is refused;
a submission that finds out which of the two it is in (a kernel of its own that does nothing shows it), and then answers
wrongly in the second one, is not detected. On a GPU the time between two events is measured in the submission's
process, so a submission that replaces the driver below torch can make it shorter: it must be positive and within the
call, and the judge's own clock sees what the events hide if it is more than half of what the transfers of a call take
(`clock`).

What the judge does not see, and no such judge does:

- a right answer that was got in another way than was meant, by a library where a kernel was asked for: `Verdict.counts`
  says what ran. A file whose kernels never run is refused, and one whose answer is right when its launches do nothing
  (on a GPU, launches from Python: those of a module that `load_inline` made are out of reach); a file that has no
  kernels is not;
- an answer that is known, to within the tolerance, from what is typical of random normal inputs;
- a kernel that is wrong for inputs that were not tried: special values, sizes beyond those that a task draws, races
  that did not happen. On a CPU kernels run checked, which finds many of these;
- a cache that is keyed by the whole of an input: it never hits here, and costs what it costs.

Without a GPU kernels run emulated: counts mean something, times of theirs nothing, and no claim is made of them.

The modules, in the order in which they are read best: `referee` (`judge`: calls, times, a verdict), `verdicts`, `forms`
(a submission's file), `tasks` (what a submission computes), `closeness` (how near to float64 an answer must be),
`bench` (the calls, one by one, and what is refused); between the processes `processes` and `server` (started, timed,
ended), `isolation` (the sandbox) with `seccomp` (system calls that it denies), `compiling` (modules that are compiled
in a sandbox of their own), `wire` (messages), `worker` (what runs around a submission) with `devices` (a GPU, or the
CPU) and `audit` (what it does that it should not); `samples` (known cheats, honest kernels), `writing` (a submission
from a kernel of yours).
"""

from ..support.lazy_exports import front_door

_NAMES = {
    'referee': ('judge',),
    'verdicts': ('Verdict', 'REASONS'),
    'tasks': ('Task', 'TASKS', 'task_named'),
    'forms': ('Submission', 'FormError', 'read_submission'),
    'processes': ('stop',),
    'samples': ('cheats', 'honest'),
    'writing': ('write_submission',),
}
__all__, __getattr__, __dir__ = front_door(__name__, _NAMES)
