"""What kernels did while it was recorded: accesses, bytes and sectors by line, which program touched what."""

__all__ = ['recorder']

_recorder = [None]


def recorder():
    "The trace that records now, or None"
    return _recorder[0]
