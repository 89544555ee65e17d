//! What can be changed while the server runs.

use std::sync::{Arc, PoisonError, RwLock};

/// Settings that commands read and CONFIG SET writes.
#[derive(Debug, Default)]
pub struct Settings {
    password: RwLock<Option<Arc<str>>>,
}

impl Settings {
    pub fn new(password: Option<&str>) -> Self {
        Self { password: RwLock::new(password.filter(|password| !password.is_empty()).map(Arc::from)) }
    }

    /// What AUTH asks for.
    pub fn password(&self) -> Option<Arc<str>> {
        self.password.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
