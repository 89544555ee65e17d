//! The program: command line, start and reload of the server.

use std::{process::ExitCode, sync::Arc};

use anyhow::Context;
use clap::{ArgMatches, Command, Parser};
use service::{Cli, DescriptorDemand, DriverSet, Host, HostProblem, LineTarget, ServiceArgs, TlsArgs, TlsDialect};
use sys::confinement::Confinement;
use web::{VirtualHosts, tls_dialect};

use crate::{HttpArgs, HttpOptions, HttpServer, RequestMetrics};

const EXAMPLES: &str = "Examples:
  http-server                                            this directory on 127.0.0.1:8080
  http-server --driver uring --threads 4 --listen 0.0.0.0:80 site
  http-server --listen unix:/run/site.sock --metrics 127.0.0.1:9100 site
  http-server --list-backends

Exit status: 0 after a drain asked for by SIGTERM or SIGINT; 2 bad usage; 1 anything else.";

/// Static web server on twelve I/O drivers
#[derive(Debug, Parser)]
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
    const CALLS: &'static [&'static str] = &["getdents64", "openat2", "pread64", "readlink", "sendfile"];

    fn check(&self) -> Result<(), String> {
        self.http.tree.check(&self.service)
    }

    fn service(&self) -> &ServiceArgs {
        &self.service
    }

    fn default_addresses(&self) -> Vec<String> {
        self.http.tree.default_addresses::<Self>()
    }

    fn tls(&self) -> Option<(&TlsArgs, TlsDialect)> {
        Some((&self.http.tree.https.tls, tls_dialect(self.http.tree.http2, self.http.tree.https.ktls)))
    }

    fn descriptors(&self) -> DescriptorDemand {
        self.http.descriptors()
    }

    fn keep(&self, kept: &mut Confinement) {
        self.http.tree.keep(kept);
    }

    fn host_command() -> Option<Command> {
        Some(VirtualHosts::command())
    }

    fn set_hosts(&mut self, hosts: &[ArgMatches]) -> Result<(), HostProblem> {
        self.http.tree.hosts.set(hosts)
    }

    fn check_start(&self) -> anyhow::Result<()> {
        self.http.tree.access_log.access_log.as_ref().map_or(Ok(()), LineTarget::check).context("--access-log")?;
        self.http.open_hosts(self.http.descriptors().cache_default).map(drop)
    }
}

/// Runs the program on one of the drivers `D`, from its command line to its exit status.
pub fn main<D: DriverSet>() -> ExitCode {
    service::main_on(|Options { mut http, .. }, host: Host<D>| {
        http.tree.content.list_at_first_sight();
        serve(&http, host)
    })
}

fn serve<D: DriverSet>(http: &HttpArgs, mut host: Host<D>) -> anyhow::Result<()> {
    let descriptors = host.cache_descriptors();
    let observer = http.tree.access_log.observer(&mut host)?;
    let options = HttpOptions { http2: http.tree.http2, ..HttpOptions::from_host(&host) };
    let server = HttpServer::with_hosts(http.open_hosts(descriptors)?, options);
    let redirect = http.tree.https.redirect(host.listen_front_ends());
    let server = Arc::new(
        server.with_observer(observer).with_rate(http.tree.rate.limiter()).with_https_redirect(redirect.clone()),
    );
    host.registry().register_collector(Box::new(RequestMetrics(Arc::clone(&server))));
    let reloaded = Arc::clone(&server);
    host.reload_with(move |Options { mut http, .. }| {
        http.tree.content.list_at_first_sight();
        reloaded.replace_hosts(http.open_hosts(descriptors)?);
        Ok(())
    });
    host.at_end(|| {
        web::stop_programs();
        Ok(())
    });
    host.at_once(web::stop_programs);
    host.allow_upgrade();
    let example = http.tree.example();
    host.serve_with_tls(server, |endpoints| {
        if let Some(redirect) = redirect {
            redirect.listens_on(endpoints);
        }
        for endpoint in endpoints {
            service::advise(format_args!("try: {}", example.command(endpoint)));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_a_loopback_address() {
        let addresses = |arguments: &[&str]| Options::parse_from(arguments).default_addresses();
        assert_eq!(addresses(&["http-server"]), ["127.0.0.1:8080"]);
        assert_eq!(addresses(&["http-server", "-p", "0"]), ["127.0.0.1:0"]);
    }
}
