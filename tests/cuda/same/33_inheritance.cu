#include <cstdio>

struct Shape {
    int id;
    __host__ __device__ explicit Shape(int i) : id(i) {}
    __device__ int tag() const { return id * 100; }
};
struct Square : Shape {
    int side;
    __host__ __device__ Square(int i, int s) : Shape(i), side(s) {}
    __device__ int area() const { return side * side; }
    __device__ int tag() const { return Shape::tag() + 1; }
};
struct Box : Square {
    int height;
    __host__ __device__ Box(int i, int s, int h) : Square(i, s), height(h) {}
    __device__ int volume() const { return area() * height; }
};

// The base calls the derived class's method, which is known when the program is compiled.
template <typename Derived> struct Iterated {
    __device__ long long run(long long x, int n) const {
        for (int i = 0; i < n; i++) x = static_cast<const Derived *>(this)->step(x);
        return x;
    }
};
struct Collatz : Iterated<Collatz> {
    __device__ long long step(long long x) const { return x % 2 ? 3 * x + 1 : x / 2; }
};
struct Doubling : Iterated<Doubling> {
    int plus;
    __device__ long long step(long long x) const { return 2 * x + plus; }
};

template <typename T, int N> struct Stack {
    __device__ void push(T v) { items[n++] = v; }
    __device__ T pop() { return items[--n]; }
    __device__ bool empty() const { return !n; }
protected:
    T items[N];
    int n = 0;
};
template <typename T> struct Calculator : private Stack<T, 8> {
    using Base = Stack<T, 8>;
    using Base::push;
    __device__ T add() { T b = Base::pop(); return this->items[this->n - 1] += b; }
    __device__ T times() { T b = Base::pop(), a = Base::pop(); push(a * b); return a * b; }
};

__global__ void shapes(const Box *b, int *out) {
    const Box &mine = b[threadIdx.x];
    const Shape &base = mine;
    out[threadIdx.x] = mine.volume() * 10000 + mine.tag() + base.tag();
}
template <typename Rule> __global__ void iterated(Rule rule, long long *x, int n) {
    x[threadIdx.x] = rule.run(x[threadIdx.x], n);
}
__global__ void calculated(int *out) {
    Calculator<int> c;
    for (int k = 0; k < 4; k++) c.push(threadIdx.x + k);
    int a = c.times(), b = c.add(), e = c.times();
    out[threadIdx.x] = a + b * 100 + e * 10000;
}

int main() {
    Box boxes[3] = {{1, 2, 3}, {2, 3, 4}, {3, 5, 1}}, *db;
    int h[8], *d;
    long long l[8], *dl;
    cudaMalloc(&db, sizeof boxes);
    cudaMalloc(&d, sizeof h);
    cudaMalloc(&dl, sizeof l);
    cudaMemcpy(db, boxes, sizeof boxes, cudaMemcpyHostToDevice);
    shapes<<<1, 3>>>(db, d);
    cudaMemcpy(h, d, 12, cudaMemcpyDeviceToHost);
    printf("%d %d %d | %d\n", h[0], h[1], h[2], int(sizeof(Box)));
    for (int i = 0; i < 8; i++) l[i] = 27 + i;
    cudaMemcpy(dl, l, sizeof l, cudaMemcpyHostToDevice);
    iterated<<<1, 8>>>(Collatz{}, dl, 30);
    Doubling twice;
    twice.plus = 3;
    iterated<Doubling><<<1, 4>>>(twice, dl, 2);
    cudaMemcpy(l, dl, sizeof l, cudaMemcpyDeviceToHost);
    for (long long v : l) printf("%lld ", v);
    calculated<<<1, 8>>>(d);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    printf("\n%d %d %d\n%s\n", h[0], h[1], h[7], cudaGetErrorName(cudaGetLastError()));
}
