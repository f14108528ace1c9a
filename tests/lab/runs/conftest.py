from generated_runs import make_run, rollout_step, write_rows, write_run  # noqa: F401 - fixtures
