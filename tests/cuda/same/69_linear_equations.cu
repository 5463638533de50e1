#include <cstdio>
#define N 12

// LU without pivots, in place; the matrix is made as the product of whole numbers, so that every quotient is exact.
__global__ void decomposed(double *m) {
    __shared__ double a[N][N + 1];
    int c = threadIdx.x, r = threadIdx.y;
    a[r][c] = m[r * N + c];
    __syncthreads();
    for (int k = 0; k < N - 1; k++) {
        if (c == k && r > k) a[r][k] /= a[k][k];
        __syncthreads();
        if (r > k && c > k) a[r][c] -= a[r][k] * a[k][c];
        __syncthreads();
    }
    m[r * N + c] = a[r][c];
}

__global__ void solved(const double *lu, const double *b, double *x) {   // a warp; one row for each lane
    __shared__ double s[N];
    int r = threadIdx.x;
    double v = r < N ? b[r] : 0;
    for (int k = 0; k < N; k++) {
        if (r == k) s[k] = v;
        __syncwarp();
        if (r > k && r < N) v -= lu[r * N + k] * s[k];
    }
    for (int k = N - 1; k >= 0; k--) {
        __syncwarp();
        if (r == k) s[k] = v / lu[k * N + k];
        __syncwarp();
        if (r < k) v -= lu[r * N + k] * s[k];
    }
    __syncwarp();
    if (r < N) x[r] = s[r];
}

__global__ void determinant(const double *lu, double *d) {
    double p = 1;
    for (int i = 0; i < N; i++) p *= lu[i * (N + 1)];
    *d = p;
}

int main() {
    double l[N][N] = {}, u[N][N] = {}, m[N][N] = {}, got[N][N], b[N] = {}, x[N], *dm, *db, *dx;
    for (int r = 0; r < N; r++) for (int c = 0; c < N; c++) {
        if (r > c) l[r][c] = (r * 3 + c) % 5 - 2;
        if (r == c) l[r][c] = 1, u[r][c] = r % 3 == 1 ? 4 : 2;
        if (r < c) u[r][c] = (r + c * 2) % 7 - 3;
    }
    for (int r = 0; r < N; r++) for (int c = 0; c < N; c++) for (int k = 0; k < N; k++) m[r][c] += l[r][k] * u[k][c];
    for (int r = 0; r < N; r++) for (int c = 0; c < N; c++) b[r] += m[r][c] * (c - 5);
    cudaMalloc(&dm, sizeof m), cudaMalloc(&db, sizeof b), cudaMalloc(&dx, sizeof x);
    cudaMemcpy(dm, m, sizeof m, cudaMemcpyHostToDevice);
    cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice);
    decomposed<<<1, dim3(N, N)>>>(dm);
    solved<<<1, 32>>>(dm, db, dx);
    cudaMemcpy(got, dm, sizeof got, cudaMemcpyDeviceToHost);
    cudaMemcpy(x, dx, sizeof x, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int r = 0; r < N; r++) for (int c = 0; c < N; c++) wrong += got[r][c] != (r > c ? l[r][c] : u[r][c]);
    printf("%d wrong:", wrong);
    for (double v : x) printf(" %g", v);
    double d;
    determinant<<<1, 1>>>(dm, dx);
    cudaMemcpy(&d, dx, sizeof d, cudaMemcpyDeviceToHost);
    printf("\n%g\n%s\n", d, cudaGetErrorName(cudaGetLastError()));
}
