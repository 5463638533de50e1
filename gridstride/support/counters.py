"""Named counters of a run, which print themselves."""


class Counters(dict):
    "Counters, read by name or as attributes; a subclass sets their `NAMES`, and the `WIDTH` of a printed name"

    NAMES = ()
    WIDTH = 26

    def __init__(self):
        super().__init__(dict.fromkeys(self.NAMES, 0))

    def __getattr__(self, k):
        if k not in self:
            raise AttributeError(k)
        return self[k]

    def add(self, **counts):
        "Add to the counters with these names"
        for k, v in counts.items():
            self[k] += int(v)

    def __repr__(self):
        return '\n'.join(f'{k:<{self.WIDTH}}{v:>12,}' for k, v in self.items() if v)
