"""What Gemini's generateContent refuses.

The texts are those that the API has been seen to answer; where none is known, the rule of the
documentation is put in the same form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from perdure.testing.pictures import decoded, kind_of
from perdure.testing.prefix import blocks
from perdure.testing.signature import Conversation
from perdure.testing.wire import ReceivedRequest, Rejection, Rules, is_array, is_object

_MEMBERS = """
    cachedContent contents generationConfig labels safetySettings serviceTier systemInstruction
    toolConfig tools
"""
MEMBERS = frozenset(_MEMBERS.split())
_GENERATION = """
    candidateCount frequencyPenalty logprobs maxOutputTokens mediaResolution presencePenalty
    responseJsonSchema responseLogprobs responseMimeType responseModalities responseSchema seed
    speechConfig stopSequences temperature thinkingConfig topK topP
"""
GENERATION = frozenset(_GENERATION.split())
DECLARATION = frozenset(
    {
        "behavior",
        "description",
        "name",
        "parameters",
        "parametersJsonSchema",
        "response",
        "responseJsonSchema",
    }
)
_DATA: Mapping[str, type] = {
    "text": str,
    "inlineData": dict,
    "functionCall": dict,
    "functionResponse": dict,
}
PART = frozenset({*_DATA, "fileData", "thought", "thoughtSignature"})
PICTURES = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"})
_CALL: Mapping[str, type] = {"id": str, "name": str, "args": dict}
_RESPONSE: Mapping[str, type] = {"id": str, "name": str, "response": dict}
_SCHEMA = frozenset({"parameters", "parametersJsonSchema"})
NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
PATH = re.compile(r"/v1beta/models/[^/:?]+:(?:streamGenerateContent|generateContent)")
FOREIGN = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""Signatures that are documented for calls which the model did not make itself."""

_OLDER = re.compile(r"gemini-[12][.-].*")
_REQUEST = "GenerateContentRequest"


class Content:
    """One entry of `contents` whose form has been checked."""

    def __init__(self, index: int, role: str, parts: list[dict[str, Any]]) -> None:
        self.index = index
        self.role = role
        self.parts = parts

    def holding(self, member: str) -> list[dict[str, Any]]:
        """Return the values of a member in the parts that have it."""
        return [part[member] for part in self.parts if member in part]

    @property
    def calls(self) -> list[dict[str, Any]]:
        return self.holding("functionCall")

    @property
    def responses(self) -> list[dict[str, Any]]:
        return self.holding("functionResponse")


def check_body(request: ReceivedRequest, rules: Rules) -> list[str]:
    """Return remarks; raise Rejection where the API would refuse."""
    contents = check_form(request, rules)
    return [*_check_required(contents, request.model), *_check_signatures(request, contents)]


def check_form(request: ReceivedRequest, rules: Rules) -> list[Content]:
    """Refuse what the API refuses but for signatures, whoever made them; return the contents."""
    body = request.json
    if not is_object(body):
        raise Rejection(400, "Invalid JSON payload received. Unexpected end of string.")
    _check_members(body, MEMBERS, "")
    _check_model(request, rules)
    _check_generation(body.get("generationConfig"))
    _check_tools(body.get("tools"))
    _check_system(body.get("systemInstruction"))
    given: Any = body.get("contents")
    if not is_array(given) or not given:
        raise _invalid(f"* {_REQUEST}.contents: contents is not specified\n")
    contents = [_content(index, content) for index, content in enumerate(given)]
    _check_turns(contents)
    return contents


def needs_signatures(model: str) -> bool:
    """Tell whether a model refuses a call without its signature: all do since Gemini 3."""
    return not _OLDER.fullmatch(model)


def essence(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a part says, whatever its id and its signature."""
    if "text" in part:
        return {"text": part["text"]}
    if "inlineData" in part:
        return {"inlineData": part["inlineData"]}
    said = part.get("functionCall") or part["functionResponse"]
    return {name: said[name] for name in ("name", "args", "response") if said.get(name)}


def sealed(part: Mapping[str, Any]) -> str:
    """Return the text that the signature of a part is made for."""
    return msgspec.json.encode(essence(part), order="sorted").decode()


def conversation(request: ReceivedRequest) -> Conversation:
    """Return the conversation of a request before its first content."""
    found = blocks(request)
    system = [block for block in found if block.part == "system"]
    tools = [block for block in found if block.part == "tools"]
    return Conversation(request.model, system, tools)


def remember(before: Conversation, role: str, part: Mapping[str, Any]) -> None:
    """Go on with one part; thoughts and empty texts may be left out later, so they do not count."""
    if not part.get("thought") and part.get("text") != "":
        before.add(role, essence(part))


def _invalid(message: str) -> Rejection:
    return Rejection(400, message)


def _check_members(value: Mapping[str, Any], allowed: frozenset[str], at: str) -> None:
    for name in sorted(value.keys() - allowed):
        where = f" at '{at}'" if at else ""
        unknown = f'Unknown name "{name}"{where}: Cannot find field.'
        raise _invalid(f"Invalid JSON payload received. {unknown}")


def _check_type(value: Any, kind: type, at: str) -> None:
    if not isinstance(value, kind):
        wanted = {str: "TYPE_STRING", dict: "message", int: "TYPE_INT32"}[kind]
        shown = msgspec.json.encode(value).decode()
        raise _invalid(f"Invalid value at '{at}' ({wanted}), {shown}")


def _check_model(request: ReceivedRequest, rules: Rules) -> None:
    if rules.models is not None and request.model not in rules.models:
        raise Rejection(
            404,
            f"models/{request.model} is not found for API version v1beta, or is not supported for "
            "generateContent. Call ListModels to see the list of available models and their "
            "supported methods.",
        )


def _check_generation(given: Any) -> None:
    if given is None:
        return
    _check_type(given, dict, "generation_config")
    _check_members(given, GENERATION, "generation_config")
    most = given.get("maxOutputTokens", 1)
    _check_type(most, int, "generation_config.max_output_tokens")
    if most < 1:
        raise _invalid(
            f"* {_REQUEST}.generation_config.max_output_tokens: max_output_tokens must be positive."
        )


def _check_tools(given: Any) -> None:
    if given is None:
        return
    if not is_array(given) or not all(is_object(tool) for tool in given):
        raise _invalid("Invalid value at 'tools' (message), expected a list of objects")
    names: set[str] = set()
    for index, tool in enumerate(given):
        _check_members(tool, frozenset({"functionDeclarations"}), f"tools[{index}]")
        for number, declared in enumerate(tool.get("functionDeclarations") or ()):
            at = f"tools[{index}].function_declarations[{number}]"
            _check_declaration(declared, at)
            if declared["name"] in names:
                raise _invalid(f"Duplicate function declaration found: {declared['name']}")
            names.add(declared["name"])


def _check_declaration(declared: Any, at: str) -> None:
    _check_type(declared, dict, at)
    _check_members(declared, DECLARATION, at)
    name = declared.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise _invalid(
            f"* {_REQUEST}.{at}.name: Invalid function name. Must start with a letter or an "
            "underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:) "
            "or dashes (-), with a maximum length of 64.\n"
        )
    if declared.keys() >= _SCHEMA:
        raise _invalid(f"{at}: only one of parameters and parameters_json_schema can be set.")
    for member in _SCHEMA & declared.keys():
        _check_type(declared[member], dict, f"{at}.{member}")


def _check_system(given: Any) -> None:
    if given is None:
        return
    _check_type(given, dict, "system_instruction")
    _check_members(given, frozenset({"role", "parts"}), "system_instruction")
    for number, part in enumerate(_parts_of(given, "system_instruction")):
        _check_part(part, f"system_instruction.parts[{number}]")


def _content(index: int, content: Any) -> Content:
    at = f"contents[{index}]"
    _check_type(content, dict, at)
    _check_members(content, frozenset({"role", "parts"}), at)
    role = content.get("role", "user")
    if role not in ("user", "model"):
        raise _invalid("Please use a valid role: user, model.")
    parts = _parts_of(content, at)
    for number, part in enumerate(parts):
        _check_part(part, f"{at}.parts[{number}]")
    return Content(index, role, parts)


def _parts_of(content: Mapping[str, Any], at: str) -> list[dict[str, Any]]:
    parts: Any = content.get("parts")
    if not is_array(parts) or not parts:
        raise _invalid(f"* {_REQUEST}.{at}.parts: contents.parts must not be empty.\n")
    return parts


def _check_part(part: Any, at: str) -> None:
    _check_type(part, dict, at)
    _check_members(part, PART, at)
    held = [name for name in _DATA if name in part]
    if len(held) != 1:
        raise _invalid(
            f"* {_REQUEST}.{at}.data: required oneof field 'data' must have one initialized field\n"
        )
    _check_type(part[held[0]], _DATA[held[0]], f"{at}.{held[0]}")
    if part.get("text") == "" and not part.get("thoughtSignature"):
        raise _invalid(
            "Unable to submit request because it has an empty text parameter. Add a value to the "
            "parameter and try again."
        )
    if "inlineData" in part:
        _check_picture(part["inlineData"], f"{at}.inline_data")
    if "functionCall" in part:
        _check_function(part["functionCall"], _CALL, f"{at}.function_call")
    if "functionResponse" in part:
        _check_function(part["functionResponse"], _RESPONSE, f"{at}.function_response")


def _check_picture(given: dict[str, Any], at: str) -> None:
    _check_members(given, frozenset({"mimeType", "data", "displayName"}), at)
    data = decoded(given.get("data"))
    if data is None:
        shown = str(given.get("data"))[:20]
        raise _invalid(
            f"Invalid value at '{at}.data' (TYPE_BYTES), Base64 decoding failed for \"{shown}\""
        )
    if given.get("mimeType") not in PICTURES:
        raise _invalid(f"Unsupported MIME type: {given.get('mimeType')}")
    if not kind_of(data):
        raise _invalid("Unable to process input image. Please retry or report in the forum.")


def _check_function(given: dict[str, Any], members: Mapping[str, type], at: str) -> None:
    _check_members(given, frozenset(members), at)
    for name, value in given.items():
        _check_type(value, members[name], f"{at}.{name}")
    if not given.get("name"):
        raise _invalid(f"* {_REQUEST}.{at}.name: Name cannot be empty.\n")
    if not NAME.fullmatch(given["name"]):
        raise _invalid(f"* {_REQUEST}.{at}.name: Invalid function name.\n")
    if members is _RESPONSE and "response" not in given:
        raise _invalid(f"* {_REQUEST}.{at}.response: Struct must be set.\n")


def _check_turns(contents: Sequence[Content]) -> None:
    before: Content | None = None
    for content in contents:
        if content.role == "user" and content.calls:
            raise _invalid("Please ensure that function calls are in a turn of the model role.")
        if content.role == "model" and content.holding("inlineData"):
            raise _invalid("Please ensure that images are in a turn of the user role.")
        if content.role == "model" and content.responses:
            raise _invalid("Please ensure that function responses are in a turn of the user role.")
        _check_alternation(before, content)
        _check_responses(before.calls if before else [], content)
        before = content
    if before is not None and before.role == "model":
        raise _invalid(
            "Please ensure that multiturn requests end with a user role or a function response."
        )


def _check_alternation(before: Content | None, content: Content) -> None:
    if content.calls and (before is None or before.role == "model"):
        raise _invalid(
            "Please ensure that function call turn comes immediately after a user turn or after a "
            "function response turn."
        )
    if before is None and content.role == "model":
        raise _invalid("Please ensure that multiturn requests begin with a user role.")
    if before is not None and before.role == content.role and not before.responses:
        raise _invalid("Please ensure that multiturn requests alternate between user and model.")


def _check_responses(asked: Sequence[Mapping[str, Any]], content: Content) -> None:
    given = content.responses
    if given and not asked:
        raise _invalid(
            "Please ensure that function response turn comes immediately after a function call "
            "turn."
        )
    if len(given) != len(asked) or (given and len(given) != len(content.parts)):
        raise _invalid(
            "Please ensure that the number of function response parts is equal to the number of "
            "function call parts of the function call turn."
        )
    for call, response in zip(asked, given, strict=True):
        for member in ("name", "id"):
            if call.get(member) != response.get(member):
                raise _invalid(
                    f"Please ensure that the function response {member} "
                    f"`{response.get(member)}` matches the function call {member} "
                    f"`{call.get(member)}`."
                )


def _check_required(contents: Sequence[Content], model: str) -> Iterator[str]:
    """Refuse a step of the turn under way whose first call has no signature; remark older ones."""
    if not needs_signatures(model):
        return
    words = (content.index for content in contents if content.role == "user" and _speaks(content))
    began = max(words, default=0)
    position = 0
    for content in contents:
        unsigned = [part for part in content.parts if "functionCall" in part][:1]
        position += len(content.parts)
        for part in unsigned:
            if part.get("thoughtSignature"):
                continue
            name = part["functionCall"]["name"]
            if content.index < began:
                yield f"contents[{content.index}]: the call of {name} has no thought_signature"
                continue
            raise _invalid(
                "Function call is missing a thought_signature in functionCall parts. This is "
                "required for tools to work correctly, and missing thought_signature may lead to "
                f"degraded model performance. Additional data, function call `default_api:{name}` "
                f", position {position}. Please refer to "
                "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
            )


def _speaks(content: Content) -> bool:
    return len(content.responses) < len(content.parts)


def _check_signatures(request: ReceivedRequest, contents: Sequence[Content]) -> Iterator[str]:
    """Refuse a signature that is not of its part and model; remark one made in another prefix."""
    before = conversation(request)
    foreign = FOREIGN if needs_signatures(request.model) else ()
    for content in contents:
        for number, part in enumerate(content.parts):
            signature = part.get("thoughtSignature")
            if signature and signature not in foreign:
                broken = before.broken(sealed(part), str(signature))
                if broken == "seal":
                    raise _invalid("Corrupted thought signature.")
                if broken:
                    at = f"contents[{content.index}].parts[{number}]"
                    yield f"{at}: signed before the {broken} changed"
            remember(before, content.role, part)
