from gridstride.bench.variants import changed
from wrong.softmax import slope_k, window_k

from . import right


@right('softmax.window')
def from_the_last_row_on(): return changed(window_k, 'tl.program_id(0)', 'w-1 - tl.program_id(0)')

@right('softmax.gradient')
def the_last_program_has_the_first_row():
    return changed(slope_k, 'tl.program_id(0)', 'tl.num_programs(0)-1 - tl.program_id(0)')
