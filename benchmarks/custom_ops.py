"""Record what lesson 19 shows of a GPU: the overhead of each layer of a call, and the operator of a new project. Then
run that project's own tests, and build its wheel with the compiled library. All of it takes less than two minutes.

    python benchmarks/custom_ops.py nbs/recorded

Needs nvcc, ninja, pytest and a GPU."""
import os, subprocess, sys, tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gridstride.kernels import operator_costs, project


def run_tests(folder):
    "Run the tests of a new project on the GPU; return their exit status"
    path = project.write_project('tested_norm', folder)
    env = {**os.environ, 'PYTHONPATH': os.pathsep.join([str(path), os.environ.get('PYTHONPATH', '')])}
    command = [sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', '--durations=5']
    return subprocess.run(command, cwd=path, env=env).returncode


def build_wheel(folder):
    "Build the wheel with the compiled library, import it in another process, and print its name"
    path, wheels = project.write_project('built_norm', folder), Path(folder)/'wheels'
    command = [sys.executable, '-m', 'pip', 'wheel', '.', '-q', '--no-deps', '--no-build-isolation', '-w', str(wheels)]
    done = subprocess.run(command, cwd=path, env={**os.environ, 'PRECOMPILED': '1'}, capture_output=True, text=True)
    print(done.stdout[-500:], done.stderr[-1500:], *(p.name for p in wheels.glob('*.whl')))
    if done.returncode: return done.returncode
    target = Path(folder)/'site'
    subprocess.run([sys.executable, '-m', 'pip', 'install', '-q', '--no-deps', '--no-index', '--target', target,
                    *wheels.glob('*.whl')], check=True)
    code = ('import time, torch; start = time.perf_counter(); import built_norm; x = torch.ones(2, 8, device="cuda"); '
            'print(built_norm.__file__, built_norm.add_rms_norm(x, x, x[0])[0][0, 0], time.perf_counter() - start)')
    env = {**os.environ, 'PYTHONPATH': os.pathsep.join([str(target), os.environ.get('PYTHONPATH', '')])}
    return subprocess.run([sys.executable, '-c', code], cwd=folder, env=env).returncode


if __name__ == '__main__':
    os.environ['GRIDSTRIDE_RECORD'] = '1'
    recordings = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT/'nbs'/'recorded')
    recordings.mkdir(parents=True, exist_ok=True)
    print(operator_costs.layers_on_gpu(str(recordings)))
    print(operator_costs.project_on_gpu(str(recordings)))
    with tempfile.TemporaryDirectory() as folder:
        print('tests:', run_tests(folder), 'wheel:', build_wheel(folder))
