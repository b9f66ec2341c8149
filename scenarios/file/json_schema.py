"""Generates the JSON Schema of scenario files, for editors.

`python -m scenarios.file.json_schema > docs/scenario.schema.json`
"""

import json
import sys

from scenarios.file.model import Scenario


def schema_text() -> str:
    """Return the schema as it is committed."""
    schema = Scenario.model_json_schema(mode="validation")
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "spraylab scenario"
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
