"Colours of pictures and plots stay apart for readers who see fewer colours, and text on them can be read."
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from gridstride import draw
from gridstride.kernels.ladder import pictures
from gridstride.support import plots

# Machado, Oliveira and Fernandes (2009), severity 1, for linear RGB
VISION = {
    'normal': np.eye(3),
    'deuteranopia': [[.367322, .860646, -.227968], [.280085, .672501, .047413], [-.011820, .042940, .968881]],
    'protanopia': [[.152286, 1.052583, -.204868], [.114503, .786281, .099216], [-.003882, -.048116, 1.051998]],
    'tritanopia': [[1.255528, -.076749, -.178779], [-.078411, .930809, .147602], [.004733, .691367, .303900]],
}
XYZ = np.array([[.4124, .3576, .1805], [.2126, .7152, .0722], [.0193, .1192, .9505]])  # of linear sRGB
WHITE = XYZ.sum(1)
# colours, and how far apart any two are
DARK_PLOTS = [plots._DARK_OF_COLOR.get(o, o) for o in plots.COLORS]
PALETTES = {'draw': (draw.PALETTE, 12), 'dark': (draw._DARK_PALETTE, 12), 'plots': (plots.COLORS, 16),
            'dark plots': (DARK_PLOTS, 16)}


def linear(color):
    "Linear RGB of '#rrggbb'"
    c = np.array([int(color[i:i+2], 16) for i in (1, 3, 5)])/255
    return np.where(c <= .04045, c/12.92, ((c + .055)/1.055)**2.4)


def lab(rgb):
    "CIELAB of linear RGB: lightness from 0 to 100, and two coordinates of colour"
    f = XYZ@np.clip(rgb, 0, 1)/WHITE
    f = np.where(f > .008856, np.cbrt(f), 7.787*f + 16/116)
    return np.array([116*f[1] - 16, 500*(f[0] - f[1]), 200*(f[1] - f[2])])


def distance(a, b, vision='normal'):
    "How far apart two colours are, in CIELAB: 2.3 can just be seen"
    return float(np.linalg.norm(lab(VISION[vision]@linear(a)) - lab(VISION[vision]@linear(b))))


def contrast(a, b):
    "The contrast of WCAG 2, from 1 to 21"
    low, high = sorted(float(XYZ[1]@linear(o)) for o in (a, b))
    return (high + .05)/(low + .05)


def test_what_is_measured():
    assert lab(linear('#ffffff')) == pytest.approx([100, 0, 0], abs=.01)
    assert distance('#ff0000', '#000000') == pytest.approx(117.3, abs=.5)
    assert distance('#d00000', '#008000') > 90 > 45 > distance('#d00000', '#008000', 'deuteranopia')
    assert contrast('#ffffff', '#000000') == 21


@pytest.mark.parametrize('vision', VISION)
@pytest.mark.parametrize('name', PALETTES)
def test_any_two_colours_are_apart(name, vision):
    colors, bound = PALETTES[name]
    near = {(a, b): d for a, b in combinations(colors, 2) if (d := distance(a, b, vision)) < bound}
    assert len(colors) >= 7 and not near


def test_text_on_each_colour_can_be_read():
    light = [*draw.PALETTE, draw.BACKGROUND, draw.EMPTY, draw.GREY]
    assert all(contrast(draw.INK, c) >= 7 for c in light)
    dark = draw._DARK_OF_COLOR
    assert all(contrast(dark[draw.INK], dark[c]) >= 6 for c in light)


def test_a_dark_plot_has_the_colours_of_a_dark_picture_and_its_lines_can_be_seen():
    dark = {**plots._DARK_OF_COLOR, **plots._DARK_OF_BACKGROUND}
    assert all(dark[o] == draw._DARK_OF_COLOR[o] for o in (draw.INK, draw.BACKGROUND, draw.EMPTY))
    assert all(contrast(o, dark[plots.BACKGROUND]) >= 4 for o in DARK_PLOTS)


def test_block_warp_and_thread_differ_in_lightness():
    "Without colours, as on paper"
    light = [lab(linear(c))[0] for c in (pictures._BLOCK_COLOR, pictures._WARP_COLOR, pictures._THREAD_COLOR)]
    assert min(abs(a - b) for a, b in combinations(light, 2)) > 12


# The theme's grounds of a page and of code and solutions, in the light and the dark theme of the site
GROUNDS = {'light': ('#ffffff', '#f3f4f5'), 'dark': ('#121212', '#14181e', '#29313d')}


@pytest.mark.parametrize('theme', GROUNDS)
def test_links_and_listings_of_the_site_can_be_read(theme):
    css = (Path(__file__).resolve().parents[1]/'site/_static/site.css').read_text(encoding='utf-8')
    rules = re.findall(rf"html\[data-theme='{theme}'\] ([^{{]*)\{{([^}}]*)\}}", css)
    colors = {c for on, rule in rules if 'run-here' not in on and 'first' not in on
              for c in re.findall(r'(?<!background: )#[0-9a-f]{6}', rule)}
    assert len(colors) > 5
    assert not {(c, ground) for c in colors for ground in GROUNDS[theme] if contrast(c, ground) < 4.5}
