from vbagg.cli import main


def test_a_full_disk_is_told_in_one_line(tmp_path, monkeypatch, capsys):
    """Libraries that write the files hide the system's error in many ways."""

    def full(*given, **options):
        raise RuntimeError("sqlite3: database or disk is full")

    monkeypatch.setattr("vbagg.geo.country_files.write_country", full)
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 2
    error = capsys.readouterr().err
    assert f"The disk is full: there was no room in {tmp_path / 'demo'} while writing the simulated country" in error
    assert "the same command again" in error
