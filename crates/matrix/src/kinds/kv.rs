//! `kvcache`: get and set in four protocols, over keys that are stored before the load begins.

mod originals;
mod specs;

use std::collections::BTreeMap;

use self::specs::{KvSpec, SPECS};
use super::{
    super::{
        model::{Cell, Role, Workload},
        peers::{Peer, caches},
        variants,
    },
    Kind, Spec, Target, Timing, amount_arguments, load_s,
};

const KEY_BYTES: u64 = 16;
/// A quick run stores this part of the keys.
const QUICK_KEYS_DIVISOR: u32 = 5;
/// Under eviction a server may use this part of the bytes of all keys and values, its overhead included.
const LIMIT_DIVISOR: u64 = 4;
/// Under eviction keys are stored by chance, so many times their number.
const FILL_ROUNDS: u64 = 2;
const PRELOAD_CONNECTIONS: u32 = 16;
const PRELOAD_PIPELINE: u32 = 128;
/// What most servers store in a second, for the estimate of a run's time.
const PRELOAD_KEYS_PER_S: f64 = 700_000.0;
const PRELOAD_BYTES_PER_S: f64 = 500e6;

pub(super) struct KvCache;

impl KvSpec {
    fn all() -> impl Iterator<Item = &'static Self> {
        SPECS.iter().chain(&originals::SPECS)
    }

    fn named(name: &str) -> Option<&'static Self> {
        Self::all().find(|spec| spec.spec.name == variants::plain(name))
    }

    fn workload(&self, is_quick: bool) -> Workload {
        let keys = if is_quick { self.keys / QUICK_KEYS_DIVISOR } else { self.keys };
        let bytes = u64::from(keys) * (KEY_BYTES + self.spec.body_bytes);
        let limit = ["--maxmemory".to_owned(), (bytes / LIMIT_DIVISOR).to_string()];
        let listen = ["--memcached-listen", "127.0.0.1:0"].map(str::to_owned);
        let mut adds = Vec::new();
        adds.extend(self.evicts.then_some(limit).into_iter().flatten());
        adds.extend(self.is_memcached().then_some(listen).into_iter().flatten());
        let repetitions = self.is_once.then(|| keys / self.spec.connections);
        Workload { keys: Some(keys), repetitions, allows_misses: self.evicts, adds, ..self.spec.workload() }
    }

    fn is_memcached(&self) -> bool {
        self.protocol.starts_with("memcached")
    }

    /// How the generator is to speak, and what its keys and values are.
    fn data_arguments(&self, workload: &Workload, role: Role) -> Vec<String> {
        let protocol = self.beside.filter(|_| role == Role::Peer).unwrap_or(self.protocol);
        let keys = workload.keys.unwrap_or(self.keys).to_string();
        let bytes = workload.body_bytes.to_string();
        let mut words: Vec<String> =
            ["--protocol", protocol, "--keys", &keys, "--value-size", &bytes].map(str::to_owned).to_vec();
        words.extend(self.is_json.then(|| "--json-values".to_owned()));
        words
    }
}

impl Kind for KvCache {
    fn server(&self) -> &'static str {
        "kvcache"
    }

    fn load_command(&self, _role: Role) -> &'static str {
        "kv"
    }

    fn workloads(&self, is_quick: bool) -> Vec<Workload> {
        KvSpec::all().map(|spec| spec.workload(is_quick)).collect()
    }

    fn is_quick(&self, workload: &str) -> bool {
        KvSpec::named(workload).is_some_and(|spec| spec.spec.is_quick)
    }

    fn is_usual(&self, workload: &str) -> bool {
        KvSpec::named(workload).is_some_and(|spec| spec.is_usual)
    }

    fn calibration(&self) -> &'static str {
        specs::CALIBRATION
    }

    fn note(&self) -> Option<&'static str> {
        Some("50 connections, 16-byte keys, 12-byte values unless said; every key is stored anew before each visit.")
    }

    fn quick_note(&self) -> &'static str {
        "200,000 keys are stored instead of 1,000,000"
    }

    fn quick_retry_budget_s(&self) -> f64 {
        120.0
    }

    fn peers(&self) -> &'static [&'static dyn Peer] {
        &caches::PEERS
    }

    fn varies(&self, workload: &str, dimension: &str) -> bool {
        KvSpec::named(workload).is_some_and(|spec| spec.varies.contains(&dimension))
    }

    fn pipelines(&self, workload: &str) -> bool {
        KvSpec::named(workload).is_some_and(|spec| !spec.asks.contains(&"connection-per-request"))
    }

    fn answers(&self, role: Role, server: &str, workload: &Workload) -> bool {
        let Some(spec) = KvSpec::named(&workload.name) else { return false };
        match role {
            Role::Ours | Role::Control => true,
            // It has one value for all keys.
            Role::Null => spec.protocol == "resp" && !spec.is_json && !spec.evicts,
            Role::Peer if server == caches::MEMCACHED => spec.is_memcached(),
            Role::Peer => spec.beside.unwrap_or(spec.protocol) == "resp",
        }
    }

    fn why_not(&self, cell: &Cell, workload: &Workload, _is_quick: bool) -> Option<String> {
        let eviction = cell.factors.get("eviction")?;
        (workload.allows_misses && !eviction.starts_with("allkeys-"))
            .then(|| "refuses to store once full: no key has an expiry".to_owned())
    }

    fn content_arguments(
        &self,
        _factors: &BTreeMap<String, String>,
        _workload: Option<&Workload>,
        _site: &str,
    ) -> Vec<String> {
        Vec::new()
    }

    fn null_arguments(&self, bytes: &str, _site: &str) -> Vec<String> {
        ["null", "--protocol", "resp", "--listen", "127.0.0.1:0", "--value-size", bytes].map(str::to_owned).to_vec()
    }

    fn amount_arguments(&self, workload: &Workload, timing: &Timing) -> Vec<String> {
        let Some(each) = workload.repetitions else { return amount_arguments(workload, timing) };
        let (threads, connections) = (timing.client_threads.to_string(), workload.connections.to_string());
        let requests = (workload.connections * each).to_string();
        ["-t", &threads, "-c", &connections, "-n", &requests].map(str::to_owned).to_vec()
    }

    fn load_s(&self, workload: &Workload, slice_s: f64, warmup_s: f64) -> f64 {
        match workload.repetitions {
            Some(each) => f64::from(each) * f64::from(workload.connections) / PRELOAD_KEYS_PER_S,
            None => load_s(workload, slice_s, warmup_s),
        }
    }

    /// memcached's front end is printed behind the other.
    fn listener(&self, workload: &Workload) -> usize {
        usize::from(KvSpec::named(&workload.name).is_some_and(KvSpec::is_memcached))
    }

    fn load_arguments(&self, target: &Target<'_>) -> Vec<String> {
        let Target { workload, role, address, .. } = *target;
        let Some(spec) = KvSpec::named(&workload.name) else { return Vec::new() };
        let mut words = spec.data_arguments(workload, role);
        words.extend(spec.asks.iter().map(|&word| word.to_owned()));
        words.extend(workload.allows_misses.then(|| "--allow-misses".to_owned()));
        words.extend((role == Role::Null).then(|| "--constant-values".to_owned()));
        words.push(address.to_owned());
        words
    }

    fn preload_arguments(&self, target: &Target<'_>, timing: &Timing) -> Vec<String> {
        let Target { workload, role, address, .. } = *target;
        let Some(spec) = KvSpec::named(&workload.name) else { return Vec::new() };
        let mut words = vec![self.load_command(role).to_owned()];
        let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
        if spec.evicts {
            // What is kept is then what the policy keeps of this distribution, not what happened to come last.
            flag("--workload", "set".to_owned());
            flag("--key-dist", specs::ZIPF.to_owned());
            flag("-n", (u64::from(workload.keys.unwrap_or(spec.keys)) * FILL_ROUNDS).to_string());
        } else {
            flag("--workload", "preload".to_owned());
        }
        flag("-c", PRELOAD_CONNECTIONS.to_string());
        flag("-t", timing.client_threads.to_string());
        flag("-P", PRELOAD_PIPELINE.to_string());
        flag("--pin", timing.client_cpus.clone());
        flag("--format", "json".to_owned());
        words.extend(spec.data_arguments(workload, role));
        words.push(address.to_owned());
        words
    }

    fn preload_s(&self, workload: &Workload) -> f64 {
        let rounds = if workload.allows_misses { FILL_ROUNDS as f64 } else { 1.0 };
        let keys = f64::from(workload.keys.unwrap_or(0)) * rounds;
        keys / PRELOAD_KEYS_PER_S + keys * workload.body_bytes as f64 / PRELOAD_BYTES_PER_S
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Timing, arguments, select},
        *,
    };

    fn timing() -> Timing {
        Timing { slice_s: 0.5, warmup_s: 0.3, max_warmup_s: None, client_cpus: "1".into(), client_threads: 1 }
    }

    fn workload(name: &str, is_quick: bool) -> Workload {
        select(&KvCache, &[name.to_owned()], &timing(), is_quick).remove(0)
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
                "loadgen kv -t 1 -c 50 -d 500ms --warmup 300ms {common} --protocol us --keys 200000 --value-size 12 --workload workflow ADDR"
            )
        );
        let workload = workload("get-P1", false);
        let target = Target { workload: &workload, role: Role::Null, address: "ADDR", site: "SITE" };
        let null = arguments(&KvCache, &target, &timing(), "PID").join(" ");
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
    fn under_eviction_there_is_room_for_a_quarter_of_the_data_and_misses_are_no_errors() {
        let full = workload("zipf-evict-P16", false);
        let bytes = u64::from(full.keys.unwrap()) * (16 + full.body_bytes);
        assert_eq!(full.adds, ["--maxmemory".to_owned(), (bytes / 4).to_string()]);
        assert!(full.allows_misses && full.command.contains("--allow-misses"));
        assert!(!workload("get-P100", false).command.contains("--allow-misses"));
    }

    #[test]
    fn the_originals_test_is_asked_of_redis_in_its_own_protocol_and_deletes_each_key_once() {
        for spec in &originals::SPECS {
            let workload = workload(spec.spec.name, false);
            let of = |role| {
                let target = Target { workload: &workload, role, address: "ADDR", site: "SITE" };
                let words = [KvCache.preload_arguments(&target, &timing()), KvCache.load_arguments(&target)];
                words.map(|words| words.join(" "))
            };
            assert!(of(Role::Ours).iter().all(|words| words.contains("--protocol us ")), "{}", workload.name);
            assert!(of(Role::Peer).iter().all(|words| words.contains("--protocol resp ")), "{}", workload.name);
            assert!(KvCache.answers(Role::Peer, "redis", &workload) && !KvCache.is_usual(&workload.name));
            assert!(!KvCache.answers(Role::Peer, "memcached", &workload));
            assert!(!KvCache.answers(Role::Null, "loadgen", &workload), "it does not speak 0x1F");
        }
        let deletes = workload("original-del-P100", false);
        let requests = deletes.repetitions.unwrap() * deletes.connections;
        assert!(requests <= deletes.keys.unwrap() && requests > 990_000, "no key twice: {requests}");
        let begin = format!("loadgen kv -t 1 -c 96 -n {requests} -P 100 --pin 1 ");
        assert!(deletes.command.starts_with(&begin), "{}", deletes.command);
        assert!(deletes.command.contains("--workload del") && !deletes.command.contains("--allow-misses"));
        assert!(KvCache.load_s(&deletes, 1.5, 0.5) < 3.0);
    }

    #[test]
    fn everyone_is_asked_only_what_they_understand() {
        let answers = |role, server, name| KvCache.answers(role, server, &workload(name, false));
        assert!(answers(Role::Peer, "redis", "set-P100") && !answers(Role::Peer, "redis", "mc-text-get-P100"));
        assert!(answers(Role::Peer, "memcached", "mc-text-get-P100") && !answers(Role::Peer, "memcached", "get-P1"));
        assert!(!answers(Role::Peer, "redis", "workflow-P100") && answers(Role::Ours, "kvcache", "workflow-P100"));
        assert!(answers(Role::Null, "loadgen", "set-1KiB-P100"));
        for name in ["zipf-evict-P16", "json-get-P16", "workflow-P100", "mc-meta-get-P100"] {
            assert!(!answers(Role::Null, "loadgen", name), "{name}");
        }
        assert_eq!(KvCache.listener(&workload("mc-meta-get-P100", false)), 1);
        assert_eq!(KvCache.listener(&workload("get-P100", false)), 0);
    }

    #[test]
    fn policies_that_only_refuse_are_not_measured_under_eviction() {
        let mut cell = super::super::super::samples::cell("kvcache/epoll", Role::Ours, Some("epoll"));
        let evict = workload("zipf-evict-P16", false);
        assert_eq!(KvCache.why_not(&cell, &evict, false), None);
        cell.factors.insert("eviction".to_owned(), "volatile-ttl".to_owned());
        assert!(KvCache.why_not(&cell, &evict, false).unwrap().contains("refuses"));
        assert_eq!(KvCache.why_not(&cell, &workload("get-P1", false), false), None);
        cell.factors.insert("eviction".to_owned(), "allkeys-lru".to_owned());
        assert_eq!(KvCache.why_not(&cell, &evict, false), None);
    }
}
