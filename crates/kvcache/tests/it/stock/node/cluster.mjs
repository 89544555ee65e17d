// Cluster clients of Node, given the address of one of three nodes.

import assert from "node:assert/strict";

import { Cluster } from "ioredis";
import { createCluster } from "redis";

const [host, port] = process.argv[2].split(":");
const keys = (prefix) => Array.from({ length: 100 }, (_, number) => `${prefix}${number}`);

const ioredis = new Cluster([{ host, port: Number(port) }]);
await Promise.all(keys("io").map((key) => ioredis.set(key, key)));
assert.deepEqual(await Promise.all(keys("io").map((key) => ioredis.get(key))), keys("io"));
assert.equal(ioredis.nodes("master").length, 3);
assert.deepEqual(await ioredis.multi().set("{t}a", 1).incr("{t}a").del("{t}a").exec(), [[null, "OK"], [null, 2], [null, 1]]);
await assert.rejects(ioredis.mget("io1", "io2"), /CROSSSLOT|slot/);
ioredis.disconnect();

const redis = await createCluster({ rootNodes: [{ url: `redis://${host}:${port}` }] }).connect();
await Promise.all(keys("node").map((key) => redis.set(key, key)));
assert.deepEqual(await Promise.all(keys("node").map((key) => redis.get(key))), keys("node"));
assert.equal(redis.masters.length, 3);
redis.destroy();
console.log("done");
