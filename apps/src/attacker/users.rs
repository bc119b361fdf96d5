//! Processes of one user that act as another user, or have uids of a user namespace, or misleading names.

use crate::setup::{Never, burn, die_with_parent, helper, ready, sleep_for_ever};
use anyhow::{Context, Result, bail};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Pid, Uid, seteuid, setresuid};
use std::ffi::CString;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use tombola_kernel::abi::TICKETS_DEFAULT;
use tombola_kernel::calls::Client;

#[derive(clap::Args)]
pub struct ActAs {
    #[arg(long)]
    uid: u32,
}

pub fn act_as(args: &ActAs) -> Never {
    seteuid(Uid::from_raw(args.uid)).context("only root may take another uid")?;
    ready();
    burn()
}

#[derive(clap::Args)]
pub struct BecomeOwner {
    /// Enter this currency of the owner at once
    #[arg(long)]
    enter: Option<String>,
}

pub fn become_owner(args: &BecomeOwner) -> Never {
    let (owner, client) = (Uid::effective(), Client::open()?);
    let currency = match &args.enter {
        Some(name) => Some(client.currency(owner.as_raw(), name)?),
        None => None,
    };
    setresuid(owner, owner, owner)?;
    if currency.is_some() {
        client.move_process(std::process::id(), currency.as_ref())?;
    }
    ready();
    burn()
}

#[derive(clap::Args)]
pub struct Named {
    name: String,
}

pub fn named(args: &Named) -> Never {
    nix::sys::prctl::set_name(&CString::new(args.name.as_str())?)?;
    ready();
    burn()
}

#[derive(clap::Args)]
pub struct Namespace {
    /// Uid of the user that makes the namespace
    #[arg(long)]
    owner: u32,
    /// The first uid that is mapped into it
    #[arg(long)]
    first: u32,
    /// How many uids have a process in it
    #[arg(long)]
    uids: u32,
    /// The processes sleep instead of burning
    #[arg(long)]
    asleep: bool,
    /// Each process tries to make a currency of its uid's, and to enter it
    #[arg(long)]
    own_currency: bool,
}

/// As many as /etc/subuid gives a user by default.
const UIDS: u32 = 65_536;

/// One byte, from one process to another.
struct Signal(PipeReader, PipeWriter);

impl Signal {
    fn new() -> Result<Self> {
        let (reader, writer) = pipe()?;
        Ok(Self(reader, writer))
    }

    fn send(&mut self) -> Result<()> {
        Ok(self.1.write_all(b".")?)
    }

    fn wait(&mut self) -> Result<()> {
        Ok(self.0.read_exact(&mut [0])?)
    }
}

/// Root writes the map, as newuidmap does it for a user and a container's daemon for itself.
pub fn namespace(args: &Namespace) -> Never {
    let (mut made, mut mapped, mut set_up) = (Signal::new()?, Signal::new()?, Signal::new()?);
    let owner = Uid::from_raw(args.owner);
    let child = match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Parent { child } => child,
        nix::unistd::ForkResult::Child => {
            setresuid(owner, owner, owner)?;
            unshare(CloneFlags::CLONE_NEWUSER)?;
            die_with_parent()?;
            made.send()?;
            mapped.wait()?;
            populate(args)?;
            set_up.send()?;
            sleep_for_ever()
        }
    };
    made.wait()?;
    map(child, args.first)?;
    mapped.send()?;
    set_up.wait()?;
    ready();
    sleep_for_ever()
}

fn map(child: Pid, first: u32) -> Result<()> {
    let file = format!("/proc/{child}/uid_map");
    std::fs::write(&file, format!("0 {first} {UIDS}"))
        .with_context(|| format!("cannot write {file}"))
}

/// Starts one process for each uid; returns when all of them have theirs.
fn populate(args: &Namespace) -> Result<()> {
    let (mut reader, mut writer) = pipe()?;
    for number in 1..=args.uids {
        if helper()? {
            let uid = Uid::from_raw(number);
            setresuid(uid, uid, uid)?;
            die_with_parent()?;
            if args.own_currency {
                enter_own_currency(args.first + number)?;
            }
            writer.write_all(b".")?;
            if args.asleep {
                sleep_for_ever();
            }
            burn();
        }
    }
    drop(writer);
    let mut arrived = vec![0; args.uids as usize];
    if reader.read_exact(&mut arrived).is_err() {
        bail!("not all processes could take their uids");
    }
    Ok(())
}

/// Does nothing more if the currency is refused, as it should be.
fn enter_own_currency(uid: u32) -> Result<()> {
    let client = Client::open()?;
    if let Ok(own) = client.make_currency(uid, "own", TICKETS_DEFAULT, None) {
        client.move_process(std::process::id(), Some(&own))?;
    }
    Ok(())
}
