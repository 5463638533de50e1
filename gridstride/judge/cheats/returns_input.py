#!POPCORN leaderboard add
#!POPCORN gpu H100
"Adds in place to the first input, which saves the memory traffic of a new output"


def custom_kernel(data):
    "Add b to a in place, and return a"
    a, b = data
    return a.add_(b)
