#![forbid(unsafe_code)]

use std::{process::ExitCode, sync::Arc};

use anyhow::Context;
use clap::Parser;
use http_server::{HttpArgs, HttpOptions, HttpServer, Requests};
use service::{Cli, Host, ServiceArgs};
use sys::listen::Address;
use wire::http1::HeadLimits;

const EXAMPLES: &str = "Examples:
  http-server                                            this directory on 127.0.0.1:8080
  http-server -d site --driver uring --threads 4 --listen 0.0.0.0:80
  http-server -d site --listen unix:/run/site.sock --metrics 127.0.0.1:9100
  http-server --list-backends

Exit status: 0 after a drain asked for by SIGTERM or SIGINT; 2 bad usage; 1 anything else.";

/// A static web server on seven I/O drivers
#[derive(Parser, Debug)]
#[command(version, max_term_width = 120, after_help = EXAMPLES)]
struct Options {
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    service: ServiceArgs,
}

impl Cli for Options {
    const NAME: &'static str = "http-server";
    const LISTEN: &'static str = "127.0.0.1:8080";

    fn service(&self) -> &ServiceArgs {
        &self.service
    }

    fn default_addresses(&self) -> Vec<String> {
        vec![self.http.port.map_or_else(|| Self::LISTEN.to_owned(), |port| format!("127.0.0.1:{port}"))]
    }
}

fn main() -> ExitCode {
    service::main(|Options { http, .. }, host| serve(&http, host))
}

fn serve(http: &HttpArgs, mut host: Host) -> anyhow::Result<()> {
    let site = http.open_site().with_context(|| format!("cannot serve {}", http.root.display()))?;
    let (timeouts, usual) = (host.timeouts(), HeadLimits::default());
    // No larger than what a session buffers, or it would be closed without a word instead of answered with 431.
    let head = HeadLimits { head_bytes_max: usual.head_bytes_max.min(host.request_bytes_max()), ..usual };
    let options = HttpOptions { request_timeout: timeouts.request, idle_timeout: timeouts.idle, head };
    let server = Arc::new(HttpServer::new(site, options));
    host.registry().register_collector(Box::new(Requests(Arc::clone(&server))));
    host.serve(server, |addresses| {
        for address in addresses {
            service::advise(format_args!("try: {}", curl(address, &http.path_to_try())));
        }
    })
}

/// A command that fetches `path` from there.
fn curl(address: &Address, path: &str) -> String {
    match address {
        Address::Tcp(address) => {
            let mut address = *address;
            if address.ip().is_unspecified() {
                address.set_ip(if address.is_ipv4() { [127, 0, 0, 1].into() } else { [0, 0, 0, 0, 0, 0, 0, 1].into() });
            }
            format!("curl http://{address}{path}")
        }
        Address::Unix(socket) => format!("curl --unix-socket '{}' http://localhost{path}", socket.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_to_try_reaches_the_server() {
        for (address, command) in [
            ("127.0.0.1:80", "curl http://127.0.0.1:80/a"),
            ("0.0.0.0:80", "curl http://127.0.0.1:80/a"),
            ("[::]:80", "curl http://[::1]:80/a"),
            ("unix:/run/x", "curl --unix-socket '/run/x' http://localhost/a"),
        ] {
            assert_eq!(curl(&address.parse().unwrap(), "/a"), command);
        }
    }

    #[test]
    fn a_port_is_a_loopback_address() {
        let addresses = |arguments: &[&str]| Options::parse_from(arguments).default_addresses();
        assert_eq!(addresses(&["http-server"]), ["127.0.0.1:8080"]);
        assert_eq!(addresses(&["http-server", "-p", "0"]), ["127.0.0.1:0"]);
    }
}
