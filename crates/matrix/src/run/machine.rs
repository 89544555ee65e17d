//! The machine on which servers run: this one, or one behind a command that runs another command elsewhere (`ssh host`, `ip netns exec ns1`).
//!
//! Commands go there as a script on the standard input of `PREFIX sh`, never words of its command line: a prefix
//! may hand words to a shell once more, as ssh does.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use results::Remote;

/// Limit for a short command there.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Path below /proc → content.
pub(crate) type Files = BTreeMap<String, String>;

#[derive(Clone, Debug)]
pub(crate) enum Machine {
    Here,
    Remote(Vec<String>),
}

impl Machine {
    pub(crate) fn of(remote: Option<&Remote>) -> Self {
        remote.map_or(Self::Here, |remote| Self::Remote(remote.prefix.clone()))
    }

    /// Reads /proc about a process and the machine under it.
    pub(crate) fn read(&self, pid: u32) -> Result<Files> {
        match self {
            Self::Here => Ok(read_here(pid)),
            Self::Remote(prefix) => {
                // `PATH:line` for each line; a thread that ends meanwhile is left out.
                let script = format!(
                    "grep -s '' /dev/null /proc/stat /proc/sys/kernel/random/boot_id /proc/{pid}/stat /proc/{pid}/status \
                     /proc/{pid}/task/*/schedstat /proc/{pid}/task/*/status; true\n"
                );
                Ok(split(&run(prefix, &script)?))
            }
        }
    }

    /// Ends a process with a signal. Whether it was still there is not told.
    pub(crate) fn signal(prefix: &[String], pid: u32, name: &str) -> Result<()> {
        run(prefix, &format!("kill -{name} {pid} 2>/dev/null; true\n")).map(drop)
    }
}

/// Checks that what servers need is there, and describes the machine in a sentence.
///
/// # Errors
/// Names what is missing.
pub(crate) fn probe(prefix: &[String], programs: &[PathBuf], site: &Path) -> Result<String> {
    let words: Vec<String> = programs.iter().map(|program| quoted(&program.to_string_lossy())).collect();
    let (programs, site) = (words.join(" "), quoted(&site.to_string_lossy()));
    // Everything by one connection: behind ssh each takes a while.
    let script = format!(
        "for program in grep taskset {programs}; do command -v \"$program\" >/dev/null || echo \"missing $program\"; done
test -d {site} || echo \"missing\" {site}
echo \"is $(uname -sr), $(getconf _NPROCESSORS_ONLN) CPUs, $(sed -n '/^model name/{{s/.*: //p;q}}' /proc/cpuinfo)\"
"
    );
    let said = run(prefix, &script)?;
    let missing: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("missing ")).collect();
    if !missing.is_empty() {
        let (prefix, missing) = (prefix.join(" "), missing.join(", "));
        bail!("behind `{prefix}` there is no {missing}: programs and files must lie at the same paths there");
    }
    let machine = said.lines().find_map(|line| line.strip_prefix("is ")).unwrap_or("an unknown machine");
    Ok(format!("The servers' machine: {}.", machine.trim_end_matches([',', ' '])))
}

fn read_here(pid: u32) -> Files {
    let process = format!("/proc/{pid}");
    let mut paths: Vec<String> = ["/proc/stat", "/proc/sys/kernel/random/boot_id"].map(str::to_owned).to_vec();
    paths.extend([format!("{process}/stat"), format!("{process}/status")]);
    for task in fs::read_dir(format!("{process}/task")).into_iter().flatten().flatten() {
        let task = task.path().to_string_lossy().into_owned();
        paths.extend([format!("{task}/schedstat"), format!("{task}/status")]);
    }
    paths.into_iter().filter_map(|path| fs::read_to_string(&path).ok().map(|text| (path, text))).collect()
}

/// `PATH:line` by path.
fn split(text: &str) -> Files {
    let mut files = Files::new();
    for (path, line) in text.lines().filter_map(|line| line.split_once(':')) {
        let content = files.entry(path.to_owned()).or_default();
        content.push_str(line);
        content.push('\n');
    }
    files
}

/// Runs a script there and returns what it prints.
fn run(prefix: &[String], script: &str) -> Result<String> {
    let what = || format!("{} sh", prefix.join(" "));
    let mut child = shell(prefix).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().with_context(what)?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let (Some(mut stdin), Some(mut stdout)) = (stdin, stdout) else { bail!("{}: no pipes", what()) };
    let written = stdin.write_all(script.as_bytes());
    drop(stdin);
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let outcome = stdout.read_to_string(&mut text).map(|_| text);
        // Nobody listens any more when the deadline has passed.
        drop(sender.send(outcome));
    });
    let answer = receiver.recv_timeout(ANSWER_WITHIN);
    if answer.is_err() {
        // Fails only when it has ended after all.
        drop(child.kill());
    }
    let status = child.wait().with_context(what)?;
    let Ok(text) = answer else { bail!("{}: no answer within {} s", what(), ANSWER_WITHIN.as_secs()) };
    written.with_context(what)?;
    if !status.success() {
        bail!("{}: {status}", what());
    }
    text.with_context(what)
}

/// `PREFIX sh`, which reads its script from standard input.
pub(crate) fn shell(prefix: &[String]) -> Command {
    let mut words = prefix.iter().map(String::as_str).chain(["sh"]);
    let mut command = Command::new(words.next().unwrap_or("sh"));
    command.args(words);
    command
}

/// Starts a command on `cpus` and says its pid first (`pid 123`): the shell that says so becomes the command. It ends with
/// the command's status. When standard input ends (we are gone, however), the command is killed.
pub(crate) fn start_script(command: &[String], cpus: &[usize]) -> String {
    let cpus = cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    // In braces: the shell must have read all of it before anything else reads standard input.
    format!(
        "{{
exec 3<&0
sh -c 'echo \"pid $$\"; exec \"$@\"' sh taskset -c {cpus} {} </dev/null 3<&- &
server=$!
(while read -r line; do :; done <&3; kill -KILL $server) >/dev/null 2>&1 &
watch=$!
exec 3<&-
wait $server
status=$?
kill $watch 2>/dev/null
exit $status
}}
",
        words.join(" ")
    )
}

/// As one word of a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The prefix that changes nothing.
    fn nowhere_else() -> Vec<String> {
        vec!["env".to_owned()]
    }

    #[test]
    fn the_same_is_read_of_a_process_here_and_behind_a_prefix() {
        let pid = std::process::id();
        let (here, there) = (Machine::Here.read(pid).unwrap(), Machine::Remote(nowhere_else()).read(pid).unwrap());
        for path in ["/proc/sys/kernel/random/boot_id".to_owned(), "/proc/stat".to_owned(), format!("/proc/{pid}/stat")]
        {
            assert!(here.contains_key(&path), "{path}");
            assert_eq!(here[&path].lines().count(), there[&path].lines().count(), "{path}");
        }
        let boot = "/proc/sys/kernel/random/boot_id";
        assert_eq!(here[boot], there[boot]);
        assert!(there.keys().any(|path| path.ends_with("/schedstat")));
    }

    #[test]
    fn words_survive_the_shell() {
        let word = "it's $HOME `x` \"y\" \\";
        assert_eq!(run(&nowhere_else(), &format!("printf %s {}\n", quoted(word))).unwrap(), word);
    }

    #[test]
    fn what_is_missing_there_is_named_and_the_machine_is_described() {
        let probe = |program: &str, site: &str| probe(&nowhere_else(), &[PathBuf::from(program)], Path::new(site));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let described = probe("/bin/sh", "/").unwrap();
        assert!(described.contains(kernel.trim()) && described.contains(" CPUs"), "{described}");
        let error = probe("/no/such program", "/no/directory, it's").unwrap_err().to_string();
        assert!(error.contains("there is no /no/such program, /no/directory, it's:"), "{error}");
    }

    #[test]
    fn what_fails_there_fails_here() {
        assert!(run(&nowhere_else(), "exit 3\n").unwrap_err().to_string().contains("exit status: 3"));
        assert!(run(&["/does/not/exist".to_owned()], "").is_err());
    }
}
