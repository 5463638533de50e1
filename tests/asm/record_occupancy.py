"""Ask a GPU's driver what kernels take and how many of their blocks fit, for the tests to compare with.

    python tests/asm/record_occupancy.py tests/asm/h100.json
"""
import ctypes, json, re, sys
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path

from gridstride.asm import occupancy
from gridstride.asm.tools import nvrtc, resource_usage

CAPS = [24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 112, 128, 160, 192, 224, 255]   # registers
STATIC = [0, 1000, 12345, 48*1024]
BLOCKS = [1, 32, 33, 64, 96, 128, 192, 250, 256, 384, 512, 640, 768, 1024]
DYNAMIC = [0, 1, 999, 16*1024, 33000, 48*1024, 64*1024, 100*1024, 227*1024]
ATTRIBUTES = dict(shared=1, constant=2, local=3, registers=4)                   # values of CUfunction_attribute
NAMES = ['cuInit', 'cuDeviceGet', 'cuDeviceGetName', 'cuDeviceGetAttribute', 'cuDevicePrimaryCtxRetain',
         'cuCtxSetCurrent', 'cuModuleLoadData', 'cuModuleGetFunction', 'cuFuncGetAttribute', 'cuFuncSetAttribute',
         'cuOccupancyMaxActiveBlocksPerMultiprocessor', 'cuDriverGetVersion']


def kernel(static):
    "A kernel that needs 300 registers, and `static` bytes of shared memory"
    used = (f"__shared__ char s[{static}]; s[threadIdx.x % {static}] = x[0]; __syncthreads(); "
            f"x[1] = s[(threadIdx.x+7) % {static}];" if static else '')
    return f"""__global__ void many_k(float *x) {{
    {used}
    float t[300];
    #pragma unroll
    for (int j = 0; j < 300; j++) t[j] = x[j*1024 + threadIdx.x];
    __syncthreads();
    #pragma unroll
    for (int j = 0; j < 300; j++) x[j*1024 + threadIdx.x] = t[j]*t[299-j];
}}"""


class Driver:
    "CUDA's driver: each function checks its status"
    def __init__(self):
        lib = ctypes.CDLL('libcuda.so.1')
        def checked(name):
            def call(*args):
                status = getattr(lib, name)(*args)
                if status: raise RuntimeError(f'{name}: status {status}')
            return call
        for name in NAMES: setattr(self, name, checked(name))
        device, context, name = c_int(), c_void_p(), ctypes.create_string_buffer(100)
        self.cuInit(0)
        self.cuDeviceGet(byref(device), 0)
        self.cuDeviceGetName(name, 100, device)
        self.cuDevicePrimaryCtxRetain(byref(context), device)
        self.cuCtxSetCurrent(context)
        self.name, self.device = name.value.decode(), device

    def number(self, what):
        "An attribute of the device"
        n = c_int()
        self.cuDeviceGetAttribute(byref(n), what, self.device)
        return n.value

    def function(self, cubin, entry):
        module, f = c_void_p(), c_void_p()
        self.cuModuleLoadData(byref(module), c_char_p(cubin))
        self.cuModuleGetFunction(byref(f), module, entry.encode())
        return f

    def attribute(self, f, what):
        n = c_int()
        self.cuFuncGetAttribute(byref(n), what, f)
        return n.value

    def blocks(self, f, block, dynamic):
        "Resident blocks; the launch must have asked for its dynamic shared memory before"
        n = c_int()
        self.cuFuncSetAttribute(f, 8, dynamic)
        self.cuOccupancyMaxActiveBlocksPerMultiprocessor(byref(n), f, block, c_size_t(dynamic))
        return n.value


def main(to):
    gpu = Driver()
    arch = f'sm_{gpu.number(75)}{gpu.number(76)}'
    kernels, cases, wrong = [], [], 0
    for i, cap in enumerate(CAPS):
        for j, static in enumerate(STATIC):
            src, flags = kernel(static), (f'-maxrregcount={cap}',)
            ptx, cubin, said, entry = nvrtc(src, 'many_k', arch, flags=flags)
            f = gpu.function(cubin, entry)
            says = {k: gpu.attribute(f, v) for k, v in ATTRIBUTES.items()}
            ours = resource_usage(said, cubin, entry, arch)
            kernels.append(dict(static=static, cap=cap,
                                by=f"NVRTC {re.search(r'release [0-9.]+, V([0-9.]+)', ptx)[1]}", **says))
            if any(ours[k] != says[k] for k in ('shared', 'local', 'registers')): print('differs:', kernels[-1], ours)
            for n, block in enumerate(BLOCKS):
                dynamic = min(DYNAMIC[(i+2*j+n) % len(DYNAMIC)], 227*1024-static)
                fits = gpu.blocks(f, block, dynamic)
                cases.append([says['registers'], says['shared'], dynamic, block, fits])
                if (want := occupancy(says['registers'], says['shared']+dynamic, block, arch).blocks) != fits:
                    wrong += 1
                    print(f'differs: {cases[-1]}, the formula says {want}')
    sm = dict(threads=gpu.number(39), registers=gpu.number(82), shared=gpu.number(81), most=gpu.number(97),
              reserved=gpu.number(111), blocks=gpu.number(106))
    rows = ',\n'.join(json.dumps(o) for o in kernels)
    text = (f'{{"gpu": {json.dumps(gpu.name)}, "arch": "{arch}",\n"sm": {json.dumps(sm)},\n"kernels": [\n{rows}],\n'
            '"cases": [\n' + ',\n'.join(map(json.dumps, cases)) + ']}\n')
    json.loads(text)
    Path(to).write_text(text)
    print(f'{gpu.name}: {len(kernels)} kernels, {len(cases)} cases, of which '
          f'{len({c[0] for c in cases})} register counts; the formula differs in {wrong}')
    print('an SM:', sm)


if __name__ == '__main__': main(sys.argv[1])
