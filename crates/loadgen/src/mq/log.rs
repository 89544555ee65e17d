//! Where the requests that clients keep for the log come together.

use std::sync::Arc;

use parking_lot::Mutex;

use super::plan::MqLoad;
use crate::{
    clock::Nanos,
    request_log::{Kept, LogBuilder, LogNames, RequestLog},
};

/// Shared by all that hear of a client's end.
#[derive(Clone, Debug)]
pub(super) struct Log(Arc<Mutex<LogBuilder>>);

impl Log {
    /// If the plan asks for one.
    pub(super) fn of(plan: &MqLoad) -> Option<Self> {
        plan.request_log.map(|size| Self(Arc::new(Mutex::new(LogBuilder::new(size)))))
    }

    /// Takes what a client has kept, or a piece of it.
    pub(super) fn add(&self, client: usize, kept: Kept) {
        self.0.lock().add(client, kept);
    }

    /// What there is, of a window that was opened at `opened`.
    pub(super) fn read(&self, plan: &MqLoad, opened: Nanos) -> RequestLog {
        let mut gathered = self.0.lock();
        std::mem::replace(&mut *gathered, LogBuilder::new(0)).read(opened, plan)
    }
}

/// Clients have no connections: what stands in their place is the client.
impl LogNames for MqLoad {
    fn connection(&self, client: usize, _: usize) -> u64 {
        client as u64
    }

    fn operation(&self, _: usize, file: u32) -> Arc<str> {
        self.files[file as usize].path.as_str().into()
    }
}
