// Compiles C++ that was rewritten from CUDA C (gridstride/cpp/rewriters) and links it with the emulator's runtime, by
// Clang and LLD as WebAssembly.

// WebAssembly has no return addresses (rewrite.js), exceptions end a call (platform/platform.cpp), and
// device memory is small, because a cell of shadow memory has 40 bytes.
export const COMMON = ['-std=c++17', '-fignore-exceptions', '-D__builtin_return_address(n)=gridstride_return_address()',
    '-DGRIDSTRIDE_ADDRESSES=(size_t(32)<<20)', '-DGRIDSTRIDE_ABI_CHECKSUM=0', '-D_WASI_EMULATED_SIGNAL',
    '-D_WASI_EMULATED_PROCESS_CLOCKS', '-ffp-contract=fast', '-fno-strict-aliasing', '-fno-delete-null-pointer-checks',
    '-Wno-deprecated-declarations', '-Wno-shift-count-overflow', '-isystem', 'platform', '-Icpp/include/cuda',
    '-Icpp/include/torch', '-include', 'platform/prelude.h']
const frontend = (...options) => options.flatMap(option => ['-Xclang', option])
const tsan = (...options) => options.flatMap(option => ['-mllvm', `-tsan-${option}`])
const CONTINUES = 'array-bounds,shift-exponent,float-cast-overflow'   // after its handler; `return` does not
// Without rotated loops, no load moves out of a loop, where it would lose its line; without sunk code, none moves to the
// branch that uses its value, and is not checked if this branch is not taken.
const CHECKED = ['-O1', '-DGRIDSTRIDE_CHECKED', '-fno-optimize-sibling-calls', '-fno-finite-loops', '-fno-vectorize',
    '-fno-slp-vectorize', '-mllvm', '-rotation-max-header-size=0', '-mllvm', '-instcombine-code-sinking=false',
    ...frontend('-fsanitize=thread', `-fsanitize=${CONTINUES},return`, `-fsanitize-recover=${CONTINUES}`),
    ...tsan('instrument-func-entry-exit=0', 'distinguish-volatile=1', 'instrument-read-before-write=1')]
const LINES = ['-gdwarf-4', '-g1', '-fdebug-info-for-profiling']

export const RUNTIME_UNITS = ['cpp/runtime/unit_access', 'cpp/runtime/unit_launch', 'cpp/runtime/unit_rare',
    'platform/platform', 'platform/python', 'platform/begin_of_user_code', 'platform/end_of_user_code']
export const runtimeFlags = unit => [...COMMON, '-I.', '-Icpp/runtime', '-O1', '-fno-unroll-loops', '-c',
    `${unit}.cpp`, '-o', 'unit.o']

export const kernelFlags = (checks, more = []) => [...COMMON, '-fdebug-compilation-dir=.', ...LINES,
    ...(checks ? CHECKED : ['-O2']), ...more]

// The headers that are precompiled: `KERNEL_HEADERS` and `HEADERS` of gridstride/cpp/toolchain/build.py. Clang reads
// their list again, from `all.h`, when it loads what it has made of them.
export const PRECOMPILED = {kernel: ['emulator.h', 'gridstride/kernel.h'],
    tensor: ['emulator.h', 'gridstride/tensor.h']}
export const listOfHeaders = name =>
    ({'all.h': PRECOMPILED[name].map(header => `#include "${header}"\n`).join('')})

const EXPORTS = ['_initialize', '__stack_pointer', 'gridstride_pc', 'gridstride_fuel', 'gridstride_stack_limit',
    'gridstride_begin_of_user_code', 'gridstride_end_of_user_code', 'gridstride_tick', 'gridstride_stack_overflow',
    'malloc', 'free',
    'gridstride_finding', 'gridstride_set_options', 'gridstride_limit_swaps', 'gridstride_allow_findings',
    'gridstride_abi', 'gs_exports', 'gs_connect']
export const linkArguments = (units, output) => ['-m', 'wasm32', '--no-entry', '-L/usr/lib/wasm32-wasip1',
    '--stack-first', '-z', 'stack-size=1048576', '--export-table', '--growable-table',
    ...EXPORTS.map(name => `--export-if-defined=${name}`),
    '/usr/lib/wasm32-wasip1/crt1-reactor.o', 'cpp/runtime.o', 'cpp/begin_of_user_code.o',
    ...units.map(unit => `${unit}.o`), 'cpp/end_of_user_code.o', '-lc++', '-lc++abi', '-lwasi-emulated-signal',
    '-lwasi-emulated-process-clocks', '-lc',
    '/usr/lib/wasm32-unknown-wasip1/libclang_rt.builtins.a', '-o', output]
