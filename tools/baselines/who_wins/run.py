#!/usr/bin/env python3
"""Repeats the tables of docs/WHO_WINS.md for one program; launch/record who-wins starts it.

For each dataset and model: settings from a written grid are tried, the validation users choose, and the test users' lists are judged
by `vaecf_dist evaluate`. A library runs in an environment of its own with the versions of its requirements file here. The table
goes to standard output, and every trial and result as JSON, one object per line, to --output.
"""

import argparse
import filecmp
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

here = Path(__file__).resolve().parent
sys.path.insert(0, str(here))

import of_vaecf_dist  # noqa: E402

root = here.parents[2]
LIBRARIES = {"implicit": ["cosine", "bm25", "als"], "lenskit": ["item-knn", "als", "ease", "slim"],
             "recbole": ["item-knn", "ease", "slim"], "sansa": ["icf", "cholmod"]}
# Name: configuration, raw data in --data, more than 20,000 items.
DATASETS = {"ml-1m": ("ml1m", "ml-1m/ratings.dat", False), "gowalla-strong": ("gowalla-strong", "gowalla-strong", True),
            "yelp2018-strong": ("yelp2018-strong", "yelp2018-strong", True)}
METRICS = "recall@20,ndcg@100,unbiased_recall@20"


class Failed(Exception):
    pass


def measured(command, log):
    """Runs a command with its output in a file. Returns its seconds and the peak of its memory in GiB."""
    begin = time.perf_counter()
    with open(log, "ab") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise Failed(f"{command[0]} ended with exit code {process.returncode}; see {log}")
    return time.perf_counter() - begin, usage.ru_maxrss / 2**20


def environment(program, work):
    """Makes the environment of a library, unless it has been made from the same requirements. Returns its Python."""
    folder, wanted = work / program, here / f"{program}.txt"
    made, python = folder / "made.txt", folder / "bin" / "python"
    if not (made.exists() and filecmp.cmp(made, wanted, shallow=False)):
        log = work / f"{program}.log"
        for command in ([sys.executable, "-I", "-m", "venv", "--clear", folder],
                        [python, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", wanted]):
            measured([str(word) for word in command], log)
        shutil.copyfile(wanted, made)
    return python


def events(path, kind):
    """Returns the events of a kind in the log of a run."""
    with open(path, encoding="utf-8") as file:
        return [event for event in map(json.loads, file) if event["event"] == kind]


class Ours:
    """Models of vaecf_dist. A trial is a solution, or a whole run of a network."""

    def __init__(self, vaecf_dist, large):
        self.vaecf_dist = vaecf_dist
        self.runs = of_vaecf_dist.LARGE if large else of_vaecf_dist.MODELS

    def train(self, model, keys, data, lists, log):
        """Trains a run. Returns its folder, seconds, GiB, and the options of its command."""
        folder = lists.parent / "runs" / model
        shutil.rmtree(folder, ignore_errors=True)
        config = lists.with_suffix(".yaml")
        config.write_text("# All other keys have their defaults.\n", encoding="utf-8")
        options = [str(config)]
        for key, value in {"name": model, "run.directory": str(folder.parent), "data.file": str(data), "evaluation.baselines": [],
                           "evaluation.metrics": ["ndcg@100"], "validation.select": "ndcg@100", **keys}.items():
            options += ["--set", f"{key}={json.dumps(value)}"]
        return folder, *measured([self.vaecf_dist, *options, "--train"], log), options

    def search(self, model, data, lists, trials, log):
        tried, total, peak = [], 0.0, 0.0
        for keys in self.runs[model][:trials]:
            folder, seconds, gib, options = self.train(model, keys, data, lists, log)
            total, peak, log_of_run = total + seconds, max(peak, gib), folder / "metrics.jsonl"
            for event in events(log_of_run, "solve"):
                tried.append({"settings": {**keys, **of_vaecf_dist.keys_of(event["settings"], keys)},
                              "ndcg@100": event["metrics"]["ndcg@100"]["value"],
                              "seconds": round(event["seconds"] + event["evaluation_seconds"], 2)})
                yield {"event": "trial", **tried[-1]}
            epochs = events(log_of_run, "validation")
            if epochs:  # a network
                best = max(epochs, key=lambda event: event["metrics"]["ndcg@100"]["value"])
                tried.append({"settings": keys, "epoch": best["epoch"], "ndcg@100": best["metrics"]["ndcg@100"]["value"],
                              "seconds": round(seconds, 2)})
                yield {"event": "trial", **tried[-1]}
        best = max(tried, key=lambda trial: trial["ndcg@100"])
        if len(tried) > 1:
            _, seconds, _, options = self.train(model, best["settings"], data, lists, log)
        measured([self.vaecf_dist, "recommend", *options, "--split", "test", "--top", "100", "--output", str(lists)], log)
        yield {**best, "event": "search", "alone": round(seconds, 2), "trials": len(tried), "seconds": round(total, 2), "gib": round(peak, 2)}


class Library:
    """Models of a library, by worker.py in its environment."""

    def __init__(self, name, python):
        self.name, self.python = name, python

    def search(self, model, data, lists, trials, log):
        command = [self.python, "-I", here / "worker.py", "--data", data, "--library", self.name, "--model", model, "--lists", lists]
        command += ["--trials", str(trials)] if trials else []
        with open(log, "ab") as errors, \
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors) as process:
            for line in process.stdout:
                if line.startswith(b'{"event": '):  # libraries print, too
                    yield json.loads(line)
        if process.returncode:
            raise Failed(f"{model} ended with exit code {process.returncode}; see {log}")


def short(number):
    return f"{number:.4f}".lstrip("0")


def row(result):
    values = result["metrics"]
    settings = ", ".join(f"{key.rsplit('.', 1)[-1]} {value:g}" if isinstance(value, float) else f"{key.rsplit('.', 1)[-1]} {value}"
                         for key, value in result["settings"].items() if value and key != "model.type")
    cells = [f"{result['program']} {result['model']}", settings, result["trials"], short(values["recall@20"]["value"]),
             short(values["ndcg@100"]["value"]), short(result["groups"]["tail"]["metrics"]["recall@20"]["value"]),
             short(values["unbiased_recall@20"]["value"]), f"{result['seconds']:.0f} ({result['alone']:.1f})", f"{result['gib']:.1f}"]
    return "| " + " | ".join(map(str, cells)) + " |"


def main():
    parser = argparse.ArgumentParser(prog="launch/record who-wins", formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description="Repeats the tables of docs/WHO_WINS.md for one program.",
                                     epilog="VAECF_PROGRAM is the path of vaecf_dist, which prepares the data and judges the lists.")
    parser.add_argument("--program", required=True, choices=["vaecf_dist", *LIBRARIES], help="whose models to try")
    parser.add_argument("--dataset", action="append", choices=list(DATASETS), help="repeatable; default: all of them")
    parser.add_argument("--model", action="append", help="repeatable; default: all of the program")
    parser.add_argument("--trials", type=int, help="try at most so many settings (vaecf_dist: runs), the first ones of the grid")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the raw data (default: data)")
    parser.add_argument("--work", type=Path, default=Path("who-wins"),
                        help="folder for environments, datasets, runs and lists (default: who-wins)")
    parser.add_argument("--output", type=Path, default=Path("who-wins.jsonl"),
                        help="file to which every trial and result is appended as JSON (default: who-wins.jsonl)")
    options = parser.parse_args()
    vaecf_dist, work = os.environ["VAECF_PROGRAM"], options.work.absolute()
    datasets = options.dataset or list(DATASETS)
    for dataset in datasets:
        models = ours(dataset) if options.program == "vaecf_dist" else LIBRARIES[options.program]
        for model in options.model or []:
            if model not in models:
                parser.error(f"--model {model}: must be one of {', '.join(models)}")
        if not (options.data / DATASETS[dataset][1]).exists():
            parser.error(f"{options.data} does not contain {DATASETS[dataset][1]}; run launch/fetch-dataset {dataset}, or set --data")
    work.mkdir(parents=True, exist_ok=True)
    try:
        python = None if options.program == "vaecf_dist" else environment(options.program, work)
        print("| program, model | settings | trials | Recall@20 | NDCG@100 | tail recall | unbiased recall | seconds (chosen alone) | GiB |\n"
              "|---|---|--:|--:|--:|--:|--:|--:|--:|", flush=True)
        for dataset in datasets:
            name, raw, large = DATASETS[dataset]
            config, data = root / "configs" / f"{name}.yaml", work / f"{dataset}.h5"
            log = work / f"{options.program}-{dataset}.log"
            measured([vaecf_dist, "prepare", str(config), "--set", f"data.file={json.dumps(str(data))}",
                      "--set", f"data.source.path={json.dumps(str((options.data / raw).absolute()))}"], log)
            program = Library(options.program, python) if python else Ours(vaecf_dist, large)
            for model in options.model or (ours(dataset) if not python else LIBRARIES[options.program]):
                try_model(program, options, dataset, model, data, work, log)
    except Failed as error:
        sys.exit(f"record: {error}")


def ours(dataset):
    return list(of_vaecf_dist.LARGE if DATASETS[dataset][2] else of_vaecf_dist.MODELS)


def try_model(program, options, dataset, model, data, work, log):
    """Searches a model, judges its lists, and appends what it found."""
    lists = work / f"{options.program}-{dataset}-{model}.tsv"
    with open(options.output, "a", encoding="utf-8") as output:
        def write(event):
            print(json.dumps({"program": options.program, "dataset": dataset, "model": model, **event}), file=output, flush=True)
        for event in program.search(model, data, lists, options.trials, log):
            write(event)
        judged = subprocess.run([os.environ["VAECF_PROGRAM"], "evaluate", data, "--lists", lists, "--metrics", METRICS, "--json"],
                                stdout=subprocess.PIPE, check=False)
        if judged.returncode:
            raise Failed(f"the lists of {model} could not be judged")
        result = {**event, **json.loads(judged.stdout), "event": "result", "program": options.program, "model": model}
        write(result)
    print(row(result), flush=True)


if __name__ == "__main__":
    main()
