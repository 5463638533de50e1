"""Makes the reference of the package: a page per module or subpackage, with its public names.

A page shows docstrings, signatures and the comment after each parameter, where gridstride documents parameters.
The script imports each module to find its public names; the pages are kept until a file of the package changes.
"""

import ast, hashlib, importlib, inspect, io, json, os, re, sys, textwrap, tokenize
from functools import cache
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def parts_of_package():
    "Return (name, what it contains) of each module and subpackage in ARCHITECTURE.md"
    rows = re.findall(r'^\| (`[^|]*) \| ([^|]*) \|', (ROOT / 'ARCHITECTURE.md').read_text(encoding='utf-8'), re.M)
    return [(name, does) for names, does in rows for name in re.findall(r'`(\w+)`', names)]


# What a definition says


def comments(source):
    "Return {line: the comment at its end} of Python source; a line with only a comment continues the one above"
    out, above = {}, None  # the line to whose comment the next one may belong
    for t in tokenize.generate_tokens(io.StringIO(source).readline):
        if t.type != tokenize.COMMENT:
            continue
        line, column = t.start
        text = t.string.lstrip('# ')
        continues = not t.line[:column].strip() and above and above[1] == line - 1
        if continues:
            out[above[0]] += f' {text}'
        else:
            out[line] = text
        above = (above[0] if continues else line, line)
    return out


def parameters(
    definition,  # ast.FunctionDef
    said,  # {line: comment}, of the same source
) -> list:  # [(names, default, comment)], the last is ('returns', annotation, comment), if there is one
    "List parameters with their trailing comments; parameters on one line share its comment"
    a = definition.args
    every = [*a.posonlyargs, *a.args, *filter(None, [a.vararg]), *a.kwonlyargs, *filter(None, [a.kwarg])]
    positional = [*a.posonlyargs, *a.args]
    defaults = dict(zip(reversed([p.arg for p in positional]), reversed(a.defaults)))
    defaults |= {p.arg: d for p, d in zip(a.kwonlyargs, a.kw_defaults) if d}
    stars = {p.arg: s for p, s in ((a.vararg, '*'), (a.kwarg, '**')) if p}
    lines = {p.arg: (defaults.get(p.arg) or p).end_lineno for p in every}
    shown = [
        (lines[p.arg], stars.get(p.arg, '') + p.arg, ast.unparse(defaults[p.arg]) if p.arg in defaults else '')
        for p in every
        if p.arg not in ('self', 'cls')
    ]
    returns = definition.returns.end_lineno if definition.returns else 0
    out = []
    for line, group in groupby(shown, key=lambda row: row[0]):
        _, names, values = zip(*group)
        text = said.get(line, '') if line != returns else ''
        out.append((', '.join(names), ', '.join(filter(None, values)), text))
    head = range(definition.lineno, definition.body[0].lineno)
    left = ' '.join(text for n, text in said.items() if n in head and (n == returns or n not in lines.values()))
    if of := re.match(r'(\w+): ', left):  # the only parameter, on the line of what is returned
        out = [(n, d, left[of.end() :] if n == of[1] else t) for n, d, t in out]
        left = ''
    annotation = ast.unparse(definition.returns) if definition.returns else ''
    return out + ([('returns', annotation, left)] if left or annotation else [])


def signature(definition, name):
    "Format the head of a function, on several lines if it is long, without annotations, which the table shows"
    args = ast.unparse(definition.args)
    one_line = f'{name}({args})'
    return (
        one_line
        if len(one_line) < 90
        else f'{name}(\n' + ''.join(f'    {piece},\n' for piece in pieces(definition.args)) + ')'
    )


def pieces(args):
    "Split the parameters of a head"
    text = ast.unparse(args)
    depth = 0
    piece = ''
    out = []
    for char in text:
        depth += (char in '([{') - (char in ')]}')
        if char == ',' and not depth:
            out = [*out, piece.strip()]
            piece = ''
        else:
            piece += char
    return [*out, piece.strip()]


def cell(text):
    return ' '.join(text.split()).replace('|', '\\|')


def table(rows):
    "Format parameters as a table, if any of them has a comment"
    if not any(text for _, _, text in rows):
        return ''
    out = ['| parameter | default | what it is |', '|---|---|---|']
    for names, default, text in rows:
        name = ', '.join(f'`{name}`' for name in names.split(', ')) if names != 'returns' else '*returns*'
        out.append(f'| {name} | {f"`{cell(default)}`" if default else ""} | {cell(text)} |')
    return '\n'.join(out) + '\n'


def said_by(node):
    "Return a docstring as Markdown, with bold lines in place of headings, and its examples as code"
    text = ast.get_docstring(node) or ''
    text = re.sub(r'^#+ (.*)', r'**\1**', text, flags=re.M)
    return re.sub(r'^>>> .*(?:\n.+)*', lambda example: f'```python\n{example[0]}\n```', text, flags=re.M)


def function(definition, name, said, level):
    "Make a function's part of the page"
    return '\n'.join(
        [
            f'{"#" * level} `{name}`\n',
            f'```python\n{signature(definition, name)}\n```\n',
            said_by(definition) + '\n',
            table(parameters(definition, said)),
        ]
    )


def one_class(definition, name, said, level):
    "Make a class's part of the page: its constructor, then its public methods"
    methods = [n for n in definition.body if isinstance(n, ast.FunctionDef)]
    init = next((m for m in methods if m.name == '__init__'), None)
    out = [f'{"#" * level} `{name}`\n', said_by(definition) + '\n']
    if init:
        out += [f'```python\n{signature(without_self(init), name)}\n```\n', table(parameters(init, said))]
    for m in methods:
        if m.name.startswith('_') or not ast.get_docstring(m):
            continue
        read = is_property(m)
        head = f'.{m.name}' if read else signature(without_self(m), f'.{m.name}')
        out.append(f'`{cell(head)}`\n: {textwrap.indent(said_by(m), "  ").strip()}\n')
        if not read and (rows := table(parameters(m, said))):
            out.append(textwrap.indent(rows, '  '))
    return '\n'.join(out)


def is_property(definition):
    "Return whether a method is a property"
    names = (getattr(d, 'id', getattr(d, 'attr', '')) for d in definition.decorator_list)
    return bool({'property', 'cached_property'} & set(names))


def without_self(definition):
    "Return a method's definition without `self`"
    head = ast.parse(ast.unparse(definition)).body[0]
    head.args.args = [p for p in head.args.args if p.arg not in ('self', 'cls')]
    return head


# Pages


def definition_of(thing):
    "Return (ast node, comments) of a function or class that the package defines, else None"
    thing = inspect.unwrap(thing)
    try:
        source = textwrap.dedent(inspect.getsource(thing))
    except (TypeError, OSError):
        return None
    node = ast.parse(source).body[0]
    return (node, comments(source)) if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else None


@cache
def by_name():
    "Return {module: what it contains} for modules with an `__all__` in packages whose modules are imported by name"
    out = {}
    for package in ('support', 'diagnostics', 'course', 'bench', 'cpp'):
        for path in sorted((ROOT / 'gridstride' / package).glob('[a-z]*.py')):
            tree = ast.parse(path.read_text(encoding='utf-8'))
            if any(isinstance(n, ast.Assign) and getattr(n.targets[0], 'id', '') == '__all__' for n in tree.body):
                out[f'{package}.{path.stem}'] = ' '.join((ast.get_docstring(tree) or '').split('\n\n')[0].split())
    return out


def home_of(thing, part):
    "Return the module or subpackage that defines a thing; `part` if it is not in the package"
    home = getattr(inspect.unwrap(thing), '__module__', '') or ''
    if not home.startswith('gridstride.'):
        return part
    home = home.removeprefix('gridstride.')
    return home if home in by_name() else home.split('.')[0]


def entry(name, thing, part):
    "Make the section on a function or class that is defined in `part`, else None"
    defined = inspect.isroutine(inspect.unwrap(thing)) or inspect.isclass(thing)
    found = definition_of(thing) if defined and home_of(thing, part) == part else None
    if not found:
        return None
    show = one_class if isinstance(found[0], ast.ClassDef) else function
    return show(found[0], name, found[1], 3)


def other(name, thing, part):
    "Make a line about a name that is not a function or class of `part`"
    if inspect.ismodule(thing):
        return f'- `{name}`: a module'
    home = home_of(thing, part)
    return f'- `{name}`: ' + (f'defined in [`{home}`]({home}.md)' if home != part else f'a {type(thing).__name__}')


def page(part, does, module):
    "Make the page of a module or subpackage"
    doc = re.sub(r'^#+ (.*)', r'**\1**', inspect.getdoc(module) or does, flags=re.M)
    things = {name: getattr(module, name) for name in module.__all__}
    entries = {name: entry(name, thing, part) for name, thing in things.items()}
    others = [other(name, things[name], part) for name, text in entries.items() if not text]
    also = '## Other names\n\n' + '\n'.join(others) + '\n' if others else ''
    return f'# `{part}`\n\n{doc}\n\n## Names\n\n' + '\n'.join(filter(None, entries.values())) + also


def digest():
    "Return a hash of all files that the pages depend on"
    files = [Path(__file__), ROOT / 'ARCHITECTURE.md', *sorted((ROOT / 'gridstride').rglob('*.py'))]
    return hashlib.sha256(b'\0'.join(p.read_bytes() for p in files)).hexdigest()


def made():
    "Make {file: text} of the reference, by importing the package"
    os.environ.update(GRIDSTRIDE_BACKEND='sim', GRIDSTRIDE_QUIET='1')
    sys.path.insert(0, str(ROOT))
    out, listed = {}, []
    for part, does in [*parts_of_package(), *by_name().items()]:
        module = importlib.import_module(f'gridstride.{part}')
        if not hasattr(module, '__all__'):
            continue
        out[f'reference/{part}.md'] = page(part, does, module)
        listed.append((part, does))
    return out | {'reference/index.md': index(listed)}


HEAD = """# Reference

The modules and subpackages of the package, and the names that each exports.
[How they depend on each other](../ARCHITECTURE.md).

| module | what it contains |
|---|---|
"""


def index(
    listed,  # [(module or subpackage, what it contains)]
):
    "Make the page that links all others"
    rows = ''.join(f'| [`{part}`]({part}.md) | {does} |\n' for part, does in listed)
    docs = '\n'.join(part for part, _ in listed)
    return f'{HEAD}{rows}\n```{{toctree}}\n:hidden:\n\n{docs}\n```\n'


def pages(
    kept,  # the file that keeps them
) -> dict:  # {file: text}
    "Return the reference, from the last build if no file of the package has changed"
    try:
        last = json.loads(kept.read_text(encoding='utf-8'))
    except (OSError, ValueError):
        last = {}
    if last.get('digest') != (now := digest()):
        last = dict(digest=now, pages=made())
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(last), encoding='utf-8')
    return last['pages']
