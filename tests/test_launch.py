"Long launches, how they end, and what kernels print."
import signal
import subprocess
import sys

import numpy as np

from gridstride import sim

LONG = '''
import sys
import numpy as np
from gridstride import sim
from gridstride.diagnostics import settings as options
from gridstride.sim import cuda, run
options.settings.max_lanes = 256            # many small groups, so that the launch takes its time

@cuda.jit
def long(x, n):
    i = cuda.grid(1)
    v = x[i]
    for k in range(n): v = v*0.5 + 1
    x[i] = v

x = np.zeros(256*4000)
print('started', flush=True)
try: long[4000,256](x, 400)
except KeyboardInterrupt: print('stopped')
assert run.LaunchContext.current is None
y = np.zeros(256)
long[1,256](y, 1)
print('and on', y[0], flush=True)
'''


def start_long(tmp_path):
    (tmp_path/'long.py').write_text(LONG)
    p = subprocess.Popen([sys.executable, str(tmp_path/'long.py')], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    assert p.stdout.readline()=='started\n'
    return p


def test_ctrl_c_ends_a_launch_and_nothing_else(tmp_path):
    p = start_long(tmp_path)
    assert p.stderr.read(7).strip()=='long:'    # the progress line: the kernel has run for two seconds
    p.send_signal(signal.SIGINT)
    out,_ = p.communicate(timeout=300)
    assert p.returncode==0 and out=='stopped\nand on 1.0\n'


def test_prints_can_name_the_thread(capsys):
    @sim.cuda.jit
    def hello(x):
        i = sim.cuda.grid(1)
        if i % 2: print('x is', x[i])
    with sim.options(label_prints=True): hello[1,4](np.arange(4.))
    assert capsys.readouterr().out=='block (0), thread (1): x is 1.0\nblock (0), thread (3): x is 3.0\n'
