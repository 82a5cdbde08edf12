"""Names that differ between two commits, for a comparison across a change of names: old name -> new name.

Configuration keys are applied to the settings of the new side; attributes and fields of results to those of the old side.
"""

KEYS = {
    "data.prepare.features": "data.prepare.user_features",
    "data.prepare.holdout": "data.prepare.held_out",
    "data.prepare.new_items": "data.prepare.new_item_fraction",
    "data.prepare.weights": "data.prepare.interaction_weights",
    "distributed.optimizer": "distributed.optimizer_state",
    "distributed.servers": "distributed.parameter_server.servers",
    "distributed.staleness": "distributed.parameter_server.staleness",
    "distributed.stall_warning": "watchdog.warning_seconds",
    "distributed.startup_timeout": "watchdog.startup_timeout_seconds",
    "distributed.timeout": "watchdog.timeout_seconds",
    "distributed.updates": "distributed.parameter_server.updates",
    "distributed.validation_timeout": "watchdog.evaluation_timeout_seconds",
    "model.features": "model.user_features",
    "model.item_knn.per": "model.item_knn.neighbors_of",
    "run.keep": "run.keep_checkpoints",
    "validation.baselines": "evaluation.baselines",
    "validation.metrics": "evaluation.metrics",
}
ATTRIBUTES = {"features": "user_features", "features_of": "user_features_of", "weights": "interaction_weights", "holdout": "held_out", "new_items_fraction": "new_item_fraction"}
