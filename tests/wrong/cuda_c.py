import re

from gridstride.utils import cuda_begin

from . import wrong

I = 'int i = blockIdx.x*blockDim.x + threadIdx.x;'
RC = 'int r = blockIdx.y*blockDim.y + threadIdx.y, c = blockIdx.x*blockDim.x + threadIdx.x;'

def axpy(body): return f'__global__ void axpy(float a, const float *x, const float *y, float *out, int n) {{ {body} }}'

@wrong('cuda_c.axpy')
def no_guard(): return axpy(f'{I} out[i] = a*x[i] + y[i];')

@wrong('cuda_c.axpy')
def one_block(): return axpy('int i = threadIdx.x; if (i < n) out[i] = a*x[i] + y[i];')

@wrong('cuda_c.axpy')
def one_too_few(): return axpy(f'{I} if (i < n-1) out[i] = a*x[i] + y[i];')

@wrong('cuda_c.axpy')
def unsigned_remainder():
    return axpy(f'{I} if (threadIdx.x < n - blockIdx.x*blockDim.x) out[i] = a*x[i] + y[i];')

@wrong('cuda_c.axpy')
def no_semicolon(): return axpy(f'{I} if (i < n) out[i] = a*x[i] + y[i]')

@wrong('cuda_c.axpy')
def another_name(): return axpy(f'{I} if (i < n) out[i] = a*x[i] + y[i];').replace('axpy', 'saxpy')

@wrong('cuda_c.axpy')
def integer_a(): return axpy(f'{I} int b = a; if (i < n) out[i] = b*x[i] + y[i];')

@wrong('cuda_c.axpy')
def no_source(): axpy(f'{I} if (i < n) out[i] = a*x[i] + y[i];')


def roll(body):
    return f'__global__ void roll(const float *x, float *out, int n, int shift) {{ {I} if (i >= n) return; {body} }}'

@wrong('cuda_c.roll')
def as_in_python(): return roll('out[i] = x[(i - shift) % n];')

@wrong('cuda_c.roll')
def other_way(): return roll('int j = (i + shift%n) % n; out[i] = x[j < 0 ? j+n : j];')

@wrong('cuda_c.roll')
def one_iteration_only(): return roll('int j = i - shift; if (j < 0) j += n; if (j >= n) j -= n; out[i] = x[j];')

@wrong('cuda_c.roll')
def ten_iterations_at_most(): return roll('out[i] = x[(i - shift + 10*n) % n];')

@wrong('cuda_c.roll')
def absolute(): return roll('int j = (i - shift) % n; out[i] = x[j < 0 ? -j : j];')

@wrong('cuda_c.roll')
def unsigned_wraps(): return roll('unsigned j = i - shift; out[i] = x[j % n];')

@wrong('cuda_c.roll')
def no_wrap(): return roll('int j = i - shift; if (j >= 0 && j < n) out[i] = x[j];')


def grey(body, guard='if (r >= h || c >= w) return;', rc=RC):
    return (f'__global__ void grey_bytes(const unsigned char *x, unsigned char *out, int h, int w) {{ '
            f'{rc} {guard} int i = r*w + c; {body} }}')

SUM = '0.2989f*x[3*i] + 0.5870f*x[3*i+1] + 0.1140f*x[3*i+2]'

@wrong('cuda_c.grey_bytes')
def cut_off(): return grey(f'out[i] = {SUM};')

@wrong('cuda_c.grey_bytes')
def channels_first(): return grey('int n = h*w; out[i] = 0.2989f*x[i] + 0.5870f*x[i+n] + 0.1140f*x[i+2*n] + .5f;')

@wrong('cuda_c.grey_bytes')
def blue_green_red(): return grey('out[i] = 0.1140f*x[3*i] + 0.5870f*x[3*i+1] + 0.2989f*x[3*i+2] + .5f;')

@wrong('cuda_c.grey_bytes')
def sum_in_bytes():
    return grey('unsigned char s = 0.2989f*x[3*i]; s += 0.5870f*x[3*i+1]; s += 0.1140f*x[3*i+2]; out[i] = s;')

@wrong('cuda_c.grey_bytes')
def half_guard(): return grey(f'out[i] = {SUM} + .5f;', guard='if (r >= h) return;')

@wrong('cuda_c.grey_bytes')
def rows_along_x():
    return grey(f'out[i] = {SUM} + .5f;',
                rc='int r = blockIdx.x*blockDim.x + threadIdx.x, c = blockIdx.y*blockDim.y + threadIdx.y;')

@wrong('cuda_c.grey_bytes')
def rounds_up(): return grey(f'out[i] = ceilf({SUM});')


def mean(guard='r >= h', total='float', place='r*w + c', result='total/w'):
    return f'''__global__ void row_mean(const float *x, float *out, int h, int w) {{
        int r = blockIdx.x*blockDim.x + threadIdx.x;
        if ({guard}) return;
        {total} total = 0;
        for (int c = 0; c < w; ++c) total += x[{place}];
        out[r] = {result};
    }}'''

@wrong('cuda_c.fix')
def guard_left(): return mean(guard='r > h')

@wrong('cuda_c.fix')
def int_left(): return mean(total='int')

@wrong('cuda_c.fix')
def length_left(): return mean(place='r*h + c')

@wrong('cuda_c.fix')
def division_left(): return mean(result='1/w * total')

@wrong('cuda_c.fix')
def only_the_sum(): return mean(result='total')

@wrong('cuda_c.fix')
def column_means(): return mean(place='c*w + r')


def linear(checks='CHECK_INPUT(x); CHECK_INPUT(weight); CHECK_INPUT(bias);',
           sizes='k == weight.size(1) && bias.numel() == w', index='weight[c*k + i]', start='bias[c]',
           blocks='cdiv(w, 16), cdiv(h, 16)', threads=16, asks='C10_CUDA_KERNEL_LAUNCH_CHECK();'):
    return cuda_begin + f'''
    __global__ void linear_k(const float *x, const float *weight, const float *bias, float *out, int h, int w, int k) {{
        {RC}
        if (r >= h || c >= w) return;
        float o = {start};
        for (int i = 0; i < k; ++i) o += x[r*k + i] * {index};
        out[r*w + c] = o;
    }}

    torch::Tensor linear(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {{
        {checks}
        int h = x.size(0), k = x.size(1), w = weight.size(0);
        TORCH_CHECK({sizes}, "sizes do not fit");
        auto out = torch::zeros({{h, w}}, x.options());
        linear_k<<<dim3({blocks}), dim3({threads}, {threads})>>>(
            x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), h, w, k);
        {asks}
        return out;
    }}'''

@wrong('cuda_c.linear')
def no_checks(): return linear(checks='')

@wrong('cuda_c.linear')
def any_size(): return linear(sizes='true')

@wrong('cuda_c.linear')
def bias_not_checked(): return linear(sizes='k == weight.size(1)')

@wrong('cuda_c.linear')
def longer_rows_only(): return linear(sizes='weight.size(1) <= k && bias.numel() == w')

@wrong('cuda_c.linear')
def longer_bias_only(): return linear(sizes='weight.size(1) == k && bias.numel() <= w')

@wrong('cuda_c.linear')
def counts_elements_alone():
    return linear(sizes='weight.numel() == w*k').replace('w = weight.size(0)', 'w = bias.numel()')

@wrong('cuda_c.linear')
def type_of_x_only():
    return re.sub(r'(\w+)\.data_ptr<float>\(\)', r'(float*)\1.data_ptr()',
                  linear(sizes='k == weight.size(1) && bias.numel() == w && x.scalar_type() == torch::kFloat32'))

@wrong('cuda_c.linear')
def not_transposed(): return linear(index='weight[i*w + c]')

@wrong('cuda_c.linear')
def no_bias(): return linear(start='0')

@wrong('cuda_c.linear')
def bias_of_the_row(): return linear(start='bias[r % w]')

@wrong('cuda_c.linear')
def one_block_only(): return linear(blocks='1')

@wrong('cuda_c.linear')
def grid_axes_swapped(): return linear(blocks='cdiv(h, 16), cdiv(w, 16)')

@wrong('cuda_c.linear')
def block_too_large(): return linear(threads=64)

@wrong('cuda_c.linear')
def large_and_silent(): return linear(threads=64, asks='')

@wrong('cuda_c.axpy')
def first_thread_does_all():
    return axpy(f'{I} if (i == 0) for (int j = 0; j < n; j++) out[j] = a*x[j] + y[j];')

@wrong('cuda_c.axpy')
def first_block_does_all():
    return axpy('if (!blockIdx.x) for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = a*x[i] + y[i];')

@wrong('cuda_c.axpy')
def index_of_sixteen_bits(): return axpy(f'{I} if (i < n) out[i] = a*x[i] + y[i];').replace('int i', 'short i')

@wrong('cuda_c.axpy')
def arguments_in_another_order():
    return axpy(f'{I} if (i < n) out[i] = a*x[i] + y[i];').replace('*x,', '*z,').replace('*y', '*x').replace('*z', '*y')

@wrong('cuda_c.axpy')
def double_arrays(): return axpy(f'{I} if (i < n) out[i] = a*x[i] + y[i];').replace('const float', 'const double')

@wrong('cuda_c.axpy')
def index_without_a_type(): return axpy(f'\n{I[4:]}\n if (i < n) out[i] = a*x[i] + y[i];')

@wrong('cuda_c.axpy')
def returns_the_sum(): return axpy(f'{I} if (i < n) return a*x[i] + y[i];')

@wrong('cuda_c.axpy')
def writes_what_is_const():
    return axpy(f'{I} if (i < n) out[i] = a*x[i] + y[i];').replace('float *out', 'const float *out')

@wrong('cuda_c.axpy')
def one_number_for_out(): return axpy(f'{I} if (i < n) out[i] = a*x[i] + y[i];').replace('*out', 'out')

@wrong('cuda_c.axpy')
def index_with_a_fraction(): return axpy(f'{I} if (i < n) out[i] = a*x[i] + y[i];').replace('int i', 'float i')

@wrong('cuda_c.roll')
def writes_the_elements_of_others(): return roll('out[((i + shift) % n + n) % n] = x[i];')

@wrong('cuda_c.roll')
def divides_as_in_python(): return roll('\nout[i] = x[i - shift - ((i - shift) // n)*n];\n')

@wrong('cuda_c.grey_bytes')
def one_thread_a_row():
    return grey('for (c = 0; c < w; c++) { i = r*w + c; out[i] = SUM + .5f; }'.replace('SUM', SUM),
                guard='if (r >= h || c) return;')

@wrong('cuda_c.linear')
def product_of_torch():
    return cuda_begin + r'''
    torch::Tensor linear(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
        CHECK_INPUT(x); CHECK_INPUT(weight); CHECK_INPUT(bias);
        for (auto o : {x, weight, bias}) TORCH_CHECK(o.scalar_type() == torch::kFloat32, "floats");
        TORCH_CHECK(weight.size(1) == x.size(1) && bias.numel() == weight.size(0), "sizes do not fit");
        return torch::matmul(x, weight.t()) + bias;
    }'''

@wrong('cuda_c.linear')
def two_brackets(): return linear().replace('<<<', '<<').replace('>>>', '>>')

@wrong('cuda_c.linear')
def one_thread_for_all_results():
    src = linear().replace('if (r >= h || c >= w) return;', 'for (r = 0; r < h; ++r) for (c = 0; c < w; ++c) {')
    src = src.replace('out[r*w + c] = o;', 'out[r*w + c] = o; }')
    return re.sub(r'<<<.*?>>>', '<<<1, 1>>>', src, flags=re.S)
