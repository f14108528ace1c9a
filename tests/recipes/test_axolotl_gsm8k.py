"""The prompts and the reward function of the recipe for Axolotl."""

from recipes.axolotl_gsm8k import problems, right

ROW = {
    "question": "How many are 1,000 and 200?",
    "answer": "It is 1,000 + 200 = <<1000+200=1200>>1,200.\n#### 1,200",
}


def boxed(text):
    return [{"role": "assistant", "content": f"So it is \\boxed{{{text}}}."}]


def test_a_problem_of_gsm8k_becomes_a_prompt_with_its_gold_number():
    to_prompt, removed = problems(cfg=None)
    made = to_prompt(ROW)
    assert made["answer"] == "1200"
    assert made["prompt"][0]["content"].startswith(ROW["question"])
    assert removed == {"remove_columns": ["question"]}


def test_the_last_box_is_compared_with_the_gold_number():
    texts = ["1,200", "1200", "1200.00", "\\$1200", "120"]
    completions = [*map(boxed, texts), [{"role": "assistant", "content": "It is 1200."}]]
    assert right(completions, answer=["1200"] * 6) == [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
