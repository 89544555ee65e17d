#![forbid(unsafe_code)]

use std::{process::ExitCode, sync::Arc};

use anyhow::Context;
use clap::Parser;
use service::{Cli, Dimension, Host, ScratchPipes, ServiceArgs};
use sys::{listen::Address, registered::Region};
use web::{Hosted, Hosts, HttpOptions, RequestMetrics, Settings};
use zerocopy::{
    Access, AccessRule, Cache, CacheMetrics, CachedSite, Strategy, StrategyChoice, ZerocopyArgs, ZerocopyServer,
    start_janitor,
};

const EXAMPLES: &str = "Examples:
  zerocopy                                               this directory on 127.0.0.1:8081
  zerocopy --strategy pipe --driver uring --threads 4 --listen 0.0.0.0:80 --admin-token secret site
  curl http://127.0.0.1:8081/cache/stats                 statistics as JSON; live page at /cache/webui/
  zerocopy --list-backends

Exit status: 0 after a drain asked for by SIGTERM or SIGINT; 2 bad usage; 1 anything else.";

/// Static web server that sends files from the kernel's caches without copying, on seven I/O drivers
#[derive(Debug, Parser)]
#[command(version, max_term_width = 120, after_help = EXAMPLES)]
struct Options {
    #[command(flatten)]
    zerocopy: ZerocopyArgs,
    #[command(flatten)]
    service: ServiceArgs,
}

impl Cli for Options {
    const NAME: &'static str = "zerocopy";
    const LISTEN: &'static str = "127.0.0.1:8081";

    fn check(&self) -> Result<(), String> {
        self.zerocopy.tree.content.check()
    }

    fn service(&self) -> &ServiceArgs {
        &self.service
    }

    fn dimensions() -> Vec<Dimension> {
        vec![StrategyChoice::dimension()]
    }

    fn default_addresses(&self) -> Vec<String> {
        self.zerocopy.tree.default_addresses::<Self>()
    }

    fn descriptors_kept(&self) -> u64 {
        // Two for each scratch pipe that a slow reader may hold.
        self.zerocopy.cache_descriptors + 2 * ScratchPipes::COUNT_MAX as u64
    }
}

fn main() -> ExitCode {
    service::main(|Options { zerocopy, .. }, host| serve(&zerocopy, host))
}

fn serve(args: &ZerocopyArgs, mut host: Host) -> anyhow::Result<()> {
    let (tree, mut options) = (&args.tree, args.cache_options());
    let root = tree.open_root().with_context(|| format!("cannot serve {}", tree.root().display()))?;
    let pipe_bytes = usize::try_from(options.limits.pipe_size).unwrap_or(usize::MAX);
    let scratch_pipes = ScratchPipes::new(pipe_bytes, ScratchPipes::COUNT_MAX);
    // What is larger than the scratch pipes that the kernel grants could never be sent through one.
    options.limits.pipe_size = options.limits.pipe_size.min(scratch_pipes.bytes() as u64);
    host.set_scratch_pipes(scratch_pipes);
    let mut registered = None;
    if options.strategy.may_use(Strategy::Uring) {
        let bytes = usize::try_from(args.registered_bytes.as_u64()).unwrap_or(usize::MAX);
        let region = Region::new(bytes).context("--registered-bytes")?;
        host.set_registered(Arc::clone(&region))?;
        registered = Some(region);
    }
    let settings = Arc::new(Settings::new(&tree.content)?);
    web::warn_of_missing(&root, &settings.content);
    let cache = Arc::new(Cache::new(root, Arc::clone(&settings), options, registered));
    start_janitor(&cache).context("cannot start a thread")?;
    let access = Access::new(args.admin_token.as_deref(), host.addresses());
    let admin = access.rule();
    let site = CachedSite::new(Arc::clone(&cache), access);
    let http = HttpOptions { upload_timeout: args.upload_timeout, ..HttpOptions::from_host(&host) };
    let server = Arc::new(ZerocopyServer::with_hosts(Hosts::new(Arc::new(Hosted::new(site, settings))), http));
    host.registry().register_collector(Box::new(RequestMetrics(Arc::clone(&server))));
    host.registry().register_collector(Box::new(CacheMetrics(cache)));
    host.serve(server, |addresses| {
        for address in addresses {
            service::advise(format_args!("try: {}", tree.example(address)));
            advise_about_page(address, admin);
        }
        if admin == AccessRule::Closed {
            service::advise(format_args!("/cache/ is closed: not all addresses are loopback; --admin-token opens it"));
        }
    })
}

/// Says where the live page is, and what it needs.
fn advise_about_page(address: &Address, admin: AccessRule) {
    let page = web::url(address, "/cache/webui/");
    match (admin, page) {
        (AccessRule::Open, Some(page)) => service::advise(format_args!("try: open {page} in a browser")),
        (AccessRule::Open, None) => {
            service::advise(format_args!("try: {}", web::curl_command(address, "/cache/stats")));
        }
        (AccessRule::Token, Some(page)) => {
            service::advise(format_args!("try: open {page} in a browser; it asks for the admin token"));
        }
        (AccessRule::Token, None) | (AccessRule::Closed, _) => {}
    }
}
