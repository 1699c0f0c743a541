"""Reads every kind of answer of every family through mneme, with the official Python clients:

    python clients.py [CLIENT...]

frameworks.py does the same with frameworks that stand on them. A CLIENT is a part of a client's name, such as "genai" or "openai chat". The proxy's addresses and key are in the
variables that "mneme wrap" sets. It prints a line for each client and family, and fails if any kind of answer is misread.
"""

import asyncio
import base64
import json
import os
import sys
import traceback

import anthropic
import openai
from google import genai
from google.genai import errors, types

# Each model answers in another format.
FAMILIES = {"chat": "deepseek-v4-pro", "responses": "gpt-5.5", "messages": "claude-opus-4-8", "gemini": "gemini-3.8-flash"}
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"], "additionalProperties": False}
SCHEMA = {"type": "object", "properties": {"answer": {"type": "number"}}, "required": ["answer"], "additionalProperties": False}


def script(text):
    return f"Please. [[sim: {text}]]"


TEXT = script('text "Hello from the model." ; usage input=12 output=5')
TOOLS = {
    "tool": (script('text "Let me look." ; call read {"path":"a"} ; then ; text "Both read."'), ["a"]),
    "tools": (script('call read {"path":"a"} ; call read {"path":"b"} ; then ; text "Both read."'), ["a", "b"]),
    "reasoned tool": (script('reasoning "First I think." ; call read {"path":"a"} ; then ; text "Both read."'), ["a"]),
}
OBJECT = script('text "{\\"answer\\":42}"')
ERROR = script("error rate-limit")
INSIDE = script('text "Half an answer that" ; error-inside overloaded after=3')


def same(got, want, what):
    assert got == want, f"{what} is {got!r}, want {want!r}"


async def fails(ask, kind, status, what):
    try:
        got = await ask
    except kind as e:
        code = getattr(e, "status_code", getattr(e, "code", None))
        assert status is None or code == status, f"{what} has the status {code}, want {status}"
        return
    except (openai.APIError, anthropic.APIError) as e:
        if status is None:
            return
        raise AssertionError(f"{what} is raised as {type(e).__name__}") from e
    raise AssertionError(f"{what} does not fail: {str(got)[:200]}")


async def settled(value):
    """What a call gives, whether the client is asynchronous or not."""
    return await value if hasattr(value, "__await__") else value


async def settled_later(call, *given):
    """The same of a call that is to fail."""
    return await settled(call(*given))


async def each(stream):
    """The events of a stream of either kind of client."""
    if hasattr(stream, "__aiter__"):
        async for event in stream:
            yield event
    else:
        for event in stream:
            yield event


class Chat:
    raises = openai.RateLimitError
    embedder = "text-embedding-3-small"

    def __init__(self, asynchronous, streamed):
        self.client = (openai.AsyncOpenAI if asynchronous else openai.OpenAI)(max_retries=0)
        self.streamed = streamed

    async def ask(self, model, messages, **more):
        made = await settled(self.client.chat.completions.create(model=model, messages=messages, stream=self.streamed, **more))
        if not self.streamed:
            return made.choices[0].message.model_dump(exclude_none=True)
        message = {"role": "assistant", "content": "", "tool_calls": []}
        async for chunk in each(made):
            for choice in chunk.choices:
                message["content"] += choice.delta.content or ""
                for call in choice.delta.tool_calls or []:
                    if call.index == len(message["tool_calls"]):
                        message["tool_calls"].append({"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": ""}})
                    message["tool_calls"][call.index]["function"]["arguments"] += call.function.arguments or ""
        return message

    async def text(self, model, prompt, schema=None, picture=False):
        content = [{"type": "text", "text": prompt}]
        if picture:
            content.append({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}})
        more = {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema, "strict": True}}} if schema else {}
        return (await self.ask(model, [{"role": "user", "content": content}], **more))["content"]

    async def loop(self, model, prompt):
        tools = [{"type": "function", "function": {"name": "read", "parameters": PARAMETERS}}]
        messages = [{"role": "user", "content": prompt}]
        answer = await self.ask(model, messages, tools=tools)
        calls = answer["tool_calls"]
        results = [{"role": "tool", "tool_call_id": c["id"], "content": "content"} for c in calls]
        last = await self.ask(model, [*messages, answer, *results], tools=tools)
        return [json.loads(c["function"]["arguments"])["path"] for c in calls], last["content"]

    async def embed(self):
        made = await settled(self.client.embeddings.create(model=self.embedder, input=["one", "two"]))
        return [len(e.embedding) for e in made.data]


class Responses(Chat):
    async def ask(self, model, given, **more):
        made = await settled(self.client.responses.create(model=model, input=given, stream=self.streamed, **more))
        if not self.streamed:
            return made
        last = None
        async for event in each(made):
            if event.type in ("response.failed", "error"):
                raise openai.APIError(str(event), request=None, body=None)
            last = getattr(event, "response", last)
        return last

    async def text(self, model, prompt, schema=None, picture=False):
        content = [{"type": "input_text", "text": prompt}]
        if picture:
            content.append({"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}", "detail": "auto"})
        more = {"text": {"format": {"type": "json_schema", "name": "s", "schema": schema, "strict": True}}} if schema else {}
        return (await self.ask(model, [{"role": "user", "content": content}], **more)).output_text

    async def loop(self, model, prompt):
        more = {
            "tools": [{"type": "function", "name": "read", "parameters": PARAMETERS, "strict": False}],
            "reasoning": {"effort": "low", "summary": "auto"},
        }
        answer = await self.ask(model, prompt, **more)
        calls = [item for item in answer.output if item.type == "function_call"]
        results = [{"type": "function_call_output", "call_id": c.call_id, "output": "content"} for c in calls]
        whole = await self.ask(model, [{"role": "user", "content": prompt}, *answer.output, *results], **more)
        by_id = await self.ask(model, results, previous_response_id=answer.id, **more)
        same(by_id.output_text, whole.output_text, "the answer by id")
        return [json.loads(c.arguments)["path"] for c in calls], whole.output_text

    async def kept(self, model):
        """An answer that the proxy keeps, by its id, and what it makes of a conversation."""
        api = self.client.responses
        made = await settled(api.create(model=model, input=TEXT))
        same((await settled(api.retrieve(made.id))).output_text, made.output_text, "the answer that is kept")
        items = await settled(api.input_items.list(made.id))
        same(items.data[0].content[0].text, TEXT, "the input that is kept")
        compacted = await settled(api.compact(model=model, input=TEXT))
        same(compacted.output[-1].type, "compaction", "the last item of a compacted conversation")
        counted = await settled(api.input_tokens.count(model=model, input=TEXT))
        same(counted.input_tokens > 0, True, "whether tokens are counted")
        running = await settled(api.create(model=model, input=script('delay first=30s ; text "Late."'), background=True))
        same(running.status in ("queued", "in_progress"), True, "whether it runs in the background")
        same((await settled(api.cancel(running.id))).status, "cancelled", "the status of what is cancelled")
        await fails(settled_later(api.delete, made.id), openai.PermissionDeniedError, 403, "an erasure by a key that may not erase")
        await fails(settled_later(api.retrieve, "resp_unknown"), openai.NotFoundError, 404, "an answer that is not there")


class Messages:
    raises = anthropic.RateLimitError
    embedder = None

    def __init__(self, asynchronous, streamed):
        self.client = (anthropic.AsyncAnthropic if asynchronous else anthropic.Anthropic)(max_retries=0)
        self.asynchronous, self.streamed = asynchronous, streamed

    async def ask(self, model, messages, **more):
        body = {"model": model, "max_tokens": 4096, "messages": messages, **more}
        if not self.streamed:
            return await settled(self.client.messages.create(**body))
        if self.asynchronous:
            async with self.client.messages.stream(**body) as stream:
                return await stream.get_final_message()
        with self.client.messages.stream(**body) as stream:
            return stream.get_final_message()

    async def text(self, model, prompt, schema=None, picture=False):
        content = [{"type": "text", "text": prompt}]
        if picture:
            content.append({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}})
        more = {"output_config": {"format": {"type": "json_schema", "schema": schema}}} if schema else {}
        answer = await self.ask(model, [{"role": "user", "content": content}], **more)
        return "".join(block.text for block in answer.content if block.type == "text")

    async def loop(self, model, prompt):
        thinking = {"type": "adaptive", "display": "summarized"} if model == FAMILIES["messages"] else {"type": "enabled", "budget_tokens": 1024}
        more = {"tools": [{"name": "read", "input_schema": PARAMETERS}], "thinking": thinking}
        messages = [{"role": "user", "content": prompt}]
        answer = await self.ask(model, messages, **more)
        calls = [block for block in answer.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": c.id, "content": "content"} for c in calls]
        last = await self.ask(model, [*messages, {"role": "assistant", "content": answer.content}, {"role": "user", "content": results}], **more)
        return [c.input["path"] for c in calls], "".join(block.text for block in last.content if block.type == "text")


class GenAI:
    raises = errors.ClientError
    embedder = "gemini-embedding-001"

    def __init__(self, asynchronous, streamed):
        client = genai.Client()
        self.client = client.aio if asynchronous else client
        self.asynchronous, self.streamed = asynchronous, streamed

    async def parts(self, made):
        """The text and the calls of an answer."""
        text, calls = "", []
        async for chunk in each(made if self.streamed else [made]):
            for part in (chunk.candidates[0].content.parts if chunk.candidates else None) or []:
                if part.function_call:
                    calls.append(part.function_call)
                elif not part.thought:
                    text += part.text or ""
        return text, calls

    async def ask(self, chat_or_models, name, *given, **more):
        method = getattr(chat_or_models, name + "_stream" if self.streamed else name)
        return await self.parts(await settled(method(*given, **more)))

    async def text(self, model, prompt, schema=None, picture=False):
        contents = [prompt]
        if picture:
            contents.append(types.Part.from_bytes(data=base64.b64decode(PICTURE), mime_type="image/png"))
        config = {"response_mime_type": "application/json", "response_json_schema": schema} if schema else None
        return (await self.ask(self.client.models, "generate_content", model=model, contents=contents, config=config))[0]

    async def loop(self, model, prompt):
        read = {"name": "read", "description": "Reads a file", "parameters_json_schema": PARAMETERS}
        chat = self.client.chats.create(model=model, config={
            "tools": [{"function_declarations": [read]}], "thinking_config": {"include_thoughts": True},
            "automatic_function_calling": {"disable": True},
        })
        _, calls = await self.ask(chat, "send_message", prompt)
        results = [types.Part.from_function_response(name=c.name, response={"result": "content"}) for c in calls]
        text, _ = await self.ask(chat, "send_message", results)
        return [c.args["path"] for c in calls], text

    async def kept(self, model):
        """What the proxy knows of models."""
        models = self.client.models
        same((await settled(models.get(model=model))).name, "models/" + model, "the model that is shown")
        listed = [one.name async for one in each(await settled(models.list()))]
        same(self.embedder in str(listed) and len(listed) > 4, True, "whether models are listed")
        counted = await settled(models.count_tokens(model=model, contents=TEXT))
        same(counted.total_tokens > 4, True, "whether tokens are counted")
        await fails(settled_later(lambda: models.get(model="nobodys")), errors.ClientError, 404, "a model that is not there")

    async def embed(self):
        made = await settled(self.client.models.embed_content(model=self.embedder, contents=["one", "two"]))
        return [len(e.values) for e in made.embeddings]


async def kinds(client, model):
    """Every kind of answer, by name."""

    async def text():
        same(await client.text(model, TEXT), "Hello from the model.", "the text")

    async def structured():
        same(json.loads(await client.text(model, getattr(client, "object", OBJECT), schema=SCHEMA)), {"answer": 42}, "the object")

    async def picture():
        same(await client.text(model, TEXT, picture=True), "Hello from the model.", "the text about a picture")

    async def error():
        await fails(client.text(model, ERROR), client.raises, getattr(client, "status", 429), "a refusal")

    async def inside():
        if client.streamed:
            await fails(client.text(model, INSIDE), (getattr(client, "breaks", client.raises), errors.APIError), None, "an error inside")

    async def embeddings():
        if client.embedder and not client.streamed:
            same(len(set(await client.embed())), 1, "the number of sizes of vectors")

    def looping(prompt, paths):
        async def loop():
            same(await client.loop(model, prompt), (paths, "Both read."), "the calls and the answer to their results")

        return loop

    loops = {name: looping(*of) for name, of in TOOLS.items()} if hasattr(client, "loop") else {}
    if hasattr(client, "kept") and not client.streamed:
        loops["kept"] = lambda: client.kept(model)
    return {"text": text, **loops, "structured": structured, "picture": picture, "error": error, "error inside": inside, "embeddings": embeddings}


async def main(clients, only):
    # A stream that fails is left where it is; the clients close it when they are collected.
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    failed = 0
    for name, make in clients.items():
        if only and not any(part in name for part in only):
            continue
        for asynchronous in (True,) if getattr(make, "only_asynchronous", False) else (False, True):
            for streamed in (False,) if getattr(make, "only_complete", False) else (False, True):
                how = f"{name}{', async' if asynchronous else ''}{', streamed' if streamed else ''}"
                client = make(asynchronous, streamed)
                for family, model in FAMILIES.items():
                    wrong = await misread(client, model)
                    failed += len(wrong)
                    print(f"{how:40} {family:10} {'ok' if not wrong else '; '.join(wrong)}", flush=True)
    print(f"{failed} kinds of answer are misread" if failed else "every answer is read")
    return bool(failed)


async def misread(client, model):
    wrong = []
    for kind, check in (await kinds(client, model)).items():
        try:
            await check()
        except Exception as e:  # noqa: BLE001 whatever a client raises is a finding
            wrong.append(f"{kind}: {type(e).__name__}: {str(e)[:300]}")
            if os.environ.get("TRACE"):
                traceback.print_exc()
    return wrong


if __name__ == "__main__":
    official = {"openai chat": Chat, "openai responses": Responses, "anthropic": Messages, "genai": GenAI}
    sys.exit(asyncio.run(main(official, sys.argv[1:])))
