//! Configuration files.

use std::sync::OnceLock;

use clap::{Arg, ArgAction, Command};
use service::config;

/// Whatever a file says, it is read or refused with positions that are within it, and what is read names arguments that
/// there are.
pub fn config(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    static COMMANDS: OnceLock<[Command; 2]> = OnceLock::new();
    let [top, host] = COMMANDS.get_or_init(commands);
    match config::parse(text, top, Some(host)) {
        Ok(file) => {
            for (table, command) in [(&file.top, top)].into_iter().chain(file.hosts.iter().map(|table| (table, host))) {
                for entry in &table.entries {
                    assert!(command.get_arguments().any(|arg| arg.get_id() == entry.id.as_str()), "{entry:?}");
                }
            }
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            for problem in problems {
                let line = text.split('\n').nth(problem.position.line - 1).expect("a line of the file");
                assert!(problem.position.column <= line.chars().count() + 1, "{problem:?}");
                assert!(!problem.what.is_empty() && !problem.what.contains('\n'), "{problem:?}");
            }
        }
    }
}

/// Commands with an argument of each kind.
fn commands() -> [Command; 2] {
    let content = |name: &'static str| {
        let root = Arg::new("root").long("root");
        let directory = Arg::new("directory").conflicts_with("root");
        let index = Arg::new("index").long("index").value_delimiter(',').action(ArgAction::Append);
        let listing = Arg::new("listing").long("listing").value_parser(["on", "off"]);
        Command::new(name).args([root, directory, index, listing])
    };
    let port = Arg::new("port").long("port").short('p').value_parser(clap::value_parser!(u16));
    let quiet = Arg::new("quiet").long("quiet").action(ArgAction::SetTrue);
    let names = Arg::new("names").long("names").action(ArgAction::Append);
    [content("server").args([port, quiet]), content("host").arg(names)]
}
