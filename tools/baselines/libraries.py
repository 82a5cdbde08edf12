#!/usr/bin/env python3
"""Trains models of RecBole and Cornac on the train users of a dataset of vaecf_dist, and tests them on its test users.

Both libraries test on users that they have trained on. Here the train part alone is given to a library, its own code trains
the model, and this script feeds the fold-in items of the validation and test users to the trained model. So split, input and
metrics are those of vaecf_dist. Hyper-parameters are the library's defaults unless an option says otherwise.

Output: JSON, one object per line: `validation` after every --every epochs, then `test` with the weights of the best
validation NDCG@100, and the seconds of training alone. --lists writes the test users' lists, for `vaecf_dist evaluate --lists`.
"""

import argparse
import copy
import json
import logging
import os
import tempfile
import time

import numpy as np
import torch

from dataset import load_hdf5
from lists import best_items, judge, matrix, write_lists


def recbole_data(name, train, options):
    """Returns RecBole's configuration of a model, its train data, and our number of each of its items after the padding."""
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.utils import init_seed
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "train"))
        with open(os.path.join(folder, "train", "train.inter"), "w", encoding="ascii") as file:
            file.write("user_id:token\titem_id:token\n")
            rows = train.tocoo()
            file.writelines(f"{user}\t{item}\n" for user, item in zip(rows.row, rows.col))
        config = Config(model=name, dataset="train", config_dict={
            "data_path": folder, "checkpoint_dir": folder, "load_col": {"inter": ["user_id", "item_id"]},
            "eval_args": {"split": {"RS": [1, 0, 0]}, "order": "RO", "group_by": None, "mode": "full"},
            "train_neg_sample_args": None, "use_gpu": False, "gpu_id": "", "seed": options.seed,
            "reproducibility": True, "show_progress": False, "state": "WARNING", "worker": 0, **options.set})
        init_seed(options.seed, True)
        torch.set_num_threads(options.threads)
        data = create_dataset(config)
        train_data, _, _ = data_preparation(config, data)
        return config, train_data, data.field2id_token["item_id"][1:].astype(np.int64)


class RecBole:
    """A model of RecBole. RecBole numbers the items itself (0 is its padding); `item_of` maps them to our items."""

    def __init__(self, name, train, options):
        from recbole.utils import get_model, get_trainer
        config, self.train_data, self.item_of = recbole_data(name, train, options)
        self.items = train.shape[1]
        begin = time.perf_counter()
        self.model = get_model(name)(config, self.train_data.dataset)
        self.seconds = time.perf_counter() - begin if name == "EASE" else 0.0  # EASE is solved by its constructor
        self.trainer = get_trainer(config["MODEL_TYPE"], name)(config, self.model)
        self.epochs = 0 if name == "EASE" else int(config["epochs"])

    def train(self, epoch):
        begin = time.perf_counter()
        self.trainer._train_epoch(self.train_data, epoch, show_progress=False)  # fit() cannot test other users
        self.seconds += time.perf_counter() - begin

    @torch.no_grad()
    def scores(self, fold_in):
        rows = fold_in[:, self.item_of]
        if hasattr(self.model, "item_similarity"):
            found = rows @ np.asarray(self.model.item_similarity)[1:, 1:]
        else:
            self.model.eval()
            dense = np.zeros((rows.shape[0], len(self.item_of) + 1), dtype=np.float32)
            dense[:, 1:] = rows.toarray()
            dropout = [0.0] if type(self.model).__name__ == "RecVAE" else []
            found = self.model.forward(torch.from_numpy(dense), *dropout)[0].numpy()[:, 1:]
        scores = np.full((rows.shape[0], self.items), -np.inf)
        scores[:, self.item_of] = found
        return scores

    def weights(self):
        return copy.deepcopy(self.model.state_dict())

    def load(self, weights):
        self.model.load_state_dict(weights)


class Cornac:
    """Cornac's VAECF. Its fit() continues with the network of an earlier call, but starts Adam anew, so all epochs are one call."""

    def __init__(self, train, options):
        import cornac
        torch.set_num_threads(options.threads)
        rows = train.tocoo()
        self.data = cornac.data.Dataset.from_uir([(int(u), int(i), 1.0) for u, i in zip(rows.row, rows.col)],
                                                 seed=options.seed)
        self.model = cornac.models.VAECF(seed=options.seed, **options.set)
        self.items, self.seconds, self.epochs = train.shape[1], 0.0, 1
        self.item_of = np.array(self.data.item_ids, dtype=np.int64)

    def train(self, _):
        begin = time.perf_counter()
        self.model.fit(self.data)
        self.seconds += time.perf_counter() - begin

    @torch.no_grad()
    def scores(self, fold_in):
        vae = self.model.vae
        found = vae.decode(vae.encode(torch.from_numpy(fold_in[:, self.item_of].toarray()))[0]).numpy()
        scores = np.full((fold_in.shape[0], self.items), -np.inf)
        scores[:, self.item_of] = found
        return scores

    def weights(self):
        return copy.deepcopy(self.model.vae.state_dict())

    def load(self, weights):
        self.model.vae.load_state_dict(weights)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="dataset written by `vaecf_dist prepare`")
    parser.add_argument("--model", required=True, choices=["recbole.MultiVAE", "recbole.RecVAE", "recbole.EASE", "cornac.VAECF"])
    parser.add_argument("--set", type=json.loads, default={}, help='the library\'s own settings as JSON: {"epochs": 50}')
    parser.add_argument("--lists", metavar="FILE", help="write the lists of the test users as TSV: user, item, rank")
    parser.add_argument("--top", type=int, default=100, help="items in each list of --lists")
    parser.add_argument("--every", type=int, default=5, help="epochs between two validations (RecBole)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    items, data = load_hdf5(options.data)
    data = {name: matrix(pair, items) for name, pair in data.items()}
    library, name = options.model.split(".")
    model = RecBole(name, data["train"], options) if library == "recbole" else Cornac(data["train"], options)
    best, best_epoch, weights = -1.0, 0, None
    for epoch in range(1, model.epochs + 1):
        model.train(epoch - 1)
        if epoch % options.every == 0 or epoch == model.epochs:
            found = judge(best_items(model.scores, data["validation/fold_in"], 100), data["validation/held_out"])
            print(json.dumps({"event": "validation", "epoch": epoch, "seconds": round(model.seconds, 2), **found}), flush=True)
            if found["ndcg@100"] > best:
                best, best_epoch, weights = found["ndcg@100"], epoch, model.weights()
    if weights is not None:
        model.load(weights)
    lists = best_items(model.scores, data["test/fold_in"], max(options.top, 100))
    found = judge(lists, data["test/held_out"])
    print(json.dumps({"event": "test", "model": options.model, "best_epoch": best_epoch, "seconds": round(model.seconds, 2),
                      "threads": options.threads, "seed": options.seed, "set": options.set, **found}))
    if options.lists:
        write_lists(options.lists, options.data, lists[:, :options.top])


if __name__ == "__main__":
    main()
