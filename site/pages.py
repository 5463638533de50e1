"""Writes the sources of the site for Sphinx: the repository's notebooks and texts as pages, below `_cache/source`.

No notebook is executed: a page shows the committed outputs. Pages have the paths of their files in the repository, so
links between files become links between pages. A file is written only if it changed, so that Sphinx rebuilds only pages
that changed.
"""

import ast, json, os, re
from pathlib import Path

import browser_page, findings_pages, reference
from gridstride.course import curriculum, learning_paths, translations
from gridstride.course.publishing import clone_commands, is_setup, launch_links, settings, without_links

ROOT = Path(__file__).resolve().parents[1]
TEXTS = [
    'SETUP.md',
    'INSTRUCTORS.md',
    'nbs/README.md',
    'gridstride/README.md',
    'gridstride/checker/README.md',
    'GLOSSARY.md',
    'ARCHITECTURE.md',
    'CONTRIBUTING.md',
    'CHANGELOG.md',
    'SECURITY.md',
    'benchmarks/README.md',
    'gridstride/cpp/include/cuda/README.md',
    'gridstride/cpp/runtime/README.md',
    'gridstride/judge/README.md',
]
LINK = re.compile(r'(?<!!)\[([^\[\]]*)\]\(([^()\s]+)\)')
PAGES, PICTURES = {'.md', '.ipynb'}, {'.svg', '.png'}
LANGUAGES = {'.py': 'python', '.h': 'cpp', '.cpp': 'cpp', '.cu': 'cuda', '.cuh': 'cuda', '.ini': 'ini'}
LITE = ROOT / 'site/lite/lite.json'  # the lessons that run in the browser, and the megabytes that they load
LESSON_FILES = {lesson.file for lesson in curriculum.LESSONS}
LIMITS = 'What does not work where'  # a section of the README that the page of the set-up has, too
BUTTONS = """
<div class="buttons"><a class="first" href="{start}">Start with lesson 01</a>
<a href="gridstride/checker/README.html">Check your own kernels</a> <a href="{repository}">GitHub</a></div>
"""
LIVE = """
<div class="live"><button type="button" data-page="{race}">Edit and run it here</button>
<span>in your browser, nothing to install: loads {megabytes} MB the first time.
<a href="{scratch}">An empty page</a>, <a href="lite/playground/index.html">a playground for CUDA C</a>,
<a href="in_the_browser.html">what runs there</a></span>
</div>
"""


# Notebooks


def read(path):
    return json.loads(path.read_text(encoding='utf-8'))


def source(cell):
    return ''.join(cell['source'])


def prose(nb):
    return '\n\n'.join(source(c) for c in nb['cells'] if c['cell_type'] == 'markdown')


def title(nb):
    return re.search(r'^# (.*)', prose(nb), re.M)[1]


def without_nbdev_directives(code):
    "Return a cell's source without nbdev's directives"
    return re.sub(r'^#\|.*\n+', '', code, flags=re.M)


def adapt_markdown(
    text,  # Markdown of the repository
    file,  # its path, relative to the root
) -> str:  # Markdown of the site
    "Move play links out of headings, where the table of contents would list them; point links to pages"
    text = re.sub(r'^(#+ .*?) +\(\[(▶[^\]]*)\]\((\S+)\)\)$', r'\1\n\n[\2](\3){.play}', text, flags=re.M)
    return LINK.sub(lambda m: link_to_page(m, (ROOT / file).parent), text)


def link_to_page(link, folder):
    """Convert a Markdown link to a file of the repository to a link to its page; a link to a folder, or to a lesson
    that is not written yet, becomes its text"""
    text, target = link.groups()
    path, _, anchor = target.partition('#')
    file = (folder / path).resolve()
    if not path or ':' in path:
        return link[0]
    if not file.exists():
        return text if file.parent == ROOT / 'nbs' and file.name in LESSON_FILES else link[0]
    if file == ROOT / 'site/messages':
        return f'[{text}]({os.path.relpath(ROOT / "messages/index.md", folder)})'
    if file.is_dir():
        return text
    if file.suffix in PAGES or file.suffix in PICTURES:
        return link[0]
    return f"[{text}]({path if file.suffix != '.txt' else path[:-4]}.md{'#' * bool(anchor) + anchor})"


def hints_of(
    name,  # of a lesson's notebook: '03_shared_memory'
) -> dict:  # exercise -> its hints
    "Read the hints from the source of the chapter's exercises"
    path = ROOT / f'gridstride/course/exercises/{curriculum.lesson_of_file(name).chapter}.py'
    if not path.exists():
        return {}
    calls = (
        n
        for n in ast.walk(ast.parse(path.read_text(encoding='utf-8')))
        if isinstance(n, ast.Call) and getattr(n.func, 'id', '') == 'problem'
    )
    return {c.args[0].value: ast.literal_eval(next(k.value for k in c.keywords if k.arg == 'hints')) for c in calls}


def fold(summary, text):
    return f'<details><summary>{summary}</summary>\n\n{text}\n\n</details>\n\n'


def insert_hints(text, hints):
    "Insert folded hints before a folded solution"
    solution = re.match(r'<details>\s*<summary>Solution of (\w+\.\w+)', text)
    if not solution or solution[1] not in hints:
        return text
    exercise_hints = hints[solution[1]]
    return ''.join(fold(f'Hint {i} of {len(exercise_hints)}', hint) for i, hint in enumerate(exercise_hints, 1)) + text


def translations_of(path):
    "Return {language: catalogue} of a notebook's translations, such as {'pt_BR': nbs/locale/pt_BR/first_kernel.po}"
    lesson = curriculum.lesson_of_file(path.name) if path.parent.name == 'nbs' else None
    catalogues = sorted(translations.LOCALE.glob(f'*/{lesson.slug}.po')) if lesson else []
    return {p.parent.name: p for p in catalogues}


def name_of_translation(path, language):
    "Return the name of a translated page; it is in the folder of the lesson, so that relative links remain valid"
    return f'{path.stem}.{language}'


def other_languages(path, shown_language):
    "Make the links to a lesson in all languages except that of the page; `shown_language` is '' for English"
    from babel import Locale

    names = {language: Locale.parse(language).display_name for language in translations_of(path)}
    links = [(language, name_of_translation(path, language), name) for language, name in names.items()]
    links = [('en', path.stem, 'English'), *links] if links else []
    return ''.join(
        f'<a href="{page}.html" lang="{language.replace("_", "-")}">{name}</a> '
        for language, page, name in links
        if language != (shown_language or 'en')
    )


def how_to_open(
    path,  # of the notebook
    lite,  # the content of `lite.json`
    language='',  # of the page; '' for English
) -> str:  # HTML
    "Make the box below a notebook's title: links that open it elsewhere, and the command that opens it locally"
    number = path.stem.partition('_')[0] if path.parent.name == 'nbs' else ''
    command = f'python3 course.py {number}' if number else f'python3 course.py, then open {path.relative_to(ROOT)}'
    path_to_root = '../' * len(path.relative_to(ROOT).parts[:-1])
    run_here_link = ''
    if path.stem in lite['lessons']:
        size = f'{lite["megabytes"]} MB'
        if path.stem not in lite['without_compiler']:
            size += f', and a compiler of {lite["compiler_megabytes"]} MB'
        run_here_link = (
            f'<a class="run-here" href="{path_to_root}{lite["page"].format(name=path.stem)}">Run here</a> '
            f'<span>in your browser, nothing to install; the first time it loads {size}</span>'
        )
    links = launch_links(path.name, settings(ROOT)) if number else {}
    elsewhere = ''.join(f'<a href="{address}">{text}</a> ' for text, address in links.items())
    open_locally = f'<span>Open locally: <code>{command}</code></span>'
    return f'<div class="open-box">{run_here_link}{elsewhere}{open_locally}{other_languages(path, language)}</div>'


def cell_metadata(cell):
    "Return the metadata of a cell: a tag if its code is folded, and the alternative text of its pictures"
    tags = {'tags': ['hide-input']} if 'hide-input' in cell['metadata'].get('tags', []) else {}
    for data in (output.get('data', {}) for output in cell.get('outputs', [])):
        if {'image/png', 'image/svg+xml'} & set(data):
            text = ' '.join(''.join(data.get('text/plain', '')).split())
            alt = 'A plot that this cell draws' if text.startswith('<') else text
            return {**tags, 'mystnb': {'image': {'alt': alt}}}
    return tags


def notebook_page(path, lite, language=''):
    "Return the JSON of the page of a notebook, or of its translation"
    nb = read(path)
    if language:
        catalogue = translations.read_catalogue(translations_of(path)[language])
        nb, _ = translations.translated_notebook(nb, catalogue)
    hints = hints_of(path.stem) if path.parent.name == 'nbs' else {}
    cells = []
    for c in nb['cells']:
        if is_setup(c):
            continue
        if c['cell_type'] == 'code':
            text = without_nbdev_directives(source(c))
            if text.strip() and '#| hide' not in source(c):
                cells.append(dict(c, source=text, metadata=cell_metadata(c)))
        else:
            text = adapt_markdown(without_links(source(c)), path.relative_to(ROOT))
            cells.append(dict(c, source=insert_hints(text, hints), metadata={}))
    cells.insert(1, dict(cell_type='markdown', id='how-to-open', metadata={}, source=how_to_open(path, lite, language)))
    metadata = {'kernelspec': nb['metadata']['kernelspec'], **({'orphan': True} if language else {})}
    return json.dumps(dict(nb, cells=cells, metadata=metadata), indent=1)


# The home page


def readme_section(
    readme,  # its Markdown
    name,  # of a section; '' for the text before the first one
) -> str:  # Markdown
    "Return the text of a section of the README, without its heading"
    parts = re.split(r'^## (.*)\n', '## \n' + readme, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[name].strip()


def home_page(readme):
    "Make the home page: index.md, with sections of the README inserted at its marks"
    title, description, picture_of_a_race = re.fullmatch(
        r'# .*\n+\*\*(.*)\.\*\*\n+([^!]*)\n\n(!\[.*)\s*(?:<!-- links[\s\S]*)?', readme_section(readme, '')
    ).groups()
    page = (ROOT / 'site/index.md').read_text(encoding='utf-8')
    for mark, text in dict(title=title, what=description, picture=picture_of_a_race).items():
        page = page.replace(f'<!-- {mark} -->', text)
    return re.sub(r'<!-- README: (.*) -->', lambda mark: readme_section(readme, mark[1]), page)


def add_buttons(page, lite, run_here):
    "Add the buttons and commands, and if `run_here` the button that replaces the picture by a notebook"
    site_settings = settings(ROOT)
    first = curriculum.LESSONS[0].file.removesuffix('.ipynb')
    start = f'nbs/{first}.html'
    live = ''
    if run_here:
        start, race, scratch = (lite['page'].format(name=name) for name in (first, 'race', lite['scratch']))
        live = LIVE.format(race=race, scratch=scratch, megabytes=lite['megabytes'])
    commands = f'```bash\n{clone_commands(site_settings)}\npython3 course.py\n```'
    page = page.replace('<!-- buttons -->', BUTTONS.format(start=start, repository=site_settings['repository']))
    return page.replace('<!-- clone -->', commands).replace('<!-- live -->', live)


def toctree(caption, docs, **options):
    "Make one table of contents of the left sidebar"
    option_lines = ''.join(f':{k}: {v}\n' for k, v in options.items())
    return f'```{{toctree}}\n:caption: {caption}\n:hidden:\n{option_lines}\n' + '\n'.join(docs) + '\n```\n'


def is_written(lesson):
    "Return whether a lesson of the table has a notebook"
    return (ROOT / 'nbs' / lesson.file).exists()


def lesson_toctrees():
    "Make a table of contents per part of the course"
    return '\n'.join(
        toctree(f'{roman} {part}', [f'nbs/{Path(lesson.file).stem}' for lesson in lessons if is_written(lesson)])
        for roman, (part, lessons) in zip(learning_paths.ROMAN, curriculum.lessons_by_part().items(), strict=True)
    )


def table_page(path):
    "Make a page with a table that a benchmark printed"
    name = path.stem.replace('_', ' ')
    return (
        f'---\norphan: true\n---\n# {name}\n\nThe output of a run, unedited. [How it was measured](README.md).\n\n'
        f'```text\n{path.read_text(encoding="utf-8").rstrip()}\n```\n'
    )


def source_pages(
    pages,  # {path: text} of the pages
) -> dict:  # {path: text}
    "Make pages of the source files that other pages link to"
    linked = {
        (Path(file).parent / target).as_posix()
        for file, text in pages.items()
        if isinstance(text, str)
        for _, target in LINK.findall(text)
        if target.endswith('.md')
    }
    files = {k: (ROOT / k).resolve() for k in (os.path.normpath(link[:-3]) for link in linked)}
    return {
        f'{k}.md': f'---\norphan: true\n---\n# {k}\n\n````{LANGUAGES.get(p.suffix, "text")}\n'
        f'{p.read_text(encoding="utf-8").rstrip()}\n````\n'
        for k, p in files.items()
        if f'{k}.md' not in pages and p.is_file()
    }


# The whole site


def sources(
    reference_cache,  # the file with the reference of the last build
    lessons_here,  # the names of the lessons that run in the browser
) -> dict:  # {path: text or bytes}
    "Make all sources that Sphinx reads"
    lite, run_here = dict(read(LITE), lessons=lessons_here), bool(lessons_here)
    pages = {
        str(p.relative_to(ROOT)): notebook_page(p, lite)
        for folder in ('nbs', 'nbs/inside', 'nbs/lib')
        for p in sorted((ROOT / folder).glob('*.ipynb'))
    }
    pages |= {
        f'nbs/{name_of_translation(p, language)}.ipynb': notebook_page(p, lite, language)
        for p in sorted((ROOT / 'nbs').glob('*.ipynb'))
        for language in translations_of(p)
    }
    pages |= {f: adapt_markdown((ROOT / f).read_text(encoding='utf-8'), f) for f in TEXTS}
    pages |= {f'benchmarks/{p.stem}.md': table_page(p) for p in sorted((ROOT / 'benchmarks').glob('*.txt'))}
    pages |= {f'benchmarks/{p.name}': p.read_bytes() for p in sorted((ROOT / 'benchmarks').glob('*.svg'))}
    pages |= {f'images/{p.name}': p.read_bytes() for p in sorted((ROOT / 'images').iterdir())}
    readme = (ROOT / 'README.md').read_text(encoding='utf-8')
    pages['SETUP.md'] += adapt_markdown(f'\n## {LIMITS}\n\n{readme_section(readme, LIMITS)}\n', 'SETUP.md')
    page = adapt_markdown(home_page(readme), 'README.md')
    pages['index.md'] = add_buttons(page, lite, run_here).replace('<!-- menus -->', lesson_toctrees())
    pages |= reference.pages(reference_cache) | findings_pages.pages(run_here)
    pages |= browser_page.pages() if run_here else {}
    pages |= source_pages(pages)
    return pages


def write(
    folder,  # of the sources
    reference_cache,  # the file with the reference of the last build
    lessons_here,  # the names of the lessons that run in the browser
):
    "Write the sources to `folder`, and delete all other files; files that are current are not touched"
    content_of_file = {
        folder / k: v.encode() if isinstance(v, str) else v for k, v in sources(reference_cache, lessons_here).items()
    }
    for p in [p for p in folder.rglob('*') if p.is_file() and p not in content_of_file]:
        p.unlink()
    for p, data in content_of_file.items():
        if p.exists() and p.read_bytes() == data:
            continue
        p.parent.mkdir(parents=True, exist_ok=True)
        p.write_bytes(data)
