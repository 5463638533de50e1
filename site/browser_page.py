"""Makes the page that lists what runs in the browser: the cells of each lesson, and the programs of tests/cuda, whose
findings are compared with those of the native emulator."""

import json
from pathlib import Path

from gridstride.course import curriculum
from gridstride.course.publishing import is_setup

ROOT = Path(__file__).resolve().parents[1]
LITE = Path(__file__).parent / 'lite'
PAGE = """---
orphan: true
---
# What runs in the browser

## Lessons

Cells that need what a browser lacks show their recorded outputs.

| lesson | cells that run | recorded cells | these need |
|---|---|---|---|
{lessons}

## Programs in CUDA C

{same} of the {number} programs that test the emulator, wrong and right, print the same and have the same finding in a
browser as natively, byte for byte except for addresses. The others:

| program | why |
|---|---|
{programs}
"""


def _read(name):
    return json.loads((LITE / name).read_text(encoding='utf-8'))


def join_needs(needs) -> str:  # needs: what cells lack
    "Join what cells need, with the names of a library in one pair of parentheses"
    names = {}
    for need in dict.fromkeys(needs):
        what, _, name = need.partition(' (`')
        names.setdefault(what, []).extend([f'`{name[:-1]}'] * bool(name))
    return '; '.join(f'{what} ({", ".join(found)})' if found else what for what, found in names.items())


def lesson_row(name, needs):  # needs: cell -> what a browser lacks
    "Format the row of a lesson"
    cells = json.loads((ROOT / f'nbs/{name}.ipynb').read_text(encoding='utf-8'))['cells']
    num_code = sum(c['cell_type'] == 'code' and not is_setup(c) for c in cells)
    title = curriculum.lesson_of_file(f'{name}.ipynb').title
    link = f'[{name.split("_")[0]} {title}](nbs/{name}.ipynb)'
    return f'| {link} | {num_code - len(needs)} | {len(needs)} | {join_needs(needs.values())} |'


def pages() -> dict:  # file -> text
    "Make the page"
    recorded, programs = _read('recorded.json'), _read('programs.json')
    rows = [lesson_row(name, recorded.get(name, {})) for name in _read('lite.json')['lessons']]
    others = {name: entry['reason'] for name, entry in programs.items() if entry != 'as natively'}
    text = PAGE.format(
        lessons='\n'.join(rows),
        same=len(programs) - len(others),
        number=len(programs),
        programs='\n'.join(f'| {name.replace("_", " ")} | {reason} |' for name, reason in others.items()),
    )
    return {'in_the_browser.md': text}
