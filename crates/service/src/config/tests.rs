use clap::{ArgMatches, Args, FromArgMatches, Parser};

use super::*;
use crate::{Cli, ServiceArgs};

/// Content of one host.
#[derive(Clone, Debug, Args)]
struct Content {
    #[arg(value_name = "DIR", conflicts_with = "root")]
    directory: Option<String>,
    #[arg(long)]
    root: Option<String>,
    #[arg(long, value_delimiter = ',')]
    index: Vec<String>,
    #[arg(long, default_value = "on", value_parser = ["on", "off"])]
    listing: String,
}

#[derive(Clone, Debug, Args)]
struct HostFlags {
    #[arg(long)]
    names: Vec<String>,
    #[command(flatten)]
    content: Content,
}

#[derive(Debug, Parser)]
struct Flags {
    #[command(flatten)]
    content: Content,
    #[arg(short, long, conflicts_with = "listen")]
    port: Option<u16>,
    #[arg(long, hide_env_values = true)]
    token: Option<String>,
    #[command(flatten)]
    service: ServiceArgs,
    #[arg(skip)]
    hosts: Vec<HostFlags>,
}

impl Cli for Flags {
    const NAME: &'static str = "some-server";
    const LISTEN: &'static str = "127.0.0.1:0";

    fn service(&self) -> &ServiceArgs {
        &self.service
    }

    fn check(&self) -> Result<(), String> {
        if self.port == Some(13) { Err("13 is unlucky".to_owned()) } else { Ok(()) }
    }

    fn host_command() -> Option<Command> {
        Some(HostFlags::augment_args(Command::new("host")))
    }

    fn set_hosts(&mut self, hosts: &[ArgMatches]) -> Result<(), HostProblem> {
        for (host, matches) in hosts.iter().enumerate() {
            let flags = HostFlags::from_arg_matches(matches).unwrap();
            if flags.names.is_empty() {
                return Err(HostProblem { host, what: "a host needs names".to_owned() });
            }
            self.hosts.push(flags);
        }
        Ok(())
    }
}

fn load_bytes(text: &[u8], arguments: &[&str]) -> Result<Loaded<Flags>, LoadError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.toml");
    fs::write(&path, text).unwrap();
    let mut all: Vec<OsString> = vec!["some-server".into(), "--config".into(), path.into()];
    all.extend(arguments.iter().map(OsString::from));
    let command = crate::cli::command::<Flags>(|_| false);
    CommandLine { command, arguments: all }.load()
}

fn load(text: &str, arguments: &[&str]) -> Loaded<Flags> {
    load_bytes(text.as_bytes(), arguments).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the lines of the error without the file.
fn errors(text: &[u8]) -> Vec<String> {
    let error = load_bytes(text, &[]).expect_err("it is wrong").to_string();
    error.lines().map(|line| line.split_once("c.toml:").map_or(line, |(_, what)| what).to_owned()).collect()
}

#[test]
fn every_flag_is_a_key() {
    let command = crate::cli::command::<Flags>(|_| false);
    let keys: Vec<_> = command.get_arguments().filter(|arg| !is_meta(arg)).filter_map(key).collect();
    for wanted in ["listen", "driver", "idle-timeout", "root", "directory", "pin", "metrics", "token"] {
        assert!(keys.contains(&wanted), "{wanted}");
    }
    for meta in ["config", "check-config", "print-config", "list-backends", "format", "help"] {
        assert!(!keys.contains(&meta), "{meta}");
    }
}

#[test]
fn flags_go_before_the_file_and_the_file_before_defaults() {
    let text = "idle-timeout = 7\nmax-request-size = \"2MiB\"\nlisten = [\"127.0.0.1:1\", \"[::1]:2\"]\nindex = [\"a\", \"b\"]\nlisting = false\nbacklog = 0x10";
    let Flags { service, content, .. } = load(text, &["--max-request-size", "3MiB"]).program;
    assert_eq!((service.idle_timeout.as_secs(), service.max_request_size.as_u64()), (7, 3 << 20));
    assert_eq!((service.listen.len(), service.backlog, service.request_timeout.as_secs()), (2, 16, 10));
    assert_eq!((content.index, content.listing), (vec!["a".to_owned(), "b".to_owned()], "off".to_owned()));
    assert_eq!(load("listen = \"127.0.0.1:1\"", &[]).program.service.listen.len(), 1);
}

#[test]
fn a_flag_puts_what_it_excludes_out_of_the_file() {
    let flags = |text: &str, arguments: &[&str]| load(text, arguments).program;
    let port = flags("listen = [\"127.0.0.1:1\"]", &["--port", "2"]);
    assert_eq!((port.port, port.service.listen.len()), (Some(2), 0));
    let listen = flags("port = 2", &["--listen", "127.0.0.1:1"]);
    assert_eq!((listen.port, listen.service.listen.len()), (None, 1));
    let root = flags("directory = \"a\"", &["--root", "b"]);
    assert_eq!((root.content.directory, root.content.root.as_deref()), (None, Some("b")));
}

#[test]
fn a_host_has_the_values_of_the_top_level_unless_it_says_otherwise() {
    let text = "root = \"a\"\nindex = [\"x\"]\n[[host]]\nnames = [\"one\", \"uno\"]\n[[host]]\nnames = [\"two\"]\ndirectory = \"b\"\nlisting = \"off\"\n";
    let Loaded { program, effective } = load(text, &["--index", "y"]);
    let [one, two] = &program.hosts[..] else { panic!("{:?}", program.hosts) };
    assert_eq!((&one.names[..], one.content.root.as_deref()), (&["one".to_owned(), "uno".to_owned()][..], Some("a")));
    assert_eq!((&one.content.index[..], &*one.content.listing), (&["y".to_owned()][..], "on"));
    assert_eq!((two.content.root.as_deref(), two.content.directory.as_deref()), (None, Some("b")));
    assert_eq!((&two.content.index[..], &*two.content.listing), (&["y".to_owned()][..], "off"));
    assert_eq!(effective.hosts.iter().map(Vec::len).collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn an_error_has_its_line_and_column() {
    for (text, want) in [
        ("idle-timout = 3", "1:1: unknown key \"idle-timout\"; did you mean idle-timeout?"),
        ("\n\n  colour = 3", "3:3: unknown key \"colour\""),
        ("idle-timeout = \"soon\"", "1:16: idle-timeout: not a time, like 30, 500ms, 30s or 2min"),
        ("idle-timeout = 0", "1:16: idle-timeout: must be more than 0"),
        ("threads = 0", "1:11: threads: must be at least 1"),
        ("threads = 1.5", "1:11: threads: not a whole number, like 4"),
        ("threads = -1", "1:11: threads: not a whole number, like 4"),
        ("threads = [1]", "1:11: threads: takes one value, not a list"),
        ("threads = 99999999999999999999", "1:11: threads: the number is too large"),
        ("threads = 2020-01-01", "1:11: threads: takes no date"),
        ("threads = { n = 1 }", "1:11: threads: takes no table"),
        ("[threads]\nn = 1", "1:1: threads: takes no table"),
        ("listen = [\"nowhere\"]", "1:11: listen: "),
        ("listen = [\n  \"127.0.0.1:1\",\n  \"nowhere\",\n]", "3:3: listen: "),
        ("listen = [[\"127.0.0.1:1\"]]", "1:11: listen: takes no list within a list"),
        ("driver = \"select\"", "1:10: driver: "),
        ("log = \"xml\"", "1:7: log: \"xml\" is not one of text, json"),
        ("listing = \"perhaps\"", "1:11: listing: \"perhaps\" is not one of on, off"),
        ("port = 65536", "1:8: port: "),
        ("port = 1\nlisten = [\"127.0.0.1:2\"]", "2:1: listen does not go with port of line 1"),
        ("root = \"a\"\ndirectory = \"b\"", "2:1: directory does not go with root of line 1"),
        ("config = \"other\"", "1:1: config is for the command line only"),
        ("check-config = true", "1:1: check-config is for the command line only"),
        ("list-backends = true", "1:1: list-backends is for the command line only"),
        ("port = 1\nport = 2", "2:1: duplicate key"),
        ("port = ", "1:8: "),
        ("port 1", "1:"),
        ("root = \"a", "1:"),
        ("root = \"\\q\"", "1:"),
        ("host = 1", "1:1: a host is a table of its own: [[host]]"),
        ("host = [1]", "1:9: a host is a table of its own: [[host]]"),
        ("[host]\nnames = [\"a\"]", "1:"),
        ("[[hosts]]\nnames = [\"a\"]", "1:3: unknown key \"hosts\"; did you mean host?"),
        ("[[host]]\nroot = \"a\"", "1:1: a host needs names"),
        ("[[host]]\nnames = [\"a\"]\nidle-timeout = 3", "3:1: unknown key \"idle-timeout\""),
        ("[[host]]\nnames = [\"a\"]\n\"\u{fc}\" = 1", "3:1: unknown key \"\u{fc}\""),
        ("root = \"\u{fc}\u{fc}\"; x", "1:"),
        ("port = 13", "13 is unlucky"),
    ] {
        let errors = errors(text.as_bytes());
        assert!(errors.len() == 1 && errors[0].starts_with(want), "{text:?}: {errors:?}");
    }
    assert_eq!(errors(b"root = \"a\"\n# \xff"), ["2:3: not UTF-8"]);
}

#[test]
fn all_errors_are_reported_in_order() {
    let text = "colour = 1\nthreads = 0\n[[host]]\nnames = 1\nsize = 2\n[[host]]\nlisting = 3\n";
    let positions: Vec<_> = errors(text.as_bytes()).iter().map(|line| line[..3].to_owned()).collect();
    assert_eq!(positions, ["1:1", "2:1", "5:1", "7:1"]);
}

#[test]
fn an_unreadable_file_is_named() {
    let command = crate::cli::command::<Flags>(|_| false);
    for (path, why) in [("/nonexistent/c.toml", "No such file"), ("/", "Is a directory")] {
        let arguments = ["some-server", "--config", path].map(OsString::from).to_vec();
        let error = CommandLine { command: command.clone(), arguments }.load::<Flags>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot read {path}: {why}")) && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn the_printed_configuration_reads_back_as_itself() {
    for (text, arguments) in [
        ("", &[][..]),
        ("root = \"a \\\"b\\\" \\\\ \\u0007\"\nlisten = [\"127.0.0.1:1\"]\nthreads = 3", &["--listing", "off"][..]),
        (
            "index = []\nlisting = true\n[[host]]\nnames = [\"a\", \"*.b\"]\nindex = [\"x\", \"y\"]",
            &["--idle-timeout", "5s"],
        ),
        ("directory = \"a\"\n[[host]]\nnames = [\"b\"]\nroot = \"c\"\n[[host]]\nnames = [\"d\"]", &["-p", "80"]),
        ("", &["elsewhere"]),
    ] {
        let first = load(text, arguments);
        let printed = first.effective.to_toml("some-server");
        let again = load(&printed, &[]);
        let values = |loaded: &Loaded<Flags>| {
            format!("{:?} {:?} {:?}", loaded.program.content, loaded.program.hosts, loaded.program.port)
        };
        assert_eq!(values(&first), values(&again), "{printed}");
        let changes = first.effective.changes(&again.effective);
        assert!(changes.is_empty(), "{changes:?} {printed}");
        assert!(!first.effective.hosts_differ(&again.effective), "{printed}");
    }
}

#[test]
fn each_printed_value_has_its_origin_and_no_secret_is_printed() {
    let printed = load("\nthreads = 3", &["--idle-timeout", "5s", "--token", "hush"]).effective.to_toml("some-server");
    for line in [
        "threads = 3 # line 2",
        "idle-timeout = \"5s\" # flag",
        "request-timeout = \"10s\" # default",
        "# pin is not set",
        "# token is set and not shown # flag",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line}: {printed}");
    }
    assert!(!printed.contains("hush"), "{printed}");
}

#[test]
fn an_argument_overrides_the_variable_that_excludes_it() {
    // Some variable that there is.
    let command = || crate::cli::command::<Flags>(|_| false).mut_arg("root", |arg| arg.env("PATH"));
    let load = |arguments: &[&str]| {
        let arguments = ["some-server"].iter().chain(arguments).map(OsString::from).collect();
        let loaded: Loaded<Flags> = CommandLine::new(command(), arguments).load()?;
        Ok::<_, LoadError>(loaded.program.content)
    };
    let content = load(&["dir"]).unwrap();
    assert_eq!((content.directory.as_deref(), content.root), (Some("dir"), None));
    assert_eq!(load(&[]).unwrap().root, std::env::var("PATH").ok());
    assert!(matches!(load(&["dir", "--root", "other"]), Err(LoadError::Usage(_))), "two arguments are a contradiction");
}
