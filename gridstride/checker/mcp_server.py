"""`gridstride mcp`: a server of the Model Context Protocol on stdin and stdout, for coding agents.

Each tool takes source code and runs a command of the package on it, confined as `sandbox` describes; `judge` has its
own sandbox. If the official `mcp` package is installed, it implements the protocol (`official_mcp`), otherwise this
module does, with the standard library: tools need only a small subset of JSON-RPC 2.0. Each line is a request or a
notification in JSON, and each request gets a response of one line."""

import argparse
import json
import sys
import tempfile
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import gridstride

from ..utils import cache_dir
from . import official_mcp
from .check import uses_cuda_c
from .sandbox import SECONDS, prepare_cache, run_confined, run_in_folder

__all__ = ['ProtocolError', 'TOOLS', 'respond', 'main']

_VERSIONS = '2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'  # of the protocol, the newest first
_INSTRUCTIONS = """Check GPU kernels for data races, out-of-bounds accesses, uninitialized reads and divergent barriers.
Call `check` on every kernel that you write or change, fix what it reports, and call it again. Times of `bench` and
`judge` on a machine without a GPU say nothing about a GPU."""
_JUDGE_SECONDS = 600
_PREPARING = 'Compiling the emulator of CUDA C, once per version of the package and of the compiler'
_SOURCE = dict(type='string', description='the complete source')
_SIZE = dict(type='integer', minimum=1, description='size of arrays and value of integers')
_LANGUAGE = dict(
    type='string',
    enum=['cuda', 'python'],
    description='cuda: a program with a main, or a kernel to be launched by `launch`; python: a program with kernels '
    'of Numba, Triton, or CUDA C by load_inline',
)


def _schema(required, **properties):
    return dict(type='object', properties=properties, required=required.split())


def _check(run, source, language, seeds=1, launch=None, size=None):
    name = 'program.cu' if language == 'cuda' else 'program.py'
    options = ['--format', 'json', '--seeds', seeds, *_option('--launch', launch), *_option('--size', size)]
    return run(['check', name, *map(str, options)], {name: source})


def _asm(run, source, show='ptx', kernel=None, arch='sm_90'):
    return run(['asm', 'kernel.cu', f'--{show}', '--arch', arch, *_option('--kernel', kernel)], {'kernel.cu': source})


def _bench(run, source, launch, size=1 << 20):
    return run(['bench', 'kernel.cu', '--launch', launch, '--size', str(size)], {'kernel.cu': source})


def _explain(run, code):
    return run(['explain', code], {})


def _judge(run, source, task):
    with tempfile.TemporaryDirectory(prefix='gridstride-') as folder:
        file = Path(folder) / 'submission.py'
        file.write_text(source, encoding='utf-8')
        command = [sys.executable, '-m', 'gridstride', 'judge', str(file), '--task', task]
        return run_in_folder(command, Path(__file__).parents[2], _JUDGE_SECONDS)


def _option(option, value):
    "Return an option of a command line with its value; [] if the value is None"
    return [] if value is None else [option, str(value)]


TOOLS = {  # name -> (function of `run_confined` and the arguments, description, JSON schema of the arguments)
    'check': (
        _check,
        'Run a program or a kernel on the CPU with every check, and report findings as JSON: kind, code, line, thread, '
        'hint. Exit status 0: no findings; 1: findings; 2: the program could not be checked. At the time limit it '
        'reports the findings so far, and the kernel and line that was interrupted.',
        _schema(
            'source language',
            source=_SOURCE,
            language=_LANGUAGE,
            seeds=dict(type='integer', minimum=1, maximum=50, description='number of schedules; default 1'),
            launch=dict(type='string', description='the kernel to launch with random data, if there is no main'),
            size=_SIZE,
        ),
    ),
    'explain': (
        _explain,
        'Explain the code of a finding, with a wrong kernel and a right one.',
        _schema('code', code=dict(type='string', description='such as race, or a kind such as racecheck')),
    ),
    'asm': (
        _asm,
        'Show the PTX, SASS or resources (registers, occupancy) of a kernel in CUDA C.',
        _schema(
            'source',
            source=_SOURCE,
            show=dict(type='string', enum=['ptx', 'sass', 'resources']),
            kernel=dict(type='string', description='name of the kernel, if the source has several'),
            arch=dict(type='string', description='GPU architecture; default sm_90'),
        ),
    ),
    'bench': (
        _bench,
        'Time a kernel in CUDA C with random data.',
        _schema('source launch', source=_SOURCE, launch=dict(type='string', description='the kernel'), size=_SIZE),
    ),
    'judge': (
        _judge,
        'Judge a submission with custom_kernel(data) or ModelNew: accept it, or reject it with the reason.',
        _schema('source task', source=_SOURCE, task=dict(type='string', description='the name of the task')),
    ),
}


class ProtocolError(Exception):
    "An invalid request; `code` is that of JSON-RPC"

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def _require_arguments(schema, arguments):
    "Raise `ProtocolError` unless the arguments match a schema"
    types = dict(string=str, integer=int)
    unknown_names = [name for name in arguments if name not in schema['properties']]
    missing_names = [name for name in schema['required'] if name not in arguments]
    wrong_types = [
        name
        for name, value in arguments.items()
        if name in schema['properties'] and not _is_valid(schema['properties'][name], value, types)
    ]
    if unknown_names or missing_names or wrong_types:
        problems = dict(unknown=unknown_names, missing=missing_names, invalid=wrong_types)
        text = '; '.join(f'{kind}: {", ".join(names)}' for kind, names in problems.items() if names)
        raise ProtocolError(-32602, f'invalid arguments ({text})')


def _is_valid(schema, value, types):
    return (
        type(value) is types[schema['type']]
        and value in schema.get('enum', [value])
        and (not isinstance(value, int) or schema.get('minimum', value) <= value <= schema.get('maximum', value))
        and not (isinstance(value, str) and value.startswith('-'))
    )


def _call(name, arguments, seconds=SECONDS, report=lambda seconds, message: None):
    "Run a tool with a time limit; returns the result of `tools/call`"
    if name not in TOOLS:
        raise ProtocolError(-32602, f'unknown tool {name}; available: {", ".join(TOOLS)}')
    function, _, schema = TOOLS[name]
    _require_arguments(schema, arguments)
    if name == 'bench' or name == 'check' and _has_cuda(**arguments):
        _prepare_once(report)
    result = function(partial(run_confined, seconds=seconds), **arguments)
    isolation = ', '.join(result.isolation) or 'by the command itself'
    parts = [result.stdout, result.stderr[-4000:], f'{_status_text(name, result)}; isolation: {isolation}']
    content = [dict(type='text', text=part) for part in parts if part.strip()]
    return dict(content=content, isError=result.status not in (0, 1))


def _has_cuda(source, language, **options):
    return uses_cuda_c('.cu' if language == 'cuda' else '.py', source.encode())


_preparation_lock = threading.Lock()
_prepared_caches = set()


def _prepare_once(report):
    "Compile the emulator before the first program that needs it; reports progress"
    with _preparation_lock:
        if cache_dir() not in _prepared_caches:
            prepare_cache(lambda seconds: report(seconds, _PREPARING))
            _prepared_caches.add(cache_dir())


def _status_text(name, result):
    if result.status is not None and not _has_reached_limit(name, result.stdout):
        return f'exit status {result.status}'
    ended = f'timed out after {result.seconds} s' if result.status is None else f'exit status {result.status}'
    if name == 'judge':
        return ended
    return (
        f'{ended}; time limit {result.seconds} s: use smaller arrays or fewer schedules, or start the server with a '
        f'longer limit: gridstride mcp --seconds {5 * result.seconds}'
    )


def _has_reached_limit(name, out):
    "Return whether the report of `check` has a file that was not checked to its end because of the time limit"
    with suppress(ValueError, LookupError, TypeError):
        return name == 'check' and any(file['status'] == 'time limit' for file in json.loads(out)['files'])
    return False


def _initialize(params):
    requested_version = params.get('protocolVersion')
    return dict(
        protocolVersion=requested_version if requested_version in _VERSIONS else _VERSIONS[0],
        capabilities=dict(tools={}),
        serverInfo=dict(name='gridstride', version=gridstride.__version__),
        instructions=_INSTRUCTIONS,
    )


def _list_tools():
    return [dict(name=k, description=description, inputSchema=schema) for k, (_, description, schema) in TOOLS.items()]


_METHODS = {
    'initialize': lambda params, **options: _initialize(params),
    'ping': lambda params, **options: {},
    'tools/list': lambda params, **options: dict(tools=_list_tools()),
    'tools/call': lambda params, **options: _call(params.get('name'), params.get('arguments') or {}, **options),
}


def _send_progress(send, params, seconds, message):
    "Send the progress of a request, if the client requested it"
    if (token := (params.get('_meta') or {}).get('progressToken')) is not None:
        params = dict(progressToken=token, progress=seconds, message=message)
        send(dict(jsonrpc='2.0', method='notifications/progress', params=params))


def respond(
    line: str,
    send=lambda notification: None,  # called with the notifications that precede the response
    seconds=SECONDS,  # time limit of a tool
):  # a dictionary; None for a notification
    "Return the response to one line, a request or a notification"
    try:
        request = json.loads(line)
    except ValueError as e:
        return dict(jsonrpc='2.0', id=None, error=dict(code=-32700, message=str(e)))
    if not isinstance(request, dict) or 'method' not in request:
        return dict(jsonrpc='2.0', id=None, error=dict(code=-32600, message='a request must have a method'))
    if 'id' not in request:
        return None
    try:
        if request['method'] not in _METHODS:
            raise ProtocolError(-32601, f'unknown method {request["method"]}')
        params = request.get('params') or {}
        options = dict(seconds=seconds, report=partial(_send_progress, send, params))
        return dict(jsonrpc='2.0', id=request['id'], result=_METHODS[request['method']](params, **options))
    except ProtocolError as e:
        return dict(jsonrpc='2.0', id=request['id'], error=dict(code=e.code, message=str(e)))


def main(argv=None) -> int:  # exit status
    "Respond to requests until stdin ends"
    parser = argparse.ArgumentParser(
        prog='gridstride mcp',
        description='Serve check, explain, asm, bench and judge as tools for coding agents, over stdin and stdout.',
    )
    parser.add_argument('--plain', action='store_true', help='do not use the mcp package, even if it is installed')
    parser.add_argument('--seconds', type=int, default=SECONDS, help=f'time limit of a tool; default: {SECONDS}')
    options = parser.parse_args(argv)
    if official_mcp.is_installed() and not options.plain:
        call = partial(_call, seconds=options.seconds)
        official_mcp.serve('gridstride', gridstride.__version__, _INSTRUCTIONS, _list_tools(), call)
        return 0
    for line in sys.stdin:
        if line.strip() and (response := respond(line, _print_message, options.seconds)) is not None:
            _print_message(response)
    return 0


def _print_message(message):
    print(json.dumps(message), flush=True)
