"""Counters with names: what a run counts, and how it is printed."""


class Counters(dict):
    "Counters by name, also as attributes; a subclass lists them in `NAMES`, and the columns of a table in `WIDTH`"

    NAMES = ()
    WIDTH = 26

    def __init__(self):
        super().__init__(dict.fromkeys(self.NAMES, 0))

    def __getattr__(self, k):
        if k not in self:
            raise AttributeError(k)
        return self[k]

    def add(self, **counts):
        "Count on: `counts` by name"
        for k, v in counts.items():
            self[k] += int(v)

    def __repr__(self):
        return '\n'.join(f'{k:<{self.WIDTH}}{v:>12,}' for k, v in self.items() if v)
