"What may be given for a kernel's parameter, without compiling any."
import numpy as np, pytest, torch

from gridstride.cpp.arguments import check_arguments, dtype_of
from gridstride.cpp.frontend.reader import kernels

PARAMS = kernels('__global__ void k(const float *x, float *out, int n) {}')[0].params


@pytest.mark.parametrize('type,want', [
    ('const float *__restrict__', ('float32', True)), ('unsigned int', ('uint32', False)),
    ('uchar4 *', ('uint8', True)), ('MyStruct *', (None, True)), ('longlong2', ('int64', False)),
    ('std::size_t', ('uint64', False)), ('__half2 *', ('float16', True)), ('float (*)[4]', (None, True)),
    ('nv_bfloat16 const &', ('bfloat16', False))])
def test_dtype_of(type, want): assert dtype_of(type) == want


def check(*args): check_arguments('k', PARAMS, args, 'cpu')


def test_what_fits():
    x = torch.zeros(4)
    check(x, x.numpy(), 4)
    check(None, x, np.int32(4))


@pytest.mark.parametrize('change,says', [
    (dict(x=torch.zeros(4).double()), r'x.*float64.*\.to\(torch\.float32\)'),
    (dict(x=torch.zeros(4)[::2]), r'x.*\.contiguous\(\)'), (dict(x=[1., 2.]), r'x.* list; .*torch\.tensor'),
    (dict(n=4.), r'n.*4\.0'), (dict(n=torch.tensor(4)), r'use \.item\(\)'),
    (dict(n=2**40), f'n.* {2**40}'), (dict(n='4'), 'n.* str$')])
def test_what_does_not_fit(change, says):
    with pytest.raises(TypeError, match=says):
        check(*(dict(x=torch.zeros(4), out=torch.zeros(4), n=4) | change).values())
