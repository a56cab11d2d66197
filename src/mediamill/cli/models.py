"""`mediamill models`: what is installed, what each costs, fetch and check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.options import Json, examples
from mediamill.cli.terminal import plural, print_json, print_table, say, size, styled, warn
from mediamill.errors import InvalidError

if TYPE_CHECKING:
    from mediamill.processors.models.catalogue import Model
    from mediamill.processors.models.fetch import Progress
    from mediamill.processors.models.hub import HubModel
    from mediamill.settings import Settings

app = typer.Typer(help="Models on this machine: what there is, what it costs; fetch and check them.")

COLUMNS = ("model", "task", "installed", ">size", "~cost", "~languages", "licence", "used")
CHECKED = ("model", "state", "~what is wrong")


@app.callback(invoke_without_command=True)
def models(context: typer.Context, json: Json = False) -> None:
    """Models on this machine: what there is, what it costs; fetch and check them.

    Without a command: the list.
    """
    if context.invoked_subcommand is None:
        list_models(json)


@app.command("list", epilog=examples("mediamill models list", "mediamill models list --json"))
def list_models(json: Json = False) -> None:
    """Every model: is it installed, what it takes in size and time, and do the settings use it."""
    from mediamill.settings import Settings

    settings = Settings()
    rows = [*_package_models(settings), *_hub_models(settings)]
    if json:
        print_json(rows)
        return
    print_table(COLUMNS, [_row(row) for row in rows], "no models")
    if missing := [
        row["name"] for row in rows if row["used"] and not row["installed"] and row["source"] == "package"
    ]:
        warn(f"missing: {', '.join(missing)}; `mediamill models fetch` fetches them", style="yellow")


def _package_models(settings: Settings) -> list[dict[str, Any]]:
    from mediamill.processors.models.catalogue import MODELS
    from mediamill.processors.models.in_use import models_in_use
    from mediamill.processors.models.installed import is_installed

    used = models_in_use(settings)
    return [
        {
            "name": model.name,
            "id": model.id,
            "task": model.task,
            "source": "package",
            "packages": [model.package]
            if model.package
            else [f"{w.package}=={w.version}" for w in model.wheels],
            "installed": is_installed(model, settings.models_folder),
            "default": model.default,
            "size_bytes": model.size_bytes,
            "download_bytes": sum(wheel.size_bytes for wheel in model.wheels),
            "cost": model.speed,
            "languages": model.languages,
            "licence": model.licence,
            "used": model in used,
        }
        for model in MODELS
    ]


def _hub_models(settings: Settings) -> list[dict[str, Any]]:
    from mediamill.processors.models import hub_embedder, hub_speech

    chosen = {
        "speech": settings.speech_model or hub_speech.DEFAULT_MODEL if settings.speech == "hub" else None,
        "image vectors": settings.embedding_model or hub_embedder.DEFAULT_MODEL
        if settings.embedding == "hub"
        else None,
    }
    known = [("speech", model) for model in hub_speech.KNOWN]
    known += [("image vectors", model) for model in hub_embedder.KNOWN]
    return [_hub_model(task, model, chosen[task], settings) for task, model in known]


def _hub_model(task: str, model: HubModel, chosen: str | None, settings: Settings) -> dict[str, Any]:
    return {
        "name": model.name,
        "id": model.id,
        "task": task,
        "source": "hub",
        "repository": model.repository,
        "installed": model.folder(settings.models_folder).is_dir(),
        "used": model.name == chosen,
    }


def _row(row: dict[str, Any]) -> list[Any]:
    by_hub = row["source"] == "hub"
    return [
        row["name"],
        row["task"],
        "yes" if row["installed"] else "on first use" if by_hub else "no",
        "" if by_hub else size(row["size_bytes"]),
        "from the model hub" if by_hub else row["cost"],
        row.get("languages", ""),
        row.get("licence", ""),
        "yes" if row["used"] else "",
    ]


@app.command(
    "fetch",
    epilog=examples(
        "mediamill models fetch", "mediamill models fetch whisper-tiny.en", "mediamill models fetch --all"
    ),
)
def fetch(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME…", help="These models. None: the default set.", show_default=False),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every model that comes in a package.")] = False,
    json: Json = False,
) -> None:
    """Fetch models from the package index that pip is set to; what is there already is only checked.

    After that nothing needs the network. Models of the model hub are fetched from there, if they are named or the
    settings use them.
    """
    from mediamill.processors.models.fetch import fetch_models
    from mediamill.settings import Settings

    if names and every:
        raise InvalidError("name models, or say --all", fix="leave out one of them")
    settings = Settings()
    folder, from_hub = settings.models_folder, _chosen_from_hub(settings, names)
    chosen = _chosen(names and [name for name in names if name not in from_hub], every)
    steps: dict[str, str] = {}

    def tell(progress: Progress) -> None:
        steps[progress.model.name] = progress.step
        if not json:
            _say(progress)

    fetch_models(chosen, folder, tell)
    for hub_model in from_hub.values():
        steps[hub_model.name] = _fetch_from_hub(hub_model, folder, quiet=json)
    fetched = [name for name, step in steps.items() if step == "done"]
    if json:
        there = [name for name in steps if name not in fetched]
        print_json({"folder": folder, "fetched": fetched, "already_there": there})
    else:
        say(f"{plural(len(steps), 'model')} in {folder}, {len(fetched)} of them new", style="green")


def _chosen(names: list[str] | None, every: bool) -> list[Model]:
    from mediamill.processors.models.catalogue import MODELS, find_model

    if names is not None:
        return [find_model(name) for name in dict.fromkeys(names)]
    return [model for model in MODELS if every or model.default]


def _chosen_from_hub(settings: Settings, names: list[str] | None) -> dict[str, HubModel]:
    from mediamill.processors.models import hub_embedder, hub_speech
    from mediamill.processors.models.fetch_hub import chosen_hub_models

    if names:
        known = {model.name: model for model in (*hub_speech.KNOWN, *hub_embedder.KNOWN)}
        return {name: known[name] for name in names if name in known}
    return {model.name: model for model in chosen_hub_models(settings)}


def _fetch_from_hub(model: HubModel, folder: Path, *, quiet: bool) -> str:
    from mediamill.processors.models.hub import fetch_hub_model

    there = model.folder(folder).is_dir()
    if not quiet:
        say(f"{model.name}: {'there already' if there else 'fetching it from the model hub'}")
    fetch_hub_model(model, folder)
    return "there" if there else "done"


def _say(progress: Progress) -> None:
    words = {
        "there": "there already",
        "making": "checking and writing",
        "done": f"{size(progress.model.size_bytes)} done",
    }
    what = words.get(progress.step)
    if progress.wheel is not None:
        what = f"downloading {progress.wheel.package} {progress.wheel.version}, {size(progress.wheel.size_bytes)}"
    say(f"{progress.model.name}: {what}")


@app.command(
    "check",
    epilog=examples("mediamill models check", "mediamill models check --json"),
)
def check(json: Json = False) -> None:
    """Compare every file of the installed models with its published hash.

    Exit code 1 if a file was changed, or a model that the settings use is missing.
    """
    from mediamill.settings import Settings

    results = _check(Settings())
    bad = [result for result in results if result["state"] == "fault"]
    if json:
        print_json({"ok": not bad, "models": results})
    else:
        print_table(
            CHECKED,
            [[each["name"], styled(each["state"]), "; ".join(each["faults"])] for each in results],
            "no models",
        )
    if bad:
        if not json:
            warn("`mediamill models fetch` mends them", style="yellow")
        raise typer.Exit(1)


def _check(settings: Settings) -> list[dict[str, Any]]:
    from mediamill.processors.models.catalogue import MODELS
    from mediamill.processors.models.in_use import models_in_use
    from mediamill.processors.models.installed import find_faults, folder_of

    used = models_in_use(settings)
    results = []
    for model in MODELS:
        if folder_of(model, settings.models_folder).is_dir():
            faults = find_faults(model, settings.models_folder)
        elif model in used:
            faults = ["not installed"]
        else:
            continue
        results.append({"name": model.name, "state": "fault" if faults else "ok", "faults": faults})
    return results
