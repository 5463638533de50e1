"The order of tests: long ones start early, whatever the number of workers."
import pytest
from conftest import order_for_workers


class Item:
    def __init__(self, name, seconds=0): self.name,self.seconds = name,seconds
    def get_closest_marker(self, _): return pytest.mark.takes(self.seconds).mark if self.seconds else None


@pytest.mark.parametrize('workers', [1, 2, 3, 8])
@pytest.mark.parametrize('many', [0, 1, 5, 100])
def test_each_part_begins_with_some_of_the_long_ones(many, workers):
    items = [Item(n, 30 + n if n < 2*many and n % 2 else 0) for n in range(2*many + 1)]
    got = order_for_workers(items, workers)
    assert sorted(o.name for o in got) == [o.name for o in items]
    size = len(items)//workers
    if many < workers: return                            # not even one each
    parts = [got[len(items)*i//workers:][:size] for i in range(workers)]
    longest = sorted((o.seconds for o in got), reverse=True)[:workers]
    assert sorted((p[0].seconds for p in parts), reverse=True) == longest
    for p in parts:
        seconds = [o.seconds for o in p]
        assert seconds == sorted(seconds, reverse=True), 'the longest first'
        short = [o.name for o in p if not o.seconds]
        assert short == sorted(short), 'the others as they were: those of a file, with its fixtures, stay together'
