"""Makes the links that open a lesson on other services, and the cell that installs the package there.

The links to Colab, to Kaggle and to the lesson in the browser, and the command that clones the repository, are built
from the URLs in settings.ini. They appear in each notebook's first cell, in tables and on the site. `python -m
gridstride.course.curriculum --write` writes all of them.
"""

import re
from configparser import ConfigParser

__all__ = [
    'settings',
    'launch_links',
    'with_links',
    'without_links',
    'clone_commands',
    'SETUP_TAG',
    'setup_cell',
    'is_setup',
]

_SERVICES = {
    'Open in Colab': 'https://colab.research.google.com/github/{owner_and_name}/blob/{branch}/nbs/{file}',
    'Open in Kaggle': 'https://kaggle.com/kernels/welcome?src={repository}/blob/{branch}/nbs/{file}',
}


def settings(
    root,  # of the repository
) -> dict:
    "Return the settings of settings.ini: `settings(root)['repository']`"
    parser = ConfigParser()
    parser.read(root / 'settings.ini', encoding='utf-8')
    return dict(parser['DEFAULT'])


def launch_links(
    file,  # of the lesson: '01_first_kernel.ipynb'
    course_settings,  # as `settings` returns them
    in_browser=None,  # path of the lesson's page on the site, if the lesson runs in the browser
) -> dict:  # {link text: URL}
    "Return the links that open a lesson: `launch_links('01_first_kernel.ipynb', settings(root))['Open in Colab']`"
    owner_and_name = '/'.join(course_settings['repository'].rstrip('/').split('/')[-2:])
    links = {
        text: url.format(owner_and_name=owner_and_name, file=file, **course_settings) for text, url in _SERVICES.items()
    }
    if in_browser:
        links['Run in the browser'] = f'{course_settings["site"]}/{in_browser}'
    return links


_LINE_OF_LINKS = re.compile(r'\n\n\[Open in Colab\].*')


def with_links(
    text,  # a notebook's first cell
    links,  # as `launch_links` returns them
) -> str:
    "Return a first cell with the links that open the lesson, on a line below its title"
    title, *paragraphs = without_links(text).split('\n\n')
    line = ' · '.join(f'[{name}]({url})' for name, url in links.items())
    return '\n\n'.join([title, line, *paragraphs])


def without_links(text) -> str:
    "Return a first cell without the line of links that `with_links` adds"
    return _LINE_OF_LINKS.sub('', text)


def clone_commands(course_settings) -> str:
    "Return the two shell commands that clone the repository and enter its folder"
    return (
        f'git clone {course_settings["repository"]}\ncd {course_settings["repository"].rstrip("/").rpartition("/")[2]}'
    )


# JupyterLab and Colab fold this cell; the site and the lessons in the browser omit it. It is not part of the lesson's
# code, because outputs do not depend on it.
SETUP_TAG = 'setup'
_SETUP = '''\
#@title Set-up: installs gridstride where it is missing, as on Colab
import importlib.util
missing = [name for name in ('gridstride', 'torch', 'matplotlib', 'ml_dtypes') if not importlib.util.find_spec(name)]
if missing:
    print(f'{", ".join(missing)} missing: installing gridstride[lesson] takes about a minute')
    %pip install -q "gridstride[lesson]"'''


def setup_cell() -> dict:
    "Return the code cell that installs the package where it is missing"
    metadata = {'cellView': 'form', 'jupyter': {'source_hidden': True}, 'tags': ['hide-input', SETUP_TAG]}
    cell = dict(cell_type='code', execution_count=None, id=SETUP_TAG, metadata=metadata, outputs=[])
    return {**cell, 'source': _SETUP.splitlines(True)}


def is_setup(cell) -> bool:
    "Return whether a cell of a notebook's JSON is the one that `setup_cell` made"
    return SETUP_TAG in cell.get('metadata', {}).get('tags', [])
