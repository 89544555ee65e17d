//! Three servers that one map makes a cluster of: each has a part of the slots, and none knows whether the others live.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::atomic::{AtomicU16, Ordering::Relaxed},
};

use anyhow::Context;
use testkit::{Client, Server, expect_failure, installed_program};

use crate::{
    common::{EXE, ask, python, run, run_script, text},
    stock::libraries::node_program,
};

/// Port of all nodes, below those that the kernel hands out.
const PORT: u16 = 7379;

/// Servers with a loopback address each, which nobody else on the machine uses: a map needs the ports before they are bound.
struct Cluster {
    directory: tempfile::TempDir,
    hosts: Vec<String>,
    servers: Vec<Option<Server>>,
}

impl Cluster {
    fn start(stores: &[&str]) -> anyhow::Result<Self> {
        static STARTED: AtomicU16 = AtomicU16::new(0);
        let [high, low] = (std::process::id() as u16).to_be_bytes();
        let first = STARTED.fetch_add(1, Relaxed) * 8;
        // Neither of the middle numbers is 0, as they are in the addresses that others use.
        let host = |node| format!("127.{}.{}.{}", high | 128, low | 1, first + node + 1);
        let hosts: Vec<_> = (0..).map(host).take(stores.len()).collect();
        let mut cluster = Self { directory: tempfile::tempdir()?, hosts, servers: Vec::new() };
        let map: String = cluster.hosts.iter().map(|host| format!("{host}:{PORT}\n")).collect();
        fs::write(cluster.directory.path().join("map"), map)?;
        for (node, store) in stores.iter().enumerate() {
            let server = cluster.start_node(node, store)?;
            cluster.servers.push(Some(server));
        }
        Ok(cluster)
    }

    fn start_node(&self, node: usize, store: &str) -> anyhow::Result<Server> {
        let (address, map) = (self.address(node), self.directory.path().join("map"));
        let args = [
            "--listen",
            &address,
            "--threads",
            "2",
            "--store",
            store,
            "--cluster-map",
            map.to_str().unwrap_or_default(),
        ];
        Server::start(Path::new(EXE), args)
    }

    fn address(&self, node: usize) -> String {
        format!("{}:{PORT}", self.hosts[node])
    }

    fn connect(&self, node: usize) -> anyhow::Result<Client> {
        self.servers[node].as_ref().context("it is not there")?.connect()
    }

    fn kill(&mut self, node: usize) {
        self.servers[node] = None;
    }

    /// Returns the number of keys of each node.
    fn shares(&self) -> anyhow::Result<Vec<usize>> {
        let size = |node| {
            let mut client = self.connect(node)?;
            client.send(b"DBSIZE\r\n")?;
            let line = client.read_line()?;
            line.trim_start_matches(':').trim().parse().with_context(|| line.clone())
        };
        (0..self.servers.len()).map(size).collect()
    }
}

/// Stores of three nodes: keys of others are told apart in the window of commands and by the threads that own shards.
const STORES: [&str; 3] = ["packed", "partitioned", "std"];

#[test]
fn a_command_on_keys_of_another_node_is_answered_with_its_address() -> anyhow::Result<()> {
    let cluster = Cluster::start(&STORES)?;
    // Slots 12182, 5061 and 15495: of the third node, the first and the third.
    let third = cluster.address(2);
    let mut first = cluster.connect(0)?;
    let moved = format!("-MOVED 12182 {third}\r\n");
    let pipeline = b"SET bar 1\r\nGET foo\r\nGET bar\r\nSET foo 1\r\nINCR bar\r\nDEL foo\r\nGET bar\r\n";
    first.send(pipeline)?;
    first.expect(format!("+OK\r\n{moved}$1\r\n1\r\n{moved}:2\r\n{moved}$1\r\n2\r\n").as_bytes())?;
    let mut round = Vec::new();
    for command in [&["SET", "bar", "1"][..], &["GET", "foo"], &["GET", "bar"], &["SET", "foo", "1"]] {
        let words: Vec<_> = command.iter().map(|word| word.as_bytes()).collect();
        wire::resp::client::command(&mut round, &words);
    }
    let moved_to_first = format!("-MOVED 5061 {}\r\n", cluster.address(0));
    for node in 0..3 {
        let mut client = cluster.connect(node)?;
        client.send(&round.repeat(20))?;
        for at in 0..20 {
            let wanted = match node {
                0 => format!("+OK\r\n{moved}$1\r\n1\r\n{moved}"),
                1 => format!("{moved_to_first}{moved}{moved_to_first}{moved}"),
                _ if at == 0 => format!("{moved_to_first}$-1\r\n{moved_to_first}+OK\r\n"),
                _ => format!("{moved_to_first}$1\r\n1\r\n{moved_to_first}+OK\r\n"),
            };
            client.expect(wanted.as_bytes()).with_context(|| format!("node {node}, round {at}"))?;
        }
    }
    Ok(())
}

#[test]
fn keys_of_several_slots_do_not_go_together() -> anyhow::Result<()> {
    let cluster = Cluster::start(&STORES)?;
    let crossed = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
    for node in 0..3 {
        let mut client = cluster.connect(node)?;
        ask(&mut client, "MGET foo bar", crossed)?;
        ask(&mut client, "SELECT 1", "-ERR SELECT is not allowed in cluster mode\r\n")?;
        ask(&mut client, "CLUSTER KEYSLOT bar", ":5061\r\n")?;
    }
    let mut client = cluster.connect(0)?;
    // {b} is of slot 3300, and bar of 5061: both are the first node's.
    ask(&mut client, "MSET {b}1 a {b}2 b", "+OK\r\n")?;
    ask(&mut client, "MGET {b}1 {b}2", "*2\r\n$1\r\na\r\n$1\r\nb\r\n")?;
    ask(&mut client, "MGET {b}1 bar", crossed)?;
    ask(&mut client, "MULTI", "+OK\r\n")?;
    ask(&mut client, "SET {b}1 c", "+QUEUED\r\n")?;
    ask(&mut client, "SET bar c", "+QUEUED\r\n")?;
    ask(&mut client, "EXEC", crossed)?;
    ask(&mut client, "MULTI", "+OK\r\n")?;
    ask(&mut client, "SET foo c", &format!("-MOVED 12182 {}\r\n", cluster.address(2)))?;
    ask(&mut client, "SET bar c", "+QUEUED\r\n")?;
    ask(&mut client, "EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n")?;
    ask(&mut client, "MULTI", "+OK\r\n")?;
    ask(&mut client, "SET {b}1 d", "+QUEUED\r\n")?;
    ask(&mut client, "EXEC", "*1\r\n+OK\r\n")?;
    ask(&mut client, "EVAL return(redis.call('get',KEYS[1])) 1 {b}1", "$1\r\nd\r\n")?;
    ask(&mut client, "EVAL return(1) 1 foo", &format!("-MOVED 12182 {}\r\n", cluster.address(2)))?;
    ask(
        &mut client,
        "EVAL return(redis.pcall('get','foo').err) 0",
        "$64\r\nERR Script attempted to access a non local key in a cluster node\r\n",
    )?;
    ask(&mut client, "EXISTS bar", ":0\r\n")
}

const REDIS_PY: &str = r#"
import sys
from redis.cluster import RedisCluster
host, port = sys.argv[1].split(":")
r = RedisCluster(host=host, port=int(port), decode_responses=True)
assert len(r.get_nodes()) == 3, r.get_nodes()
pairs = {f"key{n}": f"value{n}" for n in range(300)}
with r.pipeline() as pipe:
    for key, value in pairs.items():
        pipe.set(key, value)
    assert pipe.execute() == [True] * len(pairs)
assert r.mget_nonatomic(*pairs) == list(pairs.values())
assert r.incr("{n}a") == 1 and r.mset({"{n}a": 1, "{n}b": 2}) and r.delete("{n}a", "{n}b") == 2
assert r.eval("return redis.call('get', KEYS[1])", 1, "key7") == "value7"
assert sorted(r.scan_iter(match="key*")) == sorted(pairs)
"#;

#[test]
fn redis_py_spreads_its_keys_over_a_cluster() -> anyhow::Result<()> {
    let Some(python) = python(&["redis"])? else { return Ok(()) };
    let mut cluster = Cluster::start(&STORES)?;
    run_script(&python, REDIS_PY, &[&cluster.address(1)])?;
    let shares = cluster.shares()?;
    assert!(shares.iter().sum::<usize>() == 300 && shares.iter().all(|&share| share > 60), "{shares:?}");

    // A node that is lost takes its keys along, and no others: nobody else hears of it.
    cluster.kill(0);
    let mut third = cluster.connect(2)?;
    ask(&mut third, "DBSIZE", &format!(":{}\r\n", shares[2]))?;
    ask(&mut third, "GET bar", &format!("-MOVED 5061 {}\r\n", cluster.address(0)))?;
    cluster.servers[0] = Some(cluster.start_node(0, "packed")?);
    assert_eq!(cluster.shares()?, [0, shares[1], shares[2]]);
    ask(&mut cluster.connect(0)?, "SET bar 1", "+OK\r\n")
}

#[test]
fn ioredis_and_node_redis_spread_their_keys_over_a_cluster() -> anyhow::Result<()> {
    let Some((mut node, _directory)) = node_program("cluster.mjs")? else { return Ok(()) };
    let cluster = Cluster::start(&STORES)?;
    node.arg(cluster.address(0));
    let finished = run(node)?;
    assert_eq!(finished.stdout.lines().last(), Some("done"), "{}{}", finished.stdout, finished.stderr);
    let shares = cluster.shares()?;
    assert!(shares.iter().sum::<usize>() == 200 && shares.iter().all(|&share| share > 30), "{shares:?}");
    Ok(())
}

#[test]
fn redis_cli_finds_a_cluster_in_order() -> anyhow::Result<()> {
    let Some(cli) = installed_program("redis-cli")? else { return Ok(()) };
    let cluster = Cluster::start(&STORES)?;
    let mut check = Command::new(&cli);
    check.args(["--cluster", "check", &cluster.address(1)]);
    let checked = run(check)?.stdout;
    for line in ["[OK] All nodes agree about slots configuration.", "[OK] All 16384 slots covered."] {
        assert!(checked.contains(line), "{checked}");
    }
    let mut follow = Command::new(&cli);
    follow.args(["-c", "-h", &cluster.hosts[0], "-p", &PORT.to_string(), "SET", "foo", "1"]);
    assert!(run(follow)?.stdout.contains("OK"));
    ask(&mut cluster.connect(2)?, "GET foo", "$1\r\n1\r\n")?;
    let shards = text(&mut cluster.connect(0)?, "CLUSTER INFO")?;
    assert!(shards.contains("cluster_known_nodes:3") && shards.contains("cluster_size:3"), "{shards}");
    let nodes = text(&mut cluster.connect(0)?, "CLUSTER NODES")?;
    let own = text(&mut cluster.connect(0)?, "CLUSTER MYID")?;
    let line = format!("{own} {}@17379 myself,master - 0 0 0 connected 0-5460", cluster.address(0));
    assert!(nodes.lines().count() == 3 && nodes.lines().next() == Some(&*line), "{nodes}");
    Ok(())
}

#[test]
fn a_map_without_this_server_is_refused_at_start() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let map = directory.path().join("map");
    let command = |args: &[&str]| {
        let mut command = Command::new(EXE);
        command.args(["--listen", "127.0.0.1:0", "--cluster-map"]).arg(&map).args(args);
        command
    };
    let shown = map.display();
    fs::write(&map, "cache-0.cache:6379\ncache-1.cache:6379 # the second\n")?;
    let refused = expect_failure(command(&[]), 1);
    let why = "127.0.0.1:0 is none of its nodes; --cluster-announce says which of them this server is";
    assert_eq!(refused.stderr, format!("error: --cluster-map {shown}: {why}\n"));
    let unknown = expect_failure(command(&["--check-config", "--cluster-announce", "cache-2.cache:6379"]), 2);
    assert!(unknown.stderr.contains("cache-2.cache:6379 is none of its nodes"), "{unknown:?}");
    let mut server = Server::start_command(command(&["--cluster-announce", "cache-1.cache:6379"]), 1)?;
    ask(&mut server.connect()?, "GET bar", "-MOVED 5061 cache-0.cache:6379\r\n")?;
    assert!(server.stop()?.success());
    fs::write(&map, "cache-0.cache:6379 0-5\n")?;
    let uncovered = expect_failure(command(&[]), 1);
    assert_eq!(uncovered.stderr, format!("error: --cluster-map {shown}: slot 6 has no node\n"));
    Ok(())
}
