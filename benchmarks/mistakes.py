"""Run forty mistakes of beginners as cells of a notebook, and print each with the output that the learner sees.

    python mistakes.py > mistakes.txt
"""
import contextlib, io, os, re, sys, warnings

os.environ['GRIDSTRIDE_BACKEND'] = 'sim'

MAX_LINES = 16  # of an output that are shown; a longer one is cut in its middle

FIRST_CELL = '''
import numpy as np, torch
from gridstride import sim
from gridstride.cpp import cuda_kernel, load_cuda
from gridstride.course.grading import exercise
from gridstride.sim import cuda
from gridstride.utils import check, cuda_begin
np.random.seed(0)
x, out = np.random.randn(100).astype(np.float32), np.zeros(100, np.float32)
'''

# title -> cells
MISTAKES = {
    'No guard': ['''
@cuda.jit
def double(x, out):
    i = cuda.grid(1)
    out[i] = 2 * x[i]

double[2, 64](x, out)
'''],
    'No guard in two dimensions': ['''
@cuda.jit
def double(x, out):
    c, r = cuda.grid(2)
    out[r, c] = 2 * x[r, c]

double[(2, 2), (8, 8)](x.reshape(10, 10), out.reshape(10, 10))
'''],
    'Rows and columns swapped': ['''
@cuda.jit
def copy(x, out):
    c, r = cuda.grid(2)
    if r < out.shape[0] and c < out.shape[1]: out[r, c] = x[c, r]

copy[(4, 1), (8, 8)](x.reshape(4, 25), out.reshape(4, 25))
'''],
    'A wrong stride, though there is a guard': ['''
@cuda.jit
def copy(x, out, h, w):
    c, r = cuda.grid(2)
    if r < h and c < w: out[r * w + c] = x[r * 2 * w + c]

copy[(4, 4), (8, 8)](x, out, 4, 25)
'''],
    'One step too far': ['''
@cuda.jit
def double(x, out):
    for i in range(cuda.grid(1), x.size + 1, cuda.gridsize(1)): out[i] = 2 * x[i]

double[2, 32](x, out)
'''],
    'A negative index': ['''
@cuda.jit
def difference(x, out):
    i = cuda.grid(1)
    if i < x.size: out[i] = x[i] - x[i - 1]

difference[2, 64](x, out)
'''],
    'An index from memory': ['''
@cuda.jit
def gather(x, at, out):
    i = cuda.grid(1)
    if i < out.size: out[i] = x[at[i]]

gather[2, 64](x, np.full(100, 100), out)
'''],
    'No barrier': ['''
@cuda.jit
def reverse(x, out):
    s = cuda.shared.array(50, np.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i]
    out[i] = s[49 - t]

reverse[2, 50](x, out)
'''],
    'No barrier at the end of a loop': ['''
@cuda.jit
def sums(x, out):
    s = cuda.shared.array(50, np.float32)
    t = cuda.threadIdx.x
    total = np.float32(0)
    for tile in range(2):
        s[t] = x[50 * tile + t]
        cuda.syncthreads()
        for j in range(50): total += s[j]
    out[t] = total

sums[1, 50](x, out)
'''],
    'A tree without a barrier in its loop': ['''
@cuda.jit
def tree(x, out):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    h = 32
    while h:
        if t < h: s[t] += s[t + h]
        h //= 2
    if t == 0: out[0] = s[0]

tree[1, 64](x, out)
'''],
    'A histogram without atomics': ['''
@cuda.jit
def histogram(x, counts):
    i = cuda.grid(1)
    if i < x.size: counts[int(x[i] > 0)] += 1

histogram[4, 32](x, np.zeros(2, np.int32))
'''],
    'A maximum without atomics': ['''
@cuda.jit
def largest(x, m):
    i = cuda.grid(1)
    if i < x.size: m[0] = max(m[0], x[i])

largest[4, 32](x, np.zeros(1, np.float32))
'''],
    'All threads write one element': ['''
@cuda.jit
def last(x, out):
    i = cuda.grid(1)
    if i < x.size: out[0] = x[i]

last[4, 32](x, out)
'''],
    'A return before a barrier': ['''
@cuda.jit
def reverse(x, out):
    s = cuda.shared.array(128, np.float32)
    t = cuda.threadIdx.x
    if t >= x.size: return
    s[t] = x[t]
    cuda.syncthreads()
    out[t] = s[x.size - 1 - t]

reverse[1, 128](x, out)
'''],
    'A barrier in a branch': ['''
@cuda.jit
def reverse(x, out):
    s = cuda.shared.array(128, np.float32)
    t = cuda.threadIdx.x
    if t < x.size:
        s[t] = x[t]
        cuda.syncthreads()
        out[t] = s[x.size - 1 - t]

reverse[1, 128](x, out)
'''],
    'Shared memory that is uninitialized': ['''
@cuda.jit
def total(x, out):
    s = cuda.shared.array(128, np.float32)
    t = cuda.threadIdx.x
    if t < x.size: s[t] = x[t]
    cuda.syncthreads()
    if t == 0:
        for j in range(128): out[0] += s[j]

total[1, 128](x, out)
'''],
    'Dynamic shared memory, and no bytes for it': ['''
@cuda.jit
def reverse(x, out):
    s = cuda.shared.array(0, np.float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    out[t] = s[99 - t]

reverse[1, 100](x, out)
'''],
    'A kernel is called like a function': ['''
@cuda.jit
def double(x, out):
    i = cuda.grid(1)
    if i < x.size: out[i] = 2 * x[i]

double(x, out)
'''],
    'A list for an array': ['''
@cuda.jit
def double(x, out):
    i = cuda.grid(1)
    if i < out.size: out[i] = 2 * x[i]

double[1, 32]([1., 2., 3.], out)
'''],
    'An array that must not be written': ['''
@cuda.jit
def double(x, out):
    i = cuda.grid(1)
    if i < x.size: out[i] = 2 * x[i]

double[2, 64](x, np.broadcast_to(np.float32(0), 100))
'''],
    'An array for a number': ['''
@cuda.jit
def double(x, out, n):
    i = cuda.grid(1)
    if i < n: out[i] = 2 * x[i]

double[2, 64](x, out, np.array([100]))
'''],
    'CUDA C: no guard': ['''%%cuda
__global__ void twice(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = 2 * x[i];
}
''', 'twice[2, 64](x, out, 100)'],
    'CUDA C: no guard in two dimensions': ['''%%cuda
__global__ void twice(const float *x, float *out, int h, int w) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    out[r * w + c] = 2 * x[r * w + c];
}
''', 'twice[(2, 2), (8, 8)](x, out, 10, 10)'],
    'CUDA C: no barrier at the end of a loop': ['''%%cuda
__global__ void sums(const float *x, float *out) {
    __shared__ float s[50];
    int t = threadIdx.x;
    float total = 0;
    for (int tile = 0; tile < 2; tile++) {
        s[t] = x[50 * tile + t];
        __syncthreads();
        for (int j = 0; j < 50; j++) total += s[j];
    }
    out[t] = total;
}
''', 'sums[1, 50](x, out)'],
    'CUDA C: a counter without atomics': ['''%%cuda
__global__ void count(const float *x, int *n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (x[i] > 0) n[0]++;
}
''', 'count[2, 50](x, np.zeros(1, np.int32))'],
    'CUDA C: a return before a barrier': ['''%%cuda
__global__ void reverse(const float *x, float *out, int n) {
    __shared__ float s[128];
    int t = threadIdx.x;
    if (t >= n) return;
    s[t] = x[t];
    __syncthreads();
    out[t] = s[n - 1 - t];
}
''', 'reverse[1, 128](x, out, 100)'],
    'CUDA C: right, a flag is set by atomicExch before it is read': ['''%%cuda
__global__ void flag(int *out) {
    __shared__ int found;
    if (threadIdx.x == 0) atomicExch(&found, 7);
    __syncthreads();
    out[threadIdx.x] = found;
}
''', 'flag[1, 32](np.zeros(32, np.int32))'],
    'CUDA C: dynamic shared memory, and no bytes for it': ['''%%cuda
__global__ void reverse(const float *x, float *out) {
    extern __shared__ float s[];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[99 - threadIdx.x];
}
''', 'reverse[1, 100](x, out)'],
    'CUDA C: a kernel is called like a function': ['''%%cuda
__global__ void twice(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}
void go(torch::Tensor x) {
    twice(x.data_ptr<float>(), x.numel());
}
'''],
    'CUDA C: a wild address': ['''%%cuda
__global__ void wild(const float *x, float *out) {
    out[threadIdx.x] = x[threadIdx.x * 10000000000LL];
}
''', 'wild[1, 100](x, out)'],
    'CUDA C: an array that begins inside another': ['''%%cuda
__global__ void shifted(const float *x, const float *y, float *out) {
    int i = threadIdx.x;
    out[i] = x[i] + y[i];
}
''', 't = torch.randn(100)\nshifted[1, 100](t, t[10:], torch.zeros(100))'],
    'CUDA C: a name that does not exist': ['''%%cuda
__global__ void twice(float *x) {
    int i = threadIdx.x;
    x[j] *= 2;
}
'''],
    'CUDA C: a name that does not exist, after cuda_begin': ['''
src = cuda_begin + r\'\'\'
__global__ void twice(float *x) {
    x[j] *= 2;
}
void go(torch::Tensor x) { twice<<<1, 32>>>(x.data_ptr<float>()); }
\'\'\'
load_cuda(src)
'''],
    'CUDA C: one equals sign, and a printf that does not fit': ['''%%cuda
__global__ void show(const float *x, int n) {
    int i = threadIdx.x;
    if (i = n)
        printf("x[%d] is %d\\n", i, x[0]);
}
''', 'show[1, 1](x, 0)'],
    'CUDA C: a sum that is not set to zero': ['''%%cuda
__global__ void sum(const float *x, float *out, int n) {
    float total;
    for (int i = 0; i < n; i++) total += x[i];
    out[threadIdx.x] = total;
}
''', 'sum[1, 1](x, out, 100)'],
    'CUDA C: no guard, in a macro': ['''%%cuda
#define AT(a) \\
    a[blockIdx.x * blockDim.x + threadIdx.x]
#line 458
__global__ void twice(const float *x, float *out) {
    AT(out) = 2 * AT(x);
}
''', 'twice[2, 64](x, out)'],
    'CUDA C: an array of the wrong type': ['''%%cuda
__global__ void twice(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2 * x[i];
}
''', 'twice[2, 64](np.random.randn(100), out, 100)'],
    'Two scalars are compared': ['check(np.float32(0.1) + np.float32(0.2), 0.3)\ncheck(7, 8)'],
    'A list is compared': ['check([1, 2, 3], np.array([1, 2, 4]))'],
    'An exercise, without a guard': ['''
@exercise('threads_and_barriers.block_max')
@cuda.jit
def block_max(x, out):
    s = cuda.shared.array(64, np.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i]
    cuda.syncthreads()
    if t == 0:
        for j in range(64): out[cuda.blockIdx.x] = max(out[cuda.blockIdx.x], s[j])
'''],
}


# title: what the answer must say
WORDS = {
    'No guard': ['out-of-bounds read of x[100]: x has 100 elements', 'guard it, as in `if i < x.size`'],
    'No guard in two dimensions': ['out-of-bounds read of x[10, 0]', 'as in `if r < x.shape[0] and c < x.shape[1]`'],
    'Rows and columns swapped': ['out-of-bounds read of x[4, 0]: x has shape (4, 25)',
        'Along axis 0 valid indices are 0 to 3, and this one is 4',
        '`c, r` has rows and columns swapped, use `r, c`'],
    'A wrong stride, though there is a guard': [
        'is true for this thread, and `r * 2 * w + c` is 100: check its stride'],
    'One step too far': ['`i <= x.size` admits one index too many: with 100 elements the last valid index is 99'],
    'A negative index': ['out-of-bounds read of x[-1]', 'Write the index that you mean'],
    'An index from memory': ['The index `at[i]` was read from memory and is 100'],
    'No barrier':
        ['against line 5, block (0), thread (49): s[t] = x[i]', 'Put a cuda.syncthreads() between these two lines'],
    'No barrier at the end of a loop': ['data race (write after read) on s[1]: no barrier',
                                        'Line 7 is in the next iteration of the loop', 'after line 9'],
    'A tree without a barrier in its loop':
        ['Both accesses are on line 9, in different iterations of a loop: put a cuda.syncthreads() at the end of each'],
    'A histogram without atomics': ['Update it in one step: cuda.atomic.add(counts, int(x[i] > 0), 1)'],
    'A maximum without atomics': ['Update it in one step: cuda.atomic.max(m, 0, x[i])'],
    'All threads write one element': ['give each thread its own element, or let one thread write'],
    'A return before a barrier':
        ['EarlyReturn', "100 of the block's 128 threads reach it; thread (100) has returned", 'since Volta'],
    'A barrier in a branch': ['SynccheckError', 'thread (100) is in another branch', 'guard the data, not the barrier'],
    'Shared memory that is uninitialized':
        ['uninitialized read of s[100]', 'write the element, call cuda.syncthreads(), then read it'],
    'Dynamic shared memory, and no bytes for it':
        ['dynamic shared memory is used, but the launch requests none', 'kernel[grid, block, stream, bytes]'],
    'A kernel is called like a function':
        ['double is a kernel: launch it with a grid and a block, as in double[grid, block](...)'],
    'A list for an array': ['argument 1, x, must be a tensor', 'got a list', 'create one with torch.tensor(...)'],
    'An array that must not be written':
        ['out is read-only, but line 4 writes to it', 'Pass a copy: out.copy()'],
    'An array for a number': ['argument 3, n, is an array of shape (1,), but line 4 uses it as a number', 'n.item()'],
    'CUDA C: no guard':
        ['out-of-bounds read of x[100]: x has 100 elements', '`if (i < n)`, where n is the number of elements, 100'],
    'CUDA C: no guard in two dimensions': ['guard both, as in `if (r < h && c < w)`'],
    'CUDA C: no barrier at the end of a loop':
        ['data race (write after read)', 'Line 6 is in the next iteration of the loop', 'after line 8'],
    'CUDA C: a counter without atomics': ['Update it in one step: atomicAdd(&n[0], 1)'],
    'CUDA C: a return before a barrier': ['EarlyReturn', 'thread (100) has returned'],
    'CUDA C: right, a flag is set by atomicExch before it is read': [],
    'CUDA C: dynamic shared memory, and no bytes for it':
        ['dynamic shared memory is used, but the launch requests none', '<<<grid, block, bytes>>>'],
    'CUDA C: a kernel is called like a function':
        ['twice is a kernel', 'as in twice<<<grid, block>>>(...)', 'line 6: twice(x.data_ptr<float>(), x.numel());'],
    'CUDA C: a wild address': ['is not in any array', 'the index is far out of bounds'],
    'CUDA C: an array that begins inside another': ['y begins inside x, at x[10], so this element is y[90]'],
    'CUDA C: a name that does not exist': ['twice.cu, line 3:', 'x[j] *= 2;'],
    'CUDA C: a name that does not exist, after cuda_begin': ['go.cu, line 3:', 'x[j] *= 2;'],
    'CUDA C: one equals sign, and a printf that does not fit': ['show.cu, line 3:', 'show.cu, line 4:', 'has type'],
    'CUDA C: a sum that is not set to zero': ['sum.cu, line', 'uninitialized'],
    'CUDA C: no guard, in a macro': ['line 5: AT(out) = 2 * AT(x);'],
    'CUDA C: an array of the wrong type': ['argument 1, const float * x, must be float32, but the array is float64'],
    'Two scalars are compared': ['got 7, want 8'],
    'A list is compared': ['the first is at [2]: got 3, want 4'],
    'An exercise, without a guard':
        ['threads_and_barriers.block_max is not right yet, for n=100', 'out-of-bounds read of x[100]',
         "hint('threads_and_barriers.block_max')"],
}


def run_cell(shell, cell):
    "Run a cell and return its output as a notebook shows it, without colours"
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text), warnings.catch_warnings():
        warnings.simplefilter('default')
        warnings.showwarning = lambda *arguments: sys.stderr.write(warnings.formatwarning(*arguments[:4]))
        shell.run_cell(cell)
    output = re.sub(r'\x1b\[[\d;]*m', '', text.getvalue()).replace('\r', '\n')
    output = re.sub(r'<ipython-input-(\d+)-\w+>:', r'Cell In[\1], line ', output)  # as JupyterLab shows it
    # lines of gridstride itself say, for example, how long a compiler takes
    lines = [line for line in output.split('\n') if line and not line.startswith('gridstride: ')]
    if len(lines) > MAX_LINES: lines[MAX_LINES // 2:-MAX_LINES // 2] = [f'... {len(lines) - MAX_LINES} more lines']
    return '\n'.join(lines)


def run_mistake(number, title):
    "Run the cells of a mistake in a new notebook; return the cells with their outputs"
    from IPython.core.interactiveshell import InteractiveShell
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(colors='NoColor')
    shell.run_line_magic('load_ext', 'gridstride.cpp')
    shell.run_cell(FIRST_CELL)
    shell.execution_count = 1
    parts = []
    for cell in MISTAKES[title]:
        parts += [f'    {line}'.rstrip() for line in cell.strip('\n').split('\n')]
        if output := run_cell(shell, cell.strip('\n')): parts += ['', output, '']
    return '\n'.join(parts).rstrip() + '\n'


if __name__ == '__main__':
    selected = [int(o) for o in sys.argv[1:]]
    for number, title in enumerate(MISTAKES, 1):
        if selected and number not in selected: continue
        print(f'--- {number}. {title}\n\n{run_mistake(number, title)}', flush=True)
