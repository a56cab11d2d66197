"""Makes calls by the client that openapi-generator made for Python. Run by the Python of that client.

Arguments: the folder of the package, the server, a token; the calls come by stdin. Prints what came of each.
"""

import importlib
import json
import sys
from typing import Any

folder, url, token = sys.argv[1:]
sys.path.insert(0, folder)
client = importlib.import_module("openapi_client")


def plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def call(connection: Any, wish: dict[str, Any]) -> dict[str, Any]:
    noun = next(each for each in dir(client) if plain(each) == plain(wish["tag"]) + "api")
    api = getattr(client, noun)(connection)
    wanted = plain(wish["operation"]) + "withhttpinfo"
    verb = getattr(api, next(each for each in dir(api) if plain(each) == wanted))
    given = dict(wish["arguments"])
    if wish["body"]:
        name, value = wish["body"]
        model = getattr(client, name, None)
        given["body" if model is None else wish["parameter"]] = (
            value.encode() if model is None else model.from_dict(value)
        )
    answer = verb(**given)
    return {"tag": wish["tag"], "status": answer.status_code, "read": type(answer.data).__name__}


with client.ApiClient(client.Configuration(host=url, access_token=token)) as connection:
    print(json.dumps([call(connection, wish) for wish in json.load(sys.stdin)]))
