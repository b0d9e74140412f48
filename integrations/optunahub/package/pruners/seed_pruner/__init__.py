from bln_search.integrations.optuna import compare
from bln_search.integrations.optuna import mean_over_seeds
from bln_search.integrations.optuna import SeedPruner


__all__ = ["SeedPruner", "compare", "mean_over_seeds"]
