"""Makes the notebooks for the browser: without outputs. Cells that cannot run there become text, with recorded outputs.

`run_lessons.mjs` determines these cells: it runs the lessons, and lists in recorded.json which cells fail and why.
Without the compiler of CUDA C, cells that need it become text, too.
"""

import ast, copy, json, re
from pathlib import Path

from gridstride.course.publishing import is_setup, without_links

RECORDED = json.loads((Path(__file__).parent / 'recorded.json').read_text(encoding='utf-8'))
NEEDS_COMPILER_NOTE = '*This cell needs a C++ compiler, which browsers lack. Its source and recorded output:*'
CANNOT_RUN_NOTE = '*This cell does not run in a browser: it needs {}. Its source and recorded output:*'
PARTIAL_NOTE = ' {} of its {} cells of code run here; the others show their recorded outputs.'
COMPILER_NOTE = ' CUDA C is compiled here, too: the first such cell loads a compiler, {} MB.'
INTRO = '''> **In the browser.** This lesson runs in your own browser, which keeps your changes and remembers which
> exercises you have solved. There are no outputs until you run the cells. `torch` is a small replacement with what
> these lessons use: tensors on the CPU, without gradients.'''

METADATA = {'kernelspec': dict(name='python', display_name='Python (in the browser)', language='python')}


def source(cell):
    return ''.join(cell['source'])


def parse(code):
    "Parse a cell, without IPython's magics"
    return ast.parse(re.sub(r'^%\w+ ', '', code, flags=re.M))


def names(tree, context):  # ast.Load or ast.Store
    "Return the names that code reads or assigns"
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, context)}


def cells_with_kernels(cells):
    "List the cells that call `cuda_kernel`, or use a kernel that it compiled"
    kernels, found = {'cuda_kernel'}, []
    for c in cells:
        if c['cell_type'] != 'code':
            continue
        for s in (tree := parse(source(c))).body:
            if isinstance(s, ast.Assign) and names(s.value, ast.Load) & {'cuda_kernel'}:
                kernels |= names(s, ast.Store)
        if names(tree, ast.Load) & kernels:
            found.append(c)
    return found


def printed_text(outputs):
    "Return what a cell printed, as text"
    texts = [output.get('text') or output.get('data', {}).get('text/plain') or [] for output in outputs]
    return '\n'.join(''.join(t).rstrip() for t in texts if t)


def pictures(outputs):
    "Return the PNG images of outputs, in base64"
    return [png for output in outputs if (png := output.get('data', {}).get('image/png'))]


def as_markdown(cell, note=NEEDS_COMPILER_NOTE):
    "Convert a code cell to Markdown, with its recorded output"
    text = f'{note}\n\n```python\n{source(cell)}\n```'
    if output_text := printed_text(cell['outputs']):
        text += f'\n\n```\n{output_text}\n```'
    attachments = {f'{i}.png': {'image/png': png} for i, png in enumerate(pictures(cell['outputs']))}
    text += ''.join(f'\n\n![recorded output](attachment:{name})' for name in attachments)
    markdown_cell = dict(cell_type='markdown', id=cell['id'], metadata={}, source=text)
    return dict(markdown_cell, attachments=attachments) if attachments else markdown_cell


def without_broken_links(text, available):
    "Remove links to notebooks that are not in `available`; the text of the link stays"
    return re.sub(r'\[([^\]]+)\]\((\w+)\.ipynb\)', lambda m: m[0] if m[2] in available else m[1], text)


def notes_of_text_cells(nb, name, has_compiler) -> dict:  # id of the cell -> the note above its source
    "Return the cells of a lesson that become text in the browser"
    notes = {} if has_compiler else {c['id']: NEEDS_COMPILER_NOTE for c in cells_with_kernels(nb['cells'])}
    return {cell: CANNOT_RUN_NOTE.format(requirement) for cell, requirement in RECORDED.get(name, {}).items()} | notes


def page(
    nb: dict,  # the content of a notebook
    available,  # the names of the notebooks that are in the browser
    name='',  # its own
    compiler_megabytes=None,  # the size of the compiler, if cells of CUDA C run, too
) -> dict:
    "Make the notebook for the browser"
    nb = dict(nb, cells=[c for c in copy.deepcopy(nb['cells']) if not is_setup(c)])
    notes = notes_of_text_cells(nb, name, compiler_megabytes is not None)
    num_code = sum(c['cell_type'] == 'code' for c in nb['cells'])
    nb['cells'] = [as_markdown(c, notes[c['id']]) if c['id'] in notes else c for c in nb['cells']]
    for c in nb['cells']:
        if c['cell_type'] == 'code':
            code = re.sub(r'^#\|.*\n+', '', source(c), flags=re.M)  # nbdev's directives
            c.update(outputs=[], execution_count=None, source=code)
        else:
            c['source'] = without_broken_links(without_links(source(c)), available)
    text = INTRO + (PARTIAL_NOTE.format(num_code - len(notes), num_code) if notes else '')
    text += COMPILER_NOTE.format(compiler_megabytes) if compiler_megabytes else ''
    nb['cells'].insert(1, dict(cell_type='markdown', id='in-the-browser', metadata={}, source=text))
    nb['metadata'] = METADATA
    return nb


def with_one_cell(text, code):
    "Make a notebook with a Markdown cell and a code cell"
    cells = [
        dict(cell_type='markdown', id='text', metadata={}, source=text),
        dict(cell_type='code', id='code', metadata={}, outputs=[], execution_count=None, source=code),
    ]
    return dict(cells=cells, metadata=METADATA, nbformat=4, nbformat_minor=5)
