// Clients and libraries of Node against a server on the port that is the first argument, and one that calls itself a cluster on
// the port that is the second.

import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

import { Redis, Cluster } from "ioredis";
import { createClient, BasicClientSideCache } from "redis";
import { rateLimit } from "express-rate-limit";
import { RedisStore as RateLimitStore } from "rate-limit-redis";
import { RateLimiterRedis } from "rate-limiter-flexible";
import Redlock from "redlock";
import session from "express-session";
import { RedisStore as SessionStore } from "connect-redis";

const [port, clusterPort] = process.argv.slice(2).map(Number);
const redis = new Redis(port);

async function eventually(isTrue) {
  const end = Date.now() + 60_000;
  while (!(await isTrue())) {
    assert(Date.now() < end, "it has not come true");
    await sleep(5);
  }
}

const times = (count, work) => Promise.all(Array.from({ length: count }, (_, number) => work(number)));

async function ioredis() {
  redis.defineCommand("addTo", { numberOfKeys: 1, lua: "return redis.call('incrby', KEYS[1], ARGV[1])" });
  assert.deepEqual(await times(50, () => redis.addTo("n", 2)).then((all) => Math.max(...all)), 100);
  await redis.script("FLUSH");
  assert.equal(await redis.addTo("n", 1), 101, "it sends the script again");
  assert.deepEqual(await redis.pipeline().set("a", 1).get("a").hset("h", { x: 1 }).hgetall("h").exec(), [
    [null, "OK"], [null, "1"], [null, 1], [null, { x: "1" }],
  ]);
  assert.deepEqual(await redis.multi().incr("a").get("a").exec(), [[null, 2], [null, "2"]]);
  assert.deepEqual(await redis.mget("a", "none"), ["2", null]);
  const found = [];
  await redis.mset(Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`scan:${i}`, i])));
  for await (const keys of redis.scanStream({ match: "scan:*", count: 20 })) found.push(...keys);
  assert.equal(new Set(found).size, 200);

  const subscriber = new Redis(port);
  await subscriber.subscribe("news");
  await subscriber.psubscribe("n*");
  const messages = [];
  subscriber.on("message", (channel, text) => messages.push([channel, text]));
  subscriber.on("pmessage", (pattern, channel, text) => messages.push([pattern, channel, text]));
  assert.equal(await redis.publish("news", "hello"), 2);
  await eventually(() => messages.length === 2);
  assert.deepEqual(messages.sort((a, b) => a.length - b.length), [["news", "hello"], ["n*", "news", "hello"]]);
  subscriber.disconnect();
}

async function ioredisCluster() {
  const cluster = new Cluster([{ host: "127.0.0.1", port: clusterPort }]);
  await times(100, (number) => cluster.set(`key${number}`, number));
  assert.deepEqual(await times(100, (number) => cluster.get(`key${number}`)), Array.from({ length: 100 }, (_, i) => `${i}`));
  assert.equal(cluster.nodes("master").length, 1);
  const subscriber = new Cluster([{ host: "127.0.0.1", port: clusterPort }]);
  await subscriber.subscribe("news");
  const message = once(subscriber, "message");
  await eventually(async () => (await cluster.publish("news", "hello")) === 1);
  assert.deepEqual(await message, ["news", "hello"]);
  subscriber.disconnect();
  cluster.disconnect();
}

async function nodeRedis() {
  const cache = new BasicClientSideCache({ ttl: 0, maxEntries: 0, evictPolicy: "LRU" });
  const client = await createClient({ socket: { port, host: "127.0.0.1" }, RESP: 3, clientSideCache: cache }).connect();
  await redis.set("cached", "old");
  assert.equal(await client.get("cached"), "old");
  assert.equal(await client.get("cached"), "old");
  assert.equal(cache.stats().hitCount, 1);
  await redis.set("cached", "new");
  await eventually(async () => (await client.get("cached")) === "new");
  assert.equal(await client.eval("return ARGV[1]", { arguments: ["x"] }), "x");
  assert.deepEqual(await client.multi().set("m", "1").incr("m").exec(), ["OK", 2]);
  await client.hSet("hash", { a: "1", b: "2" });
  assert.deepEqual({ ...(await client.hGetAll("hash")) }, { a: "1", b: "2" });
  const subscriber = client.duplicate({ clientSideCache: undefined });
  await subscriber.connect();
  const got = new EventEmitter();
  await subscriber.subscribe("channel", (text) => got.emit("text", text));
  const message = once(got, "text");
  await client.publish("channel", "hello");
  assert.deepEqual(await message, ["hello"]);
  subscriber.destroy();
  client.destroy();
}

async function rateLimitRedis() {
  const store = new RateLimitStore({ sendCommand: (...args) => redis.call(...args), prefix: "rl:" });
  const limiter = rateLimit({ windowMs: 3_600_000, limit: 5, store, validate: false, keyGenerator: () => "me" });
  let passed = 0;
  const ask = () =>
    new Promise((resolve, reject) => {
      const answer = { headersSent: false, setHeader() {}, append() {}, status: () => answer, send: () => resolve() };
      limiter({ ip: "127.0.0.1", app: { get() {} }, headers: {} }, answer, (error) => (error ? reject(error) : resolve(passed++)));
    });
  await times(20, ask);
  assert.equal(passed, 5);
  await store.resetKey("me");
  await ask();
  assert.equal(passed, 6);
}

async function rateLimiterFlexible() {
  const limiter = new RateLimiterRedis({ storeClient: redis, points: 5, duration: 3600, blockDuration: 0 });
  const outcomes = await times(20, () => limiter.consume("me").then(() => true, (error) => {
    if (error instanceof Error) throw error;
    assert(error.msBeforeNext > 0);
    return false;
  }));
  assert.equal(outcomes.filter(Boolean).length, 5);
  assert.equal((await limiter.get("me")).consumedPoints, 20);
  assert(await limiter.delete("me"));
}

async function redlock() {
  const locks = new Redlock([redis], { retryCount: -1, retryDelay: 20, retryJitter: 10 });
  await redis.set("guarded", 0);
  await times(10, async () => {
    const lock = await locks.lock("lock", 60_000);
    const value = Number(await redis.get("guarded"));
    await sleep(1);
    await redis.set("guarded", value + 1);
    await lock.unlock();
  });
  assert.equal(await redis.get("guarded"), "10");
  const lock = await locks.lock("held", 60_000);
  await assert.rejects(new Redlock([redis], { retryCount: 0 }).lock("held", 1_000));
  const extended = await lock.extend(90_000);
  assert((await redis.pttl("held")) > 60_000);
  await redis.set("held", "somebody else");
  await assert.rejects(extended.unlock());
  assert.equal(await redis.get("held"), "somebody else", "only its owner unlocks it");
}

async function connectRedis() {
  const client = await createClient({ socket: { port, host: "127.0.0.1" } }).connect();
  const store = new SessionStore({ client, prefix: "sess:", ttl: 100 });
  assert(store instanceof session.Store);
  const call = (name, ...args) => new Promise((resolve, reject) =>
    store[name](...args, (error, value) => (error ? reject(error) : resolve(value))));
  const value = { cookie: { maxAge: 100_000 }, user: "me" };
  await call("set", "id", value);
  assert.equal((await call("get", "id")).user, "me");
  await call("touch", "id", value);
  assert.equal(await call("length"), 1);
  assert.deepEqual(await call("ids"), ["id"]);
  await call("destroy", "id");
  assert(!(await call("get", "id")));
  await call("set", "other", value);
  await call("clear");
  assert.equal(await call("length"), 0);
  client.destroy();
}

for (const test of [ioredis, ioredisCluster, nodeRedis, rateLimitRedis, rateLimiterFlexible, redlock, connectRedis]) {
  await redis.flushall();
  const began = Date.now();
  await test();
  console.log(`${test.name}: ${Date.now() - began} ms`);
}
redis.disconnect();
console.log("done");
