/** Lines of a file for spreadsheets. */
function csvText(records) {
  return records.map((record) => record.map(csvField).join(",") + "\r\n").join("");
}

/** Text that a spreadsheet would take for a formula is marked as text. */
function csvField(value) {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const safe = /^\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/.test(value) ? `'${value}` : value;
  return /[",;\r\n\t']|^\s|\s$/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Hand over a file; the mark at its start tells spreadsheets that letters are in UTF-8. */
function download(name, text) {
  const link = element("a", { download: name, href: URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv" })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
