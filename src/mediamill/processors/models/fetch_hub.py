"""Fetches the models of the hub that the settings choose and this machine lacks.

A worker runs `python -m mediamill.processors.models.fetch_hub` before it starts a child process, as that has neither
the network nor the right to write to the models' folder. It prints nothing unless something is wrong.

| exit code | |
|---|---|
| 0 | all are there |
| 1 | not now: the hub cannot be reached, or the disk is full |
| 2 | not with these settings: there is no such model |
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from mediamill.errors import GiveUpError, MediamillError
from mediamill.processors.models.endpoint import ModelNotSetError
from mediamill.processors.models.hub import HubModel, fetch_hub_model
from mediamill.processors.settings import read_settings

if TYPE_CHECKING:
    from mediamill.settings import Settings

NOT_NOW, NEVER = 1, 2


def chosen_hub_models(settings: Settings) -> list[HubModel]:
    """Those that the settings name, whether they are there or not."""
    found = []
    if settings.speech == "hub":
        from mediamill.processors.models import hub_speech

        found.append(hub_speech.chosen_model(settings))
    if settings.embedding == "hub":
        from mediamill.processors.models import hub_embedder

        found.append(hub_embedder.chosen_model(settings))
    return found


def missing_hub_models(settings: Settings) -> list[HubModel]:
    """Those to be fetched. Settings that name no model are left to the adapter, which reports them."""
    try:
        chosen = chosen_hub_models(settings)
    except ModelNotSetError:
        return []
    return [model for model in chosen if not model.folder(settings.models_folder).is_dir()]


def main() -> int:
    """Fetch what is missing."""
    settings = read_settings()
    try:
        for model in chosen_hub_models(settings):
            fetch_hub_model(model, settings.models_folder)
    except MediamillError as error:
        print(error.message + (f" ({error.fix})" if error.fix else ""), file=sys.stderr)
        return NEVER if isinstance(error, GiveUpError) else NOT_NOW
    return 0


if __name__ == "__main__":
    sys.exit(main())
