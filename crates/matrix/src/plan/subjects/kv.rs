//! Load kind `kv`: get and set in several protocols, over keys that are stored before the load begins.

use results::{Cell, Role, Workload};
use servers::{Server, Workload as Spec};

use super::{Load, Target, Timing, amount_arguments, base, load_s, tls_arguments, words};
use crate::plan::peers::caches;

const KEY_BYTES: u64 = 16;
/// Divisor of the number of keys in a quick run.
const QUICK_KEYS_DIVISOR: u32 = 10;
/// Divisor of the bytes of all keys and values, for the limit under eviction, overhead included.
const LIMIT_DIVISOR: u64 = 4;
/// Keys stored under eviction, in numbers of keys: they are chosen by chance.
const FILL_ROUNDS: u64 = 2;
const PRELOAD_CONNECTIONS: u32 = 16;
const PRELOAD_PIPELINE: u32 = 128;
/// The distribution by which keys are stored where not all can be kept.
const ZIPF: &str = "zipf:0.99";
/// Rates at which most servers store, for the estimate of a run's time.
const PRELOAD_KEYS_PER_S: f64 = 700_000.0;
const PRELOAD_BYTES_PER_S: f64 = 500e6;

pub(super) struct Kv;

fn keys(spec: &Spec) -> u32 {
    spec.keys.unwrap_or(0)
}

fn protocol(spec: &Spec) -> &str {
    spec.protocol.as_deref().unwrap_or_default()
}

fn is_memcached(spec: &Spec) -> bool {
    protocol(spec).starts_with("memcached")
}

/// Returns how the generator is to speak, and what its keys and values are.
fn data_arguments(spec: &Spec, workload: &Workload, role: Role) -> Vec<String> {
    let protocol = spec.peer_protocol.as_deref().filter(|_| role == Role::Peer).unwrap_or_else(|| protocol(spec));
    let keys = workload.keys.unwrap_or_else(|| keys(spec)).to_string();
    let bytes = workload.body_bytes.to_string();
    let mut words = words(["--protocol", protocol, "--keys", &keys, "--value-size", &bytes]);
    words.extend(spec.json_values.then(|| "--json-values".to_owned()));
    words.extend(spec.tls.then(|| "--tls".to_owned()));
    words.extend(tls_arguments(spec));
    words
}

impl Load for Kv {
    fn command(&self, _role: Role) -> &'static str {
        "kv"
    }

    fn workload(&self, _server: &Server, spec: &Spec, is_quick: bool) -> Workload {
        let keys = if is_quick { keys(spec) / QUICK_KEYS_DIVISOR } else { keys(spec) };
        let bytes = u64::from(keys) * (KEY_BYTES + spec.body_bytes);
        let limit = ["--maxmemory".to_owned(), (bytes / LIMIT_DIVISOR).to_string()];
        let listen = ["--memcached-listen", "127.0.0.1:0"].map(str::to_owned);
        let Workload { mut adds, .. } = base(spec);
        adds.extend(spec.evicts.then_some(limit).into_iter().flatten());
        adds.extend(is_memcached(spec).then_some(listen).into_iter().flatten());
        let repetitions = spec.each_key_once.then(|| keys / spec.connections);
        Workload { keys: Some(keys), repetitions, allows_misses: spec.evicts, adds, ..base(spec) }
    }

    fn answers(&self, role: Role, server: &str, spec: &Spec) -> bool {
        match role {
            Role::Ours | Role::Control => true,
            // It has one value for all keys.
            Role::Null => {
                let has_script = spec.load_arguments.iter().any(|word| word == "script");
                protocol(spec) == "resp" && !(spec.json_values || spec.evicts || spec.tls || has_script)
            }
            Role::Peer if server == caches::MEMCACHED => is_memcached(spec),
            Role::Peer => spec.peer_protocol.as_deref().unwrap_or_else(|| protocol(spec)) == "resp",
        }
    }

    fn why_not(&self, cell: &Cell, workload: &Workload) -> Option<String> {
        let eviction = cell.factors.get("eviction")?;
        (workload.allows_misses && !eviction.starts_with("allkeys-"))
            .then(|| "refuses to store once full: no key has an expiry".to_owned())
    }

    fn null_arguments(&self, bytes: &str, _site: &str) -> Vec<String> {
        words(["null", "--protocol", "resp", "--listen", "127.0.0.1:0", "--value-size", bytes])
    }

    fn amount_arguments(&self, workload: &Workload, timing: &Timing) -> Vec<String> {
        let Some(each) = workload.repetitions else { return amount_arguments(workload, timing) };
        let (threads, connections) = (timing.client_threads.to_string(), workload.connections.to_string());
        let requests = (workload.connections * each).to_string();
        words(["-t", &threads, "-c", &connections, "-n", &requests])
    }

    fn load_s(&self, _spec: Option<&Spec>, workload: &Workload, slice_s: f64, warmup_s: f64) -> f64 {
        match workload.repetitions {
            Some(each) => f64::from(each) * f64::from(workload.connections) / PRELOAD_KEYS_PER_S,
            None => load_s(workload, slice_s, warmup_s),
        }
    }

    /// memcached's front end is printed behind the other, and so is that of TLS.
    fn listener(&self, spec: &Spec) -> usize {
        usize::from(is_memcached(spec) || spec.tls)
    }

    fn load_arguments(&self, _server: &Server, spec: &Spec, target: &Target<'_>) -> Vec<String> {
        let Target { workload, role, address, .. } = *target;
        let mut words = data_arguments(spec, workload, role);
        words.extend_from_slice(&spec.load_arguments);
        words.extend(workload.allows_misses.then(|| "--allow-misses".to_owned()));
        words.extend((role == Role::Null).then(|| "--constant-values".to_owned()));
        words.push(address.to_owned());
        words
    }

    fn preload_arguments(&self, _server: &Server, spec: &Spec, target: &Target<'_>, timing: &Timing) -> Vec<String> {
        let Target { workload, role, address, .. } = *target;
        let mut words = vec![self.command(role).to_owned()];
        let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
        if spec.evicts {
            // What is kept is then what the policy keeps of this distribution, not what happened to come last.
            flag("--workload", "set".to_owned());
            flag("--key-dist", ZIPF.to_owned());
            flag("-n", (u64::from(workload.keys.unwrap_or_else(|| keys(spec))) * FILL_ROUNDS).to_string());
        } else {
            flag("--workload", "preload".to_owned());
        }
        flag("-c", PRELOAD_CONNECTIONS.to_string());
        flag("-t", timing.client_threads.to_string());
        flag("-P", PRELOAD_PIPELINE.to_string());
        flag("--pin", timing.client_cpus.clone());
        flag("--format", "json".to_owned());
        words.extend(data_arguments(spec, workload, role));
        words.push(address.to_owned());
        words
    }

    fn preload_s(&self, _server: &Server, _spec: &Spec, workload: &Workload) -> f64 {
        let rounds = if workload.allows_misses { FILL_ROUNDS as f64 } else { 1.0 };
        let keys = f64::from(workload.keys.unwrap_or(0)) * rounds;
        keys / PRELOAD_KEYS_PER_S + keys * workload.body_bytes as f64 / PRELOAD_BYTES_PER_S
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Subject, Timing, arguments, named, select},
        *,
    };

    fn kv() -> &'static Subject {
        named("kvcache").unwrap()
    }

    fn timing() -> Timing {
        Timing { slice_s: 0.5, warmup_s: 0.3, max_warmup_s: None, client_cpus: "1".into(), client_threads: 1 }
    }

    fn workload(name: &str, is_quick: bool) -> Workload {
        select(kv(), &[name.to_owned()], &timing(), is_quick).remove(0)
    }

    #[test]
    fn the_generator_is_asked_for_exactly_the_workload() {
        let common = "-P 100 --pin 1 --format json --server-pid PID --timeline";
        assert_eq!(
            workload("get-P100", false).command,
            format!(
                "loadgen kv -t 1 -c 50 -d 500ms --warmup 300ms {common} --protocol resp --keys 1000000 --value-size 12 ADDR"
            )
        );
        assert_eq!(
            workload("workflow-P100", true).command,
            format!(
                "loadgen kv -t 1 -c 50 -d 500ms --warmup 300ms {common} --protocol us --keys 100000 --value-size 12 --workload workflow ADDR"
            )
        );
        let workload = workload("get-P1", false);
        let target = Target { workload: &workload, role: Role::Null, address: "ADDR", site: "SITE" };
        let null = arguments(kv(), &target, &timing(), "PID").join(" ");
        assert!(null.ends_with("--value-size 12 --constant-values ADDR"), "{null}");
    }

    #[test]
    fn all_keys_are_stored_first_in_the_protocol_of_the_load() {
        let preload = |name| workload(name, false).preload.unwrap();
        assert_eq!(
            preload("mc-meta-get-P100"),
            "loadgen kv --workload preload -c 16 -t 1 -P 128 --pin 1 --format json --protocol memcached-meta \
             --keys 1000000 --value-size 12 ADDR"
        );
        assert!(preload("json-get-P16").contains("--json-values"));
        let evict = preload("zipf-evict-P16");
        assert!(evict.starts_with("loadgen kv --workload set --key-dist zipf:0.99 -n 2000000 -c 16"), "{evict}");
    }

    #[test]
    fn eviction_leaves_room_for_a_quarter_and_allows_misses() {
        let full = workload("zipf-evict-P16", false);
        let bytes = u64::from(full.keys.unwrap()) * (16 + full.body_bytes);
        assert_eq!(full.adds, ["--maxmemory".to_owned(), (bytes / 4).to_string()]);
        assert!(full.allows_misses && full.command.contains("--allow-misses"));
        assert!(!workload("get-P100", false).command.contains("--allow-misses"));
    }

    #[test]
    fn redis_gets_the_originals_test_in_its_own_protocol() {
        for name in kv().workloads(false).into_iter().map(|it| it.name).filter(|name| name.starts_with("original-")) {
            let workload = workload(&name, false);
            let of = |role| {
                let target = Target { workload: &workload, role, address: "ADDR", site: "SITE" };
                let words = [kv().preload_arguments(&target, &timing()), kv().load_arguments(&target)];
                words.map(|words| words.join(" "))
            };
            assert!(of(Role::Ours).iter().all(|words| words.contains("--protocol us ")), "{}", workload.name);
            assert!(of(Role::Peer).iter().all(|words| words.contains("--protocol resp ")), "{}", workload.name);
            assert!(kv().answers(Role::Peer, "redis", &workload) && !kv().is_usual(&workload.name));
            assert!(!kv().answers(Role::Peer, "memcached", &workload));
            assert!(!kv().answers(Role::Null, "loadgen", &workload), "it does not speak 0x1F");
        }
        let deletes = workload("original-del-P100", false);
        let requests = deletes.repetitions.unwrap() * deletes.connections;
        assert!(requests <= deletes.keys.unwrap() && requests > 990_000, "no key twice: {requests}");
        let begin = format!("loadgen kv -t 1 -c 96 -n {requests} -P 100 --pin 1 ");
        assert!(deletes.command.starts_with(&begin), "{}", deletes.command);
        assert!(deletes.command.contains("--workload del") && !deletes.command.contains("--allow-misses"));
        assert!(kv().load_s(&deletes, 1.5, 0.5) < 3.0);
    }

    #[test]
    fn everyone_is_asked_only_what_they_understand() {
        let answers = |role, server, name| kv().answers(role, server, &workload(name, false));
        assert!(answers(Role::Peer, "redis", "set-P100") && !answers(Role::Peer, "redis", "mc-text-get-P100"));
        assert!(answers(Role::Peer, "memcached", "mc-text-get-P100") && !answers(Role::Peer, "memcached", "get-P1"));
        assert!(!answers(Role::Peer, "redis", "workflow-P100") && answers(Role::Ours, "kvcache", "workflow-P100"));
        assert!(answers(Role::Null, "loadgen", "set-1KiB-P100"));
        for name in ["zipf-evict-P16", "json-get-P16", "workflow-P100", "mc-meta-get-P100"] {
            assert!(!answers(Role::Null, "loadgen", name), "{name}");
        }
        assert_eq!(kv().listener(&workload("mc-meta-get-P100", false)), 1);
        assert_eq!(kv().listener(&workload("get-P100", false)), 0);
    }

    #[test]
    fn policies_that_only_refuse_are_not_measured_under_eviction() {
        let mut cell = crate::samples::cell("kvcache/epoll", Role::Ours, Some("epoll"));
        let evict = workload("zipf-evict-P16", false);
        assert_eq!(kv().why_not(&cell, &evict, false), None);
        cell.factors.insert("eviction".to_owned(), "volatile-ttl".to_owned());
        assert!(kv().why_not(&cell, &evict, false).unwrap().contains("refuses"));
        assert_eq!(kv().why_not(&cell, &workload("get-P1", false), false), None);
        cell.factors.insert("eviction".to_owned(), "allkeys-lru".to_owned());
        assert_eq!(kv().why_not(&cell, &evict, false), None);
    }
}
