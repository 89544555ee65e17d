"""redis-py's cluster client against the server on the port that is the only argument."""

import sys

from redis.cluster import RedisCluster

PORT = int(sys.argv[1])

for protocol in (2, 3):
    r = RedisCluster(host="127.0.0.1", port=PORT, protocol=protocol)
    assert len(r.get_nodes()) == 1 and r.cluster_info()["cluster_state"] == "ok"
    for i in range(200):
        assert r.set(f"key{i}", i) and r.get(f"key{i}") == str(i).encode()
    assert r.mget_nonatomic("key1", "key2", "none") == [b"1", b"2", None]
    with r.pipeline() as p:
        for i in range(50):
            p.get(f"key{i}")
        assert p.execute() == [str(i).encode() for i in range(50)]
    slot = r.cluster_keyslot("key1")
    node = r.get_default_node()
    assert r.cluster_countkeysinslot(slot) >= 1
    assert b"key1" in r.cluster_get_keys_in_slot(slot, 10) or "key1" in r.cluster_get_keys_in_slot(slot, 10)
    assert r.info("cluster", target_nodes=node)["cluster_enabled"] == 1
    r.flushall()
    r.close()
print("done")
