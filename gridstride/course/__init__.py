"""The course around the package: `from gridstride.course import exercise, hint`.

`grading` (`exercise`, `hint`: a stub to fill in, hidden cases, hints, a memory of what is solved), `exercises` (a
module per lesson), `runner` (the pure-Python runners of the first lessons), `lessons` (finds and executes them, shows
progress) and `doctor` (what is missing, and the command that installs it). The last two run where nothing is installed
yet, so names are imported on first use.
"""

from ..support.lazy_exports import front_door

__all__, __getattr__, __dir__ = front_door(__name__, {'grading': ('exercise', 'hint')})
