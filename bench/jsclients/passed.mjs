// Asks for files, batches, images, audio and more of a provider's API through mneme, with the official SDKs. The provider
// is in this program, and so is the check of what reaches it:
//
//	node passed.mjs STACK
//
// STACK is a folder with node_modules; mneme is on the PATH.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(join(resolve(process.argv[2]), "package.json"));
const load = async (name) => import(pathToFileURL(require.resolve(name)));
const { default: OpenAI, toFile } = await load("openai");
const { default: Anthropic } = await load("@anthropic-ai/sdk");

const media = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 7) % 256));
const image = { created: 1, data: [{ b64_json: media.toString("base64") }], usage: { input_tokens: 3, output_tokens: 4, total_tokens: 7 } };
const listOf = (...ids) => ({ object: "list", data: ids.map((id) => ({ id })), has_more: false, first_id: ids[0], last_id: ids.at(-1) });

// What the provider answers, by method and path: an object as JSON, or bytes.
const answers = {
  "POST /v1/files": { id: "file-1", object: "file" },
  "GET /v1/files": listOf("file-1", "file-foreign"),
  "GET /v1/files/file-1/content": media,
  "DELETE /v1/files/file-1": { id: "file-1", deleted: true },
  "POST /v1/batches": { id: "batch_1", status: "validating" },
  "GET /v1/batches": listOf("batch_1", "batch_foreign"),
  "POST /v1/batches/batch_1/cancel": { id: "batch_1", status: "cancelling" },
  "POST /v1/images/generations": image,
  "POST /v1/images/edits": image,
  "POST /v1/audio/speech": media,
  "POST /v1/audio/transcriptions": { text: "heard" },
  "POST /v1/moderations": { id: "modr-1", results: [] },
  "POST /v1/completions": Buffer.from('data: {"choices":[{"text":"Hel"}]}\n\ndata: {"choices":[{"text":"lo"}]}\n\ndata: [DONE]\n\n'),
  "POST /v1/messages/batches": { id: "msgbatch_1", type: "message_batch" },
  "GET /v1/messages/batches": listOf("msgbatch_1", "msgbatch_foreign"),
};
const asked = [];
const provider = createServer(async (request, response) => {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  asked.push({ headers: request.headers, body: Buffer.concat(pieces) });
  const answer = answers[`${request.method} ${request.url.split("?")[0]}`];
  if (!answer) response.statusCode = 404;
  const bytes = Buffer.isBuffer(answer);
  response.setHeader("Content-Type", !bytes ? "application/json" : answer === media ? "application/octet-stream" : "text/event-stream");
  response.end(bytes ? answer : JSON.stringify(answer ?? { error: { message: "not found" } }));
});
await new Promise((listening) => provider.listen(0, "127.0.0.1", listening));
const at = `http://127.0.0.1:${provider.address().port}`;

const dir = mkdtempSync(join(tmpdir(), "mneme-passed-"));
const config = join(dir, "mneme.yaml");
writeFileSync(config, `listen: 127.0.0.1:0
data: ${dir}/data
providers:
  openai: {base_url: ${at}/v1, api_key: provider-secret}
  anthropic: {base_url: ${at}, api_key: provider-secret}
`);
const mneme = (...args) => execFileSync("mneme", [...args, "--config", config]).toString();
const server = spawn("mneme", ["serve", "--config", config]);
const url = await new Promise((serves, fails) => {
  let said = "";
  const read = (text) => {
    said += text;
    const listening = said.match(/listening on (http:\S+)/);
    if (listening) serves(listening[1]);
  };
  server.stdout.on("data", read);
  server.stderr.on("data", read);
  server.on("exit", () => fails(new Error(said)));
});

let failed = 0;
function check(what, ok) {
  if (!ok) failed++;
  console.log(`${ok ? "ok  " : "FAIL"} ${what}`);
}
const status = (promise) => promise.then(() => 200, (e) => e.status ?? String(e));
const ids = async (list) => {
  const found = [];
  for await (const one of await list) found.push(one.id);
  return found.join();
};
const bytes = async (answer) => Buffer.from(await (await answer).arrayBuffer());
const pictured = async (answer) => Buffer.from((await answer).data[0].b64_json, "base64").equals(media);
const upstream = (body) => asked.at(-1).body.includes(body) && asked.at(-1).headers.authorization === "Bearer provider-secret";

try {
  const keys = ["acme", "globex"].map((account) => {
    mneme("account", "create", account);
    return mneme("key", "create", "--account", account, "--scope", "write").match(/mnm_\S+/)[0];
  });
  const [own, other] = keys.map((apiKey) => new OpenAI({ baseURL: url + "/v1", apiKey, maxRetries: 0 }));
  const batch = { input_file_id: "file-1", endpoint: "/v1/responses", completion_window: "24h" };

  check("files.create", (await own.files.create({ file: await toFile(media, "a.bin"), purpose: "batch" })).id === "file-1" && upstream(media));
  check("files.list", (await ids(own.files.list())) === "file-1" && (await ids(other.files.list())) === "");
  check("files.content", (await bytes(own.files.content("file-1"))).equals(media) && (await status(other.files.content("file-1"))) === 404);
  check("batches.create", (await own.batches.create(batch)).id === "batch_1" && (await status(other.batches.create(batch))) === 404);
  check("batches.list", (await ids(own.batches.list())) === "batch_1" && (await ids(other.batches.list())) === "");
  check("batches.cancel", (await own.batches.cancel("batch_1")).status === "cancelling" && (await status(other.batches.cancel("batch_1"))) === 404);
  check("images.generate", await pictured(own.images.generate({ model: "gpt-image-1", prompt: "x" })));
  check("images.edit", (await pictured(own.images.edit({ model: "gpt-image-1", image: await toFile(media, "a.png"), prompt: "x" }))) && upstream(media));
  check("audio.speech", (await bytes(own.audio.speech.create({ model: "tts-1", voice: "alloy", input: "x" }))).equals(media));
  check("audio.transcriptions", (await own.audio.transcriptions.create({ model: "whisper-1", file: await toFile(media, "a.mp3") })).text === "heard" && upstream(media));
  check("moderations.create", (await own.moderations.create({ input: "x" })).id === "modr-1");
  let text = "";
  for await (const chunk of await own.completions.create({ model: "gpt-3.5-turbo-instruct", prompt: "x", stream: true })) text += chunk.choices[0].text;
  check("completions.create", text === "Hello");
  check("files.delete", (await own.files.delete("file-1")).deleted && (await status(other.files.delete("file-1"))) === 404);
  check("fineTuning.jobs.create", (await status(own.fineTuning.jobs.create({ model: "gpt-4.1", training_file: "file-1" }))) === 403);
  check("behind the provider's name", (await new OpenAI({ baseURL: url + "/openai/v1", apiKey: keys[0] }).moderations.create({ input: "x" })).id === "modr-1");

  const anthropic = new Anthropic({ baseURL: url, authToken: keys[0], apiKey: null, maxRetries: 0 });
  const requests = [{ custom_id: "a", params: { model: "claude-opus-4-8", max_tokens: 1, messages: [{ role: "user", content: "x" }] } }];
  check("messages.batches.create", (await anthropic.messages.batches.create({ requests })).id === "msgbatch_1" && asked.at(-1).headers["x-api-key"] === "provider-secret");
  check("messages.batches.list", (await ids(anthropic.messages.batches.list())) === "msgbatch_1");

  check("no service key goes upstream", !asked.some((one) => JSON.stringify(one.headers).includes("mnm_")));
  check("on record", mneme("exchange", "list", "--account", "acme").includes("pass"));
} catch (e) {
  check(e.stack, false);
}
server.removeAllListeners("exit");
server.on("exit", () => rmSync(dir, { recursive: true, force: true }));
server.kill();
provider.close();
provider.closeAllConnections();
process.exitCode = failed ? 1 : 0;
