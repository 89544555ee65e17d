//! Limits of a connection: its timeouts, and the size of what it sends.

use std::time::Duration;

use service::Host;
use wire::http1::HeadLimits;

/// Limits of a connection: its timeouts, and the size of what it sends.
#[derive(Clone, Copy, Debug)]
pub struct HttpOptions {
    /// Time from the first byte of a request to the end of its head, however its bytes trickle in.
    pub request_timeout: Duration,
    /// Time from the end of a head to the last byte of a body that is wanted.
    pub upload_timeout: Duration,
    /// Time between a response and the next request.
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
    /// Takes the limits from the flags that all servers share.
    pub fn from_host(host: &Host) -> Self {
        let (timeouts, default) = (host.timeouts(), HeadLimits::default());
        // No larger than what a session buffers, or it would be closed silently instead of being answered with 431.
        let head = HeadLimits { head_bytes_max: default.head_bytes_max.min(host.request_bytes_max()), ..default };
        Self { request_timeout: timeouts.request, idle_timeout: timeouts.idle, head, ..Self::default() }
    }
}
