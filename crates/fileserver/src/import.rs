//! Command `fileserver import`, which fills a database from a directory.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::Parser;
use fileserver::backend::{ImportOptions, Progress, import};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use layouts::LayoutKind;

const EXAMPLES: &str = "Examples:
  fileserver import ~/Zotero/storage documents.db
  fileserver import --layout tree documents documents.db
  fileserver --backend sqlite documents.db

A database that is being served may be replaced: servers notice.
Exit status: 0 when every document is in it; 2 bad usage; 1 anything else, and then DB is what it was before.";

/// Writes the documents of a directory to a database for --backend sqlite
#[derive(Debug, Parser)]
#[command(name = "fileserver import", version, max_term_width = 120, after_help = EXAMPLES)]
struct Options {
    /// Layout of the directory: which file an id means
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    layout: LayoutKind,

    /// Unit in which the database is read and written, in bytes: a power of two from 512 to 65536
    #[arg(long, value_name = "BYTES", default_value_t = ImportOptions::default().page_bytes)]
    page_size: u32,

    /// Directory of the documents
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// The database to write; one that is there is replaced once the new one is complete
    #[arg(value_name = "DB")]
    database: PathBuf,
}

/// Runs the command with `arguments`, its own name first.
pub(crate) fn main(arguments: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    match run(&Options::parse_from(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            service::advise(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> anyhow::Result<()> {
    let Options { layout, page_size, directory, database } = options;
    let layout = layout.open(directory).with_context(|| format!("cannot import {}", directory.display()))?;
    let bar = bar();
    let show = |progress: Progress| {
        bar.set_length(progress.documents_total as u64);
        bar.set_position(progress.documents as u64);
        bar.set_message(HumanBytes(progress.bytes).to_string());
    };
    let imported = import(directory, &layout, database, ImportOptions { page_bytes: *page_size }, show);
    bar.finish_and_clear();
    let imported = imported.with_context(|| format!("cannot import {}", directory.display()))?;
    let vanished = match imported.vanished {
        0 => String::new(),
        files => format!("; {files} were gone when it was their turn"),
    };
    let (documents, bytes) = (imported.documents, HumanBytes(imported.bytes));
    service::advise(format_args!("{documents} documents, {bytes}, in {}{vanished}", database.display()));
    service::advise(format_args!("try: fileserver --backend sqlite {}", database.display()));
    Ok(())
}

/// Makes a progress bar, which is drawn on a terminal only.
fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} documents, {msg}, {eta} left");
    ProgressBar::no_length().with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
