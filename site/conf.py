"Configures how Sphinx renders the pages that `pages.py` writes."

import functools, re, sys
from configparser import ConfigParser
from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from myst_nb import sphinx_, sphinx_ext
from pydata_sphinx_theme import toctree as theme_menus
from sphinx.highlighting import PygmentsBridge
from sphinx.search.en import SearchEnglish

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from lexer import CudaInPython

_settings = ConfigParser()
_settings.read(HERE.parent / 'settings.ini', encoding='utf-8')
project = _settings['DEFAULT']['name']
author = copyright = _settings['DEFAULT']['author']
release = _settings['DEFAULT']['version']

extensions = ['myst_nb', 'sphinx_copybutton']
myst_enable_extensions = ['dollarmath', 'attrs_inline', 'deflist', 'colon_fence']
myst_heading_anchors = 4
nb_execution_mode = 'off'
sphinx_ext.OUTPUT_FOLDER = '_cache/outputs'  # the default is `jupyter_execute` next to the site, and no option moves it
nb_code_prompt_show, nb_code_prompt_hide = 'Show the code', 'Hide the code'  # of cells with the tag hide-input
nb_ipywidgets_js = {}  # the default loads two scripts from a CDN
suppress_warnings = ['myst.header', 'mystnb.unknown_mime_type']
exclude_patterns = []

html_theme = 'sphinx_book_theme'
html_title = 'gridstride'
html_favicon = '_static/icon.svg'
html_static_path = ['_static']
templates_path = ['_templates']
html_sidebars = {'**': ['home-link.html', 'icon-links.html', 'search-button-field.html', 'sbt-sidebar-nav.html']}
html_css_files = ['site.css']
html_js_files = [('video.js', {'defer': 'defer'}), ('live.js', {'defer': 'defer'})]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = html_show_sphinx = False
html_math_renderer = 'mathml'
html_context = dict(default_mode='auto', fold_label='Its pages', **dict(_settings['DEFAULT']))
html_theme_options = dict(
    use_download_button=False,
    use_fullscreen_button=False,
    use_source_button=False,
    use_repository_button=True,
    repository_url=_settings['DEFAULT']['repository'],
    show_navbar_depth=1,
    show_toc_level=2,
    collapse_navbar=True,
    navigation_with_keys=True,
    home_page_in_toc=False,
    back_to_top_button=False,
    article_header_start=['toggle-primary-sidebar.html'],
    article_header_end=['theme-switcher.html', 'toggle-secondary-sidebar.html'],
    pygments_light_style='a11y-light',
    pygments_dark_style='a11y-dark',
)
copybutton_selector = 'div.input_area pre, div.highlight-bash pre, div.highlight-python pre, div.highlight-cuda pre'


def visit_math(self, node, display='inline'):
    "Write a formula as MathML, which browsers render without a script"
    tex = node.astext().replace(r'\textstyle', '').replace(r'\mathrel{+}=', '+=')
    self.body.append(tex2mathml(tex, as_block=display == 'block'))
    raise nodes.SkipNode


def visit_folded_code(self, node):
    "Write myst-nb's summary of folded code without its label, which screen readers would read instead of the text"
    start = len(self.body)
    sphinx_.visit_HideCellInput(self, node)
    self.body[start:] = [text.replace(' aria-label="Toggle hidden content"', '') for text in self.body[start:]]


_menus = {}  # (name of the function that draws it, page or folder, *its options) -> HTML


def draw_menu_once_per_folder(app, page, draw_menu):
    "Make a `draw` that shares a menu among the pages of a folder that no menu lists: one per page took 20% of the time"
    is_listed = any(page in pages for pages in app.env.toctree_includes.values())
    owner = page if is_listed or '/' not in page else page.rpartition('/')[0] + '/'

    def draw_once(**options):
        key = draw_menu.__name__, owner, *sorted(options.items())
        if key not in _menus:
            _menus[key] = draw_menu(**options)
        return _menus[key]

    return draw_once


CURRENT_ITEM = re.compile(r'<li class="(toctree-l\d+) current active"><a class="current reference internal" href="#">')


def replace_item(menu, item, new_item, change_list):
    "Replace an item of a menu, given as its match; `change_list` maps the opening tag of its list to another one"
    start = menu.rindex('<ul', 0, item.start())
    end = menu.index('>', start) + 1
    return menu[:start] + change_list(menu[start:end]) + menu[end : item.start()] + new_item + menu[item.end() :]


def unmark_current(menu, href):
    "Remove the marks of the current page, whose address is `href`; None if it has no marks"
    if item := CURRENT_ITEM.search(menu):
        new_item = f'<li class="{item[1]}"><a class="reference internal" href="{href}">'
        return replace_item(menu, item, new_item, lambda tag: re.sub('current | class="current"', '', tag))


def add_current(tag):
    "Add the class `current` to an opening tag"
    return tag.replace('class="', 'class="current ') if 'class=' in tag else tag.replace('>', ' class="current">')


def mark_current(menu, href):
    "Mark the current page, whose address is `href`, in a menu without marks; None if the menu does not list it"
    listed = rf'<li class="(toctree-l\d+)"><a class="reference internal" href="{re.escape(href)}">'
    if item := re.search(listed, menu or ''):
        new_item = f'<li class="{item[1]} current active"><a class="current reference internal" href="#">'
        return replace_item(menu, item, new_item, add_current)


def draw_menu_once_per_list(app, page, draw_menu):
    """Make a `draw` that shares a menu among the pages of a folder that the same page lists. Their menus differ in the
    marks of the current page only, and one menu per page took a fifth of the time"""
    owners = [owner for owner, pages in app.env.toctree_includes.items() if page in pages]
    if len(owners) != 1 or page in app.env.toctree_includes:
        return draw_menu_once_per_folder(app, page, draw_menu)
    folder, _, name = page.rpartition('/')
    href = name + app.builder.link_suffix

    def draw(**options):
        key = draw_menu.__name__, folder, owners[0], *sorted(options.items())
        if key not in _menus:
            _menus[key] = unmark_current(draw_menu(**options), href)
        return mark_current(_menus[key], href) or draw_menu(**options)

    return draw


def share_menus(app, page, template, context, doctree):
    "Let pages share the menu of their folder"
    draw = context['toctree']

    def toctree(**options):
        return draw(**options)

    context['toctree'] = draw_menu_once_per_folder(app, page, toctree)


def set_language(app, page, template, context, doctree):
    "Name the language of a translated lesson, `nbs/01_first_kernel.pt_BR`, for screen readers and search engines"
    if page.startswith('nbs/') and '.' in page:
        context['language'] = page.rpartition('.')[2].replace('_', '-')


add_menus = theme_menus.add_toctree_functions


def add_named_menus(app, page, template, context, doctree):
    """Add the theme's menus, with labels for screen readers on the buttons that fold parts of them.

    The theme renders the menu of each page twice, first to find out whether it is empty. This function replaces the
    theme's, so that pages share both results."""
    add_menus(app, page, template, context, doctree)
    draw, label = context['generate_toctree_html'], context['fold_label']

    def labelled(**options):
        return str(draw(**options)).replace(
            '<summary><span class="toctree-toggle"', f'<summary aria-label="{label}"><span class="toctree-toggle"'
        )

    context['generate_toctree_html'] = draw_menu_once_per_list(app, page, labelled)


theme_menus.add_toctree_functions = add_named_menus


make_formatter, _formatters = PygmentsBridge.get_formatter, {}


def share_formatter(bridge, **options):
    "Return the formatter that all blocks of code with these options share: one per block took 5% of the time"
    key = bridge, repr(sorted(options.items()))
    if key not in _formatters:
        _formatters[key] = make_formatter(bridge, **options)
    return _formatters[key]


PygmentsBridge.get_formatter = share_formatter


class English(SearchEnglish):
    "Sphinx's search in English, with one cache of word stems for all pages"

    stem = functools.cache(SearchEnglish.stem)


def setup(app):
    "Register the renderers of formulas and folded code, the shared menus, and the highlighting of CUDA C in strings"
    app.add_search_language(English)
    app.add_html_math_renderer('mathml', (visit_math, None), (lambda self, node: visit_math(self, node, 'block'), None))
    app.add_node(sphinx_.HideCodeCellNode, True, html=(visit_folded_code, sphinx_.depart_HideCellInput))
    app.connect('html-page-context', set_language)
    app.connect('html-page-context', share_menus, priority=100)  # before the theme reads the context
    for name in ('python', 'ipython3', 'ipython'):
        app.add_lexer(name, CudaInPython)
    return dict(parallel_read_safe=True, parallel_write_safe=True)
