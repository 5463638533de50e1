"""Replaces files in one step, so that no reader sees a partly written file; checks whether others can change a file."""

import os
import tempfile
from pathlib import Path

__all__ = ['untrusted_reason', 'write_atomically']


def untrusted_reason(
    status,  # an `os.stat_result` of a file
) -> str:  # '' if no other user could
    "Return why another user could have created or changed a file"
    if hasattr(os, 'geteuid') and status.st_uid != os.geteuid():
        return 'belongs to another user'
    return 'can be written by others' if hasattr(os, 'geteuid') and status.st_mode & 0o022 else ''


def write_atomically(
    path,  # in an existing folder; if it is a link, its target is replaced
    text: str,
):
    "Replace the file at `path` by `text` in one step; the file keeps its mode, a new file gets the mode 644"
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
