"Builds the package from settings.ini, the one place where its metadata is written."
from configparser import ConfigParser
from pathlib import Path
from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

here = Path(__file__).parent
cfg = ConfigParser()
cfg.read(here/'settings.ini', encoding='utf-8')
meta = cfg['DEFAULT']
suffix = '_requirements'


def lines(key): return [r for r in meta[key].splitlines() if r.strip()]


# What the package needs beside its modules. Cheats and honest kernels are files to be read, not modules
DATA = ['py.typed', '**/*.pyi', 'cpp/launcher.cpp', 'cpp/launcher_src/*', 'cpp/include/**/*', 'cpp/runtime/*',
        'kernels/*.cuh', 'kernels/**/*.cuh', 'kernels/new_project/*.txt', 'ring/*.cuh',
        'checker/report.schema.json', 'judge/cheats/*.py', 'judge/honest/*.py', 'diagnostics/locale/*/*.po']


class Build(build_py):
    """Adds the recordings of the lessons, which they show on machines without a GPU, and the pages of the messages;
    leaves out the index that nbdev-export writes for itself (MANIFEST.in does so for an sdist)"""
    def find_package_modules(self, package, folder):
        return [m for m in super().find_package_modules(package, folder) if m[1] != '_modidx']

    def run(self):
        super().run()
        if not self.editable_mode:
            for folder in ('nbs/recorded', 'site/messages'):
                self.copy_tree(str(here/folder), f"{self.build_lib}/{meta['name']}/{Path(folder).name}")


def pythons():
    "What says which Pythons it is tested with"
    oldest, newest = (int(meta[f'{o}_python'].split('.')[1]) for o in ('min', 'newest'))
    return [f'Programming Language :: Python :: 3.{n}' for n in range(oldest, newest+1)]


setup(
    name=meta['name'], version=meta['version'], description=meta['description'], author=meta['author'],
    license_expression=meta['license'], python_requires=f">={meta['min_python']}",
    classifiers=pythons(), project_urls={'Documentation': meta['site'], 'Source': meta['repository']},
    long_description=(here/'README.md').read_text(encoding='utf-8'), long_description_content_type='text/markdown',
    packages=find_packages(include=[meta['name'], f"{meta['name']}.*"]), include_package_data=False,
    package_data={meta['name']: DATA},
    entry_points={'console_scripts': ['gridstride = gridstride.__main__:console'],
                  'pytest11': ['gridstride = gridstride.checker.pytest_plugin']},
    cmdclass={'build_py': Build}, install_requires=lines('requirements'),
    extras_require={k.removesuffix(suffix): lines(k) for k in meta if k.endswith(suffix)},
)
