"""Named counters of a run, and how they are printed."""


class Counters(dict):
    "Counters by name, also as attributes; a subclass sets their `NAMES`, and the printed `WIDTH` of a name"

    NAMES = ()
    WIDTH = 26

    def __init__(self):
        super().__init__(dict.fromkeys(self.NAMES, 0))

    def __getattr__(self, k):
        if k not in self:
            raise AttributeError(k)
        return self[k]

    def add(self, **counts):
        "Add to counters by name"
        for k, v in counts.items():
            self[k] += int(v)

    def __repr__(self):
        return '\n'.join(f'{k:<{self.WIDTH}}{v:>12,}' for k, v in self.items() if v)
