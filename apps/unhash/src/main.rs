use std::process::ExitCode;

fn main() -> ExitCode {
    unhash::commands::run()
}
