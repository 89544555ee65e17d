use super::*;
use crate::plan::{
    backends,
    presets::{Preset, quotes},
    subjects::{SUBJECTS, Timing, select as workloads_of},
};

fn cells(subject: usize, backends: Backends) -> Cells {
    let subject = &SUBJECTS[subject];
    let executable = Path::new("target").join(subject.server());
    Cells { subject, executable, backends, cpus: CpuList::parse("0").unwrap(), growth: None }
}

fn web() -> Cells {
    cells(0, backends::tests::sample())
}

fn cache() -> Cells {
    cells(1, backends::tests::cache())
}

fn files() -> Cells {
    cells(2, backends::tests::files())
}

fn workloads(subject: &Subject) -> Vec<Workload> {
    let timing = Timing { slice_s: 1.0, warmup_s: 1.0, max_warmup_s: None, client_cpus: "1".into(), client_threads: 1 };
    let names: Vec<String> = subject.workloads(false).into_iter().map(|workload| workload.name).collect();
    workloads_of(subject, &names, &timing, false)
}

fn select_in(cells: &Cells, filter: &str, reference: Option<&str>) -> Result<Option<Selection>> {
    let workloads = workloads(cells.subject);
    let vocabulary = cells.vocabulary(&[], &["closed".to_owned()]);
    let filter = if filter.is_empty() { Filter::default() } else { Filter::parse(filter, &vocabulary)? };
    cells.select(&filter, &[], &workloads, reference)
}

fn select(filter: &str, reference: Option<&str>) -> Result<Selection> {
    Ok(select_in(&web(), filter, reference)?.unwrap())
}

fn ids(selection: &Selection) -> Vec<&str> {
    selection.cells.iter().map(|cell| cell.id.as_str()).collect()
}

#[test]
fn all_back_ends_are_selected_or_have_a_reason() {
    let selection = select("", None).unwrap();
    let ours = ["http-server/blocking", "http-server/pool", "http-server/epoll", "http-server/uring"];
    assert_eq!(ids(&selection), [&ours[..], &["null", "control-aa"]].concat());
    assert_eq!(selection.reference, "http-server/epoll");
    assert_eq!(selection.unavailable, [("http-server/uring".to_owned(), "io_uring is disabled".to_owned())]);
    let (null, others): (Vec<_>, Vec<_>) = selection.cells.iter().partition(|cell| cell.role == Role::Null);
    assert!(others.iter().all(|cell| cell.only_under.is_none()));
    let under = null[0].only_under.as_ref().unwrap();
    let speaks = |name: &str| under.iter().any(|known| known == name);
    assert!(speaks("site-c64") && !speaks("tls-site-c64") && !speaks("h2c-site-c64"), "{under:?}");
}

#[test]
fn the_reference_is_the_named_the_default_or_the_first() {
    assert_eq!(select("driver=blocking|pool", None).unwrap().reference, "http-server/blocking");
    let named = select("driver=blocking", Some("pool")).unwrap();
    assert_eq!(ids(&named), ["http-server/blocking", "http-server/pool", "null", "control-aa"]);
    assert_eq!(named.cells[3].factors, named.cells[1].factors, "the control is the reference once more");
    assert!(select("", Some("uring")).is_err(), "it cannot run here");
}

#[test]
fn each_dimension_varies_alone_where_it_matters() {
    let selection = select_in(&cache(), "", None).unwrap().unwrap();
    let ours =
        ["kvcache/epoll", "kvcache/epoll/zstd", "kvcache/epoll/allkeys-lru", "kvcache/epoll/std", "kvcache/uring"];
    let ours_and = [&ours[..], &["null", "control-aa"]].concat();
    let mut found = ids(&selection);
    found[..5].sort_unstable();
    let mut expected = ours_and.clone();
    expected[..5].sort_unstable();
    assert_eq!(found, expected);
    let under = |id: &str| selection.cells.iter().find(|cell| cell.id == id).unwrap().only_under.clone();
    assert_eq!(under("kvcache/epoll"), None);
    assert_eq!(under("control-aa"), None);
    assert_eq!(under("kvcache/epoll/zstd").unwrap(), ["json-get-P16"]);
    assert_eq!(under("kvcache/epoll/allkeys-lru").unwrap(), ["zipf-evict-P16"]);
    assert!(under("kvcache/uring").unwrap().contains(&"get-P1".to_owned()));
    assert!(!under("null").unwrap().contains(&"mc-meta-get-P100".to_owned()));
}

#[test]
fn a_choice_that_forces_another_still_varies_alone() {
    let selection = select_in(&files(), "", None).unwrap().unwrap();
    let mut ours = ids(&selection);
    ours.truncate(ours.len() - 2);
    ours.sort_unstable();
    let expected = [
        "fileserver/epoll",
        "fileserver/epoll/cache-map=none/eviction=none",
        "fileserver/epoll/cache-map=none/mutex",
        "fileserver/epoll/cache-map=std",
        "fileserver/epoll/eviction=none",
        "fileserver/epoll/flat",
        "fileserver/epoll/mutex",
        "fileserver/epoll/request-map=std",
        "fileserver/epoll/sqlite",
        "fileserver/pool",
        "fileserver/uring",
    ];
    assert_eq!(ours, expected);
    assert!(selection.unavailable.is_empty());
    let under = |id: &str| selection.cells.iter().find(|cell| cell.id == id).unwrap().only_under.clone().unwrap();
    assert!(under("fileserver/epoll/sqlite").contains(&"framed-2MB".to_owned()));
    assert!(!under("fileserver/epoll/sqlite").contains(&"original-mixed".to_owned()));
    assert!(under("fileserver/epoll/cache-map=none/eviction=none").contains(&"original-mixed".to_owned()));
    assert!(!under("null").contains(&"framed-miss-P16".to_owned()));
}

/// Each figure that a preset quotes stands beside one of ours.
#[test]
fn what_a_preset_quotes_is_a_row_of_it_that_can_run() {
    // With the choices that the fixture leaves out for brevity.
    let mut backends = backends::tests::files();
    let maps = backends.dimensions.iter_mut().find(|dimension| dimension.name == "cache-map").unwrap();
    maps.choices.push(backends::Choice { name: "sparse".to_owned(), ..maps.choices[0].clone() });
    let part = Preset::named("seeds").unwrap().part("fileserver").unwrap();
    let selection = select_in(&cells(2, backends), &part.filter, None).unwrap().unwrap();
    assert!(selection.unavailable.is_empty(), "{:?}", selection.unavailable);
    let ids = ids(&selection);
    let rows = quotes(part).unwrap().rows;
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert!(ids.contains(&row.cell.as_str()), "{} is not in {ids:?}", row.cell);
    }
}

#[test]
fn an_impossible_combination_asked_for_is_a_row_with_a_reason() {
    let rows = |filter: &str| {
        let selection = select_in(&files(), filter, None).unwrap().unwrap();
        let rows: Vec<String> = ids(&selection).into_iter().map(str::to_owned).collect();
        (rows, selection.unavailable)
    };
    let none = "fileserver/epoll/cache-map=none/eviction=none".to_owned();
    let impossible = "fileserver/epoll/cache-map=none".to_owned();
    let (found, unavailable) = rows("cache-map=none");
    assert!(found.contains(&none) && unavailable.is_empty(), "{found:?}");
    let (found, unavailable) = rows("cache-map=none,eviction=none|lockfree");
    assert!(found.contains(&none) && found.contains(&impossible));
    assert_eq!(unavailable, [(impossible, "does not go together".to_owned())]);
}

#[test]
fn filter_terms_select_side_by_side_under_own_workloads() {
    let filter = "driver=epoll,eviction=mutex,workload=original-mixed;driver=uring";
    let cells = files();
    let workloads = workloads(cells.subject);
    let names: Vec<String> = workloads.iter().map(|workload| workload.name.clone()).collect();
    let filter = Filter::parse(filter, &cells.vocabulary(&[], &names)).unwrap();
    let selection = cells.select(&filter, &[], &workloads, Some("uring")).unwrap().unwrap();
    assert_eq!(ids(&selection), ["fileserver/epoll/mutex", "fileserver/uring", "null", "control-aa"]);
    assert_eq!(selection.cells[0].only_under.as_deref(), Some(&["original-mixed".to_owned()][..]));
}

#[test]
fn a_file_server_gets_the_workloads_protocol_and_content() {
    let cells = files();
    let workloads = workloads(cells.subject);
    let command = |filter: &str, name: &str| {
        let selection = select_in(&cells, filter, None).unwrap().unwrap();
        let workload = workloads.iter().find(|workload| workload.name == name).unwrap();
        let words = cells.command(&selection.cells[0], workload, Path::new("/site"), Path::new("loadgen")).unwrap();
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    };
    let common = "--request-map slab --cache-map hashbrown --eviction lockfree";
    assert_eq!(
        command("backend=sqlite", "framed-2MB"),
        format!(
            "target/fileserver --listen 127.0.0.1:0 --driver epoll {common} --backend sqlite --layout zotero \
             --threads 1 --pin 0 --protocol framed /site/documents/2MB/documents.db"
        )
    );
    let pool = command("driver=pool", "original-mixed");
    assert!(
        pool.ends_with("--threads 1 --pin 0 --workers 8 --protocol original /site/documents/mixed/zotero"),
        "{pool}"
    );
}

#[test]
fn a_row_that_no_workload_is_left_for_is_left_out() {
    let cells = cache();
    let workloads: Vec<Workload> =
        workloads(cells.subject).into_iter().filter(|workload| workload.name == "get-P1").collect();
    let selection = cells.select(&Filter::default(), &[], &workloads, None).unwrap().unwrap();
    assert_eq!(ids(&selection), ["kvcache/epoll", "kvcache/uring", "null", "control-aa"]);
}

#[test]
fn dimensions_in_the_filter_are_crossed_under_all_workloads() {
    let selection = select_in(&cache(), "driver=*,store=*", None).unwrap().unwrap();
    let ours = ["kvcache/epoll", "kvcache/epoll/std", "kvcache/uring", "kvcache/uring/std"];
    assert_eq!(ids(&selection), [&ours[..], &["null", "control-aa"]].concat());
    assert!(selection.cells[..4].iter().all(|cell| cell.only_under.is_none()));
    let selection = select_in(&cache(), "store=std", None).unwrap().unwrap();
    assert_eq!(selection.reference, "kvcache/epoll/std");
}

#[test]
fn a_filter_that_leaves_nothing_of_a_matrix_selects_nothing() {
    let keys = vec![("server".to_owned(), vec!["other".to_owned()])];
    let filter = Filter::parse("server=other", &Vocabulary { keys, servers: Vec::new() }).unwrap();
    assert!(web().select(&filter, &[], &workloads(web().subject), None).unwrap().is_none());
}

#[test]
fn commands_name_the_back_end_and_give_pool_its_workers() {
    let selection = select("", None).unwrap();
    let workloads = workloads(web().subject);
    let workload = workloads.iter().find(|workload| workload.name == "get-1MiB-c16").unwrap();
    let command = |index: usize| {
        let cell = &selection.cells[index];
        let words = web().command(cell, workload, Path::new("/site"), Path::new("loadgen")).unwrap();
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    };
    let common = "--threads 1 --pin 0";
    assert_eq!(command(2), format!("target/http-server --listen 127.0.0.1:0 --driver epoll {common} -d /site"));
    assert!(command(1).contains("--driver pool --threads 1 --pin 0 --workers 16 "));
    assert_eq!(command(4), "loadgen null --protocol http --listen 127.0.0.1:0 --body-size 1048576");
    assert_eq!(command(5), command(2));
    assert!(!selection.cells[2].command.contains("/site") && selection.cells[2].command.ends_with("-d SITE"));
}

#[test]
fn a_cache_is_started_with_what_the_workload_adds() {
    let cells = cache();
    let selection = select_in(&cells, "store=std", None).unwrap().unwrap();
    let workloads = workloads(cells.subject);
    let command = |name: &str| {
        let workload = workloads.iter().find(|workload| workload.name == name).unwrap();
        let words = cells.command(&selection.cells[0], workload, Path::new("/site"), Path::new("loadgen")).unwrap();
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    };
    let plain = "target/kvcache --listen 127.0.0.1:0 --driver epoll --store std --eviction allkeys-s3fifo \
                 --compression none --threads 1 --pin 0";
    assert_eq!(command("get-P100"), plain);
    assert_eq!(command("zipf-evict-P16"), format!("{plain} --maxmemory 68000000"));
    assert_eq!(command("mc-text-get-P100"), format!("{plain} --memcached-listen 127.0.0.1:0"));
}

#[test]
fn a_sweep_varies_each_dimension_alone_around_the_fixed() {
    let cells = cache();
    let vocabulary = cells.vocabulary(&[], &[]);
    let (vary, fix) = (["driver".to_owned(), "compression".to_owned()], ["store=std".to_owned()]);
    let sweep = crate::plan::sweep::Sweep::parse(&vary, &fix, &vocabulary).unwrap();
    let filter = Filter::of(&sweep.expression(&cells.dimensions()).unwrap(), &vocabulary).unwrap();
    let selection = cells.select(&filter, &[], &workloads(cells.subject), None).unwrap().unwrap();
    let ours = ["kvcache/epoll/std", "kvcache/epoll/std/zstd", "kvcache/uring/std"];
    assert_eq!(ids(&selection), [&ours[..], &["null", "control-aa"]].concat());
    assert_eq!(selection.reference, "kvcache/epoll/std", "the nearest to the default of those that are left");
}

#[test]
fn a_path_selects_the_product_of_the_dimensions_that_it_names() {
    let selection = select_in(&cache(), "kvcache/uring/*", None).unwrap().unwrap();
    assert_eq!(ids(&selection), ["kvcache/uring", "kvcache/uring/std", "null", "control-aa"]);
}

#[test]
fn a_scaled_server_gets_a_cpu_for_each_thread() {
    let mut backends = backends::tests::cache();
    backends.scale(2);
    let cells = Cells { growth: Some(vec![2, 0]), ..cells(1, backends) };
    let part = Preset::named("scaling").unwrap().part("kvcache").unwrap();
    let selection = select_in(&cells, &part.filter, None).unwrap().unwrap();
    let ours = ["kvcache/epoll", "kvcache/epoll/threads=2", "kvcache/uring", "kvcache/uring/threads=2"];
    assert_eq!(ids(&selection), [&ours[..], &["null", "control-aa"]].concat());
    let workloads = workloads(cells.subject);
    let command = |index: usize| {
        let cell = &selection.cells[index];
        let words = cells.command(cell, &workloads[0], Path::new("/site"), Path::new("loadgen")).unwrap();
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    };
    assert!(
        command(0).ends_with("--threads 1 --pin 2") && command(1).ends_with("--threads 2 --pin 2,0"),
        "{}",
        command(1)
    );
    assert_eq!(cells.cpus_of(&selection.cells[1].factors).len(), 2);
    assert_eq!(cells.cpus_of(&Default::default()).as_slice(), [0], "peers keep the run's");
}
