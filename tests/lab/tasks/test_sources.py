import datasets
import pytest

from geoalign.errors import ConfigError
from geoalign.lab.config.tasks import MathConfig
from geoalign.lab.tasks import make_task
from geoalign.lab.tasks.sources import HubDataset, hub_dataset, rows_of


@pytest.mark.parametrize(
    ("text", "dataset"),
    [
        ("math-ai/amc23", HubDataset("math-ai/amc23")),
        ("math-ai/amc23@test", HubDataset("math-ai/amc23", split="test")),
        ("a/b:main", HubDataset("a/b", config="main")),
        ("Anthropic/hh-rlhf/helpful-base@test", HubDataset("Anthropic/hh-rlhf", folder="helpful-base", split="test")),
        ("a/b/c/d:en@train", HubDataset("a/b", folder="c/d", config="en", split="train")),
    ],
)
def test_what_names_a_data_set_on_the_hub(text, dataset):
    assert hub_dataset(text) == dataset


@pytest.mark.parametrize(
    "text",
    [
        *("train.jsonl", "data/train.jsonl", "data/train.parquet", "data/train.csv", "a/b/test.jsonl.gz"),
        *("data", "/a/b", "./a/b", "../a/b", "~/a/b", "a/..", "a/b/..", "a/../b", "a/b@", "a/b:", "a b/c", "a//b"),
        *("https://huggingface.co/a/b", "a/b@test[:5]", "a\\b/c", "", "\n", "a/b\n"),
    ],
)
def test_what_does_not(text):
    assert hub_dataset(text) is None


@pytest.fixture
def hub(monkeypatch):
    """Stands for the hub: keeps what it was asked for, and gives what is put into `answer`."""

    class Hub:
        asked = ()
        answer: object = None

        def __call__(self, *args, **kwargs):
            self.asked = (*args, kwargs)
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

    hub = Hub()
    monkeypatch.setattr(datasets, "load_dataset", hub)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return hub


ROWS = [{"problem": "1+1?", "answer": 2.0}, {"problem": "2+2?", "answer": 4.0}]


def test_a_set_on_the_hub_is_read_like_a_file(hub):
    hub.answer = datasets.Dataset.from_list(ROWS)
    assert list(rows_of("owner/name/folder:en@test")) == [("row 1", ROWS[0]), ("row 2", ROWS[1])]
    assert hub.asked == ("owner/name", "en", {"data_dir": "folder", "split": "test"})
    problems = make_task(MathConfig(train="owner/name@test"), seed=0).train_problems()
    assert [problem.answer for problem in problems] == ["2.0", "4.0"]


def test_the_only_split_needs_no_name_and_several_do(hub):
    only = datasets.Dataset.from_list(ROWS)
    hub.answer = datasets.DatasetDict({"test": only})
    assert len(list(rows_of("owner/name"))) == 2
    hub.answer = datasets.DatasetDict({"train": only, "test": only})
    with pytest.raises(
        ConfigError, match=r"owner/name: expected a split, as in owner/name@train, .* \['train', 'test'"
    ):
        rows_of("owner/name")


def test_a_local_file_comes_first(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner").mkdir()
    (tmp_path / "owner" / "name.jsonl").write_text('{"a": "b"}\n')
    assert list(rows_of("owner/name.jsonl")) == [("line 1", {"a": "b"})]
    with pytest.raises(ConfigError, match=r"owner/other\.jsonl: expected a local file .* or a data set on the hub"):
        rows_of("owner/other.jsonl")
    (tmp_path / "owner" / "name").mkdir()
    with pytest.raises(ConfigError, match="owner/name: expected a file, got a folder"):
        rows_of("owner/name")
    assert hub.asked == ()


@pytest.mark.parametrize("error", [ConnectionError("no route"), ValueError("no config 'x'"), KeyError("anything")])
def test_what_the_hub_refuses_is_told(hub, error):
    hub.answer = error
    with pytest.raises(ConfigError) as caught:
        rows_of("owner/name@test")
    assert "owner/name@test: expected a local file of that name or a data set on the hub" in str(caught.value)
    assert type(error).__name__ in str(caught.value)
    assert "HF_HUB_OFFLINE" not in str(caught.value)


def test_offline_is_named_as_the_cause(hub, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.answer = ConnectionError("Couldn't reach 'owner/name' on the Hub (OfflineModeIsEnabled)")
    with pytest.raises(ConfigError, match=r"OfflineModeIsEnabled.*HF_HUB_OFFLINE forbids the network"):
        rows_of("owner/name")
