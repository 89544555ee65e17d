use super::{
    super::{Subject, Timing, arguments, named, select},
    *,
};
use crate::samples;

fn files() -> &'static Subject {
    named("fileserver").unwrap()
}

fn timing() -> Timing {
    Timing { slice_s: 0.5, warmup_s: 0.3, max_warmup_s: None, client_cpus: "1".into(), client_threads: 1 }
}

fn workload(name: &str) -> Workload {
    select(files(), &[name.to_owned()], &timing(), false).remove(0)
}

fn target(workload: &Workload, role: Role) -> Target<'_> {
    Target { workload, role, address: "ADDR", site: "SITE" }
}

#[test]
fn the_generator_is_asked_for_exactly_the_workload() {
    let common = "--pin 1 --format json --server-pid PID --timeline";
    let workload = workload("original-mixed-zipf");
    assert_eq!(
        workload.command,
        format!(
            "loadgen file -t 1 -c 8 -d 500ms --warmup 300ms {common} --protocol original --verify length \
             --id-dist zipf:0.99 ADDR SITE/documents/mixed/zotero"
        )
    );
    let null = arguments(files(), &target(&workload, Role::Null), &timing(), "PID").join(" ");
    assert!(null.ends_with("--verify length ADDR SITE/documents/mixed/null"), "{null}");
}

#[test]
fn the_original_client_counts_repetitions_not_time() {
    let command = workload("original-10x30").command;
    assert!(command.starts_with("loadgen file -t 1 --requestors 10 --reps 30 --pin 1 "), "{command}");
}

#[test]
fn every_document_is_hashed_before_the_load() {
    for spec in &files().descriptor.workloads {
        let workload = workload(&spec.name);
        let preload = workload.preload.clone().unwrap();
        let count = documents(files().descriptor, spec).unwrap().count();
        assert!(preload.starts_with(&format!("loadgen file -n {count} -c 4 -t 1 ")), "{preload}");
        assert!(preload.contains("--verify sha256 --id-dist sequential"), "{preload}");
        assert!(!preload.contains(MISS), "{preload}");
        let peer = files().preload_arguments(&target(&workload, Role::Peer), &timing()).join(" ");
        assert!(peer.starts_with("http ") && peer.contains("--verify sha256 --content-dir SITE "), "{peer}");
        assert_eq!(peer.matches("http://ADDR/documents/").count(), count as usize);
    }
}

#[test]
fn a_peer_gets_a_connection_per_request_exactly_where_ours_does() {
    for spec in &files().descriptor.workloads {
        let workload = workload(&spec.name);
        let peer = arguments(files(), &target(&workload, Role::Peer), &timing(), "PID");
        assert_eq!(peer[0], "http");
        let has_option = peer.iter().any(|word| word == "--no-keep-alive");
        assert_eq!(has_option, workload.adds.contains(&ORIGINAL.to_owned()), "{}", workload.name);
    }
}

#[test]
fn nobody_is_asked_what_they_cannot_answer() {
    let answers = |role, name| files().answers(role, "", &workload(name));
    for (name, null, peer) in [
        ("original-mixed", true, true),
        ("original-mixed-zipf", true, false),
        ("framed-10KB-P16", true, true),
        ("framed-miss-P16", false, false),
        ("original-10x30", true, false),
    ] {
        assert_eq!((answers(Role::Null, name), answers(Role::Peer, name)), (null, peer), "{name}");
        assert!(answers(Role::Ours, name));
    }
}

#[test]
fn servers_get_the_workloads_protocol_and_their_content() {
    let framed = workload("framed-1MB");
    assert_eq!(framed.adds, ["--protocol", "framed"]);
    assert_eq!(framed.body_bytes, 1_000_000);
    let adds = workload("original-mixed-zipf").adds;
    assert_eq!(adds, ["--protocol", "original", "--cache-entries", "10"]);
    let content = |backend: &str, layout: &str, workload| {
        let factors = [("backend", backend), ("layout", layout)].map(|(name, value)| (name.into(), value.into()));
        files().content_arguments(&factors.into(), workload, "SITE").join(" ")
    };
    assert_eq!(content("fs", "flat", Some(&framed)), "SITE/documents/1MB/flat");
    assert_eq!(content("sqlite", "zotero", Some(&framed)), "SITE/documents/1MB/documents.db");
    assert_eq!(content("fs", "zotero", None), "SITE/documents/…/zotero");
}

#[test]
fn only_what_is_served_is_written() {
    let site = tempfile::tempdir().unwrap();
    let mut cell = samples::cell("fileserver/epoll", Role::Ours, Some("epoll"));
    cell.factors.insert("layout".to_owned(), "tree".to_owned());
    let no_executable = Path::new("/nonexistent");
    files().prepare(&[cell.clone()], &[workload("original-10KB")], site.path(), no_executable).unwrap();
    let has = |path: &str| site.path().join("documents").join(path).exists();
    assert!(has("10KB/zotero") && has("10KB/tree") && has("10KB/null"));
    assert!(!has("10KB/flat") && !has("mixed"));
    cell.factors.insert("backend".to_owned(), SQLITE.to_owned());
    assert!(files().prepare(&[cell], &[workload("original-10KB")], site.path(), no_executable).is_err());
}
