use report::{markdown, version_number};
use results::{Outcome, Report, SCHEMA};

use crate::samples;

#[test]
fn a_row_per_server_and_none_for_the_control() {
    let text = markdown(&Report { schema: SCHEMA.to_owned(), matrices: vec![samples::summary()] });
    let row = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    assert_eq!(
        row("| `http-server/epoll`"),
        "| `http-server/epoll` | **4.00\u{a0}µs**<br>[4.00,\u{a0}4.00]<br>250\u{a0}k/s | **4.00\u{a0}µs**<br>[4.00,\u{a0}4.00] |"
    );
    assert!(row("| *nginx/sendfile-on").starts_with("| *nginx/sendfile-on 7.0.15* |"));
    assert!(!text.contains("control"));
    assert!(text.contains("| 50.0 |") && text.contains("Noise floor"));
}

#[test]
fn a_rate_of_any_size_keeps_its_digits() {
    let mut summary = samples::summary();
    for result in &mut summary.results {
        if let Outcome::Measured(figures) = &mut result.outcome {
            figures.throughput_rps.median = 2.345;
        }
    }
    let text = markdown(&Report { schema: SCHEMA.to_owned(), matrices: vec![summary] });
    assert!(text.contains("<br>2.35/s") && !text.contains("<br>0"), "{text}");
}

#[test]
fn nothing_is_said_of_memory_where_nothing_was_stored() {
    let mut summary = samples::summary();
    summary.results.clear();
    let text = markdown(&Report { schema: SCHEMA.to_owned(), matrices: vec![summary] });
    assert!(!text.contains("Resident bytes"), "{text}");
}

#[test]
fn versions_are_numbers() {
    for (line, number) in
        [("memcached 1.6.18", "1.6.18"), ("nginx/1.22.1", "1.22.1"), ("lighttpd/1.4.69 (ssl)", "1.4.69")]
    {
        assert_eq!(version_number(line), Some(number));
    }
    assert_eq!(version_number("unknown"), None);
}
