"Right answers that are written otherwise than the lessons' own: none of them may be refused."
answers = []


def right(name):
    "Mark the decorated function as a right answer to exercise `name`"
    def _f(fn):
        answers.append((name, fn))
        return fn
    return _f
