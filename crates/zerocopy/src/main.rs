#![forbid(unsafe_code)]

use std::{collections::HashMap, path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::Context;
use clap::{ArgMatches, Command, Parser};
use service::{
    Cli, DescriptorDemand, Dimension, Endpoint, Host, HostProblem, LineTarget, Need, ScratchPipes, ServiceArgs,
    TlsArgs, TlsDialect,
};
use sys::{beneath::Root, confinement::Confinement, registered::Region};
use web::{ContentArgs, HostName, Hosts, HttpOptions, RequestMetrics, TreeArgs, VirtualHosts, tls_dialect};
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

/// Static web server that sends files from the kernel's caches without copying, on twelve I/O drivers
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
    const CALLS_OF_FLAGS: &'static [&'static str] = &["getdents64", "readlink"];
    const CALLS: &'static [&'static str] =
        &["memfd_create", "openat2", "pread64", "sendfile", "splice", "tee", "vmsplice"];

    fn check(&self) -> Result<(), String> {
        self.zerocopy.tree.check(&self.service)
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

    fn tls(&self) -> Option<(&TlsArgs, TlsDialect)> {
        Some((&self.zerocopy.tree.https.tls, tls_dialect(self.zerocopy.tree.http2, self.zerocopy.tree.https.ktls)))
    }

    fn descriptors(&self) -> DescriptorDemand {
        self.zerocopy.descriptors()
    }

    fn needs(&self) -> Vec<Need> {
        self.zerocopy.needs()
    }

    fn keep(&self, kept: &mut Confinement) {
        self.zerocopy.tree.keep(kept);
        // A reload can turn listings on, which are on where there is no argument at all, and finds out where password files lie.
        let is_first_sight = std::env::args_os().len() == 1;
        let content = &self.zerocopy.tree.content;
        let needs_more = content.listing == Some(true) || !content.auth.basic_auth.is_empty();
        if needs_more || self.service.shell.config.is_some() || is_first_sight {
            kept.calls.extend(Self::CALLS_OF_FLAGS);
        }
    }

    fn host_command() -> Option<Command> {
        Some(VirtualHosts::command())
    }

    fn set_hosts(&mut self, hosts: &[ArgMatches]) -> Result<(), HostProblem> {
        self.zerocopy.tree.hosts.set(hosts)
    }

    fn check_start(&self) -> anyhow::Result<()> {
        self.zerocopy.tree.access_log.access_log.as_ref().map_or(Ok(()), LineTarget::check).context("--access-log")?;
        let tree = &self.zerocopy.tree;
        Hosts::open(&tree.content, &tree.hosts.0, |_, content, _, _| open_root(content)).map(drop)
    }
}

fn main() -> ExitCode {
    service::main(|Options { mut zerocopy, .. }, host| {
        zerocopy.tree.content.list_at_first_sight();
        serve(&zerocopy, host)
    })
}

fn serve(args: &ZerocopyArgs, mut host: Host) -> anyhow::Result<()> {
    let mut options = args.cache_options(host.cache_descriptors());
    let pipe_bytes = usize::try_from(options.limits.pipe_size).unwrap_or(usize::MAX);
    let scratch_pipes = ScratchPipes::new(pipe_bytes, host.scratch_pipes_max());
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
    let access = Access::new(args.admin_token.as_deref(), host.addresses(), host.has_proxies());
    let admin = access.rule();
    let cache = Cache::new(open_root(args.tree.default_content())?, Arc::default(), options, registered);
    let mut sites = Sites { model: CachedSite::new(Arc::new(cache), access), caches: HashMap::new() };
    let http2 = args.tree.http2;
    let http = HttpOptions { upload_timeout: args.upload_timeout, http2, ..HttpOptions::from_host(&host) };
    let observer = args.tree.access_log.observer(&mut host)?;
    let server = ZerocopyServer::with_hosts(sites.open(&args.tree)?, http).with_observer(observer);
    let server = server.with_rate(args.tree.rate.limiter());
    let redirect = args.tree.https.redirect(host.listen_front_ends());
    let server = Arc::new(server.with_https_redirect(redirect.clone()));
    start_janitor(&server).context("cannot start a thread")?;
    host.registry().register_collector(Box::new(RequestMetrics(Arc::clone(&server))));
    host.registry().register_collector(Box::new(CacheMetrics(Arc::clone(&server))));
    let reloaded = Arc::clone(&server);
    host.reload_with(move |Options { mut zerocopy, .. }| {
        zerocopy.tree.content.list_at_first_sight();
        reloaded.replace_hosts(sites.open(&zerocopy.tree)?);
        Ok(())
    });
    host.at_end(|| {
        web::stop_programs();
        Ok(())
    });
    host.at_once(web::stop_programs);
    host.allow_upgrade();
    let example = args.tree.example();
    host.serve_with_tls(server, |endpoints| {
        if let Some(redirect) = redirect {
            redirect.listens_on(endpoints);
        }
        for endpoint in endpoints {
            service::advise(format_args!("try: {}", example.command(endpoint)));
            advise_about_page(endpoint, admin);
        }
        if admin == AccessRule::Closed {
            service::advise(format_args!(
                "/cache/ is closed: others than this machine can connect; --admin-token opens it"
            ));
        }
    })
}

fn open_root(content: &ContentArgs) -> anyhow::Result<Root> {
    content.open_root().with_context(|| format!("cannot serve {}", content.root().display()))
}

/// Maker of the sites of all hosts, at the start and at each reload.
struct Sites {
    /// Site that serves nothing, whose budgets and statistics the others share.
    model: CachedSite,
    /// Caches in use, by the names and the directory of their hosts.
    caches: HashMap<(Vec<HostName>, PathBuf), Arc<Cache>>,
}

impl Sites {
    /// Opens the sites of all hosts. Resources that have been added to a host stay, unless its directory is another.
    fn open(&mut self, tree: &TreeArgs) -> anyhow::Result<Hosts<CachedSite>> {
        let mut caches = HashMap::new();
        let hosts = Hosts::open(&tree.content, &tree.hosts.0, |names, content, settings, _| {
            let root = open_root(content)?;
            web::warn_of_missing(&root, settings);
            let cache = self.model.cache().beside(root, Arc::clone(settings));
            let (key, cache) = ((names.to_vec(), content.root().to_owned()), Arc::new(cache));
            if let Some(old) = self.caches.get(&key) {
                cache.adopt_overlays(old);
            }
            caches.insert(key, Arc::clone(&cache));
            anyhow::Ok(self.model.beside(cache))
        })?;
        self.caches = caches;
        Ok(hosts)
    }
}

/// Says where the live page is, and what it needs.
fn advise_about_page(endpoint: &Endpoint, admin: AccessRule) {
    let page = web::url(endpoint, "/cache/webui/");
    match (admin, page) {
        (AccessRule::Open, Some(page)) => service::advise(format_args!("try: open {page} in a browser")),
        (AccessRule::Open, None) => {
            service::advise(format_args!("try: {}", web::curl_command(endpoint, "/cache/stats")));
        }
        (AccessRule::Token, Some(page)) => {
            service::advise(format_args!("try: open {page} in a browser; it asks for the admin token"));
        }
        (AccessRule::Token, None) | (AccessRule::Closed, _) => {}
    }
}
