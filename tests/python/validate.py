"""Validates documents against a JSON Schema, with the package `jsonschema`.

Reads `{"schema": …, "documents": [[name, document], …]}` from standard input and prints the complaints as a JSON list of
lines: `name: path: message`.
"""

import json
import sys

import jsonschema

given = json.load(sys.stdin)
jsonschema.Draft7Validator.check_schema(given["schema"])
validator = jsonschema.Draft7Validator(given["schema"])
complaints = [
    f"{name}: {'.'.join(map(str, error.absolute_path))}: {error.message}"
    for name, document in given["documents"]
    for error in validator.iter_errors(document)
]
json.dump(complaints, sys.stdout)
