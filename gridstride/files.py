"""Files that are replaced in one step, so that no reader ever finds half of one."""

import os
import tempfile
from pathlib import Path

__all__ = ['write_whole']


def write_whole(
    path,  # of the file, in a folder that exists; through a link, the file that it names
    text: str,
):
    "Put `text` into the file at `path`, all of it or nothing; the file keeps its mode, a new one is 644"
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
