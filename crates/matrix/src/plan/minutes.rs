//! Times as people read them.

/// Returns seconds as `45 s` or `3 min 05 s`.
pub(crate) fn minutes(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    if whole < 60 { format!("{whole} s") } else { format!("{} min {:02} s", whole / 60, whole % 60) }
}
