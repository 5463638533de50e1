// The gradient of softmax from its result y and dy: y * (dy - sum of y*dy); with LOG: dy - exp(y) * sum of dy
constexpr int INPUTS = 2;
__device__ Sum most_of(Sum) { return 0; }                   // these sums cannot overflow
__device__ Sum term(Sum y, Sum dy, Sum) { return LOG ? dy : y * dy; }
__device__ Part finish(Part all) { return all; }
__device__ Sum result(Sum y, Sum dy, Part all) { return LOG ? dy - power(y) * all.sum : y * (dy - all.sum); }
