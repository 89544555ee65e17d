//! The servers of the trace, and what they serve.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

use anyhow::ensure;
use tempfile::TempDir;
use testkit::{DriverKind, Server};

use crate::script::{FILES, Kind};

/// A server, and the files that it has on every driver.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    program: PathBuf,
    arguments: &'static [&'static str],
    content: TempDir,
}

impl Subject {
    /// Returns those that are asked for.
    ///
    /// # Errors
    /// One has not been built.
    pub(crate) fn all(programs: &Path, only: &[String]) -> anyhow::Result<Vec<Self>> {
        // Replies are deferred by a store whose shards have threads of their own, by readers, and by listings.
        let servers: [(_, _, &[&str]); 4] = [
            ("http-server", Kind::Http, &["--listing", "on"]),
            ("zerocopy", Kind::Http, &["--listing", "on"]),
            ("kvcache", Kind::Kv, &["--store", "partitioned"]),
            ("fileserver", Kind::File, &["--protocol", "framed", "--layout", "flat", "--readers", "2"]),
        ];
        let mut subjects = Vec::new();
        for (name, kind, arguments) in servers {
            if only.is_empty() || only.iter().any(|wanted| wanted == name) {
                let program = programs.join(name);
                ensure!(program.is_file(), "{} has not been built", program.display());
                subjects.push(Self { name, kind, program, arguments, content: content()? });
            }
        }
        ensure!(!subjects.is_empty(), "--only {} leaves nothing", only.join(","));
        Ok(subjects)
    }

    pub(crate) fn start(&self, driver: DriverKind) -> anyhow::Result<Server> {
        let mut command = Command::new(&self.program);
        command.args(["--listen", "127.0.0.1:0", "--threads", "2", "--driver", driver.name()]).args(self.arguments);
        if self.kind != Kind::Kv {
            command.arg(self.content.path());
        }
        Server::start_command(command, 1)
    }
}

/// Makes the files. Heads name their times, which are old enough that nothing is still changing.
fn content() -> anyhow::Result<TempDir> {
    let content = TempDir::with_prefix("trace-")?;
    let directory = content.path().join("directory");
    fs::create_dir(&directory)?;
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let mut random = fastrand::Rng::with_seed(1);
    for (name, len) in FILES {
        let bytes: Vec<u8> = (0..len).map(|_| random.alphanumeric() as u8).collect();
        for place in [content.path(), &directory] {
            let path = place.join(name);
            fs::write(&path, &bytes)?;
            fs::File::options().write(true).open(&path)?.set_modified(time)?;
        }
    }
    Ok(content)
}
