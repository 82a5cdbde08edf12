"""`vaecf serve`: answers requests over HTTP with the model of a checkpoint."""
