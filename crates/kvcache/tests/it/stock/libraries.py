"""Libraries on top of redis-py against the server on the port that is the first argument: locks, counters, limits, caches."""

import asyncio
import sys
import threading
import time

import redis

PORT = int(sys.argv[1])
URL = f"redis://127.0.0.1:{PORT}/0"
R = redis.Redis(port=PORT)
WORKERS, ROUNDS = 6, 50


def contend(work):
    """Runs `work` in several threads, and raises what one of them has raised."""
    errors = []

    def run(number):
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(WORKERS)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    if errors:
        raise errors[0]


def guarded(make_lock):
    """A counter that is read and written back under a lock must not lose a round."""
    R.set("guarded", 0)

    def work(_):
        for _ in range(10):
            with make_lock():
                value = int(R.get("guarded"))
                time.sleep(0.0005)
                R.set("guarded", value + 1)

    contend(work)
    assert int(R.get("guarded")) == WORKERS * 10, R.get("guarded")


def redis_py_lock():
    guarded(lambda: R.lock("lock", timeout=20, blocking_timeout=60, sleep=0.002))
    mine, other = R.lock("held", timeout=60), R.lock("held", timeout=60)
    assert mine.acquire(blocking=False) and not other.acquire(blocking=False)
    other.local.token = b"not mine"
    for attempt in (other.reacquire, lambda: other.extend(10), other.release):
        try:
            attempt()
            raise AssertionError("somebody else's lock")
        except redis.exceptions.LockNotOwnedError:
            pass
    assert mine.extend(10) and 60 < mine.redis.ttl("held") <= 70 and mine.reacquire()
    mine.release()
    assert other.acquire(blocking=False, token="t") and R.get("held") == b"t"
    other.release()


def redis_py_pubsub():
    R.config_set("notify-keyspace-events", "KEA")
    listener = R.pubsub(ignore_subscribe_messages=True)
    listener.subscribe("news")
    listener.psubscribe("__keyevent@0__:*")
    listener.get_message(timeout=10), listener.get_message(timeout=10)
    eventually(lambda: R.pubsub_numsub("news") == [(b"news", 1)] and R.pubsub_numpat() == 1)
    assert R.publish("news", "hello") == 1
    R.sadd("tags", "a")
    R.srem("tags", "a")
    messages = [listener.get_message(timeout=30) for _ in range(4)]
    got = [(message["channel"], message["data"]) for message in messages if message]
    assert got == [
        (b"news", b"hello"),
        (b"__keyevent@0__:sadd", b"tags"),
        (b"__keyevent@0__:srem", b"tags"),
        (b"__keyevent@0__:del", b"tags"),
    ], got
    listener.close()
    R.config_set("notify-keyspace-events", "")


def eventually(is_true):
    end = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < end, "it has not come true"
        time.sleep(0.01)


def django():
    from django.conf import settings

    options = {"CLIENT_CLASS": "django_redis.client.DefaultClient"}
    settings.configure(
        CACHES={
            "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": URL},
            "other": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": URL, "OPTIONS": options},
        }
    )
    from django.core.cache import caches

    for name in ("default", "other"):
        cache = caches[name]
        cache.clear()
        cache.set("n", 0)
        contend(lambda _: [caches[name].incr("n") for _ in range(ROUNDS)])
        assert cache.get("n") == WORKERS * ROUNDS, (name, cache.get("n"))
        assert cache.add("a", {"x": [1]}, 100) and not cache.add("a", 2) and cache.get("a") == {"x": [1]}
        assert cache.get_or_set("b", lambda: "made") == "made" and cache.get_many(["a", "b", "none"]).keys() == {"a", "b"}
        assert cache.touch("a", 1000) and not cache.touch("none") and cache.has_key("a")
        cache.set_many({"c": 1, "d": None})
        assert cache.get("d", "default") is None and cache.delete("c") and not cache.delete("c")
        cache.delete_many(["a", "d"])
        assert "a" not in cache
        try:
            cache.incr("none")
            raise AssertionError("there is none")
        except ValueError:
            pass
    cache = caches["other"]
    assert 0 < cache.ttl("b") <= 300 and cache.persist("b") and cache.ttl("b") is None
    cache.set_many({f"page:{i}": i for i in range(30)})
    assert len(cache.keys("page:*")) == 30 and cache.delete_pattern("page:1*") == 11
    guarded(lambda: cache.lock("lock", timeout=20, sleep=0.002))


def dogpile():
    from dogpile.cache import make_region

    options = {"port": PORT, "distributed_lock": True, "lock_timeout": 20, "lock_sleep": 0.002, "thread_local_lock": False}
    regions = [make_region().configure("dogpile.cache.redis", 100, arguments=options) for _ in range(WORKERS)]
    made = []

    def create():
        made.append(1)
        time.sleep(0.05)
        return "value"

    contend(lambda number: regions[number].get_or_create("dogpile", create))
    assert len(made) == 1, f"made {len(made)} times"
    regions[0].set_multi({"m1": 1, "m2": 2})
    assert regions[1].get_multi(["m1", "m2"]) == [1, 2]
    regions[0].delete("m1")
    assert not regions[1].get("m1")


def aiocache_redlock():
    from aiocache import Cache
    from aiocache.lock import RedLock

    async def run():
        cache = Cache(Cache.REDIS, endpoint="127.0.0.1", port=PORT, namespace="aio")
        made = []

        async def fetch():
            async with RedLock(cache, "key", lease=20):
                value = await cache.get("key")
                if value is None:
                    made.append(1)
                    await asyncio.sleep(0.02)
                    value = "value"
                    await cache.set("key", value, ttl=60)
                return value

        # The library lets in whoever is refused before it has seen that somebody else was not.
        first = asyncio.create_task(fetch())
        while not made:
            await asyncio.sleep(0.001)
        assert await asyncio.gather(first, *[fetch() for _ in range(WORKERS - 1)]) == ["value"] * WORKERS
        assert len(made) == 1, f"made {len(made)} times"
        assert await cache.increment("n", 2) == 2 and await cache.multi_get(["key", "none"]) == ["value", None]
        assert await cache.clear(namespace="aio")
        await cache.close()

    asyncio.run(run())


def limits_strategies():
    from limits import RateLimitItemPerHour
    from limits.storage import storage_from_string
    from limits.strategies import FixedWindowRateLimiter, SlidingWindowCounterRateLimiter

    storage = storage_from_string(URL)
    assert storage.check()
    limit = RateLimitItemPerHour(25)
    for strategy in (FixedWindowRateLimiter, SlidingWindowCounterRateLimiter):
        limiter, name, passed = strategy(storage), strategy.__name__, []
        contend(lambda _: passed.extend(limiter.hit(limit, name) for _ in range(10)))
        # The end of an hour may lie between two of them, in windows that are fixed.
        assert sum(passed) == 25 or strategy is FixedWindowRateLimiter and sum(passed) <= 50, (name, sum(passed))
        assert limiter.get_window_stats(limit, name).remaining == 0 or strategy is FixedWindowRateLimiter
        limiter.clear(limit, name)
        assert limiter.test(limit, name)


def pottery_locks():
    from pottery import NextID, Redlock, RedisDict, RedisSet

    R.delete("redlock:pottery")
    guarded(lambda: Redlock(key="pottery", masters={R}, auto_release_time=20))
    ids = NextID(key="ids", masters={R})
    assert [next(ids), next(ids), next(NextID(key="ids", masters={R}))] == [1, 2, 3]
    prices = RedisDict({"a": 1}, redis=R, key="prices")
    prices["b"] = 2
    assert dict(prices) == {"a": 1, "b": 2}
    tags = RedisSet({"x", "y"}, redis=R, key="pottery-tags")
    assert "x" in tags and len(tags) == 2


def celery_results():
    from celery import Celery, states
    from celery.result import AsyncResult

    app = Celery("app", backend=URL, broker="memory://")
    waiting = AsyncResult("task", app=app)
    got = []
    waiter = threading.Thread(target=lambda: got.append(waiting.get(timeout=60)))
    waiter.start()
    # The backend tells of a result by a message: there is no polling.
    eventually(lambda: R.pubsub_numsub("celery-task-meta-task")[0][1] == 1)
    app.backend.store_result("task", {"sum": 3}, states.SUCCESS)
    waiter.join()
    assert got == [{"sum": 3}] and AsyncResult("task", app=app).state == "SUCCESS", got
    AsyncResult("task", app=app).forget()
    assert R.get("celery-task-meta-task") is None
    assert app.backend.client.incr("chord-count") == 1


def flask_caching():
    from flask import Flask
    from flask_caching import Cache

    app = Flask("app")
    cache = Cache(app, config={"CACHE_TYPE": "RedisCache", "CACHE_REDIS_URL": URL})
    made = []

    @cache.memoize(100)
    def double(number):
        made.append(number)
        return 2 * number

    with app.app_context():
        assert [double(2), double(2), double(3)] == [4, 4, 6] and made == [2, 3]
        cache.delete_memoized(double, 2)
        assert double(2) == 4 and made == [2, 3, 2]
        assert cache.set_many({"a": 1, "b": 2}) and cache.get_many("a", "b", "c") == [1, 2, None]
        assert cache.add("d", 1) and not cache.add("d", 2) and cache.has("d") and cache.delete("d")
        cache.clear()
        assert cache.get("a") is None


for test in (
    redis_py_lock, redis_py_pubsub, django, dogpile, aiocache_redlock, limits_strategies,
    pottery_locks, celery_results, flask_caching,
):  # fmt: skip
    R.flushall()
    began = time.monotonic()
    test()
    print(f"{test.__name__}: {time.monotonic() - began:.1f} s", flush=True)
print("done")
