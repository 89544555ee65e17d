//! `--check-machine`: limits of this machine that the server would meet. It reads them, and changes none.

use std::{fs, path::Path};

use crate::{descriptors::REMEDY, output};

/// Connections that the limit of open files should allow where nobody asks for a number.
const CONNECTIONS: u64 = 16_384;

/// Limit that a server would meet with its flags, and why it should be higher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub limit: Limit,
    pub min: u64,
    pub why: String,
}

/// Limit of a machine or of its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The hard limit of open files, which the server raises its own to.
    OpenFiles,
    /// The same for the bytes of all message queues of a user.
    MessageQueueBytes,
    /// A number in `/proc/sys`, such as `net.core.somaxconn`.
    Sysctl(&'static str),
}

impl Limit {
    fn name(self) -> &'static str {
        match self {
            Self::OpenFiles => "open files",
            Self::MessageQueueBytes => "bytes of message queues",
            Self::Sysctl(name) => name,
        }
    }

    /// Reads the limit; `None`: this machine does not say.
    fn read(self) -> Option<u64> {
        match self {
            Self::OpenFiles => Some(sys::limits::open_files_max()),
            Self::MessageQueueBytes => Some(sys::limits::message_queue_bytes_max()),
            Self::Sysctl(name) => read_sysctl(name)?.parse().ok(),
        }
    }

    fn remedy(self, min: u64) -> String {
        match self {
            Self::OpenFiles => REMEDY.to_owned(),
            Self::MessageQueueBytes => "raise it with ulimit -q or LimitMSGQUEUE= of systemd".to_owned(),
            Self::Sysctl(name) => format!("sysctl -w {name}={min}"),
        }
    }
}

impl Need {
    pub fn new(limit: Limit, min: u64, why: impl Into<String>) -> Self {
        Self { limit, min, why: why.into() }
    }

    /// Need of descriptors for connections.
    pub(crate) fn of_connections(connections_max: Option<usize>) -> Self {
        let connections = connections_max.map_or(CONNECTIONS, |max| max as u64);
        Self::new(Limit::OpenFiles, connections + connections / 4, format!("{connections} connections"))
    }

    pub(crate) fn of_backlog(backlog: i32) -> Self {
        let why = format!("--backlog {backlog}: connections that may wait to be accepted");
        Self::new(Limit::Sysctl("net.core.somaxconn"), u64::from(backlog.unsigned_abs()), why)
    }

    fn judge(&self, value: Option<u64>) -> (bool, String) {
        let Self { limit, min, why } = self;
        let name = limit.name();
        match value {
            Some(value) if value >= *min => (true, format!("ok       {name} = {value} ({why})")),
            Some(value) => (false, format!("lacking  {name} = {value}, needed {min} ({why}): {}", limit.remedy(*min))),
            None => (true, format!("unknown  {name}, needed {min} ({why})")),
        }
    }
}

/// Prints what there is of each need, and the choices that the kernel makes for every server. True if nothing is lacking.
pub(crate) fn check(needs: &[Need]) -> bool {
    let mut is_enough = true;
    for need in needs {
        let (is_met, line) = need.judge(need.limit.read());
        is_enough &= is_met;
        output::announce(format_args!("{line}"));
    }
    let huge_pages = read(Path::new("/sys/kernel/mm/transparent_hugepage/enabled"));
    let congestion = read_sysctl("net.ipv4.tcp_congestion_control");
    for (name, value, meaning) in [
        ("transparent huge pages", huge_pages, "[never] makes the tables of kvcache slower"),
        ("net.ipv4.tcp_congestion_control", congestion, "for connections that leave this machine"),
    ] {
        let value = value.unwrap_or_else(|| "unknown".to_owned());
        output::announce(format_args!("as it is {name} = {value} ({meaning})"));
    }
    is_enough
}

fn read_sysctl(name: &str) -> Option<String> {
    read(&Path::new("/proc/sys").join(name.replace('.', "/")))
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_is_met_or_lacking_and_then_there_is_a_remedy() {
        let need = Need::of_backlog(4096);
        assert!(need.judge(Some(4096)).0 && need.judge(None).0);
        let (is_met, line) = need.judge(Some(4095));
        assert!(
            !is_met && line.starts_with("lacking ") && line.ends_with("sysctl -w net.core.somaxconn=4096"),
            "{line}"
        );
        assert!(Need::of_connections(Some(8)).judge(Some(10)).0);
        assert!(!Need::of_connections(Some(8)).judge(Some(9)).0);
    }

    #[test]
    fn limits_of_this_machine_are_numbers() {
        for limit in [Limit::OpenFiles, Limit::MessageQueueBytes, Limit::Sysctl("net.core.somaxconn")] {
            assert!(limit.read().is_some_and(|value| value > 0), "{limit:?}");
        }
        assert_eq!(Limit::Sysctl("net.core.nonesuch").read(), None);
    }
}
