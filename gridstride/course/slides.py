"""Writes a lesson as slides: one HTML file, which loads nothing from the network.

    python3 course.py slides 03

Each heading `##` starts a slide, and so does each code cell with outputs. nbconvert makes the sections, but loads
reveal.js from the network. This module replaces it with a small script, controlled by arrow keys, space, Page Up and
Page Down.
"""

import re
import sys
from pathlib import Path

from ..support.atomic_write import write_atomically
from .classroom import is_solution
from .lessons import NBS, ROOT, pick, read
from .publishing import is_setup

__all__ = ['SLIDES_FOLDER', 'slide_type', 'slides', 'main']

SLIDES_FOLDER = ROOT / 'slides'
_STYLE = """<style>
@media screen { body.on section section { display: none } body.on section section.now { display: block } }
section section { max-width: 60em; margin: 2em auto; padding: 0 1em 3em; break-after: page }
#at { position: fixed; right: 1em; bottom: .5em; color: #666 }
@media print { #at { display: none } }
</style>"""
_SCRIPT = """<div id="at"></div><script>
const all = [...document.querySelectorAll('section section')];
const step = {ArrowRight: 1, ArrowDown: 1, PageDown: 1, ' ': 1, ArrowLeft: -1, ArrowUp: -1, PageUp: -1,
              Home: -all.length, End: all.length};
let now = (parseInt(location.hash.slice(1)) || 1) - 1;
function show(i) {
  now = Math.max(0, Math.min(all.length - 1, i));
  for (const [k, s] of all.entries()) s.classList.toggle('now', k === now);
  document.getElementById('at').textContent = `${now + 1} / ${all.length}`;
  history.replaceState(null, '', `#${now + 1}`);
  scrollTo(0, 0);
}
addEventListener('keydown', e => {
  if (!(e.key in step)) return;
  e.preventDefault();
  show(now + step[e.key]);
});
document.body.classList.add('on');
show(now);
</script>"""


def slide_type(cell) -> str:
    "Return nbconvert's type of a cell: 'slide' and 'subslide' start a slide, '-' continues it, 'skip' leaves it out"
    if is_setup(cell) or is_solution(cell):
        return 'skip'
    if cell['cell_type'] == 'code':
        return 'subslide' if cell['outputs'] else '-'
    return 'slide' if re.match('#{1,3} ', ''.join(cell['source'])) else '-'


def slides(
    nb: dict,  # a lesson, as `read` returns it
) -> str:
    "Return a lesson as slides, in HTML"
    import nbformat
    from nbconvert import SlidesExporter

    cells = [{**c, 'metadata': {**c['metadata'], 'slideshow': {'slide_type': slide_type(c)}}} for c in nb['cells']]
    notebook = nbformat.v4.rwbase.rejoin_lines(nbformat.from_dict({**nb, 'cells': cells}))
    html, _ = SlidesExporter().from_notebook_node(notebook)
    html = re.sub(
        r'<script\b.*?</script>|<link\b[^>]*>', '', html, flags=re.S
    )  # reveal.js and other files from the network
    return html.replace('</head>', f'{_STYLE}</head>', 1).replace('</body>', f'{_SCRIPT}</body>', 1)


def main(
    argv=None,  # numbers of lessons, as typed; None: the command line
    folder=SLIDES_FOLDER,
) -> int:  # exit status
    "Write slides of lessons"
    Path(folder).mkdir(exist_ok=True)
    for lesson in pick(sys.argv[1:] if argv is None else argv, NBS):
        path = Path(folder) / f'{lesson.name.partition("_")[0]}.html'
        write_atomically(path, slides(read(lesson)))
        print(f'Written: {path}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
