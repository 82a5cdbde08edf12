"""Models of RecBole that are matrices between items, and the settings that are tried, 12 for each."""

from argparse import Namespace
from itertools import product

import numpy as np
import scipy.sparse as sp

from libraries import recbole_data
from lists import best_items


def item_knn(train, options):
    # RecBole's class, without the scores of all train users that its ItemKNN also computes.
    from recbole.model.general_recommender.itemknn import ComputeSimilarity
    from recbole.utils import init_seed
    init_seed(options.seed, True)
    return ComputeSimilarity(train, method="item", topk=options.set["k"], shrink=options.set["shrink"]).compute_similarity()[1]


def solved(name):
    def weights(train, options):
        from recbole.utils import get_model
        config, data, item_of = recbole_data(name, train, options)
        found = get_model(name)(config, data.dataset).item_similarity
        place = np.empty_like(item_of)
        place[item_of] = np.arange(1, len(item_of) + 1)  # the first of RecBole's items is a padding
        return (found.tocsr() if sp.issparse(found) else np.asarray(found))[place][:, place]
    return weights


def fitting(weights_of):
    """weights_of(train, options) returns a matrix between items."""
    def fit(train, settings, threads, seed):
        weights = weights_of(train, Namespace(seed=seed, threads=threads, set=settings))
        return lambda rows, count: best_items(lambda rows: dense(rows @ weights), rows, count)
    return fit


def dense(scores):
    return scores.toarray() if sp.issparse(scores) else scores


MODELS = {
    "item-knn": ([{"k": k, "shrink": shrink} for k, shrink in product((20, 50, 100, 200, 500, 1000), (0, 20))], fitting(item_knn)),
    "ease": ([{"reg_weight": float(l2)} for l2 in (10, 30, 50, 80, 120, 200, 300, 400, 500, 700, 1000, 2000)],
             fitting(solved("EASE"))),
    "slim": ([{"alpha": alpha, "l1_ratio": ratio} for alpha, ratio in product((.2, .02, .005), (.02, .005, .1, .5))],
             fitting(solved("SLIMElastic"))),
}
