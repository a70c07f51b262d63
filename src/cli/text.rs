//! Tables for terminals.

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
