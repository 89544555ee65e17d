//! What the end-to-end tests share: servers as processes, misbehaving clients, a server of test protocols

#![forbid(unsafe_code)]
