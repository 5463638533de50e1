"Answers to exercises, marked by the exercise that they answer."


def marks():
    "(a list, a decorator of an exercise's name that adds to it what it decorates)"
    answers = []
    def mark(name):
        def _f(fn):
            answers.append((name, fn))
            return fn
        return _f
    return answers, mark
