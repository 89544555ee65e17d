//! Collection of the requests that clients keep for the log.

use std::sync::Arc;

use parking_lot::Mutex;

use super::load::MqLoad;
use crate::{
    clock::Nanos,
    request_log::{KeptRequests, LogBuilder, LogNames, RequestLog},
};

/// Log that is shared by all threads that read reports of clients.
#[derive(Clone, Debug)]
pub(super) struct Log(Arc<Mutex<LogBuilder>>);

impl Log {
    /// Makes a log, if the load asks for one.
    pub(super) fn of(plan: &MqLoad) -> Option<Self> {
        plan.request_log.map(|size| Self(Arc::new(Mutex::new(LogBuilder::new(size)))))
    }

    /// Adds the requests that a client has kept, or a part of them.
    pub(super) fn add(&self, client: usize, kept: KeptRequests) {
        self.0.lock().add(client, kept);
    }

    /// Takes the log, of a window that was opened at `opened`.
    pub(super) fn read(&self, plan: &MqLoad, opened: Nanos) -> RequestLog {
        let mut builder = self.0.lock();
        std::mem::replace(&mut *builder, LogBuilder::new(0)).read(opened, plan)
    }
}

/// Names of clients and files. Clients have no connections; the client's number stands in their place.
impl LogNames for MqLoad {
    fn connection(&self, client: usize, _: usize) -> u64 {
        client as u64
    }

    fn operation(&self, _: usize, file: u32) -> Arc<str> {
        self.files[file as usize].path.as_str().into()
    }
}
