//! One law, put to many subjects at the same time.

use std::thread;

/// Puts `law` to all subjects, `at_once` of them at a time.
///
/// # Panics
/// With every breach, once all have been examined. An error should name its subject.
pub fn check_each<T: Sync>(subjects: &[T], at_once: usize, law: impl Fn(&T) -> anyhow::Result<()> + Sync) {
    assert!(!subjects.is_empty(), "nothing to examine");
    let mut breaches = Vec::new();
    for subjects in subjects.chunks(at_once) {
        thread::scope(|scope| {
            let examinations: Vec<_> = subjects.iter().map(|subject| scope.spawn(|| law(subject))).collect();
            for examination in examinations {
                match examination.join() {
                    Ok(outcome) => breaches.extend(outcome.err().map(|breach| format!("{breach:#}"))),
                    // An assertion in the law has spoken for itself.
                    Err(_) => breaches.push("a panic".to_owned()),
                }
            }
        });
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_subject_is_examined_and_every_breach_is_told() {
        let examined = AtomicUsize::new(0);
        let outcome = std::panic::catch_unwind(|| {
            check_each(&[1, 2, 3, 4, 5], 2, |&number| {
                examined.fetch_add(1, Ordering::Relaxed);
                anyhow::ensure!(number % 2 == 1, "{number} is even");
                Ok(())
            });
        });
        let told = *outcome.unwrap_err().downcast::<String>().unwrap();
        assert_eq!((examined.into_inner(), &*told), (5, "2 is even\n4 is even"));
    }
}
