"The notebooks as they are in the browser: without outputs, and with what needs a C++ compiler shown instead of run."

import ast, copy, re

COMPILED = '*This needs a C++ compiler, which a browser has not, so it is shown as it ran elsewhere:*'
HERE = '''> **In the browser.** All of this runs in your own browser, which keeps what you change and which exercises
> you have solved. The outputs are not there yet: you make them. `torch` is a stand-in: it has what lessons 01 to 04
> use.'''


def source(cell):
    return ''.join(cell['source'])


def parse(code):
    "The syntax tree of a cell, without IPython's magics"
    return ast.parse(re.sub(r'^%\w+ ', '', code, flags=re.M))


def names(tree, kind):
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, kind)}


def compiled(cells):
    "The cells that call `cuda_kernel`, or use a kernel that it made"
    made, res = {'cuda_kernel'}, []
    for c in cells:
        if c['cell_type'] != 'code':
            continue
        for s in (tree := parse(source(c))).body:
            if isinstance(s, ast.Assign) and names(s.value, ast.Load) & {'cuda_kernel'}:
                made |= names(s, ast.Store)
        if names(tree, ast.Load) & made:
            res.append(c)
    return res


def printed(outputs):
    "What a cell printed, as text"
    texts = [o.get('text') or o.get('data', {}).get('text/plain') or [] for o in outputs]
    return '\n'.join(''.join(t).rstrip() for t in texts if t)


def told(cell):
    "A code cell as Markdown, with what it printed"
    text = f'{COMPILED}\n\n```python\n{source(cell)}\n```'
    if said := printed(cell['outputs']):
        text += f'\n\n```\n{said}\n```'
    return dict(cell_type='markdown', id=cell['id'], metadata={}, source=text)


def without_links_to_others(text, here):
    "`text` with the names of notebooks that are not among `here` in place of links to them"
    return re.sub(r'\[([^\]]+)\]\((\w+)\.ipynb\)', lambda m: m[0] if m[2] in here else m[1], text)


def page(
    nb: dict,  # a notebook, as its file has it
    here,  # the names of the notebooks that are in the browser
) -> dict:
    "The notebook for the browser"
    nb = copy.deepcopy(nb)
    shown = {c['id'] for c in compiled(nb['cells'])}
    nb['cells'] = [told(c) if c['id'] in shown else c for c in nb['cells']]
    for c in nb['cells']:
        if c['cell_type'] == 'code':
            code = re.sub(r'^#\|.*\n+', '', source(c), flags=re.M)  # what nbdev is told
            c.update(outputs=[], execution_count=None, source=code)
        else:
            c['source'] = without_links_to_others(source(c), here)
    nb['cells'].insert(1, dict(cell_type='markdown', id='in-the-browser', metadata={}, source=HERE))
    nb['metadata'] = {'kernelspec': dict(name='python', display_name='Python (in the browser)', language='python')}
    return nb
