from . import right


@right('03.split')
def views(shared, na, nb):
    a,rest = shared[:na],shared[na:]
    return [a, rest[:nb], rest[nb:]]
