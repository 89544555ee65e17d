//! Runs that were kept under a name, to be compared with.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{plan::filter::hint, store, usage, workspace};

fn directory() -> PathBuf {
    workspace::results().join("baselines")
}

/// Letters, digits, `-`, `_` and `.`, and not hidden: a name, not a path.
pub(crate) fn check_name(name: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.starts_with('.') || !name.bytes().all(is_plain) {
        return Err("a name is made of letters, digits, `-`, `_` and `.`".to_owned());
    }
    Ok(name.to_owned())
}

/// Keeps a run's files under a name; what was there under that name is replaced.
pub(crate) fn save(run: &Path, name: &str) -> Result<PathBuf> {
    save_in(&directory(), run, name)
}

fn save_in(baselines: &Path, run: &Path, name: &str) -> Result<PathBuf> {
    let target = baselines.join(name);
    let what = || format!("baseline {name}");
    fs::create_dir_all(baselines).with_context(what)?;
    // All or nothing: a copy beside it first.
    let copy = tempfile::Builder::new().prefix(".new-").tempdir_in(baselines).with_context(what)?;
    for file in store::KEPT {
        if run.join(file).exists() {
            fs::copy(run.join(file), copy.path().join(file)).with_context(what)?;
        }
    }
    if target.exists() {
        fs::remove_dir_all(&target).with_context(what)?;
    }
    fs::rename(copy.keep(), &target).with_context(what)?;
    Ok(target)
}

/// A run's directory, or the baseline of that name.
pub(crate) fn find(name_or_directory: &str) -> Result<PathBuf> {
    find_in(&directory(), name_or_directory)
}

fn find_in(baselines: &Path, name: &str) -> Result<PathBuf> {
    let given = PathBuf::from(name);
    let candidates = [given, baselines.join(name)];
    if let Some(found) = candidates.into_iter().find(|path| store::holds_run(path)) {
        return Ok(found);
    }
    let entries = fs::read_dir(baselines).into_iter().flatten().flatten();
    let names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| check_name(name).is_ok())
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Err(usage(format!(
        "`{name}` is neither the directory of a run nor a baseline; of baselines, {}",
        hint(name, &names)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_run_is_found_by_its_name_and_replaced_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let (run, baselines) = (directory.path().join("run"), directory.path().join("baselines"));
        fs::create_dir(&run).unwrap();
        fs::write(run.join("manifest.json"), "first").unwrap();
        fs::write(run.join("visits.jsonl"), "").unwrap();
        let kept = save_in(&baselines, &run, "main").unwrap();
        assert_eq!(find_in(&baselines, "main").unwrap(), kept);
        fs::write(run.join("manifest.json"), "second").unwrap();
        fs::remove_file(run.join("visits.jsonl")).unwrap();
        save_in(&baselines, &run, "main").unwrap();
        assert_eq!(fs::read_to_string(kept.join("manifest.json")).unwrap(), "second");
        assert!(!kept.join("visits.jsonl").exists(), "nothing is left of the one before");
        assert_eq!(fs::read_dir(&baselines).unwrap().count(), 1, "and no copy half made");
        assert_eq!(find_in(&baselines, run.to_str().unwrap()).unwrap(), run);
        let error = find_in(&baselines, "mian").unwrap_err();
        assert!(error.is::<crate::UsageError>() && error.to_string().contains("did you mean `main`?"), "{error}");
    }

    #[test]
    fn a_name_is_no_path() {
        for name in ["", ".", "..", "../x", "a/b", "a b"] {
            assert!(check_name(name).is_err(), "{name}");
        }
        assert_eq!(check_name("v1.2-main_3").unwrap(), "v1.2-main_3");
    }
}
