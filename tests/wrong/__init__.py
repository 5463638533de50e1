"Wrong answers to the exercises, of the kinds that learners give: every one of them must be refused."
answers = []


def wrong(name):
    "Mark the decorated function as a wrong answer to exercise `name`"
    def _f(fn):
        answers.append((name, fn))
        return fn
    return _f
