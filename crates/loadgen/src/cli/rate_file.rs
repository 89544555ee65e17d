//! `--rate-file`: a rate that changes as the run goes on.

use std::path::Path;

use anyhow::Context as _;
use loadgen::engine::{Phase, RateProfile, Shape};

use super::{
    Failure,
    values::{positive_duration, rate},
};

/// Word that a sine begins with.
const SINE: &str = "sine";

/// Reads the profile in a file.
pub(super) fn read(path: &Path) -> Result<RateProfile, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("--rate-file: cannot read {shown}"))?;
    parse(&text).map_err(|problem| Failure::usage(format_args!("--rate-file: {shown}{problem}")))
}

fn parse(text: &str) -> Result<RateProfile, String> {
    let mut phases = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<_> = line.split_whitespace().collect();
        if !words.is_empty() {
            phases.push(phase(&words).map_err(|why| format!(", line {}: {why}", index + 1))?);
        }
    }
    let profile = RateProfile::new(phases);
    // One that falls due at the very end does not count.
    if profile.requests() < 1.0 {
        return Err(": no request falls due in it".to_owned());
    }
    Ok(profile)
}

fn phase(words: &[&str]) -> Result<Phase, String> {
    let problem = || {
        "not a phase like `10s 1000` (a step), `30s 1000..5000` (a ramp) or `60s sine 1000..3000 20s` (with the period)"
            .to_owned()
    };
    let seconds = |text| positive_duration(text).map(|duration| duration.as_secs_f64());
    let (shape, time) = match *words {
        [time, SINE, range, period] => {
            let (low, high) = rates(range)?;
            if low > high {
                return Err(format!("{range}: the lower rate of a sine comes first"));
            }
            (Shape::Sine { low, high, period_s: seconds(period)? }, time)
        }
        [time, range] => {
            let (from, to) = rates(range)?;
            (Shape::Linear { from, to }, time)
        }
        _ => return Err(problem()),
    };
    Ok(Phase { seconds: seconds(time).map_err(|why| format!("{time}: {why}"))?, shape })
}

/// Parses `1000` or `1000..5000`.
fn rates(text: &str) -> Result<(f64, f64), String> {
    // A pause has the rate 0, which is otherwise none.
    let one = |text: &str| if text == "0" { Ok(0.0) } else { rate(text).map_err(|why| format!("{text}: {why}")) };
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    Ok((one(from)?, one(to)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_steps_ramps_sines_and_pauses() {
        let text = "# a day in short\n2s 1k\n\n500ms 0   # nobody\n4s 1000..3k\n4s sine 1000..2000 2s\n";
        let profile = parse(text).expect("a profile");
        let phases: Vec<_> = profile.phases().iter().map(ToString::to_string).collect();
        assert_eq!(phases, ["2s 1000", "0.5s 0", "4s 1000..3000", "4s sine 1000..2000 2s"]);
        assert!((profile.requests() - (2_000.0 + 8_000.0 + 6_000.0)).abs() < 1e-6);
        assert!((profile.seconds() - 10.5).abs() < 1e-9);
        assert_eq!(parse(&phases.join("\n")), Ok(profile));
    }

    #[test]
    fn what_is_no_phase_is_named_with_its_line() {
        for (text, problem) in [
            ("1s 5\nx", ", line 2: not a phase"),
            ("1s", ", line 1: not a phase"),
            ("0s 5", ", line 1: 0s: too short"),
            ("1s -5", ", line 1: -5: not a rate"),
            ("1s 1..x", ", line 1: x: not a rate"),
            ("1s sine 2..1 1s", ", line 1: 2..1: the lower rate"),
            ("1s sine 1..2", ", line 1: not a phase"),
            ("1s 1 repeat", ", line 1: not a phase"),
            ("", ": no request"),
            ("5s 0", ": no request"),
        ] {
            let found = parse(text).expect_err(text);
            assert!(found.starts_with(problem), "{text}: {found}");
        }
    }
}
