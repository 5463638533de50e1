// The elements of an accumulator tile that a thread holds in registers (the layout of mma and wgmma).
#define MINUS_INFINITY __int_as_float(0xff800000)
constexpr float LN2 = 0.6931471805599453f;

__device__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// A thread has two of every eight columns of two rows, `row` and `row` + 8: element i of s is in row i/2%2
__device__ int column_of(int i) { return i/4*8 + threadIdx.x%4*2 + i%2; }
