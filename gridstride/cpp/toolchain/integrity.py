"""Checks that an entry of the cache is what this user put there, and that no other user could have changed it.

`seal` writes the sizes and hashes of an entry's files next to them; `flaw` compares. A hash detects truncated, mixed up
or overwritten files. It is not secret, so what others may write is not trusted, whatever its hashes are.
"""

import hashlib, json, os, stat
from pathlib import Path

from ...support.atomic_write import is_foreign


SUMS = 'sums.json'  # in each entry
_WRITABLE = 0o022  # by the group, by others
_verified = {}  # entry -> the system's metadata of its files when their hashes matched


def _hash_of(path):
    with open(path, 'rb') as f:
        return hashlib.file_digest(f, 'blake2b').hexdigest() if hasattr(hashlib, 'file_digest') else _hash_old(f)


def _hash_old(file):  # before Python 3.11
    return hashlib.blake2b(file.read()).hexdigest()


def seal(
    folder,  # with what was made
    name,  # of the entry that it becomes
):
    "Write the sizes and hashes of all files in `folder`; others may write none of them"
    files = sorted(p for p in Path(folder).rglob('*') if p.is_file() and p.name != SUMS)
    for p in files:
        if not p.is_symlink() and (mode := p.stat().st_mode) & _WRITABLE:
            os.chmod(p, stat.S_IMODE(mode) & ~_WRITABLE)
    sums = {str(p.relative_to(folder)): [p.stat().st_size, _hash_of(p)] for p in files}
    (Path(folder) / SUMS).write_text(json.dumps(dict(name=name, files=sums)), encoding='utf-8')


def flaw(
    folder,  # an entry of the cache
    contents=True,  # compare the hashes, too?
) -> str:  # '' if there is none; None if nothing is there
    "Return why an entry of the cache cannot be used"
    folder = Path(folder)
    try:
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode):
            return 'is not a folder'
        return is_foreign(found) or _flaw_of_files(folder, contents)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as e:
        return f'cannot be read ({e.strerror})'


def _flaw_of_files(folder, contents):
    "Return the first flaw of the files of an entry; hashes are computed again only if the metadata changed"
    try:
        said = json.loads((folder / SUMS).read_text(encoding='utf-8'))
        name, files = said['name'], {str(k): (int(size), str(of)) for k, (size, of) in said['files'].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return f'has no {SUMS} that can be read'
    if name != folder.name:
        return f'is a copy of {name[:40]!r}'
    states = {SUMS: os.lstat(folder / SUMS)}
    for file, (size, _) in files.items() if contents else ():
        try:
            states[file] = os.lstat(folder / file)
        except FileNotFoundError:
            return f'has lost {file}'
        if states[file].st_size != size:
            return f'has another size of {file}'
    for file, found in states.items():
        if not stat.S_ISREG(found.st_mode) or is_foreign(found):
            return f'has a file {file} that {is_foreign(found) or "is a link or a folder"}'
    seen = [(state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns) for state in states.values()]
    if contents and _verified.get(folder) != seen:
        if wrong := next((file for file, (_, of) in files.items() if _hash_of(folder / file) != of), None):
            return f'has another {wrong} than was put there'
        _verified[folder] = seen
    return ''
