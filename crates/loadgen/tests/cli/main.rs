//! The program as a process, against small servers whose behaviour is known.
//!
//! The servers may sleep. Assertions about time are about the time that *they* took, never about our own speed.

mod agents;
mod command_line;
mod coordinated_omission;
mod engines;
mod fail_if;
mod failures;
mod file;
mod file_faults;
mod http2;
mod http_faults;
mod kv;
mod kv_faults;
mod latency;
mod lifetime;
mod mq;
mod mq_faults;
mod mq_fifo_directory;
mod null_server;
mod otlp;
mod progress;
mod ramp;
mod rate_file;
mod recipes_page;
mod replay;
mod report;
mod request_log;
mod result_schema;
mod self_check;
mod several_rates;
mod slow_servers;
mod support;
mod tcp_options;
mod timeline;
mod tls;
mod turns;
mod verify;
mod warmup;
