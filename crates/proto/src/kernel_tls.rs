//! Steps by which a layer hands the encryption of a connection's output to the kernel.

use std::{fmt, hint};

/// A step of kernel TLS. It stands in the queue like any other output, and the driver takes it on the socket when everything
/// before it has been given to the kernel.
#[derive(Debug)]
pub enum KernelTls {
    /// Makes the socket one that kernel TLS can be started on. Nothing that is sent changes. A socket that cannot become one
    /// goes on as it was; [`crate::Outbox::kernel_tls`] tells the layer.
    Attach,
    /// Starts it: the kernel encrypts what follows. If it cannot, the connection ends.
    Start(KernelTlsKeys),
    /// Sends a record of another type than application data.
    Record { content_type: u8, payload: Box<[u8]> },
}

/// Keys in the form in which the kernel takes them; wiped when they are dropped.
pub struct KernelTlsKeys(Box<[u8]>);

impl KernelTlsKeys {
    pub fn new(bytes: Box<[u8]>) -> Self {
        Self(bytes)
    }

    /// Returns the value of the socket option that they are for.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for KernelTlsKeys {
    fn drop(&mut self) {
        self.0.fill(0);
        hint::black_box(&mut self.0); // The compiler is not to leave it out.
    }
}

impl fmt::Debug for KernelTlsKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelTlsKeys").finish_non_exhaustive()
    }
}

/// Progress of an outbox towards kernel TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelTlsState {
    /// Nobody has asked for it.
    #[default]
    Unused,
    /// A step is queued, and the socket has not answered yet.
    Requested,
    /// The socket takes the steps that follow.
    Attached,
    /// The socket knows no TLS.
    Refused,
}
