//! Steps of kernel TLS in the queue.

use super::Outbox;
use crate::{
    kernel_tls::{KernelTls, KernelTlsState},
    segment::Segment,
};

impl Outbox {
    /// Queues a step. [`KernelTls::Start`] only once the socket is attached.
    pub fn push_kernel_tls(&mut self, step: KernelTls) {
        if self.kernel_tls == KernelTlsState::Unused {
            self.kernel_tls = KernelTlsState::Requested;
        }
        self.push(Segment::KernelTls(Box::new(step)));
    }

    /// Returns the progress towards kernel TLS.
    #[inline]
    pub fn kernel_tls(&self) -> KernelTlsState {
        self.kernel_tls
    }

    /// True if this output may hold steps of kernel TLS, or be encrypted by the kernel: a driver then sends it by plain calls.
    /// A kernel that encrypts takes neither `MSG_WAITALL` nor memory that it must not copy.
    #[inline]
    pub fn is_for_kernel_tls(&self) -> bool {
        match self.kernel_tls {
            KernelTlsState::Unused => false,
            KernelTlsState::Requested | KernelTlsState::Attached => true,
            KernelTlsState::Refused => matches!(self.queue.front(), Some(Segment::KernelTls(_))),
        }
    }

    /// Notes that the step in front has been taken.
    pub fn complete_kernel_tls(&mut self) {
        if let Some(Segment::KernelTls(step)) = self.queue.front() {
            let is_attach = matches!(**step, KernelTls::Attach);
            self.queue.pop_front();
            self.note_attached(is_attach, true);
        }
    }

    /// Notes that the socket knows no TLS: the step in front, [`KernelTls::Attach`], comes to nothing.
    pub fn refuse_kernel_tls(&mut self) {
        if let Some(Segment::KernelTls(step)) = self.queue.front()
            && matches!(**step, KernelTls::Attach)
        {
            self.queue.pop_front();
            self.note_attached(true, false);
        }
    }

    /// The same for a driver that has taken the step out of the queue; [`Outbox::recycle`] follows.
    pub fn note_attached(&mut self, is_attach: bool, is_attached: bool) {
        if is_attach {
            self.kernel_tls = if is_attached { KernelTlsState::Attached } else { KernelTlsState::Refused };
        }
    }

    /// True if [`Outbox::take`] would give memory: no file, pipe or step, and nothing that waits for a promise.
    pub fn is_memory_next(&mut self) -> bool {
        self.settle();
        self.queue.front().map_or(!self.tail.is_empty(), |segment| segment.memory().is_some())
    }

    /// Bytes of files that have not been sent, whatever they are sent by.
    pub fn unsent_file_bytes(&self) -> u64 {
        let is_file = |segment: &&Segment| matches!(segment, Segment::File(_) | Segment::Pipe(_) | Segment::Mapped(_));
        self.queue.iter().filter(is_file).map(Segment::len).sum()
    }
}
