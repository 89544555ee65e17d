//! Limits of a page's size in bytes; those of its height are in the browser's tests.

use super::{page, render};
use crate::sample;

/// For each server of a page.
const BYTES_MAX: usize = 420_000;

#[test]
fn a_server_takes_at_most_420_kb() {
    for (name, summary) in [("usual", sample::summary()), ("large", sample::large()), ("crossed", sample::crossed())] {
        let bytes = render(&summary).len();
        assert!(bytes <= BYTES_MAX, "{name}: {bytes} bytes");
    }
    let five = sample::five();
    let (bytes, servers) = (page(five.clone()).len(), five.len());
    assert!(bytes <= BYTES_MAX * servers, "{servers} servers: {bytes} bytes");
}
