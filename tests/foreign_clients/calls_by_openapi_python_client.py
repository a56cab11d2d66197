"""Makes calls by the client that openapi-python-client made. Run by the Python of that client.

Arguments: the folder of the package, the server, a token; the calls come by stdin. Prints what came of each.
"""

import importlib
import io
import json
import pkgutil
import sys
from typing import Any

folder, url, token = sys.argv[1:]
sys.path.insert(0, folder)
package = importlib.import_module("mill_client")


def plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def call(connection: Any, wish: dict[str, Any]) -> dict[str, Any]:
    noun = importlib.import_module(f"mill_client.api.{wish['tag'].replace(' ', '_')}")
    name = next(
        each.name
        for each in pkgutil.iter_modules(noun.__path__)
        if plain(each.name) == plain(wish["operation"])
    )
    given = dict(wish["arguments"])
    if wish["body"]:
        name_of_model, value = wish["body"]
        models = importlib.import_module("mill_client.models")
        model = getattr(models, name_of_model, None)
        file = importlib.import_module("mill_client.types").File
        given["body"] = file(io.BytesIO(value.encode())) if model is None else model.from_dict(value)
    verb = importlib.import_module(f"{noun.__name__}.{name}").sync_detailed
    answer = verb(client=connection, **given)
    return {"tag": wish["tag"], "status": answer.status_code, "read": type(answer.parsed).__name__}


with package.AuthenticatedClient(base_url=url, token=token) as connection:
    print(json.dumps([call(connection, wish) for wish in json.load(sys.stdin)]))
