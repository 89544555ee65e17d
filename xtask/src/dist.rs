//! `cargo xtask dist`: what users run and read, in one archive. The same input makes the same bytes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, bail};
use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};

use matrix::workspace::{cargo, first_line, metadata, root, run_shown};

/// Texts beside the programs: files, and directories with all that is in them.
const TEXTS: [&str; 5] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "docs"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory of the archive and SHA256SUMS [default: target/dist]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Pack the programs in this directory instead of building them
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let target_directory = metadata()?.target_directory;
    let programs = match &args.programs {
        Some(directory) => directory.clone(),
        None => build(&target_directory)?,
    };
    let out = args.out.clone().unwrap_or_else(|| target_directory.join("dist"));
    let name = format!("quintet-{}-{}", env!("CARGO_PKG_VERSION"), host()?);
    let stripped = tempfile::tempdir().context("temporary directory")?;
    for program in servers::programs() {
        run_shown(Command::new("strip").arg("-o").arg(stripped.path().join(program)).arg(programs.join(program)))?;
    }
    let archive = pack(&name, stripped.path(), &root(), epoch()?)?;
    fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    for (file, bytes) in [(format!("{name}.tar.gz"), &archive), ("SHA256SUMS".to_owned(), &sums(&name, &archive))] {
        let path = out.join(file);
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        println!("{}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns where they are.
fn build(target_directory: &Path) -> Result<PathBuf> {
    let bins = servers::programs().into_iter().flat_map(|program| ["--bin", program]);
    run_shown(cargo().args(["build", "--release", "--locked", "--workspace"]).args(bins))?;
    Ok(target_directory.join("release"))
}

fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("rustc -vV")?;
    let said = String::from_utf8(output.stdout).context("rustc -vV")?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc -vV names no host")
}

/// When everything in the archive was changed last, in seconds: what SOURCE_DATE_EPOCH says, or the commit.
fn epoch() -> Result<u64> {
    let said = std::env::var("SOURCE_DATE_EPOCH").ok();
    let said = said
        .or_else(|| first_line("git", &["log", "-1", "--format=%ct"]))
        .context("no SOURCE_DATE_EPOCH, no commit")?;
    said.parse().with_context(|| format!("not a time: {said}"))
}

fn sums(name: &str, archive: &[u8]) -> Vec<u8> {
    let digest: String = Sha256::digest(archive).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digest}  {name}.tar.gz\n").into_bytes()
}

/// The archive: everything under a directory `name`, in the order of names, nobody's, changed at `epoch`.
fn pack(name: &str, programs: &Path, texts: &Path, epoch: u64) -> Result<Vec<u8>> {
    let packed = servers::programs();
    let mut files: Vec<_> =
        packed.iter().map(|program| (format!("bin/{program}"), programs.join(program), 0o755)).collect();
    let manuals = packed.iter().map(|program| format!("crates/{program}/README.md"));
    for text in TEXTS.map(str::to_owned).into_iter().chain(manuals) {
        collect(texts, Path::new(&text), &mut files)?;
    }
    files.sort();
    let gzip = GzBuilder::new().write(Vec::new(), Compression::best());
    let mut archive = tar::Builder::new(gzip);
    for (inside, path, mode) in files {
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(mode);
        header.set_mtime(epoch);
        header.set_uid(0);
        header.set_gid(0);
        archive.append_data(&mut header, format!("{name}/{inside}"), &bytes[..]).context(inside)?;
    }
    Ok(archive.into_inner()?.finish()?)
}

/// A file, or all files beneath a directory.
fn collect(root: &Path, inside: &Path, files: &mut Vec<(String, PathBuf, u32)>) -> Result<()> {
    let path = root.join(inside);
    if path.is_dir() {
        for entry in fs::read_dir(&path).with_context(|| path.display().to_string())? {
            collect(root, &inside.join(entry?.file_name()), files)?;
        }
    } else if path.is_file() {
        files.push((inside.to_str().context("a name that is not UTF-8")?.to_owned(), path, 0o644));
    } else {
        bail!("{} is missing", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive() -> Vec<u8> {
        let programs = tempfile::tempdir().unwrap();
        for program in servers::programs() {
            fs::write(programs.path().join(program), program).unwrap();
        }
        pack("quintet-1", programs.path(), &root(), 1_700_000_000).unwrap()
    }

    #[test]
    fn programs_and_what_their_users_read_go_in_and_nothing_else() {
        let archive = archive();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&archive[..]));
        let mut inside = std::collections::BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap()), (0, 0, 1_700_000_000));
            let path = entry.path().unwrap().strip_prefix("quintet-1").unwrap().to_str().unwrap().to_owned();
            inside.insert(path, header.mode().unwrap());
        }
        for program in servers::programs() {
            assert_eq!(inside.remove(&format!("bin/{program}")), Some(0o755));
            assert_eq!(inside.remove(&format!("crates/{program}/README.md")), Some(0o644));
        }
        for text in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "docs/kvcache.md"] {
            assert_eq!(inside.remove(text), Some(0o644), "{text}");
        }
        assert!(inside.keys().all(|path| path.starts_with("docs/")), "{inside:?}");
    }

    #[test]
    fn the_same_input_makes_the_same_bytes() {
        let (first, second) = (archive(), archive());
        assert!(first == second);
        assert!(String::from_utf8(sums("quintet-1", &first)).unwrap().ends_with("  quintet-1.tar.gz\n"));
    }

    #[test]
    fn a_program_that_is_missing_is_an_error() {
        let nothing = tempfile::tempdir().unwrap();
        let error = pack("quintet-1", nothing.path(), &root(), 0).unwrap_err();
        assert!(format!("{error:#}").contains(&*nothing.path().to_string_lossy()), "{error:#}");
    }
}
