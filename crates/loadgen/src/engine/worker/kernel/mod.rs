//! The kernel as a thread uses it.

mod epoll;
mod ring;

pub(super) use self::{
    epoll::Gathering,
    ring::{Kernel, parts},
};
