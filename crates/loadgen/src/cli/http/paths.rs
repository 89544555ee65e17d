//! `--paths`: what is asked for, from a file.

use std::{
    io::{self, Read as _},
    path::Path,
};

use anyhow::Context as _;
use loadgen::http::Target;

use super::Failure;

/// Name of standard input.
const STANDARD_INPUT: &str = "-";

/// Reads the targets of a file. `named` are those of the command line, of which at most one gives paths their server.
///
/// # Errors
/// The file cannot be read, has no target, or has a line that is none.
pub(super) fn read(file: &Path, named: &[Target], unix: Option<&Path>) -> Result<Vec<Target>, Failure> {
    let server = match named {
        [] => None,
        [server] => Some(server),
        [_, _, ..] => {
            return Err(Failure::usage("--paths goes with one URL, whose server has the paths, or with none"));
        }
    };
    let shown = file.display();
    let text = text(file).with_context(|| format!("--paths: cannot read {shown}"))?;
    parse(&text, server, unix).map_err(|Problem { line, why }| match line {
        Some(line) => Failure::usage(format!("--paths: {shown}, line {line}: {why}")),
        None => Failure::usage(format!("--paths: {shown}: {why}")),
    })
}

fn text(file: &Path) -> io::Result<String> {
    if file.as_os_str() != STANDARD_INPUT {
        return std::fs::read_to_string(file);
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map(|_| text)
}

#[derive(Debug, PartialEq, Eq)]
struct Problem {
    line: Option<usize>,
    why: String,
}

fn parse(text: &str, server: Option<&Target>, unix: Option<&Path>) -> Result<Vec<Target>, Problem> {
    let mut targets = Vec::new();
    for (index, line) in text.lines().enumerate() {
        // As vegeta has it.
        let line = line.trim();
        let word = line.strip_prefix("GET ").unwrap_or(line).trim_start();
        if word.is_empty() || word.starts_with('#') {
            continue;
        }
        let target = match server.filter(|_| word.starts_with('/')) {
            Some(server) => server.with_path(word),
            None => Target::parse(word, unix),
        };
        let line = Some(index + 1);
        targets.push(target.map_err(|error| Problem { line, why: error.to_string() })?);
    }
    match targets.is_empty() {
        true => Err(Problem { line: None, why: "there is no path and no URL in it".to_owned() }),
        false => Ok(targets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, server: Option<&str>) -> Result<Vec<String>, Problem> {
        let server = server.map(|url| Target::parse(url, None).expect("a URL"));
        let targets = parse(text, server.as_ref(), None)?;
        assert!(Target::endpoint(&targets).is_ok());
        Ok(targets.iter().map(|target| target.path().to_owned()).collect())
    }

    #[test]
    fn a_line_is_a_path_of_the_server_or_a_url() {
        let server = Some("http://127.0.0.1:8080/unused");
        let text = "# pages\n/\n\n  /a.css?v=1  \nGET /b.js\r\nhttp://127.0.0.1:8080/c\nGET http://127.0.0.1:8080/d";
        assert_eq!(parsed(text, server), Ok(["/", "/a.css?v=1", "/b.js", "/c", "/d"].map(str::to_owned).to_vec()));
        assert_eq!(parsed("127.0.0.1:80/x\n", None), Ok(vec!["/x".to_owned()]));
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        let line = |text, server| parsed(text, server).expect_err(text).line;
        assert_eq!(line("/a\n/b c\n", Some("http://127.0.0.1:1/")), Some(2));
        assert_eq!(line("http://127.0.0.1:1/a\n\n/b\n", None), Some(3), "a path of no server");
        assert_eq!(line("\n# nothing\n", None), None);
    }
}
