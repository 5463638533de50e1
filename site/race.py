"""Draws `images/race.svg`, the animation in the README and on the home page: python3 site/race.py. With `--card`, it
also draws `_static/card.png`, the preview image of links to the site (needs playwright and Chromium).

The animation shows a program with a data race, its launch, and the finding with both accesses. This script runs the
program, and takes the text and the accesses from the exception.
"""

import runpy, shutil, sys, tempfile, textwrap
from html import escape
from pathlib import Path

from gridstride.diagnostics.errors import RacecheckError
from pygments import token
from pygments.lexers import PythonLexer

PICTURE = Path(__file__).resolve().parents[1] / 'images/race.svg'
THREADS = 64
PROGRAM = f"""\
import numpy as np
from gridstride import sim

@sim.cuda.jit
def reverse(x, out):
    s = sim.cuda.shared.array({THREADS}, np.float32)
    t = sim.cuda.threadIdx.x
    s[t] = x[t]
    out[t] = s[{THREADS - 1}-t]

reverse[1, {THREADS}](np.random.randn({THREADS}), np.zeros({THREADS}))
"""


def finding(program=PROGRAM):
    "Run the program and return the finding that it raises"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'reverse.py'
        path.write_text(program, encoding='utf-8')
        try:
            runpy.run_path(str(path))
        except RacecheckError as error:
            return error
    raise AssertionError('the program has a data race, but its launch raised nothing')


# The card is dark and opaque: it looks the same on a light and on a dark page.
CARD, BAR, TEXT, MUTED, READ, WRITE = '#14181d', '#2a323b', '#e8edf2', '#a9b5c1', '#ff9c8f', '#ffce73'
COLORS = {token.Keyword: '#8fc7ff', token.Name.Decorator: '#8fc7ff', token.Literal: '#c9b8ff'}
WIDTH, PAD, LINE, COLUMNS = 560, 18, 20, 60  # all in pixels, except COLUMNS, the characters of a line of text
FONT = 'ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace'
SECONDS, REPETITIONS = 15, 2  # duration of the animation, and number of repetitions; then the last frame stays


def keep_indentation(line):
    "Replace the indentation of a line by no-break spaces, which SVG keeps"
    return '\xa0' * (len(line) - len(line.lstrip())) + line.lstrip()


def text(x, y, svg, fill=TEXT, size=14, anchor='start'):
    return f'<text x="{x:g}" y="{y:g}" fill="{fill}" font-size="{size}" text-anchor="{anchor}">{svg}</text>'


def rect(x, y, w, h, fill):
    return f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="2" fill="{fill}"/>'


def arrow(x, y, to_x, to_y, color):
    return (
        f'<path d="M{x:g} {y:g}L{to_x:g} {to_y:g}" stroke="{color}" stroke-width="2"/>'
        f'<circle cx="{to_x:g}" cy="{to_y:g}" r="3.5" fill="{color}"/>'
    )


def color_tokens(line):
    "Return a line of Python as SVG, with a colour per token"
    parts = []
    for kind, token_text in PythonLexer(stripnl=False, ensurenl=False).get_tokens(keep_indentation(line)):
        fill = next((color for token_type, color in COLORS.items() if kind in token_type), TEXT)
        parts.append(f'<tspan fill="{fill}">{escape(token_text)}</tspan>')
    return ''.join(parts)


def wrap_message(message):
    "Wrap the lines of a message; continuation lines are indented"
    for line in message.splitlines():
        indent = line[: len(line) - len(line.lstrip())] + '  '
        yield from textwrap.wrap(line, COLUMNS, subsequent_indent=indent, break_on_hyphens=False)


class Film:
    "Parts of an animation, each of which appears at its own second and stays"

    def __init__(self):
        self.parts, self.seconds = [], []

    def add(self, second, *svg):
        "Add SVG that appears at a second; at 0 it is visible from the start"
        if not second:
            self.parts.append(''.join(svg))
            return
        self.parts.append(f'<g class="at at{len(self.seconds)}">{"".join(svg)}</g>')
        self.seconds.append(100 * second / SECONDS)

    def style(self):
        "Return the CSS of the animation; with reduced motion, all parts are visible at once"
        rules = [f'.at{{animation:{SECONDS}s linear {REPETITIONS} both}}']
        for i, percent in enumerate(self.seconds):
            rules.append(f'.at{i}{{animation-name:k{i}}}')
            rules.append(f'@keyframes k{i}{{0%,{percent:.1f}%{{opacity:0}}{percent + 1.5:.1f}%,100%{{opacity:1}}}}')
        return '\n'.join([*rules, '@media (prefers-reduced-motion:reduce){.at{animation:none}}'])


def mark_line(film, second, line, top, color):
    "Mark a line of the program, with a bar to its left"
    film.add(second, rect(0, top + LINE * (line - 1) + 2, 4, LINE, color))


def draw_program(film, race_error, y):
    "Show the program line by line; then mark the two lines of the race"
    for i, line in enumerate(PROGRAM.splitlines()):
        baseline = y + LINE * (i + 1) - 3
        number = text(PAD + 18, baseline, i + 1, MUTED, 12, 'end')
        second = 0 if i < 3 else 0.25 * i + (0.8 if line.startswith('reverse[') else 0)
        film.add(second, number, text(PAD + 32, baseline, color_tokens(line)))
    mark_line(film, 4, race_error.other.line, y, WRITE)
    mark_line(film, 5, race_error.line, y, READ)
    return y + LINE * len(PROGRAM.splitlines())


def draw_accesses(film, race_error, y):
    "Draw the threads, the elements of the array, and two arrows for the two accesses"
    (element,), reader, writer = race_error.index, race_error.thread[0], race_error.other.thread[0]
    step, threads, elements = (WIDTH - 2 * PAD) / THREADS, y + 30, y + 66

    def x_of(i):
        return PAD + step * i

    def row(top, highlighted, color):
        return ''.join(
            rect(x_of(i), top, step - 2, 10, color if i in highlighted else '#5b6875') for i in range(THREADS)
        )

    film.add(3.2, text(PAD, y + 22, f'{THREADS} threads', MUTED, 13), row(threads, (), ''))
    film.add(3.2, text(PAD, elements + 26, f'{race_error.array}: {THREADS} elements', MUTED, 13), row(elements, (), ''))
    for second, thread, line, access, color, side in (
        (4, writer, race_error.other.line, race_error.fields['before'], WRITE, y + 22),
        (5, reader, race_error.line, race_error.fields['now'], READ, elements + 26),
    ):
        label = f'line {line}: {race_error.array}[{element}] is {access} by thread {thread}'
        start, end = x_of(thread) + step / 2 - 1, x_of(element) + step / 2 - 1
        film.add(
            second,
            rect(x_of(thread), threads, step - 2, 10, color),
            rect(x_of(element), elements, step - 2, 10, color),
            arrow(start, threads + 10, end, elements + 1, color),
            text(WIDTH - PAD, side, label, color, 13, 'end'),
        )
    return elements + 36


def draw_message(film, race_error, y):
    "Show the message line by line"
    lines = list(wrap_message(f'{type(race_error).__name__}: {race_error}'))
    for i, line in enumerate(lines):
        film.add(
            6.5 + 0.25 * i, text(PAD, y + LINE * (i + 1), escape(keep_indentation(line)), READ if i == 0 else TEXT)
        )
    return y + LINE * len(lines)


def draw():
    "Return the picture as SVG"
    race_error, film = finding(), Film()
    below_program = draw_program(film, race_error, 12)
    below_accesses = draw_accesses(film, race_error, below_program + 10)
    height = draw_message(film, race_error, below_accesses + 8) + PAD
    card = (
        rect(0, 0, WIDTH, height, CARD)
        + rect(0, below_program + 6, WIDTH, 1, BAR)
        + rect(0, below_accesses + 6, WIDTH, 1, BAR)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}"'
        f' font-family="{FONT}">\n<style>{film.style()}</style>\n{card}\n' + '\n'.join(film.parts) + '\n</svg>\n'
    )


CLAIM = "From a for loop to GPU kernels as fast as NVIDIA's libraries, in notebooks that need no GPU"
CARD_PAGE = """<style>body {{ margin: 0; display: flex; align-items: center; gap: 36px; padding: 0 36px; width: 1128px;
height: 630px; background: {background}; color: {text}; font: 34px/1.35 system-ui, sans-serif }}
h1 {{ font-size: 60px }}
svg {{ flex: none; width: 640px; height: auto }}</style><div><h1>gridstride</h1>{claim}</div>{svg}"""


def draw_card(path):
    "Draw the picture's last frame next to the name, 1200 by 630 pixels"
    from playwright.sync_api import sync_playwright

    page_source = CARD_PAGE.format(background='#0d1116', text=TEXT, claim=CLAIM, svg=draw())
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=shutil.which('chromium'), args=['--no-sandbox'])
        context = browser.new_context(viewport=dict(width=1200, height=630), reduced_motion='reduce')
        page = context.new_page()
        page.set_content(page_source)
        page.screenshot(path=path)
        browser.close()


if __name__ == '__main__':
    PICTURE.write_text(draw(), encoding='utf-8')
    if '--card' in sys.argv:
        draw_card(Path(__file__).parent / '_static/card.png')
