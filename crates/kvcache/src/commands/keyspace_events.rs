//! Keyspace notifications of commands. Those of expiry and eviction come from the store.

use store::Store;

use super::call::Call;
use crate::state::EventClass;

impl<S: Store> Call<'_, '_, S> {
    /// Publishes that a command has changed a key of the selected database, if somebody wants to know. Every command that
    /// changes a key calls this after it has, with the name that Redis gives to the event.
    #[inline]
    pub(crate) fn notify(&self, class: EventClass, event: &'static str, key: &[u8]) {
        self.notify_in(self.keys.database, class, event, key);
    }

    /// The same for a key of any database.
    #[inline]
    pub(crate) fn notify_in(&self, database: u8, class: EventClass, event: &'static str, key: &[u8]) {
        if self.state.notifications.is_on() {
            self.state.notifications.publish(class, database, event, key);
        }
    }
}
