fn main() -> std::process::ExitCode {
    tombola_cli::commands::lnice::main()
}
