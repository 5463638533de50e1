"""The words that the course avoids, counted; the glossary has those of the field.

Each row of WORDS is a pattern, what to write instead, and the highest count allowed per area. A text that brings in an
avoided word fails here, and so does a row whose ceiling is more than a little above its count: cleaning lowers it.
`python tests/test_language.py` prints all counts, with an area and the number of a row their lines, and with `--lower`
writes the ceilings of what became fewer.
"""
import json, re, sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def all_of(pattern): return [p for p in sorted(ROOT.glob(pattern)) if not {'_cache', '_build'} & set(p.parts)]


def code(*suffixes): return [p for o in suffixes for p in all_of(f'gridstride/**/*.{o}') if p.name != '_modidx.py']


AREAS = {  # name -> the files that a person reads there
    'python': lambda: code('py'),
    'cpp': lambda: code('cu', 'cuh', 'h', 'cpp'),
    'texts': lambda: all_of('*.md') + all_of('gridstride/**/*.md') + all_of('course.py') + all_of('.ci/*'),
    'site': lambda: [p for o in ('md', 'py', 'js', 'html', 'ipynb') for p in all_of(f'site/**/*.{o}')],
    'benchmarks': lambda: all_of('benchmarks/*.py') + all_of('benchmarks/*.md') + all_of('benchmarks/*.txt'),
    'tests': lambda: [p for p in all_of('tests/**/*.py') if p.name != 'test_language.py'],  # which has these words
    'lessons': lambda: all_of('nbs/*.ipynb') + all_of('nbs/*/*.ipynb'),
}

# What is avoided, what to write instead, and how often it may still occur. A pattern meets lowercase text in which an
# underscore is a space: it counts in identifiers, too. What a lookaround lets pass is ordinary English.
WORDS = [
    (r'whole numbers?',
     'integer',
     dict(tests=5, lessons=3)),
    (r'(?:mend|mends|mended|mending)',
     'fix, hint',
     dict()),
    (r'told(?! apart)',
     'reported, signalled, printed; say which',
     dict(tests=3)),
    (r'tells?(?! apart)',
     'reports, signals, prints; say which',
     dict(tests=2, lessons=2)),
    (r'hears?|heard',
     'acquires',
     dict()),
    (r'for ?ever',
     'deadlock, livelock; timed out',
     dict(site=1, tests=3)),
    (r'in vain',
     'timed out waiting for',
     dict()),
    (r'nobody|somebody|anybody|everybody|whoever',
     'name the subject: no thread, another thread, a reader who',
     dict(tests=9)),
    (r'kin',
     'name them, or: or another',
     dict()),
    (r'guilt|guilty|blames?|blamed',
     'root cause; raise, report',
     dict()),
    (r'(?<!the )rests?',
     'remainder',
     dict(tests=43, lessons=7)),
    (r'behind',
     'after, past the end, in the background',
     dict(tests=6, lessons=3)),
    (r'beside',
     'compared with, next to',
     dict(tests=7, lessons=17)),
    (r'anew',
     'again',
     dict()),
    (r'(?:is|are|was|were) over(?=[.,;:)\n]| and | when )',
     'has finished, has ended',
     dict(tests=1)),
    (r'under way|on (?:its|their|your) way',
     'in flight, outstanding',
     dict()),
    (r'ways? back',
     'backward pass',
     dict()),
    (r'on (?:one|both|all|each|every|another) ways?',
     'on one path',
     dict()),
    (r'slopes?',
     'gradient',
     dict(python=3, tests=53, lessons=25)),
    (r'(?<!take )(?<!takes )(?<!taking )(?<!took )turns?(?! (?:\w+ ){0,5}into| out| off| on\b| grey)',
     'iteration; interleaved; transpose; rotate',
     dict(python=1, tests=98, lessons=37)),
    (r'turned(?! (?:\w+ ){0,5}into| out| off| on\b| grey)',
     'transposed, swapped',
     dict(python=1, tests=69, lessons=12)),
    (r'(?<!in )(?<!in-)(?<!take )(?<!takes )(?<!decimal )places?',
     'index, address, location, position',
     dict(python=23, benchmarks=3, tests=110, lessons=60)),
    (r'lies|lie',
     'is stored at, is at',
     dict(tests=6, lessons=2)),
    (r'(?:stands?|stood)(?! for| alone| still|-in)',
     'is written, is, appears',
     dict(tests=3, lessons=4)),
    (r'(?:is|are|was|were|lies?) outside',
     'is out of bounds, is out of range',
     dict(lessons=1)),
    (r'(?:in|out)side of',
     'inside, outside',
     dict(tests=4)),
    (r'with nothing between',
     'with no barrier in between',
     dict()),
    (r'(?<!there )(?:is|are|was|were) no(?= )(?! longer| more| less| need)',
     'is not a',
     dict(benchmarks=1, tests=13, lessons=7)),
    (r'also where|where a gpu is',
     'even if; on a machine with a GPU',
     dict(lessons=1)),
    (r'(?:the|an) own|own ones?',
     'its own',
     dict(tests=2)),
    (r'texts of|steps? of writing',
     'sequences; decode step',
     dict()),
    (r'speed of (?:the )?(?:memory|a copy)',
     'DRAM bandwidth, copy bandwidth',
     dict()),
    (r'bound by',
     'memory-bound, compute-bound, limited by',
     dict()),
    (r'operations (?:a|for a|for each) byte',
     'FLOP/byte',
     dict()),
    (r'(?:takes?|keeps?|makes?|made|of|the|a|its|their|these|in|into|third|equal) shares?|shares (?:of|are)',
     'probabilities; fraction; partial sums',
     dict(lessons=4)),
    (r'numbers',
     'elements, values; indices',
     dict(python=77, cpp=2, texts=2, benchmarks=1, tests=88, lessons=36, site=2)),  # CodeMirror's lineNumbers
    (r'for each(?! other)',
     'per, if it is a rate',
     dict(python=5, cpp=5, benchmarks=2, tests=17, lessons=31)),
    (r'rooms?',
     'package, module; workspace; shared memory',
     dict(tests=49, lessons=20)),
    (r'wants',
     'needs, expects',
     dict(tests=8, lessons=4)),
    (r'rungs?',
     'version, step',
     dict(python=309, benchmarks=12, tests=173, lessons=5)),
    (r'leaves? (?:it|this|that|the result) open',
     'undefined behaviour',
     dict()),
    (r'looks? on(?! it)',
     'checks are enabled',
     dict()),
    (r'doubts?',
     'warnings',
     dict(tests=1)),
    (r'the tool',
     'name the function',
     dict(tests=3, lessons=2)),
    (r'(?:cost|time) of asking|asks? for a kernel',
     'launch overhead; launches a kernel',
     dict()),
    (r'copies by themselves',
     'asynchronous copies',
     dict()),
    (r'row after row',
     'row-major, contiguous',
     dict(lessons=1)),
    (r'heads? of (?!\d[\d,]* (?:tokens|keys|x))\d+',
     'head dimension 64',
     dict()),
    (r'orders (?:a|the|its) box',
     'issues a TMA load',
     dict()),
    (r'(?:is|are) asked (?:for|of|whether)',
     'is requested; name who needs what',
     dict(tests=1)),
    (r'says? so',
     'reports it; say what',
     dict(tests=1, lessons=1)),
    (r'times as (?:fast|long|much)',
     'speedup; 2.5x faster',
     dict(benchmarks=1, lessons=17)),
    (r'parts? in a hundred',
     '1%',
     dict()),
    (r'(?:(?<=[.;] )|(?<=\n))of (?:these|those|which|whose|them)',
     'begin with the subject',
     dict(lessons=1)),
    (r'(?:(?<=[.;:] )|(?<=\n))who (?:has|\w+s)(?=[^.?\n]*\.)',
     'a thread that, a reader who',
     dict(tests=1)),
]
LADDERS = '16', '24', '25'                               # the lessons whose versions are rungs
ALONE = r'(?<![a-z])(?:%s)(?![a-z])'
ANY = re.compile(ALONE % '|'.join(pattern for pattern, *_ in WORDS))  # no groups: with them a search takes 5x longer
EACH = [re.compile(ALONE % pattern) for pattern, *_ in WORDS]


HUMP = re.compile(r'(?<=[a-z])(?=[A-Z])')  # within aName


def little(ceiling): return max(2, ceiling//10)


def plain(text):
    "Lowercase, and the words of identifiers apart"
    return HUMP.sub(' ', text.replace('_', ' ')).lower()


def cells(path):
    """The Markdown and code of a notebook; what its cells print is made by code that is counted elsewhere, as is what a
    lesson repeats from the one before"""
    texts = (''.join(c['source']) for c in json.loads(path.read_text(encoding='utf-8'))['cells'])
    return '\n'.join(t for t in texts if not t.startswith('%%capture'))


def text_of(path):
    "What of a file is counted, in lowercase; of a table that a run printed, its first three lines"
    text = cells(path) if path.suffix == '.ipynb' else path.read_text(encoding='utf-8')
    if path.suffix == '.txt': text = '\n'.join(text.splitlines()[:3])
    return plain(text)


def which(found):
    "The number of the row that made a match of ANY"
    return next(i for i, o in enumerate(EACH) if (m := o.match(found.string, found.start())) and m[0] == found[0])


@cache
def hits():
    "{(number of a word, area): [(file, position, text)]}"
    found = defaultdict(list)
    known = {}  # the words of a row are no other row's
    for area, files in AREAS.items():
        for path in files():
            text = text_of(path)
            for m in ANY.finditer(text):
                if m[0].startswith('rung') and area == 'lessons' and path.name.startswith(LADDERS): continue
                if m[0] not in known: known[m[0]] = which(m)
                found[known[m[0]], area].append((path, m.start(), text))
    return found


def newest_first(found): return sorted(found, key=lambda hit: -hit[0].stat().st_mtime)


def at_lines(found):
    "`file:line: the line` of each hit; for a notebook the line is counted in its cells one after the other"
    for path, at, text in found:
        yield f'{path.relative_to(ROOT)}:{text.count(chr(10), 0, at) + 1}: {line_at(text, at).strip()[:140]}'


def line_at(text, at):
    end = text.find('\n', at)
    return text[text.rfind('\n', 0, at) + 1:end if end >= 0 else None]


def too_many(number, area, show=20):
    "What a row says that has more hits than it allows, those of the files that were edited last first"
    (pattern, write, most), found = WORDS[number], hits()[number, area]
    some = '\n  '.join(at_lines(newest_first(found)[:show]))
    left = f'\n  ... all {len(found)}: python tests/test_language.py {area} {number}' if len(found) > show else ''
    return f'{pattern}: {len(found)} times, {most.get(area, 0)} allowed. Write: {write}\n  {some}{left}'


@pytest.mark.parametrize('area', AREAS)
def test_avoided_words_become_fewer(area):
    wrong = []
    for i, (pattern, _, most) in enumerate(WORDS):
        n, ceiling = len(hits()[i, area]), most.get(area, 0)
        if n > ceiling: wrong.append(too_many(i, area))
        elif n < ceiling - little(ceiling):
            wrong.append(f'{pattern}: {n} times, {ceiling} allowed. Lower it to {area}={n}: '
                         'python tests/test_language.py --lower')
    assert not wrong, '\n'.join(wrong)


def test_each_word_is_met():
    for text, write in (('a whole number', 'integer'), ('what_mends it', 'fix, hint'), ('In vain', 'timed out'),
                        ('x[5] is outside', 'is out of bounds'), ('take_shares', 'probabilities'),
                        ('_SummedSlopes', 'gradient')):
        found = ANY.search(plain(text))
        assert found and WORDS[which(found)][1].startswith(write)
    for text in ('take turns', 'turns into', 'the rest of the file', 'there is no barrier', 'a recommendation'):
        assert not ANY.search(text)


def test_ceilings_are_lowered_and_never_raised():
    rows = [('thrice', 'three times', dict(python=9, cpp=1))]
    text = "(r'thrice',\n     'three times',\n     dict(python=9, cpp=1)),"
    assert lowered(text, {'python': [12], 'cpp': [0]}, rows) == text.replace(', cpp=1', '')
    assert lowered(text, {'python': [4], 'cpp': [1]}, rows) == text.replace('9', '4')


def glossary():
    "(term, what it means, [lessons]) of each row"
    text = (ROOT/'GLOSSARY.md').read_text(encoding='utf-8')
    rows = re.findall(r'^\| (?!term \||---)(.*?) \| (.*) \| (.*) \|$', text, re.M)
    return [(term, means,
             re.findall(r'\[(\d\d)\]\((nbs/(\d\d)[a-z]?_\w+\.ipynb)\)', links)) for term, means, links in rows]


def test_the_glossary_leads_to_lessons():
    rows = glossary()
    assert len(rows) > 100
    terms = [term.lower() for term, *_ in rows]
    assert terms == sorted(set(terms))
    for term, means, links in rows:
        assert links and all(shown == number and (ROOT/file).exists() for shown, file, number in links), term
        assert len(means.split()) > 3 and not means.endswith('.'), term


# The command

def counts(): return {area: [len(hits()[i, area]) for i in range(len(WORDS))] for area in AREAS}


def lowered(text, now, words=WORDS):
    "This file's text with the counts that have fallen; `now` has them by area"
    for i, (pattern, _, most) in enumerate(words):
        left = {a: min(n, now[a][i]) for a, n in most.items() if min(n, now[a][i])}
        row = ', '.join(f'{a}={n}' for a, n in left.items())
        head = re.escape(f"(r'{pattern}',")
        text = re.sub(rf"({head}[^()]*?'[^']*',\s+)dict\([^()]*\)", lambda m: f'{m[1]}dict({row})', text)
    return text


def main(*args):
    now, path = counts(), Path(__file__)
    if len(args) == 2: return print(*at_lines(newest_first(hits()[int(args[1]), args[0]])), sep='\n')
    if args == ('--lower',): path.write_text(lowered(path.read_text(encoding='utf-8'), now), encoding='utf-8')
    print(f'{"":43}' + ''.join(f'{a:>11}' for a in AREAS))
    for i, (pattern, *_) in enumerate(WORDS):
        print(f'{i:2} {pattern[:39]:40}' + ''.join(f'{now[a][i]:11}' for a in AREAS))


if __name__ == '__main__': main(*sys.argv[1:])
