"""Builds the site into `site/_build`, and serves it: python3 course.py site [--serve]"""

import argparse, gc, shutil, subprocess, sys, time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pages

HERE = Path(__file__).resolve().parent
LITE = HERE / 'lite/build.py'  # builds the lessons that run in the browser
DOWNLOAD_FAILED, WITHOUT_COMPILER = 3, 4  # exit statuses of `LITE`: no packages, or no compiler of CUDA C


def run_sphinx(out, cache, jobs):
    "Build the pages in `out` from the sources in `cache`; returns an exit status, which is not 0 if there are warnings"
    from sphinx.cmd.build import main

    status = main(
        [
            '-q',
            '-j',
            str(jobs),
            '-W',
            '--keep-going',
            '-c',
            str(HERE),
            '-d',
            str(cache / 'doctrees'),
            str(cache / 'source'),
            str(out),
        ]
    )
    if status:
        shutil.rmtree(cache / 'doctrees', ignore_errors=True)  # so that the next build reports the warnings again
    return status


def build(
    folder,  # for the site, `_build`, and for `_cache`, which the next build reuses
    lite,  # whether to build the lessons that run in the browser, too
    jobs,  # number of processes that build pages; one process takes 25% less CPU time than several
) -> int:  # exit status
    "Write the sources and build the pages, and at the same time the lessons that run in the browser"
    start = time.monotonic()
    gc.set_threshold(200_000)  # pages stay in memory, and each garbage collection traverses all of them
    site_folder = folder / '_build'
    browser_build = subprocess.Popen([sys.executable, LITE, site_folder / 'lite'], cwd=HERE.parent) if lite else None
    lessons = pages.read(pages.LITE)
    status = build_pages(folder, lessons['lessons'] if lite else [], jobs)
    browser_status = browser_build.wait() if browser_build else 0
    if browser_status == DOWNLOAD_FAILED:
        print('The lessons for the browser were not built, so no page has "Run here".', file=sys.stderr)
        status = build_pages(folder, [], jobs)
    elif browser_status == WITHOUT_COMPILER:
        status = build_pages(folder, lessons['without_compiler'], jobs)
    else:
        status = status or browser_status
    num_pages = len([p for p in site_folder.rglob('*.html') if 'lite' not in p.parts])
    if status:
        print('The site has errors: see above.', file=sys.stderr)
    else:
        print(f'The site is in {site_folder}: {num_pages} pages, {time.monotonic() - start:.0f} s.')
    return status


def build_pages(folder, lessons_here, jobs):
    "Build the pages, with links to the lessons that run in the browser; returns the exit status"
    cache = folder / '_cache'
    pages.write(cache / 'source', cache / 'reference.json', lessons_here)
    return run_sphinx(folder / '_build', cache, jobs)


class NoCacheHandler(SimpleHTTPRequestHandler):
    "Serves files of the site, which browsers must not cache"

    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, '.wasm': 'application/wasm'}

    def end_headers(self):
        "Forbid caching: the site may be built again at any time"
        self.send_header('Cache-Control', 'no-cache')
        super().end_headers()

    def log_message(self, *args):
        pass


def serve(out, port):
    "Serve the site on this machine until Ctrl-C"
    with ThreadingHTTPServer(('127.0.0.1', port), partial(NoCacheHandler, directory=str(out))) as server:
        print(f'The site is at http://localhost:{server.server_port}/ (stop it with Ctrl-C).', flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


def main():
    "Run the command line"
    parser = argparse.ArgumentParser(prog='course.py site', description='Build the site.')
    parser.add_argument('--serve', type=int, metavar='PORT', help='serve the site on this machine after the build')
    parser.add_argument('--to', type=Path, default=HERE, metavar='FOLDER', help='build the site below FOLDER')
    parser.add_argument(
        '--no-lite', action='store_true', help='build only the pages, not the lessons that run in the browser'
    )
    parser.add_argument('--jobs', type=int, default=2, metavar='N', help='processes that build pages')
    args = parser.parse_args()
    status = build(args.to.resolve(), not args.no_lite, args.jobs)
    if args.serve is not None and not status:
        serve(args.to.resolve() / '_build', args.serve)
    sys.exit(status)


if __name__ == '__main__':
    main()
