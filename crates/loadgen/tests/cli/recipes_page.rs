//! docs/recipes.md: its command lines work, in shorter runs on other ports, and the options in its tables exist.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};

use super::support::{
    cache::Cache,
    loadgen,
    null_server::NullServer,
    socket_server::{Act, Server, resp_request},
};

/// Least number of lines; fewer would mean that they are not found.
const LINES_MIN: usize = 15;
/// The shell's own command among ours.
const WAIT: &str = "wait";
/// Behind a line that the shell does not wait for.
const BESIDE: &str = "&";

fn document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/recipes.md");
    std::fs::read_to_string(path).expect("published")
}

/// Collects our lines of the code blocks, and the places where the shell waits for lines with an ampersand.
fn command_lines(document: &str) -> Vec<Vec<String>> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in document.lines() {
        match line.strip_prefix("```") {
            Some(_) => is_code = !is_code,
            None if is_code && line == "wait" => lines.push(vec![WAIT.to_owned()]),
            None if is_code && line.starts_with("loadgen ") => {
                assert!(!line.contains(['\'', '"', '\\', '|']), "words are split at blanks only: {line}");
                lines.push(line.split_whitespace().skip(1).map(str::to_owned).collect());
            }
            None => {}
        }
    }
    lines
}

/// Starts a server that answers SET and GET from a map.
fn resp_map() -> Server {
    let map = Arc::new(Mutex::new(HashMap::<Vec<u8>, Vec<u8>>::new()));
    Server::answering(resp_request, move |_, request| {
        let words: Vec<_> =
            request.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
        let mut map = map.lock().expect("nobody panics with it");
        Act::Say(match (words[2], words.get(6)) {
            (b"SET", Some(value)) => {
                map.insert(words[4].to_vec(), value.to_vec());
                b"+OK\r\n".to_vec()
            }
            _ => match map.get(words[4]) {
                Some(value) => [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat(),
                None => b"$-1\r\n".to_vec(),
            },
        })
    })
}

/// Shortens a command line to a run of a moment, against these servers.
fn shortened(arguments: &[String], servers: &HashMap<&str, String>) -> Vec<String> {
    let most = |text: &str, most: f64| text.parse::<f64>().expect("a number").min(most).to_string();
    let is_kv = arguments[0] == "kv";
    let mut short = Vec::new();
    let mut previous = "";
    // What runs side by side must meet, however late one of them is started.
    let is_beside = arguments.iter().any(|argument| argument == BESIDE);
    for argument in arguments.iter().filter(|argument| *argument != BESIDE) {
        let known = servers.iter().find(|(published, _)| argument.contains(*published));
        short.push(match (previous, known) {
            (_, Some((published, ours))) => argument.replace(published, ours),
            // A million requests would be prepared for it otherwise.
            ("-d", None) if is_kv => "500".to_owned(),
            (_, None) if is_kv && argument == "-d" => "-n".to_owned(),
            ("-d", None) => if is_beside { "2s" } else { "200ms" }.to_owned(),
            ("-n", None) => most(argument, 500.0),
            ("-c", None) => most(argument, 8.0),
            ("-R", None) => argument.split(',').map(|rate| most(rate, 500.0)).collect::<Vec<_>>().join(","),
            ("--keys", None) => most(argument, 500.0),
            _ => argument.clone(),
        });
        previous = argument;
    }
    let says = |short: &[String], words: &[&str]| short.iter().any(|argument| words.contains(&argument.as_str()));
    if short[0] != "report" && !says(&short, &["-d", "-n", "preload"]) {
        short.extend(["-d".to_owned(), "200ms".to_owned()]);
    }
    if says(&short, &["-d"]) {
        short.extend(["--warmup".to_owned(), "20ms".to_owned()]);
    }
    if short[0] == "kv" && !says(&short, &["--keys"]) {
        short.extend(["--keys".to_owned(), "500".to_owned()]);
    }
    short
}

/// Panics unless a run succeeds and prints something.
fn succeeds((line, child): (String, Child)) {
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "loadgen {line}: {stderr}");
    assert!(!output.stdout.is_empty(), "loadgen {line}");
}

#[test]
fn the_command_lines_of_the_recipes_work() {
    let lines = command_lines(&document());
    assert!(lines.len() >= LINES_MIN, "{lines:?}");
    let (http, resp, memcached) = (NullServer::start("http", "127.0.0.1:0", &[]), resp_map(), Cache::memcached());
    let mut servers = HashMap::from([("127.0.0.1:8080", http.address.clone()), ("127.0.0.1:6379", resp.address())]);
    if let Some(memcached) = &memcached {
        servers.insert("127.0.0.1:11211", memcached.target.clone());
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut beside = Vec::new();
    for line in lines {
        if memcached.is_none() && line.iter().any(|argument| argument == "127.0.0.1:11211") {
            continue;
        }
        if line == [WAIT] {
            beside.drain(..).for_each(succeeds);
            continue;
        }
        let child = Command::new(env!("CARGO_BIN_EXE_loadgen"))
            .args(shortened(&line, &servers))
            .current_dir(directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let is_beside = line.iter().any(|argument| argument == BESIDE);
        let started = (line.join(" "), child);
        if is_beside { beside.push(started) } else { succeeds(started) }
    }
    assert!(beside.is_empty(), "nobody waits for {beside:?}");
    assert!(Path::new(&directory.path().join("wrk2-like/latency.hgrm")).exists());
}

/// Collects our options: the words between backticks in the second column of a table.
fn options_of_tables(document: &str) -> BTreeSet<(String, String)> {
    let mut options = BTreeSet::new();
    let mut command = String::new();
    for line in document.lines().filter(|line| line.starts_with('|')) {
        let columns: Vec<_> = line.split('|').map(str::trim).collect();
        if let Some(name) = columns[2].strip_prefix("loadgen ") {
            command = name.to_owned();
        }
        let code = columns[2].split('`').skip(1).step_by(2);
        let words = code.filter_map(|code| code.split_whitespace().next());
        options.extend(words.filter(|word| word.starts_with('-')).map(|word| (command.clone(), word.to_owned())));
    }
    options
}

#[test]
fn the_options_in_the_tables_exist() {
    let options = options_of_tables(&document());
    assert!(options.len() > 30, "{options:?}");
    let help = |command: &str| String::from_utf8(loadgen(&[command, "--help"]).stdout).expect("UTF-8");
    let helps = HashMap::from([("http", help("http")), ("kv", help("kv"))]);
    for (command, option) in options {
        let help = helps.get(command.as_str()).unwrap_or_else(|| panic!("{command} {option}"));
        let words = help.split(|character: char| character.is_whitespace() || ",=[".contains(character));
        assert!(words.into_iter().any(|word| word == option), "loadgen {command} has no {option}");
    }
}
