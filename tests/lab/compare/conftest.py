from generated_comparisons import make_comparison, make_result, write_comparison  # noqa: F401 - fixtures
from generated_runs import make_run, write_run  # noqa: F401 - fixtures
