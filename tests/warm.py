"""Fresh kernels and Pythons that need not import torch first: each is forked from a process that has done nothing else.

Two of the seconds that each lesson takes would go into that. The package is not among what is imported
beforehand, nor is what a lesson prepares by variables of the environment: Numba, Triton, pyplot."""
import gc, multiprocessing, os, runpy, subprocess, sys, types
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from multiprocessing import forkserver
from pathlib import Path

import pytest

KNOWN = ['no_garbage', 'warm', 'torch', 'torch.fx.experimental.symbolic_shapes', 'matplotlib.axes',
         'matplotlib.backends.backend_agg', 'matplotlib.projections', 'matplotlib.style', 'ipykernel.kernelapp',
         'ipykernel.debugger']
INLINE = 'module://matplotlib_inline.backend_inline'  # what a kernel sets before matplotlib is imported


def can_fork(): return 'forkserver' in multiprocessing.get_all_start_methods() and sys.platform == 'linux'


@lru_cache
def nursery():
    "The process that kernels are forked from: not the one that a test's own processes, such as ranks, come from"
    server = forkserver.ForkServer()
    server.set_forkserver_preload(KNOWN)
    with pytest.MonkeyPatch.context() as patch:
        own = os.environ.get('PYTHONPATH')
        patch.setenv('PYTHONPATH', os.pathsep.join([str(Path(__file__).parent), *([own] if own else [])]))
        patch.setenv('MPLBACKEND', INLINE)
        patch.setenv('PYDEVD_DISABLE_FILE_VALIDATION', '1')  # or the debugger has something to say
        server.ensure_running()
    return server


@lru_cache
def fresh_path(given):
    "Where a Python that starts with PYTHONPATH=`given` looks for modules, but for its own folder"
    env = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'} | ({'PYTHONPATH': given} if given else {})
    said = subprocess.run([sys.executable, '-c', 'import sys; print(*sys.path[1:], sep="\\n")'], env=env, check=True,
                          capture_output=True, text=True)
    return said.stdout.splitlines()


def stay():
    """What was imported before is shared with other forks as long as no garbage collection touches it; and what
    is imported now stays, too, so that is done as rarely as in `conftest`"""
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


def become_kernel(argv, env, cwd, path, ready):
    "What a started kernel would do, in a process that has just been forked; `ready` when it leads a session"
    os.setsid()
    ready.send(True)
    stay()
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv, sys.path = [*argv, f'--IPKernelApp.parent_handle={os.getppid()}'], path
    from ipykernel import kernelapp
    kernelapp.launch_new_instance()


def started(target, *args):
    "A process forked from the nursery, which calls `target`"
    with pytest.MonkeyPatch.context() as patch:
        # IPython's shell, which some tests make, stands for `__main__` and does not say where that is from
        if not hasattr(sys.modules['__main__'], '__spec__'):
            patch.setattr(sys.modules['__main__'], '__spec__', None, raising=False)
        patch.setattr(forkserver, 'connect_to_new_process', nursery().connect_to_new_process)
        process = multiprocessing.get_context('forkserver').Process(target=target, args=args)
        process.start()
    return process


class Forked:
    "A forked kernel, with the interface that jupyter_client expects of a process"
    stdin = stdout = stderr = None

    def __init__(self, *args):
        ready, theirs = multiprocessing.Pipe(False)
        self.process = started(become_kernel, *args, theirs)
        theirs.close()
        ready.recv()  # or a signal to the kernel's group would meet the tests, too
        self.pid, self.kill, self.terminate = self.process.pid, self.process.kill, self.process.terminate

    def poll(self): return self.process.exitcode

    def wait(self): return self.process.join() or self.process.exitcode

    def send_signal(self, number): os.kill(self.pid, number)


def become_python(args, env, cwd, path, pipes, ready):
    "What `python *args` would do, in a process that has just been forked"
    stay()
    for at, pipe in enumerate(pipes, 1): os.dup2(pipe.fileno(), at)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.path = path
    ready.send(True)
    if args[0] == '-c':
        sys.argv = ['-c', *args[2:]]
        main = sys.modules['__main__'] = types.ModuleType('__main__')
        exec(compile(args[1], '<string>', 'exec'), main.__dict__)
    elif args[0] == '-m':
        sys.argv = args[1:]
        runpy.run_module(args[1], run_name='__main__', alter_sys=True)
    else:
        sys.argv = args
        sys.path[0] = str(Path(args[0]).resolve().parent)
        runpy.run_path(args[0], run_name='__main__')
    sys.stdout.flush()


class Python:
    """`subprocess.Popen([sys.executable, *args], env=env, cwd=cwd, ...)` with pipes of text, where torch is imported
    already; `args` are the path of a program, or '-c', or '-m', and what follows"""

    def __init__(self, *args, env=None, cwd=None):
        self.args = [str(o) for o in args]
        env = dict(os.environ if env is None else env)
        (self.stdout, out), (self.stderr, err), (ready, theirs) = (multiprocessing.Pipe(False) for _ in range(3))
        path = ['', *fresh_path(env.get('PYTHONPATH'))]
        self.process = started(become_python, self.args, env, str(cwd or Path.cwd()), path, (out, err), theirs)
        for pipe in (out, err, theirs): pipe.close()
        self.stdout, self.stderr = (os.fdopen(os.dup(o.fileno()), encoding='utf-8') for o in (self.stdout, self.stderr))
        ready.recv()

    def poll(self): return self.process.exitcode

    @property
    def returncode(self): return self.process.exitcode

    def send_signal(self, number): os.kill(self.process.pid, number)

    def communicate(self, timeout=None):
        with ThreadPoolExecutor(2) as pool: out, err = pool.map(lambda o: o.read(), (self.stdout, self.stderr))
        self.process.join(timeout)
        return out, err


def python(*args, env=None, cwd=None):
    "A Python that has just begun, forked where the system can: `Python`, or `subprocess.Popen`"
    if can_fork(): return Python(*args, env=env, cwd=cwd)
    return subprocess.Popen([sys.executable, *args], env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def run_python(*args, env=None, cwd=None, timeout=120):
    "The result of such a Python, as `subprocess.run(..., capture_output=True, text=True)` returns it"
    process = python(*args, env=env, cwd=cwd)
    out, err = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def launch_kernel(cmd, env, cwd, **others):
    "Start the kernel that `cmd` says; replaces jupyter_client's"
    argv = cmd[cmd.index('ipykernel_launcher'):]
    return Forked(argv, env, cwd, fresh_path(env.get('PYTHONPATH')))


@pytest.fixture
def warm_kernels(monkeypatch):
    "Kernels are forked, where the system can"
    if can_fork():
        monkeypatch.setattr('jupyter_client.provisioning.local_provisioner.launch_kernel', launch_kernel)
