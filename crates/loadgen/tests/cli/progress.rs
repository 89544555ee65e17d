//! Progress on standard error while a run lasts, on a pseudo-terminal and elsewhere.

use std::{
    fs::File,
    io::Read as _,
    process::{Command, Output, Stdio},
};

use loadgen::result::RunResult;
use rustix::{
    fs::OFlags,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use super::support::{
    loadgen,
    socket_server::{Act, Server, ok},
};

/// Runs with standard error on a terminal of so many columns, and returns what was drawn there.
fn on_a_terminal(columns: u16, kind: &str, arguments: &[&str]) -> (Output, String) {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&controller).and_then(|()| unlockpt(&controller)).expect("a terminal");
    let name = ptsname(&controller, Vec::new()).expect("a name");
    let terminal = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, rustix::fs::Mode::empty());
    let terminal = terminal.expect("a terminal");
    let size = Winsize { ws_row: 25, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).expect("a size");
    let reader = std::thread::spawn(move || {
        let (mut drawn, mut buffer) = (Vec::new(), [0; 4096]);
        let mut controller = File::from(controller);
        // EIO is the end: nobody has the terminal open any more.
        while let Ok(length) = controller.read(&mut buffer)
            && length > 0
        {
            drawn.extend_from_slice(&buffer[..length]);
        }
        String::from_utf8_lossy(&drawn).into_owned()
    });
    let child = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(arguments)
        .env("TERM", kind)
        .stdout(Stdio::piped())
        .stderr(terminal)
        .spawn()
        .expect("the binary runs");
    let output = child.wait_with_output().expect("it ends");
    (output, reader.join().expect("everything is read"))
}

/// Returns the characters on the screen, without the sequences that move the cursor.
fn visible(drawn: &str) -> String {
    let mut visible = String::new();
    let mut rest = drawn.chars();
    while let Some(character) = rest.next() {
        if character == '\u{1b}' {
            // CSI: parameters up to a letter.
            rest.by_ref().find(char::is_ascii_alphabetic);
        } else {
            visible.push(character);
        }
    }
    visible
}

#[test]
fn a_terminal_shows_progress_and_is_left_clean() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let (output, drawn) = on_a_terminal(
        100,
        "xterm",
        &["http", "-c", "2", "-d", "1500ms", "--warmup", "500ms", "--format", "json", &server.url()],
    );
    assert_eq!(output.status.code(), Some(0), "{drawn}");
    let result: RunResult = serde_json::from_slice(&output.stdout).expect("nothing but the result");
    assert!(result.ok > 0);
    let seen = visible(&drawn);
    for expected in ["warm-up", "measuring", " requests/s ", "p50 ", "p99 ", "0 failed"] {
        assert!(seen.contains(expected), "{expected} is not in {seen}");
    }
    assert!(seen.contains(|character| ('▁'..='█').contains(&character)), "no sparkline in {seen}");
    assert!(visible(drawn.rsplit("\u{1b}[2K").next().expect("drawn over")).trim().is_empty(), "{drawn:?}");
}

#[test]
fn a_short_run_without_a_terminal_is_silent() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let url = server.url();
    let options = ["http", "-c", "2", "-d", "1s", "--warmup", "200ms", "--progress"];
    for show in ["auto", "none"] {
        let output = loadgen(&[&options[..], &[show, &url]].concat());
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    for kind in ["dumb", "xterm"] {
        let show = if kind == "dumb" { "auto" } else { "none" };
        let (_, drawn) = on_a_terminal(100, kind, &[&options[..], &[show, &url]].concat());
        assert_eq!(drawn, "", "{kind}");
    }
}

#[test]
fn progress_lines_are_whole_and_have_all_figures() {
    let server = Server::start(|n| {
        Act::Say(if n % 2 == 0 { ok("x") } else { b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_vec() })
    });
    let options = ["http", "-c", "2", "-R", "100", "-d", "2s", "--warmup", "500ms", "--progress", "lines"];
    let output = loadgen(&[&options[..], &[&server.url()]].concat());
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    let lines: Vec<_> = stderr.lines().filter(|line| !line.contains("requests failed:")).collect();
    let mut full = 0;
    for line in &lines {
        let (head, figures) = line.split_once(": ").unwrap_or_else(|| panic!("{line}"));
        assert!(head.ends_with(" at 100/s") && head.contains(" s, "), "{line}");
        let figures: Vec<_> = figures.split(", ").collect();
        assert!(figures[0].ends_with(" requests/s"), "{line}");
        let failed: u64 =
            figures.last().and_then(|last| last.strip_suffix(" failed")).expect(line).parse().expect(line);
        // A second in which nothing was answered has no percentiles.
        let has_percentiles = figures.len() == 4 && figures[1].starts_with("p50 ") && figures[2].starts_with("p99 ");
        full += u32::from(has_percentiles && failed > 0);
    }
    assert!(full > 0, "{stderr}");
}

#[test]
fn the_live_view_fits_forty_columns() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let options = ["http", "-c", "2", "-R", "1500", "-d", "1500ms", "--warmup", "500ms"];
    let (_, drawn) = on_a_terminal(40, "xterm", &[&options[..], &[&server.url()]].concat());
    // A frame begins where the cursor is moved, and its lines follow each other as the terminal breaks them.
    let frames = visible(&drawn.replace('\u{1b}', "\n\u{1b}"));
    let mut measuring = 0;
    for frame in frames.split(['\r', '\n']).filter(|frame| frame.starts_with("measuring")) {
        let characters: Vec<_> = frame.trim_end().chars().collect();
        let lines: Vec<String> = characters.chunks(40).map(String::from_iter).collect();
        assert!(
            lines.len() <= 2 && lines[0].starts_with("measuring at 1,500/s ") && lines[0].ends_with(" %"),
            "{frame}"
        );
        measuring += u32::from(lines.len() == 2 && lines[1].contains("/s 0 failed") && lines[1].contains(" p99 "));
    }
    assert!(measuring > 0, "{frames}");
}
