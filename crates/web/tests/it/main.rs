//! The front end before a site in memory, through its sessions.

#[cfg(test)]
mod fragmentation;
#[cfg(test)]
mod own;
#[cfg(test)]
mod shelf;
#[cfg(test)]
mod uploads;
