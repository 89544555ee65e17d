//! Parser of files in the form of `mime.types`.

use std::{collections::HashMap, str, sync::Arc};

use thiserror::Error;

/// Error in a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MimeProblem {
    #[error("not UTF-8")]
    NotText,
    #[error("{0:?} is not a media type")]
    NotAType(String),
    #[error("{0:?} is not an extension")]
    NotAnExtension(String),
    #[error("unexpected {0:?}")]
    Stray(String),
    #[error("a block or statement is not closed")]
    Unfinished,
}

/// Parses the text into media types by extension in lower case.
///
/// # Errors
/// The number of the first bad line, counted from 1, and what is wrong with it.
pub(super) fn parse(text: &[u8]) -> Result<HashMap<String, Arc<str>>, (usize, MimeProblem)> {
    let mut map = Map::default();
    let mut last = 0;
    for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        str::from_utf8(line)
            .map_err(|_| MimeProblem::NotText)
            .and_then(|line| map.line(line))
            .map_err(|it| (number, it))?;
        if map.is_between_statements() {
            last = number;
        }
    }
    if map.is_between_statements() { Ok(map.types) } else { Err((last + 1, MimeProblem::Unfinished)) }
}

#[derive(Default)]
struct Map {
    types: HashMap<String, Arc<str>>,
    /// Words of the statement so far.
    words: Vec<String>,
    /// True within `types { … }`.
    in_block: bool,
}

impl Map {
    fn is_between_statements(&self) -> bool {
        self.words.is_empty() && !self.in_block
    }

    fn line(&mut self, line: &str) -> Result<(), MimeProblem> {
        let code = line.split('#').next().unwrap_or_default();
        for piece in code.split_inclusive(['{', '}', ';']) {
            let end = piece.len() - usize::from(piece.ends_with(['{', '}', ';']));
            self.words.extend(piece[..end].split_whitespace().map(str::to_owned));
            self.mark(&piece[end..])?;
        }
        if self.in_block || self.words == ["types"] { Ok(()) } else { self.statement() }
    }

    fn mark(&mut self, mark: &str) -> Result<(), MimeProblem> {
        match mark {
            "" => {}
            ";" => self.statement()?,
            "{" if !self.in_block && self.words == ["types"] => {
                self.words.clear();
                self.in_block = true;
            }
            "}" if self.in_block && self.words.is_empty() => self.in_block = false,
            other => return Err(MimeProblem::Stray(other.to_owned())),
        }
        Ok(())
    }

    /// Takes the words so far as a type and its extensions, of which there may be none.
    fn statement(&mut self) -> Result<(), MimeProblem> {
        let mut words = self.words.drain(..);
        let Some(media_type) = words.next() else { return Ok(()) };
        if !is_media_type(&media_type) {
            return Err(MimeProblem::NotAType(media_type));
        }
        let media_type: Arc<str> = media_type.into();
        for word in words {
            if !is_token(&word) {
                return Err(MimeProblem::NotAnExtension(word));
            }
            self.types.insert(word.to_ascii_lowercase(), Arc::clone(&media_type));
        }
        Ok(())
    }
}

fn is_media_type(word: &str) -> bool {
    word.split_once('/').is_some_and(|(main, sub)| is_token(main) && is_token(sub))
}

/// True for a token (RFC 9110, section 5.6.2), whose characters occur in file names, too.
fn is_token(word: &str) -> bool {
    let is_in_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !word.is_empty() && word.bytes().all(is_in_token)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> Vec<(String, String)> {
        let map = parse(text.as_bytes()).unwrap();
        let mut pairs: Vec<_> = map.into_iter().map(|(extension, of)| (extension, of.to_string())).collect();
        pairs.sort_unstable();
        pairs
    }

    #[test]
    fn apache_and_nginx_forms_mean_the_same() {
        let apache = "# types\n\ntext/html\thtml htm shtml\r\napplication/none\nimage/svg+xml   svg SVGZ # pictures\n";
        let nginx =
            "types {\n  text/html html htm\n    shtml;\n application/none;\n# one\n image/svg+xml svg svgz; }\n";
        assert_eq!(shown(apache), shown(nginx));
        assert_eq!(shown("types\n{text/html html;image/svg+xml svg svgz;text/html htm shtml;}"), shown(apache));
        assert_eq!(shown("a/b x;\nc/d x"), [("x".to_owned(), "c/d".to_owned())]);
        assert_eq!(shown(""), []);
    }

    #[test]
    fn the_first_bad_line_is_found() {
        let text = |word: &str| word.to_owned();
        for (file, line, problem) in [
            ("text/html html\nhtml text/html", 2, MimeProblem::NotAType(text("html"))),
            ("text/ html", 1, MimeProblem::NotAType(text("text/"))),
            ("a/b/c x", 1, MimeProblem::NotAType(text("a/b/c"))),
            ("text/html html text/css css", 1, MimeProblem::NotAnExtension(text("text/css"))),
            ("types {\n text/html html\n text/css css;\n}", 3, MimeProblem::NotAnExtension(text("text/css"))),
            ("types {\n default_type a/b;\n}", 2, MimeProblem::NotAType(text("default_type"))),
            ("\n}", 2, MimeProblem::Stray(text("}"))),
            ("server {\n}", 1, MimeProblem::Stray(text("{"))),
            ("types {\n text/html html }", 2, MimeProblem::Stray(text("}"))),
            ("a/b x\ntypes {\n text/html html;\n", 2, MimeProblem::Unfinished),
            ("a/b x\ntypes", 2, MimeProblem::Unfinished),
        ] {
            assert_eq!(parse(file.as_bytes()), Err((line, problem)), "{file:?}");
        }
        assert_eq!(parse(b"a/b x\n\xff"), Err((2, MimeProblem::NotText)));
    }

    proptest! {
        #[test]
        fn no_file_panics(text in "([a/;{}# \n]|types|text/html){0,40}") {
            let lines = text.split('\n').count();
            if let Err((line, _)) = parse(text.as_bytes()) {
                prop_assert!((1..=lines).contains(&line), "{line} of {lines}");
            }
        }
    }
}
