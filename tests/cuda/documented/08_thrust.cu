//> h: 0 1 4 3 5 3 0 0 0 0 0 1 1
//> k: 3 1 1 4 1 5 4 3 5 4 5 3 4
//> f: -0.694019 -0.988177 -0.304176 -0.883634 0.10741 0.805024 -0.681606
//> one more: 1 2 5 4 6 4 1 1 1 1 1 2 2
//> sorted: 1 1 1 1 1 1 2 2 2 4 4 5 6
//> from: 0 6 7 8 9 10 1 11 12 3 5 2 4
//> squares: 1 1 1 1 1 1 4 4 4 16 16 25 36
//> 31 6 114
//> 0 7
//> 499
//> exclusive: 0 1 2 3 4 5 6 8 10 12 16 20 25
//> products: 1 1 1 1 1 1 2 4 8 32 128 640 3840
//> runs: 1 2 4 5 6
//> of: 6 3 2 1 1
//> zip: 31 11 11 41 11 51 42 32 52 44 54 35 46
//> zip d: 1 1 1 1 1 1 2 2 2 4 4 5 6
//> zip keys: 1 1 1 3 4 5 3 4 5 4 5 3 4
//> even: 42 32 52 44 54 46
//> odd places: 0 1 2 3 4 5 11
//> unique: 1 2 4 5 6
//> gathered: 6 5 4 4 2 2 2 1 1 1 1 1 1
//> scattered: 6 5 4 4 2 2 2 1 1 1 1 1 1
//> 6 15
//> 385
//> 9 11
//> 13
//> differences: 1 0 0 0 0 0 1 0 0 2 0 1 1
//> reversed: 6 5 4 4 2 2 2 9 9 9 9 9 9
//> parted: 5 9 9 9 9 9 9 6 4 4 2 2 2
//> 7
//> 9 2
//> back: -9 -9 -9 -9 -8 -8 -8 -6 -4 -4 -2 -2 -2
//> rows: -9 -9 -9 -9 -6 -8 -8 -8 -2 -2 -4 -4 -2
//> 10
//> ranks: 1 2 3 1 2 3 4 1 1 2 1 2 3
// So does the library itself, on its sequential back end, with loops in place of the kernels.
#include <cstdio>
#include <thrust/adjacent_difference.h>
#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/device_free.h>
#include <thrust/device_malloc.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/extrema.h>
#include <thrust/functional.h>
#include <thrust/gather.h>
#include <thrust/generate.h>
#include <thrust/host_vector.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/discard_iterator.h>
#include <thrust/iterator/permutation_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/partition.h>
#include <thrust/random.h>
#include <thrust/remove.h>
#include <thrust/replace.h>
#include <thrust/reverse.h>
#include <thrust/scan.h>
#include <thrust/scatter.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>
#include <thrust/unique.h>

template <class V> void show(const char *name, const V &v) {
    printf("%s:", name);
    for (size_t i = 0; i < v.size(); i++) printf(" %g", double(v[i]));
    printf("\n");
}
struct Odd { __host__ __device__ bool operator()(int x) { return x % 2; } };
struct Square { __host__ __device__ int operator()(int x) const { return x * x; } };
struct Sum2 {
    __host__ __device__ int operator()(thrust::tuple<int, int> t) const {
        return thrust::get<0>(t) + 10 * thrust::get<1>(t);
    }
};
__global__ void add_one(int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i]++;
}
__global__ void sort_rows(int *x, int n) {
    int *row = x + threadIdx.x * n;
    thrust::sort(thrust::seq, row, row + n, thrust::greater<int>());
}


using Numbers = thrust::device_vector<int>;
const int n = 13;

static void sort_and_scan(Numbers &d, Numbers &e) {
    thrust::sequence(e.begin(), e.end());
    thrust::sort_by_key(d.begin(), d.end(), e.begin());
    show("sorted", d), show("from", e);
    thrust::transform(d.begin(), d.end(), e.begin(), Square());
    show("squares", e);
    printf("%d %d %d\n", thrust::reduce(d.begin(), d.end()),
        thrust::reduce(d.begin(), d.end(), 0, thrust::maximum<int>()),
        thrust::transform_reduce(d.begin(), d.end(), Square(), 3, thrust::plus<int>()));
    printf("%d %d\n", int(thrust::count(d.begin(), d.end(), 3)), int(thrust::count_if(d.begin(), d.end(), Odd())));
    printf("%d\n", thrust::inner_product(d.begin(), d.end(), e.begin(), 0));
    thrust::exclusive_scan(d.begin(), d.end(), e.begin());
    show("exclusive", e);
    thrust::inclusive_scan(d.begin(), d.end(), e.begin(), thrust::multiplies<int>());
    show("products", e);
}
static void choose(Numbers &d, Numbers &keys, Numbers &g) {
    Numbers a(n), b(n), c(n);
    auto last = thrust::reduce_by_key(d.begin(), d.end(), thrust::constant_iterator<int>(1), a.begin(), b.begin());
    a.resize(last.first - a.begin()), b.resize(last.second - b.begin());
    show("runs", a), show("of", b);
    auto z = thrust::make_zip_iterator(thrust::make_tuple(d.begin(), keys.begin()));
    thrust::transform(z, z + n, c.begin(), Sum2());
    show("zip", c);
    thrust::sort(z, z + n);
    show("zip d", d), show("zip keys", keys);
    c.erase(thrust::remove_if(c.begin(), c.end(), Odd()), c.end());
    show("even", c);
    c.resize(n);
    const auto zero = thrust::make_counting_iterator(0);
    auto end = thrust::copy_if(zero, zero + n, d.begin(), c.begin(), Odd());
    c.resize(end - c.begin());
    show("odd places", c);
    Numbers u = d;
    u.erase(thrust::unique(u.begin(), u.end()), u.end());
    show("unique", u);
    Numbers map(n);
    thrust::sequence(map.begin(), map.end(), 12, -1);
    thrust::gather(map.begin(), map.end(), d.begin(), g.begin());
    show("gathered", g);
    thrust::scatter(d.begin(), d.end(), map.begin(), g.begin());
    show("scattered", g);
    auto p = thrust::make_permutation_iterator(d.begin(), map.begin());
    printf("%d %d\n", int(p[0]), thrust::reduce(p, p + 3));
    auto t = thrust::make_transform_iterator(thrust::make_counting_iterator(1), Square());
    printf("%d\n", thrust::reduce(t, t + 10));
    printf("%d %d\n", int(thrust::lower_bound(d.begin(), d.end(), 4) - d.begin()),
        int(thrust::upper_bound(d.begin(), d.end(), 4) - d.begin()));
    printf("%d\n", int(thrust::find(d.begin(), d.end(), 3) - d.begin()));
}
static void by_pointers(Numbers &d, Numbers &g) {
    thrust::adjacent_difference(d.begin(), d.end(), g.begin());
    show("differences", g);
    thrust::replace(d.begin(), d.end(), 1, 9);
    thrust::reverse(d.begin(), d.end());
    show("reversed", d);
    auto mid = thrust::stable_partition(d.begin(), d.end(), Odd());
    show("parted", d);
    printf("%d\n", int(mid - d.begin()));
    thrust::fill(d.begin(), d.begin() + 3, cuda::std::identity()(8));
    int *raw;
    cudaMalloc(&raw, n * sizeof(int));
    cudaMemcpy(raw, thrust::raw_pointer_cast(d.data()), n * sizeof(int), cudaMemcpyDeviceToDevice);
    thrust::sort(thrust::device, raw, raw + n, thrust::greater<int>());
    thrust::device_ptr<int> at(raw);
    int first = at[0], second = *(at + n - 1);
    printf("%d %d\n", first, second);
    const thrust::counting_iterator<int> i0(0);
    thrust::for_each(thrust::device, i0, i0 + n, [=] __host__ __device__ (int i) { raw[i] = -raw[i]; });
    thrust::host_vector<int> back(n);
    thrust::copy(at, at + n, back.begin());
    show("back", back);
    sort_rows<<<1, 3>>>(raw, 4);
    cudaMemcpy(back.data(), raw, n * sizeof(int), cudaMemcpyDeviceToHost);
    show("rows", back);
    thrust::device_ptr<float> m = thrust::device_malloc<float>(4);
    thrust::fill_n(m, 4, 2.5f);
    printf("%g\n", thrust::reduce(m, m + 4));
    thrust::device_free(m);
    thrust::inclusive_scan_by_key(d.begin(), d.end(), thrust::make_constant_iterator(1), g.begin());
    show("ranks", g);
}
int main() {
    thrust::default_random_engine rng(7);
    thrust::uniform_int_distribution<int> few(0, 5);
    thrust::uniform_real_distribution<float> real(-1, 1);
    thrust::host_vector<int> h(n), k(n);
    for (int i = 0; i < n; i++) h[i] = few(rng), k[i] = few(rng);
    thrust::host_vector<float> f(7);
    thrust::generate(f.begin(), f.end(), [&] { return real(rng); });
    show("h", h), show("k", k), show("f", f);
    Numbers d = h, e(n), keys = k;
    add_one<<<1, 32>>>(thrust::raw_pointer_cast(d.data()), n);
    cudaDeviceSynchronize();
    show("one more", d);
    Numbers g(n);
    sort_and_scan(d, e);
    choose(d, keys, g);
    by_pointers(d, g);
}
