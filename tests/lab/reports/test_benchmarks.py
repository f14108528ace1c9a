from pathlib import Path

from geoalign.lab.reports.benchmarks import MOST_LINES, Gallery, checkpoint_panel, pass_at_k_panel
from geoalign.lab.reports.figures.style import Line

KS = [1, 2, 4, 8]


def _line(name: str, at: float = 0.1) -> Line:
    values = [at, at + 0.1, at + 0.2, at + 0.3]
    return Line(name, KS, values, low=[value - 0.05 for value in values], high=[value + 0.05 for value in values])


def test_figures_are_files_with_the_same_bytes_each_time(tmp_path: Path) -> None:
    panels = [
        pass_at_k_panel("aime24", [_line("one"), _line("two", 0.3)]),
        checkpoint_panel("run", "average", "accuracy", Line("average", [10, 20], [0.1, 0.3], smooth=[0.1, 0.18])),
    ]
    Gallery(tmp_path / "figures").section("figures", "", panels)
    files = sorted((tmp_path / "figures").iterdir())
    assert [file.name for file in files] == ["checkpoints-run-average.svg", "pass-at-k-aime24.svg"]
    before = [file.read_bytes() for file in files]
    assert all(content.startswith(b"<?xml") for content in before)
    Gallery(tmp_path / "figures").section("figures", "", panels)
    assert [file.read_bytes() for file in files] == before


def test_the_words_have_the_ends_of_every_line() -> None:
    panel = pass_at_k_panel("aime24", [_line("one"), _line("two", 0.3)])
    assert panel.alt == "pass@k of aime24: one from 0.100 at 1 to 0.400 at 8; two from 0.300 at 1 to 0.600 at 8."


def test_what_is_not_drawn_is_counted() -> None:
    lines = [_line(str(number), number / 100) for number in range(MOST_LINES + 2)]
    panel = pass_at_k_panel("aime24", lines)
    assert "2 further models are in results.json" in panel.caption
    assert panel.alt.count(" from ") == MOST_LINES
    assert "further" not in pass_at_k_panel("aime24", lines[:MOST_LINES]).caption
