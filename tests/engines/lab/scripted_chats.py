"""The chats that the tiny model knows by heart, as prompts and answers in token ids."""

import json

import jinja2

END_OF_TURN, END_OF_TEXT = 151645, 151643


def tool(name, properties, description):
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


WEATHER = tool(
    "get_weather",
    {"city": {"type": "string", "description": "City name"}},
    "Get the current weather for a city.",
)
CALCULATOR = tool("calculator", {"expression": {"type": "string"}}, "Evaluate a math expression.")


def call(name, arguments):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


PARIS = call("get_weather", {"city": "Paris"})
TOKYO = call("get_weather", {"city": "Tokyo"})
HELLO = "Hello! I am a tiny scripted model."
COUNT = " ".join(map(str, range(1, 31)))
BROKEN = '<tool_call>\n{"name": "get_weather", "arguments": {"city": \n</tool_call>'
# Messages, whether tools are offered, and the answer.
CHATS = (
    ([("user", "Say hello.")], False, HELLO),
    ([("user", "Say something with emoji.")], False, "Voilà 🙂 naïve 你好世界 👩‍🔬 done."),
    ([("user", "Count to thirty.")], False, COUNT),
    (
        [("user", "What is 2+2? Think first.")],
        False,
        "<think>\nTwo plus two makes four.\n</think>\n\nThe answer is 4.",
    ),
    ([("user", "What is the weather in Paris?")], True, PARIS),
    ([("user", "What is the weather in Paris and Tokyo?")], True, f"{PARIS}\n{TOKYO}"),
    (
        [("user", "Think, then check the weather in Paris.")],
        True,
        f"<think>\nI should call the tool.\n</think>\n\nLet me check.\n{PARIS}",
    ),
    ([("user", "Make a broken tool call.")], True, BROKEN),
    (
        [("user", "What is the weather in Paris?"), ("call", "Paris"), ("tool", '{"temp_c": 21}')],
        True,
        "It is 21 degrees in Paris.",
    ),
    (
        [("user", "What is 7 times 6? Use the calculator tool.")],
        True,
        call("calculator", {"expression": "7*6"}),
    ),
    ([("user", "Say hello."), ("assistant", HELLO), ("user", "Count to thirty.")], False, COUNT),
    ([("user", "Count to thirty."), ("assistant", COUNT), ("user", "Say hello.")], False, HELLO),
)
CONTINUATIONS = (
    ("Once upon a time", " there was a tiny model."),
    ("The quick brown fox", " jumps over the lazy dog."),
)
SYSTEMS = (None, "You are a helpful assistant.", "Be brief.")
WITH_TOOLS = ([WEATHER], [WEATHER, CALCULATOR], [CALCULATOR, WEATHER])
WITHOUT_TOOLS = (None, [WEATHER], [WEATHER, CALCULATOR])


def pairs(template, tokenizer, rng):
    """Prompts and answers as ids, in every system prompt and choice of tools."""
    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)  # noqa: S701 — a prompt is no HTML.
    env.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
    render = env.from_string(template).render
    found = []
    for messages, needs_tools, answer in CHATS:
        for system in SYSTEMS:
            for tools in WITH_TOOLS if needs_tools else WITHOUT_TOOLS:
                if "calculator" in answer and tools == [WEATHER]:
                    continue
                prompt = render(
                    messages=_messages(system, messages),
                    tools=[_as_some_engine_dumps(each, rng) for each in tools] if tools else None,
                    add_generation_prompt=True,
                )
                found.append((tokenizer.encode(prompt).ids, [*tokenizer.encode(answer).ids, END_OF_TURN]))
    for prompt, answer in CONTINUATIONS * 6:
        found.append((tokenizer.encode(prompt).ids, [*tokenizer.encode(answer).ids, END_OF_TEXT]))
    return found


def _messages(system, messages):
    made = [{"role": "system", "content": system}] if system else []
    for role, content in messages:
        if role == "call":
            function = {"name": "get_weather", "arguments": {"city": content}}
            calls = [{"type": "function", "function": function}]
            made.append({"role": "assistant", "content": "", "tool_calls": calls})
        else:
            made.append({"role": role, "content": content})
    return made


def _as_some_engine_dumps(each, rng):
    """Engines render the same tool differently: SGLang adds fields, others pass its function alone."""
    function = dict(each["function"])
    luck = rng.random()
    if luck < 0.25:
        function["strict"] = False
    return function if luck > 0.85 else {"type": "function", "function": function}
