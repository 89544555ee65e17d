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

    /// Publishes that a command has removed parts of the collection under a key, and `del` if it has removed the last one.
    #[inline]
    pub(crate) fn notify_removal(&mut self, class: EventClass, event: &'static str, key: &[u8]) {
        if self.state.notifications.is_on() {
            self.notify(class, event, key);
            if !self.keys.item(key).exists() {
                self.notify(EventClass::Generic, "del", key);
            }
        }
    }

    /// Publishes the event of a command that has stored its result under argument 1: `del` if the result is empty.
    pub(crate) fn notify_stored(&self, class: EventClass, event: &'static str, had_key: bool, len: usize) {
        match (len, had_key) {
            (0, false) => {}
            (0, true) => self.notify(EventClass::Generic, "del", self.args[1]),
            _ => self.notify(class, event, self.args[1]),
        }
    }

    /// The same for a key of any database.
    #[inline]
    pub(crate) fn notify_in(&self, database: u8, class: EventClass, event: &'static str, key: &[u8]) {
        if self.state.notifications.is_on() {
            self.state.notifications.publish(class, database, event, key);
        }
    }
}
