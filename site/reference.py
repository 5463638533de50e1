"""Makes the reference of the package: a page per module or subpackage, with its public names.

A page shows docstrings, signatures, and the comments after parameters, which document them.
The script imports each module to find its public names, and caches the pages until a file of the package changes.
"""

import ast, hashlib, importlib, inspect, io, json, os, re, sys, textwrap, tokenize
from functools import cache
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def package_parts():
    "Return (name, what it contains) of each module and subpackage in ARCHITECTURE.md"
    rows = re.findall(r'^\| (`[^|]*) \| ([^|]*) \|', (ROOT / 'ARCHITECTURE.md').read_text(encoding='utf-8'), re.M)
    return [(name, description) for names, description in rows for name in re.findall(r'`(\w+)`', names)]


# The documentation of a definition


def comments(source):
    "Return {line: the comment at its end} of Python source; a line with only a comment continues the comment above"
    comment_of_line, last_comment = {}, None  # (line whose comment may continue, last line of that comment)
    for t in tokenize.generate_tokens(io.StringIO(source).readline):
        if t.type != tokenize.COMMENT:
            continue
        line, column = t.start
        text = t.string.lstrip('# ')
        continues = not t.line[:column].strip() and last_comment and last_comment[1] == line - 1
        if continues:
            comment_of_line[last_comment[0]] += f' {text}'
        else:
            comment_of_line[line] = text
        last_comment = (last_comment[0] if continues else line, line)
    return comment_of_line


def parameters(
    definition,  # ast.FunctionDef
    comment_of_line,  # {line: comment} of the same source
) -> list:  # [(names, default, comment)], the last is ('returns', annotation, comment), if there is one
    "List parameters with their trailing comments; parameters on one line share its comment"
    a = definition.args
    arguments = [*a.posonlyargs, *a.args, *filter(None, [a.vararg]), *a.kwonlyargs, *filter(None, [a.kwarg])]
    positional = [*a.posonlyargs, *a.args]
    defaults = dict(zip(reversed([p.arg for p in positional]), reversed(a.defaults)))
    defaults |= {p.arg: d for p, d in zip(a.kwonlyargs, a.kw_defaults) if d}
    stars = {p.arg: s for p, s in ((a.vararg, '*'), (a.kwarg, '**')) if p}
    lines = {p.arg: (defaults.get(p.arg) or p).end_lineno for p in arguments}
    parameter_lines = [
        (lines[p.arg], stars.get(p.arg, '') + p.arg, ast.unparse(defaults[p.arg]) if p.arg in defaults else '')
        for p in arguments
        if p.arg not in ('self', 'cls')
    ]
    returns = definition.returns.end_lineno if definition.returns else 0
    rows = []
    for line, group in groupby(parameter_lines, key=lambda row: row[0]):
        _, names, values = zip(*group)
        text = comment_of_line.get(line, '') if line != returns else ''
        rows.append((', '.join(names), ', '.join(filter(None, values)), text))
    head = range(definition.lineno, definition.body[0].lineno)
    return_comment = ' '.join(
        text for n, text in comment_of_line.items() if n in head and (n == returns or n not in lines.values())
    )
    if parameter := re.match(r'(\w+): ', return_comment):  # the only parameter is on the line of the return type
        rows = [(n, d, return_comment[parameter.end() :] if n == parameter[1] else t) for n, d, t in rows]
        return_comment = ''
    annotation = ast.unparse(definition.returns) if definition.returns else ''
    return rows + ([('returns', annotation, return_comment)] if return_comment or annotation else [])


def signature(definition, name):
    "Format the signature of a function, on several lines if it is long"
    args = ast.unparse(definition.args)
    one_line = f'{name}({args})'
    return (
        one_line
        if len(one_line) < 90
        else f'{name}(\n' + ''.join(f'    {piece},\n' for piece in split_parameters(definition.args)) + ')'
    )


def split_parameters(args):
    "Split the text of parameters at its commas"
    text = ast.unparse(args)
    depth = 0
    parameter = ''
    parameters = []
    for char in text:
        depth += (char in '([{') - (char in ')]}')
        if char == ',' and not depth:
            parameters = [*parameters, parameter.strip()]
            parameter = ''
        else:
            parameter += char
    return [*parameters, parameter.strip()]


def table_cell(text):
    return ' '.join(text.split()).replace('|', '\\|')


def parameter_table(rows):
    "Format parameters as a table; '' if none of them has a comment"
    if not any(text for _, _, text in rows):
        return ''
    lines = ['| parameter | default | what it is |', '|---|---|---|']
    for names, default, text in rows:
        name = ', '.join(f'`{name}`' for name in names.split(', ')) if names != 'returns' else '*returns*'
        lines.append(f'| {name} | {f"`{table_cell(default)}`" if default else ""} | {table_cell(text)} |')
    return '\n'.join(lines) + '\n'


def docstring_markdown(node):
    "Return a docstring as Markdown: headings become bold lines, and examples become code"
    text = ast.get_docstring(node) or ''
    text = re.sub(r'^#+ (.*)', r'**\1**', text, flags=re.M)
    return re.sub(r'^>>> .*(?:\n.+)*', lambda example: f'```python\n{example[0]}\n```', text, flags=re.M)


def function_section(definition, name, comment_of_line, level):
    "Make the section of a function"
    return '\n'.join(
        [
            f'{"#" * level} `{name}`\n',
            f'```python\n{signature(definition, name)}\n```\n',
            docstring_markdown(definition) + '\n',
            parameter_table(parameters(definition, comment_of_line)),
        ]
    )


def class_section(definition, name, comment_of_line, level):
    "Make the section of a class: its constructor, then its public methods"
    methods = [n for n in definition.body if isinstance(n, ast.FunctionDef)]
    init = next((m for m in methods if m.name == '__init__'), None)
    lines = [f'{"#" * level} `{name}`\n', docstring_markdown(definition) + '\n']
    if init:
        lines += [
            f'```python\n{signature(without_self(init), name)}\n```\n',
            parameter_table(parameters(init, comment_of_line)),
        ]
    for m in methods:
        if m.name.startswith('_') or not ast.get_docstring(m):
            continue
        is_attribute = is_property(m)
        head = f'.{m.name}' if is_attribute else signature(without_self(m), f'.{m.name}')
        lines.append(f'`{table_cell(head)}`\n: {textwrap.indent(docstring_markdown(m), "  ").strip()}\n')
        if not is_attribute and (rows := parameter_table(parameters(m, comment_of_line))):
            lines.append(textwrap.indent(rows, '  '))
    return '\n'.join(lines)


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
    "Return (ast node, comments) of a function or class; None if its source is not available"
    thing = inspect.unwrap(thing)
    try:
        source = textwrap.dedent(inspect.getsource(thing))
    except (TypeError, OSError):
        return None
    node = ast.parse(source).body[0]
    return (node, comments(source)) if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else None


@cache
def modules_by_name():
    "Return {module: its description} for modules with an `__all__` in packages whose modules are imported by name"
    description_of_module = {}
    for package in ('support', 'diagnostics', 'course', 'bench', 'cpp'):
        for path in sorted((ROOT / 'gridstride' / package).glob('[a-z]*.py')):
            tree = ast.parse(path.read_text(encoding='utf-8'))
            if any(isinstance(n, ast.Assign) and getattr(n.targets[0], 'id', '') == '__all__' for n in tree.body):
                description_of_module[f'{package}.{path.stem}'] = ' '.join(
                    (ast.get_docstring(tree) or '').split('\n\n')[0].split()
                )
    return description_of_module


def home_of(thing, part):
    "Return the module or subpackage that defines an object; `part` if it is not in the package"
    home = getattr(inspect.unwrap(thing), '__module__', '') or ''
    if not home.startswith('gridstride.'):
        return part
    home = home.removeprefix('gridstride.')
    return home if home in modules_by_name() else home.split('.')[0]


def name_section(name, thing, part):
    "Make the section of a function or class that is defined in `part`; None for other objects"
    is_definition = inspect.isroutine(inspect.unwrap(thing)) or inspect.isclass(thing)
    definition = definition_of(thing) if is_definition and home_of(thing, part) == part else None
    if not definition:
        return None
    make_section = class_section if isinstance(definition[0], ast.ClassDef) else function_section
    return make_section(definition[0], name, definition[1], 3)


def other_name_line(name, thing, part):
    "Make the list item for a name that is not a function or class of `part`"
    if inspect.ismodule(thing):
        return f'- `{name}`: a module'
    home = home_of(thing, part)
    return f'- `{name}`: ' + (f'defined in [`{home}`]({home}.md)' if home != part else f'a {type(thing).__name__}')


def page(part, description, module):
    "Make the page of a module or subpackage"
    doc = re.sub(r'^#+ (.*)', r'**\1**', inspect.getdoc(module) or description, flags=re.M)
    things = {name: getattr(module, name) for name in module.__all__}
    entries = {name: name_section(name, thing, part) for name, thing in things.items()}
    others = [other_name_line(name, things[name], part) for name, text in entries.items() if not text]
    other_names = '## Other names\n\n' + '\n'.join(others) + '\n' if others else ''
    return f'# `{part}`\n\n{doc}\n\n## Names\n\n' + '\n'.join(filter(None, entries.values())) + other_names


def hash_of_sources():
    "Return a hash of all files that the pages depend on"
    files = [Path(__file__), ROOT / 'ARCHITECTURE.md', *sorted((ROOT / 'gridstride').rglob('*.py'))]
    return hashlib.sha256(b'\0'.join(p.read_bytes() for p in files)).hexdigest()


def build_pages():
    "Import the modules of the package, and return {file: text} of the reference"
    os.environ.update(GRIDSTRIDE_BACKEND='sim', GRIDSTRIDE_QUIET='1')
    sys.path.insert(0, str(ROOT))
    pages, parts = {}, []
    for part, description in [*package_parts(), *modules_by_name().items()]:
        module = importlib.import_module(f'gridstride.{part}')
        if not hasattr(module, '__all__'):
            continue
        pages[f'reference/{part}.md'] = page(part, description, module)
        parts.append((part, description))
    return pages | {'reference/index.md': index(parts)}


INDEX_HEAD = """# Reference

The modules and subpackages of the package, and the names that each exports.
[How they depend on each other](../ARCHITECTURE.md).

| module | what it contains |
|---|---|
"""


def index(
    parts,  # [(module or subpackage, what it contains)]
):
    "Make the page that links to all other pages"
    rows = ''.join(f'| [`{part}`]({part}.md) | {description} |\n' for part, description in parts)
    docs = '\n'.join(part for part, _ in parts)
    return f'{INDEX_HEAD}{rows}\n```{{toctree}}\n:hidden:\n\n{docs}\n```\n'


def pages(
    cache_file,  # the file with the pages of the last build
) -> dict:  # {file: text}
    "Return the pages of the reference, cached if no file of the package has changed"
    try:
        cached = json.loads(cache_file.read_text(encoding='utf-8'))
    except (OSError, ValueError):
        cached = {}
    if cached.get('digest') != (current_hash := hash_of_sources()):
        cached = dict(digest=current_hash, pages=build_pages())
        cache_file.parent.mkdir(parents=True, exist_ok=True)
        cache_file.write_text(json.dumps(cached), encoding='utf-8')
    return cached['pages']
