"Values as words, and parameters read off a declaration."
import struct

import numpy as np, pytest

from gridstride.cpp.values import FLOAT, INT, LIST, NONE, STRING, TENSOR, parse_parameters, to_words


@pytest.mark.parametrize('values,fmt,words', [
    ([3, .5], '2qqd', (INT, 3, FLOAT, .5)), (['gridstride'], '2q16s', (STRING, 10, b'gridstride' + bytes(6))),
    ([[np.int8(7), None]], '2q2qq', (LIST, 2, INT, 7, NONE))])
def test_words(values, fmt, words): assert struct.unpack(fmt, to_words(values)) == words


def test_an_array_goes_by_its_address():
    x = np.zeros((2, 3), np.float32).T
    assert struct.unpack('11q', to_words([x])) == (TENSOR, id(x), x.ctypes.data, 6, 0, -1, 2, 3, 2, 1, 3)


def test_what_has_no_counterpart():
    with pytest.raises(TypeError, match=' dict'): to_words([{}])


@pytest.mark.parametrize('declaration,want', [
    ('torch::Tensor f(torch::Tensor x, const std::vector<int64_t> &sizes, float a = 1.5f, int)',
     [('torch::Tensor', 'x', None), ('const std::vector<int64_t> &', 'sizes', None), ('float', 'a', '1.5f'),
      ('int', None, None)]),
    ('void f()', []),
    ('void k(const float *x, unsigned char out[], std::tuple<int,int> t)',
     [('const float *', 'x', None), ('unsigned char[]', 'out', None), ('std::tuple<int,int>', 't', None)])])
def test_parameters(declaration, want): assert parse_parameters(declaration) == want
