//! Rules about source files.

use super::{Violation, source::SourceFile};

/// Directories in which `unsafe` may be written.
const UNSAFE_ROOMS: [&str; 6] = [
    "crates/sys/",
    "crates/drivers/src/uring/",
    "crates/drivers/src/glommio/raw.rs",
    "crates/drivers/src/monoio/raw.rs",
    "crates/store/src/packed/",
    "crates/script/src/raw/",
];
/// Crates that hold such a room cannot forbid unsafe code as a whole.
const UNSAFE_CRATES: [&str; 4] = ["crates/sys/", "crates/drivers/", "crates/store/", "crates/script/"];
/// Crates that must neither block nor know the time, and what they therefore never name.
const PURE_CRATES: [&str; 4] = ["crates/proto/src/", "crates/wire/src/", "crates/store/src/", "crates/script/src/"];
const IMPURE_PATHS: [&str; 7] = ["std::net", "std::fs", "libc", "nix", "rustix", "Instant::now", "SystemTime::now"];
const LINES_MAX: usize = 450;
/// First components of paths that exist on one machine only.
const MACHINE_DIRECTORIES: [&str; 7] = ["home", "root", "Users", "work", "farm", "mnt", "workspace"];

pub(super) fn unsafe_stays_in_its_rooms(file: &SourceFile) -> Vec<Violation> {
    if UNSAFE_ROOMS.iter().any(|room| file.path.starts_with(room)) {
        return Vec::new();
    }
    lines_with(&file.code, "unsafe")
        .map(|line| violation(file, line, format!("unsafe code belongs in {}", UNSAFE_ROOMS.join(" or "))))
        .collect()
}

pub(super) fn crate_roots_forbid_unsafe(file: &SourceFile) -> Vec<Violation> {
    let is_root = file.path.ends_with("src/lib.rs") || file.path.ends_with("src/main.rs");
    let may_allow = UNSAFE_CRATES.iter().any(|room| file.path.starts_with(room));
    if !is_root || may_allow || file.code.contains("#![forbid(unsafe_code)]") {
        return Vec::new();
    }
    vec![violation(file, 0, "a crate root must say #![forbid(unsafe_code)]".to_owned())]
}

pub(super) fn pure_crates_touch_nothing(file: &SourceFile) -> Vec<Violation> {
    let is_test = file.path.ends_with("/tests.rs") || file.path.contains("/tests/");
    if is_test || !PURE_CRATES.iter().any(|room| file.path.starts_with(room)) {
        return Vec::new();
    }
    let code = file.code_without_tests();
    let mut violations: Vec<Violation> = (IMPURE_PATHS.iter())
        .flat_map(|path| lines_with(code, path).map(move |line| (line, *path)))
        .chain(grouped_imports(code))
        .map(|(line, path)| violation(file, line, format!("{path} in a pure crate: time and bytes are arguments")))
        .collect();
    violations.sort_by_key(|violation| violation.line);
    violations
}

/// `use std::{fs, net::TcpStream}` names what `std::fs` and `std::net` do.
fn grouped_imports(code: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (at, opening) in code.match_indices("std::{") {
        let mut depth = 1_usize;
        let mut name_starts = true;
        let inside = &code[at + opening.len()..];
        for (offset, character) in inside.char_indices() {
            match character {
                '{' => depth += 1,
                '}' if depth == 1 => break,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 1 && name_starts && character.is_alphabetic() {
                let name: String =
                    inside[offset..].chars().take_while(|next| next.is_alphanumeric() || *next == '_').collect();
                let line = line_of(code, at + opening.len() + offset);
                found.extend(["std::net", "std::fs"].iter().filter(|path| path[5..] == name).map(|path| (line, *path)));
                name_starts = false;
            }
            name_starts |= character == ',' && depth == 1;
        }
    }
    found
}

pub(super) fn files_stay_short(file: &SourceFile) -> Vec<Violation> {
    let lines = file.text.lines().count();
    if lines <= LINES_MAX {
        return Vec::new();
    }
    vec![violation(file, 0, format!("{lines} lines: split what is more than one thought (at most {LINES_MAX})"))]
}

/// Any text file: absolute paths below somebody's home or a workplace's directories.
pub(super) fn no_paths_of_a_machine(path: &str, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (at, _) in line.match_indices('/') {
            let Some((name, _)) = line[at + 1..].split_once('/') else { continue };
            // Inside a longer path or a URL it is somebody else's directory.
            let starts_a_path = line[..at].chars().next_back().is_none_or(|before| " \t\"'`(=:[<>,".contains(before));
            if starts_a_path && MACHINE_DIRECTORIES.contains(&name) {
                let message = format!("/{name}/… is a path of one machine");
                violations.push(Violation { path: path.to_owned(), line: number + 1, message });
            }
        }
    }
    violations
}

fn violation(file: &SourceFile, line: usize, message: String) -> Violation {
    Violation { path: file.path.clone(), line, message }
}

/// Numbers of the lines in which `word` stands by itself.
fn lines_with<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (code.lines().enumerate())
        .filter(move |(_, line)| {
            line.match_indices(word).any(|(at, _)| {
                let before = at.checked_sub(1).and_then(|before| line.as_bytes().get(before).copied());
                !is_part(before) && !is_part(line.as_bytes().get(at + word.len()).copied())
            })
        })
        .map(|(number, _)| number + 1)
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text[..at].bytes().filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    type Rule = fn(&SourceFile) -> Vec<Violation>;

    fn lines(rule: Rule, path: &str, text: &str) -> Vec<usize> {
        rule(&SourceFile::new(path, text)).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn unsafe_outside_its_rooms_is_found() {
        let rule: Rule = unsafe_stays_in_its_rooms;
        let planted = "fn f() {\n    // unsafe in a comment\n    unsafe { g() }\n}\n";
        assert_eq!(lines(rule, "crates/http-server/src/lib.rs", planted), [3]);
        assert_eq!(lines(rule, "crates/drivers/src/epoll.rs", planted), [3]);
        assert_eq!(lines(rule, "crates/drivers/src/uring/ring.rs", planted), NONE);
        assert_eq!(lines(rule, "crates/sys/src/map.rs", planted), NONE);
        assert_eq!(lines(rule, "crates/store/src/packed/memory.rs", planted), NONE);
        assert_eq!(lines(rule, "crates/store/src/cache.rs", planted), [3]);
        assert_eq!(lines(rule, "crates/script/src/raw/call.rs", planted), NONE);
        assert_eq!(lines(rule, "crates/script/src/api.rs", planted), [3]);
        assert_eq!(lines(rule, "xtask/src/x.rs", "#![forbid(unsafe_code)]\nlet s = \"unsafe\";"), NONE);
    }

    #[test]
    fn a_crate_root_without_the_fence_is_found() {
        let rule: Rule = crate_roots_forbid_unsafe;
        assert_eq!(lines(rule, "crates/wire/src/lib.rs", "//! #![forbid(unsafe_code)]\nmod x;\n"), [0]);
        assert_eq!(lines(rule, "crates/http-server/src/main.rs", "fn main() {}"), [0]);
        assert_eq!(lines(rule, "crates/wire/src/lib.rs", "//! Docs.\n#![forbid(unsafe_code)]\n"), NONE);
        assert_eq!(lines(rule, "crates/wire/src/http1.rs", ""), NONE);
        assert_eq!(lines(rule, "crates/sys/src/lib.rs", ""), NONE);
    }

    #[test]
    fn sockets_files_and_clocks_in_a_pure_crate_are_found() {
        let rule: Rule = pure_crates_touch_nothing;
        for planted in [
            "use std::net::TcpStream;",
            "let t = std::time::Instant::now();",
            "let t = SystemTime::now();",
            "libc::read(0);",
            "use nix::unistd;",
            "use std::{fmt, fs};",
            "use std::{\n    collections::{HashMap, HashSet}, net::{TcpStream, UdpSocket},\n};",
        ] {
            assert_eq!(lines(rule, "crates/proto/src/x.rs", planted).len(), 1, "{planted}");
            assert_eq!(lines(rule, "crates/drivers/src/x.rs", planted), NONE, "{planted}");
        }
        for innocent in [
            "/// Since the Unix epoch, not Instant::now.\nuse std::time::Instant;",
            "use std::{fmt, collections::{net, fs}};",
            "let unix = nixie;",
            "#[cfg(test)]\nmod tests { use std::fs; }",
        ] {
            assert_eq!(lines(rule, "crates/wire/src/x.rs", innocent), NONE, "{innocent}");
        }
        assert_eq!(lines(rule, "crates/proto/src/session/tests.rs", "Instant::now()"), NONE);
    }

    #[test]
    fn a_file_that_is_too_long_is_found() {
        assert_eq!(lines(files_stay_short, "a.rs", &"\n".repeat(LINES_MAX + 1)), [0]);
        assert_eq!(lines(files_stay_short, "a.rs", &"\n".repeat(LINES_MAX)), NONE);
    }

    #[test]
    fn paths_of_a_machine_are_found_in_any_file() {
        for directory in MACHINE_DIRECTORIES {
            let planted = format!("first\nrun `/{directory}/me/tool`\n");
            let found = no_paths_of_a_machine("docs/x.md", &planted);
            assert_eq!(found.iter().map(|violation| violation.line).collect::<Vec<_>>(), [2], "{directory}");
        }
        for innocent in ["https://example.org/home/x", "crates/work/x", "/usr/sbin/nginx", "a / b", "the /home page"] {
            assert_eq!(no_paths_of_a_machine("x.md", innocent), [], "{innocent}");
        }
    }
}
