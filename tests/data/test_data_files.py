"""Looking for files and reading them from folders and archives."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from pfedul.base.registry import NoOptions
from pfedul.data.datasets.base import DatasetKind, Layout, SearchPath
from pfedul.data.datasets.files import Found, contents, find, search_path
from pfedul.errors import PfedulError

LAYOUT = Layout(("toy-folder",), ("part_*.bin", "test.bin"), "toy.tar.gz")
WANTED = DatasetKind(
    name="toy",
    summary="",
    options=NoOptions,
    files="part_* and test files",
    published="A. Publisher, https://example.org",
    licence="",
    load=lambda _search, _options: pytest.fail("not called"),
    layouts=(LAYOUT,),
)


def write(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(name.encode())
    return folder


def write_archive(root: Path, *names: str) -> Path:
    folder = write(root / "unpacked", *names)
    with tarfile.open(root / "toy.tar.gz", "w:gz") as archive:
        for name in names:
            archive.add(folder / name, f"toy-folder/{name}")
    return root / "toy.tar.gz"


def test_the_users_root_comes_before_the_environments(tmp_path, monkeypatch):
    monkeypatch.setenv("PFEDUL_DATA", str(tmp_path / "environment"))
    roots = search_path(tmp_path / "option").roots
    assert roots == (tmp_path / "option", tmp_path / "environment")
    assert search_path(None).roots == (tmp_path / "environment",)


def test_without_a_root_nothing_is_searched():
    assert search_path(None).roots == ()


@pytest.mark.parametrize("place", ["", "toy-folder"])
def test_a_root_is_the_folder_itself_or_its_parent(tmp_path, place):
    folder = write(tmp_path / place, "part_1.bin", "test.bin")
    found = find(SearchPath((tmp_path,)), WANTED)
    assert found.path == folder
    assert list(contents(found)) == [("part_1.bin", b"part_1.bin"), ("test.bin", b"test.bin")]


def test_the_second_root_is_searched_after_the_first(tmp_path):
    folder = write(tmp_path / "second", "part_1.bin", "test.bin")
    assert find(SearchPath((tmp_path / "first", tmp_path / "second")), WANTED).path == folder


def test_a_folder_that_lacks_a_part_is_passed_over(tmp_path):
    write(tmp_path / "toy-folder", "part_1.bin")
    with pytest.raises(PfedulError):
        find(SearchPath((tmp_path,)), WANTED)


def test_folders_do_not_count_as_files(tmp_path):
    write(tmp_path / "toy-folder" / "test.bin")
    write(tmp_path / "toy-folder", "part_1.bin")
    with pytest.raises(PfedulError):
        find(SearchPath((tmp_path,)), WANTED)


def test_an_archive_is_read_without_being_unpacked(tmp_path):
    write_archive(tmp_path, "part_1.bin", "part_2.bin", "test.bin", "readme.html")
    before = sorted(tmp_path.rglob("*"))
    found = find(SearchPath((tmp_path,)), WANTED)
    assert dict(contents(found)) == {
        "part_1.bin": b"part_1.bin",
        "part_2.bin": b"part_2.bin",
        "test.bin": b"test.bin",
    }
    assert sorted(tmp_path.rglob("*")) == before


def test_an_archive_cut_short_is_refused(tmp_path):
    archive = write_archive(tmp_path, "part_1.bin", "test.bin")
    archive.write_bytes(archive.read_bytes()[:-40])
    with pytest.raises(PfedulError, match="damaged or incomplete"):
        list(contents(Found(archive, LAYOUT)))


def test_an_archive_that_lacks_a_part_is_refused(tmp_path):
    archive = write_archive(tmp_path, "part_1.bin")
    with pytest.raises(PfedulError, match=r"holds no test\.bin"):
        list(contents(Found(archive, LAYOUT)))


def test_missing_files_are_asked_for_in_one_sentence(tmp_path):
    with pytest.raises(PfedulError) as caught:
        find(SearchPath((tmp_path,)), WANTED)
    said = str(caught.value)
    for words in (WANTED.files, str(tmp_path), "--data-root DIR", "PFEDUL_DATA", WANTED.published):
        assert words in said
    assert "\n" not in said
