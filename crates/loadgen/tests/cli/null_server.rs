//! `loadgen null` and `loadgen http` against each other.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use super::{Run, file::Documents};

/// The real `loadgen null`, and the address it printed.
pub(crate) struct Null {
    child: Child,
    pub(crate) address: String,
}

impl Null {
    pub(crate) fn start(protocol: &str, listen: &str, options: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_loadgen"))
            .args(["null", "--protocol", protocol, "--listen", listen])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on ").expect("the ready line").to_owned();
        Self { child, address }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn stop(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it runs");
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Null {
    fn drop(&mut self) {
        // Ended already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn everything_is_answered_at_any_depth_and_size() {
    for (body, pipeline) in [("0", "1"), ("128", "16"), ("100000", "3"), ("1000000", "1")] {
        let null = Null::start("http", "127.0.0.1:0", &["--body-size", body]);
        let url = format!("http://{}/", null.address);
        let run = Run::http(&url, &["-c", "5", "-n", "500", "-P", pipeline]);
        run.assert_errors(&[]);
        assert_eq!(run.result.ok, 500);
        assert!(run.result.bytes_in >= 500 * body.parse::<u64>().expect("a number"));
        assert_eq!(null.stop(), Some(0));
    }
}

#[test]
fn many_connections_on_one_thread() {
    let null = Null::start("http", "127.0.0.1:0", &[]);
    let run = Run::http(&format!("http://{}/", null.address), &["-c", "2000", "-n", "6000"]);
    run.assert_errors(&[]);
    assert_eq!(null.stop(), Some(0));
}

#[test]
fn a_unix_socket_is_served_and_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("null.sock");
    let path = path.to_str().expect("UTF-8");
    let null = Null::start("http", &format!("unix:{path}"), &[]);
    assert_eq!(null.address, format!("unix:{path}"));
    for url in [format!("unix:{path}"), format!("unix:{path}:/some/page")] {
        let run = Run::http(&url, &["-c", "200", "-n", "1000", "-P", "2"]);
        run.assert_errors(&[]);
        assert_eq!(run.result.ok, 1_000);
    }
    Run::http("/page", &["-c", "2", "-n", "10", "--unix", path]).assert_errors(&[]);
    assert_eq!(null.stop(), Some(0));
    assert!(!std::path::Path::new(path).exists());
}

#[test]
fn a_taken_address_is_1() {
    let null = Null::start("http", "127.0.0.1:0", &[]);
    let output = super::loadgen(&["null", "--protocol", "http", "--listen", &null.address]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with(&format!("error: cannot listen on {}: ", null.address)), "{stderr}");
}

#[test]
fn requests_behind_a_half_close_are_answered() {
    let null = Null::start("http", "127.0.0.1:0", &["--body-size", "3"]);
    let mut socket = TcpStream::connect(&null.address).expect("it listens");
    socket.write_all(&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(5)).expect("sent");
    socket.shutdown(std::net::Shutdown::Write).expect("open");
    let mut replies = Vec::new();
    socket.read_to_end(&mut replies).expect("five replies and an end");
    assert_eq!(String::from_utf8(replies).expect("ASCII").matches("\r\n\r\nxxx").count(), 5);
}

#[test]
fn the_same_document_is_served_in_both_of_fileservers_protocols() {
    for length in [0, 1, 10_240, 1_000_000] {
        let null = Null::start("file", "127.0.0.1:0", &["--body-size", &length.to_string()]);
        let documents = Documents::with([vec![b'x'; length], vec![b'x'; length]]);
        for options in [
            &["--protocol", "original", "-c", "5", "-n", "100"][..],
            &["--protocol", "framed", "-c", "5", "-n", "100"],
            &["--protocol", "framed", "-c", "5", "-n", "100", "-P", "16"],
        ] {
            let run = Run::file(&null.address, documents.path(), &[&["--layout", "flat"], options].concat());
            run.assert_errors(&[]);
            assert_eq!(run.result.ok, 100);
            assert!(run.result.bytes_in >= 100 * length as u64);
        }
        assert_eq!(null.stop(), Some(0));
    }
}
