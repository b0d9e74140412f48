"""Fine-tuning of the networks of an arm under one inference configuration."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from bln_search.core.enums import PopulationRefresh
from bln_search.specs.sections.configuration_code import ConfigurationCode
from bln_search.specs.spec_section import SpecSection


class FineTuneSpec(SpecSection):
    """Further training under one configuration after the training (BLN paper, Algorithm 2, step 13).

    Attributes:
        configuration: Code of the configuration, such as `TTFF`; by default that of lowest validation loss of each
            network.
        epochs: Number of epochs.
        learning_rate_factor: Of the learning rate of the training.
        refresh: `epoch` estimates the population before every epoch; `never` keeps that of the network before.
    """

    configuration: ConfigurationCode | None = None
    epochs: Annotated[int, Field(ge=1, le=100_000)] = 3
    learning_rate_factor: Annotated[float, Field(gt=0, le=10)] = 0.1
    refresh: PopulationRefresh = PopulationRefresh.EPOCH
