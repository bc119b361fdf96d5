//! Arguments and help texts of several commands. The structures have no doc comments: those would replace the commands' help.

use crate::amounts;
use std::ffi::OsString;
use tombola_kernel::abi::TICKETS_DEFAULT;
use tombola_kernel::calls::Grant;

/// How the help of most subcommands ends.
pub const EXIT_STATUS: &str =
    "Exit status: 0 done; 1 refused, and nothing was changed; 2 usage error.";

#[derive(clap::Args)]
pub struct Launch {
    /// The command's process tickets, 1 to 10000
    #[arg(short, long, value_name = "TICKETS", default_value_t = TICKETS_DEFAULT, value_parser = amounts::tickets,
          allow_hyphen_values = true)]
    pub tickets: u32,

    /// The command and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}

#[derive(clap::Args)]
pub struct Limit {
    /// Set no limit for the owner (needs CAP_SYS_NICE). Without this option, the number that an administrator sets for another
    /// user is also the most that this user may set from then on
    #[arg(long)]
    owner_may_exceed: bool,
}

impl Limit {
    /// None without the option: then the scheduler decides on a limit.
    pub fn grant(&self, tickets: u32) -> Option<Grant> {
        self.owner_may_exceed.then(|| Grant::unlimited(tickets))
    }
}
