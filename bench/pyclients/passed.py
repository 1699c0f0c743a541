"""Asks for files, batches, images, audio and more of a provider's API through mneme, with the official SDKs. The provider is
in this program, and so is the check of what reaches it. mneme is on the PATH.
"""

import io
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anthropic
import openai
from google import genai

MEDIA = bytes(i * 7 % 256 for i in range(300_000))
IMAGE = {"created": 1, "data": [{"b64_json": "A" * 100_000}], "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}}


def list_of(*ids):
    return {"object": "list", "data": [{"id": i} for i in ids], "has_more": False, "first_id": ids[0], "last_id": ids[-1]}


def named(kind, *ids):
    return {kind: [{"name": i} for i in ids]}


# What the provider answers, by method and path: an object as JSON, or bytes.
ANSWERS = {
    "POST /v1/files": {"id": "file-1", "object": "file"},
    "GET /v1/files": list_of("file-1", "file-foreign"),
    "GET /v1/files/file-1/content": MEDIA,
    "DELETE /v1/files/file-1": {"id": "file-1", "deleted": True},
    "POST /v1/uploads": {"id": "upload_1"},
    "POST /v1/uploads/upload_1/parts": {"id": "part_1"},
    "POST /v1/batches": {"id": "batch_1", "status": "validating"},
    "GET /v1/batches": list_of("batch_1", "batch_foreign"),
    "POST /v1/batches/batch_1/cancel": {"id": "batch_1", "status": "cancelling"},
    "POST /v1/images/generations": IMAGE,
    "POST /v1/images/edits": IMAGE,
    "POST /v1/audio/speech": MEDIA,
    "POST /v1/audio/transcriptions": {"text": "heard"},
    "POST /v1/moderations": {"id": "modr-1", "results": []},
    "POST /v1/messages/batches": {"id": "msgbatch_1", "type": "message_batch"},
    "GET /v1/messages/batches": list_of("msgbatch_1", "msgbatch_foreign"),
}
FROM_ANTHROPIC = {"POST /v1/files": {"id": "file_a", "type": "file"}, "GET /v1/files": {**list_of("file_a", "file_foreign"), "object": None}}
FROM_GOOGLE = {
    "POST /upload/v1/files": {"file": {"name": "files/f1"}},
    "GET /v1/files": named("files", "files/f1", "files/foreign"),
    "GET /v1/files/f1": {"name": "files/f1"},
    "DELETE /v1/files/f1": {},
    "POST /v1/cachedContents": {"name": "cachedContents/c1"},
    "GET /v1/cachedContents": named("cachedContents", "cachedContents/c1", "cachedContents/foreign"),
    "POST /v1/models/gemini-3.8-flash:batchGenerateContent": {"name": "batches/b1", "metadata": {"state": "BATCH_STATE_PENDING"}},
    "GET /v1/batches/b1": {"name": "batches/b1", "metadata": {"state": "BATCH_STATE_RUNNING"}},
}
asked = []


class Provider(BaseHTTPRequestHandler):
    def answer(self):
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size) if size else self.chunks()
        asked.append((self.headers, body))
        call = f"{self.command} {self.path.split('?')[0]}"
        own = FROM_GOOGLE if "x-goog-api-key" in self.headers else FROM_ANTHROPIC if "x-api-key" in self.headers else {}
        found = own.get(call, ANSWERS.get(call))
        is_media = isinstance(found, bytes)
        out = found if is_media else json.dumps({"error": {"message": "not found"}} if found is None else found).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Type", "application/octet-stream" if is_media else "application/json")
        self.send_header("Content-Length", str(len(out)))
        if self.path.startswith("/upload/"):
            self.send_header("X-Goog-Upload-URL", f"{at}{self.path.split('?')[0]}?upload_id=u1&key=provider-secret")
            self.send_header("X-Goog-Upload-Status", "final" if "finalize" in self.headers.get("X-Goog-Upload-Command", "") else "active")
        self.end_headers()
        self.wfile.write(out)

    def chunks(self):
        body = b""
        while self.headers.get("Transfer-Encoding") and (size := int(self.rfile.readline(), 16)):
            body += self.rfile.read(size)
            self.rfile.readline()
        return body

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *_):
        pass


provider = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
threading.Thread(target=provider.serve_forever, daemon=True).start()
at = f"http://127.0.0.1:{provider.server_port}"
failed = 0


def check(what, ok):
    global failed
    failed += not ok
    print("ok  " if ok else "FAIL", what)


def status(ask, *given, **more):
    try:
        ask(*given, **more)
    except Exception as e:  # noqa: BLE001 whatever an SDK raises is looked at
        return getattr(e, "status_code", getattr(e, "code", str(e)))
    return 200


def ids(page):
    return [getattr(one, "id", None) or one.name for one in page]


def upstream(body, header="Authorization", value="Bearer provider-secret"):
    return body in asked[-1][1] and asked[-1][0].get(header) == value


def openais(url, own, other):
    api, others = (openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0) for key in (own, other))
    batch = {"input_file_id": "file-1", "endpoint": "/v1/responses", "completion_window": "24h"}
    check("files.create", api.files.create(file=("a.bin", MEDIA), purpose="batch").id == "file-1" and upstream(MEDIA))
    check("files.list", ids(api.files.list()) == ["file-1"] and ids(others.files.list()) == [])
    check("files.content", api.files.content("file-1").content == MEDIA and status(others.files.content, "file-1") == 404)
    check("uploads", api.uploads.create(bytes=9, filename="a", mime_type="text/plain", purpose="batch").id == "upload_1")
    check("uploads.parts", api.uploads.parts.create("upload_1", data=MEDIA).id == "part_1" and upstream(MEDIA))
    check("uploads of others", status(others.uploads.parts.create, "upload_1", data=MEDIA) == 404)
    check("batches.create", api.batches.create(**batch).id == "batch_1" and status(others.batches.create, **batch) == 404)
    check("batches.list", ids(api.batches.list()) == ["batch_1"] and ids(others.batches.list()) == [])
    check("batches.cancel", api.batches.cancel("batch_1").status == "cancelling" and status(others.batches.cancel, "batch_1") == 404)
    check("images.generate", api.images.generate(model="gpt-image-1", prompt="x").data[0].b64_json == IMAGE["data"][0]["b64_json"])
    edited = api.images.edit(model="gpt-image-1", image=("a.png", MEDIA), prompt="x")
    check("images.edit", edited.usage.total_tokens == 7 and upstream(MEDIA))
    check("audio.speech", api.audio.speech.create(model="tts-1", voice="alloy", input="x").content == MEDIA)
    check("audio.transcriptions", api.audio.transcriptions.create(model="whisper-1", file=("a.mp3", MEDIA)).text == "heard" and upstream(MEDIA))
    check("moderations.create", api.moderations.create(input="x").id == "modr-1")
    check("files.delete", api.files.delete("file-1").deleted and status(others.files.delete, "file-1") == 404)
    check("fine_tuning.jobs.create", status(api.fine_tuning.jobs.create, model="gpt-4.1", training_file="file-1") == 403)


def anthropics(url, own, other):
    api, others = (anthropic.Anthropic(base_url=url, auth_token=key, api_key=None, max_retries=0) for key in (own, other))
    request = {"custom_id": "a", "params": {"model": "claude-opus-4-8", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}}
    made = api.messages.batches.create(requests=[request])
    check("messages.batches.create", made.id == "msgbatch_1" and upstream(b"custom_id", "X-Api-Key", "provider-secret"))
    check("messages.batches.list", ids(api.messages.batches.list()) == ["msgbatch_1"] and ids(others.messages.batches.list()) == [])
    check("beta.files.upload", api.beta.files.upload(file=("a.bin", MEDIA)).id == "file_a" and upstream(MEDIA, "X-Api-Key", "provider-secret"))
    check("beta.files.list", ids(api.beta.files.list()) == ["file_a"] and ids(others.beta.files.list()) == [])
    check("beta.files of others", status(others.beta.files.retrieve_metadata, "file_a") == 404)


def googles(url, own, other):
    api, others = (genai.Client(api_key=key, http_options={"base_url": url}) for key in (own, other))
    model, secret = "gemini-3.8-flash", ("X-Goog-Api-Key", "provider-secret")
    made = api.files.upload(file=io.BytesIO(MEDIA), config={"mime_type": "image/png"})
    check("genai files.upload", made.name == "files/f1" and upstream(MEDIA, *secret))
    check("genai files.list", ids(api.files.list()) == ["files/f1"] and ids(others.files.list()) == [])
    check("genai files.get", api.files.get(name="files/f1").name == "files/f1" and status(others.files.get, name="files/f1") == 404)
    check("genai caches.create", api.caches.create(model=model, config={"contents": "x"}).name == "cachedContents/c1" and upstream(b"contents", *secret))
    check("genai caches.list", ids(api.caches.list()) == ["cachedContents/c1"] and ids(others.caches.list()) == [])
    inline = [{"contents": [{"parts": [{"text": "a"}], "role": "user"}]}]
    check("genai batches.create", api.batches.create(model=model, src=inline).name == "batches/b1")
    check("genai batches.get", api.batches.get(name="batches/b1").name == "batches/b1" and status(others.batches.get, name="batches/b1") == 404)
    check("genai files.delete", status(api.files.delete, name="files/f1") == 200 and status(others.files.delete, name="files/f1") == 404)


with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    config = os.path.join(folder, "mneme.yaml")
    with open(config, "w") as out:
        out.write(f"""listen: 127.0.0.1:0
data: {folder}/data
providers:
  openai: {{base_url: "{at}/v1", api_key: provider-secret}}
  anthropic: {{base_url: "{at}", api_key: provider-secret}}
  gemini: {{base_url: "{at}/v1beta", api_key: provider-secret}}
""")

    def mneme(*arguments):
        return subprocess.run(["mneme", *arguments, "--config", config], check=True, capture_output=True, text=True).stdout

    log = os.path.join(folder, "log")
    with open(log, "w") as out:
        server = subprocess.Popen(["mneme", "serve", "--config", config], stdout=out, stderr=out)
    try:
        while not (listens := re.search(r"listening on (http:\S+)", open(log).read())) and server.poll() is None:
            time.sleep(0.05)
        keys = []
        for account in ("acme", "globex"):
            mneme("account", "create", account)
            keys.append(re.search(r"mnm_\S+", mneme("key", "create", "--account", account, "--scope", "write"))[0])
        for ask in (openais, anthropics, googles):
            ask(listens[1], *keys)
        check("no service key goes upstream", not any("mnm_" in str(headers) for headers, _ in asked))
        check("on record", "pass" in mneme("exchange", "list", "--account", "acme"))
    finally:
        server.terminate()
        server.wait()
sys.exit(bool(failed))
