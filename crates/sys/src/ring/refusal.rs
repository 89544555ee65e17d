//! Reason that the kernel refuses a ring.

use std::{fmt, fs, io};

use rustix::io::Errno;

/// Setting of the kernel that decides who may have a ring, since Linux 6.6.
pub const SETTING: &str = "/proc/sys/kernel/io_uring_disabled";

/// Reason that io_uring_setup(2) fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `kernel.io_uring_disabled` has this value.
    Setting(u32),
    /// A filter of system calls, as container runtimes have by default.
    Filter,
    /// The kernel knows no such call, or a filter says so.
    Missing,
    /// Something else, such as a limit.
    Other(String),
}

impl Refusal {
    /// Asks the kernel what stands behind an error.
    pub fn find(error: &io::Error) -> Self {
        Self::with_setting(error, fs::read_to_string(SETTING).ok().as_deref())
    }

    fn with_setting(error: &io::Error, setting: Option<&str>) -> Self {
        let setting = setting.and_then(|value| value.trim().parse().ok());
        match (Errno::from_io_error(error), setting) {
            (Some(Errno::PERM), Some(value @ 1..)) => Self::Setting(value),
            // Nothing else in the kernel says so.
            (Some(Errno::PERM), _) => Self::Filter,
            // A kernel with that setting has the call.
            (Some(Errno::NOSYS), Some(_)) => Self::Filter,
            (Some(Errno::NOSYS), None) => Self::Missing,
            _ => Self::Other(error.to_string()),
        }
    }

    /// Change of the machine that helps.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Setting(1) => {
                "sysctl -w kernel.io_uring_disabled=0, or membership in the group that kernel.io_uring_group names"
            }
            Self::Setting(_) => "sysctl -w kernel.io_uring_disabled=0",
            Self::Filter => {
                "a filter that allows io_uring_setup, io_uring_enter and io_uring_register, such as the profiles of \
                 deploy/seccomp (--security-opt seccomp=FILE of a container runtime)"
            }
            Self::Missing => "Linux 6.1 with CONFIG_IO_URING, and no filter that hides it",
            Self::Other(_) => "Linux 6.1 with kernel.io_uring_disabled=0",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(1) => f.write_str("kernel.io_uring_disabled=1 allows io_uring to privileged processes alone"),
            Self::Setting(value) => write!(f, "kernel.io_uring_disabled={value} forbids io_uring"),
            Self::Filter => f.write_str("a seccomp filter forbids io_uring"),
            Self::Missing => f.write_str("this kernel has no io_uring"),
            Self::Other(error) => write!(f, "the kernel refuses io_uring: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_is_told_from_a_filter() {
        let find = |error: Errno, setting| Refusal::with_setting(&error.into(), setting);
        assert_eq!(find(Errno::PERM, Some("2\n")), Refusal::Setting(2));
        assert_eq!(find(Errno::PERM, Some("1\n")), Refusal::Setting(1));
        assert_eq!(find(Errno::PERM, Some("0\n")), Refusal::Filter);
        // Before Linux 6.6.
        assert_eq!(find(Errno::PERM, None), Refusal::Filter);
        assert_eq!(find(Errno::NOSYS, Some("0\n")), Refusal::Filter);
        assert_eq!(find(Errno::NOSYS, None), Refusal::Missing);
        assert!(find(Errno::NOMEM, Some("0\n")).to_string().contains("memory"));
    }
}
