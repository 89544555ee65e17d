#![forbid(unsafe_code)]

mod import;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use clap::Parser;
use fileserver::{FileArgs, FileServer, Metrics, Sample, backend::BackendKind};
use service::{Cli, DescriptorDemand, Dimension, Host, Invalid, ServiceArgs};
use sys::confinement::Confinement;

const USAGE: &str = "fileserver [OPTIONS] [[PORT] DIR]
       fileserver [OPTIONS] --backend sqlite [[PORT] DB]
       fileserver import [--layout NAME] DIR DB";

const EXAMPLES: &str = "Examples:
  fileserver                                             a generated sample on 127.0.0.1:7070
  fileserver --protocol framed --driver uring --listen 0.0.0.0:7070 ~/Zotero/storage
  fileserver --cache-map none --layout tree --metrics 127.0.0.1:9100 documents
  fileserver -l epoll -r umap -c mutex -m umap -f filesystem -n 30 7070 documents     as the original had it
  fileserver import documents documents.db; fileserver --backend sqlite documents.db
  fileserver --list-backends

Exit status: 0 after a drain asked for by SIGTERM or SIGINT; 2 bad usage; 1 anything else.";

/// File server for documents by id: protocol, request map, cache, eviction and back end can be chosen, on twelve I/O drivers
#[derive(Debug, Parser)]
#[command(version, max_term_width = 120, after_help = EXAMPLES, override_usage = USAGE)]
struct Options {
    #[command(flatten)]
    file: FileArgs,
    #[command(flatten)]
    service: ServiceArgs,
}

impl Cli for Options {
    const NAME: &'static str = "fileserver";
    const LISTEN: &'static str = "127.0.0.1:7070";
    const LETTERS: &'static [(&'static str, char)] = &[("driver", 'l')];
    const CALLS: &'static [&'static str] = &["getdents64", "openat2", "pread64", "sendfile", "unlinkat"];

    fn service(&self) -> &ServiceArgs {
        &self.service
    }

    fn check(&self) -> Result<(), String> {
        self.file.check()?;
        match self.file.port()? {
            Some(port) if !self.service.listen.is_empty() => {
                Err(format!("PORT {port} and --listen exclude each other"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A sample is made in the directory of temporary files, and large documents of a database are copied there.
    fn keep(&self, kept: &mut Confinement) {
        match (self.file.content(), self.file.backend) {
            (None, _) => kept.write(&env::temp_dir()),
            (Some(directory), BackendKind::Filesystem) => kept.read(directory),
            (Some(database), BackendKind::Sqlite) => {
                kept.read_replaceable(database);
                kept.write(&env::temp_dir());
            }
        }
    }

    fn descriptors(&self) -> DescriptorDemand {
        self.file.descriptors()
    }

    fn dimensions() -> Vec<Dimension> {
        FileArgs::dimensions()
    }

    fn invalid() -> Vec<Invalid> {
        FileArgs::invalid()
    }

    fn check_start(&self) -> anyhow::Result<()> {
        if let Some(content) = self.file.content() {
            self.file.open(content)?;
        }
        Ok(())
    }

    /// The port in front of the content, on loopback like every default.
    fn default_addresses(&self) -> Vec<String> {
        let port = self.file.port().ok().flatten();
        vec![port.map_or_else(|| Self::LISTEN.to_owned(), |port| format!("127.0.0.1:{port}"))]
    }
}

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1).peekable();
    // A directory of that name is ./import.
    if arguments.peek().is_some_and(|first| first == "import") {
        return import::main(arguments);
    }
    service::main(|Options { file, .. }, host| serve(&file, host))
}

fn serve(file: &FileArgs, mut host: Host) -> anyhow::Result<()> {
    let content = match file.content() {
        Some(content) => content.to_owned(),
        None => sample(file, &mut host)?,
    };
    let backend = file.open(&content)?;
    let options = file.options(host.timeouts(), host.cache_descriptors());
    let server = Arc::new(FileServer::new(&file.combination(), backend, options)?);
    host.registry().register_collector(Box::new(Metrics(Arc::clone(&server))));
    // The generator compares the documents with the files.
    let directory = |path: &Path| format!("--layout {} ADDRESS {}", file.layout, path.display());
    let target = match (file.backend, file.content()) {
        (BackendKind::Filesystem, _) => directory(&content),
        (BackendKind::Sqlite, None) => directory(&content.with_file_name("")),
        (BackendKind::Sqlite, Some(_)) => {
            "--layout NAME ADDRESS DIR  # as in the `fileserver import` of the database".to_owned()
        }
    };
    host.allow_upgrade();
    let loadgen = command_for("loadgen");
    host.serve(server, |addresses| {
        for address in addresses {
            let (protocol, target) = (file.protocol, target.replace("ADDRESS", &address.to_string()));
            service::advise(format_args!("try: {loadgen} file -d 5s --protocol {protocol} {target}"));
        }
    })
}

/// Returns the words that run a program of the workspace as this one was run: by cargo or by its name.
fn command_for(program: &str) -> String {
    // `cargo run` sets this variable.
    match env::var_os("CARGO_MANIFEST_DIR") {
        Some(_) => format!("cargo run --release -p {program} --"),
        None => program.to_owned(),
    }
}

/// Makes a sample to serve, which is removed at the end.
fn sample(file: &FileArgs, host: &mut Host) -> anyhow::Result<PathBuf> {
    let sample = Sample::generate(file.layout, file.backend).context("cannot make a sample collection")?;
    let path = sample.content().to_owned();
    let ids = Sample::ids().collect::<Vec<_>>().join(", ");
    service::advise(format_args!("serving a generated sample in {}, removed at the end: {ids}", path.display()));
    let directory = sample.directory().to_owned();
    host.at_once(move || _ = fs::remove_dir_all(directory));
    host.at_end(move || sample.remove().context("cannot remove the sample collection"));
    Ok(path)
}
