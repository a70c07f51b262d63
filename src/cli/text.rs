//! Tables for terminals.

use crate::protocol::Fingerprint;
use comfy_table::{ContentArrangement, ContentLineStyle, LineStyle, Table, TableStyle};

/// Columns apart by blanks, a rule under the headings.
const PLAIN: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::new(' ', ' ', ' '))
    .header_separator(LineStyle::new('─', '─', '─', '─'))
    .content_lines(ContentLineStyle::new(' ', ' ', ' '));

/// A table under headings. On a pipe it is as wide as its content.
pub fn table<H: Into<String>>(
    headings: impl IntoIterator<Item = H>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Table {
    let mut table = Table::new();
    table
        .load_style(PLAIN)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(headings.into_iter().map(Into::<String>::into).collect::<Vec<_>>());
    for row in rows {
        table.add_row(row);
    }
    table
}

/// Prints a table under its title, or that there is nothing to list.
pub fn section(title: &str, headings: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let rows: Vec<_> = rows.collect();
    match rows.is_empty() {
        true => println!("\n{title}: none found"),
        false => println!("\n{title}\n{}", table(headings.iter().copied(), rows)),
    }
}

/// The name of a device for people; some machines have none.
pub fn device(device: &Fingerprint) -> &str {
    if device.model.is_empty() { "(a device without a model name)" } else { &device.model }
}
