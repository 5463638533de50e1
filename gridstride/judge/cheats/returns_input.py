#!POPCORN leaderboard add
#!POPCORN gpu H100
"Adds in place to the first input, which saves the memory traffic of a new answer"


def custom_kernel(data):
    "a += b"
    a, b = data
    return a.add_(b)
