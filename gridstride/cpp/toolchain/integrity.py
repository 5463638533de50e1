"""Checks that an entry of the cache is unchanged since this user stored it, and that no other user can change it.

`write_checksums` writes the sizes and checksums of an entry's files next to them, `find_damage` compares them. A
checksum detects truncated, swapped and overwritten files. It is not a signature, so files that other users may write
are not trusted even if their checksums match.
"""

import hashlib, json, os, stat
from pathlib import Path

from ...support.atomic_write import untrusted_reason


CHECKSUMS = 'sums.json'  # in each entry
_WRITABLE_BY_OTHERS = 0o022  # the write permission bits of the group and of all other users
_metadata_when_verified = {}  # entry -> the system's metadata of its files when their hashes matched


def _hash_of(path):
    with open(path, 'rb') as f:
        return (
            hashlib.file_digest(f, 'blake2b').hexdigest() if hasattr(hashlib, 'file_digest') else _hash_before_3_11(f)
        )


def _hash_before_3_11(file):  # Python 3.10 has no hashlib.file_digest
    return hashlib.blake2b(file.read()).hexdigest()


def write_checksums(
    folder,  # of the files
    name,  # of the entry that the folder becomes
):
    "Write the sizes and checksums of all files in `folder`, and remove other users' write permissions for them"
    files = sorted(p for p in Path(folder).rglob('*') if p.is_file() and p.name != CHECKSUMS)
    checksums = {str(p.relative_to(folder)): [p.stat().st_size, _hash_of(p)] for p in files}
    (Path(folder) / CHECKSUMS).write_text(json.dumps(dict(name=name, files=checksums)), encoding='utf-8')
    for p in Path(folder).rglob('*'):
        if not p.is_symlink() and (mode := p.stat().st_mode) & _WRITABLE_BY_OTHERS:
            os.chmod(p, stat.S_IMODE(mode) & ~_WRITABLE_BY_OTHERS)


def find_damage(
    folder,  # an entry of the cache
    compare_checksums=True,  # whether to compare the checksums, too
) -> str:
    "Return why an entry of the cache cannot be used; '' if it can, None if it does not exist"
    folder = Path(folder)
    try:
        folder_status = os.lstat(folder)
        if not stat.S_ISDIR(folder_status.st_mode):
            return 'is not a folder'
        return untrusted_reason(folder_status) or _damage_reason(folder, compare_checksums)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as e:
        return f'cannot be read ({e.strerror})'


def _damage_reason(folder, compare_checksums):
    "Return why the files of an entry cannot be used; checksums are recomputed only if the metadata has changed"
    try:
        stored = json.loads((folder / CHECKSUMS).read_text(encoding='utf-8'))
        name = stored['name']
        files = {str(k): (int(size), str(checksum)) for k, (size, checksum) in stored['files'].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return f'has no readable {CHECKSUMS}'
    if name != folder.name:
        return f'is a copy of {name[:40]!r}'
    file_statuses = {CHECKSUMS: os.lstat(folder / CHECKSUMS)}
    for file, (size, _) in files.items() if compare_checksums else ():
        try:
            file_statuses[file] = os.lstat(folder / file)
        except FileNotFoundError:
            return f'lacks {file}'
        if file_statuses[file].st_size != size:
            return f'has a {file} whose size has changed since it was stored'
    for file, status in file_statuses.items():
        if not stat.S_ISREG(status.st_mode) or untrusted_reason(status):
            return f'has a file {file} that {untrusted_reason(status) or "is a link or a folder"}'
    metadata = [(s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for s in file_statuses.values()]
    if compare_checksums and _metadata_when_verified.get(folder) != metadata:
        if damaged_file := next(
            (file for file, (_, checksum) in files.items() if _hash_of(folder / file) != checksum), None
        ):
            return f'has a {damaged_file} that has changed since it was stored'
        _metadata_when_verified[folder] = metadata
    return ''
