//! `--agent`: a load from several machines. Here they are processes of this one, network namespaces, and hosts behind a real sshd on the
//! loopback.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use loadgen::result::RunResult;
use rustix::process::{Pid, Signal, geteuid, kill_process};

use super::support::{
    Run, loadgen,
    null_server::NullServer,
    private_directory, schema,
    socket_server::{Act, Server, ok, resp_request},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_loadgen");

/// Runs a command with agents that run this program.
fn with_agents(command: &str, target: &str, agents: &[&str], options: &[&str]) -> Run {
    let mut all = vec!["--agent-program", PROGRAM];
    agents.iter().for_each(|agent| all.extend(["--agent", agent]));
    Run::new(command, target, &[&all[..], options].concat())
}

/// Runs as [`with_agents`], where an agent fails: returns the result, if there is one, and what was said.
fn failing(target: &str, agents: &[&str], options: &[&str]) -> (Option<RunResult>, String) {
    let mut all = vec!["http", "--format", "json", "-t", "1", "--agent-program", PROGRAM];
    agents.iter().for_each(|agent| all.extend(["--agent", agent]));
    let output = loadgen(&[&all[..], options, &[target]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let result = (!output.stdout.is_empty()).then(|| {
        let printed = serde_json::from_slice(&output.stdout).expect("JSON");
        schema::check(&printed);
        serde_json::from_value(printed).expect("a result")
    });
    (result, stderr)
}

#[test]
fn agents_share_a_load_and_their_results_are_one() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let run = with_agents(
        "http",
        &server.url(),
        &["env A=1", "env A=2", "env A=3"],
        &["-c", "7", "-n", "1000", "--self-check"],
    );
    run.assert_errors(&[]);
    let result = &run.result;
    assert_eq!((result.requests, result.connections_opened), (1_000, Some(7)));
    assert_eq!(
        (&result.config["connections"], &result.config["requests"], &result.config["merged"]),
        (&7.into(), &1_000.into(), &3.into())
    );
    let names: Vec<_> = result.agents.iter().map(|agent| agent.agent.as_str()).collect();
    assert_eq!(names, ["env A=1", "env A=2", "env A=3"]);
    let counts: Vec<_> = result.agents.iter().map(|agent| agent.ok).collect();
    assert_eq!(counts, [334, 333, 333]);
    for agent in &result.agents {
        assert!((agent.share - agent.ok as f64 / 1_000.0).abs() < 1e-9 && agent.failure.is_none(), "{agent:?}");
        assert!(agent.saturation.as_ref().is_some_and(|of| of.ceiling_rps > Some(0.0)), "{agent:?}");
        // It is one clock that was compared with itself, so the difference is within the error.
        let (offset, error) = (agent.clock_offset_us.expect("compared"), agent.clock_error_us.expect("compared"));
        assert!(offset.abs() <= error + 0.001, "{offset} ± {error}");
    }
    // Every request is in the merged histogram.
    let merged = loadgen::histogram::decode(&result.histogram).expect("a histogram");
    assert_eq!(merged.len(), 1_000);
    let slowest =
        result.agents.iter().filter_map(|agent| agent.latency_us).map(|latency| latency.max).fold(0.0, f64::max);
    assert!((result.latency_us.max - slowest).abs() < 1e-9);
}

#[test]
fn agents_keep_a_rate_together_and_begin_together() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let options = ["-c", "8", "-R", "200", "-d", "500ms", "--warmup", "100ms", "--fail-if", "throughput_rps<1"];
    let run = with_agents("http", &server.url(), &["env", "env A=2"], &options);
    run.assert_errors(&[]);
    let result = &run.result;
    assert_eq!((&result.config["rate"], result.is_open()), (&200.0.into(), true));
    // Two schedules of half the rate, one of which begins half a gap later.
    assert!((99..=101).contains(&result.requests), "{}", result.requests);
    assert!(result.agents.iter().all(|agent| agent.lag_us.is_some()), "{:?}", result.agents);
    let text = loadgen(&["http", "--agent", "env", "--agent-program", PROGRAM, "-c", "2", "-n", "10", &server.url()]);
    let text = String::from_utf8(text.stdout).expect("UTF-8");
    assert!(text.contains("agent env: 100.0 % of the load") && text.contains("clock"), "{text}");
}

#[test]
fn keys_are_stored_once_for_all_agents() {
    let server = NullServer::start("resp", "127.0.0.1:0", &["--value-size", "12"]);
    // So many that the shares overlap on a busy machine, too.
    let options = ["--preload", "--keys", "50", "-c", "4", "-n", "4000", "--constant-values"];
    let run = with_agents("kv", &server.address, &["env", "env A=2"], &options);
    run.assert_errors(&[]);
    assert_eq!((run.result.requests, run.result.hits), (4_000, Some(4_000)));
}

#[test]
fn an_agent_that_dies_is_an_error_with_what_was_measured_until_then() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let begin = Instant::now();
    let (result, stderr) =
        failing(&server.url(), &["env", "timeout -s KILL 2"], &["-c", "4", "-d", "600s", "--warmup", "0s"]);
    assert!(stderr.contains("agent `timeout -s KILL 2`: it has gone"), "{stderr}");
    let result = result.expect("of the one that lives");
    assert!(result.origin.interrupted && result.ok > 0, "{result:?}");
    let [lives, dead] = &result.agents[..] else { panic!("{:?}", result.agents) };
    assert!(lives.failure.is_none() && lives.ok == result.ok, "{lives:?}");
    assert!(dead.failure.is_some() && dead.ok > 0 && dead.throughput_rps.is_none(), "{dead:?}");
    assert!(begin.elapsed() < Duration::from_secs(300), "nobody waits for the end of the run");
}

#[test]
fn an_agent_that_is_none_is_named() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let other =
        r#"sh -c 'read x; echo "{\"hello\":{\"protocol\":1,\"version\":\"0.0.1\",\"host\":\"old\"}}"; read y' sh"#;
    for (agent, why) in [
        ("false", "it has gone (exit status: 1)"),
        ("sh -c 'echo Welcome; cat' sh", "`Welcome` is no message of loadgen"),
        (other, "it is loadgen 0.0.1 (messages 1), and this is"),
        ("/nonexistent/ssh", "it has gone (exit status: 127)"),
    ] {
        let (result, stderr) = failing(&server.url(), &["env", agent], &["-c", "4", "-n", "10"]);
        assert!(result.is_none() && stderr.contains(why), "{agent}: {stderr}");
    }
    // What an agent says itself is passed on, and a server that it cannot reach is its failure.
    let (_, stderr) = failing("http://127.0.0.1:1/", &["env"], &["-n", "10"]);
    assert!(stderr.contains("agent `env`: cannot connect to 127.0.0.1:1"), "{stderr}");
}

#[test]
fn what_has_no_shares_is_refused() {
    for (options, why) in [
        (&["-R", "1,2"][..], "--agent goes with one rate"),
        (&["--rate-sweep", "10%..20%"], "--agent goes with one rate"),
        (&["--server-pid", "1"], "--server-pid is a process of the generator's machine"),
        (&["-c", "1"], "each of 2 agents needs a connection"),
    ] {
        let agents = ["--agent", "env", "--agent", "env", "--agent-program", PROGRAM];
        let output = loadgen(&[&["http"], &agents[..], options, &["http://127.0.0.1:1/"]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && stderr.contains(why), "{options:?}: {stderr}");
    }
}

#[test]
fn ctrl_c_ends_all_agents_with_their_results() {
    let server = Server::of(resp_request, |_| Act::Say(b"$-1\r\n".to_vec()));
    let agents = ["--agent", "env", "--agent", "env A=2", "--agent-program", PROGRAM];
    let options = ["-c", "2", "-d", "600s", "--warmup", "0s", "--allow-misses", "--keys", "10", "--progress", "lines"];
    let mut child = Command::new(PROGRAM)
        .args(["kv", "--format", "json"])
        .args(agents)
        .args(options)
        .arg(server.address())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // A line of progress with a rate says that the load is on.
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().expect("piped")));
    let is_under_load = |line: &String| line.contains("requests/s") && !line.contains(" 0.00 requests/s");
    let line = lines.by_ref().map_while(Result::ok).find(is_under_load).expect("a line");
    assert!(line.contains("env A=2 "), "{line}");
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    std::thread::spawn(move || lines.for_each(drop));
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    let result: RunResult = serde_json::from_slice(&output.stdout).expect("a result");
    assert!(result.origin.interrupted && result.agents.iter().all(|agent| agent.ok > 0), "{:?}", result.agents);
}

/// Says why a test is left out, or fails where nothing may be missing.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn skip(why: &str) {
    assert!(
        std::env::var_os("QUINTET_PEERS").is_none_or(|value| value != "required"),
        "{why}, and QUINTET_PEERS=required"
    );
    eprintln!("skipped: {why}");
}

/// Two network namespaces, each at the far end of a wire of its own; gone when dropped.
struct Namespaces {
    names: Vec<String>,
}

impl Namespaces {
    fn new() -> Self {
        let id = std::process::id();
        // At most 15 characters for an interface.
        let names: Vec<_> = (1..=2).map(|number| format!("lga{id}-{number}")).collect();
        let namespaces = Self { names };
        for (index, name) in namespaces.names.iter().enumerate() {
            let (near, far) = (format!("lgn{id}-{index}"), format!("lgf{id}-{index}"));
            let [ours, theirs] = namespaces.addresses(index);
            let (ours, theirs) = (format!("{ours}/30"), format!("{theirs}/30"));
            for words in [
                &["netns", "add", name][..],
                &["link", "add", &near, "type", "veth", "peer", "name", &far, "netns", name],
                &["address", "add", &ours, "dev", &near],
                &["link", "set", &near, "up"],
                &["-n", name, "address", "add", &theirs, "dev", &far],
                &["-n", name, "link", "set", &far, "up"],
                &["-n", name, "route", "add", "default", "via", ours.trim_end_matches("/30")],
            ] {
                let output = Command::new("ip").args(words).output().expect("ip runs");
                assert!(output.status.success(), "ip {words:?}: {}", String::from_utf8_lossy(&output.stderr));
            }
        }
        namespaces
    }

    /// Both ends of a wire. 198.19.0.0/16 is for benchmarks of network devices (RFC 2544): nobody's.
    fn addresses(&self, index: usize) -> [String; 2] {
        let third = (std::process::id() as usize * 2 + index) % 256;
        [1, 2].map(|end| format!("198.19.{third}.{end}"))
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // With a namespace its end of the wire goes, and the other one with it.
        self.names.iter().for_each(|name| drop(Command::new("ip").args(["netns", "delete", name]).output()));
    }
}

#[test]
fn two_namespaces_load_one_server() {
    if !geteuid().is_root() {
        return skip("network namespaces need root");
    }
    if testkit::installed_program("ip").expect("installed, or not required").is_none() {
        return;
    }
    let namespaces = Namespaces::new();
    // The near end of the first wire, to which the other namespace comes by its own.
    let listen = format!("{}:0", namespaces.addresses(0)[0]);
    let server = NullServer::start("http", &listen, &["--body-size", "100"]);
    let url = format!("http://{}/", server.address);
    let agents: Vec<_> = namespaces.names.iter().map(|name| format!("ip netns exec {name}")).collect();
    let run = with_agents("http", &url, &[&agents[0], &agents[1]], &["-c", "6", "-n", "3000", "--no-keep-alive"]);
    run.assert_errors(&[]);
    assert_eq!(run.result.requests, 3_000);
    let counts: Vec<_> = run.result.agents.iter().map(|agent| (agent.agent.clone(), agent.ok)).collect();
    assert_eq!(counts, agents.iter().map(|agent| (agent.clone(), 1_500)).collect::<Vec<_>>());
}

/// sshd on a free port of the loopback, with keys of its own; ended when dropped.
struct Sshd {
    process: Child,
    directory: tempfile::TempDir,
    port: u16,
}

impl Sshd {
    fn start(sshd: &Path) -> Self {
        let directory = private_directory();
        let path = |name: &str| directory.path().join(name);
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path(key)).output();
            assert!(made.as_ref().is_ok_and(|made| made.status.success()), "{made:?}");
        }
        fs::copy(path("user.pub"), path("authorized")).expect("copied");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nMaxStartups 100\n",
            path("host").display(),
            path("authorized").display()
        );
        fs::write(path("config"), config).expect("written");
        let process = Command::new(sshd)
            .args(["-D", "-e", "-f"])
            .arg(path("config"))
            .stderr(fs::File::create(path("log")).expect("created"))
            .spawn()
            .expect("sshd runs");
        let sshd = Self { process, directory, port };
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "sshd does not listen: {}", sshd.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        sshd
    }

    /// Returns the command that logs in to `host`, which is an address of the loopback.
    fn command(&self, host: &str) -> String {
        let key = self.directory.path().join("user");
        let options =
            "-F none -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR";
        format!("ssh {options} -i '{}' -p {} {host}", key.display(), self.port)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Finds sshd, which wants to be started by its whole path. As root it needs a directory that a system's start would have made.
fn sshd() -> Option<PathBuf> {
    testkit::installed_program("ssh").expect("installed, or not required")?;
    let program = testkit::installed_program("sshd").expect("installed, or not required")?;
    if geteuid().is_root() {
        fs::create_dir_all("/run/sshd").expect("root may");
    }
    fs::canonicalize(program).ok()
}

#[test]
fn agents_are_reached_over_ssh() {
    let Some(program) = sshd() else { return };
    let sshd = Sshd::start(&program);
    let server = Server::start(|_| Act::Say(ok("x")));
    let hosts = [sshd.command("127.0.0.1"), sshd.command("localhost")];
    let run = with_agents(
        "http",
        &server.url(),
        &[&hosts[0], &hosts[1]],
        &["-c", "4", "-n", "2000", "-H", "X-Words: a 'b' \"c\" $d"],
    );
    assert_eq!((run.result.requests, run.result.agents.len()), (2_000, 2), "{}\n{}", run.stderr, sshd.log());
    run.assert_errors(&[]);
    // A login that fails is the agent's failure, in the words of ssh.
    let (result, stderr) = failing(&server.url(), &["ssh -F none -o BatchMode=yes -p 1 127.0.0.1"], &["-n", "10"]);
    assert!(
        result.is_none() && stderr.contains("onnection refused") && stderr.contains("it has gone (exit status: 255)"),
        "{stderr}"
    );
}
