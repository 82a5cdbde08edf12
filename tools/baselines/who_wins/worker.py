#!/usr/bin/env python3
"""Tries the settings of one model of a library, and writes the test users' lists of the settings that the validation users choose.

It runs in the environment of the library, started by run.py, and its output is JSON, one object per line: `trial` for each
of the settings, with the NDCG@100 of the validation users, and `search`: the choice, the seconds of all trials with their
validation, those of the chosen model alone, and the peak of the process's memory. Neither has the imports, the reading of
the dataset, and the test users' lists in its seconds.
"""

import argparse
import importlib
import json
import logging
import os
import resource
import sys
import time
import warnings
from pathlib import Path

here = Path(__file__).resolve().parent
sys.path[:0] = [str(here), str(here.parent)]

from dataset import load_hdf5  # noqa: E402
from lists import judge, matrix, write_lists  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="dataset written by `vaecf_dist prepare`")
    parser.add_argument("--library", required=True, help="of_NAME.py beside this script")
    parser.add_argument("--model", required=True, help="one of its MODELS")
    parser.add_argument("--lists", required=True, metavar="FILE", help="file to write: user, item, rank")
    parser.add_argument("--trials", type=int, help="try at most so many settings, the first ones")
    options = parser.parse_args()
    sys.argv[1:] = []  # RecBole reads them, too
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    grid, fit = importlib.import_module(f"of_{options.library}").MODELS[options.model]
    items, data = load_hdf5(options.data)
    data = {name: matrix(pair, items) for name, pair in data.items()}
    total, best = 0.0, None
    for settings in grid[:options.trials]:
        begin = time.perf_counter()
        recommend = fit(data["train"], settings, threads=len(os.sched_getaffinity(0)), seed=0)
        alone = time.perf_counter() - begin
        found = judge(recommend(data["validation/fold_in"], 100), data["validation/held_out"])["ndcg@100"]
        trial = time.perf_counter() - begin
        total += trial
        print(json.dumps({"event": "trial", "settings": settings, "ndcg@100": found, "seconds": round(trial, 3)}), flush=True)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        if best is None or found > best["ndcg@100"]:
            best = {"settings": settings, "ndcg@100": found, "alone": round(alone, 3)}
            lists = recommend(data["test/fold_in"], 100)
        del recommend
    print(json.dumps({"event": "search", **best, "trials": len(grid[:options.trials]), "seconds": round(total, 3),
                      "gib": round(peak, 2)}))
    write_lists(options.lists, options.data, lists)


if __name__ == "__main__":
    main()
