//! Load of the clients.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::directory::{PREFIX, Sharing};
use crate::{
    body::FileVerify,
    engine::{Limit, Pacing, Timetable, Turns},
    sample::Sample,
};

/// Load that clients put on a server. Processes get it as JSON.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct MqLoad {
    /// Name of the queue as mq_overview(7) has it: `/NAME`.
    pub queue: String,
    /// Directory in which the server looks for FIFOs.
    pub fifo_directory: PathBuf,
    pub sharing: Sharing,
    /// Prefix of the names of all FIFOs of the run: see [`MqLoad::new_prefix`].
    pub prefix: String,
    /// Asked for in turn; at least one.
    pub files: Vec<RequestedFile>,
    pub form: ReplyForm,
    pub sink: ReplySink,
    pub verify: FileVerify,
    /// Sample of the replies that are checked in full; of the others the length is checked.
    pub sample: Sample,
    /// [`ReplySink::Read`] asks for this much at once.
    pub buffer_bytes: usize,
    pub clients: usize,
    pub spawn: ClientKind,
    /// CPUs for the clients, round robin, as `sys::affinity::Cpus` takes them; `None` leaves them to the scheduler.
    pub cpus: Option<String>,
    pub pacing: Pacing,
    /// Open loop: the course that requests follow instead of one rate.
    pub timetable: Option<Timetable>,
    pub limit: Limit,
    /// Time over which the clients of a closed loop begin one after the other, and the rate of an open loop grows from
    /// 0.
    pub ramp: Duration,
    /// Time from the beginning to the measured window, the ramp included.
    pub warmup: Duration,
    /// Length of the intervals by which requests are also counted.
    pub timeline: Option<Duration>,
    /// Size of the sample in the log of requests, if one is kept. Each client keeps as many.
    pub request_log: Option<usize>,
    /// The clients, which are threads then, ask in turns only; the limit is that of all of these.
    #[serde(skip)]
    pub turns: Option<Arc<Turns>>,
    /// Limit of one request, from its sending to the end of its reply.
    pub timeout: Duration,
    pub seed: u64,
}

/// File that is asked for.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RequestedFile {
    /// Path as the server knows it.
    pub path: String,
    /// Bytes; `None` until the first good reply has said so.
    pub length: Option<u64>,
    pub digest: Option<[u8; 32]>,
}

/// Way in which the server reports success or failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum ReplyForm {
    /// It does not: the reply is the file, or nothing.
    Bare,
    /// A header with status and length stands before the file.
    Framed,
    /// The header comes through a FIFO of its own, which the request names.
    Status,
}

/// Destination of the replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
pub enum ReplySink {
    /// Into a buffer
    Read,
    /// To /dev/null by splice(2), without being looked at
    Splice,
}

/// Kind of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
pub enum ClientKind {
    /// A thread
    Thread,
    /// A process, as in the original
    Process,
}

impl MqLoad {
    /// Returns a prefix that no other run has, and that nobody can guess.
    #[must_use]
    pub fn new_prefix() -> String {
        // The keys of std's hashers are the system's randomness; seeds of fastrand are times.
        let random = RandomState::new().build_hasher().finish();
        format!("{PREFIX}{}-{random:016x}-", std::process::id())
    }

    pub(super) fn cpus(&self) -> Option<sys::affinity::Cpus> {
        self.cpus.as_deref().and_then(|text| text.parse().ok())
    }

    /// Returns true if requests are counted by when they fall due, not by when they are answered.
    pub(super) fn counts_by_issue(&self) -> bool {
        self.pacing != Pacing::Closed || matches!(self.limit, Limit::Requests(_))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Makes the load of one client that asks for these.
    pub(in super::super) fn load_of(files: Vec<RequestedFile>) -> MqLoad {
        MqLoad {
            queue: "/nowhere".into(),
            fifo_directory: "/nowhere".into(),
            sharing: Sharing::Private,
            prefix: "loadgen-test-".into(),
            files,
            form: ReplyForm::Bare,
            sink: ReplySink::Read,
            verify: FileVerify::Length,
            sample: Sample::ALL,
            buffer_bytes: 16,
            clients: 1,
            spawn: ClientKind::Thread,
            cpus: None,
            pacing: Pacing::Closed,
            timetable: None,
            limit: Limit::Requests(1),
            ramp: Duration::ZERO,
            warmup: Duration::ZERO,
            timeline: None,
            request_log: None,
            turns: None,
            timeout: Duration::from_secs(1),
            seed: 1,
        }
    }

    #[test]
    fn a_load_survives_serialisation() {
        let sample = Sample::one_of(1_000).expect("a share");
        let files = vec![RequestedFile { path: "a b".into(), length: Some(7), digest: Some([9; 32]) }];
        let plan = MqLoad { sample, ..load_of(files) };
        let text = serde_json::to_string(&plan).expect("JSON");
        let read: MqLoad = serde_json::from_str(&text).expect("a plan");
        assert_eq!(format!("{read:?}"), format!("{plan:?}"));
    }
}
