//! HTTP front end of `http-server` and `zerocopy`: one reading of RFC 9110, in the forms of RFC 9112 (HTTP/1.1) and RFC 9113
//! (HTTP/2).
//!
//! [`WebServer`] is the [`proto::Protocol`]: it reads requests, evaluates preconditions and ranges, and writes heads. It
//! opens no file and has no cache: a [`Site`], known at compile time, finds the file that a path means and queues its bytes
//! in whatever way it likes best.

#![forbid(unsafe_code)]

mod access_log;
mod answers;
mod auth;
mod cgi;
pub mod codec;
mod content;
mod heads;
mod hosts;
mod http2;
mod https;
mod listing;
mod media;
mod metrics;
mod observer;
mod options;
mod page;
pub mod path;
mod preparation;
mod ranges;
mod rate;
mod responder;
mod server;
mod settings;
mod site;
mod statistics;
mod tree;
mod upload;
mod variants;
mod virtual_hosts;
mod waiting;
pub mod workers;
mod writer;

pub use access_log::{AccessLogArgs, AccessLogFormat};
pub use auth::{AuthArgs, AuthRule, Guard, PasswordFileError, Realm};
pub use cgi::{CgiArgs, CgiError, CgiOptions, Programs, stop_programs};
pub use content::{
    CacheControlRule, Content, ErrorPage, HeaderRule, IndexName, Pattern, Presentation, Redirect, RedirectTarget,
    Rewrite, SitePath, Symlinks,
};
pub use file_cache::Lookup;
pub use heads::{Encoding, Heads};
pub use hosts::{HostArgs, HostName, Hosted, Hosts};
pub use https::{Hsts, HttpsArgs, HttpsPort, HttpsRedirect, tls_dialect};
pub use media::{Charset, MediaTypes, MimeFileError, MimeProblem};
pub use metrics::RequestMetrics;
pub use observer::Observer;
pub use options::HttpOptions;
pub use preparation::{Preparations, RepresentationKey};
pub use rate::{RateArgs, RateLimiter, RequestRate};
pub use server::{Conn, WebServer};
pub use settings::{ContentArgs, ContentCodings, Settings, SettingsError};
pub use site::{NotFound, Response, Route, Site};
pub use statistics::Statistics;
pub use tree::{Example, TreeArgs, curl_command, open, open_variants, url, warn_of_missing};
pub use variants::{Choice, Found, Siblings, Sources, Variants};
pub use virtual_hosts::VirtualHosts;
