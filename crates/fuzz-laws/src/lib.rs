//! The laws that the fuzz targets check on arbitrary bytes. A breach is a panic.
//!
//! The targets are in `fuzz/`, outside of the workspace; the laws are in it, so that they compile, and hold for the seeds.
//!
//! The first byte of an input decides how the rest is torn, so that one fuzzer explores both.

#![forbid(unsafe_code)]

mod cgi;
mod coding;
mod config;
mod file;
mod http2;
mod kv;
mod request;
mod response;
mod session;
mod tearing;
mod tls;

pub use cgi::cgi;
pub use coding::accept_encoding;
pub use config::config;
pub use file::file;
pub use http2::{hpack, http2};
pub use kv::{memcached_binary, memcached_reply, memcached_request, resp_reply, resp_request, us};
pub use request::http1_request;
pub use response::http1_response;
pub use session::session;
pub use tls::tls;

#[cfg(test)]
mod tests {
    type Law = fn(&[u8]);

    /// Every seed, and every input that a fuzzer has found and that was kept, obeys its law.
    #[test]
    fn the_corpus_obeys_the_laws() {
        let targets: [(&str, Law); 16] = [
            ("accept_encoding", super::accept_encoding),
            ("cgi", super::cgi),
            ("config", super::config),
            ("file", super::file),
            ("hpack", super::hpack),
            ("http1_request", super::http1_request),
            ("http1_response", super::http1_response),
            ("http2", super::http2),
            ("memcached_binary", super::memcached_binary),
            ("memcached_reply", super::memcached_reply),
            ("memcached_request", super::memcached_request),
            ("resp_reply", super::resp_reply),
            ("resp_request", super::resp_request),
            ("session", super::session),
            ("tls", super::tls),
            ("us", super::us),
        ];
        for (name, law) in targets {
            let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
            let mut count = 0;
            for entry in std::fs::read_dir(directory).unwrap() {
                law(&std::fs::read(entry.unwrap().path()).unwrap());
                count += 1;
            }
            assert!(count > 0, "{name} has no seeds");
        }
    }
}
