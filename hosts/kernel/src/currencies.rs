//! Currencies that users make, and reservations: more private calls of [`Client`].

use crate::abi::{self, Call, Op, reserved};
use crate::calls::{Client, Grant, about_process, caller, failed, out_of_tickets};
use crate::error::{Error, Result};
use crate::names::user_name;
use nix::errno::Errno;

/// A currency that a user made. The kernel identifies it by a number that is never used again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Currency {
    number: u64,
    owner: u32,
    name: String,
}

impl Currency {
    /// The same as [`abi::Node::number`].
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn owner(&self) -> u32 {
        self.owner
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Reservations and settings of the whole machine. Shares are in hundredths of a percent of one CPU, but `root`'s is of best
/// effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The whole machine.
    pub machine: u64,
    /// All reservations together.
    pub held: u64,
    /// Best effort's least share.
    pub floor: u64,
    /// Root's least share of best effort.
    pub root: u64,
    /// Base tickets of new users.
    pub default: u32,
}

impl Client {
    /// The currency `name` of user `owner`. For the owner, or with CAP_SYS_NICE.
    pub fn currency(&self, owner: u32, name: &str) -> Result<Currency> {
        let mut call = named(Op::FindCurrency, owner, name)?;
        self.carry_out(&mut call)
            .map_err(|errno| about_currency(errno, owner, name))?;
        Ok(currency(&call, owner, name))
    }

    /// Tickets of a currency in the currency around it; 0 if it is frozen.
    pub fn currency_tickets(&self, of: &Currency) -> Result<u32> {
        let mut call = named(Op::FindCurrency, of.owner, &of.name)?;
        self.carry_out(&mut call)
            .map_err(|errno| about_currency(errno, of.owner, &of.name))?;
        Ok(u32::try_from(call.out[1]).unwrap_or(u32::MAX))
    }

    /// Makes a currency with 1 to 10,000 tickets inside another one of the same owner, or directly in the owner's own currency.
    pub fn make_currency(
        &self,
        owner: u32,
        name: &str,
        tickets: u32,
        inside: Option<&Currency>,
    ) -> Result<Currency> {
        let mut call = Call {
            value: tickets.into(),
            currency: number(inside),
            ..named(Op::MakeCurrency, owner, name)?
        };
        self.carry_out(&mut call).map_err(|errno| match errno {
            Errno::ENOENT => missing(inside, name),
            Errno::ERANGE => out_of_tickets(tickets),
            other => between(other, owner, name, inside),
        })?;
        Ok(currency(&call, owner, name))
    }

    /// Sets a currency's tickets, 1 to 10,000: more are inflation in the currency around it, fewer deflation. 0 freezes all that
    /// is in it. What CAP_SYS_NICE sets for another user's currency is also the most that its owner may set from then on.
    pub fn fund_currency(&self, of: &Currency, tickets: u32) -> Result<()> {
        self.fund(of, tickets.into())
    }

    /// The same, with a separate limit. Needs CAP_SYS_NICE.
    pub fn grant_currency(&self, of: &Currency, grant: Grant) -> Result<()> {
        self.fund(of, grant.value())
    }

    fn fund(&self, of: &Currency, value: u64) -> Result<()> {
        let mut call = about(Op::FundCurrency, of, value);
        self.carry_out(&mut call).map_err(|errno| match errno {
            Errno::ERANGE => out_of_tickets(value as u32), // the lower half of the value
            Errno::EPERM => limited(of),
            other => about_currency(other, of.owner, &of.name),
        })
    }

    /// Moves a currency into another one of the same owner, or directly into the owner's own currency.
    pub fn move_currency(&self, of: &Currency, inside: Option<&Currency>) -> Result<()> {
        self.carry_out(&mut about(Op::MoveCurrency, of, number(inside)))
            .map_err(|errno| match errno {
                Errno::EPERM => limited(of),
                other => between(other, of.owner, &of.name, inside),
            })
    }

    /// Ends a currency. What is in it moves to the currency around it.
    pub fn retire_currency(&self, of: &Currency) -> Result<()> {
        self.carry_out(&mut about(Op::RetireCurrency, of, 0))
            .map_err(|errno| match errno {
                Errno::EPERM => limited(of),
                other => about_currency(other, of.owner, &of.name),
            })
    }

    /// Moves a process into a currency, or back into its user's own. The number of its tickets stays.
    pub fn move_process(&self, pid: u32, to: Option<&Currency>) -> Result<()> {
        let mut call = Call {
            op: Op::MoveProcess as u32,
            id: pid,
            currency: number(to),
            ..Call::default()
        };
        self.carry_out(&mut call)
            .map_err(|errno| match (errno, to) {
                (Errno::ENOENT, Some(to)) => about_currency(errno, to.owner, &to.name),
                _ => about_process(errno, pid),
            })
    }

    /// Reserves `share` hundredths of a percent of one CPU for a process and the children that it forks from now on, until the
    /// last of them has exited; 0 ends the reservation. Needs CAP_SYS_NICE.
    pub fn reserve_for_process(&self, pid: u32, share: u64) -> Result<()> {
        let mut call = Call {
            op: Op::Reserve as u32,
            id: pid,
            value: share,
            ..Call::default()
        };
        self.carry_out(&mut call).map_err(|errno| match errno {
            Errno::ESRCH => about_process(errno, pid),
            other => self.refused(other, format!("process {pid}"), share, call.out[0]),
        })
    }

    /// The same for a currency, until it is retired.
    pub fn reserve_for_currency(&self, of: &Currency, share: u64) -> Result<()> {
        let mut call = about(Op::Reserve, of, share);
        self.carry_out(&mut call).map_err(|errno| match errno {
            Errno::ENOENT | Errno::ESRCH => about_currency(errno, of.owner, &of.name),
            other => self.refused(other, format!("currency {}", of.name), share, call.out[0]),
        })
    }

    pub fn reserved(&self) -> Result<Reserved> {
        let mut call = Call {
            op: Op::GetReserved as u32,
            ..Call::default()
        };
        self.carry_out(&mut call).map_err(failed)?;
        Ok(Reserved {
            machine: call.out[reserved::MACHINE],
            held: call.out[reserved::ALL],
            floor: call.out[reserved::FLOOR],
            root: call.out[reserved::ROOT],
            default: u32::try_from(call.out[reserved::DEFAULT]).unwrap_or(u32::MAX),
        })
    }

    /// Sets best effort's least share of the machine, in hundredths of a percent, 1 to 10,000. Needs CAP_SYS_NICE.
    pub fn set_floor(&self, share: u32) -> Result<()> {
        self.set_for_all(Op::SetFloor, share)
            .map_err(|errno| match errno {
                Errno::EBUSY => Error::Floor {
                    floor: share.into(),
                    held: self
                        .reserved()
                        .map_or(0, |all| all.held * u64::from(abi::SHARE_ONE) / all.machine),
                },
                other => not_for_all(other, "best effort's part", share, 1, abi::SHARE_ONE),
            })
    }

    /// Sets root's least share of best effort, in hundredths of a percent, 0 to 5,000. Needs CAP_SYS_NICE.
    pub fn set_root(&self, share: u32) -> Result<()> {
        self.set_for_all(Op::SetRoot, share)
            .map_err(|errno| not_for_all(errno, "root's part", share, 0, abi::ROOT_MAX))
    }

    /// Sets the base tickets of users that the scheduler sees for the first time from now on, 100 to 10,000. Needs CAP_SYS_NICE.
    pub fn set_default_base_tickets(&self, tickets: u32) -> Result<()> {
        self.set_for_all(Op::SetDefault, tickets)
            .map_err(|errno| match errno {
                Errno::ERANGE => Error::OutOfRange {
                    what: "base tickets",
                    given: tickets.into(),
                    min: abi::BASE_TICKETS_MIN.into(),
                    max: abi::BASE_TICKETS_MAX.into(),
                },
                other => not_for_all(other, "the default base tickets", 0, 0, 0),
            })
    }

    fn set_for_all(&self, op: Op, value: u32) -> nix::Result<()> {
        let mut call = Call {
            op: op as u32,
            value: value.into(),
            ..Call::default()
        };
        self.carry_out(&mut call)
    }

    fn refused(&self, errno: Errno, who: String, asked: u64, left: u64) -> Error {
        let all = match self.reserved() {
            Ok(all) => all,
            Err(error) => return error,
        };
        match errno {
            Errno::EBUSY => Error::Admission {
                who,
                asked,
                left,
                machine: all.machine,
                floor: all.floor,
                held: all.held,
            },
            Errno::EPERM => Error::NotNice {
                what: format!("a reservation for {who}"),
                caller: caller(),
            },
            Errno::ERANGE => Error::ShareRange {
                what: "reserved",
                given: asked,
                min: 1,
                max: all.machine,
            },
            Errno::ENOSPC => Error::NoSlot,
            other => failed(other),
        }
    }
}

fn number(of: Option<&Currency>) -> u64 {
    of.map_or(0, |currency| currency.number)
}

fn currency(call: &Call, owner: u32, name: &str) -> Currency {
    Currency {
        number: call.out[0],
        owner,
        name: name.to_owned(),
    }
}

fn about(op: Op, of: &Currency, value: u64) -> Call {
    Call {
        op: op as u32,
        currency: of.number,
        value,
        ..Call::default()
    }
}

fn named(op: Op, owner: u32, name: &str) -> Result<Call> {
    let mut call = Call {
        op: op as u32,
        id: owner,
        ..Call::default()
    };
    // The name ends with a NUL; the kernel checks the rest.
    if name.is_empty() || name.len() >= call.name.len() {
        return Err(no_name(name));
    }
    call.name[..name.len()].copy_from_slice(name.as_bytes());
    Ok(call)
}

fn no_name(name: &str) -> Error {
    Error::CurrencyName {
        name: name.to_owned(),
    }
}

fn about_currency(errno: Errno, owner: u32, name: &str) -> Error {
    let name = name.to_owned();
    match errno {
        Errno::ENOENT | Errno::ESRCH => Error::NoCurrency { name },
        Errno::EPERM => Error::NotYourCurrency {
            user: user_name(owner),
            caller: caller(),
        },
        Errno::EINVAL => no_name(&name),
        Errno::EAGAIN => Error::CurrenciesChanging,
        other => failed(other),
    }
}

// For EPERM about the caller's own currency. For another user's the kernel returns ENOENT.
fn limited(of: &Currency) -> Error {
    Error::Limited {
        what: format!("currency {}", of.name),
    }
}

fn missing(inside: Option<&Currency>, name: &str) -> Error {
    let name = inside.map_or(name, Currency::name).to_owned();
    Error::NoCurrency { name }
}

fn between(errno: Errno, owner: u32, name: &str, inside: Option<&Currency>) -> Error {
    let (name, inside) = (
        name.to_owned(),
        inside.map_or("", Currency::name).to_owned(),
    );
    match errno {
        Errno::EEXIST => Error::CurrencyExists { name },
        Errno::EXDEV => Error::OfAnotherUser { name, inside },
        Errno::ELOOP => Error::InsideItself { name, inside },
        Errno::E2BIG => Error::TooDeep { name },
        Errno::ENOSPC => Error::NoCurrencySlot { name },
        other => about_currency(other, owner, &name),
    }
}

fn not_for_all(errno: Errno, what: &'static str, given: u32, min: u32, max: u32) -> Error {
    match errno {
        Errno::EPERM => Error::NotNice {
            what: format!("setting {what}"),
            caller: caller(),
        },
        Errno::ERANGE => Error::ShareRange {
            what,
            given: given.into(),
            min: min.into(),
            max: max.into(),
        },
        other => failed(other),
    }
}
