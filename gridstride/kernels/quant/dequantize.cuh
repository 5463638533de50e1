// Dequantizes a matrix w of 4 or 8 bits per element to 16-bit floats. A step of a warp is a block of 16 rows and 128
// columns of w, stored in the order in which the threads need it (fragments.py). Requires definitions of Elem (type of
// scales and zero points), KIND, GROUP (columns that share a scale; 0: the whole row), ZEROS (there are zero points),
// MAGIC (the bits of 128 or 1024 in Elem, twice) and FRACTION (bits of the fraction of Elem).
constexpr int BITS = KIND == INT4 || KIND == NF4 || KIND == NVFP4 ? 4 : 8, STEP = 128, LOADS = BITS / 2;
// GROUP_COLUMNS: columns of a step that share a scale; SCALES: scales per step and row
constexpr int GROUP_COLUMNS = GROUP ? GROUP : STEP, SCALES = STEP / GROUP_COLUMNS;
// A lane has 8 contiguous columns of every 32, so it needs at most four scales per step. LANE_COLUMNS: columns of a
// step that share one of them
constexpr int LANE_SCALES = SCALES < 4 ? SCALES : 4, LANE_COLUMNS = STEP / LANE_SCALES;
// The scales of MXFP8 and NVFP4 are bytes. PAIRS_BYTES: bytes of a group's scales in 16 rows, which are 8 pairs
constexpr bool BYTE_SCALES = KIND == MXFP8 || KIND == NVFP4, HAS_MATRIX_SCALE = KIND == NVFP4;
constexpr int PAIRS_BYTES = BYTE_SCALES ? 16 : 32;

__device__ u32 sub2(u32 a, u32 b) {                        // subtracts both halves of a register
    Pair d = __hsub2(*(const Pair *)&a, *(const Pair *)&b);
    return *(const u32 *)&d;
}
__device__ u32 add2(u32 a, u32 b) {
    Pair s = __hadd2(*(const Pair *)&a, *(const Pair *)&b);
    return *(const u32 *)&s;
}
__device__ u32 mul2(u32 a, u32 b) {
    Pair p = __hmul2(*(const Pair *)&a, *(const Pair *)&b);
    return *(const u32 *)&p;
}

// Duplicates one half of `pair`, the value of row r or of row r + 8, in both halves of a register.
__device__ u32 upper(u32 pair) { return __byte_perm(pair, 0, 0x1010); }
__device__ u32 lower(u32 pair) { return __byte_perm(pair, 0, 0x3232); }

// A pair of scales: two of Elem, or two bytes.
__device__ u32 load_scales(const u32 *scales, size_t i) {
    if constexpr (BYTE_SCALES) return __ldg((const unsigned short *)scales + i);
    else return __ldg(scales + i);
}
__device__ u32 shared_scales(const void *scales, int i) {                      // of shared memory
    if constexpr (BYTE_SCALES) return ((const unsigned short *)scales)[i];
    else return ((const u32 *)scales)[i];
}
// The group of a lane's columns among all groups of the step (fragments.py): lanes t = 0 and 1 of four have the first
// 16 of 32 columns.
__device__ int lane_group(int i, int t) { return GROUP == 16 ? 2 * i + t / 2 : i; }

// Bit operations convert integers: an integer i that is written to the lowest bits of the fraction of 128 (bfloat16) or
// 1024 (float16) gives 128 + i or 1024 + i, from which the offset is subtracted. For 4 bits, the offset also contains
// the zero point, and 8, which was added to make the integers unsigned.
constexpr u32 NO_ZERO_POINT = KIND == INT4 ? MAGIC + 0x00080008 : 0;
// Returns (w & mask) | bits by one LOP3; the compiler generates two instructions if `mask` and `bits` are constants
__device__ u32 and_or(u32 w, u32 mask, u32 bits) {
    u32 x;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(x) : "r"(w), "r"(mask), "r"(bits));
    return x;
}
__device__ u32 from_int4(u32 w, u32 offset) { return sub2(and_or(w, 0x000f000f, MAGIC), offset); }
__device__ u32 from_int8(u32 w) {
    // The fraction of a bfloat16 has only 7 bits, so the sign bit selects the offset: 128 or 256.
    if constexpr (FRACTION == 7) return sub2(and_or(w, 0x007f007f, MAGIC), and_or(w, 0x00800080, MAGIC));
    else return sub2((w & 0x00ff00ff) ^ (MAGIC | 0x00800080), MAGIC + 0x00800080);
}
// The exponent and fraction bits of an e4m3 value, written to the lowest exponent bits and the highest fraction bits of
// Elem, give the value divided by a power of two.
__device__ u32 from_e4m3(u32 w) {
    constexpr u32 POWER = FRACTION == 7 ? 0x7b807b80 : 0x5c005c00;            // 2^120, 2^8
    return mul2((w & 0x00800080) << 8 | (w & 0x007f007f) << (FRACTION - 3), POWER);
}

// The bits of e2m1 are converted in the same way, to the value times 2^-126 or 2^-14; `factor` contains the scale and
// the other power of two, so that the product is the value times the scale / 128, which Elem represents exactly.
__device__ u32 from_e2m1(u32 w, u32 factor) {
    return mul2((w & 0x00080008) << 12 | (w & 0x00070007) << (FRACTION - 1), factor);
}
constexpr float NVFP4_FACTOR = 128;
// Converts a loaded pair of scales to Elem; those of NVFP4 to the factors of `from_e2m1`.
__device__ u32 decode_scales(u32 pair) {
    if constexpr (!BYTE_SCALES) return pair;
    const u32 bytes = __byte_perm(pair, 0, 0x4140);                            // the two bytes, 16 bits apart
    if constexpr (KIND == NVFP4 && FRACTION == 7)
        return mul2(mul2(bytes << 4, 0x7b807b80), 0x7b007b00);                 // 2^120, 2^119
    else if constexpr (KIND == NVFP4) return mul2(bytes << 7, 0x78007800);     // 2^15
    else {
        Pair powers = {Elem(__uint_as_float((bytes & 255) << 23)), Elem(__uint_as_float(bytes >> 16 << 23))};
        return *(const u32 *)&powers;
    }
}

// Dequantizes the eight elements of a product; registers 0 and 2 belong to the upper row. `codebook` has a pair of NF4
// values per byte, one copy per lane, so that there are no bank conflicts. `offset` is subtracted per row; for NVFP4 it
// is the factor of the row.
__device__ void unpack(const u32 *words, const u32 *codebook, const u32 (&offset)[2], u32 (&a)[4]) {
    #pragma unroll
    for (int i = 0; i < 4; i++)
        if constexpr (KIND == INT4) a[i] = from_int4(words[0] >> 4 * i, offset[i % 2]);
        else if constexpr (KIND == NVFP4) a[i] = from_e2m1(words[0] >> 4 * i, offset[i % 2]);
        else if constexpr (KIND == NF4) a[i] = codebook[(words[0] >> 8 * i & 255) * 32];
        else if constexpr (KIND == INT8 && ZEROS) a[i] = sub2(from_int8(words[i / 2] >> i % 2 * 8), offset[i % 2]);
        else if constexpr (KIND == INT8) a[i] = from_int8(words[i / 2] >> i % 2 * 8);
        else a[i] = from_e4m3(words[i / 2] >> i % 2 * 8);
}

// Fills the codebook; the caller synchronizes the threads. Each lane selects one of the 16 values without a load: one
// from constant memory would miss its cache in each launch.
template<int THREADS> __device__ void fill_codebook(u32 *codebook) {
    const int lane = threadIdx.x % 32;
    float value = 0;
    #pragma unroll
    for (int i = 0; i < 16; i++)
        if (lane % 16 == i) value = CODEBOOK[i];
    const Pair both = {Elem(value), Elem(value)};
    const u32 bits = *(const u32 *)&both;
    #pragma unroll 4
    for (int i = threadIdx.x; i < 256 * 32 / 4; i += THREADS) {
        const u32 low = __shfl_sync(~0u, bits, i / 8 % 16), high = __shfl_sync(~0u, bits, i / 8 / 16);
        const u32 pair = __byte_perm(low, high, 0x5410);
        ((uint4 *)codebook)[i] = {pair, pair, pair, pair};
    }
}

// Computes total += accumulators of a group * scales of the group.
template<class Sums> __device__ void add_scaled(Sums &total, const float (&d)[4], u32 pair) {
    Pair both = *(const Pair *)&pair;
    float upper = (float)both.x, lower = (float)both.y;
    total[0] += d[0] * upper;
    total[1] += d[1] * upper;
    total[2] += d[2] * lower;
    total[3] += d[3] * lower;
}
