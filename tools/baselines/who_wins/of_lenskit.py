"""Models of LensKit and the settings that are tried, 12 for each."""

import logging
from itertools import product

import numpy as np
import pandas as pd
from lenskit.als import ImplicitMFScorer
from lenskit.data import ItemList, RecQuery, from_interactions_df
from lenskit.knn import EASEScorer, ItemKNNScorer, SLIMScorer
from lenskit.logging import LoggingConfig
from lenskit.training import TrainingOptions

from lists import best_items

LoggingConfig().set_stderr_level(logging.ERROR)


def fitting(scorer, **fixed):
    def fit(train, settings, threads, seed):
        rows = train.tocoo()
        data = from_interactions_df(pd.DataFrame({"user_id": rows.row, "item_id": rows.col}))
        model = scorer(**fixed, **settings)
        model.train(data, TrainingOptions(rng=seed))
        items = data.items.ids()
        every = ItemList(items, vocabulary=data.items)

        def scores(rows):
            found = np.full(rows.shape, -np.inf, dtype=np.float32)
            for user in range(rows.shape[0]):
                seen = rows.indices[rows.indptr[user]:rows.indptr[user + 1]]
                of_user = model(RecQuery(user_items=ItemList(seen)), every).scores()
                found[user, items] = np.nan_to_num(of_user, nan=-np.inf)
            return found
        return lambda rows, count: best_items(scores, rows, count)
    return fit


MODELS = {
    "item-knn": ([{"save_nbrs": kept, "max_nbrs": used} for kept, used in product((100, 300, 1000), (10, 20, 50, 100))],
                 fitting(ItemKNNScorer, feedback="implicit")),
    "als": ([{"embedding_size": size, "weight": weight, "regularization": penalty}
             for size, weight, penalty in product((64, 128), (1, 10, 40), (.1, 10))], fitting(ImplicitMFScorer, epochs=10)),
    "ease": ([{"regularization": l2} for l2 in (10, 30, 50, 80, 120, 200, 300, 400, 500, 700, 1000, 2000)], fitting(EASEScorer)),
    "slim": ([{"l1_reg": l1, "l2_reg": l2, "max_nbrs": 100} for l1, l2 in product((.1, 1, 5), (1, 10, 50, 200))], fitting(SLIMScorer)),
}
