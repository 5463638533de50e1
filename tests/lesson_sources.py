"""Collect in nbs/recorded/sources.json the sources that lessons take from other lessons, so that each runs alone.

    python tests/lesson_sources.py    # rewrites the file
"""
import ast, json
from pathlib import Path

from gridstride.course.curriculum import lesson_of_file
from gridstride.course.lessons import lessons
from gridstride.bench.variants import source_in

NBS = Path(__file__).resolve().parents[1]/'nbs'
FILE = NBS/'recorded/sources.json'
TAKES = 'source_in', 'from_lesson', 'lesson'  # functions of lessons whose arguments are a lesson's slug and names
COMPUTED = {('shared_memory_cuda', k) for k in ('naive_k', 'tiled_k', 'static_k')}  # names that a lesson has in a table


def code(path):
    "Yield the syntax trees of the Python cells of a lesson"
    for c in json.loads(path.read_text(encoding='utf-8'))['cells']:
        if c['cell_type'] == 'code':
            try: yield ast.parse(''.join(c['source']))
            except SyntaxError: pass  # a magic


def taken(path):
    "Return (slug, name) of each source that a lesson takes from another one"
    calls = (o for tree in code(path) for o in ast.walk(tree) if isinstance(o, ast.Call))
    args = (o.args for o in calls if getattr(o.func, 'id', '') in TAKES and len(o.args) > 1)
    found = {(slug.value, name.value) for slug, *names in args for name in names
             if isinstance(slug, ast.Constant) and isinstance(name, ast.Constant)}
    return {(slug, name) for slug, name in found if slug != lesson_of_file(path.name).slug}


def sources():
    "Return {slug: {name: source}}"
    res = {}
    for slug, name in sorted({o for p in lessons() for o in taken(p)} | COMPUTED):
        res.setdefault(slug, {})[name] = source_in(slug, name, NBS)
    return res


if __name__ == '__main__': FILE.write_text(json.dumps(sources(), indent=1) + '\n', encoding='utf-8')
