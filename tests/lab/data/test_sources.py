import gzip

import datasets
import pytest

from geoalign.dumps.values import field_of
from geoalign.errors import ConfigError, InputError
from geoalign.lab.data.settings import MathConfig
from geoalign.lab.data.sources import hub_dataset, rows_of
from geoalign.lab.data.tasks import make_task


def test_lines_of_json_plain_and_packed(tmp_path):
    content = '\ufeff{"question": "é"}\n\n{"answer": 9007199254740993}\n'.encode()
    (tmp_path / "a.jsonl").write_bytes(content)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(content))
    rows = [("line 1", {"question": "é"}), ("line 3", {"answer": 9007199254740993})]
    for name in ("a.jsonl", "a.jsonl.gz"):
        assert list(rows_of(tmp_path / name)) == rows


def test_parquet_rows_are_counted_over_batches(tmp_path):
    datasets.Dataset.from_dict({"n": list(range(2500))}).to_parquet(tmp_path / "a.parquet")
    rows = list(rows_of(tmp_path / "a.parquet"))
    assert rows[0] == ("row 1", {"n": 0})
    assert rows[-1] == ("row 2500", {"n": 2499})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bad.json", b'[{"a": 1}, 2]', "row 2: expected a JSON object, got int"),
        ("bad.jsonl", b'{"a": 1}\n{"a": \n', "line 2: expected a JSON object"),
        ("bad.jsonl", b'{"a": {"c": 1, "c": 1}}\n', "line 1: .* the key 'c' twice in one object"),
        ("bad.parquet", b"PAR1 no", "row 1: expected a parquet file"),
    ],
)
def test_bad_content_is_an_error_with_its_place(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name}, {message}"):
        list(rows_of(tmp_path / name))


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "a.xlsx").write_text("x")
    with pytest.raises(ConfigError, match=r"ends in \.jsonl, .* or \.parquet"):
        rows_of(tmp_path / "a.xlsx")


def test_dotted_names_go_into_objects_and_lists():
    row = {"reward_model": {"ground_truth": "34"}, "prompt": [{"content": "why"}], "a.b": "itself", "a": {"b": "inner"}}
    assert field_of(row, "reward_model.ground_truth") == "34"
    assert field_of(row, "prompt.0.content") == "why"
    assert field_of(row, "a.b") == "itself"
    for absent in ("prompt.1.content", "prompt.x", "reward_model.ground_truth.0", "nothing", "prompt.-1"):
        assert field_of(row, absent) is None


def test_what_names_a_data_set_on_the_hub():
    for text, dataset in (
        ("math-ai/amc23", ("math-ai/amc23", None, None, None)),
        ("math-ai/amc23@test", ("math-ai/amc23", None, None, "test")),
        ("a/b:main", ("a/b", None, "main", None)),
        ("a/b/c/d:en@train", ("a/b", "c/d", "en", "train")),
    ):
        assert tuple(hub_dataset(text).values()) == dataset
    for text in (
        *("train.jsonl", "data/train.parquet", "data/train.csv", "a/b/test.jsonl.gz", "data", "/a/b", "../a/b"),
        *("a/../b", "a/b@", "a/b:", "a b/c", "a//b", "https://huggingface.co/a/b", "a/b@test[:5]", "", "a/b\n"),
    ):
        assert hub_dataset(text) is None, text


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
    return hub


ROWS = [{"problem": "1+1?", "answer": 2.0}, {"problem": "2+2?", "answer": 4.0}]


def test_a_set_on_the_hub_is_read_like_a_file(hub):
    hub.answer = datasets.Dataset.from_list(ROWS)
    assert list(rows_of("owner/name/folder:en@test")) == [("row 1", ROWS[0]), ("row 2", ROWS[1])]
    assert hub.asked == ({"path": "owner/name", "name": "en", "data_dir": "folder", "split": "test"},)
    problems = make_task(MathConfig(train="owner/name@test"), seed=0).train_problems
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


def test_a_hub_that_cannot_be_reached_is_one_message_with_what_to_do(hub, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    hub.answer = ConnectionError("Couldn't reach 'owner/name' on the Hub (LocalEntryNotFoundError)")
    with pytest.raises(ConfigError) as error:
        rows_of("owner/name@test")
    said = str(error.value)
    assert "the Hugging Face hub (https://huggingface.co) cannot be reached" in said
    assert "`hf download owner/name --repo-type dataset`" in said
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match="HF_HUB_OFFLINE is set, so the Hugging Face hub is not asked"):
        rows_of("owner/name@test")


def test_what_the_hub_refuses_is_told(hub):
    hub.answer = ConnectionError("Couldn't reach 'owner/name' on the Hub (OfflineModeIsEnabled)")
    message = r"owner/name@test: expected a local file .* or a data set on the hub .*ConnectionError.*OfflineModeIsEnab"
    with pytest.raises(ConfigError, match=message):
        rows_of("owner/name@test")
