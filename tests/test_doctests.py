"The examples in the docstrings of the package"
import doctest, re
from importlib import import_module
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1]/'gridstride'


def with_examples():
    "The modules with an example in a docstring, by their names"
    files = (p for p in sorted(PACKAGE.rglob('*.py')) if not {'cheats', 'honest'} & set(p.parts))
    found = [p.relative_to(PACKAGE.parent).with_suffix('') for p in files
             if re.search(r'\n +>>> ', p.read_text(encoding='utf-8'))]
    return ['.'.join(p.parts).removesuffix('.__init__') for p in found]


@pytest.mark.parametrize('name', with_examples())
def test_examples_print_what_the_docstrings_say(name, monkeypatch):
    monkeypatch.setattr('gridstride.course.grading._solved_here', set())  # as in a new notebook
    failed, tried = doctest.testmod(import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert tried and not failed


def test_examples_are_found_and_a_wrong_one_fails():
    assert 'gridstride.diagnostics.settings' in with_examples()
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, 'wrong', None, 0)
    assert doctest.DocTestRunner(verbose=False).run(wrong, out=lambda text: None).failed == 1
