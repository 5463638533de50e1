"torch.backends: settings that change nothing on the CPU"

from types import SimpleNamespace

cuda = SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False))
cudnn = SimpleNamespace(allow_tf32=False)
