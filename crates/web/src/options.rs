//! How long a connection may take and how much it may say.

use std::time::Duration;

use service::Host;
use wire::http1::HeadLimits;

/// How long a connection may take and how much it may say.
#[derive(Clone, Copy, Debug)]
pub struct HttpOptions {
    /// From the first byte of a request to the end of its head, however its bytes trickle in.
    pub request_timeout: Duration,
    /// From the end of its head to the last byte of a body that is wanted.
    pub upload_timeout: Duration,
    /// Between a response and the next request.
    pub idle_timeout: Duration,
    pub head: HeadLimits,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(10),
            upload_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            head: HeadLimits::default(),
        }
    }
}

impl HttpOptions {
    /// What the flags that all servers share come to.
    pub fn of(host: &Host) -> Self {
        let (timeouts, usual) = (host.timeouts(), HeadLimits::default());
        // No larger than what a session buffers, or it would be closed without a word instead of answered with 431.
        let head = HeadLimits { head_bytes_max: usual.head_bytes_max.min(host.request_bytes_max()), ..usual };
        Self { request_timeout: timeouts.request, idle_timeout: timeouts.idle, head, ..Self::default() }
    }
}
