//! Seven ways to move bytes between sockets and a Session

#![forbid(unsafe_code)]
