"""The stubs, `__init__.pyi`, of packages that import their names on first use: editors and type checkers read these.

    python tests/front_stubs.py    # writes them again
"""
import ast, importlib
from pathlib import Path

from gridstride.support.lazy_exports import exports_of_package

ROOT = Path(__file__).resolve().parents[1]
HEAD = '# Made by tests/front_stubs.py from the exports of this package, which are imported on first use.\n'


def packages():
    "The packages with lazy exports: {its folder: {name: module}}"
    found = [p for p in sorted((ROOT/'gridstride').rglob('__init__.py')) if 'lazy_exports_of' in p.read_text('utf-8')]
    res = {}
    for p in found:
        name = '.'.join(p.parent.relative_to(ROOT).parts)
        importlib.import_module(name)
        res[p.parent] = exports_of_package[name]
    return res


def imported(folder):
    "The relative imports that a package makes at once, as lines of a stub"
    for node in ast.parse((folder/'__init__.py').read_text('utf-8')).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            for o in node.names:
                if o.name != 'lazy_exports_of' and not (o.asname or o.name).startswith('_'):
                    yield f"from {'.'*node.level}{node.module or ''} import {o.name} as {o.asname or o.name}"


def stub(folder, names):
    lines = sorted({*imported(folder), *(f'from .{module} import {name} as {name}' for name, module in names.items())})
    return HEAD + '\n'.join(lines) + '\n'


def front():
    "That of `gridstride` itself"
    import gridstride
    lines = [f'from .{module} import {name} as {name}' for name, module in gridstride._MODULE_OF.items()]
    lines += [f'from . import {name} as {name}' for name in gridstride._SUBPACKAGES]
    return HEAD + '\n'.join([*sorted(lines), '', '__version__: str']) + '\n'


def stubs():
    "path -> text"
    return {ROOT/'gridstride/__init__.pyi': front(),
            **{folder/'__init__.pyi': stub(folder, names) for folder, names in packages().items()}}


if __name__ == '__main__':
    for path, text in stubs().items(): path.write_text(text, encoding='utf-8')
