//! Shares of a load: the command line of each agent.

use clap::{ArgMatches, Command, parser::ValueSource};

use super::super::Failure;

/// Options of the coordinator alone.
const OWN: &[&str] = &["agents", "agent_program", "format", "progress", "out", "otlp", "fail_if"];
/// Options that one machine's generator has, and several have not.
const SINGLE: &[(&str, &str)] = &[
    ("server_pid", "--server-pid is a process of the generator's machine, and agents run elsewhere"),
    ("request_log", "--request-log is a file of one generator"),
    ("turns", "--turns is for one generator"),
    ("rate_sweep", "--agent goes with one rate"),
    ("rate_file", "--agent goes with one rate"),
    ("requestors", "requestors with pauses are not divided: run one generator"),
    ("recording", "a recording is replayed by one generator"),
    ("source_address", "--source-address names addresses of one machine"),
];
/// Options of which each agent has a share.
const CONNECTIONS: &str = "connections";
const REQUESTS: &str = "requests";
const RATE: &str = "rate";
const SEED: &str = "seed";
/// Options of what is done once, by the first agent.
const ONCE: &[&str] = &["preload"];

/// Load that is divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    pub(super) connections: usize,
    pub(super) requests: Option<u64>,
    pub(super) rate: Option<f64>,
    pub(super) seed: u64,
}

/// Returns the arguments of each of `count` agents, for the command that was given with these matches.
pub(super) fn divide(
    command: &Command,
    matches: &ArgMatches,
    whole: Whole,
    count: usize,
) -> Result<Vec<Vec<String>>, Failure> {
    for (option, problem) in SINGLE {
        if is_given(matches, option) {
            return Err(Failure::usage(problem));
        }
    }
    let enough = whole.connections.min(whole.requests.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX)));
    if enough < count {
        return Err(Failure::usage(format_args!("each of {count} agents needs a connection and a request of its own")));
    }
    (0..count).map(|index| arguments(command, matches, whole, index, count)).collect()
}

fn arguments(
    command: &Command,
    matches: &ArgMatches,
    whole: Whole,
    index: usize,
    count: usize,
) -> Result<Vec<String>, Failure> {
    let share = |total: u64| total / count as u64 + u64::from((index as u64) < total % count as u64);
    let mut options = vec![command.get_name().to_owned(), "--format=text".to_owned(), "--progress=none".to_owned()];
    let connections = command.get_arguments().find(|arg| arg.get_id() == CONNECTIONS).and_then(|arg| arg.get_long());
    options.push(format!("--{}={}", connections.unwrap_or(CONNECTIONS), share(whole.connections as u64)));
    options.extend(whole.requests.map(|requests| format!("--requests={}", share(requests))));
    #[expect(clippy::cast_precision_loss, reason = "a number of agents is small")]
    options.extend(whole.rate.map(|rate| format!("--rate={}", rate / count as f64)));
    options.push(format!("--seed={}", whole.seed.wrapping_add(index as u64)));
    let mut operands = Vec::new();
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        let is_divided = [CONNECTIONS, REQUESTS, RATE, SEED].contains(&id);
        let is_left = OWN.contains(&id) || is_divided || (index > 0 && ONCE.contains(&id));
        if is_left || !is_given(matches, id) {
            continue;
        }
        let values = matches.get_raw(id).into_iter().flatten().map(|value| value.to_str().map(str::to_owned));
        let problem = || Failure::usage(format_args!("a value of {id} is not text, and cannot be sent to an agent"));
        let values: Vec<String> = values.collect::<Option<_>>().ok_or_else(problem)?;
        match arg.get_long() {
            None => operands.extend(values),
            Some(long) if arg.get_action().takes_values() => {
                options.extend(values.iter().map(|value| format!("--{long}={value}")));
            }
            Some(long) => options.push(format!("--{long}")),
        }
    }
    options.push("--".to_owned());
    options.extend(operands);
    Ok(options)
}

/// True if an option stands on the command line or in the environment.
fn is_given(matches: &ArgMatches, id: &str) -> bool {
    let source = matches.try_contains_id(id).is_ok().then(|| matches.value_source(id)).flatten();
    matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn divided(words: &[&str], whole: Whole, count: usize) -> Result<Vec<Vec<String>>, Failure> {
        let mut command = super::super::super::Cli::command();
        command.build();
        let matches = command.clone().try_get_matches_from(words).expect("a command line");
        let (name, sub) = matches.subcommand().expect("a command");
        divide(command.find_subcommand(name).expect("it is there"), sub, whole, count)
    }

    const WHOLE: Whole = Whole { connections: 5, requests: Some(100), rate: Some(1_000.0), seed: 7 };

    #[test]
    fn shares_add_up_and_all_else_is_the_same() {
        let words = [
            "loadgen",
            "http",
            "--agent",
            "ssh a",
            "--agent=ssh b",
            "-c",
            "5",
            "-n",
            "100",
            "-R",
            "1k",
            "--format",
            "json",
            "--fail-if",
            "p99>5ms",
            "--no-keep-alive",
            "-H",
            "A: b",
            "-H",
            "C: d",
            "--self-check",
            "http://h:1/",
            "http://h:1/-x",
        ];
        let Ok(found) = divided(&words, WHOLE, 2) else { panic!("it can be divided") };
        let expected = |connections: u32, seed: u32| {
            format!(
                "http --format=text --progress=none --connections={connections} --requests=50 --rate=500 --seed={seed}"
            )
        };
        let rest = ["--header=A: b", "--header=C: d", "--no-keep-alive", "--self-check=on"];
        for (arguments, (connections, seed)) in found.iter().zip([(3, 7), (2, 8)]) {
            assert!(arguments.join(" ").starts_with(&expected(connections, seed)), "{arguments:?}");
            assert!(arguments.ends_with(&["--".into(), "http://h:1/".into(), "http://h:1/-x".into()]), "{arguments:?}");
            let mut middle: Vec<_> = arguments[7..arguments.len() - 3].to_vec();
            middle.sort_unstable();
            assert_eq!(middle, rest);
        }
    }

    #[test]
    fn keys_are_stored_by_one_agent() {
        let words = ["loadgen", "kv", "--agent", "a", "--preload", "--keys", "10", "127.0.0.1:1"];
        let Ok(found) = divided(&words, Whole { requests: None, rate: None, ..WHOLE }, 3) else { panic!("it can") };
        let stores: Vec<_> = found.iter().map(|arguments| arguments.contains(&"--preload".to_owned())).collect();
        assert_eq!(stores, [true, false, false]);
        assert!(found.iter().all(|arguments| arguments.contains(&"--keys=10".to_owned())));
    }

    #[test]
    fn what_cannot_be_divided_is_refused() {
        for option in ["--server-pid=1", "--request-log=x.csv", "--rate-sweep=10%..20%", "--rate-file=x"] {
            let words = ["loadgen", "http", "--agent", "a", option, "http://h:1/"];
            assert!(matches!(divided(&words, WHOLE, 2), Err(Failure::Usage(_))), "{option}");
        }
        let words = ["loadgen", "http", "--agent", "a", "http://h:1/"];
        assert!(matches!(divided(&words, WHOLE, 6), Err(Failure::Usage(_))), "five connections for six");
    }
}
