"""The names that people and engines give to the same thing in files of rollouts."""

from __future__ import annotations

# Objects in which engines and data sets keep what else they know of a problem.
_NOTES = ("info", "extra_info", "metadata", "meta")


def _also_in_notes(*names: str) -> tuple[str, ...]:
    """The names, and the same names inside an object of notes: `image`, `info.image`, `extra_info.image`..."""
    return (*names, *(f"{notes}.{name}" for notes in _NOTES for name in names))


# Fields that name the group of a rollout, whatever the format.
GROUPS = ("group", "group_id", "prompt_id", "prompt_uid", "prompt_idx", "prompt_index", "group_idx", "group_index")
# Fields that hold the final answer of a response, whatever the format, as reward functions and harnesses call it.
FINAL_ANSWERS = (
    "final_answer", "pred", "prediction", "predicted_answer", "pred_answer", "extracted_answer", "answer_extracted",
    "extracted_prediction", "extracted_pred", "parsed_answer", "model_answer", "response_answer", "student_answer",
)  # fmt: skip
# Fields that hold the gold answer of a problem, whatever the format; the first that a file has is read as `answer`.
GOLD_ANSWERS = (
    "ground_truth", "gold_answer", "golden_answer", "reference_answer", "expected_answer", "correct_answer", "gold",
    "gts", "gt", "reward_model.ground_truth",
)  # fmt: skip
# Fields that hold it in most files, and in some what the response itself answered.
LIKELY_GOLD_ANSWERS = ("answer", "solution", "target")
MEDIA = _also_in_notes(
    "image", "images", "image_path", "image_url", "image_id", "video", "videos", "audio", "audios", "multi_modal_data",
)  # fmt: skip
ENVIRONMENTS = _also_in_notes(
    "data_source", "source", "dataset", "dataset_name", "subset", "env", "env_id", "env_name", "environment", "task",
    "task_name",
)  # fmt: skip
# Fields that name a problem, and fields that name a problem in some files and a rollout in others.
PROBLEM_IDS = (*_also_in_notes(
    "problem_id", "question_id", "example_id", "task_id", "query_id", "instance_id", "problem_idx", "question_idx",
    "unique_id",
), "extra_info.index")  # fmt: skip
IDS = ("id", "uid", "sample_id", "index", "idx")
