//! `visits.html`: every line of `visits.jsonl` under its digest, where the links of the report lead.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::markup::{empty_element, guarded};

/// Name of the file, beside the report.
pub const VISITS_PAGE: &str = "visits.html";

const CSS: &str = "body{font:14px/1.5 system-ui,sans-serif;margin:24px;color-scheme:light dark}pre{white-space:pre-wrap;overflow-wrap:anywhere}\
:target{outline:2px solid;outline-offset:4px}h2{font-size:14px;margin:24px 0 4px;overflow-wrap:anywhere}";

/// Digits of a digest that name a place: twelve tell apart the visits of any run.
const ANCHOR_DIGITS: usize = 12;

/// Returns the name of a visit's place in the page.
pub(super) fn anchor(sha256: &str) -> &str {
    sha256.get(..ANCHOR_DIGITS).unwrap_or(sha256)
}

/// A line and what it is about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RawVisit {
    /// SHA-256 of the line, in hexadecimal digits.
    pub sha256: String,
    /// Cell, workload, block and attempt, in words.
    pub title: String,
    pub line: String,
}

/// Renders the page. It loads nothing, and needs no scripts.
pub fn visits_page(visits: &[RawVisit]) -> String {
    let body: Markup = html! {
        h1 { "Visits" }
        p {
            "Each is a line of visits.jsonl under the SHA-256 digest of its bytes, without the line\u{2019}s end: "
            code { "sed -n 1p visits.jsonl | tr -d \u{27}\\n\u{27} | sha256sum" }
        }
        @for visit in visits {
            section id=(anchor(&visit.sha256)) { h2 { (visit.title) ", " (visit.sha256) } pre { (visit.line) } }
            "\n"
        }
    };
    let page = html! {
        (DOCTYPE) "\n"
        html lang="en" {
            head {
                (empty_element("meta", &[("charset", "utf-8")]))
                (empty_element("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]))
                title { "Visits" }
                style { (PreEscaped(CSS)) }
            }
            body { (PreEscaped(guarded(&body))) }
        }
        "\n"
    };
    page.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stands_under_its_digest_as_text() {
        let line = "{\"note\":\"</pre><script>alert(1)</script> http://x/\"}";
        let visit = RawVisit { sha256: "ab12".repeat(16), title: "a & b".to_owned(), line: line.to_owned() };
        let html = visits_page(&[visit]);
        let document = roxmltree::Document::parse_with_options(
            &html,
            roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() },
        )
        .expect("well-formed");
        let section =
            document.descendants().find(|node| node.attribute("id") == Some("ab12ab12ab12")).expect("its place");
        let pre = section.descendants().find(|node| node.has_tag_name("pre")).expect("its line");
        assert_eq!(pre.text(), Some(line));
        assert!(html.contains(&"ab12".repeat(16)), "and its whole digest: {html}");
        assert!(!html.contains("<script") && !html.contains("http:"), "{html}");
    }
}
