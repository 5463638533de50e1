"""Every SVG picture that is committed, in a real browser: on a narrow and a wide page, on a light
and a dark one, all its texts can be read."""
import io, json, re
from urllib.parse import quote
from pathlib import Path

from browsers import chromium, needs_chromium

ROOT = Path(__file__).resolve().parents[1]
WIDTHS, THEMES = (800, 1280), dict(light='rgb(255, 255, 255)', dark='rgb(17, 17, 17)')
PAGE = '<!doctype html><body style="margin:0;font:14px sans-serif">{}</body>'

# What JupyterLab leaves next to the prompt of a cell, and what a text may cover or leave: a pixel,
# for the rounding of letters.
LOOK = '''([page, edge]) => {
    const rgb = s => (s.match(/[\\d.]+/g) || []).map(Number), light = c => {
        const [r, g, b] = c.slice(0, 3).map(v => v/255).map(v => v <= .04045 ? v/12.92 : ((v + .055)/1.055)**2.4);
        return .2126*r + .7152*g + .0722*b;
    }, contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((x, y) => y - x); return (x + .05)/(y + .05); };
    const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > edge
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2*edge;
    const outside = (a, b) => Math.max(b.left - a.left, a.right - b.right, b.top - a.top, a.bottom - b.bottom) > edge;
    return [...document.querySelectorAll('body > div')].flatMap(div => {
        const svg = div.querySelector('svg'), frame = svg.getBoundingClientRect();
        const found = [], say = s => found.push([div.id, s]);
        if (frame.right > innerWidth) say(`is ${Math.round(frame.width)} wide, on a page of ${innerWidth}`);
        const all = [...svg.querySelectorAll('*')].filter(o => o.getBBox && !o.closest('defs'));
        const texts = all.filter(o => o.tagName == 'text' && o.textContent.trim());
        const box = new Map(all.map(o => [o, o.getBoundingClientRect()])), place = new Map(all.map((o, i) => [o, i]));
        const fills = all.filter(o => ['rect', 'path', 'circle', 'polygon'].includes(o.tagName)
            && !['none', ''].includes(getComputedStyle(o).fill));
        texts.forEach((t, i) => {
            const b = box.get(t), cx = (b.left + b.right)/2, cy = (b.top + b.bottom)/2;
            const what = JSON.stringify(t.textContent);
            if (outside(b, frame)) say(`${what} leaves the picture`);
            const holds = f => f.left <= cx && cx <= f.right && f.top <= cy && cy <= f.bottom;
            const below = fills.filter(o => place.get(o) < place.get(t)).reverse().filter(o => holds(box.get(o)));
            const cell = below.find(o => o.tagName == 'rect');
            if (cell && outside(b, box.get(cell))) say(`${what} leaves its box`);
            const solid = below.find(o => getComputedStyle(o).fillOpacity == 1);
            const ground = rgb(solid ? getComputedStyle(solid).fill : page);
            const ratio = contrast(rgb(getComputedStyle(t).fill), ground);
            const size = parseFloat(getComputedStyle(t).fontSize)*frame.width/svg.viewBox.baseVal.width;
            if (size < 7) say(`${what} has letters of ${size.toFixed(1)} pixels`);
            if (ratio < 3) say(`${what} has a contrast of ${ratio.toFixed(1)}`);
            for (const o of texts.slice(i + 1))
                if (over(b, box.get(o))) say(`${what} and ${JSON.stringify(o.textContent)} cover each other`);
        });
        return found;
    });
}'''


def svgs(nb):
    "(number of the cell, SVG) of each picture in a notebook's outputs; those in HTML, too"
    for i, c in enumerate(nb['cells']):
        for data in (o['data'] for o in c.get('outputs', []) if 'data' in o):
            text = ''.join(data.get('image/svg+xml') or data.get('text/html') or '')
            while '<svg' in text:
                one, _, text = text[text.index('<svg'):].partition('</svg>')
                yield i, one + '</svg>'


def pictures(nbs=ROOT/'nbs'):
    "Name -> SVG, of all that is committed"
    found = {f'{p.stem}, cell {i}, {n}': svg for p in sorted(nbs.rglob('*.ipynb'))
             for n, (i, svg) in enumerate(svgs(json.loads(p.read_text(encoding='utf-8'))))}
    return {**found, **{p.name: p.read_text(encoding='utf-8') for p in sorted((ROOT/'images').glob('*.svg'))}}


def looked_at(pictures):
    "What cannot be read, one sentence each: one browser, which shows all pictures at each width and in each theme"
    found = {}
    with chromium() as browser:
        page = browser.new_page()
        page.set_content(PAGE.format(''.join(f'<div id="{name}">{svg}</div>' for name, svg in pictures.items())))
        for width in WIDTHS:
            page.set_viewport_size(dict(width=width, height=900))
            for theme, color in THEMES.items():
                page.emulate_media(color_scheme=theme)
                page.evaluate('color => document.body.style.background = color', color)
                for name, what in page.evaluate(LOOK, [color, 1]):
                    found.setdefault(f'{name}: {what}', []).append(f'{width} {theme}')
    return [f'{what} ({", ".join(where)})' for what, where in found.items()]


WRONG = {
    'too wide': '<svg width="900" height="40" viewBox="0 0 900 40"><text x="9" y="20">a</text></svg>',
    'cut off': '<svg width="60" height="40" viewBox="0 0 60 40"><rect width="60" height="40" fill="#fff"/><text x="9" '
               'y="20">a caption</text></svg>',
    'over the edge of its cell':
        '<svg width="200" height="40" viewBox="0 0 200 40"><rect width="200" height="40" fill="#fff"/><rect x="50" '
        'width="22" height="22" fill="#eee"/><text x="61" y="14" text-anchor="middle">1234</text></svg>',
    'on each other': '<svg width="200" height="40" viewBox="0 0 200 40"><rect width="200" height="40" '
                     'fill="#fff"/><text x="9" y="20">one</text><text x="19" y="22">two</text></svg>',
    'pale': '<svg width="200" height="40" viewBox="0 0 200 40"><rect width="200" height="40" fill="#fff"/><text x="9" '
            'y="20" fill="#aaa">one</text></svg>',
    'without a card':
        '<svg width="200" height="40" viewBox="0 0 200 40"><text x="9" y="20" fill="#1f2933">one</text></svg>',
    'shrunk': '<svg width="100" height="20" viewBox="0 0 200 40"><rect width="200" height="40" fill="#fff"/><text '
              'x="9" y="20" font-size="12">one</text></svg>',
}
SAID = {
    'too wide': 'is 900 wide, on a page of 800 (800 light, 800 dark)', 'cut off': '"a caption" leaves',
    'over the edge of its cell': '"1234" leaves its box', 'on each other': '"one" and "two" cover each other',
    'pale': '"one" has a contrast of 2.3', 'without a card': '"one" has a contrast of 1.3 (800 dark, 1280 dark)',
    'shrunk': '"one" has letters of 6.0 pixels'}


@needs_chromium
def test_every_picture_can_be_read():
    "One browser for all, and for some that cannot be read, or this would see nothing"
    every = pictures()
    assert len(every) > 40, 'the pictures of the lessons'
    found = looked_at({**every, **WRONG})
    for name, words in SAID.items():
        assert any(o.startswith(f'{name}: ') and words in o for o in found), f'{name} was not noticed'
    assert [o for o in found if o.partition(': ')[0] not in WRONG] == []


DARK = '@media (prefers-color-scheme: dark)', 'svg:root'


@needs_chromium
def test_every_picture_can_be_read_in_its_dark_colours():
    "As if each were an image in a dark page; every colour has a dark one, except none and the mark of a thread"
    from gridstride import draw
    drawn = {name: svg for name, svg in pictures().items() if DARK[0] in svg}
    assert len(drawn) > 80
    used = {(name, c) for name, svg in drawn.items() for c in re.findall(r'(?:fill|stroke)="([^"]*)"', svg)}
    assert {c for _, c in used} - {*draw._DARK_OF_COLOR} <= {'none', '#d55e00'}
    shown = {name: svg.replace(DARK[0], '@media all').replace(DARK[1], 'svg') for name, svg in drawn.items()}
    assert looked_at(shown) == []


@needs_chromium
def test_a_picture_follows_the_page_that_shows_it():
    from gridstride import draw
    from matplotlib.image import imread
    picture = draw.Picture(draw.cells([['a']], color=[[0]]), caption='A cell.')
    svg = picture._repr_mimebundle_()['image/svg+xml']
    image = f'<img style="display: block" src="data:image/svg+xml,{quote(svg)}">'
    with chromium() as browser:
        page = browser.new_page()
        for scheme, want in dict(light=draw.CARD, dark=draw._DARK_OF_COLOR[draw.CARD]).items():
            page.set_content(f'<!doctype html><html style="color-scheme: {scheme}">{image}')
            shown = imread(io.BytesIO(page.locator('img').screenshot()))[30, 4, :3]
            assert '#' + ''.join(f'{round(255*v):02x}' for v in shown) == want, scheme


def test_panels_that_are_too_wide_for_a_page_are_stacked():
    from gridstride.draw import MAX_WIDTH, Picture, cells
    wide = cells([range(12)], size=40)
    one, two = Picture(wide, caption='words '*60), Picture(wide, wide, caption='one')
    def size(p): return [int(o) for o in re.search(r'width="(\d+)" height="(\d+)"', p.svg).groups()]
    assert size(one)[0] <= MAX_WIDTH and size(two)[0] == 12*40 + 32 and size(two)[1] > 2*40
    assert size(Picture(cells([range(40)], size=40), caption='one'))[0] == MAX_WIDTH
