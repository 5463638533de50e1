"""Builds the site into `site/_build`, and serves it: python3 course.py site [--serve]"""

import argparse, shutil, subprocess, sys, time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pages

HERE = Path(__file__).resolve().parent
LITE = HERE / 'lite/build.py'  # the lessons that run in the browser
NOT_TO_BE_HAD = 3  # its exit status when it cannot download what they need


def sphinx(out, cache, jobs):
    "Make pages in `out` of the sources in `cache`; the exit status, which is not 0 if anything is to be mended"
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
        shutil.rmtree(cache / 'doctrees', ignore_errors=True)  # or the next build would not say it again
    return status


def build(
    folder,  # gets `_build`, the site, and `_cache`, what is kept for the next time
    lite,  # build what runs in the browser, too?
    jobs,  # processes that make pages; each is told what the others know, so one takes a quarter less of the processor
) -> int:  # exit status
    "Write the sources, make pages of them, and beside that what runs in the browser"
    start, out = time.monotonic(), folder / '_build'
    beside = subprocess.Popen([sys.executable, LITE, out / 'lite'], cwd=HERE.parent) if lite else None
    status = make_pages(folder, lite, jobs)
    if beside and beside.wait() == NOT_TO_BE_HAD:
        print('So no page says "Run here".', file=sys.stderr)
        status = make_pages(folder, False, jobs)
    elif beside:
        status = status or beside.returncode
    count = len([p for p in out.rglob('*.html') if 'lite' not in p.parts])
    if status:
        print('The site has faults: see above.', file=sys.stderr)
    else:
        print(f'The site is in {out}: {count} pages, {time.monotonic() - start:.0f} s.')
    return status


def make_pages(folder, run_here, jobs):
    "The pages, which lead to what runs in the browser or do not; the exit status"
    cache = folder / '_cache'
    pages.write(cache / 'source', cache / 'reference.json', run_here)
    return sphinx(folder / '_build', cache, jobs)


class Handler(SimpleHTTPRequestHandler):
    "Files of the site, asked for anew each time"

    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, '.wasm': 'application/wasm'}

    def end_headers(self):
        "Nothing is kept: it may be built again"
        self.send_header('Cache-Control', 'no-cache')
        super().end_headers()

    def log_message(self, *args):
        pass


def serve(out, port):
    "Serve the site on this machine until Ctrl-C"
    with ThreadingHTTPServer(('127.0.0.1', port), partial(Handler, directory=str(out))) as server:
        print(f'It is at http://localhost:{server.server_port}/ (Ctrl-C here ends it).', flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


def main():
    "Do what the command line says"
    p = argparse.ArgumentParser(prog='course.py site', description='Build the site.')
    p.add_argument('--serve', type=int, metavar='PORT', help='then serve it on this machine')
    p.add_argument('--to', type=Path, default=HERE, metavar='FOLDER', help='build it below FOLDER')
    p.add_argument('--no-lite', action='store_true', help='only the pages, not what runs in the browser')
    p.add_argument('--jobs', type=int, default=2, metavar='N', help='processes that make pages')
    args = p.parse_args()
    status = build(args.to.resolve(), not args.no_lite, args.jobs)
    if args.serve is not None and not status:
        serve(args.to.resolve() / '_build', args.serve)
    sys.exit(status)


if __name__ == '__main__':
    main()
