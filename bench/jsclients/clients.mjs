// Reads every kind of answer of every family through mneme, with one generation of JavaScript clients:
//
//	node clients.mjs STACK [CLIENT...]
//
// STACK is a folder with node_modules. The proxy's addresses and key are in the variables that "mneme wrap" sets.
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

globalThis.AI_SDK_LOG_WARNINGS = false;
const stack = resolve(process.argv[2]);
const only = process.argv.slice(3);
const require = createRequire(join(stack, "package.json"));
// The packages' own entries for import: some have no other.
const load = async (name) => import(pathToFileURL(require.resolve(name)));

// Each model answers in another format.
const families = {
  chat: "deepseek-v4-pro",
  responses: "gpt-5.5",
  messages: "claude-opus-4-8",
  gemini: "gemini-3.8-flash",
};

const script = (text) => `Please. [[sim: ${text}]]`;
const prompts = {
  text: script(`text "Hello from the model." ; usage input=12 output=5`),
  tool: script(`text "Let me look." ; call read {"path":"a"} ; then ; text "Both read."`),
  tools: script(`call read {"path":"a"} ; call read {"path":"b"} ; then ; text "Both read."`),
  empty: script(`call read`),
  reasoning: script(`reasoning "First I think." ; text "Then I answer."`),
  reasonedTool: script(`reasoning "First I think." ; call read {"path":"a"} ; then ; text "Both read."`),
  length: script(`text "Cut o" ; stop length`),
  error: script(`error rate-limit`),
  inside: script(`text "Half an answer that" ; error-inside overloaded after=3`),
  object: script(`text "{\\"answer\\":42}"`),
};
const picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
// Answers with a picture, which the simulated provider gives out as they are: whole, and not of every family.
const image = { type: "image_url", image_url: { url: `data:image/png;base64,${picture}` } };
const drawings = {
  chat: { id: "c", object: "chat.completion", created: 1, model: "m", choices: [{ index: 0, message: { role: "assistant", content: "Here.", images: [image] }, finish_reason: "stop" }] },
  gemini: { candidates: [{ content: { role: "model", parts: [{ text: "Here." }, { inlineData: { mimeType: "image/png", data: picture } }] }, finishReason: "STOP", index: 0 }], modelVersion: "m", responseId: "g" },
};
const drawn = (family) => script(`body 200 ${JSON.stringify(JSON.stringify(drawings[family]))}`);
const familyOf = (model) => Object.keys(families).find((family) => families[family] === model);
const draws = (streamed, check) => async (model) => {
  const family = familyOf(model);
  if (!streamed && drawings[family]) await check(model, drawn(family));
};
const parameters = { type: "object", properties: { path: { type: "string" } }, required: ["path"], additionalProperties: false };
const schema = { type: "object", properties: { answer: { type: "number" } }, required: ["answer"], additionalProperties: false };

function same(got, want, what) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(want)];
  if (a !== b) throw new Error(`${what} is ${a}, want ${b}`);
}

function has(got, part, what) {
  if (!String(got ?? "").includes(part)) throw new Error(`${what} is ${JSON.stringify(got)}, want ${JSON.stringify(part)} in it`);
}

// fails checks that a promise is refused with one of these statuses.
async function fails(promise, statuses, what) {
  let answer;
  try {
    answer = await promise;
  } catch (e) {
    if (!/rate|limit|429|overloaded|half|error|terminated|process/i.test(e.message)) throw new Error(`${what} is ${e.message}`);
    const status = e.status ?? e.statusCode ?? e.cause?.status ?? e.lastError?.statusCode;
    if (statuses && !statuses.includes(status)) throw new Error(`${what} fails with status ${status}, want ${statuses}: ${e.message}`);
    return;
  }
  throw new Error(`${what} does not fail: ${JSON.stringify(answer)?.slice(0, 200)}`);
}

const refused = [429];
const byPath = (calls) => calls.map((c) => c.path).sort();

function openaiChat(OpenAI, streamed) {
  const client = new OpenAI({ maxRetries: 0 });
  const ask = async (model, content, more = {}, history = []) => {
    const body = { model, messages: [{ role: "user", content }, ...history], ...more };
    if (!streamed) return (await client.chat.completions.create(body)).choices[0];
    const runner = client.beta?.chat?.completions?.stream ? client.beta.chat.completions.stream({ ...body, stream: true }) : client.chat.completions.stream({ ...body, stream: true });
    return (await runner.finalChatCompletion()).choices[0];
  };
  const tools = [{ type: "function", function: { name: "read", parameters } }];
  const loop = async (model, prompt, paths) => {
    const choice = await ask(model, prompt, { tools });
    same(choice.finish_reason, "tool_calls", "finish_reason");
    same(choice.message.tool_calls.map((c) => JSON.parse(c.function.arguments).path), paths, "the calls");
    const results = choice.message.tool_calls.map((c) => ({ role: "tool", tool_call_id: c.id, content: "content" })).reverse();
    has((await ask(model, prompt, { tools }, [choice.message, ...results])).message.content, "Both read.", "the answer to the results");
  };
  return {
    text: async (m) => same((await ask(m, prompts.text)).message.content, "Hello from the model.", "content"),
    tool: (m) => loop(m, prompts.tool, ["a"]),
    tools: (m) => loop(m, prompts.tools, ["a", "b"]),
    empty: async (m) => same(JSON.parse((await ask(m, prompts.empty, { tools })).message.tool_calls[0].function.arguments), {}, "arguments"),
    reasoning: async (m) => same((await ask(m, prompts.reasoning, { reasoning_effort: "low" })).message.content, "Then I answer.", "content"),
    reasonedTool: (m) => loop(m, prompts.reasonedTool, ["a"]),
    length: async (m) => {
      if (!streamed) same((await ask(m, prompts.length)).finish_reason, "length", "finish_reason");
    },
    error: (m) => fails(ask(m, prompts.error), refused, "the error"),
    inside: (m) => fails(ask(m, prompts.inside), null, "the error inside"),
    object: async (m) => same(JSON.parse((await ask(m, prompts.object, { response_format: { type: "json_schema", json_schema: { name: "s", schema, strict: true } } })).message.content), { answer: 42 }, "the object"),
    picture: async (m) => has((await ask(m, [{ type: "text", text: prompts.text }, image])).message.content, "Hello", "content"),
    drawing: draws(streamed, async (m, prompt) => {
      const { message } = await ask(m, prompt);
      same([message.content, message.images[0].image_url.url], ["Here.", image.image_url.url], "the picture");
    }),
  };
}

function openaiResponses(OpenAI, streamed) {
  const client = new OpenAI({ maxRetries: 0 });
  const ask = async (model, input, more = {}) => {
    const body = { model, input, ...more };
    if (!streamed) return client.responses.create(body);
    let last;
    for await (const event of await client.responses.create({ ...body, stream: true })) {
      if (event.type === "response.failed" || event.type === "error") throw new Error(JSON.stringify(event));
      if (event.response) last = event.response;
    }
    last.output_text ??= last.output.flatMap((o) => o.content ?? []).map((c) => c.text ?? "").join("");
    return last;
  };
  const tools = [{ type: "function", name: "read", parameters, strict: false }];
  const calls = (answer) => answer.output.filter((o) => o.type === "function_call");
  const loop = async (model, prompt, paths, more = {}) => {
    const answer = await ask(model, prompt, { tools, ...more });
    same(calls(answer).map((c) => JSON.parse(c.arguments).path), paths, "the calls");
    const results = calls(answer).map((c) => ({ type: "function_call_output", call_id: c.call_id, output: "content" })).reverse();
    has((await ask(model, [{ role: "user", content: prompt }, ...answer.output, ...results], { tools, ...more })).output_text, "Both read.", "the answer to the results");
    has((await ask(model, results, { tools, previous_response_id: answer.id, ...more })).output_text, "Both read.", "the answer by id");
  };
  return {
    text: async (m) => same((await ask(m, prompts.text)).output_text, "Hello from the model.", "output_text"),
    tool: (m) => loop(m, prompts.tool, ["a"]),
    tools: (m) => loop(m, prompts.tools, ["a", "b"]),
    empty: async (m) => same(JSON.parse(calls(await ask(m, prompts.empty, { tools }))[0].arguments), {}, "arguments"),
    reasoning: async (m) => {
      const answer = await ask(m, prompts.reasoning, { reasoning: { effort: "low", summary: "auto" } });
      same(answer.output_text, "Then I answer.", "output_text");
      has(answer.output.find((o) => o.type === "reasoning")?.summary?.[0]?.text, "First I think.", "the summary");
    },
    reasonedTool: (m) => loop(m, prompts.reasonedTool, ["a"], { reasoning: { effort: "low", summary: "auto" }, include: ["reasoning.encrypted_content"] }),
    length: async (m) => same((await ask(m, prompts.length)).status, "incomplete", "status"),
    error: (m) => fails(ask(m, prompts.error), refused, "the error"),
    inside: (m) => fails(ask(m, prompts.inside), null, "the error inside"),
    object: async (m) => same(JSON.parse((await ask(m, prompts.object, { text: { format: { type: "json_schema", name: "s", schema, strict: true } } })).output_text), { answer: 42 }, "the object"),
    picture: async (m) => has((await ask(m, [{ role: "user", content: [{ type: "input_text", text: prompts.text }, { type: "input_image", image_url: `data:image/png;base64,${picture}`, detail: "auto" }] }])).output_text, "Hello", "output_text"),
    drawing: draws(streamed, async (m, prompt) => {
      const answer = await ask(m, prompt);
      same([answer.output_text, answer.output.find((o) => o.type === "image_generation_call")?.result], ["Here.", picture], "the picture");
    }),
  };
}

// openaiKept tries answers that the proxy keeps, by their ids, and what it makes of a conversation.
function openaiKept(OpenAI) {
  const api = new OpenAI({ maxRetries: 0 }).responses;
  const refusedWith = (status, promise, what) => promise.then(() => { throw new Error(`${what} is answered`); }, (e) => same(e.status, status, what));
  return {
    retrieve: async (m) => {
      const made = await api.create({ model: m, input: prompts.text });
      same((await api.retrieve(made.id)).output_text, "Hello from the model.", "output_text");
      same((await api.inputItems.list(made.id)).data[0].content[0].text, prompts.text, "the input");
      await refusedWith(403, api.delete(made.id), "an erasure by a key that may not erase");
      await refusedWith(404, api.retrieve("resp_unknown"), "an answer that is not there");
    },
    background: async (m) => {
      let made = await api.create({ model: m, input: prompts.text, background: true });
      while (["queued", "in_progress"].includes(made.status)) made = await api.retrieve(made.id);
      same([made.status, made.output_text], ["completed", "Hello from the model."], "the answer");
      let begun;
      for await (const event of await api.create({ model: m, input: prompts.text, background: true, stream: true })) if (event.type === "response.created") begun = event.response.id;
      let last;
      for await (const event of await api.retrieve(begun, { stream: true, starting_after: 1 })) last = event;
      same([last.type, last.response.id], ["response.completed", begun], "the last event");
      const late = await api.create({ model: m, input: script('delay first=30s ; text "Late."'), background: true });
      same((await api.cancel(late.id)).status, "cancelled", "status");
    },
    compact: async (m) => same((await api.compact({ model: m, input: prompts.text })).output.at(-1).type, "compaction", "the last item"),
    count: async (m) => same((await api.inputTokens.count({ model: m, input: prompts.text })).input_tokens > 0, true, "whether tokens are counted"),
  };
}

function anthropic(Anthropic, streamed) {
  const client = new Anthropic({ maxRetries: 0 });
  const ask = async (model, content, more = {}, history = []) => {
    const body = { model, max_tokens: 4096, messages: [{ role: "user", content }, ...history], ...more };
    return streamed ? client.messages.stream(body).finalMessage() : client.messages.create(body);
  };
  const tools = [{ name: "read", input_schema: parameters }];
  const text = (answer) => answer.content.filter((b) => b.type === "text").map((b) => b.text).join("");
  const loop = async (model, prompt, paths, more = {}) => {
    const answer = await ask(model, prompt, { tools, ...more });
    const calls = answer.content.filter((b) => b.type === "tool_use");
    same(answer.stop_reason, "tool_use", "stop_reason");
    same(calls.map((c) => c.input.path), paths, "the calls");
    const results = calls.map((c) => ({ type: "tool_result", tool_use_id: c.id, content: "content" })).reverse();
    has(text(await ask(model, prompt, { tools, ...more }, [{ role: "assistant", content: answer.content }, { role: "user", content: results }])), "Both read.", "the answer to the results");
  };
  const thinking = { thinking: { type: "enabled", budget_tokens: 1024 } };
  const adaptive = { thinking: { type: "adaptive", display: "summarized" } };
  const think = (m) => (m === families.messages ? adaptive : thinking);
  return {
    text: async (m) => same(text(await ask(m, prompts.text)), "Hello from the model.", "text"),
    tool: (m) => loop(m, prompts.tool, ["a"]),
    tools: (m) => loop(m, prompts.tools, ["a", "b"]),
    empty: async (m) => same((await ask(m, prompts.empty, { tools })).content.at(-1).input, {}, "input"),
    reasoning: async (m) => {
      const answer = await ask(m, prompts.reasoning, think(m));
      same(text(answer), "Then I answer.", "text");
      has(answer.content.find((b) => b.type === "thinking")?.thinking, "First I think.", "thinking");
    },
    reasonedTool: (m) => loop(m, prompts.reasonedTool, ["a"], think(m)),
    length: async (m) => same((await ask(m, prompts.length)).stop_reason, "max_tokens", "stop_reason"),
    error: (m) => fails(ask(m, prompts.error), refused, "the error"),
    inside: (m) => fails(ask(m, prompts.inside), null, "the error inside"),
    object: async (m) => same(JSON.parse(text(await ask(m, prompts.object, { output_config: { format: { type: "json_schema", schema } } }))), { answer: 42 }, "the object"),
    picture: async (m) => has(text(await ask(m, [{ type: "text", text: prompts.text }, { type: "image", source: { type: "base64", media_type: "image/png", data: picture } }])), "Hello", "text"),
    drawing: draws(streamed, async (m, prompt) => has(text(await ask(m, prompt)), "Here.[image omitted]", "text")),
  };
}

// genai tries Google's SDK, of which the former generation has none.
function genai(GoogleGenAI, streamed) {
  const { models } = new GoogleGenAI({ apiKey: process.env.GEMINI_API_KEY, httpOptions: { baseUrl: process.env.GOOGLE_GEMINI_BASE_URL } });
  const said = (parts) => ({ role: "user", parts: typeof parts === "string" ? [{ text: parts }] : parts });
  const ask = async (model, prompt, config = {}, history = []) => {
    const body = { model, contents: [said(prompt), ...history], config };
    const answers = streamed ? await models.generateContentStream(body) : [await models.generateContent(body)];
    const whole = { parts: [] };
    for await (const answer of answers) {
      whole.parts.push(...(answer.candidates?.[0]?.content?.parts ?? []));
      whole.finish = answer.candidates?.[0]?.finishReason ?? whole.finish;
    }
    whole.text = whole.parts.filter((p) => !p.thought).map((p) => p.text ?? "").join("");
    whole.calls = whole.parts.filter((p) => p.functionCall).map((p) => p.functionCall);
    return whole;
  };
  const tools = [{ functionDeclarations: [{ name: "read", description: "Reads.", parametersJsonSchema: parameters }] }];
  const loop = async (model, prompt, paths, more = {}) => {
    const answer = await ask(model, prompt, { tools, ...more });
    same(answer.calls.map((c) => c.args.path), paths, "the calls");
    const results = answer.calls.map((c) => ({ functionResponse: { id: c.id, name: c.name, response: { output: "content" } } })).reverse();
    has((await ask(model, prompt, { tools, ...more }, [{ role: "model", parts: answer.parts }, said(results)])).text, "Both read.", "the answer to the results");
  };
  const thoughts = { thinkingConfig: { includeThoughts: true } };
  return {
    text: async (m) => same((await ask(m, prompts.text)).text, "Hello from the model.", "text"),
    tool: (m) => loop(m, prompts.tool, ["a"]),
    tools: (m) => loop(m, prompts.tools, ["a", "b"]),
    empty: async (m) => same((await ask(m, prompts.empty, { tools })).calls[0].args ?? {}, {}, "args"),
    reasoning: async (m) => {
      const answer = await ask(m, prompts.reasoning, thoughts);
      same([answer.text, answer.parts[0].thought], ["Then I answer.", true], "text and thought");
    },
    reasonedTool: (m) => loop(m, prompts.reasonedTool, ["a"], thoughts),
    length: async (m) => same((await ask(m, prompts.length)).finish, "MAX_TOKENS", "finishReason"),
    error: (m) => fails(ask(m, prompts.error), refused, "the error"),
    inside: (m) => streamed && fails(ask(m, prompts.inside), null, "the error inside"),
    object: async (m) => same(JSON.parse((await ask(m, prompts.object, { responseMimeType: "application/json", responseJsonSchema: schema })).text), { answer: 42 }, "the object"),
    picture: async (m) => has((await ask(m, [{ text: prompts.text }, { inlineData: { mimeType: "image/png", data: picture } }])).text, "Hello", "text"),
    drawing: draws(streamed, async (m, prompt) => has((await ask(m, prompt)).text, "Here.", "text")),
    models: async (m) => {
      if (streamed) return;
      same((await models.get({ model: m })).name, `models/${m}`, "the model");
      same((await models.countTokens({ model: m, contents: prompts.text })).totalTokens > 4, true, "whether tokens are counted");
      const listed = [];
      for await (const one of await models.list()) listed.push(one.name);
      has(listed, "models/gpt-5.5", "the list");
    },
    embed: async () => streamed || same((await models.embedContent({ model: "gemini-embedding-001", contents: ["one", "two"] })).embeddings.length, 2, "the number of vectors"),
  };
}

// aiSDK tries the AI SDK with one of its providers; make returns the model of a name. It reads items of hosted tools only of those
// that were declared.
function aiSDK(ai, make, streamed, options, hosted) {
  const ask = async (model, content, more = {}, history = []) => {
    // The simulated provider keeps no items that a request could refer to.
    const call = { model: make(model), maxRetries: 0, providerOptions: { openai: { store: model !== families.responses } }, messages: [{ role: "user", content }, ...history], ...more };
    if (!streamed) return ai.generateText(call);
    let failed;
    const result = ai.streamText({ ...call, onError: ({ error }) => (failed = error) });
    for await (const part of result.fullStream) if (part.type === "error") failed = part.error;
    if (failed) throw failed;
    return { text: await result.text, toolCalls: await result.toolCalls, reasoningText: await result.reasoningText, finishReason: await result.finishReason, response: await result.response, usage: await result.usage };
  };
  const tools = { read: ai.tool({ description: "Reads.", inputSchema: ai.jsonSchema(parameters) }) };
  const loop = async (model, prompt, paths, more = {}) => {
    const answer = await ask(model, prompt, { tools, ...more });
    same(answer.finishReason, "tool-calls", "finishReason");
    same(answer.toolCalls.map((c) => c.input.path), paths, "the calls");
    const results = answer.toolCalls.map((c) => ({ type: "tool-result", toolCallId: c.toolCallId, toolName: c.toolName, output: { type: "text", value: "content" } })).reverse();
    has((await ask(model, prompt, { tools, ...more }, [...answer.response.messages, { role: "tool", content: results }])).text, "Both read.", "the answer to the results");
  };
  const think = (m) => ({ providerOptions: options(m) });
  return {
    text: async (m) => {
      const answer = await ask(m, prompts.text);
      same(answer.text, "Hello from the model.", "text");
      same(answer.finishReason, "stop", "finishReason");
      if (!(answer.usage.inputTokens > 0 && answer.usage.outputTokens > 0)) throw new Error(`usage is ${JSON.stringify(answer.usage)}`);
    },
    tool: (m) => loop(m, prompts.tool, ["a"]),
    tools: (m) => loop(m, prompts.tools, ["a", "b"]),
    empty: async (m) => same((await ask(m, prompts.empty, { tools: { read: ai.tool({ inputSchema: ai.jsonSchema({ type: "object", properties: {} }) }) } })).toolCalls[0].input, {}, "input"),
    reasoning: async (m) => same((await ask(m, prompts.reasoning, think(m))).text, "Then I answer.", "text"),
    reasonedTool: (m) => loop(m, prompts.reasonedTool, ["a"], think(m)),
    length: async (m) => same((await ask(m, prompts.length)).finishReason, "length", "finishReason"),
    error: (m) => fails(ask(m, prompts.error), streamed ? null : refused, "the error"),
    inside: (m) => fails(ask(m, prompts.inside), null, "the error inside"),
    object: async (m) => same((await ai.generateObject({ model: make(m), maxRetries: 0, schema: ai.jsonSchema(schema), messages: [{ role: "user", content: prompts.object }] })).object, { answer: 42 }, "the object"),
    picture: async (m) => has((await ask(m, [{ type: "text", text: prompts.text }, { type: "image", image: picture, mediaType: "image/png" }])).text, "Hello", "text"),
    drawing: draws(streamed, async (m, prompt) => has((await ask(m, prompt, { tools: hosted })).text, "Here.", "text")),
  };
}

// langchain tries LangChain; make returns the chat model of a name, with more options.
function langchain(core, make, streamed) {
  const { HumanMessage, ToolMessage } = core;
  const run = async (model, messages) => {
    if (!streamed) return model.invoke(messages);
    let whole;
    for await (const chunk of await model.stream(messages)) whole = whole ? whole.concat(chunk) : chunk;
    return whole;
  };
  const text = (m) => (typeof m.content === "string" ? m.content : m.content.filter((b) => b.type === "text").map((b) => b.text).join(""));
  const tools = [{ type: "function", function: { name: "read", description: "Reads.", parameters } }];
  const loop = async (m, prompt, paths, more) => {
    const model = make(m, more).bindTools(tools);
    const question = new HumanMessage(prompt);
    const answer = await run(model, [question]);
    same(answer.tool_calls.map((c) => c.args.path), paths, "the calls");
    const results = answer.tool_calls.map((c) => new ToolMessage({ content: "content", tool_call_id: c.id })).reverse();
    has(text(await run(model, [question, answer, ...results])), "Both read.", "the answer to the results");
  };
  return {
    text: async (m) => same(text(await run(make(m), [new HumanMessage(prompts.text)])), "Hello from the model.", "content"),
    tool: (m) => loop(m, prompts.tool, ["a"]),
    tools: (m) => loop(m, prompts.tools, ["a", "b"]),
    empty: async (m) => same((await run(make(m).bindTools(tools), [new HumanMessage(prompts.empty)])).tool_calls[0].args, {}, "args"),
    reasoning: async (m) => has(text(await run(make(m, "reasons"), [new HumanMessage(prompts.reasoning)])), "Then I answer.", "content"),
    reasonedTool: (m) => loop(m, prompts.reasonedTool, ["a"], "reasons"),
    error: (m) => fails(run(make(m), [new HumanMessage(prompts.error)]), null, "the error"),
    inside: (m) => fails(run(make(m), [new HumanMessage(prompts.inside)]), null, "the error inside"),
    object: async (m) => same(JSON.parse(text(await run(make(m), [new HumanMessage(prompts.object)]))), { answer: 42 }, "the object"),
    picture: async (m) => has(text(await run(make(m), [new HumanMessage({ content: [{ type: "text", text: prompts.text }, image] })])), "Hello", "content"),
    drawing: draws(streamed, async (m, prompt) => has(text(await run(make(m), [new HumanMessage(prompt)])), "Here.", "content")),
  };
}

async function clients() {
  const made = {};
  const OpenAI = (await load("openai")).default;
  const Anthropic = (await load("@anthropic-ai/sdk")).default;
  const ai = await load("ai");
  const { createOpenAI } = await load("@ai-sdk/openai");
  const { createAnthropic } = await load("@ai-sdk/anthropic");
  const core = await load("@langchain/core/messages");
  const { ChatOpenAI } = await load("@langchain/openai");
  const { ChatAnthropic } = await load("@langchain/anthropic");
  const google = await load("@google/genai").catch(() => undefined);
  const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL });
  // These two know x-api-key alone, which is where a provider's own key goes.
  const fetchAs = (url, init) => {
    const headers = new Headers(init.headers);
    headers.delete("x-api-key");
    headers.set("Authorization", `Bearer ${process.env.OPENAI_API_KEY}`);
    return fetch(url, { ...init, headers });
  };
  const claude = createAnthropic({ apiKey: "unused", fetch: fetchAs, baseURL: process.env.ANTHROPIC_BASE_URL.replace(/\/?$/, "/v1") });
  const effort = () => ({ openai: { store: false, reasoningEffort: "low", reasoningSummary: "auto", forceReasoning: true } });
  const budget = (m) => ({ anthropic: { thinking: m === families.messages ? { type: "adaptive" } : { type: "enabled", budgetTokens: 1024 } } });
  for (const streamed of [false, true]) {
    const form = streamed ? "stream" : "whole";
    made[`openai chat ${form}`] = openaiChat(OpenAI, streamed);
    made[`openai responses ${form}`] = openaiResponses(OpenAI, streamed);
    made[`anthropic ${form}`] = anthropic(Anthropic, streamed);
    if (google) made[`genai ${form}`] = genai(google.GoogleGenAI, streamed);
    made[`ai chat ${form}`] = aiSDK(ai, (m) => openai.chat(m), streamed, effort);
    made[`ai responses ${form}`] = aiSDK(ai, (m) => openai.responses(m), streamed, effort, { image_generation: openai.tools.imageGeneration({}) });
    made[`ai messages ${form}`] = aiSDK(ai, (m) => claude(m), streamed, budget);
    made[`langchain chat ${form}`] = langchain(core, (model) => new ChatOpenAI({ model, maxRetries: 0, streaming: streamed, useResponsesApi: false, configuration: { baseURL: process.env.OPENAI_BASE_URL } }), streamed);
    made[`langchain responses ${form}`] = langchain(core, (model) => new ChatOpenAI({ model, maxRetries: 0, streaming: streamed, useResponsesApi: true, configuration: { baseURL: process.env.OPENAI_BASE_URL } }), streamed);
    made[`langchain messages ${form}`] = langchain(core, (model, reasons) => new ChatAnthropic({ model, apiKey: "unused", clientOptions: { fetch: fetchAs }, maxRetries: 0, maxTokens: 4096, streaming: streamed, temperature: undefined, topP: undefined, anthropicApiUrl: process.env.ANTHROPIC_BASE_URL, ...(reasons && model !== families.messages ? { thinking: { type: "enabled", budget_tokens: 1024 } } : {}) }), streamed);
  }
  if (new OpenAI().responses.compact) made["openai kept"] = openaiKept(OpenAI); // the former generation lacks most of it
  return made;
}

let passed = 0;
let failed = 0;
for (const [name, cases] of Object.entries(await clients())) {
  if (only.length > 0 && !only.some((word) => name.includes(word))) continue;
  for (const [family, model] of Object.entries(families)) {
    for (const [kind, run] of Object.entries(cases)) {
      const title = `${name} × ${family}: ${kind}`;
      let problem;
      try {
        await Promise.race([run(model), new Promise((_, reject) => setTimeout(() => reject(new Error("no end after 60 s")), 60_000).unref())]);
      } catch (e) {
        problem = e;
      }
      if (problem) {
        failed++;
        console.log(`FAIL  ${title}: ${String(problem.message).slice(0, 600)}`);
      } else {
        passed++;
      }
    }
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
