#!POPCORN leaderboard add
#!POPCORN gpu H100
"Two halves on two streams, and the stream that is timed waits for the other one"

import torch

side_stream = None


def custom_kernel(data):
    "Return a + b"
    global side_stream
    side_stream = side_stream or torch.cuda.Stream()
    a, b = data
    out, half = torch.empty_like(a), a.numel() // 2
    side_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side_stream):
        torch.add(a[:half], b[:half], out=out[:half])
    torch.add(a[half:], b[half:], out=out[half:])
    torch.cuda.current_stream().wait_stream(side_stream)
    return out
