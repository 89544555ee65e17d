//! What has left the cache and is still being sent. It counts against the budgets until the last request for it ends.

use std::{
    os::fd::OwnedFd,
    sync::{Mutex, MutexGuard, PoisonError, Weak},
};

use proto::CachedPipe;
use service::Reservation;

/// Reserved for something that leaves the cache.
pub(crate) type Held = Vec<Reservation>;

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Zombies(Mutex<Vec<Zombie>>);

#[derive(Debug)]
struct Zombie {
    life: Life,
    /// Given back with the zombie.
    _held: Held,
}

/// What responses in flight own: a file's descriptor, which mappings and pipes of it own as well, or one pipe.
#[derive(Debug)]
pub(crate) enum Life {
    File(Weak<OwnedFd>),
    Pipe(Weak<CachedPipe>),
}

impl Life {
    fn is_over(&self) -> bool {
        match self {
            Self::File(file) => file.strong_count() == 0,
            Self::Pipe(pipe) => pipe.strong_count() == 0,
        }
    }
}

impl Zombies {
    fn all(&self) -> MutexGuard<'_, Vec<Zombie>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, life: Life, held: Held) {
        self.all().push(Zombie { life, _held: held });
    }

    /// Buries those whose last request has ended; returns how many there were.
    pub(crate) fn bury(&self) -> usize {
        let mut all = self.all();
        let before = all.len();
        all.retain(|zombie| !zombie.life.is_over());
        before - all.len()
    }

    /// Those that are still being sent.
    pub(crate) fn count(&self) -> usize {
        self.bury();
        self.all().len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use service::Budget;

    use super::*;

    #[test]
    fn a_budget_is_free_again_after_the_last_request_and_not_before() {
        let (budget, zombies) = (Budget::new(10), Zombies::default());
        let file = Arc::new(OwnedFd::from(tempfile::tempfile().unwrap()));
        zombies.add(Life::File(Arc::downgrade(&file)), vec![budget.reserve(7).unwrap()]);
        let in_flight = Arc::clone(&file);
        drop(file);
        assert_eq!((zombies.bury(), zombies.count(), budget.used()), (0, 1, 7));
        drop(in_flight);
        assert_eq!((zombies.bury(), zombies.count(), budget.used()), (1, 0, 0));
    }
}
