from . import right


@right('shared_memory.split')
def views(shared, na, nb):
    a,rest = shared[:na],shared[na:]
    return [a, rest[:nb], rest[nb:]]
