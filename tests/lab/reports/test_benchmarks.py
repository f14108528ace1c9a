from geoalign.lab.analysis.statistics import Interval
from geoalign.lab.reports.benchmarks import MOST_LINES, checkpoint_panel, draw, pass_at_k_panel

KS = [1, 2, 4, 8]


def passed(at=0.1):
    """At each k a tenth more than at the one before."""
    return {k: Interval(at + n / 10, at + n / 10 - 0.05, at + n / 10 + 0.05) for n, k in enumerate(KS)}


def test_figures_are_files_with_the_same_bytes_each_time(tmp_path):
    panels = [
        pass_at_k_panel("aime24", {"one": passed(), "two": passed(0.3)}),
        checkpoint_panel("run", "average", "accuracy", [10, 20], [0.1, 0.3], [0.1, 0.18]),
    ]
    draw(panels, tmp_path / "figures")
    files = sorted((tmp_path / "figures").iterdir())
    assert [file.name for file in files] == ["checkpoints-run-average.svg", "pass-at-k-aime24.svg"]
    before = [file.read_bytes() for file in files]
    assert all(content.startswith(b"<?xml") for content in before)
    draw(panels, tmp_path / "figures")
    assert [file.read_bytes() for file in files] == before


def test_the_words_have_the_ends_of_every_line_and_count_what_is_not_drawn():
    panel = pass_at_k_panel("aime24", {"one": passed(), "two": passed(0.3)})
    assert panel.alt == "pass@k of aime24: one from 0.100 at 1 to 0.400 at 8; two from 0.300 at 1 to 0.600 at 8."
    assert "further" not in panel.caption
    panel = pass_at_k_panel("aime24", {str(number): passed(number / 100) for number in range(MOST_LINES + 2)})
    assert "2 further models are in results.json" in panel.caption
    assert panel.alt.count(" from ") == MOST_LINES
