"""Models of implicit and the settings that are tried, 12 for each."""

from itertools import product

import numpy as np


def recommending(model, **options):
    """Returns a function that returns implicit's own lists of users by their fold-in rows."""
    def recommend(rows, count):
        items, scores = model.recommend(np.arange(rows.shape[0]), rows, N=count, **options)
        return np.where(scores > -np.finfo(np.float32).max, items, -1)
    return recommend


def neighbors(name):
    def fit(train, settings, threads, seed):
        import implicit.nearest_neighbours
        model = getattr(implicit.nearest_neighbours, name)(num_threads=threads, **settings)
        model.fit(train, show_progress=False)
        return recommending(model)
    return fit


def als(train, settings, threads, seed):
    from implicit.cpu.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits
    threadpool_limits(1, "blas")  # as implicit advises
    model = AlternatingLeastSquares(num_threads=threads, random_state=seed, **settings)
    model.fit(train, show_progress=False)
    return recommending(model, recalculate_user=True)


MODELS = {
    "cosine": ([{"K": k} for k in (20, 50, 100, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000)], neighbors("CosineRecommender")),
    "bm25": ([{"K": k, "K1": k1, "B": b} for k, k1, b in product((200, 1000), (.5, 1.2, 3), (.3, .75))],
             neighbors("BM25Recommender")),
    "als": ([{"factors": factors, "alpha": alpha, "regularization": penalty}
             for factors, alpha, penalty in product((128, 256), (1, 10), (.01, 1, 10))], als),
}
