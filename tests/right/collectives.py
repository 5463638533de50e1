from . import right
from gridstride.course.exercises.collectives import PRELUDE


PULL = '''
__global__ void pull(const float *x, float *out, float *const *buffers, int *const *flags, int n, int rank, int ranks,
                     int round) {
    int slot = round % 2*n, first = blockIdx.x*blockDim.x + threadIdx.x, step = gridDim.x*blockDim.x;
    for (int i = first; i < n; i += step) buffers[rank][slot + i] = x[i];
    exchange(flags, rank, ranks, round);
    for (int i = first; i < n; i += step) {
        float sum = 0;
        for (int r = 0; r < ranks; r++) sum += buffers[r][slot + i];
        out[i] = sum;
    }
}
'''


@right('collectives.pull')
def with_the_functions_of_the_lesson(): return PRELUDE + PULL
