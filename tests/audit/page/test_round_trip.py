"""From a file to labels given on its page and back: what a reader says there is what the next audit goes by."""

import json

from geoalign import audit


def write_verdicts(path):
    """Four prompts with the right answer "a" three times rewarded, once refused, and a wrong one once rewarded."""
    answers = [("a", 1), ("a", 1), ("a", 1), ("a", 0), ("b", 0), ("b", 1)]
    rows = [
        {"prompt": f"question {prompt}", "response": f"way {at}, so \\boxed{{{answer}}}", "reward": reward}
        for prompt in range(4) for at, (answer, reward) in enumerate(answers)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_labels_of_the_page_are_true_rewards_of_the_next_audit(watched, tmp_path):
    dump = write_verdicts(tmp_path / "d.jsonl")
    audit(dump, output=tmp_path / "first")
    page = watched(tmp_path / "first" / "report.html", accept_downloads=True).page
    page.locator("[data-index='3'] .label-button", has_text="reward is wrong").click()  # "a", refused
    page.locator("[data-index='5'] .label-button", has_text="reward is wrong").click()  # "b", rewarded
    with page.expect_download() as found:
        page.locator("#download-labels").click()
    labels = tmp_path / "labels.csv"
    found.value.save_as(labels)
    report = audit(dump, labels=labels)
    assert report.summary["labels"]["labelled"] == 2
    trusted = report.rows[report.rows["trusted"]]
    assert trusted["new_reward"].to_dict() == {3: 1.0, 5: 0.0}
