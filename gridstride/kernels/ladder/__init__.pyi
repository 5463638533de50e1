# Made by tests/front_stubs.py from the exports of this package, which are imported on first use.
from .climb import Climb as Climb
from .climb import count_library as count_library
from .climb import count_quads as count_quads
from .climb import kinds as kinds
from .climb import race as race
from .finals import choose as choose
from .finals import final as final
from .finals import partial_sums as partial_sums
from .finals import schedule as schedule
from .instruction_throughput import time_alone as time_alone
from .ladder import Gpu as Gpu
from .ladder import Ladder as Ladder
from .ladder import inputs as inputs
from .ladder import right as right
from .rung import need_bfloat16 as need_bfloat16
from .rung import need_hopper as need_hopper
from .rung import on_hopper as on_hopper
