"A file is replaced whole or not at all."
import os

import pytest
from gridstride.support.atomic_write import write_atomically


def test_a_new_file_can_be_read_by_all_and_an_old_one_keeps_its_mode(tmp_path):
    write_atomically(tmp_path/'a', 'ä')
    assert (tmp_path/'a').read_text(encoding='utf-8') == 'ä' and (tmp_path/'a').stat().st_mode & 0o777 == 0o644
    (tmp_path/'a').chmod(0o600)
    write_atomically(tmp_path/'a', 'b')
    assert (tmp_path/'a').read_text() == 'b' and (tmp_path/'a').stat().st_mode & 0o777 == 0o600


def test_through_a_link_its_target_is_replaced(tmp_path):
    (tmp_path/'a').write_text('old')
    (tmp_path/'link').symlink_to(tmp_path/'a')
    write_atomically(tmp_path/'link', 'new')
    assert (tmp_path/'a').read_text() == 'new' and (tmp_path/'link').is_symlink()


def test_what_is_cut_short_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    (tmp_path/'a').write_text('old')
    def cut(*args): raise KeyboardInterrupt
    monkeypatch.setattr(os, 'replace', cut)
    with pytest.raises(KeyboardInterrupt): write_atomically(tmp_path/'a', 'new')
    assert (tmp_path/'a').read_text() == 'old' and os.listdir(tmp_path) == ['a']
