//! Verdicts on credentials, so that the slow hash is paid for once and not by each request.

use std::{
    collections::{HashSet, VecDeque},
    hash::{BuildHasher, RandomState},
};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

/// Number of verdicts of each kind that are remembered. Those against somebody have room of their own: a client that tries
/// passwords cannot push the good ones out.
const VERDICTS_MAX: usize = 1024;

/// Credentials as they are remembered: a digest under a key that nobody knows. So neither memory nor the time of a lookup
/// gives anything away.
pub(super) type Fingerprint = [u8; 32];

/// Verdicts on credentials.
pub(super) struct Verdicts {
    key: [u8; 32],
    granted: Mutex<Remembered>,
    denied: Mutex<Remembered>,
}

/// The latest of many.
#[derive(Default)]
struct Remembered {
    all: HashSet<Fingerprint>,
    by_age: VecDeque<Fingerprint>,
}

impl Verdicts {
    pub(super) fn new() -> Self {
        // Its own keys are random.
        let (random, mut key) = (RandomState::new(), [0; 32]);
        for (number, part) in key.chunks_exact_mut(8).enumerate() {
            part.copy_from_slice(&random.hash_one(number).to_le_bytes());
        }
        Self { key, granted: Mutex::default(), denied: Mutex::default() }
    }

    /// Returns what credentials are remembered by. Both parts count: no other pair has the same.
    pub(super) fn fingerprint(&self, user: &[u8], password: &[u8]) -> Fingerprint {
        let mut digest = Sha256::new_with_prefix(self.key);
        digest.update((user.len() as u64).to_le_bytes());
        digest.update(user);
        digest.update(password);
        digest.finalize().into()
    }

    /// Returns what is known about credentials.
    pub(super) fn get(&self, fingerprint: &Fingerprint) -> Option<bool> {
        if self.granted.lock().all.contains(fingerprint) {
            return Some(true);
        }
        self.denied.lock().all.contains(fingerprint).then_some(false)
    }

    pub(super) fn insert(&self, fingerprint: Fingerprint, is_granted: bool) {
        let remembered = if is_granted { &self.granted } else { &self.denied };
        remembered.lock().insert(fingerprint);
    }
}

impl Remembered {
    fn insert(&mut self, fingerprint: Fingerprint) {
        if !self.all.insert(fingerprint) {
            return;
        }
        self.by_age.push_back(fingerprint);
        if self.by_age.len() > VERDICTS_MAX
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.all.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_passwords_do_not_push_good_ones_out() {
        let verdicts = Verdicts::new();
        let good = verdicts.fingerprint(b"ada", b"secret");
        verdicts.insert(good, true);
        let wrong = |number: usize| verdicts.fingerprint(b"ada", &number.to_le_bytes());
        for number in 0..=VERDICTS_MAX {
            verdicts.insert(wrong(number), false);
            verdicts.insert(wrong(number), false);
        }
        assert_eq!(verdicts.get(&good), Some(true));
        assert_eq!((verdicts.get(&wrong(0)), verdicts.get(&wrong(1))), (None, Some(false)), "the oldest leaves");
        assert_eq!(verdicts.denied.lock().all.len(), VERDICTS_MAX);
    }

    #[test]
    fn only_the_same_pair_has_the_same_fingerprint() {
        let (verdicts, other) = (Verdicts::new(), Verdicts::new());
        let fingerprint = verdicts.fingerprint(b"ab", b"c");
        assert_eq!(fingerprint, verdicts.fingerprint(b"ab", b"c"));
        assert_ne!(fingerprint, verdicts.fingerprint(b"a", b"bc"));
        assert_ne!(fingerprint, other.fingerprint(b"ab", b"c"));
    }
}
