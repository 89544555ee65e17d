//! Queries of the dashboards and alerts in `deploy`, held against the metrics that a server really has.

use std::{collections::HashMap, fs, path::Path};

use anyhow::{Context, ensure};
use serde_json::Value;

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");
/// Labels that Prometheus adds.
const TARGET_LABELS: [&str; 2] = ["instance", "job"];

/// Labels of one series, with their values.
type Labels<'t> = HashMap<&'t str, &'t str>;
/// Series of each metric.
type Metrics<'t> = HashMap<&'t str, Vec<Labels<'t>>>;

/// Checks that the queries of a server's dashboard, and of all alerts about it, name metrics, labels and values of labels that are
/// in `page`, what the server has at /metrics.
///
/// # Errors
/// One of them is not there; the dashboard has no queries, or one about something else.
pub fn check_queries(server: &str, page: &str) -> anyhow::Result<()> {
    let metrics = parse_page(page);
    let prefix = format!("{}_", server.replace('-', "_"));
    let path = Path::new(DEPLOY).join(format!("grafana/{server}.json"));
    let dashboard = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let dashboard: Value = serde_json::from_str(&dashboard).with_context(|| path.display().to_string())?;
    let panels = dashboard["panels"].as_array().context("a dashboard has panels")?;
    for panel in panels {
        let targets = panel["targets"].as_array().filter(|targets| !targets.is_empty());
        for target in targets.with_context(|| format!("{}: no query", panel["title"]))? {
            let query = target["expr"].as_str().context("a target has a query")?;
            let found = check_query(&prefix, query, &metrics).with_context(|| query.to_owned())?;
            ensure!(found > 0, "{query}: no metric of {server}");
        }
    }
    let path = Path::new(DEPLOY).join("prometheus/rules.yaml");
    let rules = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    for line in rules.lines() {
        check_query(&prefix, line, &metrics).with_context(|| line.to_owned())?;
    }
    Ok(())
}

/// Checks one query, and returns the number of metrics with this prefix in it.
fn check_query(prefix: &str, query: &str, metrics: &Metrics<'_>) -> anyhow::Result<usize> {
    let mut labels_of_query: Vec<&str> = Vec::new();
    let (mut found, mut rest) = (0, query);
    while let Some(at) = rest.find(prefix) {
        let is_begin = !rest[..at].ends_with(is_name);
        let name_len = rest[at..].find(|letter| !is_name(letter)).unwrap_or(rest.len() - at);
        let (name, behind) = rest[at..].split_at(name_len);
        rest = behind;
        if !is_begin {
            continue;
        }
        let series = metrics.get(name).with_context(|| format!("there is no metric {name}"))?;
        labels_of_query.extend(series.iter().flat_map(HashMap::keys));
        if let Some(matchers) = behind.strip_prefix('{').and_then(|behind| behind.split_once('}')) {
            for matcher in matchers.0.split(',') {
                check_matcher(matcher, series).with_context(|| name.to_owned())?;
            }
        }
        found += 1;
    }
    if found > 0 {
        for labels in query.split("by (").skip(1).filter_map(|behind| behind.split(')').next()) {
            for label in labels.split(',').map(str::trim).filter(|label| !TARGET_LABELS.contains(label)) {
                ensure!(labels_of_query.contains(&label), "no series has a label {label}");
            }
        }
    }
    Ok(found)
}

/// Checks that there are series with the label of a matcher, and with each of the values that it names.
fn check_matcher(matcher: &str, series: &[Labels<'_>]) -> anyhow::Result<()> {
    let (label, value) = matcher.split_once(['=', '!']).with_context(|| format!("{matcher} is no matcher"))?;
    if TARGET_LABELS.contains(&label) {
        return Ok(());
    }
    let values: Vec<_> = series.iter().filter_map(|labels| labels.get(label)).collect();
    ensure!(!values.is_empty(), "no series has a label {label}");
    for wanted in value.trim_start_matches(['=', '~']).trim_matches('"').split('|') {
        ensure!(values.iter().any(|value| **value == wanted), "{label} is never {wanted}");
    }
    Ok(())
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Parses a page of metrics in Prometheus's text format. No value of our labels has a quote or a comma in it.
fn parse_page(page: &str) -> Metrics<'_> {
    let mut metrics = Metrics::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, _)) = line.rsplit_once(' ') else { continue };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let pairs = labels.trim_end_matches('}').split(',').filter_map(|pair| pair.split_once('='));
        let labels = pairs.map(|(label, value)| (label, value.trim_matches('"'))).collect();
        metrics.entry(name).or_default().push(labels);
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# TYPE s_requests counter\ns_requests_total{class=\"2xx\"} 1\ns_requests_total{class=\"5xx\"} 0\ns_open 1\n";

    #[test]
    fn a_query_names_metrics_and_labels_that_are_there() {
        let check = |query| check_query("s_", query, &parse_page(PAGE));
        for (query, metrics) in [
            ("sum by (class) (rate(s_requests_total{instance=~\"$i\",class=\"5xx\"}[5m])) / sum(s_open)", 2),
            ("s_requests_total{class=~\"2xx|5xx\"}", 1),
            ("s_requests_total{class!~\"2xx|5xx\"} + s_requests_total{class!=\"2xx\"}", 2),
            ("others_open / up", 0),
        ] {
            assert_eq!(check(query).unwrap(), metrics, "{query}");
        }
        for query in [
            "s_requests",
            "s_requests_total{status=\"5xx\"}",
            "s_requests_total{class=\"4xx\"}",
            "s_requests_total{class!~\"2xx|4xx\"}",
            "sum by (status) (s_requests_total)",
            "sum by (class) (s_open)",
        ] {
            assert!(check(query).is_err(), "{query}");
        }
    }
}
