"""redis-py against the server on the port that is the first argument, in RESP2 and RESP3; over TLS if there is a second,
the file of the authority."""

import sys
import threading

import redis

PORT = int(sys.argv[1])
TLS = {"ssl": True, "ssl_ca_certs": sys.argv[2]} if len(sys.argv) > 2 else {}
POOL = {"connection_class": redis.SSLConnection, "ssl_ca_certs": sys.argv[2]} if TLS else {}


def client(**options):
    return redis.Redis(port=PORT, **TLS, **options)


def strings(r):
    r.flushall()
    assert r.ping()
    assert r.set("k", b"v\x00\xff") and r.get("k") == b"v\x00\xff"
    assert r.set("k", "2", nx=True) is None and r.set("k", "2", xx=True, get=True) == b"v\x00\xff"
    assert r.incr("k", 3) == 5 and r.incrbyfloat("f", 0.1) == 0.1 and r.incrbyfloat("f", 0.2) == 0.3
    assert r.mset({"a": 1, "b": 2}) and r.mget("a", "none", "b") == [b"1", None, b"2"]
    assert r.expire("a", 100) and 0 < r.ttl("a") <= 100 and r.ttl("b") == -1
    assert sorted(r.scan_iter("*")) == [b"a", b"b", b"f", b"k"]
    assert r.type("a") == b"string" and r.delete("a", "b", "none") == 2 and r.exists("k") == 1


def text():
    r = client(decode_responses=True)
    assert r.set("ä", "ö") and r.get("ä") == "ö"


def pipelines(r):
    with r.pipeline(transaction=False) as p:
        for i in range(500):
            p.set(f"p{i}", i)
        for i in range(500):
            p.get(f"p{i}")
        got = p.execute()
    assert got[:500] == [True] * 500 and got[500:] == [str(i).encode() for i in range(500)]
    with r.pipeline() as p:
        p.set("t", 1).incr("t").get("t")
        assert p.execute() == [True, 2, b"2"]
    r.set("w", 1)
    with r.pipeline() as p:
        p.watch("w")
        r.set("w", 2)
        p.multi()
        p.set("w", 3)
        try:
            p.execute()
            raise AssertionError("the watched key had changed")
        except redis.WatchError:
            pass
    assert r.get("w") == b"2"
    assert r.transaction(lambda p: p.set("x", p.get("w")), "w") is not None


def errors(r):
    r.set("s", "no number")
    for call, part in [
        (lambda: r.incr("s"), "not an integer"),
        (lambda: r.execute_command("NONESUCH"), "unknown command"),
        (lambda: r.execute_command("GET"), "wrong number of arguments"),
        (lambda: r.lpush("l", 1), "unknown command"),
    ]:
        try:
            call()
            raise AssertionError(f"no error with {part}")
        except redis.ResponseError as error:
            assert part in str(error), error


def connections(protocol):
    pool = redis.ConnectionPool(port=PORT, **POOL, protocol=protocol, max_connections=8, health_check_interval=1)
    r = redis.Redis(connection_pool=pool)

    def work():
        for i in range(50):
            r.set(f"thread{i}", i)
            assert r.get(f"thread{i}") == str(i).encode()

    threads = [threading.Thread(target=work) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    named = client(protocol=protocol, client_name="somebody")
    assert named.client_getname() in ("somebody", b"somebody")
    mine = named.client_info()
    assert mine["name"] == "somebody" and mine["lib-name"].startswith("redis-py") and mine["resp"] == str(protocol)
    assert any(c["name"] == "somebody" for c in r.client_list())
    assert r.client_kill_filter(_id=mine["id"]) == 1
    assert named.ping(), "it connects again"
    pool.disconnect()


def server(r):
    info = r.info()
    assert info["redis_version"] == "7.0.15" and info["db0"]["keys"] > 0 and info["role"] == "master"
    assert "cmdstat_get" in r.info("commandstats")
    assert r.config_get("maxmemory*")["maxmemory"] == "0" and r.config_set("slowlog-max-len", 64)
    assert r.config_get("slowlog-max-len") == {"slowlog-max-len": "64"}
    assert r.config_set("slowlog-log-slower-than", 0) and r.get("k") is not None
    r.execute_command("ECHO", "x")
    entries = r.slowlog_get(1)
    assert entries[0]["command"] == b"ECHO x", entries
    assert r.config_set("slowlog-log-slower-than", 10000) and r.slowlog_reset()
    assert r.command_count() == len(r.command()) > 80
    assert r.command()["set"]["arity"] == -3 and list(r.command_getkeys("MSET", "a", 1, "b", 2)) in (["a", "b"], [b"a", b"b"])
    assert "get" in r.command_list() or b"get" in r.command_list()
    assert r.dbsize() > 0 and r.time()[0] > 0 and r.lastsave() and r.role()[0] in (b"master", "master")
    assert r.acl_whoami() in ("default", b"default") and r.wait(0, 0) == 0
    assert r.memory_usage("k") > 0 and r.object("encoding", "k")
    assert r.function_flush() and r.script_flush() and r.script_exists("a") == [False]
    assert r.client_pause(20, all=False) and r.set("k", 1)
    assert r.latency_latest() == [] and r.latency_reset() == 0
    assert "requests_per_second" in str(r.execute_command("PERF"))


for protocol in (2, 3):
    r = client(protocol=protocol)
    strings(r)
    pipelines(r)
    errors(r)
    connections(protocol)
    server(r)
text()
print("done")
