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
# Functions of lessons that take a lesson's slug and names of its sources
SOURCE_FUNCTIONS = 'source_in', 'from_lesson', 'lesson'
# Names that a lesson takes from a table
COMPUTED_NAMES = {('shared_memory_cuda', k) for k in ('naive_k', 'tiled_k', 'static_k')}


def code(path):
    "Yield the syntax trees of the Python cells of a lesson"
    for c in json.loads(path.read_text(encoding='utf-8'))['cells']:
        if c['cell_type'] == 'code':
            try: yield ast.parse(''.join(c['source']))
            except SyntaxError: pass  # a cell magic


def imported_sources(path):
    "Return (slug, name) of each source that a lesson takes from another one"
    calls = (o for tree in code(path) for o in ast.walk(tree) if isinstance(o, ast.Call))
    args = (o.args for o in calls if getattr(o.func, 'id', '') in SOURCE_FUNCTIONS and len(o.args) > 1)
    found = {(slug.value, name.value) for slug, *names in args for name in names
             if isinstance(slug, ast.Constant) and isinstance(name, ast.Constant)}
    return {(slug, name) for slug, name in found if slug != lesson_of_file(path.name).slug}


def sources():
    "Return {slug: {name: source}}"
    sources_of_slug = {}
    for slug, name in sorted({o for p in lessons() for o in imported_sources(p)} | COMPUTED_NAMES):
        sources_of_slug.setdefault(slug, {})[name] = source_in(slug, name, NBS)
    return sources_of_slug


if __name__ == '__main__': FILE.write_text(json.dumps(sources(), indent=1) + '\n', encoding='utf-8')
