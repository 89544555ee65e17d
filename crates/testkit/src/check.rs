//! One check of many subjects, several of them at the same time.

use std::thread;

/// Runs `check` for all subjects, `parallel` of them at a time.
///
/// # Panics
/// A check failed. All subjects are checked first, and the message lists every failure; an error should name its subject.
pub fn check_each<T: Sync>(subjects: &[T], parallel: usize, check: impl Fn(&T) -> anyhow::Result<()> + Sync) {
    assert!(!subjects.is_empty(), "nothing to check");
    let mut failures = Vec::new();
    for subjects in subjects.chunks(parallel) {
        thread::scope(|scope| {
            let checks: Vec<_> = subjects.iter().map(|subject| scope.spawn(|| check(subject))).collect();
            for running in checks {
                match running.join() {
                    Ok(outcome) => failures.extend(outcome.err().map(|error| format!("{error:#}"))),
                    // The panic has printed its own message.
                    Err(_) => failures.push("a panic".to_owned()),
                }
            }
        });
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_subject_is_checked_and_every_failure_is_listed() {
        let checked = AtomicUsize::new(0);
        let outcome = std::panic::catch_unwind(|| {
            check_each(&[1, 2, 3, 4, 5], 2, |&number| {
                checked.fetch_add(1, Ordering::Relaxed);
                anyhow::ensure!(number % 2 == 1, "{number} is even");
                Ok(())
            });
        });
        let told = *outcome.unwrap_err().downcast::<String>().unwrap();
        assert_eq!((checked.into_inner(), &*told), (5, "2 is even\n4 is even"));
    }
}
