"""The server of `mcp_server`, implemented with the official `mcp` package, the extra `gridstride[mcp]`.

The tools are the same; the package supports more of the protocol, such as cancellation and newer versions."""

from functools import partial
from importlib.metadata import PackageNotFoundError, version

__all__ = ['is_installed', 'serve']

_MIN_VERSION = 2  # the first major version whose `Server` takes its request handlers as arguments


def is_installed() -> bool:
    "Return whether the package is installed, in a version that this module can use"
    try:
        return int(version('mcp').partition('.')[0]) >= _MIN_VERSION
    except (PackageNotFoundError, ValueError):
        return False


def make_server(name, version, instructions, tools, call_tool):
    "Make a server; `call_tool(name, arguments, report=...)` returns the result of a call, or raises `ProtocolError`"
    import anyio.from_thread
    import anyio.to_thread
    from mcp import types
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError

    from .mcp_server import ProtocolError

    async def on_list_tools(context, params):
        return types.ListToolsResult.model_validate(dict(tools=tools))

    async def on_call_tool(context, params):
        def report(seconds, message):
            anyio.from_thread.run(context.session.report_progress, seconds, None, message)

        call = partial(call_tool, params.name, params.arguments or {}, report=report)
        try:
            result = await anyio.to_thread.run_sync(call)
        except ProtocolError as e:
            raise MCPError(e.code, str(e)) from None
        return types.CallToolResult.model_validate(result)

    options = dict(version=version, instructions=instructions)
    return Server(name, **options, on_list_tools=on_list_tools, on_call_tool=on_call_tool)


def serve(*server_args):
    "Respond to requests on stdin until it ends; takes the arguments of `make_server`"
    import anyio
    from mcp.server.stdio import stdio_server

    async def run():
        server = make_server(*server_args)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(run)
