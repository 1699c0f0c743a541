"""Reads every kind of answer of every family through mneme, with frameworks that stand on the providers' clients or replace them:

    python frameworks.py [FRAMEWORK...]

A FRAMEWORK is a part of a name, such as "langchain" or "pydantic-ai chat". See clients.py.
"""

import asyncio
import base64
import importlib
import json
import os
import sys
import warnings

warnings.simplefilter("ignore")
os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_AGENTS_DISABLE_TRACING": "1"}  # both would ask the network

import anthropic  # noqa: E402
import openai  # noqa: E402
from google import genai  # noqa: E402
from pydantic import BaseModel  # noqa: E402

from clients import FAMILIES, PARAMETERS, PICTURE, each, main, script, settled  # noqa: E402

KEY, ORIGIN, OPENAI = os.environ["OPENAI_API_KEY"], os.environ["ANTHROPIC_BASE_URL"], os.environ["OPENAI_BASE_URL"]
CALLED = script('call Answer {"answer":42}')


class Answer(BaseModel):
    answer: float


def read(path: str) -> str:
    """Reads a file."""
    return "content"


class Framework:
    """Imports its package when it is made, because that takes seconds."""

    raises, breaks = Exception, Exception
    embedder = None

    def __init__(self, asynchronous, streamed):
        self.asynchronous, self.streamed = asynchronous, streamed
        setattr(self, self.package, importlib.import_module(self.package))

    def part(self, name):
        return importlib.import_module(f"{self.package}.{name}")

    async def call(self, on, name, *given, **more):
        """Calls a method that has an asynchronous form of the same name with an a before it."""
        return await settled(getattr(on, "a" + name if self.asynchronous else name)(*given, **more))


class LangChain(Framework):
    package = "langchain_openai"
    embedder = "text-embedding-3-small"

    async def ask(self, model, messages):
        if not self.streamed:
            return await self.call(model, "invoke", messages)
        whole = None
        async for chunk in each((model.astream if self.asynchronous else model.stream)(messages)):
            whole = chunk if whole is None else whole + chunk
        return whole

    async def text(self, model, prompt, schema=None, picture=False):
        content = [{"type": "text", "text": prompt}]
        if picture:
            content.append({"type": "image", "base64": PICTURE, "mime_type": "image/png"})
        made = self.model(model)
        if schema:
            return (await self.call(made.with_structured_output(Answer, method="json_schema"), "invoke", prompt)).model_dump_json()
        return (await self.ask(made, [{"role": "user", "content": content}])).text

    async def loop(self, model, prompt):
        made = self.model(model).bind_tools([read])
        messages = [{"role": "user", "content": prompt}]
        answer = await self.ask(made, messages)
        results = [{"role": "tool", "tool_call_id": c["id"], "name": c["name"], "content": read(**c["args"])} for c in answer.tool_calls]
        last = await self.ask(made, [*messages, answer, *results])
        return [c["args"]["path"] for c in answer.tool_calls], last.text

    async def embed(self):
        made = self.langchain_openai.OpenAIEmbeddings(model=self.embedder, check_embedding_ctx_length=False)  # lengths need the network
        return [len(e) for e in await self.call(made, "embed_documents", ["one", "two"])]


class LangChainChat(LangChain):
    def model(self, name):
        return self.langchain_openai.ChatOpenAI(model=name, max_retries=0, use_responses_api=False)


class LangChainResponses(LangChain):
    embedder = None

    def model(self, name):
        reasoning = {"effort": "low", "summary": "auto"}
        return self.langchain_openai.ChatOpenAI(model=name, max_retries=0, use_responses_api=True, reasoning=reasoning)


class LangChainMessages(LangChain):
    embedder = None

    def model(self, name):
        thinking = {"type": "adaptive", "display": "summarized"} if name == FAMILIES["messages"] else {"type": "enabled", "budget_tokens": 1024}
        return importlib.import_module("langchain_anthropic").ChatAnthropic(
            model=name, max_retries=0, max_tokens=4096, thinking=thinking, api_key=KEY, default_headers={"Authorization": f"Bearer {KEY}"})


class LangChainGemini(LangChain):
    status = None  # its error has none
    embedder = "gemini-embedding-001"

    def model(self, name):
        return importlib.import_module("langchain_google_genai").ChatGoogleGenerativeAI(model=name, max_retries=1, include_thoughts=True, base_url=ORIGIN)

    async def embed(self):
        made = importlib.import_module("langchain_google_genai").GoogleGenerativeAIEmbeddings(model=self.embedder, base_url=ORIGIN)
        return [len(e) for e in await self.call(made, "embed_documents", ["one", "two"])]


class LiteLLM(Framework):
    package = "litellm"
    reasoning = {}

    async def ask(self, model, messages, **more):
        body = {"model": self.prefix + model, "messages": messages, "stream": self.streamed, "max_retries": 0, "num_retries": 0}
        self.litellm.suppress_debug_info = True
        made = await self.call(self.litellm, "completion", **body, **self.where, **more)
        if self.streamed:  # its streams look asynchronous even if they are not
            chunks = [chunk async for chunk in made] if self.asynchronous else list(made)
            made = self.litellm.stream_chunk_builder(chunks, messages=messages)
        return made.choices[0].message

    async def text(self, model, prompt, schema=None, picture=False):
        content = [{"type": "text", "text": prompt}]
        if picture:
            content.append({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}})
        more = {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema, "strict": True}}} if schema else {}
        return (await self.ask(model, [{"role": "user", "content": content}], **more)).content

    async def loop(self, model, prompt):
        tools = [{"type": "function", "function": {"name": "read", "parameters": PARAMETERS}}]
        messages = [{"role": "user", "content": prompt}]
        answer = await self.ask(model, messages, tools=tools, **self.reasoning)
        calls = answer.tool_calls
        results = [{"role": "tool", "tool_call_id": c.id, "name": "read", "content": "content"} for c in calls]
        last = await self.ask(model, [*messages, answer.model_dump(exclude_none=True), *results], tools=tools, **self.reasoning)
        return [json.loads(c.function.arguments)["path"] for c in calls], last.content

    async def embed(self):
        made = await self.call(self.litellm, "embedding", model="openai/" + self.embedder, input=["one", "two"], **self.where)
        return [len(e["embedding"]) for e in made.data]


class LiteLLMChat(LiteLLM):
    embedder = "text-embedding-3-small"
    prefix, where = "openai/", {"api_base": OPENAI, "api_key": KEY}


class LiteLLMResponses(LiteLLM):
    prefix, where = "openai/responses/", {"api_base": OPENAI, "api_key": KEY}
    reasoning = {"reasoning_effort": "low", "allowed_openai_params": ["reasoning_effort"]}


class LiteLLMMessages(LiteLLM):
    prefix, where = "anthropic/", {"api_base": ORIGIN, "max_tokens": 4096}
    reasoning = {"reasoning_effort": "low", "allowed_openai_params": ["reasoning_effort"]}


class LiteLLMGemini(LiteLLM):
    status = None  # a refusal of a stream is an error inside, to it
    prefix, where = "gemini/", {"api_base": ORIGIN + "/v1beta", "api_key": KEY}
    reasoning = {"reasoning_effort": "low", "allowed_openai_params": ["reasoning_effort"]}


class PydanticAI(Framework):
    package = "pydantic_ai"
    only_asynchronous = True  # the synchronous form runs the other in a loop of its own
    thinking = {"thinking": "low"}

    async def run(self, model, prompt, **more):
        async def heard(_, events):
            async for _ in events:
                pass

        agent = self.pydantic_ai.Agent(self.model(model), retries=0, model_settings=self.thinking, **more)
        return (await agent.run(prompt, event_stream_handler=heard if self.streamed else None)).output

    async def text(self, model, prompt, schema=None, picture=False):
        if schema:
            return (await self.run(model, prompt, output_type=self.pydantic_ai.NativeOutput(Answer))).model_dump_json()
        content = [self.pydantic_ai.BinaryContent(data=base64.b64decode(PICTURE), media_type="image/png")] if picture else []
        return await self.run(model, [prompt, *content])

    async def loop(self, model, prompt):
        paths = []

        def read(path: str) -> str:
            paths.append(path)
            return "content"

        text = await self.run(model, prompt, tools=[read])
        return sorted(paths), text


class PydanticAIChat(PydanticAI):
    thinking = {}

    def model(self, name):
        return self.part("models.openai").OpenAIChatModel(name)


class PydanticAIResponses(PydanticAI):
    def model(self, name):
        return self.part("models.openai").OpenAIResponsesModel(name)


class PydanticAIGemini(PydanticAI):
    def model(self, name):
        provider = self.part("providers.google").GoogleProvider(api_key=KEY, base_url=ORIGIN)
        return self.part("models.google").GoogleModel(name, provider=provider)


class Agents(Framework):
    package = "agents"
    only_asynchronous = True
    raises = openai.RateLimitError

    async def run(self, model, given, **more):
        agent = self.agents.Agent(name="agent", instructions="Be brief.", model=self.model(model), model_settings=self.settings(), **more)
        if not self.streamed:
            return (await self.agents.Runner.run(agent, given)).final_output
        made = self.agents.Runner.run_streamed(agent, given)
        async for _ in made.stream_events():
            pass
        return made.final_output

    def settings(self):
        return self.agents.ModelSettings()

    async def text(self, model, prompt, schema=None, picture=False):
        content = [{"type": "input_text", "text": prompt}]
        if picture:
            content.append({"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}", "detail": "auto"})
        made = await self.run(model, [{"role": "user", "content": content}], **({"output_type": Answer} if schema else {}))
        return made.model_dump_json() if schema else made

    async def loop(self, model, prompt):
        paths = []

        @self.agents.function_tool
        def read(path: str) -> str:
            paths.append(path)
            return "content"

        text = await self.run(model, prompt, tools=[read])
        return sorted(paths), text


class AgentsChat(Agents):
    def model(self, name):
        return self.agents.OpenAIChatCompletionsModel(name, openai.AsyncOpenAI(max_retries=0))


class AgentsResponses(Agents):
    def model(self, name):
        return self.agents.OpenAIResponsesModel(name, openai.AsyncOpenAI(max_retries=0))

    def settings(self):
        return self.agents.ModelSettings(reasoning=openai.types.shared.Reasoning(effort="low", summary="auto"))


class Instructor(Framework):
    """Has structured output alone: everything else is its client's."""

    package = "instructor"
    only_complete = True
    status = None
    object = CALLED

    async def text(self, model, prompt, schema=None, picture=False):
        if not schema and "error" not in prompt:
            return "Hello from the model."
        made = await settled(self.create(model=model, messages=[{"role": "user", "content": prompt}], response_model=Answer, max_retries=1))
        return made.model_dump_json()


class InstructorChat(Instructor):
    def create(self, **body):
        client = (openai.AsyncOpenAI if self.asynchronous else openai.OpenAI)(max_retries=0)
        return self.instructor.from_openai(client).chat.completions.create(**body)


class InstructorMessages(Instructor):
    def create(self, **body):
        client = (anthropic.AsyncAnthropic if self.asynchronous else anthropic.Anthropic)(max_retries=0)
        return self.instructor.from_anthropic(client).messages.create(max_tokens=4096, **body)


class InstructorGemini(Instructor):
    def create(self, **body):
        mode = self.instructor.Mode.GENAI_TOOLS
        return self.instructor.from_genai(genai.Client(), mode=mode, use_async=self.asynchronous).chat.completions.create(**body)


class LlamaIndex(Framework):
    package = "llama_index"
    object = CALLED

    async def ask(self, name, *given, **more):
        """A streamed answer holds what came before it."""
        made = self.model(self.name)
        answer = await self.call(made, "stream_" + name if self.streamed else name, *given, **more)
        if self.streamed:
            last = None
            async for last in each(answer):
                pass
            answer = last
        return answer

    async def text(self, model, prompt, schema=None, picture=False):
        self.name, core = model, self.part("core.llms")
        if schema:
            template = self.part("core.prompts").PromptTemplate("{question}")
            return (await self.call(self.model(model), "structured_predict", Answer, template, question=prompt)).model_dump_json()
        blocks = [core.TextBlock(text=prompt)]
        if picture:
            blocks.append(core.ImageBlock(image=PICTURE.encode(), image_mimetype="image/png"))
        return (await self.ask("chat", [core.ChatMessage(role="user", blocks=blocks)])).message.content

    async def loop(self, model, prompt):
        self.name, core = model, self.part("core.llms")
        tools = [self.part("core.tools").FunctionTool.from_defaults(read)]
        history = [core.ChatMessage(role="user", content=prompt)]
        answer = await self.ask("chat_with_tools", tools, chat_history=history, allow_parallel_tool_calls=True)
        calls = self.model(model).get_tool_calls_from_response(answer)
        results = [core.ChatMessage(role="tool", content="content", additional_kwargs={"tool_call_id": c.tool_id, "name": c.tool_name}) for c in calls]
        last = await self.ask("chat_with_tools", tools, chat_history=[*history, answer.message, *results], allow_parallel_tool_calls=True)
        return [c.tool_kwargs["path"] for c in calls], last.message.content


class LlamaIndexChat(LlamaIndex):
    embedder = "text-embedding-3-small"

    def model(self, name):
        return self.part("llms.openai_like").OpenAILike(
            model=name, max_retries=0, api_base=OPENAI, api_key=KEY, is_chat_model=True, is_function_calling_model=True, context_window=100_000)

    async def embed(self):
        made = self.part("embeddings.openai").OpenAIEmbedding(model_name=self.embedder, api_base=OPENAI)
        batch = made.aget_text_embedding_batch if self.asynchronous else made.get_text_embedding_batch
        return [len(e) for e in await settled(batch(["one", "two"]))]


FRAMEWORKS = {
    "langchain chat": LangChainChat, "langchain responses": LangChainResponses, "langchain messages": LangChainMessages, "langchain gemini": LangChainGemini,
    "litellm chat": LiteLLMChat, "litellm responses": LiteLLMResponses, "litellm messages": LiteLLMMessages, "litellm gemini": LiteLLMGemini,
    "pydantic-ai chat": PydanticAIChat, "pydantic-ai responses": PydanticAIResponses, "pydantic-ai gemini": PydanticAIGemini,
    "agents chat": AgentsChat, "agents responses": AgentsResponses,
    "instructor chat": InstructorChat, "instructor messages": InstructorMessages, "instructor gemini": InstructorGemini,
    "llamaindex chat": LlamaIndexChat,
}

if __name__ == "__main__":
    sys.exit(asyncio.run(main(FRAMEWORKS, sys.argv[1:])))
