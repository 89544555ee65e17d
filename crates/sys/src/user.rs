//! The user that a process runs as.

use nix::unistd::{Gid, Uid, User, getuid, setgroups, setresgid, setresuid};

/// Reason that the process cannot become another user.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    #[error("there is no user {0}")]
    Unknown(String),
    #[error("only root can become another user")]
    NotRoot,
    #[error("the kernel refuses")]
    Refused(#[from] nix::Error),
}

pub fn is_root() -> bool {
    getuid().is_root()
}

/// User that this process can become.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    user: Uid,
    group: Gid,
}

impl Account {
    /// Looks a user up, which takes files that the process may not be able to read later.
    ///
    /// # Errors
    /// There is no such user, or the process is another one and not root.
    pub fn find(name: &str) -> Result<Self, UserError> {
        let user = User::from_name(name)?.ok_or_else(|| UserError::Unknown(name.to_owned()))?;
        if !is_root() && getuid() != user.uid {
            return Err(UserError::NotRoot);
        }
        Ok(Self { user: user.uid, group: user.gid })
    }

    /// Makes this process that user, with its first group and no other, on all threads and for good. Nothing happens where
    /// it is that user already.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn assume(self) -> Result<(), UserError> {
        if !is_root() {
            return Ok(());
        }
        // The groups go first: only root can give them up.
        setgroups(&[])?;
        setresgid(self.group, self.group, self.group)?;
        setresuid(self.user, self.user, self.user)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_user_is_an_error() {
        assert!(matches!(Account::find("no such user"), Err(UserError::Unknown(_))));
    }
}
