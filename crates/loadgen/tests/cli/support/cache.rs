//! Real caches, where they are installed.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
};

use super::Run;

/// A cache on a unix socket, ended when dropped.
pub(crate) struct Cache {
    child: Child,
    pub(crate) target: String,
    _directory: tempfile::TempDir,
}

impl Cache {
    /// Starts `program` with the arguments that `arguments` makes of a socket's path; `None` if it is not installed.
    pub(crate) fn start(program: &str, arguments: impl FnOnce(&str) -> Vec<String>) -> Option<Self> {
        let program = testkit::peer(program).expect("installed where it is required")?;
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("cache.sock");
        let path = socket.to_str().expect("UTF-8");
        let child = Command::new(program)
            .args(arguments(path))
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let cache = Self { child, target: format!("unix:{path}"), _directory: directory };
        testkit::eventually("the cache listens", || {
            Ok(std::os::unix::net::UnixStream::connect(Path::new(&socket)).is_ok())
        })
        .expect("it starts");
        Some(cache)
    }

    pub(crate) fn redis() -> Option<Self> {
        let fixed = ["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"];
        Self::start("redis-server", |socket| fixed.iter().copied().chain([socket]).map(str::to_owned).collect())
    }

    pub(crate) fn memcached() -> Option<Self> {
        // It refuses to run as root, unless it is told that this is meant.
        let fixed = ["-u", "root", "-m", "64", "-s"];
        Self::start("memcached", |socket| fixed.iter().copied().chain([socket]).map(str::to_owned).collect())
    }

    pub(crate) fn run(&self, options: &[&str]) -> Run {
        let run = Run::kv(&self.target, options);
        run.assert_errors(&[]);
        run
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // Ended already, perhaps; a test that needs it has then failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
