"Do the kernels give the same results on the GPU and in the simulator? Needs a GPU."
import numpy as np
from kernels import kernels
from gridstride import cuda as gpu, sim

for (name,k,grid,block,args),(_,s,*_) in zip(kernels(gpu), kernels(sim.cuda)):
    dev = [gpu.to_device(a) if isinstance(a, np.ndarray) else a for a in args]
    here = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    k[grid, block](*dev)
    try: s[grid, block](*here)
    except sim.InitcheckError as e: print(f'{name:24} not compared: {str(e).splitlines()[0]}')
    else:
        same = [np.allclose(d.copy_to_host(), h, atol=1e-5) for d,h in zip(dev, here) if isinstance(h, np.ndarray)]
        print(f"{name:24} {'same' if all(same) else 'DIFFERENT'}")
