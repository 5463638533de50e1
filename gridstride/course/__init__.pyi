# Made by tests/front_stubs.py from the exports of this package, which are imported on first use.
from .grading import exercise as exercise
from .grading import hint as hint
from .grading import require_solved as require_solved
