"""The client against a real HTTP server on loopback whose answers each test chooses."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from draftgate.client import Client, Prompt
from draftgate.client.transport import SERVER_INFO, Transport
from draftgate.errors import BadReply, MissingCounters, RequestFailed, ServerDied

PROMPTS = [Prompt("a", (1, 2, 3)), Prompt("b", (4, 5, 6)), Prompt("c", (7, 8, 9))]


def reply(body, **meta):
    """A right answer to a /generate request: the prompt's ids, repeated."""
    count = body["sampling_params"]["max_new_tokens"]
    return {
        "output_ids": (body["input_ids"] * count)[:count],
        "meta_info": {
            "prompt_tokens": len(body["input_ids"]),
            "completion_tokens": count,
            "cached_tokens": 0,
            "spec_verify_ct": 3,
            "e2e_latency": 0.5,
            **meta,
        },
    }


class Server:
    """Answers as `answer(path, body)` says: (status, object) or an exception to break off."""

    def __init__(self, answer):
        self.seen = []
        self.most_at_once = 0
        self._at_once = 0
        lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length) or "null")
                with lock:
                    server.seen.append((self.path, body, dict(self.headers)))
                    server._at_once += 1
                    server.most_at_once = max(server.most_at_once, server._at_once)
                try:
                    status, answered = answer(self.path, body)
                finally:
                    with lock:
                        server._at_once -= 1
                if status is None:
                    self.connection.close()
                    return
                content = answered if isinstance(answered, bytes) else json.dumps(answered).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.handle_error = lambda *_: None
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def serve():
    running = []

    def start(answer) -> Server:
        running.append(Server(answer))
        return running[-1]

    yield start
    for server in running:
        server.http.shutdown()
        server.http.server_close()


def client(server: Server, *, check_alive=lambda: None, **extra) -> Client:
    return Client(server.url, check_alive=check_alive, speculating=True, timeout_s=10, **extra)


def test_replies_come_in_the_order_of_the_prompts(serve):
    server = serve(lambda _, body: (time.sleep(0.05 / body["input_ids"][0]), (200, reply(body)))[1])
    answers = client(server).generate(PROMPTS, max_new_tokens=6, concurrency=3)
    assert [answer.prompt_id for answer in answers] == ["a", "b", "c"]
    assert [answer.output_ids for answer in answers] == [
        (1, 2, 3) * 2,
        (4, 5, 6) * 2,
        (7, 8, 9) * 2,
    ]
    assert [answer.verify_steps for answer in answers] == [3, 3, 3]


@pytest.mark.parametrize("concurrency", [1, 2])
def test_no_more_requests_in_flight_than_asked(serve, concurrency):
    server = serve(lambda _, body: (time.sleep(0.05), (200, reply(body)))[1])
    client(server).generate(PROMPTS, max_new_tokens=6, concurrency=concurrency)
    assert server.most_at_once == concurrency


def test_the_request_is_greedy_of_fixed_length_and_carries_the_key(serve):
    server = serve(lambda _, body: (200, reply(body)))
    client(server, api_key="secret").generate(PROMPTS[:1], max_new_tokens=6)
    ((path, body, headers),) = server.seen
    assert path == "/generate"
    assert body == {
        "input_ids": [1, 2, 3],
        "sampling_params": {"temperature": 0.0, "max_new_tokens": 6, "ignore_eos": True},
        "return_hidden_states": False,
    }
    assert headers["Authorization"] == "Bearer secret"


def test_no_prompts_no_requests(serve):
    server = serve(lambda _, body: (200, reply(body)))
    assert client(server).generate([], max_new_tokens=6) == []
    assert server.seen == []


def test_a_death_ends_a_hanging_request_at_once(serve):
    release = threading.Event()
    server = serve(lambda *_: (release.wait(20), (200, {}))[1])
    begin = time.monotonic()

    def check_alive():
        if time.monotonic() - begin > 0.3:
            raise ServerDied("killed by SIGKILL")

    with pytest.raises(ServerDied, match="SIGKILL"):
        client(server, check_alive=check_alive).generate(PROMPTS, max_new_tokens=6, concurrency=2)
    assert time.monotonic() - begin < 5  # far from the request's own 10 s
    release.set()


def test_a_broken_connection_is_named_as_the_death_it_is(serve):
    server = serve(lambda *_: (None, None))

    def check_alive():
        raise ServerDied("exit code 3")

    with pytest.raises(ServerDied, match="exit code 3"):
        client(server, check_alive=check_alive).generate(PROMPTS[:1], max_new_tokens=6)


def test_a_broken_connection_of_a_living_server(serve):
    server = serve(lambda *_: (None, None))
    with pytest.raises(RequestFailed, match=r"POST http://127\.0\.0\.1:\d+/generate"):
        client(server).generate(PROMPTS[:1], max_new_tokens=6)


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ((500, {"error": "boom"}), RequestFailed, "/generate answered 500.*boom"),
        ((200, b"{not json"), BadReply, "no JSON"),
        ((200, [1]), BadReply, "answered list"),
        ((200, {"output_ids": []}), BadReply, "no meta_info"),
    ],
)
def test_wrong_answers(serve, answer, error, words):
    with pytest.raises(error, match=words):
        client(serve(lambda *_: answer)).generate(PROMPTS[:1], max_new_tokens=6)


@pytest.mark.parametrize(
    ("meta", "error", "words"),
    [
        ({"spec_verify_ct": None}, MissingCounters, r"no spec_verify_ct > 0 \(found None"),
        ({"spec_verify_ct": 0}, MissingCounters, "found 0"),
        ({"spec_verify_ct": 7}, BadReply, "7 verify steps for 6 tokens"),
        ({"completion_tokens": 5}, BadReply, "asked for 6 tokens .* counts 5"),
        ({"completion_tokens": None}, BadReply, "completion_tokens is None"),
        ({"spec_correct_drafts_histogram": [1, 4]}, BadReply, "3 verify steps, but .* counts 5"),
        (
            {"spec_correct_drafts_histogram": [1, 2], "spec_num_correct_drafts": 5},
            BadReply,
            "5 correct drafts, but .* adds up to 2",
        ),
    ],
)
def test_wrong_counters(serve, meta, error, words):
    server = serve(lambda _, body: (200, reply(body, **meta)))
    with pytest.raises(error, match=words):
        client(server).generate(PROMPTS[:1], max_new_tokens=6)


def test_the_likeliest_next_tokens(serve):
    top = {"output_top_logprobs": [[[-0.5, 17, None], [-0.75, 44, None]]]}
    server = serve(lambda _, body: (200, reply(body, **top, spec_verify_ct=0)))
    assert client(server).likeliest(PROMPTS[0], count=2) == {17: -0.5, 44: -0.75}
    ((_, body, _),) = server.seen
    assert body == {
        "input_ids": [1, 2, 3],
        "sampling_params": {"temperature": 0.0, "max_new_tokens": 1, "ignore_eos": True},
        "return_logprob": True,
        "top_logprobs_num": 2,
    }


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ({}, "prompt a: the reply holds no output_top_logprobs"),
        ({"output_top_logprobs": []}, "no output_top_logprobs"),
        ({"output_top_logprobs": [None]}, "no output_top_logprobs"),
        ({"output_top_logprobs": [[[-0.5, 17, None]]]}, "asked for 2 likeliest tokens, told {17"),
    ],
)
def test_a_server_that_does_not_tell_the_likeliest(serve, meta, words):
    server = serve(lambda _, body: (200, reply(body, **meta)))
    with pytest.raises(BadReply, match=words):
        client(server).likeliest(PROMPTS[0], count=2)


def test_counters_of_every_version(serve):
    meta = {"spec_accept_token_num": 3, "spec_accept_histogram": [1, 1, 1]}
    (old,) = client(serve(lambda _, b: (200, reply(b, **meta)))).generate(
        PROMPTS[:1], max_new_tokens=6
    )
    meta = {"spec_num_correct_drafts": 3, "spec_correct_drafts_histogram": [1, 1, 1]}
    (new,) = client(serve(lambda _, b: (200, reply(b, **meta)))).generate(
        PROMPTS[:1], max_new_tokens=6
    )
    assert (old.correct_drafts, old.histogram) == (3, (1, 1, 1))
    assert (new.correct_drafts, new.histogram) == (3, (1, 1, 1))


def test_server_info_under_both_names(serve):
    old = serve(lambda path, _: (200, {"v": 1}) if path == "/get_server_info" else (404, {}))
    assert Transport(old.url).describe(SERVER_INFO, timeout_s=10) == {"v": 1}
    new = serve(lambda path, _: (200, {"v": 2}) if path == "/server_info" else (404, {}))
    assert Transport(new.url).describe(SERVER_INFO, timeout_s=10) == {"v": 2}


def test_a_busy_server_is_asked_again_to_flush(serve):
    answers = iter([(400, {}), (400, {}), (200, {})])
    server = serve(lambda *_: next(answers))
    client(server).flush_cache()
    # It is told to wait until it is idle: of several ranks only the first one's refusal is heard.
    assert [path for path, _, _ in server.seen] == ["/flush_cache?timeout=10"] * 3


def test_a_flush_that_fails(serve):
    with pytest.raises(RequestFailed, match="/flush_cache answered 500"):
        client(serve(lambda *_: (500, {}))).flush_cache()


def test_the_key_stays_out_of_an_error(serve):
    server = serve(lambda *_: (500, {"error": "who is Bearer planted-key-4711"}))
    with pytest.raises(RequestFailed, match=r"/generate answered 500: .*Bearer \*\*\*"):
        client(server, api_key="planted-key-4711").generate(PROMPTS[:1], max_new_tokens=6)


def test_a_silent_server_whose_processes_live_hangs(serve):
    release = threading.Event()
    server = serve(lambda *_: (release.wait(20), (200, {}))[1])
    patient = Client(server.url, check_alive=lambda: None, speculating=True, timeout_s=0.2)
    with pytest.raises(RequestFailed, match="/generate: no answer within 0.2 s, while .* it hangs"):
        patient.generate(PROMPTS[:1], max_new_tokens=6)
    release.set()
