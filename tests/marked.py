"Collect answers to exercises, each with the name of its exercise."


def marks():
    "Return a list of (name, function), and a decorator that takes an exercise's name and adds its function to the list"
    answers = []
    def mark(name):
        def _f(fn):
            answers.append((name, fn))
            return fn
        return _f
    return answers, mark
