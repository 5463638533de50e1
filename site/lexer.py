"Highlights Python cells: CUDA C in a string, or below `%%cuda`, is highlighted as C++."

import re

from pygments.lexers import CudaLexer, PythonLexer
from pygments.token import String

CUDA = re.compile(r'__(global|device|shared|constant)__\s|^\s*#include|(thread|block)Idx\.[^`]*;', re.M)
OTHER = re.compile(r'^(import|from|def|with) |`', re.M)  # a Python program, or prose
BODY = re.compile(r'''\A(\w*(?:"""|\'\'\'))(.*)("""|\'\'\')\Z''', re.S)


class CudaInPython(PythonLexer):
    "Python whose strings with CUDA C are highlighted as such"

    name = 'Python with CUDA C'

    def get_tokens_unprocessed(self, text):
        "Yield the tokens; those of a long string of CUDA C are C++"
        if text.startswith('%%cuda'):
            first = text.find('\n') + 1 or len(text)
            yield 0, String.Affix, text[:first]
            yield from moved(first, text[first:])
            return
        string, start = '', 0
        for at, kind, value in super().get_tokens_unprocessed(text):
            if kind in String:
                if not string:
                    start = at
                string += value
                continue
            if string:
                yield from coloured(start, string)
            string = ''
            yield at, kind, value
        if string:
            yield from coloured(start, string)


def moved(start, source):
    "Yield the C++ tokens of a source that begins at `start`"
    return ((start + at, kind, value) for at, kind, value in CudaLexer().get_tokens_unprocessed(source))


def coloured(start, string):
    "Yield the tokens of a Python string, with its quotes"
    parts = BODY.match(string)
    if not (parts and CUDA.search(parts[2]) and not OTHER.search(parts[2])):
        yield start, String, string
    else:
        opens, source, closes = parts.groups()
        yield start, String, opens
        yield from moved(start + len(opens), source)
        yield start + len(opens) + len(source), String, closes
