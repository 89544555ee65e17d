//! The entries that have been evicted lately.

/// Fingerprints per bucket. A bucket is a queue of its own; with this many, all buckets drop fingerprints at about the same
/// age.
const WAYS: usize = 16;

type Bucket = [u16; WAYS];

/// The latest hashes, about as many as it was made for, at 2 bytes each. One in 4096 hashes that it has never seen is a
/// false positive.
#[derive(Debug, Default)]
pub(super) struct Ghost {
    /// Fingerprints, the latest first; 0: none.
    buckets: Vec<Bucket>,
}

impl Ghost {
    pub(super) const BUCKET_BYTES: usize = size_of::<Bucket>();

    /// Makes room for this number of hashes, and drops all, if there is too little room or far too much.
    pub(super) fn fit(&mut self, hashes: usize) {
        let (wanted, have) = (hashes.div_ceil(WAYS), self.buckets.len());
        if wanted > have || wanted < have / 4 {
            self.buckets = vec![[0; WAYS]; Self::buckets(hashes)];
        }
    }

    /// Returns the number of buckets: a quarter more than needed, so that they are not made anew too often.
    fn buckets(hashes: usize) -> usize {
        hashes.div_ceil(WAYS) + hashes.div_ceil(WAYS * 4)
    }

    #[inline]
    fn split(&self, hash: u64) -> (usize, u16) {
        let bucket = ((hash >> 32) * self.buckets.len() as u64) >> 32;
        (bucket as usize, (hash as u16).max(1))
    }

    pub(super) fn remember(&mut self, hash: u64) {
        let (bucket, fingerprint) = self.split(hash);
        if let Some(bucket) = self.buckets.get_mut(bucket) {
            bucket.copy_within(..WAYS - 1, 1);
            bucket[0] = fingerprint;
        }
    }

    /// Removes a hash. False: it was not remembered.
    pub(super) fn take(&mut self, hash: u64) -> bool {
        let (bucket, fingerprint) = self.split(hash);
        let Some(bucket) = self.buckets.get_mut(bucket) else { return false };
        let Some(at) = bucket.iter().position(|&other| other == fingerprint) else { return false };
        bucket.copy_within(at + 1.., at);
        bucket[WAYS - 1] = 0;
        true
    }

    /// Returns the memory held, or that will be held after [`Ghost::fit`] for this number of hashes.
    pub(super) fn bytes(&self, hashes: usize) -> usize {
        self.buckets.len().max(Self::buckets(hashes)) * Self::BUCKET_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_hashes_are_remembered_once() {
        let mut random = fastrand::Rng::with_seed(1);
        let hashes: Vec<u64> = (0..40_000).map(|_| random.u64(..)).collect();
        let mut ghost = Ghost::default();
        assert!(!ghost.take(1) && ghost.bytes(0) == 0);
        let announced = ghost.bytes(10_000);
        ghost.fit(10_000);
        assert!(ghost.bytes(0) == announced && announced < 10_000 * 3);
        hashes.iter().for_each(|&hash| ghost.remember(hash));
        let known = |ghost: &mut Ghost, of: &[u64]| of.iter().filter(|&&hash| ghost.take(hash)).count();
        assert!(known(&mut ghost, &hashes[35_000..]) > 4_900);
        assert!(known(&mut ghost, &hashes[35_000..]) < 20);
        assert!(known(&mut ghost, &hashes[..20_000]) < 200);
    }
}
