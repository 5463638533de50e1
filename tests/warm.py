"""Start Jupyter kernels and Python processes that have already imported torch: each is forked from a server process.

This saves two seconds per lesson. The server does not import modules that a lesson configures by environment variables:
`numba.cuda`, Triton, pyplot, and of the package those that print or change something when they are imported."""
import gc, multiprocessing, os, runpy, subprocess, sys, types
from concurrent.futures import ThreadPoolExecutor, TimeoutError as ReadTimeout
from functools import lru_cache
from multiprocessing import forkserver
from pathlib import Path

import pytest

PRELOADED = ['no_garbage', 'warm', 'torch', 'torch.fx.experimental.symbolic_shapes', 'matplotlib.axes',
             'matplotlib.backends.backend_agg', 'matplotlib.projections', 'matplotlib.style', 'ipykernel.kernelapp',
             'ipykernel.debugger', 'numba', 'setuptools', 'gridstride.asm.report', 'gridstride.bench.variants',
             'gridstride.cpp.kernel', 'gridstride.cpp.listings', 'gridstride.ring.passes', 'gridstride.ring.timestamps',
             'gridstride.ring.ulysses_and_tree', 'gridstride.sim', 'gridstride.tile', 'gridstride.translate']
INLINE = 'module://matplotlib_inline.backend_inline'  # what a kernel sets before matplotlib is imported


def can_fork(): return 'forkserver' in multiprocessing.get_all_start_methods() and sys.platform == 'linux'


@lru_cache
def fork_server():
    "Return the server that kernels are forked from; processes that the package starts itself have another"
    server = forkserver.ForkServer()
    server.set_forkserver_preload(PRELOADED)
    with pytest.MonkeyPatch.context() as patch:
        python_path = os.environ.get('PYTHONPATH')
        folders = [str(Path(__file__).parent), *([python_path] if python_path else [])]
        patch.setenv('PYTHONPATH', os.pathsep.join(folders))
        patch.setenv('MPLBACKEND', INLINE)
        patch.setenv('PYDEVD_DISABLE_FILE_VALIDATION', '1')  # otherwise the debugger prints a warning
        server.ensure_running()
    return server


@lru_cache
def module_path(python_path):
    "Return `sys.path` of a Python that starts with PYTHONPATH=`python_path`, without its own folder"
    env = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}
    env |= {'PYTHONPATH': python_path} if python_path else {}
    output = subprocess.run([sys.executable, '-c', 'import sys; print(*sys.path[1:], sep="\\n")'], env=env, check=True,
                          capture_output=True, text=True)
    return output.stdout.splitlines()


def limit_garbage_collection():
    """Exempt imported modules from garbage collection, so that forks share their memory; collect the rest as rarely as
    `conftest` does"""
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


def adapt_modules():
    """Let Numba read this process's variables; forget the imported package if this process, with its own path and
    variables, would import it differently"""
    if any(name.startswith('NUMBA_') for name in os.environ) and (numba := sys.modules.get('numba')):
        numba.config.reload_config()
    imported = sys.modules['gridstride'].__file__
    found = next(filter(None, (finder.find_spec('gridstride', None) for finder in sys.meta_path)), None)
    if found and found.origin == imported and not os.environ.get('GRIDSTRIDE_LANG'): return  # read by an import
    for name in [name for name in sys.modules if name.partition('.')[0] == 'gridstride']: del sys.modules[name]


def become_kernel(argv, env, cwd, path, ready):
    "Become a Jupyter kernel in a forked process; sends to `ready` when the process leads its session"
    os.setsid()
    ready.send(True)
    limit_garbage_collection()
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv, sys.path = [*argv, f'--IPKernelApp.parent_handle={os.getppid()}'], path
    adapt_modules()
    from ipykernel import kernelapp
    kernelapp.launch_new_instance()


def fork_process(target, *args):
    "Return a process, forked from the server, that calls `target`"
    with pytest.MonkeyPatch.context() as patch:
        # the IPython shell that some tests make replaces `__main__`, without a `__spec__`
        if not hasattr(sys.modules['__main__'], '__spec__'):
            patch.setattr(sys.modules['__main__'], '__spec__', None, raising=False)
        patch.setattr(forkserver, 'connect_to_new_process', fork_server().connect_to_new_process)
        process = multiprocessing.get_context('forkserver').Process(target=target, args=args)
        process.start()
    return process


class Forked:
    "A forked kernel, with the interface that jupyter_client expects of a process"
    stdin = stdout = stderr = None

    def __init__(self, *args):
        ready, child_end = multiprocessing.Pipe(False)
        self.process = fork_process(become_kernel, *args, child_end)
        child_end.close()
        ready.recv()  # until then a signal to the kernel's group would also reach the tests
        self.pid, self.kill, self.terminate = self.process.pid, self.process.kill, self.process.terminate

    def poll(self): return self.process.exitcode

    def wait(self): return self.process.join() or self.process.exitcode

    def send_signal(self, number): os.kill(self.pid, number)


def become_python(args, env, cwd, path, pipes, ready):
    "Run `python *args` in a forked process"
    limit_garbage_collection()
    for descriptor, pipe in enumerate(pipes, 1): os.dup2(pipe.fileno(), descriptor)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.path = path
    ready.send(True)
    is_script = args[0] not in ('-c', '-m')
    if is_script: sys.path[0] = str(Path(args[0]).resolve().parent)
    adapt_modules()
    sys.argv = args if is_script else args[1:]
    if args[0] == '-c':
        sys.argv[0] = '-c'
        main = sys.modules['__main__'] = types.ModuleType('__main__')
        exec(compile(args[1], '<string>', 'exec'), main.__dict__)
    elif args[0] == '-m': runpy.run_module(args[1], run_name='__main__', alter_sys=True)
    else: runpy.run_path(args[0], run_name='__main__')
    sys.stdout.flush()


class Python:
    """A forked Python process with the interface of `subprocess.Popen` and text pipes, in which torch is imported.

    `args` are the path of a program, or '-c' or '-m', and its arguments"""

    def __init__(self, *args, env=None, cwd=None):
        self.args = [str(o) for o in args]
        env = dict(os.environ if env is None else env)
        (self.stdout, out), (self.stderr, err), (ready, child_end) = (multiprocessing.Pipe(False) for _ in range(3))
        path = ['', *module_path(env.get('PYTHONPATH'))]
        self.process = fork_process(become_python, self.args, env, str(cwd or Path.cwd()), path, (out, err), child_end)
        for pipe in (out, err, child_end): pipe.close()
        self.stdout, self.stderr = (os.fdopen(os.dup(o.fileno()), encoding='utf-8') for o in (self.stdout, self.stderr))
        ready.recv()

    def poll(self): return self.process.exitcode

    @property
    def returncode(self): return self.process.exitcode

    def send_signal(self, number): os.kill(self.process.pid, number)

    def communicate(self, timeout=None):
        pool = ThreadPoolExecutor(2)
        try: out, err = pool.map(lambda o: o.read(), (self.stdout, self.stderr), timeout=timeout)
        except ReadTimeout:
            self.process.kill()
            raise subprocess.TimeoutExpired(self.args, timeout) from None
        finally: pool.shutdown(wait=False)
        self.process.join(timeout)
        return out, err


def python(*args, env=None, cwd=None):
    "Start a Python process: a forked `Python` if the system can fork, else a `subprocess.Popen`"
    if can_fork(): return Python(*args, env=env, cwd=cwd)
    return subprocess.Popen([sys.executable, *args], env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def run_python(*args, env=None, cwd=None, timeout=600):
    "Run a Python process; return its result as `subprocess.run(..., capture_output=True, text=True)` does"
    process = python(*args, env=env, cwd=cwd)
    out, err = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def launch_kernel(cmd, env, cwd, **others):
    "Start the kernel of the command `cmd`; replaces the function of jupyter_client"
    argv = cmd[cmd.index('ipykernel_launcher'):]
    return Forked(argv, env, cwd, module_path(env.get('PYTHONPATH')))


@pytest.fixture(scope='module')
def warm_ranks():
    "Fork the processes of ranks from this server, too"
    with pytest.MonkeyPatch.context() as patch:
        if can_fork(): patch.setattr(forkserver, 'connect_to_new_process', fork_server().connect_to_new_process)
        yield


@pytest.fixture
def warm_kernels(monkeypatch):
    "Fork Jupyter kernels, if the system can"
    if can_fork():
        monkeypatch.setattr('jupyter_client.provisioning.local_provisioner.launch_kernel', launch_kernel)
