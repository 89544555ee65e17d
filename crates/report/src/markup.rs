//! Markup beside `maud`'s own: elements without content as XML wants them, and what no text of the page may hold.

use std::fmt::Write as _;

use maud::{Escaper, Markup, PreEscaped, html};

/// Appends ` name="value"` for each attribute.
pub(crate) fn push_attributes(out: &mut String, attributes: &[(&str, &str)]) {
    for (name, value) in attributes {
        out.push(' ');
        out.push_str(name);
        out.push_str("=\"");
        // Writing to a String cannot fail.
        let _ = Escaper::new(out).write_str(value);
        out.push('"');
    }
}

/// Writes `<name …/>`, for HTML and for XML alike; `maud` leaves out the slash.
pub(crate) fn empty_element(name: &str, attributes: &[(&str, &str)]) -> Markup {
    let mut out = format!("<{name}");
    push_attributes(&mut out, attributes);
    PreEscaped(out + "/>")
}

/// The bounds of an interval, in smaller type.
pub(crate) fn bounds(words: &str) -> Markup {
    html! { span.ci { (words) } }
}

/// `a; b; c`.
pub(crate) fn joined(parts: &[Markup], separator: &str) -> Markup {
    html! {
        @for (i, part) in parts.iter().enumerate() {
            @if i > 0 { (separator) }
            (part)
        }
    }
}

/// Replaces characters that XML forbids, and the colon of an address and the at sign by references: whoever searches the
/// file for something it loads must find nothing. Our own tags have none of them, so it is names in the data that change.
pub(crate) fn guarded(markup: &Markup) -> String {
    let mut out = String::with_capacity(markup.0.len());
    for c in markup.0.chars() {
        match c {
            '@' => out.push_str("&#64;"),
            ':' if out.ends_with("http") || out.ends_with("https") => out.push_str("&#58;"),
            '\n' | '\t' | '\r' => out.push(c),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_attributes_have_no_markup_and_no_address() {
        let hostile = "<a href=\"http://x\">&'\u{8}@import";
        let escaped = "&lt;a href=&quot;http&#58;//x&quot;&gt;&amp;'\u{fffd}&#64;import";
        let markup = html! { p title=(hostile) { (hostile) } (empty_element("line", &[("data-t", hostile)])) };
        let expected = format!("<p title=\"{escaped}\">{escaped}</p><line data-t=\"{escaped}\"/>");
        assert_eq!(guarded(&markup), expected);
    }
}
