"""Replaces files in one step, so that no reader finds a partly written one; checks whether other users own a file."""

import os
import tempfile
from pathlib import Path

__all__ = ['is_foreign', 'write_whole']


def is_foreign(
    found,  # an `os.stat_result`
) -> str:  # '' if only this user could
    "Return why another user could have created or changed the file that `os.stat` or `os.lstat` found"
    if hasattr(os, 'geteuid') and found.st_uid != os.geteuid():
        return 'belongs to another user'
    return 'can be written by others' if hasattr(os, 'geteuid') and found.st_mode & 0o022 else ''


def write_whole(
    path,  # in a folder that exists; a link is followed
    text: str,
):
    "Replace the file at `path` by `text`, completely or not at all; the file keeps its mode, a new one gets 644"
    path = Path(path).resolve()
    with tempfile.NamedTemporaryFile(
        'w', encoding='utf-8', dir=path.parent, prefix=f'.{path.name}.', delete=False
    ) as f:
        try:
            f.write(text)
            f.close()
            os.chmod(f.name, path.stat().st_mode & 0o777 if path.exists() else 0o644)
            os.replace(f.name, path)
        except BaseException:
            os.unlink(f.name)
            raise
