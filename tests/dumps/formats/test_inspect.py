import json
import struct
import zipfile
import zlib

import pyarrow as pa
import pytest
from dumps import all_responses, all_rewards, inspect
from written import read

from geoalign.errors import ConfigError, InputError

ZSTD = 93  # the number of the method in a zip archive


def write_eval(path, files, *, method=zipfile.ZIP_DEFLATED):
    """A zip archive of files by name as Inspect writes it; zstd is put in by hand."""
    content = {name: json.dumps(value).encode() for name, value in files.items()}
    if method == ZSTD:
        path.write_bytes(zstd_archive(content))
        return path
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return path


def zstd_archive(content):
    """The bytes of a zip archive whose members are packed by zstd, in two frames each."""
    members = b""
    directory = b""
    for name, data in content.items():
        half = len(data) // 2
        frames = [pa.compress(part, codec="zstd", asbytes=True) for part in (data[:half], data[half:])]
        packed = b"".join(frames)
        # What both headers hold: version, flags, method, time and date; checksum; sizes; lengths of name and extra.
        shared = struct.pack("<HHHHH", 20, 0, ZSTD, 0, 0x21)
        shared += struct.pack("<I", zlib.crc32(data))
        shared += struct.pack("<II", len(packed), len(data))
        shared += struct.pack("<HH", len(name), 0)
        # The directory alone: no comment, disk 0, no attributes, and where the member begins.
        place = struct.pack("<HHHII", 0, 0, 0, 0, len(members))
        directory += b"PK\x01\x02\x14\x00" + shared + place + name.encode()
        members += b"PK\x03\x04" + shared + name.encode() + packed
    # Disks 0 and 0, the number of entries on this one and in all, the directory's length and place, no comment.
    count = len(content)
    end = struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), len(members), 0)
    return members + directory + b"PK\x05\x06" + end


def samples_by_name():
    return {f"samples/{one['id']}_epoch_{one['epoch']}.json": one for one in inspect(samples_only=True)}


def write_json(path, samples):
    path.write_text(json.dumps({**inspect(), "samples": samples}))
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, ZSTD])
def test_an_archive_is_read_as_the_json_log(method, tmp_path):
    files = {"_journal/start.json": {"version": 2}, **samples_by_name(), "summaries.json": [], "header.json": {}}
    layout, rows = read(write_eval(tmp_path / "log.eval", files, method=method))
    assert layout.format.name == "inspect"
    assert [row.response for row in rows] == all_responses()
    assert [row.reward for row in rows] == all_rewards()
    last_of_second = rows[7]
    assert (last_of_second.group_name, last_of_second.id) == ("s1", "s1/4")
    assert (last_of_second.answer, last_of_second.final_answer) == ("1", "3")
    assert last_of_second.tokens == 8
    assert (last_of_second.truncated, rows[6].truncated) == (True, False)


def test_large_samples_whose_messages_stand_apart(tmp_path):
    (sample, *_) = inspect(samples_only=True)
    files = {
        "samples/s0_epoch_1/sample.json": {**sample, "messages": [], "input": "attachment://1"},
        "samples/s0_epoch_1/attachments/0.json": ["other"],
        "samples/s0_epoch_1/attachments/1.json": ["a long question"],
        "samples/s0_epoch_1/messages/0.json": [],
    }
    _, (found,) = read(write_eval(tmp_path / "log.eval", files))
    assert (found.prompt, found.response) == ("a long question", "answer 0.0")


def test_words_as_scores(tmp_path):
    values = ["C", "I", "P", "N", "yes", "0.25", True, float("nan")]
    samples = inspect(samples_only=True)[: len(values)]
    for sample, value in zip(samples, values, strict=True):
        sample["scores"]["match"]["value"] = value
    del samples[4]["scores"]
    _, rows = read(write_json(tmp_path / "log.json", samples))
    assert [str(row.reward) for row in rows] == ["1.0", "0.0", "0.5", "0.0", "nan", "0.25", "1.0", "nan"]


def test_of_several_scorers_one_is_named(tmp_path):
    samples = inspect(samples_only=True)
    for sample in samples:
        sample["scores"]["rubric"] = {"value": {"style": 0.5, "facts": "C"}, "answer": sample["output"]["completion"]}
    path = write_json(tmp_path / "log.json", samples)
    with pytest.raises(ConfigError, match=r"--field reward=score\.match\+score\.rubric\.style"):
        read(path)
    _, rows = read(path, fields={"reward": "score.rubric.facts"})
    assert {row.reward for row in rows} == {1.0}
    assert rows[7].final_answer == "3"


def test_scores_of_an_earlier_audit_are_no_rewards(tmp_path):
    samples = inspect(samples_only=True)
    for sample in samples:
        sample["scores"]["geoalign"] = {"value": {"flagged": 1, "score": 2.5}}
    layout, rows = read(write_json(tmp_path / "log.json", samples))
    assert layout.fields["reward"] == "score.match"
    assert [row.reward for row in rows] == all_rewards()


def test_a_scorer_that_names_the_output_in_lower_case_found_no_answer(tmp_path):
    (sample, *_) = inspect(samples_only=True)
    sample["output"]["completion"] = "Answer 0.0"
    sample["scores"]["match"]["answer"] = "answer 0.0"
    _, (found,) = read(write_json(tmp_path / "log.json", [sample]))
    assert found.final_answer is None


def test_turns_and_tool_calls(tmp_path):
    (sample, *_) = inspect(samples_only=True)
    call = {"id": "0", "function": "add", "arguments": {"a": 1}, "type": "function"}
    sample["messages"].insert(0, {"role": "system", "content": "Be brief."})
    sample["messages"][2]["tool_calls"] = [call]
    sample["messages"] += [
        {"role": "tool", "content": "2", "function": "add"},
        {"role": "assistant", "source": "generate", "content": "done"},
    ]
    _, (found,) = read(write_json(tmp_path / "log.json", [sample]))
    assert [message["role"] for message in found.messages] == ["system", "user"]
    assert found.response == '[assistant]\nanswer 0.0\nadd({"a": 1})\n[tool]\n2\n[assistant]\ndone'


def test_each_of_several_targets_is_a_gold_answer(tmp_path):
    samples = inspect(samples_only=True)
    samples[0]["target"] = ["two", "2"]
    samples[1]["target"] = ["two"]
    _, rows = read(write_json(tmp_path / "log.json", samples))
    assert (rows[0].answer, rows[0].gold_answers) == ('["two", "2"]', ("two", "2"))
    assert (rows[1].answer, rows[1].gold_answers) == ("two", ("two",))


def test_a_broken_archive_is_refused(tmp_path):
    path = write_eval(tmp_path / "log.eval", samples_by_name(), method=ZSTD)
    path.write_bytes(path.read_bytes().replace(b"answer 0.1", b"answer 9.9"))
    (tmp_path / "cut.eval").write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match=r"cut\.eval, row 1: expected a log of Inspect, got "):
        read(tmp_path / "cut.eval")
    write_eval(tmp_path / "new.eval", {"_journal/start.json": {}})
    with pytest.raises(InputError, match=r"new\.eval, row 1: .*without samples"):
        read(tmp_path / "new.eval")
