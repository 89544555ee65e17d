//! Limits of a connection: its timeouts, and the size of what it sends.

use std::time::Duration;

use service::{DriverSet, Host};
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
    /// HTTP/2 is spoken with clients that begin with it.
    pub http2: bool,
    /// Length of the longest body that a CGI program is given, in bytes.
    pub program_body_bytes_max: usize,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(10),
            upload_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            head: HeadLimits::default(),
            http2: true,
            program_body_bytes_max: 1 << 20,
        }
    }
}

impl HttpOptions {
    /// Takes the limits from the flags that all servers share.
    pub fn from_host<D: DriverSet>(host: &Host<D>) -> Self {
        let (timeouts, default) = (host.timeouts(), HeadLimits::default());
        // No larger than what a session buffers, or it would be closed silently instead of being answered with 431.
        let head = HeadLimits { head_bytes_max: default.head_bytes_max.min(host.request_bytes_max()), ..default };
        let (request_timeout, idle_timeout) = (timeouts.request, timeouts.idle);
        Self {
            request_timeout,
            idle_timeout,
            head,
            program_body_bytes_max: host.request_bytes_max(),
            ..Self::default()
        }
    }
}
