#include <cstdio>
#include <vector>

struct Csr { int rows, *start, *col; double *value; };

__global__ void by_rows(Csr m, const double *x, double *y) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= m.rows) return;
    double s = 0;
    for (int k = m.start[r]; k < m.start[r + 1]; k++) s += m.value[k] * x[m.col[k]];
    y[r] = s;
}

template <int LANES> __global__ void by_groups(const Csr m, const double *__restrict__ x, double *__restrict__ y) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, r = t / LANES, lane = t % LANES;
    double s = 0;
    if (r < m.rows)
        for (int k = m.start[r] + lane; k < m.start[r + 1]; k += LANES) s += m.value[k] * __ldg(&x[m.col[k]]);
    for (int by = LANES / 2; by > 0; by >>= 1) s += __shfl_down_sync(0xffffffffu, s, by, LANES);
    if (r < m.rows && lane == 0) y[r] = s;
}

__global__ void by_entries(const int *row, const int *col, const double *v, int n, const double *x, double *y) {
    for (int k = threadIdx.x; k < n; k += blockDim.x) atomicAdd(&y[row[k]], v[k] * x[col[k]]);
}

template <typename T> T *to_device(const std::vector<T> &v) {
    T *d;
    cudaMalloc(&d, v.size() * sizeof(T));
    cudaMemcpy(d, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice);
    return d;
}

int main() {
    const int n = 100;
    std::vector<int> start{0}, row, col;
    std::vector<double> value, x(n), want(n), got(n);
    for (int i = 0; i < n; i++) x[i] = i % 9 - 4;
    for (int r = 0; r < n; r++) {
        for (int c = r % 7; c < n; c += 1 + (r * 5 + c) % 23) {   // some rows are long, some are empty
            if (r % 10 == 3) break;
            row.push_back(r), col.push_back(c), value.push_back((r + c) % 8 * 0.25);
            want[r] += value.back() * x[c];
        }
        start.push_back(int(col.size()));
    }
    Csr m = {n, to_device(start), to_device(col), to_device(value)};
    double *dx = to_device(x), *dy = to_device(got);
    int *drow = to_device(row);
    for (int kind = 0; kind < 4; kind++) {
        cudaMemset(dy, 0, n * sizeof(double));
        switch (kind) {
        case 0: by_rows<<<(n + 31) / 32, 32>>>(m, dx, dy); break;
        case 1: by_groups<8><<<(n * 8 + 63) / 64, 64>>>(m, dx, dy); break;
        case 2: by_groups<32><<<n / 2, 64>>>(m, dx, dy); break;
        default: by_entries<<<1, 128>>>(drow, m.col, m.value, int(row.size()), dx, dy);
        }
        cudaMemcpy(got.data(), dy, n * sizeof(double), cudaMemcpyDeviceToHost);
        int wrong = 0;
        for (int r = 0; r < n; r++) wrong += got[r] != want[r];
        printf("%d wrong of %d entries, %g %g\n", wrong, int(col.size()), got[0], got[99]);
    }
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
