import pytest

from vbagg.files import file_names
from vbagg.workflow.folder import RunFolder
from vbagg.workflow.run import Run
from vbagg.workflow.settings import from_words


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["cases", "Fälle 2019", "1.5-4 Jahre"], ["cases", "Fälle 2019", "1.5-4 Jahre"]),
        (["cases/2019"], ["cases_2019"]),
        (["cases/2019", "cases_2019", "cases:2019"], ["cases_2019_2", "cases_2019", "cases_2019_3"]),
        (["Cases", "cases"], ["Cases", "cases_2"]),
        (["..", ".hidden", "end. ", "", "/"], ["_", "_hidden", "end_", "__2", "__3"]),
        (["nul", "NUL.x", "50%", "a\nb", "e\u0301"], ["nul_", "NUL.x_", "50_", "a_b", "é"]),
    ],
)
def test_names_of_files(names, expected):
    assert file_names(names) == expected


def test_long_names_stay_distinct():
    names = file_names(["ä" * 300, "ä" * 299])
    assert len(set(names)) == 2
    assert max(len(name.encode()) for name in names) < 130


@pytest.mark.parametrize("response", ["cases/2019", "../cases", "..", "a\\b:c"])
def test_results_stay_inside_the_folder_of_a_run(tmp_path, response):
    run = Run(from_words({"response": ["cases", response]}), RunFolder(tmp_path))
    assert run.maps(response).parent == tmp_path / "maps"
    assert run.maps(response).resolve().parent == (tmp_path / "maps").resolve()
