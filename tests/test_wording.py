import pytest

from vbagg.wording import own_word, sentence


@pytest.mark.parametrize(
    ("text", "told"),
    [("mean rate of SID74", "Mean rate of SID74"), ("", ""), ("95% intervals", "95% intervals"), ("été", "Été")],
)
def test_only_the_first_letter_of_a_sentence_changes(text, told):
    assert sentence(text) == told


@pytest.mark.parametrize(
    ("name", "told"),
    [("cases", "Cases"), ("SID74", "SID74"), ("sid74", "sid74"), ("pf_cases", "pf_cases"), ("iCount", "iCount")],
)
def test_names_that_users_gave_stay_theirs(name, told):
    assert own_word(name) == told
