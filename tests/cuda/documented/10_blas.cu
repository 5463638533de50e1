//> gemm 41 49 57 63 69 75
//> turned 5 11 17 23 9 21 33 45
//> gemv 69 79 89, -2 -2 -2 -2
//> dot 43, norm 13, sum 19, places 4 3
//> axpy 7 -6 3 28, every second 5 2 15 4
//> again 55
#include <cstdio>
#include <cublas_v2.h>

template <class T> T *device(const T *from, int n) {
    T *p;
    cudaMalloc(&p, n * sizeof(T));
    cublasSetVector(n, sizeof(T), from, 1, p, 1);
    return p;
}
template <class T> void show(const char *what, const T *p, int n, const char *end = "\n") {
    T x[16];
    cublasGetVector(n, sizeof(T), p, 1, x, 1);
    printf("%s", what);
    for (int i = 0; i < n; i++) printf(" %g", double(x[i]));
    printf("%s", end);
}

int main() {
    cublasHandle_t h;
    if (cublasCreate(&h) != CUBLAS_STATUS_SUCCESS) return 1;
    const float a[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, b[] = {1, 2, 0, 1, -1, 0, 3, 1};
    const float ones[] = {1, 1, 1, 1, 1, 1}, turned[] = {1, 0, -1, 3, 2, 1}, two = 2, three = 3, one = 1, zero = 0;
    float *da = device(a, 12), *db = device(b, 8), *dc = device(ones, 6), *dt = device(turned, 6), *d8;
    cudaMalloc(&d8, 8 * sizeof(float));                       // nobody writes it before the product does
    cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, 3, 2, 4, &two, da, 3, db, 4, &three, dc, 3);
    show("gemm", dc, 6);
    cublasSgemm(h, CUBLAS_OP_T, CUBLAS_OP_T, 4, 2, 3, &one, da, 3, dt, 2, &zero, d8, 4);
    show("turned", d8, 8);

    const double e[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, y[] = {1, 2, 3, 4}, x[] = {3, -4, 0, 12};
    const double plus = 1, minus = -1, none = 0, ends[] = {1, 0, -1}, first[] = {1, 1, 1};
    double *de = device(e, 12), *dy = device(y, 4), *dx = device(x, 4), *df = device(first, 3), *dz = device(ends, 3);
    double *d4 = device(y, 4), dot, norm, total;
    cublasDgemv(h, CUBLAS_OP_N, 3, 4, &plus, de, 3, dy, 1, &minus, df, 1);
    show("gemv", df, 3, ",");
    cublasDgemv(h, CUBLAS_OP_T, 3, 4, &plus, de, 3, dz, 1, &none, d4, 1);
    show("", d4, 4);
    int far, near;
    cublasDdot(h, 4, dx, 1, dy, 1, &dot), cublasDnrm2(h, 4, dx, 1, &norm), cublasDasum(h, 4, dx, 1, &total);
    cublasIdamax(h, 4, dx, 1, &far), cublasIdamin(h, 4, dx, 1, &near);
    printf("dot %g, norm %g, sum %g, places %d %d\n", dot, norm, total, far, near);

    const double twice = 2, five = 5;
    double *ten = device(y, 4);
    double *alpha = device(&twice, 1);
    cublasSetPointerMode(h, CUBLAS_POINTER_MODE_DEVICE);
    cublasDaxpy(h, 4, alpha, dx, 1, dy, 1);
    show("axpy", dy, 4, ", every second");
    cublasSetPointerMode(h, CUBLAS_POINTER_MODE_HOST);
    cublasDscal(h, 2, &five, ten, 2);
    show("", ten, 4);
    double *result = device(&none, 1);
    cublasSetPointerMode(h, CUBLAS_POINTER_MODE_DEVICE);
    cublasDotEx(h, 4, dx, CUDA_R_64F, 1, ten, CUDA_R_64F, 1, result, CUDA_R_64F, CUDA_R_64F);
    show("again", result, 1);
    return cublasDestroy(h);
}
