//! Command `fileserver import`, which fills a database from a directory.

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;
use fileserver::backend::{ImportOptions, Progress, import};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use layouts::LayoutKind;

use crate::command_for;

const EXAMPLES: &str = "Examples:
  fileserver import ~/Zotero/storage documents.db
  fileserver import --layout tree documents documents.db
  fileserver --backend sqlite documents.db

A database that is being served may be replaced; servers notice the change.
Exit status: 0 when all documents are imported; 2 bad usage; 1 anything else, and DB is unchanged then.";

/// Imports the documents of a directory into a database for --backend sqlite
#[derive(Debug, Parser)]
#[command(name = "fileserver import", bin_name = "fileserver import", version, max_term_width = 120, after_help = EXAMPLES)]
struct Options {
    /// Which file of the directory an id means
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    layout: LayoutKind,

    /// Page size of the database, in bytes: a power of two from 512 to 65536
    #[arg(long, value_name = "BYTES", default_value_t = ImportOptions::default().page_bytes, value_parser = page_size)]
    page_size: u32,

    /// Directory of the documents
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Database to write; an existing one is replaced once the new one is complete
    #[arg(value_name = "DB")]
    database: PathBuf,
}

fn page_size(text: &str) -> Result<u32, String> {
    let size = text.parse().ok().filter(|size: &u32| size.is_power_of_two() && (512..=65536).contains(size));
    size.ok_or_else(|| "not a power of two from 512 to 65536".to_owned())
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
    let layout = layout.open(directory)?;
    let bar = bar();
    let show = |progress: Progress| {
        bar.set_length(progress.documents_total as u64);
        bar.set_position(progress.documents as u64);
        bar.set_message(HumanBytes(progress.bytes).to_string());
    };
    let imported = import(directory, &layout, database, ImportOptions { page_bytes: *page_size }, show);
    bar.finish_and_clear();
    let imported = imported?;
    let vanished = match imported.vanished {
        0 => String::new(),
        files => format!("; {files} had gone before they could be read"),
    };
    let (documents, bytes) = (imported.documents, HumanBytes(imported.bytes));
    service::advise(format_args!("{documents} documents, {bytes}, in {}{vanished}", database.display()));
    service::advise(format_args!("try: {} --backend sqlite {}", command_for("fileserver"), database.display()));
    Ok(())
}

/// Makes a progress bar, which is drawn on a terminal only.
fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} documents, {msg}, {eta} left");
    ProgressBar::no_length().with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
