"""The course: its exercises and lessons. `from gridstride.course import exercise, hint`.

`grading` (`exercise`, `hint`: stubs, hidden cases, hints, the record of solved exercises), `exercises` (the judges, one
module per chapter), `runner` (runs kernels of the first lessons in pure Python), `translations` (catalogues for
translators, of lessons and findings, and translated notebooks), `curriculum` (the table of lessons, and the texts that
are generated from it), `learning_paths` (learning paths and parts, with their hours), `publishing` (links that open a
lesson elsewhere, and the cell that installs the package there), `copies` (the reader's copies of the lessons, and the
start page), `classroom` (lessons without solutions, for a class), `slides` (lessons as slides), `submissions` (grades
submitted notebooks) with `notebook_worker` (runs one in its process), `notebooks` (finds the lessons), `progress`
(which exercises are solved), `lessons` (executes lessons; the command line) and `doctor` (what is missing, and the
command that installs it). `curriculum`, `copies`, `classroom`, `lessons` and `doctor` must run before anything
is installed, so names are imported on first use.
"""

from ..support.lazy_exports import lazy_exports_of

__all__, __getattr__, __dir__ = lazy_exports_of(__name__, {'grading': ('exercise', 'hint', 'require_solved')})
