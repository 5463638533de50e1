# Made by tests/front_stubs.py from the exports of this package, which are imported on first use.
from .instruction_throughput import time_alone as time_alone
from .ladder import Gpu as Gpu
from .ladder import Ladder as Ladder
from .ladder import check_product as check_product
from .ladder import inputs as inputs
from .lesson_ladder import LessonLadder as LessonLadder
from .lesson_ladder import count_kinds as count_kinds
from .lesson_ladder import count_library as count_library
from .lesson_ladder import count_quads as count_quads
from .lesson_ladder import race as race
from .rung import on_hopper as on_hopper
from .rung import require_bfloat16 as require_bfloat16
from .rung import require_hopper as require_hopper
from .stream_k import choose as choose
from .stream_k import final_gemm as final_gemm
from .stream_k import partial_sums_src as partial_sums_src
from .stream_k import schedule_src as schedule_src
