import numpy as np

from . import right


@right('profiling.waves')
def in_numpys_integers(n, threads, registers, shared, sms):
    fits = np.array([2048//threads, 32, 65536//(registers*threads), 228*1024//(shared+1024)]).min()*sms
    most = -(-n//threads)
    return most - most%fits if most >= fits else most
