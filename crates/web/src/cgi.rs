//! CGI programs of one host (RFC 3875): which one a path means, and running it.
//!
//! A program runs on a thread of its own pool, within limits of time, output and number, and in a process group of its own,
//! which ends with it. Its answer is deferred. Programs that write whole HTTP responses themselves (NPH) are not supported.

mod environment;

use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytesize::ByteSize;
use clap::Args;
use parking_lot::{Condvar, Mutex};
use proto::{Outbox, Promise};
use sys::{
    beneath::{OpenError, Root},
    eventfd::EventFd,
    program::{Program, ProgramError, ProgramLimits},
};
use wire::http1::{Request, Status};

pub(crate) use self::environment::Addresses;
use self::environment::{Facts, environment};
use crate::{
    NotFound, path,
    waiting::{Outcome, Slot},
    workers::Workers,
};

/// Prefix of the paths that mean programs.
pub(crate) const PREFIX: &[u8] = b"/cgi-bin/";
/// Number of requests that may wait for a program to end; beyond it, a client is told to try again.
const WAITING_MAX: usize = 64;
/// Length of the error output of one run that is logged, in bytes.
const ERRORS_BYTES_MAX: usize = 4 << 10;
/// Time in which programs are given up at the end of the process.
const STOP_MAX: Duration = Duration::from_secs(2);

/// Stops all programs of the process.
static STOP: LazyLock<Option<Arc<EventFd>>> = LazyLock::new(|| EventFd::new().ok().map(Arc::new));
/// Number of programs that run.
static RUNNING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// Kills all programs, so that none outlives the process.
pub fn stop_programs() {
    let Some(stop) = &*STOP else { return };
    stop.poke();
    let (running, ended) = &RUNNING;
    let _ = ended.wait_while_for(&mut running.lock(), |running| *running > 0, STOP_MAX);
}

/// Flags about CGI programs.
#[derive(Clone, Debug, Default, Args)]
pub struct CgiArgs {
    /// Directory of CGI programs, which are run for paths below /cgi-bin/
    #[arg(long, value_name = "DIR")]
    pub cgi_dir: Option<PathBuf>,

    /// A CGI program that runs longer is killed
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = positive_duration)]
    pub cgi_timeout: Duration,

    /// Length of the longest output of a CGI program; one that writes more is killed
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = service::positive_size)]
    pub cgi_max_output: ByteSize,

    /// Number of CGI programs that run at once; 64 more requests may wait
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u16).range(1..))]
    pub cgi_max_processes: u16,
}

fn positive_duration(text: &str) -> Result<Duration, String> {
    match service::duration(text)? {
        Duration::ZERO => Err("must be more than 0".to_owned()),
        duration => Ok(duration),
    }
}

impl CgiArgs {
    /// True if the directory of the programs is beneath this document root.
    pub(crate) fn is_beneath(&self, document_root: &Path) -> bool {
        let directory = self.cgi_dir.as_ref().and_then(|directory| directory.canonicalize().ok());
        let document_root = document_root.canonicalize().ok();
        directory.zip(document_root).is_some_and(|(directory, root)| directory.starts_with(root))
    }

    /// Returns the options of the programs, where a directory is named.
    pub(crate) fn options(&self) -> Option<CgiOptions> {
        Some(CgiOptions {
            directory: self.cgi_dir.clone()?,
            timeout: self.cgi_timeout,
            output_bytes_max: usize::try_from(self.cgi_max_output.as_u64()).unwrap_or(usize::MAX),
            processes_max: usize::from(self.cgi_max_processes),
        })
    }
}

/// Options of [`Programs`].
#[derive(Clone, Debug)]
pub struct CgiOptions {
    /// Directory of the programs.
    pub directory: PathBuf,
    pub timeout: Duration,
    /// Length of the longest output, in bytes.
    pub output_bytes_max: usize,
    /// Number of programs that run at once.
    pub processes_max: usize,
}

/// Reason why there are no programs.
#[derive(Debug, thiserror::Error)]
pub enum CgiError {
    #[error("cannot open the directory of CGI programs {}", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("--cgi-dir {} is the document root or above it, so every file would be a program", path.display())]
    AboveRoot { path: PathBuf },
}

/// Output of a program, or the reason why there is none.
pub(crate) type ProgramOutput = Result<Vec<u8>, ProgramError>;

/// Programs of one host.
#[derive(Debug)]
pub struct Programs {
    root: Root,
    directory: PathBuf,
    document_root: PathBuf,
    /// Normal path of the directory, with the slash at its end, where it is beneath the document root.
    hidden: Option<Vec<u8>>,
    limits: ProgramLimits,
    workers: Workers,
    /// Number of requests that run or wait, and their limit.
    admitted: Arc<AtomicUsize>,
    admitted_max: usize,
}

/// Program that a path means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Script<'a> {
    /// Path beneath the directory.
    file: &'a [u8],
    /// Part of the path that names the program.
    name: &'a [u8],
    /// Rest of the path.
    info: &'a [u8],
}

/// Request for a program.
pub(crate) struct ProgramRequest<'a> {
    /// Normal path.
    pub(crate) path: &'a [u8],
    pub(crate) request: &'a Request<'a>,
    /// Request line and fields, as they were sent.
    pub(crate) head: &'a [u8],
    pub(crate) body: Vec<u8>,
    pub(crate) peer: &'a Addresses,
    /// User, where the path needs one.
    pub(crate) user: Option<Box<[u8]>>,
}

impl Programs {
    /// Opens the directory of the programs of a host with this document root.
    ///
    /// # Errors
    /// See [`CgiError`].
    pub fn open(options: &CgiOptions, document_root: &Path) -> Result<Self, CgiError> {
        sys::limits::close_descriptors_on_exec();
        let problem = |source| CgiError::Directory { path: options.directory.clone(), source };
        let directory = options.directory.canonicalize().map_err(problem)?;
        let root = Root::open(&directory).map_err(|error| problem(error.into()))?;
        let document_root = document_root.canonicalize().unwrap_or_else(|_| document_root.to_owned());
        if document_root.starts_with(&directory) {
            return Err(CgiError::AboveRoot { path: directory });
        }
        let hidden = directory.strip_prefix(&document_root).ok();
        let hidden = hidden.map(|below| [b"/", below.as_os_str().as_bytes(), b"/"].concat());
        Ok(Self {
            root,
            hidden,
            directory,
            document_root,
            limits: ProgramLimits {
                time: options.timeout,
                output_bytes_max: options.output_bytes_max,
                errors_bytes_max: ERRORS_BYTES_MAX,
            },
            workers: Workers::start(options.processes_max),
            admitted: Arc::default(),
            admitted_max: options.processes_max.saturating_add(WAITING_MAX),
        })
    }

    /// True if the files below this normal path are programs of a directory beneath the document root, and never sent.
    pub(crate) fn hides(&self, normal: &[u8]) -> bool {
        // The directory itself, with the slash or without, is no program either.
        self.hidden.as_ref().is_some_and(|hidden| normal.starts_with(hidden) || normal == &hidden[..hidden.len() - 1])
    }

    /// Checks that a normal path means a file that may be sent.
    ///
    /// # Errors
    /// It means a program, or is in the directory of programs.
    pub(crate) fn check(&self, normal: &[u8]) -> Result<(), NotFound> {
        if normal.starts_with(PREFIX) && normal.len() > PREFIX.len() {
            return Err(NotFound::Program(normal.to_vec()));
        }
        if self.hides(normal) { Err(NotFound::MISSING) } else { Ok(()) }
    }

    /// Finds the program that a normal path below [`PREFIX`] means: the first file on it.
    fn find<'a>(&self, normal: &'a [u8]) -> Result<Script<'a>, Status> {
        let below = normal.strip_prefix(PREFIX).ok_or(Status::NotFound)?;
        let slashes = below.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in slashes.chain([below.len()]).filter(|&end| end > 0) {
            let file = &below[..end];
            let seen = self.root.look(file).map_err(|error| match error {
                OpenError::Denied => Status::Forbidden,
                OpenError::Missing | OpenError::Directory | OpenError::NotRegular => Status::NotFound,
                OpenError::Exhausted => Status::ServiceUnavailable,
                OpenError::Failed(_) => Status::InternalError,
            })?;
            if seen.is_regular && !seen.is_executable {
                return Err(Status::Forbidden);
            }
            if seen.is_regular {
                let (name, info) = normal.split_at(PREFIX.len() + end);
                return Ok(Script { file, name, info });
            }
            if !seen.is_directory {
                return Err(Status::NotFound);
            }
        }
        Err(Status::NotFound)
    }

    /// Runs the program for a request. The slot will have its output when the promise is fulfilled.
    ///
    /// # Errors
    /// There is no such program, or too many run.
    pub(crate) fn run(&self, request: ProgramRequest<'_>, out: &mut Outbox) -> Result<Arc<Slot>, NotFound> {
        let script = self.find(request.path).map_err(NotFound::Status)?;
        let admission = self.admit().ok_or(NotFound::Status(Status::ServiceUnavailable))?;
        let Some(stop) = STOP.clone() else { return Err(NotFound::Status(Status::ServiceUnavailable)) };
        let slot = Arc::new(Slot::default());
        let run = Run {
            command: self.command(&script, &request),
            name: String::from_utf8_lossy(script.name).into_owned(),
            input: request.body,
            limits: self.limits,
            stop,
            promise: Some(out.defer()),
            slot: Arc::clone(&slot),
            _admission: admission,
        };
        // A job that is refused is dropped, which answers the request.
        let _ = self.workers.submit(move || run.run());
        Ok(slot)
    }

    fn admit(&self) -> Option<Admission> {
        let one_more = |admitted| (admitted < self.admitted_max).then_some(admitted + 1);
        self.admitted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Admission(Arc::clone(&self.admitted)))
    }

    fn command(&self, script: &Script<'_>, request: &ProgramRequest<'_>) -> Command {
        let file = self.directory.join(OsStr::from_bytes(script.file));
        let mut line = request.head.split(|&byte| byte == b' ');
        let facts = Facts {
            method: line.next().unwrap_or_default(),
            target: line.next().unwrap_or_default(),
            script_name: script.name,
            path_info: script.info,
            script_file: &file,
            document_root: &self.document_root,
            body_len: (!request.body.is_empty()).then_some(request.body.len()),
            peer: request.peer,
            user: request.user.as_deref(),
        };
        let mut command = Command::new(&file);
        command.env_clear().envs(environment(request.request, &facts));
        command.current_dir(file.parent().unwrap_or(&self.directory));
        command
    }
}

/// One of the requests that run or wait.
#[derive(Debug)]
struct Admission(Arc<AtomicUsize>);

impl Drop for Admission {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One run of a program. Where it is dropped unfinished, the client gets a 503.
struct Run {
    command: Command,
    /// Name for the log.
    name: String,
    input: Vec<u8>,
    limits: ProgramLimits,
    stop: Arc<EventFd>,
    promise: Option<Promise>,
    slot: Arc<Slot>,
    _admission: Admission,
}

impl Run {
    fn run(mut self) {
        let _running = Running::begin();
        if self.promise.as_ref().is_some_and(Promise::is_abandoned) {
            return;
        }
        let mut program = match Program::start(&mut self.command, self.limits, Arc::clone(&self.stop)) {
            Ok(program) => program,
            Err(error) => return self.answer(Err(error)),
        };
        let input = std::mem::take(&mut self.input);
        let promise = self.promise.as_ref();
        let output = program.output(&input, || promise.is_some_and(|promise| !promise.is_abandoned()));
        drop(input);
        let has_output = output.is_ok();
        self.answer(output);
        // It may have closed its output long before its end.
        if has_output
            && let Err(error) = program.wait()
            && !matches!(error, ProgramError::Cancelled)
        {
            tracing::warn!("CGI program {}: {error} after its output", self.name);
        }
        let errors = String::from_utf8_lossy(program.errors()).into_owned();
        for line in errors.lines() {
            tracing::warn!("CGI program {}: {}", self.name, line.escape_debug());
        }
    }

    fn answer(&mut self, output: ProgramOutput) {
        let is_unwanted = self.promise.as_ref().is_some_and(Promise::is_abandoned);
        match &output {
            Ok(_) => {}
            // A client may go whenever it likes.
            Err(ProgramError::Cancelled) if is_unwanted => tracing::debug!("CGI program {}: nobody waits", self.name),
            Err(error) => {
                let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
                tracing::warn!("CGI program {}: {error}{}", self.name, cause.unwrap_or_default());
            }
        }
        self.slot.set(Outcome::Program(output));
        if let Some(promise) = self.promise.take() {
            promise.fulfil(Outbox::default());
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(promise) = self.promise.take() {
            self.slot.set(Outcome::Program(Err(ProgramError::Cancelled)));
            promise.fulfil(Outbox::default());
        }
    }
}

/// One of the programs that run.
struct Running;

impl Running {
    fn begin() -> Self {
        *RUNNING.0.lock() += 1;
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (running, ended) = &RUNNING;
        *running.lock() -= 1;
        ended.notify_all();
    }
}

/// Returns the normal path of a request that means a program.
pub(crate) fn program_path(normal: Result<Vec<u8>, path::PathError>) -> Option<Vec<u8>> {
    normal.ok().filter(|normal| normal.starts_with(PREFIX) && normal.len() > PREFIX.len())
}
