"""SANSA and the 12 settings that are tried of each factorization: an approximate, sparse inverse of EASE's matrix.

SANSA's log advises the incomplete factorization (icf) for sparse matrices, and for others the exact one (cholmod), whose result it
makes sparse. `icf` scales the items first, so that its l2 has another unit."""

from itertools import product

import sansa
from sansa.core import CHOLMODGramianFactorizerConfig, ICFGramianFactorizerConfig, UMRUnitLowerTriangleInverterConfig

from lists import best_items


def fitting(factorizer):
    def fit(train, settings, threads, seed):
        model = sansa.SANSA(sansa.SANSAConfig(
            l2=settings["l2"], weight_matrix_density=settings["density"], gramian_factorizer_config=factorizer(),
            lower_triangle_inverter_config=UMRUnitLowerTriangleInverterConfig(scans=1, finetune_steps=10)))
        model.fit(train)
        return lambda rows, count: best_items(lambda rows: model.forward(rows).toarray(), rows, count)
    return fit


def grid(penalties, densities):
    return [{"l2": l2, "density": density} for l2, density in product(penalties, densities)]


MODELS = {"icf": (grid((.5, 5, 50, 500), (2e-4, 5e-4, 2e-3)), fitting(ICFGramianFactorizerConfig)),
          "cholmod": (grid((30, 100, 300, 1000), (1e-2, 5e-2, 2e-1)), fitting(CHOLMODGramianFactorizerConfig))}
