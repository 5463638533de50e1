"The checker for coding agents: the Model Context Protocol on stdin and stdout, and the sandbox in which sources run"
import json, os, re, subprocess, sys
from pathlib import Path

import pytest
from gridstride.checker import mcp_server, official_mcp, sandbox
from gridstride.checker.sandbox import Result
from found import names


def ask(method, id=1, send=None, **params):
    options = [send] if send else []
    return mcp_server.respond(json.dumps(dict(jsonrpc='2.0', id=id, method=method, params=params)), *options)


@pytest.fixture
def unprepared(monkeypatch):
    "A server that has not compiled the emulator, and reports two seconds of progress instead of compiling it"
    monkeypatch.setattr(mcp_server, '_prepared_caches', set())
    monkeypatch.setattr(mcp_server, 'prepare_cache', lambda report: report(2))


@pytest.fixture
def ran(monkeypatch, unprepared):
    "The commands that tools run, which are not executed"
    commands = []

    def run(argv, files, seconds=120):
        commands.append((argv, files))
        return Result(1, '{"findings": []}', '', ('landlock',))
    monkeypatch.setattr(mcp_server, 'run_confined', run)
    return commands


def test_it_introduces_itself_in_the_version_of_the_client():
    for version, answered in (('2024-11-05', '2024-11-05'), ('2999-01-01', '2025-11-25')):
        result = ask('initialize', protocolVersion=version, capabilities={}, clientInfo={})['result']
        assert result['protocolVersion'] == answered and result['serverInfo']['name'] == 'gridstride'
        assert result['capabilities'] == dict(tools={})
    assert ask('ping') == dict(jsonrpc='2.0', id=1, result={})
    assert mcp_server.respond('{"jsonrpc": "2.0", "method": "notifications/initialized"}') is None


def test_each_tool_describes_its_arguments():
    tools = {o['name']: o for o in ask('tools/list')['result']['tools']}
    assert set(tools) == {'check', 'explain', 'asm', 'bench', 'judge'}
    for tool in tools.values():
        schema = tool['inputSchema']
        assert tool['description'] and schema['type'] == 'object' and {*schema['required']} <= {*schema['properties']}


def test_tools_run_commands(ran):
    check = ask('tools/call', name='check', arguments=dict(source='a', language='cuda', seeds=3, launch='k', size=9))
    assert ran.pop() == (['check', 'program.cu', '--format', 'json', '--seeds', '3', '--launch', 'k', '--size', '9'],
                         {'program.cu': 'a'})
    assert check['result']['isError'] is False and '"findings"' in check['result']['content'][0]['text']
    assert names(check['result']['content'][-1]['text'], 'exit status 1', 'landlock')
    ask('tools/call', name='asm', arguments=dict(source='a', show='sass'))
    assert ran.pop()[0] == ['asm', 'kernel.cu', '--sass', '--arch', 'sm_90']
    ask('tools/call', name='bench', arguments=dict(source='a', launch='k'))
    assert ran.pop()[0][:4] == ['bench', 'kernel.cu', '--launch', 'k']


def test_the_first_program_with_cuda_c_reports_progress(ran):
    sent = []
    program = dict(source='__global__ void k() {}', language='python')
    for _ in range(2): ask('tools/call', send=sent.append, name='check', arguments=program, _meta=dict(progressToken=7))
    notification, = sent
    assert notification['method'] == 'notifications/progress' and notification['params'].pop('message')
    assert notification['params'] == dict(progressToken=7, progress=2) and len(ran) == 2


def test_a_time_out_names_the_limit_and_its_option(monkeypatch, unprepared):
    monkeypatch.setattr(mcp_server, 'run_confined', lambda *args, seconds: Result(None, '', '', seconds=seconds))
    called = dict(name='check', arguments=dict(source='', language='cuda'))
    line = json.dumps(dict(jsonrpc='2.0', id=1, method='tools/call', params=called))
    result = mcp_server.respond(line, seconds=40)['result']
    assert result['isError'] and names(result['content'][-1]['text'], '40 s', 'gridstride mcp --seconds 200')


def test_a_check_that_reached_its_limit_names_the_option(monkeypatch, unprepared):
    report = json.dumps(dict(findings=[], files=[dict(status='time limit')]))
    monkeypatch.setattr(mcp_server, 'run_confined', lambda *args, seconds: Result(1, report, '', seconds=seconds))
    content = ask('tools/call', name='check', arguments=dict(source='', language='cuda'))['result']['content']
    assert content[0]['text'] == report
    assert names(content[-1]['text'], 'status 1', '120 s', 'gridstride mcp --seconds 600')


@pytest.mark.parametrize('line, code', [
    ('{', -32700), ('[]', -32600), ('{"id": 1}', -32600), ('{"id": 1, "method": "tools/fly"}', -32601)])
def test_errors_of_the_protocol(line, code):
    assert mcp_server.respond(line)['error']['code'] == code


@pytest.mark.parametrize('name, arguments', [
    ('fly', {}), ('explain', {}), ('explain', dict(code='race', more=1)), ('explain', dict(code='--help')),
    ('check', dict(source='', language='rust')), ('check', dict(source='', language='cuda', seeds=51)),
    ('check', dict(source='', language='cuda', seeds=True)), ('asm', dict(source='', show='--help'))])
def test_wrong_arguments_are_refused(name, arguments, ran):
    assert ask('tools/call', name=name, arguments=arguments)['error']['code'] == -32602 and not ran


def test_requests_come_on_stdin():
    lines = [dict(id=7, method='ping'), dict(method='notifications/initialized'), dict(id='x', method='ping')]
    done = subprocess.run([sys.executable, '-m', 'gridstride', 'mcp'], text=True, capture_output=True,
                          input='\n'.join(json.dumps(dict(jsonrpc='2.0', **o)) for o in lines))
    assert [json.loads(o)['id'] for o in done.stdout.splitlines()] == [7, 'x'] and done.returncode == 0


NOSY = '''
import os, pathlib
import numpy as np
from numba import cuda

@cuda.jit
def same(out): out[0] = 1

same[1, 32](np.zeros(1))
pathlib.Path('mine').write_text('')
for attempt in (lambda: os.listdir({home!r}), lambda: pathlib.Path({folder!r}, 'theirs').write_text('')):
    try: attempt()
    except OSError: print('denied')
raise SystemExit('end')
'''


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != 'linux', reason='Landlock and seccomp are of Linux')
def test_a_source_is_confined(tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', str(tmp_path))
    source = NOSY.format(home=str(tmp_path), folder=str(tmp_path))
    result = sandbox.run_confined(['check', 'a.py', '--format', 'json'], {'a.py': source})
    found, = json.loads(result.stdout)['findings']
    assert result.status == 1 and found['code'] == 'same_value' and 'limits' in result.isolation
    if 'landlock' in result.isolation: assert 'theirs' not in os.listdir(tmp_path)


def test_the_confinement_requires_no_torch():
    code = 'import sys, gridstride.judge.isolation; sys.exit("torch" in sys.modules)'
    assert subprocess.run([sys.executable, '-c', code]).returncode == 0


def test_a_command_that_takes_too_long_is_ended(tmp_path):
    started = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
    result = sandbox.run_in_folder([sys.executable, '-c', f'{started}time.sleep(60)'], tmp_path, 1)
    assert result.status is None


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_emulator_is_compiled_before_the_time_limit_begins(tmp_path, monkeypatch):
    monkeypatch.setenv('GRIDSTRIDE_CACHE', str(tmp_path))
    monkeypatch.setattr(mcp_server, '_prepared_caches', set())
    source = '__global__ void k(int *out) { out[0] = threadIdx.x; }'
    sent, arguments = [], dict(source=source, language='cuda', launch='k')
    called = ask('tools/call', send=sent.append, name='check', arguments=arguments, _meta=dict(progressToken='a'))
    found, = json.loads(called['result']['content'][0]['text'])['findings']
    assert found['kind'] == 'racecheck' and sent and {*os.listdir(tmp_path)} == {'confined'}


@pytest.fixture
def client():
    "A function that runs a session of the official client with a server of its own"
    pytest.importorskip('mcp', reason='the official mcp package is an extra')
    import anyio
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    def run(session_of, *options):
        async def go():
            server = StdioServerParameters(command=sys.executable, args=['-m', 'gridstride', 'mcp', *options],
                                           env={**os.environ})
            async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
                return await session.initialize(), await session_of(session)
        return anyio.run(go)
    return run


@pytest.mark.slow
@pytest.mark.parametrize('options', [[], ['--plain']])
def test_the_official_client_gets_the_same_from_both_servers(client, options):
    async def session_of(session):
        tools = await session.list_tools()
        explained = await session.call_tool('explain', dict(code='race'))
        with pytest.raises(Exception) as e: await session.call_tool('explain', dict(code='--help'))
        return tools.tools, explained, e.value

    started, (tools, explained, error) = client(session_of, *options)
    assert started.server_info.name == 'gridstride' and 'check' in started.instructions
    assert [o.name for o in tools] == [*mcp_server.TOOLS]
    assert [o.input_schema for o in tools] == [schema for _, _, schema in mcp_server.TOOLS.values()]
    assert not explained.is_error and names(explained.content[0].text, 'race') and error.error.code == -32602


def test_without_the_package_the_standard_library_answers(monkeypatch):
    for version, usable in (('1.27.0', False), ('2.3.0', True), ('next', False)):
        monkeypatch.setattr(official_mcp, 'version', lambda name, v=version: v)
        assert official_mcp.is_installed() == usable
    monkeypatch.undo()
    monkeypatch.setattr(official_mcp, 'is_installed', lambda: False)
    monkeypatch.setattr(sys, 'stdin', ['{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'])
    assert mcp_server.main([]) == 0


@pytest.mark.takes(15)
@pytest.mark.skipif(sys.platform != 'linux', reason='Landlock and seccomp are of Linux')
def test_the_session_of_the_page_is_real():
    page = Path(mcp_server.__file__).with_name('README.md').read_text()
    wrong = re.search(r'`reverse.py`:\n\n```python\n(.*?)```', page, re.S)[1]
    right = wrong.replace('    out[', '    cuda.syncthreads()\n    out[')
    session = re.search(r'```text\nagent(.*?)```', page, re.S)[1].split('agent ')
    for source, shown, status in zip((wrong, right), session, (1, 0)):
        report, end = ask('tools/call', name='check', arguments=dict(source=source, language='python', seeds=3)
                          )['result']['content']
        compact = json.dumps(json.loads(report['text']))
        parts = re.split(r'\.\.\.,? ?', re.sub(r'\s+', ' ', shown.partition('server ')[2].partition('exit')[0]).strip())
        assert all(part.strip(' ,') in compact for part in parts), (compact, parts)
        assert end['text'].startswith(f'exit status {status}') and f'exit status {status};' in shown
