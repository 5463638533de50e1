"""Gets the compiler of CUDA C for the browser, and compiles the emulator's runtime with it.

`clang.json` lists the files of an npm package, Clang and LLD as WebAssembly. Node.js runs this Clang to compile the
runtime, once per version of the sources.
"""

import hashlib, json, shutil, subprocess, tempfile
from pathlib import Path

import npm
from fetch import Unavailable, cache_folder
from gridstride.utils import cache_dir

HERE, ROOT = Path(__file__).resolve().parent, Path(__file__).resolve().parents[2]
CPP = ROOT / 'gridstride/cpp'
MANIFEST = json.loads((HERE / 'clang.json').read_text(encoding='utf-8'))
BUILT = ['runtime.o', 'begin_of_user_code.o', 'end_of_user_code.o', 'headers.json', 'kernel.pch', 'tensor.pch']
SCRIPTS = ['cuda.js', 'compile.js', 'program.js', 'rewrite.js', 'store.js']


def toolchain() -> Path:
    "Return the cache folder of the compiler's files"
    return cache_folder().parent / f'clang-{MANIFEST["version"]}'


def fetch() -> Path:  # the folder with all files of `clang.json`, verified
    "Download the compiler, if it is not in the cache; raises `Unreachable` or `Unavailable`"
    npm.fetch({toolchain(): MANIFEST})
    return toolchain()


def sources() -> list:  # of paths
    "List the files from which the runtime and the headers for the browser are built"
    folders = [CPP / 'runtime', CPP / 'include', HERE / 'cuda']
    files = [p for folder in folders for p in folder.rglob('*') if p.is_file() and p.suffix != '.md']
    return sorted([*files, HERE / 'clang.json'])


def fingerprint() -> str:
    "Return a hash of `sources()`, except for the scripts that only the browser runs"
    digest = hashlib.sha256()
    for p in sources():
        if p.name not in ('cuda.js', 'program.js', 'rewrite.js', 'store.js'):
            digest.update(str(p.relative_to(ROOT)).encode() + b'\0' + p.read_bytes())
    return digest.hexdigest()[:16]


def runtime_folder() -> Path:
    "Return the cache folder of the compiled runtime, for these sources"
    return cache_dir() / f'cuda-in-browser-{fingerprint()}'


def is_ready() -> bool:
    "Return whether the compiler and the runtime are in the cache"
    return not npm.missing(toolchain(), MANIFEST) and all((runtime_folder() / name).is_file() for name in BUILT)


def can_fetch() -> bool:
    "Return whether this machine has the programs that download the compiler and run it"
    return all(map(shutil.which, ('npm', 'node')))


def build_runtime() -> Path:  # a folder with the files `BUILT`
    "Compile the runtime for the browser, if that has not been done for these sources; takes a minute"
    folder = runtime_folder()
    if all((folder / name).is_file() for name in BUILT):
        return folder
    if not (node := shutil.which('node')):
        raise Unavailable('Node.js, which compiles the runtime of CUDA C, is not installed')
    with tempfile.TemporaryDirectory(dir=_make_folder(cache_dir())) as tmp:
        result = subprocess.run([node, HERE / 'cuda/build.mjs', fetch(), CPP, tmp], capture_output=True, text=True)
        if result.returncode:
            raise Unavailable(f'the runtime of CUDA C does not compile: {result.stderr[-1000:]}')
        for name in BUILT:
            Path(tmp, name).replace(_make_folder(folder) / name)
    return folder


def _make_folder(folder):
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write(folder):
    "Write all files of CUDA C for the browser to `folder`; raises `Unreachable` or `Unavailable`"
    built = build_runtime()
    folder.mkdir(parents=True)
    for source, names in ((fetch(), npm.file_names(MANIFEST)), (built, BUILT), (HERE / 'cuda', SCRIPTS)):
        for name in names:
            shutil.copyfile(source / name, folder / name)
    store = folder / 'store.js'  # modules that another compiler or runtime produced are not used
    store.write_text(store.read_text(encoding='utf-8').replace('VERSION', fingerprint()), encoding='utf-8')


def megabytes(folder) -> int:
    "Return what a browser loads from `folder` for the first program, compressed as servers do"
    import gzip

    return round(sum(len(gzip.compress(p.read_bytes(), 5)) for p in folder.iterdir()) / 1e6)
