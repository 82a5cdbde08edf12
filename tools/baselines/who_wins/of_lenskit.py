"""Models of LensKit and the settings that are tried, 12 for each."""

from itertools import product

import numpy as np
import pandas as pd
import scipy.sparse as sp
from lenskit.als import ImplicitMFScorer
from lenskit.data import ItemList, RecQuery, from_interactions_df
from lenskit.knn import EASEScorer, ItemKNNScorer, SLIMScorer
from lenskit.training import TrainingOptions

from lists import best_items


def of_neighbors(model, rows, items):
    """The scores of LensKit's own calls, user by user."""
    every, found = ItemList(items, vocabulary=model.items), []
    for user in range(rows.shape[0]):
        seen = rows.indices[rows.indptr[user]:rows.indptr[user + 1]]
        found.append(np.nan_to_num(model(RecQuery(user_items=ItemList(seen)), every).scores(), nan=-np.inf))
    return np.stack(found)


def of_factors(model, rows, items):
    """The same scores as of LensKit's calls, but all items of many users in one product."""
    users = [model.new_user_embedding(None, ItemList(rows.indices[rows.indptr[user]:rows.indptr[user + 1]]))[0]
             for user in range(rows.shape[0])]
    return np.stack(users) @ model.item_embeddings.T


def of_weights(model, rows, items):
    found = rows[:, items] @ model.weights
    return found.toarray() if sp.issparse(found) else found


def fitting(scorer, scores_of, **fixed):
    def fit(train, settings, threads, seed):
        rows = train.tocoo()
        data = from_interactions_df(pd.DataFrame({"user_id": rows.row, "item_id": rows.col}))
        model = scorer(**fixed, **settings)
        model.train(data, TrainingOptions(rng=seed))
        items = data.items.ids()

        def scores(rows):
            found = np.full(rows.shape, -np.inf, dtype=np.float32)
            found[:, items] = scores_of(model, rows, items)
            return found
        return lambda rows, count: best_items(scores, rows, count)
    return fit


MODELS = {
    "item-knn": ([{"save_nbrs": kept, "max_nbrs": used} for kept, used in product((100, 300, 1000), (10, 20, 50, 100))],
                 fitting(ItemKNNScorer, of_neighbors, feedback="implicit")),
    "als": ([{"embedding_size": size, "weight": weight, "regularization": penalty}
             for size, weight, penalty in product((64, 128), (1, 10, 40), (.1, 10))], fitting(ImplicitMFScorer, of_factors, epochs=10)),
    "ease": ([{"regularization": l2} for l2 in (10, 30, 50, 80, 120, 200, 300, 400, 500, 700, 1000, 2000)], fitting(EASEScorer, of_weights)),
    "slim": ([{"l1_reg": l1, "l2_reg": l2, "max_nbrs": 100} for l1, l2 in product((.1, 1, 5), (1, 10, 50, 200))], fitting(SLIMScorer, of_weights)),
}
