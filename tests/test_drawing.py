import numpy as np
import pytest
from matplotlib.image import imread

from vbagg.drawing import new_figure, save


def drawn(fixed_aspect):
    figure = new_figure(4.0, 3.0, fixed_aspect)
    left, right = figure.subplots(1, 2)
    shown = left.imshow(np.arange(12.0).reshape(3, 4), extent=(0, 400, 0, 3000), aspect=0.2)
    figure.colorbar(shown, ax=left, label="cases per 1000 people")
    right.loglog([1, 30, 5000], [2e-3, 0.7, 4], label="a line")
    right.set(xlabel="observed", ylabel="predicted", title="Two lines\nof title")
    right.legend()
    figure.supxlabel("a note", fontsize=8)
    return figure


@pytest.mark.parametrize("fixed_aspect", [False, True])
def test_a_picture_is_that_of_savefig(fixed_aspect, tmp_path):
    path = save(drawn(fixed_aspect), tmp_path / "drawn.png")
    drawn(fixed_aspect).savefig(tmp_path / "saved.png", dpi=150)
    np.testing.assert_array_equal(imread(path), imread(tmp_path / "saved.png")[..., :3])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["drawn.png", "saved.png"]


@pytest.mark.parametrize("kind", ["pdf", "svg"])
def test_other_kinds_of_pictures(kind, tmp_path):
    path = save(drawn(False), tmp_path / f"drawn.{kind}")
    assert path.stat().st_size > 1000
