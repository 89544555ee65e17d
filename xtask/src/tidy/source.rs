//! A Rust file, and what of it is code: comments and the insides of literals blanked, lines kept.

pub(super) struct SourceFile {
    pub(super) path: String,
    pub(super) text: String,
    /// `text` with comments and the contents of string and character literals replaced by spaces.
    pub(super) code: String,
}

impl SourceFile {
    pub(super) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), code: blank(text) }
    }

    /// The code before the tests, which by convention come last.
    pub(super) fn code_without_tests(&self) -> &str {
        let is_test_module = |at: &usize| {
            let rest = self.code[*at..].trim_start_matches("#[cfg(test)]").trim_start();
            rest.starts_with("mod ") && rest.find('{') < rest.find(';').or(Some(usize::MAX))
        };
        let tests = self.code.match_indices("#[cfg(test)]").map(|(at, _)| at).find(is_test_module);
        &self.code[..tests.unwrap_or(self.code.len())]
    }
}

/// State of a scan: the token under way.
enum State {
    Code,
    LineComment,
    /// Block comments nest.
    BlockComment(usize),
    String,
    /// `r##"`: the number of hashes that end it.
    RawString(usize),
}

fn blank(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut state = State::Code;
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let (taken, shown, then) = step(rest, next, &state, code.as_bytes().last().copied());
        let (token, tail) = rest.split_at(taken);
        if shown {
            code.push_str(token);
        } else {
            code.extend(token.chars().map(|character| if character == '\n' { '\n' } else { ' ' }));
        }
        rest = tail;
        state = then.unwrap_or(state);
    }
    code
}

/// The bytes of the next token, whether it is code, and the state after it if that changes.
fn step(rest: &str, next: char, state: &State, before: Option<u8>) -> (usize, bool, Option<State>) {
    match state {
        State::Code => step_in_code(rest, next, before),
        State::LineComment if next == '\n' => (1, true, Some(State::Code)),
        State::BlockComment(depth) if rest.starts_with("/*") => (2, false, Some(State::BlockComment(depth + 1))),
        State::BlockComment(1) if rest.starts_with("*/") => (2, false, Some(State::Code)),
        State::BlockComment(depth) if rest.starts_with("*/") => (2, false, Some(State::BlockComment(depth - 1))),
        State::String if next == '\\' => (1 + rest[1..].chars().next().map_or(0, char::len_utf8), false, None),
        State::String if next == '"' => (1, true, Some(State::Code)),
        State::RawString(hashes) if next == '"' && rest[1..].starts_with(&"#".repeat(*hashes)) => {
            (1 + hashes, true, Some(State::Code))
        }
        State::LineComment | State::BlockComment(_) | State::String | State::RawString(_) => {
            (next.len_utf8(), false, None)
        }
    }
}

fn step_in_code(rest: &str, next: char, before: Option<u8>) -> (usize, bool, Option<State>) {
    if rest.starts_with("//") {
        return (2, false, Some(State::LineComment));
    }
    if rest.starts_with("/*") {
        return (2, false, Some(State::BlockComment(1)));
    }
    let is_in_word = before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match next {
        '"' => (1, true, Some(State::String)),
        'r' | 'b' if !is_in_word => {
            let prefix = rest.len() - rest.trim_start_matches(['b', 'r']).len();
            let hashes = rest[prefix..].len() - rest[prefix..].trim_start_matches('#').len();
            let is_raw = rest[..prefix].ends_with('r') && rest[prefix + hashes..].starts_with('"');
            if is_raw { (prefix + hashes + 1, true, Some(State::RawString(hashes))) } else { (1, true, None) }
        }
        '\'' => (character_literal(rest).unwrap_or(1), true, None),
        other => (other.len_utf8(), true, None),
    }
}

/// The length of a character literal at the start of `rest`; `None` for a lifetime.
fn character_literal(rest: &str) -> Option<usize> {
    let inside = &rest[1..];
    let length = match inside.chars().next()? {
        '\\' => 1 + inside[1..].chars().next()?.len_utf8() + inside.get(2..)?.find('\'')?,
        other => other.len_utf8(),
    };
    inside.get(length..)?.starts_with('\'').then_some(length + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_not_code_and_lines_stay() {
        for (text, code) in [
            ("a // unsafe\nb", "a          \nb"),
            ("a /* x /* y */ z */ b", "a                   b"),
            (r#"f("uns\"afe") g"#, r#"f("        ") g"#),
            ("r#\"a \" b\"# c", "r#\"     \"# c"),
            ("'\"' d", "'\"' d"),
            ("'\\'' e", "'\\'' e"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("b\"x\" var \"y\"", "b\" \" var \" \""),
        ] {
            assert_eq!(blank(text), code, "{text}");
        }
    }

    #[test]
    fn tests_are_cut_off_at_their_inline_module() {
        let file = SourceFile::new("x.rs", "#[cfg(test)]\nmod samples;\nfn f() {}\n#[cfg(test)]\nmod tests {\n}\n");
        assert_eq!(file.code_without_tests(), "#[cfg(test)]\nmod samples;\nfn f() {}\n");
    }
}
