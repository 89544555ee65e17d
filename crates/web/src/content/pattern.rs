//! Patterns of paths, and targets that are made from what they match.

use std::{fmt, str::FromStr};

/// Number of choices that the braces of one pattern may amount to.
const CHOICES_MAX: usize = 64;

/// Pattern of decoded paths: `*` matches any characters, slashes included, and `{a,b}` one of several words. A pattern that
/// begins with neither `/` nor `*` is one of file names, in any directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: Box<str>,
    choices: Box<[Choice]>,
}

/// Pattern without braces: the literals between its stars.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Choice(Box<[Box<str>]>);

impl Pattern {
    /// Returns what the stars stand for in a path that matches; each as little as possible, from the left.
    pub fn captures<'a>(&self, path: &'a [u8]) -> Option<Vec<&'a [u8]>> {
        self.choices.iter().find_map(|choice| choice.captures(path))
    }

    pub fn matches(&self, path: &[u8]) -> bool {
        self.captures(path).is_some()
    }

    /// Number of stars.
    pub(super) fn stars(&self) -> usize {
        // Braces contain none.
        self.choices.first().map_or(0, |choice| choice.0.len() - 1)
    }
}

impl Choice {
    fn captures<'a>(&self, path: &'a [u8]) -> Option<Vec<&'a [u8]>> {
        let (first, others) = self.0.split_first()?;
        let mut rest = path.strip_prefix(first.as_bytes())?;
        let Some((last, middle)) = others.split_last() else { return rest.is_empty().then(Vec::new) };
        let mut captures = Vec::with_capacity(others.len());
        for literal in middle {
            let at = memchr::memmem::find(rest, literal.as_bytes())?;
            captures.push(&rest[..at]);
            rest = &rest[at + literal.len()..];
        }
        captures.push(rest.strip_suffix(last.as_bytes())?);
        Some(captures)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("a pattern is missing, such as /assets/* or *.css".to_owned());
        }
        if let Some(odd) = text.chars().find(|odd| matches!(odd, '?' | '[' | ']' | '\\' | '#') || odd.is_control()) {
            let allowed = "a pattern of paths has * for any characters and {a,b} for one of several";
            return Err(format!("unexpected {odd:?} in {text:?}: {allowed}"));
        }
        let prefix = if text.starts_with(['/', '*', '{']) { "" } else { "*/" };
        let mut choices = Vec::new();
        expand(String::from(prefix), text, &mut choices)?;
        Ok(Self { text: text.into(), choices: choices.iter().map(|choice| Choice::new(choice)).collect() })
    }
}

impl Choice {
    fn new(text: &str) -> Self {
        let mut text = text.to_owned();
        while text.contains("**") {
            text = text.replace("**", "*");
        }
        Self(text.split('*').map(Into::into).collect())
    }
}

/// Writes out the braces of `rest`, which stands behind `begun`.
fn expand(begun: String, rest: &str, choices: &mut Vec<String>) -> Result<(), String> {
    let Some(at) = rest.find(['{', '}']) else {
        if choices.len() == CHOICES_MAX {
            return Err(format!("the braces amount to more than {CHOICES_MAX} patterns"));
        }
        choices.push(begun + rest);
        return Ok(());
    };
    let inside = rest[at..].strip_prefix('{').and_then(|behind| behind.split_once('}'));
    match inside {
        Some((words, behind)) if !words.contains(['{', '*']) => {
            words.split(',').try_for_each(|word| expand(begun.clone() + &rest[..at] + word, behind, choices))
        }
        _ => Err(format!("braces have to be closed, and hold words such as {{css,js}}: {rest:?}")),
    }
}

/// Text with `$1`, `$2`, … for what the stars of a pattern stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(Box<[Piece]>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Box<str>),
    /// Index of a star, from 0.
    Capture(usize),
}

impl Template {
    /// Parses the text of a target for a pattern.
    pub(super) fn parse(text: &str, pattern: &Pattern) -> Result<Self, String> {
        let mut parts = text.split('$');
        let mut pieces = vec![Piece::Text(parts.next().unwrap_or_default().into())];
        for part in parts {
            let number = part.chars().next().and_then(|digit| digit.to_digit(10)).unwrap_or(0) as usize;
            if !(1..=pattern.stars()).contains(&number) {
                let stars = pattern.stars();
                return Err(format!("${} in {text:?}: {pattern} has {stars} *", part.chars().next().unwrap_or(' ')));
            }
            pieces.push(Piece::Capture(number - 1));
            pieces.push(Piece::Text(part[1..].into()));
        }
        Ok(Self(pieces.into()))
    }

    /// Returns the text before the first capture.
    pub(super) fn literal_prefix(&self) -> &str {
        match self.0.first() {
            Some(Piece::Text(text)) => text,
            Some(Piece::Capture(_)) | None => "",
        }
    }

    /// Puts captures into the text, each written by `write`, which is told what stands before it.
    pub(super) fn fill(&self, captures: &[&[u8]], write: impl Fn(&[u8], &mut Vec<u8>)) -> Vec<u8> {
        let mut filled = Vec::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => filled.extend_from_slice(text.as_bytes()),
                Piece::Capture(index) => write(captures.get(*index).copied().unwrap_or_default(), &mut filled),
            }
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn captures(pattern: &str, path: &str) -> Option<Vec<String>> {
        let pattern: Pattern = pattern.parse().unwrap();
        let captures = pattern.captures(path.as_bytes())?;
        Some(captures.into_iter().map(|capture| String::from_utf8(capture.to_vec()).unwrap()).collect())
    }

    #[test]
    fn stars_and_braces_match_whole_paths() {
        for (pattern, path, stars) in [
            ("/a", "/a", Some(&[][..])),
            ("/a", "/a/", None),
            ("/a", "/b/a", None),
            ("/old/*", "/old/x/y", Some(&["x/y"])),
            ("/old/*", "/old/", Some(&[""])),
            ("/old/*", "/old", None),
            ("*.css", "/a/b.css", Some(&["/a/b"])),
            ("*.css", "/a/b.css.map", None),
            ("*.{css,js}", "/a.js", Some(&["/a"])),
            ("/{a,b}/*", "/b/c", Some(&["c"])),
            ("index.html", "/index.html", Some(&[""])),
            ("index.html", "/a/b/index.html", Some(&["/a/b"])),
            ("index.html", "/my-index.html", None),
            ("/a/*/b/*", "/a/1/b/2/b/3", Some(&["1", "2/b/3"])),
            ("/*/x*", "/a/x", Some(&["a", ""])),
            ("/**/x", "/a/b/x", Some(&["a/b"])),
            ("*", "/anything", Some(&["/anything"])),
            ("/aa*aa", "/aaa", None),
        ] {
            let want = stars.map(|stars| stars.iter().map(|&star| star.to_owned()).collect::<Vec<_>>());
            assert_eq!(captures(pattern, path), want, "{pattern} {path}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for bad in ["", "/a?b", "/[ab]", "/{a", "/a}", "/{a,{b,c}}", "/{a,*}", "/a\nb", "/a#b", "/\\*"] {
            assert!(bad.parse::<Pattern>().is_err(), "{bad:?}");
        }
        let many = "{a,b}".repeat(7);
        assert!(many.parse::<Pattern>().unwrap_err().contains("64"));
    }

    proptest! {
        /// Put into the pattern for its stars, the captures are the path again.
        #[test]
        fn captures_are_what_the_stars_stand_for(pattern in "/[ab/*]{0,8}", path in "/[ab/]{0,12}") {
            let parsed: Pattern = pattern.parse().unwrap();
            if let Some(captures) = parsed.captures(path.as_bytes()) {
                let literals = &parsed.choices[0].0;
                let mut again = literals[0].as_bytes().to_vec();
                for (capture, literal) in captures.iter().zip(&literals[1..]) {
                    again.extend_from_slice(capture);
                    again.extend_from_slice(literal.as_bytes());
                }
                prop_assert_eq!(again, path.as_bytes());
            }
        }
    }
}
