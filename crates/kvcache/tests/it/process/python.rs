//! Client libraries in Python, alone, with their own ketama rings, and through twemproxy.

use sys::listen::Address;

use crate::{
    common::{Kv, python, run_script},
    process::scaling::Proxy,
};

fn port(address: &Address) -> String {
    match address {
        Address::Tcp(address) => address.port().to_string(),
        Address::Unix(path) => path.display().to_string(),
    }
}

const PYMEMCACHE: &str = r#"
import sys
from pymemcache.client.base import Client
client = Client(("127.0.0.1", int(sys.argv[1])), default_noreply=False, timeout=30)
assert client.set("a", b"1") and client.get("a") == b"1"
assert client.add("a", b"2") is False and client.replace("a", b"3") is True
assert client.append("a", b"4") and client.prepend("a", b"2") and client.get("a") == b"234"
assert client.incr("a", 6) == 240 and client.decr("a", 1000) == 0 and client.get("a") == b"0  "
value, cas = client.gets("a")
assert client.cas("a", b"x", cas) is True and client.cas("a", b"y", cas) is False
assert client.cas("none", b"y", cas) is None
assert client.set_many({f"k{n}": str(n).encode() for n in range(100)}) == []
assert client.get_many([f"k{n}" for n in range(101)]) == {f"k{n}": str(n).encode() for n in range(100)}
assert client.touch("k1", 100) and not client.touch("none")
assert client.delete("k1") is True and client.delete("k1") is False and client.get("k1") is None
client.set("quiet", b"1", noreply=True)
client.delete("k2", noreply=True)
assert client.get("quiet") == b"1" and client.get("k2") is None
assert client.version().startswith(b"1.") and b"curr_items" in client.stats()
assert client.flush_all() and client.get("quiet") is None
"#;

#[test]
fn pymemcache_is_served() {
    let Some(python) = python(&["pymemcache"]).unwrap() else { return };
    let kv = Kv::start(["--compression", "gzip"]).unwrap();
    run_script(&python, PYMEMCACHE, &[&port(kv.memcached())]).unwrap();
    kv.stop().unwrap();
}

const KETAMA: &str = r#"
import sys
from pymemcache.client.base import Client
from pymemcache.client.hash import HashClient
servers = [("127.0.0.1", int(port)) for port in sys.argv[1:]]
client = HashClient(servers, timeout=30, default_noreply=False)
pairs = {f"key{n}": f"value{n}".encode() for n in range(200)}
assert client.set_many(pairs) == []
assert client.get_many(list(pairs)) == pairs
shares = [int(Client(server).stats()[b"curr_items"]) for server in servers]
assert sum(shares) == len(pairs) and all(share > 20 for share in shares), shares
for key in list(pairs)[:50]:
    assert client.delete(key)
assert client.get_many(list(pairs)) == dict(list(pairs.items())[50:])
"#;

#[test]
fn a_hashing_client_spreads_its_keys_over_two_servers() {
    let Some(python) = python(&["pymemcache"]).unwrap() else { return };
    let servers: Vec<_> = (0..2).map(|_| Kv::start::<&str>([]).unwrap()).collect();
    let ports: Vec<_> = servers.iter().map(|kv| port(kv.memcached())).collect();
    run_script(&python, KETAMA, &[&ports[0], &ports[1]]).unwrap();
    servers.into_iter().for_each(|kv| kv.stop().unwrap());
}

const REDIS_THROUGH_PROXY: &str = r#"
import sys, warnings, redis
warnings.simplefilter('ignore')
# twemproxy knows neither HELLO nor CLIENT SETINFO.
quiet = dict(protocol=2, lib_name=None, lib_version=None) if int(redis.__version__.split(".")[0]) >= 5 else {}
client = redis.Redis(unix_socket_path=sys.argv[1], socket_timeout=30, decode_responses=True, **quiet)
pairs = {f"key:{n}": f"value {n}" for n in range(300)}
with client.pipeline(transaction=False) as pipe:
    for key, value in pairs.items():
        pipe.set(key, value)
    assert pipe.execute() == [True] * len(pairs)
assert client.mget(list(pairs)) == list(pairs.values())
assert client.mset({key: value[::-1] for key, value in pairs.items()})
assert client.get("key:7") == "7 eulav" and client.get("none") is None
assert client.delete(*pairs) == len(pairs)
assert client.mget(list(pairs)) == [None] * len(pairs)
"#;

#[test]
fn redis_py_is_served_through_twemproxy() {
    let Some(python) = python(&["redis"]).unwrap() else { return };
    let servers: Vec<_> = (0..2).map(|_| Kv::start::<&str>([]).unwrap()).collect();
    let addresses: Vec<_> = servers.iter().map(Kv::resp).collect();
    let Some(proxy) = Proxy::start(true, &addresses).unwrap() else { return };
    run_script(&python, REDIS_THROUGH_PROXY, &[&proxy.socket()]).unwrap();
    drop(proxy);
    servers.into_iter().for_each(|kv| kv.stop().unwrap());
}
