import resource

import pytest
from tiny_country import write_files

from vbagg.doctor import check
from vbagg.workflow.settings import Data


@pytest.mark.parametrize("most", [500, 4000])
def test_a_disk_that_is_full_is_told_in_words(tmp_path, most):
    """With what was being written, where, and what to do."""
    files = write_files(tmp_path)
    data = Data(
        polygons=files["districts"],
        id="name",
        response=("cases",),
        population=files["population"],
        covariate=(files["height"],),
        population_is="counts",
    )
    assert not check(data).errors
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        (error,) = check(data).errors
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert error.text.startswith("The disk is full: there was no room in ")
    assert "while writing rasters on the target grid" in error.text
    assert "Make room and give the same command again" in error.text
    assert "Errno" not in error.text
