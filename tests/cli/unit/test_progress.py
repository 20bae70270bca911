"""What is said of long work that was cut off."""

import pytest

from gapless.cli.progress import Steps


def test_interrupted_says_how_far_it_came(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), Steps("import", 2000, "unit", "; go on") as steps:
        steps.show(1000)
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "gapless: import interrupted: 1,000 of 2,000 done; go on\n"


def test_an_error_says_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="no"), Steps("import", 2, "unit", "; go on"):
        raise ValueError("no")
    assert capsys.readouterr().err == ""
