"""Reports the CUDA functions and headers that a program needs and the emulator lacks, from the compiler's log."""

import re
from pathlib import Path

from .compile_errors import read_log

_CUDA_HEADERS = Path(__file__).parents[1] / 'include/cuda'

# a CUDA header that the emulator lacks, or the beginning of its name -> hint for the error message
_UNSUPPORTED_HEADERS = {
    'thrust/': 'use the headers of Thrust that the emulator supports',
    'cub/': 'use cub/cub.cuh, which has warp-, block- and device-wide reductions and scans, and device-wide sorts',
    'cublas': 'include cublas_v2.h, or call torch.matmul from Python',
    'cudnn': 'call torch.nn from Python',
    'cufft': 'call torch.fft from Python',
    'cusparse': 'call torch.sparse from Python',
    'cusolver': 'call torch.linalg from Python',
    'curand': 'generate random numbers with curand_kernel.h in a kernel, or with torch.rand from Python',
    'nccl': 'use one GPU',
    'cuda/ptx': 'write inline PTX with asm',
    'cuda/semaphore': 'use cuda::atomic',
    'cuda/latch': 'use cuda::barrier',
    'cuda/std/semaphore': 'use cuda::atomic',
    'cuda/std/latch': 'use cuda::barrier',
    'cuda/std/barrier': 'use <cuda/barrier>',
    'cuda/std/': 'use the libcu++ headers that the emulator supports',
    'cuda_awbarrier': 'use <cuda/barrier>',
    'cuda_device_runtime_api': 'launch kernels from the host',
    'cutlass/': 'call torch.matmul from Python',
    'cute/': 'compute the layouts in the kernel',
}


def hint_for_missing_header(header: str) -> str:
    "Return a hint for a CUDA header that the emulator does not have; '' for any other header"
    hint = next((text for start, text in _UNSUPPORTED_HEADERS.items() if header.startswith(start)), '')
    return '' if (_CUDA_HEADERS / header).is_file() else hint


# pattern of CUDA names -> what to use instead
_ALTERNATIVES = (
    (r'cudaMemPool(?:Export|Import|Ptr)\w*', 'share memory within one process'),
    (r'cuda\w*Mipmap\w*|tex\w+Grad|tex2Dgather', 'use a texture without mipmaps'),
    (r'cuda(?:Graphics|GL|Egl|EGL|D3D|VDPAU)\w*|cu(?:Graphics|GL|EGL)\w*', 'copy the data through host memory'),
    (r'cuda(?:Import)?External\w*', 'copy the data through host memory'),
    (r'cu[A-Z]\w+|CU[a-z]\w+|CU_\w+', 'use the runtime API instead of the driver API: cudaMalloc, kernel<<<...>>>'),
    (r'cublas\w+', 'call torch.matmul from Python'),
    (r'curand\w+', 'use curandState or curandStatePhilox4_32_10_t'),
    (r'cufft\w+', 'call torch.fft from Python'),
    (r'cusparse\w+', 'call torch.sparse from Python'),
    (r'cuda[A-Z]\w+|__nv_\w+|__NV_\w+', ''),
)
# pattern of functions and headers that this platform lacks -> the message; a browser adds its own
absent_from_platform = {}

_UNDECLARED = re.compile(
    r"(?:use of undeclared identifier |unknown type name )?['\"](\w+)['\"]"
    r"(?: was not declared| has not been declared| does not name a type|; did you mean|$)"
)
_NO_MEMBER = re.compile(
    r"['\"]?(\w+)['\"]? (?:is not a member of|in namespace) "
    r"['\"]((?:cuda|cooperative_groups|cg|nvcuda|wmma|thrust|cub)[\w:]*)['\"]"
)
_NO_FILE = re.compile(r"^'?([\w./]+)'?(?:: No such file| file not found)")
_STATIC_ASSERTION = re.compile(r'static assertion failed.*?(?:: |")(the emulator (?:supports|has) [^"\n]*)')


def _alternative(name, is_typo):
    "Return the alternative to a CUDA name; None for other names, and for an apparent typo"
    for pattern, alternative in _ALTERNATIVES:
        if re.fullmatch(pattern, name):
            return alternative if alternative or not is_typo else None


def describe_unsupported(
    log: str,  # of g++ or clang
    src: str,  # the learner's source
    name: str,  # of the source, as in the log
    other_files=(),  # dict: name -> text of the learner's other files
) -> str:  # None if the log is about something else
    "Describe an unsupported CUDA feature that `src` uses, with its line"
    for d in read_log(log, name, other_files=other_files):
        if message := _describe_message(d.message):
            file, n = (d.file, d.line) if d.file or not d.line_of_use else ('', d.line_of_use)
            lines = (other_files[file] if file else src).splitlines()
            text = lines[n - 1].strip() if n <= len(lines) else ''
            return f'{message}\n  {file}{", " * bool(file)}line {n}: {text}'


def _describe_message(message):
    "Describe the missing feature that a compiler's message is about; None for any other message"
    if m := _STATIC_ASSERTION.search(message):
        return m[1]
    if m := _UNDECLARED.search(message) or _NO_FILE.search(message):
        for pattern, text in absent_from_platform.items():
            if re.fullmatch(pattern, m[1]):
                return text
    if (m := _NO_FILE.search(message)) and (hint := hint_for_missing_header(m[1])):
        return f'the emulator does not support {m[1]}: {hint}, or run on a GPU'
    if (m := _NO_MEMBER.search(message)) and 'did you mean' not in message:
        return f'the emulator does not support {m[2]}::{m[1]}: run on a GPU'
    if (m := _UNDECLARED.search(message)) and (
        alternative := _alternative(m[1], 'did you mean' in message)
    ) is not None:
        return f'the emulator does not support {m[1]}: {alternative}{", or " if alternative else ""}run on a GPU'
