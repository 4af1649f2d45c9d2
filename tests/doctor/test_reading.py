"""What is told while inputs are read."""

from vbagg.doctor import reading


def test_what_takes_long_is_announced_now_and_then(monkeypatch):
    clock = iter([0.0, 5.0, 21.0, 21.0, 30.0, 45.5, 45.5])
    monkeypatch.setattr(reading.time, "monotonic", lambda: next(clock))
    announced, told = [], []
    tell = reading.seldom(announced.append, told.append)
    for number in range(4):
        tell(f"facility {number}")
    assert told == [f"facility {number}" for number in range(4)]
    assert announced == ["facility 1", "facility 3"]
