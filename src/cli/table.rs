//! `opptune table`: show, look up, check and export a frequency table.

use super::{CliError, Exit, text};
use crate::campaign::{Run, RunDir};
use crate::report::rows;
use crate::table::{Entry, Table, TableError};
use crate::trial::Stage;
use clap::{Subcommand, ValueEnum};
use std::path::{Path, PathBuf};

/// Show, look up, check or export a frequency table
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  opptune table show results/RUN
  opptune table lookup results/RUN --stage prefill --tokens 200
  opptune table export results/RUN --format csv --output table.csv")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Print the table
    Show {
        /// A table.toml, or the run directory that holds it
        file: PathBuf,
    },
    /// Print the entry for one stage and token count
    Lookup {
        /// A table.toml, or the run directory that holds it
        file: PathBuf,
        /// The stage
        #[arg(long)]
        stage: StageName,
        /// Prompt tokens (prefill) or output tokens (decode)
        #[arg(long)]
        tokens: u32,
    },
    /// Write the table in another format
    Export {
        /// A table.toml, or the run directory that holds it
        file: PathBuf,
        /// The format
        #[arg(long)]
        format: Format,
        /// Where to [default: standard output]
        #[arg(long, short)]
        output: Option<PathBuf>,
    },
    /// Write the table of a run again, from its journal
    Build {
        /// The run directory
        run: PathBuf,
    },
    /// Check that a table can be used
    Validate {
        /// A table.toml, or the run directory that holds it
        file: PathBuf,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StageName {
    Prefill,
    Decode,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Toml,
    Csv,
    Json,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        match self.what {
            What::Show { file } => print(&load(&file)?),
            What::Lookup { file, stage, tokens } => return lookup(&load(&file)?, stage, tokens),
            What::Export { file, format, output } => export(&load(&file)?, format, output.as_deref())?,
            What::Build { run } => build(&RunDir::open(&run)?)?,
            What::Validate { file } => {
                let table = load(&file)?;
                println!("{}: a valid table of {} entries", file.display(), table.entries.len());
            }
        }
        Ok(Exit::Done)
    }
}

fn build(dir: &RunDir) -> Result<(), CliError> {
    let table = Run::load(dir)?.table()?;
    table.save(&dir.table())?;
    println!("{}", dir.table().display());
    Ok(())
}

fn load(path: &Path) -> Result<Table, TableError> {
    if path.is_dir() { Table::load(&path.join("table.toml")) } else { Table::load(path) }
}

/// Prints a table as people read it, with what they must know before the numbers.
pub(super) fn print(table: &Table) {
    let engine = &table.engine;
    let runs = [&engine.name, &engine.model, &engine.quantisation].map(String::as_str);
    let runs: Vec<&str> = runs.into_iter().filter(|word| !word.is_empty()).collect();
    println!(
        "{} on {}, {}, energy: {}",
        table.run,
        text::device(&table.device),
        runs.join(" "),
        table.energy
    );
    print_entries(table, &table.entries.iter().collect::<Vec<_>>());
    println!("{}", rows::LEGEND);
}

fn print_entries(table: &Table, entries: &[&Entry]) {
    let warnings = rows::warnings(table.origin, Some(table.energy));
    warnings.iter().for_each(|warning| println!("{warning}"));
    println!("{}", text::table(rows::headings(table), entries.iter().map(|entry| rows::cells(table, entry))));
    entries.iter().filter_map(|entry| rows::note(entry)).for_each(|note| println!("{note}"));
}

fn lookup(table: &Table, stage: StageName, tokens: u32) -> Result<Exit, CliError> {
    let stage = match stage {
        StageName::Prefill => Stage::Prefill,
        StageName::Decode => Stage::Decode,
    };
    let found = table.lookup(stage, tokens).ok_or_else(|| {
        CliError::Usage(format!(
            "the table of {} has no entry for {stage}; sweep one with `settings.{stage}`",
            table.run
        ))
    })?;
    if let Some(note) = found.fit.note() {
        println!("note: {tokens} tokens are {note}");
    }
    print_entries(table, &[found.entry]);
    Ok(Exit::Done)
}

fn export(table: &Table, format: Format, output: Option<&Path>) -> Result<(), CliError> {
    let text = match format {
        Format::Toml => table.to_toml()?,
        Format::Csv => table.to_csv()?,
        Format::Json => table.to_json()?,
    };
    let Some(file) = output else {
        print!("{text}");
        return Ok(());
    };
    std::fs::write(file, text)
        .map_err(|error| CliError::Io { doing: format!("write {}", file.display()), error })
}
