//! Parts of a document that a program writes: from `<!-- NAME:begin -->` to `<!-- NAME:end -->`, each on a line of
//! its own.

use std::ops::Range;

use anyhow::{Context, Result, bail};

const OPEN: &str = "<!-- ";
const CLOSE: &str = " -->";

/// A part between two markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub name: String,
    /// Range of the bytes between the lines of the markers.
    pub content: Range<usize>,
}

/// Finds all parts, in order.
///
/// # Errors
/// A marker without its partner, one inside another part, or a name that occurs twice.
pub fn parts(text: &str) -> Result<Vec<Part>> {
    let mut parts: Vec<Part> = Vec::new();
    let mut open: Option<(&str, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        match (marker(line), open) {
            (Some((name, "begin")), None) => open = Some((name, end)),
            (Some((name, "begin")), Some((outer, _))) => bail!("`{name}` begins before `{outer}` has ended"),
            (Some((name, _)), Some((begun, start))) if name == begun => {
                if parts.iter().any(|part| part.name == name) {
                    bail!("`{name}` occurs twice");
                }
                parts.push(Part { name: name.to_owned(), content: start..at });
                open = None;
            }
            (Some((name, _)), _) => bail!("`{name}` ends without having begun"),
            (None, _) => {}
        }
        at = end;
    }
    match open {
        Some((name, _)) => bail!("`{name}` begins and does not end"),
        None => Ok(parts),
    }
}

/// Name and `begin` or `end` of a line that is a marker.
fn marker(line: &str) -> Option<(&str, &str)> {
    let inner = line.trim_end().strip_prefix(OPEN)?.strip_suffix(CLOSE)?;
    inner.rsplit_once(':').filter(|(_, end)| ["begin", "end"].contains(end))
}

/// Returns the text with another content of the part `name`.
///
/// # Errors
/// Those of [`parts`], or there is no such part.
pub fn replaced(text: &str, name: &str, content: &str) -> Result<String> {
    let parts = parts(text)?;
    let part = parts.iter().find(|part| part.name == name);
    let part = part.with_context(|| format!("there is no `{OPEN}{name}:begin{CLOSE}`"))?;
    let (before, after) = (&text[..part.content.start], &text[part.content.end..]);
    Ok(format!("{before}{}\n{after}", content.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# x\n<!-- a:begin -->\nold\n<!-- a:end -->\nbetween\n<!-- b:begin -->\n<!-- b:end -->\n";

    #[test]
    fn only_what_is_between_the_markers_changes_and_twice_is_once() {
        let once = replaced(TEXT, "a", "new\ntwo lines\n\n").unwrap();
        assert_eq!(once, TEXT.replace("old", "new\ntwo lines"));
        assert_eq!(replaced(&once, "a", "new\ntwo lines").unwrap(), once);
        let both = replaced(&once, "b", "first").unwrap();
        assert!(both.starts_with(once.split("<!-- b:begin").next().unwrap()) && both.contains("first\n<!-- b:end"));
    }

    #[test]
    fn markers_that_do_not_match_are_refused_with_their_name() {
        for (text, why) in [
            ("<!-- a:begin -->\n", "`a` begins and does not end"),
            ("<!-- a:end -->\n", "`a` ends without having begun"),
            ("<!-- a:begin -->\n<!-- b:begin -->\n<!-- b:end -->\n<!-- a:end -->\n", "`b` begins before `a` has ended"),
            ("<!-- a:begin -->\n<!-- b:end -->\n", "`b` ends"),
            ("<!-- a:begin -->\n<!-- a:end -->\n<!-- a:begin -->\n<!-- a:end -->\n", "`a` occurs twice"),
        ] {
            let error = parts(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(replaced(TEXT, "c", "x").unwrap_err().to_string().contains("c:begin"));
        assert_eq!(parts("no markers, <!-- only:a remark -->\n").unwrap(), []);
    }
}
