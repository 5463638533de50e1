"""Every SVG picture that is committed, in a real browser: on a narrow and a wide page, on a light
and a dark one, all its texts can be read."""
import io, json, re
from itertools import product
from urllib.parse import quote
from pathlib import Path

from browsers import chromium, needs_chromium
from gridstride import draw, utils
from gridstride.cpp.listings import show_source
from gridstride.support import plots

ROOT = Path(__file__).resolve().parents[1]
THEMES = dict(light='rgb(255, 255, 255)', dark='rgb(17, 17, 17)')
# Sizes do not depend on the theme, nor colours on the width.
PAGES = {800: ['light', 'dark'], 1280: ['dark']}
MARKED = '<body data-jp-theme-light="false">'  # as nbconvert --theme dark writes it
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
        if (!texts.length) return found;  // a plot, whose texts are paths
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


STYLE = re.compile('<style>.*?</style>', re.S)


def shown(pictures):
    """Return the body of a page with all pictures. It has only the last of equal style sheets, because each applies to
    the whole page, and only the frame of a picture without texts, because nothing else of it is tested"""
    text = ''.join(f'<div id="{name}">{svg if "<text" in svg else frame(svg)}</div>' for name, svg in pictures.items())
    last = {m[0]: m.start() for m in STYLE.finditer(text)}
    return STYLE.sub(lambda m: m[0] if last[m[0]] == m.start() else '', text)


def frame(svg): return ''.join([re.search('<svg[^>]*>', svg)[0], *STYLE.findall(svg), '</svg>'])


def looked_at(pictures):
    "What cannot be read, one sentence each: one browser, which shows all pictures at each width and in each theme"
    found = {}
    with chromium() as browser:
        page = browser.new_page()
        page.set_content(PAGE.format(shown(pictures)))
        for width, themes in PAGES.items():
            page.set_viewport_size(dict(width=width, height=900))
            for theme in themes:
                color = THEMES[theme]
                page.evaluate('o => Object.assign(document.body.style, o)', dict(background=color, colorScheme=theme))
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


def test_every_colour_of_a_picture_has_a_dark_one():
    "Except none and the mark of a thread"
    drawn = {name: svg for name, svg in pictures().items() if 'class="gridstride"' in svg and '<text' in svg}
    assert len(drawn) > 80
    used = {c for svg in drawn.values() for c in re.findall(r'(?:fill|stroke)="([^"]*)"', svg)}
    assert used - {*draw._DARK_OF_COLOR} <= {'none', '#d55e00'}


def a_picture(): return draw.Picture(draw.cells([['a']], color=[[0]]), caption='A cell.').svg


def a_plot():
    from matplotlib.figure import Figure
    with plots.styled():
        (figure := Figure(figsize=(2, 1))).subplots().plot([1, 2])
        return plots.themed_svg(figure)


def test_an_image_alone_has_no_background_and_a_title_keeps_one():
    import matplotlib.pyplot as plt
    for title, alpha in ((None, 0), ('words', None)):
        utils.show_img([[0, 1]], title=title)
        assert plt.gcf().patch.get_alpha() == alpha
        plt.close()


@needs_chromium
def test_a_picture_has_the_colour_scheme_of_the_page_that_shows_it():
    "As an image and as a part of the page; where nbconvert marks its page as dark, only as a part"
    from matplotlib.image import imread
    with chromium() as browser:
        page = browser.new_page()
        for svg in (a_picture(), a_plot()):
            image = f'<img style="display: block" src="data:image/svg+xml,{quote(svg)}">'
            for scheme, body, shown in product(('light', 'dark'), ('<body>', MARKED), (image, svg)):
                page.set_content(f'<!doctype html><html style="color-scheme: {scheme}">{body}{shown}')
                pixel = imread(io.BytesIO(page.locator('img, svg').first.screenshot()))[20, 3, :3]
                is_dark = scheme == 'dark' or (body == MARKED and shown == svg)
                want = draw._DARK_OF_COLOR[draw.BACKGROUND] if is_dark else draw.BACKGROUND
                assert '#' + ''.join(f'{round(255*v):02x}' for v in pixel) == want, (scheme, body, shown[:60])


@needs_chromium
def test_a_long_line_of_a_listing_is_whole_on_paper():
    style = (Path(__file__).resolve().parents[1]/'site/_static/site.css').read_text()
    listing = show_source('__global__ void k() { int x = ' + '1 + '*60 + '1; }')._repr_html_()
    with chromium() as browser:
        page = browser.new_page(viewport=dict(width=600, height=400))
        page.set_content(f'<style>{style}</style><div class="cell_output">{listing}</div>')
        for medium, cut_off in (('screen', True), ('print', False)):
            page.emulate_media(media=medium)
            assert page.evaluate('(o => o.scrollWidth > o.clientWidth)(document.querySelector("pre"))') == cut_off


def test_panels_that_are_too_wide_for_a_page_are_stacked():
    wide = draw.cells([range(12)], size=40)
    one, two = draw.Picture(wide, caption='words '*60), draw.Picture(wide, wide, caption='one')
    def size(p): return [int(o) for o in re.search(r'width="(\d+)" height="(\d+)"', p.svg).groups()]
    assert size(one)[0] <= draw.MAX_WIDTH and size(two)[0] == 12*40 + 32 and size(two)[1] > 2*40
    assert size(draw.Picture(draw.cells([range(40)], size=40), caption='one'))[0] == draw.MAX_WIDTH
