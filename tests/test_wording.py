"""Tests that assert the wording of messages, counted: a message that is rewritten must not break tests.

A test asserts the kind, the code and the fields of a finding (`tests/found.py`), and of another error its type, its
code, or the names and values in it. Counted is each test that expects three English words in a row, in an assertion,
in `match=`, in its parameters, or through a function of its file that asserts. `python tests/test_wording.py` prints
the count per file, with a part of a file's name the lines, and with `--lower` writes the ceiling once it has fallen.
"""
import ast, re, sys
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parent

CEILING = 80  # of all files together

REGEX = re.compile(r'\(\?[a-z:]*|\.[*+?]+|\\[nbdwsS][+*?]?|\\|[()|^$]')  # what a pattern has between its words
QUOTED = re.compile(r'''`[^`]*`|'[^' ]*'|"[^" ]*"|\{[^}]*\}|\w+\\?\([^()]*\)''')
WORD = re.compile(r"""["'(\[]*(?:[A-Za-z][a-z']+|[aI]|[a-z]+-[a-z-]+)["')\],.:;?!]*""")
VALUE = re.compile(r"""["'(\[]*(?:[-+.,\dx%]*|[a-z])["')\],.:;?!]*""")
CODE = re.compile(r'(?m);\s*$|[;{]\s*\}|^\s*(?:def|import|from|while|class|if|@\w+|#\w+)\b|\w+\(.*\) *[{;]')
SEARCHES = 'search', 'match', 'fullmatch', 'findall', 'startswith', 'endswith', 'count'


def is_wording(text):
    "Does a text have three English words in a row? Values in between do not count, code ends the row"
    words = 0
    for token in [] if CODE.search(text) else REGEX.sub(' ', QUOTED.sub(' 0 ', text.replace('\\.', '.'))).split():
        if WORD.fullmatch(token): words += 1
        elif not VALUE.fullmatch(token): words = 0
        if words == 3: return True
    return False


def is_text(node): return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_match(node): return isinstance(node, ast.keyword) and node.arg == 'match'


def name_of(call): return getattr(call.func, 'id', getattr(call.func, 'attr', ''))


def is_search(node): return isinstance(node, ast.Call) and name_of(node) in SEARCHES


@cache
def within(function): return list(ast.walk(function))


def expectations(function):
    "The expressions that a function compares with, searches for or matches"
    for n in within(function):
        if is_match(n): yield n.value
        elif isinstance(n, ast.Assert):
            for o in ast.walk(n.test):
                if isinstance(o, ast.Compare): yield from (o.left, *o.comparators)
                elif isinstance(o, ast.comprehension): yield o.iter
                elif is_search(o): yield from o.args


def without_calls(node):
    "The nodes of an expression, without the arguments of its calls: these are inputs"
    if isinstance(node, ast.Call): return
    yield node
    for o in ast.iter_child_nodes(node): yield from without_calls(o)


def values(table):
    "The nodes of a table, without the keys of dictionaries: these are names of cases"
    yield table
    for o in table.values if isinstance(table, ast.Dict) else ast.iter_child_nodes(table): yield from values(o)


@cache
def expected(function): return [n for o in expectations(function) for n in without_calls(o)]


def parameters(function): return [o.arg for o in function.args.args]


def columns(names):
    "{parameter: column} of a `parametrize`; None for the only one"
    names = re.findall(r'\w+', names.value) if is_text(names) else [o.value for o in names.elts]
    return {o: None if len(names) == 1 else i for i, o in enumerate(names)}


def in_column(row, i):
    cells = getattr(row, 'elts', None) or getattr(row, 'args', [])
    return row if i is None or not cells else cells[i] if i < len(cells) else row


class File:
    "The functions of a file, and its tables"

    def __init__(self, tree):
        self.functions = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        self.tables = {t.id: n.value for n in tree.body if isinstance(n, ast.Assign)
                       for t in n.targets if isinstance(t, ast.Name)}

    def rows(self, node):
        "The rows of a table: written there, named, or the items of a dictionary; else the expression alone"
        if isinstance(node, ast.Call) and name_of(node) == 'items': node = node.func.value
        node = self.tables.get(getattr(node, 'id', ''), node)
        if isinstance(node, ast.Dict): return [ast.Tuple([k, v]) for k, v in zip(node.keys, node.values) if k]
        return getattr(node, 'elts', [node])

    @cache
    def parameters_expected(self, name):
        "The parameters of a function that it expects to find"
        f = self.functions[name]
        return {n.id for n in expected(f) if isinstance(n, ast.Name)} & set(parameters(f))

    def nodes(self, function):
        "What a test expects: in its assertions, its parameters, and in what it passes on to functions that assert"
        yield from expected(function)
        wanted = self.parameters_expected(function.name)
        for o in function.decorator_list:
            if isinstance(o, ast.Call) and name_of(o) == 'parametrize':
                names = columns(o.args[0])
                for row in self.rows(o.args[1]):
                    yield from (n for p in wanted & set(names) for n in ast.walk(in_column(row, names[p])))
        for call in (n for n in within(function) if isinstance(n, ast.Call) and name_of(n) in self.functions):
            yield from self.passed(call)

    def passed(self, call):
        "What a call passes on as parameters that are expected"
        names = parameters(self.functions[name_of(call)])
        given = [*zip(names, call.args), *((o.arg, o.value) for o in call.keywords)]
        wanted = self.parameters_expected(name_of(call))
        return (n for name, value in given if name in wanted for n in ast.walk(value))

    def texts(self, function):
        for n in self.nodes(function):
            table = self.tables.get(getattr(n, 'id', ''))
            yield from filter(is_text, [n] if table is None else values(table))

    def inputs(self, function, texts):
        "The other strings of a test and of the tables that it names, which are not our wording"
        nodes = within(function)
        named = {n.id for n in nodes if isinstance(n, ast.Name)} & set(self.tables)
        tables = [o for name in named for o in within(self.tables[name])]
        return [n.value for n in (*nodes, *tables) if is_text(n) and n not in texts]

    def asserted(self, function):
        "[(line, text)] of the wording that a test asserts"
        texts = list(self.texts(function))
        found = sorted({(n.lineno, n.value) for n in texts if is_wording(n.value)})
        given = self.inputs(function, texts) if found else ()
        return [(line, text) for line, text in found if not any(text in o for o in given)]

    def wording(self):
        "{test: [(line, text)]}"
        return {name: found for name, f in self.functions.items() if (found := self.asserted(f))}


@cache
def counts():
    "{file: its tests that assert wording}"
    files = {str(p.relative_to(TESTS)): p.read_text(encoding='utf-8') for p in sorted(TESTS.rglob('*.py'))}
    return {name: found for name, text in files.items() if (found := File(ast.parse(text)).wording())}


def total(): return sum(len(o) for o in counts().values())


def per_file(): return '\n'.join(f'{len(o):4} {name}' for name, o in sorted(counts().items(), key=lambda o: -len(o[1])))


def test_tests_assert_less_and_less_wording():
    assert total() <= CEILING, f'{total()} tests assert wording, {CEILING} allowed:\n{per_file()}'
    assert total() >= CEILING - 5, 'lower the ceiling: python tests/test_wording.py --lower'


def wording(text): return list(File(ast.parse(text)).wording())


def test_what_is_wording():
    for text in ('index 7 is out of bounds', 'x is a .* list', "no such parameter 'c'", 'there (are|were) none'):
        assert is_wording(text), text
    for text in ('x[3] is 4', 'int add(int, int)', 'return f(a);', 'import torch', 'k.cu, line 2', 'run `a b c d`'):
        assert not is_wording(text), text


def test_where_wording_is_found():
    assert wording('def test_a():\n    with raises(E, match="it is not so"): f()') == ['test_a']
    assert wording('def test_a():\n    assert all(o in f() for o in ("one", "it is not so"))') == ['test_a']
    assert wording('T = {"a": "it is not so"}\n@parametrize("a, b", T.items())\n'
                   'def test_a(a, b): assert b in f(a)') == ['test_a']
    assert wording('def says(a, b): assert b in f(a)\ndef test_a(): says(1, "it is not so")') == ['test_a']
    assert not wording('T = {"it is not so": 1}\n@parametrize("a, b", T.items())\n'
                       'def test_a(a, b): assert b in f(a), "it is not so"')
    assert not wording('def test_a(): assert f("it is not so") == 3')
    assert not wording('def test_a(): assert "it is not so" in f("error: it is not so")')


def lines(part):
    return [f'tests/{name}:{line}: {test}: {text!r}' for name, found in counts().items() if part in name
            for test, o in found.items() for line, text in o]


def lower():
    path = Path(__file__)
    text = re.sub(r'(?m)^CEILING = \d+', f'CEILING = {min(CEILING, total())}', path.read_text(encoding='utf-8'))
    path.write_text(text, encoding='utf-8')


def main(part=''):
    if part == '--lower': lower()
    elif part: return print(*lines(part), sep='\n')
    print(per_file(), f'{total():4} in all, {CEILING} allowed', sep='\n')


if __name__ == '__main__': main(*sys.argv[1:])
