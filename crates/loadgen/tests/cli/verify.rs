//! `--verify`: all, off, and samples.

use loadgen::sample::{Sample, Sampler};

use super::support::{
    Run,
    documents::{Documents, framed},
    loadgen,
    null_server::NullServer,
    private_directory,
    queue_server::{Act as Answer, QueueServer},
    socket_server::{Act, Server, framed_request, ok},
};

const REQUESTS: usize = 400;
const ONE: &[&str] = &["-c", "1", "-n", "400"];

const BODY: &[u8] = b"the body of the document";
const WRONG: &[u8] = b"the body of the dokument";

/// Counts the replies that a sample of one in ten chooses.
fn chosen(seed: u64, thread: usize, replies: usize) -> u64 {
    chosen_behind(0, seed, thread, replies)
}

/// Counts the same without the first ones.
fn chosen_behind(first: usize, seed: u64, thread: usize, replies: usize) -> u64 {
    let mut sampler = Sampler::new(Sample::one_of(10).expect("a share"), seed, thread);
    let count = (0..replies).map(|_| sampler.draw()).skip(first).filter(|is_chosen| *is_chosen).count();
    assert!(count > 0 && count < replies / 2, "{count} of {replies}");
    count as u64
}

#[test]
fn http_checks_the_bodies_of_its_sample() {
    // From the second on every body has a wrong byte somewhere, and no two are alike.
    let http = |options: &[&str]| {
        let server = Server::start(|n| Act::Say(ok(&format!("{n:05}"))));
        Run::http(&server.url(), &[ONE, options].concat())
    };
    for seed in ["1", "2", "3"] {
        let run = http(&["--verify", "sample=1/10", "--seed", seed]);
        // The first is what the others differ from, whether it was chosen or not.
        let wrong = chosen_behind(1, seed.parse().expect("a number"), 0, REQUESTS);
        run.assert_errors(&[("content", wrong)]);
        assert_eq!(run.result.config["verify"], "sample=1/10");
    }
    for (verify, wrong, name) in [("off", 0, "none"), ("all", REQUESTS as u64 - 1, "content"), ("length", 0, "length")]
    {
        let run = http(&["--verify", verify]);
        assert_eq!((run.errors("content"), run.result.ok), (wrong, REQUESTS as u64 - wrong), "{verify}");
        assert_eq!(run.result.config["verify"], name);
    }
}

#[test]
fn lengths_are_checked_outside_of_the_sample() {
    let server = Server::start(|n| Act::Say(ok(if n % 2 == 1 { "longer" } else { "short" })));
    let run = Run::http(&server.url(), &[ONE, &["--verify", "sample=1/1000000000"]].concat());
    run.assert_errors(&[("length", REQUESTS as u64 / 2)]);
}

#[test]
fn all_checks_the_digest_where_one_is_given() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("page"), BODY).expect("written");
    let content = directory.path().to_str().expect("UTF-8");
    for (verify, wrong, name) in [("all", 400, "sha256"), ("sample=1/10", chosen(1, 0, 400), "sample=1/10")] {
        let server = Server::start(|_| Act::Say(ok(&String::from_utf8_lossy(WRONG))));
        let options = [ONE, &["--verify", verify, "--content-dir", content]].concat();
        let run = Run::http(&format!("{}page", server.url()), &options);
        run.assert_errors(&[("content", wrong)]);
        assert_eq!(run.result.config["verify"], name);
    }
    // Until a body has had the digest nothing is known of it, and none goes unseen.
    let digest = "00".repeat(32);
    let server = Server::start(|_| Act::Say(ok("wrong")));
    let run = Run::http(&server.url(), &[ONE, &["--verify", "sample=1/10", "--expect-sha256", &digest]].concat());
    run.assert_errors(&[("content", 400)]);
}

#[test]
fn file_checks_the_bodies_of_its_sample() {
    for (verify, wrong, name) in
        [("sample=1/10", chosen(1, 0, 400), "sample=1/10"), ("off", 0, "none"), ("all", 400, "sha256")]
    {
        let server = Server::of(framed_request, |_| Act::Say(framed(0, WRONG)));
        let options = [ONE, &["--layout", "flat", "--protocol", "framed", "--verify", verify]].concat();
        let run = Run::file(&server.address(), Documents::with([BODY.to_vec()]).path(), &options);
        assert_eq!((run.errors("content"), run.result.ok), (wrong, 400 - wrong), "{verify}");
        assert_eq!(run.result.config["verify"], name);
    }
}

#[test]
fn mq_checks_the_answers_of_its_sample() {
    let files = tempfile::tempdir().expect("a directory");
    std::fs::write(files.path().join("file.bin"), BODY).expect("written");
    let content = files.path().to_str().expect("UTF-8");
    let mq = |options: &[&str]| {
        let server = QueueServer::start(|_, _| Answer::say(WRONG));
        Run::mq(&server, &[&["--clients", "3", "-n", "150"], options].concat())
    };
    let sampled: u64 = (0..3).map(|client| chosen(1, client, 50)).sum();
    let content = ["--content", content];
    for (options, wrong, name) in [
        (&["--verify", "sample=1/10"][..], sampled, "sample=1/10"),
        (&["--verify", "sample=1/10", "--spawn", "process"], sampled, "sample=1/10"),
        (&["--verify", "off"], 0, "none"),
        (&["--verify", "all"], 150, "sha256"),
        (&[], 150, "sha256"),
    ] {
        let run = mq(&[&content, options].concat());
        assert_eq!((run.errors("content"), run.result.ok), (wrong, 150 - wrong), "{options:?}");
        assert_eq!(run.result.config["verify"], name);
    }
    // Without anything to compare with.
    assert_eq!(mq(&["--verify", "all"]).result.config["verify"], "length");
}

/// Returns the message of a refused command.
fn refused(arguments: &[&str]) -> String {
    let output = loadgen(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{arguments:?}: {stderr}");
    stderr
}

#[test]
fn an_unknown_level_is_refused_with_the_known_ones() {
    let fifos = private_directory();
    let fifo_dir = fifos.path().to_str().expect("UTF-8");
    let (http, file) = (["http", "http://127.0.0.1:9/"], ["file", "127.0.0.1:9", "."]);
    let (kv, mq) = (["kv", "127.0.0.1:9"], ["mq", "--fifo-dir", fifo_dir, "/queue", "path"]);
    let commands: [(&[&str], &str); 4] = [
        (&http, "none, status, length, content, sha256, all, off, sample=1/N]"),
        (&file, "none, status, length, sha256, all, off, sample=1/N]"),
        (&mq, "none, status, length, sha256, all, off, sample=1/N]"),
        (&kv, "none, status, length, content, all, off]"),
    ];
    for (command, possible) in commands {
        for value in ["everything", "sample", "sample=1/0", "sample=1/x", "sample=2/3", "sample=1/1000000001"] {
            let said = refused(&[command, &["--verify", value]].concat());
            assert!(said.starts_with("error: ") && said.contains(possible), "{value}: {said}");
        }
    }
    let why = "comparing a reply with the prepared one costs less than choosing";
    assert!(refused(&[&kv[..], &["--verify", "sample=1/10"]].concat()).contains(why));
    // A share of nothing.
    let sampled = [&mq[..], &["--verify", "sample=1/10"]].concat();
    assert!(refused(&sampled).contains("--verify sample=1/N needs --content or --expect-sha256"));
    let unseen = [&sampled[..], &["--sink", "splice", "--content", "/tmp"]].concat();
    assert!(refused(&unseen).contains("does not go with --sink splice"));
}

#[test]
fn the_help_lists_all_levels() {
    let levels = ["- none:", "- status:", "- length:", "- all:", "- off:", "The same as none"];
    for (command, its_own) in [
        (
            "http",
            &["- content:", "- sha256:", "- sample=1/N:", "chosen by chance from --seed", "--verify sample=1/1000 "][..],
        ),
        ("file", &["- sha256:", "- sample=1/N:", "--verify sample=1/100 "]),
        ("mq", &["- sha256:", "- sample=1/N:", "--verify sample=1/100 "]),
        ("kv", &["- content:"]),
    ] {
        let help = String::from_utf8(loadgen(&[command, "--help"]).stdout).expect("UTF-8");
        // Lines are broken anywhere.
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(levels.iter().chain(its_own).all(|words| help.contains(words)), "{command}: {help}");
        assert_eq!(help.contains("sample=1/N"), command != "kv");
    }
}

#[test]
fn kv_has_all_and_off_but_no_samples() {
    let null = NullServer::start("resp", "127.0.0.1:0", &[]);
    // Whoever expects other values than x finds all of them wrong.
    let kv = |verify| Run::kv(&null.address, &["-c", "1", "-n", "50", "--keys", "50", "--verify", verify]);
    for (verify, wrong, name) in [("all", 50, "content"), ("off", 0, "none")] {
        let run = kv(verify);
        assert_eq!((run.errors("content"), run.result.config["verify"].as_str()), (wrong, Some(name)), "{verify}");
    }
}
