//! Files in the form of `mime.types`.

use std::{collections::HashMap, str, sync::Arc};

use thiserror::Error;

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    #[error("it is not UTF-8")]
    NotText,
    #[error("{0:?} is not a media type")]
    NotAType(String),
    #[error("{0:?} is not an extension")]
    NotAnExtension(String),
    #[error("{0:?} does not belong here")]
    Stray(String),
    #[error("the file ends before this has been closed")]
    Unfinished,
}

/// Media types by extension in lower case; or the number of the first bad line, from 1, and what is wrong with it.
pub(super) fn parse(text: &[u8]) -> Result<HashMap<String, Arc<str>>, (usize, Problem)> {
    let mut map = Map::default();
    let mut last = 0;
    for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        str::from_utf8(line)
            .map_err(|_| Problem::NotText)
            .and_then(|line| map.line(line))
            .map_err(|it| (number, it))?;
        if map.is_between() {
            last = number;
        }
    }
    if map.is_between() { Ok(map.types) } else { Err((last + 1, Problem::Unfinished)) }
}

#[derive(Default)]
struct Map {
    types: HashMap<String, Arc<str>>,
    /// Words of the statement that has not ended.
    words: Vec<String>,
    /// Within `types { … }`.
    in_block: bool,
}

impl Map {
    fn is_between(&self) -> bool {
        self.words.is_empty() && !self.in_block
    }

    fn line(&mut self, line: &str) -> Result<(), Problem> {
        let code = line.split('#').next().unwrap_or_default();
        for piece in code.split_inclusive(['{', '}', ';']) {
            let end = piece.len() - usize::from(piece.ends_with(['{', '}', ';']));
            self.words.extend(piece[..end].split_whitespace().map(str::to_owned));
            self.mark(&piece[end..])?;
        }
        if self.in_block || self.words == ["types"] { Ok(()) } else { self.statement() }
    }

    fn mark(&mut self, mark: &str) -> Result<(), Problem> {
        match mark {
            "" => {}
            ";" => self.statement()?,
            "{" if !self.in_block && self.words == ["types"] => {
                self.words.clear();
                self.in_block = true;
            }
            "}" if self.in_block && self.words.is_empty() => self.in_block = false,
            other => return Err(Problem::Stray(other.to_owned())),
        }
        Ok(())
    }

    /// A type and its extensions, of which there may be none.
    fn statement(&mut self) -> Result<(), Problem> {
        let mut words = self.words.drain(..);
        let Some(media_type) = words.next() else { return Ok(()) };
        if !is_media_type(&media_type) {
            return Err(Problem::NotAType(media_type));
        }
        let media_type: Arc<str> = media_type.into();
        for word in words {
            if !is_token(&word) {
                return Err(Problem::NotAnExtension(word));
            }
            self.types.insert(word.to_ascii_lowercase(), Arc::clone(&media_type));
        }
        Ok(())
    }
}

fn is_media_type(word: &str) -> bool {
    word.split_once('/').is_some_and(|(main, sub)| is_token(main) && is_token(sub))
}

/// The characters of a token (RFC 9110, section 5.6.2), which file names have, too.
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
    fn both_forms_say_the_same() {
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
            ("text/html html\nhtml text/html", 2, Problem::NotAType(text("html"))),
            ("text/ html", 1, Problem::NotAType(text("text/"))),
            ("a/b/c x", 1, Problem::NotAType(text("a/b/c"))),
            ("text/html html text/css css", 1, Problem::NotAnExtension(text("text/css"))),
            ("types {\n text/html html\n text/css css;\n}", 3, Problem::NotAnExtension(text("text/css"))),
            ("types {\n default_type a/b;\n}", 2, Problem::NotAType(text("default_type"))),
            ("\n}", 2, Problem::Stray(text("}"))),
            ("server {\n}", 1, Problem::Stray(text("{"))),
            ("types {\n text/html html }", 2, Problem::Stray(text("}"))),
            ("a/b x\ntypes {\n text/html html;\n", 2, Problem::Unfinished),
            ("a/b x\ntypes", 2, Problem::Unfinished),
        ] {
            assert_eq!(parse(file.as_bytes()), Err((line, problem)), "{file:?}");
        }
        assert_eq!(parse(b"a/b x\n\xff"), Err((2, Problem::NotText)));
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
