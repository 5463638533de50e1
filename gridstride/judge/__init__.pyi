# Made by tests/front_stubs.py from the exports of this package, which are imported on first use.
from .forms import FormError as FormError
from .forms import Submission as Submission
from .forms import read_submission as read_submission
from .processes import stop as stop
from .referee import judge as judge
from .samples import cheats as cheats
from .samples import honest as honest
from .tasks import TASKS as TASKS
from .tasks import Task as Task
from .tasks import find_task as find_task
from .verdicts import REASONS as REASONS
from .verdicts import Verdict as Verdict
from .writing import write_submission as write_submission
