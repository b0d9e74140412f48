"""Loads what each trial needs and takes long to load, in the process from which processes for trials are forked."""

from bln_search.core.garbage_collection import load_modules_without_garbage_collection
from bln_search.core.stop_signals import ignore_signals_to_process_group

ignore_signals_to_process_group()  # the driver handles them

with load_modules_without_garbage_collection():
    import sklearn.model_selection  # noqa: F401 - it draws the validation split
    import torch._dynamo  # noqa: F401 - the optimizers of torch load its compiler

    import bln_search.execution.trial  # noqa: F401
