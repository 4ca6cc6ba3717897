"""Runs tasks of lm-evaluation-harness on a checkpoint.

    python -m examples.train.harness run --tasks text_choice text_loss
    python -m examples.train.harness run --tasks text_choice --times 4 --rope ntk
    python -m examples.train.harness run --tasks lambada_openai --tokenizer tokenizer.json --limit 200

Needs lm-eval (pip install lm-eval). Tasks are names that the harness knows, most of which it downloads;
YAML files; or the two of harness_tasks.py, which are made of a text. A model of bytes reads UTF-8. One
of shards needs its tokenizer, a tokenizer.json as the package tokenizers writes it.

Exit codes: 0 done; 2 wrong options, checkpoint or task.
"""

import argparse
import json
import pathlib
import sys
from typing import Any, Optional

import lm_eval
from lm_eval.tasks import TaskManager

from . import evaluate, harness_tasks, model as models, rope as ropes
from .checkpoint import write_whole
from .fields import ConfigError
from .harness_model import Checkpoint


def load(options: argparse.Namespace) -> tuple[Checkpoint, str]:
    """The model of the options, and the file that the tasks of harness_tasks are made of."""
    config, model = evaluate.load_model(options.run)
    model = evaluate.text_model(model)
    changes = {"attention": options.attention, "p": options.p}
    changes = {name: value for name, value in changes.items() if value is not None}
    models.read_with(model, **changes)
    text = options.text or (config.data.validation if config.data.source == "text" else "")
    return Checkpoint(config, model, options.tokenizer, options.times, options.rope, options.device), text


def find_tasks(names: list[str], text: str, window: int) -> tuple[list[Any], TaskManager]:
    """The tasks as simple_evaluate takes them, and what knows them by name."""
    for name in names:
        if name.endswith((".yaml", ".yml")) and not pathlib.Path(name).is_file():
            raise ConfigError(f"--tasks: {name!r}; no such file")
    named = [x for x in names if x not in harness_tasks.TASKS and not pathlib.Path(x).is_file()]
    # The harness's own tasks are thousands of files, which it reads to find a name.
    manager = TaskManager(include_defaults=bool(named))
    for name in named:
        if name not in manager.all_tasks:
            made = ", ".join(harness_tasks.TASKS)
            raise ConfigError(f"--tasks: {name!r}; must be a task of the harness, a YAML file, or {made}")
    return [harness_tasks.make(x, text, window) if x in harness_tasks.TASKS else x for x in names], manager


def run(options: argparse.Namespace) -> dict[str, Any]:
    """The harness's results, and how many requests were cut."""
    lm, text = load(options)
    tasks, manager = find_tasks(options.tasks, text, lm.max_length)
    found = lm_eval.simple_evaluate(
        model=lm,
        tasks=tasks,
        task_manager=manager,
        limit=options.limit,
        bootstrap_iters=options.bootstrap,
    )
    assert found is not None  # it is None only on processes beside the first
    return {"results": found["results"], "cut": lm.cut}


def table(results: dict[str, dict[str, Any]]) -> str:
    """A line for each task and metric."""
    lines = []
    for task, values in results.items():
        for name, value in values.items():
            metric, _, of_filter = name.partition(",")
            if of_filter and not metric.endswith("_stderr") and isinstance(value, (int, float)):
                error = values.get(f"{metric}_stderr,{of_filter}")
                spread = f" +- {error:.4f}" if isinstance(error, (int, float)) else ""
                lines.append(f"{task:20} {metric:20} {value:.4f}{spread}")
    return "\n".join(lines)


def parse(arguments: Optional[list[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("run", type=pathlib.Path, help="train.out of a run")
    made = ", ".join(harness_tasks.TASKS)
    parser.add_argument("--tasks", nargs="+", required=True, help=f"names, YAML files, or {made}")
    parser.add_argument("--text", help="what text_choice and text_loss are made of (default data.validation)")
    parser.add_argument("--tokenizer", help="tokenizer.json of a model of shards")
    parser.add_argument("--times", type=int, default=1, help="the window, in training lengths (default 1)")
    parser.add_argument("--rope", choices=ropes.SCALINGS, default="none", help="how positions are stretched")
    parser.add_argument("--attention", help="instead of model.attention")
    parser.add_argument("--p", type=int, help="instead of model.p")
    parser.add_argument("--limit", type=int, help="documents of each task (default all)")
    parser.add_argument("--bootstrap", type=int, default=1000, help="draws for the errors (default 1000)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default cpu)")
    parser.add_argument("--output", type=pathlib.Path, help="a JSON file for the results")
    options = parser.parse_args(arguments)
    if options.times < 1:
        parser.error(f"--times: {options.times}; must be 1 or more")
    return options


def main(arguments: Optional[list[str]] = None) -> int:
    options = parse(arguments)
    try:
        found = run(options)
    except (ConfigError, OSError) as error:
        print(f"harness: {error}", file=sys.stderr)
        return 2
    print(table(found["results"]))
    if found["cut"]:
        print(f"{found['cut']} requests lost their beginnings: they were longer than the window")
    if options.output:
        text = json.dumps(found, indent=1, default=str) + "\n"
        write_whole(options.output, lambda file: file.write(text.encode()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
