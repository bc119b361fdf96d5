//! Text tables.

/// Aligns the first column to the left, the others to the right.
pub fn format(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(|column| width(rows, column)).collect();
    rows.iter().map(|row| line(row, &widths)).collect()
}

fn width(rows: &[Vec<String>], column: usize) -> usize {
    rows.iter()
        .filter_map(|row| Some(row.get(column)?.chars().count()))
        .max()
        .unwrap_or(0)
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells = row
        .iter()
        .zip(widths)
        .enumerate()
        .map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("  {cell:>width$}"),
        });
    let text: String = cells.collect();
    format!("{}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["USER", "CPU"], ["alice", "9"]].map(|row| row.map(String::from).to_vec());
        assert_eq!(format(&rows), "USER   CPU\nalice    9\n");
    }
}
