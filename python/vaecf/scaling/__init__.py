"""Reports on scaling experiments of launch/scaling, and predictions for other machines."""
