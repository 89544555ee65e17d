//! Laws of a page that anyone may open: it loads nothing, and names in the data stay text.

use super::{Outcome, all_text, by_id, elements, parse, render};
use crate::sample;

#[test]
fn the_report_loads_nothing() {
    let html = render(&sample::summary());
    for word in ["http:", "https:", "@import", "url(//", "src="] {
        assert!(!html.contains(word), "{word} in the report");
    }
    let document = parse(&html);
    assert_eq!(elements(&document, "link").count() + elements(&document, "img").count(), 0);
    assert!(all_text(document.root_element()).contains("http://ADDR/file"), "the commands can still be copied");
}

#[test]
fn hostile_names_stay_text() {
    let hostile = "</script><script>alert('x')</script> & \"quoted\" ]]> \u{1}\u{ffff} @import http://x/";
    let mut summary = sample::summary();
    let last = summary.setup.cells.len() - 2;
    summary.setup.cells[last].label = hostile.to_owned();
    summary.setup.cells[last].server = hostile.to_owned();
    summary.setup.cells[0].command = hostile.to_owned();
    summary.setup.host.cpu_model = hostile.to_owned();
    summary.warnings.push(hostile.to_owned());
    summary.setup.notes.push(hostile.to_owned());
    for result in &mut summary.results {
        if let Outcome::NotRun { reason } = &mut result.outcome {
            *reason = hostile.to_owned();
        }
    }
    let old = std::mem::replace(&mut summary.setup.workloads[0].name, hostile.to_owned());
    summary.results.iter_mut().filter(|r| r.workload == old).for_each(|r| r.workload = hostile.to_owned());
    let html = render(&summary);
    let document = parse(&html);
    let scripts: Vec<_> = elements(&document, "script").collect();
    assert_eq!(scripts.len(), 2, "the data and the script, nothing else");
    assert!(!html.contains("<script>alert") && !html.contains("http:") && !html.contains("@import"));
    let data: serde_json::Value = serde_json::from_str(scripts[0].text().unwrap()).unwrap();
    assert_eq!(data["matrices"][0]["workloads"][0], hostile, "the data keep the name as it is");
    let table = by_id(&document, "raw").unwrap();
    assert!(
        all_text(table).contains("<script>alert('x')</script> & \"quoted\" ]]> \u{fffd}\u{fffd} @import http://x/")
    );
}
