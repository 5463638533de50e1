#!POPCORN leaderboard grey
#!POPCORN gpu H100
"torch, element by element"


def custom_kernel(data):
    "Convert an RGB image to grayscale"
    return 0.2989 * data[0] + 0.5870 * data[1] + 0.1140 * data[2]
