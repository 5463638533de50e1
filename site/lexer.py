"Highlights Python cells: CUDA C in a string, or below `%%cuda`, is highlighted as C++."

import re

from pygments.lexers import CudaLexer, PythonLexer
from pygments.token import String

CUDA = re.compile(r'__(global|device|shared|constant)__\s|^\s*#include|(thread|block)Idx\.[^`]*;', re.M)
PYTHON_OR_PROSE = re.compile(r'^(import|from|def|with) |`', re.M)
TRIPLE_QUOTED = re.compile(r'''\A(\w*(?:"""|\'\'\'))(.*)("""|\'\'\')\Z''', re.S)


class CudaInPython(PythonLexer):
    "Python whose strings with CUDA C are highlighted as such"

    name = 'Python with CUDA C'

    def get_tokens_unprocessed(self, text):
        "Yield the tokens of a cell; a triple-quoted string of CUDA C yields tokens of C++"
        if text.startswith('%%cuda'):
            first = text.find('\n') + 1 or len(text)
            yield 0, String.Affix, text[:first]
            yield from cuda_tokens(first, text[first:])
            return
        string, start = '', 0
        for index, kind, value in super().get_tokens_unprocessed(text):
            if kind in String:
                if not string:
                    start = index
                string += value
                continue
            if string:
                yield from string_tokens(start, string)
            string = ''
            yield index, kind, value
        if string:
            yield from string_tokens(start, string)


def cuda_tokens(start, source):
    "Yield the C++ tokens of a source that begins at index `start` of the cell"
    return ((start + index, kind, value) for index, kind, value in CudaLexer().get_tokens_unprocessed(source))


def string_tokens(start, string):
    "Yield the tokens of a Python string: its quotes, and C++ tokens in between if it is CUDA C"
    match = TRIPLE_QUOTED.match(string)
    if not (match and CUDA.search(match[2]) and not PYTHON_OR_PROSE.search(match[2])):
        yield start, String, string
    else:
        opening, source, closing = match.groups()
        yield start, String, opening
        yield from cuda_tokens(start + len(opening), source)
        yield start + len(opening) + len(source), String, closing
