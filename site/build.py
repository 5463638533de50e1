"""Builds the site into `site/_build`, and serves it: python3 course.py site [--serve]"""

import argparse, gc, shutil, subprocess, sys, time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pages

HERE = Path(__file__).resolve().parent
LITE = HERE / 'lite/build.py'  # the lessons that run in the browser
UNAVAILABLE = 3  # its exit status when it cannot download what they need


def sphinx(out, cache, jobs):
    "Build the pages in `out` from the sources in `cache`; return an exit status, which is not 0 if there are warnings"
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
        shutil.rmtree(cache / 'doctrees', ignore_errors=True)  # or the next build would not report it again
    return status


def build(
    folder,  # gets `_build`, the site, and `_cache`, which the next build reuses
    lite,  # build what runs in the browser, too?
    jobs,  # processes that build pages; they exchange data, so one process takes 25% less CPU time
) -> int:  # exit status
    "Write the sources and build the pages from them and, at the same time, what runs in the browser"
    start = time.monotonic()
    gc.set_threshold(200_000)  # pages stay in memory, and each collection looks through all of them
    out = folder / '_build'
    browser_build = subprocess.Popen([sys.executable, LITE, out / 'lite'], cwd=HERE.parent) if lite else None
    status = make_pages(folder, lite, jobs)
    if browser_build and browser_build.wait() == UNAVAILABLE:
        print('Therefore no page has "Run here".', file=sys.stderr)
        status = make_pages(folder, False, jobs)
    elif browser_build:
        status = status or browser_build.returncode
    count = len([p for p in out.rglob('*.html') if 'lite' not in p.parts])
    if status:
        print('The site has errors: see above.', file=sys.stderr)
    else:
        print(f'The site is in {out}: {count} pages, {time.monotonic() - start:.0f} s.')
    return status


def make_pages(folder, run_here, jobs):
    "Build the pages, with or without links to what runs in the browser; return the exit status"
    cache = folder / '_cache'
    pages.write(cache / 'source', cache / 'reference.json', run_here)
    return sphinx(folder / '_build', cache, jobs)


class Handler(SimpleHTTPRequestHandler):
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
    with ThreadingHTTPServer(('127.0.0.1', port), partial(Handler, directory=str(out))) as server:
        print(f'The site is at http://localhost:{server.server_port}/ (stop it with Ctrl-C).', flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


def main():
    "Run the command line"
    p = argparse.ArgumentParser(prog='course.py site', description='Build the site.')
    p.add_argument('--serve', type=int, metavar='PORT', help='then serve the site on this machine')
    p.add_argument('--to', type=Path, default=HERE, metavar='FOLDER', help='build the site below FOLDER')
    p.add_argument('--no-lite', action='store_true', help='only the pages, not what runs in the browser')
    p.add_argument('--jobs', type=int, default=2, metavar='N', help='processes that build pages')
    args = p.parse_args()
    status = build(args.to.resolve(), not args.no_lite, args.jobs)
    if args.serve is not None and not status:
        serve(args.to.resolve() / '_build', args.serve)
    sys.exit(status)


if __name__ == '__main__':
    main()
