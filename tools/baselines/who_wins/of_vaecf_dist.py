"""Models of this program and the settings that are tried: for each run of the program, its keys; lists are tried by the program."""

from itertools import product

FAMILY = {"model.type": "ease", "model.ease.user_power": .5, "model.ease.dropout": .33}
LOW_RANK = {**FAMILY, "model.ease.l2": [30, 80, 300], "model.low_rank.factors": 512, "model.low_rank.weight": [.4, .2, .8, 1.6, 2.4],
            "model.low_rank.power": [0, .2]}
KNN = "model.item_knn."
ADAM = "train.optimizer.learning_rate"
ELSA = {"model.type": "elsa", "train.epochs": 20, "train.patience": 4}

# 12 trials, or what the name or a comment says. Beyond 20,000 items a dense solution and an epoch take minutes, so there are fewer.
MODELS = {
    "item-knn": [{"model.type": "item_knn", KNN + "user_power": user, KNN + "source_power": source, KNN + "target_power": target,
                  KNN + "neighbors": neighbors, KNN + "power": power}
                 for user, (source, target), (neighbors, power) in
                 product((0, 1), ((.5, .5), (.4, .4), (.8, .2)), ((100, 1), ("all", .7)))],
    "ease": [{"model.type": "ease", "model.ease.l2": [10, 30, 50, 80, 120, 200, 300, 400, 500, 700, 1000, 2000]}],
    "ease-k": [{**FAMILY, "model.ease.l2": [30, 80, 300], "model.ease.relax": [0, .4], "model.ease.neighbors": neighbors}
               for neighbors in (100, 300)],
    "ease-standard": [{"model.type": "ease", "model.ease.search": "standard"}],  # 60 trials
    "low-rank": [LOW_RANK],
    "elsa": [{**ELSA, "model.elsa.factors": factors, "train.batch_size": batch, ADAM: rate}
             for factors, batch, rate in product((128, 256, 512), (128, 500), (.03, .1))],
    "mult-vae": [{"model.type": "mult_vae", "train.annealing.epochs": 855}],  # 1 trial: as in configs/ml1m.yaml
    "recvae": [{"model.type": "recvae", "train.epochs": 50, ADAM: 5e-4}],  # 1 trial
}
LARGE = {
    "item-knn": MODELS["item-knn"],
    "ease": [{**FAMILY, "model.ease.l2": 80, "model.ease.relax": .4}],  # 1 trial: what ease-k chose on Gowalla
    "ease-k": MODELS["ease-k"],
    "ease-standard": [{**MODELS["ease-standard"][0], "model.ease.neighbors": 100}],
    "low-rank": [{**LOW_RANK, "model.ease.neighbors": 100}],
    "elsa": [{**ELSA, "model.elsa.factors": 256, "train.batch_size": 500, ADAM: .03}],  # 1 trial
    "mult-vae": [{"model.type": "mult_vae", "train.epochs": 20, "train.annealing.cap": .8, "train.annealing.epochs": 2}],  # 1 trial
}


def keys_of(settings, keys):
    """Returns the keys of a solution's settings, with None for a key of the run that they replace."""
    if keys["model.type"] == "item_knn":  # tries no lists
        return {}
    found = {"model.low_rank." + name[len("low_rank_"):] if name.startswith("low_rank_") else "model.ease." + name: value
             for name, value in settings.items()}
    return {**found, "model.ease.search": None}
